/* See pretokenizer.h. */
#include "datasets/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <assert.h>
#include <ctype.h>
#include <pcre2.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "datasets/recent_characters.h"

/* ---- compiling ---- */

enum { INVALID_PIECE = 256, JIT_STACK_BYTES = 1 << 20, HEAP_LIMIT_KIB = 64 << 10 };

struct stage {
    const char *pattern;
    pcre2_code *code;
    bool jit;
};

struct pretokenizer {
    struct stage stages[PRETOKENIZER_STAGES];
    size_t count;
    bool recent_page[RECENT_PAGES]; /* see recent_pages */
};

struct pretokenizer_scratch {
    pcre2_match_data *match; /* for one search at a time: all stages share it */
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

/* Whether the property named by the n bytes is a script, such as Han. */
static bool is_script(const char *name, size_t n)
{
    char pattern[64];
    int code;
    PCRE2_SIZE where;
    if (snprintf(pattern, sizeof pattern, "\\p{sc:%.*s}", (int)n, name) >= (int)sizeof pattern) return false;
    pcre2_code *compiled =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &code, &where, NULL);
    pcre2_code_free(compiled);
    return compiled != NULL;
}

/* Oniguruma's \w: in brackets, and elsewhere. */
#define IN_BRACKETS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define ELSEWHERE   IN_BRACKETS "\\xB2\\xB3\\xB9\\xBC-\\xBE"
#define WORD        "[" ELSEWHERE "]"
#define NO_WORD     "[^" ELSEWHERE "]"

/* How PCRE2 spells Oniguruma's \LETTER; NULL: no other way. PCRE2's \s and \S include U+180E, its
 * \w lacks marks and has all numbers. */
static const char *spell_escape(char letter, bool in_brackets)
{
    switch (letter) {
    case 's':
        return "\\p{White_Space}";
    case 'S':
        return "\\P{White_Space}";
    case 'w':
        return in_brackets ? IN_BRACKETS : WORD;
    case 'W':
        return in_brackets ? NULL : NO_WORD;
    case 'b':
        return in_brackets ? NULL : "(?:(?<=" WORD ")(?!" WORD ")|(?<!" WORD ")(?=" WORD "))";
    case 'B':
        return in_brackets ? NULL : "(?:(?<=" WORD ")(?=" WORD ")|(?<!" WORD ")(?!" WORD "))";
    default:
        return NULL;
    }
}

/* Whether \LETTER, where spell_escape is NULL, means the same to both. */
static bool is_common_escape(const char *letter, bool in_brackets)
{
    if (*letter == 'p' || *letter == 'P') return letter[1] == '{';
    if (*letter == 'W' || *letter == 'B') return false;
    return !isalpha((unsigned char)*letter) ||
           strchr(in_brackets ? "abdDefnrtx" : "aAdDefgGkKnNrRtxXzZ", *letter);
}

/* How many bytes at c are {2}, {2,} or {2,3}; 0: none. */
static size_t interval_bytes(const char *c)
{
    size_t n = 1 + strspn(c + 1, "0123456789");
    if (*c != '{' || n == 1) return 0;
    if (c[n] == ',') n += 1 + strspn(c + n + 1, "0123456789");
    return c[n] == '}' ? n + 1 : 0;
}

/* Writes the pattern as Oniguruma, which Hugging Face uses, reads it. Its \p{Han}, other than PCRE2's, is
 * without the characters that several scripts share, such as the full stop of Chinese. PCRE2 before 10.40
 * knows scripts alone and cannot name other properties: there they are left as they are. STATUS_FAILED: err
 * is a part that the two read otherwise. */
static enum status spell(const char *pattern, FILE *out, struct err *err)
{
    static const bool known = PCRE2_MAJOR > 10 || PCRE2_MINOR >= 40;
    bool in_brackets = false;
    for (const char *c = pattern; *c; c++) {
        size_t interval = in_brackets ? 0 : interval_bytes(c);
        if (interval && (c[interval] == '+' || (c[interval] == '?' && !memchr(c, ',', interval))))
            return err_set(err, STATUS_FAILED, "{n} followed by + or ?");
        if (!in_brackets && *c == '{' && c[1] == ',') return err_set(err, STATUS_FAILED, "{,n}");
        size_t flags = !in_brackets && strncmp(c, "(?", 2) == 0 ? strspn(c + 2, "imnsx-") : 0;
        if (flags && strchr(":)", c[2 + flags]) && memchr(c + 2, 'm', flags))
            return err_set(err, STATUS_FAILED, "(?m)");
        if (in_brackets && (*c == '[' || strncmp(c, "&&", 2) == 0))
            return err_set(err, STATUS_FAILED, "[ or && in brackets");
        if (*c == '[') {
            in_brackets = true;
            if (c[1] == '^') fputc(*c++, out);
            if (c[1] == ']') fputc(*c++, out); /* a member */
        } else if (*c == ']') {
            in_brackets = false;
        }
        if (*c != '\\' || !c[1]) {
            fputc(*c, out);
            continue;
        }
        const char *other = spell_escape(*++c, in_brackets);
        if (!other && !is_common_escape(c, in_brackets)) return err_set(err, STATUS_FAILED, "\\%c", *c);
        if (other && known) {
            fputs(other, out);
            continue;
        }
        fprintf(out, "\\%c", *c);
        if (!known || (*c != 'p' && *c != 'P')) continue;
        fputc(*++c, out);
        if (c[1] == '^') fputc(*++c, out);
        if (is_script(c + 1, strcspn(c + 1, "}"))) fputs("sc:", out);
    }
    return STATUS_OK;
}

static enum status compile(const char *pattern, const char *name, struct stage *stage, struct err *err)
{
    int code;
    PCRE2_SIZE where;
    char *spelled = NULL;
    size_t n;
    struct err other;
    stage->pattern = pattern;
    FILE *out = open_memstream(&spelled, &n);
    enum status status = out ? spell(pattern, out, &other) : STATUS_NO_MEMORY;
    if (out && fclose(out) != 0) status = STATUS_NO_MEMORY;
    if (!status) {
        /* Oniguruma lets ^ and $ match at every line. PCRE2 10.42 takes the + of \P{Latin}+\P{Han} for
         * possessive */
        uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
        if (strstr(spelled, "sc:")) options |= PCRE2_NO_AUTO_POSSESS;
        stage->code = pcre2_compile((PCRE2_SPTR)spelled, n, options, &code, &where, NULL);
    }
    free(spelled);
    if (status == STATUS_NO_MEMORY) return err_no_memory(err, "the split patterns of %s", name);
    if (status)
        return err_set(err, status, "%s: the split pattern \"%.200s\" has %s, which is not supported", name,
                       pattern, other.text);
    if (!stage->code) {
        PCRE2_UCHAR why[128];
        pcre2_get_error_message(code, why, sizeof why);
        return err_set(err, STATUS_FAILED, "%s: the split pattern \"%.200s\" does not compile: %s", name,
                       pattern, why);
    }
    stage->jit =
        pcre2_jit_compile(stage->code, PCRE2_JIT_COMPLETE) == 0; /* hardened kernels may not allow it */
    return STATUS_OK;
}

enum status pretokenizer_new(const char *const *patterns, size_t count, const char *name,
                             struct pretokenizer **out, struct err *err)
{
    assert(count <= PRETOKENIZER_STAGES);
    struct pretokenizer *made = calloc(1, sizeof *made);
    if (!made) return err_no_memory(err, "the split patterns of %s", name);
    recent_pages(made->recent_page);
    enum status status = STATUS_OK;
    while (!status && made->count < count) {
        status = compile(patterns[made->count], name, &made->stages[made->count], err);
        made->count++;
    }
    if (status)
        pretokenizer_free(made);
    else
        *out = made;
    return status;
}

void pretokenizer_free(struct pretokenizer *pretokenizer)
{
    if (!pretokenizer) return;
    for (size_t i = 0; i < pretokenizer->count; i++) pcre2_code_free(pretokenizer->stages[i].code);
    free(pretokenizer);
}

enum status pretokenizer_scratch_new(struct pretokenizer_scratch **out, struct err *err)
{
    struct pretokenizer_scratch *made = calloc(1, sizeof *made);
    if (made) made->match = pcre2_match_data_create(1, NULL);
    if (made) made->context = pcre2_match_context_create(NULL);
    if (!made || !made->match || !made->context) {
        pretokenizer_scratch_free(made);
        return err_no_memory(err, "splitting text");
    }
    /* without this stack JIT uses 32 KiB of the thread's */
    made->stack = pcre2_jit_stack_create(32 << 10, JIT_STACK_BYTES, NULL);
    if (made->stack) pcre2_jit_stack_assign(made->context, NULL, made->stack);
    pcre2_set_heap_limit(made->context, HEAP_LIMIT_KIB);
    *out = made;
    return STATUS_OK;
}

void pretokenizer_scratch_free(struct pretokenizer_scratch *scratch)
{
    if (!scratch) return;
    pcre2_match_data_free(scratch->match);
    pcre2_match_context_free(scratch->context);
    pcre2_jit_stack_free(scratch->stack);
    free(scratch);
}

/* ---- splitting ---- */

struct splitting {
    const struct pretokenizer *pretokenizer;
    struct pretokenizer_scratch *scratch;
    const char *text, *seen; /* a run of valid text, and what patterns see, of the same length */
    piece_visitor visit;
    void *context;
    struct err *err;
};

static int search(const struct stage *stage, const struct pretokenizer_scratch *scratch, const char *text,
                  size_t n, size_t start)
{
    int count = PCRE2_ERROR_JIT_STACKLIMIT;
    PCRE2_SPTR subject = (PCRE2_SPTR)text;
    if (stage->jit)
        count = pcre2_jit_match(stage->code, subject, n, start, 0, scratch->match, scratch->context);
    if (count == PCRE2_ERROR_JIT_STACKLIMIT)
        count = pcre2_match(stage->code, subject, n, start, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, scratch->match,
                            scratch->context);
    return count;
}

/* text is valid UTF-8, n > 0. */
static enum status split_stage(const struct splitting *s, size_t at, const char *text, size_t n)
{
    if (at == s->pretokenizer->count) return s->visit(s->context, s->text + (text - s->seen), n, s->err);
    const struct stage *stage = &s->pretokenizer->stages[at];
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(s->scratch->match);
    size_t done = 0, start = 0; /* bytes passed to visit; where to search from */
    uint32_t point;
    enum status status = STATUS_OK;
    while (start < n) {
        int count = search(stage, s->scratch, text, n, start);
        if (count == PCRE2_ERROR_NOMATCH) break;
        if (count < 0)
            return err_set(s->err, STATUS_FAILED,
                           "the tokenizer's split pattern \"%.200s\" failed on this text (PCRE2 error %d)",
                           stage->pattern, count);
        size_t from = ends[0], to = ends[1];
        if (from < done || to < from) from = to = start; /* \K tricks: treat as an empty match */
        if (from > done && (status = split_stage(s, at + 1, text + done, from - done))) return status;
        if (to > from && (status = split_stage(s, at + 1, text + from, to - from))) return status;
        done = to;
        start = to > from ? to : to + (to < n ? utf8_character(text + to, n - to, &point) : 1);
    }
    return done < n ? split_stage(s, at + 1, text + done, n - done) : STATUS_OK;
}

/* Sets *out to a copy of valid text with an older character for each recent one, which the caller frees;
 * NULL: it has none. */
static enum status spell_older(const struct pretokenizer *p, const char *text, size_t n, char **out,
                               struct err *err)
{
    *out = NULL;
    for (size_t at = 0, length; at < n; at += length) {
        uint32_t point, left;
        uint64_t eight = UINT64_MAX;
        if (n - at >= sizeof eight) memcpy(&eight, text + at, sizeof eight);
        length = sizeof eight;
        if (!(eight & 0x8080808080808080u)) continue; /* ASCII */
        length = 1;
        if ((unsigned char)text[at] < 0xE0) continue; /* one byte, or one of two */
        length = utf8_character(text + at, n - at, &point);
        if (!p->recent_page[point >> 8] || (left = recent_like(point)) == point) continue;
        if (!*out && !(*out = malloc(n))) return err_no_memory(err, "splitting %zu bytes of text", n);
        if (*out != text) memcpy(*out, text, n);
        text = *out;
        for (size_t k = length; k-- > 0; left >>= 6)
            (*out)[at + k] = (char)(k ? 0x80 | (left & 0x3F) : (length == 3 ? 0xE0 : 0xF0) | left);
    }
    return STATUS_OK;
}

/* Splits a run of valid text. */
static enum status split_run(struct splitting *s, const char *text, size_t n)
{
    char *older = NULL;
    enum status status = STATUS_OK;
    if (s->pretokenizer->count) status = spell_older(s->pretokenizer, text, n, &older, s->err);
    s->text = text;
    s->seen = older ? older : text;
    if (!status) status = split_stage(s, 0, s->seen, n);
    free(older);
    return status;
}

enum status pretokenizer_split(const struct pretokenizer *pretokenizer, struct pretokenizer_scratch *scratch,
                               const char *text, size_t n, piece_visitor visit, void *context,
                               struct err *err)
{
    struct splitting s = {
        .pretokenizer = pretokenizer, .scratch = scratch, .visit = visit, .context = context, .err = err};
    for (size_t i = 0; i < n;) {
        enum status status;
        uint32_t point;
        size_t valid = utf8_valid_bytes(text + i, n - i), invalid = 0;
        if (valid && (status = split_run(&s, text + i, valid))) return status;
        i += valid;
        while (i + invalid < n && invalid < INVALID_PIECE &&
               !utf8_character(text + i + invalid, n - i - invalid, &point))
            invalid++;
        if (invalid && (status = visit(context, text + i, invalid, err))) return status;
        i += invalid;
    }
    return STATUS_OK;
}
