/* The workbench, headless and on a terminal that goes nowhere:
 *   open     a run of 50,000 steps (all its series, rows and the first frame), as `anneal watch RUN` does it
 *   draw     a full frame of each view into cells at 200 x 60
 *   show     the same frame through curses into /dev/null, every cell new, and one that did not change
 *   follow   what one commit of a living run costs: asking, reading, drawing, showing only what changed
 *   idle     a tick in which nothing changed
 *   smooth   the key that smooths a run of 200,000 steps, until the next frame
 *   list     1,000 runs with 200 steps and 80 keys of the configuration each: the first frame, a frame, a key
 *            of a filter until the next frame, and what a commit costs
 * Median and 95th percentile of repeated runs. */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "runs/database.h"
#include "runs/run.h"
#include "runs/writer.h"
#include "tests/runs/flush.h"
#include "tui/view/screen.h"
#include "tui/view/workbench.h"

enum { STEPS = 50000, W = 200, H = 60, REPEATS = 200 };

static void must(enum status status, const struct err *err)
{
    if (!status) return;
    fprintf(stderr, "bench_tui: %s\n", err->text);
    exit(1);
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static void report(const char *what, double *seconds, int count)
{
    qsort(seconds, (size_t)count, sizeof *seconds, compare);
    printf("tui %-34s %9.3f ms  (95%%: %.3f ms)\n", what, seconds[count / 2] * 1e3,
           seconds[count * 95 / 100] * 1e3);
}

static void write_step(struct writer *writer, int64_t step)
{
    double x = (double)step;
    struct step_record record = {.step = step,
                                 .epoch = x * 1e-3,
                                 .tokens = (step + 1) * 4096,
                                 .wall_time = 1.7e9 + x * 0.05,
                                 .step_ms = 50 + fmod(x * 0.37, 5),
                                 .loss = 2 + 6 * exp(-x / 3000) + fmod(x * 0.618, 0.2),
                                 .lr = 3e-4,
                                 .grad_norm = 0.5 + fmod(x * 0.414, 0.5),
                                 .clip_scale = 1,
                                 .tokens_per_sec = 80000 + fmod(x * 77, 3000),
                                 .mfu = 0.4};
    writer_step(writer, &record);
    if (step % 500 == 0) {
        struct eval_record eval = {step, record.tokens, record.wall_time, record.loss + 0.1, exp(record.loss),
                                   400};
        writer_eval(writer, &eval);
    }
}

static void draw_views(struct workbench *workbench, struct grid *grid, const char *name)
{
    double seconds[REPEATS];
    char what[64];
    for (int i = 0; i < REPEATS; i++) {
        double start = clock_monotonic();
        workbench_draw(workbench, grid);
        seconds[i] = clock_monotonic() - start;
    }
    snprintf(what, sizeof what, "draw %s 200x60 into cells", name);
    report(what, seconds, REPEATS);
}

static void bench_screen(struct workbench *workbench, struct grid *grid, struct writer *writer)
{
    struct err err = {0};
    struct screen *screen;
    double seconds[REPEATS];
    FILE *null = fopen("/dev/null", "r+");
    setenv("TERM", "xterm-256color", 1);
    setenv("COLUMNS", "200", 1);
    setenv("LINES", "60", 1);
    if (!null) return;
    must(screen_open(null, null, &screen, &err), &err);
    for (int i = 0; i < REPEATS; i++) {
        double start = clock_monotonic();
        screen_forget(screen);
        screen_show(screen, grid);
        seconds[i] = clock_monotonic() - start;
    }
    double all[REPEATS], follow[REPEATS / 4], idle[REPEATS];
    memcpy(all, seconds, sizeof all);
    for (int i = 0; i < REPEATS; i++) {
        double start = clock_monotonic();
        screen_show(screen, grid);
        seconds[i] = clock_monotonic() - start;
    }
    double now = clock_wall();
    for (int i = 0; i < REPEATS / 4; i++) { /* five steps a commit: 20 steps/s, committed every 250 ms */
        for (int64_t s = 0; s < 5; s++) write_step(writer, STEPS + i * 5 + s);
        must(writer_flush(writer, 60, &err), &err);
        double start = clock_monotonic();
        workbench_tick(workbench, now);
        workbench_draw(workbench, grid);
        screen_show(screen, grid);
        follow[i] = clock_monotonic() - start;
    }
    for (int i = 0; i < REPEATS; i++) {
        double start = clock_monotonic();
        workbench_tick(workbench, now);
        idle[i] = clock_monotonic() - start;
    }
    screen_close(screen);
    fclose(null);
    report("show 200x60, every cell new", all, REPEATS);
    report("show 200x60, nothing new", seconds, REPEATS);
    report("follow: one commit of a living run", follow, REPEATS / 4);
    report("idle: a tick with nothing new", idle, REPEATS);
}

/* 1,000 runs, one in three with tags. */
static void fill_list(const char *home)
{
    struct err err = {0};
    struct store *store;
    must(store_open(home, false, &store, &err), &err);
    must(store_begin(store, &err), &err);
    must(store_exec(store,
                    "create temp table n(i integer primary key);"
                    "with recursive c(i) as (select 0 union all select i + 1 from c where i < 999)"
                    " insert into n select i from c;"
                    "insert into runs(id, name, status, created_at, ended_at, heartbeat, device, precision,"
                    " parameters, steps, total_steps, tokens, final_loss, best_val_loss, best_step,"
                    " tokens_per_sec, segment) select printf('20260101-%06d-run', i), 'run', 'finished',"
                    " 1.7e9 + i, 1.7e9 + i + 60, 1.7e9 + i, 'cpu', 'fp32', 1000000, 200, 200, 1e6,"
                    " 2 + i * 1e-3, 2.1 + i * 1e-3, 100, 1e4 + i, 1 from n;"
                    "insert into segments(run_id, segment, first_step, started_at, ended_at)"
                    " select id, 1, 0, created_at, ended_at from runs;"
                    "insert into params select r.id, 'section.key_' || k.i, k.i || '' from runs r, n k"
                    " where k.i < 80;"
                    "insert into tags select id, 'tag' from runs where rowid % 3 = 0;"
                    "insert into steps(run_id, segment, step, loss, lr) select r.id, 1, k.i, 8 - k.i * 0.02,"
                    " 1e-3 from runs r, n k where k.i < 200",
                    &err),
         &err);
    must(store_commit(store, &err), &err);
    store_close(store);
}

static void bench_list(struct grid *grid)
{
    static const char filter[] = "section.key_7=7 and loss<2.5 and (tag=tag or name~^r.n$)";
    enum { KEYS = sizeof filter - 1 };
    char home[] = "/tmp/anneal-bench-list-XXXXXX";
    struct err err = {0};
    struct workbench_options options = {.home = home, .list = &runs_view};
    struct workbench *workbench = NULL;
    struct store *other;
    double first[11], pressed[KEYS], commits[20];
    if (!mkdtemp(home)) return;
    fill_list(home);
    for (int i = 0; i < 11; i++) {
        workbench_close(workbench);
        double start = clock_monotonic();
        must(workbench_open(&options, &workbench, &err), &err);
        workbench_draw(workbench, grid);
        first[i] = clock_monotonic() - start;
    }
    report("open 1,000 runs, first frame", first, 11);
    draw_views(workbench, grid, "list of 1,000");
    workbench_key(workbench, '/');
    for (int i = 0; i < KEYS; i++) {
        double start = clock_monotonic();
        workbench_key(workbench, (unsigned char)filter[i]);
        workbench_draw(workbench, grid);
        pressed[i] = clock_monotonic() - start;
    }
    report("a key of a filter over 1,000 runs", pressed, KEYS);
    must(store_open(home, false, &other, &err), &err);
    for (int i = 0; i < 20; i++) {
        must(store_begin(other, &err), &err);
        must(store_exec(other, "update runs set heartbeat = heartbeat + 1 where rowid = 1", &err), &err);
        must(store_commit(other, &err), &err);
        double start = clock_monotonic();
        workbench_tick(workbench, clock_wall() + 2 * i); /* once a second at most */
        workbench_draw(workbench, grid);
        commits[i] = clock_monotonic() - start;
    }
    report("follow: a commit, list of 1,000", commits, 20);
    store_close(other);
    workbench_close(workbench);
    must(file_remove_tree(home, &err), &err);
}

/* Smooths a run of 200,000 steps: 0.9, 0.99, none, and again. */
static void bench_smoothing(struct grid *grid)
{
    enum { LONG = 200000 };
    char home[] = "/tmp/anneal-bench-smooth-XXXXXX", id[RUN_ID_MAX];
    struct err err = {0};
    struct store *store;
    struct writer *writer;
    struct workbench *workbench;
    double seconds[2 * 11];
    if (!mkdtemp(home)) return;
    must(store_open(home, false, &store, &err), &err);
    struct run_new new = {.name = "smooth", .device = "cpu", .precision = "fp32", .total_steps = LONG};
    new.config = "[train]\nbatch_size = 16\n";
    must(run_create(store, &new, id, &err), &err);
    store_close(store);
    struct writer_options writing = {.home = home, .run_id = id};
    must(writer_open(&writing, &writer, &err), &err);
    for (int64_t step = 0; step < LONG; step++) {
        write_step(writer, step);
        if (step % 256 == 255) must(writer_flush(writer, 60, &err), &err);
    }
    must(writer_close(writer, RUN_FINISHED, "", &err), &err);
    struct workbench_options options = {.home = home, .list = &runs_view, .run = &run_view, .run_id = id};
    must(workbench_open(&options, &workbench, &err), &err);
    for (int i = 0; i < 2 * 11; i++) {
        if (i % 2 == 0 && i) workbench_key(workbench, 'm'); /* none */
        double start = clock_monotonic();
        workbench_key(workbench, 'm');
        workbench_draw(workbench, grid);
        seconds[i] = clock_monotonic() - start;
    }
    report("smooth 200k steps, next frame", seconds, 2 * 11);
    workbench_close(workbench);
    must(file_remove_tree(home, &err), &err);
}

int main(void)
{
    char home[] = "/tmp/anneal-bench-tui-XXXXXX", id[RUN_ID_MAX];
    struct err err = {0};
    struct store *store;
    struct writer *writer;
    struct run_lock lock;
    struct grid grid = {.level = GLYPHS_BRAILLE};
    setlocale(LC_CTYPE, "C.UTF-8");
    if (!mkdtemp(home)) return 1;
    must(store_open(home, false, &store, &err), &err);
    struct run_new new = {
        .name = "long", .device = "cpu", .precision = "fp32", .parameters = 1, .total_steps = STEPS * 2};
    new.config = "[train]\nbatch_size = 16\n";
    must(run_create(store, &new, id, &err), &err);
    must(run_lock_acquire(store, id, &lock, &err), &err);
    store_close(store);
    struct writer_options writing = {.home = home, .run_id = id};
    must(writer_open(&writing, &writer, &err), &err);
    for (int64_t step = 0; step < STEPS; step++) {
        write_step(writer, step);
        if (step % 256 == 255) must(writer_flush(writer, 60, &err), &err);
    }
    must(writer_flush(writer, 60, &err), &err);

    double open_seconds[11];
    struct workbench_options options = {.home = home, .list = &runs_view, .run = &run_view, .run_id = id};
    struct workbench *workbench = NULL;
    must(grid_resize(&grid, W, H, &err), &err);
    for (int i = 0; i < 11; i++) {
        workbench_close(workbench);
        double start = clock_monotonic();
        must(workbench_open(&options, &workbench, &err), &err);
        workbench_draw(workbench, &grid);
        open_seconds[i] = clock_monotonic() - start;
    }
    report("open 50k steps, first frame", open_seconds, 11);
    draw_views(workbench, &grid, "run");
    workbench_key(workbench, 'm');
    draw_views(workbench, &grid, "run, smoothed,");
    workbench_key(workbench, 'm');
    workbench_key(workbench, 'm');
    bench_screen(workbench, &grid, writer);
    workbench_key(workbench, 'q');
    draw_views(workbench, &grid, "list");
    workbench_close(workbench);
    bench_smoothing(&grid);
    bench_list(&grid);
    grid_release(&grid);
    must(writer_close(writer, RUN_FINISHED, "", &err), &err);
    run_lock_release(&lock);
    must(file_remove_tree(home, &err), &err);
    return 0;
}
