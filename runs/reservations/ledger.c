/* See ledger.h. Every operation is one short transaction that takes the file's write lock first, so the check
 * and the reservation it allows are one step for all processes. */
#include "runs/reservations/ledger.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "runs/database.h"
#include "runs/reservations/process_mark.h"

enum { BUSY_MS = 10000 };

struct ledger {
    struct store *sql;             /* of this file, for its statements; owned */
    char boot[PROCESS_BOOT_BYTES]; /* of this system */
    char home[LEDGER_HOME];
    int64_t place; /* in the queue; 0: none */
};

/* A larger id came later. */
#define COLUMNS                                                                                              \
    "(id integer primary key autoincrement, boot text not null, pid integer not null, started integer not"   \
    " null, device text not null, holder text not null, bytes integer not null, used integer not null"       \
    " default 0, since real not null);"
#define LATER_COLUMNS(table)                                                                                 \
    "alter table " table " add column beside integer not null default 0;"                                    \
    "alter table " table " add column passes integer not null default 0;"                                    \
    "alter table " table " add column reserve real not null default 0;"
#define HOME_COLUMN(table) "alter table " table " add column home text not null default '';"

/* The additions of each version. A file of a later program is used as it is: versions only add. */
static const char *const versions[] = {
    "create table if not exists reservations" COLUMNS "create table if not exists waiting" COLUMNS,
    LATER_COLUMNS("reservations") LATER_COLUMNS("waiting"),
    HOME_COLUMN("reservations") HOME_COLUMN("waiting"),
};
enum { VERSION = sizeof versions / sizeof *versions };

static const char reservations[] = "reservations", waiting[] = "waiting"; /* the tables */

/* The error of the file, and the remedy. */
static enum status explain(const struct store *sql, struct err *err)
{
    int code = sqlite3_errcode(sql->db) & 0xff;
    const char *why = sqlite3_errmsg(sql->db), *path = sql->path;
    int64_t locking = code == SQLITE_BUSY ? process_locking(path) : 0;
    double patience = sql->busy_ms / 1000.0;
    if (locking)
        return err_set(err, STATUS_IO,
                       "%s: process %" PRId64 " has kept it locked for %.3g s (end or continue that process)",
                       path, locking, patience);
    if (code == SQLITE_BUSY)
        return err_set(err, STATUS_IO, "%s: kept locked for %.3g s (`fuser %s` shows the process: end it)",
                       path, patience, path);
    if (code == SQLITE_FULL) return err_set(err, STATUS_IO, "%s: %s (make room on its disk)", path, why);
    if (code == SQLITE_READONLY || code == SQLITE_PERM || code == SQLITE_CANTOPEN)
        return err_set(err, STATUS_IO, "%s: %s (make the file and its folder writable for this user)", path,
                       why);
    if (code == SQLITE_IOERR)
        return err_set(err, STATUS_IO, "%s: %s (look whether its disk is full or failing)", path, why);
    return err_set(err, code == SQLITE_NOTADB || code == SQLITE_CORRUPT ? STATUS_CORRUPT : STATUS_IO,
                   "%s: %s (it only holds reservations of memory: it may be deleted while nothing trains)",
                   path, why);
}

/* Ends a transaction: keeps it, or on `status` takes it back. */
static enum status finish(struct ledger *l, enum status status, struct err *err)
{
    if (!status) status = store_exec(l->sql, "commit", err);
    if (status) sqlite3_exec(l->sql->db, "rollback", NULL, NULL, NULL);
    return status;
}

static enum status delete_row(struct ledger *l, const char *table, int64_t id, struct err *err)
{
    char sql[80];
    snprintf(sql, sizeof sql, "delete from %s where id = ?1", table);
    return store_do(l->sql, err, sql, "i", id);
}

/* ---- the file ---- */

/* A host's name as a file name can hold it. */
static void host_name(char *out, size_t size)
{
    if (gethostname(out, size) != 0) snprintf(out, size, "host");
    out[size - 1] = '\0';
    for (char *c = out; *c; c++)
        if (*c == '/' || *c < ' ') *c = '_';
}

enum status ledger_file_path(const char *folder, char *path, size_t size, struct err *err)
{
    char host[65];
    host_name(host, sizeof host);
    return file_format_path(path, size, err, "%s/ledger-%s.db", folder, host);
}

/* Makes the file where it is missing. Whoever may write into the folder may write the file, whatever this
 * process's umask: users who share a ledger share its folder. It appears with these rights and the folder's
 * group, and SQLite gives its journal the same; where this fails, SQLite tries and says why it cannot. */
static void create_file(const char *folder, const char *path)
{
    char fresh[PATH_MAX];
    struct stat info;
    if (access(path, F_OK) == 0 || stat(folder, &info) != 0) return;
    if (file_format_path(fresh, sizeof fresh, NULL, "%s.tmp-%ld", path, (long)getpid())) return;
    int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return;
    bool same_group = fchown(fd, (uid_t)-1, info.st_gid) == 0;
    bool made = fchmod(fd, info.st_mode & (same_group ? 0666 : 0606)) == 0;
    close(fd);
    if (made) (void)!link(fresh, path); /* another may have been faster */
    unlink(fresh);
}

/* ---- opening ---- */

double ledger_auto_reserve(bool shared)
{
    return shared ? 0.10 : 0.02;
}

static enum status read_version(struct ledger *l, int *version, struct err *err)
{
    sqlite3_stmt *select;
    bool row = false;
    enum status status = store_query(l->sql, &select, err, "pragma user_version", "");
    if (!status) status = store_step(l->sql, select, &row, err);
    if (!row) return status;
    *version = sqlite3_column_int(select, 0);
    sqlite3_reset(select);
    return STATUS_OK;
}

/* A file of this version is only read, so that opening does not wait for a writer. */
static enum status bring_up_to_date(struct ledger *l, struct err *err)
{
    char sql[40];
    int version = 0;
    enum status status = read_version(l, &version, err);
    if (status || version >= VERSION) return status;
    status = store_exec(l->sql, "begin immediate", err);
    if (status) return status;
    status = read_version(l, &version, err); /* another may have been faster */
    for (; !status && version < VERSION; version++) status = store_exec(l->sql, versions[version], err);
    snprintf(sql, sizeof sql, "pragma user_version = %d", version);
    if (!status) status = store_exec(l->sql, sql, err);
    return finish(l, status, err);
}

static enum status open_file(struct store *sql, const char *folder, struct err *err)
{
    enum status status = file_make_folders(folder, err);
    if (!status) status = ledger_file_path(folder, sql->path, sizeof sql->path, err);
    if (status) return status;
    create_file(folder, sql->path);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(sql->path, &sql->db, flags, NULL) != SQLITE_OK)
        return sql->db ? explain(sql, err)
                       : err_set(err, STATUS_NO_MEMORY, "%s: not enough memory", sql->path);
    sqlite3_busy_timeout(sql->db, sql->busy_ms);
    sqlite3_db_config(sql->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    return store_exec(sql, "pragma trusted_schema = off; pragma synchronous = off", err);
}

enum status ledger_open_patiently(const char *folder, int busy_ms, struct ledger **out, struct err *err)
{
    struct ledger *l = calloc(1, sizeof *l);
    if (l) l->sql = calloc(1, sizeof *l->sql);
    if (!l || !l->sql) {
        free(l);
        return err_set(err, STATUS_NO_MEMORY, "no memory for the ledger of device memory");
    }
    l->sql->lock_fd = -1;
    l->sql->busy_ms = busy_ms;
    l->sql->explain = explain;
    process_boot(l->boot);
    enum status status = open_file(l->sql, folder, err);
    if (!status) status = bring_up_to_date(l, err);
    if (status)
        ledger_close(l);
    else
        *out = l;
    return status;
}

enum status ledger_open(const char *folder, struct ledger **out, struct err *err)
{
    return ledger_open_patiently(folder, BUSY_MS, out, err);
}

void ledger_set_home(struct ledger *l, const char *home)
{
    snprintf(l->home, sizeof l->home, "%s", home);
}

const char *ledger_home(const struct ledger *l)
{
    return l->home[0] != '\0' ? l->home : NULL;
}

bool ledger_is_lost(struct ledger *l)
{
    int moved = 0;
    return sqlite3_file_control(l->sql->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved;
}

void ledger_close(struct ledger *l)
{
    if (!l) return;
    if (l->place) delete_row(l, waiting, l->place, NULL);
    store_close(l->sql);
    free(l);
}

/* ---- rows ---- */

/* Within a transaction: removes the rows of processes that are gone. */
static enum status prune(struct ledger *l, const char *table, struct err *err)
{
    char sql[80];
    sqlite3_stmt *all;
    bool row;
    snprintf(sql, sizeof sql, "select id, boot, pid, started from %s", table);
    enum status status = store_query(l->sql, &all, err, sql, "");
    while (!status && !(status = store_step(l->sql, all, &row, err)) && row) {
        const char *boot = (const char *)sqlite3_column_text(all, 1);
        bool alive = boot && strcmp(boot, l->boot) == 0 &&
                     process_started(sqlite3_column_int64(all, 2)) == sqlite3_column_int64(all, 3);
        if (!alive) status = delete_row(l, table, sqlite3_column_int64(all, 0), err);
        if (status) sqlite3_reset(all);
    }
    return status;
}

/* The larger of what a process reported and what the system shows: pages swapped out since are still its own.
 */
static void see_used(struct reservation *r)
{
    int64_t seen = memory_private(r->pid) - r->beside;
    if (seen > r->bytes) seen = r->bytes;
    if (seen > r->used) r->used = seen;
}

static void read_reservation(sqlite3_stmt *row, struct reservation *r)
{
    *r = (struct reservation){.id = sqlite3_column_int64(row, 0),
                              .pid = sqlite3_column_int64(row, 1),
                              .bytes = sqlite3_column_int64(row, 4),
                              .used = sqlite3_column_int64(row, 5),
                              .since = sqlite3_column_double(row, 6),
                              .beside = sqlite3_column_int64(row, 7),
                              .passes = sqlite3_column_int(row, 8) != 0,
                              .reserve = sqlite3_column_double(row, 9)};
    store_column_text(row, 2, r->device, sizeof r->device);
    store_column_text(row, 3, r->holder, sizeof r->holder);
    store_column_text(row, 10, r->home, sizeof r->home);
}

/* Within a transaction: the rows of living processes in the order they came; of one device, or of all with
 * NULL. There is room for one more. */
static enum status list(struct ledger *l, const char *table, const char *device, struct reservation **out,
                        size_t *count, struct err *err)
{
    char sql[200];
    size_t n = 0, capacity = 16;
    struct reservation *rows = malloc(capacity * sizeof *rows);
    sqlite3_stmt *select;
    bool row;
    enum status status = prune(l, table, err);
    snprintf(sql, sizeof sql,
             "select id, pid, device, holder, bytes, used, since, beside, passes, reserve, home from %s"
             " where ?1 is null or device = ?1 order by id",
             table);
    if (!status) status = store_query(l->sql, &select, err, sql, "s", device);
    while (!status && rows && !(status = store_step(l->sql, select, &row, err)) && row) {
        read_reservation(select, &rows[n++]);
        if (n + 1 < capacity) continue;
        struct reservation *more = realloc(rows, (capacity *= 2) * sizeof *rows);
        if (!more) free(rows);
        rows = more;
    }
    if (!status && !rows) {
        sqlite3_reset(select);
        return err_set(err, STATUS_NO_MEMORY, "no memory to list the ledger");
    }
    if (status) {
        free(rows);
        return status;
    }
    for (size_t i = 0; i < n && table == reservations; i++)
        if (strcmp(rows[i].device, LEDGER_HOST) == 0) see_used(&rows[i]);
    *out = rows;
    *count = n;
    return STATUS_OK;
}

static enum status list_living(struct ledger *l, const char *table, const char *device,
                               struct reservation **out, size_t *count, struct err *err)
{
    *out = NULL;
    *count = 0;
    if (!l) return STATUS_OK;
    enum status status = store_exec(l->sql, "begin immediate", err);
    if (status) return status;
    return finish(l, list(l, table, device, out, count, err), err);
}

enum status ledger_list(struct ledger *l, const char *device, struct reservation **out, size_t *count,
                        struct err *err)
{
    return list_living(l, reservations, device, out, count, err);
}

enum status ledger_queue(struct ledger *l, const char *device, struct reservation **out, size_t *count,
                         struct err *err)
{
    return list_living(l, waiting, device, out, count, err);
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

/* The processes that hold a device or wait for it, in order of arrival. */
struct crowd {
    struct reservation *holding, *waiting; /* of holding there is room for one more */
    size_t holding_count, waiting_count;
};

static void crowd_release(struct crowd *crowd)
{
    free(crowd->holding);
    free(crowd->waiting);
}

/* "; other programs hold 3.0 GiB": memory that the ledger does not know of. */
static void name_others(const struct ledger *l, const struct ledger_room *room, const struct crowd *crowd,
                        char *buf, size_t size)
{
    char bytes[32];
    int64_t others = room->total - room->available - room->taken - room->beside;
    for (size_t i = 0; i < crowd->holding_count; i++)
        others -= crowd->holding[i].used + crowd->holding[i].beside;
    for (size_t i = 0; i < crowd->waiting_count; i++)
        if (crowd->waiting[i].id != l->place) others -= crowd->waiting[i].used + crowd->waiting[i].beside;
    buf[0] = '\0';
    if (room->available > 0 && others >= room->total / 100)
        snprintf(buf, size, "; other programs hold %s",
                 text_format_bytes((uint64_t)others, bytes, sizeof bytes));
}

static int64_t kept_free(int64_t total, double reserve)
{
    return (int64_t)((double)total * reserve);
}

/* What is left beside the reservations; and at most the memory that is free now, less the share that stays
 * free and less what is reserved but not allocated yet. */
static int64_t left_of(const struct ledger_room *room, const struct reservation *rows, size_t count)
{
    int64_t kept = kept_free(room->total, room->reserve), reserved = 0, coming = 0;
    if (room->total <= 0) return INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        reserved += rows[i].bytes;
        if (rows[i].used < rows[i].bytes) coming += rows[i].bytes - rows[i].used;
    }
    int64_t left = room->total - kept - reserved, free_now = room->available - kept - coming + room->taken;
    if (room->available > 0 && free_now < left) left = free_now;
    return left < 0 ? 0 : left;
}

static const struct ledger nowhere; /* no place in a queue */

static enum status check(const struct ledger *l, const struct ledger_room *room, const struct crowd *crowd,
                         int64_t bytes, struct err *err)
{
    char wanted[32], free_bytes[32], all[32], holders[300], others[64];
    int64_t left = left_of(room, crowd->holding, crowd->holding_count);
    if (bytes <= left) return STATUS_OK;
    text_format_bytes((uint64_t)bytes, wanted, sizeof wanted);
    text_format_bytes((uint64_t)left, free_bytes, sizeof free_bytes);
    text_format_bytes((uint64_t)room->total, all, sizeof all);
    if (bytes > room->total - kept_free(room->total, room->reserve))
        return err_set(err, STATUS_NO_MEMORY,
                       "%s: %s are needed, it has %s, of which %.0f %% stay free (use a smaller model, "
                       "train.batch_size or train.seq_len)",
                       room->name, wanted, all, room->reserve * 100);
    name_holders(crowd->holding, crowd->holding_count, holders, sizeof holders);
    name_others(l, room, crowd, others, sizeof others);
    return err_set(err, STATUS_BUSY,
                   "%s: %s are needed, %s of %s are left beside the %.0f %% that stay free%s%s%s", room->name,
                   wanted, free_bytes, all, room->reserve * 100, crowd->holding_count ? "; reserved: " : "",
                   holders, others);
}

enum status ledger_left(struct ledger *l, const struct ledger_room *room, int64_t *left, struct err *err)
{
    struct reservation *rows = NULL;
    size_t count = 0;
    enum status status = ledger_list(l, room->device, &rows, &count, err);
    if (!status) *left = left_of(room, rows, count);
    free(rows);
    return status;
}

enum status ledger_fits(const struct ledger_room *room, int64_t bytes, struct err *err)
{
    return check(&nowhere, room, &(struct crowd){0}, bytes, err);
}

/* "cuda:0: run-a (process 17) waits for 3.0 GiB and" what `rest` says. */
static enum status waits(const struct ledger_room *room, const struct reservation *first, const char *rest,
                         struct err *err)
{
    char bytes[32];
    return err_set(err, STATUS_BUSY, "%s: %.40s (process %" PRId64 ") waits for %s and %s", room->name,
                   first->holder, first->pid, text_format_bytes((uint64_t)first->bytes, bytes, sizeof bytes),
                   rest);
}

/* Whether this process may pass the queue: its first process will fit beside it, or would not fit even
 * without those that passed it. So the first waits only for processes that are there already, however many
 * come. Reorders the holding ones. */
static enum status check_passing(const struct ledger_room *room, struct crowd *crowd, int64_t bytes,
                                 struct err *err)
{
    const struct reservation *first = &crowd->waiting[0];
    struct ledger_room seen = *room; /* by it */
    size_t lasting = 0;
    seen.taken = first->used;
    seen.reserve = first->reserve;
    crowd->holding[crowd->holding_count] = (struct reservation){.bytes = bytes, .used = room->taken};
    if (first->bytes <= left_of(&seen, crowd->holding, crowd->holding_count + 1)) return STATUS_OK;
    for (size_t i = 0; i < crowd->holding_count; i++)
        if (!crowd->holding[i].passes)
            crowd->holding[lasting++] = crowd->holding[i];
        else if (room->available > 0) /* else it is not known, and stays so */
            seen.available += crowd->holding[i].used + crowd->holding[i].beside;
    if (first->bytes > left_of(&seen, crowd->holding, lasting)) return STATUS_OK;
    return waits(room, first, "only for those who passed it (try again when it has come in)", err);
}

/* STATUS_BUSY where another process came for the device first. */
static enum status check_queue(const struct ledger *l, const struct ledger_room *room, struct crowd *crowd,
                               int64_t bytes, struct err *err)
{
    if (!crowd->waiting_count || crowd->waiting[0].id == l->place) return STATUS_OK;
    if (room->passes) return check_passing(room, crowd, bytes, err);
    return waits(room, &crowd->waiting[0], "came before", err);
}

/* Whether each process of the queue will fit in its turn, while those behind it keep what they hold already
 * and this process what it has: else the two would wait for each other. */
static enum status check_standing(const struct ledger_room *room, const struct crowd *crowd, struct err *err)
{
    char held[32], rest[120];
    int64_t behind = room->taken + room->beside;
    text_format_bytes((uint64_t)behind, held, sizeof held);
    if (room->total <= 0) return STATUS_OK;
    for (size_t i = crowd->waiting_count; i-- > 0;) {
        const struct reservation *w = &crowd->waiting[i];
        snprintf(rest, sizeof rest,
                 "needs the %s that this process holds already (start this one when that one trains)", held);
        if (w->bytes + behind > room->total - kept_free(room->total, w->reserve))
            return waits(room, w, rest, err);
        behind += w->used + w->beside;
    }
    return STATUS_OK;
}

static enum status insert(struct ledger *l, const char *table, const struct ledger_room *room,
                          const char *holder, int64_t bytes, int64_t *id, struct err *err)
{
    char sql[200];
    snprintf(sql, sizeof sql,
             "insert into %s(boot, pid, started, device, holder, bytes, since, used, beside, passes, reserve,"
             " home) values(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
             table);
    enum status status = store_do(l->sql, err, sql, "snissidiinds", l->boot, (int)getpid(),
                                  process_started(getpid()), room->device, holder, bytes, clock_wall(),
                                  room->taken, room->beside, (int)room->passes, room->reserve, l->home);
    if (!status) *id = sqlite3_last_insert_rowid(l->sql->db);
    return status;
}

/* Begins a transaction and reads the processes of a device. */
static enum status begin(struct ledger *l, const char *device, struct crowd *crowd, struct err *err)
{
    *crowd = (struct crowd){0};
    enum status status = store_exec(l->sql, "begin immediate", err);
    if (status) return status;
    status = list(l, reservations, device, &crowd->holding, &crowd->holding_count, err);
    if (!status) status = list(l, waiting, device, &crowd->waiting, &crowd->waiting_count, err);
    return status ? finish(l, status, err) : STATUS_OK;
}

enum status ledger_reserve(struct ledger *l, const struct ledger_room *room, const char *holder,
                           int64_t bytes, int64_t *id, struct err *err)
{
    struct crowd crowd;
    enum status status = begin(l, room->device, &crowd, err);
    if (!status) {
        status = check(l, room, &crowd, bytes, err);
        if (!status) status = check_queue(l, room, &crowd, bytes, err);
        if (!status) status = insert(l, reservations, room, holder, bytes, id, err);
        if (!status && l->place) status = delete_row(l, waiting, l->place, err);
        status = finish(l, status, err);
        if (!status) l->place = 0;
    }
    crowd_release(&crowd);
    return status;
}

enum status ledger_restore(struct ledger *l, const struct ledger_room *room, const char *holder,
                           int64_t bytes, int64_t *id, struct err *err)
{
    return insert(l, reservations, room, holder, bytes, id, err);
}

enum status ledger_wait(struct ledger *l, const struct ledger_room *room, const char *holder, int64_t bytes,
                        struct err *err)
{
    struct crowd crowd;
    int64_t place = 0;
    if (l->place) return STATUS_OK;
    enum status status = begin(l, room->device, &crowd, err);
    if (!status) {
        status = check_standing(room, &crowd, err);
        if (!status) status = insert(l, waiting, room, holder, bytes, &place, err);
        status = finish(l, status, err);
        if (!status) l->place = place;
    }
    crowd_release(&crowd);
    return status;
}

enum status ledger_use(struct ledger *l, int64_t id, const char *holder, int64_t used, struct err *err)
{
    return store_do(l->sql, err, "update reservations set used = ?2, holder = ?3 where id = ?1", "iis", id,
                    used, holder);
}

enum status ledger_release(struct ledger *l, int64_t id, struct err *err)
{
    return delete_row(l, reservations, id, err);
}
