/* anneal lr-find: its rates and losses, its suggestion, what it leaves behind, and bad input. */
#include <math.h>
#include <signal.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/tui/command/stage.h"

static double number(json_t *json, const char *name)
{
    return json_number_value(json_object_get(json, name));
}

/* The first loss is that of the first step of `anneal train`, whose weights and batches are the same. */
STAGE_CASE(rates_rise_by_a_constant_factor_and_no_run_is_left, struct stage *s)
{
    json_t *json = stage_json(process_output("lr-find", s->config, "--from=1e-5", "--to=4", "--steps=60",
                                             "--json", "--train.accumulation_plan=0:1,3:2", NULL));
    json_t *points = json_object_get(json, "points"), *point;
    size_t count = json_array_size(points), k;
    double lowest = INFINITY, rate = 0, average = 0;
    assert_true(count > 20 && count <= 60);
    json_array_foreach(points, k, point) {
        double expected = 4 * pow(1e-5 / 4, 1 - (double)k / 59);
        assert_true(fabs(number(point, "lr") - expected) <= 1e-6 * expected);
        average = 0.9 * average + 0.1 * number(point, "loss");
        double smooth = average / (1 - pow(0.9, (double)k + 1));
        assert_true(fabs(number(point, "smoothed_loss") - smooth) <= 1e-9 * smooth);
        if (k <= 5 || smooth < lowest) lowest = smooth, rate = number(point, "lr");
    }
    assert_true(number(json, "lowest_rate") == rate);
    double steepest = number(json, "steepest_rate"), wanted = fmin(steepest, rate / 10);
    assert_true(steepest <= rate &&
                fabs(number(json, "suggestion") - wanted) <= 0.05 * wanted); /* two digits */
    stage_expect(s, "select count(*) from runs", "0");
    char *runs = stage_path(s, "home/runs");
    assert_false(file_exists(runs));
    process_output("train", s->config, "--name=first", "--progress=none", "--train.total_steps=1", NULL);
    char *loss = stage_query(s, "select loss from steps where step = 0");
    assert_true(fabs(strtod(loss, NULL) - number(json_array_get(points, 0), "loss")) <
                1e-12); /* its digits */
}

STAGE_CASE(the_page_has_a_chart_and_the_curve_is_csv, struct stage *s)
{
    char *path = stage_path(s, "curve.csv");
    char *page = process_output("lr-find", s->config, "--from=1e-5", "--to=4", "--steps=60", "-o", path,
                                "--train.ema_decay=0.9", "--eval.metric=val_loss_ema", NULL);
    assert_non_null(strstr(page, "\nsuggestion "));
    assert_non_null(strstr(page, " train.learning_rate = "));
    assert_non_null(strstr(page, ", the lower of that and a tenth of the rate of the lowest loss\n"));
    assert_non_null(strstr(page, "loss by learning rate"));
    assert_non_null(strstr(page, " 1e-5    ")); /* an axis of rates */
    char *csv = stage_read(path);
    assert_memory_equal(csv, "step,lr,loss,smoothed_loss\n0,", 29);
}

static const char *text(json_t *json, const char *name)
{
    return json_string_value(json_object_get(json, name));
}

/* It has all steps of the curve, and nothing that costs time or disk beside them. */
STAGE_CASE(a_search_with_a_name_is_kept_as_a_run, struct stage *s)
{
    json_t *json =
        stage_json(process_output("lr-find", s->config, "--from=1e-5", "--to=4", "--steps=60", "--name=rates",
                                  "--json", "--train.schedule=wsd", "--train.decay_steps=40", NULL));
    json_t *points = json_object_get(json, "points"), *run = json_array_get(stage_runs(), 0), *point;
    size_t k;
    assert_string_equal(text(run, "run"), text(json, "run"));
    assert_string_equal(text(run, "name"), "rates");
    assert_string_equal(text(run, "status"), "finished");
    assert_string_equal(text(run, "tags"), "lr-find");
    struct history history = history_of("rates");
    assert_true(history.count >= (int64_t)json_array_size(points));
    json_array_foreach(points, k, point) {
        double loss, rate;
        assert_int_equal(sscanf(history.steps[k].values, "%lf,%lf", &loss, &rate), 2);
        assert_true(loss == number(point, "loss") && rate == number(point, "lr"));
    }
    stage_expect(s,
                 "select (select count(*) from evals), (select count(*) from samples), "
                 "(select count(*) from checkpoints)",
                 "0|0|0");
    stage_expect(s, "select value from params where name = 'train.schedule'", "rising");
    assert_non_null(
        strstr(process_output("lr-find", s->config, "--from=1e-5", "--to=4", "--name=rates", NULL),
               "The steps are kept as run "));
    assert_int_equal(stage_count_runs(), 2); /* a name may be used again, as with train */
    assert_non_null(strstr(process_output("compare", text(json, "run"), "rates", NULL), "final loss"));
    process_output("show", "rates", NULL);
    static const char *const commands[] = {"resume", "fork"};
    for (int i = 0; i < 2; i++)
        process_expect_sentence(process_run(2, commands[i], "rates", NULL),
                                "was a search for a learning rate, which keeps no weights");
    process_expect_sentence(process_run(2, "lr-find", s->config, "--name=latest", NULL), "another name");
    assert_int_equal(stage_count_leftovers(s), 0);
}

STAGE_CASE(a_kept_search_says_how_it_ended, struct stage *s)
{
    process_run(0, "lr-find", s->config, "--from=1e-5", "--to=1000", "--name=risen", NULL);
    stage_expect(s, "select status, message, steps < total_steps from runs",
                 "finished|the losses rise again|1");
    struct process *p =
        process_start("lr-find", s->config, "--name=cut", "--steps=10000", "-o-", "--progress=none", NULL);
    process_wait_lines(p, 20); /* the curve comes as it is found */
    process_signal(p, SIGINT);
    process_expect(130, p);
    stage_expect(s, "select status, message from runs where name = 'cut'", "stopped|stopped by a signal");
    process_expect_sentence(process_run(2, "resume", "cut", NULL), "keeps no weights");
    process_run(0, "lr-find", s->config, "--from=1e-5", "--to=1000", "--data.val_fraction=0", NULL);
    p = process_start("lr-find", s->config, "--name=ordered", "--steps=10000", "-o-", "--progress=none",
                      NULL);
    process_wait_lines(p, 20);
    process_run(0, "order", "ordered", "stop", NULL);
    process_expect_sentence(process_expect(1, p), "was stopped before the losses rose again");
    assert_int_equal(stage_count_runs(), 3);
}

/* Killed before its first checkpoint: a resume begins again, as with every other schedule. */
STAGE_CASE(a_training_with_a_rising_rate_can_be_resumed, struct stage *s)
{
    struct process *p = process_start("train", s->config, "--name=rises", "--train.schedule=rising",
                                      "--train.min_lr_factor=0.1", "--train.total_steps=100000",
                                      "--checkpoint.every=0", "--progress=json", NULL);
    process_wait_lines(p, 5);
    process_signal(p, SIGKILL);
    process_expect(128 + SIGKILL, p);
    p = process_start("resume", "rises", "--progress=json", NULL);
    process_wait_lines(p, 5);
    process_signal(p, SIGINT);
    process_expect(130, p);
}

STAGE_CASE(what_cannot_be_searched_is_said_in_one_sentence, struct stage *s)
{
    process_expect_sentence(process_run(2, "lr-find", s->config, "--from=0.1", "--to=0.01", NULL),
                            "--from 0.1: must be below --to 0.01");
    process_expect_sentence(process_run(2, "lr-find", s->config, "--from=0.1", "--to=0.1", NULL),
                            "must be below --to 0.1");
    process_expect_sentence(
        process_run(1, "lr-find", s->config, "--from=1e-9", "--to=1e-8", "--steps=20", NULL), "(raise --to)");
    process_expect_sentence(
        process_run(1, "lr-find", s->config, "--from=500", "--to=1000", "--steps=20", NULL),
        "the loss does not fall at any rate from 500 on (lower --from, or look at the data)");
    process_expect_sentence(process_run(1, "lr-find", s->config, "--data.train=/nowhere.txt", NULL),
                            "/nowhere.txt");
    process_expect_sentence(process_run(1, "lr-find", "nothing.ini", NULL), "there is no such file");
    process_expect_sentence(process_run(2, "lr-find", s->config, "--steps=3", NULL), "--steps");
    process_expect_sentence(process_run(1, "lr-find", s->config, "-o", "/nowhere/curve.csv", NULL),
                            "/nowhere");
    process_expect_sentence(
        process_run(2, "train", s->config, "--train.schedule=rising", "--train.min_lr_factor=0", NULL),
        "train.schedule = rising: no rate rises from 0");
    process_expect_sentence(process_run(2, "lr-find", s->config, "-o-", "--json", NULL), "name a file");
    process_expect_sentence(process_run(1, "lr-find", s->config, "-o", "/dev/full", NULL),
                            "/dev/full: cannot write: No space left on device");
    stage_expect(s, "select count(*) from runs", "0");
}

TEST_MAIN()
