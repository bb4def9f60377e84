/* Each setting that has no effect gets its warning, and settings that have one get none. */
#include "core/model/config.h"
#include "tests/cmocka.h"

static const struct {
    const char *words; /* with spaces between */
    const char *warning;
} cases[] = {
    {"model.rope_factor=4", "model.rope_factor = 4 has no effect with model.rope_scaling = default (linear"},
    {"model.rope_scaling=llama3", "model.rope_factor = 1 has no effect with model.rope_scaling = llama3"},
    {"model.rope_scaling=llama3 model.rope_factor=4", NULL},
    {"model.full_attention_layers=0",
     "model.full_attention_layers has no effect: with model.sliding_window = 0"},
    {"model.full_attention_layers=0 model.sliding_window=8", NULL},
    {"model.vocab_size=300 data.padding=300",
     "data.padding = 300 has no effect: no token has this id, the vocabulary has 300"},
    {"model.vocab_size=300 data.padding=299", NULL},
    {"data.documents=packed data.format=instructions",
     "data.documents = packed has no effect with data.format = instructions"},
    {"data.documents=packed data.format=text", NULL},
    {"data.documents=stream data.format=instructions", NULL},
    {"data.end_token=0", "data.end_token = 0 has no effect without data.documents = packed"},
    {"data.end_token=0 data.documents=packed", NULL},
    {"train.total_steps=10 train.warmup_steps=11",
     "train.warmup_steps = 11 is not shorter than the run of 10 steps: the rate"},
    {"train.total_steps=10 train.warmup_steps=10",
     "train.warmup_steps = 10 is not shorter than the run of 10 steps: the rate only rises"},
    {"train.total_steps=11 train.warmup_steps=10", NULL},
    {"train.total_steps=10 train.warmup_steps=11 train.schedule=constant", NULL},
    {"train.total_steps=40 train.schedule=wsd train.warmup_steps=20 train.decay_steps=20", NULL},
    {"train.total_steps=40 train.schedule=wsd train.warmup_steps=20 train.decay_steps=21",
     "train.decay_steps = 21 are together longer than the run of 40 steps: the decay begins inside"},
    {"train.total_steps=40 train.schedule=cosine train.warmup_steps=20 train.decay_steps=21", NULL},
    {"train.total_steps=10 train.schedule=wsd train.warmup_steps=11 train.decay_steps=5",
     "train.warmup_steps = 11 is not shorter than the run of 10 steps"},
    {"train.total_steps=10 train.warmup_steps=2 train.schedule=wsd train.decay_steps=1",
     "train.decay_steps = 1 has no effect: the first step of the decay still has the peak"},
    {"train.total_steps=10 train.warmup_steps=2 train.schedule=wsd train.decay_steps=2", NULL},
    {"train.total_steps=10 train.warmup_steps=2 train.decay_steps=1", NULL},
    {"train.accumulation_plan=0:2 train.accumulation_steps=3",
     "train.accumulation_steps = 3 has no effect beside train.accumulation_plan"},
    {"train.accumulation_plan=0:2", NULL},
    {"train.accumulation_steps=3", NULL},
    {"train.recipe=quick model.from=somewhere", "train.recipe = quick has no effect with model.from"},
    {"train.recipe=quick", NULL},
    {"model.preset=small model.from=somewhere", "model.preset = small has no effect with model.from"},
    {"model.zero_outputs=true model.from=somewhere", "model.zero_outputs has no effect with model.from"},
    {"model.zero_outputs=true", NULL},
    {"model.from=somewhere", NULL},
    {"data.train=a.txt data.val=a.txt", "data.val names the data of data.train"},
    {"data.train=a.txt data.val=b.txt", NULL},
};

TEST_CASE(each_setting_without_effect_is_told_of_and_no_other)
{
    char warnings[CONFIG_WARNINGS_MAX][CONFIG_WARNING_SIZE], words[200];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config config;
        struct err err = {0};
        config_init(&config);
        if (config_finish(&config, &err)) fail_msg("%s", err.text);
        strcpy(words, cases[i].words);
        for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
            if (config_read_word(&config, word, &err)) fail_msg("%s", err.text);
        int count = config_warnings(&config, warnings);
        if (count != (cases[i].warning != NULL))
            fail_msg("%s: %d warnings, %s", cases[i].words, count, warnings[0]);
        if (count && !strstr(warnings[0], cases[i].warning)) fail_msg("%s", warnings[0]);
    }
}

TEST_CASE(several_are_told_of_in_one_go)
{
    char warnings[CONFIG_WARNINGS_MAX][CONFIG_WARNING_SIZE];
    struct config config;
    config_init(&config);
    assert_int_equal(config_finish(&config, NULL), STATUS_OK);
    assert_int_equal(config_warnings(&config, warnings), 0);
    assert_int_equal(config_read_word(&config, "data.end_token=5", NULL), STATUS_OK);
    assert_int_equal(config_read_word(&config, "model.rope_factor=2", NULL), STATUS_OK);
    assert_int_equal(config_warnings(&config, warnings), 2);
    assert_non_null(strstr(warnings[0], "model.rope_factor"));
    assert_non_null(strstr(warnings[1], "data.end_token"));
}

TEST_MAIN()
