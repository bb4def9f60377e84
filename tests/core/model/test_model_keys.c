/* Keys of [model] together: head widths, the kinds of model, which layers have a window, and what a stored
 * configuration means that lacks them. */
#include "core/model/config.h"
#include "tests/cmocka.h"

static void set(struct config *config, const char *word)
{
    struct err err = {0};
    if (config_read_word(config, word, &err)) fail_msg("%s", err.text);
}

static void finish(struct config *config)
{
    struct err err = {0};
    if (config_finish(config, &err)) fail_msg("%s", err.text);
}

/* Sets the words, then expects config_finish to refuse the combination. */
static void expect_refused(const char *const words[], const char *part)
{
    struct config config;
    struct err err = {0};
    config_init(&config);
    for (int i = 0; words[i]; i++) set(&config, words[i]);
    if (!config_finish(&config, &err)) fail_msg("%s … is accepted", words[0]);
    assert_int_equal(err.status, STATUS_USAGE);
    if (!strstr(err.text, part)) fail_msg("\"%s\" does not say \"%s\"", err.text, part);
}
#define REFUSED(part, ...) expect_refused((const char *const[]){__VA_ARGS__, NULL}, part)

TEST_CASE(keys_that_no_kind_of_model_has_together_are_refused)
{
    REFUSED("no model_type has these together", "model.o_bias=true");
    REFUSED("o_bias = 0, mlp_bias = 1", "model.mlp_bias=true", "model.qkv_bias=true");
    REFUSED("qk_norm = 1", "model.mlp_bias=true", "model.qk_norm=true");
    REFUSED("sliding_window = 9", "model.sliding_window=9", "model.mlp_bias=true");
    REFUSED("full_attention_layers = \"0\"", "model.sliding_window=9", "model.full_attention_layers=0");
    REFUSED("model.kind = llama: the other keys describe a qwen2", "model.kind=llama", "model.qkv_bias=true");
    REFUSED("model.kind = mistral: the other keys describe a llama", "model.kind=mistral",
            "model.mlp_bias=true");
    REFUSED("with model.rope_scaling = yarn the betas", "model.rope_scaling=yarn", "model.rope_factor=2",
            "model.rope_beta_slow=64");
    static const char *const lists[] = {"6", "0-6", "1,1", "2-1", "1,",  ",1",
                                        "a", "1-",  "-1",  "1 2", "3,2", "00000"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char word[64];
        snprintf(word, sizeof word, "model.full_attention_layers=%s", lists[i]);
        REFUSED("numbers and ranges of layers in ascending order", word, "model.qk_norm=true");
    }
}

TEST_CASE(layers_outside_of_the_list_have_the_window)
{
    struct config config;
    config_init(&config);
    set(&config, "model.qk_norm=true");
    set(&config, "model.sliding_window=9");
    set(&config, "model.full_attention_layers=0,2-3,5");
    finish(&config);
    for (int l = 0; l < 6; l++)
        assert_int_equal(model_window(&config.model.sizes, l), l == 1 || l == 4 ? 9 : 0);
}

static double flops(int window, const char *full, int seq_len)
{
    struct model_config config = model_preset(PRESET_SHAKESPEARE); /* 6 layers, 4 heads of width 64 */
    struct model model;
    config.qk_norm = true;
    config.sliding_window = window;
    strcpy(config.full_attention_layers, full);
    assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
    double result = model_flops_per_token(&model, seq_len);
    model_release(&model);
    return result;
}

TEST_CASE(a_window_lowers_the_flops_of_the_layers_that_have_it)
{
    assert_true(flops(0, "", 256) - flops(64, "", 256) == 12.0 * 6 * 4 * 64 * (256 - 64));
    assert_true(flops(0, "", 256) - flops(64, "0-1,5", 256) == 12.0 * 3 * 4 * 64 * (256 - 64));
    assert_true(flops(0, "", 256) == flops(300, "", 256));
}

/* A look-up costs nothing, whether the table is trained or not. */
TEST_CASE(an_untied_embedding_costs_nothing_also_where_it_is_frozen)
{
    struct model_config config = model_preset(PRESET_SHAKESPEARE);
    struct model model;
    config.tie_weights = false;
    assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
    double trained = model_flops_per_token(&model, 64);
    struct param *embed = &model.params[model.embed - model.params];
    embed->frozen = true;
    model.frozen_parameters = (int64_t)embed->count;
    assert_true(model_flops_per_token(&model, 64) == trained);
    model_release(&model);
}

/* A stored configuration has every size of its time, so that the folder of model.from may be gone. */
TEST_CASE(a_size_that_a_stored_configuration_lacks_is_off)
{
    static const char *const newer[] = {"rope_attention_factor", "rope_beta_fast", "rope_beta_slow",
                                        "rope_truncate",         "o_bias",         "mlp_bias",
                                        "sliding_window",        "kind",           "full_attention_layers"};
    struct config config, again;
    struct err err = {0};
    config_init(&config);
    finish(&config);
    strcpy(config.model.from, "no/such/folder");
    char *text = config_text(&config);
    for (size_t i = 0; i < sizeof newer / sizeof *newer; i++) {
        char start[64];
        snprintf(start, sizeof start, "\n%s = ", newer[i]);
        char *line = strstr(text, start), *end = line ? strchr(line + 1, '\n') : NULL;
        assert_non_null(end);
        memmove(line, end, strlen(end) + 1);
    }
    config_init(&again);
    if (config_read_effective(&again, text, "stored", &err)) fail_msg("%s", err.text);
    finish(&again);
    assert_null(config_changed(&config, &again));
    assert_int_equal(again.model.sizes.sliding_window, 0);
    assert_false(again.model.sizes.o_bias || again.model.sizes.mlp_bias);
    free(text);
}

TEST_CASE(an_unusual_head_width_is_allowed_when_given)
{
    struct config config;
    config_init(&config);
    set(&config, "model.num_heads=3");
    set(&config, "model.head_dim=32");
    finish(&config);
    assert_int_equal(config.model.sizes.head_dim, 32);
    assert_int_equal(config.model.sizes.num_kv_heads, 3);
}

TEST_MAIN()
