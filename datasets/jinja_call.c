/* Calls of the functions in jinja_builtins.c, and the attributes and items of values. See jinja.h. */
#include <string.h>

#include "core/base/text.h"
#include "datasets/jinja.h"

#define NUMBER_NAMES                                                                                         \
    "as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag numerator real to_bytes"

/* Other methods and attributes of Python and functions of jinja2, which are never taken for undefined.
 * jinja2, too, refuses the methods that change something. */
static const struct {
    enum value_kind kind; /* that has them; ABSENT: functions */
    const char *names;
} others[] = {
    {VALUE_STRING,
     "casefold center count encode expandtabs find format format_map index isalnum isalpha isascii "
     "isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust "
     "maketrans partition removeprefix removesuffix rfind rindex rjust rpartition rsplit splitlines "
     "swapcase translate zfill"},
    {VALUE_DICT, "clear copy fromkeys pop popitem setdefault update"},
    {VALUE_LIST, "append clear copy count extend index insert pop remove reverse sort"},
    {VALUE_TUPLE, "count index"},
    {VALUE_BOOL, NUMBER_NAMES},
    {VALUE_INT, NUMBER_NAMES},
    {VALUE_REAL, "as_integer_ratio conjugate fromhex hex imag is_integer real"},
    {VALUE_VIEW, "count index isdisjoint mapping start step stop"},
    {VALUE_GENERATOR, "close gi_code gi_frame gi_running gi_suspended gi_yieldfrom send throw"},
    {VALUE_ABSENT, "caller cycler joiner kwargs lipsum self varargs"},
};

/* ---- calls ---- */

static int word_index(const char *words, struct text name)
{
    return text_word_index(words, name.at, name.n);
}

static const struct builtin *find(struct jinja *j, int where, struct text name)
{
    for (const struct builtin *builtin = j->builtins; builtin->name; builtin++)
        if (builtin->where & where && text_is(name, builtin->name)) return builtin;
    return NULL;
}

static void refuse_others(struct jinja *j, struct value of, struct text name)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].kind == of.kind && word_index(others[i].names, name) >= 0)
            JINJA_REFUSE(j, "%s'%s'%s%s is not supported", of.kind ? "the method " : "", SHOWN(name),
                         of.kind ? " of " : "", of.kind ? value_type(of) : "");
}

struct value jinja_call(struct jinja *j, const struct builtin *builtin, struct value self,
                        const struct arguments *given)
{
    struct value a[JINJA_PARAMETERS_MAX] = {0}, result;
    bool any = strcmp(builtin->parameters, "**") == 0;
    int most = any || !*builtin->parameters ? 0 : 1;
    for (const char *c = builtin->parameters; *c; c++) most += *c == ' ';
    if (given->count > (size_t)most) JINJA_REFUSE(j, "%s: too many arguments", builtin->name);
    for (size_t i = 0; i < given->count; i++) a[i] = given->values[i];
    if (any) a[0] = (struct value){.kind = VALUE_DICT, .dict = (struct dict *)&given->named};
    for (size_t i = 0; !any && i < given->named.count; i++) {
        int index = word_index(builtin->parameters, given->named.pairs[i].key.text);
        if (index < 0 || a[index].kind)
            JINJA_REFUSE(j, "%s: the argument '%s' is not supported", builtin->name,
                         SHOWN(given->named.pairs[i].key.text));
        a[index] = given->named.pairs[i].value;
    }
    for (int i = 0; i < builtin->least; i++)
        if (!a[i].kind) JINJA_REFUSE(j, "%s: an argument is missing", builtin->name);
    jinja_enter(j);
    result = builtin->run(j, self, a, builtin->how);
    jinja_leave(j);
    return result;
}

struct value jinja_call_named(struct jinja *j, int where, struct text name, struct value self,
                              const struct arguments *given)
{
    const struct builtin *builtin = find(j, where, name);
    if (!builtin)
        JINJA_REFUSE(j, "the %s '%s' is not supported", where == TEST ? "test" : "filter", SHOWN(name));
    return jinja_call(j, builtin, self, given);
}

static struct value function_value(struct jinja *j, const struct builtin *builtin, struct value self)
{
    struct function *function = jinja_alloc(j, 1, sizeof *function);
    *function = (struct function){builtin, self};
    return (struct value){.kind = VALUE_FUNCTION, .function = function};
}

struct value jinja_global(struct jinja *j, struct text name)
{
    const struct builtin *builtin = find(j, FUNCTION, name);
    if (builtin) return function_value(j, builtin, value_none);
    refuse_others(j, (struct value){0}, name);
    return value_undefined(name);
}

struct value jinja_attribute(struct jinja *j, struct value value, struct text name, bool method_first)
{
    const struct value *item = NULL;
    const struct builtin *method = NULL;
    if (value.kind == VALUE_UNDEFINED)
        JINJA_REFUSE(j, "'%s' is undefined, so it has no '%s'", value.text.n ? SHOWN(value.text) : "a value",
                     SHOWN(name));
    if (value.kind >= VALUE_LOOP || (name.n > 1 && memcmp(name.at, "__", 2) == 0))
        JINJA_REFUSE(j, "'%s' of %s is not supported", SHOWN(name), value_type(value));
    if (value.kind == VALUE_DICT || value.kind == VALUE_NAMESPACE)
        item = dict_find(j, value.dict, value_string(name));
    if (!item || method_first) {
        int where = value.kind == VALUE_STRING ? TEXT_METHOD : value.kind == VALUE_DICT ? DICT_METHOD : 0;
        method = find(j, where, name);
        if (!method) refuse_others(j, value, name);
    }
    return method ? function_value(j, method, value) : item ? *item : value_undefined(name);
}

struct value jinja_item(struct jinja *j, struct value value, struct value key)
{
    if (key.kind == VALUE_STRING) return jinja_attribute(j, value, key.text, false);
    if (value.kind == VALUE_UNDEFINED) return jinja_attribute(j, value, TEXT("item"), false);
    const struct value *found = value.kind == VALUE_DICT ? dict_find(j, value.dict, key) : NULL;
    if (found) return *found;
    if (value.kind == VALUE_VIEW || value.kind == VALUE_GENERATOR)
        JINJA_REFUSE(j, "an index of %s is not supported", value_type(value));
    if (key.kind == VALUE_BOOL) key = value_int(value_truth(key)); /* as in Python */
    if (key.kind != VALUE_INT || value.kind < VALUE_STRING || value.kind > VALUE_TUPLE)
        return value_undefined(TEXT("item"));
    const struct list *items = value_items(j, value);
    int64_t index = key.whole < 0 ? key.whole + (int64_t)items->count : key.whole;
    bool inside = index >= 0 && index < (int64_t)items->count;
    return inside ? items->items[index] : value_undefined(TEXT("item"));
}
