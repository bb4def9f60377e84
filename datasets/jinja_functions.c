/* Tests, functions, and filters that work on numbers, as jinja2 and transformers have them: see jinja.h. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "core/base/text.h"
#include "datasets/jinja.h"

#define NOTHING value_undefined((struct text){0})

/* ---- numbers ---- */

static struct value filter_int(struct jinja *j, struct value self, const struct value *a)
{
    int64_t whole;
    double real;
    char word[32];
    if (self.kind == VALUE_INT) return self;
    if (self.kind == VALUE_UNDEFINED) return JINJA_REFUSE(j, "int: the value is undefined");
    if (self.kind == VALUE_BOOL) return value_int(self.truth);
    if (self.kind == VALUE_REAL && fabs(self.real) < 9e18) return value_int((int64_t)self.real);
    if (self.kind == VALUE_REAL) return JINJA_REFUSE(j, "int: the number is too large");
    if (self.kind == VALUE_STRING) {
        struct text text = text_strip(self.text, NULL, true, true);
        memcpy(word, text.at, text.n < sizeof word ? text.n : 0);
        word[text.n < sizeof word ? text.n : 0] = 0;
        if (text_parse_int(word, &whole)) return value_int(whole);
        if (text_parse_double(word, &real) && fabs(real) < 9e18) return value_int((int64_t)real);
        for (size_t i = 0; i < text.n; i++)
            if (text.at[i] == '_' || (text.at[i] & 0x80))
                return JINJA_REFUSE(j, "int: '%s' is not supported", SHOWN(text));
    }
    return value_or(a[0], value_int(0));
}

static struct value filter_float(struct jinja *j, struct value self, const struct value *a)
{
    char word[64];
    struct value real = {.kind = VALUE_REAL};
    (void)j;
    if (value_is_number(self))
        real.real = value_real(self);
    else if (self.kind == VALUE_STRING && self.text.n < sizeof word) {
        memcpy(word, self.text.at, self.text.n);
        word[self.text.n] = 0;
        if (!text_parse_double(word, &real.real)) return value_or(a[0], real);
    } else
        return value_or(a[0], real);
    return real;
}

static struct value filter_abs(struct jinja *j, struct value self, const struct value *a)
{
    (void)a;
    if (self.kind == VALUE_REAL)
        self.real = fabs(self.real);
    else if (value_int_or(j, self, 0) == INT64_MIN)
        JINJA_REFUSE(j, "abs: the number is too large");
    else if (self.whole < 0)
        self.whole = -self.whole;
    return self;
}

const struct builtin jinja_number_filters[] = {
    {"abs", "", 0, filter_abs},
    {"float", "default", 0, filter_float},
    {"int", "default", 0, filter_int},
    {0},
};

/* ---- tests ---- */

/* A range is a sequence, a view of a dictionary is none, and nobody asks. */
static bool of_view(struct jinja *j, struct value value)
{
    if (value.kind == VALUE_VIEW) JINJA_REFUSE(j, "sequence: %s is not supported", value_type(value));
    return false;
}

#define TEST(name, condition) BUILTIN(test_##name, value_bool(condition))
/* clang-format off */
TEST(boolean, self.kind == VALUE_BOOL)
TEST(callable, self.kind == VALUE_FUNCTION || self.kind == VALUE_MACRO || self.kind == VALUE_UNDEFINED)
TEST(defined, self.kind != VALUE_UNDEFINED)
TEST(eq, value_equal(j, self, a[0]))
TEST(even, value_int_or(j, self, 0) % 2 == 0)
TEST(false, self.kind == VALUE_BOOL && !self.truth)
TEST(float, self.kind == VALUE_REAL)
TEST(ge, value_order(j, self, a[0]) >= 0)
TEST(gt, value_order(j, self, a[0]) > 0)
TEST(in, value_contains(j, a[0], self))
TEST(integer, self.kind == VALUE_INT)
TEST(iterable, (self.kind >= VALUE_STRING && self.kind <= VALUE_GENERATOR) || self.kind == VALUE_UNDEFINED)
TEST(sequence, (self.kind >= VALUE_STRING && self.kind <= VALUE_DICT) || self.kind == VALUE_UNDEFINED || of_view(j, self))
TEST(le, value_order(j, self, a[0]) <= 0)
TEST(lt, value_order(j, self, a[0]) < 0)
TEST(mapping, self.kind == VALUE_DICT)
TEST(ne, !value_equal(j, self, a[0]))
TEST(none, self.kind == VALUE_NONE)
TEST(number, value_is_number(self))
TEST(odd, value_int_or(j, self, 0) % 2 != 0)
TEST(string, self.kind == VALUE_STRING)
TEST(true, self.kind == VALUE_BOOL && self.truth)
TEST(undefined, self.kind == VALUE_UNDEFINED)
/* clang-format on */

/* ---- functions ---- */

static struct value function_namespace(struct jinja *j, struct value self, const struct value *a)
{
    struct value out = {.kind = VALUE_NAMESPACE, .dict = jinja_alloc(j, 1, sizeof *out.dict)};
    const struct value from[] = {a[0], a[1]};
    (void)self;
    if (a[0].kind && a[0].kind != VALUE_DICT)
        return JINJA_REFUSE(j, "%s is not a dictionary", value_type(a[0]));
    for (int f = 0; f < 2; f++)
        for (size_t i = 0; from[f].kind && !j->status && i < from[f].dict->count; i++)
            dict_put(j, out.dict, from[f].dict->pairs[i].key, from[f].dict->pairs[i].value);
    return out;
}

static struct value function_dict(struct jinja *j, struct value self, const struct value *a)
{
    struct value out = function_namespace(j, self, a);
    if (out.kind == VALUE_NAMESPACE) out.kind = VALUE_DICT;
    return out;
}

static struct value function_range(struct jinja *j, struct value self, const struct value *a)
{
    int64_t start = a[1].kind ? value_int_or(j, a[0], 0) : 0, step = value_int_or(j, a[2], 1);
    int64_t stop = value_int_or(j, a[1].kind ? a[1] : a[0], 0);
    (void)self;
    if (!step) return JINJA_REFUSE(j, "range: the step is 0");
    __extension__ typedef __int128 wide;
    wide span = step > 0 ? (wide)stop - start : (wide)start - stop, stride = step > 0 ? step : -(wide)step;
    wide count = span > 0 ? (span + stride - 1) / stride : 0;
    if (count > JINJA_RANGE_MAX) return JINJA_REFUSE(j, "range: more than %d numbers", JINJA_RANGE_MAX);
    struct value out = value_list(j, VALUE_VIEW, (size_t)count);
    for (size_t i = 0; !j->status && i < out.list->count; i++)
        out.list->items[i] = value_int(start + (int64_t)i * step);
    return out;
}

static struct value function_raise_exception(struct jinja *j, struct value self, const struct value *a)
{
    (void)self;
    return JINJA_REFUSE(j, "the template refuses this conversation: %s",
                        jinja_shown(value_text(j, a[0]), (char[600]){0}, 600));
}

static struct value function_strftime_now(struct jinja *j, struct value self, const struct value *a)
{
    char format[256], out[1024];
    struct text text = value_text_or(j, a[0], TEXT(""));
    time_t seconds = time(NULL);
    struct tm local;
    (void)self;
    if (text.n >= sizeof format || memchr(text.at, 0, text.n) || !localtime_r(&seconds, &local))
        return JINJA_REFUSE(j, "strftime_now: the format is not supported");
    memcpy(format, text.at, text.n);
    format[text.n] = 0;
    size_t n = strftime(out, sizeof out, format, &local);
    struct buffer buffer = {0};
    buffer_put(j, &buffer, (struct text){out, n});
    return buffer_value(&buffer);
}

const struct builtin jinja_tests[] = {
    {"!=", "other", 1, test_ne},
    {"<", "other", 1, test_lt},
    {"<=", "other", 1, test_le},
    {"==", "other", 1, test_eq},
    {">", "other", 1, test_gt},
    {">=", "other", 1, test_ge},
    {"boolean", "", 0, test_boolean},
    {"callable", "", 0, test_callable},
    {"defined", "", 0, test_defined},
    {"eq", "other", 1, test_eq},
    {"equalto", "other", 1, test_eq},
    {"even", "", 0, test_even},
    {"false", "", 0, test_false},
    {"float", "", 0, test_float},
    {"ge", "other", 1, test_ge},
    {"greaterthan", "other", 1, test_gt},
    {"gt", "other", 1, test_gt},
    {"in", "seq", 1, test_in},
    {"integer", "", 0, test_integer},
    {"iterable", "", 0, test_iterable},
    {"le", "other", 1, test_le},
    {"lessthan", "other", 1, test_lt},
    {"lt", "other", 1, test_lt},
    {"mapping", "", 0, test_mapping},
    {"ne", "other", 1, test_ne},
    {"none", "", 0, test_none},
    {"number", "", 0, test_number},
    {"odd", "", 0, test_odd},
    {"sequence", "", 0, test_sequence},
    {"string", "", 0, test_string},
    {"true", "", 0, test_true},
    {"undefined", "", 0, test_undefined},
    {0},
};

const struct builtin jinja_functions[] = {
    {"dict", "**", 0, function_dict},
    {"namespace", "**", 0, function_namespace},
    {"raise_exception", "message", 1, function_raise_exception},
    {"range", "start stop step", 1, function_range},
    {"strftime_now", "format", 1, function_strftime_now},
    {0},
};
