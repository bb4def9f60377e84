/* See gpu_samples.h. */
#include "runs/gpu_samples.h"

#include <math.h>
#include <string.h>

#include "runs/table.h"

/* ---- processes ---- */

/* When the processes of the sample before were written; NaN: there is none, or it knew of none. */
static enum status find_before(struct store *store, const char *run_id, const struct gpu_record *record,
                               double *out, struct err *err)
{
    sqlite3_stmt *select;
    bool row;
    enum status status = store_query(store, &select, err,
                                     "select processes_at from gpu_samples where run_id = ?1 and gpu = ?2"
                                     " and wall_time < ?3 order by wall_time desc limit 1",
                                     "snd", run_id, record->gpu, record->wall_time);
    *out = NAN;
    if (!status) status = store_step(store, select, &row, err);
    if (status || !row) return status;
    *out = store_column_double(select, 0);
    sqlite3_reset(select);
    return STATUS_OK;
}

/* Those written at `at` for the device of the record, by pid, in `arena`. */
static enum status read_processes(struct store *store, const char *run_id, double at, struct arena *arena,
                                  struct gpu_record *out, struct err *err)
{
    char fields[100], sql[300];
    sqlite3_stmt *select;
    bool row;
    void *processes = NULL;
    size_t count = 0;
    table_fields(TABLE_PROCESSES, fields, sizeof fields);
    snprintf(sql, sizeof sql,
             "select %s from gpu_processes t where run_id = ?1 and wall_time = ?2 and gpu = ?3 order by pid",
             fields);
    enum status status = store_query(store, &select, err, sql, "sdn", run_id, at, out->gpu);
    while (!status && !(status = store_step(store, select, &row, err)) && row) {
        struct gpu_process *process = array_grow(arena, &processes, count, sizeof *process);
        if (!process) {
            sqlite3_reset(select);
            return err_set(err, STATUS_NO_MEMORY, "run %s: no memory for a list of processes", run_id);
        }
        table_read(TABLE_PROCESSES, select, 0, arena, process);
        count++;
    }
    out->processes = processes;
    out->process_count = (int64_t)count;
    return status;
}

static bool are_same(const struct gpu_record *a, const struct gpu_record *b)
{
    if (a->process_count != b->process_count) return false;
    for (int64_t i = 0; i < a->process_count; i++) {
        const struct gpu_process *x = &a->processes[i], *y = &b->processes[i];
        if (x->pid != y->pid || x->bytes != y->bytes || strcmp(x->name, y->name) != 0) return false;
    }
    return true;
}

static enum status add_processes(struct store *store, const char *run_id, const struct gpu_record *record,
                                 struct err *err)
{
    enum status status = STATUS_OK;
    for (int64_t i = 0; !status && i < record->process_count; i++) {
        sqlite3_stmt *insert;
        status = table_insert(store, TABLE_PROCESSES, run_id, 0, &record->processes[i], &insert, err);
        if (status) return status;
        sqlite3_bind_double(insert, TABLE_PARAMETER(PROCESSES, wall_time), record->wall_time);
        sqlite3_bind_int(insert, TABLE_PARAMETER(PROCESSES, gpu), record->gpu);
        status = store_run(store, insert, err);
    }
    return status;
}

/* *at: when the processes that hold memory now were written; NaN: not known. */
static enum status keep_processes(struct store *store, const char *run_id, const struct gpu_record *record,
                                  double *at, struct err *err)
{
    struct gpu_record before = {.gpu = record->gpu, .process_count = -1};
    struct arena arena;
    *at = NAN;
    if (record->process_count < 0) return STATUS_OK;
    arena_init(&arena, 0);
    enum status status = find_before(store, run_id, record, at, err);
    if (!status && !isnan(*at)) status = read_processes(store, run_id, *at, &arena, &before, err);
    if (!status && !are_same(&before, record)) {
        *at = record->wall_time;
        status = add_processes(store, run_id, record, err);
    }
    arena_release(&arena);
    return status;
}

/* ---- samples ---- */

enum status gpu_samples_add(struct store *store, const char *run_id, const struct gpu_record *record,
                            struct err *err)
{
    double processes_at;
    sqlite3_stmt *insert;
    enum status status = store_begin(store, err);
    if (status) return status;
    status = keep_processes(store, run_id, record, &processes_at, err);
    if (!status) status = table_insert(store, TABLE_GPU, run_id, 0, record, &insert, err);
    if (!status) {
        store_bind_double(insert, TABLE_PARAMETER(GPU, processes_at), processes_at);
        status = store_run(store, insert, err);
    }
    if (!status) return store_commit(store, err);
    store_rollback(store);
    return status;
}

enum status gpu_samples_last(struct store *store, const char *run_id, struct arena *arena,
                             struct gpu_record *out, bool *found, struct err *err)
{
    char fields[400], sql[600];
    sqlite3_stmt *select;
    table_fields(TABLE_GPU, fields, sizeof fields);
    snprintf(sql, sizeof sql,
             "select processes_at, %s from gpu_samples t where run_id = ?1 order by wall_time desc limit 1",
             fields);
    enum status status = store_query(store, &select, err, sql, "s", run_id);
    if (!status) status = store_step(store, select, found, err);
    if (status || !*found) return status;
    *out = (struct gpu_record){.process_count = -1};
    table_read(TABLE_GPU, select, 1, arena, out);
    double processes_at = store_column_double(select, 0);
    sqlite3_reset(select);
    return isnan(processes_at) ? STATUS_OK : read_processes(store, run_id, processes_at, arena, out, err);
}
