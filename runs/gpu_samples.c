/* See gpu_samples.h. */
#include "runs/gpu_samples.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runs/table.h"

/* The processes of the newest sample of a device, into `out`; *at: when they were written, NaN: nobody knew
 * of any, or there is no sample. */
static enum status read_processes(struct store *store, const char *run_id, int gpu, struct arena *arena,
                                  struct gpu_record *out, double *at, struct err *err)
{
    char tail[200];
    sqlite3_stmt *select;
    bool row;
    size_t count;
    snprintf(tail, sizeof tail,
             "and gpu = %d and wall_time = (select processes_at from gpu_samples where run_id = ?1"
             " and gpu = %d order by wall_time desc limit 1) order by pid",
             gpu, gpu);
    struct table_request request = {TABLE_PROCESSES, run_id, tail, SIZE_MAX, sizeof *out->processes, false};
    out->process_count = -1;
    *at = NAN;
    enum status status = store_query(store, &select, err,
                                     "select processes_at from gpu_samples where run_id = ?1 and gpu = ?2"
                                     " order by wall_time desc limit 1",
                                     "sn", run_id, gpu);
    if (!status) status = store_step(store, select, &row, err);
    if (status || !row) return status;
    *at = store_column_double(select, 0);
    sqlite3_reset(select);
    if (isnan(*at)) return STATUS_OK;
    status = table_list(store, &request, arena, &out->processes, &count, err);
    if (!status) out->process_count = (int64_t)count;
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

static enum status add(struct store *store, const char *run_id, const struct gpu_record *record,
                       struct arena *arena, struct err *err)
{
    struct gpu_record before;
    double at;
    enum status status = read_processes(store, run_id, record->gpu, arena, &before, &at, err);
    if (record->process_count < 0) {
        at = NAN;
    } else if (!are_same(&before, record)) {
        at = record->wall_time;
        for (int64_t i = 0; !status && i < record->process_count; i++) {
            const struct gpu_process *process = &record->processes[i];
            status = store_do(store, err,
                              "insert or replace into gpu_processes(run_id, wall_time, gpu, pid, name, bytes)"
                              " values(?1, ?2, ?3, ?4, ?5, nullif(?6, -1))",
                              "sdnisi", run_id, at, record->gpu, process->pid, process->name, process->bytes);
        }
    }
    if (!status) status = table_add(store, TABLE_GPU, run_id, 0, record, err);
    if (status) return status;
    return store_do(
        store, err,
        "update gpu_samples set processes_at = ?4 where run_id = ?1 and wall_time = ?2 and gpu = ?3", "sdnd",
        run_id, record->wall_time, record->gpu, at);
}

enum status gpu_samples_add(struct store *store, const char *run_id, const struct gpu_record *record,
                            struct err *err)
{
    struct arena arena = {0};
    enum status status = store_begin(store, err);
    if (status) return status;
    status = add(store, run_id, record, &arena, err);
    status = store_end(store, status, err);
    arena_release(&arena);
    return status;
}

enum status gpu_samples_last(struct store *store, const char *run_id, struct arena *arena,
                             struct gpu_record *out, bool *found, struct err *err)
{
    struct table_request request = {TABLE_GPU, run_id, "order by wall_time desc", 1, sizeof *out, false};
    struct gpu_record *newest;
    size_t count;
    double at;
    enum status status = table_list(store, &request, arena, &newest, &count, err);
    if (status) return status;
    *found = count > 0;
    if (!count) return STATUS_OK;
    *out = *newest;
    return read_processes(store, run_id, out->gpu, arena, out, &at, err);
}
