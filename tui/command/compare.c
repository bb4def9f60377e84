/* `anneal compare`: the configuration keys in which runs differ, and the outcome of each, as a page, as
 * Markdown or as JSON. */
#include <math.h>

#include "core/base/arena.h"
#include "core/base/text.h"
#include "runs/comparison.h"
#include "runs/exchange/export_markdown.h"
#include "tui/command/command.h"
#include "tui/command/output.h"

enum { TEXT_SIZE = 96, ROWS_SHOWN = 10 /* of early stopping, on the page */ };

/* ---- the page ---- */

/* Adds the rows of a section to the table, without the first `skip`. */
static void add_rows(struct table *table, const struct comparison *c, enum comparison_section section,
                     size_t skip)
{
    char text[TEXT_SIZE];
    for (const struct comparison_row *row = c->rows; row < c->rows + c->row_count; row++) {
        if (row->section != section) continue;
        if (skip > 0) {
            skip--;
            continue;
        }
        table_row(table);
        table_cell(table, "", "%s%s", row->measure ? "  " : "", row->name);
        for (size_t i = 0; i < c->count; i++)
            table_cell(table, c->runs[i].title, "%s", comparison_text(c, row, i, text, sizeof text));
    }
}

/* The verdicts on the evaluations, the last ones unless `all`. */
static void print_stopping(struct table *table, const struct comparison *c, bool all, int width)
{
    size_t count = 0;
    for (size_t i = 0; i < c->row_count; i++) count += c->rows[i].section == COMPARED_STOPPING;
    size_t shown = all || count < ROWS_SHOWN ? count : ROWS_SHOWN;
    if (!count) return;
    printf(shown < count ? "\nEarly stopping (the last %zu of %zu evaluations)\n" : "\nEarly stopping\n",
           shown, count);
    add_rows(table, c, COMPARED_STOPPING, count - shown);
    table_print(table, 0, width, TABLE_BLOCKS);
}

static void print_page(struct comparison *c, bool all)
{
    int width = output_columns(stdout) ? output_columns(stdout) : 80; /* the same everywhere */
    const char *note = comparison_validation_note(c), *obstacle = comparison_loss_obstacle(c);
    char keys[TEXT_SIZE];
    struct table table = {0};
    for (size_t i = 0; i < c->count; i++)
        printf("%zu  %s\n", i + 1, clean_line_new(&c->arena, c->runs[i].info->id));
    printf("\nConfiguration: %s\n", comparison_count_keys(c, keys, sizeof keys));
    add_rows(&table, c, COMPARED_SETTINGS, 0);
    table_print(&table, 0, width, TABLE_BLOCKS);
    puts("\nOutcome (*: the best; in brackets: the difference from the first run)");
    add_rows(&table, c, COMPARED_OUTCOMES, 0);
    table_print(&table, 0, width, TABLE_BLOCKS);
    print_stopping(&table, c, all, width);
    if (obstacle)
        printf("\nLosses cannot be compared: %s.\n", obstacle);
    else if (note)
        printf("\n%s\n", note);
}

/* ---- JSON: a value that is absent or not finite is null ---- */

static void outcome_json(struct json_out *json, const struct comparison_row *row, double value)
{
    bool whole = row->unit == IN_STEPS || row->unit == IN_BYTES || row->unit == IN_TOKENS;
    if (whole && isfinite(value))
        json_out_int(json, row->json, (int64_t)value);
    else
        json_out_real(json, row->measure ? row->name : row->json, value);
}

static void stopping_json(struct output *o, const struct run_history *history)
{
    json_out_open(&o->out, "early_stopping", '[', JSON_OUT_LINES);
    for (size_t k = history->stopping_count; k-- > 0;) {
        json_out_open(&o->out, NULL, '{', JSON_OUT_FLAT);
        json_out_int(&o->out, "segment", history->stopping[k].segment);
        table_json(&o->out, TABLE_STOPPING, &history->stopping[k].record);
        json_out_close(&o->out);
    }
    json_out_close(&o->out);
}

static void runs_json(struct output *o, const struct comparison *c)
{
    const struct comparison_row *end = c->rows + c->row_count;
    for (size_t i = 0; i < c->count; i++) {
        output_item(o);
        output_run(&o->out, c->runs[i].info);
        for (const struct comparison_row *row = c->rows; row < end; row++)
            if (row->json && !table_column(TABLE_RUNS, row->json)) outcome_json(&o->out, row, row->values[i]);
        output_open(o, "measures", "");
        for (const struct comparison_row *row = c->rows; row < end; row++)
            if (row->measure) outcome_json(&o->out, row, row->values[i]);
        output_close(o);
        output_open(o, "delta", "");
        for (const struct comparison_row *row = c->rows; row < end; row++)
            if (row->json) outcome_json(&o->out, row, comparison_delta(c, row, i));
        output_close(o);
        stopping_json(o, &c->runs[i].history);
    }
}

static void settings_json(struct output *o, const struct comparison *c)
{
    for (const struct comparison_row *row = c->rows; row < c->rows + c->row_count; row++) {
        if (row->section != COMPARED_SETTINGS) continue;
        json_out_open(&o->out, row->name, '[', JSON_OUT_LINES);
        for (size_t i = 0; i < c->count; i++)
            run_param_json(&o->out, NULL, comparison_setting(&c->runs[i], row->name));
        json_out_close(&o->out);
    }
}

static void best_json(struct json_out *json, const struct comparison *c)
{
    for (const struct comparison_row *row = c->rows; row < c->rows + c->row_count; row++) {
        if (!row->json || !row->better) continue;
        json_out_open(json, row->json, '[', JSON_OUT_LINES);
        for (size_t i = 0; i < c->count; i++)
            if (comparison_is_best(c, row, i)) json_out_text(json, NULL, c->runs[i].info->id);
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
    bool json, markdown, all;
    double to_loss; /* 0: none */
};

static enum status run(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct arena arena = {0};
    struct store *store = NULL;
    struct comparison c = {0};
    size_t count = (size_t)words->count;
    struct run_info *found = NULL;
    if (o->json && o->markdown) return err_set(err, STATUS_USAGE, "--json and --markdown exclude each other");
    enum status status = store_open(NULL, STORE_READ, &store, err);
    if (!status) status = run_find_all(store, words->words, count, &arena, &found, err);
    if (!status)
        status = comparison_read(store,
                                 &(struct comparison_request){.runs = found,
                                                              .count = count,
                                                              .with_history = true,
                                                              .has_target = o->to_loss > 0,
                                                              .target = o->to_loss},
                                 &c, err);
    if (!status && o->json)
        status = print_json(&c, err);
    else if (!status && o->markdown)
        status = export_markdown(&c, "-", err);
    else if (!status)
        print_page(&c, o->all);
    comparison_release(&c);
    arena_release(&arena);
    store_close(store);
    return status;
}

static const struct option_spec options[] = {
    OPTION("markdown", OPTION_FLAG, AT(markdown), NULL,
           "the comparison as Markdown tables, for an issue or a report"),
    OPTION("to-loss", OPTION_NUMBER, AT(to_loss), "LOSS",
           "the time, tokens, steps and FLOPs after which each run first reached this validation loss",
           .least = 1e-9, .most = 1e6),
    OPTION("all", OPTION_FLAG, AT(all), NULL,
           "all evaluations of early stopping (default: the last ten); JSON and Markdown have all"),
    OPTION("json", OPTION_FLAG, AT(json), NULL,
           "one JSON object: runs (the columns of `anneal runs`, peak_memory_bytes, wall_time_sec, measures, "
           "those of the best evaluation, delta, the differences from the first, and early_stopping), config "
           "(key: one value per run), best (ids)"),
    {0},
};

const struct command command_compare = COMMAND(
    "compare", "RUN RUN...", 2, -1, options, "show what differs between runs, and the outcome of each", run,
    (struct options){0},
    .about = "Shows the keys of the configuration in which the runs differ, then the outcome of each run: "
             "status, steps, losses, the measures of the best evaluation, speed, memory and time, each with "
             "its difference from the first run; the best is marked. Where early stopping is on, a table "
             "lists its verdicts, a row for each evaluation. Many runs are split into blocks of columns that "
             "fit the terminal (elsewhere 80 columns, or COLUMNS).",
    .notes = "Speed is that of the newest steps. Memory is the sum of the peaks of all categories. Wall time "
             "is how long the run's own trainers ran; it is compared between runs that trained the same "
             "steps to the end. Losses, and how they were reached, are compared between runs with the same "
             "data.format and tokens.\n"
             "RUN is an id, the start of one, a name (the newest of that name), or latest.\n\n"
             "  anneal compare base wide latest\n"
             "  anneal compare base wide --to-loss 3.2               when each got there\n"
             "  anneal runs --filter 'train.learning_rate<1e-3'      lists runs to compare");
