/* The prefetch thread: the same batches as without it, for requests in any order, and it always ends. */
#include <limits.h>

#include "datasets/prefetch.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

enum { TOKENS = 4001, B = 4, T = 8 };

struct data {
    uint32_t wide[TOKENS];
    uint16_t narrow[TOKENS];
    struct token_file files[2];
    struct split train, validation;
};

static int open_data(void **state)
{
    struct data *d = calloc(1, sizeof *d);
    struct err err = {0};
    if (!d) return -1;
    for (int i = 0; i < TOKENS; i++) {
        d->wide[i] = (uint32_t)i;
        d->narrow[i] = (uint16_t)(10000 + i);
    }
    d->files[0] = (struct token_file){.tokens = d->wide, .count = TOKENS};
    d->files[1] = (struct token_file){.narrow = d->narrow, .count = TOKENS};
    struct corpus corpus = corpus_of(d->files, 2);
    assert_ok(split_corpus(&corpus, &(struct split_rule){VAL_TAIL, 0.1, T, 77, SHUFFLE_RANDOM}, &d->train,
                           &d->validation, &err),
              &err);
    *state = d;
    return 0;
}

static int close_data(void **state)
{
    struct data *d = *state;
    split_release(&d->train);
    split_release(&d->validation);
    free(d);
    return 0;
}

static void assert_batch(struct prefetch *prefetch, const struct split *split, uint64_t cursor, int b)
{
    int32_t inputs[B * T], targets[B * T];
    split_batch(split, cursor, b, inputs, targets);
    struct prefetched got = prefetch_take(prefetch, cursor, b);
    assert_memory_equal(got.inputs, inputs, (size_t)b * T * sizeof *inputs);
    assert_memory_equal(got.targets, targets, (size_t)b * T * sizeof *targets);
    assert_null(got.positions);
}

static struct prefetch *open_on(const struct split *split, bool async)
{
    struct prefetch *prefetch;
    struct err err = {0};
    assert_ok(prefetch_open(split_source(split), B, async, &prefetch, &err), &err);
    return prefetch;
}

TEST_CASE(batches_are_those_that_are_cut_without_it)
{
    struct data *d = *state;
    for (int async = 0; async < 2; async++) {
        struct prefetch *prefetch = open_on(&d->train, async);
        for (uint64_t cursor = 0; cursor < 5 * d->train.sequences; cursor += B) /* over five epochs */
            assert_batch(prefetch, &d->train, cursor, B);
        prefetch_close(prefetch);
    }
}

TEST_CASE(a_resumed_run_begins_in_the_midst)
{
    struct data *d = *state;
    struct prefetch *prefetch = open_on(&d->train, true);
    for (uint64_t cursor = 12347; cursor < 12347 + 50 * B; cursor += B)
        assert_batch(prefetch, &d->train, cursor, B);
    prefetch_close(prefetch);
}

/* A rank's part of each step: two batches, then a gap. They are expected, so none is cut twice. */
static _Atomic int cut;

static void fill_counted(const void *context, uint64_t cursor, int b, int32_t *inputs, int32_t *targets,
                         int32_t *positions)
{
    (void)positions;
    cut++;
    split_batch(context, cursor, b, inputs, targets);
}

TEST_CASE(the_batches_of_a_part_of_each_step_are_expected)
{
    struct data *d = *state;
    enum { STEPS = 40, FIRST = 7, ROWS = 3 * B + 1 };
    struct batch_source source = split_source(&d->train);
    struct prefetch *prefetch;
    struct err err = {0};
    source.fill = fill_counted;
    cut = 0;
    assert_ok(prefetch_open(source, B, true, &prefetch, &err), &err);
    prefetch_expect_steps(prefetch, 2, ROWS);
    for (uint64_t step = 0; step < STEPS; step++)
        for (uint64_t i = 0; i < 2; i++) assert_batch(prefetch, &d->train, step * ROWS + FIRST + i * B, B);
    prefetch_close(prefetch);
    assert_in_range(cut, 2 * STEPS, 2 * STEPS + 4); /* and those ahead */
}

TEST_CASE(another_length_of_the_steps_takes_effect_at_once)
{
    struct data *d = *state;
    struct prefetch *prefetch = open_on(&d->train, true);
    uint64_t cursor = 0;
    for (int i = 0; i < 300; i++) {
        prefetch_expect_steps(prefetch, 1, (uint64_t)(1 + i % 3) * B);
        for (int k = 0; k < 3; k++, cursor += (uint64_t)(1 + i % 3) * B)
            assert_batch(prefetch, &d->train, cursor, B);
    }
    prefetch_close(prefetch);
}

/* A file that was changed after it was measured. */
TEST_CASE(ids_that_the_model_does_not_have_are_replaced_and_reported)
{
    (void)state;
    enum { SMALL = 10, NARROW = 8, PAD = 3, COUNT = 2 * B * T + 1 };
    uint32_t tokens[COUNT];
    struct token_file file = {.tokens = tokens, .count = COUNT};
    struct corpus corpus = corpus_of(&file, 1);
    struct split train, none;
    struct err err = {0};
    for (int i = 0; i < COUNT; i++) tokens[i] = (uint32_t)i % NARROW;
    tokens[5] = 600;
    tokens[11] = 0x90000001;
    tokens[17] = NARROW; /* an input, and not a target */
    tokens[20] = 0;
    tokens[21] = PAD;
    assert_ok(
        split_corpus(&corpus, &(struct split_rule){VAL_TAIL, 0, T, 1, SHUFFLE_NONE}, &train, &none, &err),
        &err);
    train.padding = PAD;
    for (int async = 0; async < 2; async++) {
        struct prefetch *prefetch = open_on(&train, async);
        assert_int_equal(prefetch_strange_id(prefetch), -1);
        prefetch_expect_ids(prefetch, SMALL, NARROW);
        struct prefetched got = prefetch_take(prefetch, 0, B);
        for (int i = 0; i < B * T; i++) {
            bool input = tokens[i] < SMALL, target = tokens[i + 1] < NARROW && tokens[i + 1] != PAD;
            assert_int_equal(got.inputs[i], input ? tokens[i] : 0);
            assert_int_equal(got.targets[i], target ? (int64_t)tokens[i + 1] : LABEL_IGNORED);
        }
        assert_int_equal(prefetch_strange_id(prefetch), NARROW); /* the newest */
        prefetch_take(prefetch, B, B);
        assert_int_equal(prefetch_strange_id(prefetch), NARROW); /* there was one */
        prefetch_expect_ids(prefetch, SMALL, SMALL);
        prefetch_take(prefetch, 0, B);
        assert_int_equal(prefetch_strange_id(prefetch), 0x90000001); /* of any size */
        prefetch_close(prefetch);
    }
    split_release(&train);
}

TEST_CASE(any_cursor_is_served)
{
    struct data *d = *state;
    struct prefetch *prefetch = open_on(&d->train, true);
    uint64_t noise = 5, cursor = 0;
    for (int i = 0; i < 3000; i++) {
        assert_batch(prefetch, &d->train, cursor, B);
        cursor = noise_next(&noise) % 3 ? cursor + B : noise_next(&noise) % 100000;
    }
    for (int i = 0; i < 5; i++) assert_batch(prefetch, &d->train, 17, B); /* the same one again */
    prefetch_close(prefetch);
}

/* An evaluation reads the first batches of the validation split, the last of them short, and later again. */
TEST_CASE(evaluations_start_over_and_end_in_a_short_batch)
{
    struct data *d = *state;
    struct prefetch *train = open_on(&d->train, true), *validation = open_on(&d->validation, true);
    uint64_t trained = 0;
    assert_int_not_equal(d->validation.sequences % B, 0);
    for (int evaluation = 0; evaluation < 4; evaluation++) {
        for (int step = 0; step < 10; step++, trained += B) assert_batch(train, &d->train, trained, B);
        for (uint64_t left = d->validation.sequences, cursor = 0; left;) {
            int b = left < B ? (int)left : B;
            assert_batch(validation, &d->validation, cursor, b);
            cursor += (uint64_t)b;
            left -= (uint64_t)b;
        }
    }
    prefetch_close(train);
    prefetch_close(validation);
}

/* A batch in use does not change while the thread continues: only its user frees the slot. */
TEST_CASE(a_batch_stays_until_the_next_is_taken)
{
    struct data *d = *state;
    struct prefetch *prefetch = open_on(&d->train, true);
    int32_t copy[B * T];
    for (uint64_t cursor = 0; cursor < 500 * B; cursor += B) {
        const int32_t *inputs = prefetch_take(prefetch, cursor, B).inputs;
        memcpy(copy, inputs, sizeof copy);
        struct prefetch *other = cursor % (50 * B) ? NULL : open_on(&d->train, true);
        if (other)
            assert_batch(other, &d->train, 0, B); /* gives the first one's thread all the time it wants */
        prefetch_close(other);
        assert_memory_equal(inputs, copy, sizeof copy);
    }
    prefetch_close(prefetch);
}

TEST_CASE(it_ends_at_any_moment)
{
    struct data *d = *state;
    for (int taken = 0; taken < 60; taken++) {
        struct prefetch *prefetch = open_on(&d->train, true);
        for (int i = 0; i < taken % 6; i++) assert_batch(prefetch, &d->train, (uint64_t)(taken + i * B), B);
        prefetch_close(prefetch);
    }
    prefetch_close(NULL); /* harmless */
}

TEST_CASE(waits_are_counted)
{
    struct data *d = *state;
    struct prefetch *with = open_on(&d->train, true), *without = open_on(&d->train, false);
    for (uint64_t i = 0; i < 20; i++) {
        assert_batch(with, &d->train, i * 1000, B); /* never the expected one */
        assert_batch(without, &d->train, i * B, B);
    }
    assert_true(prefetch_waited(with) > 0);
    assert_true(prefetch_waited(without) > 0);
    prefetch_close(with);
    prefetch_close(without);
}

TEST_CASE(batches_that_no_memory_holds_are_an_error)
{
    struct data *d = *state;
    struct split split = d->train;
    struct prefetch *prefetch = (struct prefetch *)d; /* untouched */
    struct err err = {0};
    split.seq_len = INT_MAX;
    assert_int_equal(prefetch_open(split_source(&split), INT_MAX, true, &prefetch, &err), STATUS_NO_MEMORY);
    assert_ptr_equal(prefetch, d);
    assert_non_null(strstr(err.text, "no memory for 3 batches"));
    split.seq_len = 1824726041; /* a few bytes beyond 2^64 */
    assert_int_equal(prefetch_open(split_source(&split), 421221772, true, &prefetch, &err), STATUS_NO_MEMORY);
}

int main(void)
{
    return TEST_RUN(open_data, close_data);
}
