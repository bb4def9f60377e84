/* All that templates can call: filters, tests, methods of strings and dictionaries, and functions. Each is a
 * row of one table with its parameters; the manuals of jinja2 and Python say what it does. See jinja.h. */
#include <string.h>
#include <time.h>
#include <utf8proc.h>

#include "core/base/text.h"
#include "datasets/jinja.h"

/* A function of the table. `a` are the arguments by their place in `parameters`; those that were not given
 * are VALUE_ABSENT. `how` tells apart the rows that share a function. */
#define UNUSED __attribute__((unused))
#define BUILTIN(name)                                                                                        \
    static struct value name(UNUSED struct jinja *j, UNUSED struct value self, UNUSED const struct value *a, \
                             UNUSED int how)

/* ---- texts ---- */

/* The text that a method works on; one marked as safe has methods of its own in jinja2. */
static struct text subject(struct jinja *j, struct value value)
{
    if (value.safe) JINJA_REFUSE(j, "a text marked as safe can only be printed");
    return value_text(j, value);
}

enum { LEFT = 1, RIGHT = 2 };
BUILTIN(run_strip)
{
    struct text chars = value_is_given(a[0]) ? value_text_or(j, a[0], TEXT("")) : (struct text){0};
    return value_string(
        text_strip(subject(j, self), value_is_given(a[0]) ? &chars : NULL, how & LEFT, how & RIGHT));
}

enum letter_case { CASE_UPPER, CASE_LOWER, CASE_CAPITAL, CASE_TITLE };

/* Letters that become several in Python, or depend on their neighbours, are refused: never a wrong letter. */
static void put_letter(struct jinja *j, struct buffer *out, uint32_t point, bool upper)
{
    utf8proc_uint8_t bytes[4];
    utf8proc_int32_t c = (utf8proc_int32_t)point;
    bool special = !upper ? point == 0x130 || point == 0x3A3
                          : point == 0xDF || point == 0x149 || point == 0x1F0 || point == 0x390 ||
                                point == 0x3B0 || point == 0x587 || (point >= 0x1E96 && point <= 0x1E9A) ||
                                (point >= 0x1F50 && point <= 0x1FFC) || (point >= 0xFB00 && point <= 0xFB17);
    special = special || utf8proc_totitle(c) != utf8proc_toupper(c);
    if (special) JINJA_REFUSE(j, "the upper and lower case of U+%04X is not supported", point);
    size_t n = (size_t)utf8proc_encode_char(upper ? utf8proc_toupper(c) : utf8proc_tolower(c), bytes);
    buffer_put(j, out, (struct text){(const char *)bytes, n});
}

/* jinja2's title filter and Python's method differ behind other characters than these. */
static bool breaks_words(struct jinja *j, uint32_t point)
{
    bool letter = (point >= 'a' && point <= 'z') || (point >= 'A' && point <= 'Z');
    bool breaks = point && point < 128 && strchr(" \t\n-({[<", (int)point);
    if (!letter && !breaks) JINJA_REFUSE(j, "title: U+%04X is not supported", point);
    return breaks;
}

BUILTIN(run_case)
{
    struct text text = subject(j, self);
    struct buffer out = {0};
    bool start = true; /* of a word */
    uint32_t point;
    for (size_t at = 0, n; at < text.n; at += n) {
        n = text_character(text, at, &point);
        jinja_work(j, 1);
        put_letter(j, &out, point, how == CASE_UPPER || (how != CASE_LOWER && start));
        start = how == CASE_TITLE && breaks_words(j, point);
    }
    return buffer_value(&out);
}

BUILTIN(run_replace)
{
    struct text text = subject(j, self), from = value_text(j, a[0]), to = value_text(j, a[1]);
    int64_t left = value_is_given(a[2]) ? value_int_or(j, a[2], 0) : -1;
    struct buffer out = {0};
    if (!from.n) JINJA_REFUSE(j, "replace: the text to replace is empty");
    jinja_work(j, text.n / 16);
    for (ptrdiff_t at; left-- && (at = text_find(text, from)) >= 0; jinja_work(j, 1)) {
        buffer_put(j, &out, (struct text){text.at, (size_t)at});
        buffer_put(j, &out, to);
        text.at += (size_t)at + from.n, text.n -= (size_t)at + from.n;
    }
    buffer_put(j, &out, text);
    return buffer_value(&out);
}

BUILTIN(run_split)
{
    struct text text = subject(j, self);
    struct value parts = value_list(j, VALUE_LIST);
    int64_t left = value_int_or(j, a[1], -1);
    jinja_work(j, text.n / 16);
    struct text by = value_text_or(j, a[0], TEXT(""));
    if (!by.n) JINJA_REFUSE(j, "split: the separator is empty");
    for (ptrdiff_t at; left-- && (at = text_find(text, by)) >= 0;) {
        list_append(j, parts, value_string((struct text){text.at, (size_t)at}));
        text.at += (size_t)at + by.n, text.n -= (size_t)at + by.n;
    }
    list_append(j, parts, value_string(text));
    return parts;
}

BUILTIN(run_affix)
{
    struct text text = subject(j, self), part = value_text_or(j, a[0], TEXT(""));
    size_t from = how == RIGHT && part.n <= text.n ? text.n - part.n : 0;
    return value_bool(part.n <= text.n && memcmp(text.at + from, part.at, part.n) == 0);
}

/* As many blanks as the number says, or the text itself. */
static struct text margin(struct jinja *j, struct value width, int64_t otherwise)
{
    struct buffer out = {0};
    if (width.kind == VALUE_STRING) return width.text;
    for (int64_t i = value_int_or(j, width, otherwise); i > 0; i--, jinja_work(j, 1))
        buffer_put(j, &out, TEXT(" "));
    return buffer_value(&out).text;
}

/* Whether Python's splitlines would also divide it at another character than a line feed. */
static bool has_other_breaks(struct text line)
{
    for (size_t i = 0; i < line.n; i++) {
        unsigned char c = (unsigned char)line.at[i];
        bool two = i + 1 < line.n, three = i + 2 < line.n;
        if ((c >= '\v' && c <= '\r') || (c >= 0x1C && c <= 0x1E)) return true;
        if (two && memcmp(line.at + i, "\xC2\x85", 2) == 0) return true;
        if (three && (memcmp(line.at + i, "\u2028", 3) == 0 || memcmp(line.at + i, "\u2029", 3) == 0))
            return true;
    }
    return false;
}

BUILTIN(run_indent)
{
    struct text rest = subject(j, self), blanks = margin(j, a[0], 4);
    struct buffer out = {0};
    ptrdiff_t end = 0;
    for (bool first = true; end >= 0; first = false) {
        end = text_find(rest, TEXT("\n"));
        struct text line = {rest.at, end < 0 ? rest.n : (size_t)end + 1};
        if (first ? value_truth(a[1]) : (line.n && end != 0) || value_truth(a[2]))
            buffer_put(j, &out, blanks);
        if (has_other_breaks(line))
            JINJA_REFUSE(j, "indent: line breaks other than a line feed are not supported");
        buffer_put(j, &out, line);
        rest.at += line.n, rest.n -= line.n;
    }
    return buffer_value(&out);
}

BUILTIN(run_string)
{
    if (self.kind != VALUE_STRING) self = value_string(value_text(j, self));
    self.safe = self.safe || how;
    return self;
}

BUILTIN(run_tojson)
{
    struct value_style style = {.json = true, .ascii = value_truth(a[0])};
    struct text indent = value_is_given(a[1]) ? margin(j, a[1], 0) : TEXT("");
    if (value_is_given(a[1])) style.indent = &indent;
    style.item = style.indent ? TEXT(",") : TEXT(", "), style.key = TEXT(": ");
    if (value_is_given(a[2])) {
        const struct list *pair = value_items(j, a[2]);
        if (pair->count != 2) JINJA_REFUSE(j, "tojson: separators are two strings");
        style.item = value_text_or(j, pair->items[0], TEXT(""));
        style.key = value_text_or(j, pair->items[1], TEXT(""));
    }
    return value_string(value_written(j, self, &style));
}

BUILTIN(run_int)
{
    int64_t whole;
    char word[24];
    if (self.kind == VALUE_INT) return self;
    if (self.kind == VALUE_BOOL) return value_int(self.truth);
    if (self.kind == VALUE_REAL && self.real > -9e18 && self.real < 9e18)
        return value_int((int64_t)self.real);
    if (self.kind != VALUE_STRING) JINJA_REFUSE(j, "int: %s is not supported", value_type(self));
    struct text text = text_strip(self.text, NULL, true, true);
    snprintf(word, sizeof word, "%.*s", (int)(text.n < sizeof word ? text.n : 0), text.at);
    if (text_parse_int(word, &whole)) return value_int(whole);
    for (size_t i = 0; i < text.n; i++) /* "1.5", "1_000" and other alphabets are numbers to Python, too */
        if (strchr("0123456789._", text.at[i]) || (text.at[i] & 0x80))
            JINJA_REFUSE(j, "int: '%s' is not supported", SHOWN(text));
    return value_or(a[0], value_int(0));
}

/* ---- lists and dictionaries ---- */

/* Digits are the place of an item, anything else is a name. */
static struct value attribute_part(struct text part)
{
    char digits[20];
    int64_t place;
    snprintf(digits, sizeof digits, "%.*s", (int)(part.n < sizeof digits ? part.n : 0), part.at);
    bool numeric = *digits && strspn(digits, "0123456789") == part.n && text_parse_int(digits, &place);
    return numeric ? value_int(place) : value_string(part);
}

/* "a.0.b", or the place, of an item as the `attribute` of filters; the item itself without one. */
static struct value attribute_of(struct jinja *j, struct value item, struct value path)
{
    if (!value_is_given(path)) return item;
    if (path.kind == VALUE_INT) return jinja_item(j, item, path);
    struct text rest = value_text_or(j, path, TEXT(""));
    for (ptrdiff_t dot; (dot = text_find(rest, TEXT("."))) >= 0; rest.n -= (size_t)dot + 1) {
        item = jinja_item(j, item, attribute_part((struct text){rest.at, (size_t)dot}));
        rest.at += dot + 1;
    }
    return jinja_item(j, item, attribute_part(rest));
}

BUILTIN(run_length)
{
    return value_int(value_length(j, self));
}

/* The same items as another kind of list. */
BUILTIN(run_list)
{
    struct value out = value_list(j, (enum value_kind)how);
    const struct list *items = value_items(j, self);
    for (size_t i = 0; i < items->count; i++) list_append(j, out, items->items[i]);
    return out;
}

BUILTIN(run_end)
{
    const struct list *items = value_items(j, self);
    return items->count ? items->items[how == RIGHT ? items->count - 1 : 0] : value_undefined(TEXT("item"));
}

BUILTIN(run_join)
{
    const struct list *items = value_items(j, self);
    struct buffer out = {0};
    for (size_t i = 0; i < items->count; i++, jinja_work(j, 1)) {
        if (i && a[0].kind) buffer_put(j, &out, value_text(j, a[0]));
        buffer_put(j, &out, value_text(j, attribute_of(j, items->items[i], a[1])));
    }
    return buffer_value(&out);
}

enum { KEYS = 1, VALUES = 2 };
BUILTIN(run_items)
{
    struct value items = value_list(j, VALUE_VIEW);
    if (self.kind == VALUE_UNDEFINED) return items;
    if (self.kind != VALUE_DICT) JINJA_REFUSE(j, "items: %s is not a dictionary", value_type(self));
    for (size_t i = 0; i < self.dict->count; i++) {
        struct value pair = value_list(j, VALUE_TUPLE), key = self.dict->pairs[i].key;
        list_append(j, pair, key), list_append(j, pair, self.dict->pairs[i].value);
        list_append(j, items, how == KEYS ? key : how == VALUES ? self.dict->pairs[i].value : pair);
    }
    return items;
}

BUILTIN(run_get)
{
    const struct value *found = dict_find(j, self.dict, a[0]);
    return found ? *found : value_or(a[1], value_none);
}

/* By which filters order and compare an item: texts without their case, unless `exact`. */
static struct value key_of(struct jinja *j, struct value item, struct value path, struct value exact)
{
    item = attribute_of(j, item, path);
    return item.kind == VALUE_STRING && !value_truth(exact) ? run_case(j, item, NULL, CASE_LOWER) : item;
}

/* Sorts by inserting, as lists in templates are short; equal ones stay in order. */
static struct value sorted(struct jinja *j, const struct list *items, struct value path, struct value exact,
                           bool reverse)
{
    struct value out = value_list(j, VALUE_LIST), keys = value_list(j, VALUE_LIST);
    for (size_t i = 0; i < items->count; i++) {
        struct value key = key_of(j, items->items[i], path, exact);
        size_t at = i;
        list_append(j, out, items->items[i]), list_append(j, keys, key);
        for (; at > 0; at--, jinja_work(j, 1)) {
            struct value before = keys.list->items[at - 1];
            if (!value_compare(j, reverse ? OP_GREATER : OP_LESS, key, before)) break;
            keys.list->items[at] = before, out.list->items[at] = out.list->items[at - 1];
        }
        keys.list->items[at] = key, out.list->items[at] = items->items[i];
    }
    return out;
}

BUILTIN(run_sort)
{
    if (a[2].kind == VALUE_STRING && text_find(a[2].text, TEXT(",")) >= 0)
        JINJA_REFUSE(j, "sort: several attributes are not supported");
    return sorted(j, value_items(j, self), a[2], a[1], value_truth(a[0]));
}

BUILTIN(run_dictsort)
{
    struct text by = value_text_or(j, a[1], TEXT("key"));
    if (!text_is(by, "key") && !text_is(by, "value")) JINJA_REFUSE(j, "dictsort: by is \"key\" or \"value\"");
    struct value place = value_int(text_is(by, "value"));
    return sorted(j, run_items(j, self, a, 0).list, place, a[0], value_truth(a[2]));
}

BUILTIN(run_unique)
{
    struct value out = value_list(j, VALUE_GENERATOR), keys = value_list(j, VALUE_LIST);
    const struct list *items = value_items(j, self);
    for (size_t i = 0; i < items->count; i++) {
        struct value key = key_of(j, items->items[i], a[1], a[0]);
        if (value_compare(j, OP_IN, key, keys)) continue;
        list_append(j, keys, key), list_append(j, out, items->items[i]);
    }
    return out;
}

BUILTIN(run_default)
{
    bool replace = self.kind == VALUE_UNDEFINED || (value_truth(a[1]) && !value_truth(self));
    return replace ? value_or(a[0], value_string(TEXT(""))) : self;
}

/* The argument of the filter or test whose name is an argument of map, select and others. */
static struct arguments argument_of(struct value value)
{
    return (struct arguments){.count = value.kind ? 1 : 0, .values = {value}};
}

/* jinja2 takes none and the like for empty here. */
static const struct list *items_or_none(struct jinja *j, struct value self)
{
    return value_items(j, value_truth(self) ? self : value_undefined(TEXT("")));
}

BUILTIN(run_map)
{
    struct value out = value_list(j, VALUE_GENERATOR);
    const struct list *items = items_or_none(j, self);
    struct arguments given = argument_of(a[1]);
    if (!a[2].kind == !a[0].kind) JINJA_REFUSE(j, "map: needs a filter or an attribute");
    if (a[0].kind && a[3].kind) JINJA_REFUSE(j, "map: a default needs an attribute");
    for (size_t i = 0; i < items->count; i++) {
        struct value item = a[2].kind ? attribute_of(j, items->items[i], a[2])
                                      : jinja_call_named(j, FILTER, value_text_or(j, a[0], TEXT("")),
                                                         items->items[i], &given);
        list_append(j, out, item.kind == VALUE_UNDEFINED ? value_or(a[3], item) : item);
    }
    return out;
}

/* select, reject and, with the attribute as the first argument, selectattr and rejectattr. */
enum { REJECT = 1, BY_ATTRIBUTE = 2 };
BUILTIN(run_select)
{
    const struct value *test = a + (how & BY_ATTRIBUTE ? 1 : 0);
    const struct list *items = items_or_none(j, self);
    struct value out = value_list(j, VALUE_GENERATOR);
    struct arguments given = argument_of(test[1]);
    for (size_t i = 0; i < items->count; i++) {
        struct value item = how & BY_ATTRIBUTE ? attribute_of(j, items->items[i], a[0]) : items->items[i];
        if (test->kind) item = jinja_call_named(j, TEST, value_text_or(j, *test, TEXT("")), item, &given);
        if (value_truth(item) != !!(how & REJECT)) list_append(j, out, items->items[i]);
    }
    return out;
}

/* ---- tests ---- */

#define KIND(name) (1 << VALUE_##name)
#define NUMBERS    (KIND(BOOL) | KIND(INT) | KIND(REAL))
#define SEQUENCES  (KIND(UNDEFINED) | KIND(STRING) | KIND(LIST) | KIND(TUPLE) | KIND(DICT))

BUILTIN(run_is_kind)
{
    if (self.kind == VALUE_VIEW && how == SEQUENCES) /* a range is one, keys() are not */
        JINJA_REFUSE(j, "sequence: %s is not supported", value_type(self));
    return value_bool(how & 1 << self.kind);
}

BUILTIN(run_is_bool)
{
    return value_bool(self.kind == VALUE_BOOL && self.truth == how);
}

BUILTIN(run_compare)
{
    return value_bool(value_compare(j, (enum operation)how, self, a[0]));
}

/* ---- functions ---- */

BUILTIN(run_dict)
{
    struct value out = value_dict(j, (enum value_kind)how);
    for (size_t i = 0; i < a[0].dict->count; i++)
        dict_put(j, out.dict, a[0].dict->pairs[i].key, a[0].dict->pairs[i].value);
    return out;
}

BUILTIN(run_range)
{
    int64_t start = a[1].kind ? value_int_or(j, a[0], 0) : 0, step = value_int_or(j, a[2], 1);
    int64_t stop = value_int_or(j, a[1].kind ? a[1] : a[0], 0);
    struct value out = value_list(j, VALUE_VIEW);
    if (!step) JINJA_REFUSE(j, "range: the step is 0");
    for (int64_t at = start; step > 0 ? at < stop : at > stop;) {
        if (out.list->count == JINJA_RANGE_MAX)
            JINJA_REFUSE(j, "range: more than %d numbers", JINJA_RANGE_MAX);
        list_append(j, out, value_int(at));
        if (__builtin_add_overflow(at, step, &at)) break;
    }
    return out;
}

BUILTIN(run_raise_exception)
{
    JINJA_REFUSE(j, "the template refuses this conversation: %s",
                 jinja_shown(value_text(j, a[0]), (char[600]){0}, 600));
}

BUILTIN(run_strftime_now)
{
    char format[256];
    struct text text = value_text_or(j, a[0], TEXT(""));
    time_t seconds = time(NULL);
    struct tm local;
    char *out = jinja_alloc(j, 1024, 1);
    if (text.n >= sizeof format || memchr(text.at, 0, text.n) || !localtime_r(&seconds, &local))
        JINJA_REFUSE(j, "strftime_now: the format is not supported");
    snprintf(format, sizeof format, "%.*s", (int)text.n, text.at);
    return value_string((struct text){out, strftime(out, 1024, format, &local)});
}

/* ---- the table ---- */

const struct builtin jinja_builtins[] = {
    /* of texts */
    {FILTER | TEXT_METHOD, "capitalize", "", 0, run_case, CASE_CAPITAL},
    {FILTER | TEXT_METHOD, "lower", "", 0, run_case, CASE_LOWER},
    {FILTER | TEXT_METHOD, "title", "", 0, run_case, CASE_TITLE},
    {FILTER | TEXT_METHOD, "upper", "", 0, run_case, CASE_UPPER},
    {FILTER | TEXT_METHOD, "replace", "old new count", 2, run_replace, 0},
    {FILTER, "trim", "chars", 0, run_strip, LEFT | RIGHT},
    {TEXT_METHOD, "strip", "chars", 0, run_strip, LEFT | RIGHT},
    {TEXT_METHOD, "lstrip", "chars", 0, run_strip, LEFT},
    {TEXT_METHOD, "rstrip", "chars", 0, run_strip, RIGHT},
    {TEXT_METHOD, "split", "sep maxsplit", 1, run_split, 0},
    {TEXT_METHOD, "startswith", "prefix", 1, run_affix, LEFT},
    {TEXT_METHOD, "endswith", "suffix", 1, run_affix, RIGHT},
    {FILTER, "indent", "width first blank", 0, run_indent, 0},
    {FILTER, "int", "default", 0, run_int, 0},
    {FILTER, "safe", "", 0, run_string, 1},
    {FILTER, "string", "", 0, run_string, 0},
    {FILTER, "tojson", "ensure_ascii indent separators", 0, run_tojson, 0},
    /* of lists and dictionaries */
    {FILTER, "count", "", 0, run_length, 0},
    {FILTER, "default", "default_value boolean", 0, run_default, 0},
    {FILTER, "dictsort", "case_sensitive by reverse", 0, run_dictsort, 0},
    {FILTER, "first", "", 0, run_end, LEFT},
    {FILTER, "items", "", 0, run_items, 0},
    {FILTER, "join", "d attribute", 0, run_join, 0},
    {FILTER, "last", "", 0, run_end, RIGHT},
    {FILTER, "length", "", 0, run_length, 0},
    {FILTER, "list", "", 0, run_list, VALUE_LIST},
    {FILTER, "map", "filter argument attribute default", 0, run_map, 0},
    {FILTER, "reject", "test argument", 0, run_select, REJECT},
    {FILTER, "rejectattr", "attribute test argument", 1, run_select, REJECT | BY_ATTRIBUTE},
    {FILTER, "select", "test argument", 0, run_select, 0},
    {FILTER, "selectattr", "attribute test argument", 1, run_select, BY_ATTRIBUTE},
    {FILTER, "sort", "reverse case_sensitive attribute", 0, run_sort, 0},
    {FILTER, "unique", "case_sensitive attribute", 0, run_unique, 0},
    {DICT_METHOD, "get", "key default", 1, run_get, 0},
    {DICT_METHOD, "items", "", 0, run_items, 0},
    {DICT_METHOD, "keys", "", 0, run_items, KEYS},
    {DICT_METHOD, "values", "", 0, run_items, VALUES},
    /* tests */
    {TEST, "boolean", "", 0, run_is_kind, KIND(BOOL)},
    {TEST, "defined", "", 0, run_is_kind, ~KIND(UNDEFINED)},
    {TEST, "float", "", 0, run_is_kind, KIND(REAL)},
    {TEST, "integer", "", 0, run_is_kind, KIND(INT)},
    {TEST, "iterable", "", 0, run_is_kind, SEQUENCES | KIND(VIEW) | KIND(GENERATOR)},
    {TEST, "mapping", "", 0, run_is_kind, KIND(DICT)},
    {TEST, "none", "", 0, run_is_kind, KIND(NONE)},
    {TEST, "number", "", 0, run_is_kind, NUMBERS},
    {TEST, "sequence", "", 0, run_is_kind, SEQUENCES},
    {TEST, "string", "", 0, run_is_kind, KIND(STRING)},
    {TEST, "undefined", "", 0, run_is_kind, KIND(UNDEFINED)},
    {TEST, "false", "", 0, run_is_bool, false},
    {TEST, "true", "", 0, run_is_bool, true},
    {TEST, "==", "other", 1, run_compare, OP_EQUAL},
    {TEST, "eq", "other", 1, run_compare, OP_EQUAL},
    {TEST, "equalto", "other", 1, run_compare, OP_EQUAL},
    {TEST, "in", "seq", 1, run_compare, OP_IN},
    {TEST, "ne", "other", 1, run_compare, OP_UNEQUAL},
    /* functions */
    {FUNCTION, "dict", "**", 0, run_dict, VALUE_DICT},
    {FUNCTION, "namespace", "**", 0, run_dict, VALUE_NAMESPACE},
    {FUNCTION, "raise_exception", "message", 1, run_raise_exception, 0},
    {FUNCTION, "range", "start stop step", 1, run_range, 0},
    {FUNCTION, "strftime_now", "format", 1, run_strftime_now, 0},
    {0},
};
