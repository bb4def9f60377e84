/* See gpu_samples.h. */
#include "runs/gpu_samples.h"

#include "runs/database.h"

static void bind_bytes(sqlite3_stmt *statement, int index, int64_t bytes)
{
    if (bytes >= 0) sqlite3_bind_int64(statement, index, bytes);
}

enum status gpu_samples_add(struct store *store, const char *run_id, const struct gpu_record *record,
                            struct err *err)
{
    sqlite3_stmt *insert;
    enum status status = store_begin(store, err);
    if (status) return status;
    status = store_prepare(store,
                           "insert or replace into gpu_samples(run_id, wall_time, gpu, utilization_pct,"
                           " memory_used_bytes, memory_total_bytes, power_w, temperature_c, sm_clock_mhz,"
                           " process_bytes, throttle) values(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
                           &insert, err);
    if (!status) {
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
        status = store_run(store, insert, err);
    }
    if (!status) return store_commit(store, err);
    store_rollback(store);
    return status;
}
