/* Token files, opened with mmap, in three formats; all numbers are little-endian:
 *
 *     .tok            u64 token count, then that many u32 ids
 *     llm.c, 16 bits  header of 256 int32: 20240520, version 1, token count; then that many u16 ids
 *     llm.c, 32 bits  header of 256 int32: 20240801, version 1 or 7, token count; then that many u32 ids
 *                     (https://github.com/karpathy/llm.c, dev/data/data_common.py, which writes 7)
 *
 * The format follows from the content, not from the name. Ids are used in the mapping in their width: nothing
 * is copied. A sidecar "FILE.json" names the tokenizer, its vocabulary size and checksum, and repeats the
 * token count, with a checksum of the ids: XXH3 (64 bits) of the XXH3 of each 4 MiB of them.
 *
 *     {"tokens": 1263204, "tokenizer": "bpe:2048", "tokenizer_file": "corpus.tokenizer.json",
 *      "vocab_size": 2048, "tokenizer_checksum": "0123456789abcdef", "checksum": "0123456789abcdef"}
 *
 * `tokenizer_file` is a name in the folder of the token file. The texts of a mixture (inputs.h) have
 * "sources", too: the tokens of each source. The sidecar is optional. */
#ifndef ANNEAL_DATASETS_TOKEN_FILE_H
#define ANNEAL_DATASETS_TOKEN_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/file.h"

enum token_format { TOKEN_FORMAT_TOK, TOKEN_FORMAT_SHARD_16, TOKEN_FORMAT_SHARD_32 };

struct token_file {
    char *path;             /* owned */
    const uint32_t *tokens; /* count of them, borrowed from the mapping; NULL if ids have 16 bits */
    const uint16_t *narrow; /* the same if ids have 16 bits, else NULL */
    uint64_t count;
    enum token_format format;
    uint64_t bound;              /* the largest id + 1, after token_file_measure; else 0 */
    bool summed;                 /* the sidecar has a checksum of the ids */
    uint64_t checksum;           /* that checksum */
    uint32_t vocab_size;         /* from the sidecar; 0 without one */
    uint64_t tokenizer_checksum; /* from the sidecar; 0 without one */
    char tokenizer[256];         /* from the sidecar: "bytes", "bpe:2048", a path; "" without one */
    char tokenizer_file[256];    /* from the sidecar: the path of the tokenizer.json; "" without one */
    uint64_t *sources;           /* from the sidecar: tokens of each source, source_count of them; owned */
    size_t source_count;
    struct file_map map;
};

/* Whether a file name is that of a token file: it ends with ".tok" or ".bin". */
bool token_file_named(const char *path);
/* Whether a file begins like one of the formats: with the number of an llm.c shard, even of a damaged one, or
 * with the token count that the size of a .tok needs. */
bool token_file_begins(const char *path);

/* Fails with one clear error for an unknown header, a size other than its token count needs, or a missing
 * file. The ids themselves are not read: see token_file_find. */
enum status token_file_open(const char *path, struct token_file *out, struct err *err);
void token_file_close(struct token_file *file); /* harmless on a zeroed struct */

const char *token_format_name(enum token_format format); /* ".tok", "llm.c shard, 16 bits", ... */

/* Token i, below count. */
static inline uint32_t token_file_id(const struct token_file *file, uint64_t i)
{
    return file->narrow ? file->narrow[i] : file->tokens[i];
}

/* Reads the whole file and sets bound. STATUS_CORRUPT if the ids do not match the sidecar's checksum. */
enum status token_file_measure(struct token_file *file, struct err *err);

/* Whether an id is `least` or more; *index is the first one's. Reads the file unless it is measured. */
bool token_file_find(const struct token_file *file, uint32_t least, uint64_t *index);

/* The contents of the sidecar. Borrowed. */
struct token_sidecar {
    const char *tokenizer;      /* "bytes", "bpe:2048", a path */
    const char *tokenizer_file; /* NULL: none */
    uint32_t vocab_size;
    uint64_t tokenizer_checksum;
    const uint64_t *sources; /* source_count numbers whose sum is the token count; 0: none */
    size_t source_count;
};

/* Writes a token file piece by piece, so that a corpus need not fit into memory. Nothing appears under
 * `path`, which is borrowed, before token_writer_commit; token_writer_abort leaves nothing behind. */
struct token_writer {
    struct file_out out;
    uint64_t count;
    struct XXH3_state_s *piece, *pieces; /* checksums of the current piece, and of all pieces before */
    uint64_t in_piece;                   /* bytes */
};
enum status token_writer_open(struct token_writer *writer, const char *path, struct err *err);
enum status token_writer_append(struct token_writer *writer, const uint32_t *tokens, uint64_t count,
                                struct err *err);
/* Closes the writer in any case. */
enum status token_writer_commit(struct token_writer *writer, const struct token_sidecar *sidecar,
                                struct err *err);
/* Whether a file is a sidecar, as far as its members say. */
bool token_sidecar_is(const char *path);
void token_writer_abort(
    struct token_writer *writer); /* harmless on a zeroed struct, and on a closed writer */

#endif
