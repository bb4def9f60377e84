/* See schema.h. Tables that hold a run's history are clustered on (run_id, segment, step): what belongs
 * together lies together, and reading a run in order is one sequential scan. */
#include "runs/schema.h"

#include <stdio.h>

static const char first_version[] =
    /* one row a run; `status` is what the trainer last said: a running one whose lock nobody holds has
       crashed */
    "create table runs("
    " id text not null primary key, name text not null, status text not null, created_at real not null,"
    " ended_at real, device text, precision text, parameters integer, steps integer, tokens integer,"
    " final_loss real, best_val_loss real, best_step integer, tokens_per_sec real,"
    " total_steps integer, segment integer not null default 0, pid integer, heartbeat real,"
    " message text not null default '', config text not null default '', nan integer not null default 0);"
    "create index runs_by_name on runs(name, created_at);"

    /* one row a trainer's life: the first run and each resume; first_step is NULL until a step is recorded */
    "create table segments("
    " run_id text not null, segment integer not null, first_step integer, started_at real not null,"
    " ended_at real, status text, pid integer, host text, primary key(run_id, segment)) without rowid;"

    /* the configuration, one row a key: name is section.key */
    "create table params("
    " run_id text not null, name text not null, value text not null, primary key(run_id, name)) without "
    "rowid;"
    "create table tags(run_id text not null, tag text not null, primary key(run_id, tag)) without rowid;"

    "create table steps("
    " run_id text not null, segment integer not null, step integer not null, epoch real, tokens integer,"
    " wall_time real, step_ms real, loss real, lr real, grad_norm real, clip_scale real, tokens_per_sec real,"
    " mfu real, nan integer not null default 0, primary key(run_id, segment, step)) without rowid;"

    "create table evals("
    " run_id text not null, segment integer not null, step integer not null, tokens integer, wall_time real,"
    " val_loss real, val_perplexity real, eval_ms real, nan integer not null default 0,"
    " primary key(run_id, segment, step)) without rowid;"

    "create table early_stopping("
    " run_id text not null, segment integer not null, step integer not null, val_loss real, best_val_loss "
    "real,"
    " best_step integer, min_delta real, improved integer, patience_used integer, patience integer, verdict "
    "text,"
    " nan integer not null default 0, primary key(run_id, segment, step)) without rowid;"

    "create table layer_profile("
    " run_id text not null, segment integer not null, step integer not null, phase text not null,"
    " layer integer not null, op text not null, calls integer, time_us real,"
    " primary key(run_id, segment, step, phase, layer, op)) without rowid;"

    "create table memory("
    " run_id text not null, segment integer not null, step integer not null, category text not null,"
    " planned_bytes integer, live_bytes integer, peak_bytes integer,"
    " primary key(run_id, segment, step, category)) without rowid;"

    "create table gpu_samples("
    " run_id text not null, wall_time real not null, gpu integer not null, utilization_pct real,"
    " memory_used_bytes integer, memory_total_bytes integer, power_w real, temperature_c real, sm_clock_mhz "
    "real,"
    " primary key(run_id, wall_time, gpu)) without rowid;"

    "create table samples("
    " id integer primary key, run_id text not null, segment integer not null, step integer not null, prompt "
    "text,"
    " text text);"
    "create index samples_by_run on samples(run_id, segment, step);"

    /* path is relative to the run's folder */
    "create table checkpoints("
    " run_id text not null, segment integer not null, step integer not null, kind text not null, wall_time "
    "real,"
    " path text not null, bytes integer, primary key(run_id, segment, step, kind)) without rowid;"

    /* autoincrement: an id is never given twice, so a trainer that has seen id n need only look above it */
    "create table orders("
    " id integer primary key autoincrement, run_id text not null, issued_at real not null, verb text not "
    "null,"
    " argument real, issuer text, applied_step integer, result text);"
    "create index orders_by_run on orders(run_id);"

    "create table events("
    " id integer primary key, run_id text not null, segment integer not null, step integer, wall_time real,"
    " level text, text text);"
    "create index events_by_run on events(run_id);"

    /* a metric over `level` steps from first_step on (a multiple of level); extremes over finite values only
     */
    "create table rollup("
    " run_id text not null, metric text not null, level integer not null, first_step integer not null,"
    " min real, max real, mean real, last real, count integer not null, non_finite integer not null,"
    " primary key(run_id, metric, level, first_step)) without rowid;";

static const char process_memory[] = "alter table gpu_samples add column process_bytes integer;"
                                     "alter table gpu_samples add column throttle text;";

/* what a profiled operation moved and computed; and of a fork, the run and step that it went out from */
static const char rates_and_forks[] = "alter table layer_profile add column bytes integer;"
                                      "alter table layer_profile add column flops integer;"
                                      "alter table runs add column parent_id text;"
                                      "alter table runs add column parent_step integer;";

/* who holds memory of the device: a set of processes is written when it has changed, and a sample says by
   processes_at which one was there then; NULL: not known. bytes NULL: not known, name '': not known */
static const char processes_and_load[] =
    "alter table gpu_samples add column load_1m real;"
    "alter table gpu_samples add column processes_at real;"
    "create table gpu_processes("
    " run_id text not null, wall_time real not null, gpu integer not null, pid integer not null,"
    " name text not null, bytes integer, primary key(run_id, wall_time, gpu, pid)) without rowid;";

const char *const schema_migrations[] = {first_version, process_memory, rates_and_forks, processes_and_load};
const int schema_version = sizeof schema_migrations / sizeof *schema_migrations;

static enum status read_number(struct store *store, const char *sql, int64_t *out, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    enum status status = STATUS_OK;
    if (sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW)
        status = store_error(store, err);
    else
        *out = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return status;
}

enum status schema_check(struct store *store, int count, int64_t *out, struct err *err)
{
    int64_t application, tables, own, *version = out ? out : &own;
    /* one snapshot: another process may be creating the tables right now */
    bool alone = sqlite3_get_autocommit(store->db);
    enum status status = alone ? store_read_begin(store, err) : STATUS_OK;
    if (!status) status = read_number(store, "select count(*) from sqlite_master", &tables, err);
    if (!status) status = read_number(store, "pragma user_version", version, err);
    if (!status) status = read_number(store, "pragma application_id", &application, err);
    if (alone) store_read_end(store);
    if (status) return status;
    if (application != SCHEMA_APPLICATION_ID && (application != 0 || *version != 0 || tables != 0))
        return err_set(
            err, STATUS_CORRUPT,
            "%s: is the database of another program (move it away, or set ANNEAL_HOME to another folder)",
            store->path);
    if (*version > count)
        return err_set(
            err, STATUS_FAILED,
            "%s: was written by a newer anneal (its version is %lld, this one knows up to %d; update "
            "anneal, or set ANNEAL_HOME to another folder)",
            store->path, (long long)*version, count);
    return *version < 0 ? err_set(err, STATUS_CORRUPT, "%s: its version is negative: %lld", store->path,
                                  (long long)*version)
                        : STATUS_OK;
}

enum status schema_migrate(struct store *store, const char *const *migrations, int count, struct err *err)
{
    int64_t version;
    enum status status = schema_check(store, count, &version, err);
    while (!status && version < count) {
        status = store_begin(store, err);
        if (status) break;
        /* again, inside the transaction: another process may have been faster */
        status = schema_check(store, count, &version, err);
        if (!status && version < count) {
            char stamp[96];
            snprintf(stamp, sizeof stamp, "pragma application_id = %d; pragma user_version = %lld",
                     SCHEMA_APPLICATION_ID, (long long)version + 1);
            status = store_exec(store, migrations[version], err);
            if (!status) status = store_exec(store, stamp, err);
        }
        if (!status) status = store_commit(store, err);
        store_rollback(store);
        if (!status) status = schema_check(store, count, &version, err);
    }
    return status;
}
