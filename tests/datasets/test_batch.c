/* Batches: shuffles are permutations and the same on every machine; training never reads the validation
 * tail. */
#include <math.h>

#include <stdbool.h>

#include "datasets/batch.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

static const uint64_t sizes[] = {1,   2,   3,   4,   5,    7,    8,    13,   16,   31,    64,    97,
                                 100, 127, 128, 256, 1000, 1023, 1024, 1025, 4099, 65536, 65537, 100003};

static struct split split_of(uint64_t sequences, uint64_t seed, enum shuffle shuffle)
{
    return (struct split){.sequences = sequences, .seq_len = 1, .seed = seed, .shuffle = shuffle};
}

static void assert_permutation(uint64_t n, uint64_t seed, uint64_t epoch, enum shuffle shuffle)
{
    struct split split = split_of(n, seed, shuffle);
    unsigned char *seen = calloc(n, 1);
    assert_non_null(seen);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t place = split_permute(&split, epoch, i);
        assert_true(place < n);
        assert_int_equal(seen[place]++, 0);
    }
    free(seen);
}

TEST_CASE(every_shuffle_visits_every_sequence_once)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int shuffle = SHUFFLE_STRIDE; shuffle <= SHUFFLE_NONE; shuffle++) {
            assert_permutation(sizes[i], 1337, 0, (enum shuffle)shuffle);
            assert_permutation(sizes[i], 0, 1, (enum shuffle)shuffle);
        }
        if (sizes[i] < 2000) assert_permutation(sizes[i], UINT64_MAX, UINT64_MAX, SHUFFLE_RANDOM);
    }
    for (uint64_t n = 1; n < 200; n++) {
        assert_permutation(n, n, 3, SHUFFLE_STRIDE);
        assert_permutation(n, n, 3, SHUFFLE_RANDOM);
    }
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

TEST_CASE(huge_splits_do_not_overflow)
{
    static const uint64_t huge[] = {(1ull << 32) - 1, 1ull << 32,      (1ull << 32) + 15, 1000000000039ull,
                                    1ull << 63,       UINT64_MAX - 58, UINT64_MAX};
    enum { SAMPLES = 3000 };
    uint64_t *places = malloc(SAMPLES * sizeof *places);
    assert_non_null(places);
    for (size_t h = 0; h < sizeof huge / sizeof *huge; h++)
        for (int shuffle = SHUFFLE_STRIDE; shuffle <= SHUFFLE_RANDOM; shuffle++) {
            struct split split = split_of(huge[h], 42, (enum shuffle)shuffle);
            for (uint64_t i = 0; i < SAMPLES; i++) {
                uint64_t index = i < SAMPLES / 2 ? i : huge[h] - 1 - (i - SAMPLES / 2); /* both ends */
                places[i] = split_permute(&split, 9, index);
                assert_true(places[i] < huge[h]);
            }
            qsort(places, SAMPLES, sizeof *places, by_value);
            for (int i = 1; i < SAMPLES; i++) assert_true(places[i - 1] != places[i]);
        }
    free(places);
}

TEST_CASE(the_order_is_the_same_on_every_machine)
{
    static const uint64_t stride[] = {31, 648, 265, 882, 499, 116, 733, 350},
                          random[] = {180, 491, 406, 215, 423, 772, 472, 601};
    struct split split = split_of(1000, 1337, SHUFFLE_STRIDE);
    for (uint64_t i = 0; i < 8; i++) assert_int_equal(split_permute(&split, 2, i), stride[i]);
    split.shuffle = SHUFFLE_RANDOM;
    for (uint64_t i = 0; i < 8; i++) assert_int_equal(split_permute(&split, 2, i), random[i]);
    split.shuffle = SHUFFLE_NONE;
    for (uint64_t i = 0; i < 8; i++) assert_int_equal(split_permute(&split, 2, i), i);
}

TEST_CASE(the_stride_is_near_the_golden_section)
{
    struct split split = split_of(100000, 5, SHUFFLE_STRIDE);
    uint64_t stride = (split_permute(&split, 0, 1) + 100000 - split_permute(&split, 0, 0)) % 100000;
    assert_int_equal(stride, 61803); /* 100000/φ = 61803.4, and 61803 is coprime to 100000 */
}

TEST_CASE(seed_and_epoch_change_the_order)
{
    for (int shuffle = SHUFFLE_STRIDE; shuffle <= SHUFFLE_RANDOM; shuffle++) {
        struct split a = split_of(10007, 1, (enum shuffle)shuffle),
                     b = split_of(10007, 2, (enum shuffle)shuffle);
        int same_epoch = 0, same_seed = 0;
        for (uint64_t i = 0; i < 1000; i++) {
            same_seed += split_permute(&a, 0, i) == split_permute(&a, 1, i);
            same_epoch += split_permute(&a, 0, i) == split_permute(&b, 0, i);
        }
        assert_true(same_seed < 10);
        assert_true(same_epoch < 10);
    }
}

static uint32_t *numbers(uint64_t count)
{
    uint32_t *tokens = malloc(count * sizeof *tokens);
    assert_non_null(tokens);
    for (uint64_t i = 0; i < count; i++) tokens[i] = (uint32_t)i;
    return tokens;
}

static enum status cut(const uint32_t *tokens, uint64_t count, double val_fraction, int T, uint64_t seed,
                       enum shuffle shuffle, struct split *train, struct split *validation, struct err *err)
{
    struct token_file file = {.tokens = tokens, .count = count};
    struct corpus corpus = corpus_of(&file, 1);
    return split_corpus(&corpus, &(struct split_rule){VAL_TAIL, val_fraction, T, seed, shuffle}, train,
                        validation, err);
}

static void release(struct split *train, struct split *validation)
{
    split_release(train);
    split_release(validation);
}

TEST_CASE(a_sequence_is_cut_where_the_contract_says)
{
    uint32_t *tokens = numbers(101);
    struct split train, validation;
    struct err err = {0};
    int32_t inputs[2 * 10], targets[2 * 10];
    assert_ok(cut(tokens, 101, 0, 10, 1, SHUFFLE_NONE, &train, &validation, &err), &err);
    assert_int_equal(train.sequences, 10);
    assert_int_equal(validation.sequences, 0);
    split_batch(&train, 3, 2, inputs, targets);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(inputs[i], 30 + i);
        assert_int_equal(targets[i], 31 + i);
    }
    split_batch(&train, 9, 2, inputs, targets); /* the second sequence belongs to the next epoch */
    assert_int_equal(inputs[0], 90);
    assert_int_equal(targets[9], 100);
    assert_int_equal(inputs[10], 0);
    release(&train, &validation);
    free(tokens);
}

TEST_CASE(an_epoch_trains_on_every_sequence_and_a_batch_may_span_two)
{
    uint32_t *tokens = numbers(1000);
    struct split train, validation;
    struct err err = {0};
    enum { T = 7, B = 5 };
    int32_t inputs[B * T], targets[B * T];
    assert_ok(cut(tokens, 1000, 0.1, T, 3, SHUFFLE_RANDOM, &train, &validation, &err), &err);
    uint64_t n = train.sequences;
    int *seen = calloc(n, sizeof *seen);
    for (uint64_t cursor = 0; cursor < 5 * n; cursor += B) {
        split_batch(&train, cursor, B, inputs, targets);
        for (int b = 0; b < B; b++) {
            assert_int_equal(inputs[b * T] % T, 0);
            seen[inputs[b * T] / T]++;
            for (int t = 0; t < T; t++) assert_int_equal(targets[b * T + t], inputs[b * T + t] + 1);
        }
    }
    for (uint64_t i = 0; i < n; i++) assert_int_equal(seen[i], 5);
    free(seen);
    release(&train, &validation);
    free(tokens);
}

TEST_CASE(training_never_sees_the_validation_tail)
{
    for (uint64_t count = 50; count < 400; count += 37)
        for (int T = 1; T < 12; T += 3) {
            uint32_t *tokens = numbers(count);
            struct split train, validation;
            struct err err = {0};
            int32_t inputs[12], targets[12], largest = -1, least = INT32_MAX;
            assert_ok(cut(tokens, count, 0.3, T, count, SHUFFLE_STRIDE, &train, &validation, &err), &err);
            assert_int_equal(train.token_count + validation.token_count, count);
            for (uint64_t i = 0; i < train.sequences; i++) {
                split_batch(&train, i, 1, inputs, targets);
                if (targets[T - 1] > largest) largest = targets[T - 1];
            }
            for (uint64_t i = 0; i < validation.sequences; i++) {
                split_batch(&validation, i, 1, inputs, targets);
                if (inputs[0] < least) least = inputs[0];
                assert_true((uint64_t)targets[T - 1] < count);
            }
            assert_true(largest < least);
            release(&train, &validation);
            free(tokens);
        }
}

TEST_CASE(a_corpus_that_is_too_short_is_an_error_with_both_numbers)
{
    uint32_t tokens[20] = {0};
    struct split train = {.seed = 77}, validation;
    struct err err = {0};
    assert_int_equal(cut(tokens, 10, 0, 10, 0, SHUFFLE_NONE, &train, &validation, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "10 tokens"));
    assert_non_null(strstr(err.text, "11"));
    assert_int_equal(train.seed, 77); /* untouched */
    assert_ok(cut(tokens, 11, 0, 10, 0, SHUFFLE_NONE, &train, &validation, &err), &err);
    release(&train, &validation);
    assert_int_equal(cut(tokens, 20, 0.2, 10, 0, SHUFFLE_NONE, &train, &validation, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "4 validation tokens"));
    assert_int_equal(cut(tokens, 0, 0, 10, 0, SHUFFLE_NONE, &train, &validation, &err), STATUS_USAGE);
    assert_int_equal(cut(tokens, 20, 1.0, 10, 0, SHUFFLE_NONE, &train, &validation, &err), STATUS_USAGE);
    assert_int_equal(cut(tokens, 20, -0.1, 10, 0, SHUFFLE_NONE, &train, &validation, &err), STATUS_USAGE);
    assert_int_equal(cut(tokens, 20, 0.0 / 0.0, 10, 0, SHUFFLE_NONE, &train, &validation, &err),
                     STATUS_USAGE);
    assert_int_equal(cut(tokens, 20, 0, 0, 0, SHUFFLE_NONE, &train, &validation, &err), STATUS_USAGE);
    assert_int_equal(cut(tokens, 20, 0, INT32_MAX, 0, SHUFFLE_NONE, &train, &validation, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "2147483648"));
}

/* For both widths: an ignored label is -100 in the batch and not counted; inputs are unchanged. */
TEST_CASE(padding_does_not_count_as_a_label)
{
    enum { N = 61, T = 10, PAD = 0 };
    uint32_t wide[N];
    uint16_t narrow[N];
    for (int i = 0; i < N; i++) wide[i] = narrow[i] = (uint16_t)(i * i % 7 == 4 ? PAD : 10 + i);
    for (int is_narrow = 0; is_narrow < 2; is_narrow++) {
        struct token_file file = {
            .tokens = is_narrow ? NULL : wide, .narrow = is_narrow ? narrow : NULL, .count = N};
        struct split train, validation;
        int32_t inputs[2 * T], targets[2 * T];
        uint64_t counted = 0;
        struct corpus corpus = corpus_of(&file, 1);
        assert_int_equal(split_corpus(&corpus, &(struct split_rule){VAL_TAIL, 0, T, 5, SHUFFLE_RANDOM},
                                      &train, &validation, NULL),
                         STATUS_OK);
        assert_int_equal(split_source(&train).labels(&train, 0, 6), 6 * T);
        train.padding = PAD;
        for (uint64_t cursor = 0; cursor < 12; cursor += 2) { /* two epochs */
            uint64_t here = 0;
            split_batch(&train, cursor, 2, inputs, targets);
            for (int i = 0; i < 2 * T; i++) {
                assert_true(targets[i] != PAD && inputs[i] != LABEL_IGNORED);
                if (i % T) assert_true(targets[i - 1] == (inputs[i] == PAD ? LABEL_IGNORED : inputs[i]));
                here += targets[i] != LABEL_IGNORED;
            }
            assert_int_equal(split_source(&train).labels(&train, cursor, 2), here);
            counted += here;
        }
        uint64_t all = 0;
        for (int i = 1; i <= 6 * T; i++) all += wide[i] != PAD;
        assert_int_equal(counted, 2 * all);
        assert_true(all < 6 * T);
        split_release(&train);
        split_release(&validation);
    }
}

TEST_CASE(a_share_or_length_that_means_nothing_is_refused)
{
    static const double fractions[] = {-0.1, 1, 1.5, NAN};
    uint32_t tokens[20] = {0};
    struct token_file file = {.tokens = tokens, .count = 20};
    struct corpus corpus = corpus_of(&file, 1);
    struct split train, held;
    struct err err = {0};
    for (size_t i = 0; i < sizeof fractions / sizeof *fractions; i++) {
        struct split_rule rule = {VAL_TAIL, fractions[i], 4, 0, SHUFFLE_NONE};
        assert_int_equal(split_corpus(&corpus, &rule, &train, &held, &err), STATUS_USAGE);
        assert_non_null(strstr(err.text, " must be at least 0 and below 1"));
    }
    struct split_rule rule = {VAL_TAIL, 0, 0, 0, SHUFFLE_NONE};
    assert_int_equal(split_corpus(&corpus, &rule, &train, &held, &err), STATUS_USAGE);
    assert_string_equal(err.text, "seq_len: 0 must be at least 1 token");
    rule.seq_len = 1;
    assert_ok(split_corpus(&corpus, &rule, &train, &held, &err), &err);
    assert_int_equal(train.sequences, 19);
    split_release(&train);
}

TEST_CASE(rows_of_padding_alone_count_for_nothing)
{
    enum { T = 4, PAD = 7, ROWS = 3 };
    uint32_t tokens[ROWS * T + 1];
    struct token_file file = {.tokens = tokens, .count = ROWS * T + 1};
    struct corpus corpus = corpus_of(&file, 1);
    struct split split, none;
    struct err err = {0};
    for (int i = 0; i <= ROWS * T; i++) tokens[i] = i <= 2 * T ? PAD : 1;
    assert_ok(
        split_corpus(&corpus, &(struct split_rule){VAL_TAIL, 0, T, 0, SHUFFLE_NONE}, &split, &none, &err),
        &err);
    split.padding = PAD;
    struct batch_source source = split_source(&split);
    assert_false(batch_source_counts(&source, 2));
    assert_true(batch_source_counts(&source, 3)); /* the last of three */
    for (int i = 0; i <= ROWS * T; i++) tokens[i] = i > T ? PAD : 1;
    assert_true(batch_source_counts(&source, 1)); /* the first one */
    split_release(&split);
}

TEST_MAIN()
