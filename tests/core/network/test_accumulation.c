/* Micro-batches add up to the large batch, also if some labels do not count. */
#include <math.h>

#include "tests/cmocka.h"
#include "tests/core/train/story.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST_CASE(accumulation_is_the_large_batch)
{
    struct session large, small;
    session_open(&large, "large", NULL, WORDS("train.batch_size=6", "data.shuffle=none"), 900);
    session_open(&small, "small", NULL, WORDS("train.accumulation_steps=3", "data.shuffle=none"), 900);
    session_start(&large, false);
    session_start(&small, false);
    session_run(&large);
    session_run(&small);
    for (int i = 0; i < 12; i++) {
        const struct step_record *a = &large.story.steps[i], *b = &small.story.steps[i];
        assert_int_equal(a->tokens, b->tokens);
        assert_true(fabs(a->loss - b->loss) < 2e-5 * a->loss); /* another order of sums, twelve steps long */
        assert_true(fabs(a->grad_norm - b->grad_norm) < 2e-4 * a->grad_norm);
    }
    session_close(&large);
    session_close(&small);
}

/* The story's text has spaces at odd distances, so that micro-batches differ in how many labels count. */
TEST_CASE(accumulation_is_the_large_batch_also_where_labels_do_not_count)
{
    static const char *const large_words[] = {"train.batch_size=6", "data.shuffle=none", "data.padding=32",
                                              "eval.every=4", NULL};
    static const char *const small_words[] = {"train.accumulation_steps=3", "data.shuffle=none",
                                              "data.padding=32", "eval.every=4", NULL};
    struct session large, small, plain;
    session_open(&large, "large", NULL, large_words, 900);
    session_open(&small, "small", NULL, small_words, 900);
    session_open(&plain, "plain", NULL, WORDS("train.batch_size=6", "data.shuffle=none"), 900);
    session_start(&large, false);
    session_start(&small, false);
    session_start(&plain, false);
    session_run(&large);
    session_run(&small);
    session_run(&plain);
    for (int i = 0; i < 12; i++) {
        const struct step_record *a = &large.story.steps[i], *b = &small.story.steps[i];
        assert_int_equal(a->tokens, b->tokens);
        assert_true(fabs(a->loss - b->loss) < 2e-5 * a->loss);
        assert_true(fabs(a->grad_norm - b->grad_norm) < 2e-4 * a->grad_norm);
    }
    /* the first loss is a mean over other labels: close to the mean of all, but not equal */
    double padded = large.story.steps[0].loss, all = plain.story.steps[0].loss;
    assert_true(padded != all && fabs(padded - all) < 0.2 * all);
    for (int i = 0; i < 3; i++) { /* evaluations in batches of 6 and 2: the same labels */
        double a = large.story.evals[i].val_loss, b = small.story.evals[i].val_loss;
        assert_true(fabs(a - b) < 2e-5 * a);
    }
    session_close(&large);
    session_close(&small);
    session_close(&plain);
}

TEST_MAIN()
