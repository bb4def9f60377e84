/* Cuts a Jinja template into tokens, as jinja2's lexer does with trim_blocks and lstrip_blocks: see jinja.h.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

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

static void count_lines(struct lexer *p)
{
    for (; p->counted < p->at; p->counted++) p->j->line += p->s.at[p->counted] == '\n';
}

static void emit(struct lexer *p, struct token token)
{
    token.line = p->j->line;
    p->tokens = jinja_room(p->j, p->tokens, p->count, 1, &p->capacity, sizeof token);
    p->tokens[p->count++] = token;
}

static struct text source_from(const struct lexer *p, size_t from)
{
    return (struct text){p->s.at + from, p->at - from};
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
    p->at =
        (size_t)(text_strip((struct text){p->s.at + p->at, p->s.n - p->at}, NULL, true, false).at - p->s.at);
}

/* Passes the end of a tag if it is here: "-%}" and the white space behind it, "+%}", "%}" and one newline. */
static bool skip_close(struct lexer *p, const char *close)
{
    char sign = source_at(p, p->at);
    bool variable = close[0] == '}', bare = sign != '-' && (sign != '+' || variable);
    if (!source_has(p, p->at + !bare, close)) return false;
    p->at += 2 + !bare;
    if (sign == '-')
        skip_space(p);
    else if (bare && !variable && source_at(p, p->at) == '\n')
        p->at++;
    p->line_start = p->s.at[p->at - 1] == '\n';
    return true;
}

/* Decodes the escape behind a backslash as Python does; p->at is behind the backslash. */
static void lex_escape(struct lexer *p, struct buffer *out)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = source_at(p, p->at++);
    const char *known = c ? strchr(from, c) : NULL;
    int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (known) {
        buffer_put(p->j, out, (struct text){to + (known - from), 1});
    } else if (digits) {
        uint32_t point = 0; /* of up to 32 bits */
        utf8proc_uint8_t bytes[4];
        for (int i = 0; i < digits; i++) {
            char digit = source_at(p, p->at++);
            if (!isxdigit((unsigned char)digit))
                jinja_syntax(p->j, "an escape in a string is not a character", TEXT(""));
            point = point * 16 + (uint32_t)(digit <= '9' ? digit - '0' : (digit | 32) - 'a' + 10);
        }
        if (!utf8proc_codepoint_valid((utf8proc_int32_t)point))
            jinja_syntax(p->j, "an escape in a string is not a character", TEXT(""));
        size_t n = (size_t)utf8proc_encode_char((utf8proc_int32_t)point, bytes);
        buffer_put(p->j, out, (struct text){(const char *)bytes, n});
    } else if (c == 'N' || c == '\n' || isdigit((unsigned char)c)) {
        JINJA_REFUSE(p->j, "the escape \\%c in a string is not supported", c == '\n' ? ' ' : c);
    } else {
        p->at--;
        buffer_put(p->j, out, TEXT("\\"));
    }
}

static void lex_string(struct lexer *p)
{
    struct buffer out = {0};
    size_t start = p->at;
    char quote = p->s.at[p->at++];
    while (source_at(p, p->at) != quote) {
        size_t from = p->at;
        while (p->at < p->s.n && p->s.at[p->at] != quote && p->s.at[p->at] != '\\') p->at++;
        if (p->at >= p->s.n)
            jinja_syntax(p->j, "a string has no end:", (struct text){p->s.at + start, p->s.n - start});
        buffer_put(p->j, &out, source_from(p, from));
        if (p->s.at[p->at] == '\\') p->at++, lex_escape(p, &out);
    }
    p->at++;
    emit(p, (struct token){TOKEN_CONST, 0, {p->s.at + start, 1}, buffer_value(&out)});
}

static void skip_digits(struct lexer *p)
{
    while (isdigit((unsigned char)source_at(p, p->at))) p->at++;
}

static void lex_number(struct lexer *p)
{
    char digits[32];
    size_t start = p->at;
    skip_digits(p);
    bool real = source_at(p, p->at) == '.' && isdigit((unsigned char)source_at(p, p->at + 1)) &&
                p->s.at[start - 1] != '.';
    if (real) p->at++, skip_digits(p);
    struct text text = source_from(p, start);
    char next = source_at(p, p->at);
    snprintf(digits, sizeof digits, "%.*s", (int)(text.n < sizeof digits ? text.n : 0), text.at);
    struct value value = value_int(0);
    bool known = !isalnum((unsigned char)next) && next != '_' && (real || text.n == 1 || digits[0] != '0') &&
                 (real || text_parse_int(digits, &value.whole));
    if (real) value = (struct value){.kind = VALUE_REAL, .real = strtod(digits, NULL)};
    if (!known || !*digits) JINJA_REFUSE(p->j, "the number '%s…' is not supported", SHOWN(text));
    emit(p, (struct token){TOKEN_CONST, 0, text, value});
}

static const char *sign_at(struct lexer *p)
{
    static const char *const signs[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ","};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (source_has(p, p->at, signs[i])) return signs[i];
    jinja_syntax(p->j, "unexpected", (struct text){p->s.at + p->at, p->s.n - p->at < 8 ? p->s.n - p->at : 8});
}

/* Reads what is between the ends of a tag, and its end `close`. */
static void lex_expression(struct lexer *p, const char *close)
{
    char open[JINJA_DEPTH_MAX]; /* brackets */
    size_t depth = 0;
    for (skip_space(p), count_lines(p);; skip_space(p), count_lines(p)) {
        char c = source_at(p, p->at);
        if (p->at >= p->s.n) jinja_syntax(p->j, "a tag has no end; expected", (struct text){close, 2});
        if (!depth && skip_close(p, close)) break;
        if (isalpha((unsigned char)c) || c == '_') {
            size_t from = p->at;
            while (isalnum((unsigned char)source_at(p, p->at)) || source_at(p, p->at) == '_') p->at++;
            emit(p, (struct token){TOKEN_NAME, 0, source_from(p, from), {0}});
        } else if (isdigit((unsigned char)c)) {
            lex_number(p);
        } else if (c == '"' || c == '\'') {
            lex_string(p);
        } else {
            const char *sign = sign_at(p);
            struct token token = {TOKEN_SIGN, 0, {sign, strlen(sign)}, {0}};
            if (strchr("([{", c) && depth == sizeof open)
                JINJA_REFUSE(p->j, "nested more than %d deep", JINJA_DEPTH_MAX);
            if (strchr("([{", c)) open[depth++] = c == '(' ? ')' : c == '[' ? ']' : '}';
            if (strchr(")]}", c) && (!depth || open[--depth] != c))
                jinja_syntax(p->j, "unexpected", token.text);
            p->at += token.text.n;
            emit(p, token);
        }
    }
    emit(p, (struct token){TOKEN_SIGN, 0, {close, 2}, {0}});
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
    while (p->at < p->s.n) {
        size_t from = p->at;
        char mark = 0, sign;
        for (; p->at < p->s.n && !mark; p->at++)
            if (p->s.at[p->at] == '{' && strchr("{%#", source_at(p, p->at + 1)))
                mark = source_at(p, p->at + 1);
        if (mark) p->at--;
        sign = source_at(p, p->at + 2);
        struct text data = source_from(p, from);
        if (mark) data = data_before(p, data, mark, sign);
        if (data.n) emit(p, (struct token){TOKEN_DATA, 0, data, value_string(data)});
        count_lines(p);
        if (!mark) break;
        p->at += 2 + (sign == '-' || sign == '+');
        if (mark == '#') {
            for (; !skip_close(p, "#}"); p->at++)
                if (p->at >= p->s.n) jinja_syntax(p->j, "a comment has no end; expected", TEXT("#}"));
        } else {
            emit(p, (struct token){TOKEN_SIGN, 0, {mark == '{' ? "{{" : "{%", 2}, {0}});
            lex_expression(p, mark == '{' ? "}}" : "%}");
        }
    }
    count_lines(p);
    emit(p, (struct token){TOKEN_END, 0, TEXT("the end of the template"), {0}});
}

const struct token *jinja_lex(struct jinja *j, struct text source)
{
    j->line = 1;
    if (source.n > JINJA_TEMPLATE_MAX) JINJA_REFUSE(j, "the template is larger than 1 MiB");
    if (utf8_valid_bytes(source.at, source.n) < source.n)
        jinja_fail(j, STATUS_CORRUPT, "the template is not valid UTF-8");
    char *copy = jinja_alloc(j, source.n + 1, 1);
    struct lexer p = {.j = j, .s = {copy, 0}};
    for (size_t i = 0; i < source.n; i++) { /* line ends as jinja2 takes them */
        if (source.at[i] == '\r' && i + 1 < source.n && source.at[i + 1] == '\n') continue;
        copy[p.s.n++] = source.at[i] == '\r' ? '\n' : source.at[i];
    }
    if (p.s.n && copy[p.s.n - 1] == '\n') p.s.n--;
    lex(&p);
    return p.tokens;
}
