/* See ini.h. */
#include "core/base/ini.h"

#include <ctype.h>
#include <string.h>

#include "core/base/text.h"

static bool is_blank(char c)
{
    return isspace((unsigned char)c);
}

/* The ; of the first blank and ; in text[0..n); NULL: there is none. */
static char *find_comment(const char *text, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (text[i] == ';' && is_blank(text[i - 1])) return (char *)text + i;
    return NULL;
}

/* ---- values in quotes ---- */

/* The value of a hexadecimal digit; -1: it is none. */
static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, tolower((unsigned char)c)) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Reads the escape at `text`, which begins with a backslash: its length, the byte it stands for in *byte. 0:
 * it is not an escape. */
static size_t read_escape(const char *text, char *byte)
{
    *byte = text[1];
    if (text[1] == '"' || text[1] == '\\') return 2;
    int high = text[1] == 'x' ? hex_digit(text[2]) : -1, low = high >= 0 ? hex_digit(text[3]) : -1;
    if (low < 0) return 0;
    *byte = (char)(16 * high + low);
    return *byte && *byte != '\n' ? 4 : 0;
}

/* The quote that closes the one at the start of a value; NULL: the value is not in quotes as a whole. */
static const char *find_closing_quote(const char *value)
{
    const char *c = value;
    if (*c++ != '"') return NULL;
    while (*c && *c != '"') c += *c == '\\' && c[1] ? 2 : 1;
    if (!*c) return NULL;
    const char *after = c + 1;
    while (is_blank(*after)) after++;
    return !*after || (*after == ';' && after > c + 1) ? c : NULL;
}

/* Whether text[0..n) is changed if it stands as a value without quotes, whatever quotes mean. */
static bool is_cut(const char *text, size_t n)
{
    return n && (is_blank(text[0]) || is_blank(text[n - 1]) || text[0] == ';' || find_comment(text, n));
}

enum quotes { QUOTES_PART_OF_VALUE, QUOTES_AROUND_VALUE, QUOTES_WITH_BAD_ESCAPE };

/* Finds out by the rule of ini.h what the quotes of a value mean. *close: the closing quote; NULL if there is
 * none. */
static enum quotes find_quotes(const char *value, const char **close)
{
    *close = find_closing_quote(value);
    if (!*close) return QUOTES_PART_OF_VALUE;
    const char *text = value + 1;
    size_t n = (size_t)(*close - text), length;
    bool good = true, has_byte = false, begins_with_quote = strncmp(text, "\\\"", 2) == 0;
    char byte;
    for (const char *c = text; good && c < *close; c += *c == '\\' ? length : 1)
        if (*c == '\\') {
            length = read_escape(c, &byte);
            good = length > 0;
            has_byte = has_byte || length == 4;
        }
    if (good)
        return is_cut(text, n) || has_byte || begins_with_quote ? QUOTES_AROUND_VALUE : QUOTES_PART_OF_VALUE;
    return find_comment(text, n) ? QUOTES_WITH_BAD_ESCAPE : QUOTES_PART_OF_VALUE;
}

/* Replaces a value in quotes by the text that it stands for, in place. */
static void decode(char *value, const char *close)
{
    char *out = value;
    for (const char *c = value + 1; c < close; out++)
        if (*c == '\\')
            c += read_escape(c, out);
        else
            *out = *c++;
    *out = '\0';
}

/* ---- reading ---- */

static enum ini_line read_section(struct ini *ini, char *line)
{
    char *comment = ini->exact ? NULL : find_comment(line, strlen(line));
    if (comment) *comment = '\0';
    if (comment) text_trim(line);
    char *end = strchr(line, ']');
    if (!end || end[1]) return INI_BAD; /* a pair on the same line would be lost */
    *end = '\0';
    ini->section = text_trim(line + 1);
    return INI_END;
}

static enum ini_line read_pair(struct ini *ini, char *line)
{
    char *comment = ini->exact ? NULL : find_comment(line, strlen(line));
    char *mark = ini->exact ? strstr(line, " = ") : strpbrk(line, "=:");
    if (!mark || (comment && comment < mark)) return INI_BAD;
    *mark = '\0';
    ini->key = text_trim(line);
    ini->value = mark + 3;
    if (ini->exact) return INI_PAIR;
    char *value = mark + 1;
    const char *close;
    while (is_blank(*value)) value++;
    enum quotes quotes = find_quotes(value, &close);
    if (quotes == QUOTES_AROUND_VALUE)
        decode(value, close);
    else if (comment)
        *comment = '\0';
    ini->value = quotes == QUOTES_AROUND_VALUE ? value : text_trim(mark + 1);
    return quotes == QUOTES_WITH_BAD_ESCAPE ? INI_BAD_ESCAPE : INI_PAIR;
}

enum ini_line ini_next(struct ini *ini)
{
    static const char byte_order_mark[] = "\xEF\xBB\xBF";
    enum ini_line found = INI_END;
    if (!ini->section) ini->section = "";
    while (!found && ini->rest) {
        char *line = strsep(&ini->rest, "\n");
        if (!ini->line++ && strncmp(line, byte_order_mark, 3) == 0) line += 3;
        if (!ini->exact) line = text_trim(line);
        if (!*line || (!ini->exact && (*line == ';' || *line == '#'))) continue;
        if (!ini->exact && strchr(line, '\r')) return INI_BAD; /* ends of lines that are none here */
        found = *line == '[' ? read_section(ini, line) : read_pair(ini, line);
    }
    return found;
}

/* ---- writing ---- */

/* The length of the well-formed character at the start of text[0..n) that a terminal shows or that is a tab;
 * 0: there is none. */
static size_t shown_character(const char *text, size_t n)
{
    uint32_t point;
    size_t length = utf8_character(text, n, &point);
    return length && (point == '\t' || !utf8_is_control(point)) ? length : 0;
}

static bool is_shown(const char *value, size_t n)
{
    size_t i = 0;
    for (size_t length = 1; i < n && length; i += length) length = shown_character(value + i, n - i);
    return i == n;
}

static void print_in_quotes(FILE *out, const char *value, size_t n)
{
    fputc('"', out);
    for (size_t i = 0, length; i < n; i += length ? length : 1) {
        length = shown_character(value + i, n - i);
        if (!length) {
            fprintf(out, "\\x%02X", (unsigned char)value[i]);
            continue;
        }
        if (value[i] == '"' || value[i] == '\\') fputc('\\', out);
        fwrite(value + i, 1, length, out);
    }
    fputc('"', out);
}

void ini_print_value(FILE *out, const char *value)
{
    const char *close;
    size_t n = strlen(value);
    if (is_cut(value, n) || !is_shown(value, n) || find_quotes(value, &close) != QUOTES_PART_OF_VALUE)
        print_in_quotes(out, value, n);
    else
        fwrite(value, 1, n, out);
}

void ini_print_exact(FILE *out, char *text)
{
    while (text) {
        char *line = strsep(&text, "\n"), *mark = *line == '[' ? NULL : strstr(line, " = ");
        fwrite(line, 1, mark ? (size_t)(mark + 3 - line) : strlen(line), out);
        if (mark) ini_print_value(out, mark + 3);
        if (text) fputc('\n', out);
    }
}
