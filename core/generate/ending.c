/* See ending.h. */
#include "core/generate/ending.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/text.h"

const char *const end_reason_words[] = {"", "eos", "stop", "length", "context"};

static bool is_end_token(const struct special_tokens *special, uint32_t token)
{
    for (int i = 0; i < special->eos_count; i++)
        if (special->eos[i] == (int64_t)token) return true;
    return false;
}

/* How many of the last bytes are the beginning of `stop`, at most all but one of it. */
static size_t begun(const char *bytes, size_t n, const char *stop)
{
    size_t length = strlen(stop), most = length ? length - 1 : 0;
    for (size_t k = n < most ? n : most; k > 0; k--)
        if (memcmp(bytes + n - k, stop, k) == 0) return k;
    return 0;
}

enum status growing_text_add(struct growing_text *t, const struct ending *ending,
                             const struct tokenizer *tokenizer, uint32_t token, struct err *err)
{
    size_t more, length = strlen(ending->stop);
    t->tokens++;
    if (is_end_token(ending->special, token)) {
        t->end = END_TOKEN;
        t->final = t->n;
        return STATUS_OK;
    }
    const char *bytes = tokenizer_token_bytes(tokenizer, token, &more);
    if (ending->plain && tokenizer_is_special(tokenizer, token)) more = 0;
    if (!list_reserve(&t->bytes, t->n, more, &t->capacity, 1))
        return err_no_memory(err, "the text, after %zu bytes", t->n);
    size_t from = t->n < length ? 0 : t->n - length; /* the stop text may have begun before this token */
    if (more) memcpy(t->bytes + t->n, bytes, more);
    t->n += more;
    const char *found = length && t->n ? memmem(t->bytes + from, t->n - from, ending->stop, length) : NULL;
    if (found) {
        t->n = (size_t)(found - t->bytes);
        t->end = END_STOP_TEXT;
    } else if (t->tokens >= ending->max_tokens) {
        t->end = END_LENGTH;
    }
    size_t held = t->end ? 0 : begun(t->bytes, t->n, ending->stop);
    size_t incomplete = t->end || !t->n ? 0 : utf8_incomplete_tail(t->bytes, t->n);
    size_t final = t->n - (held > incomplete ? held : incomplete);
    if (final > t->final || t->end) t->final = final;
    return STATUS_OK;
}

void growing_text_release(struct growing_text *t)
{
    free(t->bytes);
    *t = (struct growing_text){0};
}
