/* See err.h. */
#include "core/base/err.h"

#include <stdio.h>
#include <string.h>

/* vsnprintf cuts anywhere; an error text must stay valid UTF-8, so drop a character that was cut in two. */
static void trim_partial_utf8(char *text)
{
    size_t n = strlen(text), back = 0;
    while (back < n && back < 3 && ((unsigned char)text[n - 1 - back] & 0xC0) == 0x80) back++;
    if (back == n) return;
    unsigned char lead = (unsigned char)text[n - 1 - back];
    size_t want = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    if (want > back + 1) text[n - 1 - back] = '\0';
}

/* Bytes of the character at `c`, 0 when it is no well-formed UTF-8 (RFC 3629). */
static size_t utf8_length(const unsigned char *c)
{
    if (c[0] < 0x80) return 1;
    size_t n = c[0] >= 0xF0 ? 4 : c[0] >= 0xE0 ? 3 : 2;
    if (c[0] < 0xC2 || c[0] > 0xF4) return 0;
    if ((c[0] == 0xE0 && c[1] < 0xA0) || (c[0] == 0xED && c[1] > 0x9F)) return 0;
    if ((c[0] == 0xF0 && c[1] < 0x90) || (c[0] == 0xF4 && c[1] > 0x8F)) return 0;
    for (size_t i = 1; i < n; i++)
        if ((c[i] & 0xC0) != 0x80) return 0; /* the NUL at the end is none either */
    return n;
}

/* Texts quote what files and users say. What would break the line, or order a terminal about, becomes '?'. */
static void clean_line(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c;) {
        size_t n = utf8_length(c);
        if (n == 0 || *c < 0x20 || *c == 0x7F)
            *c++ = '?';
        else if (n == 2 && c[0] == 0xC2 && c[1] < 0xA0) /* U+0080 to U+009F are control characters, too */
            *c++ = '?', *c++ = '?';
        else
            c += n;
    }
}

enum status err_set(struct err *err, enum status status, const char *format, ...)
{
    if (!err) return status;
    err->status = status;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    if (n >= (int)sizeof err->text) trim_partial_utf8(err->text);
    clean_line(err->text);
    return status;
}

enum status err_prefix(struct err *err, const char *format, ...)
{
    if (!err) return STATUS_FAILED;
    char context[256], old[sizeof err->text];
    va_list args;
    va_start(args, format);
    vsnprintf(context, sizeof context, format, args);
    va_end(args);
    memcpy(old, err->text, sizeof old);
    return err_set(err, err->status, "%s: %s", context, old);
}
