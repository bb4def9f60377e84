/* From the configuration's words `[data] train`, `tokenizer` to tokens that can be trained on.
 *
 * `train` is a .tok file, a text file, a folder of text files (all regular files below it, in sorted order),
 * or a recipe's name ("kjv"). `tokenizer` is "bytes", "bpe:N" or the path of a tokenizer.json. Text is
 * encoded once and kept under CACHE/<checksum of inputs and tokenizer>/: corpus.tok, corpus.tok.json,
 * tokenizer.json; a second call with the same inputs opens that. An interrupted or failed preparation leaves
 * no half-written cache. */
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

/* `cache` is a folder, made when missing (normally $ANNEAL_HOME/data). */
enum status corpus_open(const char *train, const char *tokenizer, const char *cache,
                        const struct progress *progress, struct corpus *out, struct err *err);
void corpus_close(struct corpus *corpus);

#endif
