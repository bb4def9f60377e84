/* See generation_config.h. */
#include "core/model/generation_config.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "datasets/json_file.h"

/* ---- special tokens ---- */

/* Older files write -1 for no token. */
static enum status read_id(const json_t *value, const char *file, const char *key, int64_t *out,
                           struct err *err)
{
    json_int_t id = json_integer_value(value);
    if (!json_is_integer(value) || id < -1 || id > INT_MAX)
        return err_set(err, STATUS_CORRUPT, "%s: %s must be the id of a token, a whole number from 0", file,
                       key);
    *out = id;
    return STATUS_OK;
}

/* One id, or a list of them; null or absent: none. */
static enum status read_ids(const json_t *json, const char *file, const char *key, int64_t *out, int most,
                            int *count, struct err *err)
{
    const json_t *value = json_object_get(json, key);
    size_t n = json_is_array(value) ? json_array_size(value) : value && !json_is_null(value);
    enum status status = STATUS_OK;
    int used = 0;
    if (n > (size_t)most)
        return err_set(err, STATUS_CORRUPT, "%s: %s lists more than %d tokens", file, key, most);
    for (size_t i = 0; !status && i < n; i++) {
        status = read_id(json_is_array(value) ? json_array_get(value, i) : value, file, key, &out[used], err);
        used += !status && out[used] >= 0;
    }
    *count = status ? 0 : used;
    return status;
}

static const char generation_file[] = "generation_config.json", config_file[] = "config.json";

/* A file counts for what those before it do not name. */
static enum status read_tokens(const char *folder, const char *const files[2], struct special_tokens *out,
                               struct err *err)
{
    struct special_tokens tokens = {.bos = -1, .pad = -1};
    enum status status = STATUS_OK;
    for (int i = 0; !status && i < 2; i++) {
        json_t *json;
        int count;
        status = json_file_find(folder, files[i], 0, &json, err);
        if (!status && tokens.bos < 0)
            status = read_ids(json, files[i], "bos_token_id", &tokens.bos, 1, &count, err);
        if (!status && tokens.pad < 0)
            status = read_ids(json, files[i], "pad_token_id", &tokens.pad, 1, &count, err);
        if (!status && !tokens.eos_count)
            status =
                read_ids(json, files[i], "eos_token_id", tokens.eos, END_TOKENS_MAX, &tokens.eos_count, err);
        json_decref(json);
    }
    if (status) return err_prefix(err, "%s", folder);
    *out = tokens;
    return STATUS_OK;
}

enum status special_tokens_read(const char *folder, struct special_tokens *out, struct err *err)
{
    return read_tokens(folder, (const char *const[]){generation_file, config_file}, out, err);
}

enum status special_tokens_of_config(const char *folder, struct special_tokens *out, struct err *err)
{
    return read_tokens(folder, (const char *const[]){config_file, generation_file}, out, err);
}

enum status special_texts_read(const char *folder, json_t **out, struct err *err)
{
    static const char *const files[] = {"special_tokens_map.json", "tokenizer_config.json"};
    json_t *texts = json_object();
    enum status status = texts ? STATUS_OK : err_no_memory(err, "the special tokens of %s", folder);
    for (int i = 0; !status && i < 2; i++) {
        json_t *json, *value;
        const char *key;
        status = json_file_find(folder, files[i], JSON_DECODE_INT_AS_REAL, &json, err);
        json_object_foreach(json, key, value) {
            json_t *content = json_object_get(value, "content"); /* of a token with its properties */
            if (text_ends_with(key, "_token") && json_is_string(content ? content : value))
                json_object_set(texts, key, content ? content : value);
        }
        json_decref(json);
    }
    if (status)
        json_decref(texts);
    else
        *out = texts;
    return status;
}

/* ---- the chat template ---- */

static enum status read_text(const char *path, char **out, struct err *err)
{
    struct file_map map;
    enum status status = file_map_open(path, &map, err);
    if (status) return status;
    const char *text = (const char *)map.data;
    if (memchr(text, '\0', map.size) || utf8_valid_bytes(text, map.size) != map.size)
        status = err_set(err, STATUS_CORRUPT, "%s: not UTF-8 text", path);
    else if (!(*out = strndup(text, map.size)))
        status = err_no_memory(err, "reading %s", path);
    file_map_close(&map);
    return status;
}

/* A string, or a list of {"name", "template"}. */
static const char *find_template(const json_t *value)
{
    const json_t *entry;
    size_t index;
    if (json_is_string(value)) return json_string_value(value);
    json_array_foreach(value, index, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (name && strcmp(name, "default") == 0)
            return json_string_value(json_object_get(entry, "template"));
    }
    return NULL;
}

enum status chat_template_read(const char *folder, char **out, struct err *err)
{
    char path[PATH_MAX];
    json_t *json;
    *out = NULL;
    enum status status = file_format_path(path, sizeof path, err, "%s/chat_template.jinja", folder);
    if (status) return status;
    if (file_exists(path)) return read_text(path, out, err);
    /* transformers writes 1e30 in digits for "model_max_length": too large for an integer */
    status = json_file_find(folder, "tokenizer_config.json", JSON_DECODE_INT_AS_REAL, &json, err);
    if (status) return status;
    const char *text = find_template(json_object_get(json, "chat_template"));
    if (text && !(*out = strdup(text))) status = err_no_memory(err, "the chat template of %s", folder);
    json_decref(json);
    return status;
}

enum status chat_format_read(const char *folder, const char *path, struct chat_format *out, struct err *err)
{
    struct chat_format format = {0};
    enum status status =
        path ? read_text(path, &format.source, err) : chat_template_read(folder, &format.source, err);
    if (!status && !format.source)
        status = err_set(err, STATUS_NOT_FOUND, "%s: the model has no chat template", folder);
    if (!status) status = special_texts_read(folder, &format.texts, err);
    if (!status) format.n = strlen(format.source);
    snprintf(format.name, sizeof format.name, path ? "%s" : "the chat template of %s", path ? path : folder);
    if (status)
        chat_format_release(&format);
    else
        *out = format;
    return status;
}

enum status chat_format_of_config(const struct config *c, struct chat_format *out, struct err *err)
{
    char folder[CONFIG_TEXT_MAX];
    const char *slash = strrchr(c->data.tokenizer, '/');
    if (*c->model.from)
        snprintf(folder, sizeof folder, "%s", c->model.from);
    else
        snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - c->data.tokenizer) : 1,
                 slash ? c->data.tokenizer : ".");
    if (!*c->model.from && !slash && !*c->data.template)
        return err_set(err, STATUS_USAGE,
                       "data.format = instructions: name the model whose chat template and tokenizer the "
                       "conversations use (--model.from=MODEL, or --data.template=FILE and "
                       "--data.tokenizer=FILE; if its lines are texts, set data.format = text)");
    enum status status = chat_format_read(folder, *c->data.template ? c->data.template : NULL, out, err);
    if (status != STATUS_NOT_FOUND || *c->data.template) return status;
    return err_set(err, status, "%s: the model has no chat template (name one: --data.template=FILE)",
                   folder);
}
