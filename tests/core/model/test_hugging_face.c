/* config.json in both directions: our files read back equal; files of other programs are read or refused with
 * one sentence. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/model/hugging_face.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"

static enum status read_text(const char *text, struct model_config *out, struct err *err)
{
    char *path = rig_path("config.json");
    rig_write(path, text, strlen(text));
    *err = (struct err){0};
    enum status status = hugging_face_read_config(getenv("ANNEAL_TEST_DIR"), out, err);
    if (status) assert_non_null(strstr(err->text, "config.json"));
    free(path);
    return status;
}

/* `extra` behind the keys that a small Llama needs. */
static enum status read_llama(const char *extra, struct model_config *out, struct err *err)
{
    char text[1024];
    snprintf(
        text, sizeof text,
        "{\"model_type\": \"llama\", \"vocab_size\": 100, \"hidden_size\": 32, \"intermediate_size\": 48,"
        " \"num_hidden_layers\": 2, \"num_attention_heads\": 4%s%s}",
        *extra ? ", " : "", extra);
    return read_text(text, out, err);
}

static void expect_refused(const char *extra, const char *part)
{
    struct model_config config;
    struct err err;
    if (!read_llama(extra, &config, &err)) fail_msg("%s is accepted", extra);
    if (!strstr(err.text, part)) fail_msg("\"%s\" does not say \"%s\"", err.text, part);
}

TEST_CASE(what_is_written_reads_back_equal)
{
    char *path = rig_path("config.json");
    for (int bits = 0; bits < 6; bits++) {
        struct model_config config = rig_config(), back = {0};
        struct err err = {0};
        config.qk_norm = bits % 3 == 1;
        config.qkv_bias = bits % 3 == 2;
        config.tie_weights = bits > 2;
        config.norm_eps = 1e-5 / 3;
        config.rope_base = 500000.0 / 7;
        config.rope_scaling = (enum rope_scaling)(bits % 3);
        config.rope_factor = bits % 3 ? 7.0 / 3 : 1;
        config.rope_low_freq_factor = bits % 3 == 2 ? 0.7 : 1;
        config.rope_high_freq_factor = bits % 3 == 2 ? 3.3 : 4;
        config.rope_original_len = bits % 3 == 2 ? 77 : config.max_seq_len;
        config.rope_beta_fast = 32, config.rope_beta_slow = 1, config.rope_truncate = true;
        if (hugging_face_write_config(&config, NULL, path, &err)) fail_msg("%s", err.text);
        if (hugging_face_read_config(getenv("ANNEAL_TEST_DIR"), &back, &err)) fail_msg("%s", err.text);
        assert_int_equal(back.vocab_size, config.vocab_size);
        assert_int_equal(back.hidden_dim, config.hidden_dim);
        assert_int_equal(back.num_layers, config.num_layers);
        assert_int_equal(back.num_heads, config.num_heads);
        assert_int_equal(back.num_kv_heads, config.num_kv_heads);
        assert_int_equal(back.head_dim, config.head_dim);
        assert_int_equal(back.intermediate_dim, config.intermediate_dim);
        assert_int_equal(back.max_seq_len, config.max_seq_len);
        assert_true(back.norm_eps == config.norm_eps && back.rope_base == config.rope_base);
        assert_int_equal(back.rope_scaling, config.rope_scaling);
        assert_true(back.rope_factor == config.rope_factor);
        assert_true(back.rope_low_freq_factor == config.rope_low_freq_factor);
        assert_true(back.rope_high_freq_factor == config.rope_high_freq_factor);
        assert_int_equal(back.rope_original_len, config.rope_original_len);
        assert_int_equal(back.qk_norm, config.qk_norm);
        assert_int_equal(back.qkv_bias, config.qkv_bias);
        assert_int_equal(back.tie_weights, config.tie_weights);
    }
    free(path);
}

TEST_CASE(numbers_are_written_with_no_more_digits_than_they_need)
{
    char *path = rig_path("config.json");
    struct model_config config = rig_config();
    struct file_map map;
    struct err err = {0};
    config.norm_eps = 1e-5;
    config.rope_base = 500000;
    if (hugging_face_write_config(&config, NULL, path, &err)) fail_msg("%s", err.text);
    assert_int_equal(file_map_open(path, &map, NULL), STATUS_OK);
    assert_non_null(memmem(map.data, map.size, "\"rms_norm_eps\": 1e-5,", 21));
    assert_non_null(memmem(map.data, map.size, "\"rope_theta\": 500000.0,", 23));
    file_map_close(&map);
    free(path);
}

/* Of two names for the same computation, model.kind chooses one. */
TEST_CASE(a_model_without_window_is_written_as_the_kind_that_it_is)
{
    char *path = rig_path("config.json");
    static const enum model_kind kinds[] = {MODEL_AUTO, MODEL_LLAMA, MODEL_MISTRAL};
    static const char *const types[] = {"llama", "llama", "mistral"};
    static const char *const classes[] = {"LlamaForCausalLM", "LlamaForCausalLM", "MistralForCausalLM"};
    for (int i = 0; i < 3; i++) {
        struct model_config config = rig_config(), back;
        struct err err = {0};
        config.kind = kinds[i];
        if (hugging_face_write_config(&config, NULL, path, &err)) fail_msg("%s", err.text);
        if (hugging_face_read_config(getenv("ANNEAL_TEST_DIR"), &back, &err)) fail_msg("%s", err.text);
        json_t *json = json_load_file(path, 0, NULL);
        assert_string_equal(json_string_value(json_object_get(json, "model_type")), types[i]);
        assert_string_equal(json_string_value(json_array_get(json_object_get(json, "architectures"), 0)),
                            classes[i]);
        assert_int_equal(model_kind_of(&back), i == 2 ? MODEL_MISTRAL : MODEL_LLAMA);
        assert_int_equal(back.sliding_window, 0);
        json_decref(json);
    }
    free(path);
}

TEST_CASE(keys_that_others_leave_out_have_their_defaults)
{
    struct model_config config;
    struct err err;
    if (read_llama("", &config, &err)) fail_msg("%s", err.text);
    assert_int_equal(config.num_kv_heads, 4);
    assert_int_equal(config.head_dim, 8);
    assert_true(config.rope_base == 10000 && config.norm_eps == 1e-6);
    assert_false(config.tie_weights);
    if (read_llama("\"head_dim\": null, \"num_key_value_heads\": 2", &config, &err)) fail_msg("%s", err.text);
    assert_int_equal(config.num_kv_heads, 2);
    assert_int_equal(config.head_dim, 8);
}

TEST_CASE(both_spellings_of_the_rotary_base_are_read)
{
    struct model_config config;
    struct err err;
    if (read_llama("\"rope_theta\": 5000", &config, &err)) fail_msg("%s", err.text);
    assert_true(config.rope_base == 5000);
    if (read_llama("\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 700.5}", &config, &err))
        fail_msg("%s", err.text);
    assert_true(config.rope_base == 700.5);
}

/* tests/fixtures/rope/make_rope.py wrote them; single precision has 24 bits. */
TEST_CASE(rotary_frequencies_are_those_of_transformers)
{
    json_t *cases = json_load_file("tests/fixtures/rope/rope.json", 0, NULL), *one;
    size_t index;
    int kinds = 0;
    assert_non_null(cases);
    json_array_foreach(cases, index, one) {
        struct model_config config;
        struct err err = {0};
        char *text = json_dumps(json_object_get(one, "config"), 0);
        const json_t *frequencies = json_object_get(one, "frequencies");
        if (read_text(text, &config, &err)) fail_msg("%s: %s", text, err.text);
        assert_int_equal(json_array_size(frequencies), config.head_dim / 2);
        for (int i = 0; i < config.head_dim / 2; i++) {
            double want = json_number_value(json_array_get(frequencies, (size_t)i)),
                   got = model_rotary_frequency(&config, i);
            if (!(fabs(got - want) < 2e-6 * want))
                fail_msg("%s: pair %d turns by %.9g, not %.9g", text, i, got, want);
        }
        double scale = json_number_value(json_object_get(one, "scale"));
        if (!(fabs(model_rotary_scale(&config) - scale) < 1e-12))
            fail_msg("%s: the factor is %.9g, not %.9g", text, model_rotary_scale(&config), scale);
        kinds |= 1 << config.rope_scaling;
        free(text);
    }
    assert_int_equal(kinds, 15);
    json_decref(cases);
}

TEST_CASE(what_we_do_not_compute_is_refused)
{
    struct model_config config;
    struct err err;
    expect_refused("\"rope_scaling\": {\"rope_type\": \"yarn\"}", "\"yarn\" needs a number \"factor\"");
    expect_refused("\"rope_scaling\": {\"rope_type\": \"yarn\", \"attention_factor\": 0}",
                   "\"yarn\" needs a number \"factor\"");
    expect_refused("\"rope_scaling\": {\"rope_type\": \"longrope\"}", "rotary scaling \"longrope\"");
    expect_refused("\"rope_scaling\": {\"type\": \"dynamic\"}", "rotary scaling \"dynamic\"");
    expect_refused("\"rope_parameters\": {\"rope_type\": \"llama3\", \"rope_theta\": 5e5}",
                   "rotary scaling \"llama3\" needs a number \"factor\"");
    expect_refused("\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0.5}", "model.rope_factor = 0.5");
    expect_refused("\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 0.5}", "model.rope_factor = 0.5");
    expect_refused("\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 2, \"high_freq_factor\": 4}",
                   "rotary scaling \"llama3\" needs a number \"low_freq_factor\"");
    expect_refused("\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 2, \"low_freq_factor\": 1}",
                   "rotary scaling \"llama3\" needs a number \"high_freq_factor\"");
    expect_refused("\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 2, \"low_freq_factor\": 4, "
                   "\"high_freq_factor\": 4}",
                   "high_freq_factor = 4");
    expect_refused("\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 2, \"low_freq_factor\": 0, "
                   "\"high_freq_factor\": 4}",
                   "low_freq_factor = 0,");
    expect_refused("\"rope_scaling\": {\"rope_type\": 5, \"factor\": 2}", "rotary scaling \"?\"");
    expect_refused("\"rope_scaling\": {\"type\": [\"yarn\"]}", "rotary scaling \"?\"");
    assert_int_equal(read_text("{\"model_type\": \"gpt2\"}", &config, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "llama, mistral, qwen2 and qwen3 are supported"));
    assert_int_equal(read_text("{}", &config, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "model_type is missing"));
}

/* ---- keys ---- */

static enum status read_kind(const char *kind, const char *extra, struct model_config *out, struct err *err)
{
    char text[2048];
    snprintf(text, sizeof text,
             "{\"model_type\": \"%s\", \"vocab_size\": 100, \"hidden_size\": 32, \"intermediate_size\": 48,"
             " \"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
             " \"max_position_embeddings\": 64%s%s}",
             kind, *extra ? ", " : "", extra);
    return read_text(text, out, err);
}

static struct model_config kind_of(const char *kind, const char *extra)
{
    struct model_config config;
    struct err err;
    if (read_kind(kind, extra, &config, &err)) fail_msg("%s %s: %s", kind, extra, err.text);
    return config;
}

static void expect_kind_refused(const char *kind, const char *extra, const char *part)
{
    struct model_config config;
    struct err err;
    if (!read_kind(kind, extra, &config, &err)) fail_msg("%s: %s is accepted", kind, extra);
    if (!strstr(err.text, part)) fail_msg("\"%s\" does not say \"%s\"", err.text, part);
}

TEST_CASE(keys_that_change_nothing_are_let_pass)
{
    static const char *const kinds[] = {"llama", "mistral", "qwen2", "qwen3"};
    static const char *const keys[] = {
        "\"hidden_act\": \"swish\"",
        "\"architectures\": [\"X\"], \"transformers_version\": \"4.40.0\", \"torch_dtype\": \"bfloat16\"",
        "\"attention_dropout\": 0.3, \"initializer_range\": 0.5, \"use_cache\": false",
        "\"bos_token_id\": 1, \"eos_token_id\": [2, 3], \"pad_token_id\": null",
        "\"pretraining_tp\": 1, \"hidden_act\": \"silu\", \"rope_interleaved\": false",
        "\"logits_scaling\": 1.0, \"residual_multiplier\": 1, \"partial_rotary_factor\": 1.0",
        "\"_name_or_path\": \"a/b\", \"_of_my_own\": 3, \"of_another\": null",
        "\"quantization_config\": null, \"rope_scaling\": null",
        "\"is_llama_config\": true, \"transformers.js_config\": {\"dtype\": \"q4\"}",
        ("\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1e4, "
         "\"partial_rotary_factor\": 1.0}"),
        ("\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2.0}, "
         "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2.0}"),
    };
    for (int k = 0; k < 4; k++)
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) kind_of(kinds[k], keys[i]);
}

TEST_CASE(every_key_that_could_change_the_numbers_is_refused_by_name)
{
    static const char *const cases[][2] = {
        {"\"hidden_act\": \"gelu\"", "hidden_act is gelu; only silu"},
        {"\"hidden_act\": 3", "hidden_act is not a string"},
        {"\"hidden_activation\": \"relu\"", "hidden_activation = \"relu\""},
        {"\"pretraining_tp\": 2", "pretraining_tp = 2 (a larger value"},
        {"\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4}",
         "quantization_config = {\"quant_method\":\"gpt... (save the model in"},
        {"\"logits_scaling\": 8.0", "logits_scaling = 8.0 (only 1 is computed)"},
        {"\"rope_interleaved\": true", "rope_interleaved = true (only false is computed)"},
        {"\"partial_rotary_factor\": 0.5", "partial_rotary_factor = 0.5 (only 1 is computed)"},
        {"\"residual_multiplier\": 0.22", "residual_multiplier = 0.22"},
        {"\"embedding_multiplier\": 12", "embedding_multiplier = 12"},
        {"\"attention_multiplier\": 1", "attention_multiplier = 1;"},
        {"\"auto_map\": {\"AutoModel\": \"x\"}", "auto_map"},
        {"\"of_another\": false", "of_another = false;"},
        {"\"rope_parameters\": {\"rope_theta\": 1e4, \"mrope_section\": [1, 2]}",
         "rope_parameters has keys that could change what the model computes and that anneal does not "
         "compute: "
         "mrope_section = [1,2]"},
        {"\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2, \"beta_fast\": 3}",
         "rope_scaling has keys"},
        {"\"rope_scaling\": {\"factor\": 2}", "rope_scaling has keys"},
        {"\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}, \"rope_parameters\": {\"rope_theta\": 3}",
         "rope_scaling and rope_parameters differ"},
        {"\"rope_scaling\": [1]", "rope_scaling must be an object"},
        {"\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2, \"attention_factor\": 0}",
         "attention_factor = 0 must be positive"},
        {"\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2, \"beta_fast\": 1, \"beta_slow\": 3}",
         "rope_beta_slow = 3"},
        {"\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2, \"truncate\": 1}",
         "truncate must be true or"},
        {"\"rms_norm_eps\": \"1e-5\"", "rms_norm_eps must be a number"},
        {"\"tie_word_embeddings\": 1", "tie_word_embeddings must be true or false"},
        {"\"layer_types\": [\"full_attention\"]", "must be a list of num_hidden_layers = 4"},
        {"\"layer_types\": [\"full_attention\", 1, \"full_attention\", \"\"]", "for layer 1 it has neither"},
        {"\"layer_types\": [\"full_attention\", \"full_attention\", \"chunked_attention\", "
         "\"full_attention\"]",
         "for layer 2 it has chunked_attention"},
    };
    static const char *const kinds[] = {"llama", "mistral", "qwen2", "qwen3"};
    for (int k = 0; k < 4; k++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            expect_kind_refused(kinds[k], cases[i][0], cases[i][1]);
}

/* Reading goes on after an error. */
TEST_CASE(the_first_error_of_a_file_is_reported)
{
    static const char *const more[] = {
        "\"rms_norm_eps\": \"1e-5\"",
        "\"tie_word_embeddings\": 1",
        "\"max_position_embeddings\": 0",
        "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}, \"rope_parameters\": {\"rope_theta\": 3}",
        "\"rope_scaling\": [1]",
        "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2, \"attention_factor\": 0}",
        "\"rope_scaling\": {\"type\": \"odd\"}",
        "\"layer_types\": [\"full_attention\"]",
        "\"layer_types\": [\"full_attention\", \"sliding_attention\"]",
        "\"layer_types\": [\"odd\", \"odd\"]",
        "\"architectures\": [\"LlamaForSequenceClassification\"], \"num_labels\": 4097",
        "\"architectures\": [\"LlamaForSequenceClassification\"], \"num_labels\": 1",
        "\"architectures\": [\"LlamaForSequenceClassification\"], \"problem_type\": \"regression\"",
    };
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        char text[600];
        struct model_config config;
        struct err err;
        expect_refused(more[i], "");
        snprintf(text, sizeof text, "{\"model_type\": \"llama\", \"attention_bias\": 5, %s}", more[i]);
        assert_int_not_equal(read_text(text, &config, &err), STATUS_OK);
        if (!strstr(err.text, "attention_bias must be true or false")) fail_msg("%s", err.text);
    }
}

TEST_CASE(the_classes_of_a_file_without_names_are_counted_as_transformers_does)
{
    static const struct {
        const char *extra;
        int labels;
    } cases[] = {{"", 2},
                 {", \"num_labels\": 3", 3},
                 {", \"num_labels\": 4096", 4096},
                 {", \"num_labels\": 3, \"id2label\": {\"0\": \"a\", \"1\": \"b\"}", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_config config;
        struct err err;
        char extra[200];
        snprintf(extra, sizeof extra, "\"architectures\": [\"LlamaForSequenceClassification\"]%s",
                 cases[i].extra);
        if (read_llama(extra, &config, &err)) fail_msg("%s", err.text);
        assert_int_equal(config.num_labels, cases[i].labels);
    }
    expect_refused("\"architectures\": [\"LlamaForSequenceClassification\"], \"num_labels\": 4097",
                   "the classifier has more than 4096 labels");
}

/* "0,2,4" and so on: the layers without a window have 255 bytes. */
TEST_CASE(layer_types_that_change_too_often_are_refused)
{
    for (int layers = 154; layers <= 156; layers += 2) {
        char text[8000];
        struct model_config config;
        struct err err;
        size_t used = (size_t)snprintf(
            text, sizeof text,
            "{\"model_type\": \"qwen3\", \"vocab_size\": 100, \"hidden_size\": 32, \"intermediate_size\": 48,"
            " \"num_hidden_layers\": %d, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
            " \"use_sliding_window\": true, \"sliding_window\": 9, \"layer_types\": [",
            layers);
        for (int l = 0; l < layers; l++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%s_attention\"", l ? "," : "",
                                     l % 2 ? "sliding" : "full");
        snprintf(text + used, sizeof text - used, "]}");
        enum status status = read_text(text, &config, &err);
        assert_int_equal(status, layers == 154 ? STATUS_OK : STATUS_USAGE);
        if (status) assert_non_null(strstr(err.text, "layer_types changes too often"));
    }
}

TEST_CASE(the_type_of_a_file_is_read_where_it_fits)
{
    char *path = rig_path("config.json"), type[8] = "none";
    rig_write(path, "{\"model_type\": \"mistral\"}", 25);
    assert_true(hugging_face_read_type(getenv("ANNEAL_TEST_DIR"), type, 8));
    assert_string_equal(type, "mistral");
    strcpy(type, "none");
    assert_false(hugging_face_read_type(getenv("ANNEAL_TEST_DIR"), type, 7));
    assert_string_equal(type, "none");
    free(path);
}

TEST_CASE(keys_of_one_kind_are_refused_in_another)
{
    expect_kind_refused("llama", "\"sliding_window\": 16", "sliding_window = 16;");
    expect_kind_refused("llama", "\"use_sliding_window\": true",
                        "use_sliding_window = true (only false is computed)");
    expect_kind_refused("llama", "\"max_window_layers\": 2", "max_window_layers = 2;");
    expect_kind_refused("mistral", "\"attention_bias\": true",
                        "attention_bias = true (only false is computed)");
    expect_kind_refused("mistral", "\"mlp_bias\": true", "mlp_bias = true (only false is computed)");
    expect_kind_refused("qwen2", "\"attention_bias\": false",
                        "attention_bias = false (only true is computed)");
    expect_kind_refused("qwen3", "\"mlp_bias\": true", "mlp_bias = true (only false is computed)");
}

TEST_CASE(all_keys_that_are_not_understood_are_named_at_once)
{
    struct model_config config;
    struct err err;
    char many[1500] = "\"more\": 0";
    expect_kind_refused("llama", "\"one\": 1, \"logits_scaling\": 2, \"three\": \"x\"",
                        "one = 1, logits_scaling = 2 (only 1 is computed), three = \"x\"; set a key to null");
    for (int i = 0; i < 60; i++) snprintf(many + strlen(many), 24, ", \"unknown%d\": 1", i);
    assert_int_equal(read_kind("llama", many, &config, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "more = 0, unknown0 = 1, "));
    assert_non_null(strstr(err.text, " more; set a key to null if you know that it changes nothing"));
}

static void expect_windows(struct model_config config, const char *kind, int a, int b, int c, int d)
{
    const int want[4] = {a, b, c, d};
    for (int l = 0; l < 4; l++) assert_int_equal(model_window(&config, l), want[l]);
    assert_string_equal(model_kind_word(model_kind_of(&config)), kind);
}

#define LAYERS(a, b, c, d)                                                                                   \
    "\"layer_types\": [\"" a "_attention\", \"" b "_attention\", \"" c "_attention\", \"" d "_attention\"]"
#define WINDOW "\"use_sliding_window\": true, \"sliding_window\": 9"

TEST_CASE(the_window_of_each_layer_is_that_of_transformers)
{
    expect_windows(kind_of("mistral", ""), "mistral", 4096, 4096, 4096, 4096); /* its default */
    expect_windows(kind_of("mistral", "\"sliding_window\": null"), "mistral", 0, 0, 0, 0);
    expect_windows(kind_of("mistral", "\"sliding_window\": 9"), "mistral", 9, 9, 9, 9);
    expect_windows(kind_of("qwen2", "\"sliding_window\": 9"), "qwen2", 0, 0, 0, 0);
    expect_windows(kind_of("qwen2", WINDOW), "qwen2", 0, 0, 0, 0); /* max_window_layers 28 */
    expect_windows(kind_of("qwen2", WINDOW ", \"max_window_layers\": 3"), "qwen2", 0, 0, 0, 9);
    expect_windows(kind_of("qwen3", WINDOW ", \"max_window_layers\": 0"), "qwen3", 9, 9, 9, 9);
    expect_windows(kind_of("qwen3", "\"use_sliding_window\": true, \"sliding_window\": null"), "qwen3", 0, 0,
                   0, 0);
    expect_windows(kind_of("qwen3", WINDOW ", " LAYERS("sliding", "full", "full", "sliding")), "qwen3", 9, 0,
                   0, 9);
    expect_windows(kind_of("llama", LAYERS("full", "full", "full", "full")), "llama", 0, 0, 0, 0);
    expect_kind_refused("llama", LAYERS("full", "full", "full", "sliding"), "but the file has no window");
    expect_kind_refused("qwen2", LAYERS("full", "full", "full", "sliding"),
                        "(sliding_window with use_sliding");
    expect_kind_refused("mistral", LAYERS("full", "full", "full", "sliding"), "all layers of a Mistral have");
    expect_kind_refused("mistral", "\"sliding_window\": 0", "sliding_window must be a whole number from 1");
}

TEST_CASE(biases_are_those_of_transformers)
{
    struct model_config c = kind_of("llama", "\"attention_bias\": true");
    assert_true(c.qkv_bias && c.o_bias && !c.mlp_bias && !c.qk_norm);
    c = kind_of("llama", "\"mlp_bias\": true");
    assert_true(!c.qkv_bias && !c.o_bias && c.mlp_bias);
    c = kind_of("qwen2", "");
    assert_true(c.qkv_bias && !c.o_bias && !c.mlp_bias);
    c = kind_of("qwen3", "\"attention_bias\": true, \"transformers_version\": \"5.0\"");
    assert_true(c.qkv_bias && c.o_bias && c.qk_norm);
    c = kind_of("qwen3", "\"attention_bias\": true"); /* anneal wrote it before it knew o_bias */
    assert_true(c.qkv_bias && !c.o_bias && c.qk_norm);
    c = kind_of("qwen3", "\"attention_bias\": true, \"o_bias\": true");
    assert_true(c.qkv_bias && c.o_bias);
}

TEST_CASE(sizes_that_a_kind_leaves_out_are_those_of_its_class)
{
    struct model_config config;
    struct err err;
    char text[512];
    static const struct {
        const char *kind;
        int kv_heads, head_dim, positions;
    } cases[] = {{"llama", 32, 2, 2048},
                 {"mistral", 8, 2, 131072},
                 {"qwen2", 32, 2, 32768},
                 {"qwen3", 32, 128, 32768}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(
            text, sizeof text,
            "{\"model_type\": \"%s\", \"vocab_size\": 100, \"hidden_size\": 64, \"intermediate_size\": 48,"
            " \"num_hidden_layers\": 4, \"num_attention_heads\": 32}",
            cases[i].kind);
        if (read_text(text, &config, &err)) fail_msg("%s", err.text);
        assert_int_equal(config.num_kv_heads, cases[i].kv_heads);
        assert_int_equal(config.head_dim, cases[i].head_dim);
        assert_int_equal(config.max_seq_len, cases[i].positions);
    }
}

TEST_CASE(sizes_that_are_missing_or_impossible_are_refused)
{
    struct model_config config;
    struct err err;
    assert_int_equal(read_text("{\"model_type\": \"llama\"}", &config, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.text, "vocab_size is missing, which must be a whole number from 1"));
    char text[400] = "{\"model_type\": \"llama\"";
    static const char *const needed[] = {"vocab_size", "hidden_size", "intermediate_size",
                                         "num_hidden_layers", "num_attention_heads"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        char *end = strchr(text, '\0');
        strcpy(end, "}");
        assert_int_equal(read_text(text, &config, &err), STATUS_CORRUPT);
        if (!strstr(err.text, needed[i])) fail_msg("without %s: %s", needed[i], err.text);
        sprintf(end, ", \"%s\": 4", needed[i]);
    }
    expect_refused("\"num_key_value_heads\": 3", "not a multiple");
    expect_refused("\"num_key_value_heads\": 0", "num_key_value_heads must be");
    expect_refused("\"num_key_value_heads\": -1", "num_key_value_heads must be");
    expect_refused("\"num_key_value_heads\": 1.5", "num_key_value_heads must be");
    expect_refused("\"num_key_value_heads\": \"4\"", "num_key_value_heads must be");
    expect_refused("\"head_dim\": 9223372036854775807", "head_dim must be");
    expect_refused("\"head_dim\": 7", "head_dim = 7: must be even");
    expect_refused("\"rms_norm_eps\": 0", "must be positive");
    expect_refused("\"rope_theta\": -1", "must be positive");
    expect_refused("\"rope_theta\": 0", "must be positive");
}

TEST_CASE(files_that_are_no_json_object_are_refused)
{
    static const char *const texts[] = {"", "{", "[]", "5", "{\"a\": 1, \"a\": 2}", "{} trailing"};
    struct model_config config;
    struct err err;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (read_text(texts[i], &config, &err) != STATUS_CORRUPT) fail_msg("accepted: %s", texts[i]);
    assert_int_equal(hugging_face_read_config("no/such", &config, &err), STATUS_NOT_FOUND);
}

TEST_MAIN()
