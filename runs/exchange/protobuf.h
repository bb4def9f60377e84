/* The wire format of Protocol Buffers (https://protobuf.dev/programming-guides/encoding/), read field by
 * field. The bytes may come from anybody: nothing outside the message is read, whatever its lengths say. */
#ifndef ANNEAL_RUNS_EXCHANGE_PROTOBUF_H
#define ANNEAL_RUNS_EXCHANGE_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A message, of which the bytes from `at` on are not read yet; borrowed. */
struct protobuf {
    const unsigned char *at, *end;
    bool bad; /* it is damaged; there are no further fields */
};

enum protobuf_kind { PROTOBUF_VARINT, PROTOBUF_FIXED64, PROTOBUF_BYTES, PROTOBUF_FIXED32 = 5 };

struct protobuf_field {
    uint32_t number;
    enum protobuf_kind kind;
    uint64_t whole;        /* of all kinds but bytes */
    struct protobuf bytes; /* a message or a text */
};

/* Reads the next field; false at the end or where the message is damaged. */
bool protobuf_next(struct protobuf *message, struct protobuf_field *out);

/* A fixed64 or fixed32 as the number that it stands for. */
double protobuf_double(const struct protobuf_field *field);

/* Copies a text of this field, cut between characters, into buf (size bytes with its NUL). A text with a zero
 * byte ends there. Returns buf. */
char *protobuf_text(const struct protobuf_field *field, char *buf, size_t size);

#endif
