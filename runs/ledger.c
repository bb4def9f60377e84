/* See ledger.h. Every operation is one short transaction that takes the file's write lock first, so the check
 * and the reservation it allows are one step for all processes. */
#include "runs/ledger.h"

#include <inttypes.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"

enum { BUSY_MS = 10000, BOOT_BYTES = 64 };

struct ledger {
    sqlite3 *db;
    char path[PATH_MAX];
    char boot[BOOT_BYTES]; /* of this system */
    int64_t place;         /* in the queue; 0: none */
};

#define COLUMNS                                                                                              \
    "(id integer primary key autoincrement, boot text not null, pid integer not null, started integer not"   \
    " null, device text not null, holder text not null, bytes integer not null, used integer not null"       \
    " default 0, since real not null);"

/* A larger id came later. */
static const char schema[] =
    "create table if not exists reservations" COLUMNS "create table if not exists waiting" COLUMNS;

static const char *const tables[] = {"reservations", "waiting"};
enum { RESERVATIONS, WAITING, TABLES };

/* ---- SQLite ---- */

static enum status failed(struct ledger *l, struct err *err)
{
    return err_set(err, sqlite3_errcode(l->db) == SQLITE_NOTADB ? STATUS_CORRUPT : STATUS_IO,
                   "%s: %s (it only holds reservations of memory: it may be deleted while nothing trains)",
                   l->path, sqlite3_errmsg(l->db));
}

static enum status run(struct ledger *l, const char *sql, struct err *err)
{
    return sqlite3_exec(l->db, sql, NULL, NULL, NULL) == SQLITE_OK ? STATUS_OK : failed(l, err);
}

/* Ends a transaction: keeps it, or on `status` takes it back. */
static enum status finish(struct ledger *l, enum status status, struct err *err)
{
    if (!status) status = run(l, "commit", err);
    if (status) sqlite3_exec(l->db, "rollback", NULL, NULL, NULL);
    return status;
}

static enum status prepare(struct ledger *l, const char *sql, sqlite3_stmt **out, struct err *err)
{
    return sqlite3_prepare_v2(l->db, sql, -1, out, NULL) == SQLITE_OK ? STATUS_OK : failed(l, err);
}

/* Steps a statement that gives no rows, and finalizes it. */
static enum status complete(struct ledger *l, sqlite3_stmt *statement, struct err *err)
{
    int code = sqlite3_step(statement);
    enum status status = code == SQLITE_DONE ? STATUS_OK : failed(l, err);
    sqlite3_finalize(statement);
    return status;
}

/* ---- processes ---- */

/* When a process started, in ticks since the boot; 0: there is none of that number. */
static int64_t started(int64_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    /* the second field is a name in parentheses that may hold anything; the start time is the 22nd */
    char *at = strrchr(text, ')');
    if (at && (at[1] != ' ' || strchr("ZX", at[2]))) return 0; /* dead, and nobody has asked how it ended */
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    return at ? strtoll(at, NULL, 10) : 0;
}

static bool alive(const struct ledger *l, const char *boot, int64_t pid, int64_t start)
{
    return strcmp(boot, l->boot) == 0 && started(pid) == start;
}

static enum status delete_row(struct ledger *l, int table, int64_t id, struct err *err)
{
    char sql[80];
    sqlite3_stmt *statement;
    snprintf(sql, sizeof sql, "delete from %s where id = ?1", tables[table]);
    enum status status = prepare(l, sql, &statement, err);
    if (status) return status;
    sqlite3_bind_int64(statement, 1, id);
    return complete(l, statement, err);
}

static enum status prune_table(struct ledger *l, int table, struct err *err)
{
    char sql[80];
    sqlite3_stmt *all;
    snprintf(sql, sizeof sql, "select id, boot, pid, started from %s", tables[table]);
    enum status status = prepare(l, sql, &all, err);
    if (status) return status;
    while (!status && sqlite3_step(all) == SQLITE_ROW) {
        if (alive(l, (const char *)sqlite3_column_text(all, 1), sqlite3_column_int64(all, 2),
                  sqlite3_column_int64(all, 3)))
            continue;
        status = delete_row(l, table, sqlite3_column_int64(all, 0), err);
    }
    sqlite3_finalize(all);
    return status;
}

static enum status prune(struct ledger *l, struct err *err)
{
    enum status status = prune_table(l, RESERVATIONS, err);
    return status ? status : prune_table(l, WAITING, err);
}

/* ---- opening ---- */

static void read_boot(char boot[BOOT_BYTES])
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    snprintf(boot, BOOT_BYTES, "unknown");
    if (!file) return;
    if (fgets(boot, BOOT_BYTES, file)) boot[strcspn(boot, "\n")] = '\0';
    fclose(file);
}

/* A host's name as a file name can hold it. */
static void host_name(char *out, size_t size)
{
    if (gethostname(out, size) != 0) snprintf(out, size, "host");
    out[size - 1] = '\0';
    for (char *c = out; *c; c++)
        if (*c == '/' || *c < ' ') *c = '_';
}

double ledger_auto_reserve(bool shared)
{
    return shared ? 0.10 : 0.02;
}

enum status ledger_open(const char *home, struct ledger **out, struct err *err)
{
    char host[65];
    struct ledger *l = calloc(1, sizeof *l);
    if (!l) return err_set(err, STATUS_NO_MEMORY, "no memory for the ledger of device memory");
    read_boot(l->boot);
    host_name(host, sizeof host);
    enum status status = file_make_folders(home, err);
    if (!status && snprintf(l->path, sizeof l->path, "%s/ledger-%s.db", home, host) >= (int)sizeof l->path)
        status = err_set(err, STATUS_USAGE, "ANNEAL_HOME: the path is too long: %.80s...", home);
    if (!status &&
        sqlite3_open_v2(l->path, &l->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
        status = l->db ? failed(l, err) : err_set(err, STATUS_NO_MEMORY, "%s: not enough memory", l->path);
    if (!status) {
        sqlite3_busy_timeout(l->db, BUSY_MS);
        sqlite3_db_config(l->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        status = run(l, "pragma trusted_schema = off; pragma synchronous = off", err);
    }
    if (!status) status = run(l, schema, err);
    if (status)
        ledger_close(l);
    else
        *out = l;
    return status;
}

void ledger_close(struct ledger *l)
{
    if (!l) return;
    if (l->place) delete_row(l, WAITING, l->place, NULL);
    sqlite3_close(l->db);
    free(l);
}

/* ---- listing ---- */

static void copy_text(char out[LEDGER_TEXT], sqlite3_stmt *row, int column)
{
    const unsigned char *text = sqlite3_column_text(row, column);
    snprintf(out, LEDGER_TEXT, "%s", text ? (const char *)text : "");
}

/* Within a transaction. */
static enum status list(struct ledger *l, const char *device, struct reservation **out, size_t *count,
                        struct err *err)
{
    static const char sql[] = "select id, pid, device, holder, bytes, used, since from reservations"
                              " where ?1 is null or device = ?1 order by since, id";
    struct reservation *rows = NULL;
    size_t n = 0, capacity = 0;
    sqlite3_stmt *select;
    enum status status = prepare(l, sql, &select, err);
    if (status) return status;
    if (device) sqlite3_bind_text(select, 1, device, -1, SQLITE_STATIC);
    while (!status && sqlite3_step(select) == SQLITE_ROW) {
        if (n == capacity) {
            capacity = capacity ? capacity * 2 : 16;
            struct reservation *more = realloc(rows, capacity * sizeof *rows);
            if (!more) {
                status = err_set(err, STATUS_NO_MEMORY, "no memory to list the ledger");
                break;
            }
            rows = more;
        }
        struct reservation *r = &rows[n++];
        r->id = sqlite3_column_int64(select, 0);
        r->pid = sqlite3_column_int64(select, 1);
        copy_text(r->device, select, 2);
        copy_text(r->holder, select, 3);
        r->bytes = sqlite3_column_int64(select, 4);
        r->used = sqlite3_column_int64(select, 5);
        r->since = sqlite3_column_double(select, 6);
    }
    sqlite3_finalize(select);
    if (status) {
        free(rows);
        return status;
    }
    *out = rows;
    *count = n;
    return STATUS_OK;
}

enum status ledger_list(struct ledger *l, const char *device, struct reservation **out, size_t *count,
                        struct err *err)
{
    enum status status = run(l, "begin immediate", err);
    if (status) return status;
    status = prune(l, err);
    if (!status) status = list(l, device, out, count, err);
    return finish(l, status, err);
}

/* ---- reserving ---- */

/* "run-a 3.0 GiB (process 17), ..." of the largest holders. */
static void name_holders(const struct reservation *rows, size_t count, char *buf, size_t size)
{
    size_t used = 0;
    char bytes[32];
    buf[0] = '\0';
    for (size_t i = 0; i < count && i < 4 && used < size; i++)
        used += (size_t)snprintf(
            buf + used, size - used, "%s%.40s %s (process %" PRId64 ")", i ? ", " : "", rows[i].holder,
            text_format_bytes((uint64_t)rows[i].bytes, bytes, sizeof bytes), rows[i].pid);
    if (count > 4 && used < size) snprintf(buf + used, size - used, " and %zu more", count - 4);
}

/* "; other programs hold 3.0 GiB": what nobody has told the ledger of. */
static void name_others(const struct ledger_room *room, int64_t used, char *buf, size_t size)
{
    char bytes[32];
    int64_t others = room->total - room->available - used - room->taken;
    buf[0] = '\0';
    if (room->available > 0 && others >= room->total / 100)
        snprintf(buf, size, "; other programs hold %s",
                 text_format_bytes((uint64_t)others, bytes, sizeof bytes));
}

/* What is left beside the reservations, and of what is free less what stays free and what was reserved and
 * not yet taken. *used: what the reservations hold. */
static int64_t left_of(const struct ledger_room *room, const struct reservation *rows, size_t count,
                       int64_t *used)
{
    int64_t kept = (int64_t)((double)room->total * room->reserve), reserved = 0, coming = 0;
    *used = 0;
    if (room->total <= 0) return INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        reserved += rows[i].bytes;
        *used += rows[i].used;
        if (rows[i].used < rows[i].bytes) coming += rows[i].bytes - rows[i].used;
    }
    int64_t left = room->total - kept - reserved, free_now = room->available - kept - coming + room->taken;
    if (room->available > 0 && free_now < left) left = free_now;
    return left < 0 ? 0 : left;
}

static enum status check(const struct ledger_room *room, const struct reservation *rows, size_t count,
                         int64_t bytes, struct err *err)
{
    char wanted[32], free_bytes[32], all[32], holders[300], others[64];
    int64_t used, left = left_of(room, rows, count, &used);
    if (bytes <= left) return STATUS_OK;
    text_format_bytes((uint64_t)bytes, wanted, sizeof wanted);
    text_format_bytes((uint64_t)left, free_bytes, sizeof free_bytes);
    text_format_bytes((uint64_t)room->total, all, sizeof all);
    if (bytes > room->total - (int64_t)((double)room->total * room->reserve))
        return err_set(err, STATUS_NO_MEMORY,
                       "%s: %s are needed, it has %s, of which %.0f %% stay free (use a smaller model, "
                       "train.batch_size or train.seq_len)",
                       room->name, wanted, all, room->reserve * 100);
    name_holders(rows, count, holders, sizeof holders);
    name_others(room, used, others, sizeof others);
    return err_set(err, STATUS_BUSY,
                   "%s: %s are needed, %s of %s are left beside the %.0f %% that stay free%s%s%s", room->name,
                   wanted, free_bytes, all, room->reserve * 100, count ? "; reserved: " : "", holders,
                   others);
}

enum status ledger_left(struct ledger *l, const struct ledger_room *room, int64_t *left, struct err *err)
{
    struct reservation *rows = NULL;
    size_t count = 0;
    int64_t used;
    enum status status = STATUS_OK;
    if (l) status = ledger_list(l, room->device, &rows, &count, err);
    if (!status) *left = left_of(room, rows, count, &used);
    free(rows);
    return status;
}

enum status ledger_fits(const struct ledger_room *room, int64_t bytes, struct err *err)
{
    return check(room, NULL, 0, bytes, err);
}

/* STATUS_BUSY where somebody came for the device before us. */
static enum status check_queue(struct ledger *l, const struct ledger_room *room, struct err *err)
{
    static const char sql[] =
        "select holder, pid, bytes from waiting where device = ?1 and (?2 = 0 or id < ?2)"
        " order by id limit 1";
    char first[LEDGER_TEXT], bytes[32];
    sqlite3_stmt *select;
    enum status status = prepare(l, sql, &select, err);
    if (status) return status;
    sqlite3_bind_text(select, 1, room->device, -1, SQLITE_STATIC);
    sqlite3_bind_int64(select, 2, l->place);
    if (sqlite3_step(select) == SQLITE_ROW) {
        copy_text(first, select, 0);
        status = err_set(err, STATUS_BUSY, "%s: %.40s (process %" PRId64 ") waits for %s and came before",
                         room->name, first, (int64_t)sqlite3_column_int64(select, 1),
                         text_format_bytes((uint64_t)sqlite3_column_int64(select, 2), bytes, sizeof bytes));
    }
    sqlite3_finalize(select);
    return status;
}

static enum status insert(struct ledger *l, int table, const struct ledger_room *room, const char *holder,
                          int64_t bytes, int64_t *id, struct err *err)
{
    char sql[160];
    sqlite3_stmt *statement;
    snprintf(sql, sizeof sql,
             "insert into %s(boot, pid, started, device, holder, bytes, since, used)"
             " values(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
             tables[table]);
    enum status status = prepare(l, sql, &statement, err);
    if (status) return status;
    sqlite3_bind_text(statement, 1, l->boot, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 2, getpid());
    sqlite3_bind_int64(statement, 3, started(getpid()));
    sqlite3_bind_text(statement, 4, room->device, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 5, holder, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 6, bytes);
    sqlite3_bind_double(statement, 7, clock_wall());
    sqlite3_bind_int64(statement, 8, room->taken);
    status = complete(l, statement, err);
    if (!status) *id = sqlite3_last_insert_rowid(l->db);
    return status;
}

enum status ledger_reserve(struct ledger *l, const struct ledger_room *room, const char *holder,
                           int64_t bytes, int64_t *id, struct err *err)
{
    struct reservation *rows = NULL;
    size_t count = 0;
    enum status status = run(l, "begin immediate", err);
    if (status) return status;
    status = prune(l, err);
    if (!status) status = list(l, room->device, &rows, &count, err);
    if (!status) status = check(room, rows, count, bytes, err);
    if (!status && !room->passes) status = check_queue(l, room, err);
    if (!status) status = insert(l, RESERVATIONS, room, holder, bytes, id, err);
    if (!status && l->place) status = delete_row(l, WAITING, l->place, err);
    free(rows);
    status = finish(l, status, err);
    if (!status) l->place = 0;
    return status;
}

enum status ledger_wait(struct ledger *l, const struct ledger_room *room, const char *holder, int64_t bytes,
                        struct err *err)
{
    return l->place ? STATUS_OK : insert(l, WAITING, room, holder, bytes, &l->place, err);
}

enum status ledger_use(struct ledger *l, int64_t id, const char *holder, int64_t used, struct err *err)
{
    sqlite3_stmt *statement;
    enum status status =
        prepare(l, "update reservations set used = ?2, holder = ?3 where id = ?1", &statement, err);
    if (status) return status;
    sqlite3_bind_int64(statement, 1, id);
    sqlite3_bind_int64(statement, 2, used);
    sqlite3_bind_text(statement, 3, holder, -1, SQLITE_STATIC);
    return complete(l, statement, err);
}

enum status ledger_release(struct ledger *l, int64_t id, struct err *err)
{
    return delete_row(l, RESERVATIONS, id, err);
}
