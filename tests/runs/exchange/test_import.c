/* Histories from files: an import equals the original, and a damaged file leaves nothing behind. */
#include <dirent.h>
#include <limits.h>
#include <math.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "runs/database.h"
#include "runs/exchange/export.h"
#include "runs/quantity.h"
#include "runs/series.h"
#include "tests/cmocka.h"
#include "tests/runs/exchange/exchange_fixture.h"

#define EVALS_HEADER "run,segment,step,tokens,wall_time,val_loss,val_perplexity,eval_ms\r\n"

/* Imports one file with this name and text; "" when it went well, else the sentence. */
static const char *import_text(struct store *store, const char *name, const char *text,
                               struct import_outcome *out, struct err *err)
{
    return exchange_import(store, name, text, strlen(text), out, err) ? err->text : "";
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

TEST_CASE(an_absent_value_stays_absent_and_is_no_nan)
{
    char home[PATH_MAX];
    struct err err;
    struct import_outcome outcome;
    struct series series = {0};
    static const char text[] = STEPS_HEADER ORIGIN ",1,0,,,,,2.5,,,,,\r\n" ORIGIN
                                                   ",1,1,,,,,nan,,,,,\r\n" ORIGIN ",1,64,,,,,1.5,,,,,\r\n";
    store_fixture_home("absent", home, sizeof home);
    struct store *store = store_fixture_open(home);
    assert_string_equal(import_text(store, "steps.csv", text, &outcome, &err), "");
    assert_string_equal(outcome.id, ORIGIN);
    char *again = exchange_table(store, ORIGIN, TABLE_STEPS);
    assert_string_equal(again, as_exported(text));
    free(again);
    assert_int_equal(series_read(store, ORIGIN, METRIC_LOSS, 0, -1, 1, &series, &err), STATUS_OK);
    int64_t values = 0, odd = 0;
    for (size_t i = 0; i < series.count; i++) {
        values += series.points[i].count;
        odd += series.points[i].non_finite;
    }
    assert_int_equal(values, 3);
    assert_int_equal(odd, 1);
    assert_int_equal(series_read(store, ORIGIN, METRIC_LR, 0, -1, 1, &series, &err), STATUS_OK);
    assert_int_equal(series.count, 0);
    series_release(&series);
    store_close(store);
    assert_true(store_fixture_number(home, "select count(*) from rollup where metric = 'lr'") == 0);
    assert_true(store_fixture_number(home, "select count(*) from rollup where metric = 'loss'") == 1);
    assert_true(
        store_fixture_number(home, "select count(*) from runs where final_loss = 1.5 and status = 'finished'"
                                   " and tokens is null and parameters is null") == 1);
}

TEST_CASE(an_import_does_not_take_over_the_name_of_a_run)
{
    char home[PATH_MAX];
    struct err err;
    struct import_outcome outcome;
    struct run_info run;
    static const char text[] = STEPS_HEADER ORIGIN ",1,0,,,,,2.5,,,,,\r\n";
    static const char *const names[] = {"origin", "origin-2", "origin-3"};
    store_fixture_home("names", home, sizeof home);
    struct store *store = store_fixture_open(home);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(import_text(store, "steps.csv", text, &outcome, &err), "");
        assert_string_equal(outcome.name, names[i]);
        assert_string_equal(outcome.wanted, i ? "origin" : "");
        assert_int_equal(run_find(store, names[i], &run, &err), STATUS_OK);
        assert_string_equal(run.id, outcome.id);
    }
    assert_int_equal(run_find(store, "origin", &run, &err), STATUS_OK);
    assert_string_equal(run.id, ORIGIN);
    store_close(store);
}

/* How often SQLite has parsed a statement of the handle once more. */
static int count_parsed_again(struct store *store)
{
    int n = 0;
    for (sqlite3_stmt *at = NULL; (at = sqlite3_next_stmt(store->db, at));)
        n += sqlite3_stmt_status(at, SQLITE_STMTSTATUS_REPREPARE, 0);
    return n;
}

TEST_CASE(many_imports_parse_their_statements_once)
{
    char home[PATH_MAX];
    struct err err;
    struct import_outcome outcome;
    store_fixture_home("once", home, sizeof home);
    struct store *store = store_fixture_open(home);
    for (int i = 0, before = 0; i < 4; i++) {
        assert_string_equal(import_text(store, "m.csv", "step,loss,own\n1,3.5,7\n", &outcome, &err), "");
        assert_string_not_equal(import_text(store, "bad.csv", EVALS_HEADER ORIGIN ",1,x\r\n", &outcome, &err),
                                "");
        if (i > 1) assert_int_equal(count_parsed_again(store), before);
        before = count_parsed_again(store);
    }
    store_close(store);
}

TEST_CASE(evaluations_alone_are_a_run_too)
{
    char home[PATH_MAX];
    struct err err;
    struct import_outcome outcome;
    struct series series = {0};
    store_fixture_home("evals", home, sizeof home);
    struct store *store = store_fixture_open(home);
    assert_string_equal(import_text(store, "evals.csv",
                                    "\xEF\xBB\xBF" EVALS_HEADER ORIGIN ",1,100,,1700000000,3,,\n" ORIGIN
                                    ",1,200,,1700000100,2,,",
                                    &outcome, &err),
                        "");
    assert_int_equal(outcome.steps, 0);
    assert_int_equal(outcome.evals, 2);
    assert_int_equal(series_read(store, ORIGIN, METRIC_VAL_LOSS, 0, -1, 100, &series, &err), STATUS_OK);
    assert_int_equal(series.count, 2);
    series_release(&series);
    struct run_info run;
    assert_int_equal(run_find(store, "origin", &run, &err), STATUS_OK);
    assert_true(run.best_val_loss == 2 && run.best_step == 200 && run.steps == 200);
    assert_true(run.created_at == 1700000000 && run.elapsed == 100);
    store_close(store);
}

TEST_CASE(columns_of_a_newer_anneal_are_passed_over)
{
    char home[PATH_MAX];
    struct err err;
    struct import_outcome outcome;
    store_fixture_home("newer", home, sizeof home);
    struct store *store = store_fixture_open(home);
    assert_string_equal(
        import_text(store, "evals.csv",
                    "run,segment,step,tokens,wall_time,val_loss,val_perplexity,eval_ms,colour\n" ORIGIN
                    ",1,1,,,3,,,red\n",
                    &outcome, &err),
        "");
    store_close(store);
}

/* Columns are only ever appended, so a file of an earlier release ends sooner, in no other place. */
TEST_CASE(files_of_an_older_anneal_have_fewer_columns)
{
    static const struct {
        const char *name, *text;
    } files[] = {
        {"evals.csv", EVALS_HEADER ORIGIN ",1,1,,,3,,\r\n"},
        {"gpu.csv",
         "run,wall_time,gpu,utilization_pct,memory_used_bytes,memory_total_bytes,power_w,temperature_c,"
         "sm_clock_mhz\r\n" ORIGIN ",1.5,0,98,1,2,3,4,5\r\n"},
        {"profile.csv",
         "run,segment,step,phase,layer,op,calls,time_us\r\n" ORIGIN ",1,1,forward,0,gemm,4,12\r\n"},
    };
    char home[PATH_MAX], paths[3][PATH_MAX + 64];
    const char *names[3];
    struct err err = {0};
    struct import_outcome outcome;
    store_fixture_home("older", home, sizeof home);
    struct store *store = store_fixture_open(home);
    for (int i = 0; i < 3; i++) {
        exchange_write(home, files[i].name, files[i].text, strlen(files[i].text), paths[i]);
        names[i] = paths[i];
    }
    if (import_files(store, names, 3, NULL, &outcome, &err)) fail_msg("%s", err.text);
    assert_true(store_fixture_number(home, "select sm_clock_mhz from gpu_samples where load_1m is null and"
                                           " throttle is null and process_bytes is null") == 5);
    assert_true(store_fixture_number(home, "select calls from layer_profile where flops is null") == 4);
    static const char other[] = "run,wall_time,gpu,utilization_pct\r\n" ORIGIN ",1.5,0,98\r\n";
    exchange_write(home, "gpu.csv", other, sizeof other - 1, paths[1]);
    assert_int_equal(import_files(store, names, 3, NULL, &outcome, &err), STATUS_CORRUPT); /* no release's */
    store_close(store);
}

/* ---- files of other programs ---- */

TEST_CASE(tensorboard_scalars_come_together_by_their_names)
{
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
        exchange_write(home, files[i].name, files[i].text, strlen(files[i].text), paths[i]);
        list[i] = paths[i];
    }
    char other[PATH_MAX + 64]; /* the loss under another name */
    exchange_write(home, "theirs/loss.csv", files[0].text, strlen(files[0].text), other);
    assert_int_equal(import_files(store, (const char *[]){paths[0], other}, 2, NULL, &outcome, &err),
                     STATUS_USAGE);
    assert_non_null(
        strstr(err.text, "theirs/loss.csv: an earlier file has values of loss under another name"));
    if (import_files(store, list, FILES, NULL, &outcome, &err)) fail_msg("%s", err.text);
    assert_non_null(strstr(outcome.id, "-theirs")); /* the folder */
    char want[800];
    snprintf(want, sizeof want,
             STEPS_HEADER "%s,1,0,,4096,1700000000.5,,4,0.1,,,,\r\n%s,1,1,,,1700000001,,3,,,,,\r\n"
                          "%s,1,2,,12288,1700000002,,nan,0.2,,,,\r\n",
             outcome.id, outcome.id, outcome.id);
    char *text = exchange_table(store, outcome.id, TABLE_STEPS);
    assert_string_equal(text, as_exported(want));
    free(text);
    snprintf(want, sizeof want, EVALS_HEADER "%s,1,2,,1700000009,2.25,,\r\n", outcome.id); /* the later one */
    text = exchange_table(store, outcome.id, TABLE_EVALS);
    assert_string_equal(text, want);
    free(text);

    /* and out again, as they came */
    const char **written;
    struct arena arena = {0};
    size_t count;
    assert_int_equal(export_tensorboard(store, outcome.id, (struct metric_choice){true, true, NULL}, home,
                                        &arena, &written, &count, &err),
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

/* Programs log rarely what changes rarely. */
TEST_CASE(what_the_newest_rows_lack_is_a_chart_all_the_same)
{
    char home[PATH_MAX], paths[2][EXCHANGE_PATH_MAX], steps[20000] = STEPS_HEADER, measures[20000];
    struct err err = {0};
    struct import_outcome made;
    struct arena arena = {0};
    struct quantity *all;
    size_t count, found = 0;
    snprintf(measures, sizeof measures, "run,segment,step,name,value\r\n" ORIGIN ",1,0,early,1\r\n");
    for (int i = 0; i < 300; i++) {
        text_add(steps, sizeof steps, "", ORIGIN ",1,%d,,,,,2,%s,,,,\r\n", i, i ? "" : "0.5");
        text_add(measures, sizeof measures, "", ORIGIN ",1,%d,late,1\r\n", i);
    }
    store_fixture_home("rare", home, sizeof home);
    exchange_write(home, "steps.csv", steps, strlen(steps), paths[0]);
    exchange_write(home, "measures.csv", measures, strlen(measures), paths[1]);
    struct store *store = store_fixture_open(home);
    if (import_files(store, (const char *[]){paths[0], paths[1]}, 2, NULL, &made, &err))
        fail_msg("%s", err.text);
    assert_int_equal(quantity_list(store, made.id, &arena, &all, &count, &err), STATUS_OK);
    for (size_t i = 0; i < count; i++) found += !strcmp(all[i].name, "lr") || !strcmp(all[i].name, "early");
    assert_int_equal(found, 2);
    arena_release(&arena);
    store_close(store);
}

/* One that is being written, or whose writer was killed. */
TEST_CASE(the_line_that_a_log_is_cut_in_is_left_out)
{
    char home[PATH_MAX];
    struct err err;
    struct import_outcome outcome;
    store_fixture_home("llmc-cut", home, sizeof home);
    struct store *store = store_fixture_open(home);
    static const char *const ends[] = {"s:1 tr", "s:1 trl:8.2", "s:"};
    for (int i = 0; i < 3; i++) {
        char text[80];
        snprintf(text, sizeof text, "s:0 trl:9\n%s", ends[i]);
        assert_string_equal(import_text(store, "cut/main.log", text, &outcome, &err), "");
        assert_int_equal(outcome.steps, 1);
        assert_string_equal(outcome.remark, "line 2 has no end, and was left out");
    }
    static const char zero[] = "s:0 trl:9\n\0s:1 trl:8\ns:2 trl:7\n"; /* as a power cut leaves them */
    char path[PATH_MAX + 64];
    exchange_write(home, "zero.log", zero, sizeof zero - 1, path);
    assert_int_equal(import_files(store, (const char *[]){path}, 1, NULL, &outcome, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.text, "zero.log:2: holds a zero byte"));
    static const char last[] = "s:0 trl:9\ns:1 tr\0\0\0";
    exchange_write(home, "last.log", last, sizeof last, path);
    if (import_files(store, (const char *[]){path}, 1, NULL, &outcome, &err)) fail_msg("%s", err.text);
    assert_int_equal(outcome.steps, 1);
    assert_string_equal(outcome.remark, "line 2 has no end, and was left out");
    store_close(store);
}

TEST_CASE(llmc_logs_come_in_with_their_resumes)
{
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
    assert_string_equal(outcome.remark, "");
    assert_non_null(strstr(outcome.id, "-log124M"));
    snprintf(want, sizeof want,
             STEPS_HEADER
             "%s,1,0,,,,,10.9,1e-06,15.2,,,\r\n%s,1,1,,,,,9.5,2e-06,nan,,,\r\n%s,1,2,,,,,8.25,,,,,\r\n"
             "%s,2,1,,,,,9.4,2e-06,2,,,\r\n",
             outcome.id, outcome.id, outcome.id, outcome.id);
    char *text = exchange_table(store, outcome.id, TABLE_STEPS);
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
                    home, "select value from measures where name = 'hellaswag_acc' and step = 0") == 0.2446);
}

/* ---- damage ---- */

/* Twice this is one byte more than an id may have. */
#define FORTY_EIGHT "123456789 123456789 123456789 123456789 12345678"

#define LONG_LINE   FORTY_EIGHT FORTY_EIGHT FORTY_EIGHT FORTY_EIGHT FORTY_EIGHT /* 240 bytes */
#define LONGER_LINE LONG_LINE LONG_LINE FORTY_EIGHT

TEST_CASE(damage_is_named_by_file_and_line_and_leaves_nothing)
{
    static const struct {
        const char *name, *text, *sentence;
    } cases[] = {
        {"steps.csv", "", "steps.csv:1: is empty"},
        {"steps.csv", "\n\n", ": is empty"},
        {"steps.csv", "when,loss\n1,2\n", "steps.csv:1: is not a known header: it begins with \"when\""},
        {"seed.csv", "\xEF\xBB\xBFseed,loss\n1,2\n",
         "seed.csv:1: is not a known header: it begins with \"seed\""},
        {"other.csv", "a,b\n1,2\n", "other.csv:1: is not a known header"},
        {"three.csv", "a,steps,Value\n1,2,3\n", "three.csv:1: is not a known header"},
        {"three.csv", "Wall time,b,Value\n1,2,3\n", "three.csv:1: is not a known header"},
        {"short.csv", "run,segment,step\n" ORIGIN ",1,0\n", "short.csv:1: is not a known header"},
        {"steps.csv", STEPS_HEADER, "contains neither steps nor evaluations"},
        {"steps.csv", STEPS_HEADER ORIGIN ",1,0,,,,,2,,,,,\n" ORIGIN ",1,0,,,,,2,,,,,\n",
         "steps.csv:3: is a second record of the same segment, step"},
        {"steps.csv", STEPS_HEADER ORIGIN ",1,0,,,,,2,,,,\n",
         "steps.csv:2: has 12 fields, but the header has 13"},
        {"steps.csv", STEPS_HEADER ORIGIN ",1,0,,,,,2,,,,,,\n", "steps.csv:2: has more fields than 13"},
        {"steps.csv", STEPS_HEADER ORIGIN ",1,-1,,,,,2,,,,,\n", "steps.csv:2: step: -1 is out of range"},
        {"steps.csv", STEPS_HEADER ORIGIN ",1,9223372036854775807,,,,,2,,,,,\n", "steps.csv:2: step: "},
        {"steps.csv", STEPS_HEADER ORIGIN ",1,9223372036854775808,,,,,2,,,,,\n",
         "step: is not a whole number"},
        {"steps.csv", STEPS_HEADER ORIGIN ",0,1,,,,,2,,,,,\n", "steps.csv:2: segment: 0 is not in 1 to"},
        {"steps.csv", STEPS_HEADER ORIGIN ",1,,,,,,2,,,,,\n", "steps.csv:2: step: is missing"},
        {"steps.csv", STEPS_HEADER ORIGIN ",1,1.5,,,,,2,,,,,\n",
         "steps.csv:2: step: is not a whole number: \"1.5\""},
        {"steps.csv", STEPS_HEADER "\n\n" ORIGIN ",1,0,,,,,two,,,,,\n",
         "steps.csv:4: loss: is not a number: \"two\""},
        {"steps.csv", STEPS_HEADER ",1,0,,,,,2,,,,,\n", "steps.csv:2: the run's id is missing"},
        {"steps.csv", STEPS_HEADER FORTY_EIGHT FORTY_EIGHT ",1,0,,,,,2,,,,,\n", "the run's id is too long"},
        {"steps.csv", STEPS_HEADER ORIGIN ",1,0,,,,,\"2,,,,,\n", "steps.csv:2: a quote is not closed"},
        {"steps.csv", STEPS_HEADER ORIGIN ",1,0,,,,,\"2\"x,,,,,\n", "steps.csv:2: a quote is where"},
        {"samples.csv", "run,segment,step,prompt,text\n" ORIGIN ",1,0,\"a\nb\",c\n" ORIGIN ",1,x,d,e\n",
         "samples.csv:4: step: is not a whole number"},
        {"early.csv",
         "run,segment,step,val_loss,best_val_loss,best_step,min_delta,improved,patience_used,patience,"
         "verdict\n" ORIGIN ",1,0,1,1,0,0,1,0,3,maybe\n",
         "early.csv:2: verdict: \"maybe\" is not one of improved"},
        {"params.csv", "run,name,value\n" ORIGIN ",a name,1\n",
         "params.csv:2: name: \"a name\" is not a key of a configuration"},
        {"orders.csv", "run,issued_at,verb,argument,issuer,applied_step,result\n" ORIGIN ",1,dance,,,,\n",
         "orders.csv:2: verb: \"dance\" is not one of pause, continue, stop, checkpoint, eval, sample, "
         "lr-factor, trace"},
        {"loss.csv", "Wall time,Step,Value\n1,0,2\n1,one,2\n",
         "loss.csv:3: step: is not a whole number: \"one\""},
        {"loss.csv", "Wall time,Step,Value\n1,0.5,2\n", "loss.csv:2: step: is not a whole number"},
        {"loss.csv", "Wall time,Step,Value\n1,1e300,2\n", "loss.csv:2: step: is not a whole number"},
        {"loss.csv", "Wall time,Step,Value\n1,0,\n", "loss.csv:2: loss: is missing"},
        {"loss.csv", "Wall time,Step,Value\n1,0\n", "loss.csv:2: has 2 fields, but the header has 3"},
        {"loss.csv", "Wall time,Step,Value\n1\n", "loss.csv:2: has 1 field, but the header has 3"},
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
        {"main.log", "s:0 trl:1\n" LONGER_LINE "\n", "main.log:2: is longer than a line of such a log"},
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
    exchange_write(home, "zero.csv", "", strlen(""), path);
    assert_int_equal(
        file_write_atomic(path, STEPS_HEADER ORIGIN ",1,0\0,,,,,2,,,,,\n", sizeof STEPS_HEADER + 38, &why),
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

TEST_CASE(files_of_two_runs_or_kinds_are_not_mixed)
{
    char home[PATH_MAX], steps[PATH_MAX + 64], evals[PATH_MAX + 64], loss[PATH_MAX + 64], log[PATH_MAX + 64];
    struct err err = {0};
    struct import_outcome outcome;
    store_fixture_home("mixed", home, sizeof home);
    struct store *store = store_fixture_open(home);
    exchange_write(home, "steps.csv", STEPS_HEADER ORIGIN ",1,0,,,,,2,,,,,\n",
                   strlen(STEPS_HEADER ORIGIN ",1,0,,,,,2,,,,,\n"), steps);
    exchange_write(home, "evals.csv", EVALS_HEADER "another,1,100,,1700000000,3,,\n",
                   strlen(EVALS_HEADER "another,1,100,,1700000000,3,,\n"), evals);
    exchange_write(home, "loss.csv", "Wall time,Step,Value\n1,0,2\n", strlen("Wall time,Step,Value\n1,0,2\n"),
                   loss);
    exchange_write(home, "main.log", "s:0 trl:1\n", strlen("s:0 trl:1\n"), log);
    const char *pairs[][2] = {{steps, evals}, {steps, loss}, {loss, log}, {steps, home}, {log, log}};
    static const char *const sentences[] = {"evals.csv:2: belongs to run another, but ",
                                            "is another kind of file", "is another kind of file",
                                            "is a folder", "is a second log"};
    for (int i = 0; i < 5; i++) {
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

TEST_CASE(an_empty_folder_that_nobody_owns_takes_no_id)
{
    char home[PATH_MAX], folder[PATH_MAX + 64], path[PATH_MAX + 64];
    struct err err;
    struct import_outcome outcome;
    static const char text[] = STEPS_HEADER ORIGIN ",1,0,,,,,2,,,,,\n";
    store_fixture_home("orphan", home, sizeof home);
    struct store *store = store_fixture_open(home);
    snprintf(folder, sizeof folder, "%s/runs/" ORIGIN, home);
    assert_int_equal(file_make_folders(folder, &err), STATUS_OK); /* as an import killed half-way leaves it */
    assert_string_equal(import_text(store, "steps.csv", text, &outcome, &err), "");
    assert_string_equal(outcome.id, ORIGIN);
    assert_int_equal(run_delete(store, ORIGIN, &err), STATUS_OK);
    exchange_write(home, "runs/" ORIGIN "/kept", "somebody's", 10, path);
    assert_string_equal(import_text(store, "steps.csv", text, &outcome, &err), "");
    assert_string_equal(outcome.id, ORIGIN "-2");
    assert_true(file_exists(path));
    store_close(store);
}

TEST_CASE(an_id_that_is_a_path_is_not_kept)
{
    static const char *const ids[] = {
        "../../../evil",          "20260102-030405-../x", "20260102-030405-",  "latest",
        "20260102-030405-latest", "20260102-030405-..",   "20260102_030405-x", "20260102-030405_x"};
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

TEST_MAIN()
