/* See protobuf.h. */
#include "runs/exchange/protobuf.h"

#include <math.h>
#include <string.h>

#include "core/base/text.h"

static bool read_varint(struct protobuf *m, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 70 && m->at < m->end; shift += 7) {
        unsigned char byte = *m->at++;
        if (shift < 64) *out |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80)) return true;
    }
    return false;
}

static bool read_fixed(struct protobuf *m, size_t size, uint64_t *out)
{
    *out = 0;
    if ((size_t)(m->end - m->at) < size) return false;
    for (size_t i = 0; i < size; i++) *out |= (uint64_t)m->at[i] << 8 * i;
    m->at += size;
    return true;
}

static bool read_field(struct protobuf *m, struct protobuf_field *out)
{
    uint64_t key, size;
    *out = (struct protobuf_field){0};
    if (!read_varint(m, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX) return false;
    out->number = (uint32_t)(key >> 3);
    out->kind = (enum protobuf_kind)(key & 7);
    switch (out->kind) {
    case PROTOBUF_VARINT:
        return read_varint(m, &out->whole);
    case PROTOBUF_FIXED64:
        return read_fixed(m, 8, &out->whole);
    case PROTOBUF_FIXED32:
        return read_fixed(m, 4, &out->whole);
    case PROTOBUF_BYTES:
        if (!read_varint(m, &size) || size > (uint64_t)(m->end - m->at)) return false;
        out->bytes = (struct protobuf){.at = m->at, .end = m->at + size};
        m->at += size;
        return true;
    }
    return false; /* the groups of old messages */
}

bool protobuf_next(struct protobuf *message, struct protobuf_field *out)
{
    if (message->bad || message->at == message->end) return false;
    message->bad = !read_field(message, out);
    return !message->bad;
}

double protobuf_double(const struct protobuf_field *field)
{
    double wide;
    float narrow;
    uint32_t low = (uint32_t)field->whole;
    memcpy(&wide, &field->whole, sizeof wide);
    memcpy(&narrow, &low, sizeof narrow);
    return field->kind == PROTOBUF_FIXED64 ? wide : field->kind == PROTOBUF_FIXED32 ? narrow : NAN;
}

char *protobuf_text(const struct protobuf_field *field, char *buf, size_t size)
{
    size_t n = (size_t)(field->bytes.end - field->bytes.at);
    if (n >= size) n = utf8_cut((const char *)field->bytes.at, size - 1);
    if (n) memcpy(buf, field->bytes.at, n);
    buf[n] = '\0';
    return buf;
}
