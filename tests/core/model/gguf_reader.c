/* See gguf_reader.h. */
#include "tests/core/model/gguf_reader.h"

#include <stdbool.h>

#include "core/base/half.h"
#include "tests/cmocka.h"

uint64_t reader_take(struct gguf *g, size_t bytes)
{
    uint64_t value = 0;
    assert_in_range(g->at + bytes, 0, g->map.size);
    memcpy(&value, g->map.data + g->at, bytes);
    g->at += bytes;
    return value;
}

const char *reader_take_text(struct gguf *g, size_t *n)
{
    *n = reader_take(g, 8);
    const char *text = (const char *)g->map.data + g->at;
    assert_in_range(g->at + *n, 0, g->map.size);
    g->at += *n;
    return text;
}

static void skip_value(struct gguf *g, uint64_t type)
{
    static const size_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    size_t n;
    assert_in_range(type, 0, 12);
    if (type == 8) {
        reader_take_text(g, &n);
    } else if (type == 9) {
        uint64_t element = reader_take(g, 4), count = reader_take(g, 8);
        for (uint64_t i = 0; i < count; i++) skip_value(g, element);
    } else {
        reader_take(g, bytes[type]);
    }
}

/* Reads the entry of the next tensor; returns whether it has this name. */
static bool next_tensor(struct gguf *g, const char *name, struct tensor *t)
{
    size_t n;
    const char *text = reader_take_text(g, &n);
    t->dims = reader_take(g, 4);
    assert_in_range(t->dims, 1, 2);
    for (uint64_t d = 0; d < t->dims; d++) t->shape[d] = reader_take(g, 8);
    t->type = reader_take(g, 4);
    t->offset = reader_take(g, 8);
    return name && strlen(name) == n && memcmp(name, text, n) == 0;
}

void reader_open(struct gguf *g, const char *path)
{
    struct err err = {0};
    size_t n;
    *g = (struct gguf){0};
    if (file_map_open(path, &g->map, &err)) fail_msg("%s", err.text);
    assert_int_equal(reader_take(g, 4), 0x46554747); /* "GGUF" */
    assert_int_equal(reader_take(g, 4), 3);
    g->tensors = reader_take(g, 8);
    g->keys = reader_take(g, 8);
    g->first_key = g->at;
    for (uint64_t i = 0; i < g->keys; i++) {
        reader_take_text(g, &n);
        skip_value(g, reader_take(g, 4));
    }
    g->first_tensor = g->at;
    struct tensor t;
    for (uint64_t i = 0; i < g->tensors; i++) next_tensor(g, NULL, &t);
    g->data = (g->at + 31) / 32 * 32;
}

bool reader_find(struct gguf *g, const char *key, uint64_t type)
{
    size_t n;
    g->at = g->first_key;
    for (uint64_t i = 0; i < g->keys; i++) {
        const char *text = reader_take_text(g, &n);
        uint64_t found = reader_take(g, 4);
        if (strlen(key) == n && memcmp(key, text, n) == 0) {
            assert_int_equal(found, type);
            return true;
        }
        skip_value(g, found);
    }
    return false;
}

uint64_t reader_number(struct gguf *g, const char *key)
{
    if (!reader_find(g, key, 4)) fail_msg("there is no %s", key);
    return reader_take(g, 4);
}

void reader_expect_text(struct gguf *g, const char *expected)
{
    size_t n;
    const char *text = reader_take_text(g, &n);
    if (n != strlen(expected) || memcmp(text, expected, n) != 0)
        fail_msg("%.*s, not %s", (int)n, text, expected);
}

void reader_expect(struct gguf *g, const char *key, const char *expected)
{
    if (!reader_find(g, key, 8)) fail_msg("there is no %s", key);
    reader_expect_text(g, expected);
}

struct tensor reader_tensor(struct gguf *g, const char *name)
{
    struct tensor t;
    g->at = g->first_tensor;
    for (uint64_t i = 0; i < g->tensors; i++)
        if (next_tensor(g, name, &t)) return t;
    fail_msg("there is no tensor %s", name);
    return t;
}

/* Element (row, col) of a tensor; *step is the distance between the values that its type could have. */
double reader_element(const struct gguf *g, const struct tensor *t, size_t row, size_t col, double *step)
{
    size_t index = row * t->shape[0] + col;
    const unsigned char *data = g->map.data + g->data + t->offset;
    uint16_t narrow;
    float wide;
    assert_int_equal(t->offset % 32, 0);
    *step = 0;
    if (t->type == 0) return memcpy(&wide, data + 4 * index, 4), wide;
    if (t->type == 1) return memcpy(&narrow, data + 2 * index, 2), *step = 0x1p-10, float_of_f16(narrow);
    if (t->type == 30) return memcpy(&narrow, data + 2 * index, 2), *step = 0x1p-7, float_of_bf16(narrow);
    assert_int_equal(t->type, 8);
    memcpy(&narrow, data + index / 32 * 34, 2);
    *step = float_of_f16(narrow);
    return *step * (signed char)data[index / 32 * 34 + 2 + index % 32];
}

double reader_real(struct gguf *g, const char *key)
{
    uint32_t bits;
    if (!reader_find(g, key, 6)) fail_msg("there is no %s", key);
    bits = (uint32_t)reader_take(g, 4);
    return float_of_bits(bits);
}
