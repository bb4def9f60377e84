/* Token files, opened with mmap, in three formats; all numbers are little-endian:
 *
 *     .tok            u64 token count, then that many u32 ids
 *     llm.c, 16 bits  header of 256 int32: 20240520, version 1, token count; then that many u16 ids
 *     llm.c, 32 bits  header of 256 int32: 20240801, version 1 or 7, token count; then that many u32 ids
 *                     (https://github.com/karpathy/llm.c, dev/data/data_common.py, which writes 7)
 *
 * The content says which it is, not the name. Ids stay in the mapping as wide as they are: nothing is copied.
 * A sidecar "FILE.json" names the tokenizer, its vocabulary size and checksum, and repeats the token count:
 *
 *     {"tokens": 1263204, "tokenizer": "bpe:2048", "tokenizer_file": "corpus.tokenizer.json",
 *      "vocab_size": 2048, "tokenizer_checksum": "0123456789abcdef"}
 *
 * `tokenizer_file` is relative to the folder of the token file. A file without a sidecar is fine. */
#ifndef ANNEAL_DATASETS_TOKEN_FILE_H
#define ANNEAL_DATASETS_TOKEN_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "datasets/tokenizer.h"

enum token_format { TOKEN_FORMAT_TOK, TOKEN_FORMAT_SHARD_16, TOKEN_FORMAT_SHARD_32 };

struct token_file {
    const uint32_t *tokens; /* count of them, borrowed from the mapping; NULL where ids have 16 bits */
    const uint16_t *narrow; /* the same where ids have 16 bits, else NULL */
    uint64_t count;
    enum token_format format;
    uint64_t bound;              /* the largest id + 1, once token_file_measure has looked; else 0 */
    uint32_t vocab_size;         /* from the sidecar; 0 without one */
    uint64_t tokenizer_checksum; /* from the sidecar; 0 without one */
    char tokenizer[256];         /* from the sidecar: "bytes", "bpe:2048", a path; "" without one */
    char tokenizer_file[256];    /* from the sidecar: where the tokenizer.json lies; "" without one */
    void *map;                   /* private */
    uint64_t map_bytes;          /* private */
};

/* Whether a file is taken for a token file by its name: it ends with ".tok" or ".bin". */
bool token_file_named(const char *path);

/* A header of no known format, a size that is not exactly what its count needs, or a missing file, is one
 * clear error that names both sizes. The ids themselves are not looked at: see token_file_largest. */
enum status token_file_open(const char *path, struct token_file *out, struct err *err);
void token_file_close(struct token_file *file); /* harmless on a zeroed struct */

const char *token_format_name(enum token_format format); /* ".tok", "llm.c shard, 16 bits", ... */

/* Token i, below count. */
static inline uint32_t token_file_id(const struct token_file *file, uint64_t i)
{
    return file->narrow ? file->narrow[i] : file->tokens[i];
}

/* The largest id in the file (0 for an empty one): reads all of it, unless it has been measured. */
uint32_t token_file_largest(const struct token_file *file);
void token_file_measure(struct token_file *file); /* reads it once and for all */

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

#endif
