/* The allocator: the contract of every strategy, and the report when memory is full. */
#include "tests/cmocka.h"
#include "tests/core/memory/rationed.h"

enum { MIB = 1 << 20 };

/* Returns the text of the report; the caller frees it. */
struct report {
    char *text;
    size_t size;
    FILE *file;
};

static void report_open(struct report *r)
{
    r->file = open_memstream(&r->text, &r->size);
    assert_non_null(r->file);
}

static void report_has(struct report *r, const char *words)
{
    fflush(r->file);
    if (!strstr(r->text, words)) fail_msg("the report lacks \"%s\":\n%s", words, r->text);
}

static void report_close(struct report *r)
{
    fclose(r->file);
    free(r->text);
}

/* ---- caching ---- */

/* Memory in a scope of its own, so that it can be freed by itself. */
static enum status take(struct rationed *f, struct allocator_scope *scope, const char *tag, size_t bytes,
                        int stream, void **out)
{
    struct err err = {0};
    allocator_scope_begin(scope, f->allocator);
    return allocator_alloc(scope, tag, bytes, f->streams[stream], out, &err);
}

/* Freed neighbours are merged: after everything is freed, a trim returns all memory to the device. */
TEST_CASE(caching_merges_what_is_freed)
{
    struct rationed f;
    struct allocator_usage sum;
    struct allocator_scope pieces[64], all;
    void *memory;
    rationed_open(&f, ALLOCATOR_CACHING, (size_t)1 << 30, NULL);
    for (int i = 0; i < 64; i++)
        assert_int_equal(take(&f, &pieces[i], "piece", 60000, 0, &memory), STATUS_OK);
    allocator_sum(f.allocator, &sum);
    int64_t reserved = sum.reserved;
    assert_int_equal(reserved, 4 * MIB); /* one segment, split */
    for (int odd = 0; odd < 2; odd++)
        for (int i = odd; i < 64; i += 2) allocator_scope_end(&pieces[i]);
    assert_int_equal(take(&f, &all, "all", 64 * 60000, 0, &memory), STATUS_OK); /* not of the small ones */
    assert_int_equal(allocator_trim(f.allocator), reserved);
    allocator_scope_end(&all);
    assert_int_equal(rationed_close(&f), 0);
}

TEST_CASE(caching_asks_the_device_once)
{
    struct rationed f;
    struct allocator_scope scope;
    void *memory;
    rationed_open(&f, ALLOCATOR_CACHING, (size_t)1 << 30, NULL);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(take(&f, &scope, "again", 20 * MIB, 0, &memory), STATUS_OK);
        allocator_scope_end(&scope);
    }
    assert_int_equal(rationed_now().calls, 1);
    assert_int_equal(rationed_close(&f), 0);
}

/* 60 MiB are idle in the cache of one stream when the other asks for as much of 100. */
TEST_CASE(caching_trims_when_the_device_is_full)
{
    struct rationed f;
    struct allocator_scope scope;
    void *memory;
    rationed_open(&f, ALLOCATOR_CACHING, 100 * MIB, NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(take(&f, &scope, "large", 60 * MIB, i, &memory), STATUS_OK);
        allocator_scope_end(&scope);
    }
    assert_true(rationed_now().peak <= 100 * MIB);
    assert_int_equal(rationed_close(&f), 0);
}

/* Memory of one stream is not given to another, which would not wait for it. */
TEST_CASE(streams_do_not_share_memory)
{
    struct rationed f;
    struct allocator_scope scope;
    void *first, *second, *third;
    rationed_open(&f, ALLOCATOR_CACHING, (size_t)1 << 30, NULL);
    assert_int_equal(take(&f, &scope, "a", 4096, 0, &first), STATUS_OK);
    allocator_scope_end(&scope);
    assert_int_equal(take(&f, &scope, "b", 4096, 1, &second), STATUS_OK);
    assert_ptr_not_equal(first, second);
    allocator_scope_end(&scope);
    assert_int_equal(take(&f, &scope, "c", 4096, 0, &third), STATUS_OK);
    assert_ptr_equal(first, third);
    allocator_scope_end(&scope);
    assert_int_equal(rationed_close(&f), 0);
}

/* ---- scopes, errors, leaks ---- */

TEST_CASE(a_scope_frees_what_it_holds)
{
    for (int kind = 0; kind < ALLOCATOR_KINDS; kind++) {
        struct rationed f;
        struct allocator_scope outer, inner;
        struct allocator_usage sum;
        struct err err = {0};
        float *numbers;
        void *memory, *host, *elements;
        rationed_open(&f, (enum allocator_kind)kind, 64 * MIB, NULL);
        allocator_scope_begin(&outer, f.allocator);
        assert_int_equal(allocator_alloc(&outer, "numbers", 4000, f.streams[0], &memory, &err), STATUS_OK);
        numbers = memory;
        allocator_scope_begin(&inner, f.allocator);
        assert_int_equal(allocator_alloc_host(&inner, "staging", 5000, &host, &err), STATUS_OK);
        assert_int_equal(allocator_alloc(&inner, "half", 62, f.streams[0], &elements, &err), STATUS_OK);
        numbers[999] = 1;
        memset(host, 1, 5000);
        memset(elements, 1, 62);
        allocator_sum(f.allocator, &sum);
        assert_int_equal(sum.live, 4000 + 5000 + 62);
        allocator_scope_end(&inner);
        allocator_scope_end(&inner);
        allocator_sum(f.allocator, &sum);
        assert_int_equal(sum.live, 4000);
        assert_int_equal(sum.peak, 4000 + 5000 + 62);
        allocator_scope_end(&outer);
        allocator_sum(f.allocator, &sum);
        assert_int_equal(sum.live, 0);
        assert_int_equal(rationed_close(&f), 0);
    }
}

TEST_CASE(a_full_device_names_the_tag_and_who_holds_what)
{
    static const enum allocator_kind kinds[] = {ALLOCATOR_BASIC, ALLOCATOR_ARENA, ALLOCATOR_CACHING};
    for (int k = 0; k < 3; k++) {
        struct rationed f;
        struct report report;
        struct err err = {0};
        void *memory;
        report_open(&report);
        rationed_open(&f, kinds[k], 64 * MIB, report.file);
        struct allocator_scope *root = allocator_root(f.allocator);
        assert_int_equal(allocator_alloc(root, "weights", 40 * MIB, f.streams[0], &memory, &err), STATUS_OK);
        assert_int_equal(allocator_alloc(root, "logits", 30 * MIB, f.streams[0], &memory, &err),
                         STATUS_NO_MEMORY);
        assert_non_null(strstr(err.text, "logits: no room for 30.0 MiB (in use: weights 40.0 MiB; "));
        assert_int_equal(rationed_close(&f), 1);
        report_has(&report, "never freed: weights, 1 block of 40.0 MiB together");
        report_close(&report);
    }
}

/* The lines that a listener has received. */
static void hear(void *context, const char *line)
{
    char *heard = context;
    assert_true(strlen(heard) + strlen(line) + 2 <= 4096);
    strcat(strcat(heard, line), "\n");
}

/* More tags than the sentence has room for, each in its line of the table. */
TEST_CASE(a_full_device_reports_the_whole_table)
{
    struct rationed f;
    struct allocator *allocator;
    struct err err = {0};
    char heard[4096] = "", tag[32], line[64];
    void *memory;
    rationed_open(&f, ALLOCATOR_BASIC, 64 * MIB, NULL);
    struct allocator_options options = {
        .kind = ALLOCATOR_BASIC, .backend = &f.backend, .device = f.device, .full = {hear, heard}};
    assert_int_equal(allocator_open(&options, &allocator, &err), STATUS_OK);
    for (int i = 0; i < 20; i++) {
        snprintf(tag, sizeof tag, "a part with number %d", i);
        assert_int_equal(allocator_alloc(allocator_root(allocator), tag, MIB, NULL, &memory, &err),
                         STATUS_OK);
    }
    assert_string_equal(heard, "");
    assert_int_equal(allocator_alloc(allocator_root(allocator), "logits", 60 * MIB, NULL, &memory, &err),
                     STATUS_NO_MEMORY);
    assert_null(strchr(err.text, '\n'));
    assert_null(strstr(err.text, "number 19"));
    for (int i = 0; i < 20; i++) {
        snprintf(line, sizeof line, "\n  a part with number %-13d %12s", i, "1.0 MiB");
        if (!strstr(heard, line)) fail_msg("no \"%s\" in:\n%s", line, heard);
    }
    snprintf(line, sizeof line, "\n  %-32s %12s", "all", "20.0 MiB");
    assert_non_null(strstr(heard, line));
    assert_int_equal(allocator_close(allocator), 20);
    rationed_close(&f);
}

TEST_CASE(sizes_that_overflow_are_refused_with_their_tag)
{
    struct rationed f;
    struct err err = {0};
    void *memory = NULL;
    rationed_open(&f, ALLOCATOR_BASIC, 64 * MIB, NULL);
    struct allocator_scope *root = allocator_root(f.allocator);
    static const size_t bytes[] = {(size_t)PTRDIFF_MAX + 1, SIZE_MAX - 255, SIZE_MAX};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(allocator_alloc(root, "scratch", bytes[i], NULL, &memory, &err), STATUS_NO_MEMORY);
        assert_non_null(strstr(err.text, "scratch: a size of"));
        assert_int_equal(allocator_alloc_host(root, "staging", bytes[i], &memory, &err), STATUS_NO_MEMORY);
        assert_non_null(strstr(err.text, "staging: a size of"));
    }
    assert_null(memory);
    assert_int_equal(rationed_now().calls, 0);
    assert_int_equal(rationed_close(&f), 0);
}

TEST_MAIN()
