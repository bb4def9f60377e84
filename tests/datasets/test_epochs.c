/* Batches over several files: every sequence of an epoch exactly once, none across a border, none that is
 * held out.
 *
 * */
#include <stdbool.h>

#include "datasets/batch.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

enum { FILES = 7, T = 5, BORDER = 1000 };

/* Awkward lengths: empty, shorter than a sequence, just one, one token more, many. */
static const uint64_t lengths[FILES] = {0, 137, T, T + 1, 2 * T, 2 * T + 1, 61};

/* Token i of file f is 1000 f + i, so each shows its origin. Every other file has 16 bits. */
struct files {
    uint32_t wide[FILES][BORDER];
    uint16_t narrow[FILES][BORDER];
    struct token_file file[FILES];
    uint64_t tokens;
    struct corpus corpus;
};

static struct files *files_new(void)
{
    struct files *f = calloc(1, sizeof *f);
    assert_non_null(f);
    for (int k = 0; k < FILES; k++) {
        for (int i = 0; i < BORDER; i++) {
            f->wide[k][i] = (uint32_t)(BORDER * k + i);
            f->narrow[k][i] = (uint16_t)(BORDER * k + i);
        }
        f->file[k].count = lengths[k];
        if (k % 2)
            f->file[k].narrow = f->narrow[k];
        else
            f->file[k].tokens = f->wide[k];
        f->tokens += lengths[k];
    }
    f->corpus = corpus_of(f->file, FILES);
    return f;
}

/* Sequences of T in `count` tokens. */
static uint64_t sequences_in(uint64_t count)
{
    return count ? (count - 1) / T : 0;
}

/* Takes an epoch in batches of B and counts each sequence by its first token. */
static void count_epoch(const struct split *split, uint64_t epoch, int B, unsigned char *seen)
{
    int32_t *inputs = malloc((size_t)B * T * sizeof *inputs),
            *targets = malloc((size_t)B * T * sizeof *targets);
    assert_non_null(inputs);
    assert_non_null(targets);
    memset(seen, 0, FILES * BORDER);
    for (uint64_t done = 0; done < split->sequences; done += (uint64_t)B) {
        int b = split->sequences - done < (uint64_t)B ? (int)(split->sequences - done) : B;
        split_batch(split, epoch * split->sequences + done, b, inputs, targets);
        for (int row = 0; row < b; row++) {
            int32_t first = inputs[row * T];
            for (int t = 0; t < T; t++) {
                assert_int_equal(inputs[row * T + t], first + t);
                assert_int_equal(targets[row * T + t], first + t + 1);
            }
            assert_int_equal(first / BORDER, (first + T) / BORDER); /* one file from end to end */
            seen[first]++;
        }
    }
    free(inputs);
    free(targets);
}

TEST_CASE(an_epoch_has_every_sequence_of_every_file_once)
{
    struct files *f = files_new();
    unsigned char *seen = malloc(FILES * BORDER);
    assert_non_null(seen);
    for (int shuffle = SHUFFLE_STRIDE; shuffle <= SHUFFLE_NONE; shuffle++) {
        struct split train, validation;
        struct err err = {0};
        uint64_t expected = 0;
        assert_ok(split_corpus(&f->corpus, &(struct split_rule){VAL_TAIL, 0, T, 3, (enum shuffle)shuffle},
                               &train, &validation, &err),
                  &err);
        for (int k = 0; k < FILES; k++) expected += sequences_in(lengths[k]);
        assert_int_equal(train.sequences, expected);
        assert_int_equal(train.token_count, f->tokens);
        assert_int_equal(validation.sequences, 0);
        for (uint64_t epoch = 0; epoch < 4; epoch++) {
            count_epoch(&train, epoch, epoch % 2 ? 4 : 7, seen);
            for (int k = 0; k < FILES; k++)
                for (uint64_t i = 0; i < BORDER; i++)
                    assert_int_equal(seen[BORDER * k + i], i % T == 0 && i / T < sequences_in(lengths[k]));
        }
        split_release(&train);
        split_release(&validation);
    }
    free(seen);
    free(f);
}

TEST_CASE(the_tail_is_held_out_over_files_and_never_trained_on)
{
    struct files *f = files_new();
    unsigned char *seen = malloc(FILES * BORDER), *held = malloc(FILES * BORDER);
    assert_non_null(seen);
    assert_non_null(held);
    static const double fractions[] = {0.05, 0.2, 0.31, 0.4, 0.6};
    for (int c = 0; c < 5; c++) {
        struct split train, validation;
        struct err err = {0};
        uint64_t tail = (uint64_t)((double)f->tokens * fractions[c]), before = 0, sequences[2] = {0};
        assert_ok(split_corpus(&f->corpus, &(struct split_rule){VAL_TAIL, fractions[c], T, 3, SHUFFLE_RANDOM},
                               &train, &validation, &err),
                  &err);
        assert_int_equal(train.token_count, f->tokens - tail);
        assert_int_equal(validation.token_count, tail);
        count_epoch(&train, 1, 3, seen);
        count_epoch(&validation, 0, 3, held);
        for (int k = 0; k < FILES; before += lengths[k++])
            for (uint64_t i = 0; i < lengths[k]; i++) {
                bool is_tail = before + i >= f->tokens - tail;
                assert_false(is_tail && seen[BORDER * k + i]);
                assert_false(!is_tail && held[BORDER * k + i]);
                if (seen[BORDER * k + i])
                    assert_true(before + i + T < f->tokens - tail); /* nor its targets */
                sequences[0] += seen[BORDER * k + i];
                sequences[1] += held[BORDER * k + i];
            }
        assert_int_equal(sequences[0], train.sequences);
        assert_int_equal(sequences[1], validation.sequences);
        split_release(&train);
        split_release(&validation);
    }
    free(seen);
    free(held);
    free(f);
}

TEST_CASE(one_file_is_cut_as_its_tokens_alone)
{
    struct files *f = files_new();
    int32_t inputs[2][8 * T], targets[2][8 * T];
    for (int k = 1; k < FILES; k += 5) { /* 137 tokens of 16 bits, 61 of 32 */
        struct split one, plain, rest, other;
        struct err err = {0};
        struct token_file alone = {.tokens = f->wide[k], .count = lengths[k]};
        struct corpus file = corpus_of(&f->file[k], 1), tokens = corpus_of(&alone, 1);
        assert_ok(
            split_corpus(&file, &(struct split_rule){VAL_TAIL, 0.2, T, 9, SHUFFLE_STRIDE}, &one, &rest, &err),
            &err);
        assert_ok(split_corpus(&tokens, &(struct split_rule){VAL_TAIL, 0.2, T, 9, SHUFFLE_STRIDE}, &plain,
                               &other, &err),
                  &err);
        assert_int_equal(one.sequences, plain.sequences);
        assert_int_equal(rest.sequences, other.sequences);
        for (uint64_t cursor = 0; cursor < 100; cursor += 8) {
            split_batch(&one, cursor, 8, inputs[0], targets[0]);
            split_batch(&plain, cursor, 8, inputs[1], targets[1]);
            assert_memory_equal(inputs[0], inputs[1], sizeof inputs[0]);
            assert_memory_equal(targets[0], targets[1], sizeof targets[0]);
        }
        split_release(&one);
        split_release(&rest);
        split_release(&plain);
        split_release(&other);
    }
    free(f);
}

TEST_CASE(files_that_are_each_too_short_say_so)
{
    struct files *f = files_new();
    struct split train, validation;
    struct err err = {0};
    assert_int_equal(split_corpus(&f->corpus, &(struct split_rule){VAL_TAIL, 0, 137, 1, SHUFFLE_NONE}, &train,
                                  &validation, &err),
                     STATUS_USAGE);
    assert_non_null(strstr(err.text, "one sequence of seq_len 137 needs 138 from one file"));
    assert_int_equal(split_corpus(&f->corpus, &(struct split_rule){VAL_TAIL, 0.9, T, 1, SHUFFLE_NONE}, &train,
                                  &validation, &err),
                     STATUS_OK);
    split_release(&train);
    split_release(&validation);
    struct corpus empty = corpus_of(f->file, 1);
    assert_int_equal(split_corpus(&empty, &(struct split_rule){VAL_TAIL, 0, T, 1, SHUFFLE_NONE}, &train,
                                  &validation, &err),
                     STATUS_USAGE);
    assert_non_null(strstr(err.text, "0 tokens"));
    free(f);
}

TEST_CASE(announcing_is_only_a_hint)
{
    struct files *f = files_new();
    struct split train, validation;
    struct err err = {0};
    int32_t before[2 * T], after[2 * T], targets[2 * T];
    assert_ok(split_corpus(&f->corpus, &(struct split_rule){VAL_TAIL, 0, T, 1, SHUFFLE_RANDOM}, &train,
                           &validation, &err),
              &err);
    split_batch(&train, 5, 2, before, targets);
    split_source(&train).announce(&train, 0, 1000); /* more than an epoch, memory that is no file */
    split_batch(&train, 5, 2, after, targets);
    assert_memory_equal(before, after, sizeof before);
    split_release(&train);
    split_release(&validation);
    split_release(&train); /* harmless */
    free(f);
}

TEST_MAIN()
