/* Comparing runs: whether they learn the same texts, the settings of several runs in one column, and the
 * steps and time to a loss. */
#include <limits.h>
#include <math.h>

#include "runs/comparison.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"

static void expect_same(bool same, const char *x, const char *y)
{
    if (comparison_same_sources(x, y) != same || comparison_same_sources(y, x) != same)
        fail_msg("\"%s\" and \"%s\" are%s the same sources", x, y, same ? " not" : "");
}

/* Weights, and blanks around names, say nothing of the texts. */
TEST_CASE(sources_are_the_same_if_their_names_are)
{
    static const char *const lists[] = {"a.txt,b c.txt", "a.txt, b c.txt", "a.txt , b c.txt  ",
                                        "a.txt:2,b c.txt:0.5", "a.txt : 2 , b c.txt: 1e-3"};
    static const char *const others[] = {"",
                                         "a.txt",
                                         "a.txt,b",
                                         "a.txt,b c.txt,d",
                                         "b c.txt,a.txt",
                                         "a.tx,b c.txt",
                                         "a.txt:x,b c.txt",
                                         "a.txt,b  c.txt"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) expect_same(true, lists[i], lists[k]);
        for (size_t k = 0; k < sizeof others / sizeof *others; k++) expect_same(false, lists[i], others[k]);
    }
    expect_same(true, "", "");
}

/* Adds a run of this configuration with 60 parameters, 10 of them frozen, that reaches a loss of 1 after two
 * steps of 100 tokens. */
static void add_run(const char *home, const char *name, const char *config)
{
    char id[RUN_ID_MAX];
    struct err err = {0};
    struct store *store = store_fixture_open(home);
    struct run_new run = {.name = name,
                          .device = "cpu",
                          .precision = "fp32",
                          .parameters = 60,
                          .frozen_parameters = 10,
                          .total_steps = 2,
                          .config = config};
    if (run_create(store, &run, id, &err)) fail_msg("%s", err.text);
    store_close(store);
    struct writer *writer = store_fixture_writer(home, id);
    for (int64_t s = 0; s < 2; s++) {
        struct step_record step = store_fixture_step(s, 0);
        step.tokens = 100 * (s + 1);
        writer_step(writer, &step);
    }
    writer_eval(writer, &(struct eval_record){2, 200, 1.7e9, 1, 3, 1});
    assert_int_equal(writer_close(writer, RUN_FINISHED, NULL, &err), STATUS_OK);
}

/* The cell of a run in the row whose name begins so. */
static const char *cell(const struct comparison *c, const char *row, size_t run, char buf[200])
{
    for (size_t i = 0; i < c->row_count; i++)
        if (strncmp(c->rows[i].name, row, strlen(row)) == 0)
            return comparison_text(c, &c->rows[i], run, buf, 200);
    return "no such row";
}

/* A value that another one begins with, or ends with, is listed beside it; 3e-4 is 0.0003. */
TEST_CASE(runs_of_one_place_list_the_values_in_which_they_differ)
{
    char home[PATH_MAX], config[200], buf[200];
    static const char *const values[][2] = {{"10", "3e-4"}, {"1", "0.0003"}, {"10", "0.001"},
                                            {"1", "3e-4"},  {"0", "1e-3"},   {"2", "1"}};
    struct arena arena = {0};
    struct run_info *runs;
    struct comparison c;
    struct err err = {0};
    size_t count;
    store_fixture_home("compared-lists", home, sizeof home);
    for (size_t i = 0; i < 6; i++) {
        snprintf(config, sizeof config, "[train]\nseed = %s\nlearning_rate = %s\n", values[i][0],
                 values[i][1]);
        add_run(home, "seed", config);
    }
    struct store *store = store_fixture_open(home);
    assert_int_equal(run_list(store, &arena, &runs, &count, &err), STATUS_OK);
    for (size_t i = 0; i < 3; i++) { /* the oldest first */
        struct run_info other = runs[i];
        runs[i] = runs[5 - i];
        runs[5 - i] = other;
    }
    struct comparison_request request = {
        .runs = runs, .count = count, .places = (const size_t[]){0, 0, 0, 0, 0, 1}};
    assert_int_equal(comparison_read(store, &request, &c, &err), STATUS_OK);
    assert_string_equal(cell(&c, "train.seed", 0, buf), "10, 1, 0");
    assert_string_equal(cell(&c, "train.seed", 1, buf), "2");
    assert_string_equal(comparison_setting(&c.runs[0], "train.learning_rate"), "3e-4, 0.001");
    assert_string_equal(c.runs[0].title, "1 seed ×5");
    comparison_release(&c);
    arena_release(&arena);
    store_close(store);
}

static struct run_info two[2]; /* that `compare` compares */

/* Two runs of these configurations. */
static void compare(const char *a, const char *b, struct comparison *c)
{
    char home[PATH_MAX];
    struct arena arena = {0};
    struct run_info *runs;
    struct err err = {0};
    size_t count;
    store_fixture_home("compared-two", home, sizeof home);
    add_run(home, "a", a);
    add_run(home, "b", b);
    struct store *store = store_fixture_open(home);
    assert_int_equal(run_list(store, &arena, &runs, &count, &err), STATUS_OK);
    two[0] = runs[1], two[1] = runs[0];
    arena_release(&arena);
    struct comparison_request request = {.runs = two, .count = 2};
    assert_int_equal(comparison_read(store, &request, c, &err), STATUS_OK);
    store_close(store);
}

/* Those before a fork were trained by its parent. */
TEST_CASE(wall_times_are_ranked_where_runs_have_trained_the_same_steps)
{
    struct comparison c;
    size_t i = 0;
    compare("", "", &c);
    while (strcmp(c.rows[i].name, "wall time") != 0) i++;
    c.rows[i].values[0] = 10;
    c.rows[i].values[1] = 2;
    assert_true(comparison_is_best(&c, &c.rows[i], 1));
    two[1].parent_step = 1;
    assert_false(comparison_is_best(&c, &c.rows[i], 1));
    assert_true(isnan(comparison_delta(&c, &c.rows[i], 1)));
    two[0].parent_step = 1;
    assert_true(comparison_is_best(&c, &c.rows[i], 1));
    comparison_release(&c);
}

/* A setting that one of the runs has not stored is no difference. */
TEST_CASE(losses_are_compared_only_of_the_same_tokens)
{
#define DATA "[data]\n"
    static const char tokens[] = "the tokens differ (compare bits per byte: `anneal evaluate`)";
    static const struct {
        const char *a, *b, *obstacle;
    } cases[] = {
        {DATA "format = text\n", DATA "format = labels\n", "data.format differs"},
        {DATA "format = text\n", "", NULL},
        {DATA "format = labels\ntokenizer = bytes\n", DATA "format = labels\ntokenizer = bpe:300\n", NULL},
        {DATA "format = labels\ntokenizer = bytes\n", DATA "tokenizer = bpe:300\n", tokens},
        {DATA "tokenizer = bytes\n", DATA "tokenizer = bpe:300\n", tokens},
        {DATA "tokenizer = bytes\n", "", NULL},
        {DATA "tokenizer = bytes\ntrain = a\n", DATA "tokenizer = bytes\ntrain = b\n", NULL},
        {DATA "tokenizer = bpe:300\ntrain = a\n", DATA "tokenizer = bpe:300\ntrain = a : 2\n", NULL},
        {DATA "tokenizer = bpe:300\ntrain = a\n", DATA "tokenizer = bpe:300\ntrain = b\n", tokens},
        {DATA "tokenizer = bpe:300\ntrain = a\n", DATA "tokenizer = bpe:300\n", NULL},
    };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const char *a = cases[i / 2].a, *b = cases[i / 2].b, *expected = cases[i / 2].obstacle;
        struct comparison c;
        compare(i % 2 ? b : a, i % 2 ? a : b, &c);
        const char *found = comparison_loss_obstacle(&c);
        if (expected ? !found || strcmp(found, expected) != 0 : found != NULL)
            fail_msg("case %zu: %s", i / 2, found ? found : "none");
        comparison_release(&c);
    }
}

TEST_CASE(validation_losses_of_other_texts_or_parts_of_them_have_a_note)
{
#define READS(batches) "[train]\nbatch_size = 2\nseq_len = 8\n[eval]\nbatches = " batches "\n"
    static const struct {
        const char *a, *b, *note;
    } cases[] = {
        {DATA "val = v\ntrain = a\n", DATA "val = v\ntrain = b\n", NULL},
        {DATA "val = v\n", DATA "val = w\n", "of different texts"},
        {DATA "val = v\n", "", NULL},
        {DATA "val = \ntrain = a\n", DATA "val = \ntrain = b\n", "of different texts"},
        {DATA "val = \ntrain = a\n", DATA "val = \n", NULL},
        {DATA "val = \ntrain = a\nval_fraction = 0.1\n", DATA "val = \ntrain = a\nval_fraction = 1e-1\n",
         NULL},
        {DATA "val = \ntrain = a\nval_fraction = 0.1\n", DATA "val = \ntrain = a\nval_fraction = 0.2\n",
         "of different texts"},
        {DATA "val = \ntrain = a\nval_split = tail\n", DATA "val = \ntrain = a\nval_split = blocks\n",
         "of different texts"},
        {READS("4"), READS("4"), NULL},
        {READS("4"), READS("5"), "of different parts of the text"},
        {READS("4"), READS("0"), "of different parts of the text"},
        {READS("4"), "", NULL},
    };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const char *a = cases[i / 2].a, *b = cases[i / 2].b, *expected = cases[i / 2].note;
        struct comparison c;
        compare(i % 2 ? b : a, i % 2 ? a : b, &c);
        const char *found = comparison_validation_note(&c);
        if (expected ? !found || !strstr(found, expected) : found != NULL)
            fail_msg("case %zu: %s", i / 2, found ? found : "none");
        comparison_release(&c);
    }
}

/* 6 for each of the 60 parameters but the embedding of 2 x 4, less 2 for each frozen one but those, and
 * 12 x 2 layers x 4 wide x 8 long for attention: 1076 for each of 200 tokens. */
TEST_CASE(the_flops_until_a_loss_are_counted_where_they_are_known)
{
#define SIZES "num_layers = 2\nnum_heads = 1\nhead_dim = 4\nvocab_size = 2\nhidden_dim = 4\n"
#define TRAIN "[train]\nseq_len = 8\n"
    static const struct {
        const char *config, *flops;
    } cases[] = {
        {TRAIN "[model]\n" SIZES "tie_weights = false\n", "2.15e+05"},
        {TRAIN "[model]\n" SIZES "tie_weights = false\n[data]\nformat = text\n", "2.15e+05"},
        {TRAIN "[model]\n" SIZES "tie_weights = true\n", "2.22e+05"}, /* the embedding is the head */
        {TRAIN "[model]\n" SIZES "tie_weights = false\n[data]\nformat = labels\n", "-"},
        {TRAIN "[model]\n" SIZES "tie_weights = false\n[data]\ndocuments = packed\n", "-"},
        {TRAIN "[model]\n" SIZES "tie_weights = false\nsliding_window = 4\n", "-"},
        {TRAIN "[model]\n" SIZES "tie_weights = false\nsliding_window = 0\n", "2.15e+05"},
        {TRAIN "[model]\n" SIZES, "-"},
        {"[model]\n" SIZES "tie_weights = false\n", "-"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char home[PATH_MAX], buf[200];
        struct arena arena = {0};
        struct run_info *runs;
        struct comparison c;
        struct err err = {0};
        size_t count;
        store_fixture_home("compared-flops", home, sizeof home);
        add_run(home, "one", cases[i].config);
        struct store *store = store_fixture_open(home);
        assert_int_equal(run_list(store, &arena, &runs, &count, &err), STATUS_OK);
        struct comparison_request request = {.runs = runs, .count = count, .has_target = true, .target = 1};
        assert_int_equal(comparison_read(store, &request, &c, &err), STATUS_OK);
        const char *flops = cell(&c, "FLOPs to", 0, buf);
        if (strcmp(flops, cases[i].flops) != 0) fail_msg("case %zu: %s", i, flops);
        comparison_release(&c);
        arena_release(&arena);
        store_close(store);
    }
}

TEST_MAIN()
