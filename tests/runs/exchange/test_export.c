/* CSV: reading an exported file with libcsv gives exactly the recorded values. */
#include <csv.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "runs/annotation.h"
#include "runs/exchange/export.h"
#include "runs/order.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"

/* A CSV file in memory: fields are strings, NULL where empty and unquoted. */
struct sheet {
    char **fields;
    size_t field_count, field_capacity;
    size_t *starts; /* index of each record's first field */
    size_t record_count, record_capacity;
    bool in_record;
};

static void take_field(void *bytes, size_t n, void *context)
{
    struct sheet *sheet = context;
    if (!sheet->in_record) {
        if (sheet->record_count == sheet->record_capacity) {
            sheet->record_capacity = sheet->record_capacity ? 2 * sheet->record_capacity : 64;
            sheet->starts = realloc(sheet->starts, sheet->record_capacity * sizeof *sheet->starts);
        }
        sheet->starts[sheet->record_count++] = sheet->field_count;
        sheet->in_record = true;
    }
    if (sheet->field_count == sheet->field_capacity) {
        sheet->field_capacity = sheet->field_capacity ? 2 * sheet->field_capacity : 64;
        sheet->fields = realloc(sheet->fields, sheet->field_capacity * sizeof *sheet->fields);
    }
    char *copy = NULL;
    if (bytes) {
        copy = malloc(n + 1);
        memcpy(copy, bytes, n);
        copy[n] = '\0';
    }
    sheet->fields[sheet->field_count++] = copy;
}

static void take_end(int c, void *context)
{
    (void)c;
    ((struct sheet *)context)->in_record = false;
}

static struct sheet parse(const char *text, size_t n)
{
    struct sheet sheet = {0};
    struct csv_parser parser;
    assert_int_equal(csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI | CSV_EMPTY_IS_NULL), 0);
    assert_int_equal(csv_parse(&parser, text, n, take_field, take_end, &sheet), n);
    assert_int_equal(csv_fini(&parser, take_field, take_end, &sheet), 0);
    csv_free(&parser);
    return sheet;
}

static void sheet_release(struct sheet *sheet)
{
    for (size_t i = 0; i < sheet->field_count; i++) free(sheet->fields[i]);
    free(sheet->fields);
    free(sheet->starts);
}

static const char *field(const struct sheet *sheet, size_t record, size_t column)
{
    assert_true(record < sheet->record_count);
    return sheet->fields[sheet->starts[record] + column];
}

static struct sheet export(struct store *store, const char *const *ids, size_t count, enum store_table table)
{
    char path[PATH_MAX + 16];
    size_t n = 0;
    struct err err = {0};
    snprintf(path, sizeof path, "%s/exported.csv", store_home(store));
    if (export_csv(store, ids, count, table, path, &err)) fail_msg("%s", err.text);
    char *text = store_fixture_slurp(path, &n);
    assert_true(n > 2 && memcmp(text + n - 2, "\r\n", 2) == 0);
    struct sheet sheet = parse(text, n);
    free(text);
    return sheet;
}

static void header_is(const struct sheet *sheet, const char *expected)
{
    char line[512] = "";
    size_t end = sheet->record_count > 1 ? sheet->starts[1] : sheet->field_count;
    for (size_t i = 0; i < end; i++) {
        strcat(line, i ? "," : "");
        strcat(line, sheet->fields[i]);
    }
    assert_string_equal(line, expected);
}

/* The field is the number, bit for bit; `absent` says that NaN means an empty field. */
static void number_is(const char *text, double want, bool absent)
{
    double got;
    if (absent && isnan(want)) {
        assert_null(text);
        return;
    }
    assert_non_null(text);
    assert_true(text_parse_double(text, &got));
    assert_true(got == want || (isnan(got) && isnan(want)));
    if (isnan(want)) assert_string_equal(text, "nan");
    if (isinf(want)) assert_string_equal(text, want < 0 ? "-inf" : "inf");
}

TEST_CASE(steps_come_back_exactly)
{
    enum { STEPS = 3000 };
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    store_fixture_home("steps", home, sizeof home);
    store_fixture_run(home, "steps", id);
    struct step_record *want = malloc(STEPS * sizeof *want);
    struct writer *writer = store_fixture_writer(home, id);
    static const double odd[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 5e-324, 1.7976931348623157e308,
                                 0.1, 1e16,     1e-5};
    for (int64_t s = 0; s < STEPS; s++) {
        want[s] = store_fixture_step(s, 3);
        if (s % 7 == 0) want[s].loss = odd[s / 7 % 10];
        if (s % 11 == 0) want[s].grad_norm = odd[s / 11 % 10];
        if (s % 13 == 0) want[s].epoch = want[s].lr = want[s].step_ms = odd[s / 13 % 10];
        if (s % 17 == 0) want[s].clip_scale = want[s].tokens_per_sec = want[s].wall_time = odd[s / 17 % 10];
        writer_step(writer, &want[s]);
    }
    assert_int_equal(writer_close(writer, RUN_FINISHED, NULL, &err), STATUS_OK);
    struct store *store = store_fixture_open(home);
    const char *ids[] = {id};
    struct sheet sheet = export(store, ids, 1, TABLE_STEPS);
    header_is(&sheet, "run,segment,step,epoch,tokens,wall_time,step_ms,loss,lr,grad_norm,clip_scale,tokens_"
                      "per_sec,mfu,perplexity");
    assert_int_equal(sheet.record_count, STEPS + 1);
    for (int64_t s = 0; s < STEPS; s++) {
        size_t r = (size_t)s + 1;
        int64_t number;
        assert_string_equal(field(&sheet, r, 0), id);
        assert_string_equal(field(&sheet, r, 1), "1");
        assert_true(text_parse_int(field(&sheet, r, 2), &number) && number == s);
        assert_true(text_parse_int(field(&sheet, r, 4), &number) && number == want[s].tokens);
        number_is(field(&sheet, r, 3), want[s].epoch, false);
        number_is(field(&sheet, r, 5), want[s].wall_time, false);
        number_is(field(&sheet, r, 6), want[s].step_ms, false);
        number_is(field(&sheet, r, 7), want[s].loss, false);
        number_is(field(&sheet, r, 8), want[s].lr, false);
        number_is(field(&sheet, r, 9), want[s].grad_norm, false);
        number_is(field(&sheet, r, 10), want[s].clip_scale, false);
        number_is(field(&sheet, r, 11), want[s].tokens_per_sec, false);
        number_is(field(&sheet, r, 12), want[s].mfu, true);
        number_is(field(&sheet, r, 13), want[s].perplexity, false);
    }
    sheet_release(&sheet);
    store_close(store);
    free(want);
}

TEST_CASE(texts_come_back_exactly)
{
    static const char *const texts[] = {"plain",
                                        "",
                                        "a,b",
                                        "say \"hi\"",
                                        "two\nlines",
                                        "crlf\r\nhere",
                                        "lone\rreturn",
                                        " leading and trailing ",
                                        "\t",
                                        "\"",
                                        ",",
                                        "naïve — 日本語 𝄞",
                                        "nan",
                                        "'; drop table runs; --"};
    enum { COUNT = sizeof texts / sizeof *texts };
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    store_fixture_home("texts", home, sizeof home);
    store_fixture_run(home, "texts", id);
    struct writer *writer = store_fixture_writer(home, id);
    char *big = malloc(200001);
    memset(big, '"', 200000);
    big[200000] = '\0';
    for (int i = 0; i < COUNT; i++)
        writer_sample(writer, &(struct sample_record){i, texts[i], texts[COUNT - 1 - i]});
    writer_sample(writer, &(struct sample_record){COUNT, big, big});
    assert_int_equal(writer_close(writer, RUN_FINISHED, NULL, &err), STATUS_OK);
    struct store *store = store_fixture_open(home);
    const char *ids[] = {id};
    struct sheet sheet = export(store, ids, 1, TABLE_SAMPLES);
    header_is(&sheet, "run,segment,step,prompt,text");
    assert_int_equal(sheet.record_count, COUNT + 2);
    for (size_t i = 0; i < COUNT; i++) {
        assert_string_equal(field(&sheet, i + 1, 3), texts[i]);
        assert_string_equal(field(&sheet, i + 1, 4), texts[COUNT - 1 - i]);
    }
    assert_string_equal(field(&sheet, COUNT + 1, 4), big);
    sheet_release(&sheet);
    store_close(store);
    free(big);
}

TEST_CASE(every_table_has_its_columns_and_absent_is_empty)
{
    static const char *const headers[TABLE_CSV_COUNT] = {
        "run,segment,step,epoch,tokens,wall_time,step_ms,loss,lr,grad_norm,clip_scale,tokens_per_sec,mfu,"
        "perplexity",
        "run,segment,step,tokens,wall_time,val_loss,val_perplexity,eval_ms",
        "run,segment,step,name,value",
        "run,segment,step,label,precision,recall,f1,support",
        "run,segment,step,label,predicted,count",
        "run,segment,step,val_loss,best_val_loss,best_step,min_delta,improved,patience_used,patience,verdict,"
        "metric",
        "run,segment,step,phase,layer,op,calls,time_us,bytes,flops",
        "run,segment,step,category,planned_bytes,live_bytes,peak_bytes",
        "run,segment,step,rank,host,device,step_ms,wait_ms,sent_bytes,memory_bytes",
        "run,wall_time,gpu,utilization_pct,memory_used_bytes,memory_total_bytes,power_w,temperature_c,sm_"
        "clock_mhz,process_bytes,throttle,load_1m",
        "run,segment,step,prompt,text",
        "run,issued_at,verb,argument,issuer,applied_step,result",
        "run,wall_time,checkpoint,prompt_tokens,new_tokens,time_to_first_token_ms,latency_median_ms,latency_"
        "p95_ms,"
        "prefill_tokens_per_sec,decode_tokens_per_sec,total_ms",
        "run,name,status,created_at,ended_at,device,precision,parameters,steps,tokens,final_loss,best_val_"
        "loss,"
        "best_step,tokens_per_sec,parent_id,parent_step,frozen_parameters,trained_"
        "parameters,note,best_metric,best_value",
        "run,segment,first_step,started_at,ended_at,status,pid,host",
        "run,name,value",
        "run,tag",
        "run,segment,step,kind,wall_time,path,bytes",
        "run,segment,step,wall_time,level,text"};
    char home[PATH_MAX], id[RUN_ID_MAX], other[RUN_ID_MAX];
    struct err err = {0};
    store_fixture_home("tables", home, sizeof home);
    store_fixture_run(home, "tables", id);
    store_fixture_run(home, "untouched", other);
    struct store *store = store_fixture_open(home);
    struct run_lock lock;
    assert_int_equal(run_lock_acquire(store, id, &lock, &err), STATUS_OK);
    struct writer *writer = store_fixture_writer(home, id);
    struct step_record step = store_fixture_step(0, 1);
    step.loss = NAN;
    writer_step(writer, &step);
    writer_eval(writer, &(struct eval_record){1, 4096, 1.7e9, NAN, INFINITY, 12.5});
    writer_class(writer, &(struct class_record){1, "ham, eggs", 0.5, 0.25, 0.375, 7});
    writer_confusion(writer, &(struct confusion_record){1, "ham, eggs", "spam", 3});
    writer_measure(writer, &(struct measure_record){1, "quiz_acc", 0.25});
    writer_measure(writer, &(struct measure_record){1, "quiz_acc_per_byte", NAN});
    writer_stopping(writer,
                    &(struct stopping_record){1, 2.5, 2.25, 0, 0.01, false, 3, 3, VERDICT_STOP, "macro_f1"});
    writer_memory(writer, &(struct memory_record){1, "weights", 3, 2, 1});
    for (int r = 0; r < 2; r++)
        writer_rank(writer, &(struct rank_record){1, r, "ada", "cpu", 2.5, 0.25, 4096, 1 << 20});
    writer_checkpoint(writer, &(struct checkpoint_record){1, 1.5, "checkpoints/step-1", "best", 4096});
    writer_event(writer, &(struct event_record){1, 1.5, "warning", "a \"spike\"", false});
    if (run_set_tags(store, id, "good baseline", &err)) fail_msg("%s", err.text);
    int64_t order;
    assert_int_equal(order_issue(store, id, ORDER_STOP, NAN, "cli", &order, &err), STATUS_OK);
    writer_order_done(writer, order, 1, "stopped");
    assert_int_equal(order_issue(store, id, ORDER_LR_FACTOR, 0.5, "cli", &order, &err), STATUS_OK);
    assert_int_equal(writer_flush(writer, 30, &err), STATUS_OK);
    store_fixture_sql(
        home,
        "insert into layer_profile select id, 1, 1, 'forward', 0, 'gemm', 4, 12.25, 4096, 8192 from runs "
        "where "
        "name = 'tables'; insert into gpu_samples select id, 1.5, 0, 98.5, 1, 2, 300, 61, 1980, 3, '', 0.25, "
        "null from "
        "runs where name = 'tables'");
    const char *ids[] = {id, other};
    static const size_t records[TABLE_CSV_COUNT] = {1, 1, 2, 1, 1, 1, 1, 1, 2, 1, 0, 2, 0, 2, 1, 6, 2, 1, 1};
    for (int t = 0; t < TABLE_CSV_COUNT; t++) {
        struct sheet sheet = export(store, ids, 2, (enum store_table)t);
        header_is(&sheet, headers[t]);
        assert_int_equal(sheet.record_count, records[t] + 1);
        for (size_t r = 1; r + 1 < sheet.record_count; r++)
            assert_int_equal(sheet.starts[r + 1] - sheet.starts[r], sheet.starts[1]);
        if (t == TABLE_EVALS) {
            assert_string_equal(field(&sheet, 1, 5), "nan");
            assert_string_equal(field(&sheet, 1, 6), "inf");
        }
        if (t == TABLE_MEASURES) {
            assert_string_equal(field(&sheet, 1, 3), "quiz_acc");
            assert_string_equal(field(&sheet, 1, 4), "0.25");
            assert_string_equal(field(&sheet, 2, 4), "nan");
        }
        if (t == TABLE_STOPPING) {
            assert_string_equal(field(&sheet, 1, 7), "0");
            assert_string_equal(field(&sheet, 1, 10), "stop");
        }
        if (t == TABLE_PROFILE) assert_string_equal(field(&sheet, 1, 7), "12.25");
        if (t == TABLE_RANKS) {
            assert_string_equal(field(&sheet, 2, 3), "1");
            assert_string_equal(field(&sheet, 2, 4), "ada");
            assert_string_equal(field(&sheet, 2, 7), "0.25");
        }
        if (t == TABLE_ORDERS) {
            assert_string_equal(field(&sheet, 1, 2), "stop");
            assert_null(field(&sheet, 1, 3));
            assert_string_equal(field(&sheet, 1, 6), "stopped");
            assert_string_equal(field(&sheet, 2, 3), "0.5");
            assert_null(field(&sheet, 2, 5));
        }
        if (t == TABLE_SEGMENTS) assert_string_equal(field(&sheet, 1, 5), "running");
        if (t == TABLE_TAGS) assert_string_equal(field(&sheet, 2, 1), "good");
        if (t == TABLE_CHECKPOINTS) assert_string_equal(field(&sheet, 1, 5), "checkpoints/step-1");
        if (t == TABLE_EVENTS) assert_string_equal(field(&sheet, 1, 5), "a \"spike\"");
        if (t == TABLE_RUNS) {
            assert_string_equal(field(&sheet, 1, 2), "running");
            assert_string_equal(field(&sheet, 1, 10), "nan"); /* a loss that was NaN */
            assert_string_equal(field(&sheet, 2, 2), "created");
            assert_null(field(&sheet, 2, 10)); /* no loss at all */
            assert_null(field(&sheet, 2, 4));
        }
        sheet_release(&sheet);
    }
    assert_int_equal(writer_close(writer, RUN_STOPPED, NULL, &err), STATUS_OK);
    run_lock_release(&lock);
    store_close(store);
}

TEST_CASE(segments_stay_apart_and_in_order)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    store_fixture_home("segments", home, sizeof home);
    store_fixture_run(home, "segments", id);
    for (int life = 0; life < 2; life++) {
        struct writer *writer = store_fixture_writer(home, id);
        for (int64_t s = life ? 5 : 0; s < 10; s++) {
            struct step_record step = store_fixture_step(s, life);
            writer_step(writer, &step);
        }
        assert_int_equal(writer_close(writer, RUN_STOPPED, NULL, &err), STATUS_OK);
    }
    struct store *store = store_fixture_open(home);
    const char *ids[] = {id};
    struct sheet sheet = export(store, ids, 1, TABLE_STEPS);
    assert_int_equal(sheet.record_count, 16);
    for (size_t r = 1; r < 16; r++) {
        int64_t step;
        assert_string_equal(field(&sheet, r, 1), r <= 10 ? "1" : "2");
        assert_true(text_parse_int(field(&sheet, r, 2), &step) && step == (int64_t)(r <= 10 ? r - 1 : r - 6));
    }
    sheet_release(&sheet);
    store_close(store);
}

TEST_CASE(a_file_is_replaced_whole_or_not_at_all)
{
    char home[PATH_MAX], id[RUN_ID_MAX], path[PATH_MAX + 16];
    struct err err = {0};
    store_fixture_home("file", home, sizeof home);
    store_fixture_run(home, "file", id);
    struct store *store = store_fixture_open(home);
    snprintf(path, sizeof path, "%s/out.csv", home);
    assert_int_equal(file_write_atomic(path, "run,old", 7, &err), STATUS_OK);
    const char *wrong[] = {id, "nobody"};
    assert_int_equal(export_csv(store, wrong, 2, TABLE_RUNS, path, &err), STATUS_NOT_FOUND);
    char *text = store_fixture_slurp(path, NULL);
    assert_string_equal(text, "run,old");
    free(text);
    assert_int_equal(export_csv(store, wrong, 1, TABLE_RUNS, path, &err), STATUS_OK);
    text = store_fixture_slurp(path, NULL);
    assert_memory_equal(text, "run,name,status", 15);
    free(text);
    /* a device is written to directly, and not removed on failure */
    snprintf(path, sizeof path, "%s/pipe", home);
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_int_equal(export_csv(store, wrong, 2, TABLE_RUNS, path, &err), STATUS_NOT_FOUND);
    struct stat info;
    assert_true(stat(path, &info) == 0 && S_ISFIFO(info.st_mode));
    assert_int_equal(export_csv(store, wrong, 1, TABLE_RUNS, path, &err), STATUS_OK);
    assert_true(stat(path, &info) == 0 && S_ISFIFO(info.st_mode));
    close(reader);
    snprintf(path, sizeof path, "%s/nowhere/out.csv", home);
    assert_int_equal(export_csv(store, wrong, 1, TABLE_RUNS, path, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(export_csv(store, wrong, 1, TABLE_RUNS, "/dev/full", &err), STATUS_IO);
    assert_non_null(strstr(err.text, "/dev/full: cannot write: No space left"));
    store_close(store);
}

TEST_CASE(a_file_that_holds_something_else_is_kept)
{
    char home[PATH_MAX], id[RUN_ID_MAX], path[PATH_MAX + 16];
    static const char *const others[] = {"my notes\n", "r", "ruin,step\n"};
    struct err err = {0};
    store_fixture_home("else", home, sizeof home);
    store_fixture_run(home, "else", id);
    struct store *store = store_fixture_open(home);
    const char *ids[] = {id};
    const struct metric_choice all = {true, true, NULL};
    snprintf(path, sizeof path, "%s/out.csv", home);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(file_write_atomic(path, others[i], strlen(others[i]), &err), STATUS_OK);
        assert_int_equal(export_csv(store, ids, 1, TABLE_RUNS, path, &err), STATUS_USAGE);
        assert_int_equal(export_long(store, ids, 1, all, path, &err), STATUS_USAGE);
        assert_int_equal(export_json(store, id, path, &err), STATUS_USAGE);
        assert_non_null(strstr(err.text, "exists already and holds something else"));
        char *text = store_fixture_slurp(path, NULL);
        assert_string_equal(text, others[i]);
        free(text);
    }
    assert_int_equal(file_write_atomic(path, "", 0, &err), STATUS_OK); /* as mktemp makes it */
    assert_int_equal(export_csv(store, ids, 1, TABLE_RUNS, path, &err), STATUS_OK);
    assert_int_equal(export_csv(store, ids, 1, TABLE_RUNS, path, &err), STATUS_OK);
    store_close(store);
}

TEST_CASE(a_dash_is_standard_output)
{
    char home[PATH_MAX], id[RUN_ID_MAX], path[PATH_MAX + 16];
    struct err err = {0};
    store_fixture_home("dash", home, sizeof home);
    store_fixture_run(home, "dash", id);
    struct store *store = store_fixture_open(home);
    const char *ids[] = {id};
    snprintf(path, sizeof path, "%s/stdout", home);
    fflush(stdout);
    int own = dup(STDOUT_FILENO), file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(own >= 0 && file >= 0 && dup2(file, STDOUT_FILENO) >= 0);
    enum status first = export_csv(store, ids, 1, TABLE_RUNS, "-", &err),
                second = export_csv(store, ids, 1, TABLE_STEPS, "-", &err);
    dup2(own, STDOUT_FILENO);
    close(own);
    close(file);
    assert_int_equal(first, STATUS_OK);
    assert_int_equal(second, STATUS_OK);
    assert_false(file_exists("-"));
    char *text = store_fixture_slurp(path, NULL);
    assert_memory_equal(text, "run,name,status", 15);
    assert_non_null(strstr(text, "\r\nrun,segment,step,"));
    free(text);
    store_close(store);
}

TEST_MAIN()
