/* See add_tokens.h. */
#include "core/checkpoint/add_tokens.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/checkpoint/checkpoint.h"
#include "core/model/hugging_face.h"
#include "core/model/safetensors.h"
#include "datasets/chat_template.h"
#include "datasets/json_file.h"
#include "datasets/tokenizer.h"

/* ---- the tokenizer ---- */

static const json_t *find_added(const json_t *list, const char *content)
{
    size_t i;
    const json_t *token;
    json_array_foreach(list, i, token) {
        const char *text = json_string_value(json_object_get(token, "content"));
        if (text && strcmp(text, content) == 0) return token;
    }
    return NULL;
}

/* Appends the tokens that are missing. One that is in the vocabulary, too, keeps its id, as transformers
 * reads it; others get ids from `next` on, and *added is their number. */
static enum status append_tokens(json_t *list, const json_t *vocab, const struct token_addition *a, int next,
                                 int *added, struct err *err)
{
    *added = 0;
    for (size_t i = 0; i < a->count; i++) {
        const char *content = a->tokens[i];
        if (!*content) return err_set(err, STATUS_USAGE, "a token to add is empty");
        if (find_added(list, content)) continue;
        const json_t *known = json_object_get(vocab, content);
        json_int_t id = known ? json_integer_value(known) : next + *added;
        json_t *token = json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id, "content", content,
                                  "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", 1);
        if (!token) return err_set(err, STATUS_USAGE, "a token to add is not UTF-8: %.60s", content);
        if (json_array_append_new(list, token)) return err_no_memory(err, "adding tokens");
        *added += !known;
    }
    return STATUS_OK;
}

/* The tokenizer.json with the tokens, released by the caller; *size is the number of its ids then. */
static enum status extend_tokenizer(const char *folder, const struct token_addition *a, json_t **out,
                                    int *size, int *added, struct err *err)
{
    char path[CHECKPOINT_PATH];
    struct tokenizer *tokenizer;
    checkpoint_join(path, folder, "tokenizer.json");
    if (!file_exists(path))
        return err_set(err, STATUS_USAGE, "%s: has no tokenizer.json to add tokens to", folder);
    enum status status = tokenizer_open_json(path, &tokenizer, err); /* checks it */
    if (status) return status;
    int before = tokenizer_vocab_size(tokenizer);
    tokenizer_close(tokenizer);
    if ((status = json_file_read(path, 0, out, err))) return status;
    json_t *list = json_object_get(*out, "added_tokens");
    if (!json_is_array(list)) {
        list = json_array();
        json_object_set_new(*out, "added_tokens", list);
    }
    const json_t *vocab = json_object_get(json_object_get(*out, "model"), "vocab");
    status = append_tokens(list, vocab, a, before, added, err);
    *size = before + *added;
    return status;
}

/* ---- the rows ---- */

struct growing {
    struct safetensors file;
    struct safetensor *tensors;  /* as they are written, owned */
    int rows;                    /* more than before */
    const struct safetensor *of; /* the tensor of the file whose means are in `means` */
    float *means;                /* (columns), owned */
    struct progress_meter *meter;
};

static bool has_rows_of_tokens(const struct safetensor *t)
{
    return t->dims == 2 &&
           (strcmp(t->name, "model.embed_tokens.weight") == 0 || strcmp(t->name, "lm_head.weight") == 0);
}

static enum status take_means(struct growing *g, const struct safetensor *t, struct err *err)
{
    size_t rows = (size_t)t->shape[0], columns = (size_t)t->shape[1];
    if (g->of == t && g->means) return STATUS_OK;
    free(g->means);
    double *sums = calloc(columns, sizeof *sums);
    g->means = malloc(columns * sizeof *g->means);
    g->of = t;
    for (size_t i = 0; sums && g->means && i < rows; i++) {
        safetensor_read(t, i * columns, columns, g->means);
        for (size_t j = 0; j < columns; j++) sums[j] += (double)g->means[j];
    }
    for (size_t j = 0; sums && g->means && j < columns; j++) g->means[j] = (float)(sums[j] / (double)rows);
    free(sums);
    return sums && g->means ? STATUS_OK : err_no_memory(err, "the rows of %s", t->name);
}

static enum status fetch(void *context, void *host, const struct safetensor *grown, size_t first,
                         size_t bytes, struct err *err)
{
    struct growing *g = context;
    const struct safetensor *t = &g->file.tensors[grown - g->tensors];
    size_t old = first < t->bytes ? t->bytes - first : 0, width = safetensor_width(t);
    enum status status = STATUS_OK;
    if (old > bytes) old = bytes;
    if (old) memcpy(host, (const unsigned char *)t->data + first, old);
    if (old < bytes) status = take_means(g, t, err);
    for (size_t at = old; !status && at < bytes; at += width)
        safetensor_encode(t, &g->means[(first + at) / width % (size_t)t->shape[1]], 1,
                          (unsigned char *)host + at);
    return status ? status : progress_advance(g->meter, bytes, err);
}

struct writing {
    int rows, vocab_size;
    json_t *tokenizer;
    struct file_map chat; /* a template of its own; empty: it keeps the old one */
    const struct progress *progress;
};

/* Writes the weights of `folder` with more rows. */
static enum status write_weights(const struct writing *w, const char *folder, const char *path,
                                 struct err *err)
{
    struct progress_meter meter = {w->progress, "adding tokens", 0, 0, 0};
    struct growing g = {.rows = w->rows, .meter = &meter};
    struct model_config config;
    enum status status = hugging_face_read_config(folder, &config, err);
    if (!status) status = safetensors_open_folder(folder, &g.file, err);
    if (!status) status = checkpoint_check_weights(&g.file, &config, err);
    if (!status && !(g.tensors = calloc(g.file.count, sizeof *g.tensors)))
        status = err_no_memory(err, "adding tokens");
    for (size_t i = 0; !status && i < g.file.count; i++) {
        struct safetensor *t = &g.tensors[i];
        *t = g.file.tensors[i];
        if (has_rows_of_tokens(t)) {
            t->bytes += t->bytes / (size_t)t->shape[0] * (size_t)g.rows;
            t->shape[0] += g.rows;
        }
        meter.total += t->bytes;
    }
    if (!status) status = safetensors_write(path, g.tensors, g.file.count, fetch, &g, err);
    free(g.tensors);
    free(g.means);
    safetensors_close(&g.file);
    return status;
}

/* ---- the folder ---- */

static enum status write_config(const struct writing *w, const char *folder, const char *to, struct err *err)
{
    char path[CHECKPOINT_PATH];
    json_t *config;
    enum status status = json_file_read(checkpoint_join(path, folder, "config.json"), 0, &config, err);
    if (status) return status;
    json_object_set_new(config, "vocab_size", json_integer(w->vocab_size));
    return json_file_write(checkpoint_join(path, to, "config.json"), config, JSON_INDENT(2), err);
}

/* All that is new goes into the folder before it gets its name. */
static enum status write_model(void *context, const char *folder, const char *path, struct err *err)
{
    const struct writing *w = context;
    char to[CHECKPOINT_PATH], file[CHECKPOINT_PATH];
    snprintf(to, sizeof to, "%.*s", (int)(strrchr(path, '/') - path), path);
    enum status status = write_weights(w, folder, path, err);
    if (!status) status = write_config(w, folder, to, err);
    if (!status)
        status = json_file_write(checkpoint_join(file, to, "tokenizer.json"), json_incref(w->tokenizer),
                                 JSON_INDENT(2), err);
    if (status || !w->chat.data) return status;
    return file_write_atomic(checkpoint_join(file, to, "chat_template.jinja"), w->chat.data, w->chat.size,
                             err);
}

/* Opens the file of a chat template, if there is one, and checks that it can be read as one. */
static enum status open_template(const char *path, struct file_map *out, struct err *err)
{
    struct chat_template *chat = NULL;
    if (!path) return STATUS_OK;
    enum status status = file_map_open(path, out, err);
    if (!status) status = chat_template_parse((const char *)out->data, out->size, path, &chat, err);
    chat_template_free(chat);
    return status;
}

enum status checkpoint_add_tokens(const char *folder, const struct token_addition *addition, const char *to,
                                  const struct progress *progress, struct tokens_added *out, struct err *err)
{
    struct model_config config;
    struct writing writing = {.progress = progress};
    int ids = 0;
    *out = (struct tokens_added){0};
    enum status status = hugging_face_read_config(folder, &config, err);
    if (!status) status = extend_tokenizer(folder, addition, &writing.tokenizer, &ids, &out->tokens, err);
    if (!status) status = open_template(addition->chat_template, &writing.chat, err);
    writing.rows = out->rows = ids > config.vocab_size ? ids - config.vocab_size : 0;
    writing.vocab_size = out->vocab_size = config.vocab_size + out->rows;
    if (!status) status = checkpoint_export_with(folder, folder, to, write_model, &writing, &out->bytes, err);
    file_map_close(&writing.chat);
    json_decref(writing.tokenizer);
    return status;
}
