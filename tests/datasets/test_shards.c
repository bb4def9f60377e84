/* llm.c's shards: read in place, distinguished from .tok files by their content, and never trusted. */
#include <limits.h>
#include <unistd.h>

#include "datasets/token_file.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

static const uint32_t ids[] = {0, 1, 50256, 65535, 7, 32768};
enum { IDS = sizeof ids / sizeof *ids };

TEST_CASE(sixteen_bit_ids_are_read_where_they_lie)
{
    const char *path = scratch_path("gpt2.bin");
    struct token_file file;
    struct err err = {0};
    scratch_shard(path, SHARD_16, 1, IDS, ids, IDS);
    assert_ok(token_file_open(path, &file, &err), &err);
    assert_int_equal(file.format, TOKEN_FORMAT_SHARD_16);
    assert_int_equal(file.count, IDS);
    assert_null(file.tokens);
    assert_ptr_equal(file.narrow, file.map.data + 1024); /* the mapping itself: nothing is copied */
    for (int i = 0; i < IDS; i++) assert_int_equal(token_file_id(&file, i), ids[i]);
    uint64_t index;
    assert_true(token_file_find(&file, 50257, &index));
    assert_int_equal(index, 3);
    token_file_measure(&file, NULL);
    assert_int_equal(file.bound, 65536);
    assert_false(token_file_find(&file, 65536, &index));
    token_file_close(&file);
}

TEST_CASE(thirty_two_bit_ids_are_read_in_both_versions)
{
    static const uint32_t wide[] = {128000, 4294967295u, 3};
    const char *path = scratch_path("llama.bin");
    struct err err = {0};
    for (int version = 1; version <= 7; version += 6) {
        struct token_file file;
        scratch_shard(path, SHARD_32, version, 3, wide, 3);
        assert_ok(token_file_open(path, &file, &err), &err);
        assert_int_equal(file.format, TOKEN_FORMAT_SHARD_32);
        assert_null(file.narrow);
        assert_int_equal(file.count, 3);
        assert_memory_equal(file.tokens, wide, sizeof wide);
        token_file_measure(&file, NULL);
        assert_int_equal(file.bound, 4294967296);
        token_file_close(&file);
    }
}

TEST_CASE(a_measured_file_is_not_read_again)
{
    uint32_t tokens[] = {5, 9, 2};
    struct token_file file = {.tokens = tokens, .count = 3};
    uint64_t index;
    token_file_measure(&file, NULL);
    tokens[0] = 1000;
    assert_false(token_file_find(&file, 10, &index));
}

TEST_CASE(a_shard_has_a_sidecar_like_any_other)
{
    static const char text[] = "{\"tokens\": 6, \"tokenizer\": \"gpt2\", \"vocab_size\": 65536}";
    const char *path = scratch_path("named.bin");
    struct token_file file;
    struct err err = {0};
    scratch_shard(path, SHARD_16, 1, IDS, ids, IDS);
    scratch_write(scratch_path("named.bin.json"), text, sizeof text - 1);
    assert_ok(token_file_open(path, &file, &err), &err);
    assert_string_equal(file.tokenizer, "gpt2");
    assert_int_equal(file.vocab_size, 65536);
    token_file_close(&file);
}

static void assert_refused(const char *path, const char *words)
{
    struct token_file file = {.count = 99};
    struct err err = {0};
    enum status status = token_file_open(path, &file, &err);
    if (status != STATUS_CORRUPT || !strstr(err.text, path) || !strstr(err.text, words))
        fail_msg("status %d, or not \"%s\": %s", status, words, err.text);
    assert_int_equal(file.count, 99); /* untouched */
}

TEST_CASE(a_header_that_lies_is_refused_in_words)
{
    const char *path = scratch_path("lies.bin");
    static const struct {
        int32_t magic, version, count;
        const char *words;
    } cases[] = {
        {SHARD_16, 2, IDS, "version 2 (supported are 1 and 1)"},
        {SHARD_16, 7, IDS, "version 7"},
        {SHARD_16, -1, IDS, "version -1"},
        {SHARD_32, 2, IDS, "version 2 (supported are 1 and 7)"},
        {SHARD_16, 1, -1, "truncated"},
        {SHARD_32, 7, INT32_MIN, "truncated"},
        {SHARD_16, 1, IDS + 1, "truncated: its header promises 7 tokens of 2 bytes, but 12 bytes follow it"},
        {SHARD_16, 1, IDS - 1, "too long: its header promises 5 tokens of 2 bytes"},
        {SHARD_32, 1, IDS + 1, "7 tokens of 4 bytes, but 24 bytes follow it"},
        {SHARD_16, 1, INT32_MAX, "2147483647 tokens of 2 bytes"},
        {SHARD_32, 7, INT32_MAX, "2147483647 tokens of 4 bytes"},
        {SHARD_32, 7, 1 << 30, "1073741824 tokens"}, /* its size in bytes does not fit 32 bits */
        {20240522, 1, IDS, "truncated"},             /* multiple-choice questions */
        {20240521, 1, IDS, "truncated"},
        {0, 1, IDS, "truncated"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_shard(path, cases[i].magic, cases[i].version, cases[i].count, ids, IDS);
        assert_refused(path, cases[i].words);
    }
}

TEST_CASE(a_shard_cut_anywhere_is_refused)
{
    const char *path = scratch_path("whole.bin"), *cut = scratch_path("cut.bin");
    size_t n;
    scratch_shard(path, SHARD_16, 1, IDS, ids, IDS);
    char *bytes = scratch_read(path, &n);
    assert_int_equal(n, 1024 + 2 * IDS);
    for (size_t k = 0; k < n; k += k == 20 ? 990 : 1) { /* also at odd sizes */
        scratch_write(cut, bytes, k);
        assert_refused(cut, k < 8 ? "header alone has 8" : k < 1024 ? "header alone has 1024" : "truncated");
    }
    bytes = realloc(bytes, n + 1);
    bytes[n] = 0;
    scratch_write(cut, bytes, n + 1);
    assert_refused(cut, "too long");
    scratch_write(cut, "In the beginning God created the heaven and the earth.", 54);
    assert_refused(cut, "a text file needs another name");
    free(bytes);
}

/* 20240520 and version 0 as one number: a count. */
TEST_CASE(a_token_file_with_as_many_tokens_as_a_magic_is_no_shard)
{
    const char *path = scratch_path("many.tok");
    struct token_file file;
    struct err err = {0};
    scratch_write(path, (uint64_t[]){SHARD_16}, 8);
    assert_refused(path, "promises 20240520 tokens");
    assert_int_equal(truncate(path, 8 + 4l * SHARD_16), 0); /* sparse */
    assert_ok(token_file_open(path, &file, &err), &err);
    assert_int_equal(file.format, TOKEN_FORMAT_TOK);
    assert_int_equal(file.count, SHARD_16);
    token_file_close(&file);
    assert_int_equal(unlink(path), 0);
}

/* Whatever a header claims, an opened file is read only within its size: sanitizers check the reads. */
TEST_CASE(no_header_leads_outside_the_file)
{
    const char *path = scratch_path("noise.bin");
    static const int32_t words[] = {SHARD_16, SHARD_32, 20240522, 0, 1, 7, -1, INT32_MAX, INT32_MIN, 3, 500};
    enum { WORDS = sizeof words / sizeof *words };
    uint64_t noise = 11;
    int opened = 0;
    for (int round = 0; round < 500; round++) {
        unsigned char bytes[2100] = {0};
        int32_t header[3];
        for (int i = 0; i < 3; i++) header[i] = words[noise_next(&noise) % WORDS];
        size_t n = noise_next(&noise) % sizeof bytes;
        if (noise_next(&noise) % 2) header[0] = words[noise_next(&noise) % 2];
        if (noise_next(&noise) % 2) header[1] = 1;
        if (noise_next(&noise) % 2) n = 1024 + (size_t)(header[2] & 511) * (header[0] == SHARD_16 ? 2 : 4);
        memcpy(bytes, header, sizeof header);
        if (n > sizeof bytes) n = sizeof bytes;
        scratch_write(path, bytes, n);
        struct token_file file;
        struct err err = {0};
        if (token_file_open(path, &file, &err)) {
            assert_true(err.text[0]);
            continue;
        }
        opened++;
        uint64_t width = file.narrow ? 2 : 4, begin = file.format == TOKEN_FORMAT_TOK ? 8 : 1024;
        assert_int_equal(begin + width * file.count, n);
        for (uint64_t i = 0; i < file.count; i++) assert_true(token_file_id(&file, i) < UINT32_MAX);
        token_file_close(&file);
    }
    assert_true(opened > 20);
}

TEST_CASE(names_tell_token_files_from_texts)
{
    assert_true(token_file_named("a.tok"));
    assert_true(token_file_named("shards/x_000001.bin"));
    assert_false(token_file_named("a.txt"));
    assert_false(token_file_named("tok"));
    assert_false(token_file_named(""));
    assert_false(token_file_named("a.tok.json"));
}

TEST_CASE(a_header_tells_a_token_file_from_other_binary_files)
{
    static const struct {
        unsigned char bytes[16];
        size_t n;
        bool begins;
    } cases[] = {
        {{0}, 8, true}, /* no tokens */
        {{1}, 12, true},
        {{1}, 13, false},
        {{1}, 16, false},
        {{2}, 16, true},
        {{0}, 7, false},
        {{0}, 0, false},
        {"some text...", 12, false},
    };
    const char *path = scratch_path("begins.bin");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_write(path, cases[i].bytes, cases[i].n);
        if (token_file_begins(path) != cases[i].begins) fail_msg("%zu", i);
    }
    scratch_shard(path, SHARD_16, 1, 3, (const uint32_t[]){1, 2, 3}, 3);
    assert_true(token_file_begins(path));
    scratch_shard(path, SHARD_32, 9, 3, (const uint32_t[]){1, 2, 3},
                  2); /* opening it reports what is wrong */
    assert_true(token_file_begins(path));
    assert_false(token_file_begins(scratch_path("absent.bin")));
}

TEST_MAIN()
