/* See merge.h. */
#include "core/checkpoint/merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/checkpoint/adapter_stack.h"
#include "core/checkpoint/checkpoint.h"
#include "core/model/adapter.h"
#include "core/model/adapter_file.h"
#include "core/model/hugging_face.h"

struct merging {
    struct model model;
    bool new_head; /* the adapters make a classifier of a language model */
    bool pools;    /* or were trained on a classifier with another pooling or pad token than its own */
    struct safetensors base;
    struct adapter_stack adapters;
    struct safetensor *tensors; /* `count` to write, whose data are those of base or adapters; owned */
    size_t count;
    float *a, *b;                     /* of the tensor that is written: (rank, columns), (rows, rank) */
    float *row, *sum;                 /* (columns): of its product, and of the result */
    const struct safetensor *current; /* whose A and B are in a and b; of the tensors */
    struct progress_meter meter;
};

/* The trained tensor that replaces t; NULL: t was not trained. A head that is a copy of the embedding is
 * replaced when the embedding is. */
static const struct safetensor *replacement(const struct merging *m, const struct safetensor *t)
{
    bool head = m->model.head.parts == m->model.embed && strcmp(t->name, "lm_head.weight") == 0;
    return adapter_stack_find(&m->adapters, head ? m->model.embed->name : t->name);
}

/* A or B beside the tensor t; NULL: it has none. */
static const struct param *matrix_beside(const struct merging *m, const struct safetensor *t, char which)
{
    char name[128];
    int length = (int)strlen(t->name) - (int)strlen(".weight");
    snprintf(name, sizeof name, "%.*s.lora_%c.weight", length > 0 ? length : 0, t->name, which);
    return model_find(&m->model, name);
}

/* Prepares for the tensor t; *adapted: it has adapters. */
static enum status take_adapters(struct merging *m, const struct safetensor *t, bool *adapted,
                                 struct err *err)
{
    const struct param *a = matrix_beside(m, t, 'A'), *b = matrix_beside(m, t, 'B');
    *adapted = a && b;
    if (!*adapted || m->current == t) return STATUS_OK;
    free(m->a), free(m->b), free(m->row), free(m->sum);
    m->current = t;
    m->a = adapter_stack_matrix(&m->adapters, a);
    m->b = adapter_stack_matrix(&m->adapters, b);
    m->row = malloc((size_t)t->shape[1] * sizeof *m->row);
    m->sum = malloc((size_t)t->shape[1] * sizeof *m->sum);
    return m->a && m->b && m->row && m->sum ? STATUS_OK : err_no_memory(err, "merging %s", t->name);
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
        safetensor_read(t, at, to - from, m->sum + from);
        for (size_t j = from; j < to; j++) m->sum[j] += scale * m->row[j];
        safetensor_encode(t, m->sum + from, to - from, out + (at - first) * safetensor_width(t));
        at += to - from;
    }
}

/* Writes elements [first, first + count) of `from` in the type of the tensor t. */
static void convert(const struct safetensor *from, const struct safetensor *t, size_t first, size_t count,
                    unsigned char *out)
{
    float part[256];
    for (size_t at = 0, n; at < count; at += n) {
        n = count - at < 256 ? count - at : 256;
        safetensor_read(from, first + at, n, part);
        safetensor_encode(t, part, n, out + at * safetensor_width(t));
    }
}

static enum status fetch(void *context, void *host, const struct safetensor *t, size_t at, size_t bytes,
                         struct err *err)
{
    struct merging *m = context;
    const struct safetensor *replaced = replacement(m, t);
    size_t width = safetensor_width(t);
    bool adapted;
    enum status status = take_adapters(m, t, &adapted, err);
    if (status) return status;
    if (adapted)
        merge_range(m, t, at / width, bytes / width, host);
    else if (replaced)
        convert(replaced, t, at / width, bytes / width, host);
    else
        memcpy(host, (const unsigned char *)t->data + at, bytes);
    return progress_advance(&m->meter, bytes, err);
}

/* Sets *pad to the pad token of the base, a classifier of these sizes. */
static enum status read_pad_token(const char *folder, const struct model_config *config, int *pad,
                                  struct err *err)
{
    struct model base = {0};
    enum status status = model_init(&base, config, err);
    if (!status) status = hugging_face_read_classes(folder, &base, err);
    *pad = base.classes.pad_token;
    model_release(&base);
    return status;
}

/* The base's sizes, with the classes of the adapters if these make a classifier. */
static enum status read_model(struct merging *m, const char *base, const char *adapter, struct err *err)
{
    struct model_config config, own = {0};
    int pad = -1;
    enum status status = hugging_face_read_config(base, &config, err);
    if (!status && config.num_labels) status = read_pad_token(base, &config, &pad, err);
    if (!status && file_exists_in(adapter, "config.json"))
        status = hugging_face_read_config(adapter, &own, err);
    if (status) return status;
    m->new_head = own.num_labels && !config.num_labels;
    m->pools = own.num_labels && own.pooling != config.pooling;
    if (own.num_labels) config.num_labels = own.num_labels, config.pooling = own.pooling;
    status = model_init(&m->model, &config, err);
    if (!status && own.num_labels) status = hugging_face_read_classes(adapter, &m->model, err);
    m->pools |= own.num_labels && m->model.classes.pad_token != pad;
    return status;
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
    *head = *adapter_stack_find(&m->adapters, "score.weight");
    head->name = m->model.head.parts->name;
    if (safetensor_width(embed) >= safetensor_width(head)) return STATUS_OK;
    head->dtype = embed->dtype;
    head->bytes /= 2;
    return STATUS_OK;
}

/* Opens all folders and checks that they fit. */
static enum status open_merging(struct merging *m, const char *base, const char *const *adapters, int count,
                                struct err *err)
{
    struct adapter_config together;
    if (adapter_file_exists(base)) {
        enum status status = safetensors_open_folder(base, &m->base, err); /* refuses adapters alone */
        return status ? status
                      : err_set(err, STATUS_USAGE,
                                "%s: holds adapters beside a model, and is taken for these (remove "
                                "adapter_config.json from a copy of it)",
                                base);
    }
    enum status status = read_model(m, base, adapters[0], err);
    if (!status) status = adapter_stack_read(adapters, count, &together, err);
    if (status) return status;
    status = adapter_attach(&m->model, &together, err);
    if (status) return err_prefix(err, "%s", adapters[0]);
    status = checkpoint_open_weights(base, &m->model, &m->base, err);
    snprintf(m->model.base.folder, sizeof m->model.base.folder, "%s", base);
    if (!status) m->model.base.hash = adapter_base_hash(&m->base);
    if (!status) status = adapter_stack_open(&m->adapters, adapters, count, &m->model, err);
    return status ? status : list_tensors(m, err);
}

static enum status write_merged(void *context, const char *folder, const char *path, struct err *err)
{
    struct merging *m = context;
    (void)folder;
    for (size_t i = 0; i < m->count; i++) m->meter.total += m->tensors[i].bytes;
    return safetensors_write(path, m->tensors, m->count, fetch, m, err);
}

enum status checkpoint_merge(const char *base, const char *const *adapters, int count, const char *to,
                             const struct progress *progress, int64_t *bytes, struct err *err)
{
    struct merging m = {.meter = {progress, "merging", 0, 0, 0}};
    const char *words = file_exists_in(adapters[0], "tokenizer.json") ? adapters[0] : base;
    enum status status = open_merging(&m, base, adapters, count, err);
    const char *described = m.new_head || m.pools ? adapters[0] : base;
    if (!status) status = checkpoint_export_with(described, words, to, write_merged, &m, bytes, err);
    free(m.a), free(m.b), free(m.row), free(m.sum), free(m.tensors);
    safetensors_close(&m.base);
    adapter_stack_close(&m.adapters);
    model_release(&m.model);
    return status;
}
