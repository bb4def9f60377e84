/* See hugging_face_keys.h. A key that transformers reads for one kind only is listed for that kind: for the
 * others it would be the author's own, and could mean anything. */
#include "core/model/hugging_face_keys.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

/* Keys that are treated alike. */
struct known_keys {
    unsigned kinds;   /* bits 1 << kind */
    const char *keys; /* with blanks between */
    const char *only; /* as JSON: the value that changes nothing; NULL: the reader understands every value, or
                         none changes anything */
    const char *remedy; /* NULL: the sentence names `only` */
};

enum {
    LLAMA = 1 << MODEL_LLAMA,
    MISTRAL = 1 << MODEL_MISTRAL,
    QWEN2 = 1 << MODEL_QWEN2,
    QWEN3 = 1 << MODEL_QWEN3,
    QWEN = QWEN2 | QWEN3,
    ALL = LLAMA | MISTRAL | QWEN
};

static const struct known_keys model_keys[] = {
    /* read by hugging_face.c */
    {ALL,
     "model_type vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads "
     "num_key_value_heads head_dim max_position_embeddings rms_norm_eps hidden_act tie_word_embeddings "
     "rope_theta rope_scaling rope_parameters layer_types",
     NULL, NULL},
    {ALL, "pooling", NULL, NULL}, /* anneal's own, of classifiers */
    {MISTRAL | QWEN, "sliding_window", NULL, NULL},
    {QWEN, "use_sliding_window max_window_layers", NULL, NULL},
    {LLAMA | QWEN3, "attention_bias", NULL, NULL},
    {LLAMA, "mlp_bias", NULL, NULL},
    {QWEN3, "o_bias", NULL, NULL}, /* anneal's own */

    /* computed at one value only */
    {MISTRAL, "attention_bias", "false", NULL},
    {QWEN2, "attention_bias", "true", NULL}, /* transformers has no such key: a Qwen2 has biases always */
    {MISTRAL | QWEN, "mlp_bias", "false", NULL},
    {LLAMA | MISTRAL, "use_sliding_window", "false", NULL},
    {ALL, "hidden_activation", "\"silu\"", NULL},
    {ALL, "pretraining_tp", "1", "a larger value only adds in another order: set it to 1"},
    {ALL, "partial_rotary_factor logits_scaling logit_scale residual_multiplier embedding_multiplier", "1",
     NULL},
    {ALL, "rope_interleaved use_mrope is_encoder_decoder add_cross_attention tie_encoder_decoder", "false",
     NULL},
    {ALL, "pruned_heads", "{}", NULL},
    {ALL, "quantization_config", "null", "save the model in float32, bfloat16 or float16 first"},
    {ALL, "auto_map", "null", "the model brings its own code, which anneal does not run"},

    /* notes, and settings of other programs */
    {ALL,
     "architectures transformers_version torch_dtype dtype use_bfloat16 torchscript use_cache return_dict "
     "output_attentions output_hidden_states is_decoder is_llama_config keys_to_ignore_at_inference "
     "chunk_size_feed_forward tf_legacy_loss attn_implementation use_flash_attention use_flash_attn "
     "use_flash_attention_2 gradient_checkpointing transformers.js_config unsloth_fixed unsloth_version "
     "max_sequence_length model_max_length tokenizer_model_max_length tokenizer_class prefix",
     NULL, NULL},
    /* how weights were made, and what only training reads */
    {ALL,
     "initializer_range attention_dropout hidden_dropout hidden_dropout_prob attention_probs_dropout_prob "
     "classifier_dropout dropout resid_pdrop embd_pdrop attn_pdrop neftune_noise_alpha",
     NULL, NULL},
    /* special tokens, labels of classes, and settings of text generation */
    {ALL,
     "bos_token_id eos_token_id pad_token_id unk_token_id sep_token_id cls_token_id mask_token_id "
     "decoder_start_token_id forced_bos_token_id forced_eos_token_id finetuning_task task_specific_params "
     "problem_type id2label label2id num_labels",
     NULL, NULL},
    {ALL,
     "max_length min_length max_new_tokens do_sample early_stopping num_beams num_beam_groups "
     "num_return_sequences diversity_penalty temperature top_k top_p typical_p repetition_penalty "
     "length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids output_scores "
     "return_dict_in_generate remove_invalid_values exponential_decay_length_penalty suppress_tokens "
     "begin_suppress_tokens",
     NULL, NULL},
};

/* Here the bits of `kinds` are those of enum rope_scaling. */
enum {
    LINEAR = 1 << ROPE_LINEAR,
    LLAMA3 = 1 << ROPE_LLAMA3,
    YARN = 1 << ROPE_YARN,
    STRETCHED = LINEAR | LLAMA3 | YARN,
    ANY_ROPE = 1 << ROPE_DEFAULT | STRETCHED
};

static const struct known_keys rope_keys[] = {
    {ANY_ROPE, "rope_type type rope_theta finetuned", NULL, NULL},
    {ANY_ROPE, "partial_rotary_factor", "1", NULL},
    {STRETCHED, "factor original_max_position_embeddings", NULL, NULL}, /* linear: the second is not used */
    {LLAMA3, "low_freq_factor high_freq_factor", NULL, NULL},
    {YARN, "attention_factor beta_fast beta_slow mscale mscale_all_dim truncate", NULL, NULL},
};

enum { PEFT = 1 };
static const struct known_keys adapter_keys[] = {
    /* read by adapter_file.c */
    {PEFT,
     "r lora_alpha lora_dropout use_rslora base_model_name_or_path target_modules layers_to_transform "
     "modules_to_save ensure_weight_tying init_lora_weights auto_mapping",
     NULL, NULL},

    /* computed at one value only */
    {PEFT, "peft_type", "\"LORA\"", NULL},
    {PEFT, "bias", "\"none\"", NULL},
    {PEFT, "lora_bias use_dora fan_in_fan_out use_qalora use_bdlora", "false", NULL},
    {PEFT, "rank_pattern alpha_pattern arrow_config velora_config kasa_config monteclora_config", "{}", NULL},
    {PEFT, "layer_replication target_parameters trainable_token_indices alora_invocation_tokens", "[]", NULL},
    {PEFT, "enable_lora", "[]", NULL}, /* of old versions */

    /* how the matrices began, what was given to choose the modules, and notes */
    {PEFT,
     "exclude_modules layers_pattern task_type inference_mode merge_weights revision peft_version "
     "megatron_config megatron_core loftq_config eva_config corda_config lora_ga_config "
     "qalora_group_size runtime_config",
     NULL, NULL},
};

static bool is_empty(const json_t *value)
{
    return (json_is_object(value) && !json_object_size(value)) ||
           (json_is_array(value) && !json_array_size(value));
}

/* 1 and 1.0 are the same number, and so are an empty object and an empty list. */
static bool is_value(const json_t *value, const char *text)
{
    json_t *wanted = json_loads(text, JSON_DECODE_ANY, NULL);
    bool same = json_is_number(wanted)
                    ? json_is_number(value) && json_number_value(value) == json_number_value(wanted)
                    : (is_empty(value) && is_empty(wanted)) || (wanted && json_equal(value, wanted));
    json_decref(wanted);
    return same;
}

/* The errors found so far in the keys of a file, as text. */
struct findings {
    char text[200];
    size_t used;
    int left_out;
};

static void add_finding(struct findings *f, const char *key, const json_t *value,
                        const struct known_keys *known)
{
    char item[sizeof f->text];
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    bool longer = text && strlen(text) > 24;
    int n = snprintf(item, sizeof item, "%s%.48s = %.*s%s", f->used ? ", " : "", key, longer ? 20 : 24,
                     text ? text : "?", longer ? "..." : "");
    free(text);
    if (known)
        n += snprintf(item + n, sizeof item - (size_t)n, known->remedy ? " (%s)" : " (only %s is computed)",
                      known->remedy ? known->remedy : known->only);
    if ((size_t)n < sizeof f->text - f->used) {
        memcpy(f->text + f->used, item, (size_t)n + 1);
        f->used += (size_t)n;
    } else {
        f->left_out++;
    }
}

static enum status check(const json_t *object, const struct known_keys *list, size_t count, unsigned kind,
                         const char *of, const char *path, struct err *err)
{
    struct findings found = {.used = 0};
    char more[32] = "";
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        const struct known_keys *known = NULL;
        for (size_t i = 0; !known && i < count; i++)
            if (list[i].kinds & kind && text_word_index(list[i].keys, key, strlen(key)) >= 0)
                known = &list[i];
        bool good = known ? !known->only || is_value(value, known->only) : *key == '_';
        if (!good && !json_is_null(value)) add_finding(&found, key, value, known);
    }
    if (!found.used && !found.left_out) return STATUS_OK;
    if (found.left_out) snprintf(more, sizeof more, " and %d more", found.left_out);
    return err_set(err, STATUS_USAGE,
                   "%s: %shas keys that could change what the model computes and that anneal does not "
                   "compute: %s%s; set a key to null if you know that it changes nothing%s",
                   path, of, found.text, more,
                   list == adapter_keys ? ", or merge the adapters into their base with peft "
                                          "(merge_and_unload), and import that"
                                        : "");
}
#define CHECK(object, list, kind, of, path, err)                                                             \
    check(object, list, sizeof(list) / sizeof *(list), kind, of, path, err)

enum status hugging_face_check_keys(const json_t *config, enum model_kind kind, const char *path,
                                    struct err *err)
{
    return CHECK(config, model_keys, 1u << kind, "", path, err);
}

enum status hugging_face_check_rope_keys(const json_t *rope, enum rope_scaling scaling, const char *name,
                                         const char *path, struct err *err)
{
    char of[40];
    snprintf(of, sizeof of, "%.30s ", name);
    return CHECK(rope, rope_keys, 1u << scaling, of, path, err);
}

/* The keys of another method than LoRA would not say what it is, so that is found first. */
enum status hugging_face_check_adapter_keys(const json_t *config, const char *path, struct err *err)
{
    json_t *type = json_object_get(config, "peft_type"), *alone = json_pack("{s:O*}", "peft_type", type);
    enum status status = CHECK(alone, adapter_keys, PEFT, "", path, err);
    json_decref(alone);
    return status ? status : CHECK(config, adapter_keys, PEFT, "", path, err);
}
