/* Tables of other programs in CSV and logs in JSON, in the form that Lightning's CSVLogger, Keras's
 * CSVLogger, Hugging Face's trainer and others write them. */
#include "core/base/text.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/runs/exchange/exchange_fixture.h"

/* Imports a file with this content as the only run of a new store. Returns its error, or its remark. */
static const char *take(char home[PATH_MAX], const char *file, const char *content)
{
    static struct import_outcome made;
    static struct err err;
    store_fixture_home("named", home, PATH_MAX);
    struct store *store = store_fixture_open(home);
    enum status status = exchange_import(store, file, content, strlen(content), &made, &err);
    store_close(store);
    if (status) assert_int_equal(status, STATUS_CORRUPT);
    return status ? err.text : made.remark;
}

static void expect(const char *home, const char *sql, const char *want)
{
    char *got = store_fixture_text(home, sql);
    if (strcmp(got, want) != 0) fail_msg("%s gives:\n%s\nnot:\n%s", sql, got, want);
    free(got);
}

#define STEPS                                                                                                \
    "select group_concat(step || ' ' || ifnull(loss, case nan when 0 then '-' else 'nan' end)) from steps"
#define VALUES "select group_concat(step || ' ' || val_loss) from evals"
#define MEASURES                                                                                             \
    "select group_concat(name || ' ' || step || ' ' || value) from (select * from measures order by name, "  \
    "step)"

TEST_CASE(a_table_of_lightning_has_a_row_for_what_was_logged_at_once)
{
    char home[PATH_MAX];
    assert_string_equal(
        take(home, "metrics.csv",
             "epoch,lr-AdamW,step,train_loss_epoch,train_loss_step,val_loss\n"
             ",0.25,9,,,\n0,,9,,2.5,\n0,,19,,2.25,\n0,,19,,,2.375\n0,,19,2.3125,,\n1,,29,,nan,\n"
             "1,,39,,2.0,2.125\n"),
        "");
    expect(home, "select group_concat(lr) from steps", "0.25");
    expect(home, STEPS, "9 2.5,19 2.25,29 nan,39 2.0");
    expect(home, VALUES, "19 2.375,39 2.125");
    expect(home, MEASURES, "train_loss_epoch 19 2.3125");
    expect(home, "select group_concat(epoch) from steps", "0.0,0.0,1.0,1.0");
    expect(home, "select text from events", "loss is the metric train_loss_step of the log");
}

TEST_CASE(an_epoch_is_the_step_where_nothing_else_is)
{
    char home[PATH_MAX];
    assert_string_equal(
        take(home, "keras.csv",
             "\xEF\xBB\xBF"
             "epoch,accuracy,loss,val_loss,note\r\n0,0.25,2.5,2.75,first\r\n1,0.5,2.0,2.25,\"a,\nb\"\r\n"),
        "");
    expect(home, STEPS, "0 2.5,1 2.0");
    expect(home, VALUES, "0 2.75,1 2.25");
    expect(home, MEASURES, "accuracy 0 0.25,accuracy 1 0.5");
    /* as pandas writes a table: the number of the row has no name */
    take(home, "pandas.csv", ",epoch,Iteration,Global Step,loss\n0,1,8,3,2.5\n1,1,9,6,2.0\n");
    expect(home, STEPS, "3 2.5,6 2.0");
    expect(home, MEASURES, "iteration 3 8.0,iteration 6 9.0");
    take(home, "sheet.csv",
         "\xEF\xBB\xBF"
         "step;loss;note\r\n1;2.5;\"a;b, c\"\r\n2;2.0;\r\n");
    expect(home, STEPS, "1 2.5,2 2.0");
    take(home, "pandas.tsv", "step\tval_loss\n1\t2.5\n2\t\n3\t2.0\n");
    expect(home, VALUES, "1 2.5,3 2.0");
    /* not TensorBoard's table of one metric, whose third column is Value */
    take(home, "three.csv", "Wall time,Step,loss\n1700000000,1,2.5\n1700000001,2,2.0\n");
    expect(home, STEPS, "1 2.5,2 2.0");
}

TEST_CASE(a_row_whose_step_is_none_is_left_out_and_one_without_belongs_to_the_last)
{
    char home[PATH_MAX];
    assert_string_equal(
        take(home, "odd.csv",
             "wall_time,step,loss,acc\n1700000000,1,3,\n1700000001,1.5,4,1\n,-1,4,\n,1e16,4,\n,nan,4,\n"
             ",,,0.5\n1700000009,2,2,yes\n"),
        "10 values were left out: the step is not a whole number from 0 to 10^15");
    expect(home, STEPS, "1 3.0,2 2.0");
    expect(home, MEASURES, "acc 1 0.5");
    expect(home, "select group_concat(wall_time) from steps", "1700000000.0,1700000009.0");
    expect(home, "select created_at from runs", "1700000000.0");
}

TEST_CASE(a_table_whose_last_line_is_half_written_is_read_up_to_there)
{
    static const char *const ends[] = {"3", "3,", "3,1.5"};
    char home[PATH_MAX];
    for (int i = 0; i < 3; i++) {
        assert_string_equal(take(home, "live.csv", kept_format("step,loss,acc\n1,3,\n2,2,\n%s", ends[i])),
                            "line 4 has no end, and was left out");
        expect(home, STEPS, "1 3.0,2 2.0");
    }
    assert_string_equal(take(home, "live.csv", "step,loss,acc\n1,3,\n2,2,1"), "");
    expect(home, STEPS, "1 3.0,2 2.0");
    expect(home, MEASURES, "acc 2 1.0");
}

TEST_CASE(a_carriage_return_ends_a_line_and_zeros_are_no_field)
{
    char home[PATH_MAX];
    assert_string_equal(take(home, "cr.csv", "step,loss\r1,3\r2,2\r"), "");
    expect(home, STEPS, "1 3.0,2 2.0");
    struct import_outcome made;
    struct err err;
    static const char cut[] = "step,loss\n1,3\n2,2.\0\0\0";
    store_fixture_home("zeros", home, sizeof home);
    struct store *store = store_fixture_open(home);
    if (exchange_import(store, "zeros.csv", cut, sizeof cut - 1, &made, &err)) fail_msg("%s", err.text);
    store_close(store);
    assert_string_equal(made.remark, "line 3 has no end, and was left out");
    expect(home, STEPS, "1 3.0");
}

TEST_CASE(tables_may_have_many_columns_with_long_names)
{
    enum { COLUMNS = 200 };
    static char text[64 * COLUMNS];
    char home[PATH_MAX];
    *text = '\0';
    text_add(text, sizeof text, "", "step");
    for (int i = 0; i < COLUMNS; i++)
        text_add(text, sizeof text, ",", "a_long_name_of_a_column_of_which_the_end_differs_%d", i);
    text_add(text, sizeof text, "\n", "7");
    for (int i = 0; i < COLUMNS; i++) text_add(text, sizeof text, ",", "%d", i);
    assert_string_equal(take(home, "wide.csv", text), "");
    expect(home, "select count(distinct name), sum(value), min(step) from measures", "200|19900.0|7");
}

TEST_CASE(objects_in_lines_are_rows)
{
    char home[PATH_MAX];
    assert_string_equal(take(home, "log.jsonl",
                             "\n{\"step\": 10, \"loss\": 2.5, \"learning_rate\": 1e-3, \"timestamp\": "
                             "1700000000.5, \"ok\": true}\n"
                             "{\"step\": 20, \"loss\": NaN, \"text\": \"NaN \\\" Infinity\", \"eval\": "
                             "{\"loss\": 2.25, \"top\": {\"5\": 1}}}\n"
                             "{\"grad_norm\": -Infinity, \"list\": [1, 2], \"none\": null}\n"
                             "{\"step\": 30,\n \"loss\": \"Infinity\", \"id\": \"12\"}\n{\"step\": 40, \"lo"),
                        "line 7 has no end, and was left out");
    expect(home, STEPS, "10 2.5,20 nan,30 Inf");
    expect(home, VALUES, "20 2.25");
    expect(home, MEASURES, "eval_top_5 20 1.0");
    expect(home, "select lr, (select grad_norm from steps where step = 20) from steps where step = 10",
           "0.001|-Inf");
}

TEST_CASE(json_may_begin_with_a_byte_order_mark_and_have_large_integers)
{
    char home[PATH_MAX];
    assert_string_equal(take(home, "flos.jsonl",
                             "\xEF\xBB\xBF{\"step\": 1, \"loss\": 2, \"flos\": 100000000000000000000}\n"
                             "{\"step\": 100000000000000000000, \"loss\": 1}\n"),
                        "2 values were left out: the step is not a whole number from 0 to 10^15");
    expect(home, STEPS, "1 2.0");
    expect(home, MEASURES, "flos 1 1.0e+20");
}

/* Its steps count those that are done, too. */
TEST_CASE(the_log_of_llama_factory_has_the_steps_of_hugging_faces_trainer)
{
    char home[PATH_MAX];
    assert_string_equal(
        take(home, "trainer_log.jsonl",
             "{\"current_steps\": 10, \"total_steps\": 20, \"loss\": 2.5, \"lr\": 5e-05, \"epoch\": 0.5, "
             "\"percentage\": 50.0, \"elapsed_time\": \"0:00:02\", \"remaining_time\": \"0:00:02\"}\n"
             "{\"current_steps\": 10, \"total_steps\": 20, \"eval_loss\": 2.375, \"epoch\": 0.5}\n"
             "{\"current_steps\": 20, \"total_steps\": 20, \"loss\": 2.0, \"lr\": 0.0, \"epoch\": 1.0}\n"),
        "");
    expect(home, STEPS, "9 2.5,19 2.0");
    expect(home, VALUES, "10 2.375");
    expect(home, "select steps from runs", "20");
}

/* Its steps count those that are done. */
TEST_CASE(the_history_of_hugging_faces_trainer_is_read)
{
    char home[PATH_MAX];
    assert_string_equal(
        take(home, "trainer_state.json",
             "{\"best_metric\": 1.5, \"global_step\": 20, \"log_history\": [\n"
             "{\"epoch\": 0.5, \"grad_norm\": NaN, \"learning_rate\": 5e-05, \"loss\": 2.5, \"step\": 10},\n"
             "{\"epoch\": 0.5, \"eval_loss\": 2.375, \"step\": 10},\n"
             "{\"epoch\": 1.0, \"grad_norm\": 1.5, \"learning_rate\": 0.0, \"loss\": 2.0, \"step\": 20},\n"
             "{\"epoch\": 1.0, \"step\": 20, \"train_loss\": 2.25, \"total_flos\": 8.0}],\n"
             "\"stateful_callbacks\": {\"step\": 99}}\n"),
        "");
    expect(home, STEPS, "9 2.5,19 2.0");
    expect(home, VALUES, "10 2.375");
    expect(home, MEASURES, "total_flos 20 8.0,train_loss 20 2.25");
    assert_string_equal(take(home, "list.json", "[{\"iter\": 3, \"loss\": 2}, {\"iter\": 4, \"loss\": 1}]"),
                        "");
    expect(home, STEPS, "3 2.0,4 1.0");
}

/* A file that transformers 5.24 has written. */
TEST_CASE(a_file_of_transformers_has_the_rows_that_it_was_logged_with)
{
    char home[PATH_MAX];
    struct import_outcome made;
    struct err err = {0};
    const char *path = "tests/fixtures/logs/trainer_state.json";
    store_fixture_home("transformers", home, sizeof home);
    struct store *store = store_fixture_open(home);
    if (import_files(store, &path, 1, NULL, &made, &err)) fail_msg("%s", err.text);
    store_close(store);
    expect(home, "select group_concat(step || ' ' || loss || ' ' || lr || ' ' || epoch, '; ') from steps",
           "4 3.89921951293945 4.0e-05 0.5; 9 3.9009464263916 2.75e-05 1.0; 14 3.89938430786133 1.5e-05 1.5; "
           "19 3.89684143066406 2.5e-06 2.0");
    expect(home, VALUES, "10 3.90946841239929,20 3.9091625213623");
    assert_int_equal(made.measures, 6);
}

TEST_CASE(what_is_no_such_log_is_named)
{
    static const struct {
        const char *file, *content, *want;
    } cases[] = {
        {"a.json", "{\"a\": 1, \"b\": {\"steps\": 2}}",
         "a.json: no number in it is called step, global_step, iteration or epoch"},
        {"b.json", "{\"step\": 1}", "b.json: contains neither steps nor evaluations"},
        {"c.json", "[1, 2]", "c.json:1: is JSON, but no object with the numbers of a step"},
        {"d.jsonl", "{\"step\": 1, \"loss\": 2}\n\n{\"step\": 2 \"loss\": 3}\n{\"step\": 3}\n",
         "d.jsonl:3: is not JSON: "},
        {"e.json", "{\"step\": 1,\n\"loss\": 2,\n\"x\" 3}", "e.json:3: is not JSON: "},
        {"f.json", "{\"step\": 1", "f.json:1: is not JSON: "},
        {"g.csv", "step,loss\n1,2,3\n", "g.csv:2: has more fields than 2"},
        {"h.csv", "run,step,loss\nx,1,2\n", "h.csv:1: is not a known header: it begins with \"run\" ("},
        {"i.csv", "time,loss\n1,2\n", "i.csv:1: is not a known header: it begins with \"time\" ("},
        {"j.csv", "step,loss\n1,x\n", "j.csv: contains neither steps nor evaluations"},
        {"k.csv", "step,loss\n", "k.csv: contains neither steps nor evaluations"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char home[PATH_MAX];
        const char *said = take(home, cases[i].file, cases[i].content);
        if (!strstr(said, cases[i].want)) fail_msg("%s: %s", cases[i].file, said);
        expect(home, "select count(*) from runs", "0");
    }
}

TEST_CASE(two_of_these_logs_are_not_one_run)
{
    char home[PATH_MAX], path[EXCHANGE_PATH_MAX], other[EXCHANGE_PATH_MAX];
    const char *const paths[] = {path, other};
    struct import_outcome made;
    struct err err = {0};
    store_fixture_home("two", home, sizeof home);
    struct store *store = store_fixture_open(home);
    exchange_write(home, "a.csv", "step,loss\n1,2\n", 14, path);
    exchange_write(home, "b.json", "{\"step\": 1, \"loss\": 2}", 22, other);
    assert_int_equal(import_files(store, paths, 2, NULL, &made, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "b.json: is a second log (import logs one at a time)"));
    store_close(store);
}

TEST_MAIN()
