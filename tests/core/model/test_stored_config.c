/* Stored configurations, read again: before a key existed, and with a number of steps that follows. */
#include "core/model/config.h"
#include "tests/cmocka.h"

TEST_CASE(a_run_stored_without_early_evaluations_and_samples_has_none_when_resumed)
{
    struct config config;
    struct err err = {0};
    config_init(&config);
    assert_true(config.eval.early && config.sample.early);
    assert_int_equal(config_read_effective(&config, "[eval]\nevery = 100\n", "stored", &err), STATUS_OK);
    assert_false(config.eval.early || config.sample.early);
    assert_int_equal(config_read_effective(&config, "[eval]\nearly = true\n", "stored", &err), STATUS_OK);
    assert_true(config.eval.early && !config.sample.early);
}

static void word(struct config *config, const char *text)
{
    struct err err = {0};
    if (config_read_word(config, text, &err)) fail_msg("%s", err.text);
}

TEST_CASE(of_steps_and_epochs_the_one_given_last_counts)
{
    struct config config, stored;
    struct err err;
    config_init(&config);
    word(&config, "train.epochs=2.5");
    assert_int_equal(config_finish(&config, &err), STATUS_OK);
    assert_int_equal(config_settle_steps(&config, 100, &err), STATUS_OK);
    assert_int_equal(config.train.total_steps, 16); /* 250 sequences in batches of 16 */
    char *text = config_text(&config);
    config_init(&stored);
    assert_int_equal(config_read_effective(&stored, text, "stored", &err), STATUS_OK);
    free(text);
    word(&stored, "train.batch_size=25"); /* the stored run has epochs: its steps follow */
    assert_int_equal(config_settle_steps(&stored, 100, &err), STATUS_OK);
    assert_int_equal(stored.train.total_steps, 10);
    word(&stored, "train.accumulation_plan=0: 1, 4: 3"); /* four batches of 25, and two of 75 */
    assert_int_equal(config_settle_steps(&stored, 100, &err), STATUS_OK);
    assert_int_equal(stored.train.total_steps, 6);
    word(&stored, "train.total_steps=40");
    assert_int_equal(config_settle_steps(&stored, 100, &err), STATUS_OK);
    assert_int_equal(stored.train.total_steps, 40);
    assert_true(stored.train.epochs == 0);
    word(&config, "profile.trace_step=16");
    assert_int_equal(config_settle_steps(&config, 100, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "profile.trace_step = 16: no such step, as train.total_steps = 16"));
}

TEST_MAIN()
