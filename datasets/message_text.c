/* See message_text.h. */
#include "datasets/message_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "datasets/bpe.h"

const struct added_token *message_special_at(const struct tokenizer *tokenizer, const char *text, size_t n)
{
    const struct bpe *bpe = tokenizer_bpe(tokenizer);
    for (size_t i = 0; i < bpe->added_count; i++) {
        const struct added_token *token = &bpe->added[i];
        if (token->special && token->n <= n && memcmp(text, token->content, token->n) == 0) return token;
    }
    return NULL;
}

json_t *message_text_new(const struct tokenizer *tokenizer, const char *text, size_t n)
{
    char *copy = NULL;
    size_t size = 0, length;
    uint32_t point;
    FILE *out = open_memstream(&copy, &size);
    for (size_t at = 0; out && at < n; at += length) {
        length = utf8_character(text + at, n - at, &point);
        if (length)
            fwrite(text + at, 1, length, out);
        else
            fputs("\uFFFD", out), length = utf8_malformed_bytes(text + at, n - at);
        if (tokenizer && message_special_at(tokenizer, text + at, n - at)) fputs("\u200B", out);
    }
    json_t *value = text_stream_end(out, &copy) ? json_stringn(copy, size) : NULL;
    free(copy);
    return value;
}
