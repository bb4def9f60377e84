/* What a corpus is known again by, so that a resumed run is not fed other tokens or token ids of another
 * meaning. */
#ifndef ANNEAL_DATASETS_CORPUS_MARK_H
#define ANNEAL_DATASETS_CORPUS_MARK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "datasets/corpus.h"

struct corpus_mark {
    uint64_t tokens; /* how many, without validation data of their own */
    uint64_t
        checksum; /* XXH64 over all files in order, and over validation data of their own: over all ids of
                     a file up to 16 MiB (shared among the files), else over both ends and an even sample */
    uint64_t tokenizer; /* its checksum; 0: none */
};

struct corpus_mark corpus_mark_of(const struct corpus *corpus);

/* STATUS_USAGE names what differs between the corpus a run was trained on and the one at hand. */
enum status corpus_mark_check(const struct corpus_mark *trained, const struct corpus_mark *now,
                              struct err *err);

#endif
