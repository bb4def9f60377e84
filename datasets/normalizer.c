/* See normalizer.h. */
#include "datasets/normalizer.h"

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
    if (!list_reserve(&buffer->bytes, buffer->count, n, &buffer->capacity, 1)) return false;
    if (n) memcpy(buffer->bytes + buffer->count, bytes, n);
    buffer->count += n;
    return true;
}

/* ---- normal forms ---- */

static bool append_normalized(struct buffer *buffer, enum normal_step_kind form, const char *text, size_t n)
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

/* No ASCII character combines with the one before it, so the text may be split before any ASCII character. */
static bool append_form(struct buffer *buffer, enum normal_step_kind form, const char *text, size_t n)
{
    bool ok = true;
    for (size_t i = 0; ok && i < n;) {
        size_t plain = ascii_bytes(text + i, n - i);
        size_t keep = i + plain < n && plain ? plain - 1 : plain; /* a mark may follow the last one */
        ok = append(buffer, text + i, keep);
        i += keep;
        size_t end = i + (plain - keep);
        while (end < n && (text[end] & 0x80)) end++;
        size_t valid = utf8_valid_bytes(text + i, end - i);
        if (valid)
            ok = ok && append_normalized(buffer, form, text + i, valid);
        else if (i < n)
            ok = ok && append(buffer, text + i, valid = 1);
        i += valid;
    }
    return ok;
}

/* ---- steps ---- */

static bool append_replaced(struct buffer *buffer, const char *from, const char *to, const char *text,
                            size_t n)
{
    size_t from_n = strlen(from), to_n = strlen(to);
    bool ok = true;
    for (const char *found; ok && n && (found = memmem(text, n, from, from_n));) {
        size_t before = (size_t)(found - text);
        ok = append(buffer, text, before) && append(buffer, to, to_n);
        text += before + from_n;
        n -= before + from_n;
    }
    return ok && append(buffer, text, n);
}

static bool changes(const struct normal_step *step, const char *text, size_t n)
{
    if (step->kind == NORMAL_PREPEND) return n && *step->to;
    if (step->kind == NORMAL_REPLACE) return n && memmem(text, n, step->from, strlen(step->from));
    return ascii_bytes(text, n) < n;
}

enum status normalizer_apply(const struct normalizer *normalizer, const char *text, size_t n, char **out,
                             size_t *out_n, struct err *err)
{
    struct buffer now = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < normalizer->count; i++) {
        const struct normal_step *step = &normalizer->steps[i];
        const char *from = now.bytes ? now.bytes : text;
        size_t size = now.bytes ? now.count : n;
        struct buffer next = {0};
        if (!changes(step, from, size)) continue;
        if (step->kind == NORMAL_PREPEND)
            ok = append(&next, step->to, strlen(step->to)) && append(&next, from, size);
        else if (step->kind == NORMAL_REPLACE)
            ok = append_replaced(&next, step->from, step->to, from, size);
        else
            ok = append_form(&next, step->kind, from, size);
        if (ok && !next.bytes) ok = append(&next, "", 1), next.count = 0; /* nothing is left: not NULL */
        free(now.bytes);
        now = next;
    }
    if (!ok) {
        free(now.bytes);
        now = (struct buffer){0};
    }
    *out = now.bytes;
    *out_n = now.count;
    return ok ? STATUS_OK : err_no_memory(err, "normalizing %zu bytes of text", n);
}

enum status space_rule_apply(const struct space_rule *rule, bool first, const char *text, size_t n,
                             char **out, size_t *out_n, struct err *err)
{
    struct normalizer steps = {0};
    size_t length = rule->prefix ? strlen(rule->prefix) : 0;
    bool begins = n && (*text == ' ' || (length && n >= length && memcmp(text, rule->prefix, length) == 0));
    if (rule->space) steps.steps[steps.count++] = (struct normal_step){NORMAL_REPLACE, " ", rule->space};
    if (length && !begins && (first || !rule->first_only))
        steps.steps[steps.count++] = (struct normal_step){NORMAL_PREPEND, NULL, rule->prefix};
    return normalizer_apply(&steps, text, n, out, out_n, err);
}
