/* Opens the tokens for training that `data.train` and `data.tokenizer` name.
 *
 * `train` names token files (.tok, or llm.c's shards) or texts, one or more: see inputs.h. Texts become one
 * token file. `tokenizer` is "bytes", "bpe:N" or the path of a tokenizer.json. Text is encoded once and
 * stored in the cache (see preparation.h), where a second call with the same inputs finds it. An interrupted
 * or failed preparation leaves no half-written cache; the next one removes leftovers of a killed one. */
#ifndef ANNEAL_DATASETS_CORPUS_H
#define ANNEAL_DATASETS_CORPUS_H

#include <stdbool.h>

#include "core/base/err.h"
#include "datasets/instructions.h"
#include "datasets/progress.h"
#include "datasets/text_pieces.h"
#include "datasets/token_file.h"
#include "datasets/tokenizer.h"

struct corpus_source {
    char name[INPUT_SOURCE_NAME]; /* for names of measures */
    double weight;                /* above 0 */
    size_t first, count;          /* its files */
};

/* Tokens in one file or several, in the order they are named. Their ids stay where they are, in as many
 * mappings; a sequence never crosses from one to the next (see batch.h). */
struct corpus {
    struct token_file *files; /* file_count of them, owned */
    size_t file_count;
    size_t described;              /* the first file whose sidecar names a tokenizer; 0 where none does */
    uint64_t tokens;               /* in all files */
    uint32_t vocab_size;           /* all ids are below */
    struct tokenizer *tokenizer;   /* NULL for token files whose sidecars name none that can be found */
    bool learned;                  /* the tokenizer was learned from this text (bpe:N) */
    char tokenizer_word[4096];     /* "bytes" or a path, which opens it again; "" without one */
    struct corpus_source *sources; /* of a mixture, source_count of them, owned */
    size_t source_count;           /* 0: the names had no weights */
    struct token_file *runs;   /* where the tokens are examples, see examples.h; NULL: they are text; owned */
    struct corpus *validation; /* other data to validate on; NULL: a part of this corpus is held out */
};

/* `cache` is a folder, created if missing (normally $ANNEAL_HOME/data); NULL: text is STATUS_USAGE. Token
 * files have their own tokenizer: for them "" and "bpe:N" have no effect, and "bytes" or a tokenizer.json
 * other than the files' own is an error; one of a kind that anneal does not read counts as unknown.
 * Afterwards every id is below out->vocab_size, also without a sidecar (then it is the largest id + 1).
 *
 * `reading`: how texts are read; NULL is as in text_pieces.h. Conversations become examples with runs; then
 * token files, or a tokenizer that is to be learned, are STATUS_USAGE. */
enum status corpus_open(const char *train, const char *tokenizer, const struct text_reading *reading,
                        const char *cache, const struct progress *progress, struct corpus *out,
                        struct err *err);
void corpus_close(struct corpus *corpus); /* harmless on a zeroed struct */

/* The files of source i as a corpus that borrows everything and is not closed; of a corpus without sources,
 * all of it. Without validation data. */
struct corpus corpus_of_source(const struct corpus *corpus, size_t i);

/* The vocabulary size of such a corpus, from names and sidecars, without reading the corpus; 0: unknown. */
int64_t corpus_vocabulary(const char *train, const char *tokenizer);

/* Opens `word` (like data.train) as validation data of `corpus`. Texts are encoded with the corpus's
 * tokenizer; token files of another tokenizer, or with an id outside the corpus's vocabulary, are an
 * error; a vocabulary of unknown size grows to hold their ids. */
enum status corpus_open_validation(struct corpus *corpus, const char *word,
                                   const struct text_reading *reading, const char *cache,
                                   const struct progress *progress, struct err *err);

/* The first token with an id of `least` or more, in the corpus or its validation data; false: none. */
struct corpus_place {
    const char *path; /* borrowed from the corpus */
    uint64_t index;   /* in that file */
    uint32_t id;
};
bool corpus_find_id(const struct corpus *corpus, uint32_t least, struct corpus_place *out);

/* A fingerprint of a corpus, so that a resumed run does not continue with other tokens or other meanings of
 * token ids. */
struct corpus_mark {
    uint64_t tokens; /* number of tokens, without separate validation data */
    /* XXH64 over all files in order, separate validation data last: over all ids of a file up to 16 MiB
     * (shared among the files), else over both ends and an even sample; then over the weights of sources */
    uint64_t checksum;
    uint64_t tokenizer; /* its checksum; 0: none */
    bool learned;       /* as in struct corpus; not stored with a checkpoint */
    bool mixed;         /* of a mixture; not stored either */
};
struct corpus_mark corpus_mark_of(const struct corpus *corpus);

/* STATUS_USAGE names the difference between the corpus a run was trained on and the present one. */
enum status corpus_mark_check(const struct corpus_mark *trained, const struct corpus_mark *now,
                              struct err *err);

#endif
