/* See added_tokens.h. */
#include "datasets/added_tokens.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const struct added_token *x = a, *y = b;
    unsigned char first_x = (unsigned char)x->content[0], first_y = (unsigned char)y->content[0];
    if (first_x != first_y) return first_x < first_y ? -1 : 1;
    if (x->n != y->n) return x->n > y->n ? -1 : 1;
    int order = memcmp(x->content, y->content, x->n);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

enum status added_set_init(struct added_set *set, const struct added_token *tokens, size_t count,
                           bool normalized, struct err *err)
{
    *set = (struct added_set){0};
    if (count && !(set->tokens = calloc(count, sizeof *set->tokens)))
        return err_set(err, STATUS_NO_MEMORY, "not enough memory for %zu added tokens", count);
    for (size_t i = 0; i < count; i++)
        if (tokens[i].normalized == normalized) set->tokens[set->count++] = tokens[i];
    if (set->count) qsort(set->tokens, set->count, sizeof *set->tokens, compare);
    for (size_t i = 0; i < set->count; i++) set->first[(unsigned char)set->tokens[i].content[0] + 1]++;
    for (int b = 0; b < 256; b++) set->first[b + 1] += set->first[b];
    return STATUS_OK;
}

void added_set_release(struct added_set *set)
{
    free(set->tokens);
    *set = (struct added_set){0};
}

const struct added_token *added_set_find(const struct added_set *set, const char *text, size_t n,
                                         size_t start, size_t *where)
{
    if (!set->count) return NULL;
    for (size_t i = start; i < n; i++) {
        unsigned char byte = (unsigned char)text[i];
        for (uint32_t t = set->first[byte]; t < set->first[byte + 1]; t++) {
            const struct added_token *token = &set->tokens[t];
            if (token->n <= n - i && memcmp(token->content, text + i, token->n) == 0) {
                *where = i;
                return token;
            }
        }
    }
    return NULL;
}
