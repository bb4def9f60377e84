/* See lineage.h. */
#include "runs/lineage.h"

#include <stdio.h>

#include "runs/database.h"

enum status lineage_read(struct store *store, const char *run_id, struct lineage *out, struct err *err)
{
    char id[RUN_ID_MAX];
    snprintf(id, sizeof id, "%s", run_id);
    for (out->count = 0; *id && out->count < LINEAGE_MAX;) {
        sqlite3_stmt *select;
        struct ancestor *run = &out->runs[out->count++];
        *run = (struct ancestor){.first = -1};
        snprintf(run->id, sizeof run->id, "%s", id);
        *id = '\0';
        enum status status =
            store_query(store, &select, err,
                        "select (select min(first_step) from segments where run_id = r.id), r.parent_step,"
                        " p.id from runs r left join runs p on p.id = r.parent_id where r.id = ?1",
                        "s", run->id);
        if (!store_next(store, select, &status, err)) return status;
        run->first = store_column_int(select, 0, -1);
        run->parent_step = store_column_int(select, 1, 0);
        if (run->parent_step > 0) store_column_text(select, 2, id, sizeof id);
        sqlite3_reset(select);
    }
    return STATUS_OK;
}
