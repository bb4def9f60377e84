/* data.val_split = blocks: validation sequences evenly spread over a corpus of one file or several, and no
 * token in both splits. */
#include <stdbool.h>

#include "datasets/batch.h"
#include "datasets/prefetch.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

enum { MOST = 3000, FILES = 5, T_MOST = 16 };

/* Files in which every token is its own number, counted through all files; every other file has 16 bits. */
struct numbered {
    uint32_t wide[FILES * MOST];
    uint16_t narrow[FILES * MOST];
    struct token_file file[FILES];
    struct corpus corpus;
    unsigned char kind[FILES * MOST]; /* which split has read the token */
};

static struct numbered *numbered_new(const uint64_t *counts, size_t files)
{
    struct numbered *n = calloc(1, sizeof *n);
    uint64_t first = 0;
    assert_non_null(n);
    for (uint32_t i = 0; i < FILES * MOST; i++) {
        n->wide[i] = i;
        n->narrow[i] = (uint16_t)i;
    }
    for (size_t f = 0; f < files; first += counts[f++]) {
        n->file[f].count = counts[f];
        if (f % 2)
            n->file[f].narrow = n->narrow + first;
        else
            n->file[f].tokens = n->wide + first;
    }
    n->corpus = corpus_of(n->file, files);
    return n;
}

static size_t file_of(const struct numbered *n, uint64_t token)
{
    size_t f = 0;
    for (uint64_t end = n->file[0].count; token >= end; end += n->file[++f].count) continue;
    return f;
}

/* Reads an epoch of a split, one sequence at a time. Each token must belong to this split alone. */
static void read_epoch(struct numbered *n, const struct split *split, unsigned char kind)
{
    int32_t inputs[T_MOST], targets[T_MOST];
    int T = split->seq_len;
    unsigned char *begun = calloc(FILES * MOST, 1);
    for (uint64_t s = 0; s < split->sequences; s++) {
        split_batch(split, 2 * split->sequences + s, 1, inputs, targets);
        assert_false(begun[inputs[0]]++);
        assert_int_equal(file_of(n, (uint64_t)inputs[0]), file_of(n, (uint64_t)targets[T - 1]));
        for (int t = 0; t < T; t++) {
            assert_int_equal(targets[t], inputs[0] + t + 1);
            assert_int_equal(inputs[t], inputs[0] + t);
            assert_true(n->kind[inputs[t]] == 0 || n->kind[inputs[t]] == kind);
            assert_true(n->kind[targets[t]] == 0 || n->kind[targets[t]] == kind);
            n->kind[inputs[t]] = n->kind[targets[t]] = kind;
        }
    }
    free(begun);
}

TEST_CASE(no_token_is_in_both_splits_and_none_is_lost)
{
    static const double fractions[] = {0.01, 0.1, 0.25, 0.34, 0.5, 0.66, 0.9};
    static const uint64_t several[][FILES] = {
        {1000, 0, 7, 2999, 64}, {50, 51, 52, 53, 54}, {3000, 3000, 3000, 3000, 3000}};
    int cut = 0;
    for (uint64_t count = 2; count < 600; count = count * 9 / 8 + 1)
        for (int T = 1; T <= T_MOST; T += 3)
            for (size_t i = 0; i < 7; i++)
                for (size_t files = 1; files <= FILES; files += FILES - 1) {
                    const uint64_t *counts = files == 1 ? &count : several[count % 3];
                    struct numbered *n = numbered_new(counts, files);
                    struct split train, held;
                    uint64_t all = 0;
                    if (!split_corpus(&n->corpus,
                                      &(struct split_rule){VAL_BLOCKS, fractions[i], T, count,
                                                           (enum shuffle)(count % 3)},
                                      &train, &held, NULL)) {
                        uint64_t both = train.sequences + held.sequences, changes = 0;
                        cut++;
                        read_epoch(n, &train, 1);
                        read_epoch(n, &held, 2);
                        assert_true(train.sequences && held.sequences);
                        for (size_t f = 0; f < files; f++)
                            all += counts[f] ? (counts[f] - 1) / (uint64_t)T : 0;
                        for (uint64_t t = 0; t < FILES * MOST; t++) {
                            changes += t && n->kind[t] && n->kind[t - 1] && n->kind[t] != n->kind[t - 1];
                        }
                        /* a change of split costs a token; the rest of a file is shorter than a sequence */
                        assert_true(both <= all &&
                                    (all - both) * (uint64_t)T <= changes + files * (uint64_t)T);
                        for (size_t f = 0, first = 0; f < files; first += counts[f++]) {
                            uint64_t end = first + counts[f], last = end;
                            while (last > first && !n->kind[last - 1]) last--;
                            for (uint64_t t = first; t < last; t++) assert_true(n->kind[t]);
                            if (last > first) assert_true(end - last <= (uint64_t)T + 1);
                        }
                        uint64_t share = (uint64_t)(fractions[i] * (double)all),
                                 off =
                                     share > held.sequences ? share - held.sequences : held.sequences - share;
                        assert_true(T < 4 || off <= 2 + all - both);
                        split_release(&train);
                        split_release(&held);
                    }
                    free(n);
                }
    assert_true(cut > 500);
}

static int by_value(const void *a, const void *b)
{
    return *(const int32_t *)a - *(const int32_t *)b;
}

/* For the whole split, and for the part that an evaluation of a few batches reads. */
TEST_CASE(validation_is_evenly_spread_whatever_the_seed_and_the_shuffle)
{
    enum { T = 10, COUNT = MOST };
    struct numbered *n = numbered_new((const uint64_t[]){COUNT}, 1);
    int32_t first[3][30], inputs[T], targets[T];
    for (int i = 0; i < 3; i++) {
        struct split train, held;
        assert_int_equal(
            split_corpus(&n->corpus,
                         &(struct split_rule){VAL_BLOCKS, 0.1, T, 100 + (uint64_t)i, (enum shuffle)i}, &train,
                         &held, NULL),
            STATUS_OK);
        assert_int_equal(held.sequences, 30);
        for (uint64_t s = 0; s < 30; s++) {
            split_batch(&held, s, 1, inputs, targets);
            first[i][s] = inputs[0];
        }
        split_release(&train);
        split_release(&held);
    }
    assert_memory_equal(first[0], first[1], 30 * sizeof **first);
    assert_memory_equal(first[0], first[2], 30 * sizeof **first);
    qsort(first[0], 8, sizeof **first, by_value); /* the first eight of the order */
    for (int s = 1; s < 8; s++) assert_in_range(first[0][s] - first[0][s - 1], COUNT / 16, COUNT / 4);
    qsort(first[1], 30, sizeof **first, by_value);
    assert_in_range(first[1][0], 40, 70); /* half a part from the beginning */
    for (int s = 1; s < 30; s++) assert_in_range(first[1][s] - first[1][s - 1], 9 * T + 2, 10 * T + 2);
    free(n);
}

/* A corpus of many small files also gets its share, although no single file has enough sequences for one. */
TEST_CASE(a_share_smaller_than_a_sequence_is_carried_to_the_next_file)
{
    enum { T = 4, N = 250 };
    static uint32_t ids[4 * T + 1];
    struct token_file *files = calloc(N, sizeof *files);
    for (size_t i = 0; i < N; i++) files[i] = (struct token_file){.tokens = ids, .count = 4 * T + 1};
    struct corpus corpus = corpus_of(files, N);
    struct split train, held;
    struct err err = {0};
    assert_ok(split_corpus(&corpus, &(struct split_rule){VAL_BLOCKS, 0.1, T, 1, SHUFFLE_STRIDE}, &train,
                           &held, &err),
              &err);
    assert_int_equal(held.sequences, 100);
    assert_int_equal(held.run_count, 100);
    split_release(&train);
    split_release(&held);
    free(files);
}

TEST_CASE(a_corpus_too_short_for_blocks_is_an_error_with_the_numbers)
{
    enum { T = 10 };
    struct split train = {.seed = 77}, held;
    struct err err = {0};
    struct numbered *n = numbered_new((const uint64_t[]){4 * T + 1}, 1);
    assert_int_equal(split_corpus(&n->corpus, &(struct split_rule){VAL_BLOCKS, 0.1, T, 1, SHUFFLE_NONE},
                                  &train, &held, &err),
                     STATUS_USAGE);
    assert_string_equal(err.text,
                        "the corpus is too short: 4 sequences of seq_len 10, and val_fraction 0.1 leaves "
                        "none of them for validation (give more text, a larger val_fraction or a "
                        "smaller seq_len)");
    assert_int_equal(train.seed, 77); /* untouched */
    assert_int_equal(split_corpus(&n->corpus, &(struct split_rule){VAL_BLOCKS, 0.9, T, 1, SHUFFLE_NONE},
                                  &train, &held, &err),
                     STATUS_USAGE);
    assert_non_null(strstr(err.text, "for training (give more text, a smaller val_fraction"));
    n->file[0].count = 10;
    n->corpus.tokens = 10;
    assert_int_equal(split_corpus(&n->corpus, &(struct split_rule){VAL_BLOCKS, 0.1, T, 1, SHUFFLE_NONE},
                                  &train, &held, &err),
                     STATUS_USAGE);
    assert_non_null(strstr(err.text, "10 tokens"));
    n->file[0].count = n->corpus.tokens = 5 * T + 3;
    assert_ok(split_corpus(&n->corpus, &(struct split_rule){VAL_BLOCKS, 0.1, T, 1, SHUFFLE_NONE}, &train,
                           &held, &err),
              &err);
    assert_int_equal(train.sequences, 4);
    assert_int_equal(held.sequences, 1);
    split_release(&train);
    split_release(&held);
    assert_ok(split_corpus(&n->corpus, &(struct split_rule){VAL_BLOCKS, 0, T, 1, SHUFFLE_NONE}, &train, &held,
                           &err),
              &err);
    assert_int_equal(train.sequences, 5); /* nothing is held out, so nothing is cut */
    assert_int_equal(held.sequences, 0);
    split_release(&train);
    split_release(&held);
    free(n);
}

/* Labels are counted for the batches that are read, and a batch cut ahead is the same batch. */
TEST_CASE(padding_and_prefetch_agree_with_what_is_read)
{
    enum { T = 6, B = 3 };
    struct numbered *n = numbered_new((const uint64_t[]){2000, 900}, 2);
    for (int i = 0; i < FILES * MOST; i++) n->wide[i] = n->narrow[i] = (uint16_t)(i * i % 11);
    struct split splits[2];
    int32_t inputs[B * T], targets[B * T];
    struct err err = {0};
    assert_ok(split_corpus(&n->corpus, &(struct split_rule){VAL_BLOCKS, 0.2, T, 9, SHUFFLE_RANDOM},
                           &splits[0], &splits[1], &err),
              &err);
    for (int part = 0; part < 2; part++) {
        struct prefetch *prefetch;
        uint64_t least = 0;
        splits[part].padding = 4;
        assert_ok(prefetch_open(split_source(&splits[part]), B, true, &prefetch, &err), &err);
        for (uint64_t cursor = 0; cursor < 2 * splits[part].sequences; cursor += B) {
            uint64_t counted = 0;
            split_batch(&splits[part], cursor, B, inputs, targets);
            for (int i = 0; i < B * T; i++) counted += targets[i] != LABEL_IGNORED;
            assert_int_equal(split_source(&splits[part]).labels(&splits[part], cursor, B), counted);
            least += B * T - counted;
            struct prefetched ahead = prefetch_take(prefetch, cursor, B);
            assert_memory_equal(inputs, ahead.inputs, sizeof inputs);
            assert_memory_equal(targets, ahead.targets, sizeof targets);
        }
        assert_true(least > 0);
        prefetch_close(prefetch);
        split_release(&splits[part]);
    }
    free(n);
}

/* Places are computed, not listed: ten trillion tokens need no more memory, and no product overflows. */
TEST_CASE(a_huge_corpus_is_cut_without_a_table)
{
    enum { T = 2048 };
    uint64_t count = 10000000000000u;
    struct token_file file = {.tokens = (const uint32_t *)(uintptr_t)4096, .count = count};
    struct corpus corpus = corpus_of(&file, 1);
    struct split train, held;
    struct err err = {0};
    assert_ok(split_corpus(&corpus, &(struct split_rule){VAL_BLOCKS, 0.001, T, 1, SHUFFLE_STRIDE}, &train,
                           &held, &err),
              &err);
    assert_int_equal(train.run_count, 1);
    assert_int_equal(held.run_count, 1);
    assert_true(held.sequences > 4800000 && held.sequences < 4900000);
    assert_true((train.sequences + held.sequences) * T + 2 * held.sequences + 1 <= count);
    assert_true(count - (train.sequences + held.sequences) * T < 2 * held.sequences + 2 * T);
    split_release(&train);
    split_release(&held);
}

TEST_MAIN()
