/* `compare`, and the outcomes that `show` tells, as a user reads them. */
#include <jansson.h>
#include <limits.h>
#include <locale.h>
#include <math.h>

#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"
#include "tests/tui/command/three_runs.h"
#include "tui/widget/grid.h"

/* The line that begins with `label`; the buffer is the caller's. */
static const char *line_of(const char *text, const char *label, char *buf, size_t size)
{
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        if (strncmp(line, label, strlen(label)) == 0) {
            snprintf(buf, size, "%.*s", (int)strcspn(line, "\n"), line);
            return buf;
        }
    fail_msg("no line \"%s\" in: %s", label, text);
    return NULL;
}

static void expect_width(const char *text, int most)
{
    char line[1000];
    for (const char *c = text; *c; c += strcspn(c, "\n") + 1) {
        size_t n = strcspn(c, "\n");
        assert_int_equal(c[n], '\n');
        snprintf(line, sizeof line, "%.*s", (int)n, c);
        if (glyph_text_width(line) > most) fail_msg("wider than %d: \"%s\"", most, line);
        if (n && line[n - 1] == ' ') fail_msg("ends with a blank: \"%s\"", line);
    }
}

TEST_CASE(compare_shows_only_what_differs_and_the_outcomes)
{
    char home[PATH_MAX], ids[3][RUN_ID_MAX], line[200];
    three_runs_home("compare", home);
    three_runs_make(home, ids);
    char *out = process_output("compare", "base", "fast", "odd", NULL);
    expect_width(out, 80);
    for (int i = 0; i < 3; i++) assert_non_null(strstr(out, ids[i]));
    assert_non_null(strstr(out, "Configuration: 2 of 3 keys differ"));
    assert_null(strstr(out, "batch_size"));
    line_of(out, "train.learning_rate", line, sizeof line); /* 3e-4 and 0.0003 are the same, 0.001 is not */
    assert_non_null(strstr(line, " 3e-4 "));
    assert_non_null(strstr(line, " 0.001 "));
    line_of(out, "data.train", line, sizeof line);
    assert_non_null(strstr(line, " kjv "));
    assert_null(strchr(out, '\x1B'));
    line_of(out, "final loss", line, sizeof line);
    assert_non_null(strstr(line, "3.0000"));
    assert_non_null(strstr(line, "2.5000 *"));
    assert_non_null(strstr(line, "nan"));
    assert_non_null(strstr(out, "2.5000 * (-0.5000)")); /* to the first */
    line_of(out, "best val loss", line, sizeof line);
    assert_non_null(strstr(line, "3.2500 *"));
    line_of(out, "tokens/s", line, sizeof line);
    assert_non_null(strstr(line, "2.00k *"));
    assert_non_null(strstr(out, "+100.0%"));
    assert_non_null(strstr(out, "-50.0%"));
    line_of(out, "peak memory", line, sizeof line); /* 1000 + 24, and it is the same twice */
    assert_non_null(strstr(line, "1.0 KiB *"));
    assert_non_null(strstr(line, "3.0 KiB"));
    assert_non_null(strstr(out, "+195.3%"));

    out = process_output("compare", "odd", "base", NULL);
    line_of(out, "data.train", line, sizeof line);
    assert_null(strstr(out, "train.learning_rate"));
    char copy[RUN_ID_MAX];
    three_runs_add(home, "copy", "[train]\nlearning_rate = 3e-04\nbatch_size = 16\n[data]\ntrain = kjv\n", 3,
                   3.5, 1000, 1000, copy);
    out = process_output("compare", "copy", "base", NULL);
    assert_non_null(strstr(out, "Configuration: 0 of 3 keys differ\n"));
    assert_null(strstr(out, "1.0 KiB *")); /* nobody is best of equals */
}

TEST_CASE(compare_has_the_measures_of_the_best_evaluation)
{
    char home[PATH_MAX], ids[3][RUN_ID_MAX], line[200], sql[400];
    three_runs_home("compare-measures", home);
    three_runs_make(home, ids);
    for (int i = 0; i < 2; i++) { /* step 90 is not the best one */
        snprintf(
            sql, sizeof sql,
            "insert into measures(run_id, segment, step, name, value) values ('%s', 1, 100, 'accuracy', %s),"
            " ('%s', 1, 90, 'accuracy', 0.99)",
            ids[i], i ? "0.75" : "0.5", ids[i]);
        store_fixture_sql(home, sql);
    }
    char *out = process_output("compare", "base", "fast", "odd", NULL);
    line_of(out, "  accuracy", line, sizeof line);
    assert_non_null(strstr(line, " 0.5000 "));
    assert_non_null(strstr(out, "0.7500 * (+0.2500)"));
    assert_null(strstr(out, "0.99"));
    out = process_output("compare", "base", "fast", "--json", NULL);
    json_t *json = stage_json(out);
    const json_t *fast = json_array_get(json_object_get(json, "runs"), 1);
    assert_true(json_real_value(json_object_get(json_object_get(fast, "measures"), "accuracy")) == 0.75);
}

TEST_CASE(show_has_a_measure_that_the_last_evaluations_lack)
{
    char home[PATH_MAX], id[RUN_ID_MAX], sql[400];
    three_runs_home("older-measures", home);
    three_runs_add(home, "logged", "[train]\nseed = 1\n", 3, 3.5, 1000, 1000, id);
    snprintf(sql, sizeof sql,
             "insert into measures(run_id, segment, step, name, value) with recursive n(i) as "
             "(select 90 union all select i + 1 from n where i < 99) select '%s', 1, i, 'each', i from n "
             "union all select '%s', 1, 40, 'rare', 0.25 union all select '%s', 1, 50, 'rare', 0.5",
             id, id, id);
    store_fixture_sql(home, sql);
    char *out = process_output("show", "logged", NULL);
    assert_non_null(
        strstr(out, "\nNewest values of other measures\n  measure  step  value\n  rare       50    0.5\n"));
    store_fixture_sql(home, "delete from measures where name = 'rare'");
    assert_null(strstr(process_output("show", "logged", NULL), "other measures"));
}

TEST_CASE(compare_speaks_json)
{
    char home[PATH_MAX], ids[3][RUN_ID_MAX];
    three_runs_home("compare-json", home);
    three_runs_make(home, ids);
    char *out = process_output("compare", "base", "fast", "odd", "--json", NULL);
    json_t *root = stage_json(out);
    json_t *runs = json_object_get(root, "runs"), *config = json_object_get(root, "config");
    assert_int_equal(json_array_size(runs), 3);
    assert_int_equal(json_object_size(config), 2);
    json_t *rates = json_object_get(config, "train.learning_rate");
    assert_true(json_real_value(json_array_get(rates, 0)) == 3e-4);
    assert_true(json_real_value(json_array_get(rates, 1)) == 1e-3);
    json_t *second = json_array_get(runs, 1), *delta = json_object_get(second, "delta");
    assert_string_equal(json_string_value(json_object_get(second, "id")), ids[1]);
    assert_true(json_real_value(json_object_get(second, "final_loss")) == 2.5);
    assert_int_equal(json_integer_value(json_object_get(second, "peak_memory_bytes")), 1024);
    assert_true(json_is_real(json_object_get(second, "wall_time_sec")));
    assert_true(json_real_value(json_object_get(delta, "final_loss")) == -0.5);
    assert_true(json_real_value(json_object_get(delta, "best_val_loss")) == -0.25);
    assert_int_equal(json_integer_value(json_object_get(delta, "peak_memory_bytes")), 0);
    assert_true(
        json_is_null(json_object_get(json_object_get(json_array_get(runs, 2), "delta"), "final_loss")));
    json_t *best = json_object_get(json_object_get(root, "best"), "final_loss");
    assert_int_equal(json_array_size(best), 1);
    assert_string_equal(json_string_value(json_array_get(best, 0)), ids[1]);
}

/* The names of the runs that are the best by `outcome`, joined by blanks; the buffer is the caller's. */
static const char *best_by(const char *const arguments[], const char *outcome, char *buf, size_t size)
{
    struct process *p = process_open(&(struct process_options){.arguments = arguments});
    process_expect(0, p);
    json_t *root = stage_json(process_stdout(p)), *id;
    size_t i, used = 0;
    *buf = '\0';
    json_array_foreach(json_object_get(json_object_get(root, "best"), outcome), i, id)
        used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? " " : "",
                                 strchr(json_string_value(id) + 9, '-') + 1);
    return buf;
}

TEST_CASE(compare_judges_only_what_can_be_compared)
{
    static const char *const words[] = {"compare", "slow", "fast", "stopped", "--json", NULL},
                             *const all[] = {"compare", "slow", "fast", "pieces", "--json", NULL},
                             *const learned[] = {"compare", "pieces", "others", "--json", NULL};
    char home[PATH_MAX], id[RUN_ID_MAX], best[200];
    three_runs_home("compare-judges", home);
    three_runs_add(home, "slow", "[data]\ntokenizer = bytes\n", 3, 3.5, 1000, 1000, id);
    three_runs_add(home, "fast", "[data]\ntokenizer = bytes\n", 2.5, 3.25, 2000, 2000, id);
    three_runs_add(home, "stopped", "[data]\ntokenizer = bytes\n", 5, 5, 500, 3000, id);
    three_runs_add(home, "pieces", "[data]\ntokenizer = bpe:300\ntrain = a\n", 1, 1, 3000, 500, id);
    three_runs_add(home, "others", "[data]\ntokenizer = bpe:300\ntrain = b\n", 2, 2, 3000, 500, id);
    store_fixture_sql(home,
                      "update segments set ended_at = started_at + (select case name when 'fast' then 50"
                      " when 'stopped' then 1 else 100 end from runs where id = run_id);"
                      "update runs set status = 'stopped', steps = 3, best_val_loss = null,"
                      " best_step = null where name = 'stopped'");
    line_of(process_output("compare", "slow", "stopped", NULL), "best val loss", best, sizeof best);
    assert_null(strstr(best, "nan")); /* it was never evaluated */
    assert_string_equal(best_by(words, "wall_time_sec", best, sizeof best), "fast"); /* not who left early */
    assert_string_equal(best_by(words, "final_loss", best, sizeof best), "fast");
    assert_string_equal(best_by(words, "peak_memory_bytes", best, sizeof best),
                        "slow");                                            /* the first one, too */
    assert_string_equal(best_by(all, "final_loss", best, sizeof best), ""); /* of other tokens */
    assert_string_equal(best_by(all, "best_val_loss", best, sizeof best), "");
    assert_string_equal(best_by(all, "tokens_per_sec", best, sizeof best), "pieces");
    assert_string_equal(best_by(learned, "final_loss", best, sizeof best), ""); /* learned from other texts */
    char *out = process_output("compare", "slow", "pieces", NULL), line[200];
    assert_null(strchr(line_of(out, "final loss", line, sizeof line), '*'));
    assert_null(strstr(out, "(-2.0000)"));
    assert_non_null(strstr(out, "compare bits per byte: `"));
    out = process_output("compare", "slow", "fast", NULL);
    assert_null(strstr(out, "bits per byte"));
}

/* A classifier's loss, that of a text, is lower than that of a token, and is reached at once. */
TEST_CASE(compare_does_not_rank_losses_of_other_kinds)
{
    static const char *const words[] = {"compare", "text", "again", "spam", "--to-loss", "3", "--json", NULL};
    char home[PATH_MAX], id[RUN_ID_MAX], best[200], line[200];
    three_runs_home("compare-kinds", home);
    three_runs_add(home, "text", "[data]\nformat = text\ntokenizer = bytes\n", 3, 2.5, 1000, 1000, id);
    three_runs_add(home, "again", "[data]\nformat = text\ntokenizer = bytes\n", 2, 2, 1000, 1000, id);
    three_runs_add(home, "spam", "[data]\nformat = labels\ntokenizer = bytes\n", 0.5, 0.5, 1000, 1000, id);
    store_fixture_sql(home, "update evals set step = 1 where run_id like '%spam'");
    assert_string_equal(best_by(words, "final_loss", best, sizeof best), "");
    assert_string_equal(best_by(words, "target_steps", best, sizeof best), "");
    char *out = process_output("compare", "text", "spam", "--to-loss", "3", NULL);
    assert_non_null(strstr(out, "Losses cannot be compared: data.format differs.\n"));
    assert_null(strchr(line_of(out, "final loss", line, sizeof line), '('));
    assert_null(strchr(line_of(out, "steps to 3", line, sizeof line), '('));
    out = process_output("compare", "text", "again", NULL);
    assert_null(strstr(out, "cannot be compared"));
}

static void add_evaluated(const char *home, const char *name, int batches, int size, int T, const char *val)
{
    char config[200], id[RUN_ID_MAX];
    snprintf(config, sizeof config,
             "[train]\nbatch_size = %d\nseq_len = %d\n[data]\ntrain = a\nval = %s\n[eval]\nbatches = %d\n",
             size, T, val, batches);
    three_runs_add(home, name, config, 3, 3.5, 1000, 1000, id);
}

TEST_CASE(compare_says_where_validation_losses_are_of_other_text)
{
    static const char parts[] = "of different parts of the text", texts[] = "of different texts";
    char home[PATH_MAX];
    three_runs_home("compare-validation", home);
    add_evaluated(home, "one", 20, 4, 64, "");
    add_evaluated(home, "equal", 40, 2, 64, "");
    add_evaluated(home, "wide", 20, 8, 64, "");
    add_evaluated(home, "other", 20, 4, 64, "b");
    add_evaluated(home, "long", 20, 4, 128, "");
    assert_non_null(strstr(process_output("compare", "one", "long", NULL), parts));
    assert_non_null(strstr(process_output("compare", "one", "wide", NULL), parts));
    assert_non_null(strstr(process_output("compare", "one", "wide", "--markdown", NULL), parts));
    assert_non_null(strstr(process_output("compare", "one", "other", NULL), texts));
    assert_null(strstr(process_output("compare", "one", "equal", NULL), "Validation losses"));
    store_fixture_sql(home, "update runs set best_val_loss = null, best_step = null where name = 'wide'");
    assert_null(strstr(process_output("compare", "one", "wide", NULL), "Validation losses"));
}

TEST_CASE(numbers_that_are_odd_are_shown_as_what_they_are)
{
    char home[PATH_MAX], id[RUN_ID_MAX], line[200];
    three_runs_home("odd-numbers", home);
    three_runs_add(home, "early", "[train]\nasync = true\ngraph = false\n", 3, 150, 1000, 1000, id);
    char *out = process_output("show", "early", NULL);
    assert_non_null(strstr(out, "150.0000       1.394e+65  ")); /* not 66 digits */
    store_fixture_sql(home,
                      "update runs set best_step = 0, best_val_loss = 5.25"); /* evaluated before step 1 */
    out = process_output("runs", NULL);
    assert_non_null(strstr(line_of(out, id, line, sizeof line), " 5.2500 "));
    out = process_output("show", "early", NULL);
    assert_non_null(strstr(out, "5.2500 after 0 steps\n"));
    assert_null(strstr(out, "\nname  "));
    store_fixture_sql(home, "update runs set name = 'ly'"); /* its id ends so, too */
    assert_non_null(strstr(process_output("show", id, NULL), "\nname               ly\n"));
    out = process_output("show", id, "--json", NULL);
    json_t *root = stage_json(out), *train = json_object_get(json_object_get(root, "config"), "train");
    assert_true(json_is_true(json_object_get(train, "async")));
    assert_true(json_is_false(json_object_get(train, "graph")));
}

TEST_CASE(compare_wraps_many_runs_into_blocks)
{
    enum { RUNS = 12 };
    char home[PATH_MAX], names[RUNS][24], id[RUN_ID_MAX], config[100];
    const char *arguments[RUNS + 2] = {"compare"};
    three_runs_home("compare-many", home);
    for (int i = 0; i < RUNS; i++) {
        snprintf(names[i], sizeof names[i], "candidate-%02d", i);
        snprintf(config, sizeof config, "[train]\nseed = %d\nlearning_rate = 3e-4\n", 1000 + i);
        three_runs_add(home, names[i], config, 3 + i, 4 - i, 1000, 1000, id);
        arguments[i + 1] = names[i];
    }
    static const int widths[] = {80, 40, 24, 200};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        char *columns = kept_format("COLUMNS=%d", widths[w]);
        const char *environment[] = {columns, NULL};
        struct process *p = process_open(&(struct process_options){
            .arguments = arguments, .environment = w ? environment : NULL}); /* without it: 80 */
        process_expect(0, p);
        const char *out = process_stdout(p), *table = strstr(out, "\n\n");
        assert_non_null(table);
        expect_width(table + 2, widths[w] < 70 ? 70 : widths[w]); /* a title is 63 wide */
        int seeds = 0;
        for (const char *c = out; (c = strstr(c, "train.seed")); c++) seeds++;
        if (widths[w] == 80) assert_true(seeds >= 2 && seeds <= 4);
        if (widths[w] == 24) assert_int_equal(seeds, RUNS);
        for (int i = 0; i < RUNS; i++) {
            char *seed = kept_format(" %d", 1000 + i);
            assert_non_null(strstr(table, seed));
        }
    }
}

/* Twelve verdicts on a run's evaluations: the loss rises from the fourth on. */
static void make_stopping(const char *home, const char *name, int64_t first, char id[RUN_ID_MAX])
{
    three_runs_add(home, name, "[train]\nseed = 1\n[data]\ntrain = a|b*c_d\n", 3, 3.5, 1000, 1000, id);
    struct err err = {0};
    struct writer *writer = store_fixture_writer(home, id);
    for (int64_t i = 0; i < 12; i++)
        writer_stopping(writer, &(struct stopping_record){.step = first + 100 * i,
                                                          .val_loss = 3 + 0.125 * (double)(i < 4 ? 4 - i : i),
                                                          .best_val_loss = 3.125,
                                                          .best_step = first,
                                                          .improved = i < 4,
                                                          .patience_used = i < 4 ? 0 : i - 3,
                                                          .patience = 8,
                                                          .verdict = i < 4     ? VERDICT_IMPROVED
                                                                     : i == 11 ? VERDICT_STOP
                                                                               : VERDICT_WAITING});
    assert_int_equal(writer_close(writer, RUN_EARLY_STOPPED, NULL, &err), STATUS_OK);
}

TEST_CASE(the_story_of_early_stopping_is_told_row_by_row)
{
    char home[PATH_MAX], id[RUN_ID_MAX], line[200];
    three_runs_home("stopping", home);
    make_stopping(home, "even", 100, id);
    make_stopping(home, "late", 200, id);
    char *out = process_output("compare", "even", "late", NULL);
    assert_non_null(strstr(out, "Early stopping (the last 10 of 13 evaluations)"));
    assert_null(strstr(out, "after 300 steps"));
    assert_string_equal(line_of(out, "after 500 steps", line, sizeof line),
                        "after 500 steps   3.5000 waiting 1/8  3.1250 improved");
    assert_string_equal(line_of(out, "after 1300 steps", line, sizeof line),
                        "after 1300 steps                      4.3750 stop 8/8");
    out = process_output("compare", "even", "late", "--all", NULL);
    assert_non_null(strstr(out, "after 100 steps"));
    out = process_output("compare", "even", "late", "--json", NULL);
    json_t *root = stage_json(out),
           *rows = json_object_get(json_array_get(json_object_get(root, "runs"), 1), "early_stopping");
    assert_int_equal(json_array_size(rows), 12);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(rows, 0), "step")), 200);
    assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 11), "verdict")), "stop");
    out = process_output("show", "even", NULL);
    assert_non_null(strstr(out, "Early stopping (the last 10 of 12)"));
    out = process_output("show", "even", "--all", NULL);
    assert_null(strstr(out, "(the last 10"));
    assert_non_null(strstr(out, "Early stopping\n"));
}

TEST_CASE(the_headings_of_early_stopping_name_its_measure)
{
    char home[PATH_MAX], id[RUN_ID_MAX], line[200];
    struct err err = {0};
    three_runs_home("measure", home);
    three_runs_add(home, "spam", "[eval]\nmetric = accuracy\n", 3, 3.5, 1000, 1000, id);
    struct writer *writer = store_fixture_writer(home, id);
    writer_stopping(writer, &(struct stopping_record){.step = 100,
                                                      .val_loss = 0.9,
                                                      .best_val_loss = 0.9,
                                                      .best_step = 100,
                                                      .improved = true,
                                                      .patience = 3,
                                                      .metric = "accuracy"});
    assert_int_equal(writer_close(writer, RUN_FINISHED, NULL, &err), STATUS_OK);
    const char *stopping = strstr(process_output("show", "spam", NULL), "\nEarly stopping\n");
    assert_non_null(stopping);
    line_of(stopping, "  segment", line, sizeof line);
    assert_non_null(strstr(line, "  accuracy  best_accuracy  "));
    assert_null(strstr(line, "val_loss"));
    json_t *rows =
        json_object_get(stage_json(process_output("show", "spam", "--json", NULL)), "early_stopping");
    assert_non_null(json_object_get(json_array_get(rows, 0), "best_val_loss"));
}

TEST_CASE(compare_writes_markdown_that_no_setting_breaks)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    three_runs_home("markdown", home);
    make_stopping(home, "even", 100, id);
    three_runs_add(home, "other", "[train]\nseed = 2\n[data]\ntrain = <b>\n", 2, 2.5, 1000, 1000, id);
    char *out = process_output("compare", "even", "other", "--markdown", NULL);
    assert_non_null(
        strstr(out, "\n2 of 2 keys differ.\n\n| key | 1 even | 2 other |\n| --- | ---: | ---: |\n"));
    assert_non_null(strstr(out, "\n| data.train | a\\|b\\*c_d | \\<b\\> |\n| train.seed | 1 | 2 |\n"));
    assert_non_null(strstr(out, "\n| final loss | 3.0000 | 2.0000 \\* (-1.0000) |\n"));
    assert_non_null(strstr(out, "\n| after 1200 steps | 4.3750 stop 8/8 |  |\n"));
    process_expect_sentence(process_run(2, "compare", "even", "other", "--json", "--markdown", NULL),
                            "exclude each other");
}

/* Of a model whose shape is recorded, the FLOPs are those that `anneal plan` counts for a token of it; a
 * window would make them fewer. */
static void expect_flops(const char *home)
{
    static const char *const shape[] = {"num_layers", "num_heads", "head_dim", "vocab_size", "hidden_dim"};
    json_t *plan = stage_json(process_output("plan", "--gpus=2", "--json", "--model.preset=tiny",
                                             "--model.vocab_size=32000", "--model.tie_weights=false",
                                             "--train.seq_len=64", NULL));
    static const int values[] = {4, 4, 64, 32000, 256};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char *sql = kept_format("insert into params(run_id, name, value) select id, 'model.%s', %d from runs",
                                shape[i], values[i]);
        store_fixture_sql(home, sql);
    }
    char *sql = kept_format(
        "insert into params(run_id, name, value) select id, 'model.tie_weights', 'false' from runs;"
        "insert into params(run_id, name, value) select id, 'train.seq_len', '64' from runs;"
        "update runs set parameters = %lld",
        (long long)stage_int(plan, "parameters"));
    store_fixture_sql(home, sql);
    json_t *json = stage_json(process_output("compare", "base", "fast", "--to-loss=3", "--json", NULL));
    json_t *first = json_array_get(json_object_get(json, "runs"), 0);
    double flops = json_number_value(json_object_get(first, "target_flops")),
           expected = 8000 * json_number_value(json_object_get(plan, "flops_per_token"));
    if (!(fabs(flops - expected) <= 1e-12 * expected))
        fail_msg("%.17g FLOPs instead of %.17g", flops, expected);
    assert_int_equal(stage_int(first, "target_steps"), 80);
    static const char *const unknown[] = {
        "insert into params(run_id, name, value) select id, 'model.sliding_window', 16 from runs",
        "update params set name = 'data.documents', value = 'packed' where name = 'model.sliding_window'",
        "delete from params where name = 'data.documents'; update runs set parameters = null"};
    for (size_t i = 0; i < 3; i++) {
        store_fixture_sql(home, unknown[i]);
        json = stage_json(process_output("compare", "base", "fast", "--to-loss=3", "--json", NULL));
        first = json_array_get(json_object_get(json, "runs"), 0);
        assert_true(json_is_null(json_object_get(first, "target_flops")));
    }
    store_fixture_sql(home, "delete from params where name like 'model.%' or name = 'train.seq_len'");
}

TEST_CASE(a_target_is_timed_by_its_first_evaluation)
{
    char home[PATH_MAX], ids[3][RUN_ID_MAX];
    three_runs_home("target", home);
    three_runs_make(home, ids);
    store_fixture_sql(
        home, "delete from steps; delete from rollup; delete from evals; delete from segments;"
              "insert into segments(run_id, segment, first_step, started_at) select id, 1, 0, 1 from runs;"
              "with recursive n(i) as (select 0 union all select i + 1 from n where i < 99)"
              " insert into steps(run_id, segment, step, tokens, wall_time, step_ms) select id, 1, i,"
              " (i + 1) * 100, 1000 + i, 500 from n, runs;"
              "insert into evals(run_id, segment, step, val_loss) select id, 1, 20, 4 from runs union all"
              " select id, 1, 40, 2.5 from runs where name = 'fast' union all select id, 1, 80, 2 from runs");
    char *out = process_output("compare", "base", "fast", "--to-loss=3", NULL);
    if (!strstr(out, "\ntime to 3      40s ")) fail_msg("%s", out); /* 80 steps of half a second */
    assert_non_null(strstr(out, "20s * (-50.0%)"));
    assert_non_null(strstr(out, "\ntokens to 3    8.00k"));
    assert_non_null(strstr(out, "4.00k * (-50.0%)"));
    assert_non_null(strstr(out, "\nsteps to 3     80"));
    assert_non_null(strstr(out, "40 * (-40)"));
    assert_non_null(strstr(out, "\nFLOPs to 3     -")); /* the model's shape is not recorded */
    out = process_output("compare", "base", "fast", NULL);
    assert_null(strstr(out, "tokens to"));
    expect_flops(home);
    store_fixture_sql(home,
                      "insert into evals(run_id, segment, step, val_loss) select id, 1, 0, 5 from runs");
    out = process_output("compare", "base", "fast", "--to-loss=6", NULL); /* met before the first step */
    if (!strstr(out, "\nsteps to 6     0") || !strstr(out, "\ntokens to 6    0 ")) fail_msg("%s", out);
    store_fixture_sql(
        home, "update runs set parent_id = (select id from runs where name = 'base') where name = 'fast'");
    out = process_output("compare", "base", "fast", "--to-loss=3", NULL);
    if (!strstr(out, "\ntime to 3 with parent ")) fail_msg("%s", out);
}

TEST_CASE(compare_says_what_it_cannot)
{
    char home[PATH_MAX], ids[3][RUN_ID_MAX];
    three_runs_home("compare-errors", home);
    three_runs_make(home, ids);
    process_expect_sentence(process_run(2, "compare", NULL), "needs RUN RUN...");
    process_expect_sentence(process_run(2, "compare", "base", NULL), "needs RUN RUN...");
    process_expect_sentence(process_run(1, "compare", "base", "bass", NULL), "did you mean \"base\"");
    process_expect_sentence(process_run(2, "compare", "base", "fast", ids[0], NULL),
                            "which was already named");
    process_expect_sentence(process_run(2, "compare", "base", "fast", "--wide", NULL),
                            "unknown option --wide");
    char *out = process_output("compare", "--help", NULL);
    assert_non_null(strstr(out, "anneal compare base wide latest"));
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8"); /* how wide characters are */
    return TEST_RUN(NULL, NULL);
}
