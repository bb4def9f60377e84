/* See hugging_face_keys.h. A key that transformers reads for one kind only is listed for that kind: for the
 * others it would be the author's own, and could mean anything. */
#include "core/model/hugging_face_keys.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct known_key {
    unsigned kinds; /* bits 1 << kind */
    const char *key;
    const char *only; /* as JSON: the value that changes nothing; NULL: the reader understands every value */
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

#define READ(kinds, key)                                                                                     \
    {                                                                                                        \
        kinds, key, NULL, NULL                                                                               \
    }
#define ONLY(kinds, key, value)                                                                              \
    {                                                                                                        \
        kinds, key, value, NULL                                                                              \
    }

static const struct known_key keys[] = {
    /* read by hugging_face.c */
    READ(ALL, "model_type"),
    READ(ALL, "vocab_size"),
    READ(ALL, "hidden_size"),
    READ(ALL, "intermediate_size"),
    READ(ALL, "num_hidden_layers"),
    READ(ALL, "num_attention_heads"),
    READ(ALL, "num_key_value_heads"),
    READ(ALL, "head_dim"),
    READ(ALL, "max_position_embeddings"),
    READ(ALL, "rms_norm_eps"),
    READ(ALL, "hidden_act"),
    READ(ALL, "tie_word_embeddings"),
    READ(ALL, "rope_theta"),
    READ(ALL, "rope_scaling"),
    READ(ALL, "rope_parameters"),
    READ(ALL, "layer_types"),
    READ(ALL, "pooling"), /* anneal's own, of classifiers */
    READ(MISTRAL | QWEN, "sliding_window"),
    READ(QWEN, "use_sliding_window"),
    READ(QWEN, "max_window_layers"),
    READ(LLAMA | QWEN3, "attention_bias"),
    READ(LLAMA, "mlp_bias"),
    READ(QWEN3, "o_bias"), /* anneal's own */

    /* computed at one value only */
    ONLY(MISTRAL, "attention_bias", "false"),
    ONLY(QWEN2, "attention_bias", "true"), /* transformers has no such key: a Qwen2 has biases always */
    ONLY(MISTRAL | QWEN, "mlp_bias", "false"),
    ONLY(LLAMA | MISTRAL, "use_sliding_window", "false"),
    ONLY(ALL, "hidden_activation", "\"silu\""),
    {ALL, "pretraining_tp", "1", "a larger value only adds in another order: set it to 1"},
    ONLY(ALL, "partial_rotary_factor", "1"),
    ONLY(ALL, "rope_interleaved", "false"),
    ONLY(ALL, "use_mrope", "false"),
    ONLY(ALL, "logits_scaling", "1"),
    ONLY(ALL, "logit_scale", "1"),
    ONLY(ALL, "residual_multiplier", "1"),
    ONLY(ALL, "embedding_multiplier", "1"),
    ONLY(ALL, "is_encoder_decoder", "false"),
    ONLY(ALL, "add_cross_attention", "false"),
    ONLY(ALL, "tie_encoder_decoder", "false"),
    ONLY(ALL, "pruned_heads", "{}"),
    {ALL, "quantization_config", "null", "save the model in float32, bfloat16 or float16 first"},
    {ALL, "auto_map", "null", "the model brings its own code, which anneal does not run"},
};

/* Keys that change nothing, whatever their value, for all kinds. */
static const char *const harmless[] = {
    /* notes, and settings of other programs */
    "architectures",
    "transformers_version",
    "torch_dtype",
    "dtype",
    "use_bfloat16",
    "torchscript",
    "use_cache",
    "return_dict",
    "output_attentions",
    "output_hidden_states",
    "is_decoder",
    "is_llama_config",
    "keys_to_ignore_at_inference",
    "chunk_size_feed_forward",
    "tf_legacy_loss",
    "attn_implementation",
    "use_flash_attention",
    "use_flash_attn",
    "use_flash_attention_2",
    "gradient_checkpointing",
    "transformers.js_config",
    "unsloth_fixed",
    "unsloth_version",
    "max_sequence_length",
    "model_max_length",
    "tokenizer_model_max_length",
    "tokenizer_class",
    "prefix",
    /* how weights were made, and what only training reads */
    "initializer_range",
    "attention_dropout",
    "hidden_dropout",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "classifier_dropout",
    "dropout",
    "resid_pdrop",
    "embd_pdrop",
    "attn_pdrop",
    "neftune_noise_alpha",
    /* special tokens, labels of classes, and settings of text generation */
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "unk_token_id",
    "sep_token_id",
    "cls_token_id",
    "mask_token_id",
    "decoder_start_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "finetuning_task",
    "task_specific_params",
    "problem_type",
    "id2label",
    "label2id",
    "num_labels",
    "max_length",
    "min_length",
    "max_new_tokens",
    "do_sample",
    "early_stopping",
    "num_beams",
    "num_beam_groups",
    "num_return_sequences",
    "diversity_penalty",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    "repetition_penalty",
    "length_penalty",
    "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size",
    "bad_words_ids",
    "output_scores",
    "return_dict_in_generate",
    "remove_invalid_values",
    "exponential_decay_length_penalty",
    "suppress_tokens",
    "begin_suppress_tokens",
};

/* Here the bits of `kinds` are those of enum rope_scaling. */
enum {
    LINEAR = 1 << ROPE_LINEAR,
    LLAMA3 = 1 << ROPE_LLAMA3,
    YARN = 1 << ROPE_YARN,
    ANY_ROPE = 1 << ROPE_DEFAULT | LINEAR | LLAMA3 | YARN
};

static const struct known_key rope_keys[] = {
    READ(ANY_ROPE, "rope_type"),
    READ(ANY_ROPE, "type"),
    READ(ANY_ROPE, "rope_theta"),
    ONLY(ANY_ROPE, "partial_rotary_factor", "1"),
    READ(ANY_ROPE, "finetuned"),
    READ(LINEAR | LLAMA3 | YARN, "factor"),
    READ(LINEAR | LLAMA3 | YARN, "original_max_position_embeddings"), /* linear: not used */
    READ(LLAMA3, "low_freq_factor"),
    READ(LLAMA3, "high_freq_factor"),
    READ(YARN, "attention_factor"),
    READ(YARN, "beta_fast"),
    READ(YARN, "beta_slow"),
    READ(YARN, "mscale"),
    READ(YARN, "mscale_all_dim"),
    READ(YARN, "truncate"),
};

/* 1 and 1.0 are the same number. */
static bool is_value(const json_t *value, const char *text)
{
    json_t *wanted = json_loads(text, JSON_DECODE_ANY, NULL);
    bool same = json_is_number(wanted)
                    ? json_is_number(value) && json_number_value(value) == json_number_value(wanted)
                    : wanted && json_equal(value, wanted);
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
                        const struct known_key *known)
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

static bool is_harmless(const char *key)
{
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (strcmp(harmless[i], key) == 0) return true;
    return *key == '_';
}

static enum status check(const json_t *object, const struct known_key *list, size_t count, unsigned kind,
                         const char *of, const char *path, struct err *err)
{
    struct findings found = {.used = 0};
    char more[32] = "";
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        const struct known_key *known = NULL;
        for (size_t i = 0; !known && i < count; i++)
            if (list[i].kinds & kind && strcmp(list[i].key, key) == 0) known = &list[i];
        bool good = known ? !known->only || is_value(value, known->only) : is_harmless(key);
        if (!good && !json_is_null(value)) add_finding(&found, key, value, known);
    }
    if (!found.used && !found.left_out) return STATUS_OK;
    if (found.left_out) snprintf(more, sizeof more, " and %d more", found.left_out);
    return err_set(err, STATUS_USAGE,
                   "%s: %shas keys that could change what the model computes and that anneal does not "
                   "compute: %s%s; set a key to null if you know that it changes nothing",
                   path, of, found.text, more);
}

enum status hugging_face_check_keys(const json_t *config, enum model_kind kind, const char *path,
                                    struct err *err)
{
    return check(config, keys, sizeof keys / sizeof *keys, 1u << kind, "", path, err);
}

enum status hugging_face_check_rope_keys(const json_t *rope, enum rope_scaling scaling, const char *name,
                                         const char *path, struct err *err)
{
    char of[40];
    snprintf(of, sizeof of, "%.30s ", name);
    return check(rope, rope_keys, sizeof rope_keys / sizeof *rope_keys, 1u << scaling, of, path, err);
}
