/* Warnings about texts, given before they are read. */
#include <limits.h>

#include "core/base/file.h"
#include "datasets/corpus.h"
#include "datasets/inputs.h"
#include "datasets/preparation.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

struct heard {
    char warnings[3][3 * PATH_MAX], sentence[PATH_MAX];
    int count;
};

static void hear(void *context, bool warning, const char *sentence)
{
    struct heard *heard = context;
    if (!warning) snprintf(heard->sentence, sizeof heard->sentence, "%s", sentence);
    if (!warning) return;
    assert_in_range(heard->count, 0, 2);
    snprintf(heard->warnings[heard->count++], sizeof heard->warnings[0], "%s", sentence);
}

static const struct heard *note(const char *value)
{
    static struct heard heard;
    struct progress progress = {.context = &heard, .note = hear}, silent = {.context = &heard};
    struct inputs inputs;
    struct err err = {0};
    heard = (struct heard){0};
    assert_ok(inputs_open(value, NULL, NULL, &inputs, &err), &err);
    inputs_note(&inputs, NULL);
    inputs_note(&inputs, &silent);
    inputs_note(&inputs, &progress);
    inputs_close(&inputs);
    return &heard;
}

static const char *write_bytes(const char *name, const char *bytes, size_t n)
{
    const char *path = scratch_path(name);
    scratch_write(path, bytes, n);
    return path;
}

/* The file's name, a colon, and the words. */
static void expect_warning(const char *warning, const char *name, const char *words)
{
    char whole[400];
    snprintf(whole, sizeof whole, "/%s%s", name, words);
    if (!strstr(warning, whole)) fail_msg("not \"%s\": %s", whole, warning);
}

TEST_CASE(a_text_that_is_not_utf8_is_named_with_the_remedy)
{
#define BYTES(text) text, sizeof text - 1
    static const struct {
        const char *bytes;
        size_t n;
        const char *words; /* NULL: there is nothing to say */
    } cases[] = {
        {BYTES("plain text\n"), NULL},
        {BYTES("na\u00EFve \u65E5\u672C\n"), NULL},
        {BYTES(""), NULL},
        {BYTES("\xFF\xFE"), ": is UTF-16, and learned byte by byte (convert it: iconv -f UTF-16 -t UTF-8)"},
        {BYTES("\xFE\xFF\0a\0b"), ": is UTF-16, and learned byte by byte"},
        {BYTES("\x1F\x8B\x08 and so on"), ": is gzip, and learned byte by byte (add .gz to its name)"},
        {BYTES("\x28\xB5\x2F\xFD and so on"), ": is Zstandard, and learned byte by byte (add .zst"},
        {BYTES("text with a NUL \0 in it"), ": looks binary, not like text, and is learned byte by byte"},
        {BYTES("\xE9\xE8\xE7\xE0 eeee"), ": looks binary, not like text"}, /* more than 3 of 10 */
        {BYTES("d\xE9j\xE0 vu, mes amis"), ": is not all UTF-8, and other bytes are learned as they are (if "
                                           "it is Latin-1, convert it: iconv -f LATIN1 -t UTF-8)"},
        {BYTES("\xE9\xE8\xE7 eeeeeee"), ": is not all UTF-8"}, /* 3 of 10 */
        {BYTES("\xE9 eee"), ": is not all UTF-8"},             /* the fourth byte from the end counts */
        {BYTES("\xE9"
               "eee"),
         NULL},
        {BYTES("text \xF0\x9F\x98"), NULL}, /* the last character may be cut off where it is looked at */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct heard *heard = note(write_bytes("odd.txt", cases[i].bytes, cases[i].n));
        if (heard->count != (cases[i].words != NULL)) fail_msg("%zu: %s", i, heard->warnings[0]);
        if (cases[i].words) expect_warning(heard->warnings[0], "odd.txt", cases[i].words);
        assert_string_equal(heard->sentence, "");
    }
}

TEST_CASE(of_several_files_the_first_odd_one_is_named)
{
    char value[4 * PATH_MAX];
    const char *good = write_bytes("good.txt", BYTES("good")),
               *one = write_bytes("one.txt", BYTES("a\xFFkkkk")),
               *two = write_bytes("two.txt", BYTES("\xFF\xFE"));
    snprintf(value, sizeof value, "%s, %s", good, one);
    const struct heard *heard = note(value);
    assert_int_equal(heard->count, 1);
    assert_string_equal(heard->sentence, "reading 2 files, 10 B");
    expect_warning(heard->warnings[0], "one.txt", ": is not all UTF-8");
    assert_null(strstr(heard->warnings[0], " more of the "));
    snprintf(value, sizeof value, "%s, %s, %s", good, one, two);
    heard = note(value);
    assert_int_equal(heard->count, 1);
    assert_string_equal(heard->sentence, "reading 3 files, 12 B");
    expect_warning(heard->warnings[0], "one.txt", ": is not all UTF-8");
    assert_non_null(strstr(heard->warnings[0], "; 1 more of the 3 files are no UTF-8 either"));
}

TEST_CASE(binary_files_of_a_folder_are_reported_as_skipped)
{
    const char *folder = scratch_path("some");
    struct err err = {0};
    assert_ok(file_make_folders(folder, &err), &err);
    write_bytes("some/b.txt", BYTES("a text"));
    write_bytes("some/a.png", BYTES("\x89PNG\0\0"));
    const struct heard *heard = note(folder);
    assert_int_equal(heard->count, 1);
    expect_warning(heard->warnings[0], "some/a.png", ": skipped, it is a binary file");
    write_bytes("some/c.png", BYTES("\x89PNG\0\0"));
    write_bytes("some/d\n.png", BYTES("\x89PNG\0\0"));
    heard = note(folder);
    assert_int_equal(heard->count, 1);
    expect_warning(heard->warnings[0], "some/a.png", " and 2 more");
    assert_ptr_equal(strstr(heard->warnings[0], "skipped 3 binary files: "), heard->warnings[0]);
    /* a name cannot do anything on the terminal */
    assert_ok(file_remove_tree(scratch_path("some/a.png"), &err), &err);
    assert_ok(file_remove_tree(scratch_path("some/c.png"), &err), &err);
    heard = note(folder);
    assert_non_null(strstr(heard->warnings[0], ".png: skipped"));
    assert_null(strchr(heard->warnings[0], '\n'));
}

static bool go_on(void *context, const char *what, const char *unit, uint64_t done, uint64_t total)
{
    (void)context, (void)what, (void)unit, (void)done, (void)total;
    return true;
}

TEST_CASE(whoever_reads_texts_says_it)
{
    const char *text = write_bytes("said.txt", BYTES("d\xE9j\xE0 vu, mes amis")),
               *path = scratch_path("said.tok");
    struct heard heard = {0};
    struct progress progress = {.context = &heard, .report = go_on, .note = hear};
    struct corpus_summary summary;
    struct corpus corpus;
    struct tokenizer *tokenizer;
    struct err err = {0};
    assert_ok(corpus_prepare(&text, 1, "bytes", NULL, NULL, path, &progress, &summary, &err), &err);
    assert_int_equal(heard.count, 1);
    assert_ok(corpus_open(text, "bytes", NULL, scratch_path("cache_said"), &progress, &corpus, &err), &err);
    corpus_close(&corpus);
    assert_int_equal(heard.count, 2);
    assert_ok(corpus_train_tokenizer(&text, 1, 257, NULL, NULL, scratch_path("said.json"), &progress,
                                     &tokenizer, &err),
              &err);
    tokenizer_close(tokenizer);
    assert_int_equal(heard.count, 3);
    for (int i = 0; i < 3; i++) expect_warning(heard.warnings[i], "said.txt", ": is not all UTF-8");
}

TEST_MAIN()
