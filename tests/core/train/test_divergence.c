/* Divergence: non-finite gradients skip the update and are reported, a hundred in a row end the run, and the
 * weights and every checkpoint always stay finite. */
#include <math.h>

#include "core/base/file.h"
#include "core/model/safetensors.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"
#include "tests/core/train/story.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- divergence: a table whose loss gradient turns NaN in chosen steps ---- */

static struct {
    int64_t calls, from, until, spared; /* of cross_entropy_fused, one a step here */
} poison;

static void poisoned_cross_entropy(float *losses, struct matrix logits, const int32_t *targets,
                                   const struct step_control *control, int N, int V, struct stream *stream)
{
    cpu_backend()->cross_entropy_fused(losses, logits, targets, control, N, V, stream);
    if (poison.calls >= poison.from && poison.calls < poison.until && poison.calls != poison.spared)
        *(float *)logits.at = NAN;
    poison.calls++;
}

static struct backend poisoned_backend(int64_t from, int64_t until)
{
    struct backend backend = *cpu_backend();
    backend.cross_entropy_fused = poisoned_cross_entropy;
    poison.calls = 0;
    poison.from = from;
    poison.until = until;
    poison.spared = -1;
    return backend;
}

static void expect_finite_checkpoint(const char *folder)
{
    char path[4096], file[4200];
    struct safetensors tensors;
    struct err err = {0};
    static const char *const names[] = {"model.safetensors", "optimizer.safetensors"};
    if (checkpoint_find(folder, -1, path, sizeof path, &err)) fail_msg("%s", err.text);
    for (int k = 0; k < 2; k++) {
        snprintf(file, sizeof file, "%s/%s", path, names[k]);
        assert_int_equal(safetensors_open(file, &tensors, &err), STATUS_OK);
        for (size_t i = 0; i < tensors.count; i++)
            for (size_t j = 0; j < tensors.tensors[i].bytes / sizeof(float); j++)
                assert_true(isfinite(((const float *)tensors.tensors[i].data)[j]));
        safetensors_close(&tensors);
    }
}

TEST_CASE(a_non_finite_gradient_skips_the_update_and_says_so)
{
    struct backend backend = poisoned_backend(3, 5);
    struct session s;
    session_open(&s, "skip", &backend, WORDS("eval.every=1"), 900);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    for (int i = 0; i < 12; i++) {
        bool skipped = i == 3 || i == 4;
        assert_true((s.story.steps[i].clip_scale == 0) == skipped);
        assert_true(isfinite(s.story.steps[i].grad_norm) == !skipped);
        if (i) assert_true((s.story.evals[i].val_loss == s.story.evals[i - 1].val_loss) == skipped);
    }
    assert_int_equal(s.story.event_count, 1); /* one incident */
    assert_string_equal(s.story.last_level, "warning");
    assert_int_equal(s.story.last_event_step, 3);
    assert_non_null(strstr(s.story.last_event, "step 3: the gradient norm is not finite"));
    expect_finite_checkpoint(s.folder);
    session_close(&s);
}

/* health.on_nan = stop: nothing is saved, evaluated or pruned after the bad step, and a resume goes on from
 * the last checkpoint before. */
TEST_CASE(a_run_set_to_stop_at_the_first_non_finite_number_continues_from_before)
{
    struct backend backend = poisoned_backend(3, 4);
    struct session s;
    session_open(&s, "stop", &backend,
                 WORDS("health.on_nan=stop", "checkpoint.every=2", "checkpoint.keep=1", "eval.every=4",
                       "sample.every=4"),
                 900);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_NOT_FINITE);
    assert_int_equal(s.story.step_count, 4);
    assert_int_equal(s.story.event_count, 1);
    assert_string_equal(s.story.last_level, "error");
    assert_int_equal(s.story.eval_count, 0);
    assert_int_equal(s.story.sample_count, 0);
    assert_int_equal(s.story.checkpoint_count, 1);
    assert_int_equal(s.story.checkpoints[0].step, 2);
    expect_finite_checkpoint(s.folder);
    session_start(&s, true);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_int_equal(s.story.step_count, 4 + 10);
    assert_true(s.story.steps[4].step == 2 && s.story.steps[5].clip_scale > 0);
    session_close(&s);
}

/* ---- an update that ruins the weights, which stay finite: every later gradient is not ---- */

static int64_t updates, ruinous;

static void ruinous_adamw(float *w, void *weights, float *m, float *v, const float *g, size_t n,
                          const struct update_range *ranges, int range_count, struct optimizer_params params,
                          struct step_control *control, const struct clip_state *clip, struct stream *stream)
{
    cpu_backend()->adamw_step(w, weights, m, v, g, n, ranges, range_count, params, control, clip, stream);
    if (updates++ == ruinous)
        for (size_t i = 0; i < n; i++) w[i] *= 1e12f;
}

TEST_CASE(a_run_whose_weights_an_update_has_ruined_continues_from_before_it)
{
    static const struct {
        const char *stop;
        int64_t leave_at;
        enum train_outcome outcome;
    } ends[] = {{"health.on_nan=stop", 0, TRAIN_NOT_FINITE},
                {"health.on_nan=skip", 0, TRAIN_DIVERGED},
                {"health.on_nan=skip", 9, TRAIN_STOPPED}};
    struct backend backend = *cpu_backend();
    struct session whole;
    backend.adamw_step = ruinous_adamw;
    ruinous = -1;
    session_open(&whole, "unruined", &backend, WORDS("train.total_steps=150"), 900);
    session_start(&whole, false);
    assert_int_equal(session_run(&whole), TRAIN_FINISHED);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct session s;
        updates = 0;
        ruinous = 4; /* step 4 is counted as done, step 5 has the first gradient that is not finite */
        session_open(&s, "ruined", &backend,
                     WORDS("train.total_steps=150", "checkpoint.every=2", "checkpoint.keep=1", "eval.every=3",
                           ends[i].stop),
                     900);
        s.story.leave_at = ends[i].leave_at;
        session_start(&s, false);
        assert_int_equal(session_run(&s), ends[i].outcome);
        assert_true(s.story.steps[4].clip_scale > 0 && s.story.steps[5].clip_scale == 0);
        assert_int_equal(s.story.checkpoints[s.story.checkpoint_count - 1].step, 4);
        s.story.leave_at = 0;
        s.story.step_count = 0;
        session_start(&s, true);
        assert_int_equal(s.story.done, 4);
        assert_int_equal(session_run(&s), TRAIN_FINISHED);
        assert_int_equal(s.story.step_count, 146);
        for (int k = 0; k < 146; k++)
            assert_memory_equal(&s.story.steps[k].loss, &whole.story.steps[4 + k].loss, sizeof(double));
        session_close(&s);
    }
    session_close(&whole);
}

static void poisoning_adamw(float *w, void *weights, float *m, float *v, const float *g, size_t n,
                            const struct update_range *ranges, int range_count,
                            struct optimizer_params params, struct step_control *control,
                            const struct clip_state *clip, struct stream *stream)
{
    cpu_backend()->adamw_step(w, weights, m, v, g, n, ranges, range_count, params, control, clip, stream);
    if (updates++ == ruinous) w[n / 2] = NAN;
}

/* An ordered checkpoint is not saved either. */
TEST_CASE(weights_that_are_not_finite_are_never_a_checkpoint)
{
    struct backend backend = *cpu_backend();
    struct story_order script[] = {{.at = 6, .order = {.id = 1, .verb = ORDER_CHECKPOINT}}, {0}};
    struct session s;
    backend.adamw_step = poisoning_adamw;
    updates = 0;
    ruinous = 4;
    session_open(&s, "poisoned", &backend, WORDS("train.total_steps=12", "checkpoint.every=2"), 900);
    s.story.orders = script;
    session_start(&s, false);
    session_run(&s);
    assert_non_null(strstr(s.story.results[1], "the weights are no longer finite"));
    for (int i = 0; i < s.story.checkpoint_count; i++) assert_true(s.story.checkpoints[i].step <= 4);
    expect_finite_checkpoint(s.folder);
    session_close(&s);
}

TEST_CASE(weights_that_are_not_finite_write_no_sample)
{
    struct backend backend = *cpu_backend();
    struct session s;
    backend.adamw_step = poisoning_adamw;
    updates = 0;
    ruinous = 4;
    session_open(&s, "speechless", &backend,
                 WORDS("train.total_steps=10", "sample.every=8", "sample.early=false"), 900);
    session_start(&s, false);
    session_run(&s);
    assert_int_equal(s.story.sample_count, 0);
    bool said = false;
    for (int i = 0; i < s.story.event_count; i++)
        said = said || strstr(s.story.events[i], "no sample at step 8: the model computes no finite number");
    assert_true(said);
    session_close(&s);
}

/* The fourth update ruins the weights, a checkpoint is due at once, and the fifth gradient reveals it. */
TEST_CASE(a_checkpoint_due_before_the_ruin_is_discovered_is_not_written)
{
    static const char *const asyncs[] = {"train.async=true", "train.async=false"};
    for (int i = 0; i < 2; i++) {
        struct backend backend = *cpu_backend();
        struct session s;
        backend.adamw_step = ruinous_adamw;
        updates = 0;
        ruinous = 3;
        session_open(&s, "between", &backend,
                     WORDS("train.total_steps=10", "checkpoint.every=2", "checkpoint.keep=1", asyncs[i]),
                     900);
        session_start(&s, false);
        assert_int_equal(session_run(&s), TRAIN_FINISHED);
        assert_true(s.story.steps[3].clip_scale > 0 && s.story.steps[4].clip_scale == 0);
        assert_int_equal(s.story.checkpoint_count, 1);
        assert_int_equal(s.story.checkpoints[0].step, 2);
        assert_int_equal(s.story.event_count, 3); /* the first skip, this, and that there is no last one */
        assert_non_null(strstr(s.story.events[1], "no checkpoint at step 4: no finite gradient followed"));
        expect_finite_checkpoint(s.folder);
        session_close(&s);
    }
}

TEST_CASE(a_skipped_update_delays_a_checkpoint_and_costs_none)
{
    struct backend backend = poisoned_backend(4, 6);
    struct session s;
    session_open(&s, "delayed", &backend, WORDS("checkpoint.every=4"), 900);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_int_equal(s.story.checkpoint_count, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(s.story.checkpoints[i].step, 4 * (i + 1));
    assert_int_equal(s.story.event_count, 1);
    session_close(&s);
}

/* The last evaluation of the same weights has a finite loss, so the batch was the cause. Without an
 * evaluation the cause is unknown. */
TEST_CASE(a_run_whose_last_step_is_skipped_saves_what_validation_clears)
{
    for (int validated = 0; validated < 2; validated++) {
        struct backend backend = poisoned_backend(11, 12);
        struct session s;
        char path[4096];
        session_open(&s, "last", &backend,
                     WORDS("checkpoint.every=5", "checkpoint.keep=1",
                           validated ? "data.val_fraction=0.1" : "data.val_fraction=0"),
                     900);
        session_start(&s, false);
        assert_int_equal(session_run(&s), TRAIN_FINISHED);
        assert_true(s.story.steps[11].clip_scale == 0);
        assert_int_equal(s.story.checkpoint_count, validated ? 3 : 2);
        assert_int_equal(checkpoint_find(s.folder, 12, path, sizeof path, NULL) == STATUS_OK, validated);
        assert_int_equal(checkpoint_find(s.folder, 10, path, sizeof path, NULL), STATUS_OK); /* it stays */
        assert_int_equal(s.story.event_count, validated ? 1 : 2);
        if (!validated) assert_non_null(strstr(s.story.last_event, "no checkpoint at step 12"));
        session_close(&s);
    }
}

static void no_sum_of_an_evaluation(double *out, const float *x, size_t n, bool accumulate, void *scratch,
                                    struct stream *stream)
{
    cpu_backend()->sum(out, x, n, accumulate, scratch, stream);
    if (!accumulate) *out = NAN;
}

/* The gradients are finite, and so are the weights: the evaluation alone raises the doubt. */
TEST_CASE(weights_that_an_evaluation_doubts_are_not_saved_where_the_run_stops_for_it)
{
    struct backend backend = *cpu_backend();
    struct session s;
    backend.sum = no_sum_of_an_evaluation;
    for (int stop = 0; stop < 2; stop++) {
        session_open(&s, "doubted", &backend,
                     WORDS("eval.every=7", stop ? "health.on_nan=stop" : "health.on_nan=skip"), 900);
        session_start(&s, false);
        assert_int_equal(session_run(&s), stop ? TRAIN_NOT_FINITE : TRAIN_FINISHED);
        assert_int_equal(s.story.step_count, stop ? 7 : 12);
        assert_int_equal(s.story.checkpoint_count, !stop);
        session_close(&s);
    }
}

TEST_CASE(a_hundred_skipped_updates_in_a_row_end_the_run)
{
    struct backend backend = poisoned_backend(10, INT64_MAX);
    struct session s;
    session_open(&s, "diverged", &backend, WORDS("train.total_steps=400", "checkpoint.every=9"), 900);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_DIVERGED);
    assert_int_equal(s.story.step_count, 110);
    assert_int_equal(s.story.event_count, 1);
    expect_finite_checkpoint(s.folder);
    session_close(&s);
}

TEST_CASE(ninety_nine_skipped_updates_do_not)
{
    struct backend backend = poisoned_backend(10, 109);
    struct session s;
    session_open(&s, "recovered", &backend, WORDS("train.total_steps=112"), 900);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_true(s.story.steps[109].clip_scale > 0);
    session_close(&s);
}

TEST_CASE(one_good_update_starts_the_count_anew)
{
    struct backend backend = poisoned_backend(10, 150);
    struct session s;
    poison.spared = 70;
    session_open(&s, "spared", &backend, WORDS("train.total_steps=155"), 900);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    int skipped = 0;
    for (int k = 0; k < s.story.step_count; k++) skipped += s.story.steps[k].clip_scale == 0;
    assert_int_equal(skipped, 139);
    session_close(&s);
}

TEST_CASE(the_count_of_skipped_updates_survives_a_resume)
{
    struct backend backend = poisoned_backend(0, INT64_MAX);
    struct session s;
    struct story_order script[] = {{.at = 60, .order = {.id = 1, .verb = ORDER_CHECKPOINT}}, {0}};
    session_open(&s, "diverged-later", &backend, WORDS("train.total_steps=400"), 900);
    s.story.orders = script; /* what is ordered is saved; by itself the trainer saves no such weights */
    s.story.leave_at = 60;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_STOPPED);
    s.story.leave_at = 0;
    session_start(&s, true);
    assert_int_equal(session_run(&s), TRAIN_DIVERGED);
    assert_int_equal(s.story.step_count, 100);
    session_close(&s);
}

/* All is finite, and soon over: before enough losses are known to speak of a spike. */
TEST_CASE(a_run_that_diverges_in_its_first_steps_is_reported)
{
    struct session s;
    session_open(&s, "early", NULL,
                 WORDS("model.hidden_dim=64", "train.learning_rate=10", "train.warmup_steps=5",
                       "train.max_grad_norm=0", "train.total_steps=18"),
                 900);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_true(s.story.steps[0].loss < 6 && s.story.steps[17].loss > 12);
    assert_int_equal(s.story.event_count, 1);
    assert_non_null(strstr(s.story.last_event, "training diverges: the loss is "));
    assert_string_equal(s.story.last_level, "warning");
    session_close(&s);
}

/* No poison here: a learning rate far too high, until numbers leave the range of fp32. */
TEST_CASE(a_learning_rate_far_too_high_never_writes_a_non_finite_checkpoint)
{
    static const char *const optimizers[] = {"train.optimizer=adamw", "train.optimizer=lion"};
    for (int i = 0; i < 2; i++) {
        struct session s;
        session_open(&s, "huge", NULL,
                     WORDS("train.learning_rate=30", "train.schedule=constant", "train.weight_decay=100",
                           "train.total_steps=130", "checkpoint.every=1", "health.loss_spike=0",
                           optimizers[i]),
                     900);
        session_start(&s, false);
        enum train_outcome outcome = session_run(&s);
        assert_true(outcome == TRAIN_DIVERGED || outcome == TRAIN_FINISHED);
        int skipped = 0;
        for (int k = 0; k < s.story.step_count; k++) skipped += s.story.steps[k].clip_scale == 0;
        assert_true((skipped > 0) == (s.story.event_count > 0));
        expect_finite_checkpoint(s.folder);
        int64_t good = s.story.step_count; /* steps up to the last with a finite gradient */
        while (good > 0 && s.story.steps[good - 1].clip_scale == 0) good--;
        if (outcome == TRAIN_DIVERGED)
            assert_true(s.story.checkpoints[s.story.checkpoint_count - 1].step < good);
        session_close(&s);
    }
}

TEST_MAIN()
