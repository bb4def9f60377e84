/* See trainable.h. */
#include "core/model/trainable.h"

#include <stdio.h>
#include <string.h>

#include "core/model/adapter.h"
#include "core/model/adapter_file.h"
#include "core/model/config.h"

/* A key of [lora] that has an effect only with a rank. */
static const char *idle_key(const struct config *c)
{
    if (strcmp(c->lora.targets, "q,v") != 0) return "targets";
    if (*c->lora.layers) return "layers";
    if (c->lora.dropout > 0) return "dropout";
    if (c->lora.rslora) return "rslora";
    if (c->lora.base != LORA_BASE_AUTO) return "base";
    if (c->lora.train_norms) return "train_norms";
    if (c->lora.train_head) return "train_head";
    if (c->lora.train_embedding) return "train_embedding";
    return c->lora.alpha != 16 ? "alpha" : NULL;
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
    if (status) return status;
    if (!model_list_is_valid(c->lora.layers, layers))
        return err_set(
            err, STATUS_USAGE,
            "lora.layers = %.80s: must be numbers and ranges of layers in ascending order with commas "
            "between, such as 0-3,7, from 0 to model.num_layers - 1 = %d",
            c->lora.layers, layers - 1);
    for (int l = 0; l < layers; l++)
        if (!*c->lora.layers || model_list_names(c->lora.layers, l)) out->targets[l] = (uint8_t)targets;
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
    const char *idle = c->lora.rank ? NULL : idle_key(c);
    enum status status = STATUS_OK;
    if (idle)
        return err_set(
            err, STATUS_USAGE,
            "lora.%s has no effect with lora.rank = 0, which trains all parameters (set lora.rank, "
            "for example to 16)",
            idle);
    if (c->lora.rank) {
        status = read_lora(c, &lora, err);
        if (!status) status = adapter_attach(model, &lora, err);
        storage = (struct storage){NULL, computed, mixes, c->lora.base, c->lora.double_quant};
        if (!status) status = storage_check(&storage, err);
        if (!status && *c->model.from) status = read_base(model, c->model.from, &file, &storage, err);
    }
    if (!status) status = param_groups_freeze(&c->groups, model, &storage, err);
    safetensors_close(&file);
    return status;
}
