/* wandb's offline runs, see import.h: records (record_file.h) of the protobuf message Record of wandb, of
 * which the history, the configuration, the summary, and name, notes and tags of the run are read. The field
 * numbers are those of wandb_internal.proto of wandb 0.31. */
#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/base/text.h"
#include "runs/annotation.h"
#include "runs/exchange/import_scalars.h"
#include "runs/exchange/protobuf.h"
#include "runs/exchange/record_file.h"

enum {
    ITEM_KEY_MAX = 512, /* bytes of a key, also of a nested one */
    KEY_MAX = 120,      /* of a key of the configuration */
    VALUE_MAX = 1024,   /* of a value of the configuration */
    SUMMARY_MAX = 1000, /* keys */
    DEPTH_MAX = 8,      /* of objects in the configuration */
};

/* The newest value of a key in the summary. */
struct summary {
    char *key;
    double value;
    bool logged; /* the history has it, too */
};

struct wandb {
    struct import *import;
    struct import_scalars scalars;
    struct import_rows params, tags;
    struct arena arena; /* the keys of the summary */
    struct summary summary[SUMMARY_MAX];
    struct import_names settings; /* hashed: the names that lead to a setting */
    size_t summary_count, found;  /* found: the index of the key met last */
    int64_t step;                 /* of the newest row of the history */
    char run_id[80], name[RUN_NAME_MAX], note[RUN_NOTE_MAX], start[40];
};

/* ---- items: a key, or the parts of a nested one, and a value as JSON ---- */

struct item {
    char key[ITEM_KEY_MAX];
    struct protobuf json; /* empty: none */
    double number;        /* NaN is a number, too: see is_number */
    bool is_number;
};

static void add_part(char key[ITEM_KEY_MAX], const struct protobuf_field *part)
{
    size_t n = strlen(key);
    if (n && n + 1 < ITEM_KEY_MAX) key[n++] = '.';
    protobuf_text(part, key + n, ITEM_KEY_MAX - n);
}

static struct item read_item(struct protobuf message)
{
    enum { ITEM_KEY = 1, ITEM_NESTED_KEY = 2, ITEM_INTEGER = 5, ITEM_NUMBER = 6, ITEM_JSON = 16 };
    struct item item = {.number = NAN};
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

/* ---- the configuration ---- */

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

static enum status store_setting(struct wandb *w, const char *wanted, uint64_t hash, const json_t *value)
{
    struct import_name *key = import_names_find(&w->settings, hash);
    if (!key) key = import_names_add(&w->settings, hash, wanted, KEY_MAX);
    if (!key) return err_no_memory(w->import->err, "reading %s", w->import->path);
    char clean[VALUE_MAX], number[40], *dumped = NULL;
    const char *text = json_string_value(value);
    if (json_is_real(value)) text = text_format_double(json_real_value(value), number, sizeof number);
    if (!text) text = dumped = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    clean_line(clean, sizeof clean, text ? text : "");
    free(dumped);
    return import_rows_add(&w->params, (const char *[]){key->word, clean});
}

/* Objects become nested keys, such as wandb.model.dim. */
static enum status store_settings(struct wandb *w, const char *key, uint64_t hash, json_t *value, int depth)
{
    const char *name;
    json_t *member;
    enum status status = STATUS_OK;
    if (!json_object_size(value) || depth == DEPTH_MAX) return store_setting(w, key, hash, value);
    json_object_foreach(value, name, member)
    {
        char nested[KEY_MAX];
        snprintf(nested, sizeof nested, "%s", key);
        add_key(nested, name);
        if (!status) status = store_settings(w, nested, XXH64(name, strlen(name), hash), member, depth + 1);
    }
    return status;
}

static enum status read_config(struct wandb *w, struct protobuf config)
{
    enum { CONFIG_UPDATE = 1 };
    struct protobuf_field field;
    enum status status = STATUS_OK;
    while (!status && protobuf_next(&config, &field)) {
        struct item item = read_item(field.bytes);
        if (field.number != CONFIG_UPDATE || item.key[0] == '_' || item.json.at == item.json.end) continue;
        char key[KEY_MAX] = "wandb";
        json_t *value = json_loadb((const char *)item.json.at, (size_t)(item.json.end - item.json.at),
                                   JSON_DECODE_ANY, NULL);
        if (!value) value = load_odd_numbers(item.json);
        add_key(key, item.key);
        if (value) status = store_settings(w, key, XXH64(item.key, strlen(item.key), 0), value, 0);
        json_decref(value);
    }
    return status;
}

/* ---- history and summary ---- */

/* The entry of a key, which is made if there is room; NULL: there is none. The same keys come again in the
 * same order, so the search begins behind the one before. */
static struct summary *summary_of(struct wandb *w, const char *key)
{
    for (size_t i = 0; i < w->summary_count; i++) {
        size_t at = (w->found + 1 + i) % w->summary_count;
        if (strcmp(w->summary[at].key, key) != 0) continue;
        w->found = at;
        return &w->summary[at];
    }
    char *copy = w->summary_count < SUMMARY_MAX ? arena_strdup(&w->arena, key) : NULL;
    if (!copy) return NULL;
    w->summary[w->summary_count] = (struct summary){.key = copy, .value = NAN};
    return &w->summary[w->summary_count++];
}

static void read_summary(struct wandb *w, struct protobuf summary)
{
    enum { SUMMARY_UPDATE = 1 };
    struct protobuf_field field;
    while (protobuf_next(&summary, &field)) {
        struct item item = read_item(field.bytes);
        if (field.number != SUMMARY_UPDATE || !item.is_number || item.key[0] == '_') continue;
        struct summary *entry = summary_of(w, item.key);
        if (entry) entry->value = item.number;
    }
}

/* Whether this is the step that a trainer logs beside wandb's own, which counts rows: Hugging Face's and
 * Lightning's do. */
static bool is_trainer_step(const char *key)
{
    return strcmp(key, "train/global_step") == 0 || strcmp(key, "trainer/global_step") == 0;
}

/* The step of a row: that of the trainer where it logs one, else that of wandb. */
static int64_t step_of(struct protobuf history, double *wall_time)
{
    enum { HISTORY_ITEM = 1, HISTORY_STEP = 2, STEP_NUMBER = 1 };
    struct protobuf_field field, number;
    int64_t step = 0, logged = -1;
    while (protobuf_next(&history, &field)) {
        if (field.number == HISTORY_STEP)
            while (protobuf_next(&field.bytes, &number))
                if (number.number == STEP_NUMBER) step = (int64_t)number.whole;
        if (field.number != HISTORY_ITEM) continue;
        struct item item = read_item(field.bytes);
        bool whole = item.number >= 0 && item.number < 1e15 && floor(item.number) == item.number;
        if (strcmp(item.key, "_timestamp") == 0) *wall_time = item.number;
        if (strcmp(item.key, "_step") == 0 && whole) step = (int64_t)item.number;
        if (is_trainer_step(item.key) && whole) logged = (int64_t)item.number;
    }
    return logged >= 0 ? logged : step;
}

static enum status read_history(struct wandb *w, struct protobuf history)
{
    enum { HISTORY_ITEM = 1 };
    struct protobuf_field field;
    double wall_time = NAN;
    enum status status = STATUS_OK;
    w->step = step_of(history, &wall_time);
    while (!status && protobuf_next(&history, &field)) {
        struct item item = read_item(field.bytes);
        if (field.number != HISTORY_ITEM || !item.is_number || item.key[0] == '_') continue;
        struct summary *entry = summary_of(w, item.key);
        if (entry) entry->logged = true;
        if (is_trainer_step(item.key)) continue;
        status = import_scalar(&w->scalars, item.key, w->step, wall_time, item.number);
    }
    return status;
}

/* Values that were only summed up belong to the end. */
static enum status store_summary(struct wandb *w)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < w->summary_count; i++)
        if (!w->summary[i].logged)
            status = import_scalar(&w->scalars, w->summary[i].key, w->step, NAN, w->summary[i].value);
    return status;
}

/* ---- the run ---- */

static enum status read_tag(struct wandb *w, const struct protobuf_field *field)
{
    char text[TAG_MAX], tag[3 * TAG_MAX + 1];
    clean_line(tag, sizeof tag, protobuf_text(field, text, sizeof text));
    tag[utf8_cut(tag, strlen(tag) < TAG_MAX ? strlen(tag) : TAG_MAX - 1)] = '\0';
    for (char *c = tag; *c; c++)
        if (strchr(" ,()=!<>~\"'", *c) || (c == tag && strchr("+-", *c))) *c = '_';
    return tag_check(tag, NULL) ? STATUS_OK : import_rows_add(&w->tags, (const char *[]){tag});
}

static void read_start(struct wandb *w, struct protobuf timestamp)
{
    enum { TIME_SECONDS = 1 };
    struct protobuf_field field;
    while (protobuf_next(&timestamp, &field))
        if (field.number == TIME_SECONDS) snprintf(w->start, sizeof w->start, "%lld", (long long)field.whole);
}

static enum status read_run(struct wandb *w, struct protobuf run)
{
    enum {
        RUN_ID = 1,
        RUN_CONFIG = 4,
        RUN_SUMMARY = 5,
        RUN_NAME = 8,
        RUN_NOTES = 9,
        RUN_TAG = 10,
        RUN_START = 17
    };
    struct protobuf_field field;
    char note[RUN_NOTE_MAX];
    enum status status = STATUS_OK;
    while (!status && protobuf_next(&run, &field)) {
        if (field.number == RUN_ID) protobuf_text(&field, w->run_id, sizeof w->run_id);
        if (field.number == RUN_NAME) protobuf_text(&field, w->name, sizeof w->name);
        if (field.number == RUN_NOTES)
            clean_line(w->note, sizeof w->note, protobuf_text(&field, note, sizeof note));
        if (field.number == RUN_TAG) status = read_tag(w, &field);
        if (field.number == RUN_START) read_start(w, field.bytes);
        if (field.number == RUN_CONFIG) status = read_config(w, field.bytes);
        if (field.number == RUN_SUMMARY) read_summary(w, field.bytes);
    }
    return status;
}

/* Name, note and start, as a row of `runs`. */
static enum status store_run_row(struct wandb *w)
{
    const char *name = *w->name ? w->name : w->run_id;
    struct import_rows rows = {.import = w->import,
                               .table = TABLE_RUNS,
                               .columns = {&store_columns[COLUMN_RUNS_name], &store_columns[COLUMN_RUNS_note],
                                           &store_columns[COLUMN_RUNS_created_at]},
                               .count = 3};
    if (!*name) return STATUS_OK;
    enum status status = import_rows_begin(&rows);
    if (status) return status;
    return import_rows_add(&rows, (const char *[]){name, w->note, *w->start ? w->start : "0"});
}

/* ---- all of it ---- */

static enum status read_record(struct wandb *w, struct protobuf record)
{
    enum { RECORD_HISTORY = 2, RECORD_SUMMARY = 3, RECORD_CONFIG = 5, RECORD_RUN = 17 };
    struct protobuf_field field;
    enum status status = STATUS_OK;
    while (!status && protobuf_next(&record, &field)) {
        if (field.number == RECORD_HISTORY) status = read_history(w, field.bytes);
        if (field.number == RECORD_SUMMARY) read_summary(w, field.bytes);
        if (field.number == RECORD_CONFIG) status = read_config(w, field.bytes);
        if (field.number == RECORD_RUN) status = read_run(w, field.bytes);
    }
    return status || !record.bad ? status : import_bad(w->import, "is a damaged record");
}

static enum status begin(struct wandb *w, struct import *import)
{
    w->import = w->scalars.import = import;
    w->params = (struct import_rows){
        .import = import,
        .table = TABLE_PARAMS,
        .columns = {&store_columns[COLUMN_PARAMS_name], &store_columns[COLUMN_PARAMS_value]},
        .count = 2,
        .value = &store_columns[COLUMN_PARAMS_value]};
    w->tags = (struct import_rows){.import = import,
                                   .table = TABLE_TAGS,
                                   .columns = {&store_columns[COLUMN_TAGS_tag]},
                                   .count = 1,
                                   .value = &store_columns[COLUMN_TAGS_tag]};
    enum status status = import_rows_begin(&w->params);
    return status ? status : import_rows_begin(&w->tags);
}

enum status import_read_wandb(struct import *import, struct record_file *file)
{
    const unsigned char *bytes;
    size_t size;
    enum status status = import_set_kind(import, IMPORT_WANDB);
    struct wandb *w = calloc(1, sizeof *w);
    if (!status && !w) status = err_no_memory(import->err, "reading %s", import->path);
    if (!status) status = begin(w, import);
    for (; !status && !(status = record_file_next(file, &bytes, &size, import->err)) && bytes; import->line++)
        status = read_record(w, (struct protobuf){.at = bytes, .end = bytes + size});
    if (!status) status = store_summary(w);
    if (!status) status = store_run_row(w);
    if (w) arena_release(&w->arena);
    if (w) import_names_release(&w->settings);
    free(w);
    return status;
}
