/* See profile.h. The database computes the sums and reads only the rows of the newest steps, so that a view
 * may call this often. */
#include "runs/profile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runs/table.h"

/* ?2: one row per layer. Each row has the number of steps and the newest step. The query finds the steps by
 * reading the table's key backward, so its time does not depend on the length of the run. All are of one
 * segment, since a resume may have changed the device or the number of ranks. */
#define QUERY                                                                                                \
    "with found as (select distinct t.segment, t.step " COUNTED_PROFILE                                      \
    " order by t.segment %s, t.step %s limit %d),"                                                           \
    " shown as (select * from found where segment = (select %s(segment) from found))"                        \
    " select (select count(*) from shown), (select step from shown limit 1), phase,"                         \
    " case when ?2 then layer else -1 end as place, op, sum(1.0 * calls), sum(time_us) as time,"             \
    " sum(1.0 * bytes), sum(1.0 * flops) from shown s cross join layer_profile p on p.run_id = ?1"           \
    " and p.segment = s.segment and"                                                                         \
    " p.step = s.step group by phase, place, op"                                                             \
    " order by case phase when 'data' then 0 when 'forward' then 1 when 'backward' then 2"                   \
    " when 'recompute' then 3 when 'optimizer' then 4 when 'unattributed' then 6 else 5 end,"                \
    " phase, place, time desc, op"

enum { FIND_BACK = 32 }; /* within a layer the order is that of time, so that it may differ */

static bool read_row(sqlite3_stmt *row, struct profile *p)
{
    p->steps = sqlite3_column_int64(row, 0);
    p->last_step = sqlite3_column_int64(row, 1);
    double steps = (double)p->steps;
    struct profile_row *out = arena_grow(&p->arena, &p->rows, p->count, sizeof *out);
    if (!out) return false;
    *out = (struct profile_row){.phase = store_column_copy(row, 2, &p->arena),
                                .layer = sqlite3_column_int(row, 3),
                                .op = store_column_copy(row, 4, &p->arena),
                                .calls = store_column_double(row, 5) / steps,
                                .time_us = store_column_double(row, 6) / steps,
                                .bytes = store_column_double(row, 7) / steps,
                                .flops = store_column_double(row, 8) / steps};
    p->count++;
    if (isfinite(out->time_us)) p->step_us += out->time_us;
    return out->phase && out->op;
}

/* Reads the newest steps, or the first ones. */
static enum status read_steps(struct store *store, const char *run_id, bool layers, bool first,
                              struct profile *out, struct err *err)
{
    char sql[sizeof QUERY + 40];
    const char *order = first ? "asc " : "desc";
    sqlite3_stmt *select;
    profile_release(out);
    out->last_step = -1;
    snprintf(sql, sizeof sql, QUERY, order, order, first ? PROFILE_FIRST_STEPS : PROFILE_STEPS_MAX,
             first ? "min" : "max");
    enum status status = store_query(store, &select, err, sql, "sn", run_id, (int)layers);
    while (store_next(store, select, &status, err))
        if (!read_row(select, out)) status = err_no_memory(err, "the profile of %s", run_id);
    return status;
}

enum status profile_read(struct store *store, const char *run_id, bool layers, struct profile *out,
                         struct err *err)
{
    return read_steps(store, run_id, layers, false, out, err);
}

/* The row of the same operation; NULL: there is none. Both profiles are in the order of phases and layers, so
 * it is near the one found before, *at. */
static struct profile_row *find_row(struct profile *profile, const struct profile_row *like, size_t *at)
{
    size_t start = *at > FIND_BACK ? *at - FIND_BACK : 0;
    for (size_t n = 0; n < profile->count; n++) {
        size_t i = (start + n) % profile->count;
        struct profile_row *row = &profile->rows[i];
        if (row->layer != like->layer || strcmp(row->op, like->op) != 0 ||
            strcmp(row->phase, like->phase) != 0)
            continue;
        *at = i;
        return row;
    }
    return NULL;
}

enum status profile_read_first(struct store *store, const char *run_id, bool layers, struct profile *profile,
                               struct err *err)
{
    struct profile first = {0};
    size_t at = 0;
    if (profile->steps <= PROFILE_FIRST_STEPS) return STATUS_OK;
    enum status status = read_steps(store, run_id, layers, true, &first, err);
    for (size_t i = 0; !status && i < first.count; i++) {
        struct profile_row *row = find_row(profile, &first.rows[i], &at);
        if (row && isfinite(first.rows[i].time_us)) row->first_us = first.rows[i].time_us;
    }
    profile_release(&first);
    return status;
}

void profile_release(struct profile *profile)
{
    arena_release(&profile->arena);
    *profile = (struct profile){0};
}

double profile_rate(double amount, double time_us)
{
    if (amount == 0) return 0;
    return time_us > 0 ? amount / time_us * 1e-3 : NAN;
}
