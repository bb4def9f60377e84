/* See memory_usage.h. */
#include "runs/memory_usage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "runs/run.h"
#include "runs/table.h"

/* ---- samples of the device ---- */

/* Reads the processes of the newest sample of a device into `out`; *at: when they were written, NaN: they
 * were not known, or there is no sample. */
static enum status read_processes(struct store *store, const char *run_id, int gpu, struct arena *arena,
                                  struct gpu_record *out, double *at, struct err *err)
{
    char tail[200];
    sqlite3_stmt *select;
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
    if (!store_next(store, select, &status, err)) return status;
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

static enum status add_sample(struct store *store, const char *run_id, const struct gpu_record *record,
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
    status = add_sample(store, run_id, record, &arena, err);
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

/* ---- memory by category and by process ---- */

enum { CATEGORIES_MAX = 64 }; /* of one step; any further ones are left out */

static enum status read_categories(struct store *store, const char *run_id, struct arena *arena,
                                   struct memory_usage *out, struct err *err)
{
    struct table_request request = {
        TABLE_MEMORY,
        run_id,
        "and (segment, step) = (select segment, step from memory where run_id = ?1"
        " order by segment desc, step desc limit 1)",
        CATEGORIES_MAX,
        sizeof *out->categories,
        false};
    enum status status = table_list(store, &request, arena, &out->categories, &out->category_count, err);
    for (size_t i = 0; !status && i < out->category_count; i++) { /* an import may lack them */
        struct memory_record *r = &out->categories[i];
        if (r->planned_bytes < 0) r->planned_bytes = 0;
        if (r->live_bytes < 0) r->live_bytes = 0;
        if (r->peak_bytes < 0) r->peak_bytes = 0;
    }
    return status;
}

static enum status read_sample(struct store *store, const char *run_id, struct arena *arena,
                               struct memory_usage *out, struct err *err)
{
    struct table_request others = {
        TABLE_PROCESSES,
        run_id,
        "and (wall_time, gpu) = (select processes_at, gpu from gpu_samples where run_id = ?1"
        " order by wall_time desc limit 1)"
        " and pid is not (select pid from runs where id = ?1) order by bytes desc, pid",
        SIZE_MAX,
        sizeof *out->others,
        false};
    enum status status = gpu_samples_last(store, run_id, arena, &out->sample, &out->has_sample, err);
    return status ? status : table_list(store, &others, arena, &out->others, &out->other_count, err);
}

static enum status read_reserve(struct store *store, const char *run_id, struct arena *arena,
                                struct memory_usage *out, struct err *err)
{
    struct table_request request = {
        TABLE_PARAMS, run_id, "and name = 'memory.reserve'", 1, sizeof(struct run_param), false};
    struct run_param *param;
    size_t count;
    enum status status = table_list(store, &request, arena, &param, &count, err);
    out->reserve = NAN;
    if (status || !count) return status;
    if (text_parse_double(param->value, &out->reserve)) return STATUS_OK;
    /* a GPU with a screen keeps more free, but the store does not record that */
    out->reserve =
        strcmp(param->value, "auto") == 0 && out->has_sample ? ledger_auto_reserve(out->sample.gpu < 0) : NAN;
    return STATUS_OK;
}

enum status memory_usage_read(struct store *store, const char *run_id, struct arena *arena,
                              struct memory_usage *out, struct err *err)
{
    struct memory_usage usage = {.reserve = NAN};
    enum status status = read_categories(store, run_id, arena, &usage, err);
    if (!status) status = read_sample(store, run_id, arena, &usage, err);
    if (!status) status = read_reserve(store, run_id, arena, &usage, err);
    if (!status) *out = usage;
    return status;
}

/* Two homes may have runs with the same id; older versions did not record the home. */
static bool is_of_home(const struct store *store, const struct reservation *row)
{
    return row->home[0] == '\0' || strncmp(row->home, store_home(store), sizeof row->home - 1) == 0;
}

/* The run that the text "ID" or "ID (qlora)" names. Returns what follows the id. */
static const char *split_holder(const char *text, char id[LEDGER_TEXT])
{
    size_t n = strcspn(text, " ");
    snprintf(id, LEDGER_TEXT, "%.*s", (int)n, text);
    return text + n;
}

enum status memory_usage_holders(struct store *store, struct ledger *ledger, const char *run_id,
                                 struct arena *arena, struct memory_holder **out, size_t *count,
                                 struct err *err)
{
    struct reservation *all = NULL;
    size_t all_count = 0, used = 0;
    const char *device = NULL;
    char id[LEDGER_TEXT];
    struct run_info run;
    enum status status = ledger_list(ledger, NULL, &all, &all_count, err);
    if (status) return status;
    struct memory_holder *holders = arena_alloc_array(arena, all_count + 1, sizeof *holders);
    if (!holders) status = err_no_memory(err, "a list of reservations");
    for (size_t i = 0; i < all_count; i++) {
        split_holder(all[i].holder, id);
        if (!all[i].waits && is_of_home(store, &all[i]) && strcmp(id, run_id) == 0) device = all[i].device;
    }
    for (size_t i = 0; !status && device && i < all_count; i++) {
        if (all[i].waits || strcmp(all[i].device, device) != 0) continue;
        struct memory_holder *holder = &holders[used++];
        const char *purpose = split_holder(all[i].holder, id);
        bool ours = is_of_home(store, &all[i]) && run_get(store, id, &run, NULL) == STATUS_OK;
        *holder = (struct memory_holder){.own = ours && strcmp(run.id, run_id) == 0,
                                         .pid = all[i].pid,
                                         .bytes = all[i].bytes,
                                         .used = all[i].used};
        snprintf(holder->name, sizeof holder->name, "%s%s", ours ? run.name : all[i].holder,
                 ours ? purpose : "");
    }
    free(all);
    if (status) return status;
    *out = holders;
    *count = used;
    return STATUS_OK;
}
