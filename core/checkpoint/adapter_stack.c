/* See adapter_stack.h. */
#include "core/checkpoint/adapter_stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/checkpoint/checkpoint.h"
#include "core/model/adapter.h"
#include "core/model/adapter_file.h"

enum { PIECE = 1 << 18 }; /* elements that are uploaded at a time */

/* The adapters of one folder. */
struct layer_of_stack {
    struct adapter_config config;
    struct safetensors file;
    int first; /* of its rows of A and columns of B */
};

enum status adapter_stack_read(const char *const *folders, int count, struct adapter_config *out,
                               struct err *err)
{
    struct adapter_base named;
    enum status status = adapter_file_read(folders[0], out, &named, err);
    for (int i = 1; i < count && !status; i++) {
        struct adapter_config next;
        status = adapter_file_read(folders[i], &next, &named, err);
        out->rank += next.rank;
        out->alpha = out->rank;
        out->rslora = false;
        for (int l = 0; l < MODEL_LAYERS_MAX; l++) out->targets[l] |= next.targets[l];
    }
    return status;
}

/* Opens the file of a folder and checks it against the model with these adapters alone. */
static enum status open_layer(struct layer_of_stack *layer, const char *folder, const struct model *model,
                              struct err *err)
{
    struct model alone = {0};
    struct adapter_base named;
    enum status status = adapter_file_read(folder, &layer->config, &named, err);
    if (!status) status = model_init(&alone, &model->config, err);
    if (!status && (status = adapter_attach(&alone, &layer->config, err))) err_prefix(err, "%s", folder);
    alone.base = model->base;
    if (!status) status = checkpoint_open_weights(folder, &alone, &layer->file, err);
    model_release(&alone);
    return status;
}

static const struct safetensor *find(const struct layer_of_stack *layer, const struct param *p)
{
    char name[96];
    snprintf(name, sizeof name, ADAPTER_FILE_PREFIX "%s", p->name);
    return safetensors_find(&layer->file, name);
}

/* A or B of all layers as one matrix (rows, cols) of the network's parameter. */
static enum status load_matrix(const struct layer_of_stack *layers, int count, struct network *net,
                               const struct param *p, struct err *err)
{
    float *values = calloc(p->count, sizeof *values);
    bool b = text_ends_with(p->name, ".lora_B.weight");
    if (!values) return err_no_memory(err, "loading %s", p->name);
    for (int i = 0; i < count; i++) {
        const struct safetensor *t = find(&layers[i], p);
        size_t first = (size_t)layers[i].first, cols = (size_t)p->cols;
        float scale = b ? (float)adapter_scale(&layers[i].config) : 1;
        for (size_t row = 0; t && row < (size_t)t->shape[0]; row++)
            for (size_t col = 0, n = (size_t)t->shape[1]; col < n; col++)
                values[b ? row * cols + first + col : (first + row) * cols + col] =
                    scale * safetensor_number(t, row * n + col);
    }
    enum status status = network_write_parameter(net, p, 0, values, p->count, err);
    free(values);
    return status;
}

/* A parameter of the base that was trained beside the adapters of at most one layer. */
static enum status load_replacement(const struct layer_of_stack *layers, int count, struct network *net,
                                    const struct param *p, struct err *err)
{
    const struct safetensor *t = NULL;
    for (int i = 0; i < count; i++) {
        const struct safetensor *own = find(&layers[i], p);
        if (own && t)
            return err_set(err, STATUS_USAGE, "%s and %s both bring %s, of which the model has one", t->path,
                           own->path, p->name);
        if (own) t = own;
    }
    if (!t) return STATUS_OK;
    float *values = malloc(PIECE * sizeof *values);
    enum status status = values ? STATUS_OK : err_no_memory(err, "loading %s", p->name);
    for (size_t at = 0; !status && at < p->count; at += PIECE) {
        size_t n = p->count - at < PIECE ? p->count - at : PIECE;
        for (size_t i = 0; i < n; i++) values[i] = safetensor_number(t, at + i);
        status = network_write_parameter(net, p, at, values, n, err);
    }
    free(values);
    return status;
}

enum status adapter_stack_load(const char *const *folders, int count, struct network *net, struct err *err)
{
    struct layer_of_stack layers[ADAPTER_STACK_MAX] = {0};
    const struct model *model = net->model;
    enum status status = STATUS_OK;
    if (count == 1) return checkpoint_load_weights(folders[0], net, err);
    for (int i = 0, rows = 0; i < count && !status; rows += layers[i++].config.rank) {
        layers[i].first = rows;
        status = open_layer(&layers[i], folders[i], model, err);
    }
    for (size_t i = 0; i < model->param_count && !status; i++)
        status = (param_is_adapter(&model->params[i]) ? load_matrix : load_replacement)(
            layers, count, net, &model->params[i], err);
    if (!status) network_weights_written(net);
    for (int i = 0; i < count; i++) safetensors_close(&layers[i].file);
    return status;
}
