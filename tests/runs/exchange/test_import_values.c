/* Imported values: which one counts if several records, files or segments have it, and which are NaN or
 * absent. */
#include <limits.h>
#include <math.h>

#include "tests/cmocka.h"
#include "tests/runs/exchange/exchange_fixture.h"

static char home[PATH_MAX];

/* A fresh home, and in it a run of these files: name, text, name, text, …, NULL. */
static struct import_outcome import_texts(const char *const *files)
{
    char paths[8][EXCHANGE_PATH_MAX];
    const char *list[8];
    size_t count = 0;
    struct err err = {0};
    struct import_outcome outcome;
    store_fixture_home("values", home, sizeof home);
    struct store *store = store_fixture_open(home);
    for (; files[2 * count]; count++) {
        const char *text = files[2 * count + 1];
        exchange_write(home, files[2 * count], text, strlen(text), paths[count]);
        list[count] = paths[count];
    }
    if (import_files(store, list, count, "values", &outcome, &err)) fail_msg("%s", err.text);
    store_close(store);
    return outcome;
}

#define STEPS                                                                                                \
    "run,segment,step,epoch,tokens,wall_time,step_ms,loss,lr,grad_norm,clip_scale,tokens_per_sec,mfu\n"

/* One row, one column of `steps`: its value, and whether it is NaN rather than absent. */
static void expect_cell(const char *column, int64_t step, double value, bool nan)
{
    static const struct {
        const char *name;
        int bit;
    } bits[] = {{"epoch", 1},      {"wall_time", 2},   {"step_ms", 4},          {"loss", 8}, {"lr", 16},
                {"grad_norm", 32}, {"clip_scale", 64}, {"tokens_per_sec", 128}, {"mfu", 0}};
    char sql[160];
    snprintf(sql, sizeof sql, "select %s from steps where step = %lld", column, (long long)step);
    double got = store_fixture_number(home, sql);
    if (!(got == value || (isnan(got) && isnan(value))))
        fail_msg("%s at %lld: %g", column, (long long)step, got);
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        if (strcmp(bits[i].name, column) != 0) continue;
        snprintf(sql, sizeof sql, "select (nan & %d) <> 0 from steps where step = %lld", bits[i].bit,
                 (long long)step);
        if (store_fixture_number(home, sql) != nan)
            fail_msg("%s at %lld: %s", column, (long long)step, nan ? "absent" : "NaN");
    }
}

TEST_CASE(a_nan_is_of_its_own_record_alone)
{
    import_texts((const char *[]){"steps.csv",
                                  STEPS "r,1,0,nan,1,nan,nan,nan,nan,nan,nan,nan,nan\n"
                                        "r,1,1,,1,,,,,,,,\n"
                                        "r,1,2,0.5,1,1,1,2,,nan,1,1,\n",
                                  NULL});
    static const char *const columns[] = {"epoch",     "wall_time",  "step_ms",        "loss", "lr",
                                          "grad_norm", "clip_scale", "tokens_per_sec", "mfu"};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        expect_cell(columns[i], 0, NAN, strcmp(columns[i], "mfu") != 0); /* whose NaN is its absence */
        expect_cell(columns[i], 1, NAN, false);
    }
    expect_cell("loss", 2, 2, false);
    expect_cell("lr", 2, NAN, false);
    expect_cell("grad_norm", 2, NAN, true);
}

#define SCALARS "Wall time,Step,Value\n"

TEST_CASE(of_scalars_the_last_record_of_a_step_counts_with_its_nan)
{
    import_texts((const char *[]){"loss.csv", SCALARS "10,0,nan\n10,1,3\n11,0,2\n11,1,nan\n12,2,nan\n",
                                  "lr.csv", SCALARS "20,0,0.5\n,1,0.25\n20,2,nan\n21,2,0.125\n", NULL});
    expect_cell("loss", 0, 2, false);
    expect_cell("loss", 1, NAN, true);
    expect_cell("loss", 2, NAN, true); /* another file's number leaves it alone */
    expect_cell("lr", 0, 0.5, false);
    expect_cell("lr", 1, 0.25, false);
    expect_cell("lr", 2, 0.125, false);
    expect_cell("wall_time", 0, 20, false);
    expect_cell("wall_time", 1, 11, false); /* a record without a time keeps the one there */
    expect_cell("wall_time", 2, 21, false);
    expect_cell("grad_norm", 0, NAN, false);
}

TEST_CASE(a_scalar_before_the_first_step_is_left_out)
{
    struct import_outcome outcome =
        import_texts((const char *[]){"loss.csv", SCALARS "9,-1,nan\n10,0,3\n11,1000000000000001,2\n", NULL});
    assert_string_equal(outcome.remark,
                        "2 values were left out: the step is not a whole number from 0 to 10^15");
    assert_int_equal(outcome.steps, 1);
    expect_cell("loss", 0, 3, false);
}

static double of_run(const char *column)
{
    char sql[80];
    snprintf(sql, sizeof sql, "select %s from runs", column);
    return store_fixture_number(home, sql);
}

TEST_CASE(the_run_is_counted_from_what_counts)
{
    char text[8192] = STEPS;
    for (int i = 0; i < 150;
         i++) /* 50 slow steps, then faster ones, the newest 20 with a mean of 1,080 tokens a second */
        sprintf(text + strlen(text), "r,1,%d,,%d,,,%d,,,,%d,\n", i, i, 150 - i,
                i < 50 ? 1 : 1000 + 2 * i - 199);
    strcat(text, "r,1,150,,,,,,,,,nan,\n"); /* neither loss nor rate nor tokens */
    struct import_outcome outcome = import_texts(
        (const char *[]){"steps.csv", text, "evals.csv",
                         "run,segment,step,tokens,wall_time,val_loss,val_perplexity,eval_ms\n"
                         "r,1,10,,,nan,,\nr,1,20,,,5,,\nr,1,30,,,,,\nr,1,40,,,4,,\nr,1,50,,,4,,\n"
                         "r,1,400,,,6,,\n",
                         NULL});
    assert_true(outcome.steps == 151 && outcome.evals == 6);
    assert_true(of_run("tokens_per_sec") == 1080);
    assert_true(of_run("final_loss") == 1 && of_run("tokens") == 149);
    assert_true(of_run("best_val_loss") == 4 &&
                of_run("best_step") == 40); /* the first of equals, no NaN, no absence */
    assert_true(of_run("steps") == 400);    /* an evaluation says how many were done */
    assert_true(of_run("nan") == 0);
}

TEST_CASE(a_step_that_a_log_has_again_begins_a_segment)
{
    import_texts((const char *[]){"main.log", "s:0 trl:3\ns:0 trl:2\ns:1 trl:1\n", NULL});
    assert_true(store_fixture_number(home,
                                     "select group_concat(segment || step || loss, '') = '103.0202.0211.0'"
                                     " from (select * from steps order by segment, step)") == 1);
    assert_true(store_fixture_number(home, "select min(loss) from steps where step = 0 and segment = 2") ==
                2);
}

TEST_CASE(a_run_of_evaluations_alone_shows_all_of_them)
{
    import_texts((const char *[]){"evals.csv",
                                  "run,segment,step,tokens,wall_time,val_loss,val_perplexity,eval_ms\n"
                                  "r,1,10,,,nan,,\nr,1,20,,,nan,,\nr,2,20,,,3,,\nr,2,30,,,nan,,\n",
                                  NULL});
    assert_true(of_run("best_val_loss") == 3 && of_run("best_step") == 20);
    assert_true(store_fixture_number(home, "select first_step from segments where segment = 1") == 9);
    assert_true(store_fixture_number(home, "select first_step from segments where segment = 2") == 19);
    import_texts((const char *[]){"evals.csv",
                                  "run,segment,step,tokens,wall_time,val_loss,val_perplexity,eval_ms\n"
                                  "r,1,0,,,nan,,\nr,1,5,,,nan,,\n",
                                  NULL});
    assert_true(store_fixture_number(home, "select first_step from segments") == 0);
    assert_true(isnan(of_run("best_val_loss")) && of_run("best_step") == 0 && of_run("nan") == 2);
}

/* Whether such a file is refused, with nothing left. */
static bool is_refused(const char *name, const char *text)
{
    struct err err;
    struct import_outcome outcome;
    store_fixture_home("refused", home, sizeof home);
    struct store *store = store_fixture_open(home);
    enum status status = exchange_import(store, name, text, strlen(text), &outcome, &err);
    store_close(store);
    assert_true(store_fixture_number(home, "select count(*) from runs") == (status ? 0 : 1));
    return status != STATUS_OK;
}

TEST_CASE(keys_have_their_limits)
{
    assert_true(is_refused("steps.csv", STEPS "r,0,0,,,,,1,,,,,\n"));
    assert_true(is_refused("steps.csv", STEPS "r,1000001,0,,,,,1,,,,,\n"));
    assert_true(is_refused("steps.csv", STEPS "r,1,-1,,,,,1,,,,,\n"));
    assert_true(is_refused("steps.csv", STEPS "r,1,1000000000000001,,,,,1,,,,,\n"));
    assert_true(is_refused("steps.csv", STEPS "r,1,,,,,,1,,,,,\n"));
    assert_false(is_refused("steps.csv", STEPS "r,1000000,1000000000000000,,,,,1,,,,,\n"));
    static const char gpu[] =
        "run,wall_time,gpu,utilization_pct,memory_used_bytes,memory_total_bytes,power_w,"
        "temperature_c,sm_clock_mhz\n";
    char text[400];
    snprintf(text, sizeof text, "%sr,nan,0,1,1,1,1,1,1\n", gpu);
    assert_true(is_refused("gpu.csv", text));
    static const char other[] =
        "run,wall_time,gpu,utilization_pct,memory_used_bytes,memory_total_bytes,power_w,"
        "temperature_c,sm_clock_mhz,other\nr,1,0,1,1,1,1,1,1,1\n"; /* in place of one of ours */
    assert_true(is_refused("gpu.csv", other));
    assert_true(is_refused("loss.csv", SCALARS "1,-1,2\n"));
    assert_true(is_refused("loss.csv", SCALARS "1,0.5,2\n"));
    assert_true(is_refused("tokens.csv", SCALARS "1,1,2.5\n"));
    assert_false(is_refused("tokens.csv", SCALARS "1,1,2\n"));
}

TEST_CASE(a_log_of_llmc_begins_with_any_step)
{
    static const char *const firsts[] = {"s:0", "s:9"};
    for (size_t i = 0; i < 2; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s tel:3.5\ns:10 trl:3\n", firsts[i]);
        import_texts((const char *[]){"main.log", text, NULL});
        assert_true(store_fixture_number(home, "select count(*) from steps") == 1);
    }
    assert_true(is_refused("main.log", "s:-1 trl:3\n"));
    assert_true(is_refused("main.log", "s:x trl:3\n"));
}

TEST_CASE(an_absurd_time_is_not_the_runs)
{
    import_texts((const char *[]){"loss.csv", SCALARS "1e15,0,2\n", NULL});
    assert_true(of_run("created_at") < 253402300800.0 && of_run("ended_at") < 253402300800.0);
    import_texts((const char *[]){"loss.csv", SCALARS "-5,0,2\n", NULL});
    assert_true(of_run("created_at") > 0);
    import_texts((const char *[]){"loss.csv", SCALARS "253402300799,0,2\n", NULL});
    assert_true(of_run("created_at") == 253402300799.0);
}

#define RUNS                                                                                                 \
    "run,name,status,created_at,ended_at,device,precision,parameters,steps,tokens,final_loss,best_val_loss," \
    "best_step,tokens_per_sec,parent_id,parent_step,frozen_parameters,trained_parameters,note,best_metric,"  \
    "best_value\n"
#define REST ",,,,0,0,0,,,,,,,0,0,\"\",val_loss,\n"

/* A run may have waited, or its first records may be cut. */
TEST_CASE(a_time_in_runs_csv_is_the_runs)
{
    static const char *const steps = STEPS "r,1,0,,,1700000100,,1,,,,,\n";
    import_texts((const char *[]){"runs.csv", RUNS "r,r,finished,1700000000" REST, "steps.csv", steps, NULL});
    assert_true(of_run("created_at") == 1700000000);
    import_texts((const char *[]){"steps.csv", steps, NULL});
    assert_true(of_run("created_at") == 1700000100);
}

TEST_MAIN()
