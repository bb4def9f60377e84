/* The metadata of a GGUF file: keys with typed values, in any order. */
#ifndef ANNEAL_CORE_MODEL_GGUF_METADATA_H
#define ANNEAL_CORE_MODEL_GGUF_METADATA_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The format's numbers for the types of values. */
enum gguf_value {
    GGUF_VALUE_U32 = 4,
    GGUF_VALUE_I32 = 5,
    GGUF_VALUE_F32 = 6,
    GGUF_VALUE_BOOL = 7,
    GGUF_VALUE_TEXT = 8,
    GGUF_VALUE_LIST = 9,
};

struct gguf_metadata {
    FILE *stream;             /* into memory; its error is checked once, at the end */
    uint64_t count;           /* of keys so far */
    const char *architecture; /* the prefix of keys that begin with a dot */
};

/* Each writes one key. */
void gguf_put_u32(struct gguf_metadata *m, const char *key, int64_t value);
void gguf_put_f32(struct gguf_metadata *m, const char *key, double value);
void gguf_put_bool(struct gguf_metadata *m, const char *key, bool value);
void gguf_put_text(struct gguf_metadata *m, const char *key, const char *value);

/* A key whose value is a list of `count` elements, which the caller writes next. */
void gguf_put_list(struct gguf_metadata *m, const char *key, enum gguf_value type, uint64_t count);

/* The elements of such lists. */
void gguf_string(FILE *stream, const char *bytes, uint64_t n);
void gguf_u32(FILE *stream, uint32_t value);
void gguf_u64(FILE *stream, uint64_t value);

#endif
