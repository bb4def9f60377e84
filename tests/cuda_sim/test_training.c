/* The real trainer on the simulated device: the network of core/ and its ten steps, against the CPU's. */
#include <math.h>

#include "core/base/file.h"
#include "kernels/device/cuda_plugin.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"
#include "tests/core/train/story.h"
#include "tests/cuda_sim/simulator.h"

extern const struct cuda_plugin cuda_plugin;

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Ten steps carry the rounding of fp32 sums (1e-5 an operation, numerics.md) into the weights; where a
 * gradient is near zero AdamW's and Lion's step is of the size of the rate whatever its sign, so a few
 * weights differ by that much at once. Measured: at most 1.1e-7 with these sizes. */
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
    assert_true(cuda.story.measures.count > 0 && cuda.story.measures.count == cpu.story.measures.count);
    for (int i = 0; i < cpu.story.measures.count; i++)
        expect_near("measure", cuda.story.measures.of[i].value, cpu.story.measures.of[i].value);
    assert_true(cuda.story.steps[9].loss < cuda.story.steps[0].loss);
    session_close(&cpu), session_close(&cuda);
}

TEST_CASE(llama_with_adamw_learns_as_on_the_cpu)
{
    expect_same_curve(WORDS("train.total_steps=10", "train.optimizer=adamw"));
}

/* A code that rounding makes another one moves the weights by less than what expect_near allows. */
TEST_CASE(llama_with_moments_in_8_bits_learns_as_on_the_cpu)
{
    expect_same_curve(WORDS("train.total_steps=10", "train.moments=8bit"));
}

TEST_CASE(qwen_with_lion_and_everything_learns_as_on_the_cpu)
{
    expect_same_curve(WORDS("train.total_steps=10", "train.optimizer=lion", "train.learning_rate=0.003",
                            "model.qk_norm=true", "model.qkv_bias=true", "model.tie_weights=true",
                            "train.dropout=0.2", "train.accumulation_steps=2", "train.seq_len=17",
                            "model.vocab_size=269"));
}

TEST_CASE(qwen_with_muon_and_averaged_weights_learns_as_on_the_cpu)
{
    expect_same_curve(WORDS("train.total_steps=10", "train.optimizer=muon", "train.ema_decay=0.9",
                            "eval.metric=val_loss_ema", "train.z_loss=0.01", "model.qk_norm=true",
                            "model.zero_outputs=true"));
}

TEST_CASE(packed_documents_are_learned_as_on_the_cpu)
{
    expect_same_curve(WORDS("train.total_steps=10", "train.seq_len=29", "data.documents=packed",
                            "data.end_token=46", "train.dropout=0.2"));
}

/* Elements have 8 bits of mantissa, sums and master weights are fp32. The error of a loss is far below the
 * rounding of an element, 2^-9, as it is a mean over many; ten small updates are not lost. Measured: at most
 * 2.7e-4. */
TEST_CASE(in_bf16_it_learns_almost_as_on_the_cpu)
{
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

/* Ten steps of adapters beside the model that ten steps have made; in fp32 and in bf16. */
TEST_CASE(adapters_learn_as_on_the_cpu)
{
    struct session base;
    char from[4200];
    train(&base, "base", NULL, WORDS("train.total_steps=10"), false);
    snprintf(from, sizeof from, "model.from=%s/step-10", base.folder);
    for (int narrow = 0; narrow < 2; narrow++) {
        struct session cpu, cuda;
        const char *keys[] = {from,
                              "lora.rank=4",
                              "lora.targets=all",
                              "lora.dropout=0.2",
                              "lora.train_norms=true",
                              "train.total_steps=10",
                              "train.warmup_steps=0",
                              NULL,
                              NULL};
        train(&cpu, "cpu", NULL, keys, false);
        if (narrow) keys[7] = "train.precision=auto";
        train(&cuda, "cuda", cuda_plugin.table, keys, false);
        double largest = 0;
        for (int i = 0; i < 10; i++) {
            double got = cuda.story.steps[i].loss, want = cpu.story.steps[i].loss;
            expect_within(narrow ? 3e-3 : LOSS_TOLERANCE, "loss", got, want);
            largest = fmax(largest, fabs(got - want) / want);
        }
        assert_true((largest > 1e-6) == (narrow == 1)); /* or it was fp32 */
        assert_true(cuda.story.steps[9].loss < cuda.story.steps[0].loss);
        session_close(&cpu), session_close(&cuda);
    }
    session_close(&base);
}

/* The questions pass through the cache between steps, whose losses stay what they are. */
TEST_CASE(questions_are_answered_as_on_the_cpu_and_leave_training_as_it_is)
{
    static const char text[] =
        "{\"context\": \"to be\", \"choices\": [\", or\", \" a quite different end\", \" x\"], \"answer\": "
        "0}\n"
        "{\"context\": \"that is\", \"choices\": [\" zzz\", \" the question\"], \"answer\": 1}\n"
        "{\"context\": \"to be\", \"choices\": [\"##\", \" to\", \"be\"], \"answer\": 2}\n";
    struct session cpu, cuda, without;
    struct err err = {0};
    char *path = rig_path("quiz.jsonl"), key[4200];
    if (file_write_atomic(path, text, sizeof text - 1, &err)) fail_msg("%s", err.text);
    snprintf(key, sizeof key, "eval.tasks=%s", path);
    const char *const *words = WORDS("train.total_steps=10", "eval.every=3", "sample.every=4", key);
    train(&cpu, "cpu", NULL, words, false);
    train(&cuda, "cuda", cuda_plugin.table, words, false);
    train(&without, "without", cuda_plugin.table,
          WORDS("train.total_steps=10", "eval.every=3", "sample.every=4"), false);
    assert_int_equal(cuda.story.measures.count, 4);
    for (int i = 2; i < 4; i++)
        assert_true(cuda.story.measures.of[i].value == cpu.story.measures.of[i].value);
    assert_in_range(cuda.story.measures.of[2].value * 30, 1, 29); /* neither all nor none */
    story_expect_same(&without.story, &cuda.story, "with questions");
    session_close(&cpu), session_close(&cuda), session_close(&without);
    free(path);
}

/* The projections have the same values on both devices; embedding and head are bf16 on the CPU and in a bf16
 * stream, fp32 in one of fp32. */
TEST_CASE(adapters_beside_nf4_learn_almost_as_on_the_cpu)
{
    static const char *const precisions[] = {"train.precision=fp32", "train.precision=bf16"};
    struct session base, cpu, cuda;
    char from[4200];
    train(&base, "base", NULL, WORDS("train.total_steps=1"), false);
    snprintf(from, sizeof from, "model.from=%s/step-1", base.folder);
    session_close(&base);
#define BESIDE_NF4 from, "lora.rank=4", "lora.targets=all", "lora.base=nf4", "train.total_steps=10"
    train(&cpu, "cpu", NULL, WORDS(BESIDE_NF4), false);
    for (int i = 0; i < 2; i++) {
        train(&cuda, "cuda", cuda_plugin.table, WORDS(BESIDE_NF4, precisions[i]), false);
        for (int k = 0; k < 10; k++)
            expect_within(2e-3, "loss", cuda.story.steps[k].loss, cpu.story.steps[k].loss);
        assert_true(cuda.story.steps[9].loss < cuda.story.steps[0].loss);
        session_close(&cuda);
    }
    session_close(&cpu);
}

/* Runs threads in another order, then again in the same: not one bit of the curve may differ. */
/* ---- warming up ---- */

static struct {
    struct gemm_shape shapes[1024]; /* that were warmed */
    int count, uploads, calls;
} warmed;

static enum status watched_warm(struct stream *stream, const struct warm_work *work,
                                const struct warm_watch *watch, struct err *err)
{
    assert_int_equal(warmed.uploads, 0);
    assert_true(work->product_count > 0 && work->product_count <= 1024);
    memcpy(warmed.shapes, work->products, (size_t)work->product_count * sizeof *work->products);
    warmed.count = work->product_count;
    return cuda_plugin.table->warm(stream, work, watch, err);
}

static void watched_upload(void *to, const void *from, size_t bytes, struct stream *stream)
{
    warmed.uploads++;
    cuda_plugin.table->mem_upload(to, from, bytes, stream);
}

static void watched_gemm(struct matrix out, struct matrix a, struct matrix b, int M, int N, int K,
                         bool transpose_a, bool transpose_b, bool accumulate, float factor,
                         struct stream *stream)
{
    struct gemm_shape shape = {M,
                               N,
                               K,
                               transpose_a,
                               transpose_b,
                               accumulate,
                               {out.element, out.stride},
                               {a.element, a.stride},
                               {b.element, b.stride}};
    int i = 0;
    while (i < warmed.count && !gemm_shape_same(&shape, &warmed.shapes[i])) i++;
    if (i == warmed.count) fail_msg("a product of %d x %d x %d was not warmed up", M, N, K);
    warmed.calls++;
    cuda_plugin.table->gemm(out, a, b, M, N, K, transpose_a, transpose_b, accumulate, factor, stream);
}

/* Of steps, and of evaluations of whole batches. A prompt may have any length. */
TEST_CASE(every_product_is_warmed_up_before_a_weight_is_uploaded)
{
    static const char *const bases[] = {"lora.base=fp32", "lora.base=nf4"};
    static struct backend watched;
    struct session base, s;
    char from[4200];
    watched = *cuda_plugin.table;
    watched.warm = watched_warm;
    watched.mem_upload = watched_upload;
    watched.gemm = watched_gemm;
    train(&base, "base", NULL, WORDS("train.total_steps=1"), false);
    snprintf(from, sizeof from, "model.from=%s/step-1", base.folder);
    for (int i = 0; i < 3; i++) { /* all parameters, then adapters */
        const char *const plain[] = {"train.total_steps=2", "eval.every=1", "eval.batches=1", NULL};
        const char *const tuned[] = {
            plain[0], plain[1], plain[2], from, "lora.rank=4", "lora.targets=all", bases[i ? i - 1 : 0],
            NULL};
        warmed.count = warmed.uploads = warmed.calls = 0;
        train(&s, "watched", &watched, i ? tuned : plain, false);
        assert_true(warmed.uploads > 0 && warmed.calls > 0);
        session_close(&s);
    }
    session_close(&base);
}

TEST_CASE(two_runs_are_the_same_bits)
{
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

/* ---- skipped updates: a table whose loss gradient is not finite in chosen steps ---- */

static struct {
    int calls, from, until; /* of cross_entropy_fused, one a step here */
} poison;

static void poisoned_cross_entropy(float *losses, struct matrix logits, const int32_t *targets,
                                   const struct step_control *control, int N, int V, struct stream *stream)
{
    static const float bad = NAN;
    cuda_plugin.table->cross_entropy_fused(losses, logits, targets, control, N, V, stream);
    if (poison.calls >= poison.from && poison.calls < poison.until)
        cuda_plugin.table->mem_upload(logits.at, &bad, sizeof bad, stream);
    poison.calls++;
}

static enum train_outcome train_poisoned(struct session *s, bool late, int from, int until,
                                         const char *const *words)
{
    static struct backend poisoned; /* the session closes its device with it */
    poisoned = *cuda_plugin.table;
    poisoned.cross_entropy_fused = poisoned_cross_entropy;
    poison.calls = 0, poison.from = from, poison.until = until;
    sim_set_late(late);
    session_open(s, late ? "late" : "at-once", &poisoned, words, 900);
    session_start(s, false);
    enum train_outcome outcome = session_run(s);
    sim_set_late(false);
    return outcome;
}

/* The step after a skipped one is queued before the host can know, so the device computes AdamW's
 * corrections. */
TEST_CASE(a_skipped_update_is_the_same_however_late_it_is_seen)
{
    struct session a, b;
    train_poisoned(&a, false, 3, 5, WORDS("train.total_steps=10", "train.graph=off", "train.async=false"));
    train_poisoned(&b, true, 3, 5, WORDS("train.total_steps=10", "train.graph=off", "train.async=true"));
    assert_int_equal(a.story.steps[3].clip_scale, 0);
    assert_int_equal(a.story.event_count, 1); /* one incident of two steps */
    assert_int_equal(b.story.event_count, 1);
    story_expect_same(&a.story, &b.story, "skipped");
    session_close(&a), session_close(&b);
}

/* The device itself finds that the loss is above the limit; the step after it is queued by then, and is
 * dropped where the run goes back. */
TEST_CASE(trouble_is_the_same_however_late_it_is_seen)
{
    static const char *const actions[] = {"health.on_spike=skip", "health.on_spike=rollback"};
    for (int a = 0; a < 2; a++) {
        struct session s[3];
        for (int k = 0; k < 3; k++) {
            session_open(&s[k], "trouble", k ? cuda_plugin.table : NULL,
                         WORDS(actions[a], "train.total_steps=42", "model.num_layers=1", "data.shuffle=none",
                               "checkpoint.every=15", "train.graph=off",
                               k == 1 ? "train.async=false" : "train.async=true"),
                         2000);
            session_spoil(&s[k], 36);
            sim_set_late(k == 2);
            session_start(&s[k], false);
            assert_int_equal(session_run(&s[k]), TRAIN_FINISHED);
            sim_set_late(false);
            assert_int_equal(s[k].story.rollback_count, a);
            assert_int_equal(s[k].story.step_count, a ? 37 + 12 : 42);
            for (int i = 0; i < s[k].story.step_count; i++)
                assert_true((s[k].story.steps[i].clip_scale == 0) == (!a && i == 36));
        }
        story_expect_same(&s[1].story, &s[2].story, actions[a]);
        for (int i = 0; i < s[0].story.step_count; i++) {
            expect_within(1e-3, "loss", s[1].story.steps[i].loss, s[0].story.steps[i].loss);
            assert_int_equal(s[1].story.steps[i].step, s[0].story.steps[i].step);
        }
        for (int k = 0; k < 3; k++) session_close(&s[k]);
    }
}

TEST_CASE(the_hundredth_skipped_update_in_a_row_is_the_last_step)
{
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
    assert_int_equal(part.backend->device_open(DEVICE_FIRST, 1, &part.device, &err), STATUS_OK);
    session_start(&part, true);
    assert_int_equal(session_run(&part), TRAIN_FINISHED);
    assert_int_equal(part.story.step_count, 6);
    for (int i = 0; i < 6; i++) expect_near("loss", part.story.steps[i].loss, whole.story.steps[6 + i].loss);
    session_close(&whole), session_close(&part);
}

TEST_CASE(a_checkpoint_of_one_device_resumes_on_the_other)
{
    expect_resume_across(cuda_plugin.table, cpu_backend());
    expect_resume_across(cpu_backend(), cuda_plugin.table);
}

TEST_CASE(a_kernel_fault_ends_the_run_with_a_sentence)
{
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

TEST_CASE(a_full_device_is_refused_with_the_numbers)
{
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

/* The simulator is too slow and needs too much memory to train the larger presets. The plan shows that
 * nothing in them is too wide for the kernels, and how much memory a GPU needs. */
TEST_CASE(every_preset_is_within_what_the_kernels_take)
{
    struct err err = {0};
    struct device *device;
    struct device_info info;
    assert_int_equal(cuda_plugin.table->device_open(DEVICE_FIRST, 0, &device, &err), STATUS_OK);
    cuda_plugin.table->device_describe(device, &info);
    cuda_plugin.table->device_close(device);
    assert_int_equal(info.max_head_dim, 256);
    for (enum preset preset = 0; preset < PRESETS; preset++)
        for (int precision = 0; precision < PRECISIONS; precision++) {
            struct config config;
            struct model model = {0};
            struct plan plan;
            char word[64];
            config_init(&config);
            snprintf(word, sizeof word, "model.preset=%s", preset_word(preset));
            assert_int_equal(config_read_word(&config, word, &err), STATUS_OK);
            assert_int_equal(config_finish(&config, &err), STATUS_OK);
            const struct model_config *c = &config.model.sizes;
            assert_int_equal(model_init(&model, c, &err), STATUS_OK);
            struct plan_input input = {.model = &model,
                                       .B = (int)config.train.batch_size,
                                       .T = 1024,
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

TEST_MAIN()
