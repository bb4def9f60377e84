/* Stored configurations, read again: before a key existed, with a number of steps that follows, and from the
 * file that `anneal show` makes of them. */
#include "core/base/ini.h"
#include "core/model/config.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"

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

/* Reads the file that the configuration makes, as `show` prints it, and expects an equal configuration. */
static void expect_file_round_trip(const struct config *config)
{
    struct config again;
    struct err err = {0};
    char *stored = config_text(config), *copy = strdup(stored), *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    ini_print_exact(out, copy);
    fclose(out);
    config_init(&again);
    char *path = rig_path("shown.ini");
    rig_write(path, text, strlen(text));
    if (config_read_file(&again, path, &err)) fail_msg("%s in: %s", err.text, text);
    assert_int_equal(config_finish(&again, &err), STATUS_OK);
    free(path);
    free(copy);
    copy = config_text(&again);
    assert_string_equal(copy, stored);
    free(stored);
    free(text);
    free(copy);
}

TEST_CASE(texts_of_any_key_read_back_from_a_file)
{
    static const char pieces[] = "  ;;\"\"\\\\#x41[]=:'\t\r\x1b\xff\xC3\xA4";
    struct config config;
    struct err err = {0};
    for (uint64_t round = 0; round < 300; round++) {
        config_init(&config);
        word(&config, "param_group.norms.lr_scale=0.5");
        char *const texts[] = {config.sample.prompt, config.hooks.on_event, config.data.train,
                               config.groups.at[0].match};
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            size_t n = 1 + (size_t)(rig_uniform(round, i) * 11);
            for (size_t k = 0; k < n; k++)
                texts[i][k] = pieces[(size_t)(rig_uniform(round, 100 * i + k + 10) * (sizeof pieces - 1))];
            texts[i][n] = '\0';
        }
        assert_int_equal(config_finish(&config, &err), STATUS_OK);
        expect_file_round_trip(&config);
    }
}

TEST_MAIN()
