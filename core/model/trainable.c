/* See trainable.h. */
#include "core/model/trainable.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/model/adapter.h"
#include "core/model/adapter_file.h"
#include "core/model/config.h"
#include "core/model/hugging_face.h"

static bool is_same(const struct config *a, const struct config *b, const char *key)
{
    char of_a[CONFIG_TEXT_MAX], of_b[CONFIG_TEXT_MAX];
    return config_get(a, key, of_a, sizeof of_a) && config_get(b, key, of_b, sizeof of_b) &&
           strcmp(of_a, of_b) == 0;
}

/* Refuses keys that have an effect only with lora.rank. */
static enum status refuse_idle_keys(const struct config *config, struct err *err)
{
    static const char *const keys[] = {
        "lora.targets",     "lora.layers",     "lora.dropout",         "lora.rslora", "lora.base",
        "lora.train_norms", "lora.train_head", "lora.train_embedding", "lora.from",   "lora.alpha"};
    struct config defaults;
    config_init(&defaults);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!is_same(config, &defaults, keys[i]))
            return err_set(err, STATUS_USAGE,
                           "%s has no effect with lora.rank = 0, which trains all parameters (set lora.rank, "
                           "for example to 16)",
                           keys[i]);
    return STATUS_OK;
}

static enum status read_lora(const struct config *c, struct adapter_config *out, struct err *err)
{
    int layers = c->model.sizes.num_layers;
    unsigned targets = 0;
    *out = (struct adapter_config){.rank = (int)c->lora.rank,
                                   .alpha = c->lora.alpha,
                                   .dropout = c->lora.dropout,
                                   .rslora = c->lora.rslora,
                                   .train_norms = c->lora.train_norms,
                                   .train_head = c->lora.train_head,
                                   .train_embedding = c->lora.train_embedding};
    enum status status = adapter_targets_read(c->lora.targets, &targets, err);
    if (!status) status = model_list_check(c->lora.layers, layers, "lora.layers", err);
    for (int l = 0; !status && l < layers; l++)
        if (!*c->lora.layers || model_list_names(c->lora.layers, l)) out->targets[l] = (uint8_t)targets;
    return status;
}

/* Of adapters to train: loaded ones may exceed it, and several added up often do. */
static enum status check_rank(const struct model *model, struct err *err)
{
    for (size_t i = 0; i < model->param_count; i++) {
        const struct param *p = &model->params[i]; /* A (rank, columns) or B (rows, rank) of a matrix */
        int rank = model->adapter.rank, side = p->rows == rank ? p->cols : p->rows;
        if (!param_is_adapter(p) || rank <= side) continue;
        return err_set(err, STATUS_USAGE, "lora.rank = %d: is more than a side of the matrix %.*s, %d", rank,
                       (int)(strstr(p->name, ".lora_") - p->name), p->name, side);
    }
    return STATUS_OK;
}

/* Notes the base and opens its weights; a folder with config.json alone is enough for an estimate. */
static enum status read_base(struct model *model, const char *folder, struct safetensors *file,
                             struct storage *storage, struct err *err)
{
    snprintf(model->base.folder, sizeof model->base.folder, "%s", folder);
    enum status status = safetensors_open_folder(folder, file, err);
    if (status) return status == STATUS_NOT_FOUND ? STATUS_OK : status;
    storage->file = file;
    model->base.hash = adapter_base_hash(file);
    return STATUS_OK;
}

enum status trainable_choose(struct model *model, const struct config *c, enum element computed, bool mixes,
                             struct err *err)
{
    struct storage storage = {.computed = computed};
    struct safetensors file = {0};
    struct adapter_config lora;
    enum status status = c->lora.rank ? read_lora(c, &lora, err) : refuse_idle_keys(c, err);
    if (c->lora.rank) {
        if (!status) status = adapter_attach(model, &lora, err);
        if (!status) status = check_rank(model, err);
        storage = (struct storage){NULL, computed, mixes, c->lora.base, c->lora.double_quant};
        if (!status) status = storage_check(&storage, err);
        if (!status && *c->model.from) status = read_base(model, c->model.from, &file, &storage, err);
    }
    if (!status) status = param_groups_freeze(&c->groups, c->train.optimizer, model, &storage, err);
    safetensors_close(&file);
    return status;
}

/* ---- beginning with adapters ---- */

/* Sets a key that has its default; any other value has to be the same. */
static enum status follow(struct config *config, const char *key, const char *value, struct err *err)
{
    struct config wanted = *config, defaults;
    char word[CONFIG_TEXT_MAX + CONFIG_KEY_MAX], now[CONFIG_TEXT_MAX], theirs[CONFIG_TEXT_MAX];
    snprintf(word, sizeof word, "%s=%s", key, value);
    enum status status = config_read_word(&wanted, word, err);
    if (status) return status;
    config_init(&defaults);
    config_get(config, key, now, sizeof now);
    config_get(&wanted, key, theirs, sizeof theirs);
    if (!is_same(config, &defaults, key) && !is_same(config, &wanted, key))
        return err_set(err, STATUS_USAGE, "%s = %.80s: the adapters in %.120s have %.80s (leave it out)", key,
                       now, config->lora.from, theirs);
    *config = wanted;
    return STATUS_OK;
}

/* The layers with adapters as a list, "" for all; STATUS_USAGE if they have not the same targets. */
static enum status list_layers(const struct adapter_config *a, int layers, unsigned *targets, char *buf,
                               size_t size, struct err *err)
{
    bool all = true;
    *targets = 0;
    *buf = '\0';
    for (int l = 0; l < layers; l++) {
        all = all && a->targets[l];
        if (!a->targets[l]) continue;
        if (*targets && *targets != a->targets[l])
            return err_set(err, STATUS_USAGE,
                           "lora.from: layer %d has adapters beside other matrices than the layers before, "
                           "which can be used and merged, but not trained on",
                           l);
        *targets = a->targets[l];
        text_add(buf, size, ",", "%d", l);
    }
    if (all) *buf = '\0';
    return STATUS_OK;
}

/* Sets the key that trains a parameter of this name in the file, which is not of an adapter. */
static enum status follow_name(struct config *config, const char *name, bool head, struct err *err)
{
    static const struct {
        const char *ending, *key;
    } parts[] = {{"norm.weight", "lora.train_norms"},
                 {"lm_head.weight", "lora.train_head"},
                 {"embed_tokens.weight", "lora.train_embedding"}};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        if (text_ends_with(name, parts[k].ending))
            return k == 1 && !head ? STATUS_OK : follow(config, parts[k].key, "true", err);
    if (text_ends_with(name, ".score.weight")) return STATUS_OK; /* a classifier's head is always trained */
    return err_set(
        err, STATUS_USAGE,
        "lora.from: brings %.90s, which can be used and merged, but not trained on (only norms, head "
        "and embedding are trained beside adapters)",
        name);
}

/* Sets lora.train_norms, train_head and train_embedding by the names in the file. */
static enum status follow_names(struct config *config, const char *folder, bool tied, struct err *err)
{
    char path[CONFIG_TEXT_MAX + 32];
    struct safetensors file = {0};
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", folder);
    enum status status = safetensors_open(path, &file, err);
    bool embedding = !status && safetensors_find(&file, ADAPTER_FILE_PREFIX "model.embed_tokens.weight");
    for (size_t i = 0; !status && i < file.count; i++) /* a head that is the embedding is there once more */
        if (!strstr(file.tensors[i].name, ".lora_"))
            status = follow_name(config, file.tensors[i].name, !(tied && embedding), err);
    safetensors_close(&file);
    return status;
}

/* Sets classifier.pooling, if the adapters make a classifier and come with its config.json. */
static enum status follow_classifier(struct config *config, const char *folder, struct err *err)
{
    struct model_config own = {0};
    if (!file_exists_in(folder, "config.json")) return STATUS_OK;
    enum status status = hugging_face_read_config(folder, &own, err);
    if (status || !own.num_labels) return status;
    return follow(config, "classifier.pooling", pooling_word(own.pooling), err);
}

/* Adapters in model.from are the value of lora.from, which may not name others. */
static enum status name_adapters(struct config *config, struct err *err)
{
    char *name = config->lora.from, theirs[PATH_MAX], others[PATH_MAX];
    const char *from = config->model.from;
    bool same = !*name || (realpath(from, theirs) && realpath(name, others) && strcmp(theirs, others) == 0);
    if (!same)
        return err_set(
            err, STATUS_USAGE,
            "model.from = %.120s: holds adapters itself, so lora.from = %.120s cannot add others (set "
            "model.from to the base of the adapters to train, or leave lora.from out)",
            from, name);
    strcpy(name, from);
    return STATUS_OK;
}

static enum status find_base(struct config *config, const struct adapter_base *named, struct err *err)
{
    if (strlen(named->folder) < sizeof config->model.from && file_exists_in(named->folder, "config.json")) {
        strcpy(config->model.from, named->folder);
        return STATUS_OK;
    }
    return err_set(
        err, STATUS_NOT_FOUND,
        "model.from = %.200s: are adapters, whose base \"%.200s\" is not a model's folder here (set "
        "model.from to the base and lora.from to the adapters)",
        config->lora.from, CLEAN_LINE(named->folder));
}

enum status trainable_follow_adapters(struct config *config, struct err *err)
{
    char path[CONFIG_TEXT_MAX + 32], value[CONFIG_TEXT_MAX], number[32];
    struct adapter_config a;
    struct adapter_base named;
    struct model_config sizes;
    unsigned targets;
    bool alone = adapter_file_exists(config->model.from);
    const char *folder = config->lora.from;
    enum status status = alone ? name_adapters(config, err) : STATUS_OK;
    if (status || !*folder || !file_exists(folder)) return status;
    status = adapter_file_require(folder, err);
    if (status) return err_prefix(err, "lora.from");
    if (!*config->model.from)
        return err_set(
            err, STATUS_USAGE,
            "lora.from = %.120s: model.from must name the base of these adapters (or leave lora.from out "
            "and set model.from = %.120s, which finds the base)",
            folder, folder);
    status = adapter_file_read(folder, &a, &named, err);
    if (!status && alone) status = find_base(config, &named, err);
    if (!status) status = hugging_face_read_config(config->model.from, &sizes, err);
    if (!status) status = list_layers(&a, sizes.num_layers, &targets, value, sizeof value, err);
    if (!status) status = follow(config, "lora.layers", value, err);
    *value = '\0';
    for (int i = 0; !status && i < MODEL_TARGETS; i++)
        if (targets >> i & 1) text_add(value, sizeof value, ",", "%s", adapter_targets[i].word);
    if (!status) status = follow(config, "lora.targets", value, err);
    snprintf(number, sizeof number, "%d", a.rank);
    if (!status) status = follow(config, "lora.rank", number, err);
    if (!status)
        status = follow(config, "lora.alpha", text_format_double(a.alpha, number, sizeof number), err);
    if (!status) status = follow(config, "lora.rslora", a.rslora ? "true" : "false", err);
    if (!status && config->lora.dropout == 0) config->lora.dropout = a.dropout;
    if (!status) status = follow_names(config, folder, sizes.tie_weights, err);
    if (!status) status = follow_classifier(config, folder, err);
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    if (!status && file_exists(path)) follow(config, "data.tokenizer", path, NULL);
    return status;
}
