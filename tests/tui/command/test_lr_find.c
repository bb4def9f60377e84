/* anneal lr-find: its rates and losses, its suggestion, what it leaves behind, and bad input. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/tui/command/stage.h"

static double number(json_t *json, const char *name)
{
    return json_number_value(json_object_get(json, name));
}

/* The first loss is that of the first step of `anneal train`, whose weights and batches are the same. */
static void rates_rise_by_a_constant_factor_and_no_run_is_left(void **state)
{
    struct stage *s = *state;
    json_t *json = stage_json(process_output("lr-find", s->config, "--from=1e-5", "--to=4", "--steps=60",
                                             "--json", "--train.accumulation_plan=0:1,3:2", NULL));
    json_t *points = json_object_get(json, "points"), *point;
    size_t count = json_array_size(points), k;
    double lowest = INFINITY, rate = 0, average = 0;
    assert_true(count > 20 && count <= 60);
    json_array_foreach(points, k, point)
    {
        double expected = 4 * pow(1e-5 / 4, 1 - (double)k / 59);
        assert_true(fabs(number(point, "lr") - expected) <= 1e-6 * expected);
        average = 0.9 * average + 0.1 * number(point, "loss");
        double smooth = average / (1 - pow(0.9, (double)k + 1));
        assert_true(fabs(number(point, "smoothed_loss") - smooth) <= 1e-9 * smooth);
        if (k <= 5 || smooth < lowest) lowest = smooth, rate = number(point, "lr");
    }
    assert_true(number(json, "lowest_rate") == rate);
    assert_true(fabs(number(json, "suggestion") - rate / 10) <= 0.05 * rate / 10); /* two digits */
    assert_true(number(json, "steepest_rate") <= rate);
    stage_expect(s, "select count(*) from runs", "0");
    char *runs = stage_path(s, "home/runs");
    assert_false(file_exists(runs));
    process_output("train", s->config, "--name=first", "--progress=none", "--train.total_steps=1", NULL);
    char *loss = stage_query(s, "select loss from steps where step = 0");
    assert_true(fabs(strtod(loss, NULL) - number(json_array_get(points, 0), "loss")) <
                1e-12); /* its digits */
}

static void the_page_has_a_chart_and_the_curve_is_csv(void **state)
{
    struct stage *s = *state;
    char *path = stage_path(s, "curve.csv");
    char *page = process_output("lr-find", s->config, "--from=1e-5", "--to=4", "--steps=60", "-o", path,
                                "--train.ema_decay=0.9", "--eval.metric=val_loss_ema", NULL);
    assert_non_null(strstr(page, "\nsuggestion "));
    assert_non_null(strstr(page, " train.learning_rate = "));
    assert_non_null(strstr(page, ", a tenth of the rate of the lowest loss\n"));
    assert_non_null(strstr(page, "loss by learning rate"));
    assert_non_null(strstr(page, "1e-05"));
    char *csv = stage_read(path);
    assert_memory_equal(csv, "step,lr,loss,smoothed_loss\n0,", 29);
}

static void what_cannot_be_searched_is_said_in_one_sentence(void **state)
{
    struct stage *s = *state;
    process_expect_sentence(process_run(2, "lr-find", s->config, "--from=0.1", "--to=0.01", NULL),
                            "--from 0.1: must be below --to 0.01");
    process_expect_sentence(
        process_run(1, "lr-find", s->config, "--from=1e-9", "--to=1e-8", "--steps=20", NULL), "(raise --to)");
    process_expect_sentence(
        process_run(1, "lr-find", s->config, "--from=500", "--to=1000", "--steps=20", NULL),
        "the loss does not fall at any rate from 500 on (lower --from, or look at the data)");
    process_expect_sentence(process_run(1, "lr-find", s->config, "--data.train=/nowhere.txt", NULL),
                            "/nowhere.txt");
    process_expect_sentence(process_run(1, "lr-find", "nothing.ini", NULL), "there is no such file");
    process_expect_sentence(process_run(2, "lr-find", s->config, "--steps=3", NULL), "--steps");
    process_expect_sentence(process_run(2, "lr-find", s->config, "-o-", "--json", NULL), "name a file");
    stage_expect(s, "select count(*) from runs", "0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(rates_rise_by_a_constant_factor_and_no_run_is_left),
        STAGE_TEST(the_page_has_a_chart_and_the_curve_is_csv),
        STAGE_TEST(what_cannot_be_searched_is_said_in_one_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
