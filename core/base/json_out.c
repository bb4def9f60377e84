/* See json_out.h. */
#include "core/base/json_out.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/text.h"

void json_out_begin(struct json_out *out, FILE *file)
{
    *out = (struct json_out){.file = file};
}

static void put(struct json_out *out, const char *text, size_t n)
{
    if (out->error || !n) return;
    errno = 0;
    if (fwrite_unlocked(text, 1, n, out->file) != n) out->error = errno ? errno : EIO;
}

static void put_word(struct json_out *out, const char *word)
{
    put(out, word, strlen(word));
}

/* The escape sequence for a character that a JSON string cannot hold; "" for any other. */
static const char *escape(uint32_t point, char buf[8])
{
    *buf = '\0';
    if (point == '"' || point == '\\')
        snprintf(buf, 8, "\\%c", (char)point);
    else if (point == '\n')
        snprintf(buf, 8, "\\n");
    else if (utf8_is_control(point))
        snprintf(buf, 8, "\\u%04x", (unsigned)point);
    return buf;
}

static void put_string(struct json_out *out, const char *text, size_t n)
{
    size_t start = 0; /* of the unescaped bytes that are not written yet */
    char buf[8];
    put(out, "\"", 1);
    for (size_t at = 0; at < n;) {
        uint32_t point;
        size_t length = utf8_character(text + at, n - at, &point);
        const char *instead = length ? escape(point, buf) : "\xEF\xBF\xBD";
        size_t next = at + (length ? length : utf8_malformed_bytes(text + at, n - at));
        if (*instead) {
            put(out, text + start, at - start);
            put_word(out, instead);
            start = next;
        }
        at = next;
    }
    put(out, text + start, n - start);
    put(out, "\"", 1);
}

static void begin_line(struct json_out *out)
{
    char line[2 * JSON_OUT_DEPTH_MAX + 2];
    int n = snprintf(line, sizeof line, "\n%*s", 2 * out->lines, "");
    put(out, line, (size_t)n);
}

static void begin_member(struct json_out *out, const char *name)
{
    int layout = out->open[out->depth].layout;
    bool *started = &out->open[out->depth].started;
    if (*started) put(out, ",", 1);
    if (out->depth && layout == JSON_OUT_LINES)
        begin_line(out);
    else if (*started && layout == JSON_OUT_FLAT)
        put(out, " ", 1);
    *started = true;
    if (!name) return;
    put_string(out, name, strlen(name));
    put_word(out, layout == JSON_OUT_COMPACT ? ":" : ": ");
}

void json_out_open(struct json_out *out, const char *name, char open, enum json_out_layout layout)
{
    assert(out->depth < JSON_OUT_DEPTH_MAX);
    begin_member(out, name);
    put(out, &open, 1);
    if (layout == JSON_OUT_LINES) out->lines++;
    out->depth++;
    out->open[out->depth].layout = layout;
    out->open[out->depth].close = open == '{' ? '}' : ']';
    out->open[out->depth].started = false;
}

void json_out_close(struct json_out *out)
{
    bool lines = out->open[out->depth].layout == JSON_OUT_LINES;
    if (lines) out->lines--;
    if (lines && out->open[out->depth].started) begin_line(out);
    put(out, &out->open[out->depth--].close, 1);
}

void json_out_bytes(struct json_out *out, const char *name, const char *value, size_t n)
{
    begin_member(out, name);
    if (value)
        put_string(out, value, n);
    else
        put_word(out, "null");
}

void json_out_text(struct json_out *out, const char *name, const char *value)
{
    json_out_bytes(out, name, value, value ? strlen(value) : 0);
}

void json_out_raw(struct json_out *out, const char *name, const char *json)
{
    begin_member(out, name);
    put_word(out, json);
}

void json_out_int(struct json_out *out, const char *name, int64_t value)
{
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, value);
    json_out_raw(out, name, number);
}

void json_out_whole(struct json_out *out, const char *name, int64_t value)
{
    if (value < 0)
        json_out_raw(out, name, "null");
    else
        json_out_int(out, name, value);
}

void json_out_real(struct json_out *out, const char *name, double value)
{
    char number[32] = "null";
    if (isfinite(value)) {
        text_format_double(value, number, sizeof number);
        if (!strpbrk(number, ".e")) strcat(number, ".0");
    }
    json_out_raw(out, name, number);
}

void json_out_bool(struct json_out *out, const char *name, bool value)
{
    json_out_raw(out, name, value ? "true" : "false");
}

int json_out_finish(struct json_out *out)
{
    put(out, "\n", 1);
    errno = 0;
    if (fflush(out->file) != 0 && !out->error) out->error = errno ? errno : EIO;
    return out->error;
}
