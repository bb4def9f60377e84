/* Our own CSV: an import of all tables equals the original, and no table can bring in more than its rows. */
#include <limits.h>
#include <math.h>

#include "core/base/text.h"
#include "runs/annotation.h"
#include "runs/exchange/export.h"
#include "runs/order.h"
#include "runs/series.h"
#include "tests/cmocka.h"
#include "tests/runs/exchange/exchange_fixture.h"

/* Two segments with all unusual values: NaN, infinities, texts with quotes, an order. */
static void make_run(const char *home, char id[RUN_ID_MAX])
{
    static const double odd[] = {NAN, INFINITY, -INFINITY, 5e-324, 1.7976931348623157e308, 0.1, 1e16};
    struct err err = {0};
    struct store *store = store_fixture_open(home);
    struct run_lock lock;
    store_fixture_run(home, "origin", id);
    assert_int_equal(run_lock_acquire(store, id, &lock, &err), STATUS_OK);
    for (int life = 0; life < 2; life++) {
        struct writer *writer = store_fixture_writer(home, id);
        int64_t order;
        assert_int_equal(order_issue(store, id, ORDER_LR_FACTOR, 0.5, "cli", &order, &err), STATUS_OK);
        writer_order_done(writer, order, 5, "the learning rate is multiplied with 0.5");
        for (int64_t s = life ? 5000 : 0; s < (life ? 9000 : 6000); s++) {
            struct step_record step = store_fixture_step(s, life);
            if (s % 7 == 0) step.loss = odd[s / 7 % 7];
            if (s % 11 == 0) step.epoch = step.grad_norm = odd[s / 11 % 7];
            writer_step(writer, &step);
            if (s % 1000 != 999) continue;
            assert_int_equal(writer_flush(writer, 60, &err), STATUS_OK);
            writer_eval(writer, &(struct eval_record){s + 1, 7, 1.7e9, 3.5 + odd[s / 1000 % 7], NAN, 12});
            writer_measure(writer, &(struct measure_record){s + 1, "quiz,acc", odd[s / 1000 % 7]});
            writer_class(writer, &(struct class_record){s + 1, "a,\"b\"", 0.1, 0.2, 0.3, s});
            writer_confusion(writer, &(struct confusion_record){s + 1, "a,\"b\"", "c\nd", s});
            enum stopping_verdict v = s / 1000 % 3;
            writer_stopping(writer, &(struct stopping_record){s + 1, 3.4, NAN, 9, 1, !(s % 3), 1, 3, v, "f"});
            writer_sample(writer, &(struct sample_record){s + 1, "", "a \"b\",\r\n c "});
            writer_sample(writer, &(struct sample_record){s + 1, "a second, at the same step", ""});
        }
        writer_memory(writer, &(struct memory_record){1, "weights", 3, 2, 1});
        writer_checkpoint(writer, &(struct checkpoint_record){6000, 1.5, "checkpoints/step-6000", "best", 4});
        writer_event(writer, &(struct event_record){life ? 5 : -1, NAN, "warning", "a, \"spike\"\n", false});
        writer_rank(writer, &(struct rank_record){1, 2, "a, \"b\"", "cpu", 0.1, 1e-300, 9, 1 << 30});
        assert_int_equal(writer_close(writer, RUN_STOPPED, "enough", &err), STATUS_OK);
    }
    run_lock_release(&lock);
    if (run_set_tags(store, id, "good 基準", &err) ||
        runs_annotate(store, (const char *const[]){id}, 1, &(struct annotation){.note = "keep it"}, &err))
        fail_msg("%s", err.text);
    store_close(store);
    store_fixture_sql(
        home,
        "insert into layer_profile select id, 1, 1, 'forward', -1, 'gemm', 4, 12.25, 4096, 8192 from runs;"
        "insert into gpu_samples select id, 1.5, 0, 98.5, 1, 2, 300, 61, 1980, 3, 'thermal, power cap', 7.5, "
        "null from runs; update runs set frozen_parameters = 815744");
}

TEST_CASE(what_was_exported_comes_back_byte_for_byte)
{
    char home[PATH_MAX], other[PATH_MAX], id[RUN_ID_MAX], paths[TABLE_CSV_COUNT][PATH_MAX + 32];
    const char *files[TABLE_CSV_COUNT], *ids[] = {id};
    struct err err = {0};
    struct import_outcome outcome;
    store_fixture_home("origin", home, sizeof home);
    store_fixture_home("copy", other, sizeof other);
    make_run(home, id);
    struct store *from = store_fixture_open(home), *to = store_fixture_open(other);
    for (int t = 0; t < TABLE_CSV_COUNT; t++) {
        snprintf(paths[t], sizeof paths[t], "%s/%s.csv", home, store_tables[t].csv);
        if (export_csv(from, ids, 1, (enum store_table)t, paths[t], &err)) fail_msg("%s", err.text);
        files[TABLE_CSV_COUNT - 1 - t] = paths[t]; /* in any order */
    }
    if (import_files(to, files, TABLE_CSV_COUNT, NULL, &outcome, &err)) fail_msg("%s", err.text);
    assert_string_equal(outcome.id, id); /* free there, so kept */
    assert_int_equal(outcome.steps, 10000);
    assert_int_equal(outcome.evals, 10);
    for (int t = 0; t < TABLE_CSV_COUNT; t++) {
        if (t == TABLE_RUNS) continue;
        size_t n;
        char *text = exchange_table(to, id, (enum store_table)t), *want = store_fixture_slurp(paths[t], &n);
        if (strcmp(text, want) != 0) fail_msg("%s differs", paths[t]);
        assert_true(n > 100 || t == TABLE_PROFILE || t == TABLE_MEMORY || t == TABLE_GPU || t == TABLE_TAGS);
        free(text);
        free(want);
    }
    struct run_info run, original;
    assert_int_equal(run_find(to, id, &run, &err), STATUS_OK);
    assert_int_equal(run_find(from, id, &original, &err), STATUS_OK);
    assert_int_equal(run.status, RUN_FINISHED);
    assert_string_equal(run.name, "origin");
    assert_string_equal(run.device, "cpu");
    assert_string_equal(run.precision, "fp32");
    assert_int_equal(run.parameters, original.parameters);
    assert_true(run.frozen_parameters == 815744 && run.trained_parameters == 10000000);
    assert_int_equal(run.steps, 9000);
    assert_int_equal(run.tokens, original.tokens);
    assert_true(run.final_loss == original.final_loss);
    assert_true(run.best_val_loss == original.best_val_loss);
    assert_int_equal(run.best_step, original.best_step);
    assert_int_equal(run.segment, 2);
    assert_memory_equal(run.message, "imported from ", 14);
    assert_string_equal(run.tags, "good 基準");
    assert_string_equal(run.note, "keep it");
    char *config;
    assert_int_equal(run_config(to, id, &config, &err), STATUS_OK);
    assert_string_equal(config, "[data]\ntrain = kjv\n\n[train]\nbatch_size = 16\nlearning_rate = 3e-4\n");
    free(config);

    /* charts read it as they read the original: the same buckets, the same points */
    for (int m = 0; m < METRIC_COUNT; m++) {
        struct series a = {0}, b = {0};
        assert_int_equal(series_read(from, id, (enum metric)m, 0, -1, 100, &a, &err), STATUS_OK);
        assert_int_equal(series_read(to, id, (enum metric)m, 0, -1, 100, &b, &err), STATUS_OK);
        assert_int_equal(a.count, b.count);
        assert_true(a.count > 5);
        for (size_t i = 0; i < a.count; i++) {
            assert_int_equal(a.points[i].first_step, b.points[i].first_step);
            assert_int_equal(a.points[i].count, b.points[i].count);
            assert_int_equal(a.points[i].non_finite, b.points[i].non_finite);
            assert_true(a.points[i].max == b.points[i].max || isnan(b.points[i].max));
            assert_true(a.points[i].last == b.points[i].last || isnan(b.points[i].last));
        }
        series_release(&a);
        series_release(&b);
    }
    assert_true(store_fixture_number(other, "select count(*) from rollup") > 0);
    assert_true(store_fixture_number(other, "select count(*) from rollup") ==
                store_fixture_number(home, "select count(*) from rollup"));

    /* again: now the id is taken */
    if (import_files(to, files, TABLE_CSV_COUNT, NULL, &outcome, &err)) fail_msg("%s", err.text);
    assert_memory_equal(outcome.id, id, strlen(id));
    assert_string_equal(outcome.id + strlen(id), "-2");
    if (import_files(to, files, TABLE_CSV_COUNT, "mine", &outcome, &err)) fail_msg("%s", err.text);
    assert_non_null(strstr(outcome.id, "-mine"));
    store_close(from);
    store_close(to);
}

/* It writes an empty text as it writes none, and puts no quotes around blanks. */
TEST_CASE(tables_that_pandas_has_written_again_come_back)
{
    static const char *const tables[][2] = {
        {"steps.csv", STEPS_HEADER ORIGIN ",1,0,,, 1,\t,2.5 ,,,,,\n"},
        {"samples.csv", "run,segment,step,prompt,text\n" ORIGIN ",1,1,  a, b \t\n" ORIGIN ",1,1,\" c\", \n"},
        {"params.csv", "run,name,value\n" ORIGIN ",data.val,\n" ORIGIN ",train.seed,1\n"},
    };
    char home[PATH_MAX], files[4][EXCHANGE_PATH_MAX], runs[2000];
    const char *paths[] = {files[0], files[1], files[2], files[3]};
    struct err err = {0};
    struct import_outcome made;
    store_fixture_home("pandas", home, sizeof home);
    struct store *store = store_fixture_open(home);
    for (int i = 0; i < 3; i++)
        exchange_write(home, tables[i][0], tables[i][1], strlen(tables[i][1]), files[i]);
    if (import_files(store, paths, 3, NULL, &made, &err)) fail_msg("%s", err.text);
    char *row = exchange_table(store, made.id, TABLE_RUNS), *out = runs;
    for (const char *at = row; *at; at++)
        if (*at != '"') *out++ = *at;
    *out = '\0';
    assert_non_null(strstr(row, ",\"\","));
    exchange_write(home, "runs.csv", runs, strlen(runs), files[3]);
    if (import_files(store, paths, 4, "again", &made, &err)) fail_msg("%s", err.text);
    store_close(store);
    char *texts =
             store_fixture_text(home, "select prompt || '|' || text || '|' from samples where run_id like "
                                      "'%again' order by id"),
         *values =
             store_fixture_text(home, "select value from params where run_id like '%again' order by name");
    assert_string_equal(texts, "  a| b \t|\n c| |");
    assert_string_equal(values, "\n1");
    assert_true(store_fixture_number(home,
                                     "select count(*) from steps where wall_time = 1 and loss = 2.5 and "
                                     "step_ms is null") == 2);
    free(row);
    free(texts);
    free(values);
}

/* A text that would mean something else where it is used is refused, with its line. */
TEST_CASE(tags_that_a_run_has_no_room_for_are_left_out)
{
    char home[PATH_MAX], files[2][EXCHANGE_PATH_MAX], tags[1000] = "run,tag\r\n";
    static const char steps[] = STEPS_HEADER ORIGIN ",1,0,,,1,,2,,,,,\r\n";
    struct err err = {0};
    struct import_outcome made;
    struct run_info run;
    store_fixture_home("tags", home, sizeof home);
    for (int i = 0; i < 12; i++)
        text_add(tags, sizeof tags, "", ORIGIN ",%c-thirty-bytes-with-this-number\r\n", 'a' + i);
    exchange_write(home, "steps.csv", steps, sizeof steps - 1, files[0]);
    exchange_write(home, "tags.csv", tags, strlen(tags), files[1]);
    struct store *store = store_fixture_open(home);
    assert_int_equal(import_files(store, (const char *[]){files[0], files[1]}, 2, NULL, &made, &err),
                     STATUS_OK);
    assert_string_equal(made.remark, "4 tags were left out: a run has at most 255 bytes of tags");
    assert_int_equal(run_get(store, made.id, &run, &err), STATUS_OK);
    assert_true(run_has_tag(&run, "h-thirty-bytes-with-this-number"));
    assert_null(strchr(run.tags, 'j'));
    store_close(store);
}

TEST_CASE(a_table_cannot_bring_in_other_keys_tags_or_paths)
{
#define STEP      STEPS_HEADER ORIGIN ",1,0,,,,,2.5,,,,,\r\n"
#define PARAMS    "run,name,value\r\n" ORIGIN ",train.seed,1\r\n"
#define POINTS(p) "run,segment,step,kind,wall_time,path,bytes\r\n" ORIGIN ",1,5,best,," p ",1\r\n"
    static const struct {
        const char *name, *text, *why;
    } cases[] = {
        {"params.csv", PARAMS ORIGIN ",train.async,\"true\n[lora]\nrank = 4\"\r\n",
         ":3: value: has a control"},
        {"params.csv", PARAMS ORIGIN ",\"train.async = true\nx.y\",1\r\n",
         ":3: name: \"train.async = true x.y\" is not"},
        {"params.csv", PARAMS ORIGIN ",seed,1\r\n", "\"seed\" is not a key"},
        {"params.csv", PARAMS ORIGIN ",train..seed,1\r\n", "is not a key"},
        {"params.csv", PARAMS ORIGIN ",train.seed,2\r\n", "second record of the same name"},
        {"tags.csv", "run,tag\r\n" ORIGIN ",two words\r\n", ":2: tag: \"two words\" is no tag"},
        {"checkpoints.csv", POINTS("/etc"), "leads out of the run's folder"},
        {"checkpoints.csv", POINTS("checkpoints/../../other"), "leads out of the run's folder"},
        {"checkpoints.csv", POINTS(".."), "leads out of the run's folder"},
        {"checkpoints.csv", POINTS("checkpoints/..step"), ""},
    };
    char home[PATH_MAX], steps[EXCHANGE_PATH_MAX], path[EXCHANGE_PATH_MAX];
    struct import_outcome outcome;
    store_fixture_home("refused", home, sizeof home);
    struct store *store = store_fixture_open(home);
    exchange_write(home, "steps.csv", STEP, strlen(STEP), steps);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        exchange_write(home, cases[i].name, cases[i].text, strlen(cases[i].text), path);
        enum status status = import_files(store, (const char *[]){steps, path}, 2, NULL, &outcome, &err);
        assert_int_equal(status, *cases[i].why ? STATUS_CORRUPT : STATUS_OK);
        if (!strstr(err.text, cases[i].why)) fail_msg("%s", err.text);
        assert_true(store_fixture_number(home, "select count(*) from runs") == (status == STATUS_OK));
    }
    store_close(store);
}

TEST_MAIN()
