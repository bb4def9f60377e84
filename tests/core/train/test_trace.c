/* Traces: the output is JSON that a viewer can nest, however times are rounded; and tracing a step, by the
 * configuration or an order, does not change its results. */
#include <math.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/train/trace.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"
#include "tests/core/train/story.h"
#include "tests/core/train/trace_reader.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct trace_reading reading; /* large for the stack */

/* Writes spans and activities and reads them back. */
static void round_trip(const struct span *spans, int count, double step_us, const struct activity *activities,
                       int n)
{
    struct trace *trace;
    struct err err = {0};
    char *path = rig_path("trace.json");
    assert_int_equal(trace_open(&(struct trace_origin){17, "a \"device\"", NULL, 0, 0}, &trace, &err),
                     STATUS_OK);
    for (int i = 0; i < n; i++) trace_activity(trace, &activities[i]);
    trace_spans(trace, step_us, spans, count);
    if (trace_close(trace, path, &err)) fail_msg("%s", err.text);
    trace_read(path, &reading);
    free(path);
}

TEST_CASE(operations_lie_in_layers_in_phases_in_the_step)
{
    static const struct span spans[] = {{PHASE_FORWARD, -1, "embedding", 0, 1, 1000, 0, false, 0},
                                        {PHASE_FORWARD, 0, "gemm qkv", 1, 4, 2000, 8000, false, 0},
                                        {PHASE_FORWARD, 0, "attention", 5, 2.5, 10, 20, false, 0},
                                        {PHASE_FORWARD, 1, "gemm qkv", 7.5, 3.5, 2000, 8000, false, 0},
                                        {PHASE_BACKWARD, 1, "gemm qkv dw", 11, 2, 1, 1, false, 0}};
    round_trip(spans, 5, 20, NULL, 0);
    const struct trace_event *step = trace_find(&reading, "step 17"),
                             *forward = trace_find(&reading, "forward"),
                             *layer = trace_find(&reading, "layer 0"),
                             *gemm = trace_find(&reading, "gemm qkv");
    assert_true(step && forward && layer && gemm);
    assert_true(trace_holds(step, forward) && trace_holds(forward, layer) && trace_holds(layer, gemm));
    assert_int_equal(step->duration, 20000);
    assert_int_equal(forward->duration, 11000);
    assert_int_equal(layer->start, 1000);
    assert_int_equal(layer->duration, 6500);
    assert_false(trace_holds(layer, trace_find(&reading, "embedding")));
    assert_int_equal(trace_count(&reading, "phase"), 2);
    assert_int_equal(trace_count(&reading, "layer"), 3);
    assert_int_equal(trace_count(&reading, "operation"), 5);
    assert_true(gemm->bytes == 2000 && gemm->flops == 8000); /* in 4 us */
    assert_true(gemm->gigabytes == 0.5 && gemm->gigaflops == 2);
}

TEST_CASE(times_that_round_against_each_other_still_nest)
{
    struct span spans[300];
    double at = 0.1;
    for (int i = 0; i < 300; i++) {
        double time = 1.0 / 3 + rig_uniform(3, (uint64_t)i);
        spans[i] = (struct span){.phase = i < 150 ? PHASE_FORWARD : PHASE_BACKWARD,
                                 .layer = i / 10 % 15,
                                 .op = "op",
                                 .start_us = at,
                                 .time_us = time,
                                 .bytes = 1,
                                 .flops = 1};
        at += time;
    }
    round_trip(spans, 300, 0, NULL, 0); /* the step is as long as its spans, at least */
    assert_int_equal(trace_count(&reading, "operation"), 300);
    assert_int_equal(trace_count(&reading, "layer"), 30);
}

TEST_CASE(what_the_device_saw_is_a_thread_a_stream)
{
    static const struct activity activities[] = {
        {.name = "void kernel<\"x\\y\", \xc3\xa4>()",
         .kind = ACTIVITY_KERNEL,
         .start_ns = 100,
         .duration_ns = 50,
         .stream = 7,
         .launch = {{4, 3, 2}, {32, 4, 1}, 40, 1024, 512, 16},
         .occupancy = {0.75, 1.5, "registers"}},
        {.name = "upload",
         .kind = ACTIVITY_UPLOAD,
         .start_ns = 200,
         .duration_ns = 100,
         .stream = 7,
         .bytes = 400},
        {.name = "fill", .kind = ACTIVITY_FILL, .start_ns = 90, .duration_ns = 100, .stream = 8, .bytes = 1},
        {.name = "of the step before",
         .kind = ACTIVITY_KERNEL,
         .start_ns = -100,
         .duration_ns = 50,
         .stream = 7},
        {.name = "reaches in", .kind = ACTIVITY_KERNEL, .start_ns = -10, .duration_ns = 30, .stream = 7}};
    round_trip(NULL, 0, 1, activities, 5);
    assert_string_equal(reading.processes[2], "a \"device\"");
    const struct trace_event *kernel = trace_find(&reading, "void kernel<\"x\\y\", \xc3\xa4>()"),
                             *upload = trace_find(&reading, "upload"),
                             *in = trace_find(&reading, "reaches in");
    assert_true(kernel && upload && in);
    assert_true(kernel->process == 2 && kernel->thread == 7 && kernel->start == 100 &&
                kernel->duration == 50);
    assert_true(kernel->blocks == 24 && kernel->threads == 128 && kernel->registers == 40);
    assert_true(kernel->static_shared == 1024 && kernel->dynamic_shared == 512);
    assert_true(kernel->occupancy == 75 && kernel->waves == 1.5);
    assert_string_equal(kernel->limit, "registers");
    assert_true(in->registers == -1 && in->occupancy == -1 &&
                upload->blocks == -1); /* not known, and not one */
    assert_true(upload->bytes == 400 && upload->gigabytes == 4);
    assert_true(trace_find(&reading, "fill")->thread == 8);
    assert_string_equal(reading.threads[2][7], "stream 7");
    assert_string_equal(reading.threads[2][8], "stream 8");
    assert_null(trace_find(&reading, "of the step before"));
    assert_true(in->start == 0 && in->duration == 20);
}

TEST_CASE(a_file_that_cannot_be_written_is_an_error_that_names_it)
{
    struct trace *trace;
    struct err err = {0};
    char *file = rig_path("plain"), *path = rig_path("plain/trace.json");
    rig_write(file, "x", 1);
    assert_int_equal(trace_open(&(struct trace_origin){1, "cpu", NULL, 0, 0}, &trace, &err), STATUS_OK);
    assert_int_equal(trace_close(trace, path, &err), STATUS_IO);
    assert_non_null(strstr(err.text, "plain"));
    free(file);
    free(path);
}

/* ---- in the trainer ---- */

static void read_step(const struct session *s, int step)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/step-%d.json", s->traces, step);
    trace_read(path, &reading);
}

TEST_CASE(the_step_of_the_configuration_is_traced_and_computes_the_same)
{
    struct session plain, traced;
    const char *const *words = WORDS("train.accumulation_steps=2", "train.dropout=0.1",
                                     "checkpoint.activation_interval=2", "profile.every=3");
    session_open(&plain, "plain-run", NULL, words, 900);
    session_start(&plain, false);
    assert_int_equal(session_run(&plain), TRAIN_FINISHED);
    session_open(&traced, "traced", NULL, words, 900);
    traced.config.profile.trace_step = 4;
    session_start(&traced, false);
    assert_int_equal(session_run(&traced), TRAIN_FINISHED);
    for (int i = 0; i < 12; i++) {
        assert_memory_equal(&plain.story.steps[i].loss, &traced.story.steps[i].loss, sizeof(double));
        assert_memory_equal(&plain.story.steps[i].grad_norm, &traced.story.steps[i].grad_norm,
                            sizeof(double));
    }
    assert_int_equal(traced.story.event_count, 1);
    assert_string_equal(traced.story.last_event, "trace of step 4: written to traces/step-4.json");
    assert_int_equal(traced.story.last_event_step, 4);
    read_step(&traced, 4);
    static const char *const there[] = {"step 4",    "data",    "forward", "backward",  "recompute",
                                        "optimizer", "layer 0", "layer 1", "attention", "adamw"};
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        if (!trace_find(&reading, there[i])) fail_msg("no \"%s\" in the trace", there[i]);
    assert_true(trace_sum(&reading, "operation") <= trace_sum(&reading, "step"));
    assert_true(trace_sum(&reading, "operation") > 0.5 * (double)trace_sum(&reading, "step"));
    assert_int_equal(access(traced.traces, F_OK), 0);
    assert_int_not_equal(access(plain.traces, F_OK), 0);
    session_close(&plain);
    session_close(&traced);
}

TEST_CASE(a_resumed_run_keeps_the_trace_of_its_first_life)
{
    struct session s;
    char path[4200];
    session_open(&s, "again", NULL, WORDS("checkpoint.every=3", "profile.trace_step=4"), 900);
    for (int life = 1; life <= 3; life++) {
        s.story.leave_at = 6;
        session_start(&s, life > 1);
        assert_int_equal(session_run(&s), TRAIN_STOPPED);
        snprintf(path, sizeof path, "%s/step-6", s.folder); /* it goes on from step 3 */
        assert_int_equal(file_remove_tree(path, NULL), STATUS_OK);
    }
    assert_int_equal(s.story.event_count, 3);
    assert_string_equal(s.story.last_event, "trace of step 4: written to traces/step-4.3.json");
    static const char *const names[] = {"step-4.json", "step-4.2.json", "step-4.3.json"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", s.traces, names[i]);
        assert_int_equal(access(path, F_OK), 0);
    }
    session_close(&s);
}

TEST_CASE(an_order_traces_the_next_step_and_is_answered_with_it)
{
    struct session s;
    struct story_order script[] = {{.at = 3, .order = {.id = 1, .verb = ORDER_TRACE}},
                                   {.at = 3, .order = {.id = 2, .verb = ORDER_TRACE}},
                                   {.at = 3, .order = {.id = 3, .verb = ORDER_EVAL}},
                                   {.at = 7, .order = {.id = 4, .verb = ORDER_TRACE}},
                                   {0}};
    session_open(&s, "ordered", NULL, WORDS("profile.every=0"), 900); /* a trace needs no profile */
    s.story.orders = script;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_int_equal(s.story.acknowledged, 4);
    assert_int_equal(s.story.applied[1], 3);
    assert_string_equal(s.story.results[1], "written to traces/step-3.json");
    assert_non_null(strstr(s.story.results[2], "refused: a trace of the next step has already been ordered"));
    assert_non_null(strstr(s.story.results[3], "validation loss"));
    assert_int_equal(s.story.applied[4], 7);
    read_step(&s, 3);
    assert_non_null(trace_find(&reading, "layer 1"));
    read_step(&s, 7);
    session_close(&s);
}

/* A paused run continues when ordered, although a trace is waiting. */
TEST_CASE(an_order_in_a_pause_waits_for_the_step_after_it)
{
    struct session s;
    struct story_order script[] = {{.at = 3, .order = {.id = 1, .verb = ORDER_PAUSE}},
                                   {.at = 3, .order = {.id = 2, .verb = ORDER_TRACE}, .wait = 1},
                                   {.at = 3, .order = {.id = 3, .verb = ORDER_CONTINUE}, .wait = 1},
                                   {0}};
    session_open(&s, "paused", NULL, NULL, 900);
    s.story.orders = script;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_int_equal(s.story.applied[2], 3);
    assert_string_equal(s.story.results[2], "written to traces/step-3.json");
    session_close(&s);
}

TEST_CASE(an_order_after_which_no_step_comes_says_so)
{
    struct session s;
    struct story_order script[] = {{.at = 5, .order = {.id = 1, .verb = ORDER_TRACE}},
                                   {.at = 5, .order = {.id = 2, .verb = ORDER_STOP}},
                                   {0}};
    session_open(&s, "stopped", NULL, NULL, 900);
    s.story.orders = script;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_STOPPED);
    assert_string_equal(s.story.results[1], "no trace: no step followed the order");
    assert_int_equal(s.story.acknowledged, 2);
    session_close(&s);
}

TEST_CASE(a_trace_that_cannot_be_written_does_not_end_the_run)
{
    struct session s;
    session_open(&s, "unwritable", NULL, WORDS("profile.trace_step=2"), 900);
    struct err err = {0};
    assert_int_equal(file_make_folders(s.folder, &err), STATUS_OK);
    rig_write(s.traces, "in the way", 10);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_string_equal(s.story.last_level, "warning");
    assert_non_null(strstr(s.story.last_event, "trace of step 2: no trace: "));
    session_close(&s);
}

/* Rank 0 takes in what rank 1 recorded: two processes, each with its own step, at their places in time. */
TEST_CASE(ranks_are_processes_and_collectives_say_how_long_they_wait)
{
    static const struct span spans[] = {{PHASE_BACKWARD, 0, "attention", 0, 5, 1, 1, false, 0},
                                        {PHASE_OPTIMIZER, -1, "reduce gradients", 5, 4, 1000, 0, true, 3}};
    struct trace *mine, *other;
    struct err err = {0};
    size_t size;
    char *path = rig_path("ranks.json");
    assert_int_equal(trace_open(&(struct trace_origin){9, "a", "near", 0, 2e-6}, &mine, &err), STATUS_OK);
    assert_int_equal(trace_open(&(struct trace_origin){9, "b", "far", 1, 7e-6}, &other, &err), STATUS_OK);
    trace_spans(mine, 9, spans, 2);
    trace_spans(other, 9, spans, 2);
    const char *text = trace_text(other, &size);
    assert_int_equal(strlen(text), size);
    trace_add(mine, text);
    assert_int_equal(trace_close(other, NULL, &err), STATUS_OK);
    assert_int_equal(trace_close(mine, path, &err), STATUS_OK);
    trace_read(path, &reading);
    assert_string_equal(reading.processes[1], "rank 0 on near");
    assert_string_equal(reading.processes[3], "rank 1 on far");
    assert_string_equal(reading.processes[4], "rank 1 on far: b");
    assert_int_equal(trace_count(&reading, "collective"), 2);
    for (int i = 0; i < reading.count; i++) {
        const struct trace_event *event = &reading.events[i];
        if (strcmp(event->category, "step") == 0)
            assert_int_equal(event->start, event->process == 1 ? 2000 : 7000);
        if (strcmp(event->category, "collective") == 0) assert_true(event->wait == 3);
        if (strcmp(event->category, "operation") == 0) assert_true(event->wait < 0);
    }
    free(path);
}

TEST_MAIN()
