/* Learning a BPE: the merges equal those of the definition and of Hugging Face's trainer. */
#include <jansson.h>
#include <stdbool.h>

#include "datasets/bpe.h"
#include "datasets/bpe_train.h"
#include "datasets/crew.h"
#include "datasets/pretokenizer.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

static enum status count(struct bpe_trainer *trainer, const char *text, size_t n, size_t total,
                         struct err *err)
{
    struct text_piece piece = {.path = "", .text = text, .n = n, .after = n, .total = total};
    return bpe_trainer_count(trainer, &piece, err);
}

static struct tokenizer *learn(const char *text, size_t n, int vocab_size)
{
    struct bpe_trainer *trainer = NULL;
    struct tokenizer *tokenizer = NULL;
    struct err err = {0};
    assert_ok(bpe_trainer_new(vocab_size, 1, NULL, &trainer, &err), &err);
    assert_ok(count(trainer, text, n, n, &err), &err);
    assert_ok(bpe_trainer_learn(trainer, false, &tokenizer, &err), &err);
    bpe_trainer_free(trainer);
    return tokenizer;
}

static const struct bpe *spec_of(const struct tokenizer *tokenizer)
{
    return tokenizer_bpe(tokenizer);
}

TEST_CASE(learns_the_merges_that_hugging_face_learns)
{
    size_t n;
    struct err err = {0};
    char *text = scratch_read(TOKENIZER_FIXTURES "sample.txt", &n);
    struct tokenizer *ours = learn(text, n, 400), *theirs = NULL;
    assert_ok(tokenizer_open_json(TOKENIZER_FIXTURES "trained.json", &theirs, &err), &err);
    assert_int_equal(spec_of(ours)->merge_count, 144);
    assert_int_equal(spec_of(theirs)->merge_count, 144);
    for (size_t i = 0; i < 144; i++) {
        assert_int_equal(spec_of(ours)->merges[i].left, spec_of(theirs)->merges[i].left);
        assert_int_equal(spec_of(ours)->merges[i].right, spec_of(theirs)->merges[i].right);
        assert_int_equal(spec_of(ours)->merges[i].result, spec_of(theirs)->merges[i].result);
    }
    assert_int_equal(tokenizer_checksum(ours), tokenizer_checksum(theirs));
    const char *saved = scratch_path("learned.json"); /* and all that their library reads besides */
    assert_ok(tokenizer_save_json(ours, saved, &err), &err);
    json_t *made = json_load_file(saved, 0, NULL),
           *wanted = json_load_file(TOKENIZER_FIXTURES "trained.json", 0, NULL), *value;
    const char *key;
    json_object_foreach(wanted, key, value)
        if (!json_equal(json_object_get(made, key), value)) fail_msg("%s differs", key);
    json_decref(made);
    json_decref(wanted);
    tokenizer_close(ours);
    tokenizer_close(theirs);
    free(text);
}

/* A direct implementation of the definition: all pieces in a list, all pairs counted again for every
 * merge. */
struct naive {
    uint32_t *ids; /* of all pieces, NO_ID between them */
    size_t count;
    uint32_t byte_id[256];
};

#define NO_ID UINT32_MAX

static enum status naive_piece(void *context, const char *piece, size_t n, struct err *err)
{
    struct naive *naive = context;
    (void)err;
    for (size_t i = 0; i < n; i++) naive->ids[naive->count++] = naive->byte_id[(unsigned char)piece[i]];
    naive->ids[naive->count++] = NO_ID;
    return STATUS_OK;
}

static bool naive_best(const struct naive *naive, uint32_t vocab, uint32_t *left, uint32_t *right)
{
    int64_t *counts = calloc((size_t)vocab * vocab, sizeof *counts), best = 0;
    assert_non_null(counts);
    for (size_t i = 0; i + 1 < naive->count; i++)
        if (naive->ids[i] != NO_ID && naive->ids[i + 1] != NO_ID)
            counts[naive->ids[i] * vocab + naive->ids[i + 1]]++;
    for (uint32_t l = 0; l < vocab; l++)
        for (uint32_t r = 0; r < vocab; r++)
            if (counts[l * vocab + r] > best) {
                best = counts[l * vocab + r];
                *left = l;
                *right = r;
            }
    free(counts);
    return best > 0;
}

static void naive_merge(struct naive *naive, uint32_t left, uint32_t right, uint32_t made)
{
    size_t to = 0;
    for (size_t i = 0; i < naive->count; i++) {
        bool here = naive->ids[i] == left && i + 1 < naive->count && naive->ids[i + 1] == right;
        naive->ids[to++] = here ? made : naive->ids[i];
        i += here;
    }
    naive->count = to;
}

TEST_CASE(learns_what_the_definition_says)
{
    static const char *const pattern = PRETOKENIZER_GPT2;
    enum { TEXT = 1200, VOCAB = 300 };
    char text[TEXT];
    struct byte_alphabet alphabet;
    byte_alphabet_init(&alphabet);
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct naive naive = {.ids = calloc(2 * TEXT + 2, sizeof(uint32_t))};
        struct pretokenizer *splitter = NULL;
        struct pretokenizer_scratch *scratch = NULL;
        struct err err = {0};
        uint32_t next = 0, left = 0, right = 0;
        for (int c = 0; c < BYTE_ALPHABET_END; c++)
            if (alphabet.byte[c] >= 0) naive.byte_id[alphabet.byte[c]] = next++;
        size_t n = noise_fill(4 * seed + (seed % 2 ? 1 : 3), text, TEXT);
        assert_ok(pretokenizer_new(&pattern, 1, "naive", &splitter, &err), &err);
        assert_ok(pretokenizer_scratch_new(&scratch, &err), &err);
        assert_ok(pretokenizer_split(splitter, scratch, text, n, naive_piece, &naive, &err), &err);
        struct tokenizer *tokenizer = learn(text, n, VOCAB);
        const struct bpe *spec = spec_of(tokenizer);
        size_t merges = 0;
        for (; merges < spec->merge_count; merges++) {
            const struct bpe_merge *merge = &spec->merges[merges];
            assert_true(naive_best(&naive, VOCAB, &left, &right));
            assert_int_equal(merge->left, left);
            assert_int_equal(merge->right, right);
            naive_merge(&naive, left, right, merge->result);
        }
        if (spec->vocab_size < VOCAB)
            assert_false(naive_best(&naive, VOCAB, &left, &right));
        else
            assert_int_equal(spec->vocab_size, VOCAB);
        tokenizer_close(tokenizer);
        pretokenizer_scratch_free(scratch);
        pretokenizer_free(splitter);
        free(naive.ids);
    }
}

TEST_CASE(counting_in_parts_is_counting_at_once)
{
    size_t n;
    struct bpe_trainer *trainer = NULL;
    struct tokenizer *parts = NULL;
    struct err err = {0};
    char *text = scratch_read(TOKENIZER_FIXTURES "sample.txt", &n);
    struct tokenizer *once = learn(text, n, 350);
    assert_ok(bpe_trainer_new(350, 1, NULL, &trainer, &err), &err);
    for (char *line = text; *line;) {
        char *end = strchr(line, '\n');
        while (end[1] == '\n') end++; /* runs of newlines are one piece */
        assert_ok(count(trainer, line, (size_t)(end + 1 - line), n, &err), &err);
        line = end + 1;
    }
    assert_ok(bpe_trainer_learn(trainer, false, &parts, &err), &err);
    assert_int_equal(tokenizer_checksum(parts), tokenizer_checksum(once));
    bpe_trainer_free(trainer);
    tokenizer_close(once);
    tokenizer_close(parts);
    free(text);
}

/* The sample, a line longer than a part that is given to a thread, and the sample again. */
static char *text_with_a_long_line(size_t *n)
{
    size_t one, long_line = CREW_PART_MAX + 1000;
    char *sample = scratch_read(TOKENIZER_FIXTURES "sample.txt", &one), *text = malloc(2 * one + long_line);
    memcpy(text, sample, one);
    for (size_t i = 0; i < long_line; i++) text[one + i] = "the end of it "[i % 14];
    memcpy(text + one + long_line, sample, one);
    free(sample);
    *n = 2 * one + long_line;
    return text;
}

TEST_CASE(any_number_of_threads_learns_the_same)
{
    size_t n;
    char *text = text_with_a_long_line(&n);
    struct tokenizer *alone = learn(text, n, 350), *together = NULL;
    struct bpe_trainer *trainer = NULL;
    struct err err = {0};
    assert_ok(bpe_trainer_new(350, 3, NULL, &trainer, &err), &err);
    assert_ok(count(trainer, text, n, n, &err), &err);
    assert_ok(bpe_trainer_learn(trainer, false, &together, &err), &err);
    assert_int_equal(tokenizer_checksum(together), tokenizer_checksum(alone));
    bpe_trainer_free(trainer);
    tokenizer_close(together);
    tokenizer_close(alone);
    free(text);
}

/* 256 tokens are the bytes, and there is no room for another. */
TEST_CASE(the_token_that_ends_documents_takes_the_place_of_a_merge)
{
    for (int vocab = 256; vocab < 259; vocab++) {
        struct bpe_trainer *trainer = NULL;
        struct tokenizer *tokenizer = NULL;
        struct err err = {0};
        assert_ok(bpe_trainer_new(vocab, 1, NULL, &trainer, &err), &err);
        assert_ok(count(trainer, "abcabc", 6, 6, &err), &err);
        assert_ok(bpe_trainer_learn(trainer, true, &tokenizer, &err), &err);
        assert_int_equal(tokenizer_vocab_size(tokenizer), vocab);
        assert_int_equal(tokenizer_end(tokenizer), vocab > 256 ? vocab - 1 : -1);
        bpe_trainer_free(trainer);
        tokenizer_close(tokenizer);
    }
}

TEST_CASE(a_short_text_gives_a_smaller_vocabulary)
{
    struct tokenizer *tokenizer = learn("aaaa aaaa", 9, 5000);
    assert_int_equal(tokenizer_vocab_size(tokenizer), 256 + 3); /* aa, aaaa, " aaaa" */
    assert_round_trip(tokenizer, "aaaaa bb", 8);
    tokenizer_close(tokenizer);
    tokenizer = learn("", 0, 300);
    assert_int_equal(tokenizer_vocab_size(tokenizer), 256);
    assert_round_trip(tokenizer, "anything \xFF", 10);
    tokenizer_close(tokenizer);
}

TEST_CASE(any_bytes_can_be_learned_from)
{
    char text[3000];
    for (uint64_t seed = 0; seed < 40; seed++) {
        size_t n = noise_fill(seed, text, sizeof text);
        struct tokenizer *tokenizer = learn(text, n, 320);
        assert_round_trip(tokenizer, text, n);
        tokenizer_close(tokenizer);
    }
}

TEST_CASE(what_is_learned_makes_text_shorter)
{
    size_t n;
    char *text = scratch_read(TOKENIZER_FIXTURES "sample.txt", &n);
    size_t before = n + 1;
    for (int vocab = 256; vocab <= 1024; vocab *= 2) {
        struct tokenizer *tokenizer = learn(text, n, vocab);
        struct token_list list = {0};
        struct err err = {0};
        assert_ok(tokenizer_encode(tokenizer, text, n, &list, &err), &err);
        assert_true(list.count < before);
        if (vocab == 256) assert_int_equal(list.count, n);
        before = list.count;
        token_list_release(&list);
        tokenizer_close(tokenizer);
    }
    assert_true(before < n / 3);
    free(text);
}

TEST_CASE(sizes_out_of_range_are_refused)
{
    static const int sizes[] = {0, -1, 255, 1000001, INT32_MAX, INT32_MIN};
    struct bpe_trainer *trainer = NULL;
    struct err err = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(bpe_trainer_new(sizes[i], 1, NULL, &trainer, &err), STATUS_USAGE);
        char words[100];
        snprintf(words, sizeof words,
                 "a vocabulary of %d tokens: give a number from 256 (the bytes) to 1000000", sizes[i]);
        assert_string_equal(err.text, words);
    }
    assert_null(trainer);
    bpe_trainer_free(NULL);
    assert_ok(bpe_train_check(BPE_TRAIN_VOCAB_MIN, &err), &err);
    assert_ok(bpe_train_check(BPE_TRAIN_VOCAB_MAX, &err), &err);
}

struct patience {
    int left, calls;
    uint64_t last;
};

static bool lose_patience(void *context, const char *what, const char *unit, uint64_t done, uint64_t total)
{
    struct patience *patience = context;
    assert_true(done <= total);
    assert_string_equal(unit, strcmp(what, "learning merges") == 0 ? "merges" : "bytes");
    patience->calls++;
    return patience->left-- > 0;
}

TEST_CASE(learning_can_be_interrupted_at_every_report)
{
    size_t n;
    char *text = scratch_read(TOKENIZER_FIXTURES "sample.txt", &n);
    struct patience patience = {.left = 1 << 20};
    struct progress progress = {.report = lose_patience, .context = &patience};
    enum status status = STATUS_INTERRUPTED;
    for (int left = 0; status == STATUS_INTERRUPTED; left++) {
        struct bpe_trainer *trainer = NULL;
        struct tokenizer *tokenizer = NULL;
        struct err err = {0};
        patience = (struct patience){.left = left};
        assert_ok(bpe_trainer_new(400, 1, &progress, &trainer, &err), &err);
        status = count(trainer, text, n, n, &err);
        if (!status) status = bpe_trainer_learn(trainer, false, &tokenizer, &err);
        assert_true(status == STATUS_INTERRUPTED || status == STATUS_OK);
        assert_int_equal(tokenizer == NULL, status != STATUS_OK);
        tokenizer_close(tokenizer);
        bpe_trainer_free(trainer);
        assert_true(left < 1000);
    }
    assert_true(patience.calls > 5);
    free(text);
}

/* A terminal shows some of them a second. */
TEST_CASE(many_small_texts_make_few_reports)
{
    enum { TEXTS = 30000, BYTES = 20 };
    struct patience patience = {.left = 1 << 20};
    struct progress progress = {.report = lose_patience, .context = &patience};
    struct bpe_trainer *trainer = NULL;
    struct err err = {0};
    assert_ok(bpe_trainer_new(300, 1, &progress, &trainer, &err), &err);
    for (uint64_t i = 0; i < TEXTS; i++) {
        struct text_piece piece = {
            .path = "", .text = "a text of some words", .n = BYTES, .total = TEXTS * BYTES};
        piece.before = i * BYTES;
        piece.after = piece.before + BYTES;
        assert_ok(bpe_trainer_count(trainer, &piece, &err), &err);
    }
    assert_in_range(patience.calls, 2, 4); /* each quarter of a megabyte, and the end */
    bpe_trainer_free(trainer);
}

TEST_MAIN()
