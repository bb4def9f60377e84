/* See added_tokens.h. */
#include "datasets/added_tokens.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "core/base/text.h"
#include "datasets/recent_characters.h"

struct added_set {
    size_t count;
    uint32_t first[257];         /* tokens that begin with byte b are first[b] … first[b+1]-1 */
    struct added_token tokens[]; /* by first byte, then longest first */
};

static int by_precedence(const void *a, const void *b)
{
    const struct added_token *x = a, *y = b;
    unsigned char first_x = (unsigned char)x->content[0], first_y = (unsigned char)y->content[0];
    if (first_x != first_y) return first_x < first_y ? -1 : 1;
    if (x->n != y->n) return x->n > y->n ? -1 : 1;
    int order = memcmp(x->content, y->content, x->n);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

struct added_set *added_set_new(struct arena *arena, const struct added_token *tokens, size_t count,
                                bool normalized)
{
    struct added_set *set = arena_alloc(arena, sizeof *set + count * sizeof *set->tokens);
    if (!set) return NULL;
    for (size_t i = 0; i < count; i++)
        if (tokens[i].normalized == normalized) set->tokens[set->count++] = tokens[i];
    qsort(set->tokens, set->count, sizeof *set->tokens, by_precedence);
    for (size_t i = 0; i < set->count; i++) set->first[(unsigned char)set->tokens[i].content[0] + 1]++;
    for (int b = 0; b < 256; b++) set->first[b + 1] += set->first[b];
    return set;
}

/* ---- the characters next to a match ---- */

static bool is_space(uint32_t c)
{
    utf8proc_category_t kind = utf8proc_category((utf8proc_int32_t)c);
    return (kind >= UTF8PROC_CATEGORY_ZS && kind <= UTF8PROC_CATEGORY_ZP) || (c >= 9 && c <= 13) || c == 0x85;
}

/* Rust's \w: Alphabetic, marks, decimal digits, connecting punctuation, and the two joiners. Circled letters
 * are symbols that count as alphabetic. */
static bool is_word(uint32_t c)
{
    utf8proc_category_t kind = utf8proc_category((utf8proc_int32_t)recent_like(c));
    bool circled = (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
                   (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
    return (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_NL) || kind == UTF8PROC_CATEGORY_PC ||
           c == 0x200C || c == 0x200D || circled;
}

/* Whether the characters before text[from..to) and after it allow a match of a single word. */
static bool stands_alone(const char *text, size_t n, size_t from, size_t to)
{
    uint32_t before = ' ', after = ' ';
    if (!utf8_last_character(text, from, &before)) before = ' ';
    if (!utf8_character(text + to, n - to, &after)) after = ' ';
    return !is_word(before) && !is_word(after);
}

/* ---- searching ---- */

static const struct added_token *find(const struct added_set *set, const char *text, size_t n, size_t *at)
{
    for (size_t i = *at; set->count && i < n; i++) {
        unsigned char byte = (unsigned char)text[i];
        for (uint32_t t = set->first[byte]; t < set->first[byte + 1]; t++) {
            const struct added_token *token = &set->tokens[t];
            if (token->n > n - i || memcmp(token->content, text + i, token->n) != 0) continue;
            *at = i;
            return token;
        }
    }
    return NULL;
}

void added_set_next(const struct added_set *set, const char *text, size_t n, struct added_match *match)
{
    size_t taken = match->to, at = match->next, length;
    const struct added_token *token;
    uint32_t point;
    while ((token = find(set, text, n, &at)) && token->single_word &&
           !stands_alone(text, n, at, at + token->n))
        at += token->n;
    *match = (struct added_match){token, n, n, n};
    if (!token) return;
    match->from = at;
    match->to = match->next = at + token->n;
    while (token->lstrip && match->from > taken &&
           (length = utf8_last_character(text, match->from, &point)) && is_space(point))
        match->from -= length;
    while (token->rstrip && (length = utf8_character(text + match->to, n - match->to, &point)) &&
           is_space(point))
        match->to += length;
    /* The one before took white space that begins this one. What it took behind this one is encoded again, as
     * Hugging Face's library does. */
    if (match->from < taken) match->from = taken;
}
