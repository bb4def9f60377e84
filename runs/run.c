/* See run.h: creating and deleting runs, and reading the table `runs`. How a user's word becomes a run is in
 * run_find.c. */
#include "runs/run.h"

#include <errno.h>
#include <ini.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "runs/database.h"
#include "runs/run_row.h"
#include "runs/schema.h"

enum { LOCKED_WITHIN_SECONDS = 10 };

static const char *const status_names[] = {"created",       "running", "paused", "finished",
                                           "early_stopped", "stopped", "failed", "crashed"};

const char *run_status_name(enum run_status status)
{
    return status_names[status];
}

void run_folder(struct store *store, const char *id, char *buf, size_t size)
{
    snprintf(buf, size, "%s/runs/%s", store_home(store), id);
}

void run_row_read(struct store *store, sqlite3_stmt *row, struct run_info *out)
{
    char status[24];
    *out = (struct run_info){0};
    store_column_text(row, 0, out->id, sizeof out->id);
    store_column_text(row, 1, out->name, sizeof out->name);
    store_column_text(row, 2, status, sizeof status);
    out->status = RUN_FAILED; /* a word that nobody should have written */
    for (size_t i = 0; i < sizeof status_names / sizeof *status_names; i++)
        if (strcmp(status, status_names[i]) == 0) out->status = (enum run_status)i;
    out->created_at = store_column_double(row, 3);
    out->ended_at = store_column_double(row, 4);
    store_column_text(row, 5, out->device, sizeof out->device);
    store_column_text(row, 6, out->precision, sizeof out->precision);
    out->parameters = store_column_int(row, 7, -1);
    out->steps = store_column_int(row, 8, -1);
    out->tokens = store_column_int(row, 9, -1);
    out->loss_recorded = sqlite3_column_type(row, 10) != SQLITE_NULL;
    out->final_loss = sqlite3_column_type(row, 10) == SQLITE_TEXT ? NAN : store_column_double(row, 10);
    out->best_val_loss = store_column_double(row, 11);
    out->best_step = store_column_int(row, 12, -1);
    out->tokens_per_sec = store_column_double(row, 13);
    out->total_steps = store_column_int(row, 14, -1);
    out->segment = (int)sqlite3_column_int64(row, 15);
    out->pid = store_column_int(row, 16, -1);
    out->heartbeat = store_column_double(row, 17);
    store_column_text(row, 18, out->message, sizeof out->message);
    out->elapsed = store_column_double(row, 19);
    if (isnan(out->elapsed)) out->elapsed = 0; /* no trainer yet */
    store_column_text(row, 20, out->parent_id, sizeof out->parent_id);
    out->parent_step = store_column_int(row, 21, -1);
    /* between its row and its lock lie milliseconds: one that has only the row has died there */
    bool began = out->status == RUN_RUNNING || out->status == RUN_PAUSED ||
                 (out->status == RUN_CREATED && clock_wall() - out->created_at > LOCKED_WITHIN_SECONDS);
    if (began && !run_is_alive(store, out->id)) out->status = RUN_CRASHED;
}

enum status run_list(struct store *store, struct arena *arena, struct run_info **out, size_t *count,
                     struct err *err)
{
    sqlite3_stmt *statement;
    struct run_info *runs = NULL;
    size_t used = 0, capacity = 0;
    bool row;
    enum status status =
        store_prepare(store, RUN_ROW_SELECT " order by created_at desc, rowid desc", &statement, err);
    if (status) return status;
    while (!(status = store_step(store, statement, &row, err)) && row) {
        if (used == capacity) {
            capacity = capacity ? 2 * capacity : 16;
            struct run_info *grown = arena_alloc_array(arena, capacity, sizeof *grown);
            if (!grown) {
                sqlite3_reset(statement);
                return err_set(err, STATUS_NO_MEMORY, "listing runs: not enough memory");
            }
            if (used) memcpy(grown, runs, used * sizeof *runs);
            runs = grown;
        }
        run_row_read(store, statement, &runs[used++]);
    }
    if (status) return status;
    *out = runs;
    *count = used;
    return STATUS_OK;
}

enum status run_config(struct store *store, const char *id, char **out, struct err *err)
{
    sqlite3_stmt *statement;
    bool row;
    enum status status = store_prepare(store, "select config from runs where id = ?1", &statement, err);
    if (status) return status;
    store_bind_text(statement, 1, id);
    status = store_step(store, statement, &row, err);
    if (status) return status;
    if (!row) return err_set(err, STATUS_NOT_FOUND, "run %s: there is no such run", id);
    const char *config = (const char *)sqlite3_column_text(statement, 0);
    char *copy = strdup(config ? config : "");
    sqlite3_reset(statement);
    if (!copy) return err_set(err, STATUS_NO_MEMORY, "run %s: not enough memory", id);
    *out = copy;
    return STATUS_OK;
}

_Static_assert(NAN_RUN_FINAL_LOSS == 1, "RUN_ROW_SELECT asks for this bit");

/* ---- creating ---- */

/* Letters, digits, '.', '_' and '-' stay; runs of anything else become one '-'; never empty, never hidden. */
static void clean_name(const char *name, char *buf, size_t size)
{
    size_t n = 0;
    for (; name && *name && n + 1 < size; name++) {
        unsigned char c = (unsigned char)*name;
        bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
                     c == '.';
        if (plain && (n || c != '.'))
            buf[n++] = (char)c;
        else if (n && buf[n - 1] != '-')
            buf[n++] = '-';
    }
    while (n && (buf[n - 1] == '-' || buf[n - 1] == '.')) n--;
    buf[n] = '\0';
    if (n == 0) snprintf(buf, size, "run");
}

struct params {
    struct store *store;
    const char *id;
    enum status status;
    struct err *err;
};

static int add_param(void *context, const char *section, const char *key, const char *value)
{
    struct params *params = context;
    char name[160];
    sqlite3_stmt *insert;
    if (params->status || !key) return 1;
    snprintf(name, sizeof name, "%s%s%s", section, *section ? "." : "", key);
    params->status =
        store_prepare(params->store, "insert or replace into params(run_id, name, value) values(?1, ?2, ?3)",
                      &insert, params->err);
    if (params->status) return 1;
    store_bind_text(insert, 1, params->id);
    store_bind_text(insert, 2, name);
    store_bind_text(insert, 3, value ? value : "");
    params->status = store_run(params->store, insert, params->err);
    return 1;
}

static enum status id_is_taken(struct store *store, const char *id, bool *taken, struct err *err)
{
    sqlite3_stmt *select;
    enum status status = store_prepare(store, "select 1 from runs where id = ?1", &select, err);
    if (status) return status;
    store_bind_text(select, 1, id);
    status = store_step(store, select, taken, err);
    sqlite3_reset(select);
    return status;
}

/* Makes runs/<id> for the first id that is free: <stem>, <stem>-2, <stem>-3, … Inside the transaction that
 * makes the row: so an empty folder without a row is nobody's, left by one that was killed here. */
static enum status claim_folder(struct store *store, const char *stem, char id[RUN_ID_MAX], struct err *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/runs", store_home(store));
    enum status status = file_make_folders(path, err);
    for (int attempt = 1; !status && attempt < 10000; attempt++) {
        bool taken = false;
        if (attempt == 1)
            snprintf(id, RUN_ID_MAX, "%s", stem);
        else
            snprintf(id, RUN_ID_MAX, "%.80s-%d", stem, attempt);
        status = id_is_taken(store, id, &taken, err);
        if (status || taken) continue;
        run_folder(store, id, path, sizeof path);
        if (mkdir(path, 0777) == 0) return STATUS_OK;
        if (errno == EEXIST && rmdir(path) == 0 && mkdir(path, 0777) == 0) return STATUS_OK;
        if (errno == ENOTEMPTY || errno == ENOTDIR) continue;
        if (errno != EEXIST)
            return err_set(err, STATUS_IO, "%s: cannot create the folder: %s", path, strerror(errno));
    }
    if (status) return status;
    return err_set(err, STATUS_FAILED, "run %s: there are too many of this name (choose another --name)",
                   stem);
}

static enum status insert_row(struct store *store, const struct run_new *run, const char *id,
                              const char *name, double created_at, struct err *err)
{
    sqlite3_stmt *insert;
    enum status status =
        store_prepare(store,
                      "insert into runs(id, name, status, created_at, device, precision, parameters, steps,"
                      " tokens, total_steps, config, parent_id, parent_step)"
                      " values(?1, ?2, 'created', ?3, ?4, ?5, ?6, coalesce(?10, 0), 0, ?7, ?8, ?9, ?10)",
                      &insert, err);
    if (status) return status;
    store_bind_text(insert, 1, id);
    store_bind_text(insert, 2, name);
    sqlite3_bind_double(insert, 3, created_at);
    store_bind_text(insert, 4, run->device ? run->device : "");
    store_bind_text(insert, 5, run->precision ? run->precision : "");
    if (run->parameters >= 0) sqlite3_bind_int64(insert, 6, run->parameters);
    sqlite3_bind_int64(insert, 7, run->total_steps);
    store_bind_text(insert, 8, run->config ? run->config : "");
    if (run->parent_id) {
        store_bind_text(insert, 9, run->parent_id);
        sqlite3_bind_int64(insert, 10, run->parent_step);
    }
    status = store_run(store, insert, err);
    struct params params = {store, id, status, err};
    if (!status && run->config) ini_parse_string(run->config, add_param, &params);
    return params.status;
}

enum status run_name_check(const char *name, struct err *err)
{
    if (strcmp(name, "latest") != 0) return STATUS_OK;
    return err_set(
        err, STATUS_USAGE,
        "--name latest: this word stands for the newest run in every command (choose another name)");
}

enum status run_row_create(struct store *store, const struct run_new *run, double created_at,
                           const char *stem, char id[RUN_ID_MAX], struct err *err)
{
    char name[RUN_NAME_MAX - 8], made[RUN_ID_MAX], time_text[24];
    time_t seconds = (time_t)created_at;
    struct tm local;
    id[0] = '\0';
    clean_name(run->name, name, sizeof name);
    if (run_name_check(name, err)) return STATUS_USAGE;
    if (!localtime_r(&seconds, &local) || !strftime(time_text, sizeof time_text, "%Y%m%d-%H%M%S", &local))
        return err_set(err, STATUS_FAILED, "run %s: its time %.3g is none", name, created_at);
    snprintf(made, sizeof made, "%s-%s", time_text, name);
    enum status status = store_begin(store, err);
    if (!status) status = claim_folder(store, stem ? stem : made, id, err);
    if (status)
        id[0] = '\0'; /* no folder of ours */
    else
        status = insert_row(store, run, id, name, created_at, err);
    if (status) run_row_abandon(store, id);
    return status;
}

void run_row_abandon(struct store *store, const char *id)
{
    char folder[PATH_MAX];
    store_rollback(store);
    if (!*id) return;
    run_folder(store, id, folder, sizeof folder);
    file_remove_tree(folder, NULL);
}

enum status run_create(struct store *store, const struct run_new *run, char id[RUN_ID_MAX], struct err *err)
{
    char own[RUN_ID_MAX];
    enum status status = run_row_create(store, run, clock_wall(), NULL, own, err);
    if (status) return status;
    status = store_commit(store, err);
    if (status)
        run_row_abandon(store, own);
    else
        memcpy(id, own, sizeof own);
    return status;
}

enum status run_reconfigure(struct store *store, const char *id, int64_t total_steps, const char *config,
                            struct err *err)
{
    sqlite3_stmt *update;
    enum status status = store_begin(store, err);
    if (status) return status;
    status =
        store_prepare(store, "update runs set total_steps = ?2, config = ?3 where id = ?1", &update, err);
    if (!status) {
        store_bind_text(update, 1, id);
        sqlite3_bind_int64(update, 2, total_steps);
        store_bind_text(update, 3, config);
        status = store_run(store, update, err);
    }
    struct params params = {store, id, status, err};
    if (!status) ini_parse_string(config, add_param, &params);
    status = params.status;
    if (!status) status = store_commit(store, err);
    store_rollback(store);
    return status;
}

/* ---- deleting ---- */

enum status run_delete(struct store *store, const char *id, struct err *err)
{
    static const char *const deletions[] = {
        "delete from runs where id = ?1",
        "delete from segments where run_id = ?1",
        "delete from params where run_id = ?1",
        "delete from tags where run_id = ?1",
        "delete from steps where run_id = ?1",
        "delete from evals where run_id = ?1",
        "delete from early_stopping where run_id = ?1",
        "delete from layer_profile where run_id = ?1",
        "delete from memory where run_id = ?1",
        "delete from gpu_samples where run_id = ?1",
        "delete from gpu_processes where run_id = ?1",
        "delete from samples where run_id = ?1",
        "delete from checkpoints where run_id = ?1",
        "delete from orders where run_id = ?1",
        "delete from events where run_id = ?1",
        "delete from rollup where run_id = ?1",
    };
    char folder[PATH_MAX];
    struct run_info info;
    struct run_lock lock;
    enum status status = run_row_find(store, id, &info, err);
    if (status) return status;
    if (strchr(id, '/'))
        return err_set(err, STATUS_CORRUPT, "run %s: an id has no '/' (a damaged database?)", id);
    status = run_lock_acquire(store, id, &lock, err);
    if (status) return status;
    status = store_begin(store, err);
    for (size_t i = 0; !status && i < sizeof deletions / sizeof *deletions; i++) {
        sqlite3_stmt *statement;
        status = store_prepare(store, deletions[i], &statement, err);
        if (status) break;
        store_bind_text(statement, 1, id);
        status = store_run(store, statement, err);
    }
    if (!status) status = store_commit(store, err);
    store_rollback(store);
    if (!status) {
        run_folder(store, id, folder, sizeof folder);
        status = file_remove_tree(folder, err);
    }
    run_lock_release(&lock);
    return status;
}
