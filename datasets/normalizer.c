/* See normalizer.h. */
#include "datasets/normalizer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "core/base/text.h"

struct buffer {
    char *bytes;
    size_t count, capacity;
};

static bool append(struct buffer *buffer, const void *bytes, size_t n)
{
    if (buffer->capacity - buffer->count < n) {
        size_t capacity = (buffer->count + n) + (buffer->count + n) / 2 + 64;
        char *grown = realloc(buffer->bytes, capacity);
        if (!grown) return false;
        buffer->bytes = grown;
        buffer->capacity = capacity;
    }
    if (n) memcpy(buffer->bytes + buffer->count, bytes, n);
    buffer->count += n;
    return true;
}

static bool append_normalized(struct buffer *buffer, enum normal_form form, const char *text, size_t n)
{
    static const utf8proc_option_t options[] = {
        [NORMAL_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
        [NORMAL_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
        [NORMAL_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
        [NORMAL_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
    };
    utf8proc_uint8_t *made = NULL;
    utf8proc_ssize_t length =
        utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &made, options[form]);
    bool ok = length >= 0 && append(buffer, made, (size_t)length);
    free(made);
    return ok;
}

static size_t ascii_bytes(const char *text, size_t n)
{
    size_t i = 0;
    while (i < n && !(text[i] & 0x80)) i++;
    return i;
}

/* No ASCII character ever combines with what stands before it, so the text may be cut in front of any. */
enum status normalizer_apply(enum normal_form form, const char *text, size_t n, char **out, size_t *out_n,
                             struct err *err)
{
    struct buffer buffer = {0};
    *out = NULL;
    *out_n = 0;
    if (form == NORMAL_NONE || ascii_bytes(text, n) == n) return STATUS_OK;
    bool ok = true;
    for (size_t i = 0; ok && i < n;) {
        size_t plain = ascii_bytes(text + i, n - i);
        size_t keep = i + plain < n && plain ? plain - 1 : plain; /* the last one may be a base for a mark */
        ok = append(&buffer, text + i, keep);
        i += keep;
        size_t end = i + (plain - keep);
        while (end < n && (text[end] & 0x80)) end++;
        size_t valid = utf8_valid_bytes(text + i, end - i);
        if (valid)
            ok = ok && append_normalized(&buffer, form, text + i, valid);
        else if (i < n)
            ok = ok && append(&buffer, text + i, valid = 1);
        i += valid;
    }
    if (!ok) {
        free(buffer.bytes);
        return err_set(err, STATUS_NO_MEMORY, "not enough memory to normalize %zu bytes of text", n);
    }
    *out = buffer.bytes;
    *out_n = buffer.count;
    return STATUS_OK;
}
