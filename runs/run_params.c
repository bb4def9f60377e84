/* See run_params.h. */
#include "runs/run_params.h"

#include <string.h>

#include "runs/database.h"

enum status run_params_list(struct store *store, const char *run_id, struct arena *arena,
                            struct run_param **out, size_t *count, struct err *err)
{
    sqlite3_stmt *select;
    struct run_param *params = NULL;
    size_t used = 0, capacity = 0;
    bool row;
    enum status status =
        store_prepare(store, "select name, value from params where run_id = ?1 order by name", &select, err);
    if (status) return status;
    store_bind_text(select, 1, run_id);
    while (!(status = store_step(store, select, &row, err)) && row) {
        if (used == capacity) {
            capacity = capacity ? 2 * capacity : 64;
            struct run_param *grown = arena_alloc_array(arena, capacity, sizeof *grown);
            if (!grown) goto no_memory;
            if (used) memcpy(grown, params, used * sizeof *params);
            params = grown;
        }
        const char *name = (const char *)sqlite3_column_text(select, 0);
        const char *value = (const char *)sqlite3_column_text(select, 1);
        params[used].name = arena_strdup(arena, name ? name : "");
        params[used].value = arena_strdup(arena, value ? value : "");
        if (!params[used].name || !params[used].value) goto no_memory;
        used++;
    }
    if (status) return status;
    *out = params;
    *count = used;
    return STATUS_OK;
no_memory:
    sqlite3_reset(select);
    return err_set(err, STATUS_NO_MEMORY, "run %s: not enough memory for its configuration", run_id);
}

const char *run_params_get(const struct run_param *params, size_t count, const char *name)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(params[middle].name, name);
        if (order == 0) return params[middle].value;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}
