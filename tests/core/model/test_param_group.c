/* Parameter groups: the table of ranges made from keys, for every arena layout, compared with a loop over
 * parameters. */
#include <math.h>

#include "core/model/config.h"
#include "core/train/optimizer.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"

static enum status try_set(struct param_groups *groups, const char *key, const char *value, struct err *err)
{
    char word[256];
    struct config config;
    config_init(&config);
    config.groups = *groups;
    snprintf(word, sizeof word, "param_group.%s=%s", key, value);
    enum status status = config_read_word(&config, word, err);
    *groups = config.groups;
    return status;
}

static void set(struct param_groups *groups, const char *key, const char *value)
{
    struct err err = {0};
    if (try_set(groups, key, value, &err)) fail_msg("%s", err.text);
}

static void add(struct param_groups *groups, const char *name, const char *match, const char *decay,
                const char *scale)
{
    char key[64];
    snprintf(key, sizeof key, "%s.match", name);
    set(groups, key, match);
    snprintf(key, sizeof key, "%s.weight_decay", name);
    set(groups, key, decay);
    snprintf(key, sizeof key, "%s.lr_scale", name);
    set(groups, key, scale);
}

static struct model open_model(int kind)
{
    struct model_config config = rig_config();
    struct model model;
    config.qk_norm = kind % 3 == 1;
    config.qkv_bias = kind % 3 == 2;
    config.o_bias = config.mlp_bias = kind == 5;
    config.tie_weights = kind > 2;
    assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
    return model;
}

static const struct update_defaults defaults = {0.1, 0.5};

/* Compares every element of every parameter in the table with its own group. */
TEST_CASE(the_ranges_say_of_every_element_what_its_group_says)
{
    for (int kind = 0; kind < 6; kind++) {
        struct model model = open_model(kind);
        struct param_groups groups = {.count = 0};
        add(&groups, "up", "*.1.mlp.up_proj.*", "inherit", "0");
        add(&groups, "values", "*.v_proj.*", "0.3", "0.5");
        add(&groups, "norms", "*norm*", "0", "2");
        add(&groups, "rest-of-0", "*.layers.0.*", "0.2", "3");
        struct update_range *ranges = calloc(model.param_count, sizeof *ranges);
        struct err err = {0};
        if (param_groups_freeze(&groups, OPTIMIZER_ADAMW, &model, &(struct storage){.computed = ELEMENT_FP32},
                                &err))
            fail_msg("%s", err.text);
        int count = param_groups_ranges(&groups, &model, defaults, ranges);
        assert_int_equal(ranges[count - 1].end, model.elements);
        for (int i = 1; i < count; i++) {
            assert_true(ranges[i].end > ranges[i - 1].end);
            assert_true(ranges[i].lr_scale != ranges[i - 1].lr_scale ||
                        ranges[i].weight_decay != ranges[i - 1].weight_decay);
        }
        for (size_t i = 0; i < model.param_count; i++) {
            const struct param *p = &model.params[i];
            assert_int_equal(p->frozen, strstr(p->name, "layers.1.mlp.up_proj") != NULL);
            if (p->frozen) continue;
            double decay = p->cols ? 0.1 : 0, scale = 1;
            if (strstr(p->name, "v_proj"))
                decay = 0.3, scale = 0.5;
            else if (strstr(p->name, "norm"))
                decay = 0, scale = 2;
            else if (strstr(p->name, "layers.0."))
                decay = 0.2, scale = 3;
            for (size_t e = p->offset, r = 0; e < p->offset + p->count; e++) {
                while (ranges[r].end <= e) r++;
                assert_true(ranges[r].lr_scale == (float)scale && ranges[r].weight_decay == (float)decay);
            }
        }
        free(ranges);
        model_release(&model);
    }
}

TEST_CASE(without_groups_there_are_two_ranges_matrices_and_vectors)
{
    struct model model = open_model(1);
    struct param_groups none = {.count = 0};
    struct update_range ranges[64];
    assert_true(model.param_count <= 64);
    assert_int_equal(param_groups_freeze(&none, OPTIMIZER_ADAMW, &model,
                                         &(struct storage){.computed = ELEMENT_FP32}, NULL),
                     STATUS_OK);
    assert_int_equal(param_groups_ranges(&none, &model, defaults, ranges), 2);
    assert_int_equal(ranges[0].end, model.layers[0].attn_norm->offset);
    assert_true(ranges[0].weight_decay == 0.1f && ranges[1].weight_decay == 0);
    assert_true(ranges[0].lr_scale == 1 && ranges[1].lr_scale == 1);
    model_release(&model);
}

/* The shares name every parameter once. */
TEST_CASE(the_shares_add_up_to_the_model)
{
    struct model model = open_model(2);
    struct param_groups groups = {.count = 0};
    struct param_share shares[PARAM_SHARES_MAX];
    int64_t parameters = 0, tensors = 0;
    add(&groups, "attention", "*self_attn*", "inherit", "0.5"); /* matrices and biases: two entries */
    add(&groups, "norms", "*norm*", "0.01", "1");
    int count = param_groups_share(&groups, &model, defaults, shares);
    assert_int_equal(count, 4);
    assert_string_equal(shares[0].name, "attention");
    assert_true(shares[0].weight_decay == 0.1 && shares[1].weight_decay == 0 && shares[1].lr_scale == 0.5);
    assert_string_equal(shares[2].match, "*norm*");
    assert_string_equal(shares[3].name, "other matrices");
    for (int i = 0; i < count; i++) parameters += shares[i].parameters, tensors += shares[i].tensors;
    assert_int_equal(parameters, model.parameters);
    assert_int_equal(tensors, model.param_count);
    model_release(&model);
}

static void expect_refused_with(enum optimizer_kind optimizer, const struct param_groups *groups,
                                const char *part)
{
    struct model model = open_model(0);
    struct err err = {0};
    assert_int_equal(
        param_groups_freeze(groups, optimizer, &model, &(struct storage){.computed = ELEMENT_FP32}, &err),
        STATUS_USAGE);
    if (!strstr(err.text, part)) fail_msg("\"%s\" does not say \"%s\"", err.text, part);
    model_release(&model);
}

static void expect_refused_by_model(const struct param_groups *groups, const char *part)
{
    expect_refused_with(OPTIMIZER_ADAMW, groups, part);
}

TEST_CASE(muon_is_refused_for_vectors_embedding_head_and_with_other_optimizers)
{
    struct param_groups norms = {.count = 0}, all = {.count = 0};
    set(&norms, "norms.match", "*norm*");
    set(&norms, "norms.optimizer", "muon");
    expect_refused_with(
        OPTIMIZER_MUON, &norms,
        "param_group.norms.optimizer = muon: matches model.layers.0.input_layernorm.weight, a "
        "vector;");
    expect_refused_with(OPTIMIZER_LION, &norms,
                        "only train.optimizer = muon has two rules (this run has lion)");
    struct param_groups last = {.count = 0};
    struct model model = open_model(0);
    set(&last, "last.match", model.params[model.param_count - 1].name);
    set(&last, "last.optimizer", "adamw");
    expect_refused_with(OPTIMIZER_LION, &last, "only train.optimizer = muon has two rules");
    model_release(&model);
    set(&all, "all.match", "*");
    set(&all, "all.optimizer", "muon");
    expect_refused_with(OPTIMIZER_MUON, &all, "matches model.embed_tokens.weight, embedding or head;");
}

TEST_CASE(a_group_without_parameters_is_refused_with_names_to_match)
{
    struct param_groups none = {.count = 0}, shadowed = {.count = 0}, strange = {.count = 0};
    set(&none, "norms.lr_scale", "0.5");
    expect_refused_by_model(&none, "param_group.norms.match = : matches no parameter");
    add(&shadowed, "all", "*", "0", "1");
    add(&shadowed, "norms", "*norm*", "0", "1");
    expect_refused_by_model(&shadowed, "param_group.norms.match = *norm*: matches no parameter of this model "
                                       "that is left by earlier groups");
    add(&strange, "x", "transformer.h.0.attn.c_attn", "0", "1");
    expect_refused_by_model(&strange, "names are like model.embed_tokens.weight, ");
}

TEST_CASE(freezing_everything_is_refused)
{
    struct param_groups all = {.count = 0}, parts = {.count = 0};
    add(&all, "all", "*", "inherit", "0");
    expect_refused_by_model(&all, "param_group.all.lr_scale = 0: nothing is left to train");
    add(&parts, "norms", "*norm*", "inherit", "0");
    add(&parts, "rest", "*", "inherit", "0");
    expect_refused_by_model(&parts, "nothing is left to train");
    parts.at[1].lr_scale = 1;
    struct model model = open_model(0);
    assert_int_equal(param_groups_freeze(&parts, OPTIMIZER_ADAMW, &model,
                                         &(struct storage){.computed = ELEMENT_FP32}, NULL),
                     STATUS_OK);
    model_release(&model);
}

static void expect_key_refused(const char *key, const char *value, const char *part)
{
    struct param_groups groups = {.count = 0};
    struct err err = {0};
    assert_int_equal(try_set(&groups, key, value, &err), STATUS_USAGE);
    if (!strstr(err.text, part)) fail_msg("\"%s\" does not say \"%s\"", err.text, part);
    assert_int_equal(groups.count, 0);
}

TEST_CASE(what_is_no_key_of_a_group_is_refused_in_a_sentence)
{
    struct param_groups groups = {.count = 0};
    struct err err = {0};
    expect_key_refused("norms.lr_scal", "1", "did you mean lr_scale?");
    expect_key_refused("norms", "1", "unknown key param_group.norms");
    expect_key_refused(".lr_scale", "1", "a group's name has");
    expect_key_refused("a b.lr_scale", "1", "a group's name has");
    expect_key_refused("abcdefghijklmnopqrstuvwxyz-_0123.lr_scale", "1",
                       "a group's name has 1 to 31 letters");
    expect_key_refused("a.b.lr_scale", "1", "a group's name has");
    expect_key_refused("norms.lr_scale", "-1", "must be a number from 0 to 1000");
    expect_key_refused("norms.weight_decay", "nan", "must be a number from 0 to 100, or inherit");
    set(&groups, "norms.lr_scale", "0.5");
    for (int i = groups.count; i < PARAM_GROUPS_MAX; i++) {
        char key[32];
        snprintf(key, sizeof key, "g%d.lr_scale", i);
        set(&groups, key, "1");
    }
    assert_int_equal(try_set(&groups, "one-more.lr_scale", "1", &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "more than 32 groups"));
}

/* A file, a word of the command line over it, what is stored, and that read back. */
TEST_CASE(groups_go_through_files_words_and_the_stored_configuration)
{
    static const char text[] = "[train]\nseed = 3\n[param_group.norms]\nmatch = *norm*\nweight_decay = 0\n"
                               "[param_group.qk]\nmatch = *[qk]_proj*\nlr_scale = 0.25\n";
    char *path = rig_path("groups.ini"), value[64];
    struct config config, again;
    struct err err = {0};
    rig_write(path, text, strlen(text));
    config_init(&config);
    if (config_read_file(&config, path, &err) ||
        config_read_word(&config, "--param_group.norms.lr_scale=0.5", &err) || config_finish(&config, &err))
        fail_msg("%s", err.text);
    assert_int_equal(config.groups.count, 2);
    assert_true(config_get(&config, "param_group.norms.lr_scale", value, sizeof value));
    assert_string_equal(value, "0.5");
    assert_true(config_get(&config, "param_group.qk.weight_decay", value, sizeof value));
    assert_string_equal(value, "inherit");
    assert_false(config_get(&config, "param_group.none.match", value, sizeof value));
    char *stored = config_text(&config);
    config_init(&again);
    if (config_read_effective(&again, stored, "run 7", &err) || config_finish(&again, &err))
        fail_msg("%s", err.text);
    assert_memory_equal(&again.groups, &config.groups, sizeof config.groups);
    char *second = config_text(&again);
    assert_string_equal(stored, second);
    assert_int_equal(config_read_word(&config, "--param_group.qk.rate=1", &err), STATUS_USAGE);
    free(stored), free(second), free(path);
}

TEST_MAIN()
