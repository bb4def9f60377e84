/* `anneal export`: recorded history as CSV, as long or TensorBoard tables or event files, as JSON. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "runs/exchange/export.h"
#include "runs/run.h"
#include "tui/command/command.h"
#include "tui/command/export_chart.h"

enum { ALL = TABLE_CSV_COUNT };

enum format { FORMAT_CSV, FORMAT_LONG, FORMAT_TENSORBOARD, FORMAT_EVENTS, FORMAT_JSON, FORMAT_SVG };

struct options {
    const char *output;  /* NULL: standard output */
    const char *metrics; /* of svg and long; NULL: not given */
    int format, table;   /* table -1: not given; ALL */
    double decay;        /* of svg */
    bool log;
    const char **ids; /* (count) of the runs, set once they are found */
    size_t count;
};

/* Whether -o means a folder: it ends with a slash or is one. */
static bool is_folder(const char *path)
{
    size_t length = path ? strlen(path) : 0;
    return length && (path[length - 1] == '/' || file_is_folder(path));
}

/* The path of one result: "-" for standard output, -o itself, or a file of this name in that folder, which is
 * made. */
static enum status choose_path(const struct options *request, bool folder, const char *name,
                               const char *ending, char path[PATH_MAX], struct err *err)
{
    const char *at = request->output ? request->output : "-";
    int length = (int)strlen(at);
    while (length > 1 && at[length - 1] == '/') length--;
    if (!folder) return file_format_path(path, PATH_MAX, err, "%.*s", length, at);
    enum status status = file_make_folders(at, err);
    if (status) return status;
    if (strchr(name, '/') || *name == '.') /* a damaged id must not lead out of -o */
        return err_set(err, STATUS_CORRUPT,
                       "run %s: its id cannot be the name of a file (a damaged database?)", name);
    return file_format_path(path, PATH_MAX, err, "%.*s/%s%s", length, at, name, ending);
}

static void report_written(enum status status, const char *path)
{
    if (!status && strcmp(path, "-") != 0) fprintf(stderr, "wrote %s\n", CLEAN_LINE(path));
}

static enum status export_tables(struct store *store, const struct options *request, struct err *err)
{
    char path[PATH_MAX];
    bool all = request->table == ALL, folder = all || is_folder(request->output);
    int first = all || request->table < 0 ? TABLE_STEPS : request->table, end = all ? ALL : first + 1;
    enum status status = STATUS_OK;
    for (int i = first; !status && i < end; i++) {
        enum store_table table = (enum store_table)i;
        status = choose_path(request, folder, store_tables[table].csv, ".csv", path, err);
        if (!status) status = export_csv(store, request->ids, request->count, table, path, err);
        report_written(status, path);
    }
    return status;
}

static struct metric_choice metrics_of(const struct options *request)
{
    bool both = request->table < 0 || request->table == ALL;
    return (struct metric_choice){both || request->table == TABLE_STEPS,
                                  both || request->table == TABLE_EVALS, request->metrics};
}

static enum status export_metrics(struct store *store, const struct options *request, struct err *err)
{
    char path[PATH_MAX];
    enum status status = choose_path(request, is_folder(request->output), "metrics", ".csv", path, err);
    if (!status) status = export_long(store, request->ids, request->count, metrics_of(request), path, err);
    report_written(status, path);
    return status;
}

/* One folder per run. */
static enum status export_scalars(struct store *store, const struct options *request, const char *id,
                                  struct err *err)
{
    char folder[PATH_MAX];
    const char **written;
    struct arena arena = {0};
    size_t count = 0;
    enum status status = choose_path(request, request->count > 1, id, "", folder, err);
    if (!status) status = file_make_folders(folder, err);
    if (!status)
        status = export_tensorboard(store, id, metrics_of(request), folder, &arena, &written, &count, err);
    for (size_t m = 0; !status && m < count; m++)
        report_written(status, arena_printf(&arena, "%s/%s.csv", folder, written[m]));
    if (!status && count == 0) fprintf(stderr, "run %s: nothing was recorded\n", CLEAN_LINE(id));
    arena_release(&arena);
    return status;
}

/* One folder per run, as TensorBoard takes each for a run. */
static enum status export_log(struct store *store, const struct options *request, const char *id,
                              struct err *err)
{
    char folder[PATH_MAX], path[PATH_MAX];
    int64_t count = 0;
    enum status status = choose_path(request, true, id, "", folder, err);
    if (!status) status = file_make_folders(folder, err);
    if (!status) status = export_events(store, id, metrics_of(request), folder, path, &count, err);
    if (!status && count == 0)
        fprintf(stderr, "run %s: nothing was recorded\n", CLEAN_LINE(id));
    else
        report_written(status, path);
    return status;
}

static enum status export_document(struct store *store, const struct options *request, const char *id,
                                   struct err *err)
{
    char path[PATH_MAX];
    bool folder = request->count > 1 || is_folder(request->output);
    enum status status = choose_path(request, folder, id, ".json", path, err);
    if (!status) status = export_json(store, id, path, err);
    report_written(status, path);
    return status;
}

static enum status export_picture(struct store *store, const struct options *request, struct err *err)
{
    char path[PATH_MAX];
    const struct chart_request chart = {request->ids, request->count, request->metrics, request->decay,
                                        request->log};
    enum status status = choose_path(request, is_folder(request->output), "chart", ".svg", path, err);
    if (!status) status = export_chart(store, &chart, path, err);
    report_written(status, path);
    return status;
}

static enum status export_all(struct store *store, const struct options *request, struct err *err)
{
    enum status status = STATUS_OK;
    if (request->format == FORMAT_CSV) return export_tables(store, request, err);
    if (request->format == FORMAT_LONG) return export_metrics(store, request, err);
    if (request->format == FORMAT_SVG) return export_picture(store, request, err);
    for (size_t i = 0; !status && i < request->count; i++)
        status = request->format == FORMAT_JSON     ? export_document(store, request, request->ids[i], err)
                 : request->format == FORMAT_EVENTS ? export_log(store, request, request->ids[i], err)
                                                    : export_scalars(store, request, request->ids[i], err);
    return status;
}

/* The ids of the named runs; without a word, all runs. */
static enum status find_runs(struct store *store, const struct words *words, struct arena *arena,
                             struct options *request, struct err *err)
{
    struct run_info *runs = NULL;
    request->count = (size_t)words->count;
    enum status status = words->count ? run_find_all(store, words->words, request->count, arena, &runs, err)
                                      : run_list(store, arena, &runs, &request->count, err);
    request->ids = arena_alloc_array(arena, request->count + 1, sizeof *request->ids);
    if (!status && !request->ids) return err_no_memory(err, "the runs to export");
    for (size_t i = 0; !status && i < request->count; i++) request->ids[i] = runs[i].id;
    return status;
}

/* Whether the path ends as that of another format, or of a program that would not open what is written. */
static bool names_other_format(const char *path, const char *own)
{
    static const char *const ends[] = {".csv", ".json", ".svg", ".xlsx", ".xls", ".ods", ".parquet"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (text_ends_with(path, ends[i]) && strcmp(ends[i], own) != 0) return true;
    return false;
}

/* The contradiction between options and words as a sentence; NULL: none. */
static const char *contradiction(const struct options *o, int words)
{
    int table = o->table, format = o->format;
    bool csv = format == FORMAT_CSV, json = format == FORMAT_JSON, svg = format == FORMAT_SVG;
    bool folder = format == FORMAT_TENSORBOARD || format == FORMAT_EVENTS;
    bool several = folder || (json && words > 1) || (csv && table == ALL);
    if (json && table >= 0) return "--format json holds a whole run and takes no --table";
    if (svg && table >= 0) return "--format svg draws metrics and takes no --table: --metric NAME";
    if (!csv && table >= 0 && table != TABLE_STEPS && table != TABLE_EVALS && table != ALL)
        return "--format long, tensorboard and events hold the metrics of --table steps, evals, or all "
               "(both)";
    if (o->metrics && !o->metrics[strspn(o->metrics, ", \t")]) return "--metric names no metric";
    if (o->metrics && !svg && format != FORMAT_LONG) return "--metric needs --format svg or long";
    if ((o->log || o->decay > 0) && !svg) return "--log and --smooth need --format svg";
    if (!folder && o->output && names_other_format(o->output, json ? ".json" : svg ? ".svg" : ".csv"))
        return json  ? "--format json writes JSON: -o FILE.json"
               : svg ? "--format svg writes a picture: -o FILE.svg"
                     : "csv and long are CSV files: -o FILE.csv";
    if (several && !o->output) return "several files need a folder: -o FOLDER";
    return words || (csv && table == TABLE_RUNS) ? NULL : "needs a RUN";
}

/* In the order of enum store_table. */
#define EXPORT_TABLES                                                                                        \
    "steps|evals|measures|classes|confusion|early_stopping|profile|memory|ranks|gpu|samples|orders|"         \
    "inference|runs|segments|params|tags|checkpoints|events|all"
_Static_assert(ALL == 19, "--table lists all tables, then all");

static enum status run(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct options request = *o;
    if (o->output && strcmp(o->output, "-") == 0) request.output = NULL;
    const char *why = contradiction(&request, words->count);
    if (why) return err_set(err, STATUS_USAGE, "%s", why);
    struct arena arena = {0};
    struct store *store = NULL;
    enum status status = store_open(NULL, STORE_READ, &store, err);
    if (!status) status = find_runs(store, words, &arena, &request, err);
    if (!status) status = export_all(store, &request, err);
    store_close(store);
    arena_release(&arena);
    return status;
}

static const struct options defaults = {.table = -1};

static const struct option_spec options[] = {
    OPTION(
        "format", OPTION_CHOICE, AT(format), "csv|long|tensorboard|events|json|svg",
        "csv (the default): a table as CSV (RFC 4180, with a header line; nan and inf are written as "
        "these words). long: run,step,wall_time,metric,value, one value per line. tensorboard: one file "
        "per metric, Wall time,Step,Value, in a folder, as TensorBoard's own button downloads them. "
        "events: an event file, which `tensorboard --logdir PATH` shows, in a folder named after the run, "
        "with values rounded to floats. json: a run as one document with configuration, steps, profile and "
        "samples; absent, nan and infinite values are null. svg: a picture of --metric over the steps, of "
        "all runs in one chart"),
    OPTION("metric", OPTION_TEXT, AT(metrics), "NAME,...",
           "for svg and long: which metrics: loss, val_loss, lr, grad_norm, ... or a measure; for long every "
           "number of steps and evals, for svg what the workbench draws (default: of long all, of svg the "
           "loss, of one run with val_loss)"),
    OPTION("smooth", OPTION_NUMBER, AT(decay), "FACTOR",
           "for svg: an exponential moving average, such as 0.99 per step, with the values behind it",
           .least = 0, .most = 0.999999),
    OPTION("log", OPTION_FLAG, AT(log), NULL, "for svg: logarithmic values"),
    OPTION(
        "table", OPTION_CHOICE, AT(table), EXPORT_TABLES,
        "for csv: which table (default steps), or all, one file each. For long, tensorboard and events: the "
        "metrics of steps or of evals, which include measures (default: both)"),
    OPTION("output", OPTION_TEXT, AT(output), "PATH",
           "a file, or a folder for several files (default, or -: standard output). A file is written "
           "completely or not at all; it replaces an older export, but no file of another kind",
           .letter = 'o'),
    {0},
};

const struct command command_export = COMMAND(
    "export", "RUN...", 0, -1, options, "write what was recorded as CSV, JSON or a picture", run, defaults,
    .about = "Writes what was recorded, with exact numbers.",
    .notes = "RUN is an id, the start of one, a name, or latest. Several runs share a file, in which "
             "the column run names each row's run; with tensorboard, events and json each run has its own "
             "folder or file. Without a RUN, --table runs writes all runs. csv holds every segment "
             "of a resumed run; the other formats hold each step once, as its newest segment "
             "recorded it. `anneal import` reads csv, tensorboard and events files back, but of "
             "tensorboard only the metrics of steps and evals, not measures.\n\n"
             "Steps count from 0. The step of an evaluation, a sample or a checkpoint is the number "
             "of steps done by then: an evaluation at 100 follows step 99.\n\n"
             "  anneal export latest > steps.csv\n"
             "  anneal export kjv --table all -o results/\n"
             "  anneal export kjv job --format long -o both.csv\n"
             "  anneal export kjv job --metric loss --format svg -o loss.svg\n"
             "  anneal export kjv --format tensorboard -o scalars/\n"
             "  anneal export kjv job --format events -o logs/");
