/* Rows of packed examples: each example once an epoch, whole, in few rows, always the same. */
#include <inttypes.h>

#include "datasets/examples.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

enum { T = 100, COUNT = 3000, MOST = 150 };

static uint32_t *lengths_new(uint64_t count)
{
    uint32_t *lengths = malloc(count * sizeof *lengths);
    uint64_t state = 5;
    for (uint64_t i = 0; i < count; i++) lengths[i] = 1 + (uint32_t)(noise_next(&state) % (i % 3 ? 30 : T));
    return lengths;
}

TEST_CASE(every_epoch_has_each_example_once_in_rows_that_are_nearly_full)
{
    uint32_t *lengths = lengths_new(COUNT);
    uint64_t places = 0, orders[2] = {0};
    struct packing p;
    struct err err = {0};
    for (int i = 0; i < COUNT; i++) places += lengths[i];
    assert_ok(packing_open(lengths, COUNT, T, 7, SHUFFLE_RANDOM, &p, &err), &err);
    assert_true(p.rows * T < places * 103 / 100); /* at most 3 % stay empty */
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        bool seen[COUNT] = {false};
        for (uint64_t row = 0; row < p.rows; row++) {
            uint64_t examples[PACKING_WINDOW], used = 0;
            int count = packing_row(&p, epoch * p.rows + row, examples);
            for (int i = 0; i < count; i++) {
                assert_false(seen[examples[i]]);
                seen[examples[i]] = true;
                used += lengths[examples[i]];
                orders[epoch] = orders[epoch] * 31 + examples[i];
            }
            assert_true(used > 0 && used <= T);
        }
        for (int i = 0; i < COUNT; i++) assert_true(seen[i]);
    }
    assert_true(orders[0] != orders[1]);
    packing_close(&p);
    free(lengths);
}

TEST_CASE(the_span_is_the_mean_length_over_all_places)
{
    uint32_t *lengths = lengths_new(COUNT);
    struct packing p;
    struct err err = {0};
    double sum = 0;
    assert_ok(packing_open(lengths, COUNT, T, 7, SHUFFLE_RANDOM, &p, &err), &err);
    for (uint64_t row = 0; row < p.rows; row++) {
        uint64_t examples[PACKING_WINDOW];
        double rest = T;
        for (int i = packing_row(&p, row, examples); i-- > 0;) {
            double length = lengths[examples[i]];
            sum += length * length;
            rest -= length;
        }
        sum += rest * rest;
    }
    double span = sum / ((double)p.rows * T);
    assert_true(span > 1 && span < T);
    assert_true(p.span > span * (1 - 1e-12) && p.span < span * (1 + 1e-12));
    packing_close(&p);
    free(lengths);
}

TEST_CASE(rows_are_a_function_of_lengths_and_seed)
{
    static const uint64_t counts[] = {1, 2, PACKING_WINDOW, PACKING_WINDOW + 1, 1000};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        uint32_t *lengths = lengths_new(counts[c]);
        struct packing one, other;
        struct err err = {0};
        assert_ok(packing_open(lengths, counts[c], T, 7, SHUFFLE_STRIDE, &one, &err), &err);
        assert_ok(packing_open(lengths, counts[c], T, 7, SHUFFLE_STRIDE, &other, &err), &err);
        assert_int_equal(one.rows, other.rows);
        for (uint64_t row = 2 * one.rows; row-- > 0;) { /* in any order of asking */
            uint64_t a[PACKING_WINDOW], b[PACKING_WINDOW];
            int n = packing_row(&one, row, a);
            assert_int_equal(packing_row(&other, row, b), n);
            assert_memory_equal(a, b, (size_t)n * sizeof *a);
        }
        packing_close(&one);
        packing_close(&other);
        free(lengths);
    }
}

/* A run that goes on with a newer version gets the rows that are left. */
TEST_CASE(rows_are_the_same_in_every_version)
{
    static const struct {
        enum shuffle shuffle;
        uint64_t rows, order;
    } cases[] = {{SHUFFLE_NONE, 826, 0x563c337127cbd400},
                 {SHUFFLE_STRIDE, 829, 0xcee579b1b58f1cf6},
                 {SHUFFLE_RANDOM, 829, 0xd0b19f6574daad38}};
    uint32_t *lengths = lengths_new(COUNT);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct packing p;
        struct err err = {0};
        uint64_t order = 0, examples[PACKING_WINDOW];
        assert_ok(packing_open(lengths, COUNT, T, 7, cases[c].shuffle, &p, &err), &err);
        for (uint64_t row = 0; row < 2 * p.rows; row++) {
            int count = packing_row(&p, row, examples);
            for (int i = 0; i < count; i++) order = order * 31 + examples[i];
            order = order * 31 + 7777;
        }
        if (p.rows != cases[c].rows || order != cases[c].order)
            fail_msg("%zu: %" PRIu64 ", 0x%016" PRIx64, c, p.rows, order);
        packing_close(&p);
    }
    free(lengths);
}

/* A corpus of examples: token i is i; of each example the first third is no answer. */
struct data {
    uint32_t *tokens, *runs;
    struct token_file file, runs_file;
    struct corpus corpus;
    uint64_t examples, labels; /* labels: of examples cut to T places */
};

static void open_data(struct data *d)
{
    uint64_t state = 9, at = 0;
    *d = (struct data){.tokens = malloc(COUNT * MOST * sizeof *d->tokens),
                       .runs = malloc(COUNT * 3 * sizeof *d->runs)};
    for (d->examples = 0; d->examples < COUNT / 3; d->examples++) {
        uint32_t n = 4 + (uint32_t)(noise_next(&state) % (MOST - 4)), first = n / 3, last = n > 20 ? 2 : 0;
        uint32_t runs[] = {2 + (last > 0), first, n - first - last, last};
        uint32_t end = n - last - 1; /* one past the last target that counts */
        for (uint32_t i = 0; i < 3 + (last > 0); i++) d->runs[d->runs_file.count++] = runs[i];
        for (uint32_t i = 0; i < n; i++, at++) d->tokens[at] = (uint32_t)at;
        if (end > T) end = T;
        if (end > first - 1) d->labels += end - (first - 1);
    }
    d->file = (struct token_file){.path = "tokens", .tokens = d->tokens, .count = at};
    d->runs_file.path = "runs";
    d->runs_file.tokens = d->runs;
    d->corpus = corpus_of(&d->file, 1);
    d->corpus.runs = &d->runs_file;
}

static void close_data(struct data *d)
{
    free(d->tokens);
    free(d->runs);
}

TEST_CASE(targets_are_the_answers_and_the_rest_does_not_count)
{
    struct data d;
    struct example_rows train, held;
    struct err err = {0};
    enum { B = 3 };
    int32_t inputs[B * T], targets[B * T], positions[B * T];
    open_data(&d);
    assert_ok(examples_check(&d.corpus, &err), &err);
    assert_ok(example_rows_open(&d.corpus, &(struct split_rule){VAL_BLOCKS, 0, T, 3, SHUFFLE_RANDOM}, false,
                                &train, &held, &err),
              &err);
    assert_int_equal(train.count, d.examples);
    assert_int_equal(held.count, 0);
    assert_true(train.cut > 100);
    struct batch_source source = example_rows_source(&train);
    uint64_t counted = 0;
    for (uint64_t cursor = 0; cursor < train.packing.rows; cursor += B) {
        int b = train.packing.rows - cursor < B ? (int)(train.packing.rows - cursor) : B;
        uint64_t here = 0;
        source.fill(source.context, cursor, b, inputs, targets, positions);
        for (int i = 0; i < b * T; i++) {
            assert_int_equal(positions[i] == 0 || (i % T && positions[i] == positions[i - 1] + 1), 1);
            if (targets[i] == LABEL_IGNORED) continue;
            assert_int_equal(targets[i], inputs[i] + 1); /* the next token of the same example */
            here++;
        }
        assert_int_equal(source.labels(source.context, cursor, (uint64_t)b), here);
        counted += here;
    }
    assert_int_equal(counted, d.labels);
    example_rows_close(&train);
    close_data(&d);
}

TEST_CASE(parts_share_no_example)
{
    struct data d;
    struct err err = {0};
    open_data(&d);
    for (enum val_split split = VAL_BLOCKS; split <= VAL_TAIL; split++) {
        struct example_rows train, held;
        assert_ok(example_rows_open(&d.corpus, &(struct split_rule){split, 0.1, T, 3, SHUFFLE_STRIDE}, false,
                                    &train, &held, &err),
                  &err);
        assert_int_equal(held.count, d.examples / 10);
        assert_int_equal(train.count + held.count, d.examples);
        uint64_t last = train.examples[train.count - 1].token;
        assert_int_equal(held.examples[0].token > last, split == VAL_TAIL);
        for (uint64_t i = 0, j = 0; i < held.count; i++) {
            while (j < train.count && train.examples[j].token < held.examples[i].token) j++;
            assert_true(j == train.count || train.examples[j].token != held.examples[i].token);
        }
        example_rows_close(&train);
        example_rows_close(&held);
    }
    close_data(&d);
}

/* An evaluation may read a few rows alone. */
TEST_CASE(the_first_rows_of_validation_are_a_sample)
{
    struct data d;
    struct example_rows train, held;
    struct err err = {0};
    uint64_t examples[PACKING_WINDOW];
    int several = 0;
    open_data(&d);
    assert_ok(example_rows_open(&d.corpus, &(struct split_rule){VAL_BLOCKS, 0.5, T, 3, SHUFFLE_NONE}, false,
                                &train, &held, &err),
              &err);
    for (uint64_t row = 0; row < 10; row++) several += packing_row(&held.packing, row, examples) > 1;
    assert_true(several > 0); /* the longest examples fill a row each */
    example_rows_close(&train);
    example_rows_close(&held);
    close_data(&d);
}

TEST_CASE(long_examples_are_refused_on_request)
{
    struct data d;
    struct example_rows train, held;
    struct err err = {0};
    open_data(&d);
    assert_int_equal(example_rows_open(&d.corpus, &(struct split_rule){VAL_BLOCKS, 0.1, T, 3, SHUFFLE_STRIDE},
                                       true, &train, &held, &err),
                     STATUS_USAGE);
    assert_non_null(strstr(err.text, "but a row has room for 101 (raise train.seq_len"));
    close_data(&d);
}

/* Examples by hand: of each the tokens before the answer, and those of it. Token i is i. */
struct small {
    uint32_t tokens[64], runs[32];
    struct token_file file, runs_file;
    struct corpus corpus;
};

static void open_small(struct small *s, const uint32_t (*examples)[2], size_t count)
{
    *s = (struct small){.file.path = "tokens", .runs_file.path = "runs"};
    for (size_t i = 0; i < count; i++) {
        s->runs[s->runs_file.count++] = 2;
        for (int k = 0; k < 2; k++) {
            s->runs[s->runs_file.count++] = examples[i][k];
            s->file.count += examples[i][k];
        }
    }
    for (uint32_t i = 0; i < s->file.count; i++) s->tokens[i] = i;
    s->file.tokens = s->tokens;
    s->runs_file.tokens = s->runs;
    s->corpus = corpus_of(&s->file, 1);
    s->corpus.runs = &s->runs_file;
}

static enum status open_rows(const struct small *s, double fraction, bool refuse, struct example_rows *train,
                             struct example_rows *held, struct err *err)
{
    return example_rows_open(&s->corpus, &(struct split_rule){VAL_TAIL, fraction, 8, 3, SHUFFLE_NONE}, refuse,
                             train, held, err);
}

TEST_CASE(what_is_cut_and_left_out_is_counted)
{
    static const uint32_t examples[][2] = {{3, 2}, {10, 4}, {6, 5}, {5, 4}, {9, 2}};
    struct small s;
    struct example_rows train, held;
    struct err err = {0};
    open_small(&s, examples, 5);
    assert_int_equal(examples_end(&s.corpus), 4);
    assert_ok(open_rows(&s, 0, false, &train, &held, &err), &err);
    assert_int_equal(train.count, 3);
    assert_int_equal(train.lengths[0], 4);
    assert_int_equal(train.lengths[1], 8);
    assert_int_equal(train.lengths[2], 8); /* 9 tokens have 8 places */
    assert_int_equal(train.cut, 3);
    assert_int_equal(train.empty, 2); /* their answers begin behind the eighth place */
    assert_int_equal(train.lost, 4 + 2 + 2);
    example_rows_close(&train);
    assert_int_equal(open_rows(&s, 0, true, &train, &held, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "example 2 has 14 tokens, but a row has room for 9"));
}

TEST_CASE(a_part_without_an_answer_is_refused_with_the_remedy)
{
    static const uint32_t late[][2] = {{10, 4}, {9, 1}}, good[][2] = {{3, 2}, {3, 2}};
    struct small s, other;
    struct example_rows train, held;
    struct err err = {0};
    open_small(&s, late, 2);
    assert_int_equal(open_rows(&s, 0, false, &train, &held, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "none with an answer within the first 8 tokens is left for training "
                                     "(give more examples, or raise train.seq_len)"));
    open_small(&s, good, 2);
    assert_int_equal(open_rows(&s, 0.1, false, &train, &held, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "is left for validation (give more examples, or set another "
                                     "data.val_fraction, or raise train.seq_len)"));
    open_small(&other, late, 2);
    s.corpus.validation = &other.corpus;
    assert_int_equal(open_rows(&s, 0.1, false, &train, &held, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "is left for validation (give more examples, or raise"));
}

TEST_CASE(validation_data_of_their_own_take_nothing_from_training)
{
    static const uint32_t three[][2] = {{3, 2}, {2, 3}, {4, 1}}, two[][2] = {{1, 1}, {1, 2}};
    struct small s, other;
    struct example_rows train, held;
    struct err err = {0};
    open_small(&s, three, 3);
    open_small(&other, two, 2);
    s.corpus.validation = &other.corpus;
    assert_ok(open_rows(&s, 0.5, false, &train, &held, &err), &err);
    assert_int_equal(train.count, 3);
    assert_int_equal(held.count, 2);
    assert_int_equal(held.lengths[1], 2);
    example_rows_close(&train);
    example_rows_close(&held);
}

TEST_CASE(an_example_alone_fills_a_row)
{
    enum { NO = LABEL_IGNORED };
    static const uint32_t examples[][2] = {{2, 2}, {3, 2}, {6, 9}};
    static const int32_t wanted[][3][9] = {
        {{4, 5, 6, 7, 0, 0, 0, 0, 99}, {NO, NO, 7, 8, NO, NO, NO, NO, 99}, {0, 1, 2, 3, 0, 1, 2, 3, 99}},
        {{9, 10, 11, 12, 13, 14, 15, 16, 99},
         {NO, NO, NO, NO, NO, 15, 16, 17, 99},
         {0, 1, 2, 3, 4, 5, 6, 7, 99}},
    };
    struct small s;
    struct example_rows train, held;
    struct err err = {0};
    open_small(&s, examples, 3);
    assert_ok(open_rows(&s, 0, false, &train, &held, &err), &err);
    for (uint64_t i = 0; i < 2; i++) {
        int32_t row[3][9];
        for (int k = 0; k < 27; k++) row[k / 9][k % 9] = 99; /* the ninth stays */
        example_rows_single(&train, i + 1, row[0], row[1], row[2]);
        assert_memory_equal(row, wanted[i], sizeof row);
    }
    example_rows_close(&train);
}

TEST_CASE(damaged_runs_are_refused)
{
    struct data d;
    struct err err = {0};
    open_data(&d);
    static const uint32_t damage[] = {0, 5, UINT32_MAX};
    for (int i = 0; i < 3; i++)
        for (int at = 0; at < 4; at++) {
            uint32_t kept = d.runs[at];
            d.runs[at] = damage[i] == kept ? kept + 1 : damage[i];
            assert_int_equal(examples_check(&d.corpus, &err), STATUS_CORRUPT);
            d.runs[at] = kept;
        }
    d.runs_file.count--;
    assert_int_equal(examples_check(&d.corpus, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.text, "runs: does not match tokens"));
    close_data(&d);
}

TEST_MAIN()
