/* See memory_usage.h. */
#include "runs/memory_usage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "runs/gpu_samples.h"
#include "runs/table.h"

enum { CATEGORIES_MAX = 64 }; /* of one step; a store that holds more shows the first */

static enum status read_categories(struct store *store, const char *run_id, struct arena *arena,
                                   struct memory_usage *out, struct err *err)
{
    struct table_request request = {
        TABLE_MEMORY, run_id,
        "and (segment, step) = (select segment, step from memory where run_id = ?1"
        " order by segment desc, step desc limit 1)",
        CATEGORIES_MAX, .size = sizeof *out->categories};
    enum status status = table_list(store, &request, arena, &out->categories, &out->category_count, err);
    for (size_t i = 0; !status && i < out->category_count; i++) { /* an import may leave them out */
        struct memory_record *r = &out->categories[i];
        if (r->planned_bytes < 0) r->planned_bytes = 0;
        if (r->live_bytes < 0) r->live_bytes = 0;
        if (r->peak_bytes < 0) r->peak_bytes = 0;
    }
    return status;
}

static int most_first(const void *a, const void *b)
{
    const struct gpu_process *left = a, *right = b;
    if (left->bytes != right->bytes) return left->bytes < right->bytes ? 1 : -1;
    return (left->pid > right->pid) - (left->pid < right->pid);
}

/* The processes of the sample but the run's own, by what they hold. */
static enum status sort_others(struct store *store, const char *run_id, struct memory_usage *out,
                               struct err *err)
{
    sqlite3_stmt *select;
    bool row;
    int64_t own = -1;
    enum status status = store_query(store, &select, err, "select pid from runs where id = ?1", "s", run_id);
    if (!status) status = store_step(store, select, &row, err);
    if (status) return status;
    if (row) own = store_column_int(select, 0, -1);
    sqlite3_reset(select);
    struct gpu_process *processes = out->sample.processes;
    for (int64_t i = 0; i < out->sample.process_count; i++)
        if (processes[i].pid != own) processes[out->other_count++] = processes[i];
    if (out->other_count) qsort(processes, out->other_count, sizeof *processes, most_first);
    out->others = processes;
    return STATUS_OK;
}

static enum status read_sample(struct store *store, const char *run_id, struct arena *arena,
                               struct memory_usage *out, struct err *err)
{
    enum status status = gpu_samples_last(store, run_id, arena, &out->sample, &out->has_sample, err);
    return status || !out->has_sample ? status : sort_others(store, run_id, out, err);
}

static enum status read_reserve(struct store *store, const char *run_id, struct memory_usage *out,
                                struct err *err)
{
    sqlite3_stmt *select;
    bool row;
    char text[64];
    enum status status =
        store_query(store, &select, err,
                    "select value from params where run_id = ?1 and name = 'memory.reserve'", "s", run_id);
    out->reserve = NAN;
    if (!status) status = store_step(store, select, &row, err);
    if (status || !row) return status;
    store_column_text(select, 0, text, sizeof text);
    sqlite3_reset(select);
    if (text_parse_double(text, &out->reserve)) return STATUS_OK;
    /* a GPU with a screen keeps more free, but no row says whether it has one */
    out->reserve =
        strcmp(text, "auto") == 0 && out->has_sample ? ledger_auto_reserve(out->sample.gpu < 0) : NAN;
    return STATUS_OK;
}

enum status memory_usage_read(struct store *store, const char *run_id, struct arena *arena,
                              struct memory_usage *out, struct err *err)
{
    struct memory_usage usage = {.reserve = NAN};
    enum status status = read_categories(store, run_id, arena, &usage, err);
    if (!status) status = read_sample(store, run_id, arena, &usage, err);
    if (!status) status = read_reserve(store, run_id, &usage, err);
    if (!status) *out = usage;
    return status;
}

/* Two homes may give the same id; older programs did not record theirs. */
static bool is_of_home(const struct store *store, const struct reservation *row)
{
    return row->home[0] == '\0' || strncmp(row->home, store_home(store), sizeof row->home - 1) == 0;
}

/* The name of the run with this id; `holder` itself where there is none. */
static enum status name_of(struct store *store, const char *holder, char name[LEDGER_TEXT], struct err *err)
{
    sqlite3_stmt *select;
    bool row;
    enum status status = store_query(store, &select, err, "select name from runs where id = ?1", "s", holder);
    snprintf(name, LEDGER_TEXT, "%s", holder);
    if (!status) status = store_step(store, select, &row, err);
    if (status || !row) return status;
    store_column_text(select, 0, name, LEDGER_TEXT);
    sqlite3_reset(select);
    return STATUS_OK;
}

static bool is_own(const struct store *store, const struct reservation *row, const char *run_id)
{
    return strcmp(row->holder, run_id) == 0 && is_of_home(store, row);
}

enum status memory_usage_holders(struct store *store, struct ledger *ledger, const char *run_id,
                                 struct arena *arena, struct memory_holder **out, size_t *count,
                                 struct err *err)
{
    struct reservation *all = NULL;
    size_t all_count = 0, used = 0;
    const char *device = NULL;
    enum status status = ledger_list(ledger, NULL, &all, &all_count, err);
    if (status) return status;
    struct memory_holder *holders = arena_alloc_array(arena, all_count + 1, sizeof *holders);
    if (!holders) status = err_set(err, STATUS_NO_MEMORY, "no memory to list who holds memory");
    for (size_t i = 0; i < all_count; i++)
        if (!all[i].waits && is_own(store, &all[i], run_id)) device = all[i].device;
    for (size_t i = 0; !status && device && i < all_count; i++) {
        if (all[i].waits || strcmp(all[i].device, device) != 0) continue;
        struct memory_holder *holder = &holders[used++];
        *holder = (struct memory_holder){.own = is_own(store, &all[i], run_id),
                                         .pid = all[i].pid,
                                         .bytes = all[i].bytes,
                                         .used = all[i].used};
        snprintf(holder->name, sizeof holder->name, "%s", all[i].holder);
        if (is_of_home(store, &all[i])) status = name_of(store, all[i].holder, holder->name, err);
    }
    free(all);
    if (status) return status;
    *out = holders;
    *count = used;
    return STATUS_OK;
}
