/* The commands over recorded runs, as a user runs them: the real binary, its output and its exit status. */
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "answer.h"
#include "core/base/file.h"
#include "runs/memory_usage.h"
#include "store_fixture.h"
#include "tests/cmocka.h"

TEST_CASE(show_reports_the_whole_story)
{
    char home[PATH_MAX], finished[RUN_ID_MAX], crashed[RUN_ID_MAX];
    store_fixture_home("c-show", home, sizeof home);
    answer_furnish(home, finished, crashed);
    static const char *const words[] = {
        "status             early_stopped: 3 evaluations without improvement\n",
        "steps              300 of 2000, ",
        "lowest             validation loss 3.2010 after 300 steps\n",
        "device             cpu, fp32, 10.8M parameters\n",
        " --eval.early_stopping_patience=6\n",
        "the heaven\n",
        "checkpoints/step-300",
        "  41.0 MiB  removed\n",
        "update skipped: the loss is nan",
        "learning_rate = 3e-4"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) answer_expect(home, "show psalms", 0, words[i]);
    answer_expect(home, "show job", 0, "ended unexpectedly");
    answer_expect(home, "show job", 0, "(its checkpoints are gone: start it anew)");
    store_fixture_sql(home,
                      "delete from checkpoints where run_id = (select id from runs where name = 'job')");
    answer_expect(home, "show job", 0, "(from the beginning: it has no checkpoint yet)");
    /* a run that has just begun, however slow this is */
    store_fixture_sql(home, "update runs set created_at = created_at + 3600 where name = 'ruth'");
    answer_expect(home, "show latest", 0, "created");
    answer_expect(home, "show psalm", 1, "did you mean \"psalms\"");
    answer_expect(home, "show 2", 2, "3 runs match");
    answer_expect(home, "show", 2, "needs RUN");
    answer_expect(home, "show a b", 2, "takes RUN, \"b\" is one argument too many");
    answer_expect(home, "show --help", 0, "early stopping");

    json_t *run = answer_json(home, "show psalms --json");
    assert_string_equal(json_string_value(json_object_get(run, "id")), finished);
    assert_int_equal(json_integer_value(json_object_get(
                         json_object_get(json_object_get(run, "config"), "train"), "batch_size")),
                     16);
    json_t *evals = json_object_get(run, "evals"), *stopping = json_object_get(run, "early_stopping");
    assert_int_equal(json_array_size(evals), 3);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(evals, 0), "step")), 100);
    assert_int_equal(json_array_size(stopping), 3);
    assert_string_equal(json_string_value(json_object_get(json_array_get(stopping, 2), "verdict")), "stop");
    assert_true(
        json_is_false(json_object_get(json_array_get(json_object_get(run, "checkpoints"), 0), "exists")));
    assert_int_equal(json_array_size(json_object_get(run, "events")), 1);
    static const char *const lists[] = {"traces", "samples", "orders"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        assert_true(json_is_array(json_object_get(run, lists[i])));
    assert_true(json_is_null(json_object_get(run, "device_sample"))); /* nobody looked at it */
    char folder[2 * PATH_MAX];
    snprintf(folder, sizeof folder, "%s/runs/%s", home, finished);
    assert_string_equal(json_string_value(json_object_get(run, "folder")), folder);
    json_decref(run);
    answer_expect(home, "show psalms", 0, folder);
}

/* Fails when `text` holds a byte sequence that a terminal would obey: any control character but newline. */
static void expect_harmless(const char *what, const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if ((*c < ' ' && *c != '\n') || *c == 0x7F || (*c == 0xC2 && c[1] >= 0x80 && c[1] < 0xA0))
            fail_msg("anneal %s prints the control byte 0x%02x at \"%.40s\"", what, *c, (const char *)c + 1);
}

TEST_CASE(early_stopping_is_reported_evaluation_by_evaluation)
{
    char home[PATH_MAX], finished[RUN_ID_MAX], crashed[RUN_ID_MAX];
    store_fixture_home("c-story", home, sizeof home);
    answer_furnish(home, finished, crashed);
    struct answer a = answer_of(home, "show psalms");
    const char *story = strstr(a.out, "\nEarly stopping\n"), *first, *last;
    assert_non_null(story);
    first = strstr(story,
                   "       1   100    3.4000         3.3000        100      0.001  no                    0 "
                   "        3  waiting  -\n");
    last = strstr(story,
                  "       1   300    3.4000         3.3000        100      0.001  no                    2 "
                  "        3  stop     -\n");
    assert_true(first && last && first < last);
    answer_free(&a);
}

TEST_CASE(of_long_lists_the_last_rows_are_shown)
{
    char home[PATH_MAX], finished[RUN_ID_MAX], crashed[RUN_ID_MAX], path[2 * PATH_MAX];
    static const char *const traces[] = {"step-9.json", "step-10.2.json", "step-10.json", "step-x.json",
                                         "step-10.json.tmp-7"};
    struct err err = {0};
    store_fixture_home("c-lists", home, sizeof home);
    answer_furnish(home, finished, crashed);
    snprintf(path, sizeof path, "%s/runs/%s/traces", home, finished);
    assert_int_equal(file_make_folders(path, &err), STATUS_OK);
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) {
        snprintf(path, sizeof path, "%s/runs/%s/traces/%s", home, finished, traces[i]);
        assert_int_equal(file_write_atomic(path, "{}", 2, &err), STATUS_OK);
    }
    answer_expect(home, "show psalms", 0,
                  "\nTraces\n  step  path\n     9  traces/step-9.json\n    10  traces/step-10.2.json\n"
                  "    10  traces/step-10.json\n\n");
    json_t *run = answer_json(home, "show psalms --json"), *list = json_object_get(run, "traces");
    assert_int_equal(json_array_size(list), 3);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 2), "step")), 10);
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 1), "path")),
                        "traces/step-10.2.json");
    json_decref(run);
    store_fixture_sql(home,
                      "with recursive n(i) as (select 1 union all select i + 1 from n where i < 12) "
                      "insert into events(run_id, segment, step, wall_time, level, text) select id, 1, i, "
                      "1, 'info', 'number ' || i from runs, n where name = 'psalms'");
    answer_expect(home, "show psalms", 0, "\nEvents (the last 10 of 13)\n");
    struct answer a = answer_of(home, "show psalms");
    assert_null(strstr(a.out, "number 2\n"));
    assert_non_null(strstr(a.out, "number 3\n"));
    assert_non_null(strstr(a.out, "number 12\n"));
    answer_free(&a);
}

/* Unknown processes are null, none are an empty list, and neither is a line of the page. */
TEST_CASE(show_lists_the_processes_that_hold_memory_of_the_device)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    struct gpu_process processes[] = {{17, "python3", 3 << 20}, {18, "", -1}};
    static const int64_t counts[] = {-1, 0, 2};
    store_fixture_home("c-processes", home, sizeof home);
    store_fixture_run(home, "held", id);
    for (int i = 0; i < 3; i++) {
        struct gpu_record record = {.wall_time = 1.7e9 + i,
                                    .gpu = 1,
                                    .memory_used_bytes = 5 << 20,
                                    .processes = processes,
                                    .process_count = counts[i]};
        struct store *store = store_fixture_open(home);
        if (gpu_samples_add(store, id, &record, &err)) fail_msg("%s", err.text);
        store_close(store);
        json_t *json = answer_json(home, "show held --json"),
               *list = json_object_get(json_object_get(json, "device_sample"), "processes");
        struct answer page = answer_of(home, "show held");
        assert_int_equal(strstr(page.out, "Processes that hold its memory\n") != NULL, counts[i] == 2);
        assert_int_equal(json_is_null(list), counts[i] < 0);
        assert_int_equal(json_array_size(list), counts[i] < 0 ? 0 : counts[i]);
        if (counts[i] == 2) {
            json_t *first = json_array_get(list, 0), *last = json_array_get(list, 1);
            assert_int_equal(json_integer_value(json_object_get(first, "pid")), 17);
            assert_string_equal(json_string_value(json_object_get(first, "name")), "python3");
            assert_int_equal(json_integer_value(json_object_get(first, "bytes")), 3 << 20);
            assert_true(json_is_null(json_object_get(last, "name")));
            assert_non_null(strstr(page.out, "python3"));
            assert_non_null(strstr(page.out, "3.0 MiB"));
        }
        answer_free(&page);
        json_decref(json);
    }
}

/* An import may not know how many steps there were to be. */
TEST_CASE(a_run_of_no_planned_length_shows_the_steps_it_has)
{
    char home[PATH_MAX], finished[RUN_ID_MAX], crashed[RUN_ID_MAX];
    store_fixture_home("c-endless", home, sizeof home);
    answer_furnish(home, finished, crashed);
    store_fixture_sql(home, "update runs set total_steps = 0 where name = 'psalms'");
    store_fixture_sql(home, "update runs set total_steps = null, steps = null where name = 'ruth'");
    struct answer a = answer_of(home, "runs");
    assert_non_null(strstr(a.out, "early_stopped       300 "));
    assert_non_null(strstr(a.out, "created               0 "));
    answer_free(&a);
}

TEST_CASE(a_loss_that_was_never_recorded_is_no_nan)
{
    char home[PATH_MAX], finished[RUN_ID_MAX], crashed[RUN_ID_MAX];
    struct err err = {0};
    struct run_info run;
    store_fixture_home("c-absent", home, sizeof home);
    answer_furnish(home, finished, crashed);
    store_fixture_sql(home, "update runs set final_loss = null, nan = 1 where name = 'psalms'");
    answer_expect(home, "show psalms", 0, "loss               nan\n");
    answer_expect(home, "runs --filter name=psalms", 0, " nan ");
    store_fixture_sql(home, "update runs set final_loss = null, nan = 0 where name = 'psalms'");
    struct store *store = store_fixture_open(home);
    assert_int_equal(run_find(store, "psalms", &run, &err), STATUS_OK);
    assert_false(run.loss_recorded);
    assert_true(isnan(run.final_loss));
    store_close(store);
    answer_expect(home, "runs --filter name=psalms", 0, " - ");
}

TEST_CASE(recorded_texts_cannot_steer_the_terminal)
{
    /* ESC ] sets a title, U+009B is CSI, 0x9B alone is no UTF-8, CR goes back, DEL */
    static const char bad[] = "'x' || char(27) || ']0;pwned' || char(7) || char(155) || '2J' || char(13)"
                              " || char(127) || char(10) || 'y' || cast(x'9b' as text)";
    static const char *const columns[] = {
        "runs set message",  "runs set device",   "runs set precision",   "runs set config",
        "events set text",   "events set level",  "samples set prompt",   "samples set text",
        "orders set issuer", "orders set result", "checkpoints set path", "checkpoints set kind"};
    static const char *const commands[] = {"show psalms", "show psalms --json", "runs", "runs --json"};
    char home[PATH_MAX], finished[RUN_ID_MAX], crashed[RUN_ID_MAX], sql[400];
    store_fixture_home("c-hostile", home, sizeof home);
    answer_furnish(home, finished, crashed);
    snprintf(sql, sizeof sql,
             "insert into orders(run_id, issued_at, verb, issuer) values('%s', 1, 'stop', '')", finished);
    store_fixture_sql(home, sql);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        snprintf(sql, sizeof sql, "update %s = %s", columns[i], bad);
        store_fixture_sql(home, sql);
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        struct answer a = answer_of(home, commands[i]);
        assert_int_equal(a.code, 0);
        expect_harmless(commands[i], a.out);
        expect_harmless(commands[i], a.err);
        answer_free(&a);
    }
    answer_expect(home, "show psalms", 0,
                  "early_stopped: x\uFFFD]0;pwned\uFFFD\uFFFD2J\uFFFD\uFFFD y\uFFFD\n");
    snprintf(sql, sizeof sql,
             "update runs set id = 'ruin' || char(27) || '[2J', name = 'ruin' where name = 'ruth'");
    store_fixture_sql(home, sql);
    struct answer a = answer_of(home, "show ruim");
    assert_int_equal(a.code, 1);
    expect_harmless("show ruim", a.err);
    answer_free(&a);
    a = answer_of(home, "runs");
    assert_non_null(strstr(a.out, "ruin\uFFFD[2J"));
    expect_harmless("runs", a.out);
    answer_free(&a);
    json_t *runs = answer_json(home, "runs --json"); /* JSON keeps what it can represent */
    assert_string_equal(json_string_value(json_object_get(json_array_get(runs, 0), "id")), "ruin\x1B[2J");
    json_decref(runs);
}

TEST_CASE(an_export_without_records_says_so)
{
    char home[PATH_MAX], finished[RUN_ID_MAX], crashed[RUN_ID_MAX], arguments[PATH_MAX + 100];
    store_fixture_home("c-nothing", home, sizeof home);
    answer_furnish(home, finished, crashed);
    snprintf(arguments, sizeof arguments, "export ruth --format tensorboard -o '%s/scalars'", home);
    struct answer a = answer_of(home, arguments);
    assert_int_equal(a.code, 0);
    assert_non_null(strstr(a.err, "-ruth: nothing was recorded\n"));
    answer_free(&a);
}

TEST_CASE(an_export_takes_what_fits_its_format)
{
    char home[PATH_MAX], finished[RUN_ID_MAX], crashed[RUN_ID_MAX], arguments[PATH_MAX + 100];
    store_fixture_home("c-fits", home, sizeof home);
    answer_furnish(home, finished, crashed);
    struct answer a = answer_of(home, "export psalms --format long --table steps");
    assert_int_equal(a.code, 0);
    assert_non_null(strstr(a.out, ",loss,"));
    assert_null(strstr(a.out, ",val_loss,"));
    answer_free(&a);
    answer_expect(home, "export psalms --format long --table memory", 2, "hold the metrics of --table steps");
    answer_expect(home, "export psalms --log", 2, "--log and --smooth need --format svg");
    answer_expect(home, "export psalms --smooth 0.5", 2, "--log and --smooth need --format svg");
    snprintf(arguments, sizeof arguments, "export psalms -o '%s'", home); /* a folder, also without a slash */
    a = answer_of(home, arguments);
    assert_int_equal(a.code, 0);
    assert_non_null(strstr(a.err, "/steps.csv\n"));
    answer_free(&a);
}

TEST_CASE(json_numbers_are_as_short_as_in_the_csv)
{
    char home[PATH_MAX], finished[RUN_ID_MAX], crashed[RUN_ID_MAX];
    store_fixture_home("c-short", home, sizeof home);
    answer_furnish(home, finished, crashed);
    store_fixture_sql(home,
                      "update runs set final_loss = 0.0003, best_val_loss = 0.1 + 0.2, tokens_per_sec = 5,"
                      " created_at = 1e300 where name = 'psalms'");
    static const char *const words[] = {"\"final_loss\": 0.0003,", "\"best_val_loss\": 0.30000000000000004,",
                                        "\"tokens_per_sec\": 5.0,", "\"created_at\": 1e+300,"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        answer_expect(home, "runs --json", 0, words[i]);
        answer_expect(home, "show psalms --json", 0, words[i]);
    }
    answer_expect(home, "show psalms --json", 0, "\"learning_rate\": 0.0003");
    json_t *run = answer_json(home, "show psalms --json");
    assert_true(json_real_value(json_object_get(run, "best_val_loss")) == 0.1 + 0.2);
    assert_true(json_is_real(json_object_get(run, "tokens_per_sec")));
    json_decref(run);
    answer_expect(home, "runs --json --filter name=nobody", 0, "[]\n");
}

TEST_CASE(export_writes_files_folders_and_standard_output)
{
    static const char *const tables[] = {"steps", "evals",   "early_stopping", "profile", "memory",
                                         "gpu",   "samples", "orders",         "runs"};
    char home[PATH_MAX], finished[RUN_ID_MAX], crashed[RUN_ID_MAX], path[PATH_MAX + 64];
    store_fixture_home("c-export", home, sizeof home);
    answer_furnish(home, finished, crashed);
    answer_expect(home, "export psalms", 0, "run,segment,step,epoch,");
    answer_expect(home, "export psalms", 0, "-psalms,1,7,");
    answer_expect(home, "export psalms job --table evals", 0, "-job,1,300,0,1700000000,");
    answer_expect(home, "export --table runs", 0, "-ruth,ruth,created,");
    answer_expect(home, "export latest --table runs --format csv", 0, "-ruth,ruth,created,");
    char arguments[PATH_MAX + 64];
    snprintf(arguments, sizeof arguments, "export psalms --table all -o '%.3000s/folder/deep'", home);
    answer_expect(home, arguments, 0, "");
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        snprintf(path, sizeof path, "%s/folder/deep/%s.csv", home, tables[i]);
        char *text = store_fixture_slurp(path, NULL);
        assert_memory_equal(text, "run,", 4);
        free(text);
    }
    snprintf(arguments, sizeof arguments, "export psalms -o '%.3000s/one.csv'", home);
    answer_expect(home, arguments, 0, "");
    snprintf(path, sizeof path, "%s/one.csv", home);
    size_t n;
    char *file = store_fixture_slurp(path, &n);
    struct answer a = answer_of(home, "export psalms");
    assert_string_equal(file, a.out);
    answer_free(&a);
    free(file);
    answer_expect(home, "export", 2, "needs a RUN");
    answer_expect(home, "export psalms --table losses", 2, "--table losses: must be steps|evals|measures|");
    answer_expect(home, "export psalms --format parquet", 2, "must be csv|long|tensorboard|events|json");
    answer_expect(home, "export psalms --table all", 2, "-o FOLDER");
    answer_expect(home, "export nobody", 1, "there is no such run");
    answer_expect(home, "export psalms -o /proc/nowhere/x.csv", 1, "/proc/nowhere/x.csv");
    answer_expect(home, "export --help", 0, "anneal export latest > steps.csv");
}

TEST_CASE(order_needs_a_living_trainer_and_a_known_verb)
{
    char home[PATH_MAX], finished[RUN_ID_MAX], crashed[RUN_ID_MAX];
    struct err err = {0};
    store_fixture_home("c-order", home, sizeof home);
    answer_furnish(home, finished, crashed);
    answer_expect(home, "order psalms stop", 1,
                  "is not training (status: early_stopped), so no trainer can carry out the order\n");
    answer_expect(home, "order job pause", 1, "is not training (status: crashed)");
    answer_expect(home, "order job pause", 1, " starts it again)");
    answer_expect(home, "order job dance", 2, "anneal order --help lists them)");
    answer_expect(home, "order job lr-factor", 2, "one number from 0 to 1000");
    answer_expect(home, "order job lr-factor -- -1", 2, "one number from 0 to 1000");
    answer_expect(home, "order job lr-factor nan", 2, "one number from 0 to 1000");
    answer_expect(home, "order job lr-factor inf", 2, "one number from 0 to 1000");
    answer_expect(home, "order job stop now", 2, "only lr-factor takes a value");
    answer_expect(home, "order job", 2, "needs RUN VERB [VALUE]");
    answer_expect(home, "order --help", 0, "anneal order latest checkpoint --wait");

    struct store *store = store_fixture_open(home);
    struct run_lock lock;
    assert_int_equal(run_lock_acquire(store, crashed, &lock, &err), STATUS_OK);
    store_close(store);
    struct writer *writer = store_fixture_writer(home, crashed);
    struct order order = {0};
    answer_expect(home, "order job lr-factor 0", 0, ""); /* as the trainer has it: 0 freezes the weights */
    while (!writer_next_order(writer, &order)) usleep(1000);
    assert_true(order.verb == ORDER_LR_FACTOR && order.argument == 0);
    writer_order_done(writer, order.id, 300, "frozen");
    answer_expect(home, "order job lr-factor 0.25", 0, "");
    while (!writer_next_order(writer, &order)) usleep(1000);
    assert_true(order.verb == ORDER_LR_FACTOR && order.argument == 0.25);
    writer_order_done(writer, order.id, 300, "the learning rate is multiplied with 0.25");
    assert_int_equal(writer_close(writer, RUN_STOPPED, NULL, &err), STATUS_OK);
    run_lock_release(&lock);
    struct answer a = answer_of(home, "show job");
    const char *row = strstr(a.out, "  lr-factor      0.25  cli");
    assert_non_null(row);
    assert_non_null(strstr(row, " 300  the learning rate is multiplied with 0.25\n"));
    answer_free(&a);
}

/* Whether somebody opens the file so often, as one does who waits until it is no longer locked. */
static bool is_looked_at(const char *path, int times)
{
    struct inotify_event event;
    struct pollfd watch = {inotify_init1(IN_CLOEXEC), POLLIN, 0};
    if (inotify_add_watch(watch.fd, path, IN_OPEN) < 0) return false;
    while (times && poll(&watch, 1, 10000) == 1 && read(watch.fd, &event, sizeof event) == sizeof event)
        times--;
    close(watch.fd);
    return times == 0;
}

/* A trainer that answers one order: "stop" and checkpoints are carried out, factors are not: 0 after step 0,
 * others before it has a step. */
static int obey_one_order(void *argument)
{
    char *home = argument, path[PATH_MAX];
    struct err err = {0};
    struct store *store = NULL;
    struct run_info run;
    struct run_lock lock;
    struct writer *writer = NULL;
    struct order order;
    if (store_open(home, STORE_WRITE, &store, &err) || run_find(store, "job", &run, &err) ||
        run_lock_acquire(store, run.id, &lock, &err))
        return 1;
    struct writer_options options = {.home = home, .run_id = run.id};
    if (writer_open(&options, &writer, &err)) return 2;
    while (!writer_next_order(writer, &order)) usleep(1000);
    if (order.verb == ORDER_LR_FACTOR)
        writer_order_done(writer, order.id, order.argument == 0 ? 0 : -1, "no room for it");
    else
        writer_order_done(writer, order.id, 42, order.verb == ORDER_STOP ? "done" : "checkpoint written");
    if (order.verb == ORDER_STOP && (writer_flush(writer, 60, &err) ||
                                     run_path(store, run.id, "lock", path, &err) || !is_looked_at(path, 10)))
        return 4;
    return writer_close(writer, RUN_STOPPED, NULL, &err) ? 3 : 0;
}

static void expect_answer(const char *name, const char *command, int code, const char *outcome)
{
    char home[PATH_MAX], finished[RUN_ID_MAX], crashed[RUN_ID_MAX];
    store_fixture_home(name, home, sizeof home);
    answer_furnish(home, finished, crashed);
    pid_t pid = store_fixture_fork(obey_one_order, home);
    while (store_fixture_number(home, "select max(segment) from runs") < 2) usleep(1000);
    answer_expect(home, command, code, outcome);
    assert_int_equal(store_fixture_wait(pid), 0);
}

static void expect_obeyed(const char *name, const char *command, const char *outcome)
{
    expect_answer(name, command, 0, outcome);
}

TEST_CASE(order_waits_for_the_outcome)
{
    expect_obeyed("c-wait", "order job checkpoint --wait", "step 42: checkpoint written");
}

TEST_CASE(an_order_that_was_not_carried_out_fails_with_the_reason)
{
    expect_answer("c-none", "order job lr-factor 2 --wait", 1, "-job: no room for it\n");
    expect_answer("c-zero", "order job lr-factor 0 --wait", 0, "step 0: no room for it\n");
}

/* Who has stopped a run wants to resume it, which its trainer prevents until it has ended. */
TEST_CASE(order_stop_waits_until_the_run_is_free)
{
    expect_obeyed("c-free", "order job stop --wait", "step 42: done");
}

TEST_CASE(a_list_without_runs_names_the_folder_and_does_not_create_it)
{
    char home[PATH_MAX], words[2 * PATH_MAX], nowhere[PATH_MAX + 16], sentence[2 * PATH_MAX];
    store_fixture_home("c-nowhere", home, sizeof home);
    snprintf(nowhere, sizeof nowhere, "%s/nowhere", home);
    snprintf(words, sizeof words, "runs; ANNEAL_HOME='%s' \"$ANNEAL_BINARY\" runs", nowhere);
    struct answer a = answer_of(home, words);
    snprintf(sentence, sizeof sentence, "there are no runs yet in %s (start one with", nowhere);
    assert_int_equal(a.code, 0);
    assert_string_equal(a.out, "");
    if (!strstr(a.err, sentence)) fail_msg("%s", a.err);
    assert_false(file_exists(nowhere));
    answer_free(&a);
    answer_expect(home, "runs --json", 0, "[]");
}

TEST_CASE(an_export_is_not_named_as_another_format)
{
    char home[PATH_MAX], finished[RUN_ID_MAX], crashed[RUN_ID_MAX];
    store_fixture_home("c-names", home, sizeof home);
    answer_furnish(home, finished, crashed);
    answer_expect(home, "export latest -o steps.xlsx", 2, "are CSV files: -o FILE.csv");
    answer_expect(home, "export latest --format long -o both.json", 2, "are CSV files: -o FILE.csv");
    answer_expect(home, "export latest --format json -o run.csv", 2, "writes JSON: -o FILE.json");
}

TEST_CASE(delete_takes_ended_runs_with_all_that_is_theirs)
{
    char home[PATH_MAX], finished[RUN_ID_MAX], crashed[RUN_ID_MAX], folder[2 * PATH_MAX], words[300];
    struct err err = {0};
    struct run_lock lock;
    store_fixture_home("c-delete", home, sizeof home);
    answer_furnish(home, finished, crashed);
    double before = store_fixture_number(home, "select count(*) from runs");
    snprintf(folder, sizeof folder, "%s/runs/%s", home, finished);
    snprintf(words, sizeof words, "delete %s %s", finished, crashed);
    answer_expect(home, words, 2, "needs --yes");
    snprintf(words, sizeof words, "delete %s nonesuch --yes", finished);
    answer_expect(home, words, 1, "there is no such run");
    struct store *store = store_fixture_open(home);
    assert_int_equal(run_lock_acquire(store, crashed, &lock, &err), STATUS_OK);
    snprintf(words, sizeof words, "delete %s %s --yes", finished, crashed);
    answer_expect(home, words, 1, "is training; nothing was deleted");
    run_lock_release(&lock);
    assert_int_equal(run_lock_acquire(store, finished, &lock, &err), STATUS_OK);
    answer_expect(home, words, 1, "by another process; nothing was deleted");
    assert_true(store_fixture_number(home, "select count(*) from runs") == before);
    assert_true(file_is_folder(folder));
    run_lock_release(&lock);
    store_close(store);
    answer_expect(home, words, 0, "");
    assert_true(store_fixture_number(home, "select count(*) from runs") == before - 2);
    assert_true(store_fixture_number(home, "select count(*) from steps") == 0);
    assert_false(file_exists(folder));
}

TEST_MAIN()
