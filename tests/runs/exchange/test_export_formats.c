/* Exports for other tools: the long table, TensorBoard's scalars, the JSON document. */
#include <limits.h>
#include <math.h>
#include <sys/stat.h>

#include <jansson.h>

#include "core/base/file.h"
#include "runs/exchange/export.h"
#include "runs/exchange/import.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"

static const struct metric_choice everything = {true, true, NULL};

static struct step_record plain_step(int64_t step, double loss)
{
    return (struct step_record){
        step, 0.5 * (double)step, 10 * (step + 1), 1.7e9 + (double)step, 20, loss, 0.25, 1.5, 1, 500,
        NAN,  exp(loss)};
}

/* Steps 0..5 with evaluations after 2, 4 and 6, then resumed from step 4 on: steps 4..7 and evaluations after
 * 4 (again) and 8. Losses are 10 + step in the first life, 20 + step in the second. */
static void make_resumed_run(const char *home, const char *name, char id[RUN_ID_MAX])
{
    struct err err = {0};
    store_fixture_run(home, name, id);
    for (int life = 0; life < 2; life++) {
        struct writer *writer = store_fixture_writer(home, id);
        if (life == 1) writer_eval(writer, &(struct eval_record){4, 40, 1.7e9 + 4, 24.5, INFINITY, 3});
        for (int64_t s = life ? 4 : 0; s < (life ? 8 : 6); s++) {
            struct step_record step = plain_step(s, (life ? 20 : 10) + (double)s);
            if (s == 1) step.loss = NAN;
            if (s == 2) step.grad_norm = INFINITY;
            writer_step(writer, &step);
            if ((s == 1 || s == 3 || s == 5) && life == 0)
                writer_eval(writer,
                            &(struct eval_record){s + 1, 0, 1.7e9, s == 1 ? NAN : 10.5 + (double)s, 2, 3});
        }
        if (life == 1) {
            writer_eval(writer, &(struct eval_record){8, 80, 1.7e9 + 8, 28.5, 3, 3});
            writer_measure(writer, &(struct measure_record){4, "quiz_acc", 0.5});
            writer_measure(writer, &(struct measure_record){8, "quiz_acc", NAN});
            writer_measure(writer, &(struct measure_record){8, "other-1.b", 0.75});
            writer_sample(writer, &(struct sample_record){8, "say \"a\"", "b\n\x1B[2J\xFF\xC2\x9B c"});
        } else {
            writer_measure(writer, &(struct measure_record){2, "quiz_acc", 0.25});
            writer_measure(writer, &(struct measure_record){4, "quiz_acc", 0.125}); /* replaced */
            writer_sample(writer, &(struct sample_record){2, "kept", "early"});
            writer_sample(writer, &(struct sample_record){6, "replaced", "by the resume"});
        }
        assert_int_equal(writer_close(writer, RUN_FINISHED, NULL, &err), STATUS_OK);
    }
}

static char *to_text(enum status (*export)(struct store *, const char *const *, size_t, const char *,
                                           struct err *),
                     struct store *store, const char *const *ids, size_t count)
{
    char path[PATH_MAX + 16];
    struct err err = {0};
    snprintf(path, sizeof path, "%s/exported", store_home(store));
    if (export(store, ids, count, path, &err)) fail_msg("%s", err.text);
    char *text = store_fixture_slurp(path, NULL);
    assert_int_equal(remove(path), 0); /* the next one may have another form */
    return text;
}

static enum status long_of_both(struct store *store, const char *const *ids, size_t count, const char *path,
                                struct err *err)
{
    return export_long(store, ids, count, everything, path, err);
}

static enum status document(struct store *store, const char *const *ids, size_t count, const char *path,
                            struct err *err)
{
    (void)count;
    return export_json(store, ids[0], path, err);
}

/* The lines of `text` with this run and metric, "step,value;" each. */
static void values_of(const char *text, const char *run, const char *metric, char *buf, size_t size)
{
    char middle[64];
    size_t n = 0;
    buf[0] = '\0';
    snprintf(middle, sizeof middle, ",%s,", metric);
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        const char *end = strstr(line, "\r\n"), *at = strstr(line, middle);
        assert_non_null(end);
        if (strncmp(line, run, strlen(run)) != 0 || !at || at > end) continue;
        const char *step = line + strlen(run) + 1, *value = at + strlen(middle);
        n += (size_t)snprintf(buf + n, size - n, "%.*s=%.*s;", (int)strcspn(step, ","), step,
                              (int)(end - value), value);
        assert_true(n < size);
    }
}

TEST_CASE(a_long_table_holds_each_step_once_as_the_newest_segment_has_it)
{
    char home[PATH_MAX], id[RUN_ID_MAX], other[RUN_ID_MAX], values[400];
    store_fixture_home("long", home, sizeof home);
    make_resumed_run(home, "twice", id);
    store_fixture_run(home, "untouched", other);
    struct store *store = store_fixture_open(home);
    const char *ids[] = {id, other};
    char *text = to_text(long_of_both, store, ids, 2);
    assert_memory_equal(text, "run,step,wall_time,metric,value\r\n", 33);
    static const char *const expected[][2] = {
        {"loss", "0=10;1=nan;2=12;3=13;4=24;5=25;6=26;7=27;"},
        {"grad_norm", "0=1.5;1=1.5;2=inf;3=1.5;4=1.5;5=1.5;6=1.5;7=1.5;"},
        {"tokens", "0=10;1=20;2=30;3=40;4=50;5=60;6=70;7=80;"},
        {"epoch", "0=0;1=0.5;2=1;3=1.5;4=2;5=2.5;6=3;7=3.5;"},
        {"mfu", ""}, /* never known: no line */
        {"val_loss", "2=nan;4=24.5;8=28.5;"},
        {"val_perplexity", "2=2;4=inf;8=3;"},
        {"quiz_acc", "2=0.25;4=0.5;8=nan;"},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        values_of(text, id, expected[i][0], values, sizeof values);
        assert_string_equal(values, expected[i][1]);
    }
    assert_non_null(strstr(text, ",7,1700000007,loss,27\r\n"));
    assert_non_null(strstr(text, ",4,1700000004,quiz_acc,0.5\r\n"));
    assert_null(strstr(text, other));
    free(text);
    store_close(store);
}

TEST_CASE(a_measure_whose_name_a_damaged_row_lacks_is_exported)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    store_fixture_home("no-name", home, sizeof home);
    store_fixture_run(home, "a", id);
    char sql[300];
    snprintf(sql, sizeof sql,
             "drop table measures; create table measures(run_id, segment, step, name, value, nan);"
             " insert into measures values('%s', 1, 1, null, 0.5, 0)",
             id);
    store_fixture_sql(home, sql);
    struct store *store = store_fixture_open(home);
    const char *ids[] = {id};
    free(to_text(long_of_both, store, ids, 1));
    store_close(store);
}

TEST_CASE(an_evaluation_of_what_a_resume_went_on_from_is_kept)
{
    char home[PATH_MAX], id[RUN_ID_MAX], values[100];
    struct err err = {0};
    store_fixture_home("kept", home, sizeof home);
    store_fixture_run(home, "kept", id);
    for (int64_t life = 0; life < 3; life++) { /* each trains two steps and evaluates what came of them */
        struct writer *writer = store_fixture_writer(home, id);
        for (int64_t s = 2 * life; s < 2 * life + 2; s++)
            writer_step(writer, &(struct step_record){.step = s, .loss = 1});
        writer_eval(writer, &(struct eval_record){.step = 2 * life + 2, .val_loss = (double)life});
        writer_sample(writer, &(struct sample_record){2 * life + 2, "p",
                                                      life == 0   ? "zero"
                                                      : life == 1 ? "one"
                                                                  : "two"});
        assert_int_equal(writer_close(writer, RUN_STOPPED, NULL, &err), STATUS_OK);
    }
    struct store *store = store_fixture_open(home);
    const char *ids[] = {id};
    char *text = to_text(long_of_both, store, ids, 1);
    values_of(text, id, "val_loss", values, sizeof values);
    assert_string_equal(values, "2=0;4=1;6=2;");
    free(text);
    text = to_text(document, store, ids, 1);
    assert_true(strstr(text, "\"zero\"") && strstr(text, "\"one\"") && strstr(text, "\"two\""));
    free(text);
    store_close(store);
}

TEST_CASE(tables_of_steps_and_of_evals_can_be_had_alone)
{
    char home[PATH_MAX], id[RUN_ID_MAX], path[PATH_MAX + 16];
    struct err err = {0};
    store_fixture_home("choice", home, sizeof home);
    make_resumed_run(home, "choice", id);
    struct store *store = store_fixture_open(home);
    const char *ids[] = {id};
    snprintf(path, sizeof path, "%s/evals.csv", home);
    assert_int_equal(export_long(store, ids, 1, (struct metric_choice){false, true, NULL}, path, &err),
                     STATUS_OK);
    char *text = store_fixture_slurp(path, NULL);
    assert_non_null(strstr(text, ",val_loss,"));
    assert_null(strstr(text, ",loss,"));
    free(text);
    const char *nobody[] = {"nobody"};
    assert_int_equal(export_long(store, nobody, 1, everything, path, &err), STATUS_NOT_FOUND);
    text = store_fixture_slurp(path, NULL); /* the old file is untouched */
    assert_non_null(strstr(text, ",val_loss,"));
    free(text);
    assert_int_equal(export_long(store, ids, 1, everything, "/dev/full", &err), STATUS_IO);
    assert_non_null(strstr(err.text, "/dev/full: cannot write: No space left"));
    assert_int_equal(export_json(store, id, "/dev/full", &err), STATUS_IO);
    store_close(store);
}

TEST_CASE(tensorboard_gets_a_file_a_metric_with_its_own_columns)
{
    char home[PATH_MAX], id[RUN_ID_MAX], path[PATH_MAX + 32];
    struct err err = {0};
    const char **written;
    struct arena arena = {0};
    size_t count = 0;
    store_fixture_home("tensorboard", home, sizeof home);
    make_resumed_run(home, "scalars", id);
    struct store *store = store_fixture_open(home);
    assert_int_equal(export_tensorboard(store, id, everything, home, &arena, &written, &count, &err),
                     STATUS_OK);
    static const char *const names[] = {
        "epoch",          "tokens",     "step_ms",  "loss",           "lr",      "grad_norm", "clip_scale",
        "tokens_per_sec", "perplexity", "val_loss", "val_perplexity", "eval_ms", "other-1.b", "quiz_acc"};
    assert_int_equal(count, sizeof names / sizeof *names);
    for (size_t i = 0; i < count; i++) assert_string_equal(written[i], names[i]);
    snprintf(path, sizeof path, "%s/mfu.csv", home);
    assert_false(file_exists(path)); /* never known */
    snprintf(path, sizeof path, "%s/loss.csv", home);
    char *text = store_fixture_slurp(path, NULL);
    assert_string_equal(text,
                        "Wall time,Step,Value\r\n1700000000,0,10\r\n1700000001,1,nan\r\n1700000002,2,12\r\n"
                        "1700000003,3,13\r\n1700000004,4,24\r\n1700000005,5,25\r\n1700000006,6,26\r\n"
                        "1700000007,7,27\r\n");
    free(text);
    snprintf(path, sizeof path, "%s/val_loss.csv", home);
    text = store_fixture_slurp(path, NULL);
    assert_string_equal(
        text, "Wall time,Step,Value\r\n1700000000,2,nan\r\n1700000004,4,24.5\r\n1700000008,8,28.5\r\n");
    free(text);
    snprintf(path, sizeof path, "%s/quiz_acc.csv", home);
    text = store_fixture_slurp(path, NULL);
    assert_string_equal(
        text, "Wall time,Step,Value\r\n1700000000,2,0.25\r\n1700000004,4,0.5\r\n1700000008,8,nan\r\n");
    free(text);
    assert_int_equal(
        export_tensorboard(store, id, everything, "/proc/nowhere", &arena, &written, &count, &err),
        STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "/proc/nowhere/epoch.csv"));
    store_fixture_sql(home, "update measures set name = 'a quiz' where name = 'other-1.b'");
    assert_int_equal(export_tensorboard(store, id, everything, home, &arena, &written, &count, &err),
                     STATUS_OK);
    store_fixture_sql(home, "update measures set name = 'a' || char(127) where name = 'a quiz'");
    assert_int_equal(export_tensorboard(store, id, everything, home, &arena, &written, &count, &err),
                     STATUS_CORRUPT);
    store_fixture_sql(home, "delete from measures where name like 'a%'");
    store_fixture_sql(home, "update measures set name = '../quiz_acc' where name = 'quiz_acc'");
    assert_int_equal(export_tensorboard(store, id, everything, home, &arena, &written, &count, &err),
                     STATUS_CORRUPT);
    assert_non_null(strstr(err.text, "../quiz_acc: its name cannot be the name of a file"));
    store_fixture_sql(home, "update measures set name = 'a/../../quiz' where name = '../quiz_acc'");
    assert_int_equal(export_tensorboard(store, id, everything, home, &arena, &written, &count, &err),
                     STATUS_CORRUPT);
    store_fixture_sql(home, "update measures set name = char(27) || '[2J' where name = 'a/../../quiz'");
    assert_int_equal(export_tensorboard(store, id, everything, home, &arena, &written, &count, &err),
                     STATUS_CORRUPT);
    assert_null(strchr(err.text, '\033'));
    arena_release(&arena);
    store_close(store);
}

/* Imports it into another home and compares. */
static void expect_events(const char *path, const char *sql, const char *want)
{
    char home[PATH_MAX];
    struct err err = {0};
    struct import_outcome made;
    store_fixture_home("events", home, sizeof home);
    struct store *store = store_fixture_open(home);
    if (import_files(store, &path, 1, NULL, &made, &err)) fail_msg("%s", err.text);
    store_close(store);
    char *got = store_fixture_text(home, sql);
    if (strcmp(got, want) != 0) fail_msg("%s gives:\n%s\nnot:\n%s", sql, got, want);
    free(got);
}

TEST_CASE(tensorboard_gets_an_event_file_that_comes_back)
{
    char home[PATH_MAX], id[RUN_ID_MAX], path[PATH_MAX], again[PATH_MAX];
    struct err err = {0};
    int64_t count = 0, same = 0;
    store_fixture_home("tensorboard", home, sizeof home);
    make_resumed_run(home, "scalars", id);
    struct store *store = store_fixture_open(home);
    assert_int_equal(export_events(store, id, everything, home, path, &count, &err), STATUS_OK);
    assert_non_null(strstr(path, "/events.out.tfevents."));
    expect_events(path, "select count(*), count(mfu), count(tokens), min(wall_time) from steps",
                  "8|0|8|1700000000.0");
    expect_events(path, "select group_concat(step || ' ' || ifnull(loss, 'nan')) from steps",
                  "0 10.0,1 nan,2 12.0,3 13.0,4 24.0,5 25.0,6 26.0,7 27.0");
    expect_events(path, "select step, wall_time, val_loss, val_perplexity is not null from evals",
                  "2|1700000000.0||1\n4|1700000004.0|24.5|1\n8|1700000008.0|28.5|1");
    expect_events(path, "select step, value from measures where name = 'quiz_acc'", "2|0.25\n4|0.5\n8|");
    assert_int_equal(export_events(store, id, everything, home, again, &same, &err), STATUS_OK);
    assert_string_equal(again, path);
    assert_int_equal(same, count);
    assert_int_equal(export_events(store, id, everything, "/proc/nowhere", path, &count, &err),
                     STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "/proc/nowhere/events.out.tfevents."));
    assert_int_equal(export_events(store, "nobody", everything, home, path, &count, &err), STATUS_NOT_FOUND);
    store_close(store);
}

TEST_CASE(a_measure_with_the_name_of_a_column_is_not_mixed_with_it)
{
    char home[PATH_MAX], id[RUN_ID_MAX], path[PATH_MAX];
    struct err err = {0};
    int64_t count = 0;
    store_fixture_home("measure-loss", home, sizeof home);
    make_resumed_run(home, "scalars", id);
    store_fixture_sql(home, "update measures set name = 'loss' where name = 'quiz_acc'");
    struct store *store = store_fixture_open(home);
    const char **written;
    struct arena arena = {0};
    size_t files;
    assert_int_equal(export_tensorboard(store, id, everything, home, &arena, &written, &files, &err),
                     STATUS_OK);
    assert_string_equal(written[files - 2], "loss_2");
    arena_release(&arena);
    snprintf(path, sizeof path, "%s/loss_2.csv", home);
    char *text = store_fixture_slurp(path, NULL);
    assert_string_equal(
        text, "Wall time,Step,Value\r\n1700000000,2,0.25\r\n1700000004,4,0.5\r\n1700000008,8,nan\r\n");
    free(text);
    store_fixture_sql(home, "insert into measures(run_id, segment, step, name, value)"
                            " select run_id, segment, step, 'loss_2', 7 from measures where name = 'loss'");
    assert_int_equal(export_tensorboard(store, id, everything, home, &arena, &written, &files, &err),
                     STATUS_OK);
    assert_string_equal(written[files - 3], "loss_3");
    assert_string_equal(written[files - 2], "loss_2");
    arena_release(&arena);
    text = store_fixture_slurp(path, NULL);
    assert_non_null(strstr(text, "1700000000,2,7\r\n"));
    free(text);
    store_fixture_sql(home, "delete from measures where name = 'loss_2'");
    store_fixture_sql(home, "update measures set name = char(27) || '[2J/../a' where name = 'other-1.b'");
    assert_int_equal(export_events(store, id, everything, home, path, &count, &err), STATUS_OK);
    expect_events(path, "select distinct name from measures order by name", "loss_2\n\xef\xbf\xbd_2j_a");
    expect_events(path, "select count(loss) from steps", "7");
    store_close(store);
}

TEST_CASE(curves_are_written_with_their_smoothed_values_if_they_have_them)
{
    static const struct series_point points[] = {
        {.first_step = 0, .last_step = 9, .mean = 2.5, .min = 2, .max = 3, .last = 2.25},
        {.first_step = 10, .last_step = 19, .mean = NAN, .min = NAN, .max = NAN, .last = NAN}};
    static const double smooth[] = {2.5, 0.1};
    static const struct export_curve curves[] = {{"a, b", points, 2, smooth}, {"c", points, 1, NULL}};
    char path[PATH_MAX];
    struct err err = {0};
    snprintf(path, sizeof path, "%s/curves.csv", getenv("ANNEAL_TEST_DIR"));
    assert_int_equal(export_curves(curves, 2, "tokens", path, &err), STATUS_OK);
    char *text = store_fixture_slurp(path, NULL);
    assert_string_equal(text, "curve,first_tokens,last_tokens,mean,min,max,last,smoothed\r\n"
                              "\"a, b\",0,9,2.5,2,3,2.25,2.5\r\n\"a, b\",10,19,nan,nan,nan,nan,0.1\r\n"
                              "c,0,9,2.5,2,3,2.25,\r\n");
    free(text);
    assert_int_not_equal(export_curves(curves, 2, "step", "/proc/nowhere/curves.csv", &err), STATUS_OK);
    assert_non_null(strstr(err.text, "/proc/nowhere/curves.csv"));
}

static json_t *member(json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);
    if (!value) fail_msg("no member %s", name);
    return value;
}

/* A JSON reader keeps only the last of two members of one name. */
TEST_CASE(the_keys_of_a_section_are_one_object_though_another_stands_between)
{
    static const char config[] = "[wandb]\nlr = 1\nseed = 2\n[wandb.model]\ndim = 64\n";
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    store_fixture_home("sections", home, sizeof home);
    struct store *store = store_fixture_open(home);
    if (run_create(store, &(struct run_new){.name = "nested", .config = config}, id, &err))
        fail_msg("%s", err.text);
    const char *ids[] = {id};
    char *text = to_text(document, store, ids, 1);
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    json_t *settings = member(root, "config"), *wandb = member(settings, "wandb");
    assert_int_equal(json_object_size(settings), 2);
    assert_int_equal(json_integer_value(member(wandb, "lr")), 1);
    assert_int_equal(json_integer_value(member(wandb, "seed")), 2);
    assert_int_equal(json_integer_value(member(member(settings, "wandb.model"), "dim")), 64);
    json_decref(root);
    free(text);
    store_close(store);
}

TEST_CASE(a_json_document_holds_the_whole_run)
{
    char home[PATH_MAX], id[RUN_ID_MAX], sql[600];
    json_error_t error;
    store_fixture_home("json", home, sizeof home);
    make_resumed_run(home, "whole", id);
    snprintf(sql, sizeof sql,
             "insert into layer_profile(run_id, segment, step, phase, layer, op, calls, time_us) values"
             "('%s',1,2,'forward',0,'gemm',3,3000),('%s',1,2,'forward',1,'norm',2,500),"
             "('%s',1,5,'backward',0,'gemm',9,9e9)," /* which the second segment did again */
             "('%s',2,4,'backward',0,'gemm',6,6500)",
             id, id, id, id);
    store_fixture_sql(home, sql);
    struct store *store = store_fixture_open(home);
    const struct inference_record text_of = {1.7e9, "step-8", 3, 7, 5, NAN, NAN, 600, NAN, 12.5};
    assert_int_equal(run_add_inference(store, id, &text_of, NULL), STATUS_OK);
    const char *ids[] = {id};
    char *text = to_text(document, store, ids, 1);
    json_t *root = json_loads(text, 0, &error);
    if (!root) fail_msg("%s at line %d: %s", error.text, error.line, text);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        assert_true((*c >= ' ' && *c != 0x7F && !(*c == 0xC2 && c[1] < 0xA0)) || *c == '\n');
    free(text);

    assert_string_equal(json_string_value(member(root, "run_id")), id);
    assert_string_equal(json_string_value(member(root, "model_name")), "whole");
    assert_int_equal(json_integer_value(member(member(member(root, "config"), "train"), "batch_size")), 16);
    assert_true(json_real_value(member(member(member(root, "config"), "train"), "learning_rate")) == 3e-4);
    assert_string_equal(json_string_value(member(member(member(root, "config"), "data"), "train")), "kjv");

    json_t *training = member(root, "training"), *steps = member(training, "steps");
    assert_int_equal(json_integer_value(member(training, "total_steps")), 8);
    assert_int_equal(json_integer_value(member(training, "epochs_completed")), 3);
    assert_true(json_real_value(member(training, "final_loss")) == 27);
    assert_true(json_real_value(member(training, "best_val_loss")) ==
                24.5); /* not 13.5, which was made again */
    assert_true(fabs(json_real_value(member(training, "avg_tokens_per_sec")) - 500) < 1e-9);
    assert_true(json_is_real(member(training, "total_time_sec")));
    assert_int_equal(json_array_size(steps), 8);
    for (size_t i = 0; i < 8; i++) {
        json_t *step = json_array_get(steps, i), *loss = member(step, "loss");
        assert_int_equal(json_integer_value(member(step, "step")), i);
        assert_int_equal(json_integer_value(member(step, "segment")), i < 4 ? 1 : 2);
        if (i == 1)
            assert_true(json_is_null(loss)); /* NaN */
        else
            assert_true(json_real_value(loss) == (i < 4 ? 10 : 20) + (double)i);
        assert_true(json_is_null(member(step, "mfu")));
        assert_int_equal(json_object_size(step), 13);
    }
    assert_true(json_is_null(member(json_array_get(steps, 2), "grad_norm"))); /* infinite */
    json_t *evals = member(training, "evals");
    assert_int_equal(json_array_size(evals), 3);
    assert_true(json_real_value(member(json_array_get(evals, 1), "val_loss")) == 24.5);

    json_t *measures = member(training, "measures"), *measure = json_array_get(measures, 1);
    assert_int_equal(json_array_size(measures), 4);
    assert_string_equal(json_string_value(member(measure, "name")), "quiz_acc");
    assert_int_equal(json_integer_value(member(measure, "step")), 4);
    assert_true(json_real_value(member(measure, "value")) == 0.5);

    json_t *profile = member(training, "profiler_report"), *top = member(profile, "top_operations");
    assert_true(json_real_value(member(profile, "total_time_ms")) == 10);
    assert_true(json_real_value(member(profile, "avg_step_ms")) == 5);
    json_t *forward = member(member(profile, "phase_breakdown"), "forward");
    assert_true(json_real_value(member(forward, "time_ms")) == 3.5);
    assert_true(json_real_value(member(forward, "share")) == 0.35);
    assert_int_equal(json_array_size(top), 2);
    assert_string_equal(json_string_value(member(json_array_get(top, 0), "op")), "gemm");
    assert_int_equal(json_integer_value(member(json_array_get(top, 0), "calls")), 9);

    json_t *inference = json_array_get(member(root, "inference"), 0);
    assert_int_equal(json_array_size(member(root, "inference")), 1);
    assert_string_equal(json_string_value(member(inference, "checkpoint")), "step-8");
    assert_int_equal(json_integer_value(member(inference, "new_tokens")), 7);
    assert_true(json_is_null(member(inference, "latency_median_ms")));
    assert_true(json_real_value(member(inference, "total_ms")) == 12.5);
    json_t *samples = member(root, "samples");
    assert_int_equal(json_array_size(samples), 2); /* not the one that the resume replaced */
    assert_string_equal(json_string_value(member(json_array_get(samples, 0), "prompt")), "kept");
    assert_string_equal(json_string_value(member(json_array_get(samples, 1), "prompt")), "say \"a\"");
    assert_string_equal(json_string_value(member(json_array_get(samples, 1), "text")),
                        "b\n\x1B[2J\uFFFD\xC2\x9B c");
    json_decref(root);
    store_close(store);
}

/* An imported table may hold any numbers. */
TEST_CASE(calls_of_an_operation_that_are_too_many_to_add_up_fail_no_document)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    store_fixture_home("json-calls", home, sizeof home);
    store_fixture_run(home, "calls", id);
    store_fixture_sql(home,
                      "insert into layer_profile(run_id, segment, step, phase, layer, op, calls, time_us)"
                      " select id, 1, layer, 'forward', layer, 'gemm', 9223372036854775807, 1"
                      " from runs, (select 1 as layer union select 2)");
    struct store *store = store_fixture_open(home);
    const char *ids[] = {id};
    char *text = to_text(document, store, ids, 1);
    assert_non_null(strstr(text, "\"calls\": 9223372036854775807,"));
    free(text);
    store_close(store);
}

TEST_CASE(a_run_without_a_step_is_a_document_too)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    json_error_t error;
    store_fixture_home("json-empty", home, sizeof home);
    store_fixture_run(home, "empty", id);
    struct store *store = store_fixture_open(home);
    const char *ids[] = {id};
    char *text = to_text(document, store, ids, 1);
    json_t *root = json_loads(text, 0, &error);
    if (!root) fail_msg("%s at line %d: %s", error.text, error.line, text);
    json_t *training = member(root, "training"), *profile = member(training, "profiler_report");
    assert_int_equal(json_array_size(member(training, "steps")), 0);
    assert_true(json_is_null(member(training, "final_loss")));
    assert_true(json_is_null(member(training, "epochs_completed")));
    assert_true(json_is_null(member(training, "avg_tokens_per_sec")));
    assert_true(json_is_null(member(profile, "avg_step_ms")));
    assert_int_equal(json_array_size(member(profile, "top_operations")), 0);
    assert_int_equal(json_array_size(member(root, "inference")), 0);
    assert_int_equal(json_array_size(member(root, "samples")), 0);
    json_decref(root);
    free(text);
    store_close(store);
}

TEST_MAIN()
