/* Logs in JSON, see import.h: an object for each row, alone in a line, in a list, or in the list log_history
 * of the trainer_state.json that Hugging Face's trainer writes. Numbers in objects within a row have both
 * names:
 * {"eval": {"loss": 3}} is eval/loss. Python writes NaN and Infinity, which are not JSON: they are put in
 * quotes before the text is parsed. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "runs/exchange/import_named.h"

enum { DEPTH_MAX = 8, NAME_MAX_BYTES = 400, FILE_MAX = 1 << 30 };

struct reader {
    struct import_named named;
    char *text; /* the file, `size` bytes of it; owned */
    size_t size;
    int64_t rows; /* read so far */
    struct import_number *row;
    size_t count, capacity; /* of row */
};

static enum status no_memory(const struct reader *r)
{
    return err_no_memory(r->named.scalars.import->err, "reading %s", r->named.scalars.import->path);
}

/* ---- rows ---- */

static enum status add_number(struct reader *r, const char *name, double value)
{
    struct import_metric *metric = import_metrics_at(&r->named.scalars.import->metrics, name);
    if (!metric || !list_reserve(&r->row, r->count, 1, &r->capacity, sizeof *r->row)) return no_memory(r);
    r->row[r->count++] = (struct import_number){metric->name, value};
    return STATUS_OK;
}

/* Adds the numbers of an object to the row. `prefix`: the name of the object, with a slash behind. */
static enum status add_numbers(struct reader *r, json_t *object, const char *prefix, int depth)
{
    const char *key;
    json_t *value;
    double number;
    enum status status = STATUS_OK;
    json_object_foreach(object, key, value) {
        char name[NAME_MAX_BYTES] = "";
        if (status) break;
        text_add(name, sizeof name, "", "%s%s", prefix, key);
        if (json_is_number(value))
            status = add_number(r, name, json_number_value(value));
        else if (json_is_string(value) && text_parse_double(json_string_value(value), &number) &&
                 !isfinite(number))
            status = add_number(r, name, number);
        else if (json_is_object(value) && depth < DEPTH_MAX) {
            text_add(name, sizeof name, "", "/");
            status = add_numbers(r, value, name, depth + 1);
        }
    }
    return status;
}

static enum status read_value(struct reader *r, json_t *value, int depth)
{
    struct import *import = r->named.scalars.import;
    enum status status = STATUS_OK;
    json_t *history = json_object_get(value, "log_history"), *item;
    size_t i;
    if (json_is_array(history)) {
        import->steps_done = true;
        return read_value(r, history, depth + 1);
    }
    if (json_is_array(value) && depth < DEPTH_MAX) {
        json_array_foreach(value, i, item)
            if (!status) status = read_value(r, item, depth + 1);
        return status;
    }
    if (!json_is_object(value))
        return import_bad(import, "is JSON, but no object with the numbers of a step");
    r->count = 0;
    r->rows++;
    status = add_numbers(r, value, "", 0);
    return status ? status : import_named_row(&r->named, r->row, r->count);
}

/* ---- the file ---- */

/* Copies the file, with quotes around the words that Python writes for numbers without digits. */
static enum status load(struct reader *r, const struct file_map *map)
{
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    const char *from = (const char *)map->data, *end = from + map->size;
    bool quoted = false;
    from += utf8_mark(from, map->size);
    if (map->size > FILE_MAX)
        return import_bad(r->named.scalars.import, "is larger than %d MiB: too much for JSON",
                          FILE_MAX >> 20);
    if (!(r->text = malloc(map->size / 3 * 5 + 3))) return no_memory(r);
    while (from < end) {
        size_t n = 0;
        for (size_t i = 0; !quoted && !n && i < sizeof words / sizeof *words; i++) {
            size_t length = strlen(words[i]);
            if ((size_t)(end - from) >= length && memcmp(from, words[i], length) == 0) n = length;
        }
        if (n) {
            r->size += (size_t)sprintf(r->text + r->size, "\"%.*s\"", (int)n, from);
            from += n;
            continue;
        }
        if (*from == '"') quoted = !quoted;
        if (quoted && *from == '\\' && from + 1 < end) r->text[r->size++] = *from++;
        r->text[r->size++] = *from++;
    }
    return STATUS_OK;
}

/* Gives the rows of all values in the file to import_named.h. The last line may be half written. */
static enum status read_all(struct reader *r)
{
    struct import *import = r->named.scalars.import;
    const char *at = r->text, *end = r->text + r->size;
    enum status status = STATUS_OK;
    r->rows = 0;
    import->line = 1;
    const size_t flags = JSON_DISABLE_EOF_CHECK | JSON_DECODE_INT_AS_REAL; /* integers may be large */
    while (!status) {
        json_error_t error;
        for (; at < end && isspace((unsigned char)*at); at++) import->line += *at == '\n';
        if (at == end) break;
        json_t *value = json_loadb(at, (size_t)(end - at), flags, &error);
        if (!value && r->rows && !memchr(at, '\n', (size_t)(end - at))) {
            import_half_line(import);
            break;
        }
        if (!value) {
            import->line += error.line > 0 ? error.line - 1 : 0;
            return import_bad(import, "is not JSON: %s", CLEAN_LINE(error.text));
        }
        status = read_value(r, value, 0);
        json_decref(value);
        for (const char *next = at + error.position; at < next; at++) import->line += *at == '\n';
    }
    return status;
}

enum status import_read_json(struct import *import)
{
    struct reader r = {.named.scalars = {.import = import, .survey = true}};
    struct file_map map = {0};
    enum status status = import_set_kind(import, IMPORT_NAMED);
    if (!status) status = file_map_open(import->path, &map, import->err);
    if (!status) status = load(&r, &map);
    file_map_close(&map);
    if (!status) status = read_all(&r);
    if (!status) status = import_named_begin(&r.named);
    if (!status) status = read_all(&r);
    free(r.text);
    free(r.row);
    return status;
}
