/* See companions.h. */
#include "core/checkpoint/companions.h"

#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/model/generation_config.h"

const char *const companion_names[COMPANIONS] = {"generation_config.json", "tokenizer_config.json",
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

static enum status read_file(const char *path, struct companion_file *out, struct err *err)
{
    struct file_map map;
    if (!file_exists(path)) return STATUS_OK;
    enum status status = file_map_open(path, &map, err);
    if (status) return status;
    out->size = map.size;
    if ((out->bytes = malloc(map.size + 1)))
        memcpy(out->bytes, map.data, map.size);
    else
        status = err_no_memory(err, "reading %s", path);
    file_map_close(&map);
    return status;
}

/* generation_config.json from the ids of config.json. */
static enum status make_generation_config(const char *folder, struct companion_file *out, struct err *err)
{
    struct special_tokens tokens;
    enum status status = special_tokens_read(folder, &tokens, err);
    if (status || (tokens.bos < 0 && tokens.pad < 0 && !tokens.eos_count)) return status;
    json_t *json = json_object(), *eos = json_array();
    if (tokens.bos >= 0) json_object_set_new(json, "bos_token_id", json_integer(tokens.bos));
    if (tokens.pad >= 0) json_object_set_new(json, "pad_token_id", json_integer(tokens.pad));
    for (int i = 0; i < tokens.eos_count; i++) json_array_append_new(eos, json_integer(tokens.eos[i]));
    if (tokens.eos_count)
        json_object_set(json, "eos_token_id", tokens.eos_count > 1 ? eos : json_array_get(eos, 0));
    out->bytes = json_dumps(json, JSON_INDENT(2));
    out->size = out->bytes ? strlen(out->bytes) : 0;
    json_decref(eos);
    json_decref(json);
    return out->bytes ? STATUS_OK : err_no_memory(err, "the generation settings of %s", folder);
}

enum status companions_read(const char *folder, const struct tokenizer *tokenizer, struct companions *out,
                            struct err *err)
{
    char path[PATH_MAX];
    struct companions found = {0};
    *out = found;
    enum status status = file_format_path(path, sizeof path, err, "%s/tokenizer.json", folder);
    if (status || !same_tokenizer(path, tokenizer)) return status;
    for (int i = 0; !status && i < (tokenizer ? COMPANION_TOKENIZER : COMPANIONS); i++) {
        status = file_format_path(path, sizeof path, err, "%s/%s", folder, companion_names[i]);
        if (!status) status = read_file(path, &found.files[i], err);
    }
    struct companion_file *generation = &found.files[COMPANION_GENERATION_CONFIG];
    if (!status && !generation->bytes) status = make_generation_config(folder, generation, err);
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
    return status;
}

void companions_release(struct companions *c)
{
    for (int i = 0; i < COMPANIONS; i++) free(c->files[i].bytes);
    *c = (struct companions){0};
}
