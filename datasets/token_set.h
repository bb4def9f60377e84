/* Several token files that make one corpus, in the order they are named: what each is, and that they belong
 * together. Their ids stay where they are, in as many mappings; a sequence never crosses from one to the next
 * (see batch.h). */
#ifndef ANNEAL_DATASETS_TOKEN_SET_H
#define ANNEAL_DATASETS_TOKEN_SET_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "datasets/token_file.h"

struct token_set {
    struct token_file *files; /* count of them, in order; owned, as are the paths */
    char **paths;
    size_t count;
    uint64_t tokens;  /* in all of them */
    size_t described; /* the first file whose sidecar names a tokenizer; 0 where none does */
};

/* Opens all files. STATUS_USAGE when two of them were prepared with different tokenizers. */
enum status token_set_open(char *const *paths, size_t count, struct token_set *out, struct err *err);
void token_set_close(struct token_set *set); /* harmless on a zeroed struct */

/* Reads all files once, so that token_file_largest is free afterwards. Returns the largest id of all. */
uint32_t token_set_measure(struct token_set *set);

/* STATUS_CORRUPT naming the first file and token whose id is not below vocab_size. */
enum status token_set_check(const struct token_set *set, uint32_t vocab_size, struct err *err);

#endif
