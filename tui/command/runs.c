/* `anneal runs`: the list of runs, filtered, sorted, as a table or as JSON. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "core/base/text.h"
#include "runs/listing.h"
#include "tui/command/command.h"
#include "tui/command/output.h"

/* A key that no run has, as in an empty store, is no misspelling. */
static const char *const config_keys[] = {
#define KEY(section, name, kind, field, fallback, least, most, words, unit, kept, help) #section "." #name,
#include "core/model/config.def"
};

/* A row is a line of the terminal. */
static void print_lines(struct table *table)
{
    int width = output_columns(stdout);
    table_print(table, 0, isatty(STDOUT_FILENO) ? (width ? width : 80) : 0, TABLE_CUT);
}

static void print_table(const struct listing *listing)
{
    struct table table = {0};
    for (size_t i = 0; i < listing->shown_count; i++) {
        const struct run_info *run = &listing->runs[listing->shown[i]];
        long long steps = run->steps > 0 ? run->steps : 0;
        table_row(&table);
        table_cell(&table, "RUN", "%s", run->id);
        table_cell(&table, "STATUS", "%s", run_status_word(run));
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
        table_cell(&table, "TAGS", "%s", *run->tags ? run->tags : "-");
    }
    print_lines(&table);
}

/* The id and the columns that were asked for. */
static void print_columns(const struct listing *listing)
{
    struct table table = {0};
    for (size_t i = 0; i < listing->shown_count; i++) {
        size_t run = listing->shown[i];
        table_row(&table);
        table_cell(&table, "RUN", "%s", listing->runs[run].id);
        for (int c = 0; c < listing->column_count; c++) {
            const struct field *field = &listing->fields[c].field;
            const struct field_value *value = listing_value(listing, c, run);
            char title[FIELD_NAME_MAX + 1], text[RUN_NOTE_MAX];
            snprintf(title, sizeof title, "%s%s", value->text || field->unit == UNIT_TEXT ? "" : ">",
                     field->name);
            field_show(field, value, text, sizeof text);
            table_cell(&table, title, "%s", *text ? text : "-");
        }
    }
    print_lines(&table);
}

/* A column has the type that it has without --columns; a text of the run itself is never a number. */
static void value_json(struct json_out *out, const struct field *field, const struct field_value *value)
{
    bool whole = field->column ? column_is_integer(field->column) : field->unit == UNIT_BYTES,
         own = field->column || field->made;
    if (value->known && !value->text && whole)
        json_out_int(out, field->name, (int64_t)value->number);
    else if (value->known && !value->text)
        json_out_real(out, field->name, value->number);
    else
        (own ? json_out_text : run_param_json)(out, field->name, value->known ? value->text : NULL);
}

static enum status print_json(const struct listing *listing, struct err *err)
{
    struct output o = {.json = true};
    json_out_begin(&o.out, stdout);
    json_out_open(&o.out, NULL, '[', JSON_OUT_LINES);
    for (size_t i = 0; i < listing->shown_count; i++) {
        size_t run = listing->shown[i];
        output_item(&o);
        if (listing->column_count == 0) output_run(&o.out, &listing->runs[run]);
        if (listing->column_count > 0) json_out_text(&o.out, "run", listing->runs[run].id);
        for (int c = 0; c < listing->column_count; c++)
            value_json(&o.out, &listing->fields[c].field, listing_value(listing, c, run));
    }
    if (listing->shown_count) json_out_close(&o.out);
    return output_end(&o, err);
}

struct options {
    const char *filter, *sort, *columns;
    bool json;
};

/* Reads the runs and sets what was asked for. */
static enum status read_listing(struct listing *listing, struct store *store, const struct options *o,
                                struct err *err)
{
    struct listing_request filter = {.filter = o->filter}, sort = {.filter = o->filter, .sort = o->sort},
                           all = {o->columns, o->filter, o->sort};
    enum status status = listing_read(listing, store, err);
    if (!status) status = listing_set(listing, store, &filter, true, err);
    if (!status) status = filter_check(&listing->filter, o->filter, err);
    if (status) return status;
    status = listing_set(listing, store, &sort, true, err);
    if (status) return err_prefix(err, "--sort");
    status = listing_set(listing, store, &all, true, err);
    return status ? err_prefix(err, "--columns") : STATUS_OK;
}

static enum status run(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct store *store = NULL;
    struct listing listing = {.more_names = config_keys,
                              .more_count = sizeof config_keys / sizeof *config_keys};
    (void)words;
    enum status status = store_open(NULL, STORE_READ, &store, err);
    if (!status) status = read_listing(&listing, store, o, err);
    if (!status && o->json)
        status = print_json(&listing, err);
    else if (!status && listing.shown_count)
        (o->columns ? print_columns : print_table)(&listing);
    else if (!status && listing.count > listing.hidden)
        fputs("no run fits the filter\n", stderr);
    else if (!status && !listing.count) {
        char none[400];
        run_none_words(store, none, sizeof none);
        fprintf(stderr, "%s\n", none);
    }
    if (!status && listing.hidden)
        fprintf(stderr, "not listed: %zu archived (%s runs --filter tag=archived)\n", listing.hidden,
                TEXT_PROGRAM);
    listing_release(&listing);
    store_close(store);
    return status;
}

static const struct option_spec options[] = {
    OPTION("filter", OPTION_ANY_TEXT, AT(filter), "EXPR",
           "only runs for which EXPR holds: words, and comparisons FIELD OP VALUE with = != < <= > >= ~ !~, "
           "joined by and, or, not and parentheses"),
    OPTION(
        "sort", OPTION_TEXT, AT(sort), "KEY",
        "by a field, ascending (-KEY: descending), or by several with commas between; runs without a value "
        "come last"),
    OPTION("columns", OPTION_TEXT, AT(columns), "FIELDS", "show these fields, with commas between"),
    JSON_OPTION,
    {0},
};

const struct command command_runs = COMMAND(
    "runs", "", 0, 0, options, "list the runs", run, (struct options){0},
    .about =
        "Lists the runs, newest first. A run whose trainer died shows as crashed. `anneal show RUN` "
        "shows one run in full. Runs with the tag archived are left out unless the filter speaks of them.",
    .notes =
        "  Fields:  id name status created_at ended_at device precision parameters steps tokens\n"
        "           final_loss best_val_loss best_step tokens_per_sec total_steps heartbeat pid message\n"
        "           parent_id parent_step (of a fork) frozen_parameters trained_parameters note tags\n"
        "           segment (how many trainers it had) best_metric best_value (where eval.metric is set)\n"
        "           age elapsed (seconds) progress (0 to 1) loss best tok/s started (as in the lists)\n"
        "           disk: what the run's folder takes\n"
        "           lr grad_norm clip_scale step_ms mfu val_loss, and measures: the newest value\n"
        "           keys of the configuration, such as train.learning_rate\n"
        "  Status:  created running paused finished early_stopped stopped failed crashed. Without --columns\n"
        "           and --json, suspended: a signal, such as Ctrl-Z, has stopped the trainer of a run that\n"
        "           is running or paused\n"
        "\n"
        "--filter: a word is looked for in name, id, status, device, tags and note. ~ searches for a regular "
        "expression (PCRE2), !~ excludes it. Words and expressions match capital and small letters alike. A "
        "comma means and. Numbers may have a unit: 12k 3M 2B 50%, times 90s 5m 2h 3d, sizes 500MB 2GiB. A "
        "time is compared with a date or with a duration: created_at>2h means within the last two hours. "
        "Values with blanks or commas stand in quotation marks.\n"
        "\n"
        "  anneal runs --filter status=running\n"
        "  anneal runs --filter 'name~kjv best<3.2' --sort best,-tokens_per_sec\n"
        "  anneal runs --filter 'train.learning_rate<1e-3 and (tag=baseline or age<2d)'\n"
        "  anneal runs --columns name,best,train.learning_rate,tags\n"
        "  anneal runs --columns name,status,disk --sort -disk");
