/* Which rows of which source the rows of a mixture are. */
#include <limits.h>
#include <math.h>
#include <unistd.h>

#include "core/base/file.h"
#include "datasets/corpus.h"
#include "datasets/inputs.h"
#include "datasets/mixture.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

enum { T = 3 };

/* A source whose row n has the inputs 1000·number + n and the targets n; context points to its number. */
static void fill(const void *context, uint64_t cursor, int B, int32_t *inputs, int32_t *targets,
                 int32_t *positions)
{
    const int *number = context;
    (void)positions;
    for (int i = 0; i < B * T; i++) {
        inputs[i] = 1000 * *number + (int32_t)cursor + i / T;
        targets[i] = (int32_t)cursor + i / T;
    }
}

static double labels(const void *context, uint64_t cursor, uint64_t rows)
{
    (void)cursor;
    return *(const int *)context * (double)rows;
}

static uint64_t announced; /* a sum over the rows passed to announce() */

static void announce(const void *context, uint64_t cursor, int B)
{
    assert_int_equal(B, 1);
    announced += 1000 * (uint64_t) * (const int *)context + cursor;
}

static const int numbers[] = {1, 2, 3};

static void make_sources(const uint64_t rows[3], struct batch_source sources[3])
{
    for (int s = 0; s < 3; s++)
        sources[s] = (struct batch_source){.context = &numbers[s],
                                           .T = T,
                                           .rows = rows[s],
                                           .span = T,
                                           .fill = fill,
                                           .labels = labels,
                                           .announce = announce};
}

static const double weights[] = {0.7, 0.2, 0.1};

static struct mixture training(const uint64_t rows[3])
{
    struct batch_source sources[3];
    struct mixture m;
    struct err err = {0};
    make_sources(rows, sources);
    assert_ok(mixture_open_training(sources, weights, 3, &m, &err), &err);
    return m;
}

TEST_CASE(each_source_has_its_share_evenly_spread)
{
    struct mixture m = training((uint64_t[]){50, 60, 70});
    assert_int_equal(m.rows, 180);
    uint64_t counts[3] = {0}, index;
    for (uint64_t row = 0; row < 3 * MIXTURE_PERIOD; row++) {
        counts[mixture_source_of(&m, row, &index)]++;
        for (int s = 0; s < 3; s++) /* of all rows so far, and so of any stretch */
            assert_true(fabs((double)counts[s] - weights[s] * (double)(row + 1)) <= 1.5);
    }
    assert_int_equal(counts[0], 21000);
    mixture_close(&m);
}

TEST_CASE(no_row_of_a_source_comes_again_before_its_epoch_ends)
{
    struct mixture m = training((uint64_t[]){50, 60, 70});
    uint64_t next[3] = {0}, index;
    for (uint64_t row = 0; row < 2 * MIXTURE_PERIOD + 17; row++) {
        int s = mixture_source_of(&m, row, &index);
        assert_int_equal(index, next[s]++); /* all of its rows, one after the other, through all epochs */
    }
    mixture_close(&m);
}

TEST_CASE(batches_are_the_rows_of_their_sources_wherever_they_are_cut)
{
    struct mixture m = training((uint64_t[]){50, 60, 70});
    struct batch_source batches = mixture_batches(&m);
    int32_t inputs[2][40 * T], targets[2][40 * T];
    uint64_t from = MIXTURE_PERIOD - 20, index;
    assert_int_equal(batches.rows, 180);
    assert_true(fabs(batches.span - T) < 1e-12);
    batches.fill(batches.context, from, 40, inputs[0], targets[0], NULL);
    for (int b = 0; b < 40; b += 5)
        batches.fill(batches.context, from + (uint64_t)b, 5, inputs[1] + b * T, targets[1] + b * T, NULL);
    assert_memory_equal(inputs[0], inputs[1], sizeof inputs[0]);
    double sum = 0;
    uint64_t expected = 0;
    for (uint64_t b = 0; b < 40; b++) {
        int s = mixture_source_of(&m, from + b, &index);
        assert_int_equal(inputs[0][b * T], 1000 * numbers[s] + (int)index);
        assert_int_equal(targets[0][b * T], index);
        sum += numbers[s];
        expected += 1000 * (uint64_t)numbers[s] + index;
    }
    announced = 0;
    batches.announce(batches.context, from, 40);
    assert_int_equal(announced, expected);
    assert_true(batches.labels(batches.context, from, 40) == sum);
    mixture_close(&m);
}

TEST_CASE(what_shares_leave_over_goes_to_the_largest_remainder)
{
    static const double sevenths[] = {1, 2, 4}; /* 1428.6, 2857.1 and 5714.3 of 10,000 */
    struct batch_source sources[3];
    struct mixture m;
    struct err err = {0};
    make_sources((uint64_t[]){50, 60, 70}, sources);
    assert_ok(mixture_open_training(sources, sevenths, 3, &m, &err), &err);
    assert_int_equal(MIXTURE_PERIOD, 10000);
    assert_int_equal(m.quotas[0], 1429);
    assert_int_equal(m.quotas[1], 2857);
    assert_int_equal(m.quotas[2], 5714);
    mixture_close(&m);
    assert_ok(mixture_open_training(sources, (const double[]){4, 2, 1}, 3, &m, &err), &err);
    assert_true(m.quotas[0] == 5714 && m.quotas[1] == 2857 && m.quotas[2] == 1429);
    mixture_close(&m);
}

static void expect_validation(const uint64_t rows[3], uint64_t most, const uint64_t wanted[3])
{
    struct batch_source sources[3];
    struct mixture m;
    uint64_t index, all = wanted[0] + wanted[1] + wanted[2], row = 0;
    make_sources(rows, sources);
    mixture_open_validation(sources, weights, 3, most, &m);
    assert_int_equal(m.rows, all);
    for (int s = 0; s < 3; s++)
        for (uint64_t i = 0; i < wanted[s]; i++) {
            assert_int_equal(mixture_source_of(&m, row++, &index), s);
            assert_int_equal(index, i);
        }
    mixture_close(&m);
}

TEST_CASE(validation_has_rows_of_every_source)
{
    static const uint64_t many[] = {100, 100, 100}, few[] = {5, 100, 1};
    expect_validation(many, 20, (uint64_t[]){14, 4, 2});
    expect_validation(many, 0, many);
    expect_validation(many, 1, (uint64_t[]){1, 1, 1});
    expect_validation(few, 20, (uint64_t[]){5, 14, 1}); /* others take the place of what it lacks */
    expect_validation(few, 1000, few);
}

TEST_CASE(a_validation_has_the_span_and_labels_of_its_rows)
{
    struct batch_source sources[3];
    struct mixture m;
    make_sources((uint64_t[]){100, 100, 100}, sources);
    for (int s = 0; s < 3; s++) sources[s].span = s + 1;
    mixture_open_validation(sources, weights, 3, 20, &m); /* 14, 4 and 2 rows */
    struct batch_source batches = mixture_batches(&m);
    assert_true(fabs(batches.span - (14 * 1 + 4 * 2 + 2 * 3) / 20.0) < 1e-12);
    assert_true(batches.labels(batches.context, 0, 20) == 14 * 1 + 4 * 2 + 2 * 3);
    assert_true(batches.labels(batches.context, 13, 2) == 1 + 2);
    mixture_close(&m);
}

TEST_CASE(a_weight_too_small_to_count_is_refused)
{
    struct batch_source sources[3];
    struct mixture m = {0};
    struct err err = {0};
    make_sources((uint64_t[]){9, 9, 9}, sources);
    assert_int_equal(mixture_open_training(sources, (double[]){1, 1, 1e-4}, 3, &m, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "of the sum of all weights, less than 1/10000"));
    assert_null(m.period);
    assert_non_null(strstr(err.text, "the weight of source 3 is"));
    assert_ok(mixture_open_training(sources, (double[]){1, 9998, 1}, 3, &m, &err), &err);
    assert_true(m.quotas[0] == 1 && m.quotas[1] == 9998 && m.quotas[2] == 1);
    mixture_close(&m);
}

/* ---- names and weights ---- */

static const char *listed(const char *value)
{
    static char out[400];
    struct inputs inputs;
    struct err err = {0};
    assert_ok(inputs_open(value, NULL, NULL, &inputs, &err), &err);
    int used = snprintf(out, sizeof out, "%s", inputs.tokens ? "tokens" : "texts");
    for (size_t i = 0; i < inputs.source_count; i++)
        used += snprintf(out + used, sizeof out - (size_t)used, " %s=%g:%zu+%zu", inputs.sources[i].name,
                         inputs.sources[i].weight, inputs.sources[i].first, inputs.sources[i].count);
    inputs_close(&inputs);
    return out;
}

static const char *value_of(const char *format, const char *folder)
{
    static char value[8 * PATH_MAX];
    char *end = value;
    for (const char *c = format; *c; c++) end += *c == '@' ? sprintf(end, "%s", folder) : (*end = *c, 1);
    *end = '\0';
    return value;
}

static const char *make_files(void)
{
    static const char *const names[] = {"books/a.txt", "books/b.txt", "code/c.c",    "code/d.c",
                                        "a:0.5",       "one,two",     "books.txt",   "code.jsonl.gz",
                                        "ema.txt",     "v1.5.txt",    "v2.5.txt.gz", ".text"};
    const char *folder = scratch_path("mixed");
    char path[PATH_MAX];
    struct err err = {0};
    assert_ok(file_make_folders(scratch_path("mixed/books"), &err), &err);
    assert_ok(file_make_folders(scratch_path("mixed/code"), &err), &err);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        scratch_write(path, "a text of some length\n", 22);
    }
    return folder;
}

TEST_CASE(names_may_have_weights)
{
    const char *folder = make_files();
    assert_string_equal(listed(value_of("@/books/ : 0.7, @/code/*.c:0.3", folder)),
                        "texts books=0.7:0+2 code=0.3:2+2");
    assert_string_equal(listed(value_of("@/books: 1,@/books.txt : 2 ,@/code.jsonl.gz:\t 1e-1", folder)),
                        "texts books=1:0+2 books_2=2:2+1 code=0.1:3+1");
    assert_string_equal(listed(value_of("@/a:0.5", folder)), "texts"); /* a file of this name */
    assert_string_equal(listed(value_of("@/a:0.5 : 2", folder)), "texts a_0=2:0+1");
    assert_string_equal(listed(value_of("@/one,two", folder)), "texts");
    assert_string_equal(listed(value_of("@/v1.5.txt : 1, @/v2.5.txt.gz : 1", folder)),
                        "texts v1.5=1:0+1 v2.5=1:1+1");
    assert_string_equal(listed(value_of("@/.text : 1", folder)), "texts _text=1:0+1");
    assert_int_equal(strncmp(listed("*.md : 1"), "texts source=1:0+", 17),
                     0); /* of the folder of the tests */
    /* val_loss_ema is the loss of averaged weights */
    assert_string_equal(listed(value_of("@/ema.txt : 1", folder)), "texts source=1:0+1");
}

TEST_CASE(weights_that_mean_nothing_are_refused)
{
    static const struct {
        const char *value, *words;
    } cases[] = {
        {"@/books : 0", "its weight is 0, which is not a number above 0"},
        {"@/books : 1, @/code : -1", "its weight is -1"},
        {"@/books : nan", "its weight is nan"},
        {"@/books : inf", "its weight is inf"},
        {"@/books : 1, : 0.5", "a weight in a list of data files has no name before it"},
        {"@/books : 1, @/code", "code: has no weight, but other names have"},
        {"@/books : 1, @/nothing : 1", "nothing: no such file or folder"},
        {"@/books : much", "the weight of a source is a number"},
        {"@/books : 1, @/books/a.txt : 1", "a.txt of source a: is also in source books, as"},
    };
    const char *folder = make_files();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct inputs inputs;
        struct err err = {0};
        assert_int_not_equal(inputs_open(value_of(cases[i].value, folder), NULL, NULL, &inputs, &err),
                             STATUS_OK);
        if (!strstr(err.text, cases[i].words)) fail_msg("%s: %s", cases[i].value, err.text);
    }
}

TEST_CASE(a_mixture_has_at_most_24_sources)
{
    for (int count = 24; count < 26; count++) {
        char value[25 * PATH_MAX] = "", path[40];
        struct inputs inputs;
        struct err err = {0};
        for (int i = 0; i < count; i++) {
            snprintf(path, sizeof path, "source_%d.txt", i);
            scratch_write(scratch_path(path), "a text", 6);
            sprintf(strchr(value, 0), "%s%s : 1", i ? ", " : "", scratch_path(path));
        }
        enum status status = inputs_open(value, NULL, NULL, &inputs, &err);
        assert_int_equal(status, count == 24 ? STATUS_OK : STATUS_USAGE);
        if (status)
            assert_non_null(strstr(err.text, "source_24.txt: a mixture has at most 24 sources"));
        else
            inputs_close(&inputs);
    }
}

/* ---- the corpus ---- */

TEST_CASE(sources_are_encoded_apart_with_one_tokenizer)
{
    static const char *const tokenizers[] = {"bpe:260", "bytes"};
    const char *folder = make_files(), *cache = scratch_path("cache_mixed");
    for (int i = 0; i < 4; i++) {
        struct corpus corpus;
        struct err err = {0};
        assert_ok(corpus_open(value_of("@/books : 0.7, @/code/c.c : 0.3", folder), tokenizers[i / 2], NULL,
                              cache, NULL, &corpus, &err),
                  &err);
        assert_int_equal(corpus.source_count, 2);
        assert_int_equal(corpus.file_count, 2);
        assert_int_equal(corpus.files[0].count, 2 * corpus.files[1].count);
        struct corpus one = corpus_of_source(&corpus, 1);
        assert_int_equal(one.tokens, corpus.files[1].count);
        size_t n;
        char *text = tokenizer_decode(corpus.tokenizer, one.files[0].tokens, one.tokens, &n);
        assert_string_equal(text, "a text of some length\n");
        free(text);
        corpus_close(&corpus);
        assert_int_equal(scratch_entries(cache), i / 2 + 1); /* found again the second time */
    }
}

TEST_CASE(a_sidecar_without_the_sources_is_refused_with_the_remedy)
{
    static const char *const sources[] = {"", ",\"sources\":[66]", ",\"sources\":[22,22,22]"};
    const char *folder = make_files(), *cache = scratch_path("cache_sources");
    struct corpus corpus = {0};
    struct err err = {0};
    char value[4 * PATH_MAX], sidecar[PATH_MAX + 8], text[100];
    snprintf(value, sizeof value, "%s", value_of("@/books/a.txt : 0.7, @/code : 0.3", folder));
    assert_ok(corpus_open(value, "bytes", NULL, cache, NULL, &corpus, &err), &err);
    snprintf(sidecar, sizeof sidecar, "%s.json", corpus.files[0].path);
    assert_int_equal(corpus_of_source(&corpus, 1).files[0].count, 44);
    corpus_close(&corpus);
    for (int i = 0; i < 3; i++) {
        int n = snprintf(text, sizeof text, "{\"tokens\":66,\"tokenizer\":\"bytes\"%s}", sources[i]);
        scratch_write(sidecar, text, (size_t)n);
        assert_int_equal(corpus_open(value, "bytes", NULL, cache, NULL, &corpus, &err), STATUS_CORRUPT);
        assert_non_null(strstr(err.text, "corpus.tok: its sidecar does not name the tokens of 2 sources "
                                         "(remove its folder to prepare it again)"));
        assert_null(corpus.files);
    }
}

TEST_CASE(a_corpus_without_sources_is_one)
{
    struct corpus corpus;
    struct err err = {0};
    assert_ok(corpus_open(value_of("@/books", make_files()), "bytes", NULL, scratch_path("cache_mixed"), NULL,
                          &corpus, &err),
              &err);
    struct corpus whole = corpus_of_source(&corpus, 0);
    assert_int_equal(whole.tokens, 44);
    assert_int_equal(whole.file_count, 1);
    assert_int_equal(whole.files[0].count, 44);
    assert_null(whole.validation);
    corpus_close(&corpus);
}

TEST_CASE(token_files_of_a_source_stay_together)
{
    const char *folder = make_files();
    char path[PATH_MAX];
    struct corpus corpus;
    struct err err = {0};
    struct tokenizer *bytes = NULL;
    assert_ok(tokenizer_open_bytes(&bytes, &err), &err);
    struct token_sidecar sidecar = {
        .tokenizer = "bytes", .vocab_size = 256, .tokenizer_checksum = tokenizer_checksum(bytes)};
    for (uint32_t i = 0; i < 3; i++) {
        struct token_writer writer;
        snprintf(path, sizeof path, "%s/%s-%u.tok", folder, i < 2 ? "prose" : "code", i);
        assert_ok(token_writer_open(&writer, path, &err), &err);
        for (uint32_t k = 0; k < 10 * (i + 1); k++)
            assert_ok(token_writer_append(&writer, &i, 1, &err), &err);
        assert_ok(token_writer_commit(&writer, &sidecar, &err), &err);
    }
    assert_ok(corpus_open(value_of("@/prose-*.tok : 0.7, @/code-*.tok : 0.3", folder), "", NULL, NULL, NULL,
                          &corpus, &err),
              &err);
    assert_int_equal(corpus.source_count, 2);
    assert_int_equal(corpus_of_source(&corpus, 0).tokens, 10 + 20);
    assert_int_equal(corpus_of_source(&corpus, 1).tokens, 30);
    assert_int_equal(corpus_of_source(&corpus, 1).files[0].tokens[0], 2);
    corpus_close(&corpus);
    tokenizer_close(bytes);
}

TEST_CASE(other_weights_are_another_corpus)
{
    const char *folder = make_files(), *cache = scratch_path("cache_mixed");
    static const char *const values[] = {"@/books : 0.7, @/code : 0.3", "@/books : 0.6, @/code : 0.3",
                                         "@/books : 0.7, @/code : 0.4"};
    struct corpus_mark marks[3];
    struct err err = {0};
    for (int i = 0; i < 3; i++) {
        struct corpus corpus;
        assert_ok(corpus_open(value_of(values[i], folder), "bytes", NULL, cache, NULL, &corpus, &err), &err);
        marks[i] = corpus_mark_of(&corpus);
        corpus_close(&corpus);
    }
    assert_ok(corpus_mark_check(&marks[0], &marks[0], &err), &err);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(corpus_mark_check(&marks[0], &marks[i], &err), STATUS_USAGE);
        assert_non_null(strstr(err.text, "or other weights"));
    }
}

TEST_CASE(weights_stay_when_paths_are_made_absolute)
{
    char here[PATH_MAX], value[4 * PATH_MAX] = "books/ : 0.7, code/*.c:0.3,kjv : 2", wanted[4 * PATH_MAX];
    const char *folder = make_files();
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    assert_true(inputs_make_absolute(value, sizeof value));
    assert_int_equal(chdir(here), 0);
    snprintf(wanted, sizeof wanted, "%s/books/ : 0.7,%s/code/*.c : 0.3,kjv : 2", folder, folder);
    assert_string_equal(value, wanted);
}

TEST_MAIN()
