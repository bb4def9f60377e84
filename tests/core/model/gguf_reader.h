/* A small reader of GGUF files, apart from the code that writes them. Each fails the test when it cannot. */
#ifndef ANNEAL_TESTS_CORE_MODEL_GGUF_READER_H
#define ANNEAL_TESTS_CORE_MODEL_GGUF_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/file.h"

struct gguf {
    struct file_map map;
    size_t at;
    uint64_t tensors, keys;
    size_t first_key, first_tensor, data;
};

struct tensor {
    uint64_t dims, shape[2], type, offset;
};

/* The next number of so many bytes. */
uint64_t reader_take(struct gguf *g, size_t bytes);
/* The next text, of *n bytes; borrowed from the map. */
const char *reader_take_text(struct gguf *g, size_t *n);
/* Reads the header; close g->map. */
void reader_open(struct gguf *g, const char *path);
/* Goes to the value of a key, which must be of this type; false if there is no such key. */
bool reader_find(struct gguf *g, const char *key, uint64_t type);
/* A whole number of 32 bits. */
uint64_t reader_number(struct gguf *g, const char *key);
void reader_expect_text(struct gguf *g, const char *expected);
void reader_expect(struct gguf *g, const char *key, const char *expected);
struct tensor reader_tensor(struct gguf *g, const char *name);
/* *step: of the numbers of its type, relative to the number, for Q8_0 absolute; 0: they are exact. */
double reader_element(const struct gguf *g, const struct tensor *t, size_t row, size_t col, double *step);
/* A number in fp32. */
double reader_real(struct gguf *g, const char *key);

#endif
