/* Renders the tree of a template: expressions to values, statements to text. See jinja.h. */
#include <string.h>

#include "datasets/jinja.h"

/* How a statement ended. */
enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE };

/* A for loop. Its filter is evaluated for an item when that is reached or looked ahead to, as in jinja2. */
struct loop {
    const struct node *node;
    struct scope *outside;
    const struct list *items;
    size_t seen;         /* items that were evaluated so far, */
    struct value passed; /* and the list of those that passed the filter */
    size_t index;
};

static struct value evaluate(struct jinja *j, const struct node *node);
static enum flow run_body(struct jinja *j, const struct node *body);

/* ---- variables ---- */

static struct scope *scope_new(struct jinja *j, const struct scope *parent)
{
    struct scope *scope = jinja_alloc(j, 1, sizeof *scope);
    scope->parent = parent;
    return scope;
}

static struct value look_up(struct jinja *j, struct text name)
{
    for (const struct scope *scope = j->scope; scope; scope = scope->parent) {
        const struct value *found = dict_find(j, &scope->variables, value_string(name));
        if (found) return *found;
    }
    return jinja_global(j, name);
}

static void assign(struct jinja *j, const struct node *target, struct value value)
{
    if (target->kind == NODE_NAME) {
        dict_put(j, &j->scope->variables, value_string(target->name), value);
    } else if (target->kind == NODE_ATTRIBUTE) {
        struct value namespace = look_up(j, target->a->name);
        if (namespace.kind != VALUE_NAMESPACE)
            JINJA_REFUSE(j, "set %s.%s: this is %s, not a namespace", SHOWN(target->a->name),
                         SHOWN(target->name), value_type(namespace));
        dict_put(j, namespace.dict, value_string(target->name), value);
    } else {
        const struct list *items = value_items(j, value);
        size_t i = 0;
        for (const struct node *part = target->list; part; part = part->next, i++)
            if (i < items->count) assign(j, part, items->items[i]);
        if (i != items->count) JINJA_REFUSE(j, "%zu values cannot be assigned to %zu names", items->count, i);
    }
}

/* ---- operators ---- */

static struct value whole_arithmetic(struct jinja *j, enum operation op, int64_t a, int64_t b)
{
    int64_t out = 0;
    bool overflow = false;
    if (op == OP_ADD)
        overflow = __builtin_add_overflow(a, b, &out);
    else if (op == OP_SUBTRACT)
        overflow = __builtin_sub_overflow(a, b, &out);
    else if (op == OP_MULTIPLY)
        overflow = __builtin_mul_overflow(a, b, &out);
    else if (!b)
        JINJA_REFUSE(j, "a division by 0");
    else if (b != -1) /* else the rest is 0 */
        out = a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
    if (overflow) JINJA_REFUSE(j, "a number has more than 64 bits");
    return value_int(out);
}

static struct value add_lists(struct jinja *j, struct value a, struct value b)
{
    struct value out = value_list(j, a.kind);
    for (size_t i = 0; i < a.list->count; i++) list_append(j, out, a.list->items[i]);
    for (size_t i = 0; i < b.list->count; i++) list_append(j, out, b.list->items[i]);
    return out;
}

/* A text that is added to another. In jinja2 a safe one makes the other be escaped for HTML. */
static struct text unescaped(struct jinja *j, struct value value, struct value other)
{
    for (size_t i = 0; other.safe && !value.safe && i < value.text.n; i++)
        if (memchr("&<>'\"", value.text.at[i], 5))
            JINJA_REFUSE(j, "'%c' added to a text marked as safe is not supported", value.text.at[i]);
    return value.text;
}

static struct value arithmetic(struct jinja *j, enum operation op, struct value a, struct value b)
{
    struct buffer out = {0};
    if (a.kind == VALUE_BOOL) a = value_int(a.truth);
    if (b.kind == VALUE_BOOL) b = value_int(b.truth);
    if (op == OP_ADD && a.kind == VALUE_STRING && b.kind == VALUE_STRING) {
        buffer_put(j, &out, unescaped(j, a, b)), buffer_put(j, &out, unescaped(j, b, a));
        struct value sum = buffer_value(&out);
        sum.safe = a.safe || b.safe;
        return sum;
    }
    if (a.kind == VALUE_INT && b.kind == VALUE_INT) return whole_arithmetic(j, op, a.whole, b.whole);
    if (op == OP_ADD && a.kind == b.kind && (a.kind == VALUE_LIST || a.kind == VALUE_TUPLE))
        return add_lists(j, a, b);
    if (op == OP_MULTIPLY && a.kind == VALUE_STRING && !a.safe && b.kind == VALUE_INT) {
        for (; b.whole > 0; b.whole--, jinja_work(j, 1)) buffer_put(j, &out, a.text);
        return buffer_value(&out);
    }
    if (a.kind == VALUE_UNDEFINED || b.kind == VALUE_UNDEFINED) {
        struct text name = a.kind == VALUE_UNDEFINED ? a.text : b.text;
        JINJA_REFUSE(j, "'%s' is undefined", name.n ? SHOWN(name) : "a value");
    }
    JINJA_REFUSE(j, "the operator is not supported between %s and %s", value_type(a), value_type(b));
}

static struct value evaluate_binary(struct jinja *j, const struct node *node)
{
    struct value a = evaluate(j, node->a);
    if (node->op <= OP_AND) return value_truth(a) == (node->op == OP_OR) ? a : evaluate(j, node->b);
    struct value b = evaluate(j, node->b);
    if (node->op >= OP_EQUAL) return value_bool(value_compare(j, node->op, a, b));
    if (node->op != OP_CONCAT) return arithmetic(j, node->op, a, b);
    return arithmetic(j, OP_ADD, value_string(value_text(j, a)), value_string(value_text(j, b)));
}

/* As Python's slice.indices: a bound within the items. */
static int64_t bound(struct jinja *j, const struct node *node, int64_t otherwise, int64_t count, int64_t low,
                     int64_t high)
{
    struct value value = node ? evaluate(j, node) : value_none;
    if (value.kind == VALUE_NONE) return otherwise;
    int64_t at = value_int_or(j, value, 0);
    if (at < 0) at = at < -count ? -1 : at + count;
    return at < low ? low : at > high ? high : at;
}

static struct value evaluate_slice(struct jinja *j, const struct node *node)
{
    struct value value = evaluate(j, node->a), step = node->d ? evaluate(j, node->d) : value_int(1);
    struct value out = value_list(j, value.kind);
    struct buffer text = {0};
    if (value.kind < VALUE_STRING || value.kind > VALUE_TUPLE)
        JINJA_REFUSE(j, "%s cannot be sliced", value_type(value));
    const struct list *items = value_items(j, value);
    int64_t stride = value_int_or(j, step, 1), count = (int64_t)items->count;
    if (!stride || stride > INT32_MAX || stride < -INT32_MAX)
        JINJA_REFUSE(j, "the step of a slice is not supported");
    int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? count : count - 1;
    int64_t at = bound(j, node->b, stride > 0 ? 0 : count - 1, count, low, high);
    int64_t end = bound(j, node->c, stride > 0 ? count : -1, count, low, high);
    for (; stride > 0 ? at < end : at > end; at += stride) {
        if (value.kind == VALUE_STRING)
            buffer_put(j, &text, items->items[at].text);
        else
            list_append(j, out, items->items[at]);
    }
    return value.kind == VALUE_STRING ? buffer_value(&text) : out;
}

/* ---- calls ---- */

static struct arguments evaluate_arguments(struct jinja *j, const struct node *list)
{
    struct arguments out = {0};
    for (; list; list = list->next) {
        struct value value = evaluate(j, list->kind == NODE_KEYWORD ? list->a : list);
        if (list->kind == NODE_KEYWORD)
            dict_put(j, &out.named, value_string(list->name), value);
        else if (out.named.count)
            JINJA_REFUSE(j, "an argument without a name follows one with a name");
        else if (out.count == JINJA_ARGUMENTS_MAX)
            JINJA_REFUSE(j, "a call has too many arguments");
        else
            out.values[out.count++] = value;
    }
    return out;
}

/* Renders a body in the scope, into a text of its own. */
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
    size_t index = 0, named = 0;
    int line = j->line;
    j->scope = scope;
    for (const struct node *parameter = macro->node->a; parameter; parameter = parameter->next, index++) {
        const struct value *keyword = dict_find(j, &given->named, value_string(parameter->name));
        struct value value = value_undefined(parameter->name);
        if (index < given->count)
            value = given->values[index];
        else if (keyword)
            value = *keyword, named++;
        else if (parameter->a)
            value = evaluate(j, parameter->a);
        dict_put(j, &scope->variables, value_string(parameter->name), value);
    }
    j->scope = outside, j->line = line;
    if (given->count > index || given->named.count > named)
        JINJA_REFUSE(j, "the macro '%s' has no such argument", SHOWN(macro->node->name));
    struct value text = capture(j, macro->node->list, scope);
    j->line = line;
    return text;
}

static struct value evaluate_call(struct jinja *j, const struct node *node)
{
    struct value callee = evaluate(j, node->a);
    struct arguments given = evaluate_arguments(j, node->list);
    if (callee.kind == VALUE_FUNCTION)
        return jinja_call(j, callee.function->builtin, callee.function->self, &given);
    if (callee.kind == VALUE_MACRO) return call_macro(j, callee.macro, &given);
    if (callee.kind == VALUE_UNDEFINED)
        JINJA_REFUSE(j, "'%s' is undefined, so it cannot be called", SHOWN(callee.text));
    JINJA_REFUSE(j, "%s cannot be called", value_type(callee));
}

static struct value evaluate_filter(struct jinja *j, const struct node *node)
{
    struct value self = evaluate(j, node->a);
    struct arguments given = evaluate_arguments(j, node->list);
    return jinja_call_named(j, node->kind == NODE_TEST ? TEST : FILTER, node->name, self, &given);
}

/* ---- loops ---- */

static void run_pass(struct jinja *j, struct loop *loop, struct value item)
{
    struct scope *inside = j->scope;
    jinja_work(j, 1);
    j->scope = scope_new(j, loop->outside);
    assign(j, loop->node->a, item);
    if (value_truth(evaluate(j, loop->node->c))) list_append(j, loop->passed, item);
    j->scope = inside;
}

/* Whether the loop has an item of this index. */
static bool loop_has(struct jinja *j, struct loop *loop, size_t index)
{
    if (!loop->node->c) return index < loop->items->count;
    while (loop->passed.list->count <= index && loop->seen < loop->items->count)
        run_pass(j, loop, loop->items->items[loop->seen++]);
    return index < loop->passed.list->count;
}

static struct value loop_item(const struct loop *loop, size_t index)
{
    return (loop->node->c ? loop->passed.list : loop->items)->items[index];
}

static struct value loop_attribute(struct jinja *j, struct loop *loop, struct text name)
{
    int64_t index = (int64_t)loop->index;
    size_t next = loop->index + 1;
    if (text_is(name, "index")) return value_int(index + 1);
    if (text_is(name, "index0")) return value_int(index);
    if (text_is(name, "first")) return value_bool(index == 0);
    if (text_is(name, "last")) return value_bool(!loop_has(j, loop, next));
    if (text_is(name, "previtem")) return index ? loop_item(loop, loop->index - 1) : value_undefined(name);
    if (text_is(name, "nextitem"))
        return loop_has(j, loop, next) ? loop_item(loop, next) : value_undefined(name);
    while (loop_has(j, loop, next)) jinja_work(j, 1), next++;
    if (text_is(name, "length")) return value_int((int64_t)next);
    if (text_is(name, "revindex")) return value_int((int64_t)next - index);
    if (text_is(name, "revindex0")) return value_int((int64_t)next - index - 1);
    JINJA_REFUSE(j, "loop.%s is not supported", SHOWN(name));
}

static void run_loop(struct jinja *j, const struct node *node)
{
    struct scope *outside = j->scope;
    struct loop *loop = jinja_alloc(j, 1, sizeof *loop);
    enum flow flow = FLOW_NEXT;
    bool completed = false; /* a pass reached the end of the body */
    *loop = (struct loop){.node = node, .outside = outside};
    loop->items = value_items(j, evaluate(j, node->b));
    loop->passed = value_list(j, VALUE_LIST);
    for (; flow != FLOW_BREAK && loop_has(j, loop, loop->index); loop->index++) {
        j->scope = scope_new(j, outside);
        dict_put(j, &j->scope->variables, value_string(TEXT("loop")),
                 (struct value){.kind = VALUE_LOOP, .loop = loop});
        assign(j, node->a, loop_item(loop, loop->index));
        flow = run_body(j, node->list);
        completed = completed || flow == FLOW_NEXT;
        j->scope = outside;
    }
    if (completed) return;
    j->scope = scope_new(j, outside);
    run_body(j, node->orelse);
    j->scope = outside;
}

/* ---- expressions ---- */

static struct value evaluate_list(struct jinja *j, const struct node *node)
{
    struct value out = value_list(j, node->kind == NODE_TUPLE ? VALUE_TUPLE : VALUE_LIST);
    for (const struct node *item = node->list; item; item = item->next)
        list_append(j, out, evaluate(j, item));
    return out;
}

static struct value evaluate_dict(struct jinja *j, const struct node *node)
{
    struct value out = value_dict(j, VALUE_DICT);
    for (const struct node *key = node->list; key; key = key->next->next) {
        struct value name = evaluate(j, key);
        if (name.kind != VALUE_STRING && name.kind != VALUE_INT)
            JINJA_REFUSE(j, "%s as the key of a dictionary is not supported", value_type(name));
        dict_put(j, out.dict, name, evaluate(j, key->next));
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
        return evaluate_list(j, node);
    case NODE_DICT:
        return evaluate_dict(j, node);
    case NODE_ATTRIBUTE:
        value = evaluate(j, node->a);
        return value.kind == VALUE_LOOP ? loop_attribute(j, value.loop, node->name)
                                        : jinja_attribute(j, value, node->name, true);
    case NODE_ITEM:
        value = evaluate(j, node->a);
        return jinja_item(j, value, evaluate(j, node->b));
    case NODE_SLICE:
        return evaluate_slice(j, node);
    case NODE_CALL:
        return evaluate_call(j, node);
    case NODE_FILTER:
    case NODE_TEST:
        return evaluate_filter(j, node);
    case NODE_NOT:
        return value_bool(!value_truth(evaluate(j, node->a)));
    case NODE_NEGATIVE:
        value = evaluate(j, node->a);
        if (value.kind == VALUE_REAL) return value.real = -value.real, value;
        return arithmetic(j, OP_SUBTRACT, value_int(0), value);
    case NODE_BINARY:
        return evaluate_binary(j, node);
    case NODE_CONDITION:
        if (value_truth(evaluate(j, node->a))) return evaluate(j, node->b);
        return node->c ? evaluate(j, node->c) : value_undefined(TEXT(""));
    case NODE_CAPTURE:
        return capture(j, node->list, scope_new(j, j->scope));
    default:
        JINJA_REFUSE(j, "this expression is not supported");
    }
}

static struct value evaluate(struct jinja *j, const struct node *node)
{
    jinja_enter(j);
    struct value value = evaluate_node(j, node);
    jinja_leave(j);
    return value;
}

/* ---- statements ---- */

static void define_macro(struct jinja *j, const struct node *node)
{
    struct macro *macro = jinja_alloc(j, 1, sizeof *macro);
    *macro = (struct macro){node, j->scope};
    dict_put(j, &j->scope->variables, value_string(node->name),
             (struct value){.kind = VALUE_MACRO, .macro = macro});
}

static enum flow run(struct jinja *j, const struct node *node)
{
    j->line = node->line;
    switch (node->kind) {
    case NODE_DATA:
        buffer_put(j, j->out, node->value.text);
        break;
    case NODE_PRINT:
        buffer_put(j, j->out, value_text(j, evaluate(j, node->a)));
        break;
    case NODE_IF:
        for (; !value_truth(evaluate(j, node->a)); node = node->c)
            if (!node->c) return run_body(j, node->orelse);
        return run_body(j, node->list);
    case NODE_FOR:
        run_loop(j, node);
        break;
    case NODE_SET:
        assign(j, node->a, evaluate(j, node->b));
        break;
    case NODE_MACRO:
        define_macro(j, node);
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
    jinja_enter(j);
    for (; body && flow == FLOW_NEXT; body = body->next) flow = run(j, body);
    jinja_leave(j);
    return flow;
}

void jinja_render(struct jinja *j, const struct node *body)
{
    run_body(j, body);
}
