/* The rows for panels that series.h promises: evaluations, early stopping, samples, checkpoints, events,
 * newest first. Of a resumed run only what counts is given (table.h); checkpoints and events are all given.
 */
#include "runs/series.h"
#include "runs/table.h"

#define NEWEST_FIRST "order by step desc, segment desc"

enum status series_stopping(struct store *store, const char *run_id, size_t limit, struct arena *arena,
                            struct stopping_row **out, size_t *count, struct err *err)
{
    struct table_request request = {TABLE_STOPPING, run_id, NEWEST_FIRST, limit, sizeof **out, true};
    return table_list(store, &request, arena, out, count, err);
}

enum status series_samples(struct store *store, const char *run_id, size_t limit, struct arena *arena,
                           struct sample_record **out, size_t *count, struct err *err)
{
    struct table_request request = {TABLE_SAMPLES, run_id,       NEWEST_FIRST ", id desc",
                                    limit,         sizeof **out, true};
    return table_list(store, &request, arena, out, count, err);
}

enum status series_evals(struct store *store, const char *run_id, size_t limit, struct arena *arena,
                         struct eval_record **out, size_t *count, struct err *err)
{
    struct table_request request = {TABLE_EVALS, run_id, NEWEST_FIRST, limit, sizeof **out, true};
    return table_list(store, &request, arena, out, count, err);
}

enum status series_events(struct store *store, const char *run_id, size_t limit, struct arena *arena,
                          struct event_record **out, size_t *count, struct err *err)
{
    struct table_request request = {TABLE_EVENTS, run_id, "order by id desc", limit, sizeof **out, false};
    return table_list(store, &request, arena, out, count, err);
}

enum status series_checkpoints(struct store *store, const char *run_id, size_t limit, struct arena *arena,
                               struct checkpoint_record **out, size_t *count, struct err *err)
{
    static const char newest[] =
        "and not exists (select 1 from checkpoints c where run_id = ?1 and path = t.path"
        " and (segment, wall_time) > (t.segment, t.wall_time))"
        " order by segment desc, step desc, wall_time desc";
    struct table_request request = {TABLE_CHECKPOINTS, run_id, newest, limit, sizeof **out, false};
    return table_list(store, &request, arena, out, count, err);
}

enum status series_best_checkpoints(struct store *store, const char *run_id, size_t limit,
                                    struct arena *arena, struct checkpoint_record **out, size_t *count,
                                    struct err *err)
{
    static const char still_best[] = "and kind = 'best' and segment = (select max(segment) from checkpoints c"
                                     " where run_id = ?1 and step = t.step) order by segment desc, step desc";
    struct table_request request = {TABLE_CHECKPOINTS, run_id, still_best, limit, sizeof **out, false};
    return table_list(store, &request, arena, out, count, err);
}

enum status series_peak_memory(struct store *store, const char *run_id, int64_t *bytes, struct err *err)
{
    return store_number(store, bytes, -1, err,
                        "select sum(peak) from (select max(peak_bytes) peak from memory where run_id = ?1"
                        " group by category)",
                        "s", run_id);
}

enum status series_last_step(struct store *store, const char *run_id, struct step_record *out,
                             struct err *err)
{
    struct arena arena = {0};
    struct step_record *last;
    size_t count;
    struct table_request request = {TABLE_STEPS, run_id,       "order by segment desc, step desc",
                                    1,           sizeof *last, false};
    enum status status = table_list(store, &request, &arena, &last, &count, err);
    if (!status && count == 0)
        status = err_set(err, STATUS_NOT_FOUND, "run %s: no step has been recorded yet", run_id);
    if (!status) *out = *last;
    if (!status && out->tokens < 0) out->tokens = 0; /* of an import that does not say */
    arena_release(&arena);
    return status;
}
