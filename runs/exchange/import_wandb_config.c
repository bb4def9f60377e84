/* See import_wandb.h. */
#include "runs/exchange/import_wandb.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json_out.h"
#include "core/base/text.h"

enum {
    KEY_MAX = 120,    /* bytes of a key of the configuration */
    VALUE_MAX = 1024, /* of a value of the configuration */
    DEPTH_MAX = 8,    /* of objects in the configuration */
};

/* ---- items ---- */

static void add_part(char key[ITEM_KEY_MAX], const struct protobuf_field *part)
{
    size_t n = strlen(key);
    if (n && n + 1 < ITEM_KEY_MAX) key[n++] = '.';
    protobuf_text(part, key + n, ITEM_KEY_MAX - n);
}

struct wandb_item wandb_item_read(struct protobuf message)
{
    enum { ITEM_KEY = 1, ITEM_NESTED_KEY = 2, ITEM_INTEGER = 5, ITEM_NUMBER = 6, ITEM_JSON = 16 };
    struct wandb_item item = {.number = NAN};
    struct protobuf_field field;
    char text[64];
    while (protobuf_next(&message, &field)) {
        switch (field.number) {
        case ITEM_KEY:
        case ITEM_NESTED_KEY:
            add_part(item.key, &field);
            break;
        case ITEM_INTEGER: /* zigzag */
            item.number = (double)(int64_t)(field.whole >> 1 ^ (~(field.whole & 1) + 1));
            item.is_number = true;
            break;
        case ITEM_NUMBER:
            item.number = protobuf_double(&field);
            item.is_number = true;
            break;
        case ITEM_JSON:
            item.json = field.bytes;
            item.is_number = text_parse_double(protobuf_text(&field, text, sizeof text), &item.number);
            break;
        default:
            break;
        }
    }
    return item;
}

/* Python also writes NaN, Infinity and integers of any length, which are no JSON or too large for its reader:
 * they become strings. */
static json_t *load_odd_numbers(struct protobuf json)
{
    const char *at = (const char *)json.at, *end = (const char *)json.end;
    char *text = NULL;
    size_t size, n;
    bool string = false;
    FILE *out = open_memstream(&text, &size);
    for (; out && at < end; at += n) {
        for (n = 0; !string && at + n < end && (isalnum((unsigned char)at[n]) || memchr("+-.", at[n], 3));)
            n++;
        bool odd = n && (memchr(at, 'N', n) || memchr(at, 'I', n) || (n > 18 && !memchr(at, '.', n)));
        if (*at == '"') string = !string;
        if (!n) n = string && *at == '\\' && at + 1 < end ? 2 : 1;
        fprintf(out, odd ? "\"%.*s\"" : "%.*s", (int)n, at);
    }
    json_t *value = text_stream_end(out, &text) ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    free(text);
    return value;
}

json_t *wandb_item_value(const struct wandb_item *item)
{
    if (item->json.at == item->json.end) return NULL;
    json_t *value = json_loadb((const char *)item->json.at, (size_t)(item->json.end - item->json.at),
                               JSON_DECODE_ANY, NULL);
    return value ? value : load_odd_numbers(item->json);
}

/* ---- the configuration ---- */

bool wandb_config_update(json_t *config, struct protobuf record)
{
    enum { CONFIG_UPDATE = 1, CONFIG_REMOVE = 2 };
    struct protobuf_field field;
    bool room = true;
    while (room && protobuf_next(&record, &field)) {
        if (field.number != CONFIG_UPDATE && field.number != CONFIG_REMOVE) continue;
        struct wandb_item item = wandb_item_read(field.bytes);
        json_t *value = field.number == CONFIG_UPDATE && item.key[0] != '_' ? wandb_item_value(&item) : NULL;
        if (value) room = json_object_set_new_nocheck(config, item.key, value) == 0;
        if (field.number == CONFIG_REMOVE) (void)json_object_del(config, item.key);
    }
    return room;
}

struct settings {
    struct import *import;
    struct import_rows rows;
    json_t *keys;        /* an object with those that are taken */
    int cut;             /* values that were too long */
    char first[KEY_MAX]; /* of these */
};

/* Appends a part to a key of the configuration: letters, digits, _ and -, with _ for all others. */
static void add_key(char key[KEY_MAX], const char *part)
{
    size_t n = strlen(key);
    if (n + 2 >= KEY_MAX) return;
    key[n++] = '.';
    if (!*part) key[n++] = '_';
    for (; *part && n + 1 < KEY_MAX; part++)
        key[n++] =
            strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", *part) ? *part : '_';
    key[n] = '\0';
}

/* Writes JSON with the shortest decimals that read back as the same numbers. */
static void write_json(struct json_out *out, const char *name, const json_t *value)
{
    const char *key;
    json_t *member;
    size_t i;
    bool object = json_is_object(value);
    if (json_is_real(value)) return json_out_real(out, name, json_real_value(value));
    if (json_is_integer(value)) return json_out_int(out, name, json_integer_value(value));
    if (json_is_boolean(value)) return json_out_bool(out, name, json_is_true(value));
    if ((!object && !json_is_array(value)) || out->depth >= JSON_OUT_DEPTH_MAX)
        return json_out_text(out, name, json_string_value(value));
    json_out_open(out, name, object ? '{' : '[', JSON_OUT_COMPACT);
    if (object)
        json_object_foreach((json_t *)value, key, member) write_json(out, key, member);
    else
        json_array_foreach(value, i, member) write_json(out, NULL, member);
    json_out_close(out);
}

/* The text of a value; yours to free, NULL: memory is short. */
static char *text_of(const json_t *value)
{
    struct json_out json;
    char *text = NULL;
    size_t size;
    if (json_is_string(value)) return strdup(json_string_value(value));
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    json_out_begin(&json, out);
    write_json(&json, NULL, value);
    return text_stream_end(out, &text) ? text : NULL;
}

/* Names that differ in signs or far behind have the same key, and none may be lost: the second one gets a
 * number. False: memory is short. */
static bool choose_key(struct settings *s, const char *wanted, char key[KEY_MAX])
{
    int kept = (int)strnlen(wanted, KEY_MAX - 8);
    snprintf(key, KEY_MAX, "%s", wanted);
    for (int n = 2; json_object_get(s->keys, key); n++) snprintf(key, KEY_MAX, "%.*s_%d", kept, wanted, n);
    return json_object_set_new(s->keys, key, json_null()) == 0;
}

static enum status stage_setting(struct settings *s, const char *wanted, const json_t *value)
{
    char key[KEY_MAX], clean[VALUE_MAX], *text = choose_key(s, wanted, key) ? text_of(value) : NULL;
    if (!text) return err_no_memory(s->import->err, "reading %s", s->import->path);
    if (strlen(text) >= VALUE_MAX && !s->cut++) snprintf(s->first, sizeof s->first, "%s", key);
    clean_line(clean, sizeof clean, text);
    free(text);
    return import_rows_add(&s->rows, (const char *[]){key, clean});
}

/* Objects become nested keys, such as wandb.model.dim. */
static enum status stage_settings(struct settings *s, const char *key, json_t *value, int depth)
{
    const char *name;
    json_t *member;
    enum status status = STATUS_OK;
    if (!json_object_size(value) || depth == DEPTH_MAX) return stage_setting(s, key, value);
    json_object_foreach(value, name, member) {
        char nested[KEY_MAX];
        snprintf(nested, sizeof nested, "%s", key);
        add_key(nested, name);
        if (!status) status = stage_settings(s, nested, member, depth + 1);
    }
    return status;
}

enum status wandb_config_stage(struct import *import, json_t *config)
{
    struct settings s = {.import = import,
                         .rows = {.import = import,
                                  .table = TABLE_PARAMS,
                                  .columns = {COLUMN(PARAMS, name), COLUMN(PARAMS, value)},
                                  .value = COLUMN(PARAMS, value)},
                         .keys = json_object()};
    const char *name;
    json_t *value;
    enum status status = import_rows_begin(&s.rows);
    json_object_foreach(config, name, value) {
        char key[KEY_MAX] = "wandb";
        add_key(key, name);
        if (!status) status = stage_settings(&s, key, value, 0);
    }
    if (!status && s.cut)
        text_add(import->remark, sizeof import->remark, "; ",
                 "%d value%s of the configuration %s cut to %d bytes, such as %.60s", s.cut,
                 text_plural(s.cut), s.cut == 1 ? "was" : "were", VALUE_MAX - 1, s.first);
    json_decref(s.keys);
    return status;
}
