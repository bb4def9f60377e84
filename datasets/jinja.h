/* The parts of the chat template engine (chat_template.h has its face and says what it supports): the tree of
 * a parsed template, values, and the state that parsing and rendering share.
 *
 * Values are of an own type, not Jansson's: templates also have undefined values, tuples, namespaces, macros
 * and pieces of texts, and all of them come from `arena` and count against the limits below. Values never
 * change, but for namespaces.
 *
 * The first failure ends everything: jinja_fail jumps to where jinja_try was called, and whoever called that
 * releases the arena. So nothing here checks for errors or frees anything on the way. */
#ifndef ANNEAL_DATASETS_JINJA_H
#define ANNEAL_DATASETS_JINJA_H

#include <jansson.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"

enum {
    JINJA_DEPTH_MAX = 500,        /* of nested expressions, blocks, calls and values */
    JINJA_WORK_MAX = 16 << 20,    /* steps of one rendering: about a second */
    JINJA_MEMORY_MAX = 256 << 20, /* bytes that one rendering may take, all intermediate texts included */
    JINJA_TEMPLATE_MAX = 1 << 20, /* bytes of a template */
    JINJA_RANGE_MAX = 100000,     /* numbers of a range(), as in Jinja's sandbox */
    JINJA_ARGUMENTS_MAX = 16,     /* of one call */
    JINJA_PARAMETERS_MAX = 6,     /* of a filter, test, method or function */
};

struct text {
    const char *at; /* UTF-8, n bytes; may hold NULs */
    size_t n;
};
#define TEXT(literal) ((struct text){(literal), sizeof(literal) - 1})

enum value_kind {
    VALUE_ABSENT, /* an argument that was not given; nothing else */
    VALUE_UNDEFINED,
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_REAL,
    VALUE_STRING,
    VALUE_LIST,
    VALUE_TUPLE,
    VALUE_VIEW,      /* a range, or what keys(), values() and items() give: to be iterated, not indexed */
    VALUE_GENERATOR, /* the result of map, select and others: it can be iterated once, and counts as true */
    VALUE_DICT,
    VALUE_NAMESPACE,
    VALUE_LOOP,
    VALUE_MACRO,
    VALUE_FUNCTION, /* of the table in jinja_builtins.c; a method has its object with it */
};

struct value {
    enum value_kind kind;
    bool safe; /* a string after `|safe` */
    union {
        bool truth;
        int64_t whole;
        double real;
        struct text text;  /* STRING; of UNDEFINED: the name that is not defined */
        struct list *list; /* LIST, TUPLE, VIEW, GENERATOR */
        struct dict *dict; /* DICT, NAMESPACE */
        struct loop *loop;
        const struct macro *macro;
        const struct function *function;
    };
};

struct list {
    size_t count, capacity;
    bool used; /* a generator that was iterated */
    struct value *items;
};

/* Keys are strings and whole numbers, in the order in which they were first put in. */
struct dict {
    size_t count, capacity;
    struct dict_pair {
        struct value key, value;
    } * pairs;
};

struct scope {
    struct dict variables;
    const struct scope *parent; /* NULL: the outermost */
};

struct macro {
    const struct node *node;
    struct scope *scope; /* where it was defined */
};

struct function {
    const struct builtin *builtin;
    struct value self;
};

/* The arguments of one call. */
struct arguments {
    size_t count;
    struct value values[JINJA_ARGUMENTS_MAX]; /* positional ones */
    struct dict named;
};

struct buffer {
    char *at;
    size_t n, capacity;
};

struct jinja {
    const char *name; /* of the template, for messages */
    int line;         /* that is being read or rendered */
    struct arena arena;
    size_t bytes, work; /* used so far */
    int depth;
    struct err *err;
    enum status status;
    jmp_buf failed;
    /* while rendering: */
    const struct builtin *builtins; /* that can be called: jinja_builtins */
    struct scope *scope;            /* the innermost one */
    struct buffer *out;             /* where printed text goes */
};

/* ---- jinja_lexer.c ---- */

enum token_kind { TOKEN_DATA, TOKEN_CONST, TOKEN_NAME, TOKEN_SIGN, TOKEN_END };

struct token {
    enum token_kind kind;
    int line;
    struct text text;   /* of SIGN: also the ends of tags ("{%", "%}"), without their - and + */
    struct value value; /* of CONST, and of DATA: the text between tags */
};

/* The tokens of a template, the last one TOKEN_END, in j->arena. */
const struct token *jinja_lex(struct jinja *j, struct text source);
/* Fails because the template is malformed: "what 'near'". */
_Noreturn void jinja_syntax(struct jinja *j, const char *what, struct text near);

/* ---- the tree ---- */

enum node_kind {
    NODE_CONST,     /* value */
    NODE_NAME,      /* name; as a parameter of a macro: a = default */
    NODE_LIST,      /* list */
    NODE_TUPLE,     /* list */
    NODE_DICT,      /* list: key, value, key, value … */
    NODE_ATTRIBUTE, /* a.name; as a target: of a namespace */
    NODE_ITEM,      /* a[b] */
    NODE_SLICE,     /* a[b:c:d], each of which may be NULL */
    NODE_CALL,      /* a(list) */
    NODE_KEYWORD,   /* name=a, among arguments */
    NODE_FILTER,    /* a|name(list) */
    NODE_TEST,      /* a is name(list) */
    NODE_NOT,       /* a */
    NODE_NEGATIVE,  /* -a */
    NODE_BINARY,    /* a op b */
    NODE_CONDITION, /* b if a else c; c may be NULL */
    NODE_CAPTURE,   /* the text that the body in list prints */
    NODE_DATA,      /* value: text to print as it is */
    NODE_PRINT,     /* a */
    NODE_IF,        /* a, body in list; elif: another IF in c; else: orelse */
    NODE_FOR,       /* for a in b if c, body in list, orelse */
    NODE_SET,       /* a = b */
    NODE_MACRO,     /* name, parameters in a, body in list */
    NODE_BREAK,
    NODE_CONTINUE,
};

enum operation {
    OP_OR,
    OP_AND,
    OP_ADD,
    OP_SUBTRACT,
    OP_CONCAT,
    OP_MULTIPLY,
    OP_MODULO,
    OP_EQUAL,
    OP_UNEQUAL,
    OP_LESS,
    OP_LESS_EQUAL,
    OP_GREATER,
    OP_GREATER_EQUAL,
    OP_IN,
    OP_NOT_IN,
    OP_REFUSED, /* a sign of Jinja that is not supported */
};

struct node {
    enum node_kind kind;
    enum operation op;
    int line;
    struct text name;
    struct value value;
    struct node *a, *b, *c, *d;
    struct node *list, *orelse;
    struct node *next; /* in the list that this node is in */
};

/* ---- jinja_parser.c ---- */

/* Parses a template; the nodes live in j->arena and point into it. NULL: an empty template. */
struct node *jinja_parse(struct jinja *j, struct text source);

/* ---- jinja_value.c ---- */

/* Runs step(j, context) with a fresh arena. After a failure, whose status it returns, the arena is empty. */
enum status jinja_try(struct jinja *j, void (*step)(struct jinja *j, void *context), void *context);
/* "NAME: line N: …" */
_Noreturn void jinja_fail(struct jinja *j, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a correct template that needs more than this engine has. */
#define JINJA_REFUSE(j, ...) jinja_fail(j, STATUS_FAILED, __VA_ARGS__)
/* A text for messages: one line, cut after 100 bytes. */
#define SHOWN(text) jinja_shown((text), (char[128]){0}, 128)
const char *jinja_shown(struct text text, char *buf, size_t size);

void *jinja_alloc(struct jinja *j, size_t count, size_t size); /* zeroed */
/* An array with room for `more` elements behind its first `count`: the same, or a larger copy. */
void *jinja_room(struct jinja *j, void *array, size_t count, size_t more, size_t *capacity, size_t size);
void jinja_work(struct jinja *j, size_t steps); /* counts them */
void jinja_enter(struct jinja *j);              /* one level deeper */
void jinja_leave(struct jinja *j);

bool text_is(struct text text, const char *word);
/* The first place of `needle` in `text`; -1: none. */
ptrdiff_t text_find(struct text text, struct text needle);
size_t text_character(struct text text, size_t at, uint32_t *point); /* its length; the text is valid UTF-8 */
/* Without white space, or the characters of `chars` if it is not NULL, at the chosen ends. */
struct text text_strip(struct text text, const struct text *chars, bool left, bool right);

void buffer_put(struct jinja *j, struct buffer *buffer, struct text text);
struct value buffer_value(const struct buffer *buffer);

extern const struct value value_none;
struct value value_undefined(struct text name);
struct value value_bool(bool truth);
struct value value_int(int64_t whole);
struct value value_string(struct text text);
struct value value_list(struct jinja *j, enum value_kind kind); /* empty */
struct value value_dict(struct jinja *j, enum value_kind kind); /* empty */
void list_append(struct jinja *j, struct value list, struct value item);
struct value value_from_json(struct jinja *j, const json_t *json); /* borrows its strings */

const struct value *dict_find(struct jinja *j, const struct dict *dict, struct value key); /* NULL: none */
void dict_put(struct jinja *j, struct dict *dict, struct value key, struct value value);

const char *value_type(struct value value); /* "a string", for messages */
bool value_is_given(struct value value);    /* not absent, and not none */
bool value_truth(struct value value);
/* a op b, where op is one of the comparisons; fails as Python does. */
bool value_compare(struct jinja *j, enum operation op, struct value a, struct value b);
int64_t value_length(struct jinja *j, struct value value);
/* The items of what can be iterated: characters, keys. */
struct list *value_items(struct jinja *j, struct value value);

/* Arguments as they are needed most; the default when absent. */
struct text value_text_or(struct jinja *j, struct value value, struct text otherwise);
int64_t value_int_or(struct jinja *j, struct value value, int64_t otherwise);
struct value value_or(struct value value, struct value otherwise);

/* ---- jinja_print.c ---- */

struct text value_text(struct jinja *j, struct value value); /* as Python's str(), undefined: "" */

/* How values are written. */
struct value_style {
    bool json; /* as json.dumps, else as Python's repr() */
    bool ascii;
    const struct text *indent; /* NULL: on one line */
    struct text item, key;     /* separators */
};
struct text value_written(struct jinja *j, struct value value, const struct value_style *style);

/* ---- jinja_builtins.c: filters, tests, methods, functions ---- */

enum { FILTER = 1, TEST = 2, TEXT_METHOD = 4, DICT_METHOD = 8, FUNCTION = 16 };

struct builtin {
    int where; /* it can be called as */
    const char *name;
    const char *parameters; /* separated by blanks; "**": any keywords, which become one dictionary */
    int least;              /* that must be given */
    struct value (*run)(struct jinja *j, struct value self, const struct value *a, int how);
    int how;
};
extern const struct builtin jinja_builtins[]; /* ends with a name of NULL */

/* ---- jinja_call.c ---- */

struct value jinja_call(struct jinja *j, const struct builtin *builtin, struct value self,
                        const struct arguments *given);
/* The same of a FILTER or TEST by its name. */
struct value jinja_call_named(struct jinja *j, int where, struct text name, struct value self,
                              const struct arguments *given);
/* A global function; undefined: there is none of this name. */
struct value jinja_global(struct jinja *j, struct text name);
/* value.name; an item of a dictionary may have the name of a method. */
struct value jinja_attribute(struct jinja *j, struct value value, struct text name, bool method_first);
/* value[key], where items come before methods. */
struct value jinja_item(struct jinja *j, struct value value, struct value key);

/* ---- jinja_render.c ---- */

void jinja_render(struct jinja *j, const struct node *body); /* into j->out, with the variables of j->scope */

#endif
