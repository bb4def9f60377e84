/* Cuts a Jinja template into tokens, as jinja2's lexer does with trim_blocks and lstrip_blocks: see jinja.h.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "datasets/jinja.h"

struct lexer {
    struct jinja *j;
    struct text s; /* the source */
    size_t at, counted;
    bool line_start; /* whether the text before s.at ends a line */
    struct token *tokens;
    size_t count, capacity;
};

void jinja_syntax(struct jinja *j, const char *what, struct text near)
{
    const char *quote = near.n ? "'" : "";
    jinja_fail(j, STATUS_CORRUPT, "%s%s%s%s%s (is this a Jinja template?)", what, near.n ? " " : "", quote,
               SHOWN(near), quote);
}

static int line_here(struct lexer *p)
{
    for (; p->counted < p->at; p->counted++) p->j->line += p->s.at[p->counted] == '\n';
    return p->j->line;
}

static void emit(struct lexer *p, struct token token)
{
    token.line = p->j->line;
    if (p->count == p->capacity) {
        size_t capacity = p->capacity ? 2 * p->capacity : 256;
        struct token *grown = jinja_alloc(p->j, capacity, sizeof *grown);
        if (!grown) return;
        if (p->count) memcpy(grown, p->tokens, p->count * sizeof *grown);
        p->tokens = grown, p->capacity = capacity;
    }
    p->tokens[p->count++] = token;
}

static bool source_has(const struct lexer *p, size_t at, const char *word)
{
    size_t n = strlen(word);
    return at <= p->s.n && p->s.n - at >= n && memcmp(p->s.at + at, word, n) == 0;
}

static char source_at(const struct lexer *p, size_t at)
{
    return at < p->s.n ? p->s.at[at] : 0;
}

static void skip_space(struct lexer *p)
{
    uint32_t point;
    for (size_t n; p->at < p->s.n; p->at += n) {
        n = text_character(p->s, p->at, &point);
        if (!text_is_space(point)) return;
    }
}

/* Passes the end of a tag if it is here: "-%}" and the white space behind it, "+%}", "%}" and one newline. */
static bool skip_close(struct lexer *p, const char *close)
{
    char sign = source_at(p, p->at);
    bool variable = close[0] == '}';
    size_t from = p->at + (sign == '-' || (sign == '+' && !variable));
    if (!source_has(p, from, close)) return false;
    bool bare = from == p->at;
    p->at = from + 2;
    if (sign == '-')
        skip_space(p);
    else if (bare && !variable && source_at(p, p->at) == '\n')
        p->at++;
    p->line_start = p->s.at[p->at - 1] == '\n';
    return true;
}

static void put_character(struct lexer *p, struct buffer *out, uint32_t point)
{
    char c[4];
    size_t n = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    if (point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) {
        jinja_syntax(p->j, "an escape in a string is not a character", (struct text){0});
        return;
    }
    for (size_t i = n - 1; i > 0; i--, point >>= 6) c[i] = (char)(0x80 | (point & 0x3F));
    c[0] = (char)(n == 1 ? point : (0xF0U << (4 - n)) | point);
    buffer_put(p->j, out, (struct text){c, n});
}

/* Decodes the escape behind a backslash as Python does; p->at is behind the backslash. */
static void lex_escape(struct lexer *p, struct buffer *out)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = source_at(p, p->at);
    const char *known = c ? strchr(from, c) : NULL;
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t point = 0;
    if (known) {
        p->at++;
        buffer_put(p->j, out, (struct text){to + (known - from), 1});
    } else if (c == '\n') {
        p->at++;
    } else if (digits) {
        for (size_t i = 1; i <= digits; i++) {
            char digit = source_at(p, p->at + i);
            if (!isxdigit((unsigned char)digit)) {
                jinja_syntax(p->j, "an escape in a string needs more digits", (struct text){0});
                return;
            }
            point = point * 16 + (uint32_t)(digit <= '9' ? digit - '0' : (digit | 32) - 'a' + 10);
        }
        p->at += 1 + digits;
        put_character(p, out, point);
    } else if (c >= '0' && c <= '7') {
        for (int i = 0; i < 3 && source_at(p, p->at) >= '0' && source_at(p, p->at) <= '7'; i++)
            point = point * 8 + (uint32_t)(p->s.at[p->at++] - '0');
        put_character(p, out, point);
    } else if (c == 'N') {
        JINJA_REFUSE(p->j, "a character by its name (\\N{…}) is not supported");
    } else {
        buffer_put(p->j, out, TEXT("\\"));
    }
}

static void lex_string(struct lexer *p)
{
    struct buffer out = {0};
    size_t start = p->at;
    char quote = p->s.at[p->at++];
    while (!p->j->status && p->at < p->s.n && p->s.at[p->at] != quote) {
        size_t from = p->at;
        while (p->at < p->s.n && p->s.at[p->at] != quote && p->s.at[p->at] != '\\') p->at++;
        buffer_put(p->j, &out, (struct text){p->s.at + from, p->at - from});
        if (source_at(p, p->at) == '\\') p->at++, lex_escape(p, &out);
    }
    if (p->at >= p->s.n)
        jinja_syntax(p->j, "a string has no end:", (struct text){p->s.at + start, p->s.n - start});
    p->at++;
    emit(p, (struct token){TOKEN_CONST, 0, {p->s.at + start, 1}, buffer_value(&out)});
}

static void lex_number(struct lexer *p)
{
    char digits[64];
    size_t n = 0, start = p->at;
    bool real = false, attribute = start > 0 && p->s.at[start - 1] == '.';
    for (char c; (c = source_at(p, p->at)), n < sizeof digits - 1; p->at++) {
        char after = source_at(p, p->at + 1);
        bool point = c == '.' && !real && !attribute && isdigit((unsigned char)after);
        bool exponent =
            (c == 'e' || c == 'E') && (isdigit((unsigned char)after) || after == '-' || after == '+');
        bool sign = (c == '-' || c == '+') && p->at > start && (p->s.at[p->at - 1] | 32) == 'e';
        if (c == '_' && isdigit((unsigned char)after)) continue;
        if (!isdigit((unsigned char)c) && !point && !exponent && !sign) break;
        real = real || point || exponent;
        digits[n++] = c;
    }
    digits[n] = 0;
    struct token token = {TOKEN_CONST, 0, {p->s.at + start, p->at - start}, value_int(0)};
    char next = source_at(p, p->at);
    char *end;
    errno = 0;
    if (real)
        token.value = (struct value){.kind = VALUE_REAL, .real = strtod(digits, &end)};
    else
        token.value.whole = strtoll(digits, &end, 10);
    if (errno == ERANGE || *end || isalnum((unsigned char)next) || next == '_' ||
        (!real && n > 1 && digits[0] == '0'))
        JINJA_REFUSE(p->j, "the number '%s…' is not supported", SHOWN(token.text));
    emit(p, token);
}

/* Reads what is between the ends of a tag, and its end `close`. */
static void lex_expression(struct lexer *p, const char *close)
{
    static const char *const signs[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ","};
    char open[JINJA_DEPTH_MAX]; /* brackets */
    size_t depth = 0, i;
    for (skip_space(p), line_here(p); !p->j->status; skip_space(p), line_here(p)) {
        char c = source_at(p, p->at);
        struct token token = {TOKEN_SIGN, 0, {close, 2}, {0}};
        if (p->at >= p->s.n) {
            jinja_syntax(p->j, "a tag has no end; expected", token.text);
        } else if (!depth && skip_close(p, close)) {
            emit(p, token);
            return;
        } else if (isalpha((unsigned char)c) || c == '_') {
            size_t from = p->at;
            while (isalnum((unsigned char)source_at(p, p->at)) || source_at(p, p->at) == '_') p->at++;
            emit(p, (struct token){TOKEN_NAME, 0, {p->s.at + from, p->at - from}, {0}});
        } else if (isdigit((unsigned char)c)) {
            lex_number(p);
        } else if (c == '"' || c == '\'') {
            lex_string(p);
        } else {
            for (i = 0; i < sizeof signs / sizeof *signs && !source_has(p, p->at, signs[i]); i++) continue;
            if (i == sizeof signs / sizeof *signs) {
                jinja_syntax(p->j, "unexpected",
                             (struct text){p->s.at + p->at, p->s.n - p->at < 8 ? p->s.n - p->at : 8});
                return;
            }
            token.text = (struct text){signs[i], strlen(signs[i])};
            if (strchr("([{", c) && depth < sizeof open)
                open[depth++] = c == '(' ? ')' : c == '[' ? ']' : '}';
            else if (strchr("([{", c))
                JINJA_REFUSE(p->j, "nested more than %d deep", JINJA_DEPTH_MAX);
            else if (strchr(")]}", c) && (!depth || open[--depth] != c))
                jinja_syntax(p->j, "unexpected", token.text);
            p->at += token.text.n;
            emit(p, token);
        }
    }
}

/* Where the next tag begins, or the end of the source. */
static size_t find_tag(const struct lexer *p)
{
    size_t at = p->at;
    while (at < p->s.n && !(p->s.at[at] == '{' && source_at(p, at + 1) && strchr("{%#", p->s.at[at + 1])))
        at++;
    return at;
}

/* The text before a tag, without what the tag's sign or lstrip_blocks remove from its end. */
static struct text data_before(const struct lexer *p, struct text text, char mark, char sign)
{
    if (sign == '-') return text_strip(text, NULL, false, true);
    if (sign == '+' || mark == '{') return text;
    const char *newline = text.n ? memrchr(text.at, '\n', text.n) : NULL;
    size_t line = newline ? (size_t)(newline - text.at) + 1 : 0;
    struct text rest = {text.at + line, text.n - line};
    if ((line || p->line_start) && !text_strip(rest, NULL, false, true).n) text.n = line;
    return text;
}

static void lex(struct lexer *p)
{
    p->line_start = true;
    while (!p->j->status && p->at < p->s.n) {
        size_t open = find_tag(p);
        bool tag = open < p->s.n, closed;
        char mark = source_at(p, open + 1), sign = source_at(p, open + 2);
        struct text data = {p->s.at + p->at, open - p->at};
        if (tag) data = data_before(p, data, mark, sign);
        if (data.n) emit(p, (struct token){TOKEN_DATA, 0, data, value_string(data)});
        p->at = open;
        line_here(p);
        if (!tag) break;
        p->at += 2 + (sign == '-' || sign == '+');
        if (mark == '#') {
            while (!(closed = skip_close(p, "#}")) && p->at < p->s.n) p->at++;
            if (!closed) jinja_syntax(p->j, "a comment has no end; expected", TEXT("#}"));
        } else {
            emit(p, (struct token){TOKEN_SIGN, 0, {mark == '{' ? "{{" : "{%", 2}, {0}});
            lex_expression(p, mark == '{' ? "}}" : "%}");
        }
    }
    line_here(p);
    emit(p, (struct token){TOKEN_END, 0, TEXT("the end of the template"), {0}});
}

const struct token *jinja_lex(struct jinja *j, struct text source)
{
    j->line = 1;
    if (source.n > JINJA_TEMPLATE_MAX)
        JINJA_REFUSE(j, "the template is larger than 1 MiB");
    else if (utf8_valid_bytes(source.at, source.n) < source.n)
        jinja_fail(j, STATUS_CORRUPT, "the template is not valid UTF-8");
    char *copy = jinja_alloc(j, source.n + 1, 1);
    struct lexer p = {.j = j, .s = {copy, 0}};
    if (!copy) return NULL;
    for (size_t i = 0; i < source.n; i++) { /* line ends as jinja2 takes them */
        if (source.at[i] == '\r' && i + 1 < source.n && source.at[i + 1] == '\n') continue;
        copy[p.s.n++] = source.at[i] == '\r' ? '\n' : source.at[i];
    }
    if (p.s.n && copy[p.s.n - 1] == '\n') p.s.n--;
    lex(&p);
    return p.tokens;
}
