/* See store.h. Opening and closing a handle, and noticing what other connections commit.
 *
 * Where nothing can be written, SQLite reads a database with its write-ahead log in three ways. With the
 * log's index (anneal.db-shm) at hand it needs nothing more, and sees what a trainer elsewhere commits.
 * Without the index it makes one in memory, in exclusive mode, if it need not lock the file for that; this
 * and what has no log are of a database that nobody has open. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "runs/database.h"
#include "runs/schema.h"

enum { SQLITE_WITHOUT_RESET_RACE = 3051003 };

static int log_grew(void *context, sqlite3 *db, const char *name, int pages)
{
    (void)db;
    (void)name;
    ((struct store *)context)->log_pages = pages;
    return SQLITE_OK;
}

static enum status open_lock(struct store *store, struct err *err)
{
    store->serialize = sqlite3_libversion_number() < SQLITE_WITHOUT_RESET_RACE;
    char path[PATH_MAX + 8];
    snprintf(path, sizeof path, "%s.lock", store->path);
    store->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (store->lock_fd >= 0) return STATUS_OK;
    return err_set(
        err, STATUS_IO,
        "%s: cannot be written: %s (set ANNEAL_HOME to a folder you may write to; what is there can "
        "only be looked at)",
        store->path, strerror(errno));
}

/* Turns the write-ahead log on, once in a database's life. */
static enum status set_mode(struct store *store, struct err *err)
{
    enum status status = store_lock(store, store->busy_ms, err);
    if (status) return status;
    sqlite3_stmt *mode = NULL;
    if (sqlite3_prepare_v2(store->db, "pragma journal_mode = wal", -1, &mode, NULL) != SQLITE_OK ||
        sqlite3_step(mode) != SQLITE_ROW)
        status = store_error(store, err);
    else if (strcmp((const char *)sqlite3_column_text(mode, 0), "wal") != 0)
        status = err_set(
            err, STATUS_IO,
            "%s: this file system cannot hold a shared database (no write-ahead log; set ANNEAL_HOME to "
            "a local folder)",
            store->path);
    sqlite3_finalize(mode);
    store_unlock(store);
    return status;
}

static const char settings[] =
    "pragma synchronous = normal; pragma journal_size_limit = 16777216;"
    "pragma cache_size = -8000; pragma trusted_schema = off; pragma temp_store = memory";

static enum status set_up(struct store *store, struct err *err)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(store->path, &store->db, flags, NULL) != SQLITE_OK)
        return store->db ? store_error(store, err)
                         : err_set(err, STATUS_NO_MEMORY, "%s: not enough memory", store->path);
    sqlite3_extended_result_codes(store->db, 1);
    sqlite3_busy_timeout(store->db, store->busy_ms);
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_wal_autocheckpoint(store->db, 0);
    sqlite3_wal_hook(store->db, log_grew, store);
    if (store->serialize) sqlite3_db_config(store->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    enum status status = schema_check(store, STORE_VERSION, NULL, err);
    if (status) return status;
    if (sqlite3_db_readonly(store->db, "main") == 1)
        return err_set(
            err, STATUS_IO,
            "%s: is read-only for this user (change its permissions, or set ANNEAL_HOME to another folder)",
            store->path);
    status = set_mode(store, err);
    if (!status) status = store_exec(store, settings, err);
    return status ? status : schema_migrate(store, NULL, STORE_VERSION, err);
}

/* ---- where nothing can be written ---- */

/* Size of a file that belongs to the database, -1: there is none. */
static int64_t companion_size(const struct store *store, const char *suffix)
{
    char path[PATH_MAX + 8];
    struct stat found;
    snprintf(path, sizeof path, "%s%s", store->path, suffix);
    return stat(path, &found) == 0 ? (int64_t)found.st_size : -1;
}

/* "file:PATH?immutable=1", with what an URI gives a meaning to in %XX. */
static void immutable_uri(const char *path, char out[3 * PATH_MAX + 32])
{
    out += sprintf(out, "file:");
    for (; *path; path++) out += sprintf(out, strchr("%?#", *path) ? "%%%02X" : "%c", (unsigned char)*path);
    sprintf(out, "?immutable=1");
}

static enum status set_up_to_read(struct store *store, struct err *err)
{
    char uri[3 * PATH_MAX + 32];
    int64_t log = companion_size(store, "-wal"), index = companion_size(store, "-shm"), version;
    int code, flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX;
    bool alone = log > 0 && index < 0;
    if (!file_exists(store->path))
        return err_set(
            err, STATUS_NOT_FOUND,
            "%s: there is no run database, and the folder is read-only (set ANNEAL_HOME to a folder "
            "with runs, or to one you may write to)",
            store->path);
    if (alone || (log >= 0 && index >= 0)) {
        code = sqlite3_open_v2(store->path, &store->db, flags, alone ? "unix-none" : NULL);
    } else {
        immutable_uri(store->path, uri);
        code = sqlite3_open_v2(uri, &store->db, flags | SQLITE_OPEN_URI, NULL);
    }
    if (code != SQLITE_OK)
        return store->db ? store_error(store, err)
                         : err_set(err, STATUS_NO_MEMORY, "%s: not enough memory", store->path);
    sqlite3_extended_result_codes(store->db, 1);
    sqlite3_busy_timeout(store->db, store->busy_ms);
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    enum status status = alone ? store_exec(store, "pragma locking_mode = exclusive", err) : STATUS_OK;
    if (!status) status = schema_check(store, STORE_VERSION, &version, err);
    if (!status && version < STORE_VERSION)
        return err_set(err, STATUS_FAILED,
                       "%s: was written by an older anneal and must be brought up to date, but is read-only "
                       "(open it once, or a copy of its folder, where it can be written: `anneal runs`)",
                       store->path);
    return status ? status : store_exec(store, settings, err);
}

/* ---- opening ---- */

static enum status open_at(const char *home, int busy_ms, bool to_read, struct store **out, struct err *err)
{
    struct store *store = calloc(1, sizeof *store);
    if (!store) return err_set(err, STATUS_NO_MEMORY, "%s: not enough memory", home);
    store->lock_fd = -1;
    store->busy_ms = busy_ms;
    enum status status;
    if (snprintf(store->home, sizeof store->home, "%s", home) >= (int)sizeof store->home ||
        snprintf(store->path, sizeof store->path, "%s/anneal.db", home) >= (int)sizeof store->path) {
        status = err_set(err, STATUS_USAGE, "ANNEAL_HOME: the path is too long: %.80s...", home);
        goto out;
    }
    if (to_read && (file_is_read_only(home) || file_is_read_only(store->path))) {
        status = set_up_to_read(store, err);
        goto out;
    }
    status = file_make_folders(home, err);
    if (status) {
        err_prefix(err, "cannot keep runs (set ANNEAL_HOME to a folder you may write to)");
        goto out;
    }
    if (file_is_folder(store->path)) {
        status =
            err_set(err, STATUS_CORRUPT, "%s: is a folder, not a run database (move it away)", store->path);
        goto out;
    }
    status = open_lock(store, err);
    if (!status) status = set_up(store, err);
out:
    if (status)
        store_close(store);
    else
        *out = store;
    return status;
}

enum status store_open_patiently(const char *home, int busy_ms, struct store **out, struct err *err)
{
    return open_at(home, busy_ms, false, out, err);
}

enum status store_open(const char *home, struct store **out, struct err *err)
{
    return open_at(home, STORE_BUSY_MS, false, out, err);
}

enum status store_open_to_read(const char *home, struct store **out, struct err *err)
{
    return open_at(home, STORE_BUSY_MS, true, out, err);
}

void store_close(struct store *store)
{
    if (!store) return;
    store_rollback(store);
    for (size_t i = 0; i < store->statement_count; i++) {
        sqlite3_finalize(store->statements[i].handle);
        free(store->statements[i].sql);
    }
    sqlite3_close(store->db);
    if (store->lock_fd >= 0) close(store->lock_fd);
    free(store);
}

const char *store_home(const struct store *store)
{
    return store->home;
}

int64_t store_version(struct store *store)
{
    sqlite3_stmt *pragma;
    bool row = false;
    if (store_prepare(store, "pragma data_version", &pragma, NULL) || store_step(store, pragma, &row, NULL) ||
        !row)
        return store->version;
    int64_t now = sqlite3_column_int64(pragma, 0);
    sqlite3_reset(pragma);
    if (now != store->data_version) {
        store->data_version = now;
        store->version++;
    }
    return store->version;
}
