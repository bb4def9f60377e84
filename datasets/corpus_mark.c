/* See corpus_mark.h. */
#include "datasets/corpus_mark.h"

#include <inttypes.h>
#include <xxhash.h>

enum { WHOLE = 16 << 20, PIECE = 64 << 10, PIECES = 256, PIECES_LEAST = 4 };

static uint64_t checksum_of(const unsigned char *bytes, uint64_t size, uint64_t whole, uint64_t pieces,
                            uint64_t sum)
{
    if (size <= whole || size <= PIECE) return XXH64(bytes, size, sum);
    for (uint64_t i = 0; i < pieces; i++) sum = XXH64(bytes + (size - PIECE) / (pieces - 1) * i, PIECE, sum);
    return XXH64(bytes + size - PIECE, PIECE, sum);
}

/* Each run continues the sum of those before it. Several share what is read of one: enough to tell a corpus
 * from another, quick also for a thousand files. */
static uint64_t mark_runs(const struct corpus *corpus, uint64_t sum)
{
    size_t count;
    const struct token_file *runs = corpus_runs(corpus, &count);
    uint64_t whole = WHOLE / count, pieces = PIECES / count > PIECES_LEAST ? PIECES / count : PIECES_LEAST;
    for (size_t i = 0; i < count; i++) {
        uint64_t width = runs[i].narrow ? sizeof(uint16_t) : sizeof(uint32_t), size = runs[i].count * width;
        const void *ids = runs[i].narrow ? (const void *)runs[i].narrow : (const void *)runs[i].tokens;
        if (count > 1) sum = XXH64(&size, sizeof size, sum); /* where one ends and the next begins */
        sum = checksum_of(size ? ids : "", size, whole, pieces, sum);
    }
    return sum;
}

struct corpus_mark corpus_mark_of(const struct corpus *corpus)
{
    uint64_t sum = mark_runs(corpus, 0);
    if (corpus->validation) sum = mark_runs(corpus->validation, sum + 1);
    return (struct corpus_mark){.tokens = corpus->file.count,
                                .checksum = sum,
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
