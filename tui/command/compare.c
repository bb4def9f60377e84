/* `anneal compare`: the configuration keys in which runs differ, and the outcome of each, as a page or as
 * JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/clean.h"
#include "core/base/clock.h"
#include "core/base/text.h"
#include "runs/run_params.h"
#include "runs/series.h"
#include "tui/command/column_table.h"
#include "tui/command/command.h"
#include "tui/command/show.h"

/* ---- what is compared ---- */

/* The numbers of an outcome, in the order in which they are shown. */
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

struct outcome_kind {
    const char *label, *json;
    int better;   /* -1: less, 1: more, 0: neither */
    bool percent; /* how far from the first run: in percent of it, else in its own unit */
};

struct compared {
    struct run_info info;
    struct run_param *params;
    size_t param_count;
    double values[OUTCOMES]; /* NaN: absent, or that is what it is */
    bool present[OUTCOMES];
};

/* A key in which the runs differ; a value is NULL where a run does not have it. Runs of which no
 * configuration is recorded (imported ones) make no difference. */
struct difference {
    const char *key;
    const char **values;
};

struct comparison {
    struct arena arena;
    struct compared *runs;
    size_t count;
    struct difference *differences;
    size_t difference_count, key_count; /* of all keys that any run has */
};

static const struct outcome_kind outcomes[OUTCOMES] = {
    [STEPS] = {"steps", "steps", 0, false},
    [FINAL_LOSS] = {"final loss", "final_loss", -1, false},
    [BEST_VAL_LOSS] = {"best val loss", "best_val_loss", -1, false},
    [BEST_STEP] = {"  at step", "best_step", 0, false},
    [TOKENS_PER_SEC] = {"tokens/s", "tokens_per_sec", 1, true},
    [PEAK_MEMORY] = {"peak memory", "peak_memory_bytes", -1, true},
    [WALL_TIME] = {"wall time", "wall_time_sec", -1, true},
};

static void set_outcome(struct compared *run, enum outcome which, double value, bool present)
{
    run->values[which] = present ? value : NAN;
    run->present[which] = present;
}

static enum status read_run(struct store *store, const char *word, struct comparison *c, struct compared *run,
                            struct err *err)
{
    int64_t memory = -1;
    enum status status = run_find(store, word, &run->info, err);
    const struct run_info *info = &run->info;
    for (size_t i = 0; !status && &c->runs[i] < run; i++)
        if (strcmp(c->runs[i].info.id, info->id) == 0)
            return err_set(err, STATUS_USAGE, "\"%s\" is run %s, which is named before (name different runs)",
                           word, info->id);
    if (!status) status = run_params_list(store, info->id, &c->arena, &run->params, &run->param_count, err);
    if (!status) status = series_peak_memory(store, info->id, &memory, err);
    if (status) return status;
    set_outcome(run, STEPS, (double)info->steps, info->steps >= 0);
    set_outcome(run, FINAL_LOSS, info->final_loss, info->loss_recorded);
    set_outcome(run, BEST_VAL_LOSS, info->best_val_loss, info->best_step >= 0);
    set_outcome(run, BEST_STEP, (double)info->best_step, info->best_step >= 0);
    set_outcome(run, TOKENS_PER_SEC, info->tokens_per_sec, !isnan(info->tokens_per_sec));
    set_outcome(run, PEAK_MEMORY, (double)memory, memory >= 0);
    set_outcome(run, WALL_TIME, info->elapsed, info->segment > 0);
    return STATUS_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* "3e-4" is 0.0003. */
static bool same_value(const char *a, const char *b)
{
    double x, y;
    if (!a || !b) return a == b;
    return strcmp(a, b) == 0 || (text_parse_double(a, &x) && text_parse_double(b, &y) && x == y);
}

static enum status no_memory(struct err *err)
{
    return err_set(err, STATUS_NO_MEMORY, "comparing runs: not enough memory");
}

/* All keys of all runs, sorted, each once. */
static enum status list_keys(struct comparison *c, const char ***out, struct err *err)
{
    size_t all = 0, n = 0;
    for (size_t i = 0; i < c->count; i++) all += c->runs[i].param_count;
    const char **keys = arena_alloc_array(&c->arena, all + 1, sizeof *keys);
    if (!keys) return no_memory(err);
    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < c->runs[i].param_count; k++) keys[n++] = c->runs[i].params[k].name;
    qsort(keys, n, sizeof *keys, by_name);
    for (size_t i = 0; i < n; i++)
        if (c->key_count == 0 || strcmp(keys[c->key_count - 1], keys[i]) != 0) keys[c->key_count++] = keys[i];
    *out = keys;
    return STATUS_OK;
}

static enum status find_differences(struct comparison *c, struct err *err)
{
    const char **keys = NULL;
    enum status status = list_keys(c, &keys, err);
    if (status) return status;
    c->differences = arena_alloc_array(&c->arena, c->key_count + 1, sizeof *c->differences);
    if (!c->differences) return no_memory(err);
    size_t first = 0; /* that has a configuration */
    while (first + 1 < c->count && c->runs[first].param_count == 0) first++;
    for (size_t k = 0; k < c->key_count; k++) {
        bool differs = false;
        const char **values = arena_alloc_array(&c->arena, c->count, sizeof *values);
        if (!values) return no_memory(err);
        for (size_t i = 0; i < c->count; i++) {
            values[i] = run_params_get(c->runs[i].params, c->runs[i].param_count, keys[k]);
            differs = differs || (c->runs[i].param_count && !same_value(values[first], values[i]));
        }
        if (differs) c->differences[c->difference_count++] = (struct difference){keys[k], values};
    }
    return STATUS_OK;
}

/* Whether two runs may cut text into different tokens: their losses, which are per token, then say nothing of
 * each other. A run of unknown configuration is taken as alike. */
static bool differ_in_tokens(const struct compared *a, const struct compared *b)
{
    const char *x = run_params_get(a->params, a->param_count, "data.tokenizer"),
               *y = run_params_get(b->params, b->param_count, "data.tokenizer");
    if (!x || !y) return false;
    if (strcmp(x, y) != 0) return true;
    if (strncmp(x, "bpe:", 4) != 0) return false; /* that is learned from the text */
    x = run_params_get(a->params, a->param_count, "data.train");
    y = run_params_get(b->params, b->param_count, "data.train");
    return x && y && strcmp(x, y) != 0;
}

static bool is_loss(enum outcome which)
{
    return which == FINAL_LOSS || which == BEST_VAL_LOSS;
}

/* Whether the better value is the better run: losses per token are compared where the tokens are the same,
 * times where the same steps have been finished. */
static bool are_comparable(const struct compared *a, const struct compared *b, enum outcome which)
{
    if (is_loss(which)) return !differ_in_tokens(a, b);
    if (which != WALL_TIME) return true;
    return a->info.status == RUN_FINISHED && b->info.status == RUN_FINISHED && a->info.steps == b->info.steps;
}

/* Whether the run's value is the best of at least two that differ and can be compared. */
static bool is_best(const struct comparison *c, size_t run, enum outcome which)
{
    bool worse = false;
    double own = c->runs[run].values[which];
    if (!outcomes[which].better || !isfinite(own)) return false;
    for (size_t i = 0; i < c->count; i++) {
        double other = c->runs[i].values[which];
        if (i == run) continue;
        if (!are_comparable(&c->runs[run], &c->runs[i], which)) {
            if (is_loss(which)) return false; /* there is no best loss among all */
            continue;
        }
        if (isfinite(other) && (other - own) * outcomes[which].better > 0) return false;
        worse = worse || (c->runs[i].present[which] && other != own);
    }
    return worse;
}

/* From the first run's value to this one's; NaN where there is none, or it would say nothing. */
static double delta_of(const struct comparison *c, size_t run, enum outcome which)
{
    if (is_loss(which) && differ_in_tokens(&c->runs[0], &c->runs[run])) return NAN;
    return c->runs[run].values[which] - c->runs[0].values[which];
}

static enum status read_runs(struct store *store, const char *const *words, size_t count,
                             struct comparison *out, struct err *err)
{
    *out = (struct comparison){.arena = out->arena};
    out->runs = arena_alloc_array(&out->arena, count, sizeof *out->runs);
    enum status status = out->runs ? STATUS_OK : no_memory(err);
    for (; !status && out->count < count; out->count++)
        status = read_run(store, words[out->count], out, &out->runs[out->count], err);
    return status ? status : find_differences(out, err);
}

/* ---- the page ---- */

static const char *keep(struct comparison *c, const char *text)
{
    const char *copy = arena_strdup(&c->arena, text);
    return copy ? copy : "?";
}

static const char *format_value(struct comparison *c, size_t run, enum outcome which)
{
    char value[64], cell[72];
    double number = c->runs[run].values[which];
    if (!c->runs[run].present[which])
        snprintf(value, sizeof value, "-");
    else if (is_loss(which))
        text_format_loss(number, value, sizeof value);
    else if (which == TOKENS_PER_SEC)
        text_format_count(number, value, sizeof value);
    else if (which == PEAK_MEMORY)
        text_format_bytes((uint64_t)number, value, sizeof value);
    else if (which == WALL_TIME)
        clock_format_duration(number, value, sizeof value);
    else
        snprintf(value, sizeof value, "%.0f", number);
    snprintf(cell, sizeof cell, "%s%s", value, is_best(c, run, which) ? " *" : "  ");
    return keep(c, cell);
}

/* How far from the first run; "" for that one, where a value is missing and where there is no difference. */
static const char *format_delta(struct comparison *c, size_t run, enum outcome which)
{
    char cell[64];
    double first = c->runs[0].values[which], delta = delta_of(c, run, which);
    if (run == 0 || !isfinite(delta) || delta == 0) return "";
    if (outcomes[which].percent && (first <= 0 || fabs(delta / first) < 5e-4)) return ""; /* not in 0.1 % */
    if (outcomes[which].percent)
        snprintf(cell, sizeof cell, "%+.1f%%  ", 100 * delta / first);
    else if (which == STEPS || which == BEST_STEP)
        snprintf(cell, sizeof cell, "%+.0f  ", delta);
    else
        snprintf(cell, sizeof cell, "%+.4f  ", delta);
    return keep(c, cell);
}

typedef const char *(*cell_format)(struct comparison *, size_t, enum outcome);

static const char *const *make_cells(struct comparison *c, cell_format format, enum outcome which, bool *any)
{
    const char **cells = arena_alloc_array(&c->arena, c->count, sizeof *cells);
    *any = false;
    for (size_t i = 0; cells && i < c->count; i++) {
        cells[i] = format(c, i, which);
        *any = *any || *cells[i];
    }
    return cells;
}

static size_t add_outcomes(struct comparison *c, struct column_row *rows)
{
    size_t n = 0;
    bool any;
    const char **states = arena_alloc_array(&c->arena, c->count, sizeof *states);
    if (!states) return 0;
    for (size_t i = 0; i < c->count; i++) {
        char cell[40];
        snprintf(cell, sizeof cell, "%s  ", run_status_name(c->runs[i].info.status));
        states[i] = keep(c, cell);
    }
    rows[n++] = (struct column_row){"status", states};
    for (int o = 0; o < OUTCOMES; o++) {
        const char *const *cells = make_cells(c, format_value, (enum outcome)o, &any);
        if (cells) rows[n++] = (struct column_row){outcomes[o].label, cells};
        cells = make_cells(c, format_delta, (enum outcome)o, &any);
        if (cells && any) rows[n++] = (struct column_row){"", cells};
    }
    return n;
}

static size_t add_differences(struct comparison *c, struct column_row *rows)
{
    size_t n = 0;
    for (size_t d = 0; d < c->difference_count; d++) {
        const char **cells = arena_alloc_array(&c->arena, c->count, sizeof *cells);
        if (!cells) return n;
        for (size_t i = 0; i < c->count; i++) {
            const char *value = c->differences[d].values[i];
            cells[i] = value && *value ? clean_line_new(&c->arena, value) : value ? "\"\"" : "-";
        }
        rows[n++] = (struct column_row){clean_line_new(&c->arena, c->differences[d].key), cells};
    }
    return n;
}

static enum status print_page(struct comparison *c, struct err *err)
{
    int width = command_columns(stdout); /* 80 where there is no terminal: the same everywhere */
    size_t most = c->difference_count + 2 * OUTCOMES + 8, n = 0;
    struct column_row *rows = arena_alloc_array(&c->arena, most, sizeof *rows);
    const char **headings = arena_alloc_array(&c->arena, c->count, sizeof *headings);
    if (!rows || !headings) return err_set(err, STATUS_NO_MEMORY, "comparing runs: not enough memory");
    for (size_t i = 0; i < c->count; i++) {
        const char *name = clean_line_new(&c->arena, c->runs[i].info.name);
        headings[i] = arena_printf(&c->arena, "%zu %s", i + 1, name);
        if (!headings[i]) return err_set(err, STATUS_NO_MEMORY, "comparing runs: not enough memory");
        printf("%zu  %s\n", i + 1, clean_line_new(&c->arena, c->runs[i].info.id));
    }
    size_t recorded = 0; /* configurations: an imported run has none */
    char of[64] = "";
    for (size_t i = 0; i < c->count; i++) recorded += c->runs[i].param_count > 0;
    if (recorded < c->count) snprintf(of, sizeof of, " (recorded of %zu of %zu runs)", recorded, c->count);
    const char *title =
        recorded == 0   ? "No configuration is recorded."
        : recorded == 1 ? arena_printf(&c->arena, "No configurations to compare%s.", of)
        : c->difference_count == 0
            ? arena_printf(&c->arena, "All %zu keys of the configuration are the same%s.", c->key_count, of)
            : arena_printf(&c->arena, "Configuration: %zu of %zu keys differ%s", c->difference_count,
                           c->key_count, of);
    rows[n++] = (struct column_row){title ? title : "", NULL};
    n += add_differences(c, rows + n);
    rows[n++] = (struct column_row){"", NULL};
    rows[n++] = (struct column_row){"Outcome (* the best; below it, how far from the first run)", NULL};
    n += add_outcomes(c, rows + n);
    putchar('\n');
    struct column_table table = {headings, c->count, rows, n};
    column_table_print(stdout, &table, width ? width : 80);
    bool alike = true;
    for (size_t i = 1; i < c->count; i++) alike = alike && !differ_in_tokens(&c->runs[0], &c->runs[i]);
    if (!alike) puts("\nLosses are per token, and the tokens differ: anneal evaluate compares bits a byte.");
    return STATUS_OK;
}

/* ---- JSON: a value that is absent or not finite is null ---- */

static void outcome_json(struct json_out *json, enum outcome which, double value)
{
    bool whole = which == STEPS || which == BEST_STEP || which == PEAK_MEMORY;
    if (whole && isfinite(value))
        json_out_int(json, outcomes[which].json, (int64_t)value);
    else
        json_out_real(json, outcomes[which].json, value);
}

static void run_json(struct json_out *json, const struct comparison *c, size_t i)
{
    const struct compared *run = &c->runs[i];
    json_out_open(json, NULL, '{', JSON_OUT_LINES);
    show_run_json(json, &run->info);
    outcome_json(json, PEAK_MEMORY, run->values[PEAK_MEMORY]);
    outcome_json(json, WALL_TIME, run->values[WALL_TIME]);
    json_out_open(json, "delta", '{', JSON_OUT_LINES);
    for (int o = 0; o < OUTCOMES; o++) outcome_json(json, (enum outcome)o, delta_of(c, i, (enum outcome)o));
    json_out_close(json);
    json_out_close(json);
}

static enum status print_json(const struct comparison *c, struct err *err)
{
    struct json_out json;
    command_begin_json(&json, '{');
    json_out_open(&json, "runs", '[', JSON_OUT_LINES);
    for (size_t i = 0; i < c->count; i++) run_json(&json, c, i);
    json_out_close(&json);
    json_out_open(&json, "config", '{', JSON_OUT_LINES);
    for (size_t d = 0; d < c->difference_count; d++) {
        json_out_open(&json, c->differences[d].key, '[', JSON_OUT_LINES);
        for (size_t i = 0; i < c->count; i++)
            if (c->differences[d].values[i])
                show_config_value(&json, NULL, c->differences[d].values[i]);
            else
                json_out_null(&json, NULL);
        json_out_close(&json);
    }
    json_out_close(&json);
    json_out_open(&json, "best", '{', JSON_OUT_LINES);
    for (int o = 0; o < OUTCOMES; o++) {
        if (!outcomes[o].better) continue;
        json_out_open(&json, outcomes[o].json, '[', JSON_OUT_LINES);
        for (size_t i = 0; i < c->count; i++)
            if (is_best(c, i, (enum outcome)o)) json_out_text(&json, NULL, c->runs[i].info.id);
        json_out_close(&json);
    }
    json_out_close(&json);
    return command_end_json(&json, err);
}

/* ---- the command ---- */

struct options {
    bool json;
};

static enum status run(const void *options, const struct words *words, struct err *err)
{
    struct store *store = NULL;
    struct comparison c;
    arena_init(&c.arena, 65536);
    enum status status = command_open_store(true, &store, err);
    if (!status) status = read_runs(store, words->words, (size_t)words->count, &c, err);
    if (!status && ((const struct options *)options)->json)
        status = print_json(&c, err);
    else if (!status)
        status = print_page(&c, err);
    arena_release(&c.arena);
    store_close(store);
    return status;
}

static const struct option_spec options[] = {
    OPTION("json", OPTION_FLAG, AT(json), NULL,
           "one JSON object: runs (the columns of `anneal runs`, peak_memory_bytes, wall_time_sec, and "
           "delta, the distances to the first), config (key: one value a run), best (ids)"),
    {0},
};

const struct command command_compare = {
    .line = {.name = "compare",
             .words = "RUN RUN...",
             .least = 2,
             .most = -1,
             .options = options,
             .about = "Shows in which keys of the configuration the runs differ, and only those, then the "
                      "outcome of each: status, steps, losses, speed, memory and time, each with its "
                      "distance to the first run; the best is marked. Many runs come in blocks of columns "
                      "that fit the terminal (80 columns elsewhere, or COLUMNS).",
             .notes =
                 "Speed is the recent one; memory is the sum of each category's peak; wall time is how long "
                 "the run's trainers lived, and is judged among runs that have finished the same steps; "
                 "losses are judged where the tokens are the same.\n"
                 "RUN is an id, the start of one, a name (the newest of that name), or latest.\n"
                 "\n"
                 "  anneal compare base wide latest\n"
                 "  anneal runs --filter 'train.learning_rate<1e-3'      which runs there are to compare"},
    .summary = "what differs between runs, and the outcome of each",
    COMMAND_RUN(run, (struct options){0}),
};
