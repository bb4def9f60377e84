/* See companions.h. */
#include "core/checkpoint/companions.h"

#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/model/generation_config.h"
#include "datasets/json_file.h"

static const char *const companion_names[COMPANIONS] = {"generation_config.json", "tokenizer_config.json",
                                                        "special_tokens_map.json", "chat_template.jinja",
                                                        "tokenizer.json"};

/* Whether the folder's tokenizer.json defines the same tokens. One that cannot be read does not. */
static bool same_tokenizer(const char *path, const struct tokenizer *tokenizer)
{
    struct tokenizer *other;
    if (!tokenizer) return true;
    if (!file_exists(path) || tokenizer_open_json(path, &other, NULL)) return false;
    bool same = tokenizer_checksum(other) == tokenizer_checksum(tokenizer);
    tokenizer_close(other);
    return same;
}

enum status companions_put(struct companions *companions, enum companion which, const char *bytes, size_t n,
                           struct err *err)
{
    struct companion_file *file = &companions->files[which];
    char *copy = malloc(n + 1);
    if (!copy) return err_no_memory(err, "%s", companion_names[which]);
    memcpy(copy, bytes, n);
    free(file->bytes);
    *file = (struct companion_file){copy, n};
    return STATUS_OK;
}

static enum status read_file(struct companions *companions, enum companion which, const char *folder,
                             struct err *err)
{
    char path[PATH_MAX];
    struct file_map map;
    enum status status = file_format_path(path, sizeof path, err, "%s/%s", folder, companion_names[which]);
    if (status || !file_exists(path)) return status;
    if ((status = file_map_open(path, &map, err))) return status;
    status = companions_put(companions, which, (const char *)map.data, map.size, err);
    file_map_close(&map);
    return status;
}

/* "eos_token_id" of `from` with the token at its end, as a list. */
static json_t *with_end(const json_t *from, uint32_t token)
{
    const json_t *old = json_object_get(from, "eos_token_id");
    json_t *ends = json_is_array(old) ? json_copy((json_t *)old) : json_array(), *id;
    size_t i;
    if (json_is_integer(old)) json_array_append(ends, (json_t *)old);
    json_array_foreach(ends, i, id)
        if (json_integer_value(id) == (json_int_t)token) return ends;
    json_array_append_new(ends, json_integer((json_int_t)token));
    return ends;
}

enum status companions_add_end(struct companions *companions, uint32_t token, struct err *err)
{
    const struct companion_file *file = &companions->files[COMPANION_GENERATION_CONFIG];
    json_t *config = file->bytes ? json_loadb(file->bytes, file->size, 0, NULL) : NULL;
    if (!json_is_object(config)) {
        json_decref(config);
        config = json_object();
    }
    bool named = json_object_get(config, "eos_token_id");
    json_t *ends = with_end(named ? config : companions->ids, token);
    json_t *end = json_array_size(ends) > 1 ? ends : json_array_get(ends, 0);
    json_object_set(config, "eos_token_id", end);
    if (!companions->ids) companions->ids = json_object();
    if (!json_object_get(companions->ids, "eos_token_id"))
        json_object_set(companions->ids, "eos_token_id", end);
    json_decref(ends);
    char *text = json_file_text(config, JSON_INDENT(2));
    json_decref(config);
    if (!text) return err_no_memory(err, "generation_config.json");
    enum status status = companions_put(companions, COMPANION_GENERATION_CONFIG, text, strlen(text), err);
    free(text);
    return status;
}

/* The ids in config.json or, from checkpoints of older versions, in generation_config.json. */
static enum status read_ids(const char *folder, json_t **out, struct err *err)
{
    struct special_tokens tokens;
    enum status status = special_tokens_of_config(folder, &tokens, err);
    if (status || (tokens.bos < 0 && tokens.pad < 0 && !tokens.eos_count)) return status;
    json_t *eos = json_array(), *ids = *out = json_object();
    if (tokens.bos >= 0) json_object_set_new(ids, "bos_token_id", json_integer(tokens.bos));
    if (tokens.pad >= 0) json_object_set_new(ids, "pad_token_id", json_integer(tokens.pad));
    for (int i = 0; i < tokens.eos_count; i++) json_array_append_new(eos, json_integer(tokens.eos[i]));
    if (tokens.eos_count)
        json_object_set(ids, "eos_token_id", tokens.eos_count > 1 ? eos : json_array_get(eos, 0));
    json_decref(eos);
    return ids ? STATUS_OK : err_no_memory(err, "the special tokens of %s", folder);
}

/* Sets the ids in config.json that are null there. */
static enum status write_ids(const json_t *ids, const char *folder, struct err *err)
{
    char path[PATH_MAX];
    const char *key;
    json_t *config, *id;
    enum status status = file_format_path(path, sizeof path, err, "%s/config.json", folder);
    if (status) return status;
    if ((status = json_file_read(path, 0, &config, err))) return status;
    json_object_foreach((json_t *)ids, key, id)
        if (json_is_null(json_object_get(config, key))) json_object_set(config, key, id);
    return json_file_write(path, config, JSON_INDENT(2), err);
}

enum status companions_read(const char *folder, const struct tokenizer *tokenizer, struct companions *out,
                            struct err *err)
{
    char path[PATH_MAX];
    struct companions found = {0};
    *out = found;
    enum status status = file_format_path(path, sizeof path, err, "%s/tokenizer.json", folder);
    if (status || !same_tokenizer(path, tokenizer)) return status;
    for (int i = 0; !status && i < (tokenizer ? COMPANION_TOKENIZER : COMPANIONS); i++)
        status = read_file(&found, (enum companion)i, folder, err);
    if (!status) status = read_ids(folder, &found.ids, err);
    if (status)
        companions_release(&found);
    else
        *out = found;
    return status;
}

enum status companions_write(const struct companions *c, const char *folder, struct err *err)
{
    char path[PATH_MAX];
    enum status status = STATUS_OK;
    for (int i = 0; !status && i < COMPANIONS; i++) {
        if (!c->files[i].bytes) continue;
        status = file_format_path(path, sizeof path, err, "%s/%s", folder, companion_names[i]);
        if (!status) status = file_write_atomic(path, c->files[i].bytes, c->files[i].size, err);
    }
    return !status && c->ids ? write_ids(c->ids, folder, err) : status;
}

void companions_release(struct companions *c)
{
    for (int i = 0; i < COMPANIONS; i++) free(c->files[i].bytes);
    json_decref(c->ids);
    *c = (struct companions){0};
}
