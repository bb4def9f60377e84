/* See batch.h. */
#include "datasets/batch.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/philox.h"

/* Domain separation: the shuffles draw from their own part of Philox's counter space. */
enum { DRAW_STRIDE_OFFSET = 0x73747264, DRAW_FEISTEL = 0x66656973, FEISTEL_ROUNDS = 8 };

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The number coprime to n nearest n/φ, the lower one of two. Integer arithmetic only: 1/φ as a 64-bit
 * fraction. */
static uint64_t golden_stride(uint64_t n)
{
    uint64_t middle = (uint64_t)(((unsigned __int128)n * 0x9E3779B97F4A7C15u + ((uint64_t)1 << 63)) >> 64);
    for (uint64_t distance = 0;; distance++) {
        if (distance < middle && greatest_common_divisor(middle - distance, n) == 1) return middle - distance;
        if (greatest_common_divisor(middle + distance, n) == 1) return middle + distance;
    }
}

static uint64_t permute_stride(uint64_t n, uint64_t seed, uint64_t epoch, uint64_t index)
{
    struct philox_block draw = philox4x32_10((uint32_t)epoch, (uint32_t)(epoch >> 32), 0, DRAW_STRIDE_OFFSET,
                                             (uint32_t)seed, (uint32_t)(seed >> 32));
    uint64_t offset = (((uint64_t)draw.word[1] << 32) | draw.word[0]) % n;
    return (uint64_t)(((unsigned __int128)index * golden_stride(n) + offset) % n);
}

/* A balanced Feistel network over [0, 4^half_bits), walked until it lands below n: at most 4 steps on
 * average. */
static uint64_t permute_feistel(uint64_t n, uint64_t seed, uint64_t epoch, uint64_t index)
{
    int bits = n > 1 ? 64 - __builtin_clzll(n - 1) : 1;
    int half = (bits + 1) / 2;
    uint32_t mask = half == 32 ? UINT32_MAX : ((uint32_t)1 << half) - 1;
    uint64_t x = index;
    do {
        uint32_t left = (uint32_t)(x >> half) & mask, right = (uint32_t)x & mask;
        for (uint32_t round = 0; round < FEISTEL_ROUNDS; round++) {
            struct philox_block draw =
                philox4x32_10(right, (uint32_t)epoch, (uint32_t)(epoch >> 32), DRAW_FEISTEL + round,
                              (uint32_t)seed, (uint32_t)(seed >> 32));
            uint32_t mixed = left ^ (draw.word[0] & mask);
            left = right;
            right = mixed;
        }
        x = ((uint64_t)left << half) | right;
    } while (x >= n);
    return x;
}

uint64_t split_permute(const struct split *split, uint64_t epoch, uint64_t index)
{
    switch (split->shuffle) {
    case SHUFFLE_STRIDE:
        return permute_stride(split->sequences, split->seed, epoch, index);
    case SHUFFLE_RANDOM:
        return permute_feistel(split->sequences, split->seed, epoch, index);
    case SHUFFLE_NONE:
        break;
    }
    return index;
}

/* ---- cutting ---- */

/* Tokens [from, to) of all files, counted through. */
static enum status cut(struct split *split, const struct corpus *corpus, uint64_t from, uint64_t to,
                       struct err *err)
{
    uint64_t before = 0, T = (uint64_t)split->seq_len;
    split->runs = calloc(corpus->file_count, sizeof *split->runs);
    if (!split->runs) return err_no_memory(err, "cutting %zu token files", corpus->file_count);
    for (size_t i = 0; i < corpus->file_count; before += corpus->files[i++].count) {
        const struct token_file *file = &corpus->files[i];
        uint64_t start = from > before ? from - before : 0, end = to > before ? to - before : 0;
        if (end > file->count) end = file->count;
        if (start >= end) continue;
        split->token_count += end - start;
        if (end - start <= T) continue;
        split->runs[split->run_count++] =
            (struct split_run){.wide = file->narrow ? NULL : file->tokens + start,
                               .narrow = file->narrow ? file->narrow + start : NULL,
                               .first = split->sequences};
        split->sequences += (end - start - 1) / T;
    }
    return STATUS_OK;
}

static enum status check_length(const struct split *split, const char *what, const char *remedy,
                                struct err *err)
{
    if (split->sequences) return STATUS_OK;
    return err_set(
        err, STATUS_USAGE,
        "the corpus is too short: %llu %s tokens, but one sequence of seq_len %d needs %lld%s (give "
        "more text%s or a smaller seq_len)",
        (unsigned long long)split->token_count, what, split->seq_len, split->seq_len + 1LL,
        split->token_count > (uint64_t)split->seq_len ? " from one file" : "", remedy);
}

enum status split_corpus(const struct corpus *corpus, double val_fraction, int seq_len, uint64_t seed,
                         enum shuffle shuffle, struct split *train, struct split *validation, struct err *err)
{
    struct split head = {.seq_len = seq_len, .seed = seed, .shuffle = shuffle, .padding = -1}, held = head;
    const struct corpus *own = corpus->validation;
    held.shuffle = SHUFFLE_NONE;
    if (seq_len < 1)
        return err_set(err, STATUS_USAGE, "seq_len: %d is not a length (give 1 or more tokens)", seq_len);
    if (!(val_fraction >= 0 && val_fraction < 1))
        return err_set(err, STATUS_USAGE, "val_fraction: %g is not in [0, 1)", val_fraction);
    uint64_t tail = own ? 0 : (uint64_t)((double)corpus->tokens * val_fraction);
    if (tail > corpus->tokens) tail = corpus->tokens; /* only where a double cannot hold the count */
    enum status status = cut(&head, corpus, 0, corpus->tokens - tail, err);
    if (!status)
        status = own ? cut(&held, own, 0, own->tokens, err)
                     : cut(&held, corpus, corpus->tokens - tail, corpus->tokens, err);
    if (!status) status = check_length(&head, "training", "", err);
    if (!status && (own || val_fraction > 0))
        status = check_length(&held, "validation", own ? "" : ", a larger val_fraction", err);
    if (!status) {
        *train = head;
        *validation = held;
        return STATUS_OK;
    }
    split_release(&head);
    split_release(&held);
    return status;
}

void split_release(struct split *split)
{
    free(split->runs);
    *split = (struct split){0};
}

/* ---- reading ---- */

/* The run that holds a sequence: the last one that begins at or before it. */
static const struct split_run *run_of(const struct split *split, uint64_t sequence)
{
    size_t low = 0, high = split->run_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(split->runs[middle].first <= sequence ? &low : &high) = middle;
    }
    return &split->runs[low];
}

/* The run of sequence number `number`, counted over all epochs, and where in it the sequence begins. */
static const struct split_run *find_sequence(const struct split *split, uint64_t number, uint64_t *offset)
{
    uint64_t place = split_permute(split, number / split->sequences, number % split->sequences);
    const struct split_run *run = run_of(split, place);
    *offset = (place - run->first) * (uint64_t)split->seq_len;
    return run;
}

static void ignore_padding(int32_t *targets, uint64_t count, int64_t padding)
{
    for (uint64_t i = 0; i < count; i++)
        if (targets[i] == padding) targets[i] = LABEL_IGNORED;
}

void split_batch(const struct split *split, uint64_t cursor, int B, int32_t *inputs, int32_t *targets)
{
    uint64_t T = (uint64_t)split->seq_len, offset;
    for (uint64_t b = 0; b < (uint64_t)B; b++, inputs += T, targets += T) {
        const struct split_run *run = find_sequence(split, cursor + b, &offset);
        if (run->narrow) {
            const uint16_t *from = run->narrow + offset;
            for (uint64_t t = 0; t < T; t++) inputs[t] = (int32_t)from[t];
            for (uint64_t t = 0; t < T; t++) targets[t] = (int32_t)from[t + 1];
        } else {
            const uint32_t *from = run->wide + offset;
            for (uint64_t t = 0; t < T; t++) inputs[t] = (int32_t)from[t];
            for (uint64_t t = 0; t < T; t++) targets[t] = (int32_t)from[t + 1];
        }
        if (split->padding >= 0) ignore_padding(targets, T, split->padding);
    }
}

uint64_t split_labels(const struct split *split, uint64_t cursor, uint64_t sequences)
{
    uint64_t T = (uint64_t)split->seq_len, count = sequences * T, offset;
    for (uint64_t b = 0; split->padding >= 0 && b < sequences; b++) {
        const struct split_run *run = find_sequence(split, cursor + b, &offset);
        for (uint64_t t = offset + 1; t <= offset + T; t++)
            count -= (run->narrow ? run->narrow[t] : run->wide[t]) == (uint64_t)split->padding;
    }
    return count;
}

bool split_counts(const struct split *split, uint64_t sequences)
{
    for (uint64_t b = 0; b < sequences; b++)
        if (split_labels(split, b, 1) > 0) return true;
    return false;
}

void split_announce(const struct split *split, uint64_t cursor, int B)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uint64_t T = (uint64_t)split->seq_len, offset;
    for (uint64_t b = 0; b < (uint64_t)B; b++) {
        const struct split_run *run = find_sequence(split, cursor + b, &offset);
        uintptr_t from = run->narrow ? (uintptr_t)(run->narrow + offset) : (uintptr_t)(run->wide + offset);
        uintptr_t to = from + (T + 1) * (run->narrow ? sizeof *run->narrow : sizeof *run->wide);
        from -= from % page;
        madvise((void *)from, to - from, MADV_WILLNEED);
    }
}
