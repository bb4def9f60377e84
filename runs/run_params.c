/* See run_params.h. */
#include "runs/run_params.h"

#include <string.h>

#include "runs/table.h"

enum status run_params_list(struct store *store, const char *run_id, struct arena *arena,
                            struct run_param **out, size_t *count, struct err *err)
{
    struct table_request request = {TABLE_PARAMS, run_id, "order by name", SIZE_MAX, .size = sizeof **out};
    return table_list(store, &request, arena, out, count, err);
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
