/* Texts into token files: a tokenizer is opened or learned from the texts, they are encoded one after the
 * other, and the file appears with its sidecar and its tokenizer, whole or not at all.
 *
 * What training has encoded is kept in a cache, in a folder named with 32 hexadecimal digits that stand for
 * the texts and their tokenizer: corpus.tok, corpus.tok.json, tokenizer.json. It is made as "KEY.tmp-PID"
 * beside its place by a process that holds a shared lock on the cache, so that what a killed one left can be
 * told. */
#ifndef ANNEAL_DATASETS_PREPARATION_H
#define ANNEAL_DATASETS_PREPARATION_H

#include <limits.h>
#include <stdint.h>

#include "core/base/err.h"
#include "datasets/inputs.h"
#include "datasets/tokenizer.h"

/* The result of a preparation. */
struct corpus_summary {
    uint64_t files, text_bytes, tokens;
    int vocab_size;
    char tokenizer_path[PATH_MAX]; /* the tokenizer.json written beside the .tok file */
};

/* The tokenizer that `word` names, without any text: *out stays NULL for "bpe:N". */
enum status preparation_open_tokenizer(const char *word, struct tokenizer **out, struct err *err);

/* Prepares text inputs (files, folders, recipes) as `path`, which ends with ".tok", with its sidecar
 * "PATH.json" and "NAME.tokenizer.json" beside it. `tokenizer` is "bytes", "bpe:N" or the path of a
 * tokenizer.json. Nothing is half-written on failure, and no input is ever replaced: STATUS_USAGE. */
enum status corpus_prepare(const char *const *inputs, size_t count, const char *tokenizer, const char *cache,
                           const char *path, const struct progress *progress, struct corpus_summary *out,
                           struct err *err);

/* A BPE of vocab_size tokens learned from text inputs, for `anneal tokenizer train`. `path` is where the
 * caller will keep it: refused before any work unless it ends with ".json" and is none of the inputs. */
enum status corpus_train_tokenizer(const char *const *inputs, size_t count, int vocab_size, const char *cache,
                                   const char *path, const struct progress *progress, struct tokenizer **out,
                                   struct err *err);

/* ---- the cache ---- */

/* The folder of these texts under the tokenizer `opened`, or one yet to be learned where `word` is "bpe:N".
 * It may not be there. */
enum status corpus_cache_find(const struct inputs *texts, const char *word, const struct tokenizer *opened,
                              const char *cache, const struct progress *progress, char folder[PATH_MAX],
                              struct err *err);

/* Encodes texts into that folder, and removes what killed processes left while no other is at work. Where
 * there is one by then it stays if `is_good` says so. */
enum status corpus_cache_make(const struct inputs *texts, const char *word, const struct tokenizer *opened,
                              const char *folder, bool (*is_good)(const char *folder),
                              const struct progress *progress, struct err *err);

struct corpus_cache_entry {
    const char *path, *key;
    const char *tokenizer; /* "bytes", "bpe:2048", a path; "" for an entry that cannot be read */
    uint64_t tokens;       /* 0 likewise */
    uint64_t bytes;        /* of its files */
};

/* Calls visit for every entry, in no order; what it borrows is gone after the call. It may remove the entry.
 * A status other than STATUS_OK ends the walk and is its result. A cache that is not there has no entries. */
enum status corpus_cache_each(const char *cache,
                              enum status (*visit)(void *context, const struct corpus_cache_entry *entry,
                                                   struct err *err),
                              void *context, struct err *err);

/* Removes an entry: at once for whoever looks for it. A process that has it open keeps reading it. */
enum status corpus_cache_remove(const char *path, struct err *err);

#endif
