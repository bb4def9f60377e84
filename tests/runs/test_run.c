/* The row of a run: it is updated with the history, and a resume continues from it. */
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka wants the headers above first */
#include "core/base/file.h"
#include "runs/database.h"
#include "runs/history.h"
#include "runs/recovery.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"

static char home[PATH_MAX], id[RUN_ID_MAX];

static struct writer *begin(const char *name)
{
    store_fixture_home(name, home, sizeof home);
    store_fixture_run(home, name, id);
    return store_fixture_writer(home, id);
}

static struct run_info after(struct writer *writer)
{
    struct err err = {0};
    struct run_info info;
    assert_int_equal(writer_close(writer, RUN_STOPPED, NULL, &err), STATUS_OK);
    struct store *store = store_fixture_open(home);
    if (run_find(store, id, &info, &err)) fail_msg("%s", err.text);
    store_close(store);
    return info;
}

static void step(struct writer *writer, int64_t number, double loss, double rate)
{
    writer_step(writer,
                &(struct step_record){
                    .step = number, .tokens = 10 * (number + 1), .loss = loss, .tokens_per_sec = rate});
}

static void eval(struct writer *writer, int64_t number, double loss)
{
    writer_eval(writer, &(struct eval_record){.step = number, .val_loss = loss});
}

TEST_CASE(the_speed_is_the_mean_of_the_newest_steps)
{
    struct writer *writer = begin("speed");
    step(writer, 0, 1, 100);
    step(writer, 1, 1, 200);
    step(writer, 2, 1, NAN); /* not measured */
    assert_true(after(writer).tokens_per_sec == 150);
    writer = store_fixture_writer(home, id);
    step(writer, 3, 1, 50); /* a resume measures anew: it may run elsewhere */
    assert_true(after(writer).tokens_per_sec == 50);
}

/* 20 tokens in 1.01 seconds, although one step made 1,000 a second. */
TEST_CASE(a_short_step_does_not_raise_the_speed)
{
    static const struct step_record first = {.tokens = 10, .step_ms = 1000, .tokens_per_sec = 10},
                                    second = {.step = 1, .tokens = 20, .step_ms = 10, .tokens_per_sec = 1000};
    struct writer *writer = begin("short");
    writer_step(writer, &first);
    writer_step(writer, &second);
    assert_true(fabs(after(writer).tokens_per_sec - 20 / 1.01) < 1e-9);
}

/* So that the time left of a fork follows from its own batch, not from that of the steps before it. */
TEST_CASE(the_tokens_of_a_step_are_those_of_the_newest)
{
    static const struct step_record of_parent = {.tokens = 5000, .step_ms = 500, .tokens_per_sec = 10000},
                                    own = {.step = 1, .tokens = 5400, .step_ms = 100, .tokens_per_sec = 4000};
    struct writer *writer = begin("batch");
    writer_step(writer, &of_parent);
    assert_true(after(writer).step_tokens == 5000);
    writer = store_fixture_writer(home, id);
    writer_step(writer, &own);
    assert_true(after(writer).step_tokens == 400);
    assert_true(isnan(after(store_fixture_writer(home, id)).step_tokens)); /* not known before the first */
}

TEST_CASE(settings_are_stored_to_the_letter)
{
    struct err err = {0};
    struct arena arena = {0};
    struct run_param *params;
    size_t count;
    char config[2000] = "[sample]\nprompt =  a ; b # c = d: \n\n[data]\ntrain = ",
         *list = strchr(config, '\0');
    memset(list, 'x', 1000);
    store_fixture_home("letter", home, sizeof home);
    struct store *store = store_fixture_open(home);
    assert_int_equal(run_create(store, &(struct run_new){.name = "letter", .config = config}, id, &err),
                     STATUS_OK);
    assert_int_equal(run_params_list(store, id, &arena, &params, &count, &err), STATUS_OK);
    assert_int_equal(count, 2);
    assert_string_equal(run_params_get(params, count, "sample.prompt"), " a ; b # c = d: ");
    assert_string_equal(run_params_get(params, count, "data.train"), list);
    arena_release(&arena);
    store_close(store);
}

TEST_CASE(a_resume_without_a_step_leaves_what_was_recorded)
{
    struct writer *writer = begin("idle");
    step(writer, 0, 3, 1);
    step(writer, 1, NAN, 1);
    eval(writer, 0, 4);
    struct run_info first = after(writer), again = after(store_fixture_writer(home, id));
    assert_true(first.steps == 2 && first.tokens == 20 && first.best_step == 0 && first.best_val_loss == 4);
    assert_true(isnan(first.final_loss) && first.loss_recorded);
    assert_true(again.segment == 2 && again.steps == 2 && again.tokens == 20);
    assert_true(isnan(again.final_loss) && again.loss_recorded);
    assert_true(again.best_step == 0 && again.best_val_loss == 4);
    /* one that never had a step has no loss either */
    struct run_info none = after(begin("none"));
    assert_true(!none.loss_recorded && none.best_step == -1 && none.steps == 0 && none.elapsed >= 0);
}

TEST_CASE(the_segment_of_a_killed_trainer_is_known_to_have_crashed)
{
    struct writer *writer = begin("killed");
    step(writer, 0, 3, 1);
    after(writer);
    store_fixture_sql(home, "update segments set status = 'running', ended_at = null");
    after(store_fixture_writer(home, id));
    assert_true(store_fixture_number(home,
                                     "select count(*) from segments where segment = 1 and status = 'crashed'"
                                     " and ended_at is null") == 1);
    assert_true(store_fixture_number(
                    home, "select count(*) from segments where segment = 2 and status = 'stopped'") == 1);
}

TEST_CASE(any_number_is_better_than_nan_and_the_first_of_equals_is_best)
{
    struct writer *writer = begin("best");
    eval(writer, 0, NAN);
    struct run_info info = after(writer);
    assert_true(isnan(info.best_val_loss) && info.best_step == 0);
    writer = store_fixture_writer(home, id);
    eval(writer, 10, 9);
    eval(writer, 20, NAN);
    eval(writer, 30, 9);
    info = after(writer);
    assert_true(info.best_val_loss == 9 && info.best_step == 10);
}

TEST_CASE(an_evaluation_that_was_made_again_is_not_the_best)
{
    struct writer *writer = begin("again");
    step(writer, 99, 1, 1);
    eval(writer, 100, 2);
    after(writer);
    writer = store_fixture_writer(home, id);
    eval(writer, 100, 2.5);
    step(writer, 100, 1, 1);
    eval(writer, 200, 3);
    struct run_info info = after(writer);
    assert_true(info.best_val_loss == 2.5 && info.best_step == 100);
}

static void evaluate_with(struct writer *writer, int64_t number, double loss, const char *name, double value)
{
    eval(writer, number, loss);
    writer_measure(writer, &(struct measure_record){number, name, value});
}

TEST_CASE(the_best_step_is_that_of_the_configured_metric)
{
    struct writer *writer = begin("metric");
    char sql[200];
    snprintf(sql, sizeof sql,
             "insert into params(run_id, name, value) values('%s', 'eval.metric', 'f1.spam')", id);
    store_fixture_sql(home, sql);
    evaluate_with(writer, 10, 5, "f1.spam", 0.25);
    evaluate_with(writer, 20, 4, "f1.spam", 0.75);
    evaluate_with(writer, 30, 3, "f1.spam", 0.5);
    evaluate_with(writer, 40, 2, "f1.spam", NAN);
    struct run_info info = after(writer);
    assert_string_equal(info.best_metric, "f1.spam");
    assert_true(info.best_step == 20 && info.best_value == 0.75 && info.best_val_loss == 2);
    /* a resume does the last two again, and worse: its values count */
    writer = store_fixture_writer(home, id);
    step(writer, 15, 1, 1);
    evaluate_with(writer, 20, 4, "f1.spam", 0.125);
    info = after(writer);
    assert_true(info.best_step == 10 && info.best_value == 0.25 && info.best_val_loss == 4);
    snprintf(sql, sizeof sql, "update params set value = 'val_perplexity' where run_id = '%s'", id);
    store_fixture_sql(home, sql);
    writer = store_fixture_writer(home, id);
    writer_eval(writer, &(struct eval_record){.step = 30, .val_loss = 3, .val_perplexity = 20});
    writer_eval(writer, &(struct eval_record){.step = 40, .val_loss = 4, .val_perplexity = 55});
    info = after(writer); /* lower is better; the earlier evaluations have none above 0 */
    assert_string_equal(info.best_metric, "val_perplexity");
    assert_true(info.best_step == 10 && info.best_value == 0);
    snprintf(sql, sizeof sql, "update params set value = 'val_acc' where run_id = '%s'", id);
    store_fixture_sql(home, sql);
    writer = store_fixture_writer(home, id);
    evaluate_with(writer, 50, 4, "val_acc", 0.25);
    evaluate_with(writer, 60, 4, "val_acc", 0.75);
    info = after(writer); /* of questions in val.jsonl */
    assert_true(info.best_step == 60 && info.best_value == 0.75);
}

TEST_CASE(several_runs_that_fit_are_named_three_at_most)
{
    char ids[4][RUN_ID_MAX];
    struct err err;
    struct run_info info;
    store_fixture_home("many", home, sizeof home);
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "run-%d", i);
        store_fixture_run(home, name, ids[i]);
    }
    struct store *store = store_fixture_open(home);
    assert_int_equal(run_find(store, "20", &info, &err), STATUS_USAGE);
    for (int i = 3; i > 0; i--) assert_non_null(strstr(err.text, ids[i])); /* the newest */
    assert_null(strstr(err.text, ids[0]));
    assert_non_null(strstr(err.text, "4 runs match"));
    assert_non_null(strstr(err.text, ", ..."));
    assert_int_equal(run_delete(store, ids[0], &err), STATUS_OK);
    assert_int_equal(run_find(store, "20", &info, &err), STATUS_USAGE);
    assert_null(strstr(err.text, "..."));
    store_close(store);
}

TEST_CASE(the_id_of_a_deleted_run_is_not_the_beginning_of_another)
{
    struct err err;
    struct run_info info;
    store_fixture_home("siblings", home, sizeof home);
    store_fixture_run(home, "twin", id);
    store_fixture_sql(home, "update runs set name = 'other', id = '20010909-014640-twin-2'");
    struct store *store = store_fixture_open(home);
    static const char *const found[] = {"20010909-014640-twin-2", "20010909", "20010909-014640-tw", "twin-2"},
                             *const gone[] = {"20010909-014640-twin", "twin"};
    for (int i = 0; i < 4; i++) assert_int_equal(run_find(store, found[i], &info, &err), STATUS_OK);
    for (int i = 0; i < 2; i++) assert_int_equal(run_find(store, gone[i], &info, &err), STATUS_NOT_FOUND);
    store_close(store);
}

/* Lets a number of commits pass, then none. */
static int pass(void *left)
{
    return (*(int *)left)-- <= 0;
}

/* Makes a folder whose path is too long for all that takes one. */
static void make_deep(const char *path)
{
    char name[201] = {0};
    int at = open(path, O_DIRECTORY | O_RDONLY);
    memset(name, 'd', 200);
    for (int depth = 0; depth < PATH_MAX / 200 + 1; depth++) {
        assert_int_equal(mkdirat(at, name, 0777), 0);
        int below = openat(at, name, O_DIRECTORY | O_RDONLY);
        close(at);
        at = below;
    }
    close(at);
}

TEST_CASE(a_run_whose_files_cannot_be_removed_stays)
{
    struct err err = {0};
    struct run_info info;
    struct repair repair;
    char folder[PATH_MAX], deep[PATH_MAX + 16], command[PATH_MAX + 32];
    int left = 1;
    struct writer *writer = begin("undeletable");
    step(writer, 0, 1, 1);
    (void)after(writer);
    struct store *store = store_fixture_open(home);
    run_folder(store, id, folder, sizeof folder);
    snprintf(deep, sizeof deep, "%s/checkpoints", folder);
    assert_int_equal(mkdir(deep, 0777), 0);
    make_deep(deep);
    assert_int_equal(run_delete(store, id, &err), STATUS_IO);
    assert_non_null(strstr(err.text, "/checkpoints.deleted: cannot remove: "));
    assert_int_equal(run_find(store, id, &info, &err), STATUS_OK);
    assert_string_equal(info.message, "deleting it was interrupted: delete it again");
    assert_true(store_fixture_number(home, "select count(*) from steps") == 1);
    assert_false(file_exists(deep)); /* no half checkpoint is left by its name */
    assert_true(run_is_half_deleted(store, &info));
    snprintf(command, sizeof command, "rm -r '%s.deleted'", deep);
    assert_int_equal(system(command), 0);
    sqlite3_commit_hook(store->db, pass, &left); /* as if killed after the files were removed */
    assert_int_not_equal(run_delete(store, id, &err), STATUS_OK);
    sqlite3_commit_hook(store->db, NULL, NULL);
    assert_int_equal(run_find(store, id, &info, &err), STATUS_OK);
    assert_int_equal(recovery_repair(store, id, &repair, &err), STATUS_OK);
    assert_false(repair.made || repair.stored);
    assert_int_equal(run_delete(store, id, &err), STATUS_OK);
    assert_false(file_exists(folder));
    store_close(store);
}

TEST_CASE(a_long_history_is_deleted_in_turns_which_may_be_interrupted)
{
    struct err err = {0};
    struct run_info info;
    int left = 2;
    (void)after(begin("long"));
    store_fixture_sql(home,
                      "with recursive n(i) as (select 0 union all select i + 1 from n where i < 49999)"
                      " insert into steps(run_id, segment, step, loss) select id, 1, i, 1 from n, runs");
    struct store *store = store_fixture_open(home);
    sqlite3_commit_hook(store->db, pass, &left);
    assert_int_not_equal(run_delete(store, id, &err), STATUS_OK);
    assert_true(store_fixture_number(home, "select count(*) from steps") == 30000);
    assert_int_equal(run_find(store, id, &info, &err), STATUS_OK);
    assert_string_equal(info.message, "deleting it was interrupted: delete it again");
    sqlite3_commit_hook(store->db, NULL, NULL);
    assert_int_equal(run_delete(store, id, &err), STATUS_OK);
    assert_true(store_fixture_number(home, "select count(*) from steps") == 0);
    assert_true(store_fixture_number(home, "select count(*) from runs") == 0);
    store_close(store);
}

TEST_CASE(a_measure_is_that_of_the_last_evaluation_up_to_a_step)
{
    static const struct {
        const char *name;
        int64_t step;
        double value; /* NaN: none */
    } cases[] = {
        {"val_loss", 9, NAN},  {"val_loss", 10, 3},   {"val_loss", 19, 3},        {"", 19, 3},
        {"val_loss", 20, 2},   {"", INT64_MAX, 2},    {"val_perplexity", 19, 20}, {"val_perplexity", 20, 7},
        {"accuracy", 10, NAN}, {"accuracy", 19, 0.5}, {"nothing", 20, NAN},
    };
    struct err err = {0};
    struct writer *writer = begin("measured");
    writer_eval(writer, &(struct eval_record){10, 0, 1.7e9, 3, 20, 1});
    writer_measure(writer, &(struct measure_record){11, "accuracy", 0.5});
    writer_eval(writer, &(struct eval_record){20, 0, 1.7e9, 2, 7, 1});
    after(writer);
    struct store *store = store_fixture_open(home);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double value = 0, expected = cases[i].value;
        assert_int_equal(run_measure(store, id, cases[i].name, cases[i].step, &value, &err), STATUS_OK);
        if (isnan(expected) ? !isnan(value) : value != expected) fail_msg("case %zu: %g", i, value);
    }
    store_close(store);
}

/* A file, or a folder that is not empty, has the name already; a folder may not be made at all. */
TEST_CASE(a_name_that_is_taken_on_the_disk_gets_a_number)
{
    char path[PATH_MAX + 100];
    struct err err = {0};
    const struct run_new run = {.name = "a", .device = "cpu", .precision = "fp32", .config = ""};
    store_fixture_home("taken", home, sizeof home);
    struct store *store = store_fixture_open(home);
    snprintf(path, sizeof path, "%s/runs/a-2/x", home);
    assert_int_equal(file_make_folders(path, &err), STATUS_OK);
    snprintf(path, sizeof path, "%s/runs/a", home);
    assert_int_equal(file_write_atomic(path, "mine", 4, &err), STATUS_OK);
    assert_int_equal(run_begin(store, &run, 1.7e9, "a", id, &err), STATUS_OK);
    assert_string_equal(id, "a-3");
    run_abandon(store, id);
    assert_int_equal(run_begin(store, &run, 1.7e9, "none/b", id, &err), STATUS_IO);
    snprintf(path, sizeof path, "%s/runs/none/b: cannot create the folder: No such file or directory", home);
    if (strcmp(err.text, path) != 0) fail_msg("%s", err.text);
    store_close(store);
}

/* Its checkpoints are on their way out, and there are no others. */
TEST_CASE(a_run_whose_checkpoints_are_going_is_half_deleted)
{
    char folder[PATH_MAX + 200];
    struct err err = {0};
    struct run_info run;
    store_fixture_home("going", home, sizeof home);
    store_fixture_run(home, "half", id);
    struct store *store = store_fixture_open(home);
    assert_int_equal(run_get(store, id, &run, &err), STATUS_OK);
    assert_false(run_is_half_deleted(store, &run));
    snprintf(folder, sizeof folder, "%s/runs/%s/%s", home, id, RUN_CHECKPOINTS_GOING);
    assert_int_equal(file_make_folders(folder, &err), STATUS_OK);
    assert_true(run_is_half_deleted(store, &run));
    snprintf(folder, sizeof folder, "%s/runs/%s/checkpoints", home, id);
    assert_int_equal(file_make_folders(folder, &err), STATUS_OK);
    assert_false(run_is_half_deleted(store, &run));
    store_close(store);
}

TEST_MAIN()
