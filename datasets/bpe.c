/* See bpe.h. */
#include "datasets/bpe.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/base/arena.h"
#include "datasets/pretokenizer.h"

/* Pieces up to CACHED_BYTES are remembered with their ids; of longer ones hardly any comes twice. */
enum { CACHED_BYTES = 64, CACHE_ENTRIES = 1 << 18, PIECE_BYTES = 1 << 26, SINK_IDS = 1 << 14 };

#define NO_ID UINT32_MAX

struct merge_slot {
    uint64_t pair; /* left << 32 | right; UINT64_MAX: empty */
    uint32_t rank, result;
};

struct bpe {
    struct arena arena; /* everything the definition points to */
    struct bpe_spec spec;
    struct merge_slot *merges; /* open addressing; a power of two of them */
    size_t merge_mask;
    uint32_t *ids; /* ids by hash of their bytes, NO_ID: empty; only with ignore_merges */
    size_t id_mask;
    uint32_t byte_id[256];
    struct added_set raw, normalized;
    struct pretokenizer *pretokenizer;
};

/* ---- the definition ---- */

static size_t table_size(size_t entries)
{
    size_t size = 16;
    while (size < 2 * entries) size *= 2;
    return size;
}

static uint64_t pair_of(uint32_t left, uint32_t right)
{
    return (uint64_t)left << 32 | right;
}

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0x9E3779B97F4A7C15u;
    return x ^ (x >> 29);
}

static struct merge_slot *merge_slot(const struct bpe *bpe, uint64_t pair)
{
    size_t at = mix(pair) & bpe->merge_mask;
    while (bpe->merges[at].pair != pair && bpe->merges[at].pair != UINT64_MAX)
        at = (at + 1) & bpe->merge_mask;
    return &bpe->merges[at];
}

/* Where the token with these bytes is, or would go, in bpe->ids. */
static uint32_t *id_slot(const struct bpe *bpe, const char *bytes, size_t n)
{
    size_t at = XXH3_64bits(bytes, n) & bpe->id_mask;
    for (; bpe->ids[at] != NO_ID; at = (at + 1) & bpe->id_mask) {
        const struct bpe_token *token = &bpe->spec.tokens[bpe->ids[at]];
        if (token->n == n && memcmp(token->bytes, bytes, n) == 0) break;
    }
    return &bpe->ids[at];
}

static bool copy_tokens(struct bpe *bpe, const struct bpe_spec *spec)
{
    struct bpe_token *tokens = arena_alloc_array(&bpe->arena, spec->vocab_size, sizeof *tokens);
    if (!tokens) return false;
    for (size_t i = 0; i < spec->vocab_size; i++) {
        tokens[i] = spec->tokens[i];
        if (!tokens[i].n) continue;
        char *bytes = arena_alloc(&bpe->arena, tokens[i].n);
        if (!bytes) return false;
        tokens[i].bytes = memcpy(bytes, spec->tokens[i].bytes, tokens[i].n);
    }
    bpe->spec.tokens = tokens;
    return true;
}

static bool copy_rest(struct bpe *bpe, const struct bpe_spec *spec)
{
    struct bpe_merge *merges = arena_alloc_array(&bpe->arena, spec->merge_count, sizeof *merges);
    const char **patterns = arena_alloc_array(&bpe->arena, spec->pattern_count, sizeof *patterns);
    struct added_token *added = arena_alloc_array(&bpe->arena, spec->added_count, sizeof *added);
    if (!merges || !patterns || !added) return false;
    if (spec->merge_count) memcpy(merges, spec->merges, spec->merge_count * sizeof *merges);
    for (size_t i = 0; i < spec->pattern_count; i++)
        if (!(patterns[i] = arena_strdup(&bpe->arena, spec->patterns[i]))) return false;
    for (size_t i = 0; i < spec->added_count; i++) {
        added[i] = spec->added[i];
        char *content = arena_alloc(&bpe->arena, added[i].n);
        if (!content) return false;
        added[i].content = memcpy(content, spec->added[i].content, added[i].n);
    }
    bpe->spec.merges = merges;
    bpe->spec.patterns = patterns;
    bpe->spec.added = added;
    return true;
}

static bool fill_tables(struct bpe *bpe)
{
    const struct bpe_spec *spec = &bpe->spec;
    size_t slots = table_size(spec->merge_count),
           ids = table_size(spec->ignore_merges ? spec->vocab_size : 0);
    bpe->merges = arena_alloc_array(&bpe->arena, slots, sizeof *bpe->merges);
    bpe->ids = arena_alloc_array(&bpe->arena, ids, sizeof *bpe->ids);
    if (!bpe->merges || !bpe->ids) return false;
    bpe->merge_mask = slots - 1;
    bpe->id_mask = ids - 1;
    memset(bpe->merges, 0xFF, slots * sizeof *bpe->merges);
    memset(bpe->ids, 0xFF, ids * sizeof *bpe->ids);
    for (size_t rank = 0; rank < spec->merge_count; rank++) {
        uint64_t pair = pair_of(spec->merges[rank].left, spec->merges[rank].right);
        *merge_slot(bpe, pair) = (struct merge_slot){pair, (uint32_t)rank, spec->merges[rank].result};
    }
    memset(bpe->byte_id, 0xFF, sizeof bpe->byte_id);
    for (size_t id = 0; id < spec->vocab_size; id++) {
        const struct bpe_token *token = &spec->tokens[id];
        if (token->literal || !token->n) continue;
        if (token->n == 1) bpe->byte_id[(unsigned char)token->bytes[0]] = (uint32_t)id;
        if (spec->ignore_merges) *id_slot(bpe, token->bytes, token->n) = (uint32_t)id;
    }
    return true;
}

enum status bpe_new(const struct bpe_spec *spec, const char *name, struct bpe **out, struct err *err)
{
    enum status status;
    struct bpe *bpe = calloc(1, sizeof *bpe);
    if (!bpe) return err_set(err, STATUS_NO_MEMORY, "%s: not enough memory for the tokenizer", name);
    arena_init(&bpe->arena, 1 << 16);
    bpe->spec = *spec;
    if (spec->vocab_size > BPE_VOCAB_MAX || spec->merge_count > UINT32_MAX / 2) {
        status = err_set(err, STATUS_FAILED, "%s: %zu tokens and %zu merges are too many (at most %d tokens)",
                         name, spec->vocab_size, spec->merge_count, BPE_VOCAB_MAX);
        goto out;
    }
    for (size_t i = 0; i < spec->merge_count; i++) {
        const struct bpe_merge *merge = &spec->merges[i];
        if (merge->left < spec->vocab_size && merge->right < spec->vocab_size &&
            merge->result < spec->vocab_size)
            continue;
        status =
            err_set(err, STATUS_CORRUPT, "%s: merge %zu names an id that is not in the vocabulary", name, i);
        goto out;
    }
    if (!copy_tokens(bpe, spec) || !copy_rest(bpe, spec) || !fill_tables(bpe)) {
        status =
            err_set(err, STATUS_NO_MEMORY, "%s: not enough memory for %zu tokens", name, spec->vocab_size);
        goto out;
    }
    for (int byte = 0; byte < 256; byte++) {
        if (bpe->byte_id[byte] != NO_ID) continue;
        status = err_set(
            err, STATUS_FAILED,
            "%s: no token for the byte 0x%02x, so some text would be lost (train the tokenizer with the "
            "whole byte-level alphabet)",
            name, byte);
        goto out;
    }
    if ((status = added_set_init(&bpe->raw, bpe->spec.added, spec->added_count, false, err)) ||
        (status = added_set_init(&bpe->normalized, bpe->spec.added, spec->added_count, true, err)))
        goto out;
    status = pretokenizer_new(spec->patterns, spec->pattern_count, name, &bpe->pretokenizer, err);
out:
    if (status)
        bpe_free(bpe);
    else
        *out = bpe;
    return status;
}

void bpe_free(struct bpe *bpe)
{
    if (!bpe) return;
    pretokenizer_free(bpe->pretokenizer);
    added_set_release(&bpe->raw);
    added_set_release(&bpe->normalized);
    arena_release(&bpe->arena);
    free(bpe);
}

const struct bpe_spec *bpe_definition(const struct bpe *bpe)
{
    return &bpe->spec;
}

uint64_t bpe_checksum(const struct bpe *bpe)
{
    const struct bpe_spec *spec = &bpe->spec;
    XXH64_state_t *state = XXH64_createState();
    if (!state) return 0;
    XXH64_reset(state, 0);
    uint64_t head[] = {spec->vocab_size,  spec->merge_count,           spec->pattern_count,
                       spec->added_count, (uint64_t)spec->normal_form, spec->ignore_merges};
    XXH64_update(state, head, sizeof head);
    for (size_t i = 0; i < spec->vocab_size; i++) {
        uint32_t size[2] = {spec->tokens[i].n, spec->tokens[i].literal};
        XXH64_update(state, size, sizeof size);
        if (spec->tokens[i].n) XXH64_update(state, spec->tokens[i].bytes, spec->tokens[i].n);
    }
    for (size_t i = 0; i < spec->merge_count; i++)
        XXH64_update(state, &spec->merges[i], sizeof spec->merges[i]);
    for (size_t i = 0; i < spec->pattern_count; i++)
        XXH64_update(state, spec->patterns[i], strlen(spec->patterns[i]) + 1);
    for (size_t i = 0; i < spec->added_count; i++) {
        uint64_t added[] = {spec->added[i].n, spec->added[i].id, spec->added[i].normalized};
        XXH64_update(state, added, sizeof added);
        XXH64_update(state, spec->added[i].content, spec->added[i].n);
    }
    uint64_t digest = XXH64_digest(state);
    XXH64_freeState(state);
    return digest;
}

/* ---- encoding ---- */

struct cached {
    uint64_t hash;
    const char *piece; /* n bytes; NULL: empty */
    const uint32_t *ids;
    uint32_t n, count;
};

/* A piece being merged: its symbols as a list linked in both directions, -1 at the ends. */
struct symbol {
    uint32_t id;
    int32_t previous, next;
};

struct encoder {
    const struct bpe *bpe;
    const struct token_sink *sink;
    struct pretokenizer_scratch *scratch;
    struct arena arena; /* cached pieces */
    struct cached *cache;
    size_t cache_size, cache_count;
    struct symbol *symbols;
    uint64_t *heap; /* rank << 32 | position, the least on top */
    size_t heap_count, piece_capacity;
    struct token_list pending;
    uint64_t done, total; /* bytes of text */
};

static enum status no_memory(struct err *err)
{
    return err_set(err, STATUS_NO_MEMORY, "not enough memory to encode the text");
}

static enum status flush(struct encoder *e, struct err *err)
{
    uint64_t done = e->done < e->total ? e->done : e->total; /* normalized text may be the longer one */
    enum status status = e->sink->take(e->sink->context, e->pending.ids, e->pending.count, done, err);
    e->pending.count = 0;
    return status;
}

static void heap_push(struct encoder *e, uint64_t key)
{
    size_t at = e->heap_count++;
    for (size_t up; at && e->heap[up = (at - 1) / 2] > key; at = up) e->heap[at] = e->heap[up];
    e->heap[at] = key;
}

static uint64_t heap_pop(struct encoder *e)
{
    uint64_t top = e->heap[0], last = e->heap[--e->heap_count];
    size_t at = 0;
    for (size_t down; (down = 2 * at + 1) < e->heap_count; at = down) {
        if (down + 1 < e->heap_count && e->heap[down + 1] < e->heap[down]) down++;
        if (e->heap[down] >= last) break;
        e->heap[at] = e->heap[down];
    }
    e->heap[at] = last;
    return top;
}

static const struct merge_slot *merge_at(const struct encoder *e, int32_t at)
{
    int32_t next = at < 0 ? -1 : e->symbols[at].next;
    if (next < 0) return NULL;
    const struct merge_slot *slot = merge_slot(e->bpe, pair_of(e->symbols[at].id, e->symbols[next].id));
    return slot->pair == UINT64_MAX ? NULL : slot;
}

static void heap_push_at(struct encoder *e, int32_t at)
{
    const struct merge_slot *slot = merge_at(e, at);
    if (slot) heap_push(e, (uint64_t)slot->rank << 32 | (uint32_t)at);
}

/* Every merge removes one symbol and adds at most two candidates: 3n entries are always enough. */
static bool reserve_piece(struct encoder *e, size_t n)
{
    if (n <= e->piece_capacity) return true;
    size_t capacity = n + n / 2 + 64;
    struct symbol *symbols = realloc(e->symbols, capacity * sizeof *symbols);
    if (symbols) e->symbols = symbols;
    uint64_t *heap = realloc(e->heap, 3 * capacity * sizeof *heap);
    if (heap) e->heap = heap;
    if (!symbols || !heap) return false;
    e->piece_capacity = capacity;
    return true;
}

/* Appends the ids of one piece of 2 … PIECE_BYTES bytes to e->pending. */
static enum status merge_piece(struct encoder *e, const char *piece, size_t n, struct err *err)
{
    if (!reserve_piece(e, n)) return no_memory(err);
    for (size_t i = 0; i < n; i++)
        e->symbols[i] = (struct symbol){e->bpe->byte_id[(unsigned char)piece[i]], (int32_t)i - 1,
                                        i + 1 < n ? (int32_t)i + 1 : -1};
    e->heap_count = 0;
    for (size_t i = 0; i + 1 < n; i++) heap_push_at(e, (int32_t)i);
    while (e->heap_count) {
        uint64_t top = heap_pop(e);
        int32_t at = (int32_t)(uint32_t)top;
        if (e->symbols[at].id == NO_ID) continue; /* swallowed by its left neighbour */
        const struct merge_slot *slot = merge_at(e, at);
        if (!slot || slot->rank != top >> 32) continue; /* has changed since it was put on the heap */
        struct symbol *left = &e->symbols[at], *right = &e->symbols[left->next];
        left->id = slot->result;
        left->next = right->next;
        right->id = NO_ID;
        if (left->next >= 0) e->symbols[left->next].previous = at;
        heap_push_at(e, left->previous);
        heap_push_at(e, at);
    }
    enum status status = STATUS_OK;
    for (int32_t at = 0; at >= 0 && !status; at = e->symbols[at].next)
        status = token_list_append(&e->pending, &e->symbols[at].id, 1, err);
    return status;
}

static bool grow_cache(struct encoder *e)
{
    size_t size = e->cache_size ? 4 * e->cache_size : 256;
    struct cached *grown = calloc(size, sizeof *grown);
    if (!grown) return false;
    for (size_t i = 0; i < e->cache_size; i++) {
        if (!e->cache[i].piece) continue;
        size_t at = e->cache[i].hash & (size - 1);
        while (grown[at].piece) at = (at + 1) & (size - 1);
        grown[at] = e->cache[i];
    }
    free(e->cache);
    e->cache = grown;
    e->cache_size = size;
    return true;
}

static enum status remember(struct encoder *e, uint64_t hash, const char *piece, size_t n,
                            const uint32_t *ids, size_t count, struct err *err)
{
    if (e->cache_count >= CACHE_ENTRIES) return STATUS_OK;
    if (2 * (e->cache_count + 1) > e->cache_size && !grow_cache(e)) return no_memory(err);
    char *kept = arena_alloc(&e->arena, n + count * sizeof *ids + sizeof *ids);
    if (!kept) return no_memory(err);
    uint32_t *kept_ids = (uint32_t *)kept;
    memcpy(kept_ids, ids, count * sizeof *ids);
    memcpy(kept + count * sizeof *ids, piece, n);
    size_t at = hash & (e->cache_size - 1);
    while (e->cache[at].piece) at = (at + 1) & (e->cache_size - 1);
    e->cache[at] = (struct cached){hash, kept + count * sizeof *ids, kept_ids, (uint32_t)n, (uint32_t)count};
    e->cache_count++;
    return STATUS_OK;
}

static enum status encode_piece(void *context, const char *piece, size_t n, struct err *err)
{
    struct encoder *e = context;
    enum status status = STATUS_OK;
    e->done += n;
    if (e->pending.count >= SINK_IDS && (status = flush(e, err))) return status;
    for (; n > PIECE_BYTES; piece += PIECE_BYTES, n -= PIECE_BYTES)
        if ((status = merge_piece(e, piece, PIECE_BYTES, err)) || (status = flush(e, err))) return status;
    if (n == 1) return token_list_append(&e->pending, &e->bpe->byte_id[(unsigned char)piece[0]], 1, err);
    if (e->bpe->spec.ignore_merges) {
        uint32_t id = *id_slot(e->bpe, piece, n);
        if (id != NO_ID) return token_list_append(&e->pending, &id, 1, err);
    }
    if (n > CACHED_BYTES) return merge_piece(e, piece, n, err);
    uint64_t hash = XXH3_64bits(piece, n);
    for (size_t at = hash & (e->cache_size - 1); e->cache_size && e->cache[at].piece;
         at = (at + 1) & (e->cache_size - 1)) {
        const struct cached *found = &e->cache[at];
        if (found->hash == hash && found->n == n && memcmp(found->piece, piece, n) == 0)
            return token_list_append(&e->pending, found->ids, found->count, err);
    }
    size_t before = e->pending.count;
    if ((status = merge_piece(e, piece, n, err))) return status;
    return remember(e, hash, piece, n, e->pending.ids + before, e->pending.count - before, err);
}

/* Text without unnormalized added tokens: normalize it, cut out the other added tokens, encode what is
 * between. */
static enum status encode_stretch(struct encoder *e, const char *text, size_t n, struct err *err)
{
    char *normal = NULL;
    size_t size = 0, done = 0, where = 0;
    uint64_t before = e->done;
    enum status status = normalizer_apply(e->bpe->spec.normal_form, text, n, &normal, &size, err);
    if (status) return status;
    const char *from = normal ? normal : text;
    size = normal ? size : n;
    for (const struct added_token *token;
         (token = added_set_find(&e->bpe->normalized, from, size, done, &where)); done = where + token->n) {
        if ((status = pretokenizer_split(e->bpe->pretokenizer, e->scratch, from + done, where - done,
                                         encode_piece, e, err)) ||
            (status = token_list_append(&e->pending, &token->id, 1, err)))
            goto out;
    }
    status =
        pretokenizer_split(e->bpe->pretokenizer, e->scratch, from + done, size - done, encode_piece, e, err);
out:
    e->done = before + n; /* counted in bytes of the text itself */
    free(normal);
    return status;
}

enum status bpe_encode(const struct bpe *bpe, const char *text, size_t n, const struct token_sink *sink,
                       struct err *err)
{
    struct encoder e = {.bpe = bpe, .sink = sink, .total = n};
    size_t done = 0, where = 0;
    arena_init(&e.arena, 1 << 14);
    enum status status = pretokenizer_scratch_new(bpe->pretokenizer, &e.scratch, err);
    if (status) goto out;
    for (const struct added_token *token; (token = added_set_find(&bpe->raw, text, n, done, &where));
         done = where + token->n) {
        if ((status = encode_stretch(&e, text + done, where - done, err)) ||
            (status = token_list_append(&e.pending, &token->id, 1, err)))
            goto out;
        e.done += token->n;
    }
    if ((status = encode_stretch(&e, text + done, n - done, err))) goto out;
    status = flush(&e, err);
out:
    pretokenizer_scratch_free(e.scratch);
    arena_release(&e.arena);
    free(e.cache);
    free(e.symbols);
    free(e.heap);
    token_list_release(&e.pending);
    return status;
}
