/* The files that `data prepare` writes or keeps, and those of the cache. */
#include <fcntl.h>
#include <jansson.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/file.h"
#include "datasets/corpus.h"
#include "datasets/preparation.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

#define SAMPLE TOKENIZER_FIXTURES "sample.txt"

static enum status prepare(const char *input, const char *tokenizer, const char *path, struct err *err)
{
    struct corpus_summary summary;
    return corpus_prepare(&input, 1, tokenizer, NULL, NULL, path, NULL, &summary, err);
}

static void assert_kept(const char *path, const char *text)
{
    char *now = scratch_read(path, NULL);
    assert_string_equal(now, text);
    free(now);
}

TEST_CASE(only_what_a_preparation_wrote_is_replaced)
{
    static const char *const names[] = {"a.tok", "a.tok.json", "a.tokenizer.json"},
                             *const words[] = {
                                 "a.tok: exists already, without the ",
                                 "a.tok.json: exists already, and is not what a preparation writes",
                                 "a.tokenizer.json: exists already, without the ",
                             };
    const char *folder = scratch_path("kept"), *path = scratch_path("kept/a.tok");
    struct err err = {0};
    assert_ok(file_make_folders(folder, &err), &err);
    for (int i = 0; i < 3; i++) {
        char mine[4200];
        snprintf(mine, sizeof mine, "%s/%s", folder, names[i]);
        scratch_write(mine, "mine", 4);
        assert_int_equal(prepare(SAMPLE, "bytes", path, &err), STATUS_USAGE);
        if (!strstr(err.text, words[i])) fail_msg("%s", err.text);
        if (i != 1) assert_non_null(strstr(err.text, "a.tok.json that a preparation writes"));
        assert_kept(mine, "mine");
        assert_int_equal(unlink(mine), 0);
        assert_int_equal(scratch_entries(folder), 0);
    }
    assert_ok(prepare(SAMPLE, "bpe:270", path, &err), &err);
    assert_ok(prepare(SAMPLE, "bpe:280", path, &err), &err); /* its own files */
    assert_int_equal(scratch_entries(folder), 3);
    /* the tokenizer that it reads may be the one that it would write */
    const char *own = scratch_path("kept/a.tokenizer.json");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(scratch_path("kept/a.tok.json")), 0);
    assert_ok(prepare(SAMPLE, own, path, &err), &err);
    assert_int_equal(scratch_entries(folder), 3);
}

TEST_CASE(an_output_is_no_input)
{
    const char *text = scratch_path("in.tokenizer.json");
    struct tokenizer *tokenizer = NULL;
    struct err err = {0};
    scratch_write(text, "a text", 6);
    assert_int_equal(prepare(text, "bytes", scratch_path("in.tok"), &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "in.tokenizer.json: is also an input, "));
    const char *input = text;
    assert_int_equal(corpus_train_tokenizer(&input, 1, 300, NULL, NULL, text, NULL, &tokenizer, &err),
                     STATUS_USAGE);
    assert_non_null(strstr(err.text, "is also an input"));
    assert_int_equal(
        corpus_train_tokenizer(&input, 1, 300, NULL, NULL, scratch_path("t.txt"), NULL, &tokenizer, &err),
        STATUS_USAGE);
    assert_non_null(strstr(err.text, "the name of a tokenizer file ends with .json"));
    assert_int_equal(prepare(text, "bytes", scratch_path("folder/.tok"), &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "the name of a token file ends with .tok"));
    assert_null(tokenizer);
    assert_kept(text, "a text");
}

TEST_CASE(a_missing_text_is_named_wherever_it_stands)
{
    const char *const inputs[] = {scratch_path("absent.txt"), SAMPLE};
    struct corpus_summary summary;
    struct err err = {0};
    assert_int_equal(
        corpus_prepare(inputs, 2, "bytes", NULL, NULL, scratch_path("b.tok"), NULL, &summary, &err),
        STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "absent.txt: no such file"));
}

TEST_CASE(a_text_that_cannot_be_encoded_is_named)
{
    static const char *const threads[] = {"1", "2"};
    const char *tokenizer = scratch_path("runaway.json"), *text = scratch_path("runaway.txt");
    json_t *document = json_load_file(TOKENIZER_FIXTURES "ours.json", 0, NULL);
    char many[200];
    json_object_set_new(document, "pre_tokenizer",
                        json_pack("{s:s, s:[{s:s, s:{s:s}, s:s}, {s:s}]}", "type", "Sequence",
                                  "pretokenizers", "type", "Split", "pattern", "Regex", "(?:a+)+[bc]",
                                  "behavior", "Isolated", "type", "ByteLevel"));
    assert_int_equal(json_dump_file(document, tokenizer, 0), 0);
    json_decref(document);
    memset(many, 'a', sizeof many);
    scratch_write(text, many, sizeof many);
    for (int i = 0; i < 2; i++) {
        struct err err = {0};
        setenv("OMP_NUM_THREADS", threads[i], 1);
        assert_int_equal(prepare(text, tokenizer, scratch_path("runaway.tok"), &err), STATUS_FAILED);
        if (!strstr(err.text,
                    "/runaway.txt: the tokenizer's split pattern \"(?:a+)+[bc]\" failed on this text"))
            fail_msg("%s", err.text);
        unsetenv("OMP_NUM_THREADS");
    }
}

/* The sidecar names the tokenizer, and JSON is UTF-8. */
TEST_CASE(a_failure_at_the_end_leaves_no_tokenizer_behind)
{
    const char *folder = scratch_path("odd"), *path = scratch_path("odd/c.tok"),
               *tokenizer = scratch_path("na\xFFme.json");
    struct err err = {0};
    size_t n;
    char *json = scratch_read(TOKENIZER_FIXTURES "ours.json", &n);
    scratch_write(tokenizer, json, n);
    free(json);
    assert_ok(file_make_folders(folder, &err), &err);
    assert_int_equal(prepare(SAMPLE, tokenizer, path, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "the tokenizer's name is not UTF-8"));
    assert_int_equal(scratch_entries(folder), 0);
    assert_ok(prepare(SAMPLE, "bpe:270", path, &err), &err);
    assert_int_equal(prepare(SAMPLE, tokenizer, path, &err), STATUS_USAGE);
    assert_int_equal(scratch_entries(folder), 3); /* the old files */
}

static bool count_reports(void *context, const char *what, const char *unit, uint64_t done, uint64_t total)
{
    int *reports = context;
    (void)unit, (void)done, (void)total;
    *reports += strcmp(what, "encoding") == 0;
    return true;
}

TEST_CASE(many_short_lines_make_few_reports)
{
    enum { LINES = 10000 };
    static const char line[] = "{\"text\": \"a\"}\n";
    const char *path = scratch_path("short.jsonl");
    int reports = 0;
    struct progress progress = {.report = count_reports, .context = &reports};
    struct corpus_summary summary;
    struct err err = {0};
    char *text = malloc(LINES * (sizeof line - 1));
    for (size_t i = 0; i < LINES * (sizeof line - 1); i++) text[i] = line[i % (sizeof line - 1)];
    scratch_write(path, text, LINES * (sizeof line - 1));
    free(text);
    assert_ok(
        corpus_prepare(&path, 1, "bytes", NULL, NULL, scratch_path("short.tok"), &progress, &summary, &err),
        &err);
    assert_in_range(reports, 500, 2001);
}

/* ---- the cache ---- */

TEST_CASE(texts_that_end_with_a_token_are_another_entry)
{
    const char *cache = scratch_path("cache_ends"), *path = scratch_path("ends.txt");
    struct err err = {0};
    scratch_write(path, "one two", 7);
    for (int i = 0; i < 4; i++) {
        struct text_reading reading = {.ends = i % 2};
        struct corpus corpus;
        assert_ok(corpus_open(path, "bpe:270", &reading, cache, NULL, &corpus, &err), &err);
        int64_t last = token_file_id(&corpus.files[0], corpus.tokens - 1);
        assert_int_equal(last == tokenizer_end(corpus.tokenizer), i % 2);
        corpus_close(&corpus);
        assert_int_equal(scratch_entries(cache), i ? 2 : 1);
    }
}

/* Else everything would be prepared again after an update, and what is there would stay for nothing. */
TEST_CASE(the_names_of_entries_are_those_of_earlier_versions)
{
    static const struct text_reading ends = {.ends = true}, other = {.text_key = "body"};
    static const struct {
        const char *name, *text, *tokenizer;
        const struct text_reading *reading;
        const char *key;
    } cases[] = {
        {"key.txt", "one two", "bytes", NULL, "4d1883e6eeb285845cc504fb5f6dad0b"},
        {"key.txt", "one two", "bpe:260", NULL, "5b1d8a0ac64df9c13ce6e708020ac22b"},
        {"key.txt", "one two", "bpe:260", &ends, "902f236688f601e2890ec613769b5d63"},
        {"key.jsonl", "{\"text\": \"one\"}", "bytes", NULL, "3914fd6fc351e6da9cd8c8a5f2100a50"},
        {"key.jsonl", "{\"body\": \"one\"}", "bytes", &other, "4793fbdeae314ebef618038b0ace0f19"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = scratch_path(cases[i].name);
        struct corpus corpus;
        struct err err = {0};
        scratch_write(path, cases[i].text, strlen(cases[i].text));
        assert_ok(corpus_open(path, cases[i].tokenizer, cases[i].reading, scratch_path("cache_names"), NULL,
                              &corpus, &err),
                  &err);
        const char *entry = strrchr(corpus.files[0].path, '/') - 32;
        if (strncmp(entry, cases[i].key, 32) != 0) fail_msg("%zu: %.32s", i, entry);
        corpus_close(&corpus);
    }
}

#define KEY "0123456789abcdef0123456789abcdef"

TEST_CASE(names_in_the_cache_say_what_they_are)
{
    static const struct {
        const char *name;
        bool entry, unfinished;
    } cases[] = {
        {KEY, true, false},
        {KEY ".tmp-77", false, true},
        {KEY ".tmp", false, false},
        {KEY "0", false, false},
        {KEY "0.tmp-77", false, false},
        {"0123456789ABCDEF0123456789abcdef", false, false},
        {"0123456789abcdef", false, false},
        {"kjv.txt", false, false},
        {"kjv.txt.tmp-77", false, false},
        {"", false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (corpus_cache_is_entry(cases[i].name) != cases[i].entry ||
            corpus_cache_is_unfinished(cases[i].name) != cases[i].unfinished)
            fail_msg("%s", cases[i].name);
}

TEST_CASE(a_cache_is_locked_while_nobody_writes_to_it)
{
    const char *cache = scratch_path("cache_locked");
    struct err err = {0};
    assert_int_equal(corpus_cache_lock(cache), -1); /* there is none */
    assert_ok(file_make_folders(cache, &err), &err);
    int writer = open(cache, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(writer, LOCK_SH), 0);
    assert_int_equal(corpus_cache_lock(cache), -1);
    close(writer);
    int lock = corpus_cache_lock(cache);
    assert_true(lock >= 0);
    writer = open(cache, O_RDONLY | O_DIRECTORY);
    assert_int_not_equal(flock(writer, LOCK_SH | LOCK_NB), 0);
    close(writer);
    close(lock);
}

TEST_CASE(an_entry_is_removed_whole)
{
    const char *cache = scratch_path("cache_removed"), *entry = scratch_path("cache_removed/" KEY);
    struct err err = {0};
    assert_ok(file_make_folders(entry, &err), &err);
    scratch_write(scratch_path("cache_removed/" KEY "/corpus.tok"), "x", 1);
    assert_ok(corpus_cache_remove(entry, &err), &err);
    assert_int_equal(scratch_entries(cache), 0);
    assert_ok(corpus_cache_remove(entry, &err), &err); /* another process was faster */
    const char *file = scratch_path("cache_removed/file/" KEY);
    scratch_write(scratch_path("cache_removed/file"), "x", 1);
    assert_int_equal(corpus_cache_remove(file, &err), STATUS_IO);
    assert_non_null(strstr(err.text, "file/" KEY ": cannot be removed: "));
}

TEST_MAIN()
