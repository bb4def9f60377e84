/* See segment.h. */
#include "runs/segment.h"

#include <stdlib.h>

static enum status add_range(struct segment_list *list, struct segment_range range, struct err *err)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 8;
        struct segment_range *grown = realloc(list->ranges, capacity * sizeof *grown);
        if (!grown) return err_set(err, STATUS_NO_MEMORY, "reading segments: not enough memory");
        list->ranges = grown;
        list->capacity = capacity;
    }
    list->ranges[list->count++] = range;
    return STATUS_OK;
}

enum status segment_read(struct store *store, const char *run_id, int newest, struct segment_list *list,
                         struct err *err)
{
    sqlite3_stmt *statement;
    enum status status =
        store_query(store, &statement, err,
                    "select segment, first_step from segments where run_id = ?1 and"
                    " first_step is not null and (?2 = 0 or segment <= ?2) order by segment desc",
                    "sn", run_id, newest);
    if (status) return status;
    list->count = 0;
    int64_t end = INT64_MAX;
    bool row;
    while (!(status = store_step(store, statement, &row, err)) && row) {
        struct segment_range range = {(int)sqlite3_column_int64(statement, 0),
                                      sqlite3_column_int64(statement, 1), end};
        if (range.first > end) continue;
        if ((status = add_range(list, range, err))) {
            sqlite3_reset(statement);
            return status;
        }
        end = range.first > INT64_MIN ? range.first - 1 : INT64_MIN;
    }
    for (size_t i = 0; i < list->count / 2; i++) {
        struct segment_range swap = list->ranges[i];
        list->ranges[i] = list->ranges[list->count - 1 - i];
        list->ranges[list->count - 1 - i] = swap;
    }
    return status;
}

void segment_release(struct segment_list *list)
{
    free(list->ranges);
    *list = (struct segment_list){0};
}

bool segment_shows(const struct segment_list *list, int segment, int64_t step)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->ranges[i].segment == segment) return step <= list->ranges[i].last;
    /* superseded whole, or without a step yet: only the newest may speak before its first step */
    return list->count == 0 || segment > list->ranges[list->count - 1].segment;
}
