/* The trainer's contract: complete records, orders that take effect at the promised step, automatic stopping,
 * validation tokens never trained on. Resuming is in test_resume.c, allocation in test_step_loop.c,
 * divergence in test_divergence.c, accumulation in test_accumulation.c. */
#include <math.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"
#include "tests/core/train/story.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- the records ---- */

TEST_CASE(a_repeating_text_is_learned)
{
    struct session s;
    session_open(&s, "learn", NULL,
                 WORDS("train.total_steps=500", "eval.every=250", "train.learning_rate=0.02"), 2000);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_true(fabs(s.story.steps[0].loss - log(256)) < 0.3); /* at first all tokens are alike */
    if (!(s.story.steps[499].loss < 0.7)) fail_msg("the loss is still %g", s.story.steps[499].loss);
    assert_int_equal(s.story.eval_count, 2);
    assert_true(s.story.evals[1].val_loss < 0.8 && s.story.evals[1].val_loss < s.story.evals[0].val_loss);
    session_close(&s);
}

TEST_CASE(an_evaluation_gives_a_sign_of_life_with_each_batch)
{
    struct session s;
    session_open(
        &s, "lives", NULL,
        WORDS("train.total_steps=4", "eval.every=2", "eval.batches=3", "checkpoint.background=false"), 2000);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_int_equal(s.story.eval_count, 2);
    assert_int_equal(s.story.lives_count, 2 * 3);
    session_close(&s);
}

/* Most bytes do not occur in the text, so the gradients of their rows are always 0. */
TEST_CASE(an_epsilon_of_zero_leaves_the_rows_of_tokens_that_never_occur)
{
    struct session s;
    session_open(&s, "epsilon", NULL, WORDS("train.adam_eps=0", "model.tie_weights=false"), 900);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    for (int i = 0; i < s.story.step_count; i++) assert_true(isfinite(s.story.steps[i].loss));
    session_close(&s);
}

TEST_CASE(every_step_leaves_a_complete_record)
{
    struct session s;
    session_open(&s, "records", NULL, WORDS("train.accumulation_steps=3", "eval.every=5"), 900);
    session_start(&s, false);
    assert_int_equal(trainer_sequences(s.trainer, TASK_TRAINING), 50); /* (900 - 90 - 1) / 16 */
    int64_t planned = (int64_t)trainer_plan(s.trainer)->total_bytes;
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    for (int i = 0; i < 12; i++) {
        const struct step_record *r = &s.story.steps[i];
        assert_int_equal(r->step, i);
        assert_int_equal(r->tokens, (i + 1) * 3 * 2 * 16);
        assert_true(r->epoch == (i + 1) * 6 / 50.0);
        assert_true(isfinite(r->loss) && r->loss > 0 && r->grad_norm > 0);
        assert_true(r->clip_scale > 0 && r->clip_scale <= 1);
        assert_true(fabs(r->clip_scale - fmin(1, 1 / (r->grad_norm + 1e-6))) < 1e-6);
        assert_true(r->step_ms > 0 && r->tokens_per_sec > 0 && r->wall_time > 1e9);
    }
    assert_int_equal(s.story.eval_count, 3); /* at 5, 10 and the end */
    for (int i = 0; i < 3; i++) {
        const struct eval_record *r = &s.story.evals[i];
        assert_int_equal(r->step, i < 2 ? 5 * (i + 1) : 12);
        assert_int_equal(r->tokens, r->step * 96);
        assert_true(fabs(r->val_perplexity - exp(r->val_loss)) < 1e-9 && r->eval_ms > 0);
        assert_true(s.story.stoppings[i].val_loss == r->val_loss);
    }
    /* at the start, at each evaluation, and with each checkpoint, the last one included */
    assert_int_equal(s.story.memory_reports, 1 + s.story.eval_count + s.story.checkpoint_count);
    assert_int_equal(s.story.memory_bytes, planned);
    assert_int_equal(s.story.live_bytes, planned);
    assert_int_equal(s.story.used_bytes, planned);
    int64_t best = 0; /* every improvement is kept, and the end, which here was one */
    for (int i = 0; i < 3; i++) {
        if (!s.story.stoppings[i].improved) continue;
        assert_int_equal(s.story.checkpoints[best].step, s.story.stoppings[i].step);
        best++;
    }
    assert_int_equal(best, 3);
    assert_int_equal(s.story.checkpoint_count, best);
    assert_string_equal(s.story.last_kind, "best");
    assert_int_equal(s.story.event_count, 0);
    session_close(&s);
}

/* 900 bytes are 50 training sequences of 16: with 2 a step, epochs end after steps 25, 50; with 4 after 13,
 * 25, 38, 50, none of which takes a multiple of 50 but two. */
TEST_CASE(epochs_end_with_an_evaluation)
{
    struct session s;
    session_open(&s, "epochs", NULL,
                 WORDS("train.total_steps=52", "train.batch_size=4", "eval.every=0", "eval.at_epoch_end=true",
                       "eval.early_stopping_patience=50"),
                 900);
    session_start(&s, false);
    assert_int_equal(trainer_sequences(s.trainer, TASK_TRAINING), 50);
    session_run(&s);
    static const int64_t steps[] = {13, 25, 38, 50, 52}; /* the last at the end of the run */
    assert_int_equal(s.story.eval_count, 5);
    assert_int_equal(s.story.stopping_count, 5);
    for (int i = 0; i < 5; i++) assert_int_equal(s.story.evals[i].step, steps[i]);
    session_close(&s);
}

TEST_CASE(the_same_batches_are_evaluated_every_time)
{
    struct session s;
    session_open(&s, "evals", NULL, WORDS("train.learning_rate=0", "eval.every=1", "eval.batches=2"), 900);
    session_start(&s, false);
    session_run(&s);
    assert_int_equal(s.story.eval_count, 12);
    for (int i = 1; i < 12; i++) assert_true(s.story.evals[i].val_loss == s.story.evals[0].val_loss);
    session_close(&s);
}

TEST_CASE(without_validation_tokens_nothing_is_evaluated)
{
    struct session s;
    struct story_order script[] = {{.at = 3, .order = {.id = 1, .verb = ORDER_EVAL}}, {0}};
    session_open(&s, "no-validation", NULL, WORDS("data.val_fraction=0", "eval.every=2"), 900);
    s.story.orders = script;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_int_equal(s.story.eval_count, 0);
    assert_non_null(strstr(s.story.results[1], ORDER_REFUSED "there are no validation tokens"));
    session_close(&s);
}

/* Nobody gets the last weights, so they are not evaluated either. */
TEST_CASE(without_a_folder_for_checkpoints_only_the_steps_count)
{
    struct session s;
    struct story_order script[] = {{.at = 3, .order = {.id = 1, .verb = ORDER_CHECKPOINT}}, {0}};
    session_open(&s, "no-folder", NULL, WORDS("checkpoint.every=5"), 900);
    s.story.orders = script;
    free(s.folder);
    s.folder = NULL;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_int_equal(s.story.step_count, 12);
    assert_int_equal(s.story.eval_count, 0);
    assert_int_equal(s.story.checkpoint_count, 0);
    assert_non_null(strstr(s.story.results[1], "refused: this training keeps no checkpoints"));
    session_close(&s);
}

TEST_CASE(samples_continue_the_prompt_and_checkpoints_come_when_due)
{
    struct session s;
    session_open(&s, "due", NULL, WORDS("sample.every=4", "checkpoint.every=5", "checkpoint.keep=2"), 900);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_int_equal(s.story.sample_count, 3);
    assert_true(strlen(s.story.last_sample) > 0);
    assert_int_equal(s.story.checkpoint_count, 3);
    assert_int_equal(s.story.checkpoints[0].step, 5);
    assert_int_equal(s.story.checkpoints[1].step, 10);
    assert_int_equal(s.story.checkpoints[2].step, 12);
    char path[4096];
    assert_int_equal(checkpoint_find(s.folder, 5, path, sizeof path, NULL),
                     STATUS_NOT_FOUND); /* only two kept */
    assert_int_equal(checkpoint_find(s.folder, 10, path, sizeof path, NULL), STATUS_OK);
    session_close(&s);
}

/* ---- orders ---- */

TEST_CASE(orders_take_effect_at_the_step_they_were_given)
{
    struct session s;
    struct story_order script[] = {{.at = 0, .order = {.id = 1, .verb = ORDER_CHECKPOINT}},
                                   {.at = 3, .order = {.id = 2, .verb = ORDER_EVAL}},
                                   {.at = 3, .order = {.id = 3, .verb = ORDER_SAMPLE}},
                                   {.at = 5, .order = {.id = 4, .verb = ORDER_LR_FACTOR, .argument = 0.5}},
                                   {.at = 7, .order = {.id = 5, .verb = ORDER_CHECKPOINT}},
                                   {.at = 8, .order = {.id = 6, .verb = ORDER_CONTINUE}},
                                   {.at = 9, .order = {.id = 7, .verb = ORDER_STOP}},
                                   {0}};
    session_open(&s, "orders", NULL, WORDS("train.schedule=constant"), 900);
    s.story.orders = script;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_STOPPED);
    static const int64_t applied[] = {0, 0, 3, 3, 5, 7, 8, 9};
    assert_int_equal(s.story.acknowledged, 7);
    for (int id = 1; id <= 7; id++) assert_int_equal(s.story.applied[id], applied[id]);
    assert_int_equal(s.story.step_count, 9);
    assert_int_equal(s.story.eval_count, 1);
    assert_int_equal(s.story.evals[0].step, 3);
    assert_int_equal(s.story.sample_count, 1);
    for (int i = 0; i < 9; i++) assert_true(s.story.steps[i].lr == (i < 5 ? 0.01 : 0.005));
    assert_int_equal(s.story.checkpoint_count, 4);
    assert_int_equal(s.story.checkpoints[0].step, 0);
    assert_int_equal(s.story.checkpoints[1].step, 3); /* the best so far */
    assert_int_equal(s.story.checkpoints[2].step, 7);
    assert_int_equal(s.story.checkpoints[3].step, 9);
    assert_non_null(strstr(s.story.results[2], "validation loss"));
    assert_non_null(strstr(s.story.results[5], "step-7"));
    assert_int_equal(s.story.pause_count, 0);
    session_close(&s);
}

TEST_CASE(a_pause_holds_the_run_until_it_is_continued)
{
    struct session s;
    struct story_order script[] = {{.at = 4, .order = {.id = 1, .verb = ORDER_PAUSE}},
                                   {.at = 4, .order = {.id = 2, .verb = ORDER_EVAL}, .wait = 2},
                                   {.at = 4, .order = {.id = 3, .verb = ORDER_CONTINUE}, .wait = 2},
                                   {0}};
    session_open(&s, "pause", NULL, NULL, 900);
    s.story.orders = script;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    for (int id = 1; id <= 3; id++) assert_int_equal(s.story.applied[id], 4); /* also while paused */
    assert_int_equal(s.story.pause_count, 2);
    assert_true(s.story.pauses[0] && !s.story.pauses[1]);
    assert_int_equal(s.story.step_count, 12);
    session_close(&s);
}

TEST_CASE(a_paused_run_can_be_stopped)
{
    struct session s;
    struct story_order script[] = {{.at = 4, .order = {.id = 1, .verb = ORDER_PAUSE}},
                                   {.at = 4, .order = {.id = 2, .verb = ORDER_STOP}, .wait = 2},
                                   {0}};
    session_open(&s, "pause-stop", NULL, NULL, 900);
    s.story.orders = script;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_STOPPED);
    assert_int_equal(s.story.step_count, 4);
    assert_int_equal(s.story.pause_count, 1); /* it does not continue first */
    assert_int_equal(s.story.checkpoints[0].step, 4);
    session_close(&s);
}

TEST_CASE(a_factor_that_is_no_number_from_zero_up_is_refused)
{
    struct session s;
    struct story_order script[] = {
        {.at = 1, .order = {.id = 1, .verb = ORDER_LR_FACTOR, .argument = NAN}},
        {.at = 1, .order = {.id = 2, .verb = ORDER_LR_FACTOR, .argument = -1}},
        {.at = 1, .order = {.id = 3, .verb = ORDER_LR_FACTOR, .argument = INFINITY}},
        {.at = 6, .order = {.id = 4, .verb = ORDER_LR_FACTOR, .argument = 0}},
        {0}};
    session_open(&s, "bad-factor", NULL, WORDS("train.schedule=constant"), 900);
    s.story.orders = script;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    for (int id = 1; id <= 3; id++) assert_non_null(strstr(s.story.results[id], "refused"));
    for (int i = 0; i < 12; i++) assert_true(s.story.steps[i].lr == (i < 6 ? 0.01 : 0));
    session_close(&s);
}

/* ---- stopping by itself ---- */

TEST_CASE(early_stopping_ends_a_run_that_learns_nothing)
{
    struct session s;
    session_open(&s, "early", NULL,
                 WORDS("train.learning_rate=0", "eval.every=2", "eval.early_stopping_patience=2"), 900);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_EARLY_STOPPED);
    assert_int_equal(s.story.step_count, 6);
    assert_int_equal(s.story.stopping_count, 3);
    assert_int_equal(s.story.stoppings[0].verdict, VERDICT_IMPROVED);
    assert_int_equal(s.story.stoppings[1].verdict, VERDICT_WAITING);
    assert_int_equal(s.story.stoppings[2].verdict, VERDICT_STOP);
    assert_int_equal(s.story.checkpoints[s.story.checkpoint_count - 1].step, 6);
    session_close(&s);
}

/* Of a run that learns nothing each evaluation that is due uses up patience. */
TEST_CASE(an_ordered_evaluation_uses_up_no_patience)
{
    struct session s;
    struct story_order script[] = {{.at = 3, .order = {.id = 1, .verb = ORDER_EVAL}}, {0}};
    session_open(&s, "asked", NULL,
                 WORDS("train.learning_rate=0", "eval.every=2", "eval.early_stopping_patience=2"), 900);
    s.story.orders = script;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_EARLY_STOPPED);
    assert_int_equal(s.story.step_count, 6);
    assert_int_equal(s.story.stoppings[1].step, 3);
    assert_int_equal(s.story.stoppings[1].verdict, VERDICT_ORDERED);
    assert_int_equal(s.story.stoppings[2].patience_used, 1);
    session_close(&s);
}

TEST_CASE(an_ordered_evaluation_that_is_the_best_keeps_its_weights)
{
    struct session s;
    struct story_order script[] = {{.at = 3, .order = {.id = 1, .verb = ORDER_EVAL}}, {0}};
    session_open(&s, "asked-best", NULL, WORDS("data.val_fraction=0.1"), 900);
    s.story.orders = script;
    s.story.leave_at = 3;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_STOPPED);
    assert_string_equal(s.story.last_kind, "best");
    assert_int_equal(s.story.checkpoints[0].step, 3);
    assert_int_equal(s.story.checkpoint_count, 1);
    session_close(&s);
}

TEST_CASE(the_best_weights_survive_later_checkpoints)
{
    struct session s;
    struct err err = {0};
    char path[4096];
    struct story_order script[] = {{.at = 6, .order = {.id = 1, .verb = ORDER_LR_FACTOR, .argument = 1000}},
                                   {0}};
    session_open(&s, "best", NULL,
                 WORDS("train.schedule=constant", "train.learning_rate=0.003", "eval.every=2",
                       "checkpoint.every=2", "checkpoint.keep=1", "eval.early_stopping_min_delta=100"),
                 900);
    s.story.orders = script;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    int best = 0;
    for (int i = 1; i < s.story.eval_count; i++) {
        if (s.story.evals[i].val_loss < s.story.evals[best].val_loss) best = i;
        assert_int_equal(s.story.stoppings[i].best_step,
                         s.story.evals[best].step); /* whatever min_delta says */
        assert_int_equal(s.story.stoppings[i].verdict, VERDICT_WAITING);
    }
    for (int step = 2; step <= 12; step += 2)
        assert_int_equal(checkpoint_find(s.folder, step, path, sizeof path, &err),
                         step == 12 || step == s.story.evals[best].step ? STATUS_OK : STATUS_NOT_FOUND);
    assert_int_equal(s.story.evals[best].step, 6);
    session_close(&s);
}

TEST_CASE(a_plan_larger_than_the_memory_is_refused_beforehand)
{
    struct session s;
    struct err err = {0};
    session_open(&s, "large", NULL,
                 WORDS("train.batch_size=65535", "train.seq_len=1024", "model.hidden_dim=512",
                       "model.max_seq_len=1024", "data.val_fraction=0"),
                 2000);
    assert_int_equal(session_try(&s, &err), STATUS_NO_MEMORY);
    assert_non_null(strstr(err.text, "training needs"));
    session_close(&s);
}

TEST_CASE(asking_for_the_same_evaluation_again_costs_no_patience)
{
    struct session s;
    struct story_order script[] = {{.at = 2, .order = {.id = 1, .verb = ORDER_EVAL}},
                                   {.at = 2, .order = {.id = 2, .verb = ORDER_EVAL}},
                                   {0}};
    session_open(&s, "ask", NULL,
                 WORDS("train.learning_rate=0", "eval.every=2", "eval.early_stopping_patience=3"), 900);
    s.story.orders = script;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_EARLY_STOPPED);
    assert_int_equal(s.story.step_count, 8);
    assert_non_null(strstr(s.story.results[1], "validation loss"));
    assert_string_equal(s.story.results[1], s.story.results[2]);
    session_close(&s);
}

/* ---- what is refused, and what goes wrong on the way ---- */

static void expect_refused(struct session *s, const char *part)
{
    struct err err = {0};
    assert_int_equal(session_try(s, &err), STATUS_USAGE);
    if (!strstr(err.text, part)) fail_msg("\"%s\" does not say \"%s\"", err.text, part);
    session_close(s);
}

TEST_CASE(a_vocabulary_smaller_than_the_tokenizers_is_refused)
{
    struct session s;
    session_open(&s, "vocabulary", NULL, WORDS("model.vocab_size=255"), 900);
    expect_refused(&s, "model.vocab_size = 255 is smaller than the tokenizer's 256 (set it to at least 256)");
}

TEST_CASE(a_token_outside_the_vocabulary_is_refused_whatever_is_said_about_the_file)
{
    for (int said = 0; said < 3; said++) {
        struct session s;
        session_open(&s, "token", NULL, NULL, 900);
        s.tokens[700] = UINT32_MAX;
        s.corpus.vocab_size = said ? 256 : 0;
        if (said < 2) {
            tokenizer_close(s.corpus.tokenizer);
            s.corpus.tokenizer = NULL;
        }
        expect_refused(&s, "corpus.tok: token 700 is 4294967295, but model.vocab_size = 256");
    }
}

TEST_CASE(a_corpus_shorter_than_a_sequence_is_refused)
{
    struct session s;
    session_open(&s, "short", NULL, NULL, 17);
    expect_refused(&s, "the corpus is too short");
    session_open(&s, "short", NULL, WORDS("data.val_fraction=0"), 16);
    expect_refused(&s, "16 tokens, but one sequence of seq_len 16 needs 17");
    session_open(&s, "short", NULL, NULL, 169); /* 153 to train on, 16 to validate with */
    expect_refused(&s, "16 validation tokens");
    session_open(&s, "short", NULL, NULL, 0);
    expect_refused(&s, "the corpus is too short");
}

/* 900 letters, 88 of them to validate with: 5 sequences, 2 a batch. */
TEST_CASE(a_split_whose_labels_are_all_padding_is_refused)
{
    struct session s;
    session_open(&s, "padding", NULL, WORDS("data.padding=7"), 900);
    for (int i = 800; i < 900; i++) s.tokens[i] = 7;
    expect_refused(&s, "data.padding = 7: all labels of the first 5 sequences of the validation split");
    session_open(&s, "padding", NULL, WORDS("data.padding=7", "eval.batches=1", "data.shuffle=none"), 900);
    for (int i = 800; i < 860; i++) s.tokens[i] = 7;
    expect_refused(&s, "data.padding = 7: all labels of the first 2 sequences of the validation split");
    session_open(&s, "padding", NULL, WORDS("data.padding=7"), 900);
    for (int i = 0; i < 820; i++) s.tokens[i] = 7;
    expect_refused(&s, "of the training split are padding");
    session_open(&s, "padding", NULL, WORDS("data.padding=7", "eval.every=4"), 900);
    for (int i = 800; i < 899; i++) s.tokens[i] = 7; /* one is left to learn */
    for (int i = 811; i < 900; i += 16) s.tokens[i] = 'x';
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_true(s.story.evals[0].val_loss > 0);
    session_close(&s);
}

TEST_CASE(the_shortest_corpus_trains)
{
    struct session s;
    session_open(&s, "shortest", NULL, WORDS("data.val_fraction=0"), 17);
    session_start(&s, false);
    assert_int_equal(trainer_sequences(s.trainer, TASK_TRAINING), 1);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    session_close(&s);
}

TEST_CASE(without_a_tokenizer_it_trains_and_says_why_it_does_not_sample)
{
    struct session s;
    struct story_order script[] = {{.at = 3, .order = {.id = 1, .verb = ORDER_SAMPLE}}, {0}};
    session_open(&s, "mute", NULL, WORDS("sample.every=2"), 900);
    tokenizer_close(s.corpus.tokenizer);
    s.corpus.tokenizer = NULL;
    s.story.orders = script;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_int_equal(s.story.sample_count, 0);
    assert_non_null(strstr(s.story.results[1], ORDER_REFUSED "there is no tokenizer"));
    session_close(&s);
}

TEST_CASE(a_checkpoint_that_cannot_be_written_does_not_stop_training)
{
    struct session s;
    struct err err = {0};
    enum train_outcome outcome;
    struct story_order script[] = {{.at = 6, .order = {.id = 1, .verb = ORDER_CHECKPOINT}}, {0}};
    session_open(&s, "blocked", NULL, WORDS("checkpoint.every=5", "data.val_fraction=0"), 900);
    rig_write(s.folder, "a file where the folder should be", 33);
    s.story.orders = script;
    session_start(&s, false);
    assert_int_not_equal(trainer_run(s.trainer, &outcome, &err),
                         STATUS_OK); /* the last one has to be written */
    assert_int_equal(s.story.step_count, 12);
    assert_int_equal(s.story.checkpoint_count, 0);
    assert_int_equal(s.story.event_count, 2); /* the first, and at the end how many */
    assert_string_equal(s.story.last_level, "error");
    assert_non_null(strstr(s.story.last_event, "2 checkpoints since step 5 could not be written"));
    assert_non_null(strstr(s.story.results[1], ORDER_FAILED "checkpoint at step 6: "));
    assert_non_null(strstr(s.story.results[1], "blocked"));
    assert_non_null(strstr(err.text, "blocked"));
    session_close(&s);
}

TEST_CASE(resuming_with_another_model_is_refused)
{
    struct session s;
    char path[4096];
    struct err err = {0};
    session_open(&s, "other", NULL, NULL, 900);
    session_start(&s, false);
    session_run(&s);
    s.config.model.sizes.intermediate_dim = 25;
    session_start(&s, false);
    assert_int_equal(checkpoint_find(s.folder, -1, path, sizeof path, &err), STATUS_OK);
    assert_int_equal(trainer_resume(s.trainer, path, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "model.intermediate_dim"));
    session_close(&s);
}

/* ---- validation tokens are never trained on ---- */

static struct {
    bool validation_in_training, validation_seen, training_seen;
} watched;

enum { VALIDATION_TOKEN = 200 };

static void watched_embedding_forward(void *out, const int32_t *tokens, struct matrix weight, int N, int V,
                                      int C, struct stream *stream)
{
    for (int i = 0; i < N; i++) watched.validation_seen |= tokens[i] == VALIDATION_TOKEN;
    cpu_backend()->embedding_forward(out, tokens, weight, N, V, C, stream);
}

static void watched_embedding_backward(float *dweight, const void *dout, const int32_t *tokens,
                                       void *workspace, int N, int V, int C, struct stream *stream)
{
    for (int i = 0; i < N; i++) watched.validation_in_training |= tokens[i] == VALIDATION_TOKEN;
    watched.training_seen = true;
    cpu_backend()->embedding_backward(dweight, dout, tokens, workspace, N, V, C, stream);
}

static void watched_cross_entropy(float *losses, struct matrix logits, const int32_t *targets,
                                  const struct step_control *control, int N, int V, struct stream *stream)
{
    for (int i = 0; i < N; i++) watched.validation_in_training |= targets[i] == VALIDATION_TOKEN;
    cpu_backend()->cross_entropy_fused(losses, logits, targets, control, N, V, stream);
}

TEST_CASE(validation_tokens_are_never_trained_on)
{
    static const char *const shuffles[] = {"data.shuffle=stride", "data.shuffle=random", "data.shuffle=none"};
    struct backend backend = *cpu_backend();
    backend.embedding_forward = watched_embedding_forward;
    backend.embedding_backward = watched_embedding_backward;
    backend.cross_entropy_fused = watched_cross_entropy;
    for (int i = 0; i < 6; i++) {
        struct session s;
        memset(&watched, 0, sizeof watched);
        session_open(&s, "held-out", &backend,
                     WORDS("data.val_fraction=0.25", "train.total_steps=60", "eval.every=30", shuffles[i % 3],
                           i < 3 ? "data.val_split=tail" : "data.val_split=blocks"),
                     800);
        for (int k = 600; i < 3 && k < 800; k++) s.tokens[k] = VALIDATION_TOKEN;
        for (int k = 0; i >= 3 && k < 12;
             k++) /* sequences 2, 6, 10, … of 48, apart by a token from each other */
            for (int t = 0; t <= 16; t++) s.tokens[(4 * k + 2) * 16 + 2 * k + 1 + t] = VALIDATION_TOKEN;
        session_start(&s, false);
        assert_int_equal(session_run(&s), TRAIN_FINISHED);
        assert_true(s.story.steps[59].epoch > 3); /* every training sequence was seen, the last one, too */
        assert_true(watched.training_seen && watched.validation_seen);
        assert_false(watched.validation_in_training);
        session_close(&s);
    }
}

TEST_MAIN()
