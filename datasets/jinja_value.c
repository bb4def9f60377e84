/* Values of the chat template engine as Python has them: truth, equality, order. See jinja.h. */
#include <string.h>
#include <utf8proc.h>

#include "core/base/text.h"
#include "datasets/jinja.h"

static bool value_equal(struct jinja *j, struct value a, struct value b);

/* ---- failures, memory, limits ---- */

enum status jinja_try(struct jinja *j, void (*step)(struct jinja *j, void *context), void *context)
{
    if (setjmp(j->failed) == 0)
        step(j, context);
    else
        arena_release(&j->arena);
    return j->status;
}

void jinja_fail(struct jinja *j, enum status status, const char *format, ...)
{
    char text[400];
    TEXT_FORMAT(text, format);
    j->status = err_set(j->err, status, "%s: line %d: %.*s", j->name, j->line,
                        (int)utf8_cut(text, strlen(text)), text);
    longjmp(j->failed, 1);
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
    if (count > JINJA_MEMORY_MAX / size || j->bytes > JINJA_MEMORY_MAX - count * size)
        JINJA_REFUSE(j, "the template needs more than %d MiB", JINJA_MEMORY_MAX >> 20);
    j->bytes += count * size;
    void *memory = arena_alloc_array(&j->arena, count ? count : 1, size);
    if (!memory) jinja_fail(j, STATUS_NO_MEMORY, "no memory for the template");
    return memory;
}

void *jinja_room(struct jinja *j, void *array, size_t count, size_t more, size_t *capacity, size_t size)
{
    if (*capacity - count >= more) return array;
    size_t grown = 2 * (count + more) + 2;
    void *copy = jinja_alloc(j, grown, size);
    if (count) memcpy(copy, array, count * size);
    *capacity = grown;
    return copy;
}

void jinja_work(struct jinja *j, size_t steps)
{
    j->work += steps;
    if (j->work > JINJA_WORK_MAX)
        JINJA_REFUSE(j, "the template runs for more than %d steps (does it loop?)", JINJA_WORK_MAX);
}

void jinja_enter(struct jinja *j)
{
    jinja_work(j, 1);
    if (j->depth++ >= JINJA_DEPTH_MAX) JINJA_REFUSE(j, "nested more than %d deep", JINJA_DEPTH_MAX);
}

void jinja_leave(struct jinja *j)
{
    j->depth--;
}

/* ---- text ---- */

static bool text_same(struct text a, struct text b)
{
    return a.n == b.n && (!a.n || memcmp(a.at, b.at, a.n) == 0);
}

bool text_is(struct text text, const char *word)
{
    return text_same(text, (struct text){word, strlen(word)});
}

ptrdiff_t text_find(struct text text, struct text needle)
{
    if (!needle.n) return 0;
    const char *found = text.n ? memmem(text.at, text.n, needle.at, needle.n) : NULL;
    return found ? found - text.at : -1;
}

/* As Python's str.isspace. */
static bool text_is_space(uint32_t point)
{
    utf8proc_category_t kind = utf8proc_category((utf8proc_int32_t)point);
    return (kind >= UTF8PROC_CATEGORY_ZS && kind <= UTF8PROC_CATEGORY_ZP) || (point >= 9 && point <= 13) ||
           (point >= 28 && point <= 31) || point == 0x85;
}

size_t text_character(struct text text, size_t at, uint32_t *point)
{
    size_t n = utf8_character(text.at + at, text.n - at, point);
    return n ? n : 1;
}

struct text text_strip(struct text text, const struct text *chars, bool left, bool right)
{
    uint32_t point;
    while (text.n && (left || right)) {
        size_t n =
            left ? utf8_character(text.at, text.n, &point) : utf8_last_character(text.at, text.n, &point);
        const char *at = left ? text.at : text.at + text.n - n;
        bool strip = n && (chars ? text_find(*chars, (struct text){at, n}) >= 0 : text_is_space(point));
        if (strip) {
            text.at += left ? n : 0;
            text.n -= n;
        } else if (left) {
            left = false;
        } else {
            break;
        }
    }
    return text;
}

void buffer_put(struct jinja *j, struct buffer *buffer, struct text text)
{
    if (!text.n) return;
    jinja_work(j, text.n / 64);
    buffer->at = jinja_room(j, buffer->at, buffer->n, text.n, &buffer->capacity, 1);
    memcpy(buffer->at + buffer->n, text.at, text.n);
    buffer->n += text.n;
}

/* ---- making values ---- */

const struct value value_none = {.kind = VALUE_NONE};

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

struct value value_list(struct jinja *j, enum value_kind kind)
{
    return (struct value){.kind = kind, .list = jinja_alloc(j, 1, sizeof(struct list))};
}

struct value value_dict(struct jinja *j, enum value_kind kind)
{
    return (struct value){.kind = kind, .dict = jinja_alloc(j, 1, sizeof(struct dict))};
}

void list_append(struct jinja *j, struct value value, struct value item)
{
    struct list *list = value.list;
    jinja_work(j, 1);
    list->items = jinja_room(j, list->items, list->count, 1, &list->capacity, sizeof item);
    list->items[list->count++] = item;
}

const struct value *dict_find(struct jinja *j, const struct dict *dict, struct value key)
{
    for (size_t i = 0; i < dict->count; i++)
        if (value_equal(j, dict->pairs[i].key, key)) return &dict->pairs[i].value;
    return NULL;
}

void dict_put(struct jinja *j, struct dict *dict, struct value key, struct value value)
{
    struct value *old = (struct value *)dict_find(j, dict, key);
    if (old) {
        *old = value;
        return;
    }
    dict->pairs = jinja_room(j, dict->pairs, dict->count, 1, &dict->capacity, sizeof *dict->pairs);
    dict->pairs[dict->count++] = (struct dict_pair){key, value};
}

struct value value_from_json(struct jinja *j, const json_t *json)
{
    struct value value = value_none;
    const char *key;
    json_t *member;
    size_t i;
    jinja_enter(j);
    if (json_is_boolean(json)) {
        value = value_bool(json_is_true(json));
    } else if (json_is_integer(json)) {
        value = value_int(json_integer_value(json));
    } else if (json_is_real(json)) {
        value = (struct value){.kind = VALUE_REAL, .real = json_real_value(json)};
    } else if (json_is_string(json)) {
        value = value_string((struct text){json_string_value(json), json_string_length(json)});
    } else if (json_is_array(json)) {
        value = value_list(j, VALUE_LIST);
        json_array_foreach(json, i, member) list_append(j, value, value_from_json(j, member));
    } else if (json_is_object(json)) {
        value = value_dict(j, VALUE_DICT);
        json_object_foreach((json_t *)json, key, member)
            dict_put(j, value.dict, value_string((struct text){key, strlen(key)}),
                     value_from_json(j, member));
    }
    jinja_leave(j);
    return value;
}

/* ---- properties of values ---- */

const char *value_type(struct value value)
{
    static const char *const words[] = {
        [VALUE_ABSENT] = "nothing",
        [VALUE_UNDEFINED] = "something undefined",
        [VALUE_NONE] = "none",
        [VALUE_BOOL] = "a boolean",
        [VALUE_INT] = "a number",
        [VALUE_REAL] = "a real number",
        [VALUE_STRING] = "a string",
        [VALUE_LIST] = "a list",
        [VALUE_TUPLE] = "a tuple",
        [VALUE_VIEW] = "a range or a view of a dictionary",
        [VALUE_GENERATOR] = "the result of a filter (add |list to it)",
        [VALUE_DICT] = "a dictionary",
        [VALUE_NAMESPACE] = "a namespace",
        [VALUE_LOOP] = "the loop",
        [VALUE_MACRO] = "a macro",
        [VALUE_FUNCTION] = "a function",
    };
    return words[value.kind];
}

bool value_is_given(struct value value)
{
    return value.kind != VALUE_ABSENT && value.kind != VALUE_NONE;
}

/* Python counts booleans as numbers. */
static bool is_number(struct value value)
{
    return value.kind == VALUE_BOOL || value.kind == VALUE_INT || value.kind == VALUE_REAL;
}

bool value_truth(struct value value)
{
    if (value.kind == VALUE_BOOL) return value.truth;
    if (value.kind == VALUE_INT) return value.whole != 0;
    if (value.kind == VALUE_REAL) return value.real != 0;
    if (value.kind == VALUE_STRING) return value.text.n > 0;
    if (value.kind == VALUE_DICT) return value.dict->count > 0;
    if (value.kind >= VALUE_LIST && value.kind <= VALUE_VIEW) return value.list->count > 0;
    return value.kind > VALUE_NONE;
}

static int order_numbers(struct value a, struct value b)
{
    if (a.kind == VALUE_REAL || b.kind == VALUE_REAL) {
        double x = a.kind == VALUE_REAL ? a.real : a.kind == VALUE_BOOL ? a.truth : (double)a.whole;
        double y = b.kind == VALUE_REAL ? b.real : b.kind == VALUE_BOOL ? b.truth : (double)b.whole;
        return (x > y) - (x < y);
    }
    int64_t x = a.kind == VALUE_BOOL ? a.truth : a.whole, y = b.kind == VALUE_BOOL ? b.truth : b.whole;
    return (x > y) - (x < y);
}

static bool lists_equal(struct jinja *j, const struct list *a, const struct list *b)
{
    bool equal = a->count == b->count;
    for (size_t i = 0; equal && i < a->count; i++) equal = value_equal(j, a->items[i], b->items[i]);
    return equal;
}

static bool dicts_equal(struct jinja *j, const struct dict *a, const struct dict *b)
{
    bool equal = a->count == b->count;
    for (size_t i = 0; equal && i < a->count; i++) {
        const struct value *other = dict_find(j, b, a->pairs[i].key);
        equal = other && value_equal(j, a->pairs[i].value, *other);
    }
    return equal;
}

static bool value_equal(struct jinja *j, struct value a, struct value b)
{
    if (is_number(a) && is_number(b)) return order_numbers(a, b) == 0;
    if (a.kind != b.kind) return false;
    bool equal = true; /* undefined, none */
    jinja_enter(j);
    if (a.kind == VALUE_STRING)
        jinja_work(j, a.text.n / 64), equal = text_same(a.text, b.text);
    else if (a.kind == VALUE_LIST || a.kind == VALUE_TUPLE)
        equal = lists_equal(j, a.list, b.list);
    else if (a.kind == VALUE_DICT)
        equal = dicts_equal(j, a.dict, b.dict);
    else if (a.kind > VALUE_NONE)
        JINJA_REFUSE(j, "comparing %s is not supported", value_type(a));
    jinja_leave(j);
    return equal;
}

static int order(struct jinja *j, struct value a, struct value b)
{
    if (is_number(a) && is_number(b)) return order_numbers(a, b);
    if (a.kind != VALUE_STRING || b.kind != VALUE_STRING)
        JINJA_REFUSE(j, "%s cannot be ordered with %s", value_type(a), value_type(b));
    size_t n = a.text.n < b.text.n ? a.text.n : b.text.n;
    jinja_work(j, n / 64);
    int order = n ? memcmp(a.text.at, b.text.at, n) : 0; /* UTF-8 has the order of code points */
    return order ? order : (a.text.n > b.text.n) - (a.text.n < b.text.n);
}

static bool contains(struct jinja *j, struct value container, struct value item)
{
    if (container.kind == VALUE_STRING) {
        jinja_work(j, container.text.n / 16);
        return text_find(container.text, value_text_or(j, item, TEXT(""))) >= 0;
    }
    if (container.kind == VALUE_DICT) return dict_find(j, container.dict, item);
    const struct list *items = value_items(j, container);
    for (size_t i = 0; i < items->count; i++)
        if (value_equal(j, items->items[i], item)) return true;
    return false;
}

bool value_compare(struct jinja *j, enum operation op, struct value a, struct value b)
{
    if (op == OP_EQUAL || op == OP_UNEQUAL) return value_equal(j, a, b) == (op == OP_EQUAL);
    if (op == OP_IN || op == OP_NOT_IN) return contains(j, b, a) == (op == OP_IN);
    int sign = order(j, a, b);
    return op == OP_LESS         ? sign < 0
           : op == OP_LESS_EQUAL ? sign <= 0
           : op == OP_GREATER    ? sign > 0
                                 : sign >= 0;
}

int64_t value_length(struct jinja *j, struct value value)
{
    if (value.kind == VALUE_DICT) return (int64_t)value.dict->count;
    if (value.kind >= VALUE_GENERATOR) JINJA_REFUSE(j, "%s has no length", value_type(value));
    return (int64_t)value_items(j, value)->count;
}

struct list *value_items(struct jinja *j, struct value value)
{
    if (value.kind == VALUE_LIST || value.kind == VALUE_TUPLE || value.kind == VALUE_VIEW) return value.list;
    if (value.kind == VALUE_GENERATOR) {
        if (value.list->used)
            JINJA_REFUSE(j, "the result of a filter is used a second time (add |list to the filter)");
        value.list->used = true;
        return value.list;
    }
    struct value items = value_list(j, VALUE_LIST);
    uint32_t point;
    if (value.kind == VALUE_STRING)
        for (size_t at = 0, n; at < value.text.n; at += n) {
            n = text_character(value.text, at, &point);
            list_append(j, items, value_string((struct text){value.text.at + at, n}));
        }
    else if (value.kind == VALUE_DICT)
        for (size_t i = 0; i < value.dict->count; i++) list_append(j, items, value.dict->pairs[i].key);
    else if (value.kind != VALUE_UNDEFINED)
        JINJA_REFUSE(j, "%s cannot be iterated", value_type(value));
    return items.list;
}

/* ---- arguments ---- */

struct text value_text_or(struct jinja *j, struct value value, struct text otherwise)
{
    if (value.kind && value.kind != VALUE_STRING)
        JINJA_REFUSE(j, "%s stands where a string is needed", value_type(value));
    return value.kind ? value.text : otherwise;
}

int64_t value_int_or(struct jinja *j, struct value value, int64_t otherwise)
{
    if (value.kind && value.kind != VALUE_INT)
        JINJA_REFUSE(j, "%s stands where a whole number is needed", value_type(value));
    return value.kind ? value.whole : otherwise;
}

struct value value_or(struct value value, struct value otherwise)
{
    return value.kind ? value : otherwise;
}
