/* See batch.h. */
#include "datasets/batch.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/philox.h"
#include "core/base/text.h"

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

/* The number coprime to n that is nearest to n/φ, the lower of two. In integer arithmetic: 1/φ as a 64-bit
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

/* A balanced Feistel network over [0, 4^half_bits), repeated until the result is below n: 4 steps at most on
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

/* ---- splitting ---- */

bool split_holds_out(uint64_t i, uint64_t count, const struct split_rule *rule)
{
    uint64_t held = (uint64_t)(rule->val_fraction * (double)count + 0.5);
    if (rule->val_split == VAL_TAIL) return i >= count - held;
    /* evenly spread: where the whole part of (i + 1) · held / count grows */
    return (uint64_t)((unsigned __int128)(i + 1) * held / count) >
           (uint64_t)((unsigned __int128)i * held / count);
}

static enum status begin(struct split *split, const struct corpus *corpus, struct err *err)
{
    split->runs = calloc(corpus->file_count, sizeof *split->runs);
    return split->runs ? STATUS_OK : err_no_memory(err, "splitting %zu token files", corpus->file_count);
}

/* Adds the split's part of `count` sequences of a file, from token `start` on. */
static void add_run(struct split *split, const struct token_file *file, uint64_t start, uint64_t count,
                    uint64_t islands, bool has_islands)
{
    uint64_t sequences = has_islands ? islands : count - islands;
    if (!sequences) return;
    split->runs[split->run_count++] = (struct split_run){.wide = file->narrow ? NULL : file->tokens + start,
                                                         .narrow = file->narrow ? file->narrow + start : NULL,
                                                         .first = split->sequences,
                                                         .count = count,
                                                         .islands = islands,
                                                         .has_islands = has_islands};
    split->sequences += sequences;
}

/* How many consecutive sequences fit in `tokens` tokens. */
static uint64_t sequences_in(uint64_t tokens, uint64_t T)
{
    return tokens ? (tokens - 1) / T : 0;
}

/* Adds tokens [from, to), numbered through all files. */
static void cut(struct split *split, const struct corpus *corpus, uint64_t from, uint64_t to)
{
    uint64_t before = 0, T = (uint64_t)split->seq_len;
    for (size_t i = 0; i < corpus->file_count; before += corpus->files[i++].count) {
        const struct token_file *file = &corpus->files[i];
        uint64_t start = from > before ? from - before : 0, end = to > before ? to - before : 0;
        if (end > file->count) end = file->count;
        if (start >= end) continue;
        split->token_count += end - start;
        add_run(split, file, start, sequences_in(end - start, T), 0, false);
    }
}

/* Fills both splits for VAL_BLOCKS. Fractions of a sequence carry over from file to file. */
static void cut_blocks(struct split *train, struct split *held, const struct corpus *corpus, double fraction)
{
    uint64_t T = (uint64_t)train->seq_len, before = 0;
    for (size_t i = 0; i < corpus->file_count; i++) {
        const struct token_file *file = &corpus->files[i];
        uint64_t count = sequences_in(file->count, T), after = before + count;
        uint64_t wanted =
            (uint64_t)(fraction * (double)after + 0.5) - (uint64_t)(fraction * (double)before + 0.5);
        bool few = wanted <= count / 2; /* validation has the islands */
        uint64_t islands = few ? wanted : count - wanted;
        uint64_t most =
            (file->count - (file->count > 0)) / (2 * T + 2); /* an island, a stretch, two changes */
        if (islands > most) islands = most;
        count = sequences_in(file->count - 2 * islands, T);
        add_run(train, file, 0, count, islands, !few);
        add_run(held, file, 0, count, islands, few);
        train->token_count += file->count;
        before = after;
    }
}

static enum status check_length(const struct split *split, const char *what, const char *remedy,
                                struct err *err)
{
    if (split->sequences) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "the corpus is too short: %llu%s tokens, but one sequence of seq_len %d needs %lld%s "
                   "(give more text%s or a smaller seq_len)",
                   (unsigned long long)split->token_count, what, split->seq_len, split->seq_len + 1LL,
                   split->token_count > (uint64_t)split->seq_len ? " from one file" : "", remedy);
}

/* Checks that both splits have sequences. */
static enum status check_blocks(const struct split *train, const struct split *held, double fraction,
                                struct err *err)
{
    uint64_t sequences = train->sequences + held->sequences;
    if (!sequences) return check_length(train, "", "", err);
    if (train->sequences && held->sequences) return STATUS_OK;
    return err_set(
        err, STATUS_USAGE,
        "the corpus is too short: %llu sequence%s of seq_len %d, and val_fraction %g leaves none of "
        "them for %s (give more text, a %s val_fraction or a smaller seq_len)",
        (unsigned long long)sequences, text_plural((int64_t)sequences), train->seq_len, fraction,
        held->sequences ? "training" : "validation", held->sequences ? "smaller" : "larger");
}

/* Holds out the last `tokens` tokens. */
static enum status cut_tail(struct split *train, struct split *held, const struct corpus *corpus,
                            uint64_t tokens, struct err *err)
{
    cut(train, corpus, 0, corpus->tokens - tokens);
    cut(held, corpus, corpus->tokens - tokens, corpus->tokens);
    enum status status = check_length(train, " training", "", err);
    return status ? status : check_length(held, " validation", ", a larger val_fraction", err);
}

static enum status cut_both(struct split *train, struct split *held, const struct corpus *corpus,
                            enum val_split val_split, double fraction, struct err *err)
{
    enum status status = begin(train, corpus, err);
    if (!status && fraction > 0) status = begin(held, corpus, err);
    if (status) return status;
    if (fraction > 0 && val_split == VAL_TAIL) {
        uint64_t tail = (uint64_t)((double)corpus->tokens * fraction);
        if (tail > corpus->tokens) tail = corpus->tokens; /* only if a double cannot hold the count */
        return cut_tail(train, held, corpus, tail, err);
    }
    if (fraction > 0) {
        held->shuffle = SHUFFLE_STRIDE;
        cut_blocks(train, held, corpus, fraction);
        return check_blocks(train, held, fraction, err);
    }
    cut(train, corpus, 0, corpus->tokens);
    return check_length(train, "", "", err);
}

enum status split_corpus(const struct corpus *corpus, const struct split_rule *rule, struct split *train,
                         struct split *validation, struct err *err)
{
    const double fraction = rule->val_fraction;
    const int T = rule->seq_len;
    struct split head = {.seq_len = T, .seed = rule->seed, .shuffle = rule->shuffle, .padding = -1},
                 held = {.seq_len = T, .shuffle = SHUFFLE_NONE, .padding = -1};
    if (T < 1) return err_set(err, STATUS_USAGE, "seq_len: %d must be at least 1 token", T);
    if (!(fraction >= 0 && fraction < 1))
        return err_set(err, STATUS_USAGE, "val_fraction: %g must be at least 0 and below 1", fraction);
    enum status status = cut_both(&head, &held, corpus, rule->val_split, fraction, err);
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

/* The run with a sequence: the last one that begins at or before it. */
static const struct split_run *run_of(const struct split *split, uint64_t sequence)
{
    size_t low = 0, high = split->run_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(split->runs[middle].first <= sequence ? &low : &high) = middle;
    }
    return &split->runs[low];
}

/* The token of a run at which its sequence `i` of this split begins. Before a sequence of a stretch there are
 * the islands k with (2k+1)·count/(2·islands) - k <= i. */
static uint64_t offset_in(const struct split_run *run, uint64_t i, uint64_t T)
{
    unsigned __int128 count = run->count, islands = run->islands, between = count - islands;
    if (run->has_islands) return (uint64_t)((2 * i + 1) * count / (2 * islands)) * T + 2 * i + 1;
    unsigned __int128 reach = 2 * islands * (i + 1);
    uint64_t before = reach > count ? (uint64_t)((reach - count + 2 * between - 1) / (2 * between)) : 0;
    return (i + before) * T + 2 * before;
}

/* The run of sequence `number`, counted over all epochs, and the token of the run at which it begins. */
static const struct split_run *find_sequence(const struct split *split, uint64_t number, uint64_t *offset)
{
    uint64_t place = split_permute(split, number / split->sequences, number % split->sequences);
    const struct split_run *run = run_of(split, place);
    *offset = offset_in(run, place - run->first, (uint64_t)split->seq_len);
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

static void fill(const void *context, uint64_t cursor, int B, int32_t *inputs, int32_t *targets,
                 int32_t *positions)
{
    (void)positions;
    split_batch(context, cursor, B, inputs, targets);
}

/* Reads the targets only if there is padding. */
static double labels(const void *context, uint64_t cursor, uint64_t sequences)
{
    const struct split *split = context;
    uint64_t T = (uint64_t)split->seq_len, count = sequences * T, offset;
    for (uint64_t b = 0; split->padding >= 0 && b < sequences; b++) {
        const struct split_run *run = find_sequence(split, cursor + b, &offset);
        for (uint64_t t = offset + 1; t <= offset + T; t++)
            count -= (run->narrow ? run->narrow[t] : run->wide[t]) == (uint64_t)split->padding;
    }
    return (double)count;
}

/* The system then loads all of them at once. It changes no result and cannot fail. */
static void announce(const void *context, uint64_t cursor, int B)
{
    const struct split *split = context;
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

struct batch_source split_source(const struct split *split)
{
    return (struct batch_source){.context = split,
                                 .T = split->seq_len,
                                 .rows = split->sequences,
                                 .span = split->seq_len,
                                 .fill = fill,
                                 .labels = labels,
                                 .announce = announce};
}

bool batch_source_counts(const struct batch_source *source, uint64_t rows)
{
    for (uint64_t row = 0; row < rows; row++)
        if (source->labels(source->context, row, 1) > 0) return true;
    return false;
}
