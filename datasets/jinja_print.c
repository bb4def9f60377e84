/* Values as text and as JSON, as Python writes them: see jinja.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "datasets/jinja.h"

static void put(struct jinja *j, struct buffer *buffer, const char *text)
{
    buffer_put(j, buffer, (struct text){text, strlen(text)});
}

/* ---- text of values ---- */

/* As Python's repr of a float: the shortest digits that read back. */
static void put_real(struct jinja *j, struct buffer *out, double real)
{
    char buf[40], digits[24];
    int precision = 0, exponent;
    if (!isfinite(real)) {
        put(j, out, isnan(real) ? "nan" : real < 0 ? "-inf" : "inf");
        return;
    }
    do snprintf(buf, sizeof buf, "%.*e", precision, real);
    while (strtod(buf, NULL) != real && precision++ < 17);
    exponent = atoi(strchr(buf, 'e') + 1);
    if (exponent < -4 || exponent >= 16) {
        snprintf(digits, sizeof digits, "e%+03d", exponent);
        *strchr(buf, 'e') = 0;
        put(j, out, buf), put(j, out, digits);
        return;
    }
    int decimals = precision - exponent;
    snprintf(buf, sizeof buf, "%.*f", decimals > 1 ? decimals : 1, real);
    put(j, out, buf);
}

/* Python escapes what it calls not printable. */
static bool printable(uint32_t point)
{
    if (point < 0x80) return point >= 32 && point < 127;
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)point);
    return category != UTF8PROC_CATEGORY_CN && category < UTF8PROC_CATEGORY_ZS;
}

static void put_quoted(struct jinja *j, struct buffer *out, struct text text)
{
    bool single = text_find(text, TEXT("'"), 0) >= 0, twice = text_find(text, TEXT("\""), 0) >= 0;
    char quote[2] = {single && !twice ? '"' : '\'', 0}, escape[16];
    uint32_t point;
    put(j, out, quote);
    for (size_t at = 0, n; at < text.n && !j->status; at += n) {
        n = text_character(text, at, &point);
        const char *known = point && point < 128 ? strchr("\n\r\t", (int)point) : NULL;
        if (known)
            snprintf(escape, sizeof escape, "\\%c", *known == '\n' ? 'n' : *known == '\r' ? 'r' : 't');
        else if (point == '\\' || point == (uint32_t)quote[0])
            snprintf(escape, sizeof escape, "\\%c", (char)point);
        else if (printable(point))
            snprintf(escape, sizeof escape, "%.*s", (int)n, text.at + at);
        else
            snprintf(escape, sizeof escape,
                     point < 256       ? "\\x%02x"
                     : point < 0x10000 ? "\\u%04x"
                                       : "\\U%08x",
                     point);
        put(j, out, escape);
    }
    put(j, out, quote);
}

static void put_value(struct jinja *j, struct buffer *out, struct value value, bool quoted);

static void put_list(struct jinja *j, struct buffer *out, const struct list *list, bool tuple)
{
    put(j, out, tuple ? "(" : "[");
    for (size_t i = 0; i < list->count && !j->status; i++) {
        if (i) put(j, out, ", ");
        put_value(j, out, list->items[i], true);
    }
    put(j, out, !tuple ? "]" : list->count == 1 ? ",)" : ")");
}

static void put_dict(struct jinja *j, struct buffer *out, const struct dict *dict)
{
    put(j, out, "{");
    for (size_t i = 0; i < dict->count && !j->status; i++) {
        if (i) put(j, out, ", ");
        put_value(j, out, dict->pairs[i].key, true);
        put(j, out, ": ");
        put_value(j, out, dict->pairs[i].value, true);
    }
    put(j, out, "}");
}

/* As Python's str(), or `quoted` its repr(). */
static void put_value(struct jinja *j, struct buffer *out, struct value value, bool quoted)
{
    char number[32];
    if (!jinja_enter(j)) return;
    switch (value.kind) {
    case VALUE_ABSENT:
        break;
    case VALUE_UNDEFINED:
        if (quoted) put(j, out, "Undefined");
        break;
    case VALUE_NONE:
        put(j, out, "None");
        break;
    case VALUE_BOOL:
        put(j, out, value.truth ? "True" : "False");
        break;
    case VALUE_INT:
        snprintf(number, sizeof number, "%lld", (long long)value.whole);
        put(j, out, number);
        break;
    case VALUE_REAL:
        put_real(j, out, value.real);
        break;
    case VALUE_STRING:
        if (quoted && value.safe)
            JINJA_REFUSE(j, "a list with a text marked as safe cannot be printed");
        else if (quoted)
            put_quoted(j, out, value.text);
        else
            buffer_put(j, out, value.text);
        break;
    case VALUE_LIST:
    case VALUE_TUPLE:
        put_list(j, out, value.list, value.kind == VALUE_TUPLE);
        break;
    case VALUE_DICT:
        put_dict(j, out, value.dict);
        break;
    default:
        JINJA_REFUSE(j, "%s has no text", value_type(value));
    }
    jinja_leave(j);
}

struct text value_text(struct jinja *j, struct value value)
{
    struct buffer out = {0};
    if (value.kind == VALUE_STRING) return value.text;
    put_value(j, &out, value, false);
    return buffer_value(&out).text;
}

struct text value_subject(struct jinja *j, struct value value)
{
    if (value.safe) JINJA_REFUSE(j, "a text marked as safe can only be printed");
    return value_text(j, value);
}

/* ---- JSON, as Python's json.dumps ---- */

static void put_json_string(struct jinja *j, struct buffer *out, struct text text, bool ascii)
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    char escape[16];
    uint32_t point;
    put(j, out, "\"");
    for (size_t at = 0, n; at < text.n && !j->status; at += n) {
        n = text_character(text, at, &point);
        const char *known = point && point < 128 ? strchr(from, (int)point) : NULL;
        if (known)
            snprintf(escape, sizeof escape, "\\%c", to[known - from]);
        else if (point < 32 || (ascii && point >= 127 && point < 0x10000))
            snprintf(escape, sizeof escape, "\\u%04x", point);
        else if (ascii && point >= 0x10000)
            snprintf(escape, sizeof escape, "\\u%04x\\u%04x", 0xD800 + ((point - 0x10000) >> 10),
                     0xDC00 + (point & 0x3FF));
        else
            snprintf(escape, sizeof escape, "%.*s", (int)n, text.at + at);
        put(j, out, escape);
    }
    put(j, out, "\"");
}

static void put_line(struct jinja *j, struct buffer *out, const struct json_style *style, int level)
{
    if (!style->indent) return;
    put(j, out, "\n");
    for (int i = 0; i < level && !j->status; i++) buffer_put(j, out, *style->indent);
}

static int by_key(const void *a, const void *b)
{
    struct jinja j = {.name = ""}; /* strings have an order */
    return value_order(&j, ((const struct dict_pair *)a)->key, ((const struct dict_pair *)b)->key);
}

static void put_json(struct jinja *j, struct buffer *out, struct value value, const struct json_style *style,
                     int level)
{
    bool dict = value.kind == VALUE_DICT;
    if (!jinja_enter(j)) return;
    if (value.kind == VALUE_STRING) {
        put_json_string(j, out, value.text, style->ascii);
    } else if (value.kind == VALUE_REAL) {
        if (isfinite(value.real))
            put_real(j, out, value.real);
        else
            put(j, out, isnan(value.real) ? "NaN" : value.real < 0 ? "-Infinity" : "Infinity");
    } else if (value.kind == VALUE_INT) {
        put_value(j, out, value, false);
    } else if (value.kind == VALUE_BOOL || value.kind == VALUE_NONE) {
        put(j, out, value.kind == VALUE_NONE ? "null" : value.truth ? "true" : "false");
    } else if (dict || value.kind == VALUE_LIST || value.kind == VALUE_TUPLE) {
        size_t count = dict ? value.dict->count : value.list->count;
        struct dict_pair *pairs = dict ? jinja_alloc(j, count, sizeof *pairs) : NULL;
        if (pairs && count) memcpy(pairs, value.dict->pairs, count * sizeof *pairs);
        if (pairs && style->sorted) qsort(pairs, count, sizeof *pairs, by_key);
        put(j, out, dict ? "{" : "[");
        for (size_t i = 0; i < count && !j->status; i++) {
            if (i) buffer_put(j, out, style->item);
            put_line(j, out, style, level + 1);
            if (dict)
                put_json_string(j, out, value_text(j, pairs[i].key), style->ascii),
                    buffer_put(j, out, style->key);
            put_json(j, out, dict ? pairs[i].value : value.list->items[i], style, level + 1);
        }
        if (count) put_line(j, out, style, level);
        put(j, out, dict ? "}" : "]");
    } else {
        JINJA_REFUSE(j, "tojson: %s cannot be written as JSON", value_type(value));
    }
    jinja_leave(j);
}

void value_to_json(struct jinja *j, struct buffer *out, struct value value, const struct json_style *style)
{
    put_json(j, out, value, style, 0);
}
