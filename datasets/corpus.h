/* From the configuration's words `[data] train`, `tokenizer` to tokens that can be trained on.
 *
 * `train` is a .tok file, a text file, a folder of text files (all regular files below it, in sorted order),
 * or a recipe's name ("kjv"). `tokenizer` is "bytes", "bpe:N" or the path of a tokenizer.json. Text is
 * encoded once and kept under CACHE/<checksum of inputs and tokenizer>/: corpus.tok, corpus.tok.json,
 * tokenizer.json; a second call with the same inputs opens that. An interrupted or failed preparation leaves
 * no half-written cache; what a killed one left goes when the next text is opened. */
#ifndef ANNEAL_DATASETS_CORPUS_H
#define ANNEAL_DATASETS_CORPUS_H

#include "core/base/err.h"
#include "datasets/progress.h"
#include "datasets/token_file.h"
#include "datasets/tokenizer.h"

struct corpus {
    struct token_file file;
    struct tokenizer *tokenizer; /* NULL for a .tok file whose sidecar names none that can be found */
    char path[4096];             /* the .tok file */
};

/* `cache` is a folder, made when missing (normally $ANNEAL_HOME/data). A .tok file brings its own tokenizer:
 * there "bpe:N" says nothing, while "bytes" or a tokenizer.json other than the file's own is an error.
 * Afterwards every id of out->file is below out->file.vocab_size, also without a sidecar (then it is the
 * largest id + 1). */
enum status corpus_open(const char *train, const char *tokenizer, const char *cache,
                        const struct progress *progress, struct corpus *out, struct err *err);
void corpus_close(struct corpus *corpus); /* harmless on a zeroed struct */

/* What a preparation made. */
struct corpus_summary {
    uint64_t files, text_bytes, tokens;
    int vocab_size;
    char tokenizer_path[4096]; /* the tokenizer.json written beside the .tok file */
};

/* Prepares text inputs (files, folders, recipes; see text_inputs.h) as `path`, which ends with ".tok", with
 * its sidecar "PATH.json" and "NAME.tokenizer.json" beside it. Nothing is half-written on failure, and no
 * input is ever replaced: STATUS_USAGE. */
enum status corpus_prepare(const char *const *inputs, size_t count, const char *tokenizer, const char *cache,
                           const char *path, const struct progress *progress, struct corpus_summary *out,
                           struct err *err);

/* A BPE of vocab_size tokens learned from text inputs, for `anneal tokenizer train`. `path` is where the
 * caller will keep it: refused before any work unless it ends with ".json" and is none of the inputs. */
enum status corpus_train_tokenizer(const char *const *inputs, size_t count, int vocab_size, const char *cache,
                                   const char *path, const struct progress *progress, struct tokenizer **out,
                                   struct err *err);

#endif
