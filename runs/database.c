/* See database.h. */
#include "runs/database.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"

#define LOCKED "the database is locked by another process (stop that process, then try again)"

/* For each SQLite code: what failed, whether the system gives a reason, and the remedy. */
static const struct {
    int code;
    enum status status;
    bool explained; /* `why` belongs to it */
    const char *what, *remedy;
} causes[] = {
    {SQLITE_BUSY, STATUS_BUSY, false, LOCKED, ""},
    {SQLITE_LOCKED, STATUS_BUSY, false, LOCKED, ""},
    {SQLITE_NOTADB, STATUS_CORRUPT, false, "is not a run database",
     " (move it away, or set ANNEAL_HOME to another folder)"},
    {SQLITE_CORRUPT, STATUS_CORRUPT, false, "the database is damaged", " " DATABASE_REMEDY},
    {SQLITE_FULL, STATUS_IO, false, "cannot write: the disk is full", " (free some space)"},
    {SQLITE_READONLY, STATUS_IO, false, "cannot write: the file or its folder is read-only",
     " (set ANNEAL_HOME to a folder you may write to)"},
    {SQLITE_PERM, STATUS_IO, true, "cannot write", " (set ANNEAL_HOME to a folder you may write to)"},
    {SQLITE_CANTOPEN, STATUS_IO, true, "cannot open", " (set ANNEAL_HOME to a folder you may write to)"},
    {SQLITE_IOERR, STATUS_IO, true, "cannot read or write", ""},
    {SQLITE_INTERRUPT, STATUS_INTERRUPTED, false, "interrupted", ""},
    {SQLITE_NOMEM, STATUS_NO_MEMORY, false, "not enough memory", ""},
    {SQLITE_OK, STATUS_FAILED, true, "SQLite failed", ""}, /* any other */
};

static enum status fail(const struct store *store, int code, struct err *err)
{
    size_t i = 0;
    while (causes[i].code != code && causes[i].code != SQLITE_OK) i++;
    int system = causes[i].status == STATUS_IO ? sqlite3_system_errno(store->db) : 0;
    const char *why = system ? strerror(system) : sqlite3_errmsg(store->db);
    const char *remedy = store->foreign ? " " FOREIGN_REMEDY : causes[i].remedy;
    errno = code == SQLITE_FULL ? ENOSPC : system; /* SQLite itself keeps none of a full disk */
    return err_set(err, causes[i].status, "%s: %s%s%s%s", store->path, causes[i].what,
                   causes[i].explained ? ": " : "", causes[i].explained ? why : "",
                   *causes[i].remedy ? remedy : "");
}

enum status store_error(const struct store *store, struct err *err)
{
    if (store->explain) return store->explain(store, err);
    int code = sqlite3_extended_errcode(store->db);
    if (code == SQLITE_IOERR_SHORT_READ) /* only of the log: pages that the database lacks are empty ones */
        return err_set(
            err, STATUS_IO,
            "%s-wal: was removed or cut while another process used the database (try again; if that "
            "does not help, stop that process)",
            store->path);
    return fail(store, code == SQLITE_IOERR_NOMEM ? SQLITE_NOMEM : code & 0xff, err);
}

enum status store_prepare(struct store *store, const char *sql, sqlite3_stmt **out, struct err *err)
{
    uint64_t hash = XXH64(sql, strlen(sql), 0);
    *out = NULL;
    for (size_t i = 0; i < store->statement_count; i++)
        if (store->statements[i].hash == hash && strcmp(store->statements[i].sql, sql) == 0) {
            *out = store->statements[i].handle;
            sqlite3_reset(*out);
            sqlite3_clear_bindings(*out);
            return STATUS_OK;
        }
    if (store->statement_count == STORE_STATEMENTS_MAX)
        return err_set(err, STATUS_FAILED, "%s: too many different SQL statements", store->path);
    sqlite3_stmt *statement;
    char *copy = strdup(sql);
    if (!copy) return err_no_memory(err, "%s", store->path);
    if (sqlite3_prepare_v3(store->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL) != SQLITE_OK) {
        free(copy);
        return store_error(store, err);
    }
    store->statements[store->statement_count].sql = copy;
    store->statements[store->statement_count].hash = hash;
    store->statements[store->statement_count++].handle = statement;
    *out = statement;
    return STATUS_OK;
}

static enum status query(struct store *store, sqlite3_stmt **out, struct err *err, const char *sql,
                         const char *types, va_list args)
{
    enum status status = store_prepare(store, sql, out, err);
    for (int i = 1; !status && types[i - 1]; i++) switch (types[i - 1]) {
        case 's':
            store_bind_text(*out, i, va_arg(args, const char *));
            break;
        case 'i':
            sqlite3_bind_int64(*out, i, va_arg(args, int64_t));
            break;
        case 'n':
            sqlite3_bind_int(*out, i, va_arg(args, int));
            break;
        default:
            store_bind_double(*out, i, va_arg(args, double));
        }
    return status;
}

enum status store_query(struct store *store, sqlite3_stmt **out, struct err *err, const char *sql,
                        const char *types, ...)
{
    va_list args;
    va_start(args, types);
    enum status status = query(store, out, err, sql, types, args);
    va_end(args);
    return status;
}

enum status store_do(struct store *store, struct err *err, const char *sql, const char *types, ...)
{
    sqlite3_stmt *statement;
    va_list args;
    va_start(args, types);
    enum status status = query(store, &statement, err, sql, types, args);
    va_end(args);
    return status ? status : store_run(store, statement, err);
}

enum status store_number(struct store *store, int64_t *out, int64_t absent, struct err *err, const char *sql,
                         const char *types, ...)
{
    sqlite3_stmt *select;
    va_list args;
    va_start(args, types);
    enum status status = query(store, &select, err, sql, types, args);
    va_end(args);
    bool row = store_next(store, select, &status, err);
    if (status) return status;
    *out = row ? store_column_int(select, 0, absent) : absent;
    sqlite3_reset(select);
    return STATUS_OK;
}

bool store_next(struct store *store, sqlite3_stmt *statement, enum status *status, struct err *err)
{
    int code = *status ? SQLITE_DONE : sqlite3_step(statement);
    if (code == SQLITE_ROW) return true;
    if (code != SQLITE_DONE) *status = store_error(store, err);
    sqlite3_reset(statement);
    return false;
}

enum status store_run(struct store *store, sqlite3_stmt *statement, struct err *err)
{
    enum status status = STATUS_OK;
    if (store_next(store, statement, &status, err)) sqlite3_reset(statement);
    return status;
}

enum status store_exec(struct store *store, const char *sql, struct err *err)
{
    return sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK ? STATUS_OK : store_error(store, err);
}

/* ---- the lock around writes and checkpoints ---- */

enum status store_lock(struct store *store, int patience_ms, struct err *err)
{
    double deadline = clock_monotonic() + patience_ms / 1000.0;
    struct timespec pause = {.tv_nsec = 500000};
    while (flock(store->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return err_set(err, STATUS_IO, "%s.lock: cannot lock: %s", store->path, strerror(errno));
        if (clock_monotonic() > deadline) return fail(store, SQLITE_BUSY, err);
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 8000000) pause.tv_nsec *= 2;
    }
    return STATUS_OK;
}

void store_unlock(struct store *store)
{
    flock(store->lock_fd, LOCK_UN);
}

enum status store_sync_commits(struct store *store, bool sync, struct err *err)
{
    if (sync == store->full_sync || store->mount.shared) return STATUS_OK; /* there all commits wait */
    enum status status =
        store_exec(store, sync ? "pragma synchronous = full" : "pragma synchronous = normal", err);
    if (!status) store->full_sync = sync;
    return status;
}

enum status store_sync_now(const struct store *store, struct err *err)
{
    char log[PATH_MAX];
    enum status status = file_format_path(log, sizeof log, err, "%s-wal", store->path);
    int fd = status ? -1 : open(log, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return status; /* without a log all is in the database, and synced */
    if (file_sync(fd) != 0)
        status = err_set(err, STATUS_IO, "%s: cannot be synced: %s", log, strerror(errno));
    close(fd);
    return status;
}

enum status store_begin(struct store *store, struct err *err)
{
    if (store->lock_fd < 0) return fail(store, SQLITE_READONLY, err);
    enum status status = store->serialize ? store_lock(store, store->busy_ms, err) : STATUS_OK;
    if (status) return status;
    status = store_do(store, err, "begin immediate", "");
    if (status) {
        store_unlock(store);
        return status;
    }
    store->writing = true;
    status = store_check_place(store, err); /* now no other process that has the same files can commit */
    if (status) store_rollback(store);
    return status;
}

enum status store_commit(struct store *store, struct err *err)
{
    enum status status = store_do(store, err, "commit", "");
    if (status) {
        store_rollback(store);
        return status;
    }
    store->writing = false;
    if (store->log_pages >= STORE_CHECKPOINT_PAGES && !store->hurried && !store_check_place(store, NULL))
        /* best effort: pages that cannot be moved stay in the log until the next time */
        sqlite3_wal_checkpoint_v2(store->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    store_unlock(store);
    return STATUS_OK;
}

void store_rollback(struct store *store)
{
    if (!store->writing) return;
    if (!sqlite3_get_autocommit(store->db)) sqlite3_exec(store->db, "rollback", NULL, NULL, NULL);
    store->writing = false;
    store_unlock(store);
}

enum status store_end(struct store *store, enum status status, struct err *err)
{
    if (!status) status = store_commit(store, err);
    store_rollback(store);
    return status;
}

void store_give_way(double *began)
{
    double worked = clock_monotonic() - *began, rest = fmin(fmax(worked / 2, 0.12), 1);
    if (worked < 0.2) return;
    nanosleep(&(struct timespec){(time_t)rest, (long)(fmod(rest, 1) * 1e9)}, NULL);
    *began = clock_monotonic();
}

enum status store_read_begin(struct store *store, struct err *err)
{
    return store_do(store, err, "begin", "");
}

void store_read_end(struct store *store)
{
    if (!sqlite3_get_autocommit(store->db)) store_do(store, NULL, "rollback", "");
}

void store_settle(struct store *store)
{
    if (store->serialize && store_lock(store, 1000, NULL)) return;
    sqlite3_busy_timeout(store->db, 100);
    if (!store_check_place(store, NULL))
        sqlite3_wal_checkpoint_v2(store->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    sqlite3_busy_timeout(store->db, store->busy_ms);
    store_unlock(store);
}

/* ---- values ---- */

void store_bind_double(sqlite3_stmt *statement, int index, double value)
{
    if (isnan(value))
        sqlite3_bind_null(statement, index);
    else
        sqlite3_bind_double(statement, index, value);
}

void store_bind_text(sqlite3_stmt *statement, int index, const char *text)
{
    sqlite3_bind_text(statement, index, text, -1, SQLITE_STATIC);
}

double store_column_double(sqlite3_stmt *statement, int column)
{
    return sqlite3_column_type(statement, column) == SQLITE_NULL ? NAN
                                                                 : sqlite3_column_double(statement, column);
}

int64_t store_column_int(sqlite3_stmt *statement, int column, int64_t absent)
{
    static const int64_t most = INT64_C(1) << 60;
    if (sqlite3_column_type(statement, column) == SQLITE_NULL) return absent;
    int64_t value = sqlite3_column_int64(statement, column);
    return value < -most ? -most : value > most ? most : value;
}

void store_column_text(sqlite3_stmt *statement, int column, char *buf, size_t size)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    if (!text) text = "";
    size_t n = utf8_cut(text, strnlen(text, size - 1));
    memcpy(buf, text, n);
    buf[n] = '\0';
}

char *store_column_copy(sqlite3_stmt *statement, int column, struct arena *arena)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    return arena_strdup(arena, text ? text : "");
}
