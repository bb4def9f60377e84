/* Makes the tree of a Jinja template from its tokens, with the grammar of jinja2's parser: see jinja.h. */
#include <stdio.h>
#include <string.h>

#include "datasets/jinja.h"

struct parser {
    struct jinja *j;
    const struct token *now; /* to parse next */
    int loops;               /* that are open */
};

static bool token_is(const struct token *token, const char *word)
{
    return (token->kind == TOKEN_NAME || token->kind == TOKEN_SIGN) && text_is(token->text, word);
}

static bool here(const struct parser *p, const char *word)
{
    return token_is(p->now, word);
}

static void advance(struct parser *p)
{
    if (p->now->kind != TOKEN_END) p->now++;
    p->j->line = p->now->line;
}

static bool skip(struct parser *p, const char *word)
{
    bool found = here(p, word);
    if (found) advance(p);
    return found;
}

static void expect(struct parser *p, const char *word)
{
    char what[64];
    snprintf(what, sizeof what, "expected '%s', found", word);
    if (!skip(p, word)) jinja_syntax(p->j, what, p->now->text);
}

static struct text expect_name(struct parser *p)
{
    struct text name = p->now->text;
    if (p->now->kind != TOKEN_NAME) jinja_syntax(p->j, "expected a name, found", name);
    advance(p);
    return name;
}

static struct node *node_new(struct parser *p, enum node_kind kind, struct node *a, struct node *b)
{
    struct node *node = jinja_alloc(p->j, 1, sizeof *node);
    *node = (struct node){.kind = kind, .line = p->j->line, .a = a, .b = b};
    return node;
}

static struct node *node_named(struct parser *p, enum node_kind kind, struct node *a)
{
    struct node *node = node_new(p, kind, a, NULL);
    node->name = expect_name(p);
    return node;
}

static void append(struct node ***end, struct node *node)
{
    **end = node;
    *end = &node->next;
}

/* ---- expressions ---- */

static struct node *parse_expression(struct parser *p, bool conditional);
static struct node *parse_tuple(struct parser *p, bool conditional);

static void parse_arguments(struct parser *p, struct node *call)
{
    struct node **end = &call->list;
    expect(p, "(");
    while (!skip(p, ")")) {
        struct node *keyword = NULL;
        if (here(p, "*") || here(p, "**")) JINJA_REFUSE(p->j, "* and ** among arguments are not supported");
        if (p->now->kind == TOKEN_NAME && token_is(p->now + 1, "=")) {
            keyword = node_named(p, NODE_KEYWORD, NULL);
            advance(p);
        }
        struct node *value = parse_expression(p, true);
        if (keyword) keyword->a = value;
        append(&end, keyword ? keyword : value);
        if (!here(p, ")")) expect(p, ",");
    }
}

/* A list or a dictionary. */
static struct node *parse_display(struct parser *p, enum node_kind kind, const char *close)
{
    struct node *node = node_new(p, kind, NULL, NULL), **end = &node->list;
    advance(p);
    while (!skip(p, close)) {
        append(&end, parse_expression(p, true));
        if (kind == NODE_DICT) {
            expect(p, ":");
            append(&end, parse_expression(p, true));
        }
        if (!here(p, close)) expect(p, ",");
    }
    return node;
}

static struct node *parse_const(struct parser *p)
{
    struct node *node = node_new(p, NODE_CONST, NULL, NULL);
    struct buffer joined = {0};
    node->value = p->now->value;
    advance(p);
    if (node->value.kind != VALUE_STRING || p->now->kind != TOKEN_CONST) return node;
    buffer_put(p->j, &joined, node->value.text); /* several strings in a row are one */
    for (; p->now->kind == TOKEN_CONST && p->now->value.kind == VALUE_STRING; advance(p))
        buffer_put(p->j, &joined, p->now->value.text);
    node->value = buffer_value(&joined);
    return node;
}

static struct node *parse_name(struct parser *p)
{
    static const struct {
        const char *word;
        struct value value;
    } constants[] = {
        {"true", {.kind = VALUE_BOOL, .truth = true}},
        {"True", {.kind = VALUE_BOOL, .truth = true}},
        {"false", {.kind = VALUE_BOOL, .truth = false}},
        {"False", {.kind = VALUE_BOOL, .truth = false}},
        {"none", {.kind = VALUE_NONE}},
        {"None", {.kind = VALUE_NONE}},
    };
    struct node *node = node_named(p, NODE_NAME, NULL);
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (text_is(node->name, constants[i].word)) node->kind = NODE_CONST, node->value = constants[i].value;
    return node;
}

static struct node *parse_primary(struct parser *p)
{
    struct node *node = NULL;
    if (p->now->kind == TOKEN_NAME) return parse_name(p);
    if (p->now->kind == TOKEN_CONST) return parse_const(p);
    if (here(p, "[")) return parse_display(p, NODE_LIST, "]");
    if (here(p, "{")) return parse_display(p, NODE_DICT, "}");
    if (!skip(p, "(")) jinja_syntax(p->j, "unexpected", p->now->text);
    node = here(p, ")") ? node_new(p, NODE_TUPLE, NULL, NULL) : parse_tuple(p, true);
    expect(p, ")");
    return node;
}

static struct node *parse_subscript(struct parser *p, struct node *base)
{
    struct node *node = node_new(p, NODE_ITEM, base, NULL), **part[] = {&node->b, &node->c, &node->d};
    for (int i = 0; i < 3; i++) {
        if (!here(p, ":") && !here(p, "]")) *part[i] = parse_expression(p, true);
        if (i == 2 || !skip(p, ":")) break;
        node->kind = NODE_SLICE;
    }
    if (node->kind == NODE_ITEM && !node->b) jinja_syntax(p->j, "expected an index, found", p->now->text);
    expect(p, "]");
    return node;
}

static struct node *parse_postfix(struct parser *p, struct node *node)
{
    for (;;) {
        if (here(p, "(")) {
            node = node_new(p, NODE_CALL, node, NULL);
            parse_arguments(p, node);
        } else if (skip(p, "[")) {
            node = parse_subscript(p, node);
        } else if (skip(p, ".")) {
            bool number = p->now->kind == TOKEN_CONST && p->now->value.kind == VALUE_INT;
            node =
                number ? node_new(p, NODE_ITEM, node, parse_const(p)) : node_named(p, NODE_ATTRIBUTE, node);
        } else {
            return node;
        }
    }
}

static struct node *parse_filter(struct parser *p, struct node *base)
{
    struct node *node = node_named(p, NODE_FILTER, base);
    if (here(p, "(")) parse_arguments(p, node);
    return node;
}

static struct node *parse_test(struct parser *p, struct node *base)
{
    bool negated = skip(p, "not");
    struct node *node = node_named(p, NODE_TEST, base);
    bool ends = here(p, "else") || here(p, "or") || here(p, "and");
    if (here(p, "is")) jinja_syntax(p->j, "tests cannot follow each other:", p->now->text);
    if (here(p, "("))
        parse_arguments(p, node);
    else if (p->now->kind == TOKEN_CONST || here(p, "[") || (p->now->kind == TOKEN_NAME && !ends))
        node->list = parse_postfix(p, parse_primary(p));
    return negated ? node_new(p, NODE_NOT, node, NULL) : node;
}

static struct node *parse_unary(struct parser *p, bool filters)
{
    struct node *node;
    jinja_enter(p->j);
    node = skip(p, "-") ? node_new(p, NODE_NEGATIVE, parse_unary(p, false), NULL) : parse_primary(p);
    node = parse_postfix(p, node);
    while (filters && (here(p, "|") || here(p, "is") || here(p, "("))) {
        if (skip(p, "|"))
            node = parse_filter(p, node);
        else if (skip(p, "is"))
            node = parse_test(p, node);
        else
            node = parse_postfix(p, node);
    }
    jinja_leave(p->j);
    return node;
}

/* Binary operators by precedence, the weakest first; between `and` and the comparisons comes `not`. */
enum { LEVEL_NOT = 2, LEVEL_COMPARE, LEVEL_UNARY = 7 };
static const struct {
    int level;
    const char *word;
    enum operation op;
} operators[] = {
    {0, "or", OP_OR},
    {1, "and", OP_AND},
    {LEVEL_COMPARE, "==", OP_EQUAL},
    {LEVEL_COMPARE, "!=", OP_UNEQUAL},
    {LEVEL_COMPARE, "<", OP_LESS},
    {LEVEL_COMPARE, "<=", OP_LESS_EQUAL},
    {LEVEL_COMPARE, ">", OP_GREATER},
    {LEVEL_COMPARE, ">=", OP_GREATER_EQUAL},
    {LEVEL_COMPARE, "in", OP_IN},
    {LEVEL_COMPARE, "not", OP_NOT_IN}, /* before "in" */
    {4, "+", OP_ADD},
    {4, "-", OP_SUBTRACT},
    {5, "~", OP_CONCAT},
    {6, "*", OP_MULTIPLY},
    {6, "%", OP_MODULO},
    {6, "/", OP_REFUSED},
    {6, "//", OP_REFUSED},
    {6, "**", OP_REFUSED},
};

static bool skip_operator(struct parser *p, int level, enum operation *op)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        *op = operators[i].op;
        if (operators[i].level != level || !here(p, operators[i].word)) continue;
        if (*op == OP_NOT_IN && !token_is(p->now + 1, "in")) continue;
        if (*op == OP_REFUSED) JINJA_REFUSE(p->j, "the operator '%s' is not supported", operators[i].word);
        advance(p);
        if (*op == OP_NOT_IN) advance(p);
        return true;
    }
    return false;
}

static struct node *parse_binary(struct parser *p, int level)
{
    enum operation op;
    struct node *node;
    if (level == LEVEL_UNARY) return parse_unary(p, true);
    if (level == LEVEL_NOT && skip(p, "not")) {
        jinja_enter(p->j);
        node = node_new(p, NODE_NOT, parse_binary(p, LEVEL_NOT), NULL);
        jinja_leave(p->j);
        return node;
    }
    node = parse_binary(p, level + 1);
    for (bool first = true; skip_operator(p, level, &op); first = false) {
        if (level == LEVEL_COMPARE && !first)
            JINJA_REFUSE(p->j, "several comparisons in a row are not supported");
        node = node_new(p, NODE_BINARY, node, parse_binary(p, level + 1));
        node->op = op;
    }
    return node;
}

static struct node *parse_expression(struct parser *p, bool conditional)
{
    struct node *node = parse_binary(p, 0);
    while (conditional && skip(p, "if")) {
        node = node_new(p, NODE_CONDITION, parse_binary(p, 0), node);
        if (!skip(p, "else")) continue;
        jinja_enter(p->j);
        node->c = parse_expression(p, true);
        jinja_leave(p->j);
    }
    return node;
}

/* One expression, or several with commas: a tuple. */
static struct node *parse_tuple(struct parser *p, bool conditional)
{
    struct node *first = parse_expression(p, conditional);
    if (!here(p, ",")) return first;
    struct node *tuple = node_new(p, NODE_TUPLE, NULL, NULL), **end = &tuple->list;
    append(&end, first);
    while (skip(p, ",") && !here(p, ")") && !here(p, "}}") && !here(p, "%}"))
        append(&end, parse_expression(p, conditional));
    return tuple;
}

/* ---- statements ---- */

static struct node *parse_body(struct parser *p);

/* A body and the tag that ends it, of which the name `end` is passed. */
static struct node *parse_block(struct parser *p, const char *end)
{
    expect(p, "%}");
    struct node *body = parse_body(p);
    expect(p, end);
    return body;
}

/* The text of a body: a loop around it cannot be left from inside. */
static struct node *parse_capture(struct parser *p, const char *end)
{
    struct node *node = node_new(p, NODE_CAPTURE, NULL, NULL);
    int loops = p->loops;
    p->loops = 0;
    node->list = parse_block(p, end);
    p->loops = loops;
    return node;
}

/* A name, an attribute of a namespace, or several names. */
static struct node *parse_target(struct parser *p)
{
    struct node *first = node_named(p, NODE_NAME, NULL), *node = first;
    if (skip(p, ".")) return node_named(p, NODE_ATTRIBUTE, node);
    if (!here(p, ",")) return first;
    struct node *tuple = node_new(p, NODE_TUPLE, NULL, NULL), **end = &tuple->list;
    for (append(&end, first); skip(p, ",");) append(&end, node_named(p, NODE_NAME, NULL));
    return tuple;
}

static void parse_if(struct parser *p, struct node *node)
{
    for (;; node = node->c = node_new(p, NODE_IF, NULL, NULL)) {
        node->kind = NODE_IF;
        node->a = parse_tuple(p, false);
        expect(p, "%}");
        node->list = parse_body(p);
        if (!skip(p, "elif")) break;
    }
    if (skip(p, "else"))
        node->orelse = parse_block(p, "endif");
    else
        expect(p, "endif");
}

static void parse_for(struct parser *p, struct node *node)
{
    node->kind = NODE_FOR;
    node->a = parse_target(p);
    expect(p, "in");
    node->b = parse_tuple(p, false);
    if (skip(p, "if")) node->c = parse_expression(p, true);
    if (here(p, "recursive")) JINJA_REFUSE(p->j, "a recursive loop is not supported");
    expect(p, "%}");
    p->loops++;
    node->list = parse_body(p);
    p->loops--;
    if (skip(p, "else"))
        node->orelse = parse_block(p, "endfor");
    else
        expect(p, "endfor");
}

static void parse_set(struct parser *p, struct node *node)
{
    node->kind = NODE_SET;
    node->a = parse_target(p);
    if (here(p, "|")) JINJA_REFUSE(p->j, "filters of {%% set %%} are not supported");
    node->b = skip(p, "=") ? parse_tuple(p, true) : parse_capture(p, "endset");
}

static void parse_macro(struct parser *p, struct node *node)
{
    struct node **end = &node->a;
    node->kind = NODE_MACRO;
    node->name = expect_name(p);
    expect(p, "(");
    while (!skip(p, ")")) {
        struct node *parameter = node_named(p, NODE_NAME, NULL);
        if (skip(p, "=")) parameter->a = parse_expression(p, true);
        append(&end, parameter);
        if (!here(p, ")")) expect(p, ",");
    }
    node->list = parse_capture(p, "endmacro")->list;
}

/* {% generation %} marks what an assistant says; it changes no text. */
static void parse_generation(struct parser *p, struct node *node)
{
    node->kind = NODE_PRINT;
    node->a = parse_capture(p, "endgeneration");
}

static void parse_filter_block(struct parser *p, struct node *node)
{
    struct node *filter = parse_filter(p, NULL);
    node->kind = NODE_PRINT;
    for (node->a = filter; skip(p, "|");) node->a = parse_filter(p, node->a);
    filter->a = parse_capture(p, "endfilter");
}

static void parse_break(struct parser *p, struct node *node)
{
    node->kind = token_is(p->now - 1, "break") ? NODE_BREAK : NODE_CONTINUE;
    if (!p->loops) jinja_syntax(p->j, "outside of a loop:", p->now[-1].text);
}

static struct node *parse_statement(struct parser *p)
{
    static const struct {
        const char *tag;
        void (*parse)(struct parser *p, struct node *node);
    } statements[] = {
        {"if", parse_if},
        {"for", parse_for},
        {"set", parse_set},
        {"macro", parse_macro},
        {"break", parse_break},
        {"generation", parse_generation},
        {"filter", parse_filter_block},
        {"continue", parse_break},
    };
    struct node *node = node_new(p, NODE_BREAK, NULL, NULL);
    struct text tag = expect_name(p);
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (text_is(tag, statements[i].tag)) {
            statements[i].parse(p, node);
            return node;
        }
    JINJA_REFUSE(p->j, "the tag {%% %s %%} is not supported", SHOWN(tag));
}

/* Reads up to a tag that ends or divides a block, of which "{%" is passed, or up to the end of the template.
 */
static struct node *parse_body(struct parser *p)
{
    struct node *body = NULL, **end = &body;
    jinja_enter(p->j);
    while (p->now->kind != TOKEN_END) {
        if (p->now->kind == TOKEN_DATA) {
            struct node *data = node_new(p, NODE_DATA, NULL, NULL);
            data->value = p->now->value;
            append(&end, data);
            advance(p);
        } else if (skip(p, "{{")) {
            append(&end, node_new(p, NODE_PRINT, parse_tuple(p, true), NULL));
            expect(p, "}}");
        } else {
            expect(p, "{%");
            if (here(p, "elif") || here(p, "else")) break;
            if (p->now->text.n > 3 && memcmp(p->now->text.at, "end", 3) == 0) break;
            append(&end, parse_statement(p));
            expect(p, "%}");
        }
    }
    jinja_leave(p->j);
    return body;
}

struct node *jinja_parse(struct jinja *j, struct text source)
{
    struct parser p = {.j = j, .now = jinja_lex(j, source)};
    j->line = p.now->line;
    struct node *body = parse_body(&p);
    if (p.now->kind != TOKEN_END) jinja_syntax(j, "nothing to end here:", p.now->text);
    return body;
}
