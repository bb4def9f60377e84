/* Token files: written tokens read back, and any file on disk is either read correctly or refused with a
 * message. */
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "datasets/token_file.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

static struct tokenizer *bytes_tokenizer(void)
{
    struct tokenizer *tokenizer = NULL;
    struct err err = {0};
    assert_ok(tokenizer_open_bytes(&tokenizer, &err), &err);
    return tokenizer;
}

/* Tokens and sidecar in one go. */
static enum status token_file_write(const char *path, const uint32_t *tokens, uint64_t count,
                                    const struct tokenizer *tokenizer, const char *tokenizer_name,
                                    struct err *err)
{
    struct token_writer writer;
    struct token_sidecar sidecar = {
        .tokenizer = tokenizer_name,
        .vocab_size = (uint32_t)tokenizer_vocab_size(tokenizer),
        .tokenizer_checksum = tokenizer_checksum(tokenizer),
    };
    enum status status = token_writer_open(&writer, path, err);
    if (status) return status;
    if ((status = token_writer_append(&writer, tokens, count, err))) {
        token_writer_abort(&writer);
        return status;
    }
    return token_writer_commit(&writer, &sidecar, err);
}

TEST_CASE(what_is_written_comes_back)
{
    const char *path = scratch_path("back.tok");
    uint32_t tokens[] = {1, 2, 3, 255, 0};
    struct tokenizer *tokenizer = bytes_tokenizer();
    struct token_file file = {0};
    struct err err = {0};
    for (uint64_t count = 0; count <= 5; count += 5) {
        assert_ok(token_file_write(path, tokens, count, tokenizer, "bytes", &err), &err);
        assert_ok(token_file_open(path, &file, &err), &err);
        assert_int_equal(file.count, count);
        assert_memory_equal(file.tokens, tokens, count * sizeof *tokens);
        assert_int_equal(file.vocab_size, 256);
        assert_int_equal(file.tokenizer_checksum, tokenizer_checksum(tokenizer));
        assert_string_equal(file.tokenizer, "bytes");
        assert_string_equal(file.tokenizer_file, "");
        token_file_measure(&file, NULL);
        assert_int_equal(file.bound, count ? 256 : 0);
        token_file_close(&file);
        token_file_close(&file); /* harmless */
    }
    tokenizer_close(tokenizer);
}

TEST_CASE(the_format_is_a_count_and_little_endian_ids)
{
    static const unsigned char wanted[] = {2, 0, 0, 0, 0, 0, 0, 0, 0x34, 0x12, 0, 0, 0xFF, 0xFF, 0xFF, 0x7F};
    const char *path = scratch_path("format.tok");
    uint32_t tokens[] = {0x1234, 0x7FFFFFFF};
    struct tokenizer *tokenizer = bytes_tokenizer();
    struct err err = {0};
    size_t n;
    assert_ok(token_file_write(path, tokens, 2, tokenizer, "bytes", &err), &err);
    char *bytes = scratch_read(path, &n);
    assert_int_equal(n, sizeof wanted);
    assert_memory_equal(bytes, wanted, n);
    free(bytes);
    tokenizer_close(tokenizer);
}

TEST_CASE(without_a_sidecar_nothing_is_known_of_the_tokenizer)
{
    const char *path = scratch_path("bare.tok");
    static const unsigned char bytes[] = {1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0};
    struct token_file file = {0};
    struct err err = {0};
    scratch_write(path, bytes, sizeof bytes);
    assert_ok(token_file_open(path, &file, &err), &err);
    assert_int_equal(file.vocab_size, 0);
    assert_int_equal(file.tokenizer_checksum, 0);
    assert_string_equal(file.tokenizer, "");
    uint64_t index = 99;
    assert_false(token_file_find(&file, 8, &index));
    assert_true(token_file_find(&file, 7, &index));
    assert_int_equal(index, 0);
    token_file_close(&file);
}

static void assert_refused(const char *path, enum status wanted, const char *words, const char *more)
{
    struct token_file file = {.count = 99};
    struct err err = {0};
    enum status status = token_file_open(path, &file, &err);
    if (status != wanted || !strstr(err.text, words) || !strstr(err.text, more))
        fail_msg("status %d, not %d, or not \"%s\" and \"%s\": %s", status, wanted, words, more, err.text);
    assert_int_equal(file.count, 99); /* untouched */
}

TEST_CASE(hostile_files_are_refused_with_both_sizes)
{
    const char *path = scratch_path("hostile.tok");
    unsigned char bytes[40] = {8}; /* the header promises 8 tokens: 40 bytes */
    for (size_t n = 8; n < 40; n++) {
        char held[32];
        snprintf(held, sizeof held, "but %zu bytes follow", n - 8);
        scratch_write(path, bytes, n);
        assert_refused(path, STATUS_CORRUPT, "8 tokens of 4 bytes", held);
        assert_refused(path, STATUS_CORRUPT, "truncated", path);
    }
    bytes[0] = 7;
    scratch_write(path, bytes, 40);
    assert_refused(path, STATUS_CORRUPT, "too long", "7 tokens of 4 bytes, but 32");
    for (size_t n = 0; n < 8; n++) {
        scratch_write(path, bytes, n);
        assert_refused(path, STATUS_CORRUPT, "header alone has 8", path);
    }
    memset(bytes, 0xFF, sizeof bytes);
    scratch_write(path, bytes, 40);
    assert_refused(path, STATUS_CORRUPT, "is not a token file", path);
    memset(bytes, 0, 8);
    bytes[7] = 0x40; /* 2^62 tokens: 8 + 4·count wraps around to 8 */
    scratch_write(path, bytes, 8);
    assert_refused(path, STATUS_CORRUPT, "is not a token file", path);
    scratch_write(path, "In the beginning God created the heaven", 40);
    assert_refused(path, STATUS_CORRUPT, "is not a token file", "a text file needs another name");
    assert_refused(scratch_path("missing.tok"), STATUS_NOT_FOUND, "missing.tok", "No such file");
    assert_refused(getenv("ANNEAL_TEST_DIR"), STATUS_USAGE, "folder", "");
}

TEST_CASE(a_file_without_permission_is_refused)
{
    const char *path = scratch_path("secret.tok");
    bool root = geteuid() == 0; /* who may read everything */
    scratch_write(path, "\0\0\0\0\0\0\0\0", 8);
    assert_int_equal(chmod(path, 0), 0);
    if (root) assert_int_equal(seteuid(65534), 0);
    assert_refused(path, STATUS_IO, "secret.tok", "Permission denied");
    if (root) assert_int_equal(seteuid(0), 0);
}

TEST_CASE(hostile_sidecars_are_refused_naming_the_field)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", ".json:1: "},
        {"{", ".json:1: "},
        {"[]", "object"},
        {"{\"vocab_size\": -1}", "vocab_size"},
        {"{\"vocab_size\": \"256\"}", "vocab_size"},
        {"{\"vocab_size\": 4294967296}", "vocab_size"},
        {"{\"vocab_size\": 1e30}", "vocab_size"},
        {"{\"vocab_size\": 99999999999999999999999}", "too big"},
        {"{\"tokenizer\": 5}", "tokenizer"},
        {"{\"tokenizer_file\": []}", "tokenizer_file"},
        {"{\"tokenizer_file\": \"../other.json\"}", "a file beside it"},
        {"{\"tokenizer_checksum\": 7}", "tokenizer_checksum"},
        {"{\"tokenizer_checksum\": \"0123456789abcde\"}", "tokenizer_checksum"},
        {"{\"tokenizer_checksum\": \"0123456789abcdef0\"}", "tokenizer_checksum"},
        {"{\"checksum\": \"0123456789ABCDEF\"}", "\"checksum\" 16 hexadecimal digits"},
        {"{\"checksum\": \"\"}", "\"checksum\" 16 hexadecimal digits"},
        {"{\"sources\": [2]}", "\"sources\" are not whole numbers that add up to its 1 tokens"},
        {"{\"sources\": [0]}", "\"sources\" are not whole numbers that add up to its 1 tokens"},
        {"{\"sources\": [1, -1]}", "\"sources\" are not whole numbers that add up to its 1 tokens"},
        {"{\"tokenizer_checksum\": \"xyz\"}", "tokenizer_checksum"},
        {"{\"tokenizer_checksum\": \"-123456789abcdef\"}", "tokenizer_checksum"},
        {"{\"tokens\": 3}", "3 tokens"},
        {"{\"tokens\": -1}", "tokens"},
        {"{\"tokens\": 3, \"sources\": [3]}", "belongs to another token file"},
        {"{\"tokens\": 1, \"tokens\": 1}", "duplicate"},
        {"{\"tokenizer\": \"\xFF\"}", ".json:1: "},
    };
    const char *path = scratch_path("side.tok"), *sidecar = scratch_path("side.tok.json");
    static const unsigned char bytes[] = {1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0};
    scratch_write(path, bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_write(sidecar, cases[i].text, strlen(cases[i].text));
        assert_refused(path, STATUS_CORRUPT, "side.tok.json", cases[i].words);
    }
    static const char *const names[] = {"tokenizer", "tokenizer_file"};
    for (int i = 0; i < 4; i++) { /* 255 bytes, and one more */
        char text[400];
        int n = snprintf(text, sizeof text, "{\"%s\": \"%0*d\"}", names[i / 2], 255 + i % 2, 7);
        struct token_file file = {0};
        struct err err = {0};
        scratch_write(sidecar, text, (size_t)n);
        if (i % 2) assert_refused(path, STATUS_CORRUPT, "tokenizer", "less than 256");
        if (i % 2) continue;
        assert_ok(token_file_open(path, &file, &err), &err);
        assert_int_equal(strlen(i ? file.tokenizer_file : file.tokenizer), 255);
        token_file_close(&file);
    }
}

TEST_CASE(nothing_appears_before_the_commit_and_nothing_stays_after_an_abort)
{
    const char *folder = scratch_path("writer"), *path = scratch_path("writer/out.tok");
    struct token_writer writer;
    struct err err = {0};
    uint32_t tokens[1000] = {5};
    assert_ok(file_make_folders(folder, &err), &err);
    assert_ok(token_writer_open(&writer, path, &err), &err);
    for (int i = 0; i < 10; i++) assert_ok(token_writer_append(&writer, tokens, 1000, &err), &err);
    assert_int_equal(writer.count, 10000);
    assert_false(file_exists(path));
    token_writer_abort(&writer);
    assert_int_equal(scratch_entries(folder), 0);

    struct token_sidecar sidecar = {
        .tokenizer = "bpe:512", .tokenizer_file = "t.json", .vocab_size = 512, .tokenizer_checksum = 0xABC};
    struct token_file file = {0};
    assert_ok(token_writer_open(&writer, path, &err), &err);
    assert_ok(token_writer_append(&writer, tokens, 1000, &err), &err);
    assert_ok(token_writer_append(&writer, tokens, 10, &err), &err);
    assert_ok(token_writer_commit(&writer, &sidecar, &err), &err);
    assert_int_equal(scratch_entries(folder), 2);
    assert_ok(token_file_open(path, &file, &err), &err);
    assert_int_equal(file.count, 1010);
    assert_string_equal(file.tokenizer_file, "t.json");
    assert_int_equal(file.tokenizer_checksum, 0xABC);
    token_file_close(&file);
}

TEST_CASE(a_failed_write_leaves_the_old_file_alone)
{
    const char *folder = scratch_path("full"), *path = scratch_path("full/out.tok");
    struct tokenizer *tokenizer = bytes_tokenizer();
    struct token_file file = {0};
    struct err err = {0};
    uint32_t token = 9;
    assert_ok(file_make_folders(folder, &err), &err);
    assert_ok(token_file_write(path, &token, 1, tokenizer, "bytes", &err), &err);
    /* A name that is not UTF-8 cannot be stored in the sidecar. */
    assert_int_not_equal(token_file_write(path, &token, 1, tokenizer, "\xFF.json", &err), STATUS_OK);
    assert_int_equal(scratch_entries(folder), 2);
    assert_ok(token_file_open(path, &file, &err), &err);
    assert_string_equal(file.tokenizer, "bytes");
    token_file_close(&file);
    assert_int_equal(token_file_write(folder, &token, 1, tokenizer, "bytes", &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "is a folder"));
    assert_int_equal(token_file_write(scratch_path("absent/x.tok"), &token, 1, tokenizer, "bytes", &err),
                     STATUS_NOT_FOUND);
    assert_int_equal(token_file_write("/dev/full/x.tok", &token, 1, tokenizer, "bytes", &err), STATUS_IO);
    tokenizer_close(tokenizer);
}

TEST_MAIN()
