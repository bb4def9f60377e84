/* See batch.h. */
#include "datasets/batch.h"

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

static struct split cut(const uint32_t *tokens, uint64_t count, int seq_len, uint64_t seed,
                        enum shuffle shuffle)
{
    return (struct split){
        .tokens = tokens,
        .token_count = count,
        .seq_len = seq_len,
        .sequences = count ? (count - 1) / (uint64_t)seq_len : 0,
        .seed = seed,
        .shuffle = shuffle,
    };
}

enum status split_make(const uint32_t *tokens, uint64_t count, double val_fraction, int seq_len,
                       uint64_t seed, enum shuffle shuffle, struct split *train, struct split *validation,
                       struct err *err)
{
    if (seq_len < 1)
        return err_set(err, STATUS_USAGE, "seq_len: %d is not a length (give 1 or more tokens)", seq_len);
    if (!(val_fraction >= 0 && val_fraction < 1))
        return err_set(err, STATUS_USAGE, "val_fraction: %g is not in [0, 1)", val_fraction);
    uint64_t tail = (uint64_t)((double)count * val_fraction);
    if (tail > count) tail = count; /* only where a double cannot hold the count */
    struct split head = cut(tokens, count - tail, seq_len, seed, shuffle);
    struct split rest = cut(tokens + (count - tail), tail, seq_len, seed, SHUFFLE_NONE);
    if (head.sequences == 0)
        return err_set(
            err, STATUS_USAGE,
            "the corpus is too short: %llu training tokens, but one sequence of seq_len %d needs %lld (give "
            "more text or a smaller seq_len)",
            (unsigned long long)head.token_count, seq_len, seq_len + 1LL);
    if (val_fraction > 0 && rest.sequences == 0)
        return err_set(
            err, STATUS_USAGE,
            "the corpus is too short: %llu validation tokens, but one sequence of seq_len %d needs %lld "
            "(give more text, a larger val_fraction or a smaller seq_len)",
            (unsigned long long)rest.token_count, seq_len, seq_len + 1LL);
    *train = head;
    *validation = rest;
    return STATUS_OK;
}

void split_batch(const struct split *split, uint64_t cursor, int B, int32_t *inputs, int32_t *targets)
{
    uint64_t T = (uint64_t)split->seq_len;
    for (uint64_t b = 0; b < (uint64_t)B; b++) {
        uint64_t number = cursor + b;
        uint64_t place = split_permute(split, number / split->sequences, number % split->sequences);
        const uint32_t *from = split->tokens + place * T;
        for (uint64_t t = 0; t < T; t++) {
            inputs[b * T + t] = (int32_t)from[t];
            targets[b * T + t] = (int32_t)from[t + 1];
        }
    }
}
