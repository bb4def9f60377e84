/* All that templates can call: filters, tests, methods of strings, lists and dictionaries, and functions.
 * Each is one entry of a table with its parameters; the comments of jinja2 and Python say what it does. See
 * jinja.h.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "datasets/jinja.h"

/* ---- arguments ---- */

/* The place of the parameter `name` among `parameters`, -1 if there is none; with NULL: how many there are.
 */
static int parameter_index(const char *parameters, const struct text *name)
{
    int index = 0;
    for (const char *at = parameters; *at; index++) {
        size_t n = strcspn(at, " ");
        if (name && name->n == n && memcmp(at, name->at, n) == 0) return index;
        at += n + (at[n] == ' ');
    }
    return name ? -1 : index;
}

static struct value call(struct jinja *j, const struct builtin *builtin, struct value self,
                         const struct arguments *given)
{
    struct value a[JINJA_PARAMETERS_MAX] = {0}, result;
    int most = parameter_index(builtin->parameters, NULL);
    bool any = strcmp(builtin->parameters, "**") == 0;
    if (j->status) return value_undefined((struct text){0});
    if (given->count > most) return JINJA_REFUSE(j, "%s: too many arguments", builtin->name);
    for (int i = 0; i < given->count; i++) a[i] = given->values[i];
    if (any) a[1] = (struct value){.kind = VALUE_DICT, .dict = (struct dict *)&given->named};
    for (size_t i = 0; !any && i < given->named.count; i++) {
        int index = parameter_index(builtin->parameters, &given->named.pairs[i].key.text);
        if (index < 0 || a[index].kind)
            return JINJA_REFUSE(j, "%s: the argument '%s' is not supported", builtin->name,
                                SHOWN(given->named.pairs[i].key.text));
        a[index] = given->named.pairs[i].value;
    }
    for (int i = 0; i < builtin->least; i++)
        if (!a[i].kind) return JINJA_REFUSE(j, "%s: an argument is missing", builtin->name);
    if (!jinja_enter(j)) return value_undefined((struct text){0});
    result = builtin->run(j, self, a);
    jinja_leave(j);
    return result;
}

#define NOTHING value_undefined((struct text){0})

/* ---- lists and dictionaries ---- */

BUILTIN(run_length, value_int((int64_t)value_length(j, self)))
/* The same items as another kind of value. */
static struct value of_kind(struct jinja *j, struct value items, enum value_kind kind)
{
    struct value out = value_list(j, kind, 0);
    if (j->status) return NOTHING;
    *out.list = *items.list;
    out.list->used = false;
    return out;
}

BUILTIN(filter_list, of_kind(j, value_items(j, self), VALUE_LIST))

static struct value end_of(struct jinja *j, struct value self, bool last)
{
    struct value items = value_items(j, self);
    if (j->status || !items.list->count) return NOTHING;
    return items.list->items[last ? items.list->count - 1 : 0];
}

BUILTIN(filter_first, end_of(j, self, false))
BUILTIN(filter_last, end_of(j, self, true))
static struct value filter_reverse(struct jinja *j, struct value self, const struct value *a)
{
    struct value items = value_items(j, self),
                 out = value_list(j, VALUE_GENERATOR, j->status ? 0 : items.list->count);
    struct buffer text = {0};
    (void)a;
    for (size_t i = 0; !j->status && i < items.list->count; i++) {
        out.list->items[i] = items.list->items[items.list->count - 1 - i];
        if (self.kind == VALUE_STRING) buffer_put(j, &text, out.list->items[i].text);
    }
    return self.kind == VALUE_STRING ? buffer_value(&text) : out;
}

/* "a.b.0" of an item, as the `attribute` of filters. */
static struct value attribute_path(struct jinja *j, struct value item, struct value path)
{
    int64_t index;
    char word[24];
    if (path.kind == VALUE_INT) return jinja_item(j, item, path);
    struct text rest = value_text_or(j, path, TEXT(""));
    for (bool more = true; more && !j->status;) {
        ptrdiff_t dot = text_find(rest, TEXT("."), 0);
        struct text part = {rest.at, dot < 0 ? rest.n : (size_t)dot};
        snprintf(word, sizeof word, "%.*s", (int)(part.n < 20 ? part.n : 0), part.at);
        bool number = text_parse_int(word, &index) && index >= 0 && word[0] != '+' && word[0] != '-';
        item = jinja_item(j, item, number ? value_int(index) : value_string(part));
        more = dot >= 0;
        if (more) rest.at += dot + 1, rest.n -= (size_t)dot + 1;
    }
    return item;
}

static struct value filter_join(struct jinja *j, struct value self, const struct value *a)
{
    struct value items = value_items(j, self);
    struct text between = a[0].kind ? value_text(j, a[0]) : TEXT("");
    struct buffer out = {0};
    for (size_t i = 0; !j->status && i < items.list->count && jinja_work(j, 1); i++) {
        struct value item = items.list->items[i];
        if (a[1].kind && a[1].kind != VALUE_NONE) item = attribute_path(j, item, a[1]);
        if (i) buffer_put(j, &out, between);
        buffer_put(j, &out, value_text(j, item));
    }
    return buffer_value(&out);
}

static struct value run_items(struct jinja *j, struct value self, const struct value *a)
{
    (void)a;
    if (self.kind == VALUE_UNDEFINED) return value_list(j, VALUE_VIEW, 0);
    if (self.kind != VALUE_DICT) return JINJA_REFUSE(j, "items: %s is not a dictionary", value_type(self));
    struct value items = value_list(j, VALUE_VIEW, self.dict->count);
    for (size_t i = 0; !j->status && i < self.dict->count; i++) {
        struct value pair = value_list(j, VALUE_TUPLE, 2);
        if (j->status) break;
        pair.list->items[0] = self.dict->pairs[i].key;
        pair.list->items[1] = self.dict->pairs[i].value;
        items.list->items[i] = pair;
    }
    return items;
}

BUILTIN(method_keys, of_kind(j, value_items(j, self), VALUE_VIEW))
BUILTIN(filter_items, of_kind(j, run_items(j, self, a), VALUE_GENERATOR))

static struct value method_values(struct jinja *j, struct value self, const struct value *a)
{
    struct value items = value_list(j, VALUE_VIEW, self.dict->count);
    (void)a;
    for (size_t i = 0; !j->status && i < self.dict->count; i++)
        items.list->items[i] = self.dict->pairs[i].value;
    return items;
}

static struct value method_get(struct jinja *j, struct value self, const struct value *a)
{
    const struct value *found = dict_find(j, self.dict, a[0]);
    return found ? *found : value_or(a[1], (struct value){.kind = VALUE_NONE});
}

static struct value lowered(struct jinja *j, struct value value, bool exact)
{
    return exact || value.kind != VALUE_STRING ? value : jinja_lower(j, value.text);
}

/* Sorts items[0..n) by keys[0..n), stably; `reverse` keeps the order of equal ones, too. */
static void merge_sort(struct jinja *j, struct value *items, struct value *keys, size_t n, bool reverse,
                       struct value *scratch)
{
    size_t half = n / 2, a = 0, b = half;
    if (n < 2 || !jinja_enter(j)) return;
    merge_sort(j, items, keys, half, reverse, scratch);
    merge_sort(j, items + half, keys + half, n - half, reverse, scratch);
    for (size_t i = 0; i < n && jinja_work(j, 1); i++) {
        int order = a < half && b < n ? value_order(j, keys[b], keys[a]) : 0;
        bool second = a >= half || (b < n && (reverse ? order > 0 : order < 0));
        size_t from = second ? b++ : a++;
        scratch[i] = items[from], scratch[n + i] = keys[from];
    }
    if (!j->status) memcpy(items, scratch, n * sizeof *items), memcpy(keys, scratch + n, n * sizeof *keys);
    jinja_leave(j);
}

static struct value sorted(struct jinja *j, struct value source, struct value path, bool exact, bool reverse)
{
    struct value items = value_items(j, source),
                 out = value_list(j, VALUE_LIST, j->status ? 0 : items.list->count);
    size_t n = j->status ? 0 : items.list->count;
    struct value *keys = jinja_alloc(j, n, 3 * sizeof *keys);
    for (size_t i = 0; i < n && !j->status; i++) {
        out.list->items[i] = items.list->items[i];
        bool by = path.kind && path.kind != VALUE_NONE;
        keys[i] =
            lowered(j, by ? attribute_path(j, items.list->items[i], path) : items.list->items[i], exact);
    }
    if (!j->status) merge_sort(j, out.list->items, keys, n, reverse, keys + n);
    return out;
}

static struct value filter_sort(struct jinja *j, struct value self, const struct value *a)
{
    if (a[2].kind == VALUE_STRING && text_find(a[2].text, TEXT(","), 0) >= 0)
        return JINJA_REFUSE(j, "sort: several attributes are not supported");
    return sorted(j, self, a[2], value_truth(a[1]), value_truth(a[0]));
}

static struct value filter_dictsort(struct jinja *j, struct value self, const struct value *a)
{
    bool by_value = a[1].kind == VALUE_STRING && text_is(a[1].text, "value");
    if (a[1].kind && !by_value && !(a[1].kind == VALUE_STRING && text_is(a[1].text, "key")))
        return JINJA_REFUSE(j, "dictsort: by is 'key' or 'value'");
    return sorted(j, run_items(j, self, a), value_int(by_value), value_truth(a[0]), value_truth(a[2]));
}

static struct value extreme(struct jinja *j, struct value self, const struct value *a, int sign)
{
    struct value items = value_items(j, self), best = NOTHING, best_key = NOTHING;
    for (size_t i = 0; !j->status && i < items.list->count; i++) {
        struct value item = items.list->items[i];
        struct value key = lowered(j, a[1].kind ? attribute_path(j, item, a[1]) : item, value_truth(a[0]));
        if (!i || value_order(j, key, best_key) * sign > 0) best = item, best_key = key;
    }
    return best;
}

BUILTIN(filter_min, extreme(j, self, a, -1))
BUILTIN(filter_max, extreme(j, self, a, 1))
static struct value filter_unique(struct jinja *j, struct value self, const struct value *a)
{
    struct value items = value_items(j, self), out = value_list(j, VALUE_GENERATOR, 0),
                 keys = value_list(j, VALUE_LIST, 0);
    size_t room = 0, key_room = 0;
    for (size_t i = 0; !j->status && i < items.list->count; i++) {
        struct value item = items.list->items[i];
        struct value key = lowered(j, a[1].kind ? attribute_path(j, item, a[1]) : item, value_truth(a[0]));
        if (value_contains(j, keys, key)) continue;
        list_append(j, &keys, &key_room, key);
        list_append(j, &out, &room, item);
    }
    return out;
}

static struct value filter_default(struct jinja *j, struct value self, const struct value *a)
{
    (void)j;
    bool replace = self.kind == VALUE_UNDEFINED || (value_truth(a[1]) && !value_truth(self));
    return replace ? value_or(a[0], value_string(TEXT(""))) : self;
}

/* As in jinja2, these filters take none and the like for empty. */
static struct value falsy_or_items(struct jinja *j, struct value value)
{
    return value_truth(value) ? value_items(j, value) : value_list(j, VALUE_LIST, 0);
}

/* map, select, reject, selectattr, rejectattr: the name of a filter or test and its arguments are values. */
static struct arguments rest_of(const struct value *a, int count)
{
    struct arguments given = {0};
    while (given.count < count && a[given.count].kind)
        given.values[given.count] = a[given.count], given.count++;
    return given;
}

static struct value filter_map(struct jinja *j, struct value self, const struct value *a)
{
    struct value items = falsy_or_items(j, self),
                 out = value_list(j, VALUE_GENERATOR, j->status ? 0 : items.list->count);
    struct arguments given = rest_of(a + 1, 3);
    if (!a[4].kind == !a[0].kind) return JINJA_REFUSE(j, "map: needs a filter or an attribute");
    for (size_t i = 0; !j->status && i < items.list->count; i++) {
        struct value item = items.list->items[i];
        item = a[4].kind ? attribute_path(j, item, a[4])
                         : jinja_filter(j, value_text_or(j, a[0], TEXT("")), item, &given);
        if (item.kind == VALUE_UNDEFINED && a[4].kind) item = value_or(a[5], item);
        if (!j->status) out.list->items[i] = item;
    }
    return out;
}

static struct value chosen(struct jinja *j, struct value self, struct value path, const struct value *a,
                           bool keep)
{
    struct value items = falsy_or_items(j, self), out = value_list(j, VALUE_GENERATOR, 0);
    struct arguments given = rest_of(a + 1, 2);
    size_t capacity = 0;
    for (size_t i = 0; !j->status && i < items.list->count; i++) {
        struct value item = items.list->items[i];
        struct value tested = path.kind ? attribute_path(j, item, path) : item;
        bool truth =
            value_truth(a[0].kind ? jinja_test(j, value_text_or(j, a[0], TEXT("")), tested, &given) : tested);
        if (truth == keep) list_append(j, &out, &capacity, item);
    }
    return out;
}

BUILTIN(filter_select, chosen(j, self, (struct value){0}, a, true))
BUILTIN(filter_reject, chosen(j, self, (struct value){0}, a, false))
BUILTIN(filter_selectattr, chosen(j, self, a[0], a + 1, true))
BUILTIN(filter_rejectattr, chosen(j, self, a[0], a + 1, false))
/* ---- tables ---- */

static const struct builtin filters[] = {
    {"count", "", 0, run_length},
    {"d", "default_value boolean", 0, filter_default},
    {"default", "default_value boolean", 0, filter_default},
    {"dictsort", "case_sensitive by reverse", 0, filter_dictsort},
    {"first", "", 0, filter_first},
    {"items", "", 0, filter_items},
    {"join", "d attribute", 0, filter_join},
    {"last", "", 0, filter_last},
    {"length", "", 0, run_length},
    {"list", "", 0, filter_list},
    {"map", "filter a b c attribute default", 0, filter_map},
    {"max", "case_sensitive attribute", 0, filter_max},
    {"min", "case_sensitive attribute", 0, filter_min},
    {"reject", "test a b", 0, filter_reject},
    {"rejectattr", "attribute test a b", 1, filter_rejectattr},
    {"reverse", "", 0, filter_reverse},
    {"select", "test a b", 0, filter_select},
    {"selectattr", "attribute test a b", 1, filter_selectattr},
    {"sort", "reverse case_sensitive attribute", 0, filter_sort},
    {"unique", "case_sensitive attribute", 0, filter_unique},
    {0},
};

static const struct builtin dict_methods[] = {
    {"get", "key default", 1, method_get},
    {"items", "", 0, run_items},
    {"keys", "", 0, method_keys},
    {"values", "", 0, method_values},
    {0},
};

/* Python's other methods, which are never taken for undefined. jinja2, too, refuses those that change
 * something. */
static const char text_others[] =
    "casefold center encode expandtabs format_map index isalnum isalpha isascii "
    "isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle "
    "isupper ljust maketrans partition removeprefix removesuffix rfind rindex rjust "
    "rpartition rsplit swapcase translate zfill";
static const char dict_others[] = "clear copy fromkeys pop popitem setdefault update";
static const char list_others[] = "append clear copy count extend index insert pop remove reverse sort";
static const char function_others[] = "caller cycler joiner kwargs lipsum self varargs";

static const struct builtin *find(const struct builtin *table, struct text name)
{
    for (; table->name; table++)
        if (text_is(name, table->name)) return table;
    return NULL;
}

struct value jinja_filter(struct jinja *j, struct text name, struct value self, const struct arguments *given)
{
    const struct builtin *builtin = find(filters, name);
    if (!builtin) builtin = find(jinja_text_filters, name);
    if (!builtin) builtin = find(jinja_number_filters, name);
    if (!builtin) return JINJA_REFUSE(j, "the filter '%s' is not supported", SHOWN(name));
    return call(j, builtin, self, given);
}

struct value jinja_test(struct jinja *j, struct text name, struct value self, const struct arguments *given)
{
    const struct builtin *builtin = find(jinja_tests, name);
    if (!builtin) return JINJA_REFUSE(j, "the test '%s' is not supported", SHOWN(name));
    return call(j, builtin, self, given);
}

static struct value function_new(struct jinja *j, const struct builtin *builtin, struct value self)
{
    struct function *function = jinja_alloc(j, 1, sizeof *function);
    if (!function) return NOTHING;
    *function = (struct function){builtin, self};
    return (struct value){.kind = VALUE_FUNCTION, .function = function};
}

struct value jinja_function(struct jinja *j, const struct function *function, const struct arguments *given)
{
    return call(j, function->builtin, function->self, given);
}

bool jinja_global(struct jinja *j, struct text name, struct value *out)
{
    const struct builtin *builtin = find(jinja_functions, name);
    if (builtin)
        *out = function_new(j, builtin, NOTHING);
    else if (parameter_index(function_others, &name) >= 0)
        JINJA_REFUSE(j, "'%s' is not supported", SHOWN(name));
    return builtin;
}

static const struct builtin *find_method(struct jinja *j, struct value value, struct text name)
{
    bool list = value.kind == VALUE_LIST || value.kind == VALUE_TUPLE;
    const struct builtin *method = value.kind == VALUE_STRING ? find(jinja_text_methods, name)
                                   : value.kind == VALUE_DICT ? find(dict_methods, name)
                                                              : NULL;
    const char *others = value.kind == VALUE_STRING ? text_others
                         : value.kind == VALUE_DICT ? dict_others
                         : list                     ? list_others
                                                    : "";
    if (!method && parameter_index(others, &name) >= 0)
        JINJA_REFUSE(j, "the method '%s' of %s is not supported", SHOWN(name), value_type(value));
    return method;
}

static struct value attribute(struct jinja *j, struct value value, struct text name, bool method_first)
{
    const struct value *item = NULL;
    if (value.kind == VALUE_UNDEFINED)
        return JINJA_REFUSE(j, "'%s' is undefined, so it has no '%s'",
                            value.text.n ? SHOWN(value.text) : "a value", SHOWN(name));
    if (value.kind >= VALUE_LOOP || (name.n > 1 && memcmp(name.at, "__", 2) == 0))
        return JINJA_REFUSE(j, "'%s' of %s is not supported", SHOWN(name), value_type(value));
    if (value.kind == VALUE_DICT || value.kind == VALUE_NAMESPACE)
        item = dict_find(j, value.dict, value_string(name));
    const struct builtin *method = item && !method_first ? NULL : find_method(j, value, name);
    if (j->status) return NOTHING;
    return method ? function_new(j, method, value) : item ? *item : value_undefined(name);
}

struct value jinja_attribute(struct jinja *j, struct value value, struct text name)
{
    return attribute(j, value, name, true);
}

struct value jinja_item(struct jinja *j, struct value value, struct value key)
{
    if (key.kind == VALUE_STRING) return attribute(j, value, key.text, false);
    const struct value *found = value.kind == VALUE_DICT ? dict_find(j, value.dict, key) : NULL;
    if (found) return *found;
    if (value.kind == VALUE_UNDEFINED) return attribute(j, value, TEXT("item"), false);
    if (value.kind == VALUE_VIEW || value.kind == VALUE_GENERATOR)
        return JINJA_REFUSE(j, "an index of %s is not supported", value_type(value));
    if ((key.kind != VALUE_INT && key.kind != VALUE_BOOL) || value.kind < VALUE_STRING ||
        value.kind > VALUE_TUPLE)
        return value_undefined(TEXT("item"));
    struct value items = value_items(j, value);
    int64_t index = key.kind == VALUE_INT ? key.whole : key.truth;
    if (j->status) return NOTHING;
    if (index < 0) index += (int64_t)items.list->count;
    bool inside = index >= 0 && index < (int64_t)items.list->count;
    return inside ? items.list->items[index] : value_undefined(TEXT("item"));
}
