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

enum status err_set(struct err *err, enum status status, const char *format, ...)
{
    if (!err) return status;
    err->status = status;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    if (n >= (int)sizeof err->text) trim_partial_utf8(err->text);
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
