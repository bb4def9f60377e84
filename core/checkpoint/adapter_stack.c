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

static const struct safetensor *find(const struct stacked_adapter *adapter, const char *param)
{
    char name[128];
    snprintf(name, sizeof name, ADAPTER_FILE_PREFIX "%s", param);
    return safetensors_find(&adapter->file, name);
}

const struct safetensor *adapter_stack_find(const struct adapter_stack *stack, const char *param)
{
    const struct safetensor *t = NULL;
    for (int i = 0; !t && i < stack->count; i++) t = find(&stack->adapters[i], param);
    return t;
}

/* Opens the file of a folder and checks it against the model with these adapters alone. */
static enum status open_one(struct stacked_adapter *adapter, const char *folder, const struct model *model,
                            struct err *err)
{
    struct model alone = {0};
    struct adapter_base named;
    enum status status = adapter_file_read(folder, &adapter->config, &named, err);
    if (!status) status = model_init(&alone, &model->config, err);
    if (!status && (status = adapter_attach(&alone, &adapter->config, err))) err_prefix(err, "%s", folder);
    alone.base = model->base;
    if (!status) status = checkpoint_open_weights(folder, &alone, &adapter->file, err);
    model_release(&alone);
    return status;
}

/* A parameter of the base may come with one of them alone. */
static enum status check_replacements(const struct adapter_stack *stack, const struct model *model,
                                      struct err *err)
{
    for (size_t k = 0; k < model->param_count; k++) {
        const char *name = model->params[k].name;
        const struct safetensor *t =
            param_is_adapter(&model->params[k]) ? NULL : adapter_stack_find(stack, name);
        for (int i = 0; t && i < stack->count; i++) {
            const struct safetensor *own = find(&stack->adapters[i], name);
            if (own && own != t)
                return err_set(err, STATUS_USAGE, "%s and %s both bring %s, of which the model has one",
                               t->path, own->path, name);
        }
    }
    return STATUS_OK;
}

enum status adapter_stack_open(struct adapter_stack *stack, const char *const *folders, int count,
                               const struct model *model, struct err *err)
{
    enum status status = STATUS_OK;
    *stack = (struct adapter_stack){0};
    for (int rows = 0; !status && stack->count < count; stack->count++) {
        struct stacked_adapter *adapter = &stack->adapters[stack->count];
        adapter->first = rows;
        status = open_one(adapter, folders[stack->count], model, err);
        rows += adapter->config.rank;
    }
    return status ? status : check_replacements(stack, model, err);
}

void adapter_stack_close(struct adapter_stack *stack)
{
    for (int i = 0; i < stack->count; i++) safetensors_close(&stack->adapters[i].file);
    *stack = (struct adapter_stack){0};
}

float *adapter_stack_matrix(const struct adapter_stack *stack, const struct param *p)
{
    float *values = calloc(p->count, sizeof *values);
    bool b = text_ends_with(p->name, ".lora_B.weight");
    for (int i = 0; values && i < stack->count; i++) {
        const struct stacked_adapter *adapter = &stack->adapters[i];
        const struct safetensor *t = find(adapter, p->name);
        size_t first = (size_t)adapter->first, cols = (size_t)p->cols;
        float scale = b && stack->count > 1 ? (float)adapter_scale(&adapter->config) : 1;
        for (size_t row = 0; t && row < (size_t)t->shape[0]; row++) {
            size_t n = (size_t)t->shape[1];
            float *to = values + (b ? row * cols + first : (first + row) * cols);
            safetensor_read(t, row * n, n, to);
            for (size_t col = 0; col < n; col++) to[col] *= scale;
        }
    }
    return values;
}

static enum status load_matrix(const struct adapter_stack *stack, struct network *net, const struct param *p,
                               struct err *err)
{
    float *values = adapter_stack_matrix(stack, p);
    enum status status = values ? network_write_parameter(net, p, 0, values, p->count, err)
                                : err_no_memory(err, "loading %s", p->name);
    free(values);
    return status;
}

/* A parameter of the base that was trained beside the adapters. */
static enum status load_replacement(const struct adapter_stack *stack, struct network *net,
                                    const struct param *p, struct err *err)
{
    const struct safetensor *t = adapter_stack_find(stack, p->name);
    if (!t) return STATUS_OK;
    float *values = malloc(PIECE * sizeof *values);
    enum status status = values ? STATUS_OK : err_no_memory(err, "loading %s", p->name);
    for (size_t at = 0; !status && at < p->count; at += PIECE) {
        size_t n = p->count - at < PIECE ? p->count - at : PIECE;
        safetensor_read(t, at, n, values);
        status = network_write_parameter(net, p, at, values, n, err);
    }
    free(values);
    return status;
}

enum status adapter_stack_load(const char *const *folders, int count, struct network *net, struct err *err)
{
    struct adapter_stack stack;
    const struct model *model = net->model;
    if (count == 1) return checkpoint_load_weights(folders[0], net, err);
    enum status status = adapter_stack_open(&stack, folders, count, model, err);
    for (size_t i = 0; i < model->param_count && !status; i++)
        status = (param_is_adapter(&model->params[i]) ? load_matrix : load_replacement)(
            &stack, net, &model->params[i], err);
    if (!status) network_weights_written(net);
    adapter_stack_close(&stack);
    return status;
}
