/* From the configuration's words `[data] train`, `tokenizer` to tokens that can be trained on.
 *
 * `train` names token files (.tok, or llm.c's shards) or texts, one or several: see inputs.h. Texts become
 * one token file. `tokenizer` is "bytes", "bpe:N" or the path of a tokenizer.json. Text is encoded once and
 * kept in the cache (see preparation.h); a second call with the same inputs opens that. An interrupted or
 * failed preparation leaves no half-written cache; what a killed one left goes with the next one. */
#ifndef ANNEAL_DATASETS_CORPUS_H
#define ANNEAL_DATASETS_CORPUS_H

#include <stdbool.h>

#include "core/base/err.h"
#include "datasets/progress.h"
#include "datasets/token_file.h"
#include "datasets/tokenizer.h"

/* Tokens in one file or several, in the order they are named. Their ids stay where they are, in as many
 * mappings; a sequence never crosses from one to the next (see batch.h). */
struct corpus {
    struct token_file *files; /* file_count of them, owned */
    size_t file_count;
    size_t described;            /* the first file whose sidecar names a tokenizer; 0 where none does */
    uint64_t tokens;             /* in all files */
    uint32_t vocab_size;         /* all ids are below */
    struct tokenizer *tokenizer; /* NULL for token files whose sidecars name none that can be found */
    char tokenizer_word[4096];   /* what opens it again: "bytes", or a path; "" without one */
    struct corpus *validation;   /* other data to validate on; NULL: a part of this corpus is held out */
};

/* `cache` is a folder, made when missing (normally $ANNEAL_HOME/data); NULL: text is refused, STATUS_USAGE.
 * Token files bring their own tokenizer: there "" and "bpe:N" say nothing, while "bytes" or a tokenizer.json
 * other than the files' own is an error. Afterwards every id is below out->vocab_size, also without a sidecar
 * (then it is the largest id + 1). */
enum status corpus_open(const char *train, const char *tokenizer, const char *cache,
                        const struct progress *progress, struct corpus *out, struct err *err);
void corpus_close(struct corpus *corpus); /* harmless on a zeroed struct */

/* The tokens that the vocabulary of such a corpus will have, as far as names and sidecars tell it, without
 * reading the corpus; 0: they do not, or cannot be read. */
int64_t corpus_vocabulary(const char *train, const char *tokenizer);

/* Opens `word` (as data.train) as what `corpus` is validated on. Texts are encoded with the corpus's
 * tokenizer; token files of another tokenizer, or with an id that the corpus's vocabulary has not, are an
 * error. */
enum status corpus_open_validation(struct corpus *corpus, const char *word, const char *cache,
                                   const struct progress *progress, struct err *err);

/* The first token with an id of `least` or more, in the corpus or its validation data; false: none. */
struct corpus_place {
    const char *path; /* borrowed from the corpus */
    uint64_t index;   /* in that file */
    uint32_t id;
};
bool corpus_find_id(const struct corpus *corpus, uint32_t least, struct corpus_place *out);

/* A mark that a corpus is known again by, so that a resumed run is not fed other tokens or token ids of
 * another meaning. */
struct corpus_mark {
    uint64_t tokens; /* how many, without validation data of their own */
    /* XXH64 over all files in order, validation data of their own last: over all ids of a file up to 16 MiB
     * (shared among the files), else over both ends and an even sample */
    uint64_t checksum;
    uint64_t tokenizer; /* its checksum; 0: none */
};
struct corpus_mark corpus_mark_of(const struct corpus *corpus);

/* STATUS_USAGE names what differs between the corpus a run was trained on and the one at hand. */
enum status corpus_mark_check(const struct corpus_mark *trained, const struct corpus_mark *now,
                              struct err *err);

#endif
