/* See adapter.h. */
#include "core/model/adapter.h"

#include <math.h>
#include <string.h>

#include "core/base/text.h"

const struct adapter_names adapter_targets[] = {
#define TARGET_NAMES(name, word, module, block) [ADAPTER_##name] = {word, module, block},
    ADAPTER_TARGETS(TARGET_NAMES)
#undef TARGET_NAMES
};
_Static_assert(ADAPTER_DOWN + 1 == MODEL_TARGETS, "a bit for each in adapter_config.targets");

static bool is_word(const char *text, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(text, word, n) == 0;
}

enum status adapter_targets_read(const char *list, unsigned *out, struct err *err)
{
    unsigned all = (1u << MODEL_TARGETS) - 1;
    *out = 0;
    for (size_t length; *list; list += length) {
        list += strspn(list, ", ");
        length = strcspn(list, ", ");
        unsigned found = is_word(list, length, "all") ? all : 0;
        for (int i = 0; i < MODEL_TARGETS; i++)
            if (is_word(list, length, adapter_targets[i].word) ||
                is_word(list, length, adapter_targets[i].module))
                found = 1u << i;
        if (length && !found)
            return err_set(err, STATUS_USAGE,
                           "lora.targets: this model has no matrix %.*s (it has q, k, v, o, gate, up and "
                           "down; all means all of them)",
                           (int)length, list);
        *out |= found;
    }
    if (*out) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "lora.targets names no matrix (choose some of q, k, v, o, gate, up and down, or all)");
}

double adapter_scale(const struct adapter_config *c)
{
    return c->alpha / (c->rslora ? sqrt(c->rank) : c->rank);
}

/* ---- attaching ---- */

/* Adds the adapters of one projection, whose parts are `first` and the following targets. */
static enum status attach(struct model *model, struct linear *w, int layer, enum adapter_target first,
                          struct err *err)
{
    const struct adapter_config *c = &model->adapter;
    unsigned wanted = c->targets[layer] >> first & ((1u << w->count) - 1);
    if (!wanted) return STATUS_OK;
    struct adapter *adapter = arena_alloc_array(&model->arena, 1, sizeof *adapter);
    if (!adapter) return err_no_memory(err, "the adapters of layer %d", layer);
    *adapter =
        (struct adapter){.rank = c->rank, .scale = (float)adapter_scale(c), .dropout = (float)c->dropout};
    const struct adapter_names *names = &adapter_targets[first];
    int place = w->parts->place - param_place(layer, 0), row = 0;
    for (int i = 0; i < w->count; row += w->parts[i++].rows) {
        if (!(wanted >> i & 1)) continue;
        const struct param *a =
            model_append(model, adapter->count > 0, layer, place, c->rank, w->cols,
                         "model.layers.%d.%s.%s.lora_A.weight", layer, names[i].block, names[i].module);
        if (!adapter->count) adapter->a = (struct linear){.weight = w->weight, .parts = a, .cols = w->cols};
        adapter->first_row[adapter->count++] = row;
        adapter->a.count = adapter->count;
        adapter->a.rows = adapter->count * c->rank;
    }
    for (int i = 0, k = 0; i < w->count; i++) {
        if (!(wanted >> i & 1)) continue;
        adapter->b[k++] =
            model_append(model, false, layer, place, w->parts[i].rows, c->rank,
                         "model.layers.%d.%s.%s.lora_B.weight", layer, names[i].block, names[i].module);
    }
    if (adapter->a.rows > model->adapter_rows) model->adapter_rows = adapter->a.rows;
    w->adapter = adapter;
    return STATUS_OK;
}

bool adapter_trains(const struct model *model, const struct param *p)
{
    bool norm = !p->cols && !text_ends_with(p->name, ".bias");
    return param_is_adapter(p) || (norm && model->adapter.train_norms) ||
           (p == model->embed && model->adapter.train_embedding) ||
           (p == model->head.parts && (model->adapter.train_head || model->config.num_labels));
}

static bool is_base(const void *model, const struct param *param, enum element *element)
{
    *element = ELEMENT_FP32;
    return !adapter_trains(model, param);
}

enum status adapter_attach(struct model *model, const struct adapter_config *config, struct err *err)
{
    enum status status = STATUS_OK;
    model->adapter = *config;
    if (config->train_head && model->head.parts == model->embed)
        return err_set(err, STATUS_USAGE,
                       "lora.train_head: this model's head is its embedding (tie_weights), and training that "
                       "changes both (set lora.train_embedding instead)");
    for (int l = 0; l < model->config.num_layers && !status; l++) {
        struct layer_params *p = &model->layers[l];
        status = attach(model, &p->qkv, l, ADAPTER_Q, err);
        if (!status) status = attach(model, &p->o, l, ADAPTER_O, err);
        if (!status) status = attach(model, &p->gate_up, l, ADAPTER_GATE, err);
        if (!status) status = attach(model, &p->down, l, ADAPTER_DOWN, err);
    }
    if (!status && !model->adapter_rows)
        status = err_set(err, STATUS_USAGE,
                         "lora.layers: no layer of this model has an adapter (it has layers "
                         "0 to %d)",
                         model->config.num_layers - 1);
    if (!status) model_freeze(model, is_base, model);
    return status;
}
