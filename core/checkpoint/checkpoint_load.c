/* See checkpoint.h. Here: reading the numbers of a checkpoint, piece by piece and only if they match the
 * model.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/half.h"
#include "core/base/text.h"
#include "core/checkpoint/checkpoint.h"
#include "core/model/adapter_file.h"
#include "core/model/hugging_face.h"
#include "core/model/storage.h"

/* ---- checks ---- */

/* max_seq_len is not compared: no weight depends on it, and a resumed run may raise it. `any_rotation`: nor
 * is how the model rotates. *new_head: the model is a classifier, and the folder holds a language model,
 * which has another head. */
static enum status check_model(const char *folder, const struct model_config *wanted, bool any_rotation,
                               bool *new_head, struct err *err)
{
    struct model_config saved;
    enum status status = hugging_face_read_config(folder, &saved, err);
    if (status) return status;
    *new_head = wanted->num_labels && !saved.num_labels;
    if (*new_head) saved.num_labels = wanted->num_labels;
    if (saved.num_labels != wanted->num_labels)
        return err_set(
            err, STATUS_USAGE,
            "%s: was saved with %d label%s, this model has %d (a classifier keeps the labels of the "
            "data that it was trained on)",
            folder, saved.num_labels, text_plural(saved.num_labels), wanted->num_labels);
    if (any_rotation) saved.rope_base = wanted->rope_base;
#define NUMBER(field)                                                                                        \
    {                                                                                                        \
#field, (double)saved.field, (double)wanted->field                                                   \
    }
    const struct {
        const char *name;
        double saved, wanted;
    } fields[] = {NUMBER(vocab_size),   NUMBER(hidden_dim),       NUMBER(num_layers), NUMBER(num_heads),
                  NUMBER(num_kv_heads), NUMBER(head_dim),         NUMBER(rope_base),  NUMBER(norm_eps),
                  NUMBER(tie_weights),  NUMBER(intermediate_dim), NUMBER(qk_norm),    NUMBER(qkv_bias),
                  NUMBER(o_bias),       NUMBER(mlp_bias)};
#undef NUMBER
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].saved != fields[i].wanted)
            return err_set(err, STATUS_USAGE,
                           "%s: was saved with model.%s = %.10g, this model has %.10g (weights fit only the "
                           "model that they were trained for)",
                           folder, fields[i].name, fields[i].saved, fields[i].wanted);
    for (int l = 0; l < wanted->num_layers; l++)
        if (model_window(&saved, l) != model_window(wanted, l))
            return err_set(err, STATUS_USAGE,
                           "%s: was saved with an attention window of %d in layer %d, this model has %d (0: "
                           "none; set model.sliding_window and model.full_attention_layers as in its "
                           "config.json)",
                           folder, model_window(&saved, l), l, model_window(wanted, l));
    if (any_rotation || model_rotates_alike(&saved, wanted)) return STATUS_OK;
    return err_set(
        err, STATUS_USAGE,
        "%s: was saved with other rotary frequencies than this model's (set model.rope_scaling and "
        "the other rope keys as in its config.json; for adapters with other frequencies, change "
        "them in the config.json of a copy of their base)",
        folder);
}

/* Whether the classes of a saved classifier are those of this one, in the same order. */
static enum status check_classes(const char *folder, const struct model *wanted, struct err *err)
{
    struct model saved = {.config.num_labels = wanted->config.num_labels};
    if (!wanted->classes.names) return STATUS_OK;
    enum status status = hugging_face_read_classes(folder, &saved, err);
    for (int i = 0; !status && i < wanted->config.num_labels; i++)
        if (strcmp(saved.classes.names[i], wanted->classes.names[i]) != 0)
            status = err_set(
                err, STATUS_USAGE,
                "%s: was saved with \"%.60s\" as label %d, this model has \"%.60s\" there (the labels "
                "of the data have changed)",
                folder, CLEAN_LINE(saved.classes.names[i]), i, CLEAN_LINE(wanted->classes.names[i]));
    model_release(&saved);
    return status;
}

/* Finds the tensor of a parameter; NULL if there is none. Our weights and all moments are F32; weights from
 * elsewhere may be BF16 or F16. */
static enum status find_tensor(const struct safetensors *file, int kind, const struct param *p,
                               const struct safetensor **out, struct err *err)
{
    char name[96];
    bool moments = kind != WEIGHTS_KIND && kind != ADAPTERS_KIND;
    snprintf(name, sizeof name, "%s%s", checkpoint_prefix(kind), p->name);
    const struct safetensor *t = *out = safetensors_find(file, name);
    if (!t)
        return err_set(err, STATUS_USAGE, "%s: has no tensor %s, which this model needs%s", file->path, name,
                       kind == WEIGHTS_KIND && strcmp(name, "lm_head.weight") == 0
                           ? " (if the embedding is the head, set tie_word_embeddings = true in config.json)"
                           : "");
    bool shorter = strcmp(t->dtype, "BF16") == 0 || strcmp(t->dtype, "F16") == 0;
    if (strcmp(t->dtype, "F32") != 0 && (moments || !shorter))
        return err_set(err, STATUS_USAGE, "%s: %s is %s, only %s", t->path, name, t->dtype,
                       moments ? "F32 is read as a moment" : "F32, BF16 and F16 are read");
    if (t->dims != (p->cols ? 2 : 1) || t->shape[0] != p->rows || (p->cols && t->shape[1] != p->cols))
        return err_set(err, STATUS_USAGE, "%s: %s is (%lld, %lld), this model needs (%d, %d)", t->path, name,
                       (long long)t->shape[0], (long long)(t->dims > 1 ? t->shape[1] : 0), p->rows, p->cols);
    return STATUS_OK;
}

/* Whether the file has this kind of moment at all: with another optimizer it may not. */
static bool has_kind(const struct safetensors *file, int kind)
{
    const char *prefix = checkpoint_prefix(kind);
    size_t i = 0;
    while (i < file->count && strncmp(file->tensors[i].name, prefix, strlen(prefix)) != 0) i++;
    return i < file->count;
}

/* Whether the checkpoint has the moments that a parameter needs, of the kinds that it has: not if the
 * parameter was frozen when it was saved, or if Muon updated it, which keeps one, and AdamW does now. */
static bool has_moments(const struct safetensors *file, const struct param *p, int moments)
{
    const struct safetensor *t = NULL;
    for (int kind = 1; kind <= (p->orthogonal ? 1 : moments); kind++)
        if (has_kind(file, kind) && find_tensor(file, kind, p, &t, NULL) && !t) return false;
    return true;
}

/* Whether the tensor t is the tied embedding once more, as head. */
static bool repeats_embedding(const struct safetensors *file, int kind, const struct safetensor *t,
                              const struct model *model)
{
    const struct safetensor *e;
    size_t prefix = strlen(checkpoint_prefix(kind));
    if (!model->config.tie_weights || strcmp(t->name + prefix, "lm_head.weight") != 0) return false;
    find_tensor(file, kind, model->embed, &e, NULL);
    return e && strcmp(e->dtype, t->dtype) == 0 && e->bytes == t->bytes &&
           memcmp(e->data, t->data, e->bytes) == 0;
}

/* Whether a tensor without a parameter is redundant: rotary frequencies, the tied embedding as head, or the
 * head that a new one replaces. */
static bool is_known(const struct safetensors *file, const struct safetensor *t, const struct model *model,
                     bool new_head)
{
    if (model_find(model, t->name) || strstr(t->name, "rotary_emb.inv_freq")) return true;
    if (new_head && strcmp(t->name, "lm_head.weight") == 0) return true;
    return repeats_embedding(file, WEIGHTS_KIND, t, model);
}

static enum status check_weights(const struct safetensors *file, const struct model *model, bool new_head,
                                 struct err *err)
{
    const struct safetensor *t;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < file->count; i++)
        if (!is_known(file, &file->tensors[i], model, new_head))
            return err_set(err, STATUS_USAGE, "%s: has a tensor %.80s, which this model does not have%s",
                           file->tensors[i].path, file->tensors[i].name,
                           model->config.tie_weights && strcmp(file->tensors[i].name, "lm_head.weight") == 0
                               ? " (if this is the head, set tie_word_embeddings = false in config.json)"
                               : "");
    for (size_t i = 0; !status && i < model->param_count; i++)
        if (!param_is_adapter(&model->params[i]) && !(new_head && &model->params[i] == model->head.parts))
            status = find_tensor(file, WEIGHTS_KIND, &model->params[i], &t, err);
    return status;
}

/* STATUS_USAGE if adapters of a classifier are to join a language model, or the other way round. */
static enum status check_kind(const struct safetensors *file, const struct model *model, struct err *err)
{
    bool classifier = safetensors_find(file, ADAPTER_FILE_PREFIX "score.weight");
    if (classifier == (model->config.num_labels > 0)) return STATUS_OK;
    return err_set(
        err, STATUS_USAGE, "%s: %s", file->path,
        classifier
            ? "holds adapters of a classifier, which cannot predict tokens (set data.format = labels, or "
              "start "
              "from their base)"
            : "holds adapters of a language model, and a classifier needs a head, too (`anneal model merge` "
              "writes them into a copy of their base: set model.from to it)");
}

/* The same for a file of adapters. */
static enum status check_adapters(const struct safetensors *file, const struct model *model, struct err *err)
{
    const struct safetensor *t;
    size_t prefix = strlen(ADAPTER_FILE_PREFIX);
    enum status status = check_kind(file, model, err);
    if (status) return status;
    for (size_t i = 0; i < file->count; i++) {
        const char *name = file->tensors[i].name;
        if (strncmp(name, ADAPTER_FILE_PREFIX, prefix) != 0 ||
            (!model_find(model, name + prefix) &&
             !repeats_embedding(file, ADAPTERS_KIND, &file->tensors[i], model)))
            return err_set(err, STATUS_USAGE, "%s: has a tensor %.90s, for which this model has no matrix",
                           file->path, name);
    }
    for (size_t i = 0; !status && i < model->param_count; i++) {
        const struct param *p = &model->params[i];
        status = find_tensor(file, ADAPTERS_KIND, p, &t, err);
        if (!t && p->frozen && !param_is_adapter(p)) status = STATUS_OK; /* of the base: it may be there */
    }
    return status;
}

enum status checkpoint_check_weights(const struct safetensors *file, const struct model_config *config,
                                     struct err *err)
{
    struct model model = {0};
    enum status status = model_init(&model, config, err);
    if (!status) status = check_weights(file, &model, false, err);
    model_release(&model);
    return status;
}

/* Opens the weights of a folder and checks that they are those of its config.json. */
static enum status open_checked(const char *folder, enum checkpoint_weights which,
                                struct model_config *config, struct safetensors *weights, struct err *err)
{
    char path[CHECKPOINT_PATH];
    enum status status = hugging_face_read_config(folder, config, err);
    if (!status && which == CHECKPOINT_AVERAGE && !adapter_file_exists(folder)) {
        status = checkpoint_find_average(folder, path, err);
        if (!status) status = safetensors_open(path, weights, err);
    } else if (!status) {
        status = safetensors_open_folder(folder, weights, err);
    }
    return status ? status : checkpoint_check_weights(weights, config, err);
}

enum status checkpoint_export_gguf(const char *folder, enum checkpoint_weights which, const char *path,
                                   enum gguf_type type, const struct progress *progress, int64_t *bytes,
                                   struct err *err)
{
    struct model_config config;
    struct safetensors weights = {0};
    enum status status = open_checked(folder, which, &config, &weights, err);
    if (!status && config.num_labels)
        status = err_set(err, STATUS_USAGE, "%s: is a classifier, which a GGUF file cannot hold", folder);
    if (!status) status = gguf_write(folder, &config, &weights, path, type, progress, bytes, err);
    safetensors_close(&weights);
    return status;
}

enum status checkpoint_import(const char *folder, const char *to, const struct progress *progress,
                              int64_t *bytes, struct err *err)
{
    struct model_config config;
    struct safetensors weights = {0};
    enum status status = open_checked(folder, CHECKPOINT_WEIGHTS, &config, &weights, err);
    safetensors_close(&weights);
    return status ? status : checkpoint_export(folder, CHECKPOINT_WEIGHTS, to, progress, bytes, err);
}

/* ---- loading ---- */

/* Reads instead of mapping: a failing disk or a truncated file is then an error instead of a signal. */
static enum status read_at(int fd, unsigned char *to, size_t bytes, size_t offset, const char *path,
                           struct err *err)
{
    while (bytes) {
        ssize_t n = pread(fd, to, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return err_set(err, STATUS_IO, "%s: cannot read: %s", path,
                           n ? strerror(errno) : "the file became shorter meanwhile");
        to += n;
        offset += (size_t)n;
        bytes -= (size_t)n;
    }
    return STATUS_OK;
}

/* Widens `count` two-byte numbers in place: they are in the second half of the memory, so each one is read
 * before another result overwrites it. */
static void widen(float *out, const unsigned char *from, size_t count, bool half)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t narrow = (uint16_t)(from[2 * i] | from[2 * i + 1] << 8);
        out[i] = half ? float_of_f16(narrow) : float_of_bf16(narrow);
    }
}

/* Whether the tensor has the numbers of a stored parameter, so that nothing need be converted. */
static bool is_as_stored(const struct safetensor *t, const struct param *p)
{
    return !element_is_nf4(p->element) && strcmp(t->dtype, p->element == ELEMENT_BF16 ? "BF16" : "F32") == 0;
}

/* Uploads elements [first, end) of the tensor through the plan's staging memory to `to`, or if that is NULL
 * to the parameter itself. */
static enum status upload_tensor(const struct safetensor *t, struct network *net, const struct param *p,
                                 size_t first, size_t end, float *to, struct err *err)
{
    size_t most = net->plan->bytes[BUFFER_STAGING] / sizeof(float), width = t->bytes / p->count;
    float *piece = network_at(net, BUFFER_STAGING, 0);
    enum status status = STATUS_OK;
    int fd = open(t->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return err_set(err, STATUS_IO, "%s: cannot open: %s", t->path, strerror(errno));
    for (size_t at = first; !status && at < end; at += most) {
        size_t n = end - at < most ? end - at : most;
        unsigned char *from = (unsigned char *)piece + n * (sizeof *piece - width);
        if ((status = read_at(fd, from, n * width, t->offset + at * width, t->path, err))) break;
        if (!to && is_as_stored(t, p)) {
            status = network_store_parameter(net, p, at, from, n, err);
            continue;
        }
        if (width < sizeof *piece) widen(piece, from, n, strcmp(t->dtype, "F16") == 0);
        if (!to) {
            status = network_write_parameter(net, p, at, piece, n, err);
            continue;
        }
        net->backend->mem_upload(to + (at - first), piece, n * sizeof *piece, net->stream);
        status = net->backend->stream_wait(net->stream, err); /* before the staging memory is reused */
    }
    close(fd);
    return status;
}

struct freezing {
    struct storage storage;
    const struct base_storage *base;
    struct safetensors *adapters; /* of each folder */
};

static bool freeze(const void *context, const struct param *p, enum element *element)
{
    const struct freezing *f = context;
    const struct safetensor *t = NULL;
    for (int i = 0; !t && i < f->base->adapter_count; i++)
        find_tensor(&f->adapters[i], ADAPTERS_KIND, p, &t, NULL);
    *element = t ? f->storage.computed : storage_element(&f->storage, p);
    return true;
}

enum status checkpoint_freeze(const char *folder, struct model *model, const struct base_storage *base,
                              const struct device_info *device, enum precision *precision, struct err *err)
{
    struct safetensors file = {0};
    char path[CHECKPOINT_PATH];
    bool bf16 = device->best == PRECISION_BF16 && base->base != LORA_BASE_FP32;
    struct freezing freezing = {.base = base,
                                .adapters = calloc((size_t)base->adapter_count + 1, sizeof file)};
    enum status status = freezing.adapters ? safetensors_open_folder(folder, &file, err)
                                           : err_no_memory(err, "opening %s", folder);
    for (int i = 0; !status && i < base->adapter_count; i++)
        status = safetensors_open(checkpoint_join(path, base->adapters[i], "adapter_model.safetensors"),
                                  &freezing.adapters[i], err);
    for (size_t i = 0; bf16 && base->base != LORA_BASE_BF16 && i < model->param_count; i++)
        bf16 = !model->params[i].cols || param_is_adapter(&model->params[i]) ||
               storage_is_bf16(&file, &model->params[i]);
    *precision = bf16 ? PRECISION_BF16 : PRECISION_FP32;
    freezing.storage = (struct storage){&file, precision_element(*precision), device->mixes_elements,
                                        base->base, base->nested};
    if (!status) model_freeze(model, freeze, &freezing);
    for (int i = 0; freezing.adapters && i < base->adapter_count; i++)
        safetensors_close(&freezing.adapters[i]);
    free(freezing.adapters);
    safetensors_close(&file);
    return status;
}

static enum status check_base(const char *folder, const struct safetensors *file, const struct model *model,
                              struct err *err)
{
    uint64_t hash = file->base ? strtoull(file->base, NULL, 16) : 0;
    if (!hash || !model->base.hash || hash == model->base.hash) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "%s: was trained on a base whose weights have the hash %016" PRIx64
                   ", those of %.200s have %016" PRIx64 " (adapters fit only the model they were trained on)",
                   folder, hash, model->base.folder, model->base.hash);
}

static enum status open_weights(const char *folder, const struct model *model, bool any_rotation,
                                struct safetensors *file, struct err *err)
{
    char path[CHECKPOINT_PATH];
    if (!adapter_file_exists(folder)) {
        bool new_head = false;
        enum status status = check_model(folder, &model->config, any_rotation, &new_head, err);
        if (!status && !new_head) status = check_classes(folder, model, err);
        if (!status) status = safetensors_open_folder(folder, file, err);
        return status ? status : check_weights(file, model, new_head, err);
    }
    enum status status =
        safetensors_open(checkpoint_join(path, folder, "adapter_model.safetensors"), file, err);
    if (!status && !file->base) status = adapter_file_check(folder, model, err);
    if (!status) status = check_adapters(file, model, err);
    return status ? status : check_base(folder, file, model, err);
}

enum status checkpoint_open_weights(const char *folder, const struct model *model, struct safetensors *file,
                                    struct err *err)
{
    return open_weights(folder, model, false, file, err);
}

static enum status load_weights(const char *folder, struct network *net, bool any_rotation, struct err *err)
{
    const struct model *model = net->model;
    struct safetensors file = {0};
    int kind = adapter_file_exists(folder) ? ADAPTERS_KIND : WEIGHTS_KIND;
    enum status status =
        open_weights(folder, model, any_rotation, &file, err); /* checks all before copying any */
    for (size_t i = 0; !status && i < model->param_count; i++) {
        const struct param *p = &model->params[i];
        const struct safetensor *t;
        find_tensor(&file, kind, p, &t, NULL);
        if (!t) continue; /* the base has no adapters, adapters come with few other parameters */
        status = find_tensor(&file, kind, p, &t, err);
        if (!status) status = upload_tensor(t, net, p, 0, p->count, NULL, err);
    }
    if (!status) network_weights_written(net);
    safetensors_close(&file);
    return status;
}

enum status checkpoint_load_weights(const char *folder, struct network *net, struct err *err)
{
    return load_weights(folder, net, false, err);
}

enum status checkpoint_load_first_weights(const char *folder, struct network *net, struct err *err)
{
    return load_weights(folder, net, true, err);
}

/* Reads elements [piece.begin, piece.end) of a moment; those that the checkpoint does not have become 0. */
static enum status read_moment(const struct safetensors *file, const struct network *net, int kind,
                               struct slice piece, float *to, const struct param **thawed, struct err *err)
{
    enum status status = STATUS_OK;
    memset(to, 0, slice_count(piece) * sizeof *to);
    for (size_t i = 0; !status && i < net->model->param_count; i++) {
        const struct param *p = &net->model->params[i];
        const struct safetensor *t;
        struct slice part = slice_common(piece, (struct slice){p->offset, p->offset + p->count});
        if (p->frozen || (kind == 2 && p->orthogonal) || !slice_count(part)) continue;
        if (!has_moments(file, p, net->plan->input.moments)) {
            if (!*thawed) *thawed = p;
            continue;
        }
        status = find_tensor(file, kind, p, &t, err);
        int fd = status ? -1 : open(t->path, O_RDONLY | O_CLOEXEC);
        if (!status && fd < 0)
            status = err_set(err, STATUS_IO, "%s: cannot open: %s", t->path, strerror(errno));
        if (!status)
            status = read_at(fd, (unsigned char *)(to + (part.begin - piece.begin)),
                             slice_count(part) * sizeof *to,
                             t->offset + (part.begin - p->offset) * sizeof *to, t->path, err);
        if (fd >= 0) close(fd);
    }
    return status;
}

/* Loads one kind of moment of a slice, for trainable parameters that have it. */
static enum status load_moment(const struct safetensors *file, struct network *net, int kind,
                               struct slice slice, const struct param **thawed, struct err *err)
{
    enum moment which = (enum moment)(kind - 1);
    float *values = network_at(net, BUFFER_STAGING, 0);
    struct slice with = slice_common(slice, plan_with_moment(&net->plan->input, which)), piece = with;
    size_t most = net->plan->bytes[BUFFER_STAGING] / sizeof *values; /* whole blocks, or all */
    enum status status = STATUS_OK;
    for (; !status && piece.begin < with.end; piece.begin = piece.end) {
        piece.end = with.end - piece.begin < most ? with.end : piece.begin + most;
        status = read_moment(file, net, kind, piece, values, thawed, err);
        if (!status)
            status =
                network_write_moment(net, which, piece.begin - with.begin, values, slice_count(piece), err);
    }
    return status;
}

/* Loads the averages of a slice. Those that the checkpoint lacks begin as the weights. */
static enum status load_average(const char *folder, struct network *net, struct slice slice, struct err *err)
{
    char path[CHECKPOINT_PATH];
    struct safetensors file = {0};
    int kind = adapter_file_exists(folder) ? ADAPTERS_KIND : WEIGHTS_KIND;
    float *average = network_moment(net, MOMENT_AVERAGE);
    net->backend->mem_copy(average, network_all_weights(net) + slice.begin,
                           slice_count(slice) * sizeof *average, net->stream);
    if (checkpoint_find_average(folder, path, NULL)) return STATUS_OK;
    enum status status = safetensors_open(path, &file, err);
    for (size_t i = 0; !status && i < net->model->param_count; i++) {
        const struct param *p = &net->model->params[i];
        const struct safetensor *t = NULL;
        struct slice part = slice_common(slice, (struct slice){p->offset, p->offset + p->count});
        if (p->frozen || !slice_count(part)) continue;
        status = find_tensor(&file, kind, p, &t, err);
        if (!t)
            status = STATUS_OK; /* a parameter that was frozen then: its average begins as its weight */
        else if (!status)
            status = upload_tensor(t, net, p, part.begin - p->offset, part.end - p->offset,
                                   average + (part.begin - slice.begin), err);
    }
    safetensors_close(&file);
    return status;
}

enum status checkpoint_load_moments(const char *folder, struct network *net, struct slice slice,
                                    const struct param **thawed, struct err *err)
{
    char path[CHECKPOINT_PATH];
    struct safetensors file = {0};
    enum status status = safetensors_open(checkpoint_join(path, folder, "optimizer.safetensors"), &file, err);
    for (int kind = 1; !status && kind <= net->plan->input.moments; kind++)
        status = load_moment(&file, net, kind, slice, thawed, err);
    safetensors_close(&file);
    bool averages = net->plan->input.averages;
    return status || !averages ? status : load_average(folder, net, slice, err);
}

enum status checkpoint_load(const char *folder, struct network *net, struct train_state *state,
                            const struct param **thawed, struct err *err)
{
    const struct param *first = NULL;
    enum status status = checkpoint_load_weights(folder, net, err);
    if (!status) status = checkpoint_load_moments(folder, net, net->owned, &first, err);
    if (thawed) *thawed = first;
    return status ? status : checkpoint_load_state(folder, state, err);
}
