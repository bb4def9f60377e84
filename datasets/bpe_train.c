/* See bpe_train.h. */
#include "datasets/bpe_train.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/base/arena.h"
#include "datasets/bpe.h"
#include "datasets/crew.h"

#define HEAP_KEY unsigned __int128 /* see key_of */
#include "datasets/heap.h"

enum { REPORT_BYTES = 1 << 18, REPORT_MERGES = 16, WORD_BYTES = 1 << 20 };

/* A distinct piece. `symbols` is NULL while counting; then the piece as ids, which merges shorten. */
struct word {
    const char *bytes;
    uint32_t *symbols;
    int64_t count;
    uint32_t n; /* bytes, then symbols */
};

struct word_table {
    struct word *words;
    size_t count, capacity;
    struct hash_index index; /* by their bytes */
};

struct pair {
    uint64_t ids; /* left << 32 | right; no pair is UINT64_MAX */
    int64_t count;
    uint32_t *words; /* words that may contain it, in the order of discovery */
    size_t word_count, word_capacity;
    bool touched; /* its count has grown in the current merge */
};

struct bpe_trainer {
    struct arena arena; /* the words' bytes and symbols */
    struct pretokenizer *pretokenizer;
    struct pretokenizer_scratch **scratch; /* of each thread; the first one is the calling thread's, too */
    int threads;
    struct crew *crew; /* NULL: the calling thread counts */
    struct word_table table;
    struct pair *pairs;
    size_t pair_count, pair_capacity;
    struct hash_index pair_index;  /* by their ids */
    struct hash_index token_index; /* tokens by their bytes: different merges may give the same bytes */
    struct heap heap;
    uint32_t *touched; /* pairs */
    size_t touched_count, touched_capacity;
    const struct progress *progress;
    const struct text_piece *text; /* that is being counted here, and its bytes that are */
    size_t counted;
    uint64_t reported, total; /* bytes of files */
    int vocab_size;           /* the size to learn */
};

enum status bpe_train_check(int64_t vocab_size, struct err *err)
{
    if (vocab_size >= BPE_TRAIN_VOCAB_MIN && vocab_size <= BPE_TRAIN_VOCAB_MAX) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "a vocabulary of %" PRId64 " tokens: give a number from %d (the bytes) to %d", vocab_size,
                   BPE_TRAIN_VOCAB_MIN, BPE_TRAIN_VOCAB_MAX);
}

static void word_table_release(struct word_table *table)
{
    hash_index_release(&table->index);
    free(table->words);
}

void bpe_trainer_free(struct bpe_trainer *trainer)
{
    if (!trainer) return;
    crew_close(trainer->crew);
    for (int i = 0; trainer->scratch && i < trainer->threads; i++)
        pretokenizer_scratch_free(trainer->scratch[i]);
    free(trainer->scratch);
    pretokenizer_free(trainer->pretokenizer);
    for (size_t i = 0; i < trainer->pair_count; i++) free(trainer->pairs[i].words);
    word_table_release(&trainer->table);
    hash_index_release(&trainer->pair_index);
    hash_index_release(&trainer->token_index);
    free(trainer->pairs);
    free(trainer->heap.keys);
    free(trainer->touched);
    arena_release(&trainer->arena);
    free(trainer);
}

/* ---- counting ---- */

/* Counts `times` more of a word, whose bytes are copied into `arena`; NULL: they stay where they are. */
static bool count_word(struct word_table *t, struct arena *arena, const char *bytes, size_t n, int64_t times)
{
    uint64_t hash = XXH3_64bits(bytes, n);
    uint32_t found;
    for (uint64_t at = hash; (found = hash_index_next(&t->index, hash, &at)) != HASH_NONE;) {
        struct word *word = &t->words[found];
        if (word->n != n || memcmp(word->bytes, bytes, n) != 0) continue;
        word->count += times;
        return true;
    }
    char *copy = arena ? arena_alloc(arena, n) : NULL;
    if ((arena && !copy) || !list_reserve(&t->words, t->count, 1, &t->capacity, sizeof *t->words) ||
        !hash_index_add(&t->index, hash, t->count))
        return false;
    if (arena) bytes = memcpy(copy, bytes, n);
    t->words[t->count++] = (struct word){.bytes = bytes, .count = times, .n = (uint32_t)n};
    return true;
}

static enum status report_counted(struct bpe_trainer *t, uint64_t done, struct err *err)
{
    t->reported = done;
    return progress_report(t->progress, "counting words", "bytes", done, t->total, err);
}

/* longer words are cut: a word of a megabyte is not useful */
static size_t word_bytes(size_t n)
{
    return n > WORD_BYTES ? WORD_BYTES : n;
}

static enum status count_piece(void *context, const char *piece, size_t n, struct err *err)
{
    struct bpe_trainer *t = context;
    enum status status = STATUS_OK;
    uint64_t done = text_piece_done(t->text, t->counted += n);
    if (done - t->reported >= REPORT_BYTES) status = report_counted(t, done, err);
    if (status || count_word(&t->table, &t->arena, piece, word_bytes(n), 1)) return status;
    return err_no_memory(err, "learning a tokenizer");
}

static enum status split(struct bpe_trainer *t, int thread, const char *text, size_t n, piece_visitor visit,
                         void *context, struct err *err)
{
    struct pretokenizer_scratch **scratch = &t->scratch[thread];
    enum status status = *scratch ? STATUS_OK : pretokenizer_scratch_new(scratch, err);
    return status ? status : pretokenizer_split(t->pretokenizer, *scratch, text, n, visit, context, err);
}

/* ---- counting in several threads: each counts the words of a part, and the counts are added up ---- */

static enum status count_in_part(void *context, const char *piece, size_t n, struct err *err)
{
    if (count_word(context, NULL, piece, word_bytes(n), 1)) return STATUS_OK;
    return err_no_memory(err, "learning a tokenizer");
}

static enum status count_part(void *trainer, int thread, const struct crew_part *part, void **result,
                              struct err *err)
{
    if (!*result && !(*result = calloc(1, sizeof(struct word_table))))
        return err_no_memory(err, "learning a tokenizer");
    struct word_table *table = *result;
    table->count = 0;
    hash_index_empty(&table->index);
    return split(trainer, thread, part->text, part->n, count_in_part, table, err);
}

static enum status add_counts(void *trainer, const struct crew_part *part, void *result, struct err *err)
{
    struct bpe_trainer *t = trainer;
    const struct word_table *table = result;
    for (size_t i = 0; i < table->count; i++) {
        const struct word *word = &table->words[i];
        if (!count_word(&t->table, &t->arena, word->bytes, word->n, word->count))
            return err_no_memory(err, "learning a tokenizer");
    }
    return report_counted(t, part->done, err);
}

static void discard_counts(void *result)
{
    if (result) word_table_release(result);
    free(result);
}

enum status bpe_trainer_new(int vocab_size, int threads, const struct progress *progress,
                            struct bpe_trainer **out, struct err *err)
{
    static const char *const pattern = PRETOKENIZER_GPT2;
    if (bpe_train_check(vocab_size, err)) return STATUS_USAGE;
    struct bpe_trainer *made = calloc(1, sizeof *made);
    if (!made) return err_no_memory(err, "learning a tokenizer");
    made->vocab_size = vocab_size;
    made->progress = progress;
    made->threads = threads > CREW_THREADS_MAX ? CREW_THREADS_MAX : threads;
    made->scratch = calloc((size_t)made->threads, sizeof(struct pretokenizer_scratch *));
    enum status status = made->scratch ? STATUS_OK : err_no_memory(err, "learning a tokenizer");
    if (!status) status = pretokenizer_new(&pattern, 1, "bpe", &made->pretokenizer, err);
    struct crew_job job = {made, count_part, add_counts, discard_counts};
    if (!status && threads > 1) status = crew_open(&job, threads, &made->crew, err);
    if (status)
        bpe_trainer_free(made);
    else
        *out = made;
    return status;
}

/* Counts text[from … from+n) of a piece. */
static enum status count_here(struct bpe_trainer *t, const struct text_piece *text, size_t from, size_t n,
                              struct err *err)
{
    t->text = text;
    t->counted = from;
    enum status status = split(t, 0, text->text + from, n, count_piece, t, err);
    uint64_t done = text_piece_done(text, from + n);
    if (status || (done - t->reported < REPORT_BYTES && done < t->total)) return status;
    return report_counted(t, done, err);
}

enum status bpe_trainer_count(void *trainer, const struct text_piece *text, struct err *err)
{
    struct bpe_trainer *t = trainer;
    enum status status = STATUS_OK;
    t->total = text->total;
    if (!t->crew) return count_here(t, text, 0, text->n, err);
    for (size_t at = 0, length; at < text->n && !status; at += length) {
        length = crew_cut(text->text + at, text->n - at);
        struct crew_part part = {.path = text->path,
                                 .text = text->text + at,
                                 .n = length,
                                 .done = text_piece_done(text, at + length)};
        if (length <= CREW_PART_MAX)
            status = crew_give(t->crew, &part, err);
        else if (!(status = crew_finish(t->crew, err)))
            status = count_here(t, text, at, length, err);
    }
    return status;
}

/* ---- the pairs ---- */

static uint64_t hash_ids(uint64_t ids)
{
    return hash_pair((uint32_t)(ids >> 32), (uint32_t)ids);
}

/* The pair's number, HASH_NONE if it is new. */
static uint32_t find_pair(const struct bpe_trainer *t, uint64_t ids)
{
    uint64_t hash = hash_ids(ids), at = hash;
    uint32_t found;
    while ((found = hash_index_next(&t->pair_index, hash, &at)) != HASH_NONE)
        if (t->pairs[found].ids == ids) break;
    return found;
}

/* Finds the pair or adds it; NULL if memory runs out. */
static struct pair *make_pair(struct bpe_trainer *t, uint32_t left, uint32_t right)
{
    uint64_t ids = (uint64_t)left << 32 | right;
    uint32_t found = find_pair(t, ids);
    if (found != HASH_NONE) return &t->pairs[found];
    if (!list_reserve(&t->pairs, t->pair_count, 1, &t->pair_capacity, sizeof *t->pairs) ||
        !hash_index_add(&t->pair_index, hash_ids(ids), t->pair_count))
        return NULL;
    t->pairs[t->pair_count] = (struct pair){.ids = ids};
    return &t->pairs[t->pair_count++];
}

static bool pair_gain(struct bpe_trainer *t, uint32_t left, uint32_t right, uint32_t word)
{
    struct pair *pair = make_pair(t, left, right);
    if (!pair) return false;
    pair->count += t->table.words[word].count;
    if (!pair->touched) {
        if (!list_reserve(&t->touched, t->touched_count, 1, &t->touched_capacity, sizeof *t->touched))
            return false;
        t->touched[t->touched_count++] = (uint32_t)(pair - t->pairs);
        pair->touched = true;
    }
    if (pair->word_count && pair->words[pair->word_count - 1] == word) return true;
    if (!list_reserve(&pair->words, pair->word_count, 1, &pair->word_capacity, sizeof *pair->words))
        return false;
    pair->words[pair->word_count++] = word;
    return true;
}

static bool pair_lose(struct bpe_trainer *t, uint32_t left, uint32_t right, uint32_t word)
{
    struct pair *pair = make_pair(t, left, right);
    if (pair) pair->count -= t->table.words[word].count;
    return pair != NULL;
}

/* The most frequent pair has the lowest key; of equally frequent pairs the one with smaller ids. */
static heap_key key_of(const struct pair *pair)
{
    return (heap_key)(UINT64_MAX - (uint64_t)pair->count) << 64 | pair->ids;
}

static bool push_touched(struct bpe_trainer *t)
{
    bool ok = true;
    for (size_t i = 0; i < t->touched_count; i++) {
        struct pair *pair = &t->pairs[t->touched[i]];
        pair->touched = false;
        if (pair->count > 0) ok = ok && heap_push(&t->heap, key_of(pair));
    }
    t->touched_count = 0;
    return ok;
}

/* The most frequent pair, HASH_NONE if there is none. Counts of pairs on the heap only fall (a pair whose
 * count grows is pushed again), so a key is valid if its count is still the same. */
static bool best_pair(struct bpe_trainer *t, uint32_t *best)
{
    *best = HASH_NONE;
    while (t->heap.count) {
        heap_key top = heap_pop(&t->heap);
        uint32_t found = find_pair(t, (uint64_t)top);
        heap_key now = key_of(&t->pairs[found]);
        if (now == top) {
            *best = found;
            return true;
        }
        if (t->pairs[found].count > 0 && now > top && !heap_push(&t->heap, now)) return false;
    }
    return true;
}

/* ---- learning ---- */

/* Replaces left right by `made` in one word, from left to right, and updates the counts of pairs. */
static bool merge_in_word(struct bpe_trainer *t, uint32_t at, uint32_t left, uint32_t right, uint32_t made)
{
    struct word *word = &t->table.words[at];
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
    for (size_t i = 0; i < t->table.count; i++) {
        struct word *word = &t->table.words[i];
        word->symbols = arena_alloc_array(&t->arena, word->n, sizeof *word->symbols);
        if (!word->symbols) return false;
        for (uint32_t j = 0; j < word->n; j++) word->symbols[j] = byte_id[(unsigned char)word->bytes[j]];
        for (uint32_t j = 0; j + 1 < word->n; j++)
            if (!pair_gain(t, word->symbols[j], word->symbols[j + 1], (uint32_t)i)) return false;
    }
    return push_touched(t);
}

/* Finds the token with these bytes, or adds it as the next one. */
static bool make_token(struct bpe_trainer *t, struct bpe *bpe, const char *bytes, uint32_t n, uint32_t *out)
{
    uint64_t hash = XXH3_64bits(bytes, n);
    for (uint64_t at = hash; (*out = hash_index_next(&t->token_index, hash, &at)) != HASH_NONE;)
        if (bpe->tokens[*out].n == n && memcmp(bpe->tokens[*out].bytes, bytes, n) == 0) return true;
    *out = (uint32_t)bpe->vocab_size;
    bpe->tokens[bpe->vocab_size++] = (struct bpe_token){.bytes = bytes, .n = n};
    return hash_index_add(&t->token_index, hash, *out);
}

/* Applies the merge of the pair `best`. */
static bool learn_merge(struct bpe_trainer *t, struct bpe *bpe, uint32_t best)
{
    struct pair pair = t->pairs[best];
    uint32_t left = (uint32_t)(pair.ids >> 32), right = (uint32_t)pair.ids, made;
    uint32_t n = bpe->tokens[left].n + bpe->tokens[right].n;
    char *bytes = arena_alloc(&bpe->arena, n);
    if (!bytes) return false;
    memcpy(mempcpy(bytes, bpe->tokens[left].bytes, bpe->tokens[left].n), bpe->tokens[right].bytes,
           bpe->tokens[right].n);
    if (!make_token(t, bpe, bytes, n, &made)) return false;
    bpe->merges[bpe->merge_count++] = (struct bpe_merge){left, right, made};
    t->pairs[best].words = NULL;
    t->pairs[best].word_count = t->pairs[best].word_capacity = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < pair.word_count; i++)
        ok = merge_in_word(t, pair.words[i], left, right, made);
    free(pair.words);
    t->pairs[best].count = 0; /* none is left; pairs lost by overlap ("aaa") were not subtracted */
    return ok && push_touched(t);
}

/* Starts with all bytes, in the order of their characters. */
static bool begin(struct bpe_trainer *t, struct bpe *bpe, size_t merge_capacity)
{
    struct byte_alphabet alphabet;
    uint32_t byte_id[256];
    byte_alphabet_init(&alphabet);
    bpe->patterns[bpe->pattern_count++] = PRETOKENIZER_GPT2;
    bpe->tokens = arena_alloc_array(&bpe->arena, (size_t)t->vocab_size, sizeof *bpe->tokens);
    bpe->merges = arena_alloc_array(&bpe->arena, merge_capacity, sizeof *bpe->merges);
    char *single = arena_alloc(&bpe->arena, 256);
    if (!bpe->tokens || !bpe->merges || !single) return false;
    for (int c = 0; c < BYTE_ALPHABET_END; c++) {
        if (alphabet.byte[c] < 0) continue;
        char *byte = &single[bpe->vocab_size];
        *byte = (char)alphabet.byte[c];
        if (!make_token(t, bpe, byte, 1, &byte_id[alphabet.byte[c]])) return false;
    }
    return start(t, byte_id);
}

/* Adds the token that ends documents. Encoding finds it in the text, as Hugging Face's library does. */
static bool add_end(struct bpe *bpe)
{
    static const char end[] = TOKENIZER_END;
    bpe->added = arena_alloc_array(&bpe->arena, 1, sizeof *bpe->added);
    if (!bpe->added) return false;
    bpe->added[bpe->added_count++] = (struct added_token){
        .content = end, .n = sizeof end - 1, .id = (uint32_t)bpe->vocab_size, .special = true};
    bpe->tokens[bpe->vocab_size++] = (struct bpe_token){.bytes = end, .n = sizeof end - 1, .literal = true};
    return true;
}

static enum status report_merges(const struct bpe_trainer *t, uint32_t done, uint32_t total, struct err *err)
{
    return progress_report(t->progress, "learning merges", "merges", done, total, err);
}

enum status bpe_trainer_learn(struct bpe_trainer *t, bool ends, struct tokenizer **out, struct err *err)
{
    size_t vocab_size = (size_t)t->vocab_size;
    size_t merge_capacity = 2 * vocab_size;                          /* some merges give an existing token */
    size_t most = vocab_size > 256 ? vocab_size - ends : vocab_size; /* bytes and merges */
    uint32_t best = 0;
    struct bpe bpe = {0};
    enum status status = t->crew ? crew_finish(t->crew, err) : STATUS_OK;
    bool ok = status || begin(t, &bpe, merge_capacity);
    while (ok && !status && bpe.vocab_size < most && bpe.merge_count < merge_capacity) {
        if (bpe.merge_count % REPORT_MERGES == 0)
            status = report_merges(t, bpe.vocab_size - 256, most - 256, err);
        ok = best_pair(t, &best);
        if (!ok || best == HASH_NONE) break;
        ok = learn_merge(t, &bpe, best);
    }
    if (ok && !status && bpe.vocab_size > 256)
        status = report_merges(t, bpe.vocab_size - 256, bpe.vocab_size - 256, err);
    if (ok && !status && ends && bpe.vocab_size < vocab_size) ok = add_end(&bpe);
    if (!ok) status = err_no_memory(err, "learning a tokenizer");
    if (status) {
        bpe_release(&bpe);
        return status;
    }
    return tokenizer_new(&bpe, NULL, "bpe", out, err);
}
