/* `anneal compare`: the configuration keys in which runs differ, and the outcome of each, as a page or as
 * JSON. A run without a recorded configuration (an imported one) never counts as different. */
#include <math.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/base/text.h"
#include "runs/history.h"
#include "runs/run.h"
#include "tui/command/command.h"
#include "tui/command/output.h"

/* ---- the runs ---- */

enum unit { UNIT_STEPS, UNIT_LOSS, UNIT_RATE, UNIT_BYTES, UNIT_SECONDS };

/* The numbers of an outcome, in the order in which they are shown: columns of `runs`, then two more. */
enum outcome {
    STEPS,
    FINAL_LOSS,
    BEST_VAL_LOSS,
    BEST_STEP,
    TOKENS_PER_SEC,
    PEAK_MEMORY,
    WALL_TIME,
    OUTCOMES
};

static const struct outcome_kind {
    const char *label, *json;
    int better; /* -1: less, 1: more, 0: neither */
    enum unit unit;
} outcomes[OUTCOMES] = {
    [STEPS] = {"steps", "steps", 0, UNIT_STEPS},
    [FINAL_LOSS] = {"final loss", "final_loss", -1, UNIT_LOSS},
    [BEST_VAL_LOSS] = {"best val loss", "best_val_loss", -1, UNIT_LOSS},
    [BEST_STEP] = {"best step", "best_step", 0, UNIT_STEPS},
    [TOKENS_PER_SEC] = {"tokens/s", "tokens_per_sec", 1, UNIT_RATE},
    [PEAK_MEMORY] = {"peak memory", "peak_memory_bytes", -1, UNIT_BYTES},
    [WALL_TIME] = {"wall time", "wall_time_sec", -1, UNIT_SECONDS},
};

struct compared {
    const struct run_info *info;
    const char *title;
    struct run_param *params; /* sorted by name */
    size_t param_count;
    double values[OUTCOMES]; /* NaN: absent, or not a number */
    struct run_history history;
};

struct comparison {
    struct arena arena;
    struct compared *runs;
    size_t count;
};

static enum status read_run(struct store *store, struct comparison *c, struct compared *run, struct err *err)
{
    int64_t memory = -1;
    const struct run_info *info = run->info;
    enum status status = run_params_list(store, info->id, &c->arena, &run->params, &run->param_count, err);
    if (!status) status = run_peak_memory(store, info->id, &memory, err);
    if (!status) status = run_history_read(store, info->id, SIZE_MAX, &c->arena, &run->history, err);
    for (int o = 0; o < PEAK_MEMORY; o++)
        run->values[o] = column_number(table_column(TABLE_RUNS, outcomes[o].json), info);
    run->values[PEAK_MEMORY] = memory < 0 ? NAN : (double)memory;
    run->values[WALL_TIME] = info->segment > 0 ? info->elapsed : NAN;
    run->title = arena_printf(&c->arena, "%zu %s", c->count + 1, info->name);
    if (!run->title) run->title = "?";
    return status;
}

static const char *setting_of(const struct compared *run, const char *key)
{
    return run_params_get(run->params, run->param_count, key);
}

/* "3e-4" equals "0.0003". */
static bool same_value(const char *a, const char *b)
{
    double x, y;
    if (!a || !b) return a == b;
    return strcmp(a, b) == 0 || (text_parse_double(a, &x) && text_parse_double(b, &y) && x == y);
}

static bool differ_in(const struct comparison *c, const char *key)
{
    const struct compared *first = NULL;
    for (size_t i = 0; i < c->count; i++) {
        if (c->runs[i].param_count == 0) continue;
        if (!first) first = &c->runs[i];
        if (!same_value(setting_of(first, key), setting_of(&c->runs[i], key))) return true;
    }
    return false;
}

/* The next key after `key` ("" at first) of all runs, in order; NULL: there is none. */
static const char *next_key(const struct comparison *c, const char *key)
{
    const char *next = NULL;
    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < c->runs[i].param_count; k++) {
            const char *name = c->runs[i].params[k].name;
            if (strcmp(name, key) > 0 && (!next || strcmp(name, next) < 0)) next = name;
        }
    return next;
}

/* Whether two runs may cut text into different tokens, which makes their losses per token incomparable. A run
 * of unknown configuration counts as alike. */
static bool differ_in_tokens(const struct compared *a, const struct compared *b)
{
    const char *x = setting_of(a, "data.format"), *y = setting_of(b, "data.format");
    if (x && y && strcmp(x, y) == 0 && strcmp(x, "labels") == 0) return false; /* a loss is that of a text */
    x = setting_of(a, "data.tokenizer"), y = setting_of(b, "data.tokenizer");
    if (!x || !y) return false;
    if (strcmp(x, y) != 0) return true;
    if (strncmp(x, "bpe:", 4) != 0) return false; /* bpe is learned from the text */
    x = setting_of(a, "data.train");
    y = setting_of(b, "data.train");
    return x && y && strcmp(x, y) != 0;
}

static bool is_loss(enum outcome which)
{
    return outcomes[which].unit == UNIT_LOSS;
}

/* Whether this outcome ranks two runs: losses per token if the tokens are the same, times if the same steps
 * have been finished. */
static bool are_comparable(const struct compared *a, const struct compared *b, enum outcome which)
{
    if (is_loss(which)) return !differ_in_tokens(a, b);
    if (which != WALL_TIME) return true;
    return a->info->status == RUN_FINISHED && b->info->status == RUN_FINISHED &&
           a->info->steps == b->info->steps;
}

/* Whether the run's value is the best of at least two that differ and can be compared. */
static bool is_best(const struct comparison *c, size_t run, enum outcome which)
{
    bool worse = false;
    double own = c->runs[run].values[which];
    if (!outcomes[which].better || !isfinite(own)) return false;
    for (size_t i = 0; i < c->count; i++) {
        double other = c->runs[i].values[which];
        bool comparable = are_comparable(&c->runs[run], &c->runs[i], which);
        if (!comparable && is_loss(which)) return false; /* no loss is best of all */
        if (!comparable) continue;
        if (isfinite(other) && (other - own) * outcomes[which].better > 0) return false;
        worse = worse || (isfinite(other) ? other != own : is_loss(which) && c->runs[i].info->loss_recorded);
    }
    return worse;
}

/* The change from the first run's value; NaN if there is none or it has no meaning. */
static double delta_of(const struct comparison *c, size_t run, enum outcome which)
{
    if (is_loss(which) && differ_in_tokens(&c->runs[0], &c->runs[run])) return NAN;
    return c->runs[run].values[which] - c->runs[0].values[which];
}

/* ---- the page ---- */

static const char *format_value(double value, enum unit unit, char *buf, size_t size)
{
    if (unit == UNIT_LOSS) return text_format_loss(value, buf, size);
    if (unit == UNIT_RATE) return text_format_count(value, buf, size);
    if (unit == UNIT_BYTES) return text_format_bytes((uint64_t)value, buf, size);
    if (unit == UNIT_SECONDS) return clock_format_duration(value, buf, size);
    snprintf(buf, size, "%.0f", value);
    return buf;
}

/* "2.5000 * (-0.5000)": the difference for a value without a unit, else the change in percent. */
static void add_outcome(struct table *table, const struct comparison *c, size_t run, enum outcome which)
{
    char value[32] = "-", delta[32] = "";
    enum unit unit = outcomes[which].unit;
    double number = c->runs[run].values[which], first = c->runs[0].values[which],
           change = delta_of(c, run, which);
    bool is_nan = isnan(number) && is_loss(which) && c->runs[run].info->loss_recorded;
    if (!isnan(number) || is_nan) format_value(number, unit, value, sizeof value);
    if (isfinite(change) && change != 0 && unit <= UNIT_LOSS)
        snprintf(delta, sizeof delta, " (%+.*f)", unit == UNIT_LOSS ? 4 : 0, change);
    else if (isfinite(change) && first > 0 && fabs(change / first) >= 5e-4) /* 0.1 % */
        snprintf(delta, sizeof delta, " (%+.1f%%)", 100 * change / first);
    table_cell(table, c->runs[run].title, "%s%s%s", value, is_best(c, run, which) ? " *" : "", delta);
}

static void print_settings(struct table *table, const struct comparison *c)
{
    for (const char *key = ""; (key = next_key(c, key));) {
        if (!differ_in(c, key)) continue;
        table_row(table);
        table_cell(table, "", "%s", key);
        for (size_t i = 0; i < c->count; i++) {
            const char *value = setting_of(&c->runs[i], key);
            table_cell(table, c->runs[i].title, "%s", value && *value ? value : value ? "\"\"" : "-");
        }
    }
}

/* The named measure of the run's best evaluation, of which more is better; NaN: it has none. */
static double measure_of(const struct compared *run, const char *name)
{
    return run_history_measure(&run->history, run->info->best_step, name);
}

/* The next name of a measure of the best evaluations, as next_key. */
static const char *next_measure(const struct comparison *c, const char *after)
{
    const char *next = NULL;
    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < c->runs[i].history.measure_count; k++) {
            const struct measure_record *m = &c->runs[i].history.measures[k];
            if (m->step == c->runs[i].info->best_step && strcmp(m->name, after) > 0 &&
                (!next || strcmp(m->name, next) < 0))
                next = m->name;
        }
    return next;
}

static void print_measures(struct table *table, const struct comparison *c)
{
    for (const char *name = ""; (name = next_measure(c, name));) {
        double first = measure_of(&c->runs[0], name), best = first, worst = first;
        for (size_t i = 1; i < c->count; i++) {
            best = fmax(best, measure_of(&c->runs[i], name));
            worst = fmin(worst, measure_of(&c->runs[i], name));
        }
        table_row(table);
        table_cell(table, "", "  %s", name);
        for (size_t i = 0; i < c->count; i++) {
            char delta[32] = "";
            double value = measure_of(&c->runs[i], name);
            if (isfinite(value - first) && value != first)
                snprintf(delta, sizeof delta, " (%+.4f)", value - first);
            if (isnan(value))
                table_cell(table, c->runs[i].title, "-");
            else
                table_cell(table, c->runs[i].title, "%.4f%s%s", value,
                           value == best && best > worst ? " *" : "", delta);
        }
    }
}

static void print_outcomes(struct table *table, const struct comparison *c)
{
    table_row(table);
    table_cell(table, "", "status");
    for (size_t i = 0; i < c->count; i++)
        table_cell(table, c->runs[i].title, "%s", status_words[c->runs[i].info->status]);
    for (int o = 0; o < OUTCOMES; o++) {
        table_row(table);
        table_cell(table, "", "%s", outcomes[o].label);
        for (size_t i = 0; i < c->count; i++) add_outcome(table, c, i, (enum outcome)o);
        if (o == BEST_STEP) print_measures(table, c);
    }
}

static void print_page(struct comparison *c)
{
    int width = output_columns(stdout) ? output_columns(stdout) : 80; /* the same everywhere */
    size_t keys = 0, different = 0, recorded = 0;
    bool alike = true;
    struct table table = {0};
    for (size_t i = 0; i < c->count; i++) {
        printf("%zu  %s\n", i + 1, clean_line_new(&c->arena, c->runs[i].info->id));
        recorded += c->runs[i].param_count > 0;
        alike = alike && !differ_in_tokens(&c->runs[0], &c->runs[i]);
    }
    for (const char *key = ""; (key = next_key(c, key)); keys++) different += differ_in(c, key);
    printf("\nConfiguration: %zu of %zu keys differ%s\n", different, keys,
           recorded < 2 ? " (fewer than two runs have a recorded configuration)" : "");
    print_settings(&table, c);
    table_print(&table, 0, width, TABLE_BLOCKS);
    puts("\nOutcome (*: the best; in brackets: the difference from the first run)");
    print_outcomes(&table, c);
    table_print(&table, 0, width, TABLE_BLOCKS);
    if (!alike)
        printf("\nLosses are per token, and the tokens differ: compare the bits per byte of `%s evaluate`.\n",
               TEXT_PROGRAM);
}

/* ---- JSON: a value that is absent or not finite is null ---- */

static void outcome_json(struct json_out *json, enum outcome which, double value)
{
    bool whole = outcomes[which].unit == UNIT_STEPS || outcomes[which].unit == UNIT_BYTES;
    if (whole && isfinite(value))
        json_out_int(json, outcomes[which].json, (int64_t)value);
    else
        json_out_real(json, outcomes[which].json, value);
}

static void runs_json(struct output *o, const struct comparison *c)
{
    for (size_t i = 0; i < c->count; i++) {
        output_item(o);
        output_run(&o->out, c->runs[i].info);
        outcome_json(&o->out, PEAK_MEMORY, c->runs[i].values[PEAK_MEMORY]);
        outcome_json(&o->out, WALL_TIME, c->runs[i].values[WALL_TIME]);
        output_open(o, "measures", "");
        for (const char *name = ""; (name = next_measure(c, name));)
            json_out_real(&o->out, name, measure_of(&c->runs[i], name));
        output_close(o);
        output_open(o, "delta", "");
        for (int k = 0; k < OUTCOMES; k++)
            outcome_json(&o->out, (enum outcome)k, delta_of(c, i, (enum outcome)k));
        output_close(o);
    }
}

static void settings_json(struct output *o, const struct comparison *c)
{
    for (const char *key = ""; (key = next_key(c, key));) {
        if (!differ_in(c, key)) continue;
        json_out_open(&o->out, key, '[', JSON_OUT_LINES);
        for (size_t i = 0; i < c->count; i++) run_param_json(&o->out, NULL, setting_of(&c->runs[i], key));
        json_out_close(&o->out);
    }
}

static void best_json(struct json_out *json, const struct comparison *c)
{
    for (int o = 0; o < OUTCOMES; o++) {
        if (!outcomes[o].better) continue;
        json_out_open(json, outcomes[o].json, '[', JSON_OUT_LINES);
        for (size_t i = 0; i < c->count; i++)
            if (is_best(c, i, (enum outcome)o)) json_out_text(json, NULL, c->runs[i].info->id);
        json_out_close(json);
    }
}

static enum status print_json(const struct comparison *c, struct err *err)
{
    struct output o;
    output_begin(&o, true);
    output_list(&o, "runs", "");
    runs_json(&o, c);
    output_list_end(&o);
    output_open(&o, "config", "");
    settings_json(&o, c);
    output_close(&o);
    output_open(&o, "best", "");
    best_json(&o.out, c);
    output_close(&o);
    return output_end(&o, err);
}

/* ---- the command ---- */

struct options {
    bool json;
};

static enum status run(const void *options, const struct words *words, struct err *err)
{
    struct store *store = NULL;
    struct comparison c = {0};
    size_t count = (size_t)words->count;
    struct run_info *found = NULL;
    c.runs = arena_alloc_array(&c.arena, count, sizeof *c.runs);
    enum status status = c.runs ? store_open(NULL, true, &store, err)
                                : err_set(err, STATUS_NO_MEMORY, "comparing runs: not enough memory");
    if (!status) status = run_find_all(store, words->words, count, &c.arena, &found, err);
    for (; !status && c.count < count; c.count++) {
        c.runs[c.count].info = &found[c.count];
        status = read_run(store, &c, &c.runs[c.count], err);
    }
    if (!status && ((const struct options *)options)->json)
        status = print_json(&c, err);
    else if (!status)
        print_page(&c);
    arena_release(&c.arena);
    store_close(store);
    return status;
}

static const struct option_spec options[] = {
    OPTION("json", OPTION_FLAG, AT(json), NULL,
           "one JSON object: runs (the columns of `anneal runs`, peak_memory_bytes, wall_time_sec, "
           "measures, those of the best evaluation, and delta, the differences from the first), config (key: "
           "one value per run), best (ids)"),
    {0},
};

const struct command command_compare = COMMAND(
    "compare", "RUN RUN...", 2, -1, options, "show what differs between runs, and the outcome of each", run,
    (struct options){0},
    .about = "Shows the keys of the configuration in which the runs differ, then the outcome of each run: "
             "status, steps, losses, the measures of the best evaluation, speed, memory and time, each with "
             "its difference from the first run; "
             "the best is marked. Many runs are split into blocks of columns that fit the terminal "
             "(elsewhere 80 columns, or COLUMNS).",
    .notes = "Speed is that of the newest steps. Memory is the sum of the peaks of all categories. Wall time "
             "is how long the run's trainers ran; it is compared between runs that finished the same number "
             "of steps. Losses are compared between runs with the same tokens.\n"
             "RUN is an id, the start of one, a name (the newest of that name), or latest.\n\n"
             "  anneal compare base wide latest\n"
             "  anneal runs --filter 'train.learning_rate<1e-3'      lists runs to compare");
