/* See bpe_train.h. */
#include "datasets/bpe_train.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/base/arena.h"
#include "datasets/bpe.h"
#include "datasets/byte_alphabet.h"
#include "datasets/pretokenizer.h"

enum { REPORT_BYTES = 1 << 18, REPORT_MERGES = 16, WORD_BYTES = 1 << 20 };

/* A distinct piece. While counting `symbols` is NULL; while learning it is the piece as ids, shrinking by
 * merges. */
struct word {
    const char *bytes;
    uint32_t *symbols;
    uint64_t hash;
    int64_t count;
    uint32_t n; /* bytes, then symbols */
};

struct pair {
    uint64_t ids; /* left << 32 | right; no pair is UINT64_MAX */
    int64_t count;
    uint32_t *words; /* those that may hold it, in the order of discovery */
    uint32_t word_count, word_capacity;
    bool touched; /* its count has grown in the present merge */
};

struct candidate {
    int64_t count; /* when it was put on the heap; the pair's may be lower by now */
    uint64_t ids;
    uint32_t pair;
};

struct bpe_trainer {
    struct arena arena; /* the words' bytes and symbols, the tokens' bytes */
    struct pretokenizer *pretokenizer;
    struct pretokenizer_scratch *scratch;
    struct word *words;
    size_t word_count, word_capacity;
    uint32_t *word_table; /* index + 1 of a word by hash of its bytes; 0: empty */
    size_t word_slots;
    struct pair *pairs;
    size_t pair_count, pair_capacity;
    uint32_t *pair_table; /* index + 1 of a pair by its ids; 0: empty */
    size_t pair_slots;
    struct candidate *heap; /* the most frequent on top, of equals the smaller ids */
    size_t heap_count, heap_capacity;
    uint32_t *touched; /* pairs */
    size_t touched_count, touched_capacity;
    const struct progress *progress;
    uint64_t done, reported, total; /* bytes of text */
    int vocab_size;                 /* to be learned */
};

static enum status no_memory(struct err *err)
{
    return err_set(err, STATUS_NO_MEMORY, "not enough memory to learn a tokenizer");
}

/* Room for one more element; a function of its own for each array would say the same five times. */
static bool reserve(void **array, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity) return true;
    size_t more = *capacity ? 2 * *capacity : 1024;
    void *grown = realloc(*array, more * size);
    if (!grown) return false;
    *array = grown;
    *capacity = more;
    return true;
}

enum status bpe_trainer_new(int vocab_size, struct bpe_trainer **out, struct err *err)
{
    static const char *const pattern = PRETOKENIZER_GPT2;
    if (vocab_size < BPE_TRAIN_VOCAB_MIN || vocab_size > BPE_TRAIN_VOCAB_MAX)
        return err_set(err, STATUS_USAGE,
                       "a vocabulary of %d tokens: give a number from %d (the bytes) to %d", vocab_size,
                       BPE_TRAIN_VOCAB_MIN, BPE_TRAIN_VOCAB_MAX);
    struct bpe_trainer *made = calloc(1, sizeof *made);
    if (!made) return no_memory(err);
    made->vocab_size = vocab_size;
    arena_init(&made->arena, 1 << 18);
    enum status status = pretokenizer_new(&pattern, 1, "bpe", &made->pretokenizer, err);
    if (!status) status = pretokenizer_scratch_new(made->pretokenizer, &made->scratch, err);
    if (status)
        bpe_trainer_free(made);
    else
        *out = made;
    return status;
}

void bpe_trainer_free(struct bpe_trainer *trainer)
{
    if (!trainer) return;
    pretokenizer_scratch_free(trainer->scratch);
    pretokenizer_free(trainer->pretokenizer);
    for (size_t i = 0; i < trainer->pair_count; i++) free(trainer->pairs[i].words);
    free(trainer->words);
    free(trainer->word_table);
    free(trainer->pairs);
    free(trainer->pair_table);
    free(trainer->heap);
    free(trainer->touched);
    arena_release(&trainer->arena);
    free(trainer);
}

/* ---- counting ---- */

static bool grow_word_table(struct bpe_trainer *t)
{
    size_t slots = t->word_slots ? 2 * t->word_slots : 4096;
    uint32_t *table = calloc(slots, sizeof *table);
    if (!table) return false;
    for (size_t i = 0; i < t->word_count; i++) {
        size_t at = t->words[i].hash & (slots - 1);
        while (table[at]) at = (at + 1) & (slots - 1);
        table[at] = (uint32_t)i + 1;
    }
    free(t->word_table);
    t->word_table = table;
    t->word_slots = slots;
    return true;
}

static enum status count_piece(void *context, const char *piece, size_t n, struct err *err)
{
    struct bpe_trainer *t = context;
    t->done += n;
    if (t->done - t->reported >= REPORT_BYTES) {
        t->reported = t->done;
        if (!progress_report(t->progress, "counting words", "bytes", t->done, t->total))
            return err_set(err, STATUS_INTERRUPTED, "interrupted while counting words");
    }
    if (n > WORD_BYTES) n = WORD_BYTES; /* nothing is learned from one word of a megabyte */
    if (2 * (t->word_count + 1) > t->word_slots && !grow_word_table(t)) return no_memory(err);
    uint64_t hash = XXH3_64bits(piece, n);
    size_t at = hash & (t->word_slots - 1);
    for (; t->word_table[at]; at = (at + 1) & (t->word_slots - 1)) {
        struct word *word = &t->words[t->word_table[at] - 1];
        if (word->hash != hash || word->n != n || memcmp(word->bytes, piece, n) != 0) continue;
        word->count++;
        return STATUS_OK;
    }
    char *bytes = arena_alloc(&t->arena, n);
    if (!bytes || t->word_count >= UINT32_MAX - 1 ||
        !reserve((void **)&t->words, t->word_count, &t->word_capacity, sizeof *t->words))
        return no_memory(err);
    memcpy(bytes, piece, n);
    t->words[t->word_count++] = (struct word){.bytes = bytes, .hash = hash, .count = 1, .n = (uint32_t)n};
    t->word_table[at] = (uint32_t)t->word_count;
    return STATUS_OK;
}

enum status bpe_trainer_count(struct bpe_trainer *trainer, const char *text, size_t n, uint64_t before,
                              uint64_t total, const struct progress *progress, struct err *err)
{
    trainer->progress = progress;
    trainer->done = trainer->reported = before;
    trainer->total = total;
    enum status status =
        pretokenizer_split(trainer->pretokenizer, trainer->scratch, text, n, count_piece, trainer, err);
    if (!status && !progress_report(progress, "counting words", "bytes", before + n, total))
        status = err_set(err, STATUS_INTERRUPTED, "interrupted while counting words");
    return status;
}

/* ---- the pairs ---- */

static uint64_t pair_hash(uint64_t ids)
{
    ids ^= ids >> 32;
    ids *= 0x9E3779B97F4A7C15u;
    return ids ^ (ids >> 29);
}

static bool grow_pair_table(struct bpe_trainer *t)
{
    size_t slots = t->pair_slots ? 2 * t->pair_slots : 4096;
    uint32_t *table = calloc(slots, sizeof *table);
    if (!table) return false;
    for (size_t i = 0; i < t->pair_count; i++) {
        size_t at = pair_hash(t->pairs[i].ids) & (slots - 1);
        while (table[at]) at = (at + 1) & (slots - 1);
        table[at] = (uint32_t)i + 1;
    }
    free(t->pair_table);
    t->pair_table = table;
    t->pair_slots = slots;
    return true;
}

/* The pair, made when it is new; NULL when memory is short. */
static struct pair *find_pair(struct bpe_trainer *t, uint32_t left, uint32_t right)
{
    uint64_t ids = (uint64_t)left << 32 | right;
    if (2 * (t->pair_count + 1) > t->pair_slots && !grow_pair_table(t)) return NULL;
    size_t at = pair_hash(ids) & (t->pair_slots - 1);
    for (; t->pair_table[at]; at = (at + 1) & (t->pair_slots - 1))
        if (t->pairs[t->pair_table[at] - 1].ids == ids) return &t->pairs[t->pair_table[at] - 1];
    if (t->pair_count >= UINT32_MAX - 1 ||
        !reserve((void **)&t->pairs, t->pair_count, &t->pair_capacity, sizeof *t->pairs))
        return NULL;
    t->pairs[t->pair_count++] = (struct pair){.ids = ids};
    t->pair_table[at] = (uint32_t)t->pair_count;
    return &t->pairs[t->pair_count - 1];
}

static bool pair_gain(struct bpe_trainer *t, uint32_t left, uint32_t right, uint32_t word)
{
    struct pair *pair = find_pair(t, left, right);
    if (!pair) return false;
    pair->count += t->words[word].count;
    if (!pair->touched) {
        if (!reserve((void **)&t->touched, t->touched_count, &t->touched_capacity, sizeof *t->touched))
            return false;
        t->touched[t->touched_count++] = (uint32_t)(pair - t->pairs);
        pair->touched = true;
    }
    if (pair->word_count && pair->words[pair->word_count - 1] == word) return true;
    if (pair->word_count == pair->word_capacity) {
        uint32_t capacity = pair->word_capacity ? 2 * pair->word_capacity : 4;
        uint32_t *grown = realloc(pair->words, capacity * sizeof *grown);
        if (!grown) return false;
        pair->words = grown;
        pair->word_capacity = capacity;
    }
    pair->words[pair->word_count++] = word;
    return true;
}

static bool pair_lose(struct bpe_trainer *t, uint32_t left, uint32_t right, uint32_t word)
{
    struct pair *pair = find_pair(t, left, right);
    if (pair) pair->count -= t->words[word].count;
    return pair != NULL;
}

/* ---- the heap ---- */

static bool comes_first(const struct candidate *a, const struct candidate *b)
{
    return a->count != b->count ? a->count > b->count : a->ids < b->ids;
}

static bool heap_push(struct bpe_trainer *t, uint32_t pair)
{
    if (!reserve((void **)&t->heap, t->heap_count, &t->heap_capacity, sizeof *t->heap)) return false;
    struct candidate new = {t->pairs[pair].count, t->pairs[pair].ids, pair};
    size_t at = t->heap_count++;
    for (size_t up; at && comes_first(&new, &t->heap[up = (at - 1) / 2]); at = up) t->heap[at] = t->heap[up];
    t->heap[at] = new;
    return true;
}

static struct candidate heap_pop(struct bpe_trainer *t)
{
    struct candidate top = t->heap[0], last = t->heap[--t->heap_count];
    size_t at = 0;
    for (size_t down; (down = 2 * at + 1) < t->heap_count; at = down) {
        if (down + 1 < t->heap_count && comes_first(&t->heap[down + 1], &t->heap[down])) down++;
        if (!comes_first(&t->heap[down], &last)) break;
        t->heap[at] = t->heap[down];
    }
    t->heap[at] = last;
    return top;
}

static bool push_touched(struct bpe_trainer *t)
{
    bool ok = true;
    for (size_t i = 0; i < t->touched_count; i++) {
        struct pair *pair = &t->pairs[t->touched[i]];
        pair->touched = false;
        if (pair->count > 0) ok = ok && heap_push(t, t->touched[i]);
    }
    t->touched_count = 0;
    return ok;
}

/* The most frequent pair, UINT32_MAX when there is none. Counts only fall while a pair waits on the heap
 * (when one grows it is pushed anew), so a candidate is right when its count still is. */
static bool best_pair(struct bpe_trainer *t, uint32_t *best)
{
    *best = UINT32_MAX;
    while (t->heap_count) {
        struct candidate top = heap_pop(t);
        int64_t now = t->pairs[top.pair].count;
        if (now == top.count) {
            *best = top.pair;
            return true;
        }
        if (now > 0 && now < top.count && !heap_push(t, top.pair)) return false;
    }
    return true;
}

/* ---- learning ---- */

/* Replaces left right by `made` in one word, from left to right, and counts the pairs that come and go. */
static bool merge_in_word(struct bpe_trainer *t, uint32_t at, uint32_t left, uint32_t right, uint32_t made)
{
    struct word *word = &t->words[at];
    uint32_t *symbols = word->symbols, to = 0;
    bool ok = true;
    for (uint32_t from = 0; from < word->n; from++) {
        if (from + 1 == word->n || symbols[from] != left || symbols[from + 1] != right) {
            symbols[to++] = symbols[from];
            continue;
        }
        if (to) ok = ok && pair_lose(t, symbols[to - 1], left, at) && pair_gain(t, symbols[to - 1], made, at);
        if (from + 2 < word->n)
            ok =
                ok && pair_lose(t, right, symbols[from + 2], at) && pair_gain(t, made, symbols[from + 2], at);
        symbols[to++] = made;
        from++;
    }
    word->n = to;
    return ok;
}

static bool start(struct bpe_trainer *t, const uint32_t byte_id[256])
{
    for (size_t i = 0; i < t->word_count; i++) {
        struct word *word = &t->words[i];
        word->symbols = arena_alloc_array(&t->arena, word->n, sizeof *word->symbols);
        if (!word->symbols) return false;
        for (uint32_t j = 0; j < word->n; j++) word->symbols[j] = byte_id[(unsigned char)word->bytes[j]];
        for (uint32_t j = 0; j + 1 < word->n; j++)
            if (!pair_gain(t, word->symbols[j], word->symbols[j + 1], (uint32_t)i)) return false;
    }
    return push_touched(t);
}

/* The tokens made so far by hash of their bytes: different merges may spell the same token. */
struct token_table {
    uint32_t *ids; /* id + 1; 0: empty */
    size_t slots;
};

/* The token that spells these bytes; it becomes the next one when there is none. */
static uint32_t find_token(struct token_table *table, struct bpe_spec *spec, struct bpe_token *tokens,
                           const char *bytes, uint32_t n)
{
    size_t at = XXH3_64bits(bytes, n) & (table->slots - 1);
    for (; table->ids[at]; at = (at + 1) & (table->slots - 1)) {
        const struct bpe_token *token = &tokens[table->ids[at] - 1];
        if (token->n == n && memcmp(token->bytes, bytes, n) == 0) return table->ids[at] - 1;
    }
    tokens[spec->vocab_size++] = (struct bpe_token){bytes, n, false};
    table->ids[at] = (uint32_t)spec->vocab_size;
    return (uint32_t)spec->vocab_size - 1;
}

static enum status learn(struct bpe_trainer *t, struct bpe_spec *spec, struct bpe_token *tokens,
                         struct bpe_merge *merges, size_t merge_capacity, struct err *err)
{
    struct token_table table = {.slots = 1024};
    int vocab_size = t->vocab_size;
    while (table.slots < 2 * (size_t)vocab_size) table.slots *= 2;
    table.ids = arena_alloc_array(&t->arena, table.slots, sizeof *table.ids);
    if (!table.ids) return no_memory(err);
    while (spec->vocab_size < (size_t)vocab_size && spec->merge_count < merge_capacity) {
        if (spec->merge_count % REPORT_MERGES == 0 &&
            !progress_report(t->progress, "learning merges", "merges", spec->vocab_size - 256,
                             (uint64_t)vocab_size - 256))
            return err_set(err, STATUS_INTERRUPTED, "interrupted while learning merges");
        uint32_t best;
        if (!best_pair(t, &best)) return no_memory(err);
        if (best == UINT32_MAX) break;
        struct pair pair = t->pairs[best];
        uint32_t left = (uint32_t)(pair.ids >> 32), right = (uint32_t)pair.ids;
        uint32_t n = tokens[left].n + tokens[right].n;
        char *bytes = arena_alloc(&t->arena, n);
        if (!bytes) return no_memory(err);
        memcpy(bytes, tokens[left].bytes, tokens[left].n);
        memcpy(bytes + tokens[left].n, tokens[right].bytes, tokens[right].n);
        uint32_t made = find_token(&table, spec, tokens, bytes, n);
        merges[spec->merge_count++] = (struct bpe_merge){left, right, made};
        t->pairs[best].words = NULL;
        t->pairs[best].word_count = t->pairs[best].word_capacity = 0;
        bool ok = true;
        for (uint32_t i = 0; ok && i < pair.word_count; i++)
            ok = merge_in_word(t, pair.words[i], left, right, made);
        free(pair.words);
        t->pairs[best].count = 0; /* none is left: pairs lost by overlap ("aaa") are not counted off */
        if (!ok || !push_touched(t)) return no_memory(err);
    }
    return STATUS_OK;
}

enum status bpe_trainer_learn(struct bpe_trainer *trainer, const struct progress *progress,
                              struct tokenizer **out, struct err *err)
{
    int vocab_size = trainer->vocab_size;
    static const char *const pattern = PRETOKENIZER_GPT2;
    size_t merge_capacity = 2 * (size_t)vocab_size; /* some merges spell a token that is there already */
    struct byte_alphabet alphabet;
    struct bpe *bpe = NULL;
    uint32_t byte_id[256];
    char single[256];
    enum status status;
    struct bpe_token *tokens = calloc((size_t)vocab_size, sizeof *tokens);
    struct bpe_merge *merges = calloc(merge_capacity, sizeof *merges);
    struct bpe_spec spec = {.tokens = tokens, .merges = merges, .patterns = &pattern, .pattern_count = 1};
    trainer->progress = progress;
    byte_alphabet_init(&alphabet);
    for (int c = 0; c < BYTE_ALPHABET_END; c++) {
        if (alphabet.byte[c] < 0 || !tokens) continue;
        single[spec.vocab_size] = (char)alphabet.byte[c];
        byte_id[alphabet.byte[c]] = (uint32_t)spec.vocab_size;
        tokens[spec.vocab_size] = (struct bpe_token){&single[spec.vocab_size], 1, false};
        spec.vocab_size++;
    }
    if (!tokens || !merges || !start(trainer, byte_id)) {
        status = no_memory(err);
        goto out;
    }
    if ((status = learn(trainer, &spec, tokens, merges, merge_capacity, err))) goto out;
    if (spec.vocab_size > 256)
        progress_report(progress, "learning merges", "merges", spec.vocab_size - 256, spec.vocab_size - 256);
    if ((status = bpe_new(&spec, "bpe", &bpe, err))) goto out;
    status = tokenizer_open_bpe(bpe, NULL, out, err);
out:
    free(tokens);
    free(merges);
    return status;
}
