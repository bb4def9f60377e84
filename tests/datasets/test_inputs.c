/* Values of data.train: lists, patterns and folders of token files, and the corpus they make together. */
#include <inttypes.h>
#include <limits.h>
#include <unistd.h>

#include "core/base/file.h"
#include "datasets/batch.h"
#include "datasets/corpus.h"
#include "datasets/inputs.h"
#include "datasets/preparation.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

#define SAMPLE TOKENIZER_FIXTURES "sample.txt"

static const uint32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

/* A folder shards/ with b.bin (12 tokens), a.tok (7), deep/c.bin (5); returns its path. */
static const char *shards(void)
{
    const char *folder = scratch_path("shards");
    struct err err = {0};
    assert_ok(file_make_folders(scratch_path("shards/deep"), &err), &err);
    scratch_shard(scratch_path("shards/b.bin"), SHARD_16, 1, 12, ids, 12);
    scratch_tok(scratch_path("shards/a.tok"), ids, 7);
    scratch_shard(scratch_path("shards/deep/c.bin"), SHARD_32, 7, 5, ids + 3, 5);
    return folder;
}

/* The names' last parts, and whether they are token files: "a.tok b.bin" or "texts: kjv". */
static char *listed(const char *value)
{
    static char text[1024];
    struct inputs words;
    struct err err = {0};
    assert_ok(inputs_open(value, NULL, NULL, &words, &err), &err);
    int used = sprintf(text, "%s", words.tokens ? "" : "texts:");
    for (size_t i = 0; i < words.count; i++) {
        const char *slash = strrchr(words.paths[i], '/');
        used += sprintf(text + used, "%s%s", used ? " " : "", slash ? slash + 1 : words.paths[i]);
    }
    inputs_close(&words);
    return text;
}

static const char *value_of(const char *format, const char *folder)
{
    static char value[8][3 * PATH_MAX];
    static int next;
    char *to = value[next++ % 8];
    snprintf(to, sizeof value[0], format, folder, folder, folder);
    return to;
}

TEST_CASE(words_mean_what_they_look_like)
{
    const char *folder = shards();
    struct err err = {0};
    assert_string_equal(listed(value_of("%s/b.bin", folder)), "b.bin");
    assert_string_equal(listed(folder), "a.tok b.bin c.bin"); /* sorted, at any depth */
    assert_string_equal(listed(value_of("%s/deep/*", folder)), "c.bin");
    assert_string_equal(listed(value_of("%s/?.*", folder)), "a.tok b.bin");
    assert_string_equal(listed(value_of("%s/[b-z].bin", folder)), "b.bin");
    assert_string_equal(listed(value_of(" %s/b.bin ,\t%s/a.tok", folder)),
                        "b.bin a.tok"); /* in the order named */
    assert_string_equal(listed(value_of("%s/a.tok,%s/*.bin", folder)), "a.tok b.bin");
    assert_string_equal(listed(value_of("%s/deep,%s/a.tok", folder)), "c.bin a.tok");
    assert_string_equal(listed("nowhere.tok"), "nowhere.tok"); /* who opens it will say so */
    assert_string_equal(listed("kjv"), "texts: kjv");
    assert_string_equal(listed(SAMPLE), "texts: sample.txt");
    assert_string_equal(listed("kjv, " SAMPLE), "texts: kjv sample.txt");
    /* sidecars and tokenizers of token files are not texts, and names come before patterns */
    scratch_write(scratch_path("shards/a.tok.json"), "{}", 2);
    assert_string_equal(listed(folder), "a.tok b.bin c.bin");
    assert_int_equal(unlink(scratch_path("shards/a.tok.json")), 0);
    const char *odd = scratch_path("odd,[1].tok");
    scratch_tok(odd, ids, 3);
    assert_string_equal(listed(odd), "odd,[1].tok");
    assert_ok(file_remove_tree(odd, &err), &err);
}

static void assert_refused(const char *value, enum status wanted, const char *words)
{
    struct inputs out = {.count = 99};
    struct err err = {0};
    enum status status = inputs_open(value, NULL, NULL, &out, &err);
    if (status != wanted || !strstr(err.text, words))
        fail_msg("%s: status %d, not %d, or not \"%s\": %s", value, status, wanted, words, err.text);
    assert_int_equal(out.count, 99); /* untouched */
}

TEST_CASE(links_of_a_folder_count_where_they_lead_to_a_file)
{
    struct err err = {0};
    const char *folder = scratch_path("linked");
    assert_ok(file_make_folders(scratch_path("linked/sub"), &err), &err);
    scratch_write(scratch_path("linked/b.txt"), "x", 1);
    scratch_write(scratch_path("elsewhere.txt"), "x", 1);
    assert_int_equal(symlink("../elsewhere.txt", scratch_path("linked/a.txt")), 0);
    assert_int_equal(symlink("sub", scratch_path("linked/c.txt")), 0); /* a folder: never followed */
    assert_int_equal(symlink("absent", scratch_path("linked/ab.txt")),
                     0); /* broken, behind one that is not */
    assert_string_equal(listed(folder), "texts: a.txt b.txt");
    assert_int_equal(symlink("b.txt", scratch_path("linked/e.txt")), 0);
    assert_true(inputs_repeat(folder, &err));
    assert_non_null(strstr(err.text, "e.txt: is listed twice in the data files, also as"));
    assert_ok(file_remove_tree(folder, &err), &err);
}

/* A form checks the path while it is typed, first "/": no folder is searched and no file opened. */
TEST_CASE(peeking_looks_at_names_alone)
{
    struct inputs inputs = {0};
    const char *folder = shards();
    assert_int_equal(inputs_peek(folder, &inputs, NULL), STATUS_OK); /* a.tok b.bin, and not deep/c.bin */
    assert_true(inputs.tokens);
    assert_int_equal(inputs.count, 2);
    inputs_close(&inputs);
    assert_int_equal(inputs_peek("kjv, " SAMPLE, &inputs, NULL), STATUS_OK);
    assert_false(inputs.tokens);
    assert_int_equal(inputs.count, 2);
    inputs_close(&inputs);
    if (inputs_peek("/", &inputs, NULL) == STATUS_OK) inputs_close(&inputs); /* at once */
    assert_int_equal(inputs_peek("/nowhere/at/all", &inputs, NULL), STATUS_NOT_FOUND);
}

static void hear(void *context, bool warning, const char *sentence)
{
    if (warning) snprintf(context, 2 * PATH_MAX, "%s", sentence);
}

TEST_CASE(links_that_lead_to_no_file_are_reported)
{
    static char warning[2 * PATH_MAX];
    struct progress progress = {.context = warning, .note = hear};
    struct inputs inputs;
    struct err err = {0};
    const char *folder = scratch_path("lost");
    assert_ok(file_make_folders(scratch_path("lost/sub"), &err), &err);
    assert_int_equal(symlink("absent", scratch_path("lost/a.txt")), 0);
    assert_refused(folder, STATUS_FAILED, "lost/a.txt is a link that leads to no file");
    scratch_write(scratch_path("lost/b.txt"), "x", 1);
    assert_ok(inputs_open(folder, NULL, NULL, &inputs, &err), &err);
    inputs_note(&inputs, &progress);
    assert_non_null(strstr(warning, "left out the link "));
    assert_non_null(strstr(warning, "lost/a.txt, which leads to no file"));
    inputs_close(&inputs);
    assert_int_equal(symlink("sub", scratch_path("lost/c.txt")), 0); /* a folder */
    assert_ok(inputs_open(folder, NULL, NULL, &inputs, &err), &err);
    inputs_note(&inputs, &progress);
    assert_non_null(strstr(warning, "lost/a.txt and 1 more, which lead to no file"));
    inputs_close(&inputs);
    assert_ok(file_remove_tree(folder, &err), &err);
}

TEST_CASE(what_cannot_be_meant_is_refused)
{
    struct err err;
    const char *folder = shards(), *note = scratch_path("shards/deep/notes.txt");
    static char name[PATH_MAX + 20];
    memset(name, 'x', sizeof name - 1);
    assert_refused(value_of("%s/*.npy", folder), STATUS_NOT_FOUND, "no file matches this pattern");
    assert_refused(value_of("%s/a.tok,%s/none*.tok", folder), STATUS_NOT_FOUND, "none*.tok: no file matches");
    assert_refused("a.tok,,b.tok", STATUS_USAGE, "empty (a comma too many?)");
    assert_refused("a.tok, ", STATUS_USAGE, "empty (a comma too many?)");
    assert_refused(name, STATUS_IO, "File name too long");
    assert_refused(value_of("%s/a.tok," SAMPLE, folder), STATUS_USAGE, "is a token file and");
    assert_refused(value_of("%s/b.bin,kjv", folder), STATUS_USAGE, "is a token file and kjv is not");
    assert_refused(value_of("%s/a.tok,%s/../shards/a.tok", folder), STATUS_USAGE, "is listed twice");
    assert_refused(value_of("%s/*.tok,%s", folder), STATUS_USAGE, "is listed twice");
    assert_true(inputs_repeat(SAMPLE "," SAMPLE, &err));
    assert_false(inputs_repeat(SAMPLE ",kjv", &err));
    scratch_write(note, "hello", 5);
    assert_refused(folder, STATUS_USAGE, "deep/notes.txt): name the files to train on");
    assert_int_equal(unlink(note), 0);
}

TEST_CASE(a_folder_or_pattern_of_binary_files_alone_is_refused)
{
    const char *folder = scratch_path("images");
    struct err err = {0};
    assert_ok(file_make_folders(folder, &err), &err);
    scratch_write(scratch_path("images/a.png"), "\x89PNG\0", 5);
    assert_refused(folder, STATUS_FAILED, "images: 1 file, and none of them is text: each has a NUL byte");
    scratch_write(scratch_path("images/b.png"), "\x89PNG\0", 5);
    assert_refused(folder, STATUS_FAILED, "images: 2 files, and none of them is text");
    assert_refused(value_of("%s/*.png", folder), STATUS_FAILED, "images/*.png: 2 files, and none");
    /* in a list with a text, too */
    assert_refused(value_of(SAMPLE ", %s/a*", folder), STATUS_FAILED, "images/a*: 1 file, and none");
    char *zeros = calloc(1, 8001); /* a NUL byte behind the first 8000 is not looked at */
    memset(zeros, 'a', 8000);
    scratch_write(scratch_path("images/c.log"), zeros, 8001);
    assert_string_equal(listed(folder), "texts: c.log");
    zeros[7999] = 0;
    scratch_write(scratch_path("images/c.log"), zeros, 8001);
    assert_refused(folder, STATUS_FAILED, "images: 3 files, and none of them is text");
    free(zeros);
    assert_ok(file_remove_tree(folder, &err), &err);
}

/* A text that an older version made has no checksum, and is taken as it is. */
TEST_CASE(a_recipe_is_the_text_in_the_cache)
{
    const char *cache = scratch_path("recipes");
    struct inputs inputs;
    struct err err = {0};
    assert_ok(file_make_folders(cache, &err), &err);
    scratch_write(scratch_path("recipes/kjv.txt"), "In the beginning", 16);
    assert_ok(inputs_open("kjv, " SAMPLE, cache, NULL, &inputs, &err), &err);
    assert_int_equal(inputs.count, 2);
    assert_string_equal(inputs.paths[0], scratch_path("recipes/kjv.txt"));
    inputs_close(&inputs);
    struct inputs none = {0};
    assert_int_equal(inputs_open("nothing", cache, NULL, &none, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "nothing: no such file, folder or recipe ("));
    assert_null(strstr(err.text, "weight"));
    assert_int_equal(inputs_open("nothing : x", cache, NULL, &none, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "lists the recipes; the weight of a source is a number"));
    assert_int_equal(inputs_open("nothing : x", NULL, NULL, &none, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "no such file or folder (the weight of a source is a number"));
}

/* Firmware, the weights of a program: many kinds of files have names in .bin. */
TEST_CASE(among_texts_a_binary_bin_without_a_header_is_skipped)
{
    struct inputs inputs;
    struct err err = {0};
    const char *folder = scratch_path("mixed"), *firmware = scratch_path("mixed/firmware.bin");
    assert_ok(file_make_folders(folder, &err), &err);
    scratch_write(firmware, "\x7f\0\0\0and more\0", 13);
    /* without a text it counts as a token file, and opening it reports the header */
    assert_string_equal(listed(folder), "firmware.bin");
    scratch_write(scratch_path("mixed/config.json"), "{}", 2);
    assert_string_equal(listed(folder), "firmware.bin");
    scratch_write(scratch_path("mixed/tiny.bin"), "\0", 1);
    scratch_write(scratch_path("mixed/book.txt"), "hello", 5);
    assert_string_equal(listed(folder), "texts: book.txt config.json");
    assert_string_equal(listed(value_of("%s/*", folder)), "texts: book.txt config.json");
    assert_ok(inputs_open(folder, NULL, NULL, &inputs, &err), &err);
    assert_int_equal(inputs.skipped, 2);
    assert_string_equal(inputs.first_skipped, firmware);
    inputs_close(&inputs);
    scratch_write(scratch_path("mixed/plain.bin"), "hello", 5); /* not binary, so not skipped silently */
    assert_refused(folder, STATUS_USAGE, "plain.bin) and others");
    assert_int_equal(unlink(scratch_path("mixed/plain.bin")), 0);
    /* a header says that it is meant, in each format */
    scratch_tok(scratch_path("mixed/renamed.bin"), ids, 7);
    assert_refused(folder, STATUS_USAGE, "renamed.bin) and others");
    scratch_shard(scratch_path("mixed/renamed.bin"), SHARD_16, 1, 12, ids, 3); /* a damaged one, too */
    assert_refused(folder, STATUS_USAGE, "renamed.bin) and others");
    assert_refused(value_of("%s/*", folder), STATUS_USAGE, "renamed.bin is a token file and");
    assert_ok(file_remove_tree(folder, &err), &err);
}

TEST_CASE(a_list_means_the_same_from_any_folder)
{
    char here[PATH_MAX], wanted[4 * PATH_MAX], value[4 * PATH_MAX] = "a.tok, deep/*.bin,/x.tok,none,kjv";
    const char *folder = shards();
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    char small[40] = "a.tok,b.bin";
    assert_true(inputs_make_absolute(value, sizeof value));
    assert_false(inputs_make_absolute(small, 20)); /* no room */
    char recipe[100] = "kjv", missing[100] = "not,there", one[PATH_MAX] = "a.tok", whole[PATH_MAX + 100];
    snprintf(whole, sizeof whole, "%s/b.bin", folder);
    assert_false(inputs_make_absolute(recipe, 3)); /* and the NUL */
    assert_true(inputs_make_absolute(recipe, 4));
    assert_true(inputs_make_absolute(whole, sizeof whole));
    assert_true(inputs_make_absolute(recipe, sizeof recipe));
    assert_true(inputs_make_absolute(missing, sizeof missing));
    assert_true(inputs_make_absolute(one, sizeof one));
    assert_int_equal(chdir(here), 0);
    snprintf(wanted, sizeof wanted, "%s/a.tok,%s/deep/*.bin,/x.tok,none,kjv", folder, folder);
    assert_string_equal(value, wanted);
    assert_string_equal(small, "a.tok,b.bin");
    assert_string_equal(recipe, "kjv");
    assert_string_equal(whole, value_of("%s/b.bin", folder));
    assert_string_equal(missing, "not,there");
    assert_string_equal(one, value_of("%s/a.tok", folder));
}

/* ---- the corpus ---- */

static void open_corpus(const char *value, const char *tokenizer, struct corpus *out)
{
    struct err err = {0};
    assert_ok(corpus_open(value, tokenizer, NULL, scratch_path("cache"), NULL, out, &err), &err);
}

TEST_CASE(several_files_are_one_corpus)
{
    struct corpus corpus;
    struct corpus_place place;
    struct split train, validation;
    struct err err = {0};
    open_corpus(shards(), "bpe:2048", &corpus);
    assert_int_equal(corpus.tokens, 24);
    assert_int_equal(corpus.vocab_size, 13); /* the largest id of all + 1 */
    const struct token_file *runs = corpus.files;
    assert_int_equal(corpus.file_count, 3);
    assert_int_equal(runs[0].count, 7);
    assert_int_equal(token_file_id(&runs[1], 11), 12);
    assert_false(corpus_find_id(&corpus, 13, &place));
    assert_true(corpus_find_id(&corpus, 8, &place));
    assert_string_equal(strrchr(place.path, '/'), "/b.bin");
    assert_int_equal(place.index, 7);
    assert_int_equal(place.id, 8);
    assert_ok(split_corpus(&corpus, &(struct split_rule){VAL_TAIL, 0, 3, 1, SHUFFLE_NONE}, &train,
                           &validation, &err),
              &err);
    assert_int_equal(train.sequences, 2 + 3 + 1);
    split_release(&train);
    split_release(&validation);
    corpus_close(&corpus);
}

TEST_CASE(a_single_shard_is_a_corpus_too)
{
    struct corpus corpus;
    open_corpus(value_of("%s/b.bin", shards()), "bytes",
                &corpus); /* the tokenizer that the user knows it has */
    assert_int_equal(corpus.tokens, 12);
    assert_int_equal(corpus.vocab_size, 256);
    assert_non_null(corpus.tokenizer);
    assert_string_equal(corpus.tokenizer_word, "bytes");
    assert_non_null(corpus.files[0].narrow);
    assert_int_equal(corpus.file_count, 1);
    corpus_close(&corpus);
}

TEST_CASE(files_of_one_tokenizer_are_mixed_and_of_two_are_not)
{
    const char *one = scratch_path("one.tok"), *two = scratch_path("two.tok"), *cache = scratch_path("cache"),
               *input = SAMPLE, *last = scratch_path("zz.tok");
    struct corpus_summary summary;
    struct corpus corpus = {0};
    struct err err = {0};
    char value[3 * PATH_MAX];
    snprintf(value, sizeof value, "%s,%s,%s", last, one, two);
    scratch_tok(last, ids, 12); /* without a sidecar: taken on trust */
    assert_ok(corpus_prepare(&input, 1, "bpe:300", NULL, cache, one, NULL, &summary, &err), &err);
    assert_ok(corpus_prepare(&input, 1, summary.tokenizer_path, NULL, cache, two, NULL, &summary, &err),
              &err);
    open_corpus(value, "bpe:2048", &corpus);
    assert_int_equal(corpus.tokens, 2 * summary.tokens + 12);
    assert_int_equal(corpus.vocab_size, 300);
    assert_int_equal(tokenizer_vocab_size(corpus.tokenizer), 300);
    assert_string_equal(corpus.files[0].path, last);
    corpus_close(&corpus);
    assert_ok(corpus_prepare(&input, 1, "bpe:301", NULL, cache, two, NULL, &summary, &err), &err);
    assert_int_equal(corpus_open(value, "bpe:2048", NULL, cache, NULL, &corpus, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "two.tok: was prepared with another tokenizer (bpe:301) than"));
    scratch_tok(last, (uint32_t[]){1, 300}, 2);
    assert_ok(corpus_prepare(&input, 1, "bpe:300", NULL, cache, two, NULL, &summary, &err), &err);
    assert_int_equal(corpus_open(value, "bpe:2048", NULL, cache, NULL, &corpus, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.text, "zz.tok: token 1 has the id 300, but the vocabulary has 300"));
}

TEST_CASE(a_damaged_file_among_good_ones_is_named)
{
    const char *folder = shards();
    struct corpus corpus = {0};
    struct err err = {0};
    scratch_shard(scratch_path("shards/deep/c.bin"), SHARD_32, 7, 6, ids, 5);
    assert_int_equal(corpus_open(folder, "bpe:2048", NULL, "", NULL, &corpus, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.text, "deep/c.bin: is truncated"));
    assert_null(corpus.files);
}

TEST_CASE(several_texts_are_read_as_one)
{
    const char *a = scratch_path("a.txt"), *b = scratch_path("b.txt");
    struct corpus corpus;
    scratch_write(a, "hello ", 6);
    scratch_write(b, "world", 5);
    char value[2 * PATH_MAX];
    snprintf(value, sizeof value, "%s,%s", b, a);
    open_corpus(value, "bytes", &corpus);
    assert_int_equal(corpus.tokens, 11);
    for (int i = 0; i < 11; i++) assert_int_equal(corpus.files[0].tokens[i], "worldhello "[i]);
    corpus_close(&corpus);
}

TEST_CASE(the_mark_is_of_all_files)
{
    const char *folder = shards();
    static const char *const changed[] = {"shards/a.tok", "shards/b.bin", "shards/deep/c.bin"};
    struct corpus corpus;
    struct err err = {0};
    open_corpus(folder, "bpe:2048", &corpus);
    struct corpus_mark mark = corpus_mark_of(&corpus), now;
    now = corpus_mark_of(&corpus);
    assert_ok(corpus_mark_check(&mark, &now, &err), &err);
    assert_int_equal(mark.tokens, 24);
    corpus_close(&corpus);
    for (int i = 0; i < 3; i++) {
        size_t n;
        char *bytes = scratch_read(scratch_path(changed[i]), &n);
        bytes[n - (i == 1 ? 2 : 4)] ^= 1; /* the low byte of the last id */
        scratch_write(scratch_path(changed[i]), bytes, n);
        open_corpus(folder, "bpe:2048", &corpus);
        now = corpus_mark_of(&corpus);
        assert_int_equal(corpus_mark_check(&mark, &now, &err), STATUS_USAGE);
        assert_non_null(strstr(err.text, "the same number of tokens, but different ones"));
        corpus_close(&corpus);
        bytes[n - (i == 1 ? 2 : 4)] ^= 1;
        scratch_write(scratch_path(changed[i]), bytes, n);
        free(bytes);
    }
    /* the same tokens in another order of files, and cut elsewhere, are another corpus */
    open_corpus(value_of("%s/b.bin,%s/a.tok,%s/deep/c.bin", folder), "bpe:2048", &corpus);
    now = corpus_mark_of(&corpus);
    assert_int_equal(corpus_mark_check(&mark, &now, &err), STATUS_USAGE);
    corpus_close(&corpus);
    scratch_tok(scratch_path("cut_1.tok"), ids, 6);
    scratch_tok(scratch_path("cut_2.tok"), ids + 6, 6);
    scratch_tok(scratch_path("cut_3.tok"), ids, 5);
    scratch_tok(scratch_path("cut_4.tok"), ids + 5, 7);
    char value[2][2 * PATH_MAX];
    struct corpus_mark marks[2];
    for (int i = 0; i < 2; i++) {
        snprintf(value[i], sizeof value[i], "%s,%s", scratch_path(i ? "cut_3.tok" : "cut_1.tok"),
                 scratch_path(i ? "cut_4.tok" : "cut_2.tok"));
        open_corpus(value[i], "bpe:2048", &corpus);
        marks[i] = corpus_mark_of(&corpus);
        corpus_close(&corpus);
    }
    assert_int_equal(corpus_mark_check(&marks[0], &marks[1], &err), STATUS_USAGE);
}

/* Runs store it: one from an earlier version would otherwise not resume. Of large files 64 KiB are read in
 * several places. Here the first of several files has all the tokens. */
TEST_CASE(the_mark_is_the_same_in_every_version)
{
    static const struct {
        size_t files, tokens;
        uint64_t checksum;
    } cases[] = {
        {1, 0, 0xef46db3751d8e999},        {1, 1000, 0x81c0c02ea1332f17},
        {128, 32768, 0x52108192a9a7423e},  {128, 32770, 0x6e73fef5d72156cc},
        {1024, 16384, 0x14a43914dcd2e892}, {1024, 65536, 0x3b3a6348036f5c87},
    };
    struct token_file *files = calloc(1024, sizeof *files);
    uint32_t *tokens = malloc(65536 * sizeof *tokens);
    uint64_t noise = 5;
    assert_true(files && tokens);
    for (size_t i = 0; i < 65536; i++) tokens[i] = (uint32_t)noise_next(&noise) % 50000;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct corpus corpus = {.files = files, .file_count = cases[i].files, .tokens = cases[i].tokens};
        files[0].count = cases[i].tokens;
        files[0].tokens = tokens;
        uint64_t mark = corpus_mark_of(&corpus).checksum;
        if (mark != cases[i].checksum) fail_msg("%zu tokens: 0x%" PRIx64, cases[i].tokens, mark);
        for (size_t at = 0; at < cases[i].tokens; at += cases[i].tokens - 1) { /* the ends are always read */
            tokens[at] ^= 1;
            assert_true(corpus_mark_of(&corpus).checksum != mark);
            tokens[at] ^= 1;
        }
    }
    struct token_file runs = {.tokens = tokens + 1000, .count = 40000}; /* of conversations */
    struct corpus corpus = {.files = files, .file_count = 1, .tokens = 1000, .runs = &runs};
    files[0].count = 1000;
    uint64_t mark = corpus_mark_of(&corpus).checksum;
    if (mark != 0xf6e928a906fa7371) fail_msg("with runs: 0x%" PRIx64, mark);
    free(files);
    free(tokens);
}

/* ---- validation data of its own ---- */

TEST_CASE(validation_text_speaks_the_tokenizer_of_training)
{
    const char *cache = scratch_path("cache"), *text = scratch_path("val.txt");
    struct corpus corpus;
    struct err err = {0};
    static const char *const words[] = {"bytes", "bpe:300", TOKENIZER_FIXTURES "ours.json"};
    scratch_write(text, "In the beginning God created the heaven", 39);
    for (int i = 0; i < 3; i++) {
        open_corpus(SAMPLE, words[i], &corpus);
        struct corpus_mark before = corpus_mark_of(&corpus);
        assert_ok(corpus_open_validation(&corpus, text, NULL, cache, NULL, &err), &err);
        assert_int_equal(tokenizer_checksum(corpus.validation->tokenizer),
                         tokenizer_checksum(corpus.tokenizer));
        size_t back;
        char *decoded = tokenizer_decode(corpus.tokenizer, corpus.validation->files[0].tokens,
                                         corpus.validation->tokens, &back);
        assert_string_equal(decoded, "In the beginning God created the heaven");
        free(decoded);
        struct corpus_mark after = corpus_mark_of(&corpus);
        assert_int_equal(corpus_mark_check(&before, &after, &err), STATUS_USAGE);
        corpus_close(&corpus);
    }
}

TEST_CASE(validation_tokens_must_fit_the_corpus)
{
    const char *folder = shards(), *cache = scratch_path("cache"), *val = scratch_path("val.tok"),
               *input = SAMPLE;
    struct corpus_summary summary;
    struct corpus corpus;
    struct err err = {0};
    open_corpus(folder, "bpe:2048", &corpus);
    scratch_tok(val, (uint32_t[]){12, 0, 3}, 3);
    assert_ok(corpus_open_validation(&corpus, val, NULL, cache, NULL, &err), &err);
    assert_int_equal(corpus.validation->tokens, 3);
    corpus_close(&corpus);
    open_corpus(folder, "bpe:2048", &corpus);
    scratch_tok(val, (uint32_t[]){12, 13, 3}, 3);
    assert_ok(corpus_open_validation(&corpus, val, NULL, cache, NULL, &err), &err);
    assert_int_equal(corpus.vocab_size, 14); /* nothing says that 13 is the whole vocabulary */
    struct corpus_place place;
    assert_true(corpus_find_id(&corpus, 13, &place)); /* in either part */
    assert_string_equal(place.path, val);
    assert_int_equal(place.index, 1);
    assert_false(corpus_find_id(&corpus, 14, &place));
    corpus_close(&corpus);
    open_corpus(folder, "bpe:2048", &corpus);
    assert_int_equal(corpus_open_validation(&corpus, SAMPLE, NULL, cache, NULL, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "is text, which needs a tokenizer"));
    corpus_close(&corpus);
    assert_ok(
        corpus_prepare(&input, 1, "bpe:300", NULL, cache, scratch_path("t300.tok"), NULL, &summary, &err),
        &err);
    assert_ok(
        corpus_prepare(&input, 1, "bpe:299", NULL, cache, scratch_path("t299.tok"), NULL, &summary, &err),
        &err);
    open_corpus(folder, "bpe:2048", &corpus); /* nothing says with which tokenizer it was prepared */
    assert_ok(corpus_open_validation(&corpus, scratch_path("t299.tok"), NULL, cache, NULL, &err), &err);
    corpus_close(&corpus);
    open_corpus(scratch_path("t300.tok"), "bpe:2048", &corpus);
    scratch_tok(val, (uint32_t[]){12, 305, 3}, 3);
    assert_int_equal(corpus_open_validation(&corpus, val, NULL, cache, NULL, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.text, "val.tok: token 1 has the id 305, but the vocabulary has 300"));
    assert_null(corpus.validation);
    assert_int_equal(corpus_open_validation(&corpus, scratch_path("t299.tok"), NULL, cache, NULL, &err),
                     STATUS_USAGE);
    assert_non_null(strstr(err.text, "t299.tok: was prepared with another tokenizer"));
    assert_int_equal(corpus_open_validation(&corpus, scratch_path("absent.tok"), NULL, cache, NULL, &err),
                     STATUS_NOT_FOUND);
    assert_null(corpus.validation);
    corpus_close(&corpus);
}

TEST_MAIN()
