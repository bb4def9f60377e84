/* See checkpoint.h. */
#include "core/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/base/file.h"
#include "core/hugging_face.h"
#include "core/safetensors.h"

static const char *const file_names[] = {"model.safetensors", "optimizer.safetensors", "config.json",
                                         "tokenizer.json",    "tokenizer_config.json", "trainer.json"};
enum { FILE_COUNT = sizeof file_names / sizeof *file_names, PATH_SIZE = PATH_MAX };
#define CHECKSUMS "checksums"

static enum status join(char path[PATH_SIZE], const char *folder, const char *name, struct err *err)
{
    if (snprintf(path, PATH_SIZE, "%s/%s", folder, name) >= PATH_SIZE)
        return err_set(err, STATUS_USAGE, "%s: the path is too long", folder);
    return STATUS_OK;
}

/* ---- writing ---- */

static void fetch(void *context, void *host, const void *data, size_t bytes)
{
    struct network *net = context;
    net->backend->mem_download(host, data, bytes, net->stream);
}

/* One safetensor per parameter, its data at `base` + the parameter's offset, its name with `prefix`. */
static bool describe(struct arena *arena, const struct model *model, const char *prefix, const float *base,
                     struct safetensor *out)
{
    for (size_t i = 0; i < model->param_count; i++) {
        const struct param *p = &model->params[i];
        char *name = arena_printf(arena, "%s%s", prefix, p->name);
        if (!name) return false;
        out[i] = (struct safetensor){.name = name,
                                     .dtype = "F32",
                                     .shape = {p->rows, p->cols},
                                     .dims = p->cols ? 2 : 1,
                                     .data = base + p->offset,
                                     .bytes = p->count * sizeof(float)};
    }
    return true;
}

static float *moment(const struct network *net, int which)
{
    size_t offset = which ? net->plan->moment2 : net->plan->moment1;
    return (float *)(net->memory[PLAN_MOMENTS] + offset);
}

static enum status write_tensors(const char *folder, struct network *net, struct err *err)
{
    static const char *const prefixes[] = {"m.", "v."};
    const struct model *model = net->model;
    int moments = net->plan->input.moments;
    char path[PATH_SIZE];
    struct arena arena;
    arena_init(&arena, 65536);
    struct safetensor *tensors = arena_alloc_array(&arena, model->param_count * 2, sizeof *tensors);
    enum status status = join(path, folder, "model.safetensors", err);
    if (!status && (!tensors || !describe(&arena, model, "", net->weights, tensors)))
        status = err_set(err, STATUS_NO_MEMORY, "%s: no memory to write it", path);
    if (!status) status = safetensors_write(path, tensors, model->param_count, fetch, net, err);
    if (!status) status = join(path, folder, "optimizer.safetensors", err);
    for (int i = 0; !status && i < moments; i++)
        if (!describe(&arena, model, prefixes[i], moment(net, i), tensors + (size_t)i * model->param_count))
            status = err_set(err, STATUS_NO_MEMORY, "%s: no memory to write it", path);
    if (!status)
        status = safetensors_write(path, tensors, model->param_count * (size_t)moments, fetch, net, err);
    /* what a failed device does not deliver is NaN: never the content of a checkpoint */
    if (!status) status = net->backend->stream_wait(net->stream, err);
    arena_release(&arena);
    return status;
}

static enum status write_json(const char *folder, const char *name, json_t *json, struct err *err)
{
    char path[PATH_SIZE], *text = json ? json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
    enum status status = join(path, folder, name, err);
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
        "{s:I s:I s:I s:I s:f s:I s:I s:I s:I s:f s:I s:I s:I}", "step", (json_int_t)s->step, "updates",
        (json_int_t)s->updates, "cursor", (json_int_t)s->cursor, "tokens", (json_int_t)s->tokens, "lr_factor",
        s->lr_factor, "skipped_in_a_row", (json_int_t)s->skipped_in_a_row, "best_step",
        (json_int_t)e->best_step, "patience_used", (json_int_t)e->used, "patience", (json_int_t)e->patience,
        "min_delta", e->min_delta, "corpus_tokens", (json_int_t)s->corpus.tokens, "corpus_checksum",
        (json_int_t)s->corpus.checksum, "tokenizer_checksum", (json_int_t)s->corpus.tokenizer);
    if (json && isfinite(e->best)) json_object_set_new(json, "best_val_loss", json_real(e->best));
    return json;
}

/* Writes the checksum file over what lies in the folder; adds up the sizes. */
static enum status write_checksums(const char *folder, int64_t *bytes, struct err *err)
{
    char path[PATH_SIZE], text[FILE_COUNT * 64];
    size_t length = 0;
    enum status status = STATUS_OK;
    *bytes = 0;
    for (int i = 0; !status && i < FILE_COUNT; i++) {
        struct file_map map;
        if ((status = join(path, folder, file_names[i], err)) || !file_exists(path)) continue;
        if ((status = file_map_open(path, &map, err))) break;
        length += (size_t)snprintf(text + length, sizeof text - length, "%016" PRIx64 "  %s\n",
                                   (uint64_t)XXH64(map.data, map.size, 0), file_names[i]);
        *bytes += (int64_t)map.size;
        file_map_close(&map);
    }
    if (!status) status = join(path, folder, CHECKSUMS, err);
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

enum status checkpoint_save(const char *parent, struct network *net, const struct train_state *state,
                            const struct tokenizer *tokenizer, int64_t *bytes, struct err *err)
{
    char temporary[PATH_SIZE], final[PATH_SIZE], path[PATH_SIZE], name[64];
    snprintf(name, sizeof name, "step-%" PRId64, state->step);
    enum status status = join(final, parent, name, err);
    snprintf(name, sizeof name, ".step-%" PRId64 ".tmp-%ld", state->step, (long)getpid());
    if (!status) status = join(temporary, parent, name, err);
    if (status) return status;
    status = file_remove_tree(temporary, err);
    if (!status) status = file_make_folders(temporary, err);
    if (!status) status = write_tensors(temporary, net, err);
    if (!status) status = join(path, temporary, "config.json", err);
    if (!status) status = hugging_face_write_config(&net->model->config, path, err);
    if (!status) status = write_json(temporary, "trainer.json", state_json(state), err);
    if (!status && tokenizer && !(status = join(path, temporary, "tokenizer.json", err)))
        status = tokenizer_save_json(tokenizer, path, err);
    if (!status && tokenizer && !(status = join(path, temporary, "tokenizer_config.json", err)))
        status = hugging_face_write_tokenizer_config(path, err);
    if (!status) status = write_checksums(temporary, bytes, err);
    if (!status) status = publish(temporary, final, err);
    if (status) {
        file_remove_tree(temporary, NULL);
        err_prefix(err, "checkpoint at step %" PRId64, state->step);
    }
    return status;
}

/* ---- finding ---- */

/* The number of a folder named step-N, -1 otherwise. */
static int64_t step_of(const char *name)
{
    char *end;
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9') return -1;
    errno = 0;
    long long step = strtoll(name + 5, &end, 10);
    return *end || errno ? -1 : step;
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* The steps of all step-N folders, newest first, yours to free; NULL when there are none. */
static int64_t *list_steps(const char *parent, size_t *count)
{
    int64_t *steps = NULL;
    size_t capacity = 0;
    DIR *folder = opendir(parent);
    *count = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        int64_t step = step_of(entry->d_name);
        if (step < 0) continue;
        if (*count == capacity) {
            capacity = capacity ? capacity * 2 : 16;
            int64_t *grown = realloc(steps, capacity * sizeof *steps);
            if (!grown) break;
            steps = grown;
        }
        steps[(*count)++] = step;
    }
    if (folder) closedir(folder);
    if (*count) qsort(steps, *count, sizeof *steps, newest_first);
    return steps;
}

static enum status damaged(const char *folder, const char *what, struct err *err)
{
    return err_set(err, STATUS_CORRUPT, "%s: the checkpoint is damaged: %s", folder, what);
}

/* Every file that training needs is listed, and every listed file has its checksum. */
static enum status verify(const char *folder, struct err *err)
{
    char path[PATH_SIZE], text[FILE_COUNT * 64 + 1], name[48];
    struct file_map map;
    bool seen[FILE_COUNT] = {false};
    uint64_t expected;
    int used;
    enum status status = join(path, folder, CHECKSUMS, err);
    if (status || (status = file_map_open(path, &map, err))) return status;
    size_t length = map.size < sizeof text - 1 ? map.size : sizeof text - 1;
    memcpy(text, map.data, length);
    text[length] = '\0';
    file_map_close(&map);
    for (const char *line = text; sscanf(line, "%16" SCNx64 "  %47[a-z_.]\n%n", &expected, name, &used) == 2;
         line += used) {
        int which = 0;
        while (which < FILE_COUNT && strcmp(file_names[which], name) != 0) which++;
        if (which == FILE_COUNT) return damaged(folder, "an unknown file is listed", err);
        if ((status = join(path, folder, name, err)) || (status = file_map_open(path, &map, err)))
            return status;
        bool good = XXH64(map.data, map.size, 0) == expected;
        file_map_close(&map);
        if (!good) return damaged(folder, name, err);
        seen[which] = true;
    }
    for (int i = 0; i < FILE_COUNT; i++)
        if (!seen[i] && strncmp(file_names[i], "tokenizer", 9) != 0)
            return damaged(folder, file_names[i], err);
    return STATUS_OK;
}

enum status checkpoint_find(const char *parent, int64_t step, char *path, size_t size, struct err *err)
{
    struct err last = {0};
    size_t count;
    int64_t *steps = list_steps(parent, &count);
    enum status status = STATUS_NOT_FOUND;
    for (size_t i = 0; status && i < count; i++) {
        if (step >= 0 && steps[i] != step) continue;
        if (snprintf(path, size, "%s/step-%" PRId64, parent, steps[i]) >= (int)size) continue;
        status = verify(path, &last);
    }
    free(steps);
    if (!status) return STATUS_OK;
    if (last.status) return err_set(err, last.status, "%s", last.text);
    if (step >= 0) return err_set(err, STATUS_NOT_FOUND, "%s: no checkpoint of step %" PRId64, parent, step);
    return err_set(err, STATUS_NOT_FOUND, "%s: no checkpoint", parent);
}

bool checkpoint_passed_over(const char *parent, const char *found, char *newest, size_t size)
{
    size_t count;
    int64_t *steps = list_steps(parent, &count);
    bool known = count && snprintf(newest, size, "%s/step-%" PRId64, parent, steps[0]) < (int)size;
    free(steps);
    /* a trainer at work may just have added one, which is not damaged */
    return known && strcmp(newest, found) != 0 && verify(newest, NULL) != STATUS_OK;
}

/* ---- reading ---- */

/* Weights that the model has no place for would be left out in silence. Older files of others bring the
 * rotary frequencies, which say nothing new. */
static enum status refuse_unknown(const char *path, const struct safetensors *file, const struct model *model,
                                  struct err *err)
{
    for (size_t i = 0; i < file->count; i++) {
        const char *name = file->tensors[i].name;
        bool known = model_find(model, name) || strstr(name, "rotary_emb.inv_freq");
        if (!known)
            return err_set(err, STATUS_USAGE, "%s: has a tensor %.80s, which this model does not have", path,
                           name);
    }
    return STATUS_OK;
}

static enum status upload(const char *path, struct network *net, const char *prefix, float *base,
                          struct err *err)
{
    struct safetensors file;
    char name[96];
    enum status status = safetensors_open(path, &file, err);
    if (status) return status;
    if (!*prefix) status = refuse_unknown(path, &file, net->model, err);
    for (size_t i = 0; !status && i < net->model->param_count; i++) {
        const struct param *p = &net->model->params[i];
        snprintf(name, sizeof name, "%s%s", prefix, p->name);
        const struct safetensor *t = safetensors_find(&file, name);
        if (!t)
            status = err_set(err, STATUS_USAGE, "%s: has no tensor %s, which this model needs", path, name);
        else if (strcmp(t->dtype, "F32") != 0 || t->dims != (p->cols ? 2 : 1) || t->shape[0] != p->rows ||
                 (p->cols && t->shape[1] != p->cols))
            status = err_set(err, STATUS_USAGE, "%s: %s is %s (%lld, %lld), this model needs F32 (%d, %d)",
                             path, name, t->dtype, (long long)t->shape[0],
                             (long long)(t->dims > 1 ? t->shape[1] : 0), p->rows, p->cols);
        else
            net->backend->mem_upload(base + p->offset, t->data, t->bytes, net->stream);
    }
    if (!status) status = net->backend->stream_wait(net->stream, err);
    safetensors_close(&file);
    return status;
}

static enum status read_state(const char *path, struct train_state *out, struct err *err)
{
    struct train_state s = {0};
    json_error_t problem;
    json_int_t step, updates, cursor, tokens, skipped, best_step, used, patience, corpus[3];
    double best = INFINITY;
    json_t *json = json_load_file(path, JSON_REJECT_DUPLICATES, &problem);
    if (!json) return err_set(err, STATUS_CORRUPT, "%s:%d: %s", path, problem.line, problem.text);
    int bad = json_unpack_ex(json, &problem, 0, "{s:I s:I s:I s:I s:F s:I s:I s:I s:I s:F s:I s:I s:I s?F}",
                             "step", &step, "updates", &updates, "cursor", &cursor, "tokens", &tokens,
                             "lr_factor", &s.lr_factor, "skipped_in_a_row", &skipped, "best_step", &best_step,
                             "patience_used", &used, "patience", &patience, "min_delta",
                             &s.stopping.min_delta, "corpus_tokens", &corpus[0], "corpus_checksum",
                             &corpus[1], "tokenizer_checksum", &corpus[2], "best_val_loss", &best);
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
    s.stopping.best_step = best_step;
    s.stopping.used = used;
    s.stopping.patience = patience;
    *out = s;
    return STATUS_OK;
}

enum status checkpoint_load_weights(const char *folder, struct network *net, struct err *err)
{
    char path[PATH_SIZE];
    enum status status = join(path, folder, "model.safetensors", err);
    if (!status) status = upload(path, net, "", net->weights, err);
    if (!status) network_weights_written(net);
    return status;
}

enum status checkpoint_load(const char *folder, struct network *net, struct train_state *state,
                            struct err *err)
{
    char path[PATH_SIZE];
    enum status status = checkpoint_load_weights(folder, net, err);
    if (!status) status = join(path, folder, "optimizer.safetensors", err);
    if (!status) status = upload(path, net, "m.", moment(net, 0), err);
    if (!status && net->plan->input.moments > 1) status = upload(path, net, "v.", moment(net, 1), err);
    if (!status) status = join(path, folder, "trainer.json", err);
    return status ? status : read_state(path, state, err);
}

/* What a killed trainer left half-written; its own process is the only writer, so nobody misses it. */
static void remove_leftovers(const char *parent)
{
    char path[PATH_SIZE];
    DIR *folder = opendir(parent);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (strncmp(entry->d_name, ".step-", 6) == 0 && !join(path, parent, entry->d_name, NULL))
            file_remove_tree(path, NULL);
    if (folder) closedir(folder);
}

void checkpoint_prune(const char *parent, int64_t keep, int64_t best_step)
{
    char path[PATH_SIZE];
    size_t count;
    int64_t *steps = list_steps(parent, &count);
    for (size_t i = keep > 0 ? (size_t)keep : 0; i < count; i++) {
        if (steps[i] == best_step) continue;
        snprintf(path, sizeof path, "%.*s/step-%" PRId64, PATH_SIZE - 32, parent, steps[i]);
        file_remove_tree(path, NULL);
    }
    free(steps);
    remove_leftovers(parent);
}
