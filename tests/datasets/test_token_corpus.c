/* Corpora of token files: the largest id, the tokenizer, and the vocabulary before any of them is read. */
#include <limits.h>

#include "core/base/file.h"
#include "datasets/corpus.h"
#include "datasets/preparation.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

#define SAMPLE TOKENIZER_FIXTURES "sample.txt"

TEST_CASE(an_id_beyond_any_vocabulary_is_refused)
{
    const char *path = scratch_path("huge.tok");
    struct corpus corpus;
    struct err err = {0};
    scratch_tok(path, (const uint32_t[]){0x7FFFFFFF, 1}, 2);
    assert_int_equal(corpus_open(path, "", NULL, NULL, NULL, &corpus, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.text, "huge.tok: has the id 2147483647, too large for any vocabulary"));
    scratch_tok(path, (const uint32_t[]){0x7FFFFFFE, 1}, 2);
    assert_ok(corpus_open(path, "", NULL, NULL, NULL, &corpus, &err), &err);
    assert_int_equal(corpus.vocab_size, 0x7FFFFFFF);
    corpus_close(&corpus);
}

/* Files of other programs may name a tokenizer without a file beside them. */
TEST_CASE(a_sidecar_may_name_its_tokenizer_by_a_path)
{
    const char *path = scratch_path("named.tok"), *cache = scratch_path("cache_named");
    char text[5000], *json;
    size_t size;
    struct corpus corpus;
    struct err err = {0};
    scratch_tok(path, (const uint32_t[]){1, 2}, 2);
    json = scratch_read(TOKENIZER_FIXTURES "ours.json", &size);
    scratch_write(scratch_path("beside.json"), json, size);
    free(json);
    for (int i = 0; i < 3; i++) {
        static const char *const words[] = {"beside.json", "absent.json"};
        int n =
            snprintf(text, sizeof text, "{\"tokenizer\": \"%s\"}", i < 2 ? words[i] : scratch_path(words[0]));
        if (i == 2 && n > 250) continue; /* a long path has no room in a sidecar */
        scratch_write(scratch_path("named.tok.json"), text, (size_t)n);
        assert_ok(corpus_open(path, "", NULL, cache, NULL, &corpus, &err), &err);
        assert_int_equal(corpus.tokenizer == NULL, i == 1);
        assert_string_equal(corpus.tokenizer_word, i == 1 ? "" : scratch_path("beside.json"));
        corpus_close(&corpus);
    }
}

TEST_CASE(the_size_of_the_vocabulary_is_known_before_the_corpus_is_read)
{
    const char *path = scratch_path("sized.tok"), *bare = scratch_path("unsized.tok"), *input = SAMPLE;
    const char *ours = TOKENIZER_FIXTURES "ours.json";
    char both[8192];
    struct corpus_summary summary;
    struct err err = {0};
    assert_ok(corpus_prepare(&input, 1, "bpe:290", NULL, NULL, path, NULL, &summary, &err), &err);
    scratch_tok(bare, (const uint32_t[]){1, 2}, 2);
    snprintf(both, sizeof both, "%s,%s", bare, path);
    const struct {
        const char *train, *tokenizer;
        int64_t size;
    } cases[] = {
        {SAMPLE, "bytes", 256}, {SAMPLE, "bpe:300", 300}, {SAMPLE, ours, 400},   {SAMPLE, "none.json", 0},
        {path, "bytes", 290},   {path, "bpe:300", 290},   {bare, "bytes", 256},  {bare, "bpe:300", 0},
        {both, "bytes", 290},   {"absent", "bytes", 256}, {"absent.tok", "", 0}, {"", "bytes", 256},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (corpus_vocabulary(cases[i].train, cases[i].tokenizer) != cases[i].size)
            fail_msg("%s with %s: %d", cases[i].train, cases[i].tokenizer,
                     (int)corpus_vocabulary(cases[i].train, cases[i].tokenizer));
}

/* A token file has no room for more than 255 bytes of it. */
TEST_CASE(a_token_file_names_its_tokenizer_by_the_path_or_by_the_name_of_the_file)
{
    const char *text = scratch_path("named.txt"), *prepared = scratch_path("prepared.tok");
    size_t n;
    scratch_write(text, "some text", 9);
    char *json = scratch_read(TOKENIZER_FIXTURES "ours.json", &n);
    for (int bytes = 254; bytes <= 257; bytes++) {
        char path[PATH_MAX], folder[PATH_MAX];
        struct corpus_summary summary;
        struct token_file file;
        struct err err = {0};
        size_t used = (size_t)snprintf(folder, sizeof folder, "%s/", scratch_path("deep"));
        size_t length = (size_t)bytes - strlen("/t.json");
        for (; used < length; used++) folder[used] = used % 50 == 49 && used + 1 < length ? '/' : 'd';
        folder[used] = 0;
        assert_ok(file_make_folders(folder, &err), &err);
        snprintf(path, sizeof path, "%s/%s", folder, "t.json");
        assert_int_equal(strlen(path), bytes);
        scratch_write(path, json, n);
        assert_ok(corpus_prepare((const char *[]){text}, 1, path, NULL, NULL, prepared, NULL, &summary, &err),
                  &err);
        assert_ok(token_file_open(prepared, &file, &err), &err);
        assert_string_equal(file.tokenizer, bytes < (int)sizeof file.tokenizer ? path : "t.json");
        token_file_close(&file);
    }
    free(json);
}

TEST_MAIN()
