/* See tokenizer.h. The kinds are told apart here and nowhere else: a tokenizer without a bpe is the kind
 * `bytes`. */
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
    struct bpe *bpe; /* NULL: bytes */
    char *json;      /* the file it came from, written back as it is; NULL without one */
    uint64_t checksum;
    char byte[256]; /* byte[b] = b, so that a token's bytes can be pointed at */
};

enum status tokenizer_open_bytes(struct tokenizer **out, struct err *err)
{
    struct tokenizer *made = calloc(1, sizeof *made);
    if (!made) return err_set(err, STATUS_NO_MEMORY, "not enough memory for a tokenizer");
    made->checksum = XXH64("bytes", 5, 0);
    for (int b = 0; b < 256; b++) made->byte[b] = (char)b;
    *out = made;
    return STATUS_OK;
}

/* What tokenizer_save_json makes of the kind `bytes`, and nothing else. */
static bool is_bytes(const struct bpe_spec *spec)
{
    if (spec->vocab_size != 256 || spec->merge_count || spec->added_count || spec->normal_form) return false;
    for (int b = 0; b < 256; b++)
        if (spec->tokens[b].n != 1 || (unsigned char)spec->tokens[b].bytes[0] != b) return false;
    return true;
}

enum status tokenizer_open_bpe(struct bpe *bpe, char *json, struct tokenizer **out, struct err *err)
{
    struct tokenizer *made = NULL;
    enum status status = tokenizer_open_bytes(&made, err);
    if (status || is_bytes(bpe_definition(bpe))) {
        free(json);
        bpe_free(bpe);
    } else {
        made->bpe = bpe;
        made->json = json;
        made->checksum = bpe_checksum(bpe);
    }
    if (!status) *out = made;
    return status;
}

enum status tokenizer_parse_json(const char *json, size_t n, const char *name, struct tokenizer **out,
                                 struct err *err)
{
    struct bpe *bpe = NULL;
    enum status status = tokenizer_json_read(json, n, name, &bpe, err);
    if (status) return status;
    char *copy = malloc(n + 1);
    if (!copy) {
        bpe_free(bpe);
        return err_set(err, STATUS_NO_MEMORY, "%s: not enough memory for the tokenizer", name);
    }
    memcpy(copy, json, n);
    copy[n] = '\0';
    return tokenizer_open_bpe(bpe, copy, out, err);
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
    return text_parse_int(word + 4, &size) && size > 0 && size <= INT32_MAX ? size : -1;
}

enum status tokenizer_open(const char *word, struct tokenizer **out, struct err *err)
{
    if (strcmp(word, "bytes") == 0) return tokenizer_open_bytes(out, err);
    if (strncmp(word, "bpe:", 4) != 0 && file_exists(word)) return tokenizer_open_json(word, out, err);
    if (strncmp(word, "bpe:", 4) != 0 && (strchr(word, '/') || strstr(word, ".json")))
        return err_set(err, STATUS_NOT_FOUND, "%s: no such tokenizer.json", word);
    return err_set(
        err, STATUS_USAGE,
        "tokenizer \"%s\": give bytes, the path of a tokenizer.json or, to learn one from text, bpe:N with N "
        "tokens",
        word);
}

void tokenizer_close(struct tokenizer *tokenizer)
{
    if (!tokenizer) return;
    bpe_free(tokenizer->bpe);
    free(tokenizer->json);
    free(tokenizer);
}

const struct bpe *tokenizer_bpe(const struct tokenizer *tokenizer)
{
    return tokenizer->bpe;
}

int tokenizer_vocab_size(const struct tokenizer *tokenizer)
{
    return tokenizer->bpe ? (int)bpe_definition(tokenizer->bpe)->vocab_size : 256;
}

const char *tokenizer_kind(const struct tokenizer *tokenizer)
{
    return tokenizer->bpe ? "bpe" : "bytes";
}

uint64_t tokenizer_checksum(const struct tokenizer *tokenizer)
{
    return tokenizer->checksum;
}

enum status tokenizer_encode_stream(const struct tokenizer *tokenizer, const void *text, size_t n,
                                    const struct token_sink *sink, struct err *err)
{
    if (tokenizer->bpe) return bpe_encode(tokenizer->bpe, text, n, sink, err);
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

static enum status take_into_list(void *context, const uint32_t *ids, size_t count, uint64_t done,
                                  struct err *err)
{
    (void)done;
    return token_list_append(context, ids, count, err);
}

enum status tokenizer_encode(const struct tokenizer *tokenizer, const void *text, size_t n,
                             struct token_list *list, struct err *err)
{
    size_t before = list->count;
    struct token_sink sink = {take_into_list, list};
    enum status status = tokenizer_encode_stream(tokenizer, text, n, &sink, err);
    if (status) list->count = before;
    return status;
}

const char *tokenizer_token_bytes(const struct tokenizer *tokenizer, uint32_t id, size_t *n)
{
    *n = 0;
    if (id >= (uint32_t)tokenizer_vocab_size(tokenizer)) return "";
    if (!tokenizer->bpe) {
        *n = 1;
        return &tokenizer->byte[id];
    }
    const struct bpe_token *token = &bpe_definition(tokenizer->bpe)->tokens[id];
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
    *to = '\0';
    if (n) *n = total;
    return text;
}

/* The kind `bytes` as a tokenizer.json: 256 tokens, no merges. */
static enum status write_bytes(const struct tokenizer *tokenizer, char **out, struct err *err)
{
    struct bpe_token tokens[256];
    for (int b = 0; b < 256; b++) tokens[b] = (struct bpe_token){&tokenizer->byte[b], 1, false};
    struct bpe_spec spec = {.tokens = tokens, .vocab_size = 256};
    return tokenizer_json_write(&spec, out, err);
}

enum status tokenizer_save_json(const struct tokenizer *tokenizer, const char *path, struct err *err)
{
    enum status status = STATUS_OK;
    if (tokenizer->json) return file_write_atomic(path, tokenizer->json, strlen(tokenizer->json), err);
    char *made = NULL;
    if (tokenizer->bpe)
        status = tokenizer_json_write(bpe_definition(tokenizer->bpe), &made, err);
    else
        status = write_bytes(tokenizer, &made, err);
    if (!status) status = file_write_atomic(path, made, strlen(made), err);
    free(made);
    return status;
}
