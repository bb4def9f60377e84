/* See corpus_mark.h. */
#include "datasets/corpus_mark.h"

#include <inttypes.h>
#include <xxhash.h>

enum { WHOLE = 16 << 20, PIECE = 64 << 10, PIECES = 256 };

static uint64_t checksum_of(const unsigned char *bytes, uint64_t size)
{
    if (size <= WHOLE) return XXH64(bytes, size, 0);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < PIECES; i++) sum = XXH64(bytes + (size - PIECE) / (PIECES - 1) * i, PIECE, sum);
    return XXH64(bytes + size - PIECE, PIECE, sum);
}

struct corpus_mark corpus_mark_of(const struct corpus *corpus)
{
    return (struct corpus_mark){.tokens = corpus->file.count,
                                .checksum = checksum_of((const unsigned char *)corpus->file.tokens,
                                                        corpus->file.count * sizeof(uint32_t)),
                                .tokenizer = corpus->tokenizer ? tokenizer_checksum(corpus->tokenizer) : 0};
}

enum status corpus_mark_check(const struct corpus_mark *trained, const struct corpus_mark *now,
                              struct err *err)
{
    if (trained->tokenizer != now->tokenizer)
        return err_set(
            err, STATUS_USAGE,
            "the tokenizer is not the one this run was trained with: its token ids mean something else "
            "(restore the corpus and the tokenizer, or train a new run)");
    if (trained->tokens != now->tokens)
        return err_set(err, STATUS_USAGE,
                       "the corpus has changed: this run was trained on %" PRIu64
                       " tokens, now there are %" PRIu64 " (restore it, or train a new run)",
                       trained->tokens, now->tokens);
    if (trained->checksum != now->checksum)
        return err_set(
            err, STATUS_USAGE,
            "the corpus has changed: as many tokens, but other ones (restore it, or train a new run)");
    return STATUS_OK;
}
