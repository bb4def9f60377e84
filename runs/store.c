/* See store.h. Opens and closes a handle, migrates the schema, and detects commits of other connections.
 *
 * PRAGMA user_version is the version of columns.def. A migration is one transaction, and a published version
 * never changes.
 *
 * SQLite reads a read-only database with a write-ahead log in one of three ways. If the log's index
 * (anneal.db-shm) exists, SQLite uses it and sees the commits of a running trainer. If only the log exists,
 * SQLite builds the index in memory, in exclusive mode. If there is no log, the file is opened as immutable.
 * In the last two cases no other process has the database open.
 *
 * On a shared file system (database.h) it is opened like any other, with SQLite's locks, unless it still has
 * a write-ahead log of an older anneal. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "runs/database.h"

enum { SQLITE_WITHOUT_RESET_RACE = 3051003 };

/* ---- the schema: migration to the version of columns.def ---- */

static const struct {
    const char *name, *table, *columns;
    int since;
} indexes[] = {
#define INDEX(name, since, table, columns) {#name, #table, columns, since},
#include "runs/columns.def"
};

static void write_table(FILE *out, const struct table_info *table)
{
    fprintf(out, "create table %s(", table->name);
    for (int c = table->first; c < table->end; c++) {
        const struct column_info *column = &store_columns[c];
        if (column->since > table->since) continue;
        fprintf(out, "%s%s %s", c > table->first ? ", " : "", column->name, column->sql);
    }
    if (table->keyed)
        fprintf(out, ", primary key(run_id, %s)) without rowid;", table->order);
    else
        fprintf(out, ");");
}

/* Writes the SQL that migrates from version - 1 to `version`. */
static void write_migration(FILE *out, int version)
{
    for (int t = 0; t < TABLE_COUNT; t++) {
        const struct table_info *table = &store_tables[t];
        if (table->since == version) write_table(out, table);
        for (int c = table->first; c < table->end && table->since < version; c++)
            if (store_columns[c].since == version)
                fprintf(out, "alter table %s add column %s %s;", table->name, store_columns[c].name,
                        store_columns[c].sql);
    }
    for (size_t i = 0; i < sizeof indexes / sizeof *indexes; i++)
        if (indexes[i].since == version)
            fprintf(out, "create index %s on %s(%s);", indexes[i].name, indexes[i].table, indexes[i].columns);
    fprintf(out, "pragma application_id = %d; pragma user_version = %d;", STORE_APPLICATION_ID, version);
}

/* Reads the version. STATUS_CORRUPT: the database is not a run store. STATUS_FAILED: a newer anneal wrote
 * it. */
static enum status check_version(struct store *store, int64_t *version, struct err *err)
{
    int64_t application, tables;
    /* one snapshot: another process may be creating the tables right now */
    bool alone = sqlite3_get_autocommit(store->db);
    enum status status = alone ? store_read_begin(store, err) : STATUS_OK;
    if (!status) status = store_number(store, &tables, 0, err, "select count(*) from sqlite_master", "");
    if (!status) status = store_number(store, version, 0, err, "pragma user_version", "");
    if (!status) status = store_number(store, &application, 0, err, "pragma application_id", "");
    if (alone) store_read_end(store);
    if (status) return status;
    bool empty = application == 0 && *version == 0 && tables == 0;
    if ((application != STORE_APPLICATION_ID && !empty) || *version < 0)
        return err_set(err, STATUS_CORRUPT, "%s: is the database of another program %s", store->path,
                       store->foreign ? FOREIGN_REMEDY
                                      : "(move it away, or set ANNEAL_HOME to another folder)");
    if (*version <= STORE_VERSION) return STATUS_OK;
    return err_set(err, STATUS_FAILED,
                   "%s: was written by a newer anneal (its version is %lld, this anneal knows versions up to "
                   "%d; update anneal%s)",
                   store->path, (long long)*version, STORE_VERSION,
                   store->foreign ? "" : ", or set ANNEAL_HOME to another folder");
}

/* Migrates from `version` to the current one, inside a transaction. */
static enum status apply_migrations(struct store *store, int64_t version, struct err *err)
{
    char *sql = NULL;
    size_t size;
    FILE *out = open_memstream(&sql, &size);
    while (out && version < STORE_VERSION) write_migration(out, (int)++version);
    enum status status = text_stream_end(out, &sql) ? store_exec(store, sql, err)
                                                    : err_no_memory(err, "the tables of %s", store->path);
    free(sql);
    return status;
}

/* Several processes may call this at once. */
static enum status migrate(struct store *store, struct err *err)
{
    int64_t version;
    enum status status = check_version(store, &version, err);
    if (status || version == STORE_VERSION) return status;
    status = store_begin(store, err);
    if (status) return status;
    status = check_version(store, &version, err); /* again: another process may have been faster */
    if (!status) status = apply_migrations(store, version, err);
    return store_end(store, status, err);
}

/* ---- a database that can be written ---- */

static int log_grew(void *context, sqlite3 *db, const char *name, int pages)
{
    (void)db;
    (void)name;
    ((struct store *)context)->log_pages = pages;
    return SQLITE_OK;
}

static enum status open_lock(struct store *store, struct err *err)
{
    store->serialize = sqlite3_libversion_number() < SQLITE_WITHOUT_RESET_RACE && !store->mount.shared;
    char path[PATH_MAX + 8];
    snprintf(path, sizeof path, "%s.lock", store->path);
    store->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (store->lock_fd >= 0) return STATUS_OK;
    return err_set(
        err, STATUS_IO,
        "%s: cannot be written: %s (set ANNEAL_HOME to a folder you may write to; its runs can only "
        "be viewed)",
        store->path, strerror(errno));
}

/* Looks at the file system of the database, or of its folder before there is one. STATUS_IO: hosts that share
 * it could damage the database. */
static enum status look_at_mount(struct store *store, struct err *err)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", store->path);
    *strrchr(folder, '/') = '\0';
    mount_of(file_exists(store->path) ? store->path : *folder ? folder : "/", &store->mount);
    if (store->mount.locks) return STATUS_OK;
    return err_set(
        err, STATUS_IO,
        "%s: is on a file system (%s) where locks hold for one host alone, so that two hosts could damage "
        "the database (%s)",
        store->path, store->mount.type,
        store->foreign ? "copy its folder to a local disk, and name the copy"
                       : "set ANNEAL_STORE to a folder on a local disk, and move an anneal.db there");
}

/* Runs a pragma about the journal; *right: the mode is then the wanted one. */
static enum status run_mode(struct store *store, const char *pragma, const char *wanted, bool *right,
                            struct err *err)
{
    sqlite3_stmt *mode = NULL;
    bool row = sqlite3_prepare_v2(store->db, pragma, -1, &mode, NULL) == SQLITE_OK &&
               sqlite3_step(mode) == SQLITE_ROW;
    *right = row && strcmp((const char *)sqlite3_column_text(mode, 0), wanted) == 0;
    enum status status = row ? STATUS_OK : store_error(store, err);
    sqlite3_finalize(mode);
    return status;
}

/* Turns the write-ahead log on, once in a database's life; or off where the file system is shared, and there
 * every handle chooses its rollback journal. One that is truncated instead of removed is found by other
 * hosts: they may remember for a while that a file was not there. What is so already waits for no lock. */
static enum status set_mode(struct store *store, struct err *err)
{
    bool shared = store->mount.shared, right;
    const char *wanted = shared ? "truncate" : "wal";
    enum status status = run_mode(store, "pragma journal_mode", wanted, &right, err);
    if (status || right) return status;
    if ((status = store_lock(store, store->busy_ms, err))) return status;
    status = run_mode(store, shared ? "pragma journal_mode = truncate" : "pragma journal_mode = wal", wanted,
                      &right, err);
    if (!status && !right)
        status = err_set(
            err, STATUS_IO,
            "%s: this file system cannot hold a shared database (no %s; set ANNEAL_HOME to a local folder)",
            store->path, shared ? "rollback journal" : "write-ahead log");
    store_unlock(store);
    if (status == STATUS_BUSY && shared)
        err_set(err, status,
                "%s: has a write-ahead log, which is not safe on %s, and another process uses it (stop that "
                "process, "
                "then try again)",
                store->path, store->mount.type);
    return status;
}

static const char settings[] =
    "pragma synchronous = normal; pragma journal_size_limit = 16777216;"
    "pragma cache_size = -8000; pragma trusted_schema = off; pragma temp_store = memory";

static enum status open_file(struct store *store, const char *name, int flags, const char *vfs,
                             struct err *err)
{
    int code = sqlite3_open_v2(name, &store->db, flags | SQLITE_OPEN_NOMUTEX, vfs);
    if (!store->db) return err_no_memory(err, "%s", store->path);
    if (code != SQLITE_OK) return store_error(store, err);
    sqlite3_extended_result_codes(store->db, 1);
    sqlite3_busy_timeout(store->db, store->busy_ms);
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    return STATUS_OK;
}

static enum status set_up(struct store *store, struct err *err)
{
    int64_t version;
    enum status status = open_file(store, store->path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL, err);
    if (status) return status;
    sqlite3_wal_autocheckpoint(store->db, 0);
    sqlite3_wal_hook(store->db, log_grew, store);
    if (store->serialize) sqlite3_db_config(store->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    status = check_version(store, &version, err);
    if (status) return status;
    if (sqlite3_db_readonly(store->db, "main") == 1)
        return err_set(
            err, STATUS_IO,
            "%s: is read-only for this user (change its permissions, or set ANNEAL_HOME to another folder)",
            store->path);
    status = set_mode(store, err);
    if (!status) status = store_exec(store, settings, err);
    if (!status && store->mount.shared) status = store_exec(store, "pragma synchronous = full", err);
    if (!status) status = migrate(store, err);
    return status ? status : place_note(store, err);
}

/* ---- a database that is read-only ---- */

/* Size of a file that belongs to the database, -1: there is none. */
static int64_t companion_size(const struct store *store, const char *suffix)
{
    char path[PATH_MAX + 8];
    struct stat found;
    snprintf(path, sizeof path, "%s%s", store->path, suffix);
    return stat(path, &found) == 0 ? (int64_t)found.st_size : -1;
}

/* Writes "file:PATH?immutable=1", with the characters that are special in a URI as %XX. */
static void immutable_uri(const char *path, char out[3 * PATH_MAX + 32])
{
    out += sprintf(out, "file:");
    for (; *path; path++) out += sprintf(out, strchr("%?#", *path) ? "%%%02X" : "%c", (unsigned char)*path);
    sprintf(out, "?immutable=1");
}

/* Whether the file's header says that a write-ahead log belongs to it (https://sqlite.org/fileformat2.html).
 */
static bool has_log(const struct store *store)
{
    unsigned char version = 0;
    int fd = open(store->path, O_RDONLY | O_CLOEXEC);
    bool read = fd >= 0 && pread(fd, &version, 1, 18) == 1;
    if (fd >= 0) close(fd);
    return read && version == 2;
}

static enum status set_up_to_read(struct store *store, enum store_access access, struct err *err)
{
    char uri[3 * PATH_MAX + 32];
    int64_t log = companion_size(store, "-wal"), index = companion_size(store, "-shm"), version;
    bool alone = log > 0 && index < 0;
    enum status status = look_at_mount(store, err);
    if (status) return status;
    if (!file_exists(store->path) && access == STORE_FOREIGN)
        return err_set(err, STATUS_NOT_FOUND, "%s: there is no such run database " FOREIGN_REMEDY,
                       store->path);
    if (!file_exists(store->path))
        return err_set(
            err, STATUS_NOT_FOUND,
            "%s: there is no run database, and the folder is read-only (set ANNEAL_HOME to a folder "
            "with runs, or to one you may write to)",
            store->path);
    if (store->mount.shared && !has_log(store)) {
        status = open_file(store, store->path, SQLITE_OPEN_READONLY, NULL, err);
    } else if (alone || (log >= 0 && index >= 0)) {
        status = open_file(store, store->path, SQLITE_OPEN_READONLY, alone ? "unix-none" : NULL, err);
    } else {
        immutable_uri(store->path, uri);
        status = open_file(store, uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL, err);
    }
    if (!status && alone) status = store_exec(store, "pragma locking_mode = exclusive", err);
    if (!status) status = check_version(store, &version, err);
    if (!status && version < STORE_VERSION && access == STORE_UNTOUCHED)
        return err_set(err, STATUS_FAILED, "%s: was written by an older anneal (`%s runs` updates it)",
                       store->path, TEXT_PROGRAM);
    if (!status && version < STORE_VERSION && access != STORE_FOREIGN)
        return err_set(err, STATUS_FAILED,
                       "%s: was written by an older anneal and must be updated, but is read-only (open it, "
                       "or a copy of its folder, once with write permission: `%s runs`)",
                       store->path, TEXT_PROGRAM);
    return status ? status : store_exec(store, settings, err);
}

/* ---- opening ---- */

/* Opens the database for reading and writing. */
static enum status open_to_write(struct store *store, struct err *err)
{
    const char *apart = getenv("ANNEAL_STORE");
    enum status status = file_make_folders(store->home, err);
    if (!status && apart && *apart) status = file_make_folders(apart, err);
    if (status) return err_prefix(err, "cannot keep runs (set ANNEAL_HOME to a folder you may write to)");
    status = look_at_mount(store, err);
    if (!status) status = open_lock(store, err);
    return status ? status : set_up(store, err);
}

/* A database in memory, without runs. */
static enum status open_empty(struct store *store, struct err *err)
{
    enum status status = open_file(store, ":memory:", SQLITE_OPEN_READWRITE, NULL, err);
    if (!status) status = store_exec(store, settings, err);
    return status ? status : apply_migrations(store, 0, err);
}

enum status store_path(const char *home, char path[PATH_MAX], struct err *err)
{
    const char *apart = getenv("ANNEAL_STORE");
    char own[PATH_MAX];
    enum status status = STATUS_OK;
    if (apart && *apart == '/') return file_format_path(path, PATH_MAX, err, "%s/anneal.db", apart);
    if (apart && *apart)
        return err_set(
            err, STATUS_USAGE,
            "ANNEAL_STORE: \"%.200s\" depends on where a run is started (give a path that begins with /)",
            apart);
    if (!home) status = file_anneal_home(own, sizeof own, err);
    return status ? status : file_format_path(path, PATH_MAX, err, "%s/anneal.db", home ? home : own);
}

enum status store_open(const char *home, enum store_access access, struct store **out, struct err *err)
{
    struct store *store = calloc(1, sizeof *store);
    if (!store) return err_no_memory(err, "the run store");
    store->lock_fd = -1;
    store->foreign = access == STORE_FOREIGN;
    store->busy_ms = access == STORE_UNTOUCHED ? 0 : STORE_BUSY_MS;
    enum status status = home ? file_format_path(store->home, sizeof store->home, err, "%s", home)
                              : file_anneal_home(store->home, sizeof store->home, err);
    if (!status && access >= STORE_FOREIGN)
        status = file_format_path(store->path, sizeof store->path, err, "%s/anneal.db", home);
    else if (!status)
        status = store_path(store->home, store->path, err);
    bool as_it_is = access == STORE_UNTOUCHED || access == STORE_FOREIGN ||
                    ((access == STORE_VIEW || access == STORE_READ) &&
                     (file_is_read_only(store->home) || file_is_read_only(store->path)));
    bool there = true;
    if (!status && (access == STORE_READ || access == STORE_CHANGE))
        status = file_look(store->path, &there, err);
    if (!there && status) err_prefix(err, "cannot look for runs (set ANNEAL_HOME to a folder you may read)");
    if (!status && !there)
        status = open_empty(store, err);
    else if (!status && as_it_is)
        status = set_up_to_read(store, access, err);
    else if (!status)
        status = open_to_write(store, err);
    if (status)
        store_close(store);
    else
        *out = store;
    return status;
}

void store_hurry(struct store *store, bool hurry)
{
    store->hurried = hurry;
    store->busy_ms = hurry ? STORE_HURRY_MS : STORE_BUSY_MS;
    sqlite3_busy_timeout(store->db, store->busy_ms);
}

static int asks(void *context)
{
    return ((const struct store *)context)->stop();
}

void store_stop_when(struct store *store, bool (*stop)(void))
{
    store->stop = stop;
    sqlite3_progress_handler(store->db, 100000, asks, store);
}

enum status store_check(struct store *store, struct err *err)
{
    char text[300];
    sqlite3_stmt *check;
    enum status status = store_query(store, &check, err, "pragma integrity_check(1)", "");
    if (!store_next(store, check, &status, err)) return status;
    store_column_text(check, 0, text, sizeof text);
    sqlite3_reset(check);
    if (strcmp(text, "ok") == 0) return STATUS_OK;
    return err_set(err, STATUS_CORRUPT, "%s: the database is damaged: %s " DATABASE_REMEDY, store->path,
                   CLEAN_LINE(text));
}

void store_close(struct store *store)
{
    if (!store) return;
    store_rollback(store);
    for (size_t i = 0; i < store->statement_count; i++) {
        sqlite3_finalize(store->statements[i].handle);
        free(store->statements[i].sql);
    }
    /* where SQLite may not do it on closing: commands that each write a little would lengthen the log without
     * end, as each opens it anew, and a log that is read anew is never begun again */
    if (store->serialize && store->log_pages >= STORE_CHECKPOINT_PAGES && !store->hurried)
        store_settle(store);
    /* a log that nobody else finds any more is never written over what others have written since */
    if (store->db && store_check_place(store, NULL))
        sqlite3_db_config(store->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_close(store->db);
    if (store->lock_fd >= 0) close(store->lock_fd);
    free(store);
}

const char *store_shared(const struct store *store)
{
    return store->mount.shared ? store->mount.type : NULL;
}

const char *store_home(const struct store *store)
{
    return store->home;
}

int64_t store_version(struct store *store)
{
    int64_t now;
    if (store_number(store, &now, 0, NULL, "pragma data_version", "")) return store->version;
    if (now != store->data_version) store->version++;
    store->data_version = now;
    return store->version;
}
