/* The workbench, headless and on a terminal that goes nowhere:
 *   open     a run of 50,000 steps (all its series, rows and the first frame), as `anneal watch RUN` does it
 *   draw     a full frame of each view into cells at 200 x 60
 *   show     the same frame through curses into /dev/null, every cell new, and one that did not change
 *   follow   what one commit of a living run costs: asking, reading, drawing, showing only what changed
 *   idle     a tick in which nothing changed
 *   long     opening a run of 200,000 steps, and of ANNEAL_BENCH_STEPS (default 10000000), with what the
 *            system holds of the database in memory and without; keys that smooth and zoom it, with a frame
 *   load     the loss of 20 runs of 50,000 steps
 *   compare  20 runs of 100,000 steps, each by itself and in 2 groups of 10: until the first frame, for each
 *            axis, with a target, and what one commit of a living one costs
 *   list     1,000 runs with 200 steps and 80 keys of the configuration each: the first frame, a frame, a key
 *            of a filter until the next frame, and what a commit costs
 *
 * Median and 95th percentile of repeated runs. */
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "runs/database.h"
#include "runs/journal.h"
#include "runs/run.h"
#include "runs/writer.h"
#include "tests/runs/flush.h"
#include "tui/command/view_config.h"
#include "tui/view/screen.h"
#include "tui/view/workbench.h"

enum { STEPS = 50000, LONGEST = 10000000, W = 200, H = 60, REPEATS = 200 };

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

static struct step_record step_of(int64_t step)
{
    double x = (double)step;
    return (struct step_record){.step = step,
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
}

static void write_step(struct writer *writer, int64_t step)
{
    struct step_record record = step_of(step);
    writer_step(writer, &record);
    if (step % 500 == 0) {
        struct eval_record eval = {step, record.tokens, record.wall_time, record.loss + 0.1, exp(record.loss),
                                   400};
        writer_eval(writer, &eval);
    }
}

/* Opens the workbench anew until its first frame; returns the seconds. */
static double time_opening(struct workbench **workbench, const struct workbench_options *options,
                           struct grid *grid)
{
    struct err err = {0};
    workbench_close(*workbench);
    double start = clock_monotonic();
    must(workbench_open(options, workbench, &err), &err);
    workbench_draw(*workbench, grid);
    return clock_monotonic() - start;
}

/* Presses a key and draws the next frame; returns the seconds. */
static double time_key(struct workbench *workbench, uint32_t code, struct grid *grid)
{
    double start = clock_monotonic();
    workbench_key(workbench, code);
    workbench_draw(workbench, grid);
    return clock_monotonic() - start;
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
    printf("tui idle, ten ticks a second            %9.4f %% of a core\n", idle[REPEATS / 2] * 10 * 100);
}

/* 1,000 runs, one in three with tags. */
static void fill_list(const char *home)
{
    struct err err = {0};
    struct store *store;
    must(store_open(home, STORE_WRITE, &store, &err), &err);
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
    for (int i = 0; i < 11; i++) first[i] = time_opening(&workbench, &options, grid);
    report("open 1,000 runs, first frame", first, 11);
    draw_views(workbench, grid, "list of 1,000");
    for (int i = 0; i < 10; i++) first[i] = time_key(workbench, 'f', grid); /* one row, then 1,000 again */
    report("fold 1,000 runs, or unfold them", first, 10);
    workbench_key(workbench, '/');
    for (int i = 0; i < KEYS; i++) pressed[i] = time_key(workbench, (unsigned char)filter[i], grid);
    report("a key of a filter over 1,000 runs", pressed, KEYS);
    must(store_open(home, STORE_WRITE, &other, &err), &err);
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

/* A run that has ended, with all metrics of its steps and samples of a GPU. */
static void fill_ended(const char *home, const char *name, int64_t steps, char id[RUN_ID_MAX])
{
    struct err err = {0};
    struct store *store;
    struct journal journal;
    must(store_open(home, STORE_WRITE, &store, &err), &err);
    struct run_new new = {.name = name, .device = "cpu", .precision = "fp32", .total_steps = steps};
    new.config = "[train]\nbatch_size = 16\n";
    must(run_create(store, &new, id, &err), &err);
    must(store_exec(store, "pragma synchronous = off", &err), &err);
    must(journal_begin(&journal, store, id, &err), &err);
    for (int64_t s = 0; s < steps;) {
        must(store_begin(store, &err), &err);
        for (int64_t end = s + 100000 < steps ? s + 100000 : steps; s < end; s++) {
            struct step_record record = step_of(s);
            must(journal_add(&journal, TABLE_STEPS, &record, &err), &err);
        }
        must(store_commit(store, &err), &err);
    }
    must(store_exec(store,
                    "insert into gpu_samples(run_id, wall_time, gpu, utilization_pct, power_w) select run_id,"
                    " wall_time - 0.01, 0, 90, 300 from steps where step % 20 = 0 and run_id ="
                    " (select id from runs order by created_at desc limit 1)",
                    &err),
         &err);
    must(journal_end(&journal, RUN_FINISHED, "", &err), &err);
    store_settle(store);
    store_close(store);
}

/* Makes the system forget what it holds of the database in memory, as after a night. */
static void forget_pages(const char *home)
{
    char path[64];
    snprintf(path, sizeof path, "%s/anneal.db", home);
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fsync(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)) perror(path);
    if (fd >= 0) close(fd);
}

/* Opens a run, from memory and from the disk, and smooths its loss with each factor, not at all, and again.
 */
static void bench_long(struct grid *grid, int64_t steps)
{
    enum { OPENS = 11, ZOOMS = 15 };
    char home[] = "/tmp/anneal-bench-long-XXXXXX", id[RUN_ID_MAX], what[64];
    struct err err = {0};
    struct workbench *workbench = NULL;
    double opened[2][OPENS], smoothed[ROLLUP_DECAYS * OPENS], zoomed[2 * ZOOMS];
    if (!mkdtemp(home)) return;
    fill_ended(home, "long", steps, id);
    struct workbench_options options = {.home = home, .list = &runs_view, .run = &run_view, .run_id = id};
    for (int i = 0; i < 2 * OPENS; i++) {
        if (i >= OPENS) forget_pages(home);
        opened[i / OPENS][i % OPENS] = time_opening(&workbench, &options, grid);
    }
    snprintf(what, sizeof what, "open %s steps, first frame", TEXT_COUNT(steps));
    report(what, opened[0], OPENS);
    report("the same, from the disk", opened[1], OPENS);
    for (int i = 0; i < ROLLUP_DECAYS * OPENS; i++) {
        if (i % ROLLUP_DECAYS == 0 && i) workbench_key(workbench, 'm'); /* none */
        smoothed[i] = time_key(workbench, 'm', grid);
    }
    snprintf(what, sizeof what, "smooth %s steps, next frame", TEXT_COUNT(steps));
    report(what, smoothed, ROLLUP_DECAYS * OPENS);
    for (int i = 0; i < 2 * ZOOMS; i++) zoomed[i] = time_key(workbench, i < ZOOMS ? '+' : '-', grid);
    snprintf(what, sizeof what, "zoom %s steps, next frame", TEXT_COUNT(steps));
    report(what, zoomed, 2 * ZOOMS);
    workbench_close(workbench);
    must(file_remove_tree(home, &err), &err);
}

/* Reads the loss of 20 runs of 50,000 steps, as the comparison of runs does. */
static void bench_many(void)
{
    enum { RUNS = 20, TIMES = 11 };
    char home[] = "/tmp/anneal-bench-many-XXXXXX", id[RUNS][RUN_ID_MAX], name[16];
    struct err err = {0};
    struct store *store;
    double seconds[TIMES];
    if (!mkdtemp(home)) return;
    for (int r = 0; r < RUNS; r++) {
        snprintf(name, sizeof name, "run-%d", r);
        fill_ended(home, name, STEPS, id[r]);
    }
    must(store_open(home, STORE_VIEW, &store, &err), &err);
    for (int i = 0; i < TIMES; i++) {
        struct series series[RUNS] = {{0}};
        double start = clock_monotonic();
        for (int r = 0; r < RUNS; r++)
            must(series_read(store, id[r], METRIC_LOSS, 0, -1, 1024, &series[r], &err), &err);
        seconds[i] = clock_monotonic() - start;
        for (int r = 0; r < RUNS; r++) series_release(&series[r]);
    }
    report("load 20 x 50k steps", seconds, TIMES);
    store_close(store);
    must(file_remove_tree(home, &err), &err);
}

/* Runs that differ in the seed, and half of them in the learning rate, too. */
static void fill_compared(const char *home, int64_t steps, int runs)
{
    struct err err = {0};
    struct store *store;
    struct writer *writer;
    char id[RUN_ID_MAX], name[32];
    must(store_open(home, STORE_WRITE, &store, &err), &err);
    for (int r = 0; r < runs; r++) {
        snprintf(name, sizeof name, "run-%02d", r);
        struct run_new new = {.name = name, .device = "cpu", .precision = "fp32", .total_steps = steps};
        new.config = "[train]\nbatch_size = 16\n";
        must(run_create(store, &new, id, &err), &err);
        struct writer_options writing = {.home = home, .run_id = id};
        must(writer_open(&writing, &writer, &err), &err);
        for (int64_t step = 0; step < steps; step++) {
            write_step(writer, step);
            if (step % 1024 == 1023) must(writer_flush(writer, 60, &err), &err);
        }
        must(writer_close(writer, RUN_FINISHED, "", &err), &err);
    }
    must(store_begin(store, &err), &err);
    must(store_exec(store,
                    "insert into params select id, 'train.seed', name from runs;"
                    "insert into params select id, 'train.learning_rate', name < 'run-10' from runs",
                    &err),
         &err);
    must(store_commit(store, &err), &err);
    store_close(store);
}

/* Opens the comparison of all runs of the list. */
static void bench_opening(struct workbench *workbench, struct grid *grid, const char *what)
{
    double seconds[11];
    for (int i = 0; i < 11; i++) {
        seconds[i] = time_key(workbench, 'C', grid);
        workbench_key(workbench, 'q');
    }
    report(what, seconds, 11);
}

static void bench_comparing(struct grid *grid)
{
    enum { LONG = 100000, RUNS = 20, AXES = 5 };
    char home[] = "/tmp/anneal-bench-compare-XXXXXX";
    struct err err = {0};
    double axes[AXES], target[1], commits[20];
    struct workbench_options options = {.home = home, .list = &runs_view};
    struct workbench *workbench;
    struct store *other;
    if (!mkdtemp(home)) return;
    fill_compared(home, LONG, RUNS);
    must(workbench_open(&options, &workbench, &err), &err);
    workbench_key(workbench, 'a');
    bench_opening(workbench, grid, "compare 10 runs of 100k steps");
    workbench_key(workbench, 'f');
    bench_opening(workbench, grid, "compare 20 of them in 2 groups");
    workbench_key(workbench, 'C');
    for (int i = 0; i < AXES; i++) axes[i] = time_key(workbench, 'x', grid);
    report("another axis, next frame", axes, AXES);
    draw_views(workbench, grid, "comparison");
    double start = clock_monotonic();
    for (const char *typed = "t2.5\r"; *typed; typed++) workbench_key(workbench, (unsigned char)*typed);
    workbench_draw(workbench, grid);
    target[0] = clock_monotonic() - start;
    report("a target, next frame", target, 1);
    workbench_key(workbench, 't');
    workbench_key(workbench, K_CTRL('u'));
    workbench_key(workbench, '\r');
    must(store_open(home, STORE_WRITE, &other, &err), &err);
    for (int i = 0; i < 20; i++) {
        must(store_exec(other, "update runs set steps = steps + 1 where name = 'run-01'", &err), &err);
        start = clock_monotonic();
        workbench_tick(workbench, clock_wall());
        workbench_draw(workbench, grid);
        commits[i] = clock_monotonic() - start;
    }
    report("follow: a commit, comparison", commits, 20);
    store_close(other);
    workbench_close(workbench);
    must(file_remove_tree(home, &err), &err);
}

/* A key in a field of the form of a new run, whose preview is made anew, and the next frame. The memory is
 * estimated by another process, which no key starts. */
static void bench_form(const char *home, struct grid *grid)
{
    static const struct form_field fields[] = {{"model.hidden_dim", "width", "256", "", NULL},
                                               {"model.num_layers", "layers", "6", "", NULL}};
    static const struct {
        const char *width, *layers, *what;
    } models[] = {{"256", "12", "a key in the form, next frame"},
                  {"4096", "1022", "the same, 1,022 layers of 4,096"}};
    enum { KEYS = 100 };
    double pressed[KEYS];
    struct err err = {0};
    struct workbench_options options = {
        .home = home, .list = &runs_view, .run = &run_view, .fields = fields, .field_count = 2};
    options.preview = form_preview_make;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct workbench *workbench;
        must(workbench_open(&options, &workbench, &err), &err);
        workbench_key(workbench, 'n');
        for (const char *at = models[m].width; *at; at++) workbench_key(workbench, (unsigned char)*at);
        workbench_key(workbench, K_TAB);
        for (const char *at = models[m].layers; *at; at++) workbench_key(workbench, (unsigned char)*at);
        for (int i = 0; i < KEYS; i++) pressed[i] = time_key(workbench, i % 2 ? '2' : K_BACKSPACE, grid);
        report(models[m].what, pressed, KEYS);
        workbench_close(workbench);
    }
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
    must(store_open(home, STORE_WRITE, &store, &err), &err);
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
    for (int i = 0; i < 11; i++) open_seconds[i] = time_opening(&workbench, &options, &grid);
    report("open 50k steps, first frame", open_seconds, 11);
    draw_views(workbench, &grid, "run");
    workbench_key(workbench, 'm');
    draw_views(workbench, &grid, "run, smoothed,");
    for (int d = 0; d < ROLLUP_DECAYS; d++) workbench_key(workbench, 'm'); /* not any more */
    bench_screen(workbench, &grid, writer);
    workbench_key(workbench, 'q');
    draw_views(workbench, &grid, "list");
    workbench_close(workbench);
    const char *steps = getenv("ANNEAL_BENCH_STEPS");
    bench_long(&grid, 200000);
    bench_long(&grid, steps ? atoll(steps) : LONGEST);
    bench_many();
    bench_comparing(&grid);
    bench_list(&grid);
    bench_form(home, &grid);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("tui most memory of all of the above %.1f MiB\n", (double)usage.ru_maxrss / 1024);
    grid_release(&grid);
    must(writer_close(writer, RUN_FINISHED, "", &err), &err);
    run_lock_release(&lock);
    must(file_remove_tree(home, &err), &err);
    return 0;
}
