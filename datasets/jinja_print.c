/* Values as text, as Python writes them: str(), repr() and json.dumps(). See jinja.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "datasets/jinja.h"

static void put(struct jinja *j, struct buffer *buffer, const char *text)
{
    buffer_put(j, buffer, (struct text){text, strlen(text)});
}

/* As Python's repr of a float: the shortest digits that read back. Neither a template nor JSON can hold an
 * infinite one. */
static void put_real(struct jinja *j, struct buffer *out, double real)
{
    char buf[40], digits[24];
    int precision = 0, exponent;
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

/* Python's repr() escapes all that is not printable. */
static bool printable(uint32_t point)
{
    if (point < 0x80) return point >= 32 && point < 127;
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)point);
    return category != UTF8PROC_CATEGORY_CN && category < UTF8PROC_CATEGORY_ZS;
}

static void put_quoted(struct jinja *j, struct buffer *out, struct text text, const struct value_style *style)
{
    const char *from = style->json ? "\\\"\n\r\t\f\b" : "\\\n\r\t", *to = style->json ? "\\\"nrtfb" : "\\nrt";
    bool single = text_find(text, TEXT("'")) >= 0, twice = text_find(text, TEXT("\"")) >= 0;
    char quote[2] = {style->json || (single && !twice) ? '"' : '\'', 0}, escape[16];
    uint32_t point;
    put(j, out, quote);
    for (size_t at = 0, n; at < text.n; at += n) {
        n = text_character(text, at, &point);
        const char *known = point && point < 128 ? strchr(from, (int)point) : NULL;
        bool plain = style->json ? point >= 32 && !(style->ascii && point >= 127) : printable(point);
        if (known)
            snprintf(escape, sizeof escape, "\\%c", to[known - from]);
        else if (point == (uint32_t)quote[0])
            snprintf(escape, sizeof escape, "\\%c", (char)point);
        else if (plain)
            snprintf(escape, sizeof escape, "%.*s", (int)n, text.at + at);
        else if (point < 256 && !style->json)
            snprintf(escape, sizeof escape, "\\x%02x", point);
        else if (point < 0x10000)
            snprintf(escape, sizeof escape, "\\u%04x", point);
        else if (style->json)
            snprintf(escape, sizeof escape, "\\u%04x\\u%04x", 0xD800 + ((point - 0x10000) >> 10),
                     0xDC00 + (point & 0x3FF));
        else
            snprintf(escape, sizeof escape, "\\U%08x", point);
        put(j, out, escape);
    }
    put(j, out, quote);
}

static void put_value(struct jinja *j, struct buffer *out, struct value value,
                      const struct value_style *style, int level);

/* Ends the item before, if any, and begins a line for the next one, or for the closing bracket. */
static void put_line(struct jinja *j, struct buffer *out, const struct value_style *style, bool comma,
                     int level)
{
    if (comma) buffer_put(j, out, style->item);
    if (style->indent) put(j, out, "\n");
    for (int i = 0; style->indent && i < level; i++) buffer_put(j, out, *style->indent);
}

static void put_list(struct jinja *j, struct buffer *out, struct value value, const struct value_style *style,
                     int level)
{
    const struct list *list = value.list;
    bool tuple = value.kind == VALUE_TUPLE && !style->json;
    put(j, out, tuple ? "(" : "[");
    for (size_t i = 0; i < list->count; i++) {
        put_line(j, out, style, i > 0, level + 1);
        put_value(j, out, list->items[i], style, level + 1);
    }
    if (list->count) put_line(j, out, style, false, level);
    put(j, out, !tuple ? "]" : list->count == 1 ? ",)" : ")");
}

static void put_dict(struct jinja *j, struct buffer *out, const struct dict *dict,
                     const struct value_style *style, int level)
{
    put(j, out, "{");
    for (size_t i = 0; i < dict->count; i++) {
        put_line(j, out, style, i > 0, level + 1);
        if (style->json)
            put_quoted(j, out, value_text(j, dict->pairs[i].key), style);
        else
            put_value(j, out, dict->pairs[i].key, style, level);
        buffer_put(j, out, style->key);
        put_value(j, out, dict->pairs[i].value, style, level + 1);
    }
    if (dict->count) put_line(j, out, style, false, level);
    put(j, out, "}");
}

static void put_value(struct jinja *j, struct buffer *out, struct value value,
                      const struct value_style *style, int level)
{
    char number[32];
    bool json = style->json;
    jinja_enter(j);
    if (value.kind == VALUE_UNDEFINED && !json) {
        put(j, out, "Undefined");
    } else if (value.kind == VALUE_NONE) {
        put(j, out, json ? "null" : "None");
    } else if (value.kind == VALUE_BOOL) {
        put(j, out, json ? value.truth ? "true" : "false" : value.truth ? "True" : "False");
    } else if (value.kind == VALUE_INT) {
        snprintf(number, sizeof number, "%lld", (long long)value.whole);
        put(j, out, number);
    } else if (value.kind == VALUE_REAL) {
        put_real(j, out, value.real);
    } else if (value.kind == VALUE_STRING) {
        if (value.safe && !json) JINJA_REFUSE(j, "a list with a text marked as safe cannot be printed");
        put_quoted(j, out, value.text, style);
    } else if (value.kind == VALUE_LIST || value.kind == VALUE_TUPLE) {
        put_list(j, out, value, style, level);
    } else if (value.kind == VALUE_DICT) {
        put_dict(j, out, value.dict, style, level);
    } else {
        JINJA_REFUSE(j, "%s cannot be written as %s", value_type(value), json ? "JSON" : "text");
    }
    jinja_leave(j);
}

struct text value_written(struct jinja *j, struct value value, const struct value_style *style)
{
    struct buffer out = {0};
    put_value(j, &out, value, style, 0);
    return buffer_value(&out).text;
}

struct text value_text(struct jinja *j, struct value value)
{
    static const struct value_style repr = {.item = {", ", 2}, .key = {": ", 2}};
    if (value.kind == VALUE_STRING) return value.text;
    if (value.kind <= VALUE_UNDEFINED) return TEXT("");
    return value_written(j, value, &repr);
}
