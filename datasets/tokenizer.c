/* See tokenizer.h. */
#include "datasets/tokenizer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "datasets/bpe.h"
#include "datasets/tokenizer_json.h"

enum { BYTES_AT_ONCE = 1 << 14 };

struct tokenizer {
    struct bpe bpe;
    bool is_bytes;
    char *json; /* the original file, written back unchanged; NULL: none */
    uint64_t checksum;
};

enum status token_list_append(struct token_list *list, const uint32_t *ids, size_t count, struct err *err)
{
    if (!list_reserve(&list->ids, list->count, count, &list->capacity, sizeof *list->ids))
        return err_no_memory(err, "%zu tokens", list->count + count);
    if (count) memcpy(list->ids + list->count, ids, count * sizeof *ids);
    list->count += count;
    return STATUS_OK;
}

void token_list_release(struct token_list *list)
{
    free(list->ids);
    *list = (struct token_list){0};
}

/* ---- opening ---- */

/* Whether the vocabulary is the 256 bytes in order and nothing else. */
static bool is_bytes(const struct bpe *bpe)
{
    if (bpe->vocab_size != 256 || bpe->added_count || bpe->normalizer.count || bpe->characters ||
        bpe->spaces.prefix)
        return false;
    for (int b = 0; b < 256; b++)
        if (bpe->tokens[b].n != 1 || (unsigned char)bpe->tokens[b].bytes[0] != b) return false;
    return true;
}

enum status tokenizer_new(struct bpe *bpe, char *json, const char *name, struct tokenizer **out,
                          struct err *err)
{
    struct tokenizer *made = calloc(1, sizeof *made);
    enum status status = made ? bpe_finish(bpe, name, err) : err_no_memory(err, "a tokenizer");
    if (status) {
        bpe_release(bpe);
        free(json);
        free(made);
        return status;
    }
    made->bpe = *bpe;
    made->json = json;
    made->is_bytes = is_bytes(bpe);
    made->checksum = made->is_bytes ? XXH64("bytes", 5, 0) : bpe_checksum(bpe);
    *out = made;
    return STATUS_OK;
}

enum status tokenizer_open_bytes(struct tokenizer **out, struct err *err)
{
    struct bpe bpe = {.vocab_size = 256};
    bpe.tokens = arena_alloc_array(&bpe.arena, 256, sizeof *bpe.tokens);
    char *bytes = arena_alloc(&bpe.arena, 256);
    for (int b = 0; bpe.tokens && bytes && b < 256; b++) {
        bytes[b] = (char)b;
        bpe.tokens[b] = (struct bpe_token){.bytes = &bytes[b], .n = 1};
    }
    if (bytes && bpe.tokens) return tokenizer_new(&bpe, NULL, "bytes", out, err);
    bpe_release(&bpe);
    return err_no_memory(err, "a tokenizer");
}

enum status tokenizer_parse_json(const char *json, size_t n, const char *name, struct tokenizer **out,
                                 struct err *err)
{
    struct bpe bpe;
    enum status status = tokenizer_json_read(json, n, name, &bpe, err);
    if (status) return status;
    char *copy = strndup(json, n); /* JSON has no NUL */
    if (copy) return tokenizer_new(&bpe, copy, name, out, err);
    bpe_release(&bpe);
    return err_no_memory(err, "the tokenizer %s", name);
}

enum status tokenizer_open_json(const char *path, struct tokenizer **out, struct err *err)
{
    struct file_map map = {0};
    enum status status = file_map_open(path, &map, err);
    if (status) return status;
    status = tokenizer_parse_json((const char *)map.data, map.size, path, out, err);
    file_map_close(&map);
    return status;
}

int64_t tokenizer_learned_size(const char *word)
{
    int64_t size;
    if (strncmp(word, "bpe:", 4) != 0) return 0;
    word += 4 + strspn(word + 4, " ");
    return text_parse_int(word, &size) && size > 0 && size <= INT32_MAX ? size : -1;
}

enum status tokenizer_open(const char *word, struct tokenizer **out, struct err *err)
{
    if (strcmp(word, "bytes") == 0) return tokenizer_open_bytes(out, err);
    if (strncmp(word, "bpe:", 4) != 0 && file_exists(word)) return tokenizer_open_json(word, out, err);
    if (strncmp(word, "bpe:", 4) != 0 && (strchr(word, '/') || strstr(word, ".json")))
        return err_set(err, STATUS_NOT_FOUND, "%s: no such tokenizer.json", word);
    return err_set(err, STATUS_USAGE,
                   "tokenizer \"%s\": must be bytes, the path of a tokenizer.json or, to learn one from "
                   "text, bpe:N with N "
                   "tokens",
                   word);
}

void tokenizer_close(struct tokenizer *tokenizer)
{
    if (!tokenizer) return;
    bpe_release(&tokenizer->bpe);
    free(tokenizer->json);
    free(tokenizer);
}

const struct bpe *tokenizer_bpe(const struct tokenizer *tokenizer)
{
    return &tokenizer->bpe;
}

int tokenizer_vocab_size(const struct tokenizer *tokenizer)
{
    return (int)tokenizer->bpe.vocab_size;
}

const char *tokenizer_kind(const struct tokenizer *tokenizer)
{
    return tokenizer->is_bytes ? "bytes" : tokenizer->bpe.characters ? "sentencepiece" : "bpe";
}

uint64_t tokenizer_checksum(const struct tokenizer *tokenizer)
{
    return tokenizer->checksum;
}

enum status tokenizer_encode_stream(const struct tokenizer *tokenizer, const void *text, size_t n,
                                    const struct token_sink *sink, struct err *err)
{
    if (!tokenizer->is_bytes) return bpe_encode(&tokenizer->bpe, text, n, sink, err);
    uint32_t ids[BYTES_AT_ONCE];
    const unsigned char *bytes = text;
    for (size_t done = 0; done < n;) {
        size_t count = n - done < BYTES_AT_ONCE ? n - done : BYTES_AT_ONCE;
        for (size_t i = 0; i < count; i++) ids[i] = bytes[done + i];
        done += count;
        enum status status = sink->take(sink->context, ids, count, done, err);
        if (status) return status;
    }
    return STATUS_OK;
}

enum status token_list_take(void *list, const uint32_t *ids, size_t count, uint64_t done, struct err *err)
{
    (void)done;
    return token_list_append(list, ids, count, err);
}

enum status tokenizer_encode(const struct tokenizer *tokenizer, const void *text, size_t n,
                             struct token_list *list, struct err *err)
{
    size_t before = list->count;
    struct token_sink sink = {token_list_take, list};
    enum status status = tokenizer_encode_stream(tokenizer, text, n, &sink, err);
    if (status) list->count = before;
    return status;
}

enum status tokenizer_encode_prompt(const struct tokenizer *tokenizer, const void *text, size_t n,
                                    struct token_list *list, struct err *err)
{
    const struct bpe *bpe = &tokenizer->bpe;
    size_t before = list->count;
    enum status status = token_list_append(list, bpe->before.ids, bpe->before.count, err);
    if (!status) status = tokenizer_encode(tokenizer, text, n, list, err);
    if (!status) status = token_list_append(list, bpe->after.ids, bpe->after.count, err);
    if (status) list->count = before;
    return status;
}

size_t tokenizer_cut_prompt(const struct tokenizer *tokenizer, uint32_t *ids, size_t count, size_t most)
{
    const struct bpe *bpe = &tokenizer->bpe;
    size_t after = bpe->after.count < most ? bpe->after.count : most;
    if (count <= most) return count;
    if (after) memcpy(ids + most - after, bpe->after.ids, after * sizeof *ids);
    return most;
}

int64_t tokenizer_end(const struct tokenizer *tokenizer)
{
    static const char *const names[] = {TOKENIZER_END, "<|end_of_text|>", "</s>", "<eos>"};
    const struct bpe *bpe = tokenizer_bpe(tokenizer);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (size_t i = 0; i < bpe->added_count; i++)
            if (bpe->added[i].n == strlen(names[k]) &&
                memcmp(bpe->added[i].content, names[k], bpe->added[i].n) == 0)
                return bpe->added[i].id;
    return -1;
}

bool tokenizer_is_special(const struct tokenizer *tokenizer, uint32_t id)
{
    const struct bpe *bpe = tokenizer_bpe(tokenizer);
    for (size_t i = 0; i < bpe->added_count; i++)
        if (bpe->added[i].id == id) return bpe->added[i].special;
    return false;
}

size_t tokenizer_text_bytes(const struct tokenizer *tokenizer, uint32_t id)
{
    size_t n = 0;
    if (!tokenizer_is_special(tokenizer, id)) tokenizer_token_bytes(tokenizer, id, &n);
    return n;
}

size_t tokenizer_added_start(const struct tokenizer *tokenizer, const char *text, size_t n)
{
    const struct stripped *stripped = &tokenizer->bpe.stripped;
    size_t length = stripped->text ? strlen(stripped->text) : 0, done = 0;
    for (size_t i = 0; i < stripped->most && length && length <= n - done; i++, done += length)
        if (memcmp(text + done, stripped->text, length) != 0) break;
    return done;
}

const char *tokenizer_token_bytes(const struct tokenizer *tokenizer, uint32_t id, size_t *n)
{
    *n = 0;
    if (id >= (uint32_t)tokenizer_vocab_size(tokenizer)) return "";
    const struct bpe_token *token = &tokenizer->bpe.tokens[id];
    *n = token->n;
    return token->n ? token->bytes : "";
}

char *tokenizer_decode(const struct tokenizer *tokenizer, const uint32_t *ids, size_t count, size_t *n)
{
    size_t total = 0, length;
    for (size_t i = 0; i < count; i++) {
        tokenizer_token_bytes(tokenizer, ids[i], &length);
        if (length > SIZE_MAX / 2 - total) return NULL;
        total += length;
    }
    char *text = malloc(total + 1), *to = text;
    if (!text) return NULL;
    for (size_t i = 0; i < count; i++) {
        const char *bytes = tokenizer_token_bytes(tokenizer, ids[i], &length);
        memcpy(to, bytes, length);
        to += length;
    }
    tokenizer_token_bytes(tokenizer, count ? ids[0] : 0, &length);
    if (!tokenizer->bpe.stripped.one_token || !count) length = total;
    size_t extra = tokenizer_added_start(tokenizer, text, length);
    memmove(text, text + extra, total - extra);
    text[total - extra] = '\0';
    if (n) *n = total - extra;
    return text;
}

enum status tokenizer_save_json(const struct tokenizer *tokenizer, const char *path, struct err *err)
{
    char *made = NULL;
    enum status status = tokenizer->json ? STATUS_OK : tokenizer_json_write(&tokenizer->bpe, &made, err);
    const char *json = tokenizer->json ? tokenizer->json : made;
    if (!status) status = file_write_atomic(path, json, strlen(json), err);
    free(made);
    return status;
}
