/* `anneal export`: recorded history as CSV. */
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/file.h"
#include "runs/export.h"
#include "runs/run.h"
#include "tui/command/run_commands.h"

static void print_help(void)
{
    puts("usage: anneal export RUN... [--table NAME] [--format csv] [-o FILE-OR-FOLDER]\n"
         "\n"
         "Writes what was recorded as CSV (RFC 4180, a header line, exact numbers, nan and inf spelled so).\n"
         "\n"
         "  --table NAME   steps (the default), evals, early_stopping, profile, memory, gpu, samples, "
         "orders, runs,\n"
         "                 or all of them, one file each\n"
         "  -o PATH        a file, or a folder that gets NAME.csv; without it, standard output.\n"
         "                 Files appear whole or not at all\n"
         "\n"
         "RUN is an id, the start of one, a name, or latest; several runs share a file, told apart by the "
         "column run.\n"
         "Without a RUN, --table runs writes all runs.\n"
         "\n"
         "  anneal export latest > steps.csv\n"
         "  anneal export kjv --table all -o results/");
}

struct request {
    bool all;
    enum export_table table;
    const char *path; /* NULL: standard output */
    const char **ids;
    size_t count;
};

static enum status export_one(struct store *store, const struct request *request, enum export_table table,
                              bool folder, struct err *err)
{
    char path[PATH_MAX];
    if (!request->path) return export_csv(store, request->ids, request->count, table, stdout, err);
    bool slash = request->path[strlen(request->path) - 1] == '/';
    int n = folder ? snprintf(path, sizeof path, "%s%s%s.csv", request->path, slash ? "" : "/",
                              export_table_name(table))
                   : snprintf(path, sizeof path, "%s", request->path);
    if (n >= (int)sizeof path) return err_set(err, STATUS_USAGE, "-o: the path is too long");
    enum status status = export_csv_file(store, request->ids, request->count, table, path, err);
    if (!status) fprintf(stderr, "wrote %s\n", path);
    return status;
}

static enum status export_all(struct store *store, const struct request *request, struct err *err)
{
    size_t length = request->path ? strlen(request->path) : 0;
    bool folder = request->path && (request->all || (length && request->path[length - 1] == '/') ||
                                    file_is_folder(request->path));
    enum status status = folder ? file_make_folders(request->path, err) : STATUS_OK;
    if (!request->all) return status ? status : export_one(store, request, request->table, folder, err);
    for (int table = 0; !status && table < EXPORT_TABLE_COUNT; table++)
        status = export_one(store, request, (enum export_table)table, folder, err);
    return status;
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
        if (!status && !request->ids[i]) request->ids = NULL;
    }
    if (!status && !request->ids) status = err_set(err, STATUS_NO_MEMORY, "exporting: not enough memory");
    return status;
}

/* 0, or the exit status of a usage error. */
static int parse_table(const char *word, struct request *request)
{
    char why[200];
    request->all = strcmp(word, "all") == 0;
    if (request->all || export_table_parse(word, &request->table)) return 0;
    int n = snprintf(why, sizeof why, "no table \"%.40s\" (tables: ", word);
    for (int i = 0; i < EXPORT_TABLE_COUNT; i++)
        n += snprintf(why + n, sizeof why - (size_t)n, "%s, ", export_table_name((enum export_table)i));
    snprintf(why + n, sizeof why - (size_t)n, "all)");
    return command_usage("export", why);
}

int command_export(int argc, char **argv)
{
    static const struct option options[] = {{"table", required_argument, NULL, 't'},
                                            {"format", required_argument, NULL, 'f'},
                                            {"output", required_argument, NULL, 'o'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct request request = {.table = EXPORT_STEPS};
    const char *format = "csv";
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
            format = optarg;
            break;
        case 'o':
            request.path = optarg;
            break;
        default:
            return run_option_error(argv, option);
        }
    }
    if (strcmp(format, "csv") != 0) {
        char why[96];
        snprintf(why, sizeof why, "no format \"%.40s\" (formats: csv)", format);
        return command_usage("export", why);
    }
    if (request.all && !request.path) return command_usage("export", "--table all needs a folder: -o FOLDER");
    if (request.path && !*request.path) return command_usage("export", "-o needs a file or folder");
    if (optind == argc && (request.all || request.table != EXPORT_RUNS))
        return command_usage("export", "needs a RUN");

    struct arena arena;
    struct store *store = NULL;
    struct err err = {0};
    arena_init(&arena, 0);
    enum status status = run_open_store(&store, &err);
    if (!status) status = find_runs(store, argv + optind, (size_t)(argc - optind), &arena, &request, &err);
    if (!status) status = export_all(store, &request, &err);
    store_close(store);
    arena_release(&arena);
    return status ? command_fail(&err) : 0;
}
