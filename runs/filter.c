/* See filter.h. The text becomes a tree of at most NODES_MAX nodes by recursive descent; each regular
 * expression and word is compiled once. Nothing that a text holds can make it slow: depth, nodes, the size of
 * compiled patterns and the steps of a match are bounded. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "runs/filter.h"

#include <ctype.h>
#include <math.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/text.h"

enum { NODES_MAX = 128, DEPTH_MAX = 32, NONE = -1 /* passes every run */ };
enum { MATCH_STEPS = 20000, MATCH_DEPTH = 1000, MATCH_KIB = 1024 }; /* of one search in one value */

enum node_kind { AND, OR, NOT, WORD, TEST };

struct filter_node {
    enum node_kind kind;
    int left, right; /* of AND and OR; NOT: left */
    /* of TEST */
    int field;
    char op[3]; /* "=", "!", "<", "<=", ">", ">=", "~", "!~" */
    const char *value;
    double number; /* of the value; NaN: it is none */
    bool is_number;
    bool ago; /* the number is a duration, compared with a time */
    /* of WORD and of TEST with ~ */
    pcre2_code *pattern;
    size_t from, to; /* its place in the text */
    bool slow;       /* a match took too long */
};

struct parser {
    struct filter *filter;
    const char *text, *at;
    const char *const *names;
    size_t name_count;
    char *words; /* the rest of filter->words */
    int depth;
    bool full; /* too many nodes */
};

/* ---- problems ---- */

__attribute__((format(printf, 4, 5))) static void object(struct parser *p, const char *from, const char *to,
                                                         const char *format, ...)
{
    struct filter_problem *problem = &p->filter->problem;
    if (problem->why[0]) return;
    problem->from = (size_t)(from - p->text);
    problem->to = (size_t)((to > from ? to : from + (*from != '\0')) - p->text);
    TEXT_FORMAT(problem->why, format);
}

/* ---- words ---- */

static void skip_blanks(struct parser *p)
{
    while (isspace((unsigned char)*p->at)) p->at++;
}

/* Reads the text in quotes that begins at p->at. */
static const char *read_quoted(struct parser *p)
{
    const char *begin = p->at;
    char quote = *p->at++, *word = p->words;
    while (*p->at && *p->at != quote) *p->words++ = *p->at++;
    *p->words++ = '\0';
    if (*p->at)
        p->at++;
    else
        object(p, begin, p->at, "the quotation mark %c is not closed", quote);
    return word;
}

static bool is_quote(char c)
{
    return c == '"' || c == '\'';
}

/* Reads a word, up to a blank, a comma, a parenthesis or an operator. */
static const char *read_word(struct parser *p)
{
    char *word = p->words;
    if (is_quote(*p->at)) return read_quoted(p);
    size_t n = strcspn(p->at, " \t\n\r\v\f,()=!<>~\"'");
    memcpy(word, p->at, n);
    word[n] = '\0';
    p->at += n;
    p->words += n + 1;
    return word;
}

/* Reads a value, up to a blank, a comma or a closing parenthesis; these may occur in brackets, as regular
 * expressions have them, and after a backslash. */
static const char *read_value(struct parser *p)
{
    char *value = p->words;
    int open = 0;
    if (is_quote(*p->at)) return read_quoted(p);
    for (; *p->at && !isspace((unsigned char)*p->at); *p->words++ = *p->at++) {
        if (*p->at == '\\' && p->at[1] && !isspace((unsigned char)p->at[1]))
            *p->words++ = *p->at++;
        else if (strchr("([{", *p->at))
            open++;
        else if (open == 0 && strchr(",)", *p->at))
            break;
        else if (strchr(")]}", *p->at) && open > 0)
            open--;
    }
    *p->words++ = '\0';
    return value;
}

/* ---- nodes ---- */

static int new_node(struct parser *p, enum node_kind kind, int left, int right)
{
    if (p->filter->node_count == NODES_MAX) {
        p->full = true;
        return NONE;
    }
    p->filter->nodes[p->filter->node_count] =
        (struct filter_node){.kind = kind, .left = left, .right = right};
    return p->filter->node_count++;
}

static int new_and(struct parser *p, int left, int right)
{
    return left == NONE ? right : right == NONE ? left : new_node(p, AND, left, right);
}

/* False, and a problem, if `text` is no pattern. */
static bool compile(struct parser *p, struct filter_node *node, const char *text, uint32_t options)
{
    int code;
    PCRE2_SIZE offset;
    char why[160];
    node->pattern =
        pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED,
                      options | PCRE2_UTF | PCRE2_CASELESS | PCRE2_MATCH_INVALID_UTF, &code, &offset, NULL);
    if (node->pattern) return true;
    pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
    object(p, p->text + node->from, p->text + node->to, "\"%.40s\" is not a regular expression: %s", text,
           why);
    return false;
}

static int parse_bare(struct parser *p, const char *begin, const char *word)
{
    int at = new_node(p, WORD, NONE, NONE);
    if (at == NONE) return NONE;
    struct filter_node *node = &p->filter->nodes[at];
    node->from = (size_t)(begin - p->text);
    node->to = (size_t)(p->at - p->text);
    return *word && compile(p, node, word, PCRE2_LITERAL) ? at : NONE;
}

/* ---- comparisons ---- */

static bool read_operator(struct parser *p, char op[3])
{
    static const char *const operators[] = {"==", "!=", "!~", "<=", ">=", "=", "<", ">", "~"};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (strncmp(p->at, operators[i], strlen(operators[i])) == 0) {
            p->at += strlen(operators[i]);
            snprintf(op, 3, "%s", i == 0 ? "=" : i == 1 ? "!" : operators[i]);
            return true;
        }
    return false;
}

/* The number of the field among those of the filter, NONE if there are too many. */
static int use_field(struct filter *filter, const struct field *field)
{
    int i = 0;
    while (i < filter->field_count && strcmp(filter->fields[i].name, field->name) != 0) i++;
    if (i == FILTER_FIELDS_MAX) return NONE;
    if (i == filter->field_count) filter->fields[filter->field_count++] = *field;
    return i;
}

/* A status that no run can have is a slip of the keyboard. */
static bool check_status(struct parser *p, const char *begin, const struct field *field, const char *value)
{
    int status;
    if (field->column != COLUMN(RUNS, status) || word_parse(status_words, value, &status)) return true;
    object(p, begin, p->at, "no status is called \"%.40s\"%s", value,
           DID_YOU_MEAN(text_nearest(value, status_words, RUN_CRASHED + 1)));
    return false;
}

/* The value of a comparison, which begins at `begin`; false: a problem. */
static bool check_value(struct parser *p, const char *begin, const struct field *field,
                        struct filter_node *node)
{
    bool seconds = false, ordered = strchr("<>", *node->op) != NULL,
         equal = !strcmp(node->op, "=") || !strcmp(node->op, "!");
    bool numeric = field->unit != UNIT_TEXT && field->unit != UNIT_WORDS &&
                   (field->column || field->made || field->metric != METRIC_COUNT);
    node->from = (size_t)(begin - p->text);
    node->to = (size_t)(p->at - p->text);
    if (strchr(node->op, '~')) return compile(p, node, node->value, PCRE2_NEVER_BACKSLASH_C);
    node->is_number = field_parse_number(field, node->value, &node->number, &seconds);
    node->ago = seconds && field->unit == UNIT_TIME;
    if (node->is_number || !(ordered || numeric)) return !equal || check_status(p, begin, field, node->value);
    object(p, begin, p->at, "%s is compared with %s, not \"%.40s\"", field->name,
           field->unit == UNIT_BYTES     ? "a size, such as 1e6, 500MB or 1.5GiB"
           : field->unit == UNIT_TIME    ? "a date or a duration, such as 2026-09-01 or 2h"
           : field->unit == UNIT_SECONDS ? "a duration, such as 90s, 5m, 2h or 3d"
           : field->unit == UNIT_TEXT    ? "a number, such as 1e-3, 12k, 2h or 2026-09-01"
                                         : "a number, such as 1e-3, 12k or 50%",
           node->value);
    return false;
}

static int parse_test(struct parser *p, const char *begin, const char *name, const char *name_end,
                      const char *op)
{
    struct field field;
    struct err err = {0};
    int at = new_node(p, TEST, NONE, NONE);
    skip_blanks(p);
    const char *value_begin = p->at, *value = read_value(p);
    if (at == NONE) return NONE;
    struct filter_node *node = &p->filter->nodes[at];
    memcpy(node->op, op, sizeof node->op);
    node->value = value;
    if (!field_find(name, &field) || field_check(name, p->names, p->name_count, &err))
        object(p, begin, name_end, "%s", *err.text ? err.text : "the name of a field is missing");
    else if (p->at == value_begin)
        object(p, begin, p->at, "a value is missing after %s", field.name);
    else if ((node->field = use_field(p->filter, &field)) == NONE)
        object(p, begin, name_end, "the filter names more than %d fields", FILTER_FIELDS_MAX);
    else if (check_value(p, value_begin, &field, node))
        return at;
    return NONE;
}

/* ---- the grammar ---- */

/* Whether the keyword follows; it is passed over if `take`. */
static bool keyword(struct parser *p, const char *word, bool take)
{
    size_t n = strlen(word);
    skip_blanks(p);
    char after = p->at[0] && strncasecmp(p->at, word, n) == 0 ? p->at[n] : 'x';
    if (after && !isspace((unsigned char)after) && !strchr("()", after)) return false;
    if (take) p->at += n;
    return true;
}

static int parse_or(struct parser *p);

static int parse_term(struct parser *p)
{
    char op[3] = "";
    const char *begin = p->at; /* keyword() has passed over blanks */
    if (*begin == '(') {
        p->at++;
        int inside = parse_or(p);
        skip_blanks(p);
        if (*p->at == ')')
            p->at++;
        else
            object(p, begin, begin + 1, "the parenthesis is not closed");
        return inside;
    }
    bool quoted = is_quote(*begin);
    const char *word = read_word(p), *end = p->at;
    skip_blanks(p);
    if (!quoted && read_operator(p, op)) return parse_test(p, begin, word, end, op);
    if (p->at == begin) { /* nothing that a term begins with, such as a lone '!' */
        p->at++;
        object(p, begin, p->at, "a word or a comparison is expected here");
        return NONE;
    }
    p->at = end;
    return parse_bare(p, begin, word);
}

static int parse_not(struct parser *p)
{
    if (++p->depth > DEPTH_MAX) {
        object(p, p->at, p->at, "the filter is nested too deeply");
        p->at += strlen(p->at);
        p->depth--;
        return NONE;
    }
    const char *begin = p->at;
    int at;
    if (keyword(p, "not", true)) {
        skip_blanks(p);
        if (!*p->at || *p->at == ')')
            object(p, begin, p->at, "a word or a comparison is missing after \"not\"");
        int inside = *p->at && *p->at != ')' ? parse_not(p) : NONE;
        at = inside == NONE ? NONE : new_node(p, NOT, inside, NONE);
    } else {
        at = parse_term(p);
    }
    p->depth--;
    return at;
}

static bool at_end(struct parser *p)
{
    skip_blanks(p);
    return !*p->at || *p->at == ')';
}

static bool at_or(struct parser *p)
{
    return keyword(p, "or", false);
}

static int parse_and(struct parser *p)
{
    int at = at_end(p) || at_or(p) ? NONE : parse_not(p);
    while (!p->full && !at_end(p) && !at_or(p)) {
        const char *here = p->at;
        bool joined = *p->at == ',' || keyword(p, "and", true);
        if (*p->at == ',') p->at++;
        if (joined && (at_end(p) || at_or(p))) {
            object(p, here, p->at, "a word or a comparison is missing here");
            break;
        }
        int right = parse_not(p);
        at = new_and(p, at, right);
    }
    return at;
}

static int parse_or(struct parser *p)
{
    int at = parse_and(p);
    while (!p->full && at_or(p)) {
        const char *here = p->at;
        keyword(p, "or", true);
        if (at_end(p)) object(p, here, p->at, "a word or a comparison is missing after \"or\"");
        int right = parse_and(p);
        at = at == NONE || right == NONE ? NONE : new_node(p, OR, at, right);
    }
    return at;
}

enum status filter_parse(const char *text, const char *const *names, size_t count, struct filter *out,
                         struct err *err)
{
    struct parser p = {.filter = out, .text = text, .at = text, .names = names, .name_count = count};
    pcre2_match_context *limits = pcre2_match_context_create(NULL);
    *out = (struct filter){.root = NONE, .limits = limits};
    out->match = pcre2_match_data_create(1, NULL);
    out->nodes = calloc(NODES_MAX, sizeof *out->nodes);
    out->words = p.words = malloc(2 * strlen(text) + 2);
    if (!limits || !out->match || !out->nodes || !out->words) {
        filter_release(out);
        return err_no_memory(err, "the filter");
    }
    pcre2_set_match_limit(limits, MATCH_STEPS);
    pcre2_set_depth_limit(limits, MATCH_DEPTH);
    pcre2_set_heap_limit(limits, MATCH_KIB);
    out->root = parse_or(&p);
    while (*p.at == ')' && !p.full) { /* go on after it, so that the rest counts */
        object(&p, p.at, p.at + 1, "no parenthesis is open here");
        p.at++;
        int right = parse_or(&p);
        out->root = new_and(&p, out->root, right);
    }
    if (p.full) object(&p, text, text + strlen(text), "the filter has more than %d parts", NODES_MAX);
    return STATUS_OK;
}

void filter_release(struct filter *filter)
{
    for (int i = 0; filter->nodes && i < filter->node_count; i++) pcre2_code_free(filter->nodes[i].pattern);
    pcre2_match_data_free(filter->match);
    pcre2_match_context_free(filter->limits);
    free(filter->nodes);
    free(filter->words);
    *filter = (struct filter){0};
}

enum status filter_check(const struct filter *filter, const char *text, struct err *err)
{
    const struct filter_problem *problem = &filter->problem;
    char part[256];
    if (!problem->why[0]) return STATUS_OK;
    snprintf(part, sizeof part, "\"%.*s\"", (int)(problem->to - problem->from), text + problem->from);
    bool named = strstr(problem->why, part) != NULL;
    return err_set(err, STATUS_USAGE, "--filter: %s%s%s", problem->why, named ? "" : ": ", named ? "" : part);
}

/* ---- evaluating ---- */

static bool matches(struct filter *filter, struct filter_node *node, const char *text)
{
    if (node->slow) return false;
    int code =
        pcre2_match(node->pattern, (PCRE2_SPTR)text, strlen(text), 0, 0, filter->match, filter->limits);
    node->slow =
        code == PCRE2_ERROR_MATCHLIMIT || code == PCRE2_ERROR_DEPTHLIMIT || code == PCRE2_ERROR_HEAPLIMIT;
    if (node->slow && !filter->problem.why[0]) {
        filter->problem.from = node->from;
        filter->problem.to = node->to;
        snprintf(filter->problem.why, sizeof filter->problem.why,
                 "this regular expression takes too long (make it simpler, such as without a + inside a +)");
    }
    return code >= 0;
}

static bool has_word(struct filter *filter, struct filter_node *node, const struct run_info *run)
{
    const char *const texts[] = {run->name,   run->id,   status_words[run->status],
                                 run->device, run->tags, run->note};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (matches(filter, node, texts[i])) return true;
    return false;
}

static bool equals(const struct filter_node *node, const struct field *field, const struct field_value *value,
                   double bound)
{
    char buf[32];
    bool number = node->is_number && (!value->text || !isnan(value->number));
    if (field->unit == UNIT_WORDS) return text_word_index(value->text, node->value, strlen(node->value)) >= 0;
    if (number) return value->number == bound || (isnan(value->number) && isnan(bound));
    return strcmp(field_text(value, buf, sizeof buf), node->value) == 0;
}

static bool holds(struct filter *filter, struct filter_node *node, const struct field_value *value,
                  double now)
{
    char buf[32];
    double bound = node->ago ? now - node->number : node->number, x = value->number;
    bool negated = *node->op == '!';
    if (!value->known) return negated;
    if (strchr(node->op, '~')) return matches(filter, node, field_text(value, buf, sizeof buf)) != negated;
    if (negated || *node->op == '=')
        return equals(node, &filter->fields[node->field], value, bound) != negated;
    if (*node->op == '<') return node->op[1] ? x <= bound : x < bound;
    return node->op[1] ? x >= bound : x > bound;
}

struct row {
    const struct run_info *run;
    const struct field_value *const *values;
    size_t number;
    double now;
};

/* Recursion is bounded by the number of nodes. */
static bool passes(struct filter *filter, int at, const struct row *row)
{
    if (at == NONE) return true;
    struct filter_node *node = &filter->nodes[at];
    switch (node->kind) {
    case AND:
        return passes(filter, node->left, row) && passes(filter, node->right, row);
    case OR:
        return passes(filter, node->left, row) || passes(filter, node->right, row);
    case NOT:
        return !passes(filter, node->left, row);
    case WORD:
        return has_word(filter, node, row->run);
    default:
        return holds(filter, node, &row->values[node->field][row->number], row->now);
    }
}

size_t filter_run(struct filter *filter, const struct run_info *runs, size_t count,
                  const struct field_value *const *values, size_t *passed)
{
    size_t n = 0;
    struct row row = {.values = values, .now = clock_wall()};
    for (size_t i = 0; i < count; i++) {
        row.run = &runs[i];
        row.number = i;
        if (!filter->nodes || passes(filter, filter->root, &row)) passed[n++] = i;
    }
    return n;
}
