/* See profile.h. The database sums up, and reads no more than the rows of the newest steps, so that a view
 * may ask again and again. */
#include "runs/profile.h"

#include <math.h>

#include "runs/database.h"

/* The rows that count: those before the step at which a later segment went on. */
#define SHOWN                                                                                                \
    " from layer_profile p where p.run_id = ?1 and not exists (select 1 from segments later where"           \
    " later.run_id = ?1 and later.segment > p.segment and later.first_step <= p.step)"

/* Where the oldest step of the average is. */
struct bound {
    int segment;
    int64_t step;
};

/* Walks the table's key backward and stops early, however long the run is. */
static enum status read_steps(struct store *store, const char *run_id, struct profile *p,
                              struct bound *oldest, struct err *err)
{
    sqlite3_stmt *select;
    bool row;
    enum status status = store_query(store, &select, err,
                                     "select distinct p.segment, p.step" SHOWN
                                     " order by p.segment desc, p.step desc limit ?2",
                                     "sn", run_id, PROFILE_STEPS_MAX);
    while (!status && !(status = store_step(store, select, &row, err)) && row) {
        *oldest = (struct bound){sqlite3_column_int(select, 0), sqlite3_column_int64(select, 1)};
        if (p->steps++ == 0) p->last_step = oldest->step;
    }
    return status;
}

static const char *text_of(sqlite3_stmt *row, int column, struct arena *arena)
{
    const char *text = (const char *)sqlite3_column_text(row, column);
    return arena_strdup(arena, text ? text : "");
}

/* Each row carries the number of rows, for the size of the array. */
static enum status read_rows(struct store *store, const char *run_id, bool layers, struct bound oldest,
                             struct profile *p, struct err *err)
{
    sqlite3_stmt *select;
    bool row;
    enum status status = store_query(
        store, &select, err,
        "select count(*) over (), phase, case when ?2 then layer else -1 end as place, op, sum(calls),"
        " sum(time_us) as time, sum(bytes), sum(flops)" SHOWN
        " and (p.segment, p.step) >= (?3, ?4) group by phase, place, op"
        " order by case phase when 'data' then 0 when 'forward' then 1 when 'backward' then 2"
        " when 'recompute' then 3 when 'optimizer' then 4 when 'unattributed' then 6 else 5 end,"
        " phase, place, time desc, op",
        "snni", run_id, (int)layers, oldest.segment, oldest.step);
    double steps = (double)p->steps;
    while (!status && !(status = store_step(store, select, &row, err)) && row) {
        if (!p->rows)
            p->rows = arena_alloc_array(&p->arena, (size_t)sqlite3_column_int64(select, 0), sizeof *p->rows);
        struct profile_row made = {.phase = text_of(select, 1, &p->arena),
                                   .layer = sqlite3_column_int(select, 2),
                                   .op = text_of(select, 3, &p->arena),
                                   .calls = store_column_double(select, 4) / steps,
                                   .time_us = store_column_double(select, 5) / steps,
                                   .bytes = store_column_double(select, 6) / steps,
                                   .flops = store_column_double(select, 7) / steps};
        if (!p->rows || !made.phase || !made.op) {
            sqlite3_reset(select);
            return err_set(err, STATUS_NO_MEMORY, "reading the profile of %s: not enough memory", run_id);
        }
        p->rows[p->count++] = made;
        if (isfinite(made.time_us)) p->step_us += made.time_us;
    }
    return status;
}

enum status profile_read(struct store *store, const char *run_id, bool layers, struct profile *out,
                         struct err *err)
{
    profile_release(out);
    out->last_step = -1;
    enum status status = store_read_begin(store, err);
    if (status) return status;
    struct bound oldest = {0};
    status = read_steps(store, run_id, out, &oldest, err);
    if (!status && out->steps) status = read_rows(store, run_id, layers, oldest, out, err);
    store_read_end(store);
    return status;
}

void profile_release(struct profile *profile)
{
    arena_release(&profile->arena);
    *profile = (struct profile){0};
}

static double rate(double amount, double time_us)
{
    if (amount == 0) return 0;
    return time_us > 0 ? amount / time_us * 1e-3 : NAN;
}

double profile_gigabytes_per_second(const struct profile_row *row)
{
    return rate(row->bytes, row->time_us);
}

double profile_gigaflops_per_second(const struct profile_row *row)
{
    return rate(row->flops, row->time_us);
}
