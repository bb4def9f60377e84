/* anneal estimate: the plan it prints is what training really allocates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>

#include "runs/ledger.h"
#include "tests/command/process.h"
#include "tests/command/stage.h"

static json_t *estimate(const char *config, const char *word)
{
    json_error_t problem;
    char *text = process_output("estimate", config, word, "--json", NULL);
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &problem);
    if (!json) fail_msg("%s: %s", problem.text, text);
    free(text);
    return json;
}

/* run,segment,step,category,planned_bytes,live_bytes,peak_bytes */
static void the_estimate_is_what_training_allocates(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, "estimate");
    process_close(process_run(0, "train", s.config, "--train.total_steps=2", NULL));
    char *csv = process_output("export", "latest", "--table", "memory", NULL);
    json_t *json = estimate(s.config, "--train.total_steps=2");
    json_t *categories = json_object_get(json, "categories");
    json_int_t sum = 0;
    int rows = 0;
    for (char *line = strchr(csv, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
        char category[32];
        long long planned, live, peak;
        assert_int_equal(
            sscanf(line, "%*[^,],%*[^,],%*[^,],%31[^,],%lld,%lld,%lld", category, &planned, &live, &peak), 4);
        assert_int_equal(json_integer_value(json_object_get(categories, category)), live);
        assert_int_equal(planned, live);
        assert_int_equal(peak, live);
        sum += live;
        rows++;
    }
    /* told at the beginning and with the last checkpoint */
    assert_int_equal(rows, 2 * json_object_size(categories));
    assert_int_equal(2 * json_integer_value(json_object_get(json, "total_bytes")), sum);
    json_decref(json);
    free(csv);
}

static void a_batch_that_is_said_to_fit_is_the_largest(void **state)
{
    (void)state;
    struct stage s;
    char word[64];
    stage_open(&s, "fit");
    json_t *json = estimate(s.config, "--fit=8MiB");
    json_t *fit = json_object_get(json, "fit");
    assert_int_equal(json_integer_value(json_object_get(fit, "memory_bytes")), 8 << 20);
    int batch = (int)json_integer_value(json_object_get(fit, "batch_size"));
    json_decref(json);
    for (int more = 0; more < 2; more++) {
        snprintf(word, sizeof word, "--train.batch_size=%d", batch + more);
        json = estimate(s.config, word);
        assert_int_equal(json_integer_value(json_object_get(json, "total_bytes")) > 8 << 20, more);
        json_decref(json);
    }
    struct process *p = process_run(2, "estimate", "--fit", "12parsecs", NULL);
    process_expect_sentence(p, "--fit: \"12parsecs\" is no amount of memory");
    process_close(p);
    p = process_run(0, "estimate", s.config, "--fit=8MiB", NULL);
    assert_non_null(strstr(process_stdout(p), "Into 8.0 MiB fit a batch of"));
    process_close(p);
}

/* "-1" is a bad amount and no option, "abc" one and no file, and the name of a run no configuration. */
static void what_is_no_amount_and_what_is_no_configuration_is_said_so(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, "words");
    process_expect_sentence(process_run(2, "estimate", "--fit", "-1", NULL),
                            "--fit: \"-1\" is no amount of memory");
    process_expect_sentence(process_run(2, "estimate", "--fit", "abc", NULL),
                            "--fit: \"abc\" is no amount of memory");
    process_expect_sentence(process_run(1, "estimate", "some-run", NULL),
                            "some-run: there is no such file (estimate takes a configuration, not a run");
    process_close(process_run(0, "estimate", "--fit", s.config, NULL)); /* of what the device has */
}

static void an_interval_of_more_layers_than_there_are_is_left_out(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, "intervals");
    for (int layers = 1; layers <= 4; layers += 3) {
        char word[32];
        snprintf(word, sizeof word, "--model.num_layers=%d", layers);
        json_t *json = estimate(s.config, word);
        json_t *trades = json_object_get(json, "activation_checkpointing");
        size_t count = json_array_size(trades);
        assert_int_equal(count, layers == 1 ? 2 : 4);
        json_t *last = json_array_get(trades, count - 1);
        assert_int_equal(json_integer_value(json_object_get(last, "interval")), layers);
        json_decref(json);
    }
}

/* What `anneal devices` calls reserved is what the allocator really takes, which may be more than the plan.
 */
static void the_estimate_knows_what_the_allocator_takes_beside_the_plan(void **state)
{
    (void)state;
    static const char *const kinds[] = {"basic", "pool", "arena", "caching"};
    struct stage s;
    char word[64];
    stage_open(&s, "allocators");
    for (int i = 0; i < 4; i++) {
        snprintf(word, sizeof word, "--memory.allocator=%s", kinds[i]);
        json_t *json = estimate(s.config, word);
        json_int_t total = stage_int(json, "total_bytes"), reserved = stage_int(json, "reserved_bytes");
        if (i < 3)
            assert_int_equal(reserved, total);
        else
            assert_true(reserved > total);
        json_decref(json);
    }
}

static int fitting(const char *config, const char *word)
{
    json_t *json = estimate(config, word);
    int batch = (int)json_integer_value(json_object_get(json_object_get(json, "fit"), "batch_size"));
    json_decref(json);
    return batch;
}

static void what_others_have_reserved_is_not_there_to_fit_into(void **state)
{
    (void)state;
    struct stage s;
    struct ledger *ledger;
    int64_t id;
    static const struct ledger_room unknown = {"cpu", "cpu", 0, 0, 0, 0, false, 0};
    stage_open(&s, "reserved");
    assert_true(fitting(s.config, "--fit") > 0);
    assert_int_equal(ledger_open(getenv("ANNEAL_HOME"), &ledger, NULL), STATUS_OK);
    assert_int_equal(ledger_reserve(ledger, &unknown, "greedy", (int64_t)1 << 50, &id, NULL), STATUS_OK);
    assert_int_equal(fitting(s.config, "--fit"), 0);
    assert_true(fitting(s.config, "--fit=8MiB") > 0); /* what is given is not asked of anybody */
    ledger_close(ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_estimate_is_what_training_allocates, process_close_all),
        cmocka_unit_test_teardown(a_batch_that_is_said_to_fit_is_the_largest, process_close_all),
        cmocka_unit_test_teardown(what_is_no_amount_and_what_is_no_configuration_is_said_so,
                                  process_close_all),
        cmocka_unit_test_teardown(an_interval_of_more_layers_than_there_are_is_left_out, process_close_all),
        cmocka_unit_test_teardown(the_estimate_knows_what_the_allocator_takes_beside_the_plan,
                                  process_close_all),
        cmocka_unit_test_teardown(what_others_have_reserved_is_not_there_to_fit_into, process_close_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
