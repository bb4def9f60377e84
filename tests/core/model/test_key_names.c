/* Suggestions for unknown keys of the configuration. */
#include <stdbool.h>

#include "core/model/config.h"
#include "core/model/key_names.h"
#include "tests/cmocka.h"

TEST_CASE(a_name_that_other_programs_use_suggests_the_key)
{
    static const char *const names[][2] = {
        {"train.lr", "train.learning_rate"},
        {"lr", "train.learning_rate"},
        {"optimizer.lr", "train.learning_rate"},
        {"train.batch", "train.batch_size"},
        {"train.bs", "train.batch_size"},
        {"train.steps", "train.total_steps"},
        {"train.max_steps", "train.total_steps"},
        {"train.max_iters", "train.total_steps"},
        {"eval.steps", "eval.every"},
        {"model.n_layer", "model.num_layers"},
        {"model.n_head", "model.num_heads"},
        {"gpt.n_embd", "model.hidden_dim"},
        {"model.block_size", "train.seq_len"},
        {"train.context_length", "train.seq_len"},
        {"train.wd", "train.weight_decay"},
        {"train.grad_clip", "train.max_grad_norm"},
        {"train.warmup", "train.warmup_steps"},
        {"param_group.norms.lr", "lr_scale"},
        {"param_group.norms.wd", "weight_decay"},
        {"checkpoint.save_total_limit", "checkpoint.keep"},
        {NULL, NULL},
    };
    for (size_t i = 0; names[i][1]; i++) {
        const char *key = key_name_suggest(names[i][0]);
        if (!key || strcmp(key, names[i][1]) != 0)
            fail_msg("%s suggests %s, not %s", names[i][0], key ? key : "nothing", names[i][1]);
    }
}

TEST_CASE(a_misspelt_key_suggests_the_nearest_and_a_strange_one_nothing)
{
    assert_string_equal(key_name_suggest("train.lerning_rate"), "train.learning_rate");
    assert_string_equal(key_name_suggest("optimization.weight_decay"), "train.weight_decay");
    assert_string_equal(key_name_suggest("param_group.norms.mtach"), "match");
    assert_null(key_name_suggest("xyzzy.plugh"));
    assert_null(key_name_suggest(""));
}

/* A suggestion must be good: every alias leads to a key that there is, and none is a key itself. */
TEST_CASE(every_alias_leads_to_a_key)
{
    static const struct {
        const char *key, *words;
    } aliases[] = {
#define ALIASES(key, words) {key, words},
#include "core/model/config.def"
    };
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
        char words[256], value[CONFIG_TEXT_MAX], full[128];
        struct config config;
        config_init(&config);
        snprintf(words, sizeof words, "%s", aliases[i].words);
        bool group = strncmp(aliases[i].key, "param_group.", 12) == 0;
        if (!group) assert_true(config_get(&config, aliases[i].key, value, sizeof value));
        for (char *rest = words, *word; (word = strsep(&rest, " "));) {
            assert_true(*word);
            snprintf(full, sizeof full, "%.*s%s",
                     strchr(word, '.') || group ? 0 : (int)strcspn(aliases[i].key, ".") + 1, aliases[i].key,
                     word);
            if (!group && config_get(&config, full, value, sizeof value)) fail_msg("%s is a key", full);
        }
    }
}

TEST_MAIN()
