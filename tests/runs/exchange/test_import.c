/* Histories from files: an import equals the original, and a damaged file leaves nothing behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h needs setjmp.h, stdarg.h, stddef.h and stdint.h before it */
#include <cmocka.h>
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "core/base/file.h"
#include "runs/exchange/export.h"
#include "runs/exchange/import.h"
#include "runs/order.h"
#include "runs/series.h"
#include "tests/runs/store_fixture.h"

#define STEPS_HEADER                                                                                         \
    "run,segment,step,epoch,tokens,wall_time,step_ms,loss,lr,grad_norm,clip_scale,tokens_per_sec,mfu\r\n"
#define EVALS_HEADER "run,segment,step,tokens,wall_time,val_loss,val_perplexity,eval_ms\r\n"
#define ID           "20260102-030405-origin"

static void write_text(const char *home, const char *name, const char *text, char path[PATH_MAX + 64])
{
    struct err err = {0};
    char folder[PATH_MAX + 64];
    snprintf(path, PATH_MAX + 64, "%s/%s", home, name);
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    if (file_make_folders(folder, &err) || file_write_atomic(path, text, strlen(text), &err))
        fail_msg("%s", err.text);
}

/* Imports one file with this name and text; "" when it went well, else the sentence. */
static const char *import_text(struct store *store, const char *name, const char *text,
                               struct import_outcome *out, struct err *err)
{
    char path[PATH_MAX + 64];
    write_text(store_home(store), name, text, path);
    const char *paths[] = {path};
    *err = (struct err){0};
    enum status status = import_files(store, paths, 1, NULL, out, err);
    assert_int_equal(status, err->status);
    return status ? err->text : "";
}

/* A steps.csv of the first release as this one exports it: with an empty perplexity. */
static const char *as_exported(const char *text)
{
    static char out[2000];
    size_t n = 0;
    for (const char *end; (end = strstr(text, "\r\n")); text = end + 2)
        n += (size_t)snprintf(out + n, sizeof out - n, "%.*s,%s\r\n", (int)(end - text), text,
                              n ? "" : "perplexity");
    assert_true(n < sizeof out);
    return out;
}

static char *table_text(struct store *store, const char *id, enum store_table table, size_t *n)
{
    char path[PATH_MAX + 16];
    struct err err = {0};
    const char *ids[] = {id};
    snprintf(path, sizeof path, "%s/exported.csv", store_home(store));
    if (export_csv(store, ids, 1, table, path, &err)) fail_msg("%s", err.text);
    return store_fixture_slurp(path, n);
}

static size_t count_entries(const char *home, const char *folder)
{
    char path[PATH_MAX + 64];
    size_t n = 0;
    snprintf(path, sizeof path, "%s/%s", home, folder);
    DIR *dir = opendir(path);
    if (!dir) return 0;
    for (struct dirent *entry; (entry = readdir(dir));) n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

/* ---- our own CSV ---- */

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
        writer_rank(writer, &(struct rank_record){1, 2, "a, \"b\"", "cpu", 0.1, 1e-300, 9, 1 << 30});
        assert_int_equal(writer_close(writer, RUN_STOPPED, "enough", &err), STATUS_OK);
    }
    run_lock_release(&lock);
    store_close(store);
    store_fixture_sql(
        home,
        "insert into layer_profile select id, 1, 1, 'forward', -1, 'gemm', 4, 12.25, 4096, 8192 from runs;"
        "insert into gpu_samples select id, 1.5, 0, 98.5, 1, 2, 300, 61, 1980, 3, 'thermal, power cap', 7.5, "
        "null from runs; update runs set frozen_parameters = 815744");
}

static void what_was_exported_comes_back_byte_for_byte(void **state)
{
    (void)state;
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
    for (int t = 0; t < TABLE_RUNS; t++) {
        size_t n, m;
        char *text = table_text(to, id, (enum store_table)t, &n), *want = store_fixture_slurp(paths[t], &m);
        if (n != m || memcmp(text, want, n) != 0) fail_msg("%s differs", paths[t]);
        assert_true(n > 100 || t == TABLE_PROFILE || t == TABLE_MEMORY || t == TABLE_GPU);
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

static void an_absent_value_stays_absent_and_is_no_nan(void **state)
{
    (void)state;
    char home[PATH_MAX];
    struct err err;
    struct import_outcome outcome;
    struct series series = {0};
    static const char text[] =
        STEPS_HEADER ID ",1,0,,,,,2.5,,,,,\r\n" ID ",1,1,,,,,nan,,,,,\r\n" ID ",1,64,,,,,1.5,,,,,\r\n";
    store_fixture_home("absent", home, sizeof home);
    struct store *store = store_fixture_open(home);
    assert_string_equal(import_text(store, "steps.csv", text, &outcome, &err), "");
    assert_string_equal(outcome.id, ID);
    size_t n;
    char *again = table_text(store, ID, TABLE_STEPS, &n);
    assert_string_equal(again, as_exported(text));
    free(again);
    assert_int_equal(series_read(store, ID, METRIC_LOSS, 0, -1, 1, &series, &err), STATUS_OK);
    int64_t values = 0, odd = 0;
    for (size_t i = 0; i < series.count; i++) {
        values += series.points[i].count;
        odd += series.points[i].non_finite;
    }
    assert_int_equal(values, 3);
    assert_int_equal(odd, 1);
    assert_int_equal(series_read(store, ID, METRIC_LR, 0, -1, 1, &series, &err), STATUS_OK);
    assert_int_equal(series.count, 0);
    series_release(&series);
    store_close(store);
    assert_true(store_fixture_number(home, "select count(*) from rollup where metric = 'lr'") == 0);
    assert_true(store_fixture_number(home, "select count(*) from rollup where metric = 'loss'") == 1);
    assert_true(
        store_fixture_number(home, "select count(*) from runs where final_loss = 1.5 and status = 'finished'"
                                   " and tokens is null and parameters is null") == 1);
}

static void evaluations_alone_are_a_run_too(void **state)
{
    (void)state;
    char home[PATH_MAX];
    struct err err;
    struct import_outcome outcome;
    struct series series = {0};
    store_fixture_home("evals", home, sizeof home);
    struct store *store = store_fixture_open(home);
    assert_string_equal(import_text(store, "evals.csv",
                                    "\xEF\xBB\xBF" EVALS_HEADER ID ",1,100,,1700000000,3,,\n" ID
                                    ",1,200,,1700000100,2,,",
                                    &outcome, &err),
                        "");
    assert_int_equal(outcome.steps, 0);
    assert_int_equal(outcome.evals, 2);
    assert_int_equal(series_read(store, ID, METRIC_VAL_LOSS, 0, -1, 100, &series, &err), STATUS_OK);
    assert_int_equal(series.count, 2);
    series_release(&series);
    struct run_info run;
    assert_int_equal(run_find(store, "origin", &run, &err), STATUS_OK);
    assert_true(run.best_val_loss == 2 && run.best_step == 200 && run.steps == 200);
    assert_true(run.created_at == 1700000000 && run.elapsed == 100);
    store_close(store);
}

static void columns_of_a_newer_anneal_are_passed_over(void **state)
{
    (void)state;
    char home[PATH_MAX];
    struct err err;
    struct import_outcome outcome;
    store_fixture_home("newer", home, sizeof home);
    struct store *store = store_fixture_open(home);
    assert_string_equal(
        import_text(store, "evals.csv",
                    "run,segment,step,tokens,wall_time,val_loss,val_perplexity,eval_ms,colour\n" ID
                    ",1,1,,,3,,,red\n",
                    &outcome, &err),
        "");
    store_close(store);
}

/* Columns are only ever appended, so a file of an earlier release ends sooner, in no other place. */
static void files_of_an_older_anneal_have_fewer_columns(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
    } files[] = {
        {"evals.csv", EVALS_HEADER ID ",1,1,,,3,,\r\n"},
        {"gpu.csv",
         "run,wall_time,gpu,utilization_pct,memory_used_bytes,memory_total_bytes,power_w,temperature_c,"
         "sm_clock_mhz\r\n" ID ",1.5,0,98,1,2,3,4,5\r\n"},
        {"profile.csv",
         "run,segment,step,phase,layer,op,calls,time_us\r\n" ID ",1,1,forward,0,gemm,4,12\r\n"},
    };
    char home[PATH_MAX], paths[3][PATH_MAX + 64];
    const char *names[3];
    struct err err = {0};
    struct import_outcome outcome;
    store_fixture_home("older", home, sizeof home);
    struct store *store = store_fixture_open(home);
    for (int i = 0; i < 3; i++) {
        write_text(home, files[i].name, files[i].text, paths[i]);
        names[i] = paths[i];
    }
    if (import_files(store, names, 3, NULL, &outcome, &err)) fail_msg("%s", err.text);
    assert_true(store_fixture_number(home, "select sm_clock_mhz from gpu_samples where load_1m is null and"
                                           " throttle is null and process_bytes is null") == 5);
    assert_true(store_fixture_number(home, "select calls from layer_profile where flops is null") == 4);
    write_text(home, "gpu.csv", "run,wall_time,gpu,utilization_pct\r\n" ID ",1.5,0,98\r\n", paths[1]);
    assert_int_equal(import_files(store, names, 3, NULL, &outcome, &err), STATUS_CORRUPT); /* no release's */
    store_close(store);
}

/* ---- files of other programs ---- */

static void tensorboard_scalars_come_together_by_their_names(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
    } files[] = {
        {"theirs/run-7-tag-train_loss.csv",
         "Wall time,Step,Value\n1700000000.5,0,4\n1700000001,1,3\n1700000002,2,nan\n"},
        {"theirs/Learning Rate.csv", "Wall time,Step,Value\n1700000000.5,0,0.1\n1700000002,2,0.2\n"},
        {"theirs/run-7-tag-eval_loss.csv", "Wall time,Step,Value\n1700000003,2,2.5\n1700000009,2,2.25\n"},
        {"theirs/tokens.csv", "Wall time,Step,Value\n1700000000.5,0,4096\n1700000002,2,1.2288e4\n"},
    };
    enum { FILES = sizeof files / sizeof *files };
    char home[PATH_MAX], paths[FILES][PATH_MAX + 64];
    const char *list[FILES];
    struct err err = {0};
    struct import_outcome outcome;
    store_fixture_home("scalars", home, sizeof home);
    struct store *store = store_fixture_open(home);
    for (int i = 0; i < FILES; i++) {
        write_text(home, files[i].name, files[i].text, paths[i]);
        list[i] = paths[i];
    }
    if (import_files(store, list, FILES, NULL, &outcome, &err)) fail_msg("%s", err.text);
    assert_non_null(strstr(outcome.id, "-theirs")); /* the folder */
    char want[800];
    snprintf(want, sizeof want,
             STEPS_HEADER "%s,1,0,,4096,1700000000.5,,4,0.1,,,,\r\n%s,1,1,,,1700000001,,3,,,,,\r\n"
                          "%s,1,2,,12288,1700000002,,nan,0.2,,,,\r\n",
             outcome.id, outcome.id, outcome.id);
    size_t n;
    char *text = table_text(store, outcome.id, TABLE_STEPS, &n);
    assert_string_equal(text, as_exported(want));
    free(text);
    snprintf(want, sizeof want, EVALS_HEADER "%s,1,2,,1700000009,2.25,,\r\n", outcome.id); /* the later one */
    text = table_text(store, outcome.id, TABLE_EVALS, &n);
    assert_string_equal(text, want);
    free(text);

    /* and out again, as they came */
    const char **written;
    struct arena arena = {0};
    size_t count;
    assert_int_equal(export_tensorboard(store, outcome.id, (struct metric_choice){true, true}, home, &arena,
                                        &written, &count, &err),
                     STATUS_OK);
    arena_release(&arena);
    assert_int_equal(count, 4);
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/lr.csv", home);
    text = store_fixture_slurp(path, NULL);
    assert_string_equal(text, "Wall time,Step,Value\r\n1700000000.5,0,0.1\r\n1700000002,2,0.2\r\n");
    free(text);
    store_close(store);
}

static void llmc_logs_come_in_with_their_resumes(void **state)
{
    (void)state;
    char home[PATH_MAX], want[900];
    struct err err;
    struct import_outcome outcome;
    store_fixture_home("llmc", home, sizeof home);
    struct store *store = store_fixture_open(home);
    assert_string_equal(import_text(store, "log124M/main.log",
                                    "s:0 eval:0.2446\ns:0 tel:11.0\ns:0 trl:10.9 lr:0.000001 norm:15.20\n"
                                    "s:1 trl:9.5 lr:0.000002 norm:-nan\n\ns:2 trl:8.25\r\ns:2 tel:8\n"
                                    "s:1 trl:9.4 lr:0.000002 norm:2\ns:2 tel:8.5\n",
                                    &outcome, &err),
                        "");
    assert_non_null(strstr(outcome.id, "-log124M"));
    snprintf(want, sizeof want,
             STEPS_HEADER
             "%s,1,0,,,,,10.9,1e-06,15.2,,,\r\n%s,1,1,,,,,9.5,2e-06,nan,,,\r\n%s,1,2,,,,,8.25,,,,,\r\n"
             "%s,2,1,,,,,9.4,2e-06,2,,,\r\n",
             outcome.id, outcome.id, outcome.id, outcome.id);
    size_t n;
    char *text = table_text(store, outcome.id, TABLE_STEPS, &n);
    assert_string_equal(text, as_exported(want));
    free(text);
    struct run_info run;
    assert_int_equal(run_find(store, outcome.id, &run, &err), STATUS_OK);
    assert_int_equal(run.segment, 2);
    assert_int_equal(run.steps, 2);
    assert_true(run.final_loss == 9.4);
    assert_true(run.best_val_loss == 8.5 && run.best_step == 2);
    store_close(store);
    assert_true(store_fixture_number(
                    home, "select count(*) from events where text = 'HellaSwag accuracy 0.2446'") == 1);
}

/* ---- damage ---- */

static void damage_is_named_by_file_and_line_and_leaves_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *sentence;
    } cases[] = {
        {"steps.csv", "", "steps.csv:1: is empty"},
        {"steps.csv", "\n\n", ": is empty"},
        {"steps.csv", "step,loss\n1,2\n", "steps.csv:1: does not begin with s:STEP"},
        {"other.csv", "a,b\n1,2\n", "other.csv:1: is not a known header"},
        {"short.csv", "run,segment,step\n" ID ",1,0\n", "short.csv:1: is not a known header"},
        {"steps.csv", STEPS_HEADER, "contains neither steps nor evaluations"},
        {"steps.csv", STEPS_HEADER ID ",1,0,,,,,2,,,,,\n" ID ",1,0,,,,,2,,,,,\n",
         "steps.csv:3: is a second record of the same segment, step"},
        {"steps.csv", STEPS_HEADER ID ",1,0,,,,,2,,,,\n",
         "steps.csv:2: has 12 fields, but the header has 13"},
        {"steps.csv", STEPS_HEADER ID ",1,0,,,,,2,,,,,,\n", "steps.csv:2: has more fields than 13"},
        {"steps.csv", STEPS_HEADER ID ",1,-1,,,,,2,,,,,\n", "steps.csv:2: step: -1 is out of range"},
        {"steps.csv", STEPS_HEADER ID ",1,9223372036854775807,,,,,2,,,,,\n", "steps.csv:2: step: "},
        {"steps.csv", STEPS_HEADER ID ",1,9223372036854775808,,,,,2,,,,,\n", "step: is not a whole number"},
        {"steps.csv", STEPS_HEADER ID ",0,1,,,,,2,,,,,\n", "steps.csv:2: segment: 0 is not in 1 to"},
        {"steps.csv", STEPS_HEADER ID ",1,,,,,,2,,,,,\n", "steps.csv:2: step: is missing"},
        {"steps.csv", STEPS_HEADER ID ",1,1.5,,,,,2,,,,,\n",
         "steps.csv:2: step: is not a whole number: \"1.5\""},
        {"steps.csv", STEPS_HEADER "\n\n" ID ",1,0,,,,,two,,,,,\n",
         "steps.csv:4: loss: is not a number: \"two\""},
        {"steps.csv", STEPS_HEADER ",1,0,,,,,2,,,,,\n", "steps.csv:2: the run's id is missing"},
        {"steps.csv", STEPS_HEADER ID ",1,0,,,,,\"2,,,,,\n", "steps.csv:2: a quote is not closed"},
        {"steps.csv", STEPS_HEADER ID ",1,0,,,,,\"2\"x,,,,,\n", "steps.csv:2: a quote is where"},
        {"samples.csv", "run,segment,step,prompt,text\n" ID ",1,0,\"a\nb\",c\n" ID ",1,x,d,e\n",
         "samples.csv:4: step: is not a whole number"},
        {"early.csv",
         "run,segment,step,val_loss,best_val_loss,best_step,min_delta,improved,patience_used,patience,"
         "verdict\n" ID ",1,0,1,1,0,0,1,0,3,maybe\n",
         "early.csv:2: verdict: \"maybe\" is not one of improved"},
        {"orders.csv", "run,issued_at,verb,argument,issuer,applied_step,result\n" ID ",1,dance,,,,\n",
         "orders.csv:2: verb: \"dance\" is not one of pause, continue, stop, checkpoint, eval, sample, "
         "lr-factor, trace"},
        {"loss.csv", "Wall time,Step,Value\n1,0,2\n1,one,2\n",
         "loss.csv:3: step: is not a whole number: \"one\""},
        {"loss.csv", "Wall time,Step,Value\n1,0.5,2\n", "loss.csv:2: step: is not a whole number"},
        {"loss.csv", "Wall time,Step,Value\n1,1e300,2\n", "loss.csv:2: step: is not a whole number"},
        {"loss.csv", "Wall time,Step,Value\n1,0,\n", "loss.csv:2: loss: is missing"},
        {"loss.csv", "Wall time,Step,Value\n1,0\n", "loss.csv:2: has 2 fields, but the header has 3"},
        {"tokens.csv", "Wall time,Step,Value\n1,0,nan\n", "tokens.csv:2: tokens: is not a whole number"},
        {"shoe_size.csv", "Wall time,Step,Value\n1,0,2\n", "is not a known metric: \"shoe_size\""},
        {"wall_time.csv", "Wall time,Step,Value\n1,0,2\n", "is not a known metric"},
        {"main.log", "s:0 trl:1\ns:1 trl:one\n", "main.log:2: trl: is not a number: \"one\""},
        {"main.log", "s:0 trl:1\nstep 3\n", "main.log:2: does not begin with s:STEP"},
        {"main.log", "s:-1 trl:1\n", "main.log:1: does not begin with s:STEP"},
        {"main.log", "s:0\n", "main.log:1: has no values for step 0"},
        {"main.log", "s:0 xyz:1\n", "main.log:1: \"xyz\" is not known"},
        {"main.log", "s:0 trl:1 tel:2\n", "main.log:1: \"tel\" is not expected here"},
        {"main.log", "s:0 trl\n", "main.log:1: trl: is not a number: \"\""},
        {"main.log", "s:0 eval:0.3\n", "contains neither steps nor evaluations"},
    };
    char home[PATH_MAX];
    struct err err;
    struct import_outcome outcome;
    store_fixture_home("damage", home, sizeof home);
    struct store *store = store_fixture_open(home);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *sentence = import_text(store, cases[i].name, cases[i].text, &outcome, &err);
        if (!strstr(sentence, cases[i].sentence))
            fail_msg("case %zu: \"%s\", not \"%s\"", i, sentence, cases[i].sentence);
        if (strchr(sentence, '\n')) fail_msg("case %zu is more than a line", i);
    }
    char path[PATH_MAX + 64]; /* a zero byte, and a line without end */
    struct err why = {0};
    const char *paths[] = {path};
    write_text(home, "zero.csv", "", path);
    assert_int_equal(
        file_write_atomic(path, STEPS_HEADER ID ",1,0\0,,,,,2,,,,,\n", sizeof STEPS_HEADER + 38, &why),
        STATUS_OK);
    assert_int_equal(import_files(store, paths, 1, NULL, &outcome, &why), STATUS_CORRUPT);
    assert_non_null(strstr(why.text, "zero.csv:2: holds a zero byte"));
    size_t big = (1 << 24) + 1000;
    char *endless = malloc(big);
    memset(endless, 'x', big);
    assert_int_equal(file_write_atomic(path, endless, big, &why), STATUS_OK);
    assert_int_equal(import_files(store, paths, 1, NULL, &outcome, &why), STATUS_CORRUPT);
    assert_non_null(strstr(why.text, "zero.csv:1: a field is larger than 16 MiB"));
    endless[0] = 's';
    assert_int_equal(file_write_atomic(path, endless, big, &why), STATUS_OK);
    assert_int_equal(import_files(store, paths, 1, NULL, &outcome, &why), STATUS_CORRUPT);
    free(endless);
    store_close(store);
    assert_int_equal(count_entries(home, "runs"), 0);
    static const char *const empty[] = {"runs",   "steps",  "evals",  "segments",
                                        "events", "rollup", "orders", "samples"};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        char sql[64];
        snprintf(sql, sizeof sql, "select count(*) from %s", empty[i]);
        assert_true(store_fixture_number(home, sql) == 0);
    }
}

static void files_of_two_runs_or_kinds_are_not_mixed(void **state)
{
    (void)state;
    char home[PATH_MAX], steps[PATH_MAX + 64], evals[PATH_MAX + 64], loss[PATH_MAX + 64], log[PATH_MAX + 64];
    struct err err = {0};
    struct import_outcome outcome;
    store_fixture_home("mixed", home, sizeof home);
    struct store *store = store_fixture_open(home);
    write_text(home, "steps.csv", STEPS_HEADER ID ",1,0,,,,,2,,,,,\n", steps);
    write_text(home, "evals.csv", EVALS_HEADER "another,1,100,,1700000000,3,,\n", evals);
    write_text(home, "loss.csv", "Wall time,Step,Value\n1,0,2\n", loss);
    write_text(home, "main.log", "s:0 trl:1\n", log);
    const char *pairs[][2] = {{steps, evals}, {steps, loss}, {loss, log}, {steps, home}};
    static const char *const sentences[] = {"evals.csv:2: is of run another, but ", "is of another kind",
                                            "is of another kind", "is a folder"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(import_files(store, pairs[i], 2, NULL, &outcome, &err), STATUS_USAGE);
        if (!strstr(err.text, sentences[i])) fail_msg("%s", err.text);
    }
    const char *missing[] = {"/nowhere/steps.csv"};
    assert_int_equal(import_files(store, missing, 1, NULL, &outcome, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "/nowhere/steps.csv: cannot open"));
    const char *good[] = {steps}; /* the handle is as good as before */
    assert_int_equal(import_files(store, good, 1, "latest", &outcome, &err), STATUS_USAGE);
    assert_int_equal(import_files(store, good, 1, "../../x y", &outcome, &err), STATUS_OK);
    assert_non_null(strstr(outcome.id, "-x-y"));
    assert_null(strchr(outcome.id, '/'));
    store_close(store);
    assert_true(store_fixture_number(home, "select count(*) from runs") == 1);
    assert_int_equal(count_entries(home, "runs"), 1);
}

static void an_empty_folder_that_nobody_owns_takes_no_id(void **state)
{
    (void)state;
    char home[PATH_MAX], folder[PATH_MAX + 64], path[PATH_MAX + 64];
    struct err err;
    struct import_outcome outcome;
    static const char text[] = STEPS_HEADER ID ",1,0,,,,,2,,,,,\n";
    store_fixture_home("orphan", home, sizeof home);
    struct store *store = store_fixture_open(home);
    snprintf(folder, sizeof folder, "%s/runs/" ID, home);
    assert_int_equal(file_make_folders(folder, &err), STATUS_OK); /* as an import killed half-way leaves it */
    assert_string_equal(import_text(store, "steps.csv", text, &outcome, &err), "");
    assert_string_equal(outcome.id, ID);
    assert_int_equal(run_delete(store, ID, &err), STATUS_OK);
    write_text(home, "runs/" ID "/kept", "somebody's", path);
    assert_string_equal(import_text(store, "steps.csv", text, &outcome, &err), "");
    assert_string_equal(outcome.id, ID "-2");
    assert_true(file_exists(path));
    store_close(store);
}

static void an_id_that_is_a_path_is_not_kept(void **state)
{
    (void)state;
    static const char *const ids[] = {"../../../evil", "20260102-030405-../x",   "20260102-030405-",
                                      "latest",        "20260102-030405-latest", "20260102-030405-.."};
    char home[PATH_MAX], text[400];
    struct err err;
    struct import_outcome outcome;
    store_fixture_home("ids", home, sizeof home);
    struct store *store = store_fixture_open(home);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        snprintf(text, sizeof text, STEPS_HEADER "%s,1,0,,,1e300,,2,,,,,\n", ids[i]);
        assert_string_equal(import_text(store, "some/steps.csv", text, &outcome, &err), "");
        assert_string_not_equal(outcome.id, ids[i]);
        assert_null(strchr(outcome.id, '/'));
        assert_non_null(strstr(outcome.id, "-some"));
    }
    store_close(store);
    assert_int_equal(count_entries(home, "runs"), sizeof ids / sizeof *ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_exported_comes_back_byte_for_byte),
        cmocka_unit_test(an_absent_value_stays_absent_and_is_no_nan),
        cmocka_unit_test(evaluations_alone_are_a_run_too),
        cmocka_unit_test(columns_of_a_newer_anneal_are_passed_over),
        cmocka_unit_test(files_of_an_older_anneal_have_fewer_columns),
        cmocka_unit_test(tensorboard_scalars_come_together_by_their_names),
        cmocka_unit_test(llmc_logs_come_in_with_their_resumes),
        cmocka_unit_test(damage_is_named_by_file_and_line_and_leaves_nothing),
        cmocka_unit_test(files_of_two_runs_or_kinds_are_not_mixed),
        cmocka_unit_test(an_empty_folder_that_nobody_owns_takes_no_id),
        cmocka_unit_test(an_id_that_is_a_path_is_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
