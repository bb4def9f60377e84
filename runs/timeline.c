/* See timeline.h. Evaluations are numbered by steps done: one "at" step s belongs to what ended with step
 * s - 1, so a segment's range holds one evaluation more than it holds steps. Where the next segment evaluated
 * again at that very step, its row is the one that counts. */
#include "runs/timeline.h"

#include <stdio.h>

enum status timeline_open(struct timeline *timeline, struct store *store, const char *run_id, bool evals,
                          const char *columns, struct err *err)
{
    return timeline_open_part(timeline, store, run_id, evals, columns, INT64_MIN, INT64_MAX, err);
}

enum status timeline_open_part(struct timeline *timeline, struct store *store, const char *run_id, bool evals,
                               const char *columns, int64_t low, int64_t high, struct err *err)
{
    char sql[640];
    *timeline = (struct timeline){
        .store = store, .run_id = run_id, .evals = evals, .first = INT64_MIN, .low = low, .high = high};
    snprintf(sql, sizeof sql,
             "select %s from %s t where run_id = ?1 and segment = ?2 and step between ?3 and ?4%s"
             " order by step",
             columns, evals ? "evals" : "steps",
             evals ? " and not (step = ?4 and exists (select 1 from evals n where n.run_id = ?1 and"
                     " n.segment = ?5 and n.step = ?4))"
                   : "");
    enum status status = segment_read(store, run_id, 0, &timeline->segments, err);
    return status ? status : store_prepare(store, sql, &timeline->row, err);
}

/* Binds the next range that is not empty; false after the last. */
static bool next_range(struct timeline *timeline)
{
    struct segment_list *list = &timeline->segments;
    while (timeline->next < list->count) {
        struct segment_range range = list->ranges[timeline->next++];
        int64_t last = range.last;
        if (timeline->evals && last < INT64_MAX) last++;
        int64_t first = timeline->evals ? timeline->first : range.first;
        if (first > last) continue;
        int next =
            timeline->next < list->count && last <= timeline->high ? list->ranges[timeline->next].segment : 0;
        if (timeline->next < list->count) timeline->first = last;
        if (first < timeline->low) first = timeline->low;
        if (last > timeline->high) last = timeline->high;
        if (first > last) continue;
        sqlite3_reset(timeline->row);
        store_bind_text(timeline->row, 1, timeline->run_id);
        sqlite3_bind_int(timeline->row, 2, range.segment);
        sqlite3_bind_int64(timeline->row, 3, first);
        sqlite3_bind_int64(timeline->row, 4, last);
        if (timeline->evals) sqlite3_bind_int(timeline->row, 5, next);
        return true;
    }
    return false;
}

enum status timeline_next(struct timeline *timeline, bool *row, struct err *err)
{
    *row = false;
    if (timeline->next == 0 && !next_range(timeline)) return STATUS_OK;
    do {
        enum status status = store_step(timeline->store, timeline->row, row, err);
        if (status || *row) return status;
    } while (next_range(timeline));
    return STATUS_OK;
}

void timeline_close(struct timeline *timeline)
{
    if (timeline->row) sqlite3_reset(timeline->row);
    segment_release(&timeline->segments);
    *timeline = (struct timeline){0};
}
