/* The real trainer on the simulated device: the network of core/ and its ten steps, against the CPU's. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cuda_plugin.h"
#include "tests/core/story.h"
#include "tests/cuda_sim/simulator.h"

extern const struct cuda_plugin cuda_plugin;

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Ten steps carry the rounding of fp32 sums (1e-5 an operation, numerics.md) into the weights; where a
 * gradient is near zero AdamW's and Lion's step is of the size of the rate whatever its sign, so a few
 * weights part by that much at once. Measured: at most 1.1e-7 with these sizes. */
static const double LOSS_TOLERANCE = 2e-5;

static void train(struct session *s, const char *name, const struct backend *backend,
                  const char *const *words, bool resume)
{
    session_open(s, name, backend, words, 900);
    session_start(s, resume);
    assert_int_equal(session_run(s), TRAIN_FINISHED);
}

static void expect_within(double tolerance, const char *what, double got, double want)
{
    if (!(fabs(got - want) <= tolerance * fabs(want)))
        fail_msg("%s: %.9g on the simulator, %.9g on the CPU", what, got, want);
}

static void expect_near(const char *what, double got, double want)
{
    expect_within(LOSS_TOLERANCE, what, got, want);
}

static void expect_same_curve(const char *const *words)
{
    struct session cpu, cuda;
    train(&cpu, "cpu", NULL, words, false);
    train(&cuda, "cuda", cuda_plugin.table, words, false);
    assert_int_equal(cpu.story.step_count, 10);
    assert_int_equal(cuda.story.step_count, 10);
    for (int i = 0; i < 10; i++) {
        expect_near("loss", cuda.story.steps[i].loss, cpu.story.steps[i].loss);
        expect_near("gradient norm", cuda.story.steps[i].grad_norm, cpu.story.steps[i].grad_norm);
    }
    assert_true(cuda.story.eval_count > 0 && cuda.story.eval_count == cpu.story.eval_count);
    expect_near("validation", cuda.story.evals[0].val_loss, cpu.story.evals[0].val_loss);
    assert_true(cuda.story.steps[9].loss < cuda.story.steps[0].loss);
    session_close(&cpu), session_close(&cuda);
}

static void llama_with_adamw_learns_as_on_the_cpu(void **state)
{
    (void)state;
    expect_same_curve(WORDS("train.total_steps=10", "train.optimizer=adamw"));
}

static void qwen_with_lion_and_everything_learns_as_on_the_cpu(void **state)
{
    (void)state;
    expect_same_curve(WORDS("train.total_steps=10", "train.optimizer=lion", "train.learning_rate=0.003",
                            "model.qk_norm=true", "model.qkv_bias=true", "model.tie_weights=true",
                            "train.dropout=0.2", "train.accumulation_steps=2", "train.seq_len=17"));
}

/* Elements of 8 bits of mantissa, sums and master weights in fp32: a loss is off by far less than the 2^-9 to
 * which each element is rounded, as it is a mean over many; ten small updates do not get lost. Measured: at
 * most 2.7e-4. */
static void in_bf16_it_learns_almost_as_on_the_cpu(void **state)
{
    (void)state;
    struct session cpu, cuda;
    train(&cpu, "cpu", NULL, WORDS("train.total_steps=10"), false);
    train(&cuda, "bf16", cuda_plugin.table, WORDS("train.total_steps=10", "train.precision=auto"), false);
    double largest = 0;
    for (int i = 0; i < 10; i++) {
        double got = cuda.story.steps[i].loss, want = cpu.story.steps[i].loss;
        expect_within(2e-3, "loss", got, want);
        largest = fmax(largest, fabs(got - want) / want);
    }
    assert_true(largest > 1e-6); /* or it was fp32 */
    assert_true(cuda.story.steps[9].loss < cuda.story.steps[0].loss);
    session_close(&cpu), session_close(&cuda);
}

/* Threads in another order, and once more in the same: not one bit of the curve may differ. */
static void two_runs_are_the_same_bits(void **state)
{
    (void)state;
    struct session a, b;
    const char *const *words = WORDS("train.total_steps=5", "train.dropout=0.1");
    train(&a, "a", cuda_plugin.table, words, false);
    sim_set_order(SIM_SHUFFLED, 7);
    train(&b, "b", cuda_plugin.table, words, false);
    sim_set_order(SIM_FORWARD, 0);
    for (int i = 0; i < 5; i++) {
        assert_memory_equal(&a.story.steps[i].loss, &b.story.steps[i].loss, sizeof(double));
        assert_memory_equal(&a.story.steps[i].grad_norm, &b.story.steps[i].grad_norm, sizeof(double));
    }
    session_close(&a), session_close(&b);
}

static void expect_same_bits(const struct session *a, const struct session *b, const char *what)
{
    assert_int_equal(a->story.step_count, b->story.step_count);
    for (int i = 0; i < a->story.step_count; i++) {
        const struct step_record *x = &a->story.steps[i], *y = &b->story.steps[i];
        if (memcmp(&x->loss, &y->loss, sizeof x->loss) != 0 ||
            memcmp(&x->grad_norm, &y->grad_norm, sizeof x->grad_norm) != 0)
            fail_msg("%s: step %d: loss %.17g instead of %.17g", what, i, y->loss, x->loss);
    }
    assert_int_equal(a->story.eval_count, b->story.eval_count);
    for (int i = 0; i < a->story.eval_count; i++)
        assert_memory_equal(&a->story.evals[i].val_loss, &b->story.evals[i].val_loss, sizeof(double));
    assert_string_equal(a->story.last_sample, b->story.last_sample);
}

#define TEN(...)                                                                                             \
    WORDS("train.total_steps=10", "model.num_layers=1", "train.dropout=0.2", "train.accumulation_steps=2",   \
          "eval.every=4", "eval.batches=2", "sample.every=5", "sample.max_tokens=2", "checkpoint.every=5",   \
          "profile.every=0", __VA_ARGS__)

/* Streams at once and as late as they may be, one step after the other or two under way, call by call or as
 * graphs, on either device: not one bit of the curve, of an evaluation or of a sample may differ. */
static void however_steps_are_queued_the_bits_are_the_same(void **state)
{
    (void)state;
    static const struct {
        const char *async, *graph;
        bool late;
    } ways[] = {
        {"train.async=false", "train.graph=on", false}, {"train.async=true", "train.graph=off", false},
        {"train.async=true", "train.graph=on", true},   {"train.async=true", "train.graph=off", true},
        {"train.async=false", "train.graph=on", true},  {"train.async=true", "train.graph=auto", true},
    };
    for (int device = 0; device < 2; device++) {
        const struct backend *backend = device ? cuda_plugin.table : NULL;
        struct session plain;
        train(&plain, "plain", backend, TEN("train.async=false", "train.graph=off"), false);
        assert_int_equal(plain.story.step_count, 10);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            struct session other;
            uint64_t before = sim_graph_launches();
            char name[96];
            sim_set_late(ways[i].late);
            snprintf(name, sizeof name, "%s, %s, %s, %s", device ? "cuda" : "cpu", ways[i].async,
                     ways[i].graph, ways[i].late ? "late" : "at once");
            train(&other, "other", backend, TEN(ways[i].async, ways[i].graph), false);
            sim_set_late(false);
            expect_same_bits(&plain, &other, name);
            /* the first step goes call by call, the nine after it as two passes and an update */
            if (device && !strstr(ways[i].graph, "auto"))
                assert_int_equal(sim_graph_launches() - before, strstr(ways[i].graph, "on") ? 9 * 3 : 0);
            session_close(&other);
        }
        session_close(&plain);
    }
    assert_int_equal(sim_graphs(), 0);
    assert_int_equal(sim_events(), 0);
}

static void forget_to_wait(struct stream *stream, struct event *event)
{
    (void)stream;
    (void)event;
}

/* That the test above can fail: the trainer on a device whose streams do not wait for each other. */
static void without_its_waits_between_streams_the_curve_is_another(void **state)
{
    (void)state;
    struct backend careless = *cuda_plugin.table;
    careless.stream_after = forget_to_wait;
    struct session right, wrong;
    train(&right, "right", cuda_plugin.table, WORDS("train.total_steps=4"), false);
    sim_set_late(true);
    train(&wrong, "wrong", &careless, WORDS("train.total_steps=4"), false);
    sim_set_late(false);
    assert_true(right.story.steps[3].loss != wrong.story.steps[3].loss);
    session_close(&right), session_close(&wrong);
}

static double pretended_milliseconds;

static double pretend_elapsed(struct event *from, struct event *to)
{
    (void)from;
    (void)to;
    return pretended_milliseconds;
}

static uint64_t graphs_launched(double milliseconds)
{
    struct session s;
    struct backend pretending = *cuda_plugin.table;
    uint64_t before = sim_graph_launches();
    pretending.event_elapsed = pretend_elapsed;
    pretended_milliseconds = milliseconds;
    train(&s, "auto", &pretending,
          WORDS("train.total_steps=7", "train.graph=auto", "model.num_layers=1", "profile.every=0"), false);
    session_close(&s);
    return sim_graph_launches() - before;
}

/* The first step warms up, three are measured, and the three after them are graphs, of a pass and an update
 * each, where the host is what a step waits for. */
static void graphs_are_for_devices_that_are_faster_than_the_host(void **state)
{
    (void)state;
    assert_int_equal(graphs_launched(1e-6), 3 * 2);
    assert_int_equal(graphs_launched(1e9), 0);
}

/* Counts what the trainer asks of a device: updates queued, and calls that wait for it. */
static struct {
    const struct backend *table;
    int updates, waits, waits_at_first, waits_at_last, ahead[10];
    uint64_t mallocs_at_first, mallocs_at_last;
} asked;

static void count_update(float *w, void *weights, float *m, float *v, const float *g, size_t n,
                         const struct update_range *ranges, int range_count, struct adamw_params params,
                         struct step_control *control, const struct clip_state *clip, struct stream *stream)
{
    asked.updates++;
    asked.table->adamw_step(w, weights, m, v, g, n, ranges, range_count, params, control, clip, stream);
}

static void count_download(void *host, const void *memory, size_t bytes, struct stream *stream)
{
    asked.waits++;
    asked.table->mem_download(host, memory, bytes, stream);
}

static enum status count_wait(struct stream *stream, struct err *err)
{
    asked.waits++;
    return asked.table->stream_wait(stream, err);
}

static void note_step(struct story *story)
{
    asked.ahead[story->done - 1] = asked.updates - (int)story->done;
    if (story->done == 1) asked.waits_at_first = asked.waits, asked.mallocs_at_first = sim_mallocs();
    if (story->done == 10) asked.waits_at_last = asked.waits, asked.mallocs_at_last = sim_mallocs();
}

static void expect_ahead(const char *async, int ahead)
{
    struct session s;
    struct backend counting = *cuda_plugin.table;
    counting.adamw_step = count_update;
    counting.mem_download = count_download;
    counting.stream_wait = count_wait;
    memset(&asked, 0, sizeof asked);
    asked.table = cuda_plugin.table;
    sim_set_late(true);
    session_open(&s, "ahead", &counting, WORDS("train.total_steps=10", "train.graph=off", async), 900);
    s.story.on_step = note_step;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    sim_set_late(false);
    for (int i = 0; i < 9; i++) assert_int_equal(asked.ahead[i], ahead);
    assert_int_equal(asked.ahead[9], 0); /* there is no eleventh */
    assert_int_equal(asked.waits_at_last - asked.waits_at_first, 0);
    assert_int_equal(asked.mallocs_at_last - asked.mallocs_at_first, 0);
    session_close(&s);
}

/* When a step is told, the next one is queued; nothing waits for the device but the look at one event, and
 * nothing asks it for memory. */
static void a_step_is_queued_before_the_one_before_it_is_told(void **state)
{
    (void)state;
    expect_ahead("train.async=true", 1);
    expect_ahead("train.async=false", 0);
}

/* ---- skipped updates: a table whose loss gradient is not finite in chosen steps ---- */

static struct {
    int calls, from, until; /* of cross_entropy_fused, one a step here */
} poison;

static void poisoned_cross_entropy(float *losses, void *logits, const int32_t *targets,
                                   const struct step_control *control, int N, int V, struct stream *stream)
{
    static const float bad = NAN;
    cuda_plugin.table->cross_entropy_fused(losses, logits, targets, control, N, V, stream);
    if (poison.calls >= poison.from && poison.calls < poison.until)
        cuda_plugin.table->mem_upload(logits, &bad, sizeof bad, stream);
    poison.calls++;
}

static enum train_outcome train_poisoned(struct session *s, bool late, int from, int until,
                                         const char *const *words)
{
    struct backend poisoned = *cuda_plugin.table;
    poisoned.cross_entropy_fused = poisoned_cross_entropy;
    poison.calls = 0, poison.from = from, poison.until = until;
    sim_set_late(late);
    session_open(s, late ? "late" : "at-once", &poisoned, words, 900);
    session_start(s, false);
    enum train_outcome outcome = session_run(s);
    sim_set_late(false);
    return outcome;
}

/* The step after a skipped one is queued before the host knows: AdamW's corrections are the device's. */
static void a_skipped_update_is_the_same_however_late_it_is_seen(void **state)
{
    (void)state;
    struct session a, b;
    train_poisoned(&a, false, 3, 5, WORDS("train.total_steps=10", "train.graph=off", "train.async=false"));
    train_poisoned(&b, true, 3, 5, WORDS("train.total_steps=10", "train.graph=off", "train.async=true"));
    assert_int_equal(a.story.steps[3].clip_scale, 0);
    assert_int_equal(a.story.event_count, 1); /* one incident of two steps */
    assert_int_equal(b.story.event_count, 1);
    expect_same_bits(&a, &b, "skipped");
    session_close(&a), session_close(&b);
}

static void the_hundredth_skipped_update_in_a_row_is_the_last_step(void **state)
{
    (void)state;
    struct session s;
    assert_int_equal(train_poisoned(&s, true, 4, 1000,
                                    WORDS("train.total_steps=400", "model.num_layers=1", "train.graph=off")),
                     TRAIN_DIVERGED);
    assert_int_equal(s.story.step_count, 104);
    assert_int_equal(s.story.event_count, 1);
    assert_int_equal(poison.calls, 104); /* nor was another one queued */
    session_close(&s);
}

/* Six steps here, six more there, against twelve on the CPU. */
static void expect_resume_across(const struct backend *first, const struct backend *second)
{
    struct session whole, part;
    const char *const *words = WORDS("train.total_steps=12");
    train(&whole, "whole", NULL, words, false);
    session_open(&part, "across", first, words, 900);
    part.story.leave_at = 6;
    session_start(&part, false);
    assert_int_equal(session_run(&part), TRAIN_STOPPED);
    part.backend->device_close(part.device);
    struct err err;
    part.backend = second ? second : cpu_backend();
    part.story.leave_at = 0;
    part.story.step_count = 0;
    assert_int_equal(part.backend->device_open(1, &part.device, &err), STATUS_OK);
    session_start(&part, true);
    assert_int_equal(session_run(&part), TRAIN_FINISHED);
    assert_int_equal(part.story.step_count, 6);
    for (int i = 0; i < 6; i++) expect_near("loss", part.story.steps[i].loss, whole.story.steps[6 + i].loss);
    session_close(&whole), session_close(&part);
}

static void a_checkpoint_of_one_device_resumes_on_the_other(void **state)
{
    (void)state;
    expect_resume_across(cuda_plugin.table, cpu_backend());
    expect_resume_across(cpu_backend(), cuda_plugin.table);
}

static void a_kernel_fault_ends_the_run_with_a_sentence(void **state)
{
    (void)state;
    struct session s;
    struct err err = {0};
    enum train_outcome outcome;
    session_open(&s, "fault", cuda_plugin.table, WORDS("train.total_steps=5"), 900);
    session_start(&s, false);
    sim_set_machine(SIM_MACHINE_LAUNCH_FAULT);
    assert_int_equal(trainer_run(s.trainer, &outcome, &err), STATUS_DEVICE);
    assert_non_null(strstr(err.text, "unspecified launch failure"));
    assert_int_equal(s.story.step_count, 0); /* no step that did not happen */
    session_close(&s);                       /* calls nothing any more, or the simulator would say so */
    sim_set_machine(SIM_MACHINE_GOOD);
}

static void a_full_device_is_refused_with_the_numbers(void **state)
{
    (void)state;
    struct session s;
    struct err err = {0};
    session_open(&s, "full", cuda_plugin.table, NULL, 900);
    sim_set_machine(SIM_MACHINE_FULL);
    assert_int_equal(session_try(&s, &err), STATUS_NO_MEMORY);
    assert_non_null(strstr(err.text, "MiB"));
    sim_set_machine(SIM_MACHINE_GOOD);
    session_close(&s);
    assert_int_equal(sim_device_bytes(), 0); /* nothing is left behind by any of these tests */
}

/* What keeps the simulator from training the larger presets is only its time and memory; that nothing in them
 * is too wide for the kernels, and how much memory a GPU needs, is known from the plan. */
static void every_preset_is_within_what_the_kernels_take(void **state)
{
    (void)state;
    static const char *const presets[] = {"shakespeare", "tiny", "small", "medium"};
    struct err err = {0};
    struct device *device;
    struct device_info info;
    assert_int_equal(cuda_plugin.table->device_open(0, &device, &err), STATUS_OK);
    cuda_plugin.table->device_describe(device, &info);
    cuda_plugin.table->device_close(device);
    assert_int_equal(info.max_head_dim, 256);
    for (int i = 0; i < 4; i++)
        for (int precision = 0; precision < PRECISIONS; precision++) {
            struct config config;
            struct model model = {0};
            struct plan plan;
            char word[64];
            config_init(&config);
            snprintf(word, sizeof word, "model.preset=%s", presets[i]);
            assert_int_equal(config_read_word(&config, word, &err), STATUS_OK);
            assert_int_equal(config_finish(&config, &err), STATUS_OK);
            const struct model_config *c = &config.model.sizes;
            assert_int_equal(model_init(&model, c, &err), STATUS_OK);
            struct plan_input input = {.model = &model,
                                       .B = (int)config.train.batch_size,
                                       .T = c->max_seq_len,
                                       .moments = 2,
                                       .precision = (enum precision)precision};
            assert_int_equal(plan_init(&plan, &input, &err), STATUS_OK);
            assert_in_range(c->head_dim, 32, info.max_head_dim);
            /* rows of 16 bytes in bf16: vector loads, and what tensor cores ask of a product */
            assert_int_equal(c->head_dim % 16, 0);
            assert_int_equal(c->hidden_dim % 8, 0);
            assert_int_equal(c->intermediate_dim % 8, 0);
            assert_int_equal(c->vocab_size % 8, 0);
            assert_true(plan.total_bytes < (size_t)80 << 30);
            plan_release(&plan);
            model_release(&model);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_with_adamw_learns_as_on_the_cpu),
        cmocka_unit_test(qwen_with_lion_and_everything_learns_as_on_the_cpu),
        cmocka_unit_test(in_bf16_it_learns_almost_as_on_the_cpu),
        cmocka_unit_test(two_runs_are_the_same_bits),
        cmocka_unit_test(however_steps_are_queued_the_bits_are_the_same),
        cmocka_unit_test(without_its_waits_between_streams_the_curve_is_another),
        cmocka_unit_test(graphs_are_for_devices_that_are_faster_than_the_host),
        cmocka_unit_test(a_step_is_queued_before_the_one_before_it_is_told),
        cmocka_unit_test(a_skipped_update_is_the_same_however_late_it_is_seen),
        cmocka_unit_test(the_hundredth_skipped_update_in_a_row_is_the_last_step),
        cmocka_unit_test(a_checkpoint_of_one_device_resumes_on_the_other),
        cmocka_unit_test(a_kernel_fault_ends_the_run_with_a_sentence),
        cmocka_unit_test(a_full_device_is_refused_with_the_numbers),
        cmocka_unit_test(every_preset_is_within_what_the_kernels_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
