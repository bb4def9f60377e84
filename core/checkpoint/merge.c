/* See merge.h. */
#include "core/checkpoint/merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/half.h"
#include "core/base/text.h"
#include "core/checkpoint/checkpoint.h"
#include "core/model/adapter.h"
#include "core/model/adapter_file.h"
#include "core/model/hugging_face.h"

struct merging {
    struct model model;
    bool new_head; /* the adapters make a classifier of a language model */
    struct safetensors base, adapters;
    struct safetensor *tensors; /* `count` to write, whose data are those of base or adapters; owned */
    size_t count;
    float *a, *b, *row; /* of the tensor that is written: (rank, columns), (rows, rank), (columns) */
    const struct safetensor *current; /* whose A and B are in a and b; of the tensors */
    struct progress_meter meter;
};

static bool is_narrow(const struct safetensor *t)
{
    return strcmp(t->dtype, "F32") != 0;
}

static void write_number(const struct safetensor *t, unsigned char *out, size_t i, float value)
{
    uint16_t narrow = *t->dtype == 'F' ? f16_of_float(value) : bf16_of_float(value);
    if (is_narrow(t))
        memcpy(out + 2 * i, &narrow, sizeof narrow);
    else
        memcpy(out + 4 * i, &value, sizeof value);
}

/* The tensor of the adapters' file with this name and ending in place of the name's last `cut` bytes. */
static const struct safetensor *beside(const struct merging *m, const char *name, size_t cut,
                                       const char *ending)
{
    char full[128];
    snprintf(full, sizeof full, ADAPTER_FILE_PREFIX "%.*s%s", (int)(strlen(name) - cut), name, ending);
    return safetensors_find(&m->adapters, full);
}

static const struct safetensor *matrix_beside(const struct merging *m, const struct safetensor *t,
                                              const char *ending)
{
    size_t length = strlen(t->name), cut = strlen(".weight");
    return length > cut ? beside(m, t->name, cut, ending) : NULL;
}

/* The trained tensor that replaces t; NULL: t was not trained. A head that is a copy of the embedding is
 * replaced when the embedding is. */
static const struct safetensor *replacement(const struct merging *m, const struct safetensor *t)
{
    bool head = m->model.head.parts == m->model.embed && strcmp(t->name, "lm_head.weight") == 0;
    return beside(m, head ? m->model.embed->name : t->name, 0, "");
}

static float *widened(const struct safetensor *t)
{
    size_t count = (size_t)t->shape[0] * (size_t)t->shape[1];
    float *out = malloc(count * sizeof *out);
    for (size_t i = 0; out && i < count; i++) out[i] = safetensor_number(t, i);
    return out;
}

/* Prepares for the tensor t; *adapted: it has adapters. */
static enum status take_adapters(struct merging *m, const struct safetensor *t, bool *adapted,
                                 struct err *err)
{
    const struct safetensor *a = matrix_beside(m, t, ".lora_A.weight"),
                            *b = matrix_beside(m, t, ".lora_B.weight");
    *adapted = a && b;
    if (!*adapted || m->current == t) return STATUS_OK;
    free(m->a), free(m->b), free(m->row);
    m->current = t;
    m->a = widened(a);
    m->b = widened(b);
    m->row = malloc((size_t)t->shape[1] * sizeof *m->row);
    return m->a && m->b && m->row ? STATUS_OK : err_no_memory(err, "merging %s", t->name);
}

/* Writes elements [first, first + count) of W + scale · B A, in the type of the tensor t. */
static void merge_range(struct merging *m, const struct safetensor *t, size_t first, size_t count,
                        unsigned char *out)
{
    size_t columns = (size_t)t->shape[1], rank = (size_t)m->model.adapter.rank;
    float scale = (float)adapter_scale(&m->model.adapter);
    for (size_t at = first; at < first + count;) {
        size_t row = at / columns, from = at % columns, to = columns;
        if (to - from > first + count - at) to = from + (first + count - at);
        memset(m->row, 0, columns * sizeof *m->row);
        for (size_t k = 0; k < rank; k++) {
            const float *a = m->a + k * columns, b = m->b[row * rank + k];
            for (size_t j = from; j < to; j++) m->row[j] += b * a[j];
        }
        for (size_t j = from; j < to; j++)
            write_number(t, out, at - first + j - from,
                         safetensor_number(t, row * columns + j) + scale * m->row[j]);
        at += to - from;
    }
}

/* The tensor to write that holds this address. */
static const struct safetensor *tensor_at(const struct merging *m, const unsigned char *data)
{
    for (size_t i = 0; i < m->count; i++) {
        const struct safetensor *t = &m->tensors[i];
        const unsigned char *begin = t->data;
        if (data >= begin && data < begin + t->bytes) return t;
    }
    return NULL;
}

static enum status fetch(void *context, void *host, const void *data, size_t bytes, struct err *err)
{
    struct merging *m = context;
    const struct safetensor *t = tensor_at(m, data), *replaced = replacement(m, t);
    size_t width = is_narrow(t) ? 2 : 4,
           first = (size_t)((const unsigned char *)data - (const unsigned char *)t->data) / width;
    bool adapted;
    enum status status = take_adapters(m, t, &adapted, err);
    if (status) return status;
    if (adapted)
        merge_range(m, t, first, bytes / width, host);
    else if (replaced)
        for (size_t i = 0; i < bytes / width; i++)
            write_number(t, host, i, safetensor_number(replaced, first + i));
    else
        memcpy(host, data, bytes);
    if (progress_advance(&m->meter, bytes)) return STATUS_OK;
    return err_set(err, STATUS_INTERRUPTED, "interrupted while merging");
}

/* The base's sizes, with the classes of the adapters if these make a classifier. */
static enum status read_model(struct merging *m, const char *base, const char *adapter, struct err *err)
{
    char path[CHECKPOINT_PATH];
    struct model_config config, own = {0};
    enum status status = hugging_face_read_config(checkpoint_join(path, base, "config.json"), &config, err);
    if (!status && file_exists(checkpoint_join(path, adapter, "config.json")))
        status = hugging_face_read_config(path, &own, err);
    if (status) return status;
    m->new_head = own.num_labels && !config.num_labels;
    if (own.num_labels) config.num_labels = own.num_labels, config.pooling = own.pooling;
    status = model_init(&m->model, &config, err);
    return status || !own.num_labels ? status : hugging_face_read_classes(path, &m->model, err);
}

/* The tensors to write: the base's, with the head of the adapters in place of one for tokens. That has the
 * type of the embedding if it is narrower than its own. */
static enum status list_tensors(struct merging *m, struct err *err)
{
    const struct safetensor *embed = safetensors_find(&m->base, m->model.embed->name);
    m->tensors = calloc(m->base.count + 1, sizeof *m->tensors);
    if (!m->tensors) return err_no_memory(err, "merging %zu tensors", m->base.count);
    for (size_t i = 0; i < m->base.count; i++)
        if (!m->new_head || strcmp(m->base.tensors[i].name, "lm_head.weight") != 0)
            m->tensors[m->count++] = m->base.tensors[i];
    if (!m->new_head) return STATUS_OK;
    struct safetensor *head = &m->tensors[m->count++];
    *head = *safetensors_find(&m->adapters, ADAPTER_FILE_PREFIX "score.weight");
    head->name = m->model.head.parts->name;
    if (!is_narrow(embed) || is_narrow(head)) return STATUS_OK;
    head->dtype = embed->dtype;
    head->bytes /= 2;
    return STATUS_OK;
}

/* Opens both folders and checks that they fit. */
static enum status open_merging(struct merging *m, const char *base, const char *adapter, struct err *err)
{
    struct adapter_config adapters;
    struct adapter_base named;
    if (adapter_file_exists(base)) /* says that it holds no model */
        return safetensors_open_folder(base, &m->base, err);
    enum status status = read_model(m, base, adapter, err);
    if (!status) status = adapter_file_read(adapter, &adapters, &named, err);
    if (status) return status;
    status = adapter_attach(&m->model, &adapters, err);
    if (status) return err_prefix(err, "%s", adapter);
    status = checkpoint_open_weights(base, &m->model, &m->base, err);
    snprintf(m->model.base.folder, sizeof m->model.base.folder, "%s", base);
    if (!status) m->model.base.hash = adapter_base_hash(&m->base);
    if (!status) status = checkpoint_open_weights(adapter, &m->model, &m->adapters, err);
    return status ? status : list_tensors(m, err);
}

static enum status write_merged(void *context, const char *folder, const char *path, struct err *err)
{
    struct merging *m = context;
    (void)folder;
    for (size_t i = 0; i < m->count; i++) m->meter.total += m->tensors[i].bytes;
    return safetensors_write(path, m->tensors, m->count, fetch, m, err);
}

enum status checkpoint_merge(const char *base, const char *adapter, const char *to,
                             const struct progress *progress, int64_t *bytes, struct err *err)
{
    char path[CHECKPOINT_PATH];
    struct merging m = {.meter = {progress, "merging", 0, 0, 0}};
    const char *words = file_exists(checkpoint_join(path, adapter, "tokenizer.json")) ? adapter : base;
    enum status status = open_merging(&m, base, adapter, err);
    if (!status)
        status = checkpoint_export_with(m.new_head ? adapter : base, words, to, write_merged, &m, bytes, err);
    free(m.a), free(m.b), free(m.row), free(m.tensors);
    safetensors_close(&m.base);
    safetensors_close(&m.adapters);
    model_release(&m.model);
    return status;
}
