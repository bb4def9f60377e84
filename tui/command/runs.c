/* `anneal runs`: the list of runs, filtered, sorted, as a table or as JSON. Filters and sorting use each
 * value's CSV text, but compare two numbers as numbers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/model/config.h"
#include "runs/run.h"
#include "tui/command/command.h"
#include "tui/command/output.h"

/* ---- the request ---- */

/* COLUMN OP VALUE; a run without a value satisfies only !=. */
struct condition {
    char name[64], op[3], value[CONFIG_TEXT_MAX];
};

/* The order of the list; without a name, unchanged. */
struct sorting {
    const char *name;
    bool falling;
};

/* A run of the list and its sorting value; NULL: absent. */
struct listed {
    struct run_info *run;
    const char *key;
};

/* The column of this name (`run` is an alias of `id`); NULL: none. */
static const struct column_info *find_column(const char *name)
{
    const struct column_info *column = table_column(TABLE_RUNS, strcmp(name, "run") == 0 ? "id" : name);
    return column && column->field != FIELD_NONE ? column : NULL;
}

/* Checks the name of a column or, with a dot, a key; `option` is for messages. */
static enum status check_name(const char *option, const char *name, struct err *err)
{
    const char *names[COLUMNS_MAX], *nearest;
    char word[CONFIG_TEXT_MAX];
    struct config config;
    size_t count = 0;
    config_init(&config);
    snprintf(word, sizeof word, "%s=0", name);
    if (find_column(name)) return STATUS_OK;
    if (strchr(name, '.'))
        return config_get(&config, name, word, sizeof word) ? STATUS_OK
                                                            : config_read_word(&config, word, err);
    for (int i = store_tables[TABLE_RUNS].first; i < store_tables[TABLE_RUNS].end; i++)
        if (store_columns[i].field != FIELD_NONE) names[count++] = store_columns[i].name;
    nearest = text_nearest(name, names, count);
    return err_set(err, STATUS_USAGE, "%s: no column \"%.40s\"%s%s%s (%s runs --help lists them)", option,
                   name, nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "",
                   TEXT_PROGRAM);
}

/* A status that no run can have is a slip of the keyboard. */
static enum status check_status(const struct condition *condition, struct err *err)
{
    int status, count = 0;
    if (strcmp(condition->name, "status") != 0 || !strchr("=!", *condition->op)) return STATUS_OK;
    if (word_parse(status_words, condition->value, &status)) return STATUS_OK;
    while (status_words[count]) count++;
    const char *nearest = text_nearest(condition->value, status_words, (size_t)count);
    return err_set(err, STATUS_USAGE, "--filter: no status \"%.40s\"%s%s%s (%s runs --help lists them)",
                   condition->value, nearest ? "; did you mean \"" : "", nearest ? nearest : "",
                   nearest ? "\"?" : "", TEXT_PROGRAM);
}

static enum status parse_condition(const char *text, struct condition *out, struct err *err)
{
    static const char operators[] = " = == != < <= > >= ~ ";
    char op[sizeof out->op + 2];
    double number;
    *out = (struct condition){0};
    sscanf(text, " %63[^=!<>~ \t] %2[=!<>~] %1023[^\n]", out->name, out->op, out->value);
    for (size_t n = strlen(out->value); n && out->value[n - 1] == ' ';) out->value[--n] = '\0';
    snprintf(op, sizeof op, " %s ", out->op);
    if (!*out->op || !strstr(operators, op))
        return err_set(err, STATUS_USAGE,
                       "--filter: \"%.80s\" is not COLUMN OP VALUE, such as status=running or "
                       "best_val_loss<3.2 (OP is one of = != < <= > >= ~; a comma means and)",
                       text);
    enum status status = check_name("--filter", out->name, err);
    const struct column_info *column = find_column(out->name);
    bool numbers = strpbrk(out->op, "<>") || (column && !column_is_text(column));
    if (!status && numbers && !text_parse_double(out->value, &number))
        return err_set(err, STATUS_USAGE, "--filter: %s is compared with a number, not \"%.80s\"", out->name,
                       text);
    return status ? status : check_status(out, err);
}

/* Parses EXPR as *count conditions. */
static enum status parse_filter(const char *expr, struct arena *arena, struct condition **out, size_t *count,
                                struct err *err)
{
    size_t most = 1;
    enum status status = STATUS_OK;
    for (const char *c = expr; *c; c++) most += *c == ',';
    char *rest = arena_strdup(arena, expr);
    *out = arena_alloc_array(arena, most, sizeof **out);
    if (!rest || !*out) return err_set(err, STATUS_NO_MEMORY, "--filter: not enough memory");
    for (char *part; !status && (part = strsep(&rest, ","));)
        status = parse_condition(part, &(*out)[(*count)++], err);
    return status;
}

/* ---- the answer ---- */

/* A column's or a key's value in `arena`; NULL: absent. */
static const char *value_of(const struct run_info *run, const struct run_param *params, size_t count,
                            const char *name, struct arena *arena)
{
    char spelled[32];
    const struct column_info *column = find_column(name);
    const char *text = column ? column_text(column, run) : run_params_get(params, count, name);
    double number = column ? column_number(column, run) : NAN;
    if (!text && !isnan(number)) text = text_format_double(number, spelled, sizeof spelled);
    return text ? arena_strdup(arena, text) : NULL;
}

static int compare_values(const char *a, const char *b)
{
    double x, y;
    if (text_parse_double(a, &x) && text_parse_double(b, &y)) return (x > y) - (x < y);
    return strcmp(a, b);
}

/* A text is neither less nor more than a number. */
static bool holds(const struct condition *condition, const char *value)
{
    double number;
    const char *op = condition->op;
    if (!value) return *op == '!';
    if (*op == '~') return strstr(value, condition->value) != NULL;
    int order = compare_values(value, condition->value);
    if (*op == '=' || *op == '!') return (order == 0) == (*op == '=');
    if (!text_parse_double(value, &number)) return false;
    return (op[1] && order == 0) || (*op == '<' ? order < 0 : order > 0);
}

/* Keeps the runs for which all conditions hold, with their sorting values. */
static enum status filter_runs(struct store *store, const struct condition *conditions,
                               size_t condition_count, const struct sorting *order, struct arena *arena,
                               struct listed *runs, size_t *count, struct err *err)
{
    struct arena scratch = {0};
    struct run_param *params = NULL;
    size_t kept = 0, n = 0;
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < *count; i++) {
        struct listed listed = runs[i];
        bool all = true;
        arena_release(&scratch);
        status = run_params_list(store, listed.run->id, &scratch, &params, &n, err);
        for (size_t c = 0; !status && all && c < condition_count; c++)
            all = holds(&conditions[c], value_of(listed.run, params, n, conditions[c].name, &scratch));
        if (status || !all) continue;
        if (order->name) listed.key = value_of(listed.run, params, n, order->name, arena);
        runs[kept++] = listed;
    }
    arena_release(&scratch);
    *count = kept;
    return status;
}

/* Runs without a value come last; equal ones keep their order. */
static int compare_runs(const void *a, const void *b, void *context)
{
    const struct listed *left = a, *right = b;
    const struct sorting *order = context;
    int by_key = !left->key - !right->key;
    if (left->key && right->key) by_key = compare_values(left->key, right->key) * (order->falling ? -1 : 1);
    return by_key ? by_key : (left->run > right->run) - (left->run < right->run);
}

static void print_table(const struct listed *runs, size_t count)
{
    struct table table = {0};
    for (size_t i = 0; i < count; i++) {
        const struct run_info *run = runs[i].run;
        long long steps = run->steps > 0 ? run->steps : 0;
        table_row(&table);
        table_cell(&table, "RUN", "%s", run->id);
        table_cell(&table, "STATUS", "%s", status_words[run->status]);
        if (run->total_steps > 0)
            table_cell(&table, ">STEP", "%lld/%lld", steps, (long long)run->total_steps);
        else
            table_cell(&table, ">STEP", "%lld", steps);
        table_cell(&table, ">LOSS", "%s", run->loss_recorded ? TEXT_LOSS(run->final_loss) : "-");
        table_cell(&table, ">BEST VAL", "%s", run->best_step >= 0 ? TEXT_LOSS(run->best_val_loss) : "-");
        table_cell(&table, ">TOKENS/S", "%s",
                   isnan(run->tokens_per_sec) ? "-" : TEXT_COUNT(run->tokens_per_sec));
        table_cell(&table, "DEVICE", "%s", *run->device ? run->device : "-");
        table_cell(&table, "STARTED", "%.16s", OUTPUT_TIME(run->created_at));
    }
    int width = output_columns(stdout);
    table_print(&table, 0, isatty(STDOUT_FILENO) ? (width ? width : 80) : 0, TABLE_CUT);
}

static enum status print_json(const struct listed *runs, size_t count, struct err *err)
{
    struct output o = {.json = true};
    json_out_begin(&o.out, stdout);
    json_out_open(&o.out, NULL, '[', JSON_OUT_LINES);
    for (size_t i = 0; i < count; i++) {
        output_item(&o);
        output_run(&o.out, runs[i].run);
    }
    if (count) json_out_close(&o.out);
    return output_end(&o, err);
}

struct options {
    const char *filter, *sort;
    bool json;
};

static enum status run(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct arena arena = {0};
    struct store *store = NULL;
    struct run_info *all = NULL;
    struct condition *conditions = NULL;
    char home[PATH_MAX], database[PATH_MAX];
    size_t any = 0, condition_count = 0;
    struct sorting order = {o->sort, o->sort && *o->sort == '-'};
    (void)words;
    if (order.name) order.name += order.falling;
    enum status status = o->sort ? check_name("--sort", order.name, err) : STATUS_OK;
    if (!status && o->filter) status = parse_filter(o->filter, &arena, &conditions, &condition_count, err);
    if (!status) status = file_anneal_home(home, sizeof home, err);
    if (!status) status = file_format_path(database, sizeof database, err, "%s/anneal.db", home);
    bool none = !status && !file_exists(database); /* a list need not create one */
    if (!status && !none) status = store_open(NULL, true, &store, err);
    if (!status && !none) status = run_list(store, &arena, &all, &any, err);
    size_t count = any;
    struct listed *runs = arena_alloc_array(&arena, any + 1, sizeof *runs);
    if (!status && !runs) status = err_set(err, STATUS_NO_MEMORY, "listing runs: not enough memory");
    for (size_t i = 0; !status && i < any; i++) runs[i].run = &all[i];
    if (!status && (o->filter || o->sort))
        status = filter_runs(store, conditions, condition_count, &order, &arena, runs, &count, err);
    if (!status && o->sort) qsort_r(runs, count, sizeof *runs, compare_runs, &order);
    if (!status && o->json)
        status = print_json(runs, count, err);
    else if (!status && count)
        print_table(runs, count);
    else if (!status && any)
        fputs("no run fits the filter\n", stderr);
    else if (!status)
        fprintf(stderr, "there are no runs yet in %s (start one with `%s train`)\n", home, TEXT_PROGRAM);
    store_close(store);
    arena_release(&arena);
    return status;
}

static const struct option_spec options[] = {
    OPTION("filter", OPTION_ANY_TEXT, AT(filter), "EXPR",
           "only runs for which EXPR holds: COLUMN OP VALUE, joined by commas (and); OP is = != < <= > >= or "
           "~ (contains)"),
    OPTION("sort", OPTION_TEXT, AT(sort), "KEY",
           "by a column or a key of the configuration, ascending (-KEY: descending); runs without a value "
           "come last"),
    JSON_OPTION,
    {0},
};

const struct command command_runs = COMMAND(
    "runs", "", 0, 0, options, "list the runs", run, (struct options){0},
    .about = "Lists the runs, newest first. A run whose trainer died shows as crashed. `anneal show RUN` "
             "shows one run in full.",
    .notes =
        "  Columns: id name status created_at ended_at device precision parameters steps tokens\n"
        "           final_loss best_val_loss best_step tokens_per_sec total_steps heartbeat pid message\n"
        "           parent_id parent_step (of a fork) frozen_parameters trained_parameters\n"
        "  Status:  created running paused finished early_stopped stopped failed crashed\n"
        "\n"
        "--filter also knows the keys of the configuration, such as train.learning_rate.\n"
        "\n"
        "  anneal runs --filter status=running\n"
        "  anneal runs --filter 'name~kjv,best_val_loss<3.2' --sort best_val_loss\n"
        "  anneal runs --filter 'train.learning_rate<1e-3,train.optimizer=lion'");
