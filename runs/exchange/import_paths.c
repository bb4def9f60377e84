/* See import_paths.h. TensorBoard takes every folder with event files for a run of its own. Here they are
 * parts of one run, whose names begin with those of their folders: `validation/loss`. What a program takes
 * back when it starts again is of its own folder, so each part is staged apart from those before it, as
 * segment 2, and joins them at its end. */
#include "runs/exchange/import_paths.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "runs/exchange/record_file.h"
#include "runs/spill.h"

/* ---- a file ---- */

/* Skips a byte order mark. Returns whether the first line is one of llm.c's log, "s:0 …"; leaves the stream
 * at its beginning. */
static bool is_llmc(FILE *file)
{
    int c = getc(file);
    if (c == 0xEF && (c = getc(file)) == 0xBB && (c = getc(file)) == 0xBF) c = getc(file);
    if (c != EOF) ungetc(c, file);
    long begin = ftell(file);
    char word[4] = "";
    bool llmc = fgets(word, sizeof word, file) && strncmp(word, "s:", 2) == 0 &&
                ((word[2] >= '0' && word[2] <= '9') || word[2] == '-');
    return fseek(file, begin, SEEK_SET) == 0 && llmc;
}

/* Whether the first sign of what follows is that of an object or a list. */
static bool is_json(FILE *file)
{
    long begin = ftell(file);
    int c;
    while ((c = getc(file)) == ' ' || c == '\t' || c == '\n' || c == '\r') continue;
    return fseek(file, begin, SEEK_SET) == 0 && (c == '{' || c == '[');
}

static enum status read_records(struct import *import, struct record_file *file)
{
    enum status status =
        file->form == RECORDS_WANDB ? import_read_wandb(import, file) : import_read_events(import, file);
    if (!status && file->cut)
        text_add(import->remark, sizeof import->remark, "; ",
                 "%.120s: ends within a record, which was left out (its program was killed, or still writes)",
                 file->path);
    return status;
}

static enum status read_file(struct import *import, const char *path)
{
    struct err *err = import->err;
    import->path = path;
    import->line = 1;
    struct record_file records;
    enum status status = record_file_open(&records, path, err);
    if (!status && spill_is_file(records.map.data, records.map.size))
        status =
            err_set(err, STATUS_USAGE,
                    "%s: holds records of a run (copy its folder into %.200s/runs, then: %s doctor --repair)",
                    path, store_home(import->store), TEXT_PROGRAM);
    if (!status && records.form != RECORDS_NONE) status = read_records(import, &records);
    bool done = status || records.form != RECORDS_NONE;
    record_file_close(&records);
    if (done) return status;
    FILE *file = fopen(path, "re");
    if (!file)
        return err_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s: cannot open: %s", path,
                       strerror(errno));
    if (is_llmc(file)) {
        status = import_set_kind(import, IMPORT_LLMC);
        if (!status) status = import_read_llmc(import, file);
    } else if (is_json(file)) {
        status = import_read_json(import);
    } else {
        status = import_read_csv(import, file);
    }
    fclose(file);
    return status;
}

/* ---- parts of a run ---- */

/* Adds the staged rows of segment 2 to those of segment 1. No value is in both, as no metric is in two parts.
 */
static enum status join_rows(struct import *import, enum store_table which)
{
    const char *table = store_tables[which].name;
    char names[400] = "", values[900] = "", sql[1800];
    for (int i = store_tables[which].first; i < store_tables[which].end; i++) {
        const struct column_info *c = &store_columns[i];
        if (!c->field || strcmp(c->name, "step") == 0) continue;
        text_add(names, sizeof names, ", ", "%s", c->name);
        text_add(values, sizeof values, ", ", "%s = ifnull(%s, excluded.%s)", c->name, c->name, c->name);
    }
    snprintf(sql, sizeof sql,
             "insert into temp.stage_%s(run_id, segment, step, nan, %s)"
             " select run_id, 1, step, nan, %s from temp.stage_%s where segment = 2"
             " on conflict(segment, step) do update set nan = nan | excluded.nan, %s;"
             " delete from temp.stage_%s where segment = 2",
             table, names, names, table, values, table);
    return store_exec(import->store, sql, import->err);
}

/* Ends the part that is being read, if any, and begins the next: what is in this folder. */
static enum status begin_part(struct import *import, const char *folder, const char *name)
{
    enum status status = STATUS_OK;
    if (strcmp(import->folder, folder) == 0) return STATUS_OK;
    if (import->segment == 2) status = join_rows(import, TABLE_STEPS);
    if (!status && import->segment == 2) status = join_rows(import, TABLE_EVALS);
    if (!status && import->segment == 2)
        status = store_exec(import->store,
                            "update or replace temp.stage_measures set segment = 1 where segment = 2",
                            import->err);
    import->segment = *import->folder ? 2 : 1;
    snprintf(import->folder, sizeof import->folder, "%s", folder);
    snprintf(import->part, sizeof import->part, "%s", name);
    return status;
}

/* Whether a folder is called as those in which a program logs its training and its evaluations apart. */
static bool is_part(const char *name)
{
    static const char *const names[] = {"train",      "training", "val",        "valid",
                                        "validation", "eval",     "evaluation", "test"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(name, names[i]) == 0) return true;
    return false;
}

/* ---- folders ---- */

/* Names that other programs give to what they log. */
static int is_events(const struct dirent *entry)
{
    return strncmp(entry->d_name, "events.out.tfevents.", 20) == 0;
}

static int is_log(const struct dirent *entry)
{
    return is_events(entry) || text_ends_with(entry->d_name, ".wandb");
}

/* The entries of a folder by name, with numbers in their order, which the caller frees; NULL: there are none.
 */
static struct dirent **list_folder(const char *path, int (*filter)(const struct dirent *), int *count)
{
    struct dirent **entries = NULL;
    *count = scandir(path, &entries, filter, versionsort);
    if (*count < 0) *count = 0;
    return entries;
}

/* Whether there is no permission to read what is in a folder. */
static bool is_closed(const char *folder)
{
    return faccessat(AT_FDCWD, folder, R_OK | X_OK, AT_EACCESS) != 0;
}

static void free_list(struct dirent **entries, int count)
{
    for (int i = 0; i < count; i++) free(entries[i]);
    free(entries);
}

/* Reads the logs in a folder that pass, the oldest first; *found: how many there are. */
static enum status read_logs(struct import *import, const char *folder, const char *part,
                             int (*filter)(const struct dirent *), int *found)
{
    char file[PATH_MAX];
    if (is_closed(folder))
        return err_set(import->err, STATUS_IO, "%s: cannot open: %s", folder, strerror(errno));
    struct dirent **logs = list_folder(folder, filter, found);
    enum status status = *found ? begin_part(import, folder, part) : STATUS_OK;
    for (int i = 0; !status && i < *found; i++) {
        status = file_format_path(file, sizeof file, import->err, "%s/%s", folder, logs[i]->d_name);
        if (!status) status = read_file(import, file);
    }
    free_list(logs, *found);
    return status;
}

enum { DEPTH_MAX = 8 };

static bool is_own_folder(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && S_ISDIR(info.st_mode); /* no link, which could lead in a circle */
}

/* Reads TensorBoard's logs in the folders below one, as parts. */
static enum status read_parts(struct import *import, const char *folder, const char *part, int depth)
{
    char path[PATH_MAX], name[sizeof import->part];
    int count, found;
    struct dirent **entries = list_folder(folder, file_is_visible, &count);
    enum status status = STATUS_OK;
    for (int i = 0; !status && i < count; i++) {
        status = file_format_path(path, sizeof path, import->err, "%s/%s", folder, entries[i]->d_name);
        if (status || !is_own_folder(path)) continue;
        snprintf(name, sizeof name, "%s%s%s", part, *part ? "/" : "", entries[i]->d_name);
        status = read_logs(import, path, name, is_events, &found);
        if (!status && depth < DEPTH_MAX) status = read_parts(import, path, name, depth + 1);
    }
    free_list(entries, count);
    return status;
}

static bool has_logs(const char *folder)
{
    int count;
    struct dirent **logs = list_folder(folder, is_log, &count);
    free_list(logs, count);
    return count > 0;
}

/* The first folder in `path` that has logs, with a slash behind; "": none has. *parts: all that have any are
 * parts of a run of TensorBoard. */
static void find_logs(const char *path, char *buf, size_t size, bool *parts)
{
    char folder[PATH_MAX];
    int count;
    struct dirent **entries = list_folder(path, file_is_visible, &count);
    *buf = '\0';
    *parts = true;
    for (int i = 0; i < count; i++) {
        if (file_format_path(folder, sizeof folder, NULL, "%s/%s", path, entries[i]->d_name) ||
            !is_own_folder(folder)) /* wandb's latest-run is a link to another one */
            continue;
        bool found = has_logs(folder);
        if (found && !*buf) snprintf(buf, size, "%s/", entries[i]->d_name);
        if (found) *parts = *parts && is_part(entries[i]->d_name);
    }
    free_list(entries, count);
    *parts = *parts && *buf;
}

/* Whether Lightning's CSVLogger has written to a folder: `file` is what it writes. */
static bool has_table(const char *folder, char file[PATH_MAX])
{
    return !file_format_path(file, PATH_MAX, NULL, "%s/metrics.csv", folder) && file_exists(file);
}

/* Reads what is in a folder. */
static enum status read_folder(struct import *import, const char *path, const char *part)
{
    char inside[NAME_MAX + 2], table[PATH_MAX];
    const char *slash = path[strlen(path) - 1] == '/' ? "" : "/";
    int found = 0;
    bool parts = true;
    enum status status = read_logs(import, path, part, is_log, &found);
    if (!status && !found) find_logs(path, inside, sizeof inside, &parts);
    if (!status && (found ? import->kind == IMPORT_TENSORBOARD : parts))
        status = read_parts(import, path, part, 1);
    bool is_table = !status && !found && !parts && has_table(path, table);
    if (is_table) status = begin_part(import, path, part);
    if (is_table && !status) status = read_file(import, table);
    import->path = path; /* those of the files in it end here */
    if (status || found || parts || is_table) return status;
    if (*inside)
        return err_set(import->err, STATUS_USAGE,
                       "%s: has logs in its folders (name one of these, such as %s%s%s)", path, path, slash,
                       inside);
    return err_set(import->err, STATUS_USAGE,
                   "%s: is a folder without logs of TensorBoard, wandb or Lightning (name a file: %s%s*.csv)",
                   path, path, slash);
}

/* ---- all of them ---- */

void import_folder_of(const char *path, char folder[PATH_MAX], char name[PATH_MAX])
{
    char whole[PATH_MAX];
    if (!realpath(path, whole)) snprintf(whole, sizeof whole, "%s", path);
    snprintf(folder, PATH_MAX, "%s", file_is_folder(whole) ? whole : dirname(whole));
    snprintf(whole, sizeof whole, "%s", folder);
    snprintf(name, PATH_MAX, "%s", basename(whole));
}

/* Whether the paths are in several folders, and *strangers: whether these are not parts of one run. */
static bool in_several_folders(const char *const *paths, size_t count, bool *strangers)
{
    char folder[PATH_MAX], name[PATH_MAX], other[PATH_MAX], other_name[PATH_MAX];
    bool several = false;
    *strangers = false;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++) {
            import_folder_of(paths[i], folder, name);
            import_folder_of(paths[k], other, other_name);
            if (strcmp(folder, other) == 0) continue;
            several = true;
            *strangers |= !is_part(name) || !is_part(other_name) || strcmp(name, other_name) == 0;
        }
    return several;
}

enum status import_read_paths(struct import *import, const char *const *paths, size_t count)
{
    char folder[PATH_MAX], name[PATH_MAX];
    enum status status = STATUS_OK;
    import->several = in_several_folders(paths, count, &import->strangers);
    for (size_t i = 0; !status && i < count; i++) {
        import_folder_of(paths[i], folder, name);
        if (file_is_folder(paths[i])) {
            status = read_folder(import, paths[i], import->several ? name : "");
        } else {
            status = begin_part(import, folder, import->several ? name : "");
            if (!status) status = read_file(import, paths[i]);
        }
    }
    return status ? status : begin_part(import, "", "");
}

/* ---- the runs in folders ---- */

struct search {
    struct arena *arena;
    struct import_source *runs;
    size_t count;
    struct err *err;
};

static enum status add_run(struct search *search, const char *folder, const char *name)
{
    struct import_source *run = arena_grow(search->arena, &search->runs, search->count, sizeof *run);
    if (run)
        *run = (struct import_source){arena_strdup(search->arena, folder), arena_strdup(search->arena, name)};
    if (!run || !run->folder || !run->name) return err_no_memory(search->err, "the list of runs");
    search->count++;
    return STATUS_OK;
}

/* Adds the run whose logs or table are in this folder, or whose logs are in parts of it; else the runs in the
 * folders below. A folder that cannot be read is added, too, so that its import says so. `name`: "" for the
 * folder where the search began. */
static enum status search_folder(struct search *search, const char *folder, const char *name, int depth)
{
    char path[PATH_MAX], inside[NAME_MAX + 2];
    int count;
    bool parts;
    find_logs(folder, inside, sizeof inside, &parts);
    if (parts || has_logs(folder) || has_table(folder, path) || is_closed(folder))
        return add_run(search, folder, name);
    struct dirent **entries = list_folder(folder, file_is_visible, &count);
    enum status status = STATUS_OK;
    for (int i = 0; !status && depth < DEPTH_MAX && i < count; i++) {
        const char *entry = entries[i]->d_name, *slash = folder[strlen(folder) - 1] == '/' ? "" : "/";
        status = file_format_path(path, sizeof path, search->err, "%s%s%s", folder, slash, entry);
        const char *below = arena_printf(search->arena, "%s%s%s", name, *name ? "/" : "", entry);
        if (!below) status = err_no_memory(search->err, "the list of runs");
        if (!status && is_own_folder(path)) status = search_folder(search, path, below, depth + 1);
    }
    free_list(entries, count);
    return status;
}

enum status import_find(const char *const *paths, size_t path_count, struct arena *arena,
                        struct import_source **out, size_t *count, struct err *err)
{
    struct search search = {.arena = arena, .err = err};
    char folder[PATH_MAX], name[PATH_MAX];
    bool strangers, folders = true;
    enum status status = STATUS_OK;
    *count = 0;
    for (size_t i = 0; i < path_count; i++) folders = folders && file_is_folder(paths[i]);
    if (!folders || (in_several_folders(paths, path_count, &strangers) && !strangers)) return STATUS_OK;
    for (size_t i = 0; !status && i < path_count; i++) {
        size_t before = search.count;
        import_folder_of(paths[i], folder, name);
        status = search_folder(&search, paths[i], path_count > 1 ? name : "", 0);
        if (!status && search.count == before && path_count > 1)
            status = add_run(&search, paths[i], name); /* its import says that it has no logs */
    }
    *out = search.runs;
    if (!status && search.count && *search.runs[0].name) *count = search.count;
    return status;
}
