/* Private to runs/: the inside of a store handle, and the only access to SQLite.
 *
 * Always: statements are prepared once per handle and kept; every write goes through
 * store_begin/store_commit; a checkpoint of the write-ahead log happens in store_commit and store_settle and
 * nowhere else. SQLite older than 3.51.3 has a rare race between a writer that resets the log and a
 * checkpointer in another connection (https://sqlite.org/wal.html, "the WAL-reset bug"); on such a version
 * both hold anneal.db.lock (flock) meanwhile.
 *
 * On a file system that several hosts share there is no write-ahead log: its index is memory of one host
 * (https://sqlite.org/wal.html). There the database has a rollback journal, which is safe as far as locks are
 * (https://sqlite.org/useovernet.html), and writes wait until the disk has them. Where locks do not hold for
 * all hosts, the database is not opened. */
#ifndef ANNEAL_RUNS_DATABASE_H
#define ANNEAL_RUNS_DATABASE_H

#include <limits.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/mount.h"
#include "runs/columns.h"
#include "runs/place.h"
#include "runs/store.h"

/* Of a damaged database. */
#define DATABASE_REMEDY                                                                                      \
    "(restore a copy, or move it away: `anneal doctor --repair` then makes the runs again, but not their "   \
    "history)"

/* Of any fault of another store's. */
#define FOREIGN_REMEDY "(name the folder that is ANNEAL_HOME there, or a sound copy of it)"

enum {
    STORE_STATEMENTS_MAX = 256,
    STORE_BUSY_MS = 5000,              /* how long to wait for another process's lock */
    STORE_HURRY_MS = 8,                /* the same for a handle in a hurry */
    STORE_CHECKPOINT_PAGES = 1000,     /* a commit with so many log pages checkpoints */
    STORE_APPLICATION_ID = 0x414e4e4c, /* "ANNL", in PRAGMA application_id */
};

struct store {
    sqlite3 *db;
    enum status (*explain)(const struct store *,
                           struct err *); /* the text of store_error; NULL: that of the run store */
    char home[PATH_MAX];
    char path[PATH_MAX]; /* the database file */
    struct mount mount;  /* where it is */
    int lock_fd;         /* anneal.db.lock; -1: read-only */
    bool foreign;        /* STORE_FOREIGN */
    bool serialize;      /* this SQLite needs the lock around writes; else only the setup takes it */
    int busy_ms;
    bool hurried;                    /* see store_hurry */
    struct place place[PLACE_FILES]; /* its files when it was opened */
    bool full_sync;
    int log_pages; /* in the write-ahead log after this handle's last commit */
    bool writing;
    int64_t version, data_version;
    struct {
        char *sql;
        uint64_t hash; /* of sql, compared first: many texts differ only at their end */
        sqlite3_stmt *handle;
    } statements[STORE_STATEMENTS_MAX];
    bool (*stop)(void);                 /* see store_stop_when */
    sqlite3_stmt *inserts[TABLE_COUNT]; /* the statements of table_add; NULL: not yet prepared */
    size_t statement_count;
};

/* Returns the statement for this SQL, reset and with nothing bound; NULL after an error. The handle owns it:
 * two callers with the same text share one statement. */
enum status store_prepare(struct store *store, const char *sql, sqlite3_stmt **out, struct err *err);

/* Like store_prepare, and binds the parameters ?1, ?2, … to the arguments. `types` has one letter per
 * argument: s const char * (borrowed until the next reset; NULL is NULL), i int64_t, n int, d double (NaN is
 * NULL). */
enum status store_query(struct store *store, sqlite3_stmt **out, struct err *err, const char *sql,
                        const char *types, ...);
/* The same for a statement that returns no rows; it is run at once. */
enum status store_do(struct store *store, struct err *err, const char *sql, const char *types, ...);

/* The integer in the first column of the first row; `absent` if that is NULL or there is no row. */
enum status store_number(struct store *store, int64_t *out, int64_t absent, struct err *err, const char *sql,
                         const char *types, ...);

/* Steps to the next row, unless *status is an error already, such as that of the query or of the row before.
 * False at the end, or after an error, which is in *status. The statement is then reset, so that it holds no
 * snapshot; a caller that stops early must reset it. */
bool store_next(struct store *store, sqlite3_stmt *statement, enum status *status, struct err *err);

/* Runs a statement that returns no rows, and resets it. */
enum status store_run(struct store *store, sqlite3_stmt *statement, struct err *err);

/* Runs SQL text without parameters. */
enum status store_exec(struct store *store, const char *sql, struct err *err);

/* Whether commits from now on wait until the disk has them, and all that were made before. Else a power cut
 * may take back the newest ones; the database stays whole in any case. */
enum status store_sync_commits(struct store *store, bool sync, struct err *err);
/* Waits until the disk has all commits, also while another process holds a lock. */
enum status store_sync_now(const struct store *store, struct err *err);

/* A write transaction. store_begin fails like store_check_place, too. If store_commit fails, nothing is
 * stored. store_rollback is harmless outside a transaction. */
enum status store_begin(struct store *store, struct err *err);
enum status store_commit(struct store *store, struct err *err);
void store_rollback(struct store *store);
/* Ends the transaction: commits after STATUS_OK, else rolls back. Returns `status`, or the error of the
 * commit. */
enum status store_end(struct store *store, enum status status, struct err *err);

/* Between transactions of a long work: rests if a fifth of a second has passed since *began
 * (clock_monotonic), which becomes the time after the rest. It lasts half as long as the work, a second at
 * most, and longer than SQLite's busy handler waits between two tries, so that whoever waits to write does so
 * then. */
void store_give_way(double *began);

/* The lock across processes: STATUS_BUSY after `patience_ms`. */
enum status store_lock(struct store *store, int patience_ms, struct err *err);
void store_unlock(struct store *store);

/* Several reads see one snapshot. */
enum status store_read_begin(struct store *store, struct err *err);
void store_read_end(struct store *store);

/* Moves the whole log into the database unless another process uses it; called when a trainer ends. Never
 * fails: pages that stay in the log are moved later. */
void store_settle(struct store *store);

/* SQLite's latest error on this handle as one sentence. */
enum status store_error(const struct store *store, struct err *err);

/* Bind and read values: NaN is stored as NULL, NULL is read as NaN. */
void store_bind_double(sqlite3_stmt *statement, int index, double value);
void store_bind_text(sqlite3_stmt *statement, int index,
                     const char *text); /* borrowed until the next reset */
double store_column_double(sqlite3_stmt *statement, int column);
/* A damaged store may hold any number: what lies beyond 2^60 is that, so that sums of some fit. */
int64_t store_column_int(sqlite3_stmt *statement, int column, int64_t absent);
/* Copies the text, truncated at a character boundary; NULL as "". */
void store_column_text(sqlite3_stmt *statement, int column, char *buf, size_t size);
/* A copy in `arena`; NULL: no memory. */
char *store_column_copy(sqlite3_stmt *statement, int column, struct arena *arena);

#endif
