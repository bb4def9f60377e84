/* Every kind of model that is read from Hugging Face's files computes what transformers computes, and is
 * written as it was read. Fixtures: tests/fixtures/kinds/make_kinds.py. */
#include <jansson.h>
#include <limits.h>
#include <math.h>

#include "core/checkpoint/checkpoint.h"
#include "core/generate/generate.h"
#include "core/model/hugging_face.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"

#define FIXTURES "tests/fixtures/kinds/"

static const struct {
    const char *name, *type;
    enum rope_scaling scaling;
    int windows[3]; /* of its layers */
} kinds[] = {
    {"llama_attention_bias", "llama", ROPE_DEFAULT, {0, 0, 0}},
    {"llama_mlp_bias", "llama", ROPE_DEFAULT, {0, 0, 0}},
    {"llama_biases", "llama", ROPE_DEFAULT, {0, 0, 0}},
    {"llama_llama3", "llama", ROPE_LLAMA3, {0, 0, 0}},
    {"llama_yarn", "llama", ROPE_YARN, {0, 0, 0}},
    {"llama_yarn_given", "llama", ROPE_YARN, {0, 0, 0}},
    {"llama_yarn_mscale", "llama", ROPE_YARN, {0, 0, 0}},
    {"mistral_window", "mistral", ROPE_DEFAULT, {7, 7, 7}},
    {"mistral_full", "mistral", ROPE_DEFAULT, {0, 0, 0}},
    {"qwen2_sliding", "qwen2", ROPE_DEFAULT, {0, 5, 5}},
    {"qwen2_full", "qwen2", ROPE_DEFAULT, {0, 0, 0}},
    {"qwen3_layer_types", "qwen3", ROPE_DEFAULT, {6, 0, 6}},
    {"qwen3_biases", "qwen3", ROPE_DEFAULT, {0, 0, 0}},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static const char *path_of(int kind, const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, FIXTURES "%s/%s", kinds[kind].name, name);
    return path;
}

struct checkout {
    struct model_config config;
    struct rig rig;
    json_t *oracle;
    int B, T;
};

static void open_checkout(struct checkout *c, int kind)
{
    struct err err = {0};
    if (hugging_face_read_config(path_of(kind, ""), &c->config, &err)) fail_msg("%s", err.text);
    c->oracle = json_load_file(path_of(kind, "oracle.json"), 0, NULL);
    const json_t *tokens = json_object_get(c->oracle, "tokens");
    c->B = (int)json_array_size(tokens);
    c->T = (int)json_array_size(json_array_get(tokens, 0));
    assert_true(c->B == 2 && c->T == 40);
    rig_open(&c->rig, NULL, &c->config, c->B, c->T, 0);
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, FIXTURES "%s", kinds[kind].name);
    if (checkpoint_load_weights(folder, &c->rig.network, &err)) fail_msg("%s", err.text);
}

static void close_checkout(struct checkout *c)
{
    rig_close(&c->rig);
    json_decref(c->oracle);
}

static void read_tokens(const json_t *list, int32_t *out, int count)
{
    assert_int_equal(json_array_size(list), count);
    for (int i = 0; i < count; i++) out[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
}

TEST_CASE(the_loss_is_that_of_transformers)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct checkout c;
        int32_t tokens[80], targets[80];
        float logits[64];
        open_checkout(&c, kind);
        for (int b = 0; b < c.B; b++)
            read_tokens(json_array_get(json_object_get(c.oracle, "tokens"), (size_t)b), tokens + 40 * b, 40);
        for (int i = 0; i < 80; i++) targets[i] = i % 40 == 39 ? -100 : tokens[i + 1];
        network_forward(&c.rig.network, (struct batch_view){.inputs = tokens, .B = c.B, .T = c.T});
        double want = json_number_value(json_object_get(c.oracle, "loss")),
               got =
                   network_loss(&c.rig.network, (struct batch_view){.labels = targets, .B = c.B, .T = c.T}) /
                   78;
        if (getenv("KINDS_TABLE"))
            printf("%-22s loss %.9f, %.1e away\n", kinds[kind].name, got, fabs(got / want - 1));
        if (!(fabs(got - want) <= 1e-6 * want))
            fail_msg("%s: the loss is %.9f, not %.9f", kinds[kind].name, got, want);
        for (int b = 0; b < c.B; b++) {
            const json_t *row = json_array_get(json_object_get(c.oracle, "logits"), (size_t)b);
            network_logits(&c.rig.network, 40 * b + 39, 1, logits);
            for (int v = 0; v < c.config.vocab_size; v++)
                if (!(fabs((double)logits[v] - json_number_value(json_array_get(row, (size_t)v))) < 1e-4))
                    fail_msg("%s: logit %d is %f", kinds[kind].name, v, (double)logits[v]);
        }
        close_checkout(&c);
    }
}

/* The likeliest token after `count` tokens: by a pass over all, or over those that the cache lacks. */
static int32_t likeliest(struct checkout *c, const int32_t *tokens, int count, bool cached)
{
    struct network *net = &c->rig.network;
    float logits[64];
    int32_t best = 0;
    int row = count - 1, before = network_cached(net, 0);
    if (cached)
        row = network_append(net, 0, tokens + before, count - before);
    else
        network_forward(net, (struct batch_view){.inputs = tokens, .B = 1, .T = count});
    network_logits(net, row, 1, logits);
    for (int v = 1; v < c->config.vocab_size; v++)
        if (logits[v] > logits[best]) best = v;
    return best;
}

TEST_CASE(greedy_text_is_that_of_transformers)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int cached = 0; cached < 2; cached++) {
            struct checkout c;
            int32_t tokens[40], want[28];
            open_checkout(&c, kind);
            read_tokens(json_object_get(c.oracle, "prompt"), tokens, 12);
            read_tokens(json_object_get(c.oracle, "greedy"), want, 28);
            if (cached)
                network_append(&c.rig.network, 0, tokens, 5); /* the rest of the prompt is appended later */
            for (int n = 12; n < 40; n++) {
                tokens[n] = likeliest(&c, tokens, n, cached);
                if (tokens[n] != want[n - 12])
                    fail_msg("%s: token %d is %d, not %d%s", kinds[kind].name, n, tokens[n], want[n - 12],
                             cached ? " (through the cache)" : "");
            }
            close_checkout(&c);
        }
}

/* Some tokenizers put a token before a prompt (BOS), some do not. */
static const char *const tokenizers[] = {"with_bos", "without_bos"};

/* From a text on, as `anneal generate` does it. */
TEST_CASE(a_prompt_with_and_without_bos_continues_as_transformers_generate_does)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int t = 0; t < 2; t++) {
            struct checkout c;
            struct generator g;
            struct tokenizer *tokenizer;
            struct err err = {0};
            const struct sampling greedy = {.top_p = 1, .repetition_penalty = 1};
            char path[PATH_MAX];
            int32_t ids[40], want[22];
            open_checkout(&c, kind);
            snprintf(path, sizeof path, FIXTURES "%s.json", tokenizers[t]);
            if (tokenizer_open_json(path, &tokenizer, &err)) fail_msg("%s", err.text);
            json_t *texts = json_load_file(path_of(kind, "texts.json"), 0, NULL);
            const json_t *of = json_object_get(texts, tokenizers[t]), *list = json_object_get(of, "ids");
            const char *prompt = json_string_value(json_object_get(texts, "prompt"));
            int count = (int)json_array_size(list);
            read_tokens(list, ids, count);
            read_tokens(json_object_get(of, "greedy"), want, 22);
            if (generator_open(&g, &c.rig.network, tokenizer, &err) || generator_start(&g, prompt, &err))
                fail_msg("%s", err.text);
            assert_int_equal(g.length, count);
            assert_memory_equal(g.context, ids, (size_t)count * sizeof *ids);
            assert_int_equal(ids[0] == 1, t == 0);
            for (int n = 0; n < 22; n++) {
                uint32_t token = generator_next(&g, &greedy, n);
                if (token != (uint32_t)want[n])
                    fail_msg("%s, %s: token %d is %u, not %d", kinds[kind].name, tokenizers[t], n, token,
                             want[n]);
            }
            if (generator_start(&g, "", &err)) fail_msg("%s", err.text);
            if (t == 0) assert_true(g.length == 1 && g.context[0] == 1); /* BOS alone, as in transformers */
            generator_close(&g);
            tokenizer_close(tokenizer);
            json_decref(texts);
            close_checkout(&c);
        }
}

TEST_CASE(a_checkout_says_which_kind_and_windows_it_has)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct model_config config;
        struct err err = {0};
        if (hugging_face_read_config(path_of(kind, ""), &config, &err)) fail_msg("%s", err.text);
        assert_string_equal(model_kind_word(model_kind_of(&config)), kinds[kind].type);
        assert_int_equal(config.rope_scaling, kinds[kind].scaling);
        for (int l = 0; l < 3; l++) assert_int_equal(model_window(&config, l), kinds[kind].windows[l]);
    }
}

/* transformers computes the same of both: make_kinds.py --check. */
TEST_CASE(a_checkout_is_written_as_it_was_read)
{
    char *path = rig_path("config.json");
    for (int kind = 0; kind < KINDS; kind++) {
        struct model_config config, back;
        struct err err = {0};
        if (hugging_face_read_config(path_of(kind, ""), &config, &err)) fail_msg("%s", err.text);
        if (hugging_face_write_config(&config, NULL, path, &err)) fail_msg("%s", err.text);
        if (hugging_face_read_config(getenv("ANNEAL_TEST_DIR"), &back, &err))
            fail_msg("%s: %s", kinds[kind].name, err.text);
        json_t *json = json_load_file(path, 0, NULL);
        assert_string_equal(json_string_value(json_object_get(json, "model_type")), kinds[kind].type);
        json_decref(json);
        for (int l = 0; l < 3; l++) assert_int_equal(model_window(&back, l), kinds[kind].windows[l]);
        for (int i = 0; i < config.head_dim / 2; i++)
            assert_true(model_rotary_frequency(&back, i) == model_rotary_frequency(&config, i));
        assert_true(model_rotary_scale(&back) == model_rotary_scale(&config));
        assert_true(back.qkv_bias == config.qkv_bias && back.o_bias == config.o_bias);
        assert_true(back.mlp_bias == config.mlp_bias && back.qk_norm == config.qk_norm);
        assert_true(back.kind == config.kind && back.tie_weights == config.tie_weights);
        assert_true(back.norm_eps == config.norm_eps && back.max_seq_len == config.max_seq_len);
    }
    free(path);
}

TEST_MAIN()
