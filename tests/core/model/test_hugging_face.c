/* config.json in both directions: our files read back equal; files of other programs are read or refused with
 * one sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "core/model/hugging_face.h"
#include "tests/core/network/rig.h"

static enum status read_text(const char *text, struct model_config *out, struct err *err)
{
    char *path = rig_path("config.json");
    rig_write(path, text, strlen(text));
    *err = (struct err){0};
    enum status status = hugging_face_read_config(path, out, err);
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

static void what_is_written_reads_back_equal(void **state)
{
    (void)state;
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
        config.rope_original_len = bits % 3 == 2 ? 77 : 8192;
        if (hugging_face_write_config(&config, path, &err)) fail_msg("%s", err.text);
        if (hugging_face_read_config(path, &back, &err)) fail_msg("%s", err.text);
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

static void keys_that_others_leave_out_have_their_defaults(void **state)
{
    (void)state;
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

static void both_spellings_of_the_rotary_base_are_read(void **state)
{
    (void)state;
    struct model_config config;
    struct err err;
    if (read_llama("\"rope_theta\": 5000", &config, &err)) fail_msg("%s", err.text);
    assert_true(config.rope_base == 5000);
    if (read_llama("\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 700.5}", &config, &err))
        fail_msg("%s", err.text);
    assert_true(config.rope_base == 700.5);
}

/* tests/fixtures/rope/make_rope.py wrote them; single precision has 24 bits. */
static void rotary_frequencies_are_those_of_transformers(void **state)
{
    (void)state;
    json_t *cases = json_load_file("tests/fixtures/rope/rope.json", 0, NULL), *one;
    size_t index;
    int kinds = 0;
    assert_non_null(cases);
    json_array_foreach(cases, index, one)
    {
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
        kinds |= 1 << config.rope_scaling;
        free(text);
    }
    assert_int_equal(kinds, 7);
    json_decref(cases);
}

static void what_we_do_not_compute_is_refused(void **state)
{
    (void)state;
    struct model_config config;
    struct err err;
    expect_refused("\"rope_scaling\": {\"rope_type\": \"yarn\"}", "rotary scaling \"yarn\"");
    expect_refused("\"rope_scaling\": {\"type\": \"dynamic\"}", "rotary scaling \"dynamic\"");
    expect_refused("\"rope_parameters\": {\"rope_type\": \"llama3\", \"rope_theta\": 5e5}",
                   "rotary scaling \"llama3\" needs a number \"factor\"");
    expect_refused("\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0.5}", "model.rope_factor = 0.5");
    expect_refused("\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 2, \"low_freq_factor\": 4}",
                   "high_freq_factor = 4");
    assert_int_equal(read_text("{\"model_type\": \"gpt2\"}", &config, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "llama, qwen2 and qwen3 are supported"));
    assert_int_equal(read_text("{}", &config, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "model_type is missing"));
}

static void sizes_that_are_missing_or_impossible_are_refused(void **state)
{
    (void)state;
    struct model_config config;
    struct err err;
    assert_int_equal(read_text("{\"model_type\": \"llama\"}", &config, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.text, "vocab_size must be a whole number"));
    expect_refused("\"num_key_value_heads\": 3", "not a multiple");
    expect_refused("\"num_key_value_heads\": 0", "num_key_value_heads must be");
    expect_refused("\"num_key_value_heads\": -1", "num_key_value_heads must be");
    expect_refused("\"num_key_value_heads\": 1.5", "num_key_value_heads must be");
    expect_refused("\"num_key_value_heads\": \"4\"", "num_key_value_heads must be");
    expect_refused("\"head_dim\": 9223372036854775807", "head_dim must be");
    expect_refused("\"head_dim\": 7", "head_dim = 7: must be even");
    expect_refused("\"rms_norm_eps\": 0", "must be positive");
    expect_refused("\"rope_theta\": -1", "must be positive");
}

static void files_that_are_no_json_object_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "{", "[]", "5", "{\"a\": 1, \"a\": 2}", "{} trailing"};
    struct model_config config;
    struct err err;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (read_text(texts[i], &config, &err) != STATUS_CORRUPT) fail_msg("accepted: %s", texts[i]);
    assert_int_equal(hugging_face_read_config("no/such/config.json", &config, &err), STATUS_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_reads_back_equal),
        cmocka_unit_test(keys_that_others_leave_out_have_their_defaults),
        cmocka_unit_test(both_spellings_of_the_rotary_base_are_read),
        cmocka_unit_test(rotary_frequencies_are_those_of_transformers),
        cmocka_unit_test(what_we_do_not_compute_is_refused),
        cmocka_unit_test(sizes_that_are_missing_or_impossible_are_refused),
        cmocka_unit_test(files_that_are_no_json_object_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
