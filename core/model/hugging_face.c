/* See hugging_face.h. */
#include "core/model/hugging_face.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"

/* The older spelling, written next to rope_theta: all versions of transformers read it. */
static json_t *rope_scaling_json(const struct model_config *c)
{
    json_t *json =
        json_pack("{s:s s:f}", "rope_type", rope_scaling_word(c->rope_scaling), "factor", c->rope_factor);
    if (json && c->rope_scaling == ROPE_LLAMA3) {
        json_object_set_new(json, "low_freq_factor", json_real(c->rope_low_freq_factor));
        json_object_set_new(json, "high_freq_factor", json_real(c->rope_high_freq_factor));
        json_object_set_new(json, "original_max_position_embeddings", json_integer(c->rope_original_len));
    }
    return json;
}

enum status hugging_face_write_config(const struct model_config *c, const char *path, struct err *err)
{
    const char *type = c->qk_norm ? "qwen3" : c->qkv_bias ? "qwen2" : "llama";
    const char *architecture = c->qk_norm    ? "Qwen3ForCausalLM"
                               : c->qkv_bias ? "Qwen2ForCausalLM"
                                             : "LlamaForCausalLM";
    /* null ids: without them transformers would use Llama's 1 and 2, ordinary tokens here */
    json_t *json = json_pack(
        "{s:[s] s:s s:i s:i s:i s:i s:i s:i s:i s:i s:f s:f s:b s:b s:s s:s s:n s:n s:n}", "architectures",
        architecture, "model_type", type, "vocab_size", c->vocab_size, "hidden_size", c->hidden_dim,
        "intermediate_size", c->intermediate_dim, "num_hidden_layers", c->num_layers, "num_attention_heads",
        c->num_heads, "num_key_value_heads", c->num_kv_heads, "head_dim", c->head_dim,
        "max_position_embeddings", c->max_seq_len, "rms_norm_eps", c->norm_eps, "rope_theta", c->rope_base,
        "tie_word_embeddings", c->tie_weights, "attention_bias", c->qkv_bias, "hidden_act", "silu",
        "torch_dtype", "float32", "bos_token_id", "eos_token_id", "pad_token_id");
    if (json && c->rope_scaling != ROPE_DEFAULT)
        json_object_set_new(json, "rope_scaling", rope_scaling_json(c));
    char *text = json ? json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
    enum status status =
        text ? file_write_atomic(path, text, strlen(text), err) : err_no_memory(err, "writing %s", path);
    free(text);
    json_decref(json);
    return status;
}

/* An integer key; if absent, `fallback`, or an error if that is negative. */
static enum status read_size(const json_t *json, const char *path, const char *key, int fallback, int *out,
                             struct err *err)
{
    const json_t *value = json_object_get(json, key);
    if ((!value || json_is_null(value)) && fallback >= 0) {
        *out = fallback;
        return STATUS_OK;
    }
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 1 || number > 1 << 24)
        return err_set(err, STATUS_CORRUPT, "%s: %s must be a whole number from 1 to 16777216", path, key);
    *out = (int)number;
    return STATUS_OK;
}

static double read_real(const json_t *json, const char *key, double fallback)
{
    const json_t *value = json_object_get(json, key);
    return json_is_number(value) ? json_number_value(value) : fallback;
}

/* Newer files keep the base and the kind of scaling in `rope_parameters`, older ones in `rope_theta` and
 * `rope_scaling`, where the kind may be called `type`. */
static enum status read_rope(const json_t *json, const char *path, struct model_config *c, struct err *err)
{
    const json_t *rope = json_object_get(json, "rope_parameters"),
                 *older = json_object_get(json, "rope_scaling"), *kind;
    c->rope_base = read_real(rope, "rope_theta", read_real(json, "rope_theta", 10000));
    if (!json_is_object(rope)) rope = older;
    if (!(kind = json_object_get(rope, "rope_type")) && !(kind = json_object_get(rope, "type")))
        kind = json_object_get(older, "type");
    const char *name = json_is_string(kind) ? json_string_value(kind) : "default";
    int scaling = 0;
    while (scaling < ROPE_SCALINGS && strcmp(rope_scaling_word((enum rope_scaling)scaling), name) != 0)
        scaling++;
    if (scaling == ROPE_SCALINGS)
        return err_set(
            err, STATUS_USAGE,
            "%s: rotary scaling \"%.40s\" is not supported, only \"default\", \"linear\" and \"llama3\"",
            path, name);
    if (scaling != ROPE_DEFAULT && !json_is_number(json_object_get(rope, "factor")))
        return err_set(err, STATUS_CORRUPT, "%s: rotary scaling \"%s\" needs a number \"factor\"", path,
                       name);
    c->rope_scaling = (enum rope_scaling)scaling;
    c->rope_factor = scaling == ROPE_DEFAULT ? 1 : read_real(rope, "factor", 1);
    if (scaling != ROPE_LLAMA3) rope = NULL;
    c->rope_low_freq_factor = read_real(rope, "low_freq_factor", 1);
    c->rope_high_freq_factor = read_real(rope, "high_freq_factor", 4);
    return read_size(rope, path, "original_max_position_embeddings", rope ? c->max_seq_len : 8192,
                     &c->rope_original_len, err);
}

static enum status read_fields(const json_t *json, const char *path, struct model_config *c, struct err *err)
{
    const char *type = json_string_value(json_object_get(json, "model_type"));
    if (!type || (strcmp(type, "llama") != 0 && strcmp(type, "qwen2") != 0 && strcmp(type, "qwen3") != 0))
        return err_set(err, STATUS_USAGE, "%s: model_type is %.40s; llama, qwen2 and qwen3 are supported",
                       path, type ? type : "missing");
    c->qk_norm = strcmp(type, "qwen3") == 0;
    c->qkv_bias = strcmp(type, "qwen2") == 0 || json_is_true(json_object_get(json, "attention_bias"));
    c->tie_weights = json_is_true(json_object_get(json, "tie_word_embeddings"));
    c->norm_eps = read_real(json, "rms_norm_eps", 1e-6);
    enum status status = read_size(json, path, "vocab_size", -1, &c->vocab_size, err);
    if (!status) status = read_size(json, path, "hidden_size", -1, &c->hidden_dim, err);
    if (!status) status = read_size(json, path, "intermediate_size", -1, &c->intermediate_dim, err);
    if (!status) status = read_size(json, path, "num_hidden_layers", -1, &c->num_layers, err);
    if (!status) status = read_size(json, path, "num_attention_heads", -1, &c->num_heads, err);
    if (!status) status = read_size(json, path, "num_key_value_heads", c->num_heads, &c->num_kv_heads, err);
    if (!status) status = read_size(json, path, "head_dim", c->hidden_dim / c->num_heads, &c->head_dim, err);
    if (!status) status = read_size(json, path, "max_position_embeddings", 2048, &c->max_seq_len, err);
    if (!status) status = read_rope(json, path, c, err);
    if (!status && (status = model_config_check(c, err))) err_prefix(err, "%s", path);
    return status;
}

enum status hugging_face_read_config(const char *path, struct model_config *out, struct err *err)
{
    struct file_map map;
    struct model_config config = {0};
    json_error_t problem;
    enum status status = file_map_open(path, &map, err);
    if (status) return status;
    json_t *json = json_loadb((const char *)map.data, map.size, JSON_REJECT_DUPLICATES, &problem);
    file_map_close(&map);
    if (!json) return err_set(err, STATUS_CORRUPT, "%s:%d: %s", path, problem.line, problem.text);
    status = json_is_object(json) ? read_fields(json, path, &config, err)
                                  : err_set(err, STATUS_CORRUPT, "%s: not a JSON object", path);
    json_decref(json);
    if (!status) *out = config;
    return status;
}

/* ---- models by name ---- */

enum status imported_model_folder(const char *name, char *folder, size_t size, struct err *err)
{
    char home[PATH_MAX];
    enum status status = file_anneal_home(home, sizeof home, err);
    return status ? status : file_format_path(folder, size, err, "%s/models/%s", home, name);
}

bool imported_model_find(const char *word, char *folder, size_t size)
{
    char config[PATH_MAX];
    return *word && *word != '.' && !strchr(word, '/') && !imported_model_folder(word, folder, size, NULL) &&
           !file_format_path(config, sizeof config, NULL, "%s/config.json", folder) && file_exists(config);
}
