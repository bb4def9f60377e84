/* Series: at every level, range and moment they equal what the raw rows say. */
#include <limits.h>
#include <math.h>

#include "core/base/philox.h"
#include "runs/history.h"
#include "runs/series.h"
#include "store_fixture.h"
#include "tests/cmocka.h"

/* The expected data: the record that counts for every step. */
struct truth {
    struct step_record *steps;
    int64_t count;
};

/* Now and then a value that is not finite. */
static struct step_record odd_step(int64_t step, int salt)
{
    struct step_record record = store_fixture_step(step, salt);
    uint32_t word = philox4x32_10((uint32_t)step, (uint32_t)salt, 1, 2, 3, 4).word[0];
    if (word % 97 == 0) record.loss = NAN;
    if (word % 101 == 0) record.grad_norm = word % 2 ? INFINITY : -INFINITY;
    if (word % 89 == 0) record.lr = record.tokens_per_sec = NAN;
    if (word % 83 == 0) record.clip_scale = record.step_ms = NAN;
    if (word % 79 == 0) record.grad_norm = NAN;
    if (step >= 6400 && step < 6500) record.loss = NAN; /* a whole bucket without a finite value */
    return record;
}

static void record(const char *home, const char *id, struct truth *truth, int64_t first, int64_t end,
                   int salt)
{
    struct err err = {0};
    struct writer *writer = store_fixture_writer(home, id);
    truth->steps =
        realloc(truth->steps, (size_t)(end > truth->count ? end : truth->count) * sizeof *truth->steps);
    for (int64_t s = first; s < end; s++) {
        truth->steps[s] = odd_step(s, salt);
        writer_step(writer, &truth->steps[s]);
        if (s % 8192 == 8191) assert_int_equal(writer_flush(writer, 60, &err), STATUS_OK);
    }
    truth->count = end;
    assert_int_equal(writer_close(writer, RUN_STOPPED, NULL, &err), STATUS_OK);
}

static double value_of(const struct step_record *r, enum metric metric)
{
    switch (metric) {
    case METRIC_LOSS:
        return r->loss;
    case METRIC_LR:
        return r->lr;
    case METRIC_GRAD_NORM:
        return r->grad_norm;
    case METRIC_CLIP_SCALE:
        return r->clip_scale;
    case METRIC_TOKENS_PER_SEC:
        return r->tokens_per_sec;
    case METRIC_STEP_MS:
        return r->step_ms;
    default:
        return r->mfu;
    }
}

static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* The series' average after each step up to `last`, computed from the steps themselves. */
static double *averages(const struct series *series, const struct truth *truth, int64_t last)
{
    double *out = malloc((size_t)(last + 1) * sizeof *out), acc = 0, weight = 0;
    assert_non_null(out);
    for (int64_t s = 0; s <= last; s++) {
        double v = value_of(&truth->steps[s], series->metric);
        if (isfinite(v)) {
            acc = series->decay * acc + (1 - series->decay) * v;
            weight = series->decay * weight + (1 - series->decay);
        }
        out[s] = acc / weight;
    }
    return out;
}

/* The steps of the point that begins at `start`: of fine ones at most a 64th of those before it. */
static int64_t level_of(const struct series *series, int64_t start)
{
    int64_t level = series->level;
    while (series->fine_start && level > 1 && level * 64 > start) level /= 2;
    return level;
}

/* How many points more fine ones are, at most. */
static size_t more_points(const struct series *series)
{
    return series->fine_start ? (size_t)(64 * log2(series->level)) : 0;
}

/* Compares with the raw truth, bucket by bucket. */
static void check(const struct series *series, const struct truth *truth, int64_t first, int64_t last)
{
    size_t at = 0;
    if (last < 0 || last >= truth->count) last = truth->count - 1;
    double *smooth = series->decay > 0 ? averages(series, truth, last) : NULL;
    assert_true((smooth != NULL) == (series->smooth != NULL) || series->count == 0);
    for (int64_t start = first; start <= last;) {
        int64_t level = level_of(series, start), end = (start / level + 1) * level - 1, count = 0, bad = 0;
        if (end > last) end = last;
        double min = NAN, max = NAN, newest = NAN, sum = 0;
        for (int64_t s = start; s <= end; s++) {
            double v = value_of(&truth->steps[s], series->metric);
            if (series->metric == METRIC_MFU && isnan(v)) continue;
            count++;
            if (!isfinite(v)) {
                bad++;
                continue;
            }
            if (!(min <= v)) min = v;
            if (!(max >= v)) max = v;
            sum += v;
            newest = v;
        }
        if (count) {
            assert_true(at < series->count);
            const struct series_point *p = &series->points[at++];
            assert_true(p->first_step >= start && p->last_step <= end);
            assert_int_equal(p->count, count);
            assert_int_equal(p->non_finite, bad);
            assert_true(same(p->min, min) && same(p->max, max) && same(p->last, newest));
            double mean = count > bad ? sum / (double)(count - bad) : NAN;
            assert_true(same(p->mean, mean) || fabs(p->mean - mean) <= 1e-12 * fabs(mean));
            /* of a range that begins later, values long before it do not count */
            double tolerance = (first ? 1e-3 : 1e-11) * fmax(fabs(mean), fabs(smooth ? smooth[end] : 0));
            if (smooth && count == bad) assert_true(isnan(series->smooth[at - 1]));
            if (smooth && count > bad) assert_true(fabs(series->smooth[at - 1] - smooth[end]) <= tolerance);
        }
        start = end + 1;
    }
    free(smooth);
    assert_int_equal(at, series->count);
}

static void check_ranges(struct store *store, const char *id, const struct truth *truth, bool inherits)
{
    static const size_t budgets[] = {1, 7, 100, 800, 100000};
    const int64_t n = truth->count;
    const int64_t ranges[][2] = {{0, -1},      {1, n - 2},     {63, 64},    {64, 127},       {100, 100},
                                 {4095, 8193}, {n / 3, n / 2}, {n - 1, -1}, {n - 70, n + 70}};
    struct series series = {.inherits = inherits};
    struct err err = {0};
    for (int metric = 0; metric < METRIC_VAL_LOSS; metric++)
        for (size_t b = 0; b < sizeof budgets / sizeof *budgets; b++)
            for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
                size_t d = (b + r) % (ROLLUP_DECAYS + 1);
                series.decay = d < ROLLUP_DECAYS ? rollup_decay[d] : 0;
                series.fine_start = (metric + b + r) % 2;
                assert_int_equal(series_read(store, id, (enum metric)metric, ranges[r][0], ranges[r][1],
                                             budgets[b], &series, &err),
                                 STATUS_OK);
                check(&series, truth, ranges[r][0], ranges[r][1]);
                assert_true(series.count <= 2 * budgets[b] + 2 + more_points(&series));
            }
    series_release(&series);
}

static void check_everywhere(struct store *store, const char *id, const struct truth *truth)
{
    check_ranges(store, id, truth, false);
}

TEST_CASE(every_level_equals_the_raw_rows)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct truth truth = {0};
    store_fixture_home("levels", home, sizeof home);
    store_fixture_run(home, "levels", id);
    record(home, id, &truth, 0, 20000, 1);
    assert_true(store_fixture_number(
                    home, "select count(*) from rollup where metric = 'loss' and level = 4096") == 4);
    assert_true(store_fixture_number(
                    home, "select count(*) from rollup where metric = 'loss' and level = 64") == 312);
    struct store *store = store_fixture_open(home);
    check_everywhere(store, id, &truth);
    store_close(store);
    free(truth.steps);
}

TEST_CASE(a_resumed_run_rebuilds_the_buckets_it_replaces)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct truth truth = {0};
    store_fixture_home("resumed", home, sizeof home);
    store_fixture_run(home, "resumed", id);
    record(home, id, &truth, 0, 13000, 1);
    record(home, id, &truth, 10001, 12500, 2);
    record(home, id, &truth, 12500, 12600, 3); /* continues without a gap */
    record(home, id, &truth, 4097, 9000, 4);   /* back behind the second */
    struct store *store = store_fixture_open(home);
    check_everywhere(store, id, &truth);
    store_close(store);
    free(truth.steps);
}

/* As after a rollback, before its first step: the level is that of the steps before. */
TEST_CASE(a_segment_that_has_no_step_yet_leaves_the_level)
{
    char home[PATH_MAX], id[RUN_ID_MAX], sql[300];
    struct err err = {0};
    struct truth truth = {0};
    struct series series = {0};
    store_fixture_home("rolled-back", home, sizeof home);
    store_fixture_run(home, "rolled-back", id);
    record(home, id, &truth, 0, 20000, 0);
    snprintf(sql, sizeof sql,
             "insert into segments(run_id, segment, started_at, first_step) values('%s', 2, 1e9, 19000)", id);
    store_fixture_sql(home, sql);
    struct store *store = store_fixture_open(home);
    if (series_read(store, id, METRIC_LOSS, 0, -1, 100, &series, &err)) fail_msg("%s", err.text);
    assert_in_range(series.count, 50, 100);
    series_release(&series);
    store_close(store);
    free(truth.steps);
}

TEST_CASE(lost_rollups_are_healed_on_read_and_at_the_next_segment)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct truth truth = {0};
    store_fixture_home("healed", home, sizeof home);
    store_fixture_run(home, "healed", id);
    record(home, id, &truth, 0, 9500, 1);
    store_fixture_sql(home,
                      "delete from rollup where first_step >= 5000 or (level = 64 and first_step >= 4000)");
    struct store *store = store_fixture_open(home);
    check_everywhere(store, id, &truth);
    store_fixture_sql(home, "delete from rollup");
    check_everywhere(store, id, &truth);
    record(home, id, &truth, 9500, 9510, 2);
    assert_true(store_fixture_number(
                    home, "select count(*) from rollup where metric = 'loss' and level = 64") == 148);
    assert_true(store_fixture_number(
                    home, "select count(*) from rollup where metric = 'loss' and level = 4096") == 2);
    check_everywhere(store, id, &truth);
    store_close(store);
    free(truth.steps);
}

TEST_CASE(a_store_without_stored_sums_gives_the_same_averages)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct truth truth = {0};
    store_fixture_home("older", home, sizeof home);
    store_fixture_run(home, "older", id);
    record(home, id, &truth, 0, 9500, 1);
    store_fixture_sql(home, "update rollup set ema_9 = null, ema_99 = null, ema_999 = null");
    struct store *store = store_fixture_open(home);
    check_everywhere(store, id, &truth);
    record(home, id, &truth, 9500, 14000, 2); /* and with some of them */
    check_everywhere(store, id, &truth);
    /* beyond what is read step by step, a bucket counts as equal values */
    struct series series = {.decay = 0.9};
    struct err err = {0};
    store_fixture_sql(home, "update rollup set mean = 7, ema_9 = null where metric = 'loss'");
    store_fixture_sql(home, "update rollup set first_step = first_step + 2000000 where first_step >= 8192");
    store_fixture_sql(home, "update steps set step = step + 2000000 where step >= 8192");
    assert_int_equal(series_read(store, id, METRIC_LOSS, 0, -1, 100, &series, &err), STATUS_OK);
    assert_float_equal(series.smooth[0], 7, 1e-12);
    series_release(&series);
    store_close(store);
    free(truth.steps);
}

/* Makes run `id` a fork of `parent`. */
static void make_fork(const char *home, const char *id, const char *parent, int64_t step)
{
    char sql[300];
    snprintf(sql, sizeof sql, "update runs set parent_id = '%s', parent_step = %d where id = '%s'", parent,
             (int)step, id);
    store_fixture_sql(home, sql);
}

TEST_CASE(a_fork_inherits_the_steps_before_it_from_all_its_parents)
{
    char home[PATH_MAX], first[RUN_ID_MAX], second[RUN_ID_MAX], third[RUN_ID_MAX];
    struct truth truth = {0};
    struct series series = {.inherits = true};
    struct err err = {0};
    store_fixture_home("forks", home, sizeof home);
    store_fixture_run(home, "first", first);
    store_fixture_run(home, "second", second);
    store_fixture_run(home, "third", third);
    record(home, first, &truth, 0, 9500, 1);
    make_fork(home, second, first, 5000);
    struct store *store = store_fixture_open(home);
    /* before its first step, a fork shows its parent's */
    assert_int_equal(series_read(store, second, METRIC_LOSS, 0, -1, 100, &series, &err), STATUS_OK);
    assert_int_equal(series.fork_step, 5000);
    assert_true(series.count > 50 && series.count <= 101);
    assert_int_equal(series.points[series.count - 1].last_step, 4999);
    record(home, second, &truth, 5000, 14000, 2);
    assert_int_equal(series_update(store, second, &series, &err), STATUS_OK);
    check(&series, &truth, 0, -1);
    check_ranges(store, second, &truth, true);
    make_fork(home, third, second, 12001);
    record(home, third, &truth, 12001, 15000, 3);
    check_ranges(store, third, &truth, true);
    /* a circle, which no trainer writes, ends */
    make_fork(home, first, third, 4);
    assert_int_equal(series_read(store, third, METRIC_LOSS, 0, -1, 100, &series, &err), STATUS_OK);
    /* without its parent, a fork begins where it does */
    store_fixture_sql(home, "delete from runs where name = 'second'");
    assert_int_equal(series_read(store, third, METRIC_LOSS, 0, -1, 100000, &series, &err), STATUS_OK);
    assert_int_equal(series.points[0].first_step, 12001);
    assert_int_equal(series.fork_step, 0);
    series_release(&series);
    store_close(store);
    free(truth.steps);
}

TEST_CASE(a_value_is_that_of_its_step_at_every_level)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    struct truth truth = {0};
    static const int64_t steps[] = {0, 1, 63, 64, 4095, 4097, 6450, 9000, 11998, 11999};
    static const size_t budgets[] = {7, 800, 100000};
    store_fixture_home("values", home, sizeof home);
    store_fixture_run(home, "values", id);
    record(home, id, &truth, 0, 10000, 1);
    record(home, id, &truth, 8000, 12000, 2);
    struct store *store = store_fixture_open(home);
    struct series series = {.decay = 0.99};
    for (int m = 0; m < METRIC_VAL_LOSS; m++)
        for (size_t b = 0; b < sizeof budgets / sizeof *budgets; b++) {
            assert_int_equal(series_read(store, id, (enum metric)m, 0, -1, budgets[b], &series, &err),
                             STATUS_OK);
            double *smooth = averages(&series, &truth, truth.count - 1);
            for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
                struct series_value at;
                int64_t step = steps[i], from = step;
                double v = value_of(&truth.steps[step], series.metric);
                while (m == METRIC_MFU && isnan(v)) v = truth.steps[--from].mfu; /* where one is recorded */
                assert_int_equal(series_value_read(store, id, &series, step, &at, &err), STATUS_OK);
                assert_true(at.known && same(at.value, v));
                assert_true(isfinite(v) ? fabs(at.average - smooth[from]) <= 1e-6 * fabs(smooth[from])
                                        : isnan(at.average));
            }
            free(smooth);
        }
    /* before the first and, of a part, after the last that was read */
    struct series_value at;
    assert_int_equal(series_read(store, id, METRIC_LOSS, 100, 200, 7, &series, &err), STATUS_OK);
    assert_int_equal(series_value_read(store, id, &series, 99, &at, &err), STATUS_OK);
    assert_false(at.known);
    assert_int_equal(series_value_read(store, id, &series, 11998, &at, &err), STATUS_OK);
    assert_true(same(at.value, truth.steps[11998].loss));
    series_release(&series);
    store_close(store);
    free(truth.steps);
}

/* As of an import, or of a fork whose parent was deleted: the steps that it lacks take no points. */
TEST_CASE(a_run_that_begins_late_has_as_many_points_as_one_from_0)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    struct truth truth = {0};
    struct series series = {.inherits = true}, load = {.device = -1};
    store_fixture_home("late", home, sizeof home);
    store_fixture_run(home, "late", id);
    record(home, id, &truth, 100000, 100100, 1);
    store_fixture_sql(home, "insert into gpu_samples(run_id, wall_time, gpu, utilization_pct)"
                            " select run_id, wall_time, -1, 50 from steps");
    struct store *store = store_fixture_open(home);
    assert_int_equal(series_read(store, id, METRIC_STEP_MS, 0, -1, 200, &series, &err), STATUS_OK);
    assert_int_equal(series.count, 100);
    load.name = "utilization_pct";
    assert_int_equal(series_read(store, id, METRIC_DEVICE, 0, -1, 200, &load, &err), STATUS_OK);
    assert_true(load.count >= 99);
    series_release(&series);
    series_release(&load);
    store_close(store);
    free(truth.steps);
}

TEST_CASE(updates_follow_a_live_run_through_coarsening_and_resume)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct truth truth = {0};
    struct series series[METRIC_VAL_LOSS] = {{0}}, part = {0};
    struct err err = {0};
    store_fixture_home("live", home, sizeof home);
    store_fixture_run(home, "live", id);
    struct store *store = store_fixture_open(home);
    for (int m = 0; m < METRIC_VAL_LOSS; m++) {
        series[m].decay = m < ROLLUP_DECAYS ? rollup_decay[m] : 0;
        series[m].fine_start = m % 2;
        assert_int_equal(series_read(store, id, (enum metric)m, 0, -1, 60, &series[m], &err), STATUS_OK);
    }
    assert_int_equal(series_read(store, id, METRIC_LOSS, 310, -1, 60, &part, &err), STATUS_OK);
    static const struct {
        int64_t first, end;
    } lives[] = {{0, 5},      {5, 6},       {6, 119},      {119, 500}, {300, 420},
                 {420, 9000}, {8000, 8001}, {8001, 14000}, {10, 4200}};
    for (size_t i = 0; i < sizeof lives / sizeof *lives; i++) {
        record(home, id, &truth, lives[i].first, lives[i].end, (int)i);
        for (int m = 0; m < METRIC_VAL_LOSS; m++) {
            assert_int_equal(series_update(store, id, &series[m], &err), STATUS_OK);
            check(&series[m], &truth, 0, -1);
            assert_true(series[m].count <= 120 + more_points(&series[m]));
            assert_int_equal(series_update(store, id, &series[m], &err), STATUS_OK);
        }
        assert_int_equal(series_update(store, id, &part, &err), STATUS_OK);
        check(&part, &truth, 310, -1); /* also where a life begins before the part that is shown */
    }
    series_release(&part);
    for (int m = 0; m < METRIC_VAL_LOSS; m++) series_release(&series[m]);
    store_close(store);
    free(truth.steps);
}

TEST_CASE(evaluations_of_replaced_steps_do_not_count)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    struct arena arena = {0};
    struct series series = {0};
    store_fixture_home("evals", home, sizeof home);
    store_fixture_run(home, "evals", id);
    struct store *store = store_fixture_open(home);
    for (int life = 0; life < 2; life++) {
        struct writer *writer = store_fixture_writer(home, id);
        /* the second life resumes after 200 steps, and evaluates that state again at once */
        if (life == 1) writer_eval(writer, &(struct eval_record){200, 0, 0, 1200, 1, 1});
        for (int64_t s = life ? 200 : 0; s < (life ? 350 : 400); s++) {
            struct step_record step = store_fixture_step(s, 1);
            writer_step(writer, &step);
            if (s % 100 == 99) {
                writer_eval(writer, &(struct eval_record){s + 1, 0, 0, (double)(1000 * life + s + 1), 1, 1});
                writer_sample(writer, &(struct sample_record){s + 1, "p", life ? "new" : "old"});
                writer_stopping(writer, &(struct stopping_record){.step = s + 1, .val_loss = life});
            }
        }
        assert_int_equal(writer_close(writer, RUN_STOPPED, NULL, &err), STATUS_OK);
        if (life == 0)
            assert_int_equal(series_read(store, id, METRIC_VAL_LOSS, 0, -1, 100, &series, &err), STATUS_OK);
    }
    static const double want[] = {100, 1200, 1300};
    assert_int_equal(series.count, 4);
    assert_int_equal(series_update(store, id, &series, &err), STATUS_OK);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(series.count, 3);
        for (size_t i = 0; i < 3; i++) assert_true(series.points[i].last == want[i]);
        assert_int_equal(series_read(store, id, METRIC_VAL_LOSS, 0, -1, 100, &series, &err), STATUS_OK);
    }
    struct run_history few, history;
    assert_int_equal(run_history_read(store, id, 2, &arena, &few, &err), STATUS_OK);
    assert_int_equal(few.eval_count, 2);
    assert_int_equal(run_history_read(store, id, 10, &arena, &history, &err), STATUS_OK);
    assert_int_equal(history.eval_count, 3);
    for (size_t i = 0; i < 3; i++) assert_true(history.evals[i].val_loss == want[2 - i]);
    assert_int_equal(history.sample_count, 3);
    assert_string_equal(history.samples[0].text, "new");
    assert_string_equal(history.samples[1].text, "old");
    assert_int_equal(history.stopping_count, 3);
    assert_true(history.stopping[0].segment == 2 && history.stopping[1].segment == 1);
    series_release(&series);
    store_close(store);
    arena_release(&arena);
}

TEST_CASE(what_one_evaluation_or_report_recorded_is_listed_whole)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    struct arena arena = {0};
    struct run_history history;
    store_fixture_home("whole", home, sizeof home);
    store_fixture_run(home, "whole", id);
    struct store *store = store_fixture_open(home);
    store_fixture_sql(home,
                      "with recursive n(i) as (select 10 union all select i + 1 from n where i < 14)"
                      " insert into classes(run_id, segment, step, label, precision, recall, f1, support)"
                      " select id, 1, 4, 'kind-' || i, 0.5, 0.5, 0.5, i from runs, n;"
                      "with recursive n(i) as (select 10 union all select i + 1 from n where i < 14)"
                      " insert into confusion(run_id, segment, step, label, predicted, count)"
                      " select id, 1, 4, 'kind-' || a.i, 'kind-' || b.i, 1 from runs, n a, n b;"
                      "with recursive n(i) as (select 0 union all select i + 1 from n where i < 8)"
                      " insert into ranks(run_id, segment, step, rank, host, device, step_ms, wait_ms,"
                      " sent_bytes, memory_bytes) select id, 1, 4, i, 'ada', 'cpu', i, 0, 0, 0 from runs, n");
    assert_int_equal(run_history_read(store, id, 5, &arena, &history, &err), STATUS_OK);
    assert_int_equal(history.class_count, 5);
    assert_int_equal(history.confusion_count, 25);
    assert_int_equal(history.rank_count, 9);
    assert_int_equal(run_history_read(store, id, 4, &arena, &history, &err), STATUS_OK);
    assert_int_equal(history.class_count, 5);
    assert_int_equal(history.confusion_count, 0); /* rather than a part of it */
    store_close(store);
    arena_release(&arena);
}

TEST_CASE(a_run_without_steps_is_empty_not_an_error)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    struct series series = {0};
    struct step_record last;
    store_fixture_home("empty", home, sizeof home);
    store_fixture_run(home, "empty", id);
    struct store *store = store_fixture_open(home);
    for (int m = 0; m < METRIC_COUNT; m++) {
        assert_int_equal(series_read(store, id, (enum metric)m, 0, -1, 100, &series, &err), STATUS_OK);
        assert_int_equal(series.count, 0);
        assert_int_equal(series_update(store, id, &series, &err), STATUS_OK);
    }
    assert_int_equal(run_last_step(store, id, &last, &err), STATUS_NOT_FOUND);
    series_release(&series);
    store_close(store);
}

TEST_CASE(merging_two_points_is_the_point_of_all_their_values)
{
    struct series_point a = {0, 63, 1, 4, 2, 3, 64, 4}, b = {64, 127, 0.5, 2, 1, 1.5, 64, 44},
                        none = {128, 191, NAN, NAN, NAN, NAN, 64, 64}, all = a;
    series_point_merge(&all, &b);
    assert_true(all.first_step == 0 && all.last_step == 127 && all.count == 128 && all.non_finite == 48);
    assert_true(all.min == 0.5 && all.max == 4 && all.last == 1.5 && fabs(all.mean - 1.75) < 1e-15);
    series_point_merge(&all, &none); /* without a finite value it only counts */
    assert_true(all.last_step == 191 && all.count == 192 && all.non_finite == 112);
    assert_true(all.min == 0.5 && all.max == 4 && all.last == 1.5 && fabs(all.mean - 1.75) < 1e-15);
    struct series_point late = none;
    late.first_step = 0;
    series_point_merge(&late, &b);
    assert_true(late.min == 0.5 && late.max == 2 && late.mean == 1 && late.last == 1.5);
}

TEST_CASE(of_checkpoints_in_one_place_the_newest_is_listed)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    struct arena arena = {0};
    struct run_history history;
    store_fixture_home("places", home, sizeof home);
    store_fixture_run(home, "places", id);
    struct writer *writer = store_fixture_writer(home, id);
    writer_checkpoint(writer, &(struct checkpoint_record){3, 100, "checkpoints/step-3", "periodic", 10});
    writer_checkpoint(writer, &(struct checkpoint_record){6, 200, "checkpoints/step-6", "periodic", 20});
    writer_checkpoint(writer, &(struct checkpoint_record){6, 210, "checkpoints/step-6", "ordered", 30});
    assert_int_equal(writer_close(writer, RUN_STOPPED, NULL, &err), STATUS_OK);
    writer = store_fixture_writer(home, id); /* a resume that passes step 6 again */
    writer_checkpoint(writer, &(struct checkpoint_record){6, 300, "checkpoints/step-6", "last", 40});
    assert_int_equal(writer_close(writer, RUN_FINISHED, NULL, &err), STATUS_OK);
    struct store *store = store_fixture_open(home);
    assert_int_equal(run_history_read(store, id, 10, &arena, &history, &err), STATUS_OK);
    const struct checkpoint_record *rows = history.checkpoints;
    assert_int_equal(history.checkpoint_count, 2);
    assert_true(rows[0].step == 6 && rows[0].bytes == 40);
    assert_string_equal(rows[0].kind, "last");
    assert_true(rows[1].step == 3 && rows[1].bytes == 10);
    store_close(store);
    arena_release(&arena);
}

TEST_MAIN()
