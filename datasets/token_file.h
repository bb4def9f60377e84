/* Token files, opened with mmap. Format `.tok`: u64 little-endian token count, then that many u32
 * little-endian ids; a sidecar "FILE.json" names the tokenizer, its vocabulary size and checksum. */
#ifndef ANNEAL_DATASETS_TOKEN_FILE_H
#define ANNEAL_DATASETS_TOKEN_FILE_H

#include <stdint.h>

#include "core/base/err.h"
#include "datasets/tokenizer.h"

struct token_file {
    const uint32_t *tokens; /* count of them, borrowed from the mapping */
    uint64_t count;
    uint32_t vocab_size;         /* from the sidecar; 0 without one */
    uint64_t tokenizer_checksum; /* from the sidecar; 0 without one */
    char tokenizer[256];         /* from the sidecar: "bytes", "bpe:2048", a path; "" without one */
    void *map;                   /* private */
    uint64_t map_bytes;          /* private */
};

/* A size that is not 8 + 4·count, or a missing file, is one clear error that names both sizes. */
enum status token_file_open(const char *path, struct token_file *out, struct err *err);
void token_file_close(struct token_file *file);

/* Writes tokens and sidecar; both appear whole or not at all. */
enum status token_file_write(const char *path, const uint32_t *tokens, uint64_t count,
                             const struct tokenizer *tokenizer, const char *tokenizer_name, struct err *err);

#endif
