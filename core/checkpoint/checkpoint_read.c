/* See checkpoint.h. Here: a checkpoint's numbers into a network, piece by piece through a small buffer, and
 * nothing from a folder that does not fit the model. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/checkpoint_files.h"
#include "core/model/hugging_face.h"
#include "core/model/rotary.h"

/* ---- does it fit ---- */

/* max_seq_len is left out: no weight depends on it, and a resumed run may raise it. */
static enum status check_model(const char *folder, const struct model_config *wanted, struct err *err)
{
    struct model_config saved;
    char path[CHECKPOINT_PATH];
    enum status status = checkpoint_join(path, folder, "config.json", err);
    if (!status) status = hugging_face_read_config(path, &saved, err);
    if (status) return status;
#define NUMBER(field)                                                                                        \
    {                                                                                                        \
#field, (double)saved.field, (double)wanted->field                                                   \
    }
    const struct {
        const char *name;
        double saved, wanted;
    } fields[] = {NUMBER(vocab_size),   NUMBER(hidden_dim),       NUMBER(num_layers), NUMBER(num_heads),
                  NUMBER(num_kv_heads), NUMBER(head_dim),         NUMBER(rope_base),  NUMBER(norm_eps),
                  NUMBER(tie_weights),  NUMBER(intermediate_dim), NUMBER(qk_norm),    NUMBER(qkv_bias)};
#undef NUMBER
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].saved != fields[i].wanted)
            return err_set(err, STATUS_USAGE,
                           "%s: was saved with model.%s = %.10g, this model has %.10g (weights fit only the "
                           "model that they were trained in)",
                           folder, fields[i].name, fields[i].saved, fields[i].wanted);
    for (int i = 0; i < wanted->head_dim / 2; i++)
        if (rotary_frequency(&saved, i) != rotary_frequency(wanted, i))
            return err_set(
                err, STATUS_USAGE,
                "%s: was saved with other rotary frequencies than this model's (set model.rope_scaling "
                "and the keys that belong to it as they are in its config.json)",
                folder);
    return STATUS_OK;
}

/* ---- numbers ---- */

static enum status read_at(int fd, void *buffer, size_t bytes, size_t offset, const char *path,
                           struct err *err)
{
    for (unsigned char *to = buffer; bytes;) {
        ssize_t n = pread(fd, to, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return err_set(err, STATUS_IO, "%s: cannot read: %s", path,
                           n ? strerror(errno) : "it became shorter meanwhile");
        to += n;
        offset += (size_t)n;
        bytes -= (size_t)n;
    }
    return STATUS_OK;
}

/* IEEE 754 binary16, which binary32 holds exactly. */
static float from_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
    float value;
    if (exponent == 0) { /* zero or subnormal */
        value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    uint32_t bits = sign | (exponent == 31 ? 255u : exponent + 112) << 23 | fraction << 13;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* (count) numbers of two bytes in the second half of the piece of `size` bytes become fp32 in the whole of
 * it: an element is read before what it becomes reaches its place. */
static void widen(unsigned char *piece, size_t size, size_t count, bool bf16)
{
    for (size_t i = 0; i < count; i++) {
        const unsigned char *from = piece + size / 2 + 2 * i;
        uint16_t half = (uint16_t)(from[0] | from[1] << 8);
        uint32_t bits = (uint32_t)half << 16;
        float value;
        if (bf16)
            memcpy(&value, &bits, sizeof value);
        else
            value = from_half(half);
        memcpy(piece + 4 * i, &value, sizeof value);
    }
}

/* Of a tensor's data in its file. */
static size_t start_of(const struct weight_file *file, const struct safetensor *t)
{
    return (size_t)((const unsigned char *)t->data - file->content.map.data);
}

/* Through the plan's staging memory; moment NULL: to the parameter itself. */
static enum status upload_tensor(int fd, const struct weight_file *file, const struct safetensor *t,
                                 struct network *net, const struct param *p, float *moment, struct err *err)
{
    size_t start = start_of(file, t);
    size_t width = strcmp(t->dtype, "F32") == 0 ? 4 : 2, count = t->bytes / width,
           size = net->plan->place[BUFFER_STAGING].bytes, most = size / 4;
    unsigned char *piece = network_at(net, BUFFER_STAGING, 0);
    enum status status = STATUS_OK;
    for (size_t at = 0; !status && at < count; at += most) {
        size_t n = count - at < most ? count - at : most;
        status = read_at(fd, width == 4 ? piece : piece + size / 2, n * width, start + at * width, file->path,
                         err);
        if (status) break;
        if (width == 2) widen(piece, size, n, strcmp(t->dtype, "BF16") == 0);
        if (!moment) {
            status = network_write_parameter(net, p, at, (float *)piece, n, err);
            continue;
        }
        net->backend->mem_upload(moment + p->offset + at, piece, n * sizeof *moment, net->stream);
        status = net->backend->stream_wait(net->stream, err); /* before the piece is written again */
    }
    return status;
}

/* Ours are F32; weights of others may be shorter, moments may not. */
static enum status check_tensor(const char *path, const struct safetensor *t, const char *name,
                                const struct param *p, bool moment, struct err *err)
{
    if (!t) return err_set(err, STATUS_USAGE, "%s: has no tensor %s, which this model needs", path, name);
    bool shorter = strcmp(t->dtype, "BF16") == 0 || strcmp(t->dtype, "F16") == 0;
    if (strcmp(t->dtype, "F32") != 0 && (moment || !shorter))
        return err_set(err, STATUS_USAGE, "%s: %s is %s, only %s", path, name, t->dtype,
                       moment ? "F32 is read as a moment" : "F32, BF16 and F16 are read");
    if (t->dims != (p->cols ? 2 : 1) || t->shape[0] != p->rows || (p->cols && t->shape[1] != p->cols))
        return err_set(err, STATUS_USAGE, "%s: %s is (%lld, %lld), this model needs (%d, %d)", path, name,
                       (long long)t->shape[0], (long long)(t->dims > 1 ? t->shape[1] : 0), p->rows, p->cols);
    return STATUS_OK;
}

/* Two tensors of the same bytes, read piece by piece. */
static bool same_data(const struct weight_file *file, const struct safetensor *a,
                      const struct weight_file *other, const struct safetensor *b)
{
    enum { PIECE = 16384 };
    unsigned char x[PIECE], y[PIECE];
    bool same = strcmp(a->dtype, b->dtype) == 0 && a->bytes == b->bytes;
    int fd = open(file->path, O_RDONLY | O_CLOEXEC), fd_b = open(other->path, O_RDONLY | O_CLOEXEC);
    same = same && fd >= 0 && fd_b >= 0;
    for (size_t at = 0; same && at < a->bytes; at += PIECE) {
        size_t n = a->bytes - at < PIECE ? a->bytes - at : PIECE;
        same = !read_at(fd, x, n, start_of(file, a) + at, file->path, NULL) &&
               !read_at(fd_b, y, n, start_of(other, b) + at, other->path, NULL) && memcmp(x, y, n) == 0;
    }
    if (fd >= 0) close(fd);
    if (fd_b >= 0) close(fd_b);
    return same;
}

/* Some write the embedding a second time, as the head that it is tied to: that says nothing new. */
static bool is_tied_head(const struct weight_files *files, const struct weight_file *file,
                         const struct safetensor *t, const struct model *model)
{
    const struct weight_file *other;
    if (!model->config.tie_weights || strcmp(t->name, "lm_head.weight") != 0) return false;
    const struct safetensor *embedding = weight_files_find(files, "model.embed_tokens.weight", &other);
    return embedding && same_data(file, t, other, embedding);
}

/* Weights that the model has no place for would be left out in silence. Older files of others bring the
 * rotary frequencies, which say nothing new. */
static enum status refuse_unknown(const struct weight_files *files, const struct model *model,
                                  struct err *err)
{
    for (size_t i = 0; i < files->count; i++) {
        const struct weight_file *file = &files->files[i];
        for (size_t k = 0; k < file->content.count; k++) {
            const struct safetensor *t = &file->content.tensors[k];
            if (!model_find(model, t->name) && !strstr(t->name, "rotary_emb.inv_freq") &&
                !is_tied_head(files, file, t, model))
                return err_set(err, STATUS_USAGE, "%s: has a tensor %.80s, which this model does not have",
                               file->path, t->name);
        }
    }
    return STATUS_OK;
}

/* Kinds of numbers, by the prefix of their tensors' names. */
static const char *const prefixes[] = {"", "m.", "v."};

static const struct safetensor *tensor_of(const struct weight_files *files, int kind, const struct param *p,
                                          const struct weight_file **file)
{
    char name[96];
    snprintf(name, sizeof name, "%s%s", prefixes[kind], p->name);
    return weight_files_find(files, name, file);
}

/* A parameter that was frozen when the checkpoint was saved has no moments in it, neither m nor v. */
static bool was_frozen(const struct weight_files *files, const struct param *p)
{
    const struct weight_file *file;
    return !tensor_of(files, 1, p, &file) && !tensor_of(files, 2, p, &file);
}

/* All tensors are looked at before the first is copied. What is frozen now needs no moments. */
static enum status check_all(const struct weight_files *files, const struct model *model, int kind,
                             struct err *err)
{
    char name[96];
    enum status status = kind ? STATUS_OK : refuse_unknown(files, model, err);
    for (size_t i = 0; !status && i < model->param_count; i++) {
        const struct weight_file *file = NULL;
        const struct param *p = &model->params[i];
        if (kind && (p->frozen || was_frozen(files, p))) continue;
        const struct safetensor *t = tensor_of(files, kind, p, &file);
        snprintf(name, sizeof name, "%s%s", prefixes[kind], p->name);
        status = check_tensor(t ? file->path : files->path, t, name, p, kind != 0, err);
    }
    return status;
}

/* `kind` 1 or 2: that moment, of what is trainable and has one; the others stay zero. */
static enum status upload(const struct weight_files *files, struct network *net, int kind, struct err *err)
{
    const struct model *model = net->model;
    float *moment = network_at(net, kind == 2 ? BUFFER_MOMENT2 : BUFFER_MOMENT1, 0);
    enum status status = check_all(files, model, kind, err);
    for (size_t i = 0; !status && i < model->param_count; i++) {
        const struct weight_file *file = NULL;
        const struct param *p = &model->params[i];
        if (kind && (p->frozen || was_frozen(files, p))) continue;
        const struct safetensor *t = tensor_of(files, kind, p, &file);
        int fd = open(file->path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) return err_set(err, STATUS_IO, "%s: cannot open: %s", file->path, strerror(errno));
        status = upload_tensor(fd, file, t, net, p, kind ? moment : NULL, err);
        close(fd);
    }
    return status;
}

/* ---- the trainer's state ---- */

static enum status read_state(const char *path, struct train_state *out, struct err *err)
{
    struct train_state s = {0};
    json_error_t problem;
    json_int_t step, updates, cursor, tokens, skipped, best_step, used, patience, corpus[3];
    json_int_t saved = INT64_MIN; /* not said: written by an anneal that took every best for saved */
    double best = INFINITY, reference = NAN; /* likewise: the best */
    const char *machine = "";
    json_t *json = json_load_file(path, JSON_REJECT_DUPLICATES, &problem);
    if (!json) return err_set(err, STATUS_CORRUPT, "%s:%d: %s", path, problem.line, problem.text);
    int bad = json_unpack_ex(
        json, &problem, 0, "{s:I s:I s:I s:I s:F s:I s:I s:I s:I s:F s:I s:I s:I s?F s?I s?F s?s}", "step",
        &step, "updates", &updates, "cursor", &cursor, "tokens", &tokens, "lr_factor", &s.lr_factor,
        "skipped_in_a_row", &skipped, "best_step", &best_step, "patience_used", &used, "patience", &patience,
        "min_delta", &s.stopping.min_delta, "corpus_tokens", &corpus[0], "corpus_checksum", &corpus[1],
        "tokenizer_checksum", &corpus[2], "best_val_loss", &best, "best_saved", &saved, "patience_loss",
        &reference, "computed_with", &machine);
    snprintf(s.machine, sizeof s.machine, "%s", bad ? "" : machine);
    json_decref(json);
    if (bad || step < 0 || updates < 0 || cursor < 0 || tokens < 0 || skipped < 0 || used < 0 ||
        s.lr_factor < 0)
        return err_set(err, STATUS_CORRUPT, "%s: %s", path, bad ? problem.text : "a number is negative");
    s.step = step;
    s.updates = updates;
    s.corpus = (struct corpus_mark){(uint64_t)corpus[0], (uint64_t)corpus[1], (uint64_t)corpus[2]};
    s.cursor = (uint64_t)cursor;
    s.tokens = tokens;
    s.skipped_in_a_row = skipped;
    s.stopping.best = best;
    s.stopping.reference = isnan(reference) ? best : reference;
    s.stopping.best_step = best_step;
    s.best_saved = saved == INT64_MIN ? best_step : saved;
    s.stopping.used = used;
    s.stopping.patience = patience;
    *out = s;
    return STATUS_OK;
}

enum status checkpoint_load_state(const char *folder, struct train_state *state, struct err *err)
{
    char path[CHECKPOINT_PATH];
    enum status status = checkpoint_join(path, folder, "trainer.json", err);
    return status ? status : read_state(path, state, err);
}

enum status checkpoint_load_weights(const char *folder, struct network *net, struct err *err)
{
    struct weight_files files = {0};
    enum status status = check_model(folder, &net->model->config, err);
    if (!status) status = weight_files_open(folder, &files, err);
    if (!status) status = upload(&files, net, 0, err);
    if (!status) network_weights_written(net);
    weight_files_close(&files);
    return status;
}

enum status checkpoint_check_weights(const struct weight_files *files, const struct model *model,
                                     struct err *err)
{
    return check_all(files, model, 0, err);
}

enum status checkpoint_load(const char *folder, struct network *net, struct train_state *state,
                            const struct param **thawed, struct err *err)
{
    char path[CHECKPOINT_PATH];
    struct weight_files files = {0};
    const struct param *first = NULL;
    enum status status = checkpoint_load_weights(folder, net, err);
    if (!status) status = checkpoint_join(path, folder, "optimizer.safetensors", err);
    if (!status) status = weight_files_open_one(path, &files, err);
    for (int i = 1; !status && i <= net->plan->input.moments; i++) status = upload(&files, net, i, err);
    for (size_t i = 0; !status && !first && i < net->model->param_count; i++) {
        const struct param *p = &net->model->params[i];
        if (!p->frozen && was_frozen(&files, p)) first = p;
    }
    if (thawed) *thawed = first;
    weight_files_close(&files);
    return status ? status : checkpoint_load_state(folder, state, err);
}
