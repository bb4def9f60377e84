/* The profile on the simulated device, whose clock advances only with queued work: times are exact and
 * repeatable, and profiling does not change a bit of the training. */
#include <math.h>

#include "core/train/profiler.h"
#include "kernels/device/cuda_plugin.h"
#include "tests/cmocka.h"
#include "tests/core/train/story.h"
#include "tests/cuda_sim/simulator.h"

extern const struct cuda_plugin cuda_plugin;

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* A copy or a memset takes a microsecond for each started 4 KiB. */
TEST_CASE(events_of_the_stream_time_an_operation_exactly)
{
    const struct backend *be = cuda_plugin.table;
    struct device *device;
    struct stream *stream;
    struct profiler *profiler;
    struct err err = {0};
    void *memory;
    int count;
    if (be->device_open(DEVICE_FIRST, 0, &device, &err)) fail_msg("%s", err.text);
    if (be->stream_open(device, PRECISION_FP32, &stream, &err)) fail_msg("%s", err.text);
    if (be->mem_alloc(device, 65536, &memory, &err)) fail_msg("%s", err.text);
    struct profiler_options options = {be, device, 1, 0, 10, 10, NULL, 0};
    long events = sim_events();
    if (profiler_open(&options, &profiler, &err)) fail_msg("%s", err.text);
    assert_int_equal(sim_events(), events + 11);

    profiler_begin(profiler, 3, stream, NULL, false);
    profiler_mark(profiler, PHASE_FORWARD, 0, "three pages", 12288, 0);
    be->mem_zero(memory, 12288, stream);
    profiler_mark(profiler, PHASE_FORWARD, 0, "nothing", 0, 0);
    profiler_mark(profiler, PHASE_FORWARD, 1, "three pages", 12288, 0);
    be->mem_zero(memory, 12288, stream);
    profiler_mark(profiler, PHASE_BACKWARD, 1, "a page and a byte", 4097, 0);
    be->mem_copy((char *)memory + 8192, memory, 4097, stream);
    profiler_end(profiler);
    be->mem_zero(memory, 4096, stream);

    const struct profile_record *rows = profiler_collect(profiler, 3, 20, &count);
    assert_int_equal(count, 5);
    static const double want[] = {3, 0, 3, 2, 12};
    for (int i = 0; i < 5; i++)
        if (fabs(rows[i].time_us - want[i]) > 1e-3) fail_msg("%s: %g us", rows[i].op, rows[i].time_us);
    profiler_close(profiler);
    assert_int_equal(sim_events(), events);
    be->mem_free(device, memory);
    be->stream_close(stream);
    be->device_close(device);
}

static void train(struct session *s, const char *name, const char *const *words)
{
    session_open(s, name, cuda_plugin.table, words, 900);
    session_start(s, false);
    assert_int_equal(session_run(s), TRAIN_FINISHED);
}

static const struct profile_record *find(const struct story *story, const char *phase, int layer,
                                         const char *op)
{
    for (int i = 0; i < story->profile_count; i++) {
        const struct profile_record *r = &story->profile[i];
        if (strcmp(r->phase, phase) == 0 && r->layer == layer && strcmp(r->op, op) == 0) return r;
    }
    fail_msg("no row for %s, layer %d, %s", phase, layer, op);
    return NULL;
}

/* The rows of one step, in device time. What is unattributed is time of the host. */
TEST_CASE(a_profiled_step_takes_the_times_of_its_launches)
{
    struct session a, b;
    const char *const *words = WORDS("train.total_steps=2", "profile.every=1", "profile.warmup_steps=1",
                                     "train.accumulation_steps=2", "checkpoint.activation_interval=1");
    train(&a, "a", words);
    train(&b, "b", words);
    assert_int_equal(a.story.profile_count, b.story.profile_count);
    for (int i = 0; i + 1 < a.story.profile_count; i++) {
        assert_true(a.story.profile[i].step == 1);
        if (fabs(a.story.profile[i].time_us - b.story.profile[i].time_us) > 1e-3)
            fail_msg("%s: %g us, then %g", a.story.profile[i].op, a.story.profile[i].time_us,
                     b.story.profile[i].time_us);
    }
    /* 32 tokens of 4 bytes and 32 rows of 64: each a started page; 2 micro-batches */
    assert_true(fabs(find(&a.story, "data", -1, "batch")->time_us - 4) < 1e-3); /* and the step's control */
    assert_true(fabs(find(&a.story, "backward", -1, "zero dx")->time_us - 2) < 1e-3);
    assert_true(find(&a.story, "recompute", 1, "attention")->time_us ==
                find(&a.story, "forward", 1, "attention")->time_us);
    assert_true(find(&a.story, "forward", 1, "attention")->time_us > 0);
    session_close(&a);
    session_close(&b);
}

TEST_CASE(training_is_the_same_to_the_bit_with_and_without)
{
    struct session with, without;
    train(&with, "with", WORDS("train.total_steps=3", "profile.every=1", "profile.warmup_steps=0"));
    train(&without, "without", WORDS("train.total_steps=3", "profile.every=0"));
    assert_true(with.story.profile_count > 0 && without.story.profile_count == 0);
    for (int i = 0; i < 3; i++) {
        assert_memory_equal(&with.story.steps[i].loss, &without.story.steps[i].loss, sizeof(double));
        assert_memory_equal(&with.story.steps[i].grad_norm, &without.story.steps[i].grad_norm,
                            sizeof(double));
    }
    session_close(&with);
    session_close(&without);
}

/* A step ends only when the host waits for it, so each is still running when the next one begins. */
TEST_CASE(on_a_late_device_each_step_that_is_due_is_profiled)
{
    struct session s;
    for (int every = 1; every <= 2; every++) {
        char name[16], word[24];
        snprintf(name, sizeof name, "late-%d", every);
        snprintf(word, sizeof word, "profile.every=%d", every);
        sim_set_late(true);
        train(&s, name, WORDS("train.total_steps=6", "profile.warmup_steps=1", word));
        sim_set_late(false);
        for (int64_t step = 0; step < 6; step++) {
            int rows = 0;
            for (int i = 0; i < s.story.profile_count; i++) rows += s.story.profile[i].step == step;
            bool due = step >= 1 && (step - 1) % every == 0;
            if (due != (rows > 0)) fail_msg("every %d: step %d has %d rows", every, (int)step, rows);
        }
        session_close(&s);
    }
}

/* A device that fails in a profiled step ends training as in any other step, and leaks no event. */
TEST_CASE(a_fault_in_a_profiled_step_leaves_no_rows)
{
    struct session s;
    struct err err = {0};
    enum train_outcome outcome;
    session_open(&s, "fault", cuda_plugin.table,
                 WORDS("train.total_steps=3", "profile.every=1", "profile.warmup_steps=0"), 900);
    session_start(&s, false);
    sim_set_fault("fault_at:1:squares_clip");
    assert_int_equal(trainer_run(s.trainer, &outcome, &err), STATUS_DEVICE);
    assert_int_equal(s.story.step_count, 0);
    assert_int_equal(s.story.profile_count, 0);
    session_close(&s);
    sim_set_machine(SIM_MACHINE_GOOD);
}

TEST_MAIN()
