/* See checkpoint.h. Here: writing a checkpoint, from wherever its numbers lie. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/checkpoint_files.h"
#include "core/model/hugging_face.h"

/* What a failed device does not deliver is NaN: never the content of a checkpoint. */
static enum status fetch_from_device(void *context, void *host, const void *data, size_t bytes,
                                     struct err *err)
{
    struct network *net = context;
    net->backend->mem_download(host, data, bytes, net->stream);
    return net->backend->stream_wait(net->stream, err);
}

static enum status fetch_from_host(void *context, void *host, const void *data, size_t bytes, struct err *err)
{
    (void)context;
    (void)err;
    memcpy(host, data, bytes);
    return STATUS_OK;
}

static const float *moment(const struct network *net, int which)
{
    return network_at(net, which ? BUFFER_MOMENT2 : BUFFER_MOMENT1, 0);
}

struct checkpoint_source checkpoint_of_network(struct network *net, bool full)
{
    struct checkpoint_source source = {.model = net->model,
                                       .weights = net->weights,
                                       .frozen = net->frozen,
                                       .frozen_element = precision_element(net->plan->input.precision),
                                       .moment_count = full ? net->plan->input.moments : 0,
                                       .fetch = fetch_from_device,
                                       .context = net};
    for (int i = 0; i < source.moment_count; i++) source.moments[i] = moment(net, i);
    return source;
}

/* To its place in the snapshot, which it returns. */
static const void *copy_arena(struct network *net, enum buffer to, const void *from, size_t bytes)
{
    void *copy = network_at(net, to, 0);
    if (bytes) net->backend->mem_download(copy, from, bytes, net->stream);
    return copy;
}

enum status checkpoint_take_snapshot(struct network *net, struct checkpoint_source *out, struct err *err)
{
    const struct plan *plan = net->plan;
    size_t bytes = net->model->elements * sizeof(float);
    struct checkpoint_source source = {.model = net->model,
                                       .frozen_element = precision_element(plan->input.precision),
                                       .moment_count = plan->input.snapshot - 1,
                                       .fetch = fetch_from_host};
    source.weights = copy_arena(net, BUFFER_SNAPSHOT_WEIGHTS, net->weights, bytes);
    source.frozen = copy_arena(net, BUFFER_SNAPSHOT_FROZEN, net->frozen,
                               net->model->frozen_elements * element_bytes(source.frozen_element));
    for (int i = 0; i < source.moment_count; i++)
        source.moments[i] = copy_arena(net, BUFFER_SNAPSHOT_MOMENT1 + (enum buffer)i, moment(net, i), bytes);
    enum status status = net->backend->stream_wait(net->stream, err);
    if (!status) *out = source;
    return status;
}

/* Adds one safetensor to the *count at `out`. */
static bool describe(struct arena *arena, const char *prefix, const struct param *p, const void *base,
                     enum element element, struct safetensor *out, size_t *count)
{
    char *name = arena_printf(arena, "%s%s", prefix, p->name);
    out[(*count)++] =
        (struct safetensor){.name = name,
                            .dtype = element == ELEMENT_BF16 ? "BF16" : "F32",
                            .shape = {p->rows, p->cols},
                            .dims = p->cols ? 2 : 1,
                            .data = (const unsigned char *)base + p->offset * element_bytes(element),
                            .bytes = p->count * element_bytes(element)};
    return name;
}

/* The weights, or the moments of what is trainable. */
static enum status write_numbers(const char *path, const struct checkpoint_source *source, bool moments,
                                 struct err *err)
{
    static const char *const prefixes[] = {"m.", "v."};
    const struct model *model = source->model;
    size_t count = 0;
    struct arena arena;
    arena_init(&arena, 65536);
    struct safetensor *tensors = arena_alloc_array(&arena, model->param_count * 2, sizeof *tensors);
    bool described = tensors != NULL;
    for (int of = 0; of < (moments ? source->moment_count : 1); of++)
        for (size_t i = 0; described && i < model->param_count; i++) {
            const struct param *p = &model->params[i];
            if (moments && !p->frozen)
                described =
                    describe(&arena, prefixes[of], p, source->moments[of], ELEMENT_FP32, tensors, &count);
            else if (!moments)
                described = describe(&arena, "", p, p->frozen ? source->frozen : source->weights,
                                     p->frozen ? source->frozen_element : ELEMENT_FP32, tensors, &count);
        }
    enum status status = described
                             ? safetensors_write(path, tensors, count, source->fetch, source->context, err)
                             : err_set(err, STATUS_NO_MEMORY, "%s: no memory to write it", path);
    arena_release(&arena);
    return status;
}

static enum status write_tensors(const char *folder, const struct checkpoint_source *source, struct err *err)
{
    char path[CHECKPOINT_PATH];
    enum status status = checkpoint_join(path, folder, "model.safetensors", err);
    if (!status) status = write_numbers(path, source, false, err);
    if (!status) status = checkpoint_join(path, folder, "optimizer.safetensors", err);
    if (!status && source->moment_count) status = write_numbers(path, source, true, err);
    return status;
}

static enum status write_json(const char *folder, const char *name, json_t *json, struct err *err)
{
    char path[CHECKPOINT_PATH],
        *text = json ? json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
    enum status status = checkpoint_join(path, folder, name, err);
    if (!status && !text) status = err_set(err, STATUS_NO_MEMORY, "%s: no memory to write it", path);
    if (!status) status = file_write_atomic(path, text, strlen(text), err);
    free(text);
    json_decref(json);
    return status;
}

static json_t *state_json(const struct train_state *s)
{
    const struct early_stopping *e = &s->stopping;
    json_t *json = json_pack(
        "{s:I s:I s:I s:I s:f s:I s:I s:I s:I s:f s:I s:I s:I s:I}", "step", (json_int_t)s->step, "updates",
        (json_int_t)s->updates, "cursor", (json_int_t)s->cursor, "tokens", (json_int_t)s->tokens, "lr_factor",
        s->lr_factor, "skipped_in_a_row", (json_int_t)s->skipped_in_a_row, "best_step",
        (json_int_t)e->best_step, "patience_used", (json_int_t)e->used, "patience", (json_int_t)e->patience,
        "min_delta", e->min_delta, "corpus_tokens", (json_int_t)s->corpus.tokens, "corpus_checksum",
        (json_int_t)s->corpus.checksum, "tokenizer_checksum", (json_int_t)s->corpus.tokenizer, "best_saved",
        (json_int_t)s->best_saved);
    if (json && isfinite(e->best)) json_object_set_new(json, "best_val_loss", json_real(e->best));
    if (json && isfinite(e->reference)) json_object_set_new(json, "patience_loss", json_real(e->reference));
    if (json && *s->machine) json_object_set_new(json, "computed_with", json_string(s->machine));
    return json;
}

/* Writes the checksum file over what lies in the folder; adds up the sizes. */
static enum status write_checksums(const char *folder, int64_t *bytes, struct err *err)
{
    char path[CHECKPOINT_PATH], text[CHECKPOINT_FILES * 64];
    size_t length = 0;
    enum status status = STATUS_OK;
    *bytes = 0;
    for (int i = 0; !status && i < CHECKPOINT_FILES; i++) {
        uint64_t hash;
        int64_t size;
        if ((status = checkpoint_join(path, folder, checkpoint_files[i], err)) || !file_exists(path))
            continue;
        if ((status = checkpoint_hash(path, &hash, &size, err))) break;
        length += (size_t)snprintf(text + length, sizeof text - length, "%016" PRIx64 "  %s\n", hash,
                                   checkpoint_files[i]);
        *bytes += size;
    }
    if (!status) status = checkpoint_join(path, folder, "checksums", err);
    return status ? status : file_write_atomic(path, text, length, err);
}

/* Makes `temporary` visible as `final`; a folder of that name is exchanged for it in one step, so that at no
 * moment neither is there. */
static enum status publish(const char *temporary, const char *final, struct err *err)
{
    bool replace = file_exists(final);
    int failed = renameat2(AT_FDCWD, temporary, AT_FDCWD, final, replace ? RENAME_EXCHANGE : 0);
    if (failed && replace && errno == EINVAL) /* a file system without exchange: a moment without either */
        failed = file_remove_tree(final, NULL) || rename(temporary, final);
    if (failed)
        return err_set(err, STATUS_IO, "%s: cannot put the checkpoint in its place: %s", final,
                       strerror(errno));
    if (replace) file_remove_tree(temporary, NULL);
    file_sync_folder_of(final);
    return STATUS_OK;
}

enum status checkpoint_save(const char *parent, const struct checkpoint_source *source,
                            const struct train_state *state, const struct tokenizer *tokenizer,
                            int64_t *bytes, struct err *err)
{
    char temporary[CHECKPOINT_PATH], final[CHECKPOINT_PATH], path[CHECKPOINT_PATH], name[64];
    snprintf(name, sizeof name, "step-%" PRId64, state->step);
    enum status status = checkpoint_join(final, parent, name, err);
    snprintf(name, sizeof name, ".step-%" PRId64 ".tmp-%ld", state->step, (long)getpid());
    if (!status) status = checkpoint_join(temporary, parent, name, err);
    if (status) return status;
    status = file_remove_tree(temporary, err);
    if (!status) status = file_make_folders(temporary, err);
    if (!status) status = write_tensors(temporary, source, err);
    if (!status) status = checkpoint_join(path, temporary, "config.json", err);
    if (!status) status = hugging_face_write_config(&source->model->config, path, err);
    if (!status) status = write_json(temporary, "trainer.json", state_json(state), err);
    if (!status && tokenizer && !(status = checkpoint_join(path, temporary, "tokenizer.json", err)))
        status = tokenizer_save_json(tokenizer, path, err);
    if (!status && tokenizer && !(status = checkpoint_join(path, temporary, "tokenizer_config.json", err)))
        status = hugging_face_write_tokenizer_config(path, err);
    if (!status) status = write_checksums(temporary, bytes, err);
    if (!status) status = publish(temporary, final, err);
    if (status) {
        file_remove_tree(temporary, NULL);
        err_prefix(err, "checkpoint at step %" PRId64, state->step);
    }
    return status;
}

/* ---- giving one to another run ---- */

static enum status copy_file(const char *from, const char *to, struct err *err)
{
    struct file_map map;
    enum status status = file_map_open(from, &map, err);
    if (status) return status;
    status = file_write_atomic(to, map.data, map.size, err);
    file_map_close(&map);
    return status;
}

/* Links where `linked` and the file system can, and copies otherwise. Leaves a missing file out: verifying an
 * adopted checkpoint finds it, and of an exported model only config.json must be there. */
static enum status hand_over(const char *folder, const char *temporary, const char *name, bool linked,
                             int64_t *bytes, struct err *err)
{
    char from[CHECKPOINT_PATH], to[CHECKPOINT_PATH];
    struct stat st = {0};
    enum status status = checkpoint_join(from, folder, name, err);
    if (!status) status = checkpoint_join(to, temporary, name, err);
    if (status) return status;
    if (stat(from, &st) != 0 && (linked || strcmp(name, "config.json") != 0)) return STATUS_OK;
    if (!linked || link(from, to) != 0) status = copy_file(from, to, err);
    if (!status && strcmp(name, "checksums") != 0) *bytes += st.st_size;
    return status;
}

enum status checkpoint_adopt(const char *parent, const char *folder, int64_t *bytes, struct err *err)
{
    char temporary[CHECKPOINT_PATH], final[CHECKPOINT_PATH], name[96];
    const char *step = strrchr(folder, '/') + 1;
    enum status status = checkpoint_join(final, parent, step, err);
    snprintf(name, sizeof name, ".%.40s.tmp-%ld", step, (long)getpid());
    if (!status) status = checkpoint_join(temporary, parent, name, err);
    if (!status) status = file_make_folders(temporary, err);
    *bytes = 0;
    for (int i = 0; !status && i < CHECKPOINT_FILES; i++)
        status = hand_over(folder, temporary, checkpoint_files[i], true, bytes, err);
    if (!status) status = hand_over(folder, temporary, "checksums", true, bytes, err);
    if (!status) status = publish(temporary, final, err);
    if (!status)
        return checkpoint_find(parent, strtoll(step + strlen("step-"), NULL, 10), temporary, sizeof temporary,
                               err);
    file_remove_tree(temporary, NULL);
    return status;
}

/* ---- giving one away: copies, so that changes to them cannot reach the run ---- */

/* All shards as one file. */
static enum status join_shards(const char *folder, const char *temporary, int64_t *bytes, struct err *err)
{
    struct weight_files files = {0};
    char to[CHECKPOINT_PATH];
    size_t count = 0;
    struct stat st;
    enum status status = checkpoint_join(to, temporary, "model.safetensors", err);
    if (!status) status = weight_files_open(folder, &files, err);
    if (status) return status;
    for (size_t i = 0; i < files.count; i++) count += files.files[i].content.count;
    struct safetensor *tensors = arena_alloc_array(&files.arena, count, sizeof *tensors), *next = tensors;
    if (!tensors) status = err_set(err, STATUS_NO_MEMORY, "%s: no memory to write it", to);
    for (size_t i = 0; !status && i < files.count; i++) {
        const struct safetensors *shard = &files.files[i].content;
        memcpy(next, shard->tensors, shard->count * sizeof *next);
        next += shard->count;
    }
    if (!status) status = safetensors_write(to, tensors, count, fetch_from_host, NULL, err);
    if (!status && stat(to, &st) == 0) *bytes += st.st_size;
    weight_files_close(&files);
    return status;
}

static enum status export_weights(const char *folder, const char *temporary, int64_t *bytes, struct err *err)
{
    char path[CHECKPOINT_PATH];
    enum status status = checkpoint_join(path, folder, "model.safetensors", err);
    if (status) return status;
    return file_exists(path) ? hand_over(folder, temporary, "model.safetensors", false, bytes, err)
                             : join_shards(folder, temporary, bytes, err);
}

enum status checkpoint_export(const char *folder, const char *to, int64_t *bytes, struct err *err)
{
    static const char *const names[] = {"config.json", "tokenizer.json", "tokenizer_config.json",
                                        "special_tokens_map.json", "generation_config.json"};
    char temporary[CHECKPOINT_PATH];
    int length = (int)strlen(to);
    while (length > 1 && to[length - 1] == '/') length--;
    enum status status =
        file_format_path(temporary, sizeof temporary, err, "%.*s.tmp-%ld", length, to, (long)getpid());
    if (status) return status;
    if (rmdir(to) != 0 && errno != ENOENT)
        return err_set(err, STATUS_USAGE, "%s: is there already (name a folder that is not, or is empty)",
                       to);
    *bytes = 0;
    status = file_make_folders(temporary, err);
    if (!status) status = export_weights(folder, temporary, bytes, err);
    for (size_t i = 0; !status && i < sizeof names / sizeof *names; i++)
        status = hand_over(folder, temporary, names[i], false, bytes, err);
    if (!status && rename(temporary, to) != 0)
        status = err_set(err, STATUS_IO, "%s: cannot create: %s", to, strerror(errno));
    if (status)
        file_remove_tree(temporary, NULL);
    else
        file_sync_folder_of(to);
    return status;
}
