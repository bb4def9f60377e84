/* See err.h. */
#include "core/base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"

/* Error texts quote files and users. A control character could break the line or command a terminal. */
static void replace_controls(char *text)
{
    for (char *c = text, *end = text + strlen(text); c < end;) {
        uint32_t point;
        size_t n = utf8_character(c, (size_t)(end - c), &point);
        if (!n || utf8_is_control(point)) memset(c, '?', n ? n : 1);
        c += n ? n : 1;
    }
}

enum status err_set(struct err *err, enum status status, const char *format, ...)
{
    if (!err) return status;
    err->system = status == STATUS_IO ? errno : 0;
    err->status = status;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    if (n >= (int)sizeof err->text) /* vsnprintf cuts anywhere */
        err->text[sizeof err->text - 1 - utf8_incomplete_tail(err->text, sizeof err->text - 1)] = '\0';
    replace_controls(err->text);
    return status;
}

enum status err_no_memory(struct err *err, const char *format, ...)
{
    char what[256];
    TEXT_FORMAT(what, format);
    return err_set(err, STATUS_NO_MEMORY, "no memory for %s", what);
}

enum status err_prefix(struct err *err, const char *format, ...)
{
    if (!err) return STATUS_FAILED;
    char context[256], old[sizeof err->text];
    TEXT_FORMAT(context, format);
    memcpy(old, err->text, sizeof old);
    int system = err->system;
    enum status status = err_set(err, err->status, "%s: %s", context, old);
    err->system = system;
    return status;
}
