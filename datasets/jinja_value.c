/* Values of the chat template engine as Python has them: truth, equality, order, text, JSON. See jinja.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "datasets/jinja.h"

/* ---- errors, memory, bounds ---- */

struct value jinja_fail(struct jinja *j, enum status status, const char *format, ...)
{
    char text[400];
    TEXT_FORMAT(text, format);
    if (!j->status)
        j->status = err_set(j->err, status, "%s: line %d: %.*s", j->name, j->line,
                            (int)utf8_cut(text, strlen(text)), text);
    return value_undefined((struct text){0});
}

const char *jinja_shown(struct text text, char *buf, size_t size)
{
    size_t n = text.n < size / 2 ? text.n : utf8_cut(text.at, size / 2);
    clean_block(buf, size, text.at, n);
    for (char *c = buf; *c; c++)
        if (*c == '\n' || *c == '\t') *c = ' ';
    return buf;
}

void *jinja_alloc(struct jinja *j, size_t count, size_t size)
{
    if (j->status) return NULL;
    if (count > JINJA_MEMORY_MAX / size || j->bytes > JINJA_MEMORY_MAX - count * size) {
        JINJA_REFUSE(j, "the template needs more than %d MiB", JINJA_MEMORY_MAX >> 20);
        return NULL;
    }
    j->bytes += count * size;
    void *memory = arena_alloc_array(&j->arena, count ? count : 1, size);
    if (!memory) jinja_fail(j, STATUS_NO_MEMORY, "no memory for the template");
    return memory;
}

bool jinja_work(struct jinja *j, size_t steps)
{
    j->work += steps;
    if (!j->status && j->work > JINJA_WORK_MAX)
        JINJA_REFUSE(j, "the template runs for more than %d steps (does it loop?)", JINJA_WORK_MAX);
    return !j->status;
}

bool jinja_enter(struct jinja *j)
{
    if (!jinja_work(j, 1)) return false;
    if (j->depth >= JINJA_DEPTH_MAX) {
        JINJA_REFUSE(j, "nested more than %d deep", JINJA_DEPTH_MAX);
        return false;
    }
    j->depth++;
    return true;
}

void jinja_leave(struct jinja *j)
{
    j->depth--;
}

/* ---- text ---- */

bool text_is(struct text text, const char *word)
{
    return strlen(word) == text.n && memcmp(text.at, word, text.n) == 0;
}

bool text_same(struct text a, struct text b)
{
    return a.n == b.n && (!a.n || memcmp(a.at, b.at, a.n) == 0);
}

ptrdiff_t text_find(struct text text, struct text needle, size_t from)
{
    if (from > text.n) return -1;
    if (!needle.n) return (ptrdiff_t)from;
    const char *found = from < text.n ? memmem(text.at + from, text.n - from, needle.at, needle.n) : NULL;
    return found ? found - text.at : -1;
}

bool text_is_space(uint32_t point)
{
    return (point >= 9 && point <= 13) || (point >= 28 && point <= 32) || point == 0x85 || point == 0xA0 ||
           point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 || point == 0x2029 ||
           point == 0x202F || point == 0x205F || point == 0x3000;
}

size_t text_character(struct text text, size_t at, uint32_t *point)
{
    size_t n = utf8_character(text.at + at, text.n - at, point);
    return n ? n : 1;
}

/* Whether the character of n bytes at `at` is one to strip. */
static bool strippable(const char *at, size_t n, const struct text *chars)
{
    uint32_t point = 0;
    if (chars) return text_find(*chars, (struct text){at, n}, 0) >= 0;
    utf8_character(at, n, &point);
    return text_is_space(point);
}

struct text text_strip(struct text text, const struct text *chars, bool left, bool right)
{
    uint32_t point;
    while (left && text.n) {
        size_t n = text_character(text, 0, &point);
        if (!strippable(text.at, n, chars)) break;
        text.at += n, text.n -= n;
    }
    while (right && text.n) {
        size_t n = 1;
        while (n < text.n && n < 4 && ((unsigned char)text.at[text.n - n] & 0xC0) == 0x80) n++;
        if (!strippable(text.at + text.n - n, n, chars)) break;
        text.n -= n;
    }
    return text;
}

void buffer_put(struct jinja *j, struct buffer *buffer, struct text text)
{
    if (!text.n || !jinja_work(j, text.n / 64)) return;
    if (buffer->capacity - buffer->n < text.n) {
        size_t capacity = 2 * (buffer->n + text.n) + 32;
        char *grown = jinja_alloc(j, capacity, 1);
        if (!grown) return;
        if (buffer->n) memcpy(grown, buffer->at, buffer->n);
        buffer->at = grown, buffer->capacity = capacity;
    }
    memcpy(buffer->at + buffer->n, text.at, text.n);
    buffer->n += text.n;
}

/* ---- making values ---- */

struct value buffer_value(const struct buffer *buffer)
{
    return value_string((struct text){buffer->at ? buffer->at : "", buffer->n});
}

struct value value_undefined(struct text name)
{
    return (struct value){.kind = VALUE_UNDEFINED, .text = name};
}

struct value value_bool(bool truth)
{
    return (struct value){.kind = VALUE_BOOL, .truth = truth};
}

struct value value_int(int64_t whole)
{
    return (struct value){.kind = VALUE_INT, .whole = whole};
}

struct value value_string(struct text text)
{
    return (struct value){.kind = VALUE_STRING, .text = text};
}

struct value value_list(struct jinja *j, enum value_kind kind, size_t count)
{
    struct list *list = jinja_alloc(j, 1, sizeof *list);
    struct value *items = jinja_alloc(j, count, sizeof *items);
    if (!items) return value_undefined((struct text){0});
    jinja_work(j, count / 4);
    for (size_t i = 0; i < count; i++) items[i] = value_undefined((struct text){0});
    *list = (struct list){count, false, items};
    return (struct value){.kind = kind, .list = list};
}

void list_append(struct jinja *j, struct value *value, size_t *capacity, struct value item)
{
    if (j->status) return;
    struct list *list = value->list;
    if (list->count == *capacity) {
        size_t grown = 2 * list->count + 8;
        struct value *items = jinja_alloc(j, grown, sizeof *items);
        if (!items) return;
        if (list->count) memcpy(items, list->items, list->count * sizeof *items);
        list->items = items, *capacity = grown;
    }
    list->items[list->count++] = item;
}

const struct value *dict_find(struct jinja *j, const struct dict *dict, struct value key)
{
    for (size_t i = 0; i < dict->count; i++)
        if (value_equal(j, dict->pairs[i].key, key)) return &dict->pairs[i].value;
    jinja_work(j, dict->count / 8);
    return NULL;
}

void dict_put(struct jinja *j, struct dict *dict, struct value key, struct value value)
{
    struct value *old = (struct value *)dict_find(j, dict, key);
    if (old) {
        *old = value;
        return;
    }
    if (dict->count == dict->capacity) {
        size_t capacity = 2 * dict->capacity + 4;
        struct dict_pair *pairs = jinja_alloc(j, capacity, sizeof *pairs);
        if (!pairs) return;
        if (dict->count) memcpy(pairs, dict->pairs, dict->count * sizeof *pairs);
        dict->pairs = pairs, dict->capacity = capacity;
    }
    dict->pairs[dict->count++] = (struct dict_pair){key, value};
}

/* An object of thousands of members (a hostile one) costs dict_put quadratic work, which is counted. */
static struct value dict_from_json(struct jinja *j, const json_t *json)
{
    struct value value = {.kind = VALUE_DICT, .dict = jinja_alloc(j, 1, sizeof *value.dict)};
    for (void *at = json_object_iter((json_t *)json); at && !j->status;
         at = json_object_iter_next((json_t *)json, at)) {
        const char *key = json_object_iter_key(at);
        dict_put(j, value.dict, value_string((struct text){key, strlen(key)}),
                 value_from_json(j, json_object_iter_value(at)));
    }
    return value;
}

struct value value_from_json(struct jinja *j, const json_t *json)
{
    struct value value = {.kind = VALUE_NONE};
    if (!json || !jinja_enter(j)) return value;
    switch (json_typeof(json)) {
    case JSON_NULL:
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        value = value_bool(json_is_true(json));
        break;
    case JSON_INTEGER:
        value = value_int(json_integer_value(json));
        break;
    case JSON_REAL:
        value = (struct value){.kind = VALUE_REAL, .real = json_real_value(json)};
        break;
    case JSON_STRING:
        value = value_string((struct text){json_string_value(json), json_string_length(json)});
        break;
    case JSON_ARRAY:
        value = value_list(j, VALUE_LIST, json_array_size(json));
        for (size_t i = 0; !j->status && i < value.list->count; i++)
            value.list->items[i] = value_from_json(j, json_array_get(json, i));
        break;
    case JSON_OBJECT:
        value = dict_from_json(j, json);
    }
    jinja_leave(j);
    return value;
}

/* ---- what values are ---- */

const char *value_type(struct value value)
{
    static const char *const words[] = {
        [VALUE_ABSENT] = "nothing",
        [VALUE_UNDEFINED] = "something undefined",
        [VALUE_NONE] = "none",
        [VALUE_BOOL] = "a boolean",
        [VALUE_INT] = "a number",
        [VALUE_REAL] = "a number",
        [VALUE_STRING] = "a string",
        [VALUE_LIST] = "a list",
        [VALUE_TUPLE] = "a tuple",
        [VALUE_DICT] = "a dictionary",
        [VALUE_VIEW] = "a range or a view of a dictionary",
        [VALUE_GENERATOR] = "the result of a filter (add |list to it)",
        [VALUE_NAMESPACE] = "a namespace",
        [VALUE_LOOP] = "the loop",
        [VALUE_MACRO] = "a macro",
        [VALUE_FUNCTION] = "a function",
    };
    return words[value.kind];
}

bool value_is_number(struct value value)
{
    return value.kind == VALUE_BOOL || value.kind == VALUE_INT || value.kind == VALUE_REAL;
}

static int64_t whole_of(struct value value)
{
    return value.kind == VALUE_BOOL ? value.truth : value.whole;
}

double value_real(struct value value)
{
    return value.kind == VALUE_REAL ? value.real : (double)whole_of(value);
}

bool value_truth(struct value value)
{
    switch (value.kind) {
    case VALUE_ABSENT:
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return false;
    case VALUE_BOOL:
        return value.truth;
    case VALUE_INT:
        return value.whole != 0;
    case VALUE_REAL:
        return value.real != 0;
    case VALUE_STRING:
        return value.text.n > 0;
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_VIEW:
        return value.list->count > 0;
    case VALUE_DICT:
        return value.dict->count > 0;
    default:
        return true;
    }
}

static bool lists_equal(struct jinja *j, const struct list *a, const struct list *b)
{
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++)
        if (!value_equal(j, a->items[i], b->items[i])) return false;
    return true;
}

static bool dicts_equal(struct jinja *j, const struct dict *a, const struct dict *b)
{
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct value *other = dict_find(j, b, a->pairs[i].key);
        if (!other || !value_equal(j, a->pairs[i].value, *other)) return false;
    }
    return true;
}

bool value_equal(struct jinja *j, struct value a, struct value b)
{
    bool equal = false;
    if (value_is_number(a) && value_is_number(b))
        return a.kind == VALUE_REAL || b.kind == VALUE_REAL ? value_real(a) == value_real(b)
                                                            : whole_of(a) == whole_of(b);
    if (a.kind != b.kind || !jinja_enter(j)) return false;
    if (a.kind == VALUE_STRING)
        equal = jinja_work(j, a.text.n / 64) && text_same(a.text, b.text);
    else if (a.kind == VALUE_LIST || a.kind == VALUE_TUPLE)
        equal = lists_equal(j, a.list, b.list);
    else if (a.kind == VALUE_DICT)
        equal = dicts_equal(j, a.dict, b.dict);
    else if (a.kind == VALUE_NAMESPACE)
        equal = a.dict == b.dict;
    else if (a.kind <= VALUE_NONE)
        equal = true;
    else
        JINJA_REFUSE(j, "comparing %s is not supported", value_type(a));
    jinja_leave(j);
    return equal;
}

int value_order(struct jinja *j, struct value a, struct value b)
{
    if (value_is_number(a) && value_is_number(b)) {
        if (a.kind != VALUE_REAL && b.kind != VALUE_REAL)
            return (whole_of(a) > whole_of(b)) - (whole_of(a) < whole_of(b));
        return (value_real(a) > value_real(b)) - (value_real(a) < value_real(b));
    }
    if (a.kind == VALUE_STRING && b.kind == VALUE_STRING) { /* UTF-8 has the order of code points */
        size_t n = a.text.n < b.text.n ? a.text.n : b.text.n;
        int order = n && jinja_work(j, n / 64) ? memcmp(a.text.at, b.text.at, n) : 0;
        return order ? order : (a.text.n > b.text.n) - (a.text.n < b.text.n);
    }
    JINJA_REFUSE(j, "%s cannot be ordered with %s", value_type(a), value_type(b));
    return 0;
}

bool value_contains(struct jinja *j, struct value container, struct value item)
{
    if (container.kind == VALUE_STRING) {
        if (item.kind == VALUE_STRING)
            return jinja_work(j, container.text.n / 16) && text_find(container.text, item.text, 0) >= 0;
        JINJA_REFUSE(j, "%s cannot be looked for in a string", value_type(item));
    } else if (container.kind == VALUE_DICT) {
        return dict_find(j, container.dict, item);
    } else {
        struct value items = value_items(j, container);
        for (size_t i = 0; !j->status && i < items.list->count; i++)
            if (value_equal(j, items.list->items[i], item)) return true;
    }
    return false;
}

size_t value_length(struct jinja *j, struct value value)
{
    uint32_t point;
    size_t count = 0;
    if (value.kind == VALUE_STRING) {
        jinja_work(j, value.text.n / 16);
        for (size_t at = 0; at < value.text.n; count++) at += text_character(value.text, at, &point);
        return count;
    }
    if (value.kind >= VALUE_LIST && value.kind <= VALUE_VIEW && value.kind != VALUE_DICT)
        return value.list->count;
    if (value.kind == VALUE_DICT) return value.dict->count;
    if (value.kind != VALUE_UNDEFINED) JINJA_REFUSE(j, "%s has no length", value_type(value));
    return 0;
}

struct value value_items(struct jinja *j, struct value value)
{
    uint32_t point;
    if (value.kind == VALUE_LIST || value.kind == VALUE_TUPLE || value.kind == VALUE_VIEW) return value;
    if (value.kind == VALUE_GENERATOR && !value.list->used) {
        value.list->used = true;
        return value;
    }
    if (value.kind == VALUE_GENERATOR)
        return JINJA_REFUSE(j, "the result of a filter is used a second time (add |list to the filter)");
    if (value.kind != VALUE_STRING && value.kind != VALUE_DICT && value.kind != VALUE_UNDEFINED)
        return JINJA_REFUSE(j, "%s cannot be iterated", value_type(value));
    struct value items = value_list(j, VALUE_LIST, value_length(j, value));
    for (size_t i = 0, at = 0, n; !j->status && i < items.list->count; i++, at += n) {
        n = value.kind == VALUE_STRING ? text_character(value.text, at, &point) : 0;
        items.list->items[i] = value.kind == VALUE_STRING ? value_string((struct text){value.text.at + at, n})
                                                          : value.dict->pairs[i].key;
    }
    return items;
}

/* ---- arguments ---- */

struct text value_text_or(struct jinja *j, struct value value, struct text otherwise)
{
    if (value.kind == VALUE_STRING) return value.text;
    if (value.kind) JINJA_REFUSE(j, "%s stands where a string is needed", value_type(value));
    return otherwise;
}

int64_t value_int_or(struct jinja *j, struct value value, int64_t otherwise)
{
    if (value.kind == VALUE_INT) return value.whole;
    if (value.kind) JINJA_REFUSE(j, "%s stands where a whole number is needed", value_type(value));
    return otherwise;
}

struct value value_joined(struct jinja *j, struct value a, struct value b)
{
    static const struct text from[] = {TEXT("&"), TEXT("<"), TEXT(">"), TEXT("'"), TEXT("\"")};
    static const struct text to[] = {TEXT("&amp;"), TEXT("&lt;"), TEXT("&gt;"), TEXT("&#39;"), TEXT("&#34;")};
    const struct value parts[] = {a, b};
    struct buffer out = {0};
    for (int p = 0; p < 2; p++) {
        struct text text = parts[p].text;
        for (size_t at = 0; at < text.n && !j->status; at++) {
            size_t i = 0, plain = at;
            bool escape = parts[!p].safe && !parts[p].safe;
            while (at < text.n && !(escape && strchr("&<>'\"", text.at[at]))) at++;
            buffer_put(j, &out, (struct text){text.at + plain, at - plain});
            while (i < 5 && at < text.n && from[i].at[0] != text.at[at]) i++;
            if (i < 5 && at < text.n) buffer_put(j, &out, to[i]);
        }
    }
    struct value joined = buffer_value(&out);
    joined.safe = a.safe || b.safe;
    return joined;
}

struct value value_or(struct value value, struct value otherwise)
{
    return value.kind ? value : otherwise;
}
