/* The profiler alone, on a device whose clock the test controls: exact times, which steps are profiled, and
 * that it never waits. */
#include <math.h>

#include "core/train/profiler.h"
#include "tests/cmocka.h"

struct event {
    double at; /* microseconds */
};

static struct {
    double now; /* microseconds */
    bool behind, failed;
    int opened, read;
    char ranges[512]; /* as they begin and end: "forward(attention()…" */
} device;

static void range_push(const char *name)
{
    size_t used = strlen(device.ranges);
    snprintf(device.ranges + used, sizeof device.ranges - used, "%s(", name);
}

static void range_pop(void)
{
    size_t used = strlen(device.ranges);
    snprintf(device.ranges + used, sizeof device.ranges - used, ")");
}

static enum status event_open(struct device *unused, struct event **out, struct err *err)
{
    (void)unused;
    *out = calloc(1, sizeof **out);
    device.opened++;
    return *out ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory");
}

static void event_close(struct event *event)
{
    free(event);
    device.opened--;
}

static void event_record(struct event *event, struct stream *stream)
{
    (void)stream;
    event->at = device.now;
}

static bool event_done(struct event *event)
{
    (void)event;
    return !device.behind;
}

static double event_elapsed(struct event *from, struct event *to)
{
    assert_false(device.behind); /* it would wait */
    device.read++;
    return device.failed ? NAN : (to->at - from->at) * 1e-3;
}

static const struct backend backend = {.name = "pretended",
                                       .event_open = event_open,
                                       .event_close = event_close,
                                       .event_record = event_record,
                                       .event_done = event_done,
                                       .event_elapsed = event_elapsed,
                                       .range_push = range_push,
                                       .range_pop = range_pop};

static struct profiler *open_profiler(int64_t every, int64_t warmup, int64_t marks, int64_t rows)
{
    struct profiler *profiler = NULL;
    struct err err = {0};
    struct profiler_options options = {
        .backend = &backend, .every = every, .warmup_steps = warmup, .marks = marks, .rows = rows};
    memset(&device, 0, sizeof device);
    if (profiler_open(&options, &profiler, &err)) fail_msg("%s", err.text);
    return profiler;
}

static void close_profiler(struct profiler *profiler)
{
    profiler_close(profiler);
    assert_int_equal(device.opened, 0);
}

static void mark(struct profiler *p, enum phase phase, int layer, const char *op, double takes_us)
{
    profiler_mark(p, phase, layer, op, 100, 1000);
    device.now += takes_us;
}

/* Two micro-batches of two layers, 31 us in all; the names are not the same pointers. */
static void run_step(struct profiler *p)
{
    static const char again[] = "attention";
    for (int i = 0; i < 2; i++) {
        mark(p, PHASE_FORWARD, 0, i ? again : "attention", 3);
        mark(p, PHASE_FORWARD, 1, "attention", 4);
        mark(p, PHASE_BACKWARD, 1, "attention", 5);
        mark(p, PHASE_FORWARD, 1, "norm", 0.5);
    }
    mark(p, PHASE_OPTIMIZER, -1, "adamw", 6);
    profiler_end(p);
}

static void row_is(const struct profile_record *row, const char *phase, int layer, const char *op,
                   int64_t calls, double time_us)
{
    assert_string_equal(row->phase, phase);
    assert_int_equal(row->layer, layer);
    assert_string_equal(row->op, op);
    assert_int_equal(row->calls, calls);
    if (fabs(row->time_us - time_us) > 1e-9) fail_msg("%s: %.9g us, not %g", op, row->time_us, time_us);
}

TEST_CASE(an_operation_takes_until_the_next_mark)
{
    int count;
    struct profiler *p = open_profiler(1, 0, 100, 100);
    device.now = 1e6;
    assert_ptr_equal(profiler_begin(p, 7, NULL, NULL, false), p);
    run_step(p);
    device.now += 50;
    assert_true(profiler_collect(p, 7, 40, &count) != NULL);
    const struct span *spans = profiler_spans(p, &count);
    assert_int_equal(count, 9);
    double at = 0;
    for (int i = 0; i < count; i++) {
        assert_true(spans[i].start_us == at);
        at += spans[i].time_us;
    }
    assert_true(fabs(spans[0].time_us - 3) < 1e-9 && fabs(spans[3].time_us - 0.5) < 1e-9);
    assert_true(fabs(spans[8].time_us - 6) < 1e-9); /* what came after the end is not its */
    close_profiler(p);
}

TEST_CASE(rows_add_up_to_the_step_each_operation_once)
{
    int count;
    struct profiler *p = open_profiler(1, 0, 100, 100);
    profiler_begin(p, 7, NULL, NULL, false);
    run_step(p);
    const struct profile_record *rows = profiler_collect(p, 7, 40, &count);
    assert_int_equal(count, 6);
    row_is(&rows[0], "forward", 0, "attention", 2, 6);
    row_is(&rows[1], "forward", 1, "attention", 2, 8);
    row_is(&rows[2], "backward", 1, "attention", 2, 10);
    row_is(&rows[3], "forward", 1, "norm", 2, 1);
    row_is(&rows[4], "optimizer", -1, "adamw", 1, 6);
    row_is(&rows[5], "unattributed", -1, "unattributed", 1, 9);
    assert_int_equal(rows[1].bytes, 200);
    assert_int_equal(rows[1].flops, 2000);
    for (int i = 0; i < count; i++) assert_int_equal(rows[i].step, 7);
    close_profiler(p);
}

TEST_CASE(after_the_warm_up_one_step_in_n_is_profiled)
{
    static const bool want[] = {false, false, false, true,  false, false, false,
                                true,  false, false, false, true,  false, false};
    struct profiler *p = open_profiler(4, 3, 100, 100);
    for (int step = 0; step < 14; step++) {
        int count;
        struct profiler *now =
            profiler_begin(p, 100 + step, NULL, NULL, false); /* wherever a resumed run begins */
        assert_int_equal(now != NULL, want[step]);
        if (now) run_step(now);
        profiler_collect(p, 100 + step, 40, &count);
        assert_int_equal(count, want[step] ? 6 : 0);
    }
    close_profiler(p);
}

TEST_CASE(a_step_that_is_wished_for_is_profiled_whenever_it_comes)
{
    int count;
    struct profiler *p = open_profiler(0, 3, 100, 100); /* none is due, ever */
    assert_null(profiler_begin(p, 0, NULL, NULL, false));
    assert_ptr_equal(profiler_begin(p, 1, NULL, NULL, true), p); /* also in the warm-up */
    run_step(p);
    assert_ptr_equal(profiler_begin(p, 2, NULL, NULL, true), p); /* the one before is given up */
    run_step(p);
    profiler_collect(p, 1, 40, &count);
    assert_int_equal(count, 0);
    profiler_collect(p, 2, 40, &count);
    assert_int_equal(count, 6);
    assert_null(profiler_begin(p, 3, NULL, NULL, false));
    close_profiler(p);
}

TEST_CASE(a_phase_and_its_operations_are_ranges)
{
    struct profiler *p = open_profiler(1, 0, 3, 100); /* room for three marks */
    profiler_begin(p, 0, NULL, NULL, false);
    mark(p, PHASE_FORWARD, 0, "a", 1);
    mark(p, PHASE_FORWARD, 1, "b", 1);
    mark(p, PHASE_BACKWARD, 1, "c", 1);
    mark(p, PHASE_BACKWARD, 1, "d", 1);
    mark(p, PHASE_OPTIMIZER, 1, "no room", 1);
    profiler_end(p);
    assert_string_equal(device.ranges, "forward(a()b())backward(c()d())");
    close_profiler(p);
}

TEST_CASE(a_device_that_is_behind_is_not_waited_for)
{
    int count;
    struct profiler *p = open_profiler(1, 0, 100, 100);
    profiler_begin(p, 0, NULL, NULL, false);
    run_step(p);
    device.behind = true;
    assert_null(profiler_collect(p, 0, 40, &count));
    assert_int_equal(count, 0);
    assert_null(profiler_begin(p, 1, NULL, NULL, false)); /* its marks are still to be read */
    device.behind = false;
    assert_null(profiler_collect(p, 1, 40, &count));
    assert_non_null(profiler_collect(p, 0, 40, &count));
    assert_int_equal(count, 6);
    assert_null(profiler_collect(p, 0, 40, &count)); /* once */
    assert_int_equal(device.read, 9);
    assert_non_null(profiler_begin(p, 2, NULL, NULL, false));
    run_step(p);
    profiler_forget(p); /* a rollback: step 2 comes once more */
    assert_null(profiler_collect(p, 2, 40, &count));
    assert_non_null(profiler_begin(p, 2, NULL, NULL, false));
    close_profiler(p);
}

TEST_CASE(a_step_that_failed_has_no_rows)
{
    int count;
    struct profiler *p = open_profiler(1, 0, 100, 100);
    profiler_begin(p, 0, NULL, NULL, false);
    run_step(p);
    device.failed = true;
    assert_null(profiler_collect(p, 0, 40, &count));
    assert_int_equal(count, 0);
    device.failed = false;
    profiler_begin(p, 1, NULL, NULL, false);
    run_step(p);
    assert_non_null(profiler_collect(p, 1, 40, &count));
    assert_int_equal(count, 6);
    close_profiler(p);
}

TEST_CASE(what_there_is_no_room_for_is_unattributed)
{
    int count;
    struct profiler *marks = open_profiler(1, 0, 3, 100);
    profiler_begin(marks, 0, NULL, NULL, false);
    run_step(marks);
    const struct profile_record *rows = profiler_collect(marks, 0, 40, &count);
    assert_int_equal(count, 4);
    row_is(&rows[2], "backward", 1, "attention", 1, 5);
    row_is(&rows[3], "unattributed", -1, "unattributed", 1, 40 - 3 - 4 - 5);
    close_profiler(marks);

    struct profiler *few = open_profiler(1, 0, 100, 2);
    profiler_begin(few, 0, NULL, NULL, false);
    run_step(few);
    rows = profiler_collect(few, 0, 40, &count);
    assert_int_equal(count, 3);
    row_is(&rows[1], "forward", 1, "attention", 2, 8);
    row_is(&rows[2], "unattributed", -1, "unattributed", 1, 40 - 6 - 8);
    close_profiler(few);
}

TEST_CASE(all_events_are_opened_with_the_profiler)
{
    int count;
    struct profiler *p = open_profiler(1, 0, 100, 100);
    int opened = device.opened;
    assert_int_equal(opened, 101);
    for (int step = 0; step < 5; step++) {
        profiler_begin(p, step, NULL, NULL, false);
        run_step(p);
        profiler_collect(p, step, 40, &count);
    }
    assert_int_equal(device.opened, opened);
    close_profiler(p);
}

TEST_CASE(none_is_harmless)
{
    int count = 1;
    assert_null(profiler_begin(NULL, 0, NULL, NULL, false));
    profiler_end(NULL);
    assert_null(profiler_collect(NULL, 0, 40, &count));
    assert_int_equal(count, 0);
    profiler_close(NULL);
}

TEST_MAIN()
