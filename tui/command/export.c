/* `anneal export`: recorded history as CSV, as long or TensorBoard tables, as JSON. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/file.h"
#include "runs/exchange/export.h"
#include "runs/exchange/export_json.h"
#include "runs/run.h"
#include "tui/command/command.h"

enum format { FORMAT_CSV, FORMAT_LONG, FORMAT_TENSORBOARD, FORMAT_JSON };

struct request {
    enum format format;
    bool all, table_given;
    enum store_table table;
    const char *path; /* NULL: standard output */
    const char **ids;
    size_t count;
};

/* "PATH/NAME.ending", or without a slash too many. */
static enum status path_in(const char *folder, const char *name, const char *ending, char path[PATH_MAX],
                           struct err *err)
{
    bool slash = *folder && folder[strlen(folder) - 1] == '/';
    if (strchr(name, '/') || *name == '.') /* a file belongs below -o, whatever the database says */
        return err_set(err, STATUS_CORRUPT, "run %s: is no id that a file can have (a damaged database?)",
                       name);
    return file_format_path(path, PATH_MAX, err, "%s%s%s%s", folder, slash ? "" : "/", name, ending);
}

/* Whether -o means a folder: by its slash, or because it is one. */
static bool is_folder(const char *path)
{
    size_t length = path ? strlen(path) : 0;
    return length && (path[length - 1] == '/' || file_is_folder(path));
}

/* The path of one result: "-" for standard output, -o itself, or a file of this name in that folder, which is
 * made. */
static enum status choose_path(const struct request *request, bool folder, const char *name,
                               const char *ending, char path[PATH_MAX], struct err *err)
{
    if (!folder) return file_format_path(path, PATH_MAX, err, "%s", request->path ? request->path : "-");
    enum status status = file_make_folders(request->path, err);
    return status ? status : path_in(request->path, name, ending, path, err);
}

static void report_written(enum status status, const char *path)
{
    if (!status && strcmp(path, "-") != 0) fprintf(stderr, "wrote %s\n", path);
}

static enum status export_tables(struct store *store, const struct request *request, struct err *err)
{
    char path[PATH_MAX];
    bool folder = request->all || is_folder(request->path);
    int first = request->all ? 0 : (int)request->table, end = request->all ? TABLE_CSV_COUNT : first + 1;
    enum status status = STATUS_OK;
    for (int i = first; !status && i < end; i++) {
        enum store_table table = (enum store_table)i;
        status = choose_path(request, folder, table_csv_name(table), ".csv", path, err);
        if (!status) status = export_csv(store, request->ids, request->count, table, path, err);
        report_written(status, path);
    }
    return status;
}

static struct metric_choice metrics_of(const struct request *request)
{
    bool both = !request->table_given || request->all;
    return (struct metric_choice){both || request->table == TABLE_STEPS,
                                  both || request->table == TABLE_EVALS};
}

static enum status export_metrics(struct store *store, const struct request *request, struct err *err)
{
    char path[PATH_MAX];
    enum status status = choose_path(request, is_folder(request->path), "metrics", ".csv", path, err);
    if (!status) status = export_long(store, request->ids, request->count, metrics_of(request), path, err);
    report_written(status, path);
    return status;
}

static enum status export_scalars(struct store *store, const struct request *request, struct err *err)
{
    char folder[PATH_MAX], path[PATH_MAX];
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < request->count; i++) {
        const char *written[METRIC_FILES_MAX];
        size_t count = 0;
        status = choose_path(request, request->count > 1, request->ids[i], "", folder, err);
        if (!status) status = file_make_folders(folder, err);
        if (!status)
            status =
                export_tensorboard(store, request->ids[i], metrics_of(request), folder, written, &count, err);
        for (size_t m = 0; !status && m < count; m++)
            report_written(path_in(folder, written[m], ".csv", path, NULL), path);
        if (!status && count == 0) fprintf(stderr, "run %s: nothing of it is recorded\n", request->ids[i]);
    }
    return status;
}

static enum status export_documents(struct store *store, const struct request *request, struct err *err)
{
    char path[PATH_MAX];
    bool folder = request->count > 1 || is_folder(request->path);
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < request->count; i++) {
        status = choose_path(request, folder, request->ids[i], ".json", path, err);
        if (!status) status = export_json(store, request->ids[i], path, err);
        report_written(status, path);
    }
    return status;
}

static enum status export_all(struct store *store, const struct request *request, struct err *err)
{
    static enum status (*const formats[])(struct store *, const struct request *,
                                          struct err *) = {[FORMAT_CSV] = export_tables,
                                                           [FORMAT_LONG] = export_metrics,
                                                           [FORMAT_TENSORBOARD] = export_scalars,
                                                           [FORMAT_JSON] = export_documents};
    return formats[request->format](store, request, err);
}

/* The ids behind the words; without a word, all runs. */
static enum status find_runs(struct store *store, const char *const *words, size_t count, struct arena *arena,
                             struct request *request, struct err *err)
{
    struct run_info run, *runs = NULL;
    size_t listed = 0;
    enum status status = count ? STATUS_OK : run_list(store, arena, &runs, &listed, err);
    request->count = count ? count : listed;
    request->ids = arena_alloc_array(arena, request->count + 1, sizeof *request->ids);
    for (size_t i = 0; !status && request->ids && i < request->count; i++) {
        if (count) status = run_find(store, words[i], &run, err);
        if (!status) request->ids[i] = arena_strdup(arena, count ? run.id : runs[i].id);
        for (size_t k = 0; !status && request->ids[i] && count && k < i; k++)
            if (strcmp(request->ids[k], request->ids[i]) == 0)
                status = err_set(err, STATUS_USAGE, "%s: is named twice", request->ids[i]);
        if (!status && !request->ids[i]) request->ids = NULL;
    }
    if (!status && !request->ids) status = err_set(err, STATUS_NO_MEMORY, "exporting: not enough memory");
    return status;
}

/* The contradiction between options and words as a sentence; NULL: none. */
static const char *contradiction(const struct request *request, int words)
{
    bool metrics = request->format == FORMAT_LONG || request->format == FORMAT_TENSORBOARD;
    if (metrics && request->table_given && !request->all && request->table != TABLE_STEPS &&
        request->table != TABLE_EVALS)
        return "--format long and tensorboard hold the metrics of --table steps, evals, or all (both)";
    if (request->format == FORMAT_JSON && request->table_given)
        return "--format json holds a whole run and takes no --table";
    if (request->format == FORMAT_TENSORBOARD && !request->path)
        return "--format tensorboard writes a file a metric and needs a folder: -o FOLDER";
    if (request->format == FORMAT_JSON && words > 1 && !request->path)
        return "--format json writes a document a run: several need a folder, -o FOLDER";
    if (request->format == FORMAT_CSV && request->all && !request->path)
        return "--table all needs a folder: -o FOLDER";
    if (words == 0 && (request->format != FORMAT_CSV || request->all || request->table != TABLE_RUNS))
        return "needs a RUN";
    return NULL;
}

/* In the order of enum store_table. */
#define EXPORT_TABLES "steps|evals|early_stopping|profile|memory|gpu|samples|orders|runs|all"
_Static_assert(TABLE_CSV_COUNT == 9, "--table lists all tables, then all");

struct options {
    const char *output;
    int format, table; /* table -1: not given */
};

static enum status run(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    bool all = o->table == TABLE_CSV_COUNT;
    struct request request = {.format = (enum format)o->format,
                              .table = o->table < 0 || all ? TABLE_STEPS : (enum store_table)o->table,
                              .all = all,
                              .table_given = o->table >= 0,
                              .path = o->output && strcmp(o->output, "-") != 0 ? o->output : NULL};
    const char *why = contradiction(&request, words->count);
    if (why) return err_set(err, STATUS_USAGE, "%s", why);
    struct arena arena;
    struct store *store = NULL;
    arena_init(&arena, 0);
    enum status status = command_open_store(true, &store, err);
    if (!status) status = find_runs(store, words->words, (size_t)words->count, &arena, &request, err);
    if (!status) status = export_all(store, &request, err);
    store_close(store);
    arena_release(&arena);
    return status;
}

static const struct options defaults = {.table = -1};

static const struct option_spec options[] = {
    OPTION("format", OPTION_CHOICE, AT(format), "csv|long|tensorboard|json",
           "csv (the default): a table as CSV (RFC 4180, a header line, nan and inf spelled so). long: "
           "run,step,wall_time,metric,value, one value a line. tensorboard: one file a metric, Wall "
           "time,Step,Value, in a folder. json: a run as one document, configuration, steps, profile and "
           "samples; what is absent, nan or infinite is null there"),
    OPTION("table", OPTION_CHOICE, AT(table), EXPORT_TABLES,
           "of csv (default steps), or all of them, one file each. Of long and tensorboard: the metrics of "
           "steps or of evals; without it, both"),
    OPTION("output", OPTION_TEXT, AT(output), "PATH",
           "a file, or a folder that gets its files; without it, or as -, standard output. Files appear "
           "whole or not at all",
           .letter = 'o'),
    {0},
};

const struct command command_export = {
    .line = {.name = "export",
             .words = "RUN...",
             .most = -1,
             .options = options,
             .about = "Writes what was recorded, with exact numbers.",
             .notes = "RUN is an id, the start of one, a name, or latest; several runs share a file, told "
                      "apart by the column run, and have a folder or file each with tensorboard and json. "
                      "Without a RUN, --table runs writes all runs. csv holds every segment of a resumed "
                      "run; the other formats hold each step once, as its newest segment recorded it. "
                      "`anneal import` reads csv and tensorboard files back.\n"
                      "\n"
                      "  anneal export latest > steps.csv\n"
                      "  anneal export kjv --table all -o results/\n"
                      "  anneal export kjv job --format long -o both.csv\n"
                      "  anneal export kjv --format tensorboard -o scalars/"},
    .summary = "write what was recorded as CSV or JSON",
    COMMAND_RUN(run, defaults),
};
