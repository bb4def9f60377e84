/* See message.h. The fields of notes are described as those of tables are. */
#include "runs/message.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/base/arena.h"

#define NOTE_FIELD(record, member)                                                                           \
    {                                                                                                        \
        .name = #member, .sql = "", .null = 1, .field = FIELD_KIND(((struct record *)0)->member),            \
        .offset = offsetof(struct record, member)                                                            \
    }

static const struct column_info status_fields[] = {NOTE_FIELD(status_note, status)};
static const struct column_info order_fields[] = {NOTE_FIELD(order_note, id), NOTE_FIELD(order_note, step),
                                                  NOTE_FIELD(order_note, result)};
static const struct column_info segment_fields[] = {NOTE_FIELD(segment_note, at),
                                                    NOTE_FIELD(segment_note, step)};
static const struct column_info device_fields[] = {NOTE_FIELD(device_note, device),
                                                   NOTE_FIELD(device_note, precision)};
static const struct column_info end_fields[] = {NOTE_FIELD(end_note, status), NOTE_FIELD(end_note, at),
                                                NOTE_FIELD(end_note, message)};
static const struct column_info run_fields[] = {NOTE_FIELD(run_note, run.name),
                                                NOTE_FIELD(run_note, run.device),
                                                NOTE_FIELD(run_note, run.precision),
                                                NOTE_FIELD(run_note, run.config),
                                                NOTE_FIELD(run_note, run.parent_id),
                                                NOTE_FIELD(run_note, run.tags),
                                                NOTE_FIELD(run_note, note),
                                                NOTE_FIELD(run_note, created_at),
                                                NOTE_FIELD(run_note, run.parameters),
                                                NOTE_FIELD(run_note, run.frozen_parameters),
                                                NOTE_FIELD(run_note, run.total_steps),
                                                NOTE_FIELD(run_note, run.parent_step)};

struct shape {
    const char *name;
    const struct column_info *fields;
    int count;
    size_t size;
};

#define NOTE(word, record, fields)                                                                           \
    {                                                                                                        \
        word, fields, sizeof fields / sizeof *fields, sizeof(struct record)                                  \
    }
static const struct shape notes[MESSAGE_KINDS - TABLE_COUNT] = {NOTE("status", status_note, status_fields),
                                                                NOTE("order", order_note, order_fields),
                                                                NOTE("segment", segment_note, segment_fields),
                                                                NOTE("device", device_note, device_fields),
                                                                NOTE("end", end_note, end_fields),
                                                                NOTE("run", run_note, run_fields)};

static struct shape shape_of(int kind)
{
    if (kind >= TABLE_COUNT) return notes[kind - TABLE_COUNT];
    const struct table_info *table = &store_tables[kind];
    return (struct shape){table->name, &store_columns[table->first], table->end - table->first,
                          table->record};
}

size_t message_size(int kind)
{
    return shape_of(kind).size;
}

int message_texts(int kind, void *message, const char **places[MESSAGE_TEXTS_MAX])
{
    struct shape shape = shape_of(kind);
    int n = 0;
    for (int i = 0; i < shape.count && n < MESSAGE_TEXTS_MAX; i++)
        if (shape.fields[i].field == FIELD_TEXT)
            places[n++] = (const char **)((char *)message + shape.fields[i].offset);
    return n;
}

/* ---- to bytes ---- */

struct bytes {
    unsigned char **at;
    size_t *n, *capacity;
};

static bool put(struct bytes to, const void *bytes, size_t n)
{
    if (!list_reserve(to.at, *to.n, n, to.capacity, 1)) return false;
    memcpy(*to.at + *to.n, bytes, n);
    *to.n += n;
    return true;
}

static bool put_number(struct bytes to, char letter, const void *number)
{
    return put(to, &letter, 1) && put(to, number, 8);
}

static bool put_text(struct bytes to, const char *text)
{
    if (!text) return put(to, "0", 1);
    uint32_t length = (uint32_t)strlen(text);
    return put(to, "t", 1) && put(to, &length, sizeof length) && put(to, text, length + 1);
}

static bool put_field(struct bytes to, const struct column_info *column, const void *message)
{
    const void *field = (const char *)message + column->offset;
    int64_t whole = 0;
    switch (column->field) {
    case FIELD_NONE:
        return true;
    case FIELD_DOUBLE:
        return put_number(to, 'd', field);
    case FIELD_INT64:
        return put_number(to, 'i', field);
    case FIELD_INT:
        whole = *(const int *)field;
        return put_number(to, 'i', &whole);
    case FIELD_BOOL:
        whole = *(const bool *)field;
        return put_number(to, 'i', &whole);
    default:
        return put_text(to, column_text(column, message));
    }
}

bool message_pack(int kind, const void *message, unsigned char **bytes, size_t *n, size_t *capacity)
{
    struct bytes to = {bytes, n, capacity};
    struct shape shape = shape_of(kind);
    bool room = put_text(to, shape.name);
    for (int i = 0; room && i < shape.count; i++) room = put_field(to, &shape.fields[i], message);
    return room;
}

/* ---- from bytes ---- */

/* A value in the bytes; letter '\0': they end here. */
struct value {
    char letter;
    int64_t whole;
    double real;
    const char *text;
};

/* False: not a value. */
static bool next_value(const unsigned char **at, size_t *left, struct value *out)
{
    uint32_t length;
    *out = (struct value){.real = NAN};
    if (!*left) return true;
    out->letter = (char)**at;
    size_t n = out->letter == '0' ? 1 : out->letter == 't' ? 1 + sizeof length : 9;
    if (!strchr("0tid", out->letter) || *left < n) return false;
    if (out->letter == 't') {
        memcpy(&length, *at + 1, sizeof length);
        if (length >= *left - n) return false;
        out->text = (const char *)*at + n;
        n += (size_t)length + 1;
        if (memchr(out->text, '\0', (size_t)length + 1) != out->text + length) return false;
    } else if (out->letter != '0') {
        memcpy(out->letter == 'i' ? (void *)&out->whole : (void *)&out->real, *at + 1, 8);
    }
    *at += n;
    *left -= n;
    return true;
}

/* Sets the column's field of the message. A value that is absent sets it as a row without that column does
 * (columns.def). False: the value is of another type. */
static bool set_field(const struct column_info *column, const struct value *value, void *message)
{
    void *field = (char *)message + column->offset;
    bool absent = !value->letter, real = column->field == FIELD_DOUBLE;
    bool text = column->field >= FIELD_TEXT;
    if (!absent && (real ? value->letter != 'd' : text ? !strchr("t0", value->letter) : value->letter != 'i'))
        return false;
    const char *word = value->text ? value->text : "";
    switch (column->field) {
    case FIELD_DOUBLE:
        *(double *)field = value->real;
        return true;
    case FIELD_INT64:
        *(int64_t *)field = absent && column->null ? -1 : value->whole;
        return true;
    case FIELD_INT:
        *(int *)field = (int)value->whole;
        return value->whole >= INT32_MIN && value->whole <= INT32_MAX;
    case FIELD_BOOL:
        *(bool *)field = value->whole != 0;
        return true;
    case FIELD_TEXT:
        *(const char **)field = value->text || column->null ? value->text : "";
        return true;
    case FIELD_WORD:
        if (!word_parse(column->words, word, field)) *(int *)field = column->unknown;
        return true;
    default:
        return false; /* no message has it */
    }
}

bool message_is_row(int table)
{
    for (int c = store_tables[table].first; c < store_tables[table].end; c++)
        if (store_columns[c].place && strcmp(store_columns[c].name, "segment") == 0)
            return strcmp(store_tables[table].name, "segments") != 0;
    return false;
}

static int kind_of(const char *name)
{
    for (int kind = 0; kind < MESSAGE_KINDS; kind++)
        if ((kind >= TABLE_COUNT || message_is_row(kind)) && strcmp(shape_of(kind).name, name) == 0)
            return kind;
    return -1;
}

enum status message_unpack(const unsigned char *bytes, size_t n, int *kind, union message *out)
{
    struct value value;
    if (!next_value(&bytes, &n, &value) || !value.text) return STATUS_CORRUPT;
    if ((*kind = kind_of(value.text)) < 0) return STATUS_FAILED;
    struct shape shape = shape_of(*kind);
    assert(shape.size <= sizeof *out);
    *out = (union message){.bytes = {0}};
    for (int i = 0; i < shape.count; i++) {
        if (!shape.fields[i].field) continue;
        if (!next_value(&bytes, &n, &value) || !set_field(&shape.fields[i], &value, out))
            return STATUS_CORRUPT;
    }
    return STATUS_OK;
}
