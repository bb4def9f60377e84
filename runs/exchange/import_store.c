/* See import_store.h. Rows are read through a handle of the other store and written through ours. If its
 * schema is older, a copy of its database in a temporary folder is migrated and read instead. */
#include "runs/exchange/import_store.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "runs/exchange/import_stage.h"
#include "runs/listing.h"
#include "runs/recovery.h"

enum { ROWS_AT_ONCE = 1000 };

struct transfer {
    struct store *to, *from;
    char copy[PATH_MAX]; /* the temporary folder; "": there is none */
    const struct store_import *request;
    struct import_turns turns; /* the transactions that store a run */
    struct imported_run *runs; /* so far */
    size_t count;
    struct err *err;
};

/* ---- opening ---- */

/* Copies the database into a temporary folder, where it is migrated when it is opened. */
static enum status copy_database(struct transfer *t)
{
    char path[PATH_MAX];
    sqlite3 *copy = NULL;
    enum status status =
        file_format_path(t->copy, sizeof t->copy, t->err, "%s/import-XXXXXX", store_home(t->to));
    if (!status && !mkdtemp(t->copy)) {
        status = err_set(t->err, STATUS_IO, "%s: cannot create: %s", t->copy, strerror(errno));
        t->copy[0] = '\0';
    }
    if (!status) status = file_format_path(path, sizeof path, t->err, "%s/anneal.db", t->copy);
    if (status) return status;
    bool copied = sqlite3_open(path, &copy) == SQLITE_OK;
    sqlite3_backup *backup = copied ? sqlite3_backup_init(copy, "main", t->from->db, "main") : NULL;
    copied = backup && sqlite3_backup_step(backup, -1) == SQLITE_DONE;
    if (sqlite3_backup_finish(backup) != SQLITE_OK) copied = false;
    if (!copied)
        status = err_set(t->err, STATUS_IO, "%s: cannot copy the database of %s: %s", path,
                         store_home(t->from), copy ? sqlite3_errmsg(copy) : "not enough memory");
    sqlite3_close(copy);
    return status;
}

static enum status open_source(struct transfer *t)
{
    char there[PATH_MAX], here[PATH_MAX], *whole = realpath(t->request->folder, there);
    int64_t version;
    if (!whole)
        return err_set(t->err, STATUS_NOT_FOUND, "%s: cannot open: %s", t->request->folder, strerror(errno));
    if (realpath(store_home(t->to), here) && strcmp(here, there) == 0)
        return err_set(t->err, STATUS_USAGE, "%s: is this store itself (name the folder of another one)",
                       t->request->folder);
    enum status status = store_open(there, STORE_FOREIGN, &t->from, t->err);
    if (!status) status = store_number(t->from, &version, 0, t->err, "pragma user_version", "");
    if (status || version == STORE_VERSION) return status;
    status = copy_database(t);
    store_close(t->from);
    t->from = NULL;
    if (!status) status = store_open(t->copy, STORE_APART, &t->from, t->err);
    if (!status) snprintf(t->from->home, sizeof t->from->home, "%s", there); /* of the folders of runs */
    if (*t->copy)
        file_remove_tree(t->copy, NULL); /* it stays open: nothing is left of an import that is killed */
    return status;
}

/* ---- rows ---- */

static bool is_copied(const struct column_info *column)
{
    bool counted = strcmp(column->name, "id") == 0 && column_is_integer(column); /* SQLite gives a new one */
    return !counted && !strstr(column->sql, " as (");
}

/* The id here of a run that was imported before. */
static const char *id_here(const struct transfer *t, const char *from)
{
    for (size_t k = 0; from && k < t->count; k++)
        if (strcmp(t->runs[k].from, from) == 0) return t->runs[k].id;
    return from;
}

/* Binds column i of a row. */
static void bind_column(struct transfer *t, sqlite3_stmt *to, int index, sqlite3_stmt *row, int i,
                        const struct column_info *column, const char *id)
{
    if (column->place && column_is_text(column))
        store_bind_text(to, index, id);
    else if (column == COLUMN(RUNS, parent_id))
        store_bind_text(to, index, id_here(t, (const char *)sqlite3_column_text(row, i)));
    else
        sqlite3_bind_value(to, index, sqlite3_column_value(row, i));
}

static enum status copy_table(struct transfer *t, enum store_table which, const char *from, const char *id)
{
    const struct table_info *table = &store_tables[which];
    const struct column_info *columns[COLUMNS_MAX];
    char names[700] = "", marks[200] = "", sql[1000];
    sqlite3_stmt *select, *insert;
    int count = 0, rows = 0;
    for (int c = table->first; c < table->end; c++) {
        if (!is_copied(&store_columns[c])) continue;
        text_add(names, sizeof names, ", ", "%s", store_columns[c].name);
        text_add(marks, sizeof marks, ", ", "?");
        columns[count++] = &store_columns[c];
    }
    snprintf(sql, sizeof sql, "select %s from %s where run_id = ?1 order by %s", names, table->name,
             table->order);
    enum status status = store_query(t->from, &select, t->err, sql, "s", from);
    snprintf(sql, sizeof sql, "insert or replace into %s(%s) values(%s)", table->name, names, marks);
    if (!status) status = store_prepare(t->to, sql, &insert, t->err);
    while (store_next(t->from, select, &status, t->err)) {
        for (int i = 0; i < count; i++) bind_column(t, insert, i + 1, select, i, columns[i], id);
        status = store_run(t->to, insert, t->err);
        if (!status && ++rows % ROWS_AT_ONCE == 0) status = import_next_turn(&t->turns);
    }
    return status;
}

/* All columns of the row but id and name, which were chosen when it was made. */
static enum status copy_row(struct transfer *t, const char *from, const char *id)
{
    const struct column_info *columns[COLUMNS_MAX];
    char names[700] = "", sets[900] = "", sql[1000];
    sqlite3_stmt *select, *update;
    int count = 0;
    for (int c = FIRST_RUNS; c < END_RUNS; c++) {
        if (c == COLUMN_RUNS_id || c == COLUMN_RUNS_name || !is_copied(&store_columns[c])) continue;
        text_add(names, sizeof names, ", ", "%s", store_columns[c].name);
        text_add(sets, sizeof sets, ", ", "%s = ?%d", store_columns[c].name, count + 2);
        columns[count++] = &store_columns[c];
    }
    snprintf(sql, sizeof sql, "select %s from runs where id = ?1", names);
    enum status status = store_query(t->from, &select, t->err, sql, "s", from);
    if (!store_next(t->from, select, &status, t->err)) return status;
    snprintf(sql, sizeof sql, "update runs set %s where id = ?1", sets);
    status = store_query(t->to, &update, t->err, sql, "s", id);
    for (int i = 0; !status && i < count; i++) bind_column(t, update, i + 2, select, i, columns[i], id);
    if (!status) status = store_run(t->to, update, t->err);
    sqlite3_reset(select);
    return status;
}

/* ---- files ---- */

/* Copies the regular files of a folder into a new one, which appears whole. */
static enum status copy_folder(const char *from, const char *to, struct err *err)
{
    char temporary[PATH_MAX], a[PATH_MAX], b[PATH_MAX];
    struct stat found;
    enum status status = file_format_path(temporary, sizeof temporary, err, "%s.tmp-%d", to, (int)getpid());
    DIR *folder = opendir(from);
    if (!folder) return err_set(err, STATUS_IO, "%s: cannot open: %s", from, strerror(errno));
    if (!status) status = file_make_folders(temporary, err);
    for (const struct dirent *entry; !status && (entry = readdir(folder));) {
        status = file_format_path(a, sizeof a, err, "%s/%s", from, entry->d_name);
        if (!status) status = file_format_path(b, sizeof b, err, "%s/%s", temporary, entry->d_name);
        if (!status && lstat(a, &found) == 0 && S_ISREG(found.st_mode)) status = file_copy(a, b, err);
    }
    closedir(folder);
    if (!status && rename(temporary, to) != 0)
        status = err_set(err, STATUS_IO, "%s: cannot create: %s", to, strerror(errno));
    if (status) file_remove_tree(temporary, NULL);
    return status;
}

static enum status bring_checkpoint(struct transfer *t, const struct imported_run *run, const char *path)
{
    char from[PATH_MAX], to[PATH_MAX], parent[PATH_MAX];
    enum status status = run_path(t->from, run->from, path, from, t->err);
    if (!status) status = run_path(t->to, run->id, path, to, t->err);
    if (status || !import_stays_inside(path) || !file_is_folder(from) || file_exists(to)) return status;
    snprintf(parent, sizeof parent, "%s", to);
    *strrchr(parent, '/') = '\0';
    status = file_make_folders(parent, t->err);
    if (status) return status;
    if (t->request->checkpoints == CHECKPOINTS_COPY) return copy_folder(from, to, t->err);
    return symlink(from, to) == 0 ? STATUS_OK
                                  : err_set(t->err, STATUS_IO, "%s: cannot create: %s", to, strerror(errno));
}

static enum status bring_checkpoints(struct transfer *t, const struct imported_run *run)
{
    sqlite3_stmt *select;
    enum status status = store_query(t->to, &select, t->err,
                                     "select distinct path from checkpoints where run_id = ?1", "s", run->id);
    while (store_next(t->to, select, &status, t->err)) {
        const char *path = (const char *)sqlite3_column_text(select, 0);
        if (path) status = bring_checkpoint(t, run, path);
    }
    return status;
}

/* The log is text for people: a run without one is whole. */
static enum status bring_log(struct transfer *t, const struct imported_run *run)
{
    char from[PATH_MAX], to[PATH_MAX];
    struct stat found;
    enum status status = run_path(t->from, run->from, "log.txt", from, t->err);
    if (!status) status = run_path(t->to, run->id, "log.txt", to, t->err);
    if (status || lstat(from, &found) != 0 || !S_ISREG(found.st_mode)) return status;
    return file_copy(from, to, t->err);
}

/* ---- runs ---- */

/* Copies all that is recorded; the row comes last, and with it the run is complete. */
static enum status copy_rows(struct transfer *t, const struct imported_run *run)
{
    enum status status = import_first_turn(&t->turns);
    for (int i = 0; !status && i < TABLE_COUNT; i++)
        if (i != TABLE_RUNS) status = copy_table(t, (enum store_table)i, run->from, run->id);
    if (!status) status = bring_log(t, run);
    if (!status && t->request->checkpoints != CHECKPOINTS_NONE) {
        status = store_commit(t->to, t->err); /* copying files takes long */
        if (!status) status = bring_checkpoints(t, run);
        if (!status) status = import_first_turn(&t->turns);
    }
    if (!status) status = copy_row(t, run->from, run->id);
    return store_end(t->to, status, t->err);
}

static enum status copy_run(struct transfer *t, const struct run_info *info, const char *incomplete,
                            struct imported_run *run)
{
    struct run_new made = {.name = info->name, .config = ""};
    struct run_lock lock = {-1};
    const char *stem = import_is_id(info->id) ? info->id : NULL;
    enum status status =
        import_begin_run(&t->turns, &made, info->created_at, stem, incomplete, run->id, &lock);
    if (status) return status;
    status = copy_rows(t, run);
    run_lock_release(&lock);
    if (status) (void)run_delete(t->to, run->id, NULL);
    return status;
}

/* Finds the run here, if it was imported before: by its id or, where another run has that, by the one with
 * -2, -3, ... that was made from it. */
static enum status find_here(struct transfer *t, const struct run_info *info, struct imported_run *run)
{
    struct run_info other;
    char id[RUN_ID_MAX];
    sqlite3_stmt *select;
    enum status status =
        store_query(t->to, &select, t->err,
                    "select id, steps from runs where id >= ?1 and id < ?1 || '.' and created_at = ?2"
                    " order by id",
                    "sd", info->id, info->created_at);
    while (run->what != RUN_IS_HERE && store_next(t->to, select, &status, t->err)) {
        store_column_text(select, 0, id, sizeof id);
        run->steps = sqlite3_column_int64(select, 1);
        /* one of the other store may be called so, too */
        if (strcmp(id, info->id) != 0 && run_get(t->from, id, &other, NULL) != STATUS_NOT_FOUND) continue;
        run->what = RUN_IS_HERE;
        memcpy(run->id, id, sizeof id);
    }
    sqlite3_reset(select);
    return status;
}

static enum status import_run(struct transfer *t, const struct run_info *info)
{
    struct imported_run *run = &t->runs[t->count];
    *run = (struct imported_run){.what = RUN_IMPORTED, .steps_there = info->steps};
    memcpy(run->from, info->id, sizeof run->from);
    memcpy(run->id, info->id, sizeof run->id);
    if (strchr(info->id, '/') || !*info->id)
        return err_set(t->err, STATUS_CORRUPT,
                       "run %.80s: its id cannot be the name of a folder (a damaged database?)",
                       CLEAN_LINE(info->id));
    char incomplete[RUN_ID_MAX + 80];
    snprintf(incomplete, sizeof incomplete, RUN_PARTIAL "import of %s from another store (import it again)",
             info->id);
    enum status status = import_remove_incomplete(&t->turns, incomplete);
    if (!status) status = find_here(t, info, run);
    if (status) return status;
    bool found;
    int64_t waiting;
    if (run_is_alive(t->from, info->id))
        run->what = RUN_IS_TRAINED;
    else if (run->what == RUN_IMPORTED &&
             (recovery_look(t->from, info->id, &found, &waiting, NULL) || waiting))
        run->what = RUN_IS_PARTIAL;
    else if (run->what == RUN_IMPORTED)
        status = copy_run(t, info, incomplete, run);
    if (!status) t->count++;
    return status;
}

static enum status import_listed(struct transfer *t, const struct listing *listing, struct arena *arena)
{
    enum status status = filter_check(&listing->filter, t->request->filter, t->err);
    if (status) return status;
    t->runs = arena_alloc_array(arena, listing->shown_count + 1, sizeof *t->runs);
    if (!t->runs) status = err_no_memory(t->err, "importing runs");
    for (size_t i = listing->shown_count; !status && i-- > 0;) /* the newest come first in the list */
        status = import_run(t, &listing->runs[listing->shown[i]]);
    return status;
}

enum status import_store(struct store *store, const struct store_import *request, struct arena *arena,
                         struct imported_run **out, size_t *count, struct err *err)
{
    struct transfer t = {.to = store, .request = request, .turns = {store, err, 0}, .err = err};
    struct listing listing = {0};
    int lock;
    enum status status = import_lock(store, &lock, err);
    if (!status) status = open_source(&t);
    if (!status) status = listing_read(&listing, t.from, err);
    if (!status)
        status =
            listing_set(&listing, t.from, &(struct listing_request){.filter = request->filter}, true, err);
    if (!status) status = import_listed(&t, &listing, arena);
    *out = t.runs;
    *count = t.count;
    listing_release(&listing);
    store_close(t.from);
    if (lock >= 0) close(lock);
    return status;
}
