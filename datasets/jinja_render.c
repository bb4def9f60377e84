/* Renders the tree of a template: expressions to values, statements to text. See jinja.h. */
#include <math.h>
#include <string.h>

#include "datasets/jinja.h"

#define NOTHING value_undefined((struct text){0})

/* How a statement ended. */
enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE };

/* A for loop. Its filter is evaluated for an item when that is reached or looked ahead to, as in jinja2. */
struct loop {
    const struct node *node;
    struct scope *outside;
    const struct list *items;
    signed char *passes; /* of each item: 1 yes, 0 no, -1 not known yet */
    size_t current, index0;
    ptrdiff_t previous; /* item; -1: none */
};

static struct value evaluate(struct jinja *j, const struct node *node);
static enum flow run_body(struct jinja *j, const struct node *body);

/* ---- variables ---- */

static struct scope *scope_new(struct jinja *j, struct scope *parent)
{
    struct scope *scope = jinja_alloc(j, 1, sizeof *scope);
    if (scope) scope->parent = parent;
    return scope ? scope : parent;
}

static struct value look_up(struct jinja *j, struct text name)
{
    struct value value = value_undefined(name);
    for (const struct scope *scope = j->scope; scope; scope = scope->parent) {
        const struct value *found = dict_find(j, &scope->variables, value_string(name));
        if (found) return *found;
    }
    jinja_global(j, name, &value);
    return value;
}

static void assign(struct jinja *j, const struct node *target, struct value value)
{
    if (j->status) return;
    if (target->kind == NODE_NAME) {
        dict_put(j, &j->scope->variables, value_string(target->name), value);
    } else if (target->kind == NODE_ATTRIBUTE) {
        struct value namespace = look_up(j, target->a->name);
        if (namespace.kind != VALUE_NAMESPACE)
            JINJA_REFUSE(j, "set %s.%s: this is %s, not a namespace", SHOWN(target->a->name),
                         SHOWN(target->name), value_type(namespace));
        else
            dict_put(j, namespace.dict, value_string(target->name), value);
    } else {
        struct value items = value_items(j, value);
        size_t count = 0;
        for (const struct node *part = target->list; part; part = part->next) count++;
        if (!j->status && items.list->count != count)
            JINJA_REFUSE(j, "%zu values cannot be assigned to %zu names", items.list->count, count);
        size_t i = 0;
        if (!jinja_enter(j)) return;
        for (const struct node *part = target->list; part && !j->status; part = part->next)
            assign(j, part, items.list->items[i++]);
        jinja_leave(j);
    }
}

/* ---- operators ---- */

static struct value whole_arithmetic(struct jinja *j, enum operation op, int64_t a, int64_t b)
{
    int64_t out = 0;
    bool overflow = false;
    if ((op == OP_FLOOR || op == OP_MODULO) && (!b || (a == INT64_MIN && b == -1)))
        return JINJA_REFUSE(j, b ? "a number has more than 64 bits" : "a division by 0");
    if (op == OP_ADD)
        overflow = __builtin_add_overflow(a, b, &out);
    else if (op == OP_SUBTRACT)
        overflow = __builtin_sub_overflow(a, b, &out);
    else if (op == OP_MULTIPLY)
        overflow = __builtin_mul_overflow(a, b, &out);
    else if (op == OP_FLOOR)
        out = a / b - (a % b != 0 && (a < 0) != (b < 0));
    else if (op == OP_MODULO)
        out = a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
    else if (b < 0 || b > 64)
        return JINJA_REFUSE(j, "this power is not supported");
    else
        for (out = 1; b > 0 && !overflow; b--) overflow = __builtin_mul_overflow(out, a, &out);
    return overflow ? JINJA_REFUSE(j, "a number has more than 64 bits") : value_int(out);
}

static struct value real_arithmetic(struct jinja *j, enum operation op, double a, double b)
{
    struct value out = {.kind = VALUE_REAL};
    if ((op == OP_DIVIDE || op == OP_FLOOR || op == OP_MODULO) && b == 0)
        return JINJA_REFUSE(j, "a division by 0");
    if (op == OP_ADD)
        out.real = a + b;
    else if (op == OP_SUBTRACT)
        out.real = a - b;
    else if (op == OP_MULTIPLY)
        out.real = a * b;
    else if (op == OP_DIVIDE)
        out.real = a / b;
    else
        return JINJA_REFUSE(j, "this operator is not supported for real numbers");
    return out;
}

static struct value repeat(struct jinja *j, struct value value, int64_t times)
{
    struct buffer out = {0};
    struct value list = value_list(j, value.kind, 0);
    size_t capacity = 0;
    for (; times > 0 && !j->status && jinja_work(j, 1); times--) {
        if (value.kind == VALUE_STRING)
            buffer_put(j, &out, value_subject(j, value));
        else
            for (size_t i = 0; i < value.list->count && jinja_work(j, 1); i++)
                list_append(j, &list, &capacity, value.list->items[i]);
    }
    return value.kind == VALUE_STRING ? buffer_value(&out) : list;
}

static bool is_sequence(struct value value)
{
    return value.kind == VALUE_STRING || value.kind == VALUE_LIST || value.kind == VALUE_TUPLE;
}

static struct value arithmetic(struct jinja *j, enum operation op, struct value a, struct value b)
{
    bool numbers = value_is_number(a) && value_is_number(b);
    if (op == OP_CONCAT)
        return value_joined(j, value_string(value_text(j, a)), value_string(value_text(j, b)));
    if (a.kind == VALUE_BOOL) a = value_int(a.truth);
    if (b.kind == VALUE_BOOL) b = value_int(b.truth);
    if (numbers && a.kind == VALUE_INT && b.kind == VALUE_INT && op != OP_DIVIDE)
        return whole_arithmetic(j, op, a.whole, b.whole);
    if (numbers) return real_arithmetic(j, op, value_real(a), value_real(b));
    if (op == OP_ADD && a.kind == b.kind && a.kind == VALUE_STRING) return value_joined(j, a, b);
    if (op == OP_ADD && a.kind == b.kind && is_sequence(a)) {
        struct value out = value_list(j, a.kind, a.list->count + b.list->count);
        for (size_t i = 0; !j->status && i < out.list->count; i++)
            out.list->items[i] = i < a.list->count ? a.list->items[i] : b.list->items[i - a.list->count];
        return out;
    }
    if (op == OP_MULTIPLY && is_sequence(a) && b.kind == VALUE_INT) return repeat(j, a, b.whole);
    if (op == OP_MULTIPLY && is_sequence(b) && a.kind == VALUE_INT) return repeat(j, b, a.whole);
    if (a.kind == VALUE_UNDEFINED && a.text.n) return JINJA_REFUSE(j, "'%s' is undefined", SHOWN(a.text));
    if (b.kind == VALUE_UNDEFINED && b.text.n) return JINJA_REFUSE(j, "'%s' is undefined", SHOWN(b.text));
    return JINJA_REFUSE(j, "the operator is not supported between %s and %s", value_type(a), value_type(b));
}

static bool compare(struct jinja *j, enum operation op, struct value a, struct value b)
{
    switch (op) {
    case OP_EQUAL:
        return value_equal(j, a, b);
    case OP_UNEQUAL:
        return !value_equal(j, a, b);
    case OP_LESS:
        return value_order(j, a, b) < 0;
    case OP_LESS_EQUAL:
        return value_order(j, a, b) <= 0;
    case OP_GREATER:
        return value_order(j, a, b) > 0;
    case OP_GREATER_EQUAL:
        return value_order(j, a, b) >= 0;
    default:
        return value_contains(j, b, a) == (op == OP_IN);
    }
}

static struct value evaluate_compare(struct jinja *j, const struct node *node)
{
    struct value left = evaluate(j, node->a);
    for (const struct node *operand = node->list; operand; operand = operand->next) {
        struct value right = evaluate(j, operand->a);
        if (j->status || !compare(j, operand->op, left, right)) return value_bool(false);
        left = right;
    }
    return value_bool(true);
}

static struct value negative(struct jinja *j, struct value value)
{
    if (value.kind == VALUE_REAL) return value.real = -value.real, value;
    if (!value_is_number(value)) return JINJA_REFUSE(j, "%s has no sign", value_type(value));
    return arithmetic(j, OP_SUBTRACT, value_int(0), value);
}

/* As Python's slice.indices: a bound within the items. */
static int64_t bound(struct jinja *j, const struct node *node, int64_t otherwise, int64_t count, int64_t low,
                     int64_t high)
{
    struct value value = node ? evaluate(j, node) : (struct value){.kind = VALUE_NONE};
    if (value.kind == VALUE_NONE || j->status) return otherwise;
    int64_t at = value_int_or(j, value, 0);
    if (at < 0) at = at < -count ? -1 : at + count;
    return at < low ? low : at > high ? high : at;
}

static struct value evaluate_slice(struct jinja *j, const struct node *node)
{
    struct value value = evaluate(j, node->a);
    struct value items = is_sequence(value) ? value_items(j, value)
                                            : JINJA_REFUSE(j, "%s cannot be sliced", value_type(value));
    struct value step = node->d ? evaluate(j, node->d) : value_int(1);
    struct buffer text = {0};
    size_t capacity = 0;
    if (step.kind == VALUE_NONE) step = value_int(1);
    int64_t stride = value_int_or(j, step, 1), count = j->status ? 0 : (int64_t)items.list->count;
    if (!stride || stride > INT32_MAX || stride < -INT32_MAX)
        return JINJA_REFUSE(j, "the step of a slice is not supported");
    int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? count : count - 1;
    int64_t at = bound(j, node->b, stride > 0 ? 0 : count - 1, count, low, high);
    int64_t end = bound(j, node->c, stride > 0 ? count : -1, count, low, high);
    struct value out = value_list(j, value.kind, 0);
    for (; !j->status && (stride > 0 ? at < end : at > end); at += stride) {
        if (value.kind == VALUE_STRING)
            buffer_put(j, &text, items.list->items[at].text);
        else
            list_append(j, &out, &capacity, items.list->items[at]);
    }
    return value.kind == VALUE_STRING ? buffer_value(&text) : out;
}

/* ---- calls ---- */

static void evaluate_arguments(struct jinja *j, const struct node *list, struct arguments *out)
{
    out->count = 0, out->named = (struct dict){0};
    for (; list && !j->status; list = list->next) {
        struct value value = evaluate(j, list->kind == NODE_KEYWORD ? list->a : list);
        if (list->kind == NODE_KEYWORD)
            dict_put(j, &out->named, value_string(list->name), value);
        else if (out->named.count)
            JINJA_REFUSE(j, "an argument without a name follows one with a name");
        else if (out->count == JINJA_ARGUMENTS_MAX)
            JINJA_REFUSE(j, "a call has too many arguments");
        else
            out->values[out->count++] = value;
    }
}

/* Renders a body into a text of its own, in a scope of its own. */
static struct value capture(struct jinja *j, const struct node *body, struct scope *scope)
{
    struct buffer text = {0}, *out = j->out;
    struct scope *outside = j->scope;
    j->out = &text, j->scope = scope;
    run_body(j, body);
    j->out = out, j->scope = outside;
    return buffer_value(&text);
}

static struct value call_macro(struct jinja *j, const struct macro *macro, const struct arguments *given)
{
    struct scope *scope = scope_new(j, macro->scope), *outside = j->scope;
    int index = 0, line = j->line;
    size_t named = 0;
    j->scope = scope;
    for (const struct node *parameter = macro->node->a; parameter && !j->status;
         parameter = parameter->next, index++) {
        const struct value *keyword = dict_find(j, &given->named, value_string(parameter->name));
        struct value value = value_undefined(parameter->name);
        if (keyword && index < given->count)
            JINJA_REFUSE(j, "the macro '%s' gets its argument '%s' twice", SHOWN(macro->node->name),
                         SHOWN(parameter->name));
        if (index < given->count)
            value = given->values[index];
        else if (keyword)
            value = *keyword, named++;
        else if (parameter->a)
            value = evaluate(j, parameter->a);
        if (!j->status) dict_put(j, &scope->variables, value_string(parameter->name), value);
    }
    j->scope = outside, j->line = line;
    if (given->count > index || given->named.count > named)
        return JINJA_REFUSE(j, "the macro '%s' has no such argument", SHOWN(macro->node->name));
    struct value text = capture(j, macro->node->list, scope);
    if (!j->status) j->line = line;
    return text;
}

static struct value evaluate_call(struct jinja *j, const struct node *node)
{
    struct value callee = evaluate(j, node->a);
    struct arguments given;
    evaluate_arguments(j, node->list, &given);
    if (j->status) return NOTHING;
    if (callee.kind == VALUE_FUNCTION) return jinja_function(j, callee.function, &given);
    if (callee.kind == VALUE_MACRO) return call_macro(j, callee.macro, &given);
    if (callee.kind == VALUE_UNDEFINED)
        return JINJA_REFUSE(j, "'%s' is undefined, so it cannot be called", SHOWN(callee.text));
    return JINJA_REFUSE(j, "%s cannot be called", value_type(callee));
}

static struct value evaluate_filter(struct jinja *j, const struct node *node, bool test)
{
    struct value self = node->a ? evaluate(j, node->a) : j->captured;
    struct arguments given;
    evaluate_arguments(j, node->list, &given);
    return test ? jinja_test(j, node->name, self, &given) : jinja_filter(j, node->name, self, &given);
}

/* ---- loops ---- */

static bool loop_passes(struct jinja *j, struct loop *loop, size_t item)
{
    if (loop->passes[item] < 0) {
        struct scope *inside = j->scope;
        if (loop->node->c) {
            j->scope = scope_new(j, loop->outside);
            assign(j, loop->node->a, loop->items->items[item]);
        }
        loop->passes[item] = !loop->node->c || value_truth(evaluate(j, loop->node->c));
        j->scope = inside;
    }
    return loop->passes[item] && !j->status;
}

/* The first item from `item` on that passes the filter; the count of items: none. */
static size_t loop_seek(struct jinja *j, struct loop *loop, size_t item)
{
    while (item < loop->items->count && !loop_passes(j, loop, item) && jinja_work(j, 1)) item++;
    return item;
}

static struct value loop_attribute(struct jinja *j, struct loop *loop, struct text name)
{
    size_t next = loop->current + 1, length = loop->index0 + 1;
    if (text_is(name, "index")) return value_int((int64_t)loop->index0 + 1);
    if (text_is(name, "index0")) return value_int((int64_t)loop->index0);
    if (text_is(name, "first")) return value_bool(loop->index0 == 0);
    if (text_is(name, "last")) return value_bool(loop_seek(j, loop, next) == loop->items->count);
    if (text_is(name, "previtem"))
        return loop->previous < 0 ? value_undefined(name) : loop->items->items[loop->previous];
    if (text_is(name, "nextitem")) {
        next = loop_seek(j, loop, next);
        return next == loop->items->count ? value_undefined(name) : loop->items->items[next];
    }
    if (loop->node->c) jinja_work(j, loop->items->count);
    while ((next = loop_seek(j, loop, next)) < loop->items->count && !j->status) next++, length++;
    if (text_is(name, "length")) return value_int((int64_t)length);
    if (text_is(name, "revindex")) return value_int((int64_t)(length - loop->index0));
    if (text_is(name, "revindex0")) return value_int((int64_t)(length - loop->index0) - 1);
    return JINJA_REFUSE(j, "loop.%s is not supported", SHOWN(name));
}

static void run_loop(struct jinja *j, const struct node *node)
{
    struct scope *outside = j->scope, *inside = NULL;
    struct value items = value_items(j, evaluate(j, node->b));
    struct loop *loop = jinja_alloc(j, 1, sizeof *loop);
    signed char *passes = jinja_alloc(j, j->status ? 0 : items.list->count, 1);
    if (!passes) return;
    *loop = (struct loop){node, outside, items.list, passes, 0, 0, -1};
    memset(passes, -1, items.list->count);
    enum flow flow = FLOW_NEXT;
    for (size_t i = loop_seek(j, loop, 0); i < items.list->count && flow != FLOW_BREAK && !j->status;
         i = loop_seek(j, loop, i + 1), loop->index0++) {
        loop->current = i;
        if (!inside || inside->kept) inside = scope_new(j, outside);
        inside->variables.count = 0;
        j->scope = inside;
        dict_put(j, &j->scope->variables, value_string(TEXT("loop")),
                 (struct value){.kind = VALUE_LOOP, .loop = loop});
        assign(j, node->a, items.list->items[i]);
        flow = run_body(j, node->list);
        j->scope = outside;
        loop->previous = (ptrdiff_t)i;
    }
    if (loop->previous >= 0 || j->status) return;
    j->scope = scope_new(j, outside);
    run_body(j, node->orelse);
    j->scope = outside;
}

/* ---- expressions ---- */

static struct value evaluate_display(struct jinja *j, const struct node *node)
{
    struct value out = value_list(j, node->kind == NODE_TUPLE ? VALUE_TUPLE : VALUE_LIST, 0);
    size_t capacity = 0;
    for (const struct node *item = node->list; item && !j->status; item = item->next)
        list_append(j, &out, &capacity, evaluate(j, item));
    return out;
}

static struct value evaluate_dict(struct jinja *j, const struct node *node)
{
    struct value out = {.kind = VALUE_DICT, .dict = jinja_alloc(j, 1, sizeof *out.dict)};
    for (const struct node *key = node->list; key && !j->status; key = key->next->next) {
        struct value name = evaluate(j, key), value = evaluate(j, key->next);
        if (name.kind != VALUE_STRING && name.kind != VALUE_INT)
            JINJA_REFUSE(j, "%s as the key of a dictionary is not supported", value_type(name));
        if (!j->status) dict_put(j, out.dict, name, value);
    }
    return out;
}

static struct value evaluate_node(struct jinja *j, const struct node *node)
{
    struct value value;
    switch (node->kind) {
    case NODE_CONST:
        return node->value;
    case NODE_NAME:
        return look_up(j, node->name);
    case NODE_LIST:
    case NODE_TUPLE:
        return evaluate_display(j, node);
    case NODE_DICT:
        return evaluate_dict(j, node);
    case NODE_ATTRIBUTE:
        value = evaluate(j, node->a);
        return value.kind == VALUE_LOOP ? loop_attribute(j, value.loop, node->name)
                                        : jinja_attribute(j, value, node->name);
    case NODE_ITEM:
        value = evaluate(j, node->a);
        return jinja_item(j, value, evaluate(j, node->b));
    case NODE_SLICE:
        return evaluate_slice(j, node);
    case NODE_CALL:
        return evaluate_call(j, node);
    case NODE_FILTER:
    case NODE_TEST:
        return evaluate_filter(j, node, node->kind == NODE_TEST);
    case NODE_NOT:
        return value_bool(!value_truth(evaluate(j, node->a)));
    case NODE_NEGATIVE:
        return negative(j, evaluate(j, node->a));
    case NODE_POSITIVE:
        return evaluate(j, node->a);
    case NODE_BINARY:
        value = evaluate(j, node->a);
        if (node->op <= OP_AND)
            return value_truth(value) == (node->op == OP_OR) ? value : evaluate(j, node->b);
        return arithmetic(j, node->op, value, evaluate(j, node->b));
    case NODE_COMPARE:
        return evaluate_compare(j, node);
    case NODE_CONDITION:
        if (value_truth(evaluate(j, node->a))) return evaluate(j, node->b);
        return node->c ? evaluate(j, node->c) : NOTHING;
    default:
        return JINJA_REFUSE(j, "this expression is not supported");
    }
}

/* After an error the value is undefined, and nothing may be made of it. */
static struct value evaluate(struct jinja *j, const struct node *node)
{
    if (!jinja_enter(j)) return NOTHING;
    struct value value = evaluate_node(j, node);
    jinja_leave(j);
    return j->status ? NOTHING : value;
}

/* ---- statements ---- */

static void print(struct jinja *j, struct value value)
{
    if (!j->status) buffer_put(j, j->out, value_text(j, value));
}

static struct value filtered(struct jinja *j, const struct node *filters, struct value text)
{
    struct value outer = j->captured, out = text;
    j->captured = text;
    if (filters && !j->status) out = evaluate(j, filters);
    j->captured = outer;
    return out;
}

static enum flow run(struct jinja *j, const struct node *node)
{
    j->line = node->line;
    switch (node->kind) {
    case NODE_DATA:
        buffer_put(j, j->out, node->value.text);
        break;
    case NODE_PRINT:
        print(j, evaluate(j, node->a));
        break;
    case NODE_IF:
        for (;; node = node->c) {
            if (value_truth(evaluate(j, node->a))) return run_body(j, node->list);
            if (!node->c || j->status) return run_body(j, node->orelse);
        }
    case NODE_FOR:
        run_loop(j, node);
        break;
    case NODE_SET:
        assign(j, node->a,
               node->b ? evaluate(j, node->b)
                       : filtered(j, node->c, capture(j, node->list, scope_new(j, j->scope))));
        break;
    case NODE_MACRO: {
        struct macro *macro = jinja_alloc(j, 1, sizeof *macro);
        if (!macro) break;
        *macro = (struct macro){node, j->scope};
        for (struct scope *scope = j->scope; scope; scope = scope->parent) scope->kept = true;
        dict_put(j, &j->scope->variables, value_string(node->name),
                 (struct value){.kind = VALUE_MACRO, .macro = macro});
        break;
    }
    case NODE_SCOPE:
        print(j, filtered(j, node->c, capture(j, node->list, scope_new(j, j->scope))));
        break;
    case NODE_BREAK:
        return FLOW_BREAK;
    case NODE_CONTINUE:
        return FLOW_CONTINUE;
    default:
        JINJA_REFUSE(j, "this statement is not supported");
    }
    return FLOW_NEXT;
}

static enum flow run_body(struct jinja *j, const struct node *body)
{
    enum flow flow = FLOW_NEXT;
    if (!jinja_enter(j)) return FLOW_BREAK;
    for (; body && flow == FLOW_NEXT && !j->status; body = body->next) flow = run(j, body);
    jinja_leave(j);
    return flow;
}

void jinja_render(struct jinja *j, const struct node *body)
{
    run_body(j, body);
}
