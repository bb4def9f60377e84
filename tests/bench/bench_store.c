/* The store's speed on this machine: the cost of recording, the time to open a run, the cost of following a
 * live one, and CSV export compared with the sqlite3 shell. ANNEAL_BENCH_STEPS (default 10000000) sets the
 * long run's length. Everything lies in a folder below TMPDIR (default /tmp) that is removed at the end. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "runs/exchange/export.h"
#include "runs/history.h"
#include "runs/journal.h"
#include "runs/series.h"
#include "runs/writer.h"

enum { CHART_POINTS = 800, EXPORT_STEPS_COUNT = 1000000, OPEN_STEPS = 50000 };

static char home[PATH_MAX];

static void check(enum status status, const struct err *err)
{
    if (!status) return;
    fprintf(stderr, "bench_store: %s\n", err->text);
    file_remove_tree(home, NULL);
    exit(1);
}

static struct step_record step_of(int64_t step)
{
    double u = (double)((uint64_t)step * 2654435761u % 1000003) / 1000003;
    return (struct step_record){.step = step,
                                .epoch = (double)step / 977,
                                .tokens = (step + 1) * 4096,
                                .wall_time = 1.7e9 + 0.05 * (double)step,
                                .step_ms = 40 + 20 * u,
                                .loss = 2 + 8 / (1 + (double)step / 100) + u,
                                .lr = 3e-4 * (1 + cos((double)step / 1000)),
                                .grad_norm = 3 * u,
                                .clip_scale = 1 / (1 + u),
                                .tokens_per_sec = 4096 / (0.04 + 0.02 * u),
                                .mfu = u / 2};
}

/* A run of `steps` steps, put straight into the tables. */
static void make_run(const char *name, int64_t steps, char id[RUN_ID_MAX])
{
    struct err err = {0};
    struct store *store;
    struct journal journal;
    check(store_open(home, STORE_WRITE, &store, &err), &err);
    check(run_create(store, &(struct run_new){.name = name, .device = "cpu", .total_steps = steps}, id, &err),
          &err);
    check(store_exec(store, "pragma synchronous = off", &err), &err);
    check(journal_begin(&journal, store, id, &err), &err);
    for (int64_t s = 0; s < steps;) {
        check(store_begin(store, &err), &err);
        for (int64_t end = s + 100000 < steps ? s + 100000 : steps; s < end; s++) {
            struct step_record record = step_of(s);
            check(journal_add(&journal, TABLE_STEPS, &record, &err), &err);
            if (s % 1000 == 999)
                check(journal_add(&journal, TABLE_EVALS,
                                  &(struct eval_record){s + 1, 0, 0, record.loss, 1, 1}, &err),
                      &err);
        }
        check(store_commit(store, &err), &err);
    }
    check(journal_end(&journal, RUN_FINISHED, "", &err), &err);
    store_settle(store);
    store_close(store);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return values[n / 2];
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- recording ---- */

enum { PACED_STEPS = 200, PACED_WARM = 20 };

/* CPU seconds that PACED_STEPS steps of 50 ms take, recorded or (NULL) not; costs[] of the record calls
 * alone. */
static double paced(struct writer *writer, double costs[PACED_STEPS])
{
    double cpu = 0, next = clock_monotonic();
    for (int64_t s = -PACED_WARM; s < PACED_STEPS; s++) {
        struct step_record record = step_of(s + PACED_WARM);
        struct order order;
        if (s == 0) cpu = cpu_seconds();
        double start = clock_monotonic();
        if (writer) {
            writer_step(writer, &record);
            writer_next_order(writer, &order);
        }
        if (s >= 0) costs[s] = clock_monotonic() - start;
        next += 0.05;
        double pause = next - clock_monotonic();
        if (pause > 0) nanosleep(&(struct timespec){.tv_nsec = (long)(pause * 1e9)}, NULL);
    }
    return cpu_seconds() - cpu;
}

static void bench_recording(void)
{
    char id[RUN_ID_MAX];
    struct err err = {0};
    struct store *store;
    struct writer *writer;
    double costs[PACED_STEPS];
    check(store_open(home, STORE_WRITE, &store, &err), &err);
    check(run_create(store, &(struct run_new){.name = "recorded"}, id, &err), &err);
    store_close(store);
    double without = paced(NULL, costs);
    check(writer_open(&(struct writer_options){.home = home, .run_id = id}, &writer, &err), &err);
    double with = paced(writer, costs);
    check(writer_close(writer, RUN_FINISHED, "", &err), &err);
    double worst = 0, extra = with - without;
    for (int i = 0; i < PACED_STEPS; i++) worst = fmax(worst, costs[i]);
    printf("recording, 20 steps/s for %d s\n", PACED_STEPS / 20);
    printf("  training thread     %8.2f us a step (median), %.2f us worst: %.4f %% of a 50 ms step (aim: "
           "below 0.5)\n",
           median(costs, PACED_STEPS) * 1e6, worst * 1e6, median(costs, PACED_STEPS) / 0.05 * 100);
    printf("  CPU of both threads %8.2f us a step more than without: %.3f %% of one core\n",
           extra / PACED_STEPS * 1e6, extra / (PACED_STEPS * 0.05) * 100);
}

/* ---- opening ---- */

static void bench_open(const char *id)
{
    enum { METRICS = 20, REPEATS = 7 };
    double seconds[REPEATS];
    struct err err = {0};
    size_t points = 0;
    for (int r = 0; r < REPEATS; r++) {
        struct store *store;
        struct series series[METRICS] = {{0}};
        double start = clock_monotonic();
        check(store_open(home, STORE_WRITE, &store, &err), &err);
        for (int m = 0; m < METRICS; m++)
            check(series_read(store, id, (enum metric)(m % METRIC_COUNT), 0, -1, CHART_POINTS, &series[m],
                              &err),
                  &err);
        seconds[r] = clock_monotonic() - start;
        points = series[0].count;
        for (int m = 0; m < METRICS; m++) series_release(&series[m]);
        store_close(store);
    }
    printf("open 20 metrics x %d steps   %8.2f ms (median of %d, %zu points each; aim: below 100 ms)\n",
           OPEN_STEPS, median(seconds, REPEATS) * 1e3, REPEATS, points);
}

static void bench_first_frame(const char *id, int64_t steps)
{
    enum { REPEATS = 7 };
    static const enum metric charts[] = {METRIC_LOSS, METRIC_VAL_LOSS, METRIC_LR, METRIC_GRAD_NORM,
                                         METRIC_TOKENS_PER_SEC};
    enum { CHARTS = sizeof charts / sizeof *charts };
    double seconds[REPEATS];
    struct err err = {0};
    size_t points = 0;
    for (int r = 0; r < REPEATS; r++) {
        struct store *store;
        struct arena arena = {0};
        struct run_info *runs, run;
        struct step_record last;
        struct series series[CHARTS] = {{0}};
        size_t count;
        double start = clock_monotonic();
        check(store_open(home, STORE_WRITE, &store, &err), &err);
        check(run_list(store, &arena, &runs, &count, &err), &err);
        check(run_find(store, id, &run, &err), &err);
        check(run_last_step(store, id, &last, &err), &err);
        for (int m = 0; m < CHARTS; m++)
            check(series_read(store, id, charts[m], 0, -1, CHART_POINTS, &series[m], &err), &err);
        seconds[r] = clock_monotonic() - start;
        points = series[0].count;
        for (int m = 0; m < CHARTS; m++) series_release(&series[m]);
        arena_release(&arena);
        store_close(store);
    }
    printf("first frame of %lld steps   %8.2f ms (median of %d, %d charts, %zu points; aim: below 150 ms)\n",
           (long long)steps, median(seconds, REPEATS) * 1e3, REPEATS, (int)CHARTS, points);
}

/* The cost of following a live run in the workbench: 10 polls a second, 4 of which find new rows. */
static void bench_following(void)
{
    enum { ROUNDS = 200 };
    char id[RUN_ID_MAX];
    struct err err = {0};
    struct store *store, *reader;
    struct journal journal;
    struct series series[METRIC_COUNT] = {{0}};
    double looks = 0, updates = 0;
    check(store_open(home, STORE_WRITE, &store, &err), &err);
    check(store_open(home, STORE_WRITE, &reader, &err), &err);
    check(run_create(store, &(struct run_new){.name = "live"}, id, &err), &err);
    check(journal_begin(&journal, store, id, &err), &err);
    for (int m = 0; m < METRIC_COUNT; m++)
        check(series_read(reader, id, (enum metric)m, 0, -1, CHART_POINTS, &series[m], &err), &err);
    int64_t s = 0;
    for (int round = 0; round < ROUNDS + 100; round++) {
        /* the first rounds only make the run long enough */
        int64_t batch = round < 100 ? 500 : 5;
        check(store_begin(store, &err), &err);
        for (int64_t end = s + batch; s < end; s++) {
            struct step_record record = step_of(s);
            check(journal_add(&journal, TABLE_STEPS, &record, &err), &err);
        }
        check(journal_row(&journal, &err), &err);
        check(store_commit(store, &err), &err);
        double start = clock_monotonic();
        store_version(reader);
        double middle = clock_monotonic();
        for (int m = 0; m < METRIC_COUNT; m++) {
            check(series_update(reader, id, &series[m], &err), &err);
        }
        struct run_info run;
        check(run_find(reader, id, &run, &err), &err);
        if (round < 100) continue;
        looks += middle - start;
        updates += clock_monotonic() - middle;
    }
    printf("following a live run, 20 steps/s   %.1f us a look, %.1f us an update of %d series: %.3f %% of "
           "one core\n",
           looks / ROUNDS * 1e6, updates / ROUNDS * 1e6, METRIC_COUNT,
           (10 * looks / ROUNDS + 4 * updates / ROUNDS) * 100);
    for (int m = 0; m < METRIC_COUNT; m++) series_release(&series[m]);
    check(journal_end(&journal, RUN_FINISHED, "", &err), &err);
    store_close(reader);
    store_close(store);
}

/* ---- export ---- */

static void bench_export(const char *id)
{
    enum { REPEATS = 3 };
    double ours[REPEATS], shell[REPEATS];
    char path[PATH_MAX + 16], command[4 * PATH_MAX];
    struct err err = {0};
    struct store *store;
    bool has_shell = system("command -v sqlite3 >/dev/null") == 0;
    check(store_open(home, STORE_WRITE, &store, &err), &err);
    snprintf(command, sizeof command,
             "sqlite3 -header '%s/anneal.db' '.mode csv' \"select run_id as run, segment, step, epoch, "
             "tokens, wall_time,"
             " step_ms, loss, lr, grad_norm, clip_scale, tokens_per_sec, mfu from steps where run_id = '%s' "
             "order by"
             " segment, step\" > '%s/shell.csv'",
             home, id, home);
    for (int r = 0; r < REPEATS; r++) {
        snprintf(path, sizeof path, "%s/ours.csv", home);
        double start = clock_monotonic();
        check(export_csv(store, &id, 1, TABLE_STEPS, path, &err), &err);
        ours[r] = clock_monotonic() - start;
        start = clock_monotonic();
        if (has_shell && system(command) != 0) has_shell = false;
        shell[r] = clock_monotonic() - start;
    }
    double a = median(ours, REPEATS), b = median(shell, REPEATS);
    printf("CSV of %d steps   anneal %.2f s", EXPORT_STEPS_COUNT, a);
    if (has_shell)
        printf(", sqlite3 shell %.2f s: %.2f times as fast (aim: at least 1)\n", b, b / a);
    else
        printf("; the sqlite3 shell is not here to compare with\n");
    store_close(store);
}

int main(void)
{
    char short_id[RUN_ID_MAX], export_id[RUN_ID_MAX], long_id[RUN_ID_MAX];
    const char *tmp = getenv("TMPDIR"), *words = getenv("ANNEAL_BENCH_STEPS");
    int64_t steps = 10000000;
    if (words && (!text_parse_int(words, &steps) || steps < 1)) {
        fprintf(stderr, "bench_store: ANNEAL_BENCH_STEPS: \"%s\" is not a number of steps\n", words);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    snprintf(home, sizeof home, "%s/anneal-bench-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(home)) {
        perror(home);
        return 1;
    }
    bench_recording();
    bench_following();
    make_run("short", OPEN_STEPS, short_id);
    bench_open(short_id);
    make_run("export", EXPORT_STEPS_COUNT, export_id);
    bench_export(export_id);
    double start = clock_monotonic();
    make_run("long", steps, long_id);
    printf("stored %lld steps straight into the tables in %.1f s\n", (long long)steps,
           clock_monotonic() - start);
    bench_first_frame(long_id, steps);
    file_remove_tree(home, NULL);
    return 0;
}
