/* See json_out.h. */
#include "runs/json_out.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <utf8proc.h>

#include "core/base/text.h"

void json_out_begin(struct json_out *out, FILE *file)
{
    *out = (struct json_out){.file = file};
}

static void put(struct json_out *out, const char *text, size_t n)
{
    if (out->error) return;
    errno = 0;
    if (fwrite(text, 1, n, out->file) != n) out->error = errno ? errno : EIO;
}

static void put_word(struct json_out *out, const char *word)
{
    put(out, word, strlen(word));
}

/* A character that needs it, escaped; false for one that stands for itself. */
static bool put_escaped(struct json_out *out, utf8proc_int32_t c)
{
    char text[8];
    if (c == '"' || c == '\\')
        snprintf(text, sizeof text, "\\%c", (char)c);
    else if (c == '\n')
        snprintf(text, sizeof text, "\\n");
    else if (c < 0x20 || (c >= 0x7F && c < 0xA0))
        snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
    else
        return false;
    put_word(out, text);
    return true;
}

static void put_string(struct json_out *out, const char *text, size_t n)
{
    put(out, "\"", 1);
    while (n) {
        utf8proc_int32_t c;
        utf8proc_ssize_t used =
            utf8proc_iterate((const utf8proc_uint8_t *)text, n > 4 ? 4 : (utf8proc_ssize_t)n, &c);
        if (used <= 0) {
            used = 1;
            put_word(out, "\xEF\xBF\xBD");
        } else if (!put_escaped(out, c)) {
            put(out, text, (size_t)used);
        }
        text += used;
        n -= (size_t)used;
    }
    put(out, "\"", 1);
}

static void begin_member(struct json_out *out, const char *name)
{
    if (out->started) put(out, ",", 1);
    if (out->depth && !out->flat_depth) {
        char line[64];
        int n = snprintf(line, sizeof line, "\n%*s", out->depth < 30 ? 2 * out->depth : 60, "");
        put(out, line, (size_t)n);
    } else if (out->started) {
        put(out, " ", 1);
    }
    out->started = true;
    if (!name) return;
    put_string(out, name, strlen(name));
    put_word(out, ": ");
}

void json_out_open(struct json_out *out, const char *name, char open, bool flat)
{
    begin_member(out, name);
    put(out, &open, 1);
    out->depth++;
    if (out->flat_depth || flat) out->flat_depth++;
    out->started = false;
}

void json_out_close(struct json_out *out, char close)
{
    out->depth--;
    if (out->started && !out->flat_depth) {
        char line[64];
        int n = snprintf(line, sizeof line, "\n%*s", out->depth < 30 ? 2 * out->depth : 60, "");
        put(out, line, (size_t)n);
    }
    put(out, &close, 1);
    if (out->flat_depth) out->flat_depth--;
    out->started = true;
}

void json_out_text(struct json_out *out, const char *name, const char *value, size_t n)
{
    begin_member(out, name);
    if (value)
        put_string(out, value, n);
    else
        put_word(out, "null");
}

void json_out_int(struct json_out *out, const char *name, int64_t value)
{
    char number[24];
    begin_member(out, name);
    snprintf(number, sizeof number, "%" PRId64, value);
    put_word(out, number);
}

void json_out_real(struct json_out *out, const char *name, double value)
{
    char number[32] = "null";
    begin_member(out, name);
    if (isfinite(value)) text_format_double(value, number, sizeof number);
    put_word(out, number);
    if (isfinite(value) && !strpbrk(number, ".e")) put_word(out, ".0");
}

void json_out_bool(struct json_out *out, const char *name, bool value)
{
    begin_member(out, name);
    put_word(out, value ? "true" : "false");
}

void json_out_null(struct json_out *out, const char *name)
{
    begin_member(out, name);
    put_word(out, "null");
}

int json_out_finish(struct json_out *out)
{
    put(out, "\n", 1);
    errno = 0;
    if (fflush(out->file) != 0 && !out->error) out->error = errno ? errno : EIO;
    return out->error;
}
