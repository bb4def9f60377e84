/* See bpe.h. */
#include "datasets/bpe.h"

#include <string.h>
#include <xxhash.h>

#include "datasets/heap.h"

/* A cache of short pieces with few ids; a new piece replaces an old one of the same hash. */
enum { CACHED_BYTES = 30, CACHED_IDS = 24, CACHE_LINES_MAX = 1 << 16 };

enum { PIECE_BYTES = 1 << 26, PENDING_IDS = 1 << 14 };

#define NO_ID UINT32_MAX

/* Added tokens ready for searching. */
struct added_set {
    size_t count;
    uint32_t first[257];         /* tokens that begin with byte b are first[b] … first[b+1]-1 */
    struct added_token tokens[]; /* by first byte, then longest first */
};

/* ---- the definition ---- */

static int by_precedence(const void *a, const void *b)
{
    const struct added_token *x = a, *y = b;
    unsigned char first_x = (unsigned char)x->content[0], first_y = (unsigned char)y->content[0];
    if (first_x != first_y) return first_x < first_y ? -1 : 1;
    if (x->n != y->n) return x->n > y->n ? -1 : 1;
    int order = memcmp(x->content, y->content, x->n);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

static struct added_set *added_set_new(struct bpe *bpe, bool normalized)
{
    struct added_set *set = arena_alloc(&bpe->arena, sizeof *set + bpe->added_count * sizeof *set->tokens);
    if (!set) return NULL;
    for (size_t i = 0; i < bpe->added_count; i++)
        if (bpe->added[i].normalized == normalized) set->tokens[set->count++] = bpe->added[i];
    qsort(set->tokens, set->count, sizeof *set->tokens, by_precedence);
    for (size_t i = 0; i < set->count; i++) set->first[(unsigned char)set->tokens[i].content[0] + 1]++;
    for (int b = 0; b < 256; b++) set->first[b + 1] += set->first[b];
    return set;
}

/* The first match in text at or after `start`, its position in *where; NULL if there is none. */
static const struct added_token *added_set_find(const struct added_set *set, const char *text, size_t n,
                                                size_t start, size_t *where)
{
    if (!set->count) return NULL;
    for (size_t i = start; i < n; i++) {
        unsigned char byte = (unsigned char)text[i];
        for (uint32_t t = set->first[byte]; t < set->first[byte + 1]; t++) {
            const struct added_token *token = &set->tokens[t];
            if (token->n > n - i || memcmp(token->content, text + i, token->n) != 0) continue;
            *where = i;
            return token;
        }
    }
    return NULL;
}

/* The rank of the merge of two neighbouring ids, HASH_NONE if there is none. */
static uint32_t find_merge(const struct bpe *bpe, uint32_t left, uint32_t right)
{
    uint64_t hash = hash_pair(left, right), at = hash;
    uint32_t rank;
    while ((rank = hash_index_next(&bpe->merge_index, hash, &at)) != HASH_NONE)
        if (bpe->merges[rank].left == left && bpe->merges[rank].right == right) break;
    return rank;
}

static uint32_t find_id(const struct bpe *bpe, const char *bytes, size_t n)
{
    uint64_t hash = XXH3_64bits(bytes, n), at = hash;
    uint32_t id;
    while ((id = hash_index_next(&bpe->id_index, hash, &at)) != HASH_NONE)
        if (bpe->tokens[id].n == n && memcmp(bpe->tokens[id].bytes, bytes, n) == 0) break;
    return id;
}

/* Adds from last to first, so that the later of two equal entries counts. */
static bool fill_tables(struct bpe *bpe)
{
    bool ok = (bpe->raw = added_set_new(bpe, false)) && (bpe->normalized = added_set_new(bpe, true));
    for (size_t rank = bpe->merge_count; ok && rank-- > 0;) {
        const struct bpe_merge *merge = &bpe->merges[rank];
        if (find_merge(bpe, merge->left, merge->right) == HASH_NONE)
            ok = hash_index_add(&bpe->merge_index, hash_pair(merge->left, merge->right), rank);
    }
    memset(bpe->byte_id, 0xFF, sizeof bpe->byte_id);
    for (size_t id = bpe->vocab_size; ok && id-- > 0;) {
        const struct bpe_token *token = &bpe->tokens[id];
        if (token->literal || !token->n) continue;
        uint32_t *byte_id = &bpe->byte_id[(unsigned char)token->bytes[0]];
        if (token->n == 1 && *byte_id == NO_ID) *byte_id = (uint32_t)id;
        if (bpe->ignore_merges && find_id(bpe, token->bytes, token->n) == HASH_NONE)
            ok = hash_index_add(&bpe->id_index, XXH3_64bits(token->bytes, token->n), id);
    }
    return ok;
}

enum status bpe_finish(struct bpe *bpe, const char *name, struct err *err)
{
    if (bpe->vocab_size > BPE_VOCAB_MAX || bpe->merge_count > UINT32_MAX / 2)
        return err_set(err, STATUS_FAILED, "%s: %zu tokens and %zu merges are too many (at most %d tokens)",
                       name, bpe->vocab_size, bpe->merge_count, BPE_VOCAB_MAX);
    if (!fill_tables(bpe)) return err_no_memory(err, "%s of %zu tokens", name, bpe->vocab_size);
    for (int byte = 0; byte < 256; byte++)
        if (bpe->byte_id[byte] == NO_ID)
            return err_set(
                err, STATUS_FAILED,
                "%s: no token for the byte 0x%02x, so some text would be lost (train the tokenizer with the "
                "whole byte-level alphabet)",
                name, byte);
    return pretokenizer_new(bpe->patterns, bpe->pattern_count, name, &bpe->pretokenizer, err);
}

void bpe_release(struct bpe *bpe)
{
    pretokenizer_free(bpe->pretokenizer);
    hash_index_release(&bpe->merge_index);
    hash_index_release(&bpe->id_index);
    arena_release(&bpe->arena);
    *bpe = (struct bpe){0};
}

uint64_t bpe_checksum(const struct bpe *bpe)
{
    XXH64_state_t *state = XXH64_createState();
    if (!state) return 0;
    XXH64_reset(state, 0);
    uint64_t head[] = {bpe->vocab_size,  bpe->merge_count,           bpe->pattern_count,
                       bpe->added_count, (uint64_t)bpe->normal_form, bpe->ignore_merges};
    XXH64_update(state, head, sizeof head);
    for (size_t i = 0; i < bpe->vocab_size; i++) {
        uint32_t size[2] = {bpe->tokens[i].n, bpe->tokens[i].literal};
        XXH64_update(state, size, sizeof size);
        if (bpe->tokens[i].n) XXH64_update(state, bpe->tokens[i].bytes, bpe->tokens[i].n);
    }
    if (bpe->merge_count) XXH64_update(state, bpe->merges, bpe->merge_count * sizeof *bpe->merges);
    for (size_t i = 0; i < bpe->pattern_count; i++)
        XXH64_update(state, bpe->patterns[i], strlen(bpe->patterns[i]) + 1);
    for (size_t i = 0; i < bpe->added_count; i++) {
        uint64_t added[] = {bpe->added[i].n, bpe->added[i].id, bpe->added[i].normalized};
        XXH64_update(state, added, sizeof added);
        XXH64_update(state, bpe->added[i].content, bpe->added[i].n);
    }
    uint64_t digest = XXH64_digest(state);
    XXH64_freeState(state);
    return digest;
}

/* ---- encoding ---- */

struct cached {
    uint8_t n, count; /* n = 0: empty */
    char piece[CACHED_BYTES];
    uint32_t ids[CACHED_IDS];
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
    struct cached *cache;
    size_t cache_mask;
    struct symbol *symbols;
    size_t symbol_capacity;
    struct heap heap;  /* rank << 32 | position */
    uint32_t *pending; /* PENDING_IDS of them */
    size_t pending_count;
    uint64_t done, total; /* bytes of text */
};

static enum status flush(struct encoder *e, struct err *err)
{
    uint64_t done = e->done < e->total ? e->done : e->total; /* normalized text may be longer */
    size_t count = e->pending_count;
    e->pending_count = 0;
    return e->sink->take(e->sink->context, e->pending, count, done, err);
}

static enum status emit(struct encoder *e, uint32_t id, struct err *err)
{
    enum status status = e->pending_count == PENDING_IDS ? flush(e, err) : STATUS_OK;
    e->pending[e->pending_count++] = id;
    return status;
}

/* The rank of the merge of a symbol with the next one. */
static uint32_t merge_at(const struct encoder *e, int32_t at)
{
    int32_t next = at < 0 ? -1 : e->symbols[at].next;
    return next < 0 ? HASH_NONE : find_merge(e->bpe, e->symbols[at].id, e->symbols[next].id);
}

static bool push_merge(struct encoder *e, int32_t at)
{
    uint32_t rank = merge_at(e, at);
    return rank == HASH_NONE || heap_push(&e->heap, (heap_key)rank << 32 | (uint32_t)at);
}

/* Emits the ids of one piece of 1 … PIECE_BYTES bytes. */
static enum status merge_piece(struct encoder *e, const char *piece, size_t n, struct err *err)
{
    if (n > e->symbol_capacity) {
        free(e->symbols);
        e->symbol_capacity = n + n / 2 + 64;
        if (!(e->symbols = malloc(e->symbol_capacity * sizeof *e->symbols)))
            return err_no_memory(err, "encoding the text");
    }
    for (size_t i = 0; i < n; i++)
        e->symbols[i] = (struct symbol){e->bpe->byte_id[(unsigned char)piece[i]], (int32_t)i - 1,
                                        i + 1 < n ? (int32_t)i + 1 : -1};
    bool ok = true;
    for (size_t i = 0; ok && i + 1 < n; i++) ok = push_merge(e, (int32_t)i);
    while (ok && e->heap.count) {
        uint64_t top = heap_pop(&e->heap);
        int32_t at = (int32_t)(uint32_t)top;
        struct symbol *left = &e->symbols[at];
        if (left->id == NO_ID || merge_at(e, at) != top >> 32) continue; /* has changed since it was pushed */
        struct symbol *right = &e->symbols[left->next];
        left->id = e->bpe->merges[top >> 32].result;
        left->next = right->next;
        right->id = NO_ID;
        if (left->next >= 0) e->symbols[left->next].previous = at;
        ok = push_merge(e, left->previous) && push_merge(e, at);
    }
    enum status status = ok ? STATUS_OK : err_no_memory(err, "encoding the text");
    for (int32_t at = 0; at >= 0 && !status; at = e->symbols[at].next)
        status = emit(e, e->symbols[at].id, err);
    return status;
}

static enum status encode_piece(void *context, const char *piece, size_t n, struct err *err)
{
    struct encoder *e = context;
    enum status status = STATUS_OK;
    e->done += n;
    if (e->pending_count > PENDING_IDS - CACHED_BYTES && (status = flush(e, err))) return status;
    if (n == 1) return emit(e, e->bpe->byte_id[(unsigned char)piece[0]], err);
    for (; n > PIECE_BYTES; piece += PIECE_BYTES, n -= PIECE_BYTES)
        if ((status = merge_piece(e, piece, PIECE_BYTES, err)) || (status = flush(e, err))) return status;
    uint32_t id = e->bpe->ignore_merges ? find_id(e->bpe, piece, n) : HASH_NONE;
    if (id != HASH_NONE) return emit(e, id, err);
    if (n > CACHED_BYTES) return merge_piece(e, piece, n, err);
    struct cached *line = &e->cache[XXH3_64bits(piece, n) & e->cache_mask];
    uint32_t *ids = e->pending + e->pending_count; /* there is room for all of them */
    if (line->n == n && memcmp(line->piece, piece, n) == 0) {
        memcpy(ids, line->ids, line->count * sizeof *ids);
        e->pending_count += line->count;
        return STATUS_OK;
    }
    if ((status = merge_piece(e, piece, n, err))) return status;
    size_t count = (size_t)(e->pending + e->pending_count - ids);
    if (count > CACHED_IDS) return STATUS_OK;
    line->n = (uint8_t)n;
    line->count = (uint8_t)count;
    memcpy(line->piece, piece, n);
    memcpy(line->ids, ids, count * sizeof *ids);
    return STATUS_OK;
}

/* Encodes text without unnormalized added tokens: normalizes it, finds the other added tokens, and encodes
 * the text between them. */
static enum status encode_stretch(struct encoder *e, const char *text, size_t n, struct err *err)
{
    const struct bpe *bpe = e->bpe;
    char *normal = NULL;
    size_t size = n, done = 0, where = 0;
    uint64_t before = e->done;
    enum status status = normalizer_apply(bpe->normal_form, text, n, &normal, &size, err);
    const char *from = normal ? normal : text;
    if (!normal) size = n;
    for (const struct added_token *token = NULL; !status; done = where + token->n) {
        token = added_set_find(bpe->normalized, from, size, done, &where);
        status = pretokenizer_split(bpe->pretokenizer, e->scratch, from + done, (token ? where : size) - done,
                                    encode_piece, e, err);
        if (!token) break;
        if (!status) status = emit(e, token->id, err);
    }
    e->done = before + n; /* counted in bytes of the text itself */
    free(normal);
    return status;
}

enum status bpe_encode(const struct bpe *bpe, const char *text, size_t n, const struct token_sink *sink,
                       struct err *err)
{
    size_t done = 0, where = 0, lines = 64;
    while (lines < CACHE_LINES_MAX && 8 * lines < n) lines *= 2; /* about as many lines as pieces, at most */
    struct encoder e = {.bpe = bpe, .sink = sink, .cache_mask = lines - 1, .total = n};
    e.cache = calloc(lines, sizeof *e.cache);
    e.pending = malloc(PENDING_IDS * sizeof *e.pending);
    enum status status = e.cache && e.pending ? pretokenizer_scratch_new(&e.scratch, err)
                                              : err_no_memory(err, "encoding the text");
    for (const struct added_token *token = NULL; !status; done = where + token->n) {
        token = added_set_find(bpe->raw, text, n, done, &where);
        status = encode_stretch(&e, text + done, (token ? where : n) - done, err);
        if (!token) break;
        e.done += token->n;
        if (!status) status = emit(&e, token->id, err);
    }
    if (!status) status = flush(&e, err);
    pretokenizer_scratch_free(e.scratch);
    free(e.cache);
    free(e.pending);
    free(e.symbols);
    free(e.heap.keys);
    return status;
}
