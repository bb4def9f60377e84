/* Token files, opened with mmap. Format `.tok`: u64 little-endian token count, then that many u32
 * little-endian ids; a sidecar "FILE.json" names the tokenizer, its vocabulary size and checksum, and repeats
 * the token count:
 *
 *     {"tokens": 1263204, "tokenizer": "bpe:2048", "tokenizer_file": "corpus.tokenizer.json",
 *      "vocab_size": 2048, "tokenizer_checksum": "0123456789abcdef"}
 *
 * `tokenizer_file` is relative to the folder of the .tok file. A .tok file without a sidecar is fine. */
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
    char tokenizer_file[256];    /* from the sidecar: where the tokenizer.json lies; "" without one */
    void *map;                   /* private */
    uint64_t map_bytes;          /* private */
};

/* A size that is not 8 + 4·count, or a missing file, is one clear error that names both sizes. The ids
 * themselves are not looked at: see token_file_largest. */
enum status token_file_open(const char *path, struct token_file *out, struct err *err);
void token_file_close(struct token_file *file); /* harmless on a zeroed struct */

/* The largest id in the file (0 for an empty one): reads all of it. */
uint32_t token_file_largest(const struct token_file *file);

/* STATUS_CORRUPT naming the first id that is not below vocab_size and its position. `path` is for the
 * message. */
enum status token_file_check(const struct token_file *file, const char *path, uint32_t vocab_size,
                             struct err *err);

/* What the sidecar says. Borrowed. */
struct token_sidecar {
    const char *tokenizer;      /* "bytes", "bpe:2048", a path */
    const char *tokenizer_file; /* NULL: none */
    uint32_t vocab_size;
    uint64_t tokenizer_checksum;
};

/* Writes a token file piece by piece, so that a corpus need not fit in memory. Nothing appears under `path`
 * before token_writer_commit; token_writer_abort leaves nothing behind. */
struct token_writer;
enum status token_writer_open(const char *path, struct token_writer **out, struct err *err);
enum status token_writer_append(struct token_writer *writer, const uint32_t *tokens, uint64_t count,
                                struct err *err);
uint64_t token_writer_count(const struct token_writer *writer);
/* Frees the writer, whatever it returns. */
enum status token_writer_commit(struct token_writer *writer, const struct token_sidecar *sidecar,
                                struct err *err);
void token_writer_abort(struct token_writer *writer); /* frees the writer; harmless on NULL */

/* Writes tokens and sidecar in one go; both appear whole or not at all. */
enum status token_file_write(const char *path, const uint32_t *tokens, uint64_t count,
                             const struct tokenizer *tokenizer, const char *tokenizer_name, struct err *err);

#endif
