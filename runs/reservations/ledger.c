/* See ledger.h. Every change is one short transaction that takes the file's write lock first, so no other
 * process can reserve between the check and the reservation. */
#include "runs/reservations/ledger.h"

#include <errno.h>
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

struct ledger {
    struct store *sql; /* the handle of this file; owned */
    char boot[64];     /* the name of this boot of the system */
    char home[LEDGER_HOME];
    int64_t place; /* the id in the queue; 0: none */
};

/* A later row has a larger id. Rows from before version 3 belong to an earlier boot or a program that ended
 * long ago. A file of a newer program is used as it is: new versions only add columns. */
#define TABLE(name)                                                                                          \
    "drop table if exists " name "; create table " name                                                      \
    "(id integer primary key autoincrement, boot text not null, pid integer not null, started integer not"   \
    " null, device text not null, holder text not null, bytes integer not null, used integer not null"       \
    " default 0, since real not null, beside integer not null default 0, passes integer not null default 0," \
    " reserve real not null default 0, home text not null default '');"
static const char schema[] = TABLE("reservations") TABLE("waiting") "pragma user_version = 3";

/* The file's error and the remedy. */
static enum status explain(const struct store *sql, struct err *err)
{
    bool busy = (sqlite3_errcode(sql->db) & 0xff) == SQLITE_BUSY;
    return err_set(err, STATUS_IO, "%s: %s (%s)", sql->path, sqlite3_errmsg(sql->db),
                   busy ? "`fuser` shows the process that keeps it locked: end it"
                        : "make it and its folder writable, and make room on the disk; it holds nothing but "
                          "reservations of memory, so it may be deleted while no run trains");
}

/* Ends a transaction: commits it, or rolls it back if `status` is an error. */
static enum status finish(struct ledger *l, enum status status, struct err *err)
{
    if (!status) status = store_exec(l->sql, "commit", err);
    if (status) sqlite3_exec(l->sql->db, "rollback", NULL, NULL, NULL);
    return status;
}

static enum status leave_queue(struct ledger *l, struct err *err)
{
    if (!l->place) return STATUS_OK;
    return store_do(l->sql, err, "delete from waiting where id = ?1", "i", l->place);
}

/* ---- processes ---- */

static void read_boot(char *boot, size_t size)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    snprintf(boot, size, "unknown");
    if (!file) return;
    if (fgets(boot, (int)size, file)) boot[strcspn(boot, "\n")] = '\0';
    fclose(file);
}

/* When a process started, in ticks since the boot; 0: there is no live process with this number. */
static int64_t process_started(int64_t pid)
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
    if (at && (at[1] != ' ' || strchr("ZX", at[2])))
        return 0; /* dead, and its parent has not waited for it */
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    return at ? strtoll(at, NULL, 10) : 0;
}

/* The SQL function lives(boot, pid, started). */
static void lives(sqlite3_context *context, int count, sqlite3_value **values)
{
    const struct ledger *l = sqlite3_user_data(context);
    const char *boot = (const char *)sqlite3_value_text(values[0]);
    (void)count;
    sqlite3_result_int(context,
                       boot && strcmp(boot, l->boot) == 0 &&
                           process_started(sqlite3_value_int64(values[1])) == sqlite3_value_int64(values[2]));
}

/* ---- opening ---- */

double ledger_auto_reserve(bool shared)
{
    return shared ? 0.10 : 0.02;
}

/* Whether a folder in `shm` belongs to this user alone, or could be created so. */
static bool is_own(const char *shm, const char *folder, bool create)
{
    struct stat info;
    if (stat(shm, &info) != 0 || ((info.st_mode & 022) && !(info.st_mode & S_ISVTX))) return false;
    if (create) mkdir(folder, 0700);
    if (lstat(folder, &info) != 0) return !create && access(shm, W_OK | X_OK) == 0;
    return S_ISDIR(info.st_mode) && info.st_uid == geteuid() && !(info.st_mode & 022);
}

enum status ledger_folder(const char *shm, const char *home, bool create, char folder[PATH_MAX],
                          struct err *err)
{
    const char *given = getenv("ANNEAL_LEDGER");
    struct stat info;
    if (given && *given == '/' && stat(given, &info) == 0 && (info.st_mode & S_IWOTH))
        return err_set(err, STATUS_USAGE,
                       "ANNEAL_LEDGER: every user of this machine may write %.200s (make it the folder of a "
                       "group: chmod o-w,g+w)",
                       given);
    if (given && *given == '/') return file_format_path(folder, PATH_MAX, err, "%s", given);
    if (given && *given)
        return err_set(err, STATUS_USAGE,
                       "ANNEAL_LEDGER: \"%.200s\" depends on where a run is started (give a path that begins "
                       "with /)",
                       given);
    enum status status = file_format_path(folder, PATH_MAX, err, "%s/anneal-%u", shm, (unsigned)geteuid());
    if (status || is_own(shm, folder, create)) return status;
    if (home) return file_format_path(folder, PATH_MAX, err, "%s", home);
    return err_set(err, STATUS_USAGE,
                   "%.200s/anneal-%u: does not belong to this user alone (set ANNEAL_LEDGER to a folder that "
                   "all your runs may write)",
                   shm, (unsigned)geteuid());
}

static enum status file_path(const char *folder, char *path, size_t size, struct err *err)
{
    char host[65];
    if (gethostname(host, sizeof host) != 0) snprintf(host, sizeof host, "host");
    host[sizeof host - 1] = '\0';
    for (char *c = host; *c; c++)
        if (*c == '/' || *c < ' ') *c = '_';
    return file_format_path(path, size, err, "%s/ledger-%s.db", folder, host);
}

static const int64_t BYTES_MAX = (int64_t)1 << 50; /* of a row; sums cannot overflow */

static bool is_current(const struct ledger *l)
{
    return sqlite3_table_column_metadata(l->sql->db, "main", "waiting", "home", NULL, NULL, NULL, NULL,
                                         NULL) == SQLITE_OK;
}

/* Only reads if the tables exist, so that opening does not wait for a writer. */
static enum status make_tables(struct ledger *l, struct err *err)
{
    if (is_current(l)) return STATUS_OK;
    enum status status = store_exec(l->sql, "begin immediate", err);
    if (status) return status;
    if (!is_current(l)) status = store_exec(l->sql, schema, err); /* another may have been faster */
    return finish(l, status, err);
}

/* Refuses a file that another user of a shared folder may have put there to make this process write some
 * other file (a symbolic or a hard link), and one that everybody may write. */
static enum status check_file(const char *path, bool *made, struct err *err)
{
    struct stat info;
    *made = lstat(path, &info) != 0;
    const char *why = *made                    ? NULL
                      : S_ISLNK(info.st_mode)  ? "is a symbolic link"
                      : !S_ISREG(info.st_mode) ? "is not a file"
                      : info.st_nlink > 1      ? "has another name, too"
                      : info.st_mode & S_IWOTH ? "every user of this machine may write it"
                                               : NULL;
    return why ? err_set(err, STATUS_IO, "%s: %s (remove it while no run trains)", path, why) : STATUS_OK;
}

static enum status open_file(struct ledger *l, const char *folder, struct err *err)
{
    struct store *sql = l->sql;
    struct stat info;
    bool made;
    char whole[PATH_MAX];
    enum status status = file_make_folders(folder, err);
    if (!status && !realpath(folder, whole)) /* links in the path of the folder are its owner's */
        status = err_set(err, STATUS_IO, "%s: cannot open: %s", folder, strerror(errno));
    if (!status) status = file_path(whole, sql->path, sizeof sql->path, err);
    if (!status) status = check_file(sql->path, &made, err);
    if (status) return status;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
    if (sqlite3_open_v2(sql->path, &sql->db, flags, NULL) != SQLITE_OK)
        return sql->db ? explain(sql, err) : err_no_memory(err, "opening %s", sql->path);
    /* users who share the folder share the file; SQLite gives its journal the same rights */
    if (made && stat(folder, &info) == 0) (void)!chmod(sql->path, info.st_mode & 0666);
    sqlite3_busy_timeout(sql->db, sql->busy_ms);
    sqlite3_db_config(sql->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    if (sqlite3_create_function(sql->db, "lives", 3, SQLITE_UTF8, l, lives, NULL, NULL) != SQLITE_OK)
        return explain(sql, err);
    return store_exec(sql, "pragma trusted_schema = off", err);
}

enum status ledger_open(const char *folder, int busy_ms, struct ledger **out, struct err *err)
{
    struct ledger *l = calloc(1, sizeof *l);
    if (l) l->sql = calloc(1, sizeof *l->sql);
    if (!l || !l->sql) {
        free(l);
        return err_no_memory(err, "the ledger of device memory");
    }
    l->sql->lock_fd = -1;
    l->sql->busy_ms = busy_ms;
    l->sql->explain = explain;
    read_boot(l->boot, sizeof l->boot);
    enum status status = open_file(l, folder, err);
    if (!status) status = make_tables(l, err);
    if (status)
        ledger_close(l);
    else
        *out = l;
    return status;
}

enum status ledger_open_own(const char *home, bool only_look, struct ledger **out, struct err *err)
{
    char folder[PATH_MAX], path[PATH_MAX];
    *out = NULL;
    enum status status = ledger_folder("/dev/shm", home, !only_look, folder, err);
    if (!status) status = file_path(folder, path, sizeof path, err);
    if (status || (only_look && !file_exists(path))) return status;
    status = ledger_open(folder, LEDGER_BUSY_MS, out, err);
    if (!status && home) snprintf((*out)->home, sizeof(*out)->home, "%s", home);
    return status;
}

void ledger_close(struct ledger *l)
{
    if (!l) return;
    leave_queue(l, NULL);
    store_close(l->sql);
    free(l);
}

/* ---- rows ---- */

static void read_row(sqlite3_stmt *row, struct reservation *r)
{
    *r = (struct reservation){.waits = sqlite3_column_int(row, 1),
                              .id = sqlite3_column_int64(row, 2),
                              .pid = sqlite3_column_int64(row, 3),
                              .bytes = sqlite3_column_int64(row, 4),
                              .used = sqlite3_column_int64(row, 5),
                              .since = sqlite3_column_double(row, 6)};
    if (r->bytes < 0 || r->bytes > BYTES_MAX) r->bytes = 0; /* no process reserves that */
    if (r->used < 0 || r->used > BYTES_MAX) r->used = r->bytes;
    store_column_text(row, 7, r->device, sizeof r->device);
    store_column_text(row, 8, r->holder, sizeof r->holder);
    store_column_text(row, 9, r->home, sizeof r->home);
    if (r->waits || strcmp(r->device, LEDGER_HOST) != 0) return;
    int64_t seen = memory_private(r->pid);
    if (seen > r->bytes) seen = r->bytes;
    if (seen > r->used) r->used = seen;
}

/* The rows of processes that live, or of those that do not. */
static enum status list(struct ledger *l, bool live, const char *device, struct reservation **out,
                        size_t *count, struct err *err)
{
    static const char sql[] =
        "select count(*) over (), waits, id, pid, bytes, used, since, device, holder, home from"
        " (select 0 as waits, * from reservations union all select 1, * from waiting)"
        " where lives(boot, pid, started) = ?2 and (?1 is null or device = ?1) order by waits, id";
    sqlite3_stmt *select;
    *out = NULL;
    *count = 0;
    if (!l) return STATUS_OK;
    enum status status = store_query(l->sql, &select, err, sql, "sn", device, (int)live);
    while (store_next(l->sql, select, &status, err)) {
        if (!*out) *out = calloc((size_t)sqlite3_column_int64(select, 0), sizeof **out);
        if (*out)
            read_row(select, &(*out)[(*count)++]);
        else
            status = err_no_memory(err, "a list of reservations");
    }
    if (!status) return STATUS_OK;
    free(*out);
    *out = NULL;
    return status;
}

enum status ledger_list(struct ledger *l, const char *device, struct reservation **out, size_t *count,
                        struct err *err)
{
    return list(l, true, device, out, count, err);
}

enum status ledger_list_ended(struct ledger *l, struct reservation **out, size_t *count, struct err *err)
{
    return list(l, false, NULL, out, count, err);
}

static const char remove_ended[] = "delete from reservations where not lives(boot, pid, started);"
                                   "delete from waiting where not lives(boot, pid, started)";

enum status ledger_remove_ended(struct ledger *l, struct err *err)
{
    return store_exec(l->sql, remove_ended, err);
}

const char *ledger_path(const struct ledger *l)
{
    return l->sql->path;
}

/* ---- reserving ---- */

/* The index of the first waiting row; `count` if there is none. */
static size_t first_waiting(const struct reservation *rows, size_t count)
{
    size_t i = 0;
    while (i < count && !rows[i].waits) i++;
    return i;
}

/* "; reserved: run-a 3.0 GiB (process 17), ...": the first holders. */
static void name_holders(const struct reservation *rows, size_t count, char *buf, size_t size)
{
    buf[0] = '\0';
    for (size_t i = 0; i < count && i < 4; i++)
        text_add(buf, size, ", ", "%s%.40s %s (process %" PRId64 ")", i ? "" : "; reserved: ", rows[i].holder,
                 TEXT_BYTES(rows[i].bytes), rows[i].pid);
    if (count > 4) text_add(buf, size, " and ", "%zu more", count - 4);
}

static int64_t kept_free(const struct ledger_room *room)
{
    return (int64_t)((double)room->total * room->reserve);
}

/* The memory that is not reserved, but at most the memory that is free now, minus the share to keep free and
 * the memory that is reserved but not allocated yet. */
static int64_t left_of(const struct ledger_room *room, const struct reservation *rows, size_t count)
{
    int64_t kept = kept_free(room), reserved = 0, coming = 0;
    if (room->total <= 0) return INT64_MAX;
    for (size_t i = 0; i < count && !rows[i].waits; i++) {
        reserved += rows[i].bytes;
        if (rows[i].used < rows[i].bytes) coming += rows[i].bytes - rows[i].used;
    }
    int64_t left = room->total - kept - reserved, free_now = room->available - kept - coming + room->taken;
    if (room->available > 0 && free_now < left) left = free_now;
    return left < 0 ? 0 : left;
}

static enum status check(const struct ledger_room *room, const struct reservation *rows, size_t count,
                         int64_t bytes, struct err *err)
{
    char holders[320], available[64] = "";
    int64_t left = left_of(room, rows, count);
    if (bytes <= left) return STATUS_OK;
    if (bytes > room->total - kept_free(room))
        return err_set(err, STATUS_NO_MEMORY,
                       "%s: %s are needed, but it has %s, of which %.0f %% stay free (use a smaller model, "
                       "train.batch_size or train.seq_len)",
                       room->name, TEXT_BYTES(bytes), TEXT_BYTES(room->total), room->reserve * 100);
    name_holders(rows, first_waiting(rows, count), holders, sizeof holders);
    if (room->available > 0)
        snprintf(available, sizeof available, ", %s are free now", TEXT_BYTES(room->available));
    return err_set(err, STATUS_BUSY, "%s: %s are needed, but %s of %s are left (%.0f %% stay free)%s%s",
                   room->name, TEXT_BYTES(bytes), TEXT_BYTES(left), TEXT_BYTES(room->total),
                   room->reserve * 100, available, holders);
}

enum status ledger_left(struct ledger *l, const struct ledger_room *room, int64_t *left, struct err *err)
{
    struct reservation *rows;
    size_t count;
    enum status status = ledger_list(l, room->device, &rows, &count, err);
    if (status) return status;
    *left = left_of(room, rows, count);
    free(rows);
    return STATUS_OK;
}

/* Sets the error "cuda:0: run-a (process 17) waits for 3.0 GiB and" followed by `rest`. */
static enum status waits(const struct ledger_room *room, const struct reservation *first, const char *rest,
                         struct err *err)
{
    return err_set(err, STATUS_BUSY, "%s: %.40s (process %" PRId64 ") waits for %s and %s", room->name,
                   first->holder, first->pid, TEXT_BYTES(first->bytes), rest);
}

/* The device memory that a process holds while it waits: on a GPU its context, which it has reported. */
static int64_t held_waiting(const struct ledger_room *room, int64_t pid, int64_t used)
{
    return strcmp(room->device, LEDGER_HOST) == 0 ? memory_private(pid) : used;
}

/* Checks that each process in the queue will fit when its turn comes, while this process and those behind it
 * keep the memory that they already hold. Otherwise they would wait for each other for ever. */
static enum status check_standing(const struct ledger_room *room, const struct reservation *rows,
                                  size_t count, struct err *err)
{
    int64_t behind = held_waiting(room, getpid(), room->taken);
    for (size_t i = room->total > 0 ? count : 0; i-- > 0 && rows[i].waits;) {
        if (rows[i].bytes + behind > room->total - kept_free(room))
            return waits(
                room, &rows[i],
                "needs memory that this process already holds (start this run when that one is training)",
                err);
        behind += held_waiting(room, rows[i].pid, rows[i].used);
    }
    return STATUS_OK;
}

#define INSERT(table)                                                                                        \
    "insert into " table "(boot, pid, started, device, holder, bytes, since, used, home)"                    \
    " values(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"

/* In one transaction, deletes the rows of ended processes and adds the request to the reservations or, with
 * `queues`, to the queue. */
static enum status enter(struct ledger *l, const struct ledger_room *room, const char *holder, int64_t bytes,
                         bool queues, int64_t *id, struct err *err)
{
    struct reservation *rows = NULL;
    size_t count = 0;
    enum status status = store_exec(l->sql, "begin immediate", err);
    if (status) return status;
    status = store_exec(l->sql, remove_ended, err);
    if (!status) status = ledger_list(l, room->device, &rows, &count, err);
    size_t first = first_waiting(rows, count);
    if (!status && queues) status = check_standing(room, rows, count, err);
    if (!status && !queues) status = check(room, rows, count, bytes, err);
    if (!status && !queues && first < count && rows[first].id != l->place && !room->passes)
        status = waits(room, &rows[first], "came before", err);
    if (!status)
        status = store_do(l->sql, err, queues ? INSERT("waiting") : INSERT("reservations"), "snissidis",
                          l->boot, (int)getpid(), process_started(getpid()), room->device, holder, bytes,
                          clock_wall(), room->taken, l->home);
    if (!status) *id = sqlite3_last_insert_rowid(l->sql->db);
    if (!status && !queues) status = leave_queue(l, err);
    free(rows);
    return finish(l, status, err);
}

enum status ledger_reserve(struct ledger *l, const struct ledger_room *room, const char *holder,
                           int64_t bytes, int64_t *id, struct err *err)
{
    if (!l) return check(room, NULL, 0, bytes, err);
    enum status status = enter(l, room, holder, bytes, false, id, err);
    if (!status) l->place = 0;
    return status;
}

enum status ledger_wait(struct ledger *l, const struct ledger_room *room, const char *holder, int64_t bytes,
                        struct err *err)
{
    int64_t place = 0;
    enum status status = l->place ? STATUS_OK : enter(l, room, holder, bytes, true, &place, err);
    if (!status && place) l->place = place;
    return status;
}

enum status ledger_use(struct ledger *l, int64_t id, const char *holder, int64_t used, struct err *err)
{
    return store_do(l->sql, err, "update reservations set used = ?2, holder = ?3 where id = ?1", "iis", id,
                    used, holder);
}

enum status ledger_release(struct ledger *l, int64_t id, struct err *err)
{
    return store_do(l->sql, err, "delete from reservations where id = ?1", "i", id);
}
