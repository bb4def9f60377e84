/* See datasets_help.h. */
#include "tests/datasets/datasets_help.h"
#include "tests/cmocka.h"

#include <dirent.h>
#include <limits.h>

#include "core/base/file.h"

const char *scratch_path(const char *name)
{
    static char paths[64][PATH_MAX];
    char path[PATH_MAX];
    const char *folder = getenv("ANNEAL_TEST_DIR");
    assert_non_null(folder);
    assert_true(snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_MAX);
    for (int i = 0; i < 64; i++) {
        if (!paths[i][0]) strcpy(paths[i], path);
        if (strcmp(paths[i], path) == 0) return paths[i];
    }
    fail_msg("more than 64 scratch files");
    return NULL;
}

void scratch_write(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

void scratch_shard(const char *path, int32_t magic, int32_t version, int32_t count, const uint32_t *ids,
                   size_t n)
{
    unsigned char *bytes = calloc(1024 + 4 * n, 1);
    assert_non_null(bytes);
    memcpy(bytes, (int32_t[]){magic, version, count}, 12);
    for (size_t i = 0; i < n; i++) {
        uint16_t narrow = (uint16_t)ids[i];
        if (magic == SHARD_16)
            memcpy(bytes + 1024 + 2 * i, &narrow, 2);
        else
            memcpy(bytes + 1024 + 4 * i, &ids[i], 4);
    }
    scratch_write(path, bytes, 1024 + (magic == SHARD_16 ? 2 : 4) * n);
    free(bytes);
}

void scratch_tok(const char *path, const uint32_t *ids, size_t n)
{
    uint64_t count = n;
    unsigned char *bytes = malloc(8 + 4 * n);
    assert_non_null(bytes);
    memcpy(bytes, &count, 8);
    memcpy(bytes + 8, ids, 4 * n);
    scratch_write(path, bytes, 8 + 4 * n);
    free(bytes);
}

char *scratch_read(const char *path, size_t *n)
{
    struct file_map map;
    struct err err = {0};
    assert_ok(file_map_open(path, &map, &err), &err);
    char *text = malloc(map.size + 1);
    assert_non_null(text);
    memcpy(text, map.data, map.size);
    text[map.size] = '\0';
    if (n) *n = map.size;
    file_map_close(&map);
    return text;
}

struct corpus corpus_of(struct token_file *files, size_t count)
{
    struct corpus corpus = {.files = files, .file_count = count};
    for (size_t i = 0; i < count; i++) corpus.tokens += files[i].count;
    return corpus;
}

int scratch_entries(const char *folder)
{
    DIR *open = opendir(folder);
    int count = 0;
    if (!open) return 0;
    for (struct dirent *entry; (entry = readdir(open));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(open);
    return count;
}

uint64_t noise_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

size_t noise_fill(uint64_t seed, char *to, size_t capacity)
{
    static const char *const pieces[] = {
        "the",      " God", " ",       "\n",   "'ll",          "1",  "é", "e\xCC\x81", "\xF0\x9F\x91\x8D",
        "\xE2\x80", "\xFF", "<|end|>", "日本", "\xED\xA0\x80", "  ", "\t"};
    uint64_t state = (seed + 1) * 0x9E3779B97F4A7C15u;
    size_t length = noise_next(&state) % capacity + 1, n = 0;
    int kind = (int)(seed % 4);
    while (n < length) {
        uint64_t draw = noise_next(&state);
        if (kind == 0) {
            to[n++] = (char)draw;
        } else if (kind == 1) {
            const char *piece = pieces[draw % (sizeof pieces / sizeof *pieces)];
            for (; *piece && n < length; piece++) to[n++] = *piece;
        } else if (kind == 2) {
            to[n++] = (char)(' ' + draw % 95);
        } else {
            for (uint64_t run = draw % 97; run && n < length; run--) to[n++] = (char)(draw >> 32);
            if (n < length) to[n++] = 'a';
        }
    }
    return n;
}

void assert_ok(enum status status, const struct err *err)
{
    if (status) fail_msg("status %d: %s", status, err->text);
}

void assert_round_trip(const struct tokenizer *tokenizer, const char *text, size_t n)
{
    struct token_list list = {0};
    struct err err = {0};
    size_t back;
    assert_ok(tokenizer_encode(tokenizer, text, n, &list, &err), &err);
    for (size_t i = 0; i < list.count; i++)
        assert_true(list.ids[i] < (uint32_t)tokenizer_vocab_size(tokenizer));
    char *decoded = tokenizer_decode(tokenizer, list.ids, list.count, &back);
    assert_non_null(decoded);
    assert_int_equal(back, n);
    assert_memory_equal(decoded, text, n);
    assert_int_equal(decoded[n], '\0');
    free(decoded);
    token_list_release(&list);
}
