/* See model_info.h. Several files, as Hugging Face splits large models, are one model. */
#include "tui/command/model_info.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/checkpoint/checkpoint.h"
#include "core/model/hugging_face.h"
#include "core/model/weight_files.h"
#include "tui/command/clean.h"
#include "tui/command/run_commands.h"

enum { SHAPE_MAX = 64, NAME_MAX_SHOWN = 96 };

struct model_info {
    const char *folder;
    struct weight_files weights;
    struct model_config config;
    struct err config_problem; /* status 0: config holds */
    struct train_state state;  /* of one of our checkpoints */
    bool trained_here;
    size_t tensors;
    uint64_t parameters, bytes;
};

static void count_tensors(struct model_info *m)
{
    for (size_t f = 0; f < m->weights.count; f++)
        for (size_t t = 0; t < m->weights.files[f].content.count; t++) {
            const struct safetensor *tensor = &m->weights.files[f].content.tensors[t];
            uint64_t elements = 1;
            for (int d = 0; d < tensor->dims; d++) elements *= (uint64_t)tensor->shape[d];
            m->parameters += elements;
            m->bytes += tensor->bytes;
            m->tensors++;
        }
}

static enum status open_info(struct model_info *m, const char *folder, struct err *err)
{
    char path[PATH_MAX];
    *m = (struct model_info){.folder = folder};
    enum status status = weight_files_open(folder, &m->weights, err);
    if (!status) status = file_format_path(path, sizeof path, err, "%s/config.json", folder);
    if (status) return status;
    count_tensors(m);
    hugging_face_read_config(path, &m->config, &m->config_problem);
    m->trained_here = !checkpoint_load_state(folder, &m->state, NULL);
    return STATUS_OK;
}

static void close_info(struct model_info *m)
{
    weight_files_close(&m->weights);
}

/* ---- text ---- */

/* "model.layers.7.mlp.up_proj.weight" with * for the number; "": of no layer. */
static void layer_pattern(const char *name, char *buf, size_t size)
{
    const char *at = strstr(name, "layers.");
    size_t digits = at ? strspn(at + 7, "0123456789") : 0;
    buf[0] = '\0';
    if (digits) snprintf(buf, size, "%.*s*%s", (int)(at + 7 - name), name, at + 7 + digits);
}

static bool same_kind(const struct safetensor *a, const struct safetensor *b)
{
    char x[NAME_MAX_SHOWN], y[NAME_MAX_SHOWN];
    if (a == b) return true;
    layer_pattern(a->name, x, sizeof x);
    layer_pattern(b->name, y, sizeof y);
    return *x && strcmp(x, y) == 0 && strcmp(a->dtype, b->dtype) == 0 && a->dims == b->dims &&
           memcmp(a->shape, b->shape, sizeof *a->shape * (size_t)a->dims) == 0;
}

/* The n-th tensor of the files together. */
static const struct safetensor *tensor_at(const struct model_info *m, size_t n)
{
    size_t file = 0;
    while (n >= m->weights.files[file].content.count) n -= m->weights.files[file++].content.count;
    return &m->weights.files[file].content.tensors[n];
}

static void print_tensor(const struct safetensor *t, size_t times)
{
    char name[NAME_MAX_SHOWN], clean[NAME_MAX_SHOWN], shape[SHAPE_MAX] = "", bytes[32];
    size_t used = 0;
    layer_pattern(t->name, name, sizeof name);
    clean_line(clean, sizeof clean, *name ? name : t->name);
    for (int d = 0; d < t->dims && used < sizeof shape; d++)
        used +=
            (size_t)snprintf(shape + used, sizeof shape - used, "%s%" PRId64, d ? " x " : "", t->shape[d]);
    text_format_bytes(t->bytes * times, bytes, sizeof bytes);
    printf("  %-52s %16s  %-5s %10s", clean, shape, t->dtype, bytes);
    if (times > 1) printf("  %zu layers", times);
    putchar('\n');
}

/* Tensors that are the same in every layer are one line, where the first of them stands. */
static void print_tensors(const struct model_info *m)
{
    for (size_t i = 0; i < m->tensors; i++) {
        const struct safetensor *tensor = tensor_at(m, i);
        size_t times = 0;
        bool first = true;
        for (size_t k = 0; first && k < i; k++) first = !same_kind(tensor_at(m, k), tensor);
        for (size_t k = i; first && k < m->tensors; k++) times += same_kind(tensor, tensor_at(m, k));
        if (first) print_tensor(tensor, times);
    }
}

static void print_text(const struct model_info *m)
{
    const struct model_config *c = &m->config;
    char line[PATH_MAX], count[32], bytes[32];
    clean_line(line, sizeof line, m->folder);
    printf("%s\n", line);
    if (m->config_problem.status) {
        clean_line(line, sizeof line, m->config_problem.text);
        printf("  model       not one that anneal computes: %s\n", line);
    } else {
        printf("  model       %s, width %d, %d layer%s, %d heads of %d (%d of keys and values), feed-forward "
               "%d\n",
               c->qk_norm    ? "Qwen3"
               : c->qkv_bias ? "Qwen2"
                             : "Llama",
               c->hidden_dim, c->num_layers, c->num_layers == 1 ? "" : "s", c->num_heads, c->head_dim,
               c->num_kv_heads, c->intermediate_dim);
        printf("  tokens      a vocabulary of %d, up to %d in a sequence\n", c->vocab_size, c->max_seq_len);
    }
    printf("  parameters  %s in %zu tensors, %s\n",
           text_format_count((double)m->parameters, count, sizeof count), m->tensors,
           text_format_bytes(m->bytes, bytes, sizeof bytes));
    if (m->trained_here)
        printf("  training    step %" PRId64 ", %s\n", m->state.step,
               checkpoint_is_full(m->folder)
                   ? "with the optimizer's moments: it can be resumed"
                   : "weights alone: anneal fork trains on, with a fresh optimizer");
    putchar('\n');
    print_tensors(m);
}

/* ---- JSON ---- */

static json_t *config_json(const struct model_config *c)
{
    return json_pack("{s:i s:i s:i s:i s:i s:i s:i s:i s:f s:f s:b s:b s:b}", "vocab_size", c->vocab_size,
                     "hidden_dim", c->hidden_dim, "num_layers", c->num_layers, "num_heads", c->num_heads,
                     "num_kv_heads", c->num_kv_heads, "head_dim", c->head_dim, "intermediate_dim",
                     c->intermediate_dim, "max_seq_len", c->max_seq_len, "rope_base", c->rope_base,
                     "norm_eps", c->norm_eps, "tie_weights", c->tie_weights, "qk_norm", c->qk_norm,
                     "qkv_bias", c->qkv_bias);
}

static json_t *tensors_json(const struct model_info *m)
{
    json_t *list = json_array();
    for (size_t i = 0; i < m->tensors; i++) {
        const struct safetensor *t = tensor_at(m, i);
        json_t *shape = json_array(), *name = json_string(t->name);
        for (int d = 0; d < t->dims; d++) json_array_append_new(shape, json_integer(t->shape[d]));
        json_array_append_new(list, json_pack("{s:o s:s s:o s:I}", "name", name ? name : json_null(), "dtype",
                                              t->dtype, "shape", shape, "bytes", (json_int_t)t->bytes));
    }
    return list;
}

static json_t *info_json(const struct model_info *m)
{
    json_t *config = m->config_problem.status ? json_null() : config_json(&m->config),
           *folder = json_string(m->folder);
    json_t *step = m->trained_here ? json_integer(m->state.step) : json_null();
    return json_pack("{s:o s:o s:o s:b s:I s:I s:o}", "folder", folder ? folder : json_null(), "config",
                     config, "step", step, "optimizer", checkpoint_is_full(m->folder), "parameters",
                     (json_int_t)m->parameters, "bytes", (json_int_t)m->bytes, "tensors", tensors_json(m));
}

enum status model_info_print(const char *folder, bool json, struct err *err)
{
    struct model_info info;
    enum status status = open_info(&info, folder, err);
    if (!status && json)
        status = run_print_json(info_json(&info), err);
    else if (!status)
        print_text(&info);
    close_info(&info);
    return status;
}
