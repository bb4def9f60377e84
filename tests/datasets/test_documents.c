/* Documents found by their end token and packed into rows. */
#include "datasets/documents.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

enum { END = 0, T = 8, MOST = 4096 };

struct texts {
    struct token_file files[2];
    uint32_t tokens[MOST];
    uint64_t count;
    struct corpus corpus;
};

/* Two files of documents of 1 to 25 tokens, each an id of its own by its place, 10 and up; the last document
 * of the first file has no end. Every third has only its end. */
static void make_texts(struct texts *t)
{
    uint64_t state = 5, half = 0;
    *t = (struct texts){0};
    while (t->count < MOST - 60) {
        uint64_t n = noise_next(&state) % 3 ? noise_next(&state) % 25 : 0;
        for (uint64_t i = 0; i < n; i++, t->count++) t->tokens[t->count] = (uint32_t)(10 + t->count);
        if (!half && t->count > MOST / 2 && n > 1)
            half = t->count;
        else
            t->tokens[t->count++] = END;
    }
    t->files[0] = (struct token_file){.path = "a.tok", .tokens = t->tokens, .count = half};
    t->files[1] = (struct token_file){.path = "b.tok", .tokens = t->tokens + half, .count = t->count - half};
    t->corpus = corpus_of(t->files, 2);
}

static void open_rows(const struct texts *t, double fraction, enum shuffle shuffle,
                      struct document_rows *train, struct document_rows *held)
{
    struct err err = {0};
    assert_ok(document_rows_open(&t->corpus, END, &(struct split_rule){VAL_BLOCKS, fraction, T, 3, shuffle},
                                 train, held, &err),
              &err);
}

struct row {
    int32_t inputs[T], targets[T], positions[T];
};

static void read_row(struct document_rows *rows, uint64_t number, struct row *row)
{
    struct batch_source source = document_rows_source(rows);
    assert_true(source.packed);
    source.fill(source.context, number, 1, row->inputs, row->targets, row->positions);
}

/* Whether token i is one of a document whose last token is i or later, and not its first. */
static bool is_learned(const struct texts *t, uint64_t i)
{
    return i > 0 && i != t->files[0].count && t->tokens[i - 1] != END;
}

TEST_CASE(every_token_behind_another_of_its_document_is_a_target_once_in_an_epoch)
{
    static const enum shuffle shuffles[] = {SHUFFLE_NONE, SHUFFLE_STRIDE, SHUFFLE_RANDOM};
    struct texts t;
    make_texts(&t);
    for (int s = 0; s < 3; s++) {
        struct document_rows rows, none;
        int seen[MOST] = {0};
        double labels = 0;
        open_rows(&t, 0, shuffles[s], &rows, &none);
        struct batch_source source = document_rows_source(&rows);
        assert_int_equal(document_rows_source(&none).rows, 0);
        for (uint64_t r = source.rows; r < 2 * source.rows; r++) { /* of the second epoch */
            struct row row;
            int count = 0;
            read_row(&rows, r, &row);
            for (int i = 0; i < T; i++) {
                if (row.targets[i] == LABEL_IGNORED) continue;
                /* an input that is no end names its place; its target is the token behind it */
                assert_int_not_equal(row.inputs[i], END);
                uint64_t place = (uint64_t)row.inputs[i] - 10 + 1;
                assert_int_equal(row.targets[i], t.tokens[place]);
                seen[place]++;
                count++;
            }
            assert_true(source.labels(source.context, r, 1) == count);
            labels += count;
        }
        for (uint64_t i = 0; i < t.count; i++) assert_int_equal(seen[i], is_learned(&t, i));
        assert_true(labels > 0.9 * (double)source.rows * T); /* few places stay empty */
        document_rows_close(&rows);
    }
}

TEST_CASE(a_row_begins_with_a_document_or_a_piece_and_positions_begin_anew_with_each)
{
    struct texts t;
    struct document_rows rows, none;
    make_texts(&t);
    open_rows(&t, 0, SHUFFLE_STRIDE, &rows, &none);
    int whole = 0, pieces = 0;
    for (uint64_t r = 0; r < rows.packing.rows; r++) {
        struct row row;
        read_row(&rows, r, &row);
        assert_int_equal(row.positions[0], 0);
        for (int i = 0; i < T && row.targets[i] != LABEL_IGNORED; i++) {
            uint64_t place = (uint64_t)row.inputs[i] - 10;
            bool begins = !place || !is_learned(&t, place); /* a document, in the text */
            if (row.positions[i]) {
                assert_false(begins);
                assert_int_equal(row.inputs[i], row.inputs[i - 1] + 1);
                assert_int_equal(row.positions[i], row.positions[i - 1] + 1);
            } else {
                uint64_t from = place;
                while (from && is_learned(&t, from)) from--;
                assert_int_equal((place - from) % T, 0);
                *(begins ? &whole : &pieces) += 1;
            }
        }
    }
    assert_int_equal(whole, rows.documents);
    assert_int_equal(whole + pieces, rows.count);
    assert_true(pieces > 50);
    document_rows_close(&rows);
}

TEST_CASE(a_document_is_trained_on_or_held_out_as_a_whole)
{
    struct texts t;
    struct document_rows parts[2];
    int part_of[MOST] = {0};
    make_texts(&t);
    open_rows(&t, 0.2, SHUFFLE_STRIDE, &parts[0], &parts[1]);
    uint64_t all = parts[0].documents + parts[1].documents;
    assert_int_equal(parts[1].documents, (uint64_t)(0.2 * (double)all + 0.5));
    for (int p = 0; p < 2; p++)
        for (uint64_t r = 0; r < parts[p].packing.rows; r++) {
            struct row row;
            read_row(&parts[p], r, &row);
            for (int i = 0; i < T; i++)
                if (row.targets[i] != LABEL_IGNORED) part_of[row.inputs[i] - 10] |= 1 << p;
        }
    for (uint64_t i = 0; i + 1 < t.count; i++) {
        assert_int_not_equal(part_of[i], 3);
        if (is_learned(&t, i) && is_learned(&t, i + 1)) assert_int_equal(part_of[i], part_of[i - 1]);
    }
    document_rows_close(&parts[0]);
    document_rows_close(&parts[1]);
}

TEST_CASE(a_document_that_begins_a_file_is_read_from_that_file)
{
    uint32_t first[] = {10, 11, END}, second[] = {20, 21, END};
    struct token_file files[] = {{.tokens = first, .count = 3}, {.tokens = second, .count = 3}};
    struct corpus corpus = corpus_of(files, 2);
    struct document_rows rows, none;
    struct err err = {0};
    struct row row;
    assert_ok(document_rows_open(&corpus, END, &(struct split_rule){VAL_BLOCKS, 0, T, 3, SHUFFLE_NONE}, &rows,
                                 &none, &err),
              &err);
    read_row(&rows, 0, &row);
    assert_memory_equal(row.inputs, ((const int32_t[]){10, 11, 20, 21}), 4 * sizeof *row.inputs);
    assert_memory_equal(row.targets, ((const int32_t[]){11, END, 21, END}), 4 * sizeof *row.targets);
    document_rows_close(&rows);
}

TEST_CASE(padding_is_no_target)
{
    struct texts t;
    struct document_rows rows, none;
    struct err err = {0};
    make_texts(&t);
    assert_ok(document_rows_open(&t.corpus, END, &(struct split_rule){VAL_BLOCKS, 0, T, 3, SHUFFLE_NONE},
                                 &rows, &none, &err),
              &err);
    rows.padding = END;
    struct batch_source source = document_rows_source(&rows);
    for (uint64_t r = 0; r < source.rows; r++) {
        struct row row;
        int count = 0;
        read_row(&rows, r, &row);
        for (int i = 0; i < T; i++) {
            assert_int_not_equal(row.targets[i], END);
            count += row.targets[i] != LABEL_IGNORED;
        }
        assert_true(source.labels(source.context, r, 1) == count);
    }
    document_rows_close(&rows);
}

TEST_CASE(the_token_that_ends_documents_is_named_or_that_of_the_tokenizer)
{
    struct corpus corpus = {0};
    struct err err = {0};
    uint32_t end = 7;
    assert_int_equal(documents_end(&corpus, -1, &end, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "the tokenizer of the token files is not known"));
    assert_ok(documents_end(&corpus, 0, &end, &err), &err);
    assert_int_equal(end, 0);
    assert_ok(tokenizer_open_bytes(&corpus.tokenizer, &err), &err);
    assert_int_equal(documents_end(&corpus, -1, &end, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "the tokenizer has no token for the end of a text"));
    end = 7;
    assert_ok(documents_end(&corpus, 0, &end, &err), &err);
    assert_int_equal(end, 0);
    tokenizer_close(corpus.tokenizer);
}

TEST_CASE(data_without_documents_are_refused)
{
    struct texts t;
    struct document_rows rows, none;
    struct err err = {0};
    make_texts(&t);
    assert_int_equal(document_rows_open(&t.corpus, 8, &(struct split_rule){VAL_BLOCKS, 0, T, 3, SHUFFLE_NONE},
                                        &rows, &none, &err),
                     STATUS_USAGE);
    assert_non_null(strstr(err.text, "no document ends in the text: the token 8 does not occur"));
    t.corpus.file_count = 1;
    t.tokens[0] = 11, t.tokens[1] = END;
    t.files[0].count = 2; /* one document */
    assert_int_equal(document_rows_open(&t.corpus, END,
                                        &(struct split_rule){VAL_TAIL, 0.9, T, 3, SHUFFLE_NONE}, &rows, &none,
                                        &err),
                     STATUS_USAGE);
    assert_non_null(
        strstr(err.text, "1 document, of which data.val_fraction = 0.9 leaves none for training"));
    t.tokens[0] = END; /* a document that is its end alone */
    t.files[0].count = 1;
    assert_int_equal(document_rows_open(&t.corpus, END,
                                        &(struct split_rule){VAL_TAIL, 0.9, T, 3, SHUFFLE_NONE}, &rows, &none,
                                        &err),
                     STATUS_USAGE);
    assert_non_null(strstr(err.text, "no document has two tokens (give more text)"));
    assert_null(rows.first);
}

TEST_MAIN()
