/* Which charts a run has and the user has chosen: what its configuration says, the quantities in their order,
 * and what the settings remember of them. */
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tui/view/run_charts.h"

TEST_CASE(a_configuration_says_a_line_only_in_its_section)
{
    static const struct {
        const char *config;
        bool says;
    } cases[] = {{"[data]\nformat = labels\n", true},
                 {"[data]\nformat = labels", true},
                 {"[model]\ndim = 1\n\n[data]\ntrain = x\nformat = labels\n[eval]\n", true},
                 {"[data]\ntrain = x\n[other]\nformat = labels\n", false},
                 {"[other]\nformat = labels\n[data]\ntrain = x\n", false},
                 {"[data]\nformat = labels_too\n", false},
                 {"[data]\nxformat = labels\n", false},
                 {"[database]\nformat = labels\n", false},
                 {"format = labels\n", false},
                 {"", false},
                 {NULL, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (run_config_says(cases[i].config, "data", "format = labels") != cases[i].says)
            fail_msg("%s", cases[i].config);
}

TEST_CASE(the_charts_that_are_named_are_chosen_once_each)
{
    static const struct quantity all[] = {
        {.name = "loss"}, {.name = "lr"}, {.name = "loss_2"}, {.name = "mfu"}};
    static const struct {
        const char *names;
        size_t most, count, which[4];
    } cases[] = {
        {"lr,loss", 4, 2, {1, 0}},     {"loss_2,none,mfu", 4, 2, {2, 3}},    {"lr,lr,mfu,lr", 4, 2, {1, 3}},
        {"mfu,lr,loss", 2, 2, {3, 1}}, {"los,loss_,mf", 4, 4, {0, 1, 2, 3}}, /* no names: all */
        {"", 3, 3, {0, 1, 2}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t which[5] = {9, 9, 9, 9, 9};
        assert_int_equal(run_charts_choose(all, 4, cases[i].names, which, cases[i].most), cases[i].count);
        assert_memory_equal(which, cases[i].which, cases[i].count * sizeof *which);
        assert_int_equal(which[cases[i].count], 9);
    }
}

TEST_CASE(perplexity_is_a_chart_where_a_language_model_has_a_loss)
{
    char home[1024];
    store_fixture_everything("charts", home, sizeof home);
    struct store *store = store_fixture_open(home);
    static const struct {
        const char *config;
        bool perplexity;
    } cases[] = {{"", true}, {"[data]\nformat = labels\n", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena = {0};
        struct quantity *all;
        struct run_info run;
        struct err err = {0};
        size_t count;
        bool found = false;
        assert_int_equal(run_find(store, "golden", &run, &err), STATUS_OK);
        assert_int_equal(run_charts_list(store, run.id, cases[i].config, &arena, &all, &count, &err),
                         STATUS_OK);
        for (size_t k = 0; k < count; k++) found = found || strcmp(all[k].name, "perplexity") == 0;
        assert_int_equal(found, cases[i].perplexity);
        arena_release(&arena);
    }
    store_close(store);
}

TEST_CASE(the_settings_remember_a_scale_and_a_smoothing_that_there_is)
{
    static const struct quantity loss = {.name = "loss", .metric = METRIC_LOSS},
                                 lr = {.name = "lr", .metric = METRIC_LR};
    static const struct {
        const struct quantity *quantity;
        const char *words;
        bool log;
        double decay;
    } cases[] = {{&loss, "log 0.9", true, 0.9}, {&loss, "0.99", false, 0.99}, {&loss, "0.5", false, 0},
                 {&loss, "log", true, 0},       {&lr, "log 0.9", true, 0}, /* a schedule is not smoothed */
                 {&loss, "", false, 0}};
    char home[1024];
    struct settings settings;
    store_fixture_home("remembered", home, sizeof home);
    settings_open(&settings, home);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool log = !cases[i].log;
        settings_set(&settings, cases[i].quantity == &loss ? "chart.loss" : "chart.lr", cases[i].words);
        assert_float_equal(run_chart_recall(&settings, cases[i].quantity, &log), cases[i].decay, 0);
        assert_int_equal(log, cases[i].log);
    }
    assert_int_equal(settings_close(&settings, NULL), STATUS_OK);
}

TEST_MAIN()
