/* See gpu_samples.h. */
#include "runs/gpu_samples.h"

#include <math.h>
#include <string.h>

#include "runs/database.h"

static void bind_bytes(sqlite3_stmt *statement, int index, int64_t bytes)
{
    if (bytes >= 0) sqlite3_bind_int64(statement, index, bytes);
}

/* ---- who holds memory ---- */

/* When the processes of the sample before were written; NaN: there is none, or it knew of none. */
static enum status find_before(struct store *store, const char *run_id, const struct gpu_record *record,
                               double *out, struct err *err)
{
    sqlite3_stmt *select;
    bool row;
    enum status status = store_prepare(store,
                                       "select processes_at from gpu_samples where run_id = ?1 and gpu = ?2"
                                       " and wall_time < ?3 order by wall_time desc limit 1",
                                       &select, err);
    *out = NAN;
    if (status) return status;
    store_bind_text(select, 1, run_id);
    sqlite3_bind_int(select, 2, record->gpu);
    sqlite3_bind_double(select, 3, record->wall_time);
    status = store_step(store, select, &row, err);
    if (status || !row) return status;
    *out = store_column_double(select, 0);
    sqlite3_reset(select);
    return STATUS_OK;
}

static const char processes_sql[] =
    "select pid, name, bytes from gpu_processes where run_id = ?1 and wall_time = ?2 and gpu = ?3"
    " order by pid";

static enum status select_processes(struct store *store, const char *run_id, double at, int gpu,
                                    sqlite3_stmt **out, struct err *err)
{
    enum status status = store_prepare(store, processes_sql, out, err);
    if (status) return status;
    store_bind_text(*out, 1, run_id);
    sqlite3_bind_double(*out, 2, at);
    sqlite3_bind_int(*out, 3, gpu);
    return STATUS_OK;
}

static struct gpu_process read_process(sqlite3_stmt *row)
{
    struct gpu_process process = {.pid = sqlite3_column_int64(row, 0), .bytes = store_column_int(row, 2, -1)};
    store_column_text(row, 1, process.name, sizeof process.name);
    return process;
}

static enum status are_same(struct store *store, const char *run_id, double at,
                            const struct gpu_record *record, bool *same, struct err *err)
{
    sqlite3_stmt *select;
    bool row;
    int64_t i = 0;
    enum status status = select_processes(store, run_id, at, record->gpu, &select, err);
    *same = false;
    if (status) return status;
    while (!(status = store_step(store, select, &row, err)) && row) {
        struct gpu_process then = read_process(select);
        const struct gpu_process *now = i < record->process_count ? &record->processes[i] : NULL;
        if (!now || now->pid != then.pid || now->bytes != then.bytes || strcmp(now->name, then.name) != 0) {
            sqlite3_reset(select);
            return STATUS_OK;
        }
        i++;
    }
    *same = !status && i == record->process_count;
    return status;
}

static enum status add_processes(struct store *store, const char *run_id, const struct gpu_record *record,
                                 struct err *err)
{
    sqlite3_stmt *insert;
    enum status status = STATUS_OK;
    for (int64_t i = 0; !status && i < record->process_count; i++) {
        const struct gpu_process *process = &record->processes[i];
        status =
            store_prepare(store,
                          "insert or replace into gpu_processes(run_id, wall_time, gpu, pid, name, bytes)"
                          " values(?1, ?2, ?3, ?4, ?5, ?6)",
                          &insert, err);
        if (status) return status;
        store_bind_text(insert, 1, run_id);
        sqlite3_bind_double(insert, 2, record->wall_time);
        sqlite3_bind_int(insert, 3, record->gpu);
        sqlite3_bind_int64(insert, 4, process->pid);
        store_bind_text(insert, 5, process->name);
        bind_bytes(insert, 6, process->bytes);
        status = store_run(store, insert, err);
    }
    return status;
}

/* *at: when those were written who hold memory now; NaN: not known. */
static enum status keep_processes(struct store *store, const char *run_id, const struct gpu_record *record,
                                  double *at, struct err *err)
{
    bool same = false;
    *at = NAN;
    if (record->process_count < 0) return STATUS_OK;
    enum status status = find_before(store, run_id, record, at, err);
    if (!status && !isnan(*at)) status = are_same(store, run_id, *at, record, &same, err);
    if (status || same) return status;
    *at = record->wall_time;
    return add_processes(store, run_id, record, err);
}

/* ---- samples ---- */

static enum status add_sample(struct store *store, const char *run_id, const struct gpu_record *record,
                              double processes_at, struct err *err)
{
    sqlite3_stmt *insert;
    enum status status =
        store_prepare(store,
                      "insert or replace into gpu_samples(run_id, wall_time, gpu, utilization_pct,"
                      " memory_used_bytes, memory_total_bytes, power_w, temperature_c, sm_clock_mhz,"
                      " process_bytes, throttle, load_1m, processes_at)"
                      " values(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
                      &insert, err);
    if (status) return status;
    store_bind_text(insert, 1, run_id);
    sqlite3_bind_double(insert, 2, record->wall_time);
    sqlite3_bind_int(insert, 3, record->gpu);
    store_bind_double(insert, 4, record->utilization_pct);
    bind_bytes(insert, 5, record->memory_used_bytes);
    bind_bytes(insert, 6, record->memory_total_bytes);
    store_bind_double(insert, 7, record->power_w);
    store_bind_double(insert, 8, record->temperature_c);
    store_bind_double(insert, 9, record->sm_clock_mhz);
    bind_bytes(insert, 10, record->process_bytes);
    store_bind_text(insert, 11, record->throttle);
    store_bind_double(insert, 12, record->load_1m);
    store_bind_double(insert, 13, processes_at);
    return store_run(store, insert, err);
}

enum status gpu_samples_add(struct store *store, const char *run_id, const struct gpu_record *record,
                            struct err *err)
{
    double processes_at;
    enum status status = store_begin(store, err);
    if (status) return status;
    status = keep_processes(store, run_id, record, &processes_at, err);
    if (!status) status = add_sample(store, run_id, record, processes_at, err);
    if (!status) return store_commit(store, err);
    store_rollback(store);
    return status;
}

/* ---- reading ---- */

static enum status read_processes(struct store *store, const char *run_id, double at, struct arena *arena,
                                  struct gpu_record *out, struct err *err)
{
    sqlite3_stmt *select;
    bool row;
    size_t room = 0;
    enum status status = select_processes(store, run_id, at, out->gpu, &select, err);
    if (status) return status;
    out->process_count = 0;
    while (!(status = store_step(store, select, &row, err)) && row) {
        if ((size_t)out->process_count == room) {
            room = room ? 2 * room : 16;
            struct gpu_process *more = arena_alloc_array(arena, room, sizeof *more);
            if (!more) {
                sqlite3_reset(select);
                return err_set(err, STATUS_NO_MEMORY, "run %s: no memory for a list of processes", run_id);
            }
            if (out->process_count) memcpy(more, out->processes, (size_t)out->process_count * sizeof *more);
            out->processes = more;
        }
        out->processes[out->process_count++] = read_process(select);
    }
    return status;
}

enum status gpu_samples_last(struct store *store, const char *run_id, struct arena *arena,
                             struct gpu_record *out, bool *found, struct err *err)
{
    sqlite3_stmt *select;
    enum status status = store_prepare(
        store,
        "select wall_time, gpu, utilization_pct, memory_used_bytes, memory_total_bytes, power_w,"
        " temperature_c, sm_clock_mhz, process_bytes, throttle, load_1m, processes_at from gpu_samples where"
        " run_id = ?1 order by wall_time desc limit 1",
        &select, err);
    if (status) return status;
    store_bind_text(select, 1, run_id);
    status = store_step(store, select, found, err);
    if (status || !*found) return status;
    *out = (struct gpu_record){.wall_time = sqlite3_column_double(select, 0),
                               .gpu = sqlite3_column_int(select, 1),
                               .utilization_pct = store_column_double(select, 2),
                               .memory_used_bytes = store_column_int(select, 3, -1),
                               .memory_total_bytes = store_column_int(select, 4, -1),
                               .power_w = store_column_double(select, 5),
                               .temperature_c = store_column_double(select, 6),
                               .sm_clock_mhz = store_column_double(select, 7),
                               .process_bytes = store_column_int(select, 8, -1),
                               .load_1m = store_column_double(select, 10),
                               .process_count = -1};
    store_column_text(select, 9, out->throttle, sizeof out->throttle);
    double processes_at = store_column_double(select, 11);
    sqlite3_reset(select);
    return isnan(processes_at) ? STATUS_OK : read_processes(store, run_id, processes_at, arena, out, err);
}
