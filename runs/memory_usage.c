/* See memory_usage.h. */
#include "runs/memory_usage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "runs/gpu_samples.h"
#include "runs/run.h"
#include "runs/table.h"

enum { CATEGORIES_MAX = 64 }; /* of one step; a store that holds more shows the first */

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
    for (size_t i = 0; !status && i < out->category_count; i++) { /* an import may leave them out */
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
    /* a GPU with a screen keeps more free, but no row says whether it has one */
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

/* Two homes may give the same id; older programs did not record theirs. */
static bool is_of_home(const struct store *store, const struct reservation *row)
{
    return row->home[0] == '\0' || strncmp(row->home, store_home(store), sizeof row->home - 1) == 0;
}

enum status memory_usage_holders(struct store *store, struct ledger *ledger, const char *run_id,
                                 struct arena *arena, struct memory_holder **out, size_t *count,
                                 struct err *err)
{
    struct reservation *all = NULL;
    size_t all_count = 0, used = 0;
    const char *device = NULL;
    struct run_info run;
    enum status status = ledger_list(ledger, NULL, &all, &all_count, err);
    if (status) return status;
    struct memory_holder *holders = arena_alloc_array(arena, all_count + 1, sizeof *holders);
    if (!holders) status = err_set(err, STATUS_NO_MEMORY, "no memory to list who holds memory");
    for (size_t i = 0; i < all_count; i++)
        if (!all[i].waits && is_of_home(store, &all[i]) && strcmp(all[i].holder, run_id) == 0)
            device = all[i].device;
    for (size_t i = 0; !status && device && i < all_count; i++) {
        if (all[i].waits || strcmp(all[i].device, device) != 0) continue;
        struct memory_holder *holder = &holders[used++];
        bool ours = is_of_home(store, &all[i]) && run_get(store, all[i].holder, &run, NULL) == STATUS_OK;
        *holder = (struct memory_holder){.own = ours && strcmp(run.id, run_id) == 0,
                                         .pid = all[i].pid,
                                         .bytes = all[i].bytes,
                                         .used = all[i].used};
        snprintf(holder->name, sizeof holder->name, "%s", ours ? run.name : all[i].holder);
    }
    free(all);
    if (status) return status;
    *out = holders;
    *count = used;
    return STATUS_OK;
}
