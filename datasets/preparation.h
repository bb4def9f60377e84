/* Turns texts into token files: opens a tokenizer or learns it from the texts, encodes them one after the
 * other, and publishes the file with its sidecar and its tokenizer, complete or not at all.
 *
 * Texts encoded for training are kept in a cache, in a folder named by 32 hexadecimal digits, a hash of the
 * texts and their tokenizer: corpus.tok, corpus.tok.json, tokenizer.json, and where the texts are
 * conversations (instructions.h), runs.tok and runs.tok.json, see examples.h. It is built as "KEY.tmp-PID"
 * next to its final place by a process that holds a shared lock on the cache, so that leftovers of killed
 * processes can be recognised. */
#ifndef ANNEAL_DATASETS_PREPARATION_H
#define ANNEAL_DATASETS_PREPARATION_H

#include <limits.h>
#include <stdint.h>

#include "core/base/err.h"
#include "datasets/inputs.h"
#include "datasets/instructions.h"
#include "datasets/text_pieces.h"
#include "datasets/tokenizer.h"

/* Texts, and how they become tokens. Borrows everything. */
struct preparation {
    const struct inputs *texts;
    const char *word;               /* names the tokenizer */
    const struct tokenizer *opened; /* that tokenizer; NULL: "bpe:N", which is to be learned from the texts */
    const struct text_reading *reading;
    const struct progress *progress;
};

/* The result of a preparation. */
struct corpus_summary {
    uint64_t files, text_bytes, tokens;
    int vocab_size;
    char tokenizer_path[PATH_MAX]; /* the tokenizer.json written next to the .tok file */
};

/* Opens the tokenizer that `word` names, without text: *out stays NULL for "bpe:N". */
enum status preparation_open_tokenizer(const char *word, struct tokenizer **out, struct err *err);

/* Prepares text inputs (files, folders, recipes) as `path`, which ends with ".tok", next to its sidecar
 * "PATH.json" and "NAME.tokenizer.json". `tokenizer` is "bytes", "bpe:N" or the path of a tokenizer.json.
 * `reading`, of texts: NULL is as in text_pieces.h. Documents that end with a token get tokenizer_end; where
 * the tokenizer has none, lines of JSONL end with a line feed, and reading->ends is STATUS_USAGE. Nothing is
 * half-written on failure; replacing an input is STATUS_USAGE. */
enum status corpus_prepare(const char *const *inputs, size_t count, const char *tokenizer,
                           const struct text_reading *reading, const char *cache, const char *path,
                           const struct progress *progress, struct corpus_summary *out, struct err *err);

/* Learns a BPE of vocab_size tokens from text inputs, for `anneal tokenizer train`; with TOKENIZER_END if one
 * of them is JSONL, or for reading->ends. `path` is where the caller will write it; STATUS_USAGE before any
 * work unless it ends with ".json", is not an input and does not exist. */
enum status corpus_train_tokenizer(const char *const *inputs, size_t count, int vocab_size,
                                   const struct text_reading *reading, const char *cache, const char *path,
                                   const struct progress *progress, struct tokenizer **out, struct err *err);

/* ---- the cache ---- */

/* The folder of these texts with this tokenizer. May not exist. */
enum status corpus_cache_find(const struct preparation *preparation, const char *cache, char folder[PATH_MAX],
                              struct err *err);

/* Encodes texts into that folder, and removes leftovers of killed processes unless another process is
 * writing. If another process has created the folder meanwhile, it is kept if `is_good` accepts it. */
enum status corpus_cache_make(const struct preparation *preparation, const char *folder,
                              bool (*is_good)(const char *folder, bool conversations), struct err *err);

/* Whether this is the name of an entry of the cache. */
bool corpus_cache_is_entry(const char *name);

/* Removes an entry. A process that has it open keeps reading it. */
enum status corpus_cache_remove(const char *path, struct err *err);

/* Whether this is the name of an entry that is being encoded or removed: left over if no process is writing.
 */
bool corpus_cache_is_unfinished(const char *name);

/* Keeps other processes from writing to the cache until the descriptor that it returns is closed. -1: one is
 * writing, or there is no cache. */
int corpus_cache_lock(const char *cache);

#endif
