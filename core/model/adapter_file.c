/* See adapter_file.h. */
#include "core/model/adapter_file.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <xxhash.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/model/adapter.h"
#include "core/model/hugging_face.h"
#include "core/model/hugging_face_keys.h"
#include "datasets/json_file.h"

enum { SAMPLE_BYTES = 4096, PATH_SIZE = PATH_MAX + 64 };

/* ---- the base ---- */

static int by_name(const void *a, const void *b)
{
    const struct safetensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static void hash_tensor(XXH64_state_t *state, const struct safetensor *t)
{
    const unsigned char *data = t->data;
    size_t middle = t->bytes / 2, most = SAMPLE_BYTES;
    XXH64_update(state, t->name, strlen(t->name) + 1);
    XXH64_update(state, t->dtype, strlen(t->dtype) + 1);
    XXH64_update(state, t->shape, (size_t)t->dims * sizeof *t->shape);
    XXH64_update(state, data, t->bytes < most ? t->bytes : most);
    XXH64_update(state, data + middle, t->bytes - middle < most ? t->bytes - middle : most);
}

uint64_t adapter_base_hash(const struct safetensors *file)
{
    const struct safetensor **order = calloc(file->count + 1, sizeof *order);
    XXH64_state_t *state = order ? XXH64_createState() : NULL;
    uint64_t hash = 0;
    if (state) {
        for (size_t i = 0; i < file->count; i++) order[i] = &file->tensors[i];
        qsort(order, file->count, sizeof(struct safetensor *), by_name);
        XXH64_reset(state, 0);
        for (size_t i = 0; i < file->count; i++) hash_tensor(state, order[i]);
        hash = XXH64_digest(state);
    }
    XXH64_freeState(state);
    free(order);
    return hash ? hash : 1;
}

/* ---- writing ---- */

/* Appends the words of the targets that any layer has. */
static json_t *target_modules(const struct model *model)
{
    unsigned any = 0;
    json_t *list = json_array();
    for (int l = 0; l < model->config.num_layers; l++) any |= model->adapter.targets[l];
    for (int i = 0; i < MODEL_TARGETS; i++)
        if (any >> i & 1) json_array_append_new(list, json_string(adapter_targets[i].module));
    return list;
}

/* The layers with adapters; null if all have them. */
static json_t *layers_to_transform(const struct model *model)
{
    json_t *list = json_array();
    int layers = model->config.num_layers;
    for (int l = 0; l < layers; l++)
        if (model->adapter.targets[l]) json_array_append_new(list, json_integer(l));
    if ((int)json_array_size(list) < layers) return list;
    json_decref(list);
    return json_null();
}

/* The modules that are trained beside the adapters, in peft's words; null if there are none. */
static json_t *modules_to_save(const struct model *model)
{
    const struct model_config *c = &model->config;
    json_t *list = json_array();
    if (model->adapter.train_norms) {
        json_array_append_new(list, json_string("input_layernorm"));
        json_array_append_new(list, json_string("post_attention_layernorm"));
        if (c->qk_norm) json_array_append_new(list, json_string("q_norm"));
        if (c->qk_norm) json_array_append_new(list, json_string("k_norm"));
        json_array_append_new(list, json_string("norm"));
    }
    if (c->num_labels || model->adapter.train_head)
        json_array_append_new(list, json_string(c->num_labels ? "score" : "lm_head"));
    if (model->adapter.train_embedding) json_array_append_new(list, json_string("embed_tokens"));
    if (json_array_size(list)) return list;
    json_decref(list);
    return json_null();
}

/* Whole where it is whole: peft declares lora_alpha as int. */
static json_t *alpha_number(double alpha)
{
    return alpha == floor(alpha) && alpha < 0x1p53 ? json_integer((json_int_t)alpha) : json_real(alpha);
}

enum status adapter_file_write(const struct model *model, const char *path, struct err *err)
{
    const struct adapter_config *a = &model->adapter;
    json_t *json = json_pack(
        "{s:s, s:s, s:s, s:i, s:o, s:f, s:b, s:s, s:o, s:o, s:o, s:b, s:b, s:b, s:b, s:n}", "peft_type",
        "LORA", "task_type", model->config.num_labels ? "SEQ_CLS" : "CAUSAL_LM", "base_model_name_or_path",
        model->base.folder, "r", a->rank, "lora_alpha", alpha_number(a->alpha), "lora_dropout", a->dropout,
        "use_rslora", a->rslora, "bias", "none", "target_modules", target_modules(model),
        "layers_to_transform", layers_to_transform(model), "modules_to_save", modules_to_save(model),
        "ensure_weight_tying", a->train_embedding && model->head.parts == model->embed, "fan_in_fan_out",
        false, "inference_mode", true, "init_lora_weights", true, "layers_pattern");
    return json_file_write(path, json, JSON_INDENT(2) | JSON_SORT_KEYS, err);
}

/* ---- reading ---- */

bool adapter_file_exists(const char *folder)
{
    return file_exists_in(folder, "adapter_config.json");
}

enum status adapter_file_require(const char *folder, struct err *err)
{
    if (adapter_file_exists(folder)) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "%s: holds no adapters (there is no adapter_config.json)", folder);
}

/* The methods of init_lora_weights that also change the base's weights: the adapters belong to that model. */
static bool changes_base(const char *method)
{
    static const char *const words[] = {"pissa", "olora", "loftq", "corda", "lora_ga"};
    for (size_t i = 0; method && i < sizeof words / sizeof *words; i++)
        if (strncmp(method, words[i], strlen(words[i])) == 0) return true;
    return false;
}

/* A number of the file, or `otherwise`; NaN if it is no number. */
static double number(const json_t *json, const char *key, double otherwise)
{
    const json_t *value = json_object_get(json, key);
    if (!value || json_is_null(value)) return otherwise;
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static enum status read_numbers(const char *path, const json_t *json, struct adapter_config *out,
                                struct err *err)
{
    double rank = number(json, "r", 8), alpha = number(json, "lora_alpha", 8),
           dropout = number(json, "lora_dropout", 0);
    const json_t *rslora = json_object_get(json, "use_rslora");
    if (!(rank >= 1 && rank <= 4096) || rank != floor(rank))
        return err_set(err, STATUS_USAGE, "%s: r is %g, must be a whole number from 1 to 4096", path, rank);
    if (!(alpha > 0) || isinf(alpha))
        return err_set(err, STATUS_USAGE, "%s: lora_alpha is %g, must be a positive number", path, alpha);
    if (!(dropout >= 0 && dropout < 1))
        return err_set(err, STATUS_USAGE, "%s: lora_dropout is %g, must be at least 0 and below 1", path,
                       dropout);
    if (rslora && !json_is_boolean(rslora) && !json_is_null(rslora))
        return err_set(err, STATUS_USAGE, "%s: use_rslora must be true or false", path);
    const char *method = json_string_value(json_object_get(json, "init_lora_weights"));
    if (changes_base(method))
        return err_set(
            err, STATUS_USAGE,
            "%s: init_lora_weights is \"%.20s\", which changed the base, too: save the adapters with "
            "peft's path_initial_model_for_weight_conversion first",
            path, method);
    out->rank = (int)rank;
    out->alpha = alpha;
    out->dropout = dropout;
    out->rslora = json_is_true(rslora);
    return STATUS_OK;
}

/* The object in adapter_config.json of a folder, which the caller releases in any case. */
static enum status open_config(const char *folder, char path[PATH_SIZE], json_t **out, struct err *err)
{
    snprintf(path, PATH_SIZE, "%s/adapter_config.json", folder);
    return json_file_read(path, JSON_REJECT_DUPLICATES, out, err);
}

static enum status read_config(const char *folder, struct adapter_config *out, struct adapter_base *base,
                               struct err *err)
{
    char path[PATH_SIZE];
    const char *name;
    json_t *json;
    enum status status = open_config(folder, path, &json, err);
    if (!status) status = hugging_face_check_adapter_keys(json, path, err);
    if (!status) status = read_numbers(path, json, out, err);
    name = json_string_value(json_object_get(json, "base_model_name_or_path"));
    if (!status && name && strlen(name) >= sizeof base->folder)
        status = err_set(err, STATUS_USAGE, "%s: base_model_name_or_path is longer than %zu bytes", path,
                         sizeof base->folder - 1);
    if (!status && name && !imported_model_find(name, base->folder, sizeof base->folder))
        snprintf(base->folder, sizeof base->folder, "%s", name);
    json_decref(json);
    return status;
}

/* The adapted matrix of a tensor "…model.layers.3.self_attn.q_proj.lora_A.weight"; -1: it is none. */
static int read_name(const char *name, int *layer)
{
    char block[16], module[16], which;
    int used = 0;
    if (sscanf(name, ADAPTER_FILE_PREFIX "model.layers.%4d.%15[a-z_].%15[a-z_].lora_%c.weight%n", layer,
               block, module, &which, &used) != 4 ||
        !used || name[used] || *layer < 0 || *layer >= MODEL_LAYERS_MAX || (which != 'A' && which != 'B'))
        return -1;
    for (int i = 0; i < MODEL_TARGETS; i++)
        if (strcmp(module, adapter_targets[i].module) == 0 && strcmp(block, adapter_targets[i].block) == 0)
            return i;
    return -1;
}

static enum status read_names(const struct safetensors *file, struct adapter_config *out, struct err *err)
{
    for (size_t i = 0; i < file->count; i++) {
        const char *name = file->tensors[i].name;
        int layer, target = read_name(name, &layer);
        if (target >= 0)
            out->targets[layer] |= (uint8_t)(1u << target);
        else if (strstr(name, "lora_"))
            return err_set(err, STATUS_USAGE,
                           "%s: has adapters %.90s, but anneal has them only beside q, k, v, o, gate, up and "
                           "down of a layer (peft's merge_and_unload adds them to the base)",
                           file->path, name);
    }
    return STATUS_OK;
}

enum status adapter_file_read(const char *folder, struct adapter_config *out, struct adapter_base *base,
                              struct err *err)
{
    char path[PATH_SIZE];
    struct safetensors file = {0};
    *out = (struct adapter_config){0};
    *base = (struct adapter_base){0};
    enum status status = read_config(folder, out, base, err);
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", folder);
    if (!status && !file_exists(path) && file_exists_in(folder, "adapter_model.bin"))
        status =
            err_set(err, STATUS_NOT_FOUND,
                    "%s: has adapter_model.bin, which is not read (save_pretrained of peft writes it anew as "
                    "adapter_model.safetensors)",
                    folder);
    if (!status) status = safetensors_open(path, &file, err);
    if (!status) status = read_names(&file, out, err);
    if (!status && file.base) base->hash = strtoull(file.base, NULL, 16);
    safetensors_close(&file);
    return status;
}

/* ---- whether the adapters are for this model ---- */

/* peft trains the embedding of such a model alone, and leaves its head as it was, unless ensure_weight_tying
 * is set. */
static enum status check_tying(const char *path, const json_t *json, const struct model *model,
                               struct err *err)
{
    const json_t *modules = json_object_get(json, "modules_to_save");
    bool embedding = false;
    for (size_t i = 0; i < json_array_size(modules); i++) {
        const char *module = json_string_value(json_array_get(modules, i));
        embedding = embedding || (module && text_ends_with(module, "embed_tokens"));
    }
    if (!embedding || model->head.parts != model->embed ||
        json_is_true(json_object_get(json, "ensure_weight_tying")))
        return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "%s: modules_to_save has embed_tokens without ensure_weight_tying, so the head is not the "
                   "embedding any more, as it is in this model (train them together with "
                   "ensure_weight_tying)",
                   path);
}

/* The model_type of the base: from its config.json if that is on this machine, else from the class in
 * auto_mapping, such as Qwen3ForCausalLM, which peft writes for some tasks. "": unknown. */
static void read_type(const json_t *json, char *type, size_t size)
{
    char folder[sizeof(struct adapter_base){0}.folder];
    const char *name = json_string_value(json_object_get(json, "base_model_name_or_path"));
    const char *class =
        json_string_value(json_object_get(json_object_get(json, "auto_mapping"), "base_model_class"));
    *type = '\0';
    if (name && !imported_model_find(name, folder, sizeof folder))
        snprintf(folder, sizeof folder, "%s", name);
    if (name && hugging_face_read_type(folder, type, size)) return;
    for (int k = MODEL_AUTO + 1; class && k < MODEL_KINDS; k++) {
        const char *word = model_kind_word((enum model_kind)k);
        if (strncasecmp(class, word, strlen(word)) == 0 && strncmp(class + strlen(word), "For", 3) == 0)
            snprintf(type, size, "%s", word);
    }
}

static enum status check_type(const char *path, const json_t *json, const struct model *model,
                              struct err *err)
{
    char type[64];
    const char *word = model_kind_word(model_kind_of(&model->config));
    read_type(json, type, sizeof type);
    if (!*type || strcmp(type, word) == 0) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "%s: these adapters were trained on a model of the type %s, but %.200s is of the type %s "
                   "(name the model that they were trained on)",
                   path, CLEAN_LINE(type), *model->base.folder ? model->base.folder : "this model", word);
}

enum status adapter_file_check(const char *folder, const struct model *model, struct err *err)
{
    char path[PATH_SIZE];
    json_t *json;
    enum status status = open_config(folder, path, &json, err);
    if (!status) status = check_type(path, json, model, err);
    if (!status) status = check_tying(path, json, model, err);
    json_decref(json);
    return status;
}
