/* A resumed run is the uninterrupted one, bit for bit: losses, rates, norms, evaluations, samples, and the
 * files of the last checkpoint. */
#include <math.h>

#include "core/base/file.h"
#include "kernels/device/cpu.h"
#include "tests/cmocka.h"
#include "tests/core/train/story.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- comparing runs ---- */

/* Compares all values but times, as bits: NaN equals NaN, -0 differs from 0. */
static void expect_equal_steps(const struct step_record *a, const struct step_record *b)
{
    assert_int_equal(a->step, b->step);
    assert_int_equal(a->tokens, b->tokens);
    if (memcmp(&a->loss, &b->loss, sizeof a->loss) != 0)
        fail_msg("step %d: loss %.17g and %.17g", (int)a->step, a->loss, b->loss);
    assert_memory_equal(&a->epoch, &b->epoch, sizeof a->epoch);
    assert_memory_equal(&a->lr, &b->lr, sizeof a->lr);
    assert_memory_equal(&a->grad_norm, &b->grad_norm, sizeof a->grad_norm);
    assert_memory_equal(&a->clip_scale, &b->clip_scale, sizeof a->clip_scale);
}

static void expect_equal_files(const char *folder_a, const char *folder_b, int64_t step, const char *name)
{
    char a[4096], b[4096];
    struct file_map x, y;
    snprintf(a, sizeof a, "%s/step-%d/%s", folder_a, (int)step, name);
    snprintf(b, sizeof b, "%s/step-%d/%s", folder_b, (int)step, name);
    assert_int_equal(file_map_open(a, &x, NULL), STATUS_OK);
    assert_int_equal(file_map_open(b, &y, NULL), STATUS_OK);
    assert_int_equal(x.size, y.size);
    assert_memory_equal(x.data, y.data, x.size);
    file_map_close(&x);
    file_map_close(&y);
}

/* `later` is the part after an interruption (or all of it): it must be the tail of `whole`. */
static void expect_tail(const struct story *whole, const struct story *later)
{
    int skip = whole->step_count - later->step_count;
    assert_true(skip >= 0 && later->step_count > 0);
    for (int i = 0; i < later->step_count; i++) expect_equal_steps(&whole->steps[skip + i], &later->steps[i]);
    skip = whole->eval_count - later->eval_count;
    assert_true(skip >= 0);
    for (int i = 0; i < later->eval_count; i++) {
        const struct eval_record *a = &whole->evals[skip + i], *b = &later->evals[i];
        const struct stopping_record *c = &whole->stoppings[skip + i], *d = &later->stoppings[i];
        assert_int_equal(a->step, b->step);
        assert_int_equal(a->tokens, b->tokens);
        assert_memory_equal(&a->val_loss, &b->val_loss, sizeof a->val_loss);
        assert_memory_equal(&c->best_val_loss, &d->best_val_loss, sizeof c->best_val_loss);
        assert_int_equal(c->best_step, d->best_step);
        assert_int_equal(c->patience_used, d->patience_used);
        assert_int_equal(c->verdict, d->verdict);
    }
    assert_string_equal(whole->last_sample, later->last_sample);
}

static void expect_equal_checkpoints(const struct session *a, const struct session *b, int64_t step)
{
    expect_equal_files(a->folder, b->folder, step, "model.safetensors");
    expect_equal_files(a->folder, b->folder, step, "optimizer.safetensors");
    expect_equal_files(a->folder, b->folder, step, "trainer.json");
    if (a->config.train.ema_decay > 0) expect_equal_files(a->folder, b->folder, step, "ema.safetensors");
}

/* ---- resuming ---- */

enum how { BY_REQUEST, BY_ORDER, BY_CRASH };

/* Trains `total` steps at once, then again with a break after every `stride`-th step, and compares. */
static void expect_resume_is_exact(const char *const *words, int total, int stride, enum how how)
{
    struct session whole, part;
    session_open(&whole, "whole", NULL, words, 900);
    session_start(&whole, false);
    assert_int_equal(session_run(&whole), TRAIN_FINISHED);
    assert_int_equal(whole.story.step_count, total);
    assert_true(whole.story.eval_count > 2 && whole.story.sample_count > 1);
    for (int at = how == BY_CRASH ? 3 : 1; at < total; at += stride) {
        struct story_order script[] = {{.at = at, .order = {.id = 1, .verb = ORDER_STOP}}, {0}};
        session_open(&part, "part", NULL, words, 900);
        if (how == BY_ORDER)
            part.story.orders = script;
        else
            part.story.leave_at = at;
        session_start(&part, false);
        assert_int_equal(session_run(&part), TRAIN_STOPPED);
        assert_int_equal(part.story.step_count, at);
        if (how == BY_CRASH) { /* as if the last steps and their checkpoint had never reached the disk */
            char last[4096];
            for (int step = at / 3 * 3 + 1; step <= at; step++) {
                snprintf(last, sizeof last, "%s/step-%d", part.folder, step);
                assert_int_equal(file_remove_tree(last, NULL), STATUS_OK);
            }
        }
        part.story.leave_at = 0;
        part.story.step_count = part.story.eval_count = part.story.stopping_count = 0;
        session_start(&part, true);
        int first = how == BY_CRASH ? at / 3 * 3 : at;
        assert_int_equal(trainer_state(part.trainer)->step, first);
        assert_int_equal(session_run(&part), TRAIN_FINISHED);
        assert_int_equal(part.story.step_count, total - first);
        expect_tail(&whole.story, &part.story);
        expect_equal_checkpoints(&whole, &part, total);
        session_close(&part);
    }
    session_close(&whole);
}

/* 900 bytes are 50 training sequences: with 4 a step, 14 steps pass the end of the first epoch. */
#define RESUME_WORDS                                                                                         \
    "train.total_steps=14", "train.accumulation_steps=2", "train.dropout=0.2", "eval.every=4",               \
        "eval.early_stopping_patience=50", "sample.every=5"

/* 50 sequences, 4 a step: epochs end with steps 13 and 25; breaks fall before, on and behind them. */
TEST_CASE(epochs_are_evaluated_where_the_uninterrupted_run_has_them)
{
    expect_resume_is_exact(WORDS("train.total_steps=27", "train.accumulation_steps=2", "eval.every=0",
                                 "eval.at_epoch_end=true", "eval.early_stopping_patience=50",
                                 "sample.every=9", "data.padding=32", "param_group.norms.match=*norm*",
                                 "param_group.norms.lr_scale=0.5"),
                           27, 6, BY_REQUEST);
}

TEST_CASE(a_run_with_frozen_parameters_resumes_bit_for_bit)
{
    expect_resume_is_exact(WORDS(RESUME_WORDS, "checkpoint.background=true",
                                 "param_group.low.match=*[kv]_proj*", "param_group.low.lr_scale=0"),
                           14, 1, BY_REQUEST);
}

/* 900 bytes are 20 sentences, of which '.' ends each but the last. */
TEST_CASE(a_run_on_packed_documents_resumes_bit_for_bit)
{
    expect_resume_is_exact(WORDS(RESUME_WORDS, "data.documents=packed", "data.end_token=46"), 14, 1,
                           BY_REQUEST);
}

/* The first moment of a parameter in the newest checkpoint; its size is 0 where it has none. */
static double moment_size(const struct session *s, const char *name)
{
    char folder[4096], path[4200];
    struct safetensors file;
    struct err err;
    double size = 0;
    if (checkpoint_find(s->folder, -1, folder, sizeof folder, &err)) fail_msg("%s", err.text);
    snprintf(path, sizeof path, "%s/optimizer.safetensors", folder);
    if (safetensors_open(path, &file, &err)) fail_msg("%s", err.text);
    const struct safetensor *t = safetensors_find(&file, name);
    for (size_t i = 0; t && i < t->bytes / 4; i++) size += fabs((double)((const float *)t->data)[i]);
    safetensors_close(&file);
    return size;
}

/* Frozen parameters become trainable, and the other way round. */
TEST_CASE(moments_of_what_is_thawed_begin_at_zero_and_it_is_said)
{
    static const char o[] = "m.model.layers.0.self_attn.o_proj.weight",
                      down[] = "m.model.layers.0.mlp.down_proj.weight";
    struct session s;
    session_open(&s, "thaw", NULL,
                 WORDS("train.total_steps=6", "param_group.a.match=*o_proj*", "param_group.a.lr_scale=0"),
                 900);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_true(moment_size(&s, o) == 0 && moment_size(&s, down) > 0);
    s.config.train.total_steps = 9;
    snprintf(s.config.groups.at[0].match, sizeof s.config.groups.at[0].match, "*down_proj*");
    s.story.event_count = s.story.step_count = 0;
    session_start(&s, true);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_int_equal(s.story.event_count, 1);
    assert_string_equal(s.story.last_level, "warning");
    assert_non_null(strstr(s.story.last_event, "model.layers.0.self_attn.o_proj.weight, which was frozen"));
    assert_int_equal(s.story.step_count, 3);
    assert_true(moment_size(&s, o) > 0 && moment_size(&s, down) == 0);
    session_close(&s);
}

TEST_CASE(an_adamw_run_resumes_bit_for_bit_after_a_request)
{
    expect_resume_is_exact(WORDS(RESUME_WORDS), 14, 1, BY_REQUEST);
}

TEST_CASE(a_lion_run_resumes_bit_for_bit_after_an_order)
{
    expect_resume_is_exact(
        WORDS(RESUME_WORDS, "train.optimizer=lion", "train.learning_rate=0.001", "data.shuffle=random"), 14,
        1, BY_ORDER);
}

TEST_CASE(an_adamw_run_with_moments_in_8_bits_resumes_bit_for_bit)
{
    expect_resume_is_exact(WORDS(RESUME_WORDS, "train.moments=8bit", "checkpoint.background=true"), 14, 2,
                           BY_REQUEST);
}

TEST_CASE(a_lion_run_with_moments_in_8_bits_resumes_bit_for_bit)
{
    expect_resume_is_exact(WORDS(RESUME_WORDS, "train.moments=8bit", "train.optimizer=lion",
                                 "train.learning_rate=0.001", "param_group.low.match=*[kv]_proj*",
                                 "param_group.low.lr_scale=0"),
                           14, 4, BY_REQUEST);
}

/* Checkpoints hold fp32 numbers, whatever the moments are in. */
TEST_CASE(a_run_goes_on_with_moments_in_8_bits_and_back)
{
    static const char *const words[] = {"train.moments=8bit", "train.moments=fp32"};
    struct session s;
    struct err err;
    session_open(&s, "forms", NULL, WORDS(RESUME_WORDS), 900);
    for (int at = 4; at <= 12; at += 4) {
        s.story.leave_at = at;
        if (at > 4) assert_int_equal(config_read_word(&s.config, words[at / 4 % 2], &err), STATUS_OK);
        session_start(&s, at > 4);
        assert_int_equal(trainer_plan(s.trainer)->input.moments_8bit, at == 8);
        assert_int_equal(session_run(&s), TRAIN_STOPPED);
        assert_int_equal(s.story.step_count, at);
        assert_true(moment_size(&s, "v.model.layers.0.self_attn.o_proj.weight") > 0);
        assert_int_equal(s.story.event_count, 0);
    }
    session_close(&s);
}

/* Its matrices have one moment, and checkpoints in the background take a copy of so many elements. */
TEST_CASE(a_muon_run_resumes_bit_for_bit_after_a_request)
{
    expect_resume_is_exact(WORDS(RESUME_WORDS, "train.optimizer=muon", "train.learning_rate=0.01",
                                 "param_group.keys.match=*k_proj*", "param_group.keys.optimizer=adamw"),
                           14, 1, BY_REQUEST);
}

TEST_CASE(a_checkpoint_of_muon_holds_the_second_moments_of_adamw_alone)
{
    struct session s;
    session_open(&s, "kinds", NULL, WORDS(RESUME_WORDS, "train.optimizer=muon"), 900);
    s.story.leave_at = 4;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_STOPPED);
    assert_true(moment_size(&s, "m.model.layers.0.self_attn.o_proj.weight") > 0);
    assert_true(moment_size(&s, "v.model.layers.0.self_attn.o_proj.weight") == 0); /* not there */
    assert_true(moment_size(&s, "v.model.embed_tokens.weight") > 0);
    session_close(&s);
}

TEST_CASE(a_run_that_averages_its_weights_resumes_bit_for_bit)
{
    expect_resume_is_exact(WORDS(RESUME_WORDS, "train.ema_decay=0.7", "checkpoint.background=true",
                                 "eval.metric=val_loss_ema", "param_group.low.match=*[kv]_proj*",
                                 "param_group.low.lr_scale=0"),
                           14, 2, BY_REQUEST);
}

/* Breaks fall before, on and behind the steps whose batch is larger than the one before, and the step at
 * which the rate begins to fall. */
TEST_CASE(a_run_whose_batch_grows_and_whose_rate_decays_last_resumes_bit_for_bit)
{
    expect_resume_is_exact(WORDS("train.total_steps=14", "train.accumulation_plan=0: 1, 4: 2, 9: 3",
                                 "train.schedule=wsd", "train.decay_steps=6", "train.decay_shape=1-sqrt",
                                 "train.dropout=0.2", "eval.every=4", "eval.at_epoch_end=true",
                                 "eval.early_stopping_patience=50", "sample.every=5"),
                           14, 1, BY_REQUEST);
}

TEST_CASE(a_killed_run_resumes_bit_for_bit_from_an_older_checkpoint)
{
    expect_resume_is_exact(
        WORDS(RESUME_WORDS, "model.qk_norm=true", "model.tie_weights=false", "checkpoint.every=3"), 14, 2,
        BY_CRASH);
}

TEST_CASE(a_run_on_several_threads_resumes_bit_for_bit)
{
    expect_resume_is_exact(WORDS(RESUME_WORDS, "train.z_loss=0.01", "model.zero_outputs=true",
                                 "train.threads=2", "train.batch_size=3"),
                           14, 9, BY_REQUEST);
}

/* A step of four micro-batches is asked about four times: before it, and between two of them. */
TEST_CASE(a_long_step_is_given_up_between_micro_batches_and_made_again)
{
    struct session whole, parts;
    const char *const *words = WORDS("train.total_steps=6", "train.accumulation_steps=4", "eval.every=2");
    session_open(&whole, "given-up-whole", NULL, words, 900);
    session_start(&whole, false);
    assert_int_equal(session_run(&whole), TRAIN_FINISHED);
    session_open(&parts, "given-up-parts", NULL, words, 900);
    parts.story.leave_calls = 10; /* within the third step */
    session_start(&parts, false);
    assert_int_equal(session_run(&parts), TRAIN_STOPPED);
    assert_int_equal(parts.story.step_count, 2);
    assert_int_equal(parts.story.eval_count, 1); /* that after the second step, once */
    parts.story.leave_calls = 0;
    session_start(&parts, true);
    assert_int_equal(session_run(&parts), TRAIN_FINISHED);
    story_expect_same(&whole.story, &parts.story, "given up");
    session_close(&whole);
    session_close(&parts);
}

TEST_CASE(an_interrupted_run_can_be_interrupted_again)
{
    struct session whole, part;
    session_open(&whole, "whole", NULL, WORDS(RESUME_WORDS), 900);
    session_start(&whole, false);
    session_run(&whole);
    session_open(&part, "part", NULL, WORDS(RESUME_WORDS), 900);
    for (int at = 1; at < 14; at++) {
        part.story.leave_at = at;
        session_start(&part, at > 1);
        assert_int_equal(session_run(&part), TRAIN_STOPPED);
    }
    part.story.leave_at = 0;
    session_start(&part, true);
    assert_int_equal(session_run(&part), TRAIN_FINISHED);
    assert_int_equal(part.story.step_count, 14);
    expect_tail(&whole.story, &part.story);
    expect_equal_checkpoints(&whole, &part, 14);
    session_close(&part);
    session_close(&whole);
}

/* Also 0, with which a run learns nothing until it gets another one. */
TEST_CASE(the_factor_of_the_learning_rate_survives_a_resume)
{
    static const double factors[] = {0.25, 0, 1000};
    for (size_t f = 0; f < sizeof factors / sizeof *factors; f++) {
        struct session s;
        struct story_order script[] = {
            {.at = 2, .order = {.id = 1, .verb = ORDER_LR_FACTOR, .argument = factors[f]}},
            {.at = 4, .order = {.id = 2, .verb = ORDER_STOP}},
            {0}};
        session_open(&s, "factor", NULL, WORDS("train.schedule=constant"), 900);
        s.story.orders = script;
        session_start(&s, false);
        assert_int_equal(session_run(&s), TRAIN_STOPPED);
        session_start(&s, true);
        assert_int_equal(session_run(&s), TRAIN_FINISHED);
        for (int i = 0; i < 12; i++) assert_true(s.story.steps[i].lr == (i < 2 ? 0.01 : 0.01 * factors[f]));
        session_close(&s);
    }
}

TEST_CASE(resuming_keeps_the_history_of_early_stopping_and_takes_the_new_patience)
{
    struct session s;
    session_open(&s, "patience", NULL,
                 WORDS("train.learning_rate=0", "eval.every=2", "eval.early_stopping_patience=9"), 900);
    s.story.leave_at = 6;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_STOPPED);
    s.story.leave_at = 0;
    s.config.eval.early_stopping_patience = 3;
    session_start(&s, true);
    assert_int_equal(session_run(&s), TRAIN_EARLY_STOPPED);
    assert_int_equal(s.story.done, 8); /* the best at 2, then 4, 6 and 8 */
    session_close(&s);
}

TEST_CASE(resuming_takes_the_new_min_delta)
{
    struct session s;
    session_open(&s, "min-delta", NULL, WORDS("train.learning_rate=0.003", "eval.every=2"), 900);
    s.story.leave_at = 4;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_STOPPED);
    assert_true(s.story.stoppings[1].improved);
    s.story.leave_at = 0;
    s.config.eval.early_stopping_min_delta = 100;
    session_start(&s, true);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    for (int i = 2; i < s.story.stopping_count; i++) {
        assert_true(s.story.stoppings[i].min_delta == 100);
        assert_int_equal(s.story.stoppings[i].verdict, VERDICT_WAITING);
        assert_int_equal(s.story.stoppings[i].patience_used, i - 1);
    }
    session_close(&s);
}

TEST_CASE(resuming_with_another_instruction_set_says_that_digits_may_differ)
{
    for (int other = 0; other <= 1; other++) {
        struct session s;
        session_open(&s, "isa", NULL, NULL, 900);
        s.story.leave_at = 4;
        session_start(&s, false);
        assert_int_equal(session_run(&s), TRAIN_STOPPED);
        s.story.leave_at = 0;
        s.backend->device_close(s.device);
        if (other) s.backend = cpu_backend_for("baseline");
        assert_int_equal(s.backend->device_open(DEVICE_FIRST, 2, &s.device, NULL), STATUS_OK);
        session_start(&s, true);
        assert_int_equal(session_run(&s), TRAIN_FINISHED);
        bool differs = other && strcmp(cpu_isa(), "baseline") != 0;
        assert_int_equal(s.story.event_count, differs);
        if (differs) assert_non_null(strstr(s.story.last_event, "the last digits of the losses may differ"));
        session_close(&s);
    }
}

static int64_t bad_step; /* the one whose gradient is not finite */

static void cross_entropy_with_a_bad_step(float *losses, struct matrix logits, const int32_t *targets,
                                          const struct step_control *control, int N, int V,
                                          struct stream *stream)
{
    cpu_backend()->cross_entropy_fused(losses, logits, targets, control, N, V, stream);
    if (control->step == bad_step) *(float *)logits.at = NAN;
}

/* Its updates are one fewer than its steps, and AdamW's bias correction goes by them. */
TEST_CASE(a_run_with_a_skipped_update_resumes_bit_for_bit)
{
    struct session s[2];
    struct backend backend = *cpu_backend();
    backend.cross_entropy_fused = cross_entropy_with_a_bad_step;
    bad_step = 1;
    for (int i = 0; i < 2; i++) {
        session_open(&s[i], i ? "skipped-part" : "skipped-whole", &backend, NULL, 900);
        s[i].story.leave_at = i ? 5 : 0;
        session_start(&s[i], false);
        session_run(&s[i]);
    }
    assert_int_equal(s[1].story.step_count, 5);
    s[1].story.leave_at = 0;
    session_start(&s[1], true);
    assert_int_equal(trainer_state(s[1].trainer)->updates, 4);
    session_run(&s[1]);
    assert_true(s[0].story.steps[1].clip_scale == 0);
    expect_tail(&s[0].story, &s[1].story);
    expect_equal_checkpoints(&s[0], &s[1], 12);
    for (int i = 0; i < 2; i++) session_close(&s[i]);
}

TEST_CASE(a_finished_run_has_nothing_left_to_resume)
{
    struct session s;
    session_open(&s, "finished", NULL, NULL, 900);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    session_start(&s, true);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_int_equal(s.story.step_count, 12);
    session_close(&s);
}

/* ---- repeating ---- */

TEST_CASE(the_same_seed_gives_the_same_run_and_another_one_another)
{
    static const char *const seeds[] = {"train.seed=5", "train.seed=5", "train.seed=6"};
    struct session s[3];
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "seed%d", i);
        session_open(&s[i], name, NULL, WORDS(RESUME_WORDS, seeds[i]), 900);
        session_start(&s[i], false);
        session_run(&s[i]);
    }
    expect_tail(&s[0].story, &s[1].story);
    expect_equal_checkpoints(&s[0], &s[1], 14);
    assert_true(s[0].story.steps[0].loss != s[2].story.steps[0].loss);
    for (int i = 0; i < 3; i++) session_close(&s[i]);
}

TEST_CASE(another_corpus_is_refused)
{
    struct session s;
    struct err err = {0};
    session_open(&s, "other-corpus", NULL, NULL, 900);
    s.story.leave_at = 4;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_STOPPED);
    char path[4096];
    assert_int_equal(checkpoint_find(s.folder, -1, path, sizeof path, &err), STATUS_OK);
    s.tokens[17] ^= 1;
    session_start(&s, false);
    assert_int_equal(trainer_resume(s.trainer, path, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "the corpus has changed"));
    trainer_close(s.trainer);
    s.tokens[17] ^= 1;
    s.corpus.tokens = --s.file.count;
    session_start(&s, false);
    assert_int_equal(trainer_resume(s.trainer, path, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "trained on 900 tokens, now there are 899"));
    s.corpus.tokens = ++s.file.count;
    session_close(&s);
}

TEST_MAIN()
