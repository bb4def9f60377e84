/* From the configuration's words `[data] train`, `tokenizer` to tokens that can be trained on.
 *
 * `train` names token files (.tok, or llm.c's shards) or texts, one or several: see data_words.h for lists,
 * patterns and folders. Texts are files, folders (all regular files below them, in sorted order) and recipes
 * ("kjv"); they become one token file. `tokenizer` is "bytes", "bpe:N" or the path of a tokenizer.json. Text
 * is encoded once and kept under CACHE/<checksum of inputs and tokenizer>/: corpus.tok, corpus.tok.json,
 * tokenizer.json; a second call with the same inputs opens that. An interrupted or failed preparation leaves
 * no half-written cache; what a killed one left goes when the next text is opened. */
#ifndef ANNEAL_DATASETS_CORPUS_H
#define ANNEAL_DATASETS_CORPUS_H

#include <stdbool.h>

#include "core/base/err.h"
#include "datasets/progress.h"
#include "datasets/token_file.h"
#include "datasets/token_set.h"
#include "datasets/tokenizer.h"

struct corpus {
    struct token_file file;      /* the whole corpus. Where it is one run of 32-bit ids, `tokens` has them;
                                    otherwise      `tokens` and `narrow` are NULL, and the ids are in `set` */
    struct token_set set;        /* empty where `file` has the tokens */
    struct tokenizer *tokenizer; /* NULL for token files whose sidecars name none that can be found */
    char tokenizer_word[4096];   /* what opens it again: "bytes", or a path; "" without one */
    char path[4096];             /* the token file, or the first of several */
    struct corpus *validation;   /* other data to validate on; NULL: a part of this corpus is held out */
};

/* `cache` is a folder, made when missing (normally $ANNEAL_HOME/data). Token files bring their own tokenizer:
 * there "bpe:N" says nothing, while "bytes" or a tokenizer.json other than the files' own is an error.
 * Afterwards every id is below out->file.vocab_size, also without a sidecar (then it is the largest id + 1).
 */
enum status corpus_open(const char *train, const char *tokenizer, const char *cache,
                        const struct progress *progress, struct corpus *out, struct err *err);
void corpus_close(struct corpus *corpus); /* harmless on a zeroed struct */

/* Opens `word` (as data.train) as what `corpus` is validated on. Texts are encoded with the corpus's
 * tokenizer; token files of another tokenizer, or with an id that the corpus's vocabulary has not, are an
 * error. */
enum status corpus_open_validation(struct corpus *corpus, const char *word, const char *cache,
                                   const struct progress *progress, struct err *err);

/* The runs of tokens that the corpus consists of, in order: *count of them, borrowed. */
const struct token_file *corpus_runs(const struct corpus *corpus, size_t *count);

/* The first token with an id of `least` or more, in the corpus or in its validation data; false without one.
 * Reads all tokens that have not been measured. */
struct corpus_place {
    const char *path; /* borrowed from the corpus */
    uint64_t index;   /* in that file */
    uint32_t id;
};
bool corpus_find_id(const struct corpus *corpus, uint32_t least, struct corpus_place *out);
uint32_t corpus_largest_id(const struct corpus *corpus); /* likewise; 0 without tokens */

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
