/* See export_events.h: records of the protobuf messages that import_events.c reads. TensorBoard's loader
 * shows no scalars that are doubles, as a tensor could hold them, so values are floats. */
#include "runs/exchange/export_events.h"

#include <math.h>
#include <string.h>

#include "runs/exchange/protobuf.h"

/* ---- messages ---- */

struct message { /* all that is written is shorter */
    unsigned char bytes[512];
    size_t size;
};

static void put_varint(struct message *m, uint64_t value)
{
    for (; value > 0x7F; value >>= 7) m->bytes[m->size++] = (unsigned char)(value | 0x80);
    m->bytes[m->size++] = (unsigned char)value;
}

static void put_whole(struct message *m, unsigned field, int64_t value)
{
    put_varint(m, field << 3 | PROTOBUF_VARINT);
    put_varint(m, (uint64_t)value);
}

static void put_bits(struct message *m, uint64_t bits, int size)
{
    for (int i = 0; i < size; i++) m->bytes[m->size++] = (unsigned char)(bits >> 8 * i);
}

static void put_double(struct message *m, unsigned field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_varint(m, field << 3 | PROTOBUF_FIXED64);
    put_bits(m, bits, 8);
}

static void put_float(struct message *m, unsigned field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_varint(m, field << 3 | PROTOBUF_FIXED32);
    put_bits(m, bits, 4);
}

static void put_bytes(struct message *m, unsigned field, const void *bytes, size_t size)
{
    put_varint(m, field << 3 | PROTOBUF_BYTES);
    put_varint(m, size);
    memcpy(m->bytes + m->size, bytes, size);
    m->size += size;
}

/* ---- events ---- */

enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5 };

void event_out_begin(struct record_writer *out, FILE *stream, double wall_time)
{
    static const char version[] = "brain.Event:2";
    struct message event = {.size = 0};
    record_writer_init(out, stream);
    put_double(&event, EVENT_WALL_TIME, wall_time);
    put_bytes(&event, EVENT_VERSION, version, sizeof version - 1);
    record_writer_add(out, event.bytes, event.size);
}

void event_out_scalar(struct record_writer *out, const char *tag, int64_t step, double wall_time,
                      double value)
{
    enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2 };
    struct message event = {.size = 0}, summary = event, entry = event;
    put_bytes(&entry, VALUE_TAG, tag, strnlen(tag, EVENT_TAG_MAX - 1));
    put_float(&entry, VALUE_SIMPLE, (float)value);
    put_bytes(&summary, SUMMARY_VALUE, entry.bytes, entry.size);
    if (isfinite(wall_time)) put_double(&event, EVENT_WALL_TIME, wall_time);
    put_whole(&event, EVENT_STEP, step);
    put_bytes(&event, EVENT_SUMMARY, summary.bytes, summary.size);
    record_writer_add(out, event.bytes, event.size);
}
