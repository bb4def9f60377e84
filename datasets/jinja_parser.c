/* Makes the tree of a Jinja template from its tokens, with the grammar of jinja2's parser: see jinja.h. */
#include <stdio.h>
#include <string.h>

#include "datasets/jinja.h"

struct parser {
    struct jinja *j;
    const struct token *tokens;
    size_t next;        /* the token to parse */
    int loops;          /* that are open */
    struct node *spare; /* for when memory has run out */
};

static const struct token *now(const struct parser *p)
{
    return &p->tokens[p->next];
}

static bool token_is(const struct token *token, const char *word)
{
    return (token->kind == TOKEN_NAME || token->kind == TOKEN_SIGN) && text_is(token->text, word);
}

static bool here(const struct parser *p, const char *word)
{
    return token_is(now(p), word);
}

static void advance(struct parser *p)
{
    if (now(p)->kind != TOKEN_END) p->next++;
    p->j->line = now(p)->line;
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
    if (!skip(p, word)) jinja_syntax(p->j, what, now(p)->text);
}

static struct text expect_name(struct parser *p)
{
    struct text name = now(p)->text;
    if (now(p)->kind != TOKEN_NAME) jinja_syntax(p->j, "expected a name, found", name);
    advance(p);
    return name;
}

/* Never NULL: after an error it is a node that nothing uses. */
static struct node *node_new(struct parser *p, enum node_kind kind, struct node *a, struct node *b)
{
    struct node *node = jinja_alloc(p->j, 1, sizeof *node);
    if (!node) node = p->spare;
    *node = (struct node){.kind = kind, .line = p->j->line, .a = a, .b = b};
    return node;
}

static void append(struct node ***end, struct node *node)
{
    **end = node;
    *end = &node->next;
}

/* ---- expressions ---- */

static struct node *parse_expression(struct parser *p, bool conditional);
static struct node *parse_tuple(struct parser *p, bool conditional, bool parenthesized);
static struct node *parse_unary(struct parser *p, bool filters);

static void parse_arguments(struct parser *p, struct node *call)
{
    struct node **end = &call->list;
    expect(p, "(");
    while (!p->j->status && !here(p, ")")) {
        if (here(p, "*") || here(p, "**")) JINJA_REFUSE(p->j, "* and ** among arguments are not supported");
        bool keyword = now(p)->kind == TOKEN_NAME && token_is(now(p) + 1, "=");
        if (keyword) {
            struct node *node = node_new(p, NODE_KEYWORD, NULL, NULL);
            node->name = expect_name(p);
            advance(p);
            node->a = parse_expression(p, true);
            append(&end, node);
        } else {
            append(&end, parse_expression(p, true));
        }
        if (!here(p, ")")) expect(p, ",");
    }
    expect(p, ")");
}

static struct node *parse_display(struct parser *p, enum node_kind kind, const char *close)
{
    struct node *node = node_new(p, kind, NULL, NULL), **end = &node->list;
    advance(p);
    while (!p->j->status && !here(p, close)) {
        append(&end, parse_expression(p, true));
        if (kind == NODE_DICT) {
            expect(p, ":");
            append(&end, parse_expression(p, true));
        }
        if (!here(p, close)) expect(p, ",");
    }
    expect(p, close);
    return node;
}

static struct node *parse_primary(struct parser *p)
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
    const struct token *token = now(p);
    struct node *node = node_new(p, NODE_CONST, NULL, NULL);
    if (token->kind == TOKEN_NAME) {
        *node = (struct node){.kind = NODE_NAME, .line = token->line, .name = token->text};
        for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
            if (text_is(token->text, constants[i].word))
                node->kind = NODE_CONST, node->value = constants[i].value;
        advance(p);
    } else if (token->kind == TOKEN_CONST && token->value.kind == VALUE_STRING) {
        struct buffer joined = {0};
        for (; now(p)->kind == TOKEN_CONST && now(p)->value.kind == VALUE_STRING; advance(p))
            buffer_put(p->j, &joined, now(p)->value.text);
        node->value = buffer_value(&joined);
    } else if (token->kind == TOKEN_CONST) {
        node->value = token->value;
        advance(p);
    } else if (skip(p, "(")) {
        node = parse_tuple(p, true, true);
        expect(p, ")");
    } else if (here(p, "[")) {
        node = parse_display(p, NODE_LIST, "]");
    } else if (here(p, "{")) {
        node = parse_display(p, NODE_DICT, "}");
    } else {
        jinja_syntax(p->j, "unexpected", token->text);
    }
    return node;
}

static struct node *parse_subscript(struct parser *p, struct node *base)
{
    struct node *node = node_new(p, NODE_ITEM, base, NULL), **part[] = {&node->b, &node->c, &node->d};
    advance(p);
    for (int i = 0; i < 3; i++) {
        if (!here(p, ":") && !here(p, "]")) *part[i] = parse_expression(p, true);
        if (i == 2 || !skip(p, ":")) break;
        node->kind = NODE_SLICE;
    }
    if (here(p, ",")) JINJA_REFUSE(p->j, "several indices in [ ] are not supported");
    if (node->kind == NODE_ITEM && !node->b) jinja_syntax(p->j, "expected an index, found", now(p)->text);
    expect(p, "]");
    return node;
}

static struct node *parse_postfix(struct parser *p, struct node *node)
{
    while (!p->j->status) {
        if (here(p, "(")) {
            node = node_new(p, NODE_CALL, node, NULL);
            parse_arguments(p, node);
        } else if (here(p, "[")) {
            node = parse_subscript(p, node);
        } else if (skip(p, ".")) {
            bool number = now(p)->kind == TOKEN_CONST && now(p)->value.kind == VALUE_INT;
            node = node_new(p, number ? NODE_ITEM : NODE_ATTRIBUTE, node, NULL);
            if (number)
                node->b = parse_primary(p);
            else
                node->name = expect_name(p);
        } else {
            break;
        }
    }
    return node;
}

static struct node *parse_filter(struct parser *p, struct node *base)
{
    struct node *node = node_new(p, NODE_FILTER, base, NULL);
    node->name = expect_name(p);
    if (here(p, "(")) parse_arguments(p, node);
    return node;
}

static struct node *parse_test(struct parser *p, struct node *base)
{
    struct node *node = node_new(p, NODE_TEST, base, NULL);
    bool negated = skip(p, "not");
    node->name = expect_name(p);
    const struct token *token = now(p);
    bool operand = token->kind == TOKEN_CONST || here(p, "[") || here(p, "{") ||
                   (token->kind == TOKEN_NAME && !here(p, "else") && !here(p, "or") && !here(p, "and"));
    if (here(p, "is")) jinja_syntax(p->j, "tests cannot follow each other:", token->text);
    if (here(p, "("))
        parse_arguments(p, node);
    else if (operand && !here(p, "if"))
        node->list = parse_postfix(p, parse_primary(p));
    return negated ? node_new(p, NODE_NOT, node, NULL) : node;
}

static struct node *parse_unary(struct parser *p, bool filters)
{
    struct node *node = node_new(p, here(p, "-") ? NODE_NEGATIVE : NODE_POSITIVE, NULL, NULL);
    if (!jinja_enter(p->j)) return node;
    if (skip(p, "-") || skip(p, "+"))
        node->a = parse_unary(p, false);
    else
        node = parse_primary(p);
    node = parse_postfix(p, node);
    while (filters && !p->j->status) {
        if (skip(p, "|"))
            node = parse_filter(p, node);
        else if (skip(p, "is"))
            node = parse_test(p, node);
        else if (here(p, "("))
            node = parse_postfix(p, node);
        else
            break;
    }
    jinja_leave(p->j);
    return node;
}

/* Binary operators by precedence, the weakest first; between `and` and `+` come `not` and comparisons. */
enum { LEVEL_NOT = 2, LEVEL_UNARY = 7, LEVEL_COMPARE = 8 };
static const struct {
    int level;
    const char *word;
    enum operation op;
} operators[] = {
    {0, "or", OP_OR},
    {1, "and", OP_AND},
    {3, "+", OP_ADD},
    {3, "-", OP_SUBTRACT},
    {4, "~", OP_CONCAT},
    {5, "*", OP_MULTIPLY},
    {5, "/", OP_DIVIDE},
    {5, "//", OP_FLOOR},
    {5, "%", OP_MODULO},
    {6, "**", OP_POWER},
    {LEVEL_COMPARE, "==", OP_EQUAL},
    {LEVEL_COMPARE, "!=", OP_UNEQUAL},
    {LEVEL_COMPARE, "<", OP_LESS},
    {LEVEL_COMPARE, "<=", OP_LESS_EQUAL},
    {LEVEL_COMPARE, ">", OP_GREATER},
    {LEVEL_COMPARE, ">=", OP_GREATER_EQUAL},
    {LEVEL_COMPARE, "in", OP_IN},
};

static bool skip_operator(struct parser *p, int level, enum operation *op)
{
    if (level == LEVEL_COMPARE && here(p, "not") && token_is(now(p) + 1, "in")) {
        *op = OP_NOT_IN;
        advance(p), advance(p);
        return true;
    }
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (operators[i].level == level && skip(p, operators[i].word)) {
            *op = operators[i].op;
            return true;
        }
    return false;
}

static struct node *parse_binary(struct parser *p, int level);

static struct node *parse_not(struct parser *p)
{
    enum operation op;
    if (here(p, "not")) {
        struct node *node = node_new(p, NODE_NOT, NULL, NULL);
        if (!jinja_enter(p->j)) return node;
        advance(p);
        node->a = parse_not(p);
        jinja_leave(p->j);
        return node;
    }
    struct node *node = parse_binary(p, LEVEL_NOT + 1);
    if (p->j->status || !skip_operator(p, LEVEL_COMPARE, &op)) return node;
    node = node_new(p, NODE_COMPARE, node, NULL);
    struct node **end = &node->list;
    do {
        struct node *operand = node_new(p, NODE_OPERAND, parse_binary(p, LEVEL_NOT + 1), NULL);
        operand->op = op;
        append(&end, operand);
    } while (!p->j->status && skip_operator(p, LEVEL_COMPARE, &op));
    return node;
}

static struct node *parse_binary(struct parser *p, int level)
{
    enum operation op;
    if (level == LEVEL_NOT) return parse_not(p);
    if (level == LEVEL_UNARY) return parse_unary(p, true);
    struct node *node = parse_binary(p, level + 1);
    while (!p->j->status && skip_operator(p, level, &op)) {
        node = node_new(p, NODE_BINARY, node, NULL);
        node->op = op;
        node->b = parse_binary(p, level + 1);
    }
    return node;
}

static struct node *parse_expression(struct parser *p, bool conditional)
{
    struct node *node = parse_binary(p, 0);
    while (conditional && !p->j->status && skip(p, "if")) {
        struct node *condition = node_new(p, NODE_CONDITION, parse_binary(p, 0), node);
        if (skip(p, "else") && jinja_enter(p->j)) {
            condition->c = parse_expression(p, true);
            jinja_leave(p->j);
        }
        node = condition;
    }
    return node;
}

/* One expression, or several with commas: a tuple. */
static struct node *parse_tuple(struct parser *p, bool conditional, bool parenthesized)
{
    struct node *tuple = node_new(p, NODE_TUPLE, NULL, NULL), **end = &tuple->list;
    if (parenthesized && here(p, ")")) return tuple;
    bool comma = false;
    do {
        append(&end, parse_expression(p, conditional));
        comma = skip(p, ",") || comma;
    } while (!p->j->status && !here(p, ")") && !here(p, "}}") && !here(p, "%}") && token_is(now(p) - 1, ","));
    return comma ? tuple : tuple->list;
}

/* ---- statements ---- */

static struct node *parse_body(struct parser *p, const char *const *ends);

/* A name, an attribute of a namespace, or a tuple of them. */
static struct node *parse_target(struct parser *p)
{
    struct node *tuple = node_new(p, NODE_TUPLE, NULL, NULL), **end = &tuple->list;
    bool comma = false;
    do {
        struct node *node;
        if (skip(p, "(")) {
            if (!jinja_enter(p->j)) break;
            node = parse_target(p);
            jinja_leave(p->j);
            expect(p, ")");
        } else {
            node = node_new(p, NODE_NAME, NULL, NULL);
            node->name = expect_name(p);
            if (skip(p, ".")) {
                node = node_new(p, NODE_ATTRIBUTE, node, NULL);
                node->name = expect_name(p);
            }
        }
        append(&end, node);
        comma = skip(p, ",") || comma;
    } while (!p->j->status && token_is(now(p) - 1, ",") && !here(p, "in") && !here(p, "="));
    return comma ? tuple : tuple->list;
}

static void parse_if(struct parser *p, struct node *node)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL}, *const last[] = {"endif", NULL};
    for (;;) {
        node->kind = NODE_IF;
        node->a = parse_tuple(p, false, false);
        node->list = parse_body(p, ends);
        if (p->j->status || !skip(p, "elif")) break;
        node = node->c = node_new(p, NODE_IF, NULL, NULL);
    }
    if (skip(p, "else")) node->orelse = parse_body(p, last);
    expect(p, "endif");
}

static void parse_for(struct parser *p, struct node *node)
{
    static const char *const ends[] = {"else", "endfor", NULL}, *const last[] = {"endfor", NULL};
    node->kind = NODE_FOR;
    node->a = parse_target(p);
    expect(p, "in");
    node->b = parse_tuple(p, false, false);
    if (skip(p, "if")) node->c = parse_expression(p, true);
    if (here(p, "recursive")) JINJA_REFUSE(p->j, "a recursive loop is not supported");
    p->loops++;
    node->list = parse_body(p, ends);
    p->loops--;
    if (skip(p, "else")) node->orelse = parse_body(p, last);
    expect(p, "endfor");
}

static void parse_filters(struct parser *p, struct node *node)
{
    while (!p->j->status && skip(p, "|")) node->c = parse_filter(p, node->c);
}

/* A body whose text is collected: a loop around it cannot be left from inside. */
static struct node *parse_closed_body(struct parser *p, const char *const *ends)
{
    int loops = p->loops;
    p->loops = 0;
    struct node *body = parse_body(p, ends);
    p->loops = loops;
    return body;
}

static void parse_set(struct parser *p, struct node *node)
{
    static const char *const ends[] = {"endset", NULL};
    node->kind = NODE_SET;
    node->a = parse_target(p);
    if (skip(p, "=")) {
        node->b = parse_tuple(p, true, false);
        return;
    }
    parse_filters(p, node);
    node->list = parse_closed_body(p, ends);
    expect(p, "endset");
}

static void parse_macro(struct parser *p, struct node *node)
{
    static const char *const ends[] = {"endmacro", NULL};
    struct node **end = &node->a;
    node->kind = NODE_MACRO;
    node->name = expect_name(p);
    expect(p, "(");
    while (!p->j->status && !here(p, ")")) {
        struct node *parameter = node_new(p, NODE_NAME, NULL, NULL);
        parameter->name = expect_name(p);
        if (skip(p, "=")) parameter->a = parse_expression(p, true);
        append(&end, parameter);
        if (!here(p, ")")) expect(p, ",");
    }
    expect(p, ")");
    node->list = parse_closed_body(p, ends);
    expect(p, "endmacro");
}

/* {% generation %} marks what an assistant says; it changes no text. */
static void parse_generation(struct parser *p, struct node *node)
{
    static const char *const ends[] = {"endgeneration", NULL};
    node->kind = NODE_SCOPE;
    node->list = parse_closed_body(p, ends);
    expect(p, "endgeneration");
}

static void parse_filter_block(struct parser *p, struct node *node)
{
    static const char *const ends[] = {"endfilter", NULL};
    node->kind = NODE_SCOPE;
    node->c = parse_filter(p, NULL);
    parse_filters(p, node);
    node->list = parse_closed_body(p, ends);
    expect(p, "endfilter");
}

static void parse_break(struct parser *p, struct node *node)
{
    node->kind = text_is(now(p)[-1].text, "break") ? NODE_BREAK : NODE_CONTINUE;
    if (!p->loops) jinja_syntax(p->j, "outside of a loop:", now(p)[-1].text);
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
    size_t i = 0, count = sizeof statements / sizeof *statements;
    while (i < count && !text_is(tag, statements[i].tag)) i++;
    if (p->j->status) return node;
    if (i < count)
        statements[i].parse(p, node);
    else if (tag.n > 3 && memcmp(tag.at, "end", 3) == 0)
        jinja_syntax(p->j, "nothing to end here:", tag);
    else
        JINJA_REFUSE(p->j, "the tag {%% %s %%} is not supported", SHOWN(tag));
    return node;
}

/* Reads up to one of the tags `ends`, at which it stands then, or with NULL up to the end of the template.
 * The tag before the body is still open. */
static struct node *parse_body(struct parser *p, const char *const *ends)
{
    struct node *body = NULL, **end = &body;
    if (!jinja_enter(p->j)) return NULL;
    if (ends) skip(p, ":"), expect(p, "%}");
    while (!p->j->status && now(p)->kind != TOKEN_END) {
        if (now(p)->kind == TOKEN_DATA) {
            struct node *data = node_new(p, NODE_DATA, NULL, NULL);
            data->value = now(p)->value;
            append(&end, data);
            advance(p);
        } else if (skip(p, "{{")) {
            append(&end, node_new(p, NODE_PRINT, parse_tuple(p, true, false), NULL));
            expect(p, "}}");
        } else {
            expect(p, "{%");
            for (const char *const *word = ends; word && *word; word++)
                if (here(p, *word)) goto out;
            append(&end, parse_statement(p));
            expect(p, "%}");
        }
    }
    while (ends && ends[1]) ends++; /* the tag that ends it in any case */
    if (ends)
        jinja_syntax(p->j, "the template ends inside of a block; expected",
                     (struct text){*ends, strlen(*ends)});
out:
    jinja_leave(p->j);
    return body;
}

struct node *jinja_parse(struct jinja *j, struct text source)
{
    struct parser p = {.j = j, .tokens = jinja_lex(j, source)};
    p.spare = jinja_alloc(j, 1, sizeof *p.spare);
    if (!p.spare) return NULL;
    j->line = now(&p)->line;
    struct node *body = parse_body(&p, NULL);
    if (!body) {
        body = node_new(&p, NODE_DATA, NULL, NULL);
        body->value = value_string(TEXT(""));
    }
    return j->status ? NULL : body;
}
