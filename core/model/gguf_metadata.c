/* See gguf_metadata.h. Numbers are little-endian. */
#include "core/model/gguf_metadata.h"

#include <endian.h>
#include <string.h>

#include "core/base/half.h"

void gguf_u32(FILE *stream, uint32_t value)
{
    value = htole32(value);
    fwrite(&value, sizeof value, 1, stream);
}

void gguf_u64(FILE *stream, uint64_t value)
{
    value = htole64(value);
    fwrite(&value, sizeof value, 1, stream);
}

void gguf_string(FILE *stream, const char *bytes, uint64_t n)
{
    gguf_u64(stream, n);
    fwrite(bytes, 1, n, stream);
}

/* "llama.block_count" for the key ".block_count" of the architecture "llama". */
static void put_key(struct gguf_metadata *m, const char *key, enum gguf_value type)
{
    char full[96];
    int n = snprintf(full, sizeof full, "%s%s", *key == '.' ? m->architecture : "", key);
    gguf_string(m->stream, full, (uint64_t)n);
    gguf_u32(m->stream, type);
    m->count++;
}

void gguf_put_u32(struct gguf_metadata *m, const char *key, int64_t value)
{
    put_key(m, key, GGUF_VALUE_U32);
    gguf_u32(m->stream, (uint32_t)value);
}

void gguf_put_f32(struct gguf_metadata *m, const char *key, double value)
{
    put_key(m, key, GGUF_VALUE_F32);
    gguf_u32(m->stream, float_bits((float)value));
}

void gguf_put_bool(struct gguf_metadata *m, const char *key, bool value)
{
    put_key(m, key, GGUF_VALUE_BOOL);
    putc(value, m->stream);
}

void gguf_put_text(struct gguf_metadata *m, const char *key, const char *value)
{
    put_key(m, key, GGUF_VALUE_TEXT);
    gguf_string(m->stream, value, strlen(value));
}

void gguf_put_list(struct gguf_metadata *m, const char *key, enum gguf_value type, uint64_t count)
{
    put_key(m, key, GGUF_VALUE_LIST);
    gguf_u32(m->stream, type);
    gguf_u64(m->stream, count);
}
