/* `anneal export`: recorded history as CSV, as long or TensorBoard tables, as JSON. */
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/file.h"
#include "runs/exchange/export.h"
#include "runs/exchange/export_json.h"
#include "runs/exchange/export_metrics.h"
#include "runs/run.h"
#include "tui/command/run_commands.h"

enum format { FORMAT_CSV, FORMAT_LONG, FORMAT_TENSORBOARD, FORMAT_JSON, FORMAT_COUNT };
static const char *const format_names[FORMAT_COUNT] = {"csv", "long", "tensorboard", "json"};

static void print_help(void)
{
    puts("usage: anneal export RUN... [--table NAME] [--format NAME] [-o FILE-OR-FOLDER]\n"
         "\n"
         "Writes what was recorded, with exact numbers.\n"
         "\n"
         "  --format NAME  csv (the default): a table as CSV (RFC 4180, a header line, nan and inf spelled "
         "so)\n"
         "                 long: run,step,wall_time,metric,value, one value a line\n"
         "                 tensorboard: one file a metric, Wall time,Step,Value, in a folder\n"
         "                 json: a run as one document, configuration, steps, profile and samples;\n"
         "                 what is absent, nan or infinite is null there\n"
         "  --table NAME   of csv: steps (the default), evals, early_stopping, profile, memory, gpu, "
         "samples,\n"
         "                 orders, runs, or all of them, one file each.\n"
         "                 Of long and tensorboard: the metrics of steps or of evals; without it, both\n"
         "  -o PATH        a file, or a folder that gets its files; without it, standard output.\n"
         "                 Files appear whole or not at all\n"
         "\n"
         "RUN is an id, the start of one, a name, or latest; several runs share a file, told apart by the "
         "column run,\n"
         "and have a folder or file each with tensorboard and json. Without a RUN, --table runs writes all "
         "runs.\n"
         "csv holds every segment of a resumed run; the other formats hold each step once, as its newest "
         "segment\n"
         "recorded it. `anneal import` reads csv and tensorboard files back.\n"
         "\n"
         "  anneal export latest > steps.csv\n"
         "  anneal export kjv --table all -o results/\n"
         "  anneal export kjv job --format long -o both.csv\n"
         "  anneal export kjv --format tensorboard -o scalars/");
}

struct request {
    enum format format;
    bool all, table_given;
    enum store_table table;
    const char *path; /* NULL: standard output */
    const char **ids;
    size_t count;
};

static void say_written(const char *path)
{
    fprintf(stderr, "wrote %s\n", path);
}

/* "PATH/NAME.ending", or without a slash too many. */
static enum status path_in(const char *folder, const char *name, const char *ending, char path[PATH_MAX],
                           struct err *err)
{
    bool slash = *folder && folder[strlen(folder) - 1] == '/';
    if (strchr(name, '/') || *name == '.') /* a file belongs below -o, whatever the database says */
        return err_set(err, STATUS_CORRUPT, "run %s: is no id that a file can have (a damaged database?)",
                       name);
    int n = snprintf(path, PATH_MAX, "%s%s%s%s", folder, slash ? "" : "/", name, ending);
    return n < PATH_MAX ? STATUS_OK : err_set(err, STATUS_USAGE, "-o: the path is too long");
}

/* Whether -o means a folder: by its slash, or because it is one. */
static bool is_folder(const char *path)
{
    size_t length = path ? strlen(path) : 0;
    return length && (path[length - 1] == '/' || file_is_folder(path));
}

/* ---- csv ---- */

static enum status export_one(struct store *store, const struct request *request, enum store_table table,
                              bool folder, struct err *err)
{
    char path[PATH_MAX];
    if (!request->path) return export_csv(store, request->ids, request->count, table, stdout, err);
    enum status status = STATUS_OK;
    if (folder)
        status = path_in(request->path, table_csv_name(table), ".csv", path, err);
    else if (snprintf(path, sizeof path, "%s", request->path) >= (int)sizeof path)
        status = err_set(err, STATUS_USAGE, "-o: the path is too long");
    if (!status) status = export_csv_file(store, request->ids, request->count, table, path, err);
    if (!status) say_written(path);
    return status;
}

static enum status export_tables(struct store *store, const struct request *request, struct err *err)
{
    bool folder = request->path && (request->all || is_folder(request->path));
    enum status status = folder ? file_make_folders(request->path, err) : STATUS_OK;
    if (!request->all) return status ? status : export_one(store, request, request->table, folder, err);
    for (int table = 0; !status && table < TABLE_CSV_COUNT; table++)
        status = export_one(store, request, (enum store_table)table, folder, err);
    return status;
}

/* ---- long and tensorboard ---- */

static struct metric_choice metrics_of(const struct request *request)
{
    bool both = !request->table_given || request->all;
    return (struct metric_choice){both || request->table == TABLE_STEPS,
                                  both || request->table == TABLE_EVALS};
}

static enum status export_metrics(struct store *store, const struct request *request, struct err *err)
{
    char path[PATH_MAX];
    struct metric_choice choice = metrics_of(request);
    if (!request->path) return export_long(store, request->ids, request->count, choice, stdout, err);
    enum status status = STATUS_OK;
    if (is_folder(request->path)) {
        status = file_make_folders(request->path, err);
        if (!status) status = path_in(request->path, "metrics", ".csv", path, err);
    } else if (snprintf(path, sizeof path, "%s", request->path) >= (int)sizeof path) {
        status = err_set(err, STATUS_USAGE, "-o: the path is too long");
    }
    if (!status) status = export_long_file(store, request->ids, request->count, choice, path, err);
    if (!status) say_written(path);
    return status;
}

static enum status export_scalars(struct store *store, const struct request *request, struct err *err)
{
    char folder[PATH_MAX], path[PATH_MAX];
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < request->count; i++) {
        const char *written[METRIC_FILES_MAX];
        size_t count = 0;
        if (request->count > 1)
            status = path_in(request->path, request->ids[i], "", folder, err);
        else if (snprintf(folder, sizeof folder, "%s", request->path) >= (int)sizeof folder)
            status = err_set(err, STATUS_USAGE, "-o: the path is too long");
        if (!status) status = file_make_folders(folder, err);
        if (!status)
            status =
                export_tensorboard(store, request->ids[i], metrics_of(request), folder, written, &count, err);
        for (size_t m = 0; !status && m < count; m++)
            if (!path_in(folder, written[m], ".csv", path, NULL)) say_written(path);
        if (!status && count == 0) fprintf(stderr, "run %s: nothing of it is recorded\n", request->ids[i]);
    }
    return status;
}

/* ---- json ---- */

static enum status export_documents(struct store *store, const struct request *request, struct err *err)
{
    char path[PATH_MAX];
    bool folder = request->path && (request->count > 1 || is_folder(request->path));
    if (!request->path) return export_json(store, request->ids[0], stdout, err);
    enum status status = folder ? file_make_folders(request->path, err) : STATUS_OK;
    for (size_t i = 0; !status && i < request->count; i++) {
        if (folder)
            status = path_in(request->path, request->ids[i], ".json", path, err);
        else if (snprintf(path, sizeof path, "%s", request->path) >= (int)sizeof path)
            status = err_set(err, STATUS_USAGE, "-o: the path is too long");
        if (!status) status = export_json_file(store, request->ids[i], path, err);
        if (!status) say_written(path);
    }
    return status;
}

static enum status export_all(struct store *store, const struct request *request, struct err *err)
{
    switch (request->format) {
    case FORMAT_LONG:
        return export_metrics(store, request, err);
    case FORMAT_TENSORBOARD:
        return export_scalars(store, request, err);
    case FORMAT_JSON:
        return export_documents(store, request, err);
    default:
        return export_tables(store, request, err);
    }
}

/* The ids behind the words; without a word, all runs. */
static enum status find_runs(struct store *store, char **words, size_t count, struct arena *arena,
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

/* 0, or the exit status of a usage error. */
static int parse_table(const char *word, struct request *request)
{
    char why[200];
    request->table_given = true;
    request->all = strcmp(word, "all") == 0;
    if (request->all || table_csv_parse(word, &request->table)) return 0;
    int n = snprintf(why, sizeof why, "no table \"%.40s\" (tables: ", word);
    for (int i = 0; i < TABLE_CSV_COUNT; i++)
        n += snprintf(why + n, sizeof why - (size_t)n, "%s, ", table_csv_name((enum store_table)i));
    snprintf(why + n, sizeof why - (size_t)n, "all)");
    return command_usage("export", why);
}

static int parse_format(const char *word, struct request *request)
{
    char why[120];
    for (int i = 0; i < FORMAT_COUNT; i++)
        if (strcmp(word, format_names[i]) == 0) {
            request->format = (enum format)i;
            return 0;
        }
    snprintf(why, sizeof why, "no format \"%.40s\" (formats: csv, long, tensorboard, json)", word);
    return command_usage("export", why);
}

/* What is wrong with the words taken together; NULL: nothing. */
static const char *contradiction(const struct request *request, int words)
{
    bool metrics = request->format == FORMAT_LONG || request->format == FORMAT_TENSORBOARD;
    if (request->path && !*request->path) return "-o needs a file or folder";
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

int command_export(int argc, char **argv)
{
    static const struct option options[] = {{"table", required_argument, NULL, 't'},
                                            {"format", required_argument, NULL, 'f'},
                                            {"output", required_argument, NULL, 'o'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct request request = {.table = TABLE_STEPS};
    opterr = 0;
    optind = 0;
    for (int option, code; (option = getopt_long(argc, argv, ":ho:", options, NULL)) != -1;) {
        switch (option) {
        case 'h':
            print_help();
            return 0;
        case 't':
            if ((code = parse_table(optarg, &request))) return code;
            break;
        case 'f':
            if ((code = parse_format(optarg, &request))) return code;
            break;
        case 'o':
            request.path = optarg;
            break;
        default:
            return run_option_error(argv, option);
        }
    }
    const char *why = contradiction(&request, argc - optind);
    if (why) return command_usage("export", why);

    struct arena arena;
    struct store *store = NULL;
    struct err err = {0};
    arena_init(&arena, 0);
    enum status status = run_open_store_to_read(&store, &err);
    if (!status) status = find_runs(store, argv + optind, (size_t)(argc - optind), &arena, &request, &err);
    if (!status) status = export_all(store, &request, &err);
    store_close(store);
    arena_release(&arena);
    return status ? command_fail(&err) : 0;
}
