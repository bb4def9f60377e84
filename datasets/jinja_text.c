/* Filters and methods that work on text, as jinja2 and Python have them: see jinja.h. */
#include <string.h>
#include <utf8proc.h>

#include "datasets/jinja.h"

/* ---- texts: filters and methods ---- */

static struct value strip(struct jinja *j, struct value self, const struct value *a, bool left, bool right)
{
    struct text chars = a[0].kind == VALUE_NONE ? (struct text){0} : value_text_or(j, a[0], (struct text){0});
    return value_string(
        text_strip(value_subject(j, self), a[0].kind == VALUE_STRING ? &chars : NULL, left, right));
}

BUILTIN(run_strip, strip(j, self, a, true, true))
BUILTIN(run_lstrip, strip(j, self, a, true, false))
BUILTIN(run_rstrip, strip(j, self, a, false, true))
enum letter_case { CASE_UPPER, CASE_LOWER, CASE_TITLE };

/* Letters that become several in Python, or depend on their neighbours, are refused: never a wrong letter. */
static void put_letter(struct jinja *j, struct buffer *out, uint32_t point, enum letter_case to)
{
    utf8proc_uint8_t bytes[4];
    utf8proc_int32_t c = (utf8proc_int32_t)point;
    bool special = to == CASE_LOWER
                       ? point == 0x130 || point == 0x3A3
                       : point == 0xDF || point == 0x149 || point == 0x1F0 || point == 0x390 ||
                             point == 0x3B0 || point == 0x587 || (point >= 0x1E96 && point <= 0x1E9A) ||
                             (point >= 0x1F50 && point <= 0x1FFC) || (point >= 0xFB00 && point <= 0xFB17);
    if (special) JINJA_REFUSE(j, "the upper and lower case of U+%04X is not supported", point);
    c = to == CASE_UPPER ? utf8proc_toupper(c) : to == CASE_LOWER ? utf8proc_tolower(c) : utf8proc_totitle(c);
    size_t n = (size_t)utf8proc_encode_char(c, bytes);
    buffer_put(j, out, (struct text){(const char *)bytes, n});
}

/* Changes the case of the first letter of each word to `first`, of the others to `rest`. A word begins at the
 * start and behind the characters that `breaks` accepts. */
static struct value letters(struct jinja *j, struct text text, enum letter_case first, enum letter_case rest,
                            bool (*breaks)(uint32_t point))
{
    struct buffer out = {0};
    bool start = true;
    uint32_t point;
    for (size_t at = 0; at < text.n && !j->status && jinja_work(j, 1);
         at += text_character(text, at, &point)) {
        text_character(text, at, &point);
        put_letter(j, &out, point, start ? first : rest);
        start = breaks && breaks(point);
    }
    return buffer_value(&out);
}

static bool breaks_title_filter(uint32_t point)
{
    return text_is_space(point) || (point && point < 128 && strchr("-({[<", (int)point));
}

static bool breaks_title_method(uint32_t point)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)point);
    return category != UTF8PROC_CATEGORY_LU && category != UTF8PROC_CATEGORY_LL &&
           category != UTF8PROC_CATEGORY_LT;
}

BUILTIN(run_upper, letters(j, value_subject(j, self), CASE_UPPER, CASE_UPPER, NULL))
BUILTIN(run_lower, letters(j, value_subject(j, self), CASE_LOWER, CASE_LOWER, NULL))
BUILTIN(run_capitalize, letters(j, value_subject(j, self), CASE_TITLE, CASE_LOWER, NULL))
BUILTIN(filter_title, letters(j, value_subject(j, self), CASE_UPPER, CASE_LOWER, breaks_title_filter))
BUILTIN(method_title, letters(j, value_subject(j, self), CASE_TITLE, CASE_LOWER, breaks_title_method))
static struct value run_replace(struct jinja *j, struct value self, const struct value *a)
{
    struct text text = value_subject(j, self), from = value_text(j, a[0]), to = value_text(j, a[1]);
    int64_t left = a[2].kind == VALUE_NONE ? -1 : value_int_or(j, a[2], -1);
    struct buffer out = {0};
    size_t done = 0;
    uint32_t point;
    jinja_work(j, text.n / 16);
    for (ptrdiff_t at; left-- && !j->status && (at = text_find(text, from, done)) >= 0 && jinja_work(j, 1);) {
        buffer_put(j, &out, (struct text){text.at + done, (size_t)at - done});
        buffer_put(j, &out, to);
        done = (size_t)at + from.n;
        if (from.n) continue;
        if (done >= text.n) return buffer_value(&out);
        size_t n = text_character(text, done, &point); /* "" lies between all characters */
        buffer_put(j, &out, (struct text){text.at + done, n});
        done += n;
    }
    buffer_put(j, &out, (struct text){text.at + done, text.n - done});
    return buffer_value(&out);
}

/* str.format with {} and nothing else between the braces. */
static struct value method_format(struct jinja *j, struct value self, const struct value *a)
{
    struct text text = value_subject(j, self);
    struct buffer out = {0};
    int next = 0;
    for (size_t at = 0; at < text.n && !j->status && jinja_work(j, 1); at++) {
        char c = text.at[at], after = at + 1 < text.n ? text.at[at + 1] : 0;
        bool brace = c == '{' || c == '}', field = c == '{' && after == '}';
        if (brace && !field && after != c)
            return JINJA_REFUSE(j, "format: only {} is supported between braces");
        if (field && (next >= JINJA_PARAMETERS_MAX || !a[next].kind))
            return JINJA_REFUSE(j, "format: an argument is missing");
        buffer_put(j, &out, field ? value_text(j, a[next++]) : (struct text){text.at + at, 1});
        at += brace;
    }
    return buffer_value(&out);
}

static struct value run_split(struct jinja *j, struct value self, const struct value *a)
{
    struct text text = value_subject(j, self);
    int64_t left = value_int_or(j, a[1], -1);
    struct value parts = value_list(j, VALUE_LIST, 0);
    size_t capacity = 0, at = 0, end;
    bool words = !a[0].kind || a[0].kind == VALUE_NONE;
    struct text by = words ? TEXT(" ") : value_text_or(j, a[0], (struct text){0});
    uint32_t point;
    if (!by.n) return JINJA_REFUSE(j, "split: the separator is empty");
    jinja_work(j, text.n / 16);
    while (!j->status && jinja_work(j, 1)) {
        struct text rest = {text.at + at, text.n - at};
        if (words) rest = text_strip(rest, NULL, true, left == 0);
        if (words && !rest.n) break;
        ptrdiff_t found = words || left == 0 ? -1 : text_find(rest, by, 0);
        for (end = 0; words && left != 0 && end < rest.n; end += text_character(rest, end, &point)) {
            text_character(rest, end, &point);
            if (text_is_space(point)) break;
        }
        if (words && left != 0 && end < rest.n) found = (ptrdiff_t)end;
        list_append(j, &parts, &capacity,
                    value_string((struct text){rest.at, found < 0 ? rest.n : (size_t)found}));
        if (found < 0) break;
        at = (size_t)(rest.at - text.at) + (size_t)found + (words ? 0 : by.n);
        left--;
    }
    return parts;
}

static struct value run_splitlines(struct jinja *j, struct value self, const struct value *a)
{
    struct text text = value_subject(j, self);
    struct value lines = value_list(j, VALUE_LIST, 0);
    size_t capacity = 0, start = 0;
    uint32_t point;
    (void)a;
    for (size_t at = 0, n; at < text.n && jinja_work(j, 1); at += n) {
        n = text_character(text, at, &point);
        if (!((point >= 10 && point <= 13) || (point >= 28 && point <= 30) || point == 0x85 ||
              point == 0x2028 || point == 0x2029))
            continue;
        list_append(j, &lines, &capacity, value_string((struct text){text.at + start, at - start}));
        if (point == '\r' && at + 1 < text.n && text.at[at + 1] == '\n') n = 2;
        start = at + n;
    }
    if (start < text.n)
        list_append(j, &lines, &capacity, value_string((struct text){text.at + start, text.n - start}));
    return lines;
}

static struct value affix(struct jinja *j, struct value self, struct value wanted, bool end)
{
    struct text text = value_subject(j, self);
    bool found = false;
    size_t count = wanted.kind == VALUE_TUPLE ? wanted.list->count : 1;
    for (size_t i = 0; i < count; i++) {
        struct text part =
            value_text_or(j, wanted.kind == VALUE_TUPLE ? wanted.list->items[i] : wanted, TEXT(""));
        size_t from = end && part.n <= text.n ? text.n - part.n : 0;
        found = found || (part.n <= text.n && memcmp(text.at + from, part.at, part.n) == 0);
    }
    return value_bool(found);
}

BUILTIN(run_startswith, affix(j, self, a[0], false))
BUILTIN(run_endswith, affix(j, self, a[0], true))
/* In characters, or -1. */
static struct value run_find(struct jinja *j, struct value self, const struct value *a)
{
    struct text text = value_subject(j, self);
    ptrdiff_t at = text_find(text, value_text_or(j, a[0], TEXT("")), 0);
    jinja_work(j, text.n / 16);
    if (at < 0) return value_int(-1);
    return value_int((int64_t)value_length(j, value_string((struct text){text.at, (size_t)at})));
}

static struct value run_count(struct jinja *j, struct value self, const struct value *a)
{
    struct text text = value_subject(j, self), part = value_text_or(j, a[0], TEXT(""));
    int64_t count = 0;
    if (!part.n) return value_int((int64_t)value_length(j, self) + 1);
    jinja_work(j, text.n / 16);
    for (ptrdiff_t at = 0; (at = text_find(text, part, (size_t)at)) >= 0; at += (ptrdiff_t)part.n) count++;
    return value_int(count);
}

static struct value method_join(struct jinja *j, struct value self, const struct value *a)
{
    struct value items = value_items(j, a[0]);
    struct text between = value_subject(j, self);
    struct buffer out = {0};
    for (size_t i = 0; !j->status && i < items.list->count && jinja_work(j, 1); i++) {
        if (i) buffer_put(j, &out, between);
        buffer_put(j, &out, value_text_or(j, items.list->items[i], TEXT("")));
    }
    return buffer_value(&out);
}

static struct value filter_indent(struct jinja *j, struct value self, const struct value *a)
{
    struct buffer with_end = {0}, out = {0}, margin = {0};
    if (self.kind != VALUE_STRING) return JINJA_REFUSE(j, "indent: %s is not a string", value_type(self));
    bool first = value_truth(a[1]), blank = value_truth(a[2]);
    if (a[0].kind == VALUE_STRING)
        buffer_put(j, &margin, a[0].text);
    else
        for (int64_t i = value_int_or(j, a[0], 4); i > 0 && !j->status && jinja_work(j, 1); i--)
            buffer_put(j, &margin, TEXT(" "));
    buffer_put(j, &with_end, value_subject(j, self));
    buffer_put(j, &with_end, TEXT("\n"));
    struct value lines = run_splitlines(j, buffer_value(&with_end), a);
    for (size_t i = 0; !j->status && i < lines.list->count; i++) {
        struct text line = lines.list->items[i].text;
        if (i) buffer_put(j, &out, TEXT("\n"));
        if (i ? line.n || blank : first) buffer_put(j, &out, buffer_value(&margin).text);
        buffer_put(j, &out, line);
    }
    return buffer_value(&out);
}

BUILTIN(filter_string, self.kind == VALUE_STRING ? self : value_string(value_text(j, self)))
static struct value filter_safe(struct jinja *j, struct value self, const struct value *a)
{
    self = filter_string(j, self, a);
    self.safe = true;
    return self;
}

static struct value filter_tojson(struct jinja *j, struct value self, const struct value *a)
{
    struct json_style style = {.ascii = value_truth(a[1]), .sorted = value_truth(a[3])};
    struct buffer out = {0}, margin = {0};
    struct text indent;
    if (a[0].kind && a[0].kind != VALUE_NONE) {
        if (a[0].kind == VALUE_STRING)
            buffer_put(j, &margin, a[0].text);
        else
            for (int64_t i = value_int_or(j, a[0], 0); i > 0 && !j->status; i--)
                buffer_put(j, &margin, TEXT(" "));
        indent = buffer_value(&margin).text;
        style.indent = &indent;
    }
    style.item = style.indent ? TEXT(",") : TEXT(", "), style.key = TEXT(": ");
    if (a[2].kind && a[2].kind != VALUE_NONE) {
        struct value pair = value_items(j, a[2]);
        if (j->status || pair.list->count != 2) return JINJA_REFUSE(j, "tojson: separators are two strings");
        style.item = value_text_or(j, pair.list->items[0], TEXT(""));
        style.key = value_text_or(j, pair.list->items[1], TEXT(""));
    }
    value_to_json(j, &out, self, &style);
    return buffer_value(&out);
}

struct value jinja_lower(struct jinja *j, struct text text)
{
    return letters(j, text, CASE_LOWER, CASE_LOWER, NULL);
}

const struct builtin jinja_text_filters[] = {
    {"capitalize", "", 0, run_capitalize},
    {"indent", "width first blank", 0, filter_indent},
    {"lower", "", 0, run_lower},
    {"replace", "old new count", 2, run_replace},
    {"safe", "", 0, filter_safe},
    {"string", "", 0, filter_string},
    {"title", "", 0, filter_title},
    {"tojson", "indent ensure_ascii separators sort_keys", 0, filter_tojson},
    {"trim", "chars", 0, run_strip},
    {"upper", "", 0, run_upper},
    {0},
};

const struct builtin jinja_text_methods[] = {
    {"capitalize", "", 0, run_capitalize},
    {"count", "sub", 1, run_count},
    {"endswith", "suffix", 1, run_endswith},
    {"find", "sub", 1, run_find},
    {"format", "1 2 3 4 5 6", 0, method_format},
    {"join", "iterable", 1, method_join},
    {"lower", "", 0, run_lower},
    {"lstrip", "chars", 0, run_lstrip},
    {"replace", "old new count", 2, run_replace},
    {"rstrip", "chars", 0, run_rstrip},
    {"split", "sep maxsplit", 0, run_split},
    {"splitlines", "", 0, run_splitlines},
    {"startswith", "prefix", 1, run_startswith},
    {"strip", "chars", 0, run_strip},
    {"title", "", 0, method_title},
    {"upper", "", 0, run_upper},
    {0},
};
