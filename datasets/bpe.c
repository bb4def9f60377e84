/* See bpe.h. */
#include "datasets/bpe.h"

#include <string.h>
#include <xxhash.h>

#include "core/base/text.h"
#include "datasets/heap.h"

/* A cache of short pieces with few ids; a new piece replaces an old one of the same hash. */
enum { CACHED_BYTES = 30, CACHED_IDS = 24, CACHE_LINES_MAX = 1 << 16 };

enum { PIECE_BYTES = 1 << 26, PENDING_IDS = 1 << 14 };

/* Two neighbouring characters; text may be cut between them unless a merge joins them. */
struct bpe_joint {
    uint32_t left, right;
};

/* ---- the definition ---- */

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
        if (bpe->tokens[id].piece_n == n && memcmp(bpe->tokens[id].piece, bytes, n) == 0) break;
    return id;
}

/* Adds from last to first, so that the later of two equal entries counts. */
static bool fill_tables(struct bpe *bpe)
{
    bool ok = (bpe->raw = added_set_new(&bpe->arena, bpe->added, bpe->added_count, false)) &&
              (bpe->normalized = added_set_new(&bpe->arena, bpe->added, bpe->added_count, true));
    for (size_t rank = bpe->merge_count; ok && rank-- > 0;) {
        const struct bpe_merge *merge = &bpe->merges[rank];
        if (find_merge(bpe, merge->left, merge->right) == HASH_NONE)
            ok = hash_index_add(&bpe->merge_index, hash_pair(merge->left, merge->right), rank);
    }
    memset(bpe->byte_id, 0xFF, sizeof bpe->byte_id);
    for (size_t id = bpe->vocab_size; ok && id-- > 0;) {
        struct bpe_token *token = &bpe->tokens[id];
        if (!token->piece) token->piece = token->bytes, token->piece_n = token->n;
        if (token->literal || !token->piece_n) continue;
        uint32_t *byte_id = &bpe->byte_id[(unsigned char)token->piece[0]];
        if (token->piece_n == 1 && *byte_id == BPE_NO_ID) *byte_id = (uint32_t)id;
        if ((bpe->ignore_merges || bpe->characters) &&
            find_id(bpe, token->piece, token->piece_n) == HASH_NONE)
            ok = hash_index_add(&bpe->id_index, XXH3_64bits(token->piece, token->piece_n), id);
    }
    return ok;
}

/* ---- where a piece that begins with characters may be cut ---- */

static bool is_joint(const struct bpe *bpe, uint32_t left, uint32_t right)
{
    uint64_t hash = hash_pair(left, right), at = hash;
    uint32_t i;
    while ((i = hash_index_next(&bpe->joint_index, hash, &at)) != HASH_NONE)
        if (bpe->joints[i].left == left && bpe->joints[i].right == right) return true;
    return false;
}

/* Whether an id is the token of a byte; of BPE_NO_ID: whether a byte has none. */
static bool is_fallback(const struct bpe *bpe, uint32_t id)
{
    if (id != BPE_NO_ID && bpe->tokens[id].piece_n != strlen("<0x00>")) return false;
    for (int b = 0; b < 256; b++)
        if (bpe->fallback_id[b] == id) return true;
    return false;
}

/* Every two neighbouring characters of a token that merges make are the last one of a merge's left part and
 * the first one of its right part. Without a token for every byte, or where a merge joins the tokens of
 * bytes, characters say too little, and pieces stay whole. */
static bool find_joints(struct bpe *bpe)
{
    bpe->joints = arena_alloc_array(&bpe->arena, bpe->merge_count, sizeof *bpe->joints);
    if (!bpe->joints) return false;
    for (size_t i = 0; i < bpe->merge_count; i++) {
        const struct bpe_token *left = &bpe->tokens[bpe->merges[i].left],
                               *right = &bpe->tokens[bpe->merges[i].right];
        struct bpe_joint joint;
        if (!utf8_last_character(left->piece, left->piece_n, &joint.left) ||
            !utf8_character(right->piece, right->piece_n, &joint.right))
            return true;
        if (is_joint(bpe, joint.left, joint.right)) continue;
        bpe->joints[bpe->joint_count] = joint;
        if (!hash_index_add(&bpe->joint_index, hash_pair(joint.left, joint.right), bpe->joint_count++))
            return false;
    }
    bpe->cuts = !is_fallback(bpe, BPE_NO_ID);
    for (size_t i = 0; i < bpe->merge_count; i++)
        if (is_fallback(bpe, bpe->merges[i].left) || is_fallback(bpe, bpe->merges[i].right))
            bpe->cuts = false;
    return true;
}

/* ---- whether a text may be cut at the end of a line ---- */

/* The patterns of GPT-2, Llama 3 and Qwen begin a piece after a line feed before a letter, a digit or a
 * character beyond ASCII, and do not look back. */
static const char *const dividing[] = {PRETOKENIZER_GPT2, PRETOKENIZER_LLAMA3, PRETOKENIZER_QWEN};
/* Those of digits alone leave the place as it is for a pattern above. */
static const char *const harmless[] = {"\\p{N}", "\\p{N}+", "\\p{N}{1,3}"};

static bool is_one_of(const char *pattern, const char *const list[], size_t count)
{
    while (count > 0 && strcmp(pattern, list[count - 1]) != 0) count--;
    return count > 0;
}

/* A cut changes nothing in what is normalized by NFC and NFD, and found as an added token: neither joins a
 * line feed with the next character, and no match covers the place. */
static bool divides(const struct bpe *bpe)
{
    bool divided = false;
    for (size_t i = 0; i < bpe->pattern_count; i++) {
        bool here = is_one_of(bpe->patterns[i], dividing, sizeof dividing / sizeof *dividing);
        if (!here && !is_one_of(bpe->patterns[i], harmless, sizeof harmless / sizeof *harmless)) return false;
        divided |= here;
    }
    for (size_t i = 0; i < bpe->normalizer.count; i++)
        if (bpe->normalizer.steps[i].kind > NORMAL_NFD) return false;
    for (size_t i = 0; i < bpe->added_count; i++) {
        const struct added_token *token = &bpe->added[i];
        if (memchr(token->content, '\n', token->n) ||
            (token->lstrip && token->content[0] != '<' && token->content[0] != '[')) /* takes the line feed */
            return false;
    }
    return divided && !bpe->characters && !bpe->spaces.prefix;
}

enum status bpe_finish(struct bpe *bpe, const char *name, struct err *err)
{
    if (!fill_tables(bpe) || (bpe->characters && !find_joints(bpe)))
        return err_no_memory(err, "%s of %zu tokens", name, bpe->vocab_size);
    for (int byte = 0; byte < 256; byte++) {
        uint32_t *id = &bpe->byte_id[byte], fallback = bpe->fallback_id[byte];
        if (bpe->characters && *id == BPE_NO_ID) *id = fallback != BPE_NO_ID ? fallback : bpe->unknown_id;
        if (*id != BPE_NO_ID) continue;
        return err_set(err, STATUS_FAILED,
                       bpe->characters
                           ? "%s: model: neither byte_fallback with a token for the byte 0x%02x nor an "
                             "unk_token, so some text would be lost"
                           : "%s: no token for the byte 0x%02x, so some text would be lost (train the "
                             "tokenizer with the whole byte-level alphabet)",
                       name, byte);
    }
    bpe->divides = divides(bpe);
    return pretokenizer_new(bpe->patterns, bpe->pattern_count, name, &bpe->pretokenizer, err);
}

void bpe_release(struct bpe *bpe)
{
    pretokenizer_free(bpe->pretokenizer);
    hash_index_release(&bpe->merge_index);
    hash_index_release(&bpe->id_index);
    hash_index_release(&bpe->joint_index);
    arena_release(&bpe->arena);
    *bpe = (struct bpe){0};
}

static void hash_text(XXH64_state_t *state, const char *text)
{
    XXH64_update(state, text ? text : "", text ? strlen(text) + 1 : 0);
}

/* Adds the settings that only newer versions read. Tokenizers without them keep their checksums, which token
 * files hold. */
static void hash_newer(XXH64_state_t *state, const struct bpe *bpe)
{
    for (size_t i = 0; i < bpe->added_count; i++) {
        const struct added_token *token = &bpe->added[i];
        uint64_t flags[] = {i, token->lstrip, token->rstrip, token->single_word};
        if (flags[1] || flags[2] || flags[3]) XXH64_update(state, flags, sizeof flags);
    }
    for (size_t i = 0; i < bpe->normalizer.count; i++) {
        const struct normal_step *step = &bpe->normalizer.steps[i];
        uint64_t kind = step->kind;
        if (bpe->normalizer.count == 1 && kind <= NORMAL_NFKD) continue; /* hashed with the head */
        XXH64_update(state, &kind, sizeof kind);
        hash_text(state, step->from);
        hash_text(state, step->to);
    }
    if (bpe->spaces.space || bpe->spaces.prefix) {
        XXH64_update(state, &bpe->spaces.first_only, sizeof bpe->spaces.first_only);
        hash_text(state, bpe->spaces.space);
        hash_text(state, bpe->spaces.prefix);
    }
    if (!bpe->characters) return;
    uint32_t rules[] = {bpe->fuse_unknown, bpe->unknown_id};
    XXH64_update(state, rules, sizeof rules);
    XXH64_update(state, bpe->fallback_id, sizeof bpe->fallback_id);
    for (size_t i = 0; i < bpe->vocab_size; i++)
        if (bpe->tokens[i].piece_n) XXH64_update(state, bpe->tokens[i].piece, bpe->tokens[i].piece_n);
}

uint64_t bpe_checksum(const struct bpe *bpe)
{
    XXH64_state_t *state = XXH64_createState();
    if (!state) return 0;
    XXH64_reset(state, 0);
    bool one_form = bpe->normalizer.count == 1 && bpe->normalizer.steps[0].kind <= NORMAL_NFKD;
    uint64_t form = one_form ? (uint64_t)bpe->normalizer.steps[0].kind + 1 : 0;
    uint64_t head[] = {bpe->vocab_size,   bpe->merge_count, bpe->pattern_count, bpe->added_count, form,
                       bpe->ignore_merges};
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
    hash_newer(state, bpe);
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

struct bpe_encoder {
    const struct bpe *bpe;
    const struct token_sink *sink; /* of the current text */
    struct pretokenizer_scratch *scratch;
    struct cached *cache;
    size_t cache_mask;
    struct symbol *symbols;
    size_t symbol_count, symbol_capacity;
    struct heap heap;  /* rank << 32 | position */
    uint32_t *pending; /* PENDING_IDS of them */
    size_t pending_count;
    uint64_t done, total; /* bytes of text */
};

static enum status flush(struct bpe_encoder *e, struct err *err)
{
    uint64_t done = e->done < e->total ? e->done : e->total; /* normalized text may be longer */
    size_t count = e->pending_count;
    e->pending_count = 0;
    return e->sink->take(e->sink->context, e->pending, count, done, err);
}

static enum status emit(struct bpe_encoder *e, uint32_t id, struct err *err)
{
    enum status status = e->pending_count == PENDING_IDS ? flush(e, err) : STATUS_OK;
    e->pending[e->pending_count++] = id;
    return status;
}

/* The rank of the merge of a symbol with the next one. */
static uint32_t merge_at(const struct bpe_encoder *e, int32_t at)
{
    int32_t next = at < 0 ? -1 : e->symbols[at].next;
    return next < 0 ? HASH_NONE : find_merge(e->bpe, e->symbols[at].id, e->symbols[next].id);
}

static bool push_merge(struct bpe_encoder *e, int32_t at)
{
    uint32_t rank = merge_at(e, at);
    return rank == HASH_NONE || heap_push(&e->heap, (heap_key)rank << 32 | (uint32_t)at);
}

static void add_symbol(struct bpe_encoder *e, uint32_t id)
{
    int32_t at = (int32_t)e->symbol_count++;
    e->symbols[at] = (struct symbol){id, at - 1, at + 1};
}

static void add_unknown(struct bpe_encoder *e, size_t count)
{
    if (count && e->bpe->fuse_unknown) count = 1;
    while (count--) add_symbol(e, e->bpe->unknown_id);
}

/* Each character's token, or else the tokens of its bytes, or else the unknown token, which stands where the
 * next known character begins: as in Hugging Face's BPE. */
static void add_characters(struct bpe_encoder *e, const char *piece, size_t n)
{
    const struct bpe *bpe = e->bpe;
    size_t unknown = 0;
    uint32_t point;
    for (size_t i = 0, length; i < n; i += length) {
        uint32_t id = HASH_NONE;
        bool fallback = true;
        length = utf8_character(piece + i, n - i, &point);
        if (length) id = find_id(bpe, piece + i, length);
        if (!length) length = 1;
        if (id != HASH_NONE) {
            add_unknown(e, unknown);
            unknown = 0;
            add_symbol(e, id);
            continue;
        }
        for (size_t k = 0; k < length; k++)
            fallback = fallback && bpe->fallback_id[(unsigned char)piece[i + k]] != BPE_NO_ID;
        if (!fallback && unknown && !bpe->fuse_unknown) add_unknown(e, 1);
        if (!fallback) unknown = 1;
        for (size_t k = 0; fallback && k < length; k++)
            add_symbol(e, bpe->fallback_id[(unsigned char)piece[i + k]]);
    }
    add_unknown(e, unknown);
}

/* Emits the ids of one piece of 1 … PIECE_BYTES bytes. */
static enum status merge_piece(struct bpe_encoder *e, const char *piece, size_t n, struct err *err)
{
    if (!list_reserve(&e->symbols, 0, n, &e->symbol_capacity, sizeof *e->symbols))
        return err_no_memory(err, "encoding the text");
    e->symbol_count = 0;
    if (e->bpe->characters)
        add_characters(e, piece, n);
    else
        for (size_t i = 0; i < n; i++) add_symbol(e, e->bpe->byte_id[(unsigned char)piece[i]]);
    e->symbols[e->symbol_count - 1].next = -1;
    bool ok = true;
    for (size_t i = 0; ok && i + 1 < e->symbol_count; i++) ok = push_merge(e, (int32_t)i);
    while (ok && e->heap.count) {
        uint64_t top = heap_pop(&e->heap);
        int32_t at = (int32_t)(uint32_t)top;
        struct symbol *left = &e->symbols[at];
        if (left->id == BPE_NO_ID || merge_at(e, at) != top >> 32) continue; /* changed since it was pushed */
        struct symbol *right = &e->symbols[left->next];
        left->id = e->bpe->merges[top >> 32].result;
        left->next = right->next;
        right->id = BPE_NO_ID;
        if (left->next >= 0) e->symbols[left->next].previous = at;
        ok = push_merge(e, left->previous) && push_merge(e, at);
    }
    enum status status = ok ? STATUS_OK : err_no_memory(err, "encoding the text");
    for (int32_t at = 0; at >= 0 && !status; at = e->symbols[at].next)
        status = emit(e, e->symbols[at].id, err);
    return status;
}

/* A piece that no merge joins with its neighbours. */
static enum status encode_word(struct bpe_encoder *e, const char *piece, size_t n, struct err *err)
{
    enum status status = STATUS_OK;
    if (e->pending_count > PENDING_IDS - CACHED_BYTES && (status = flush(e, err))) return status;
    if (n == 1) return emit(e, e->bpe->byte_id[(unsigned char)piece[0]], err);
    for (; n > PIECE_BYTES; piece += PIECE_BYTES, n -= PIECE_BYTES)
        if ((status = merge_piece(e, piece, PIECE_BYTES, err)) || (status = flush(e, err))) return status;
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

/* Cuts a piece where no merge joins the characters: before every space that follows another character, so
 * that words come from the cache, and anywhere in what is longer than the cache holds. */
static enum status encode_words(struct bpe_encoder *e, const char *piece, size_t n, struct err *err)
{
    size_t from = 0, space_n = strlen(SENTENCEPIECE_SPACE);
    uint32_t before = 0, point;
    enum status status = STATUS_OK;
    for (size_t at = 0, length; at < n && !status; at += length, before = point) {
        if (!(length = utf8_character(piece + at, n - at, &point))) length = 1, point = 0;
        bool space = length == space_n && memcmp(piece + at, SENTENCEPIECE_SPACE, space_n) == 0;
        if (at == from || (!space && at - from < CACHED_BYTES) || is_joint(e->bpe, before, point)) continue;
        status = encode_word(e, piece + from, at - from, err);
        from = at;
    }
    return status ? status : encode_word(e, piece + from, n - from, err);
}

static enum status encode_piece(void *context, const char *piece, size_t n, struct err *err)
{
    struct bpe_encoder *e = context;
    uint32_t id = e->bpe->ignore_merges && n > 1 ? find_id(e->bpe, piece, n) : HASH_NONE;
    e->done += n;
    if (id != HASH_NONE) return emit(e, id, err);
    return e->bpe->cuts ? encode_words(e, piece, n, err) : encode_word(e, piece, n, err);
}

/* Encodes normalized text without added tokens. `first`: it begins the text. */
static enum status encode_between(struct bpe_encoder *e, bool first, const char *text, size_t n,
                                  struct err *err)
{
    char *spaced = NULL;
    size_t size = n;
    if (!n) return STATUS_OK;
    enum status status = space_rule_apply(&e->bpe->spaces, first, text, n, &spaced, &size, err);
    if (!status)
        status = pretokenizer_split(e->bpe->pretokenizer, e->scratch, spaced ? spaced : text,
                                    spaced ? size : n, encode_piece, e, err);
    free(spaced);
    return status;
}

/* Encodes text without unnormalized added tokens: normalizes it, finds the other added tokens, and encodes
 * the text between them. */
static enum status encode_stretch(struct bpe_encoder *e, bool first, const char *text, size_t n,
                                  struct err *err)
{
    const struct bpe *bpe = e->bpe;
    char *normal = NULL;
    size_t size = n, done = 0;
    uint64_t before = e->done;
    struct added_match match = {0};
    enum status status = normalizer_apply(&bpe->normalizer, text, n, &normal, &size, err);
    const char *from = normal ? normal : text;
    if (!normal) size = n;
    do {
        added_set_next(bpe->normalized, from, size, &match);
        if (!status) status = encode_between(e, first && !done, from + done, match.from - done, err);
        if (match.token && !status) status = emit(e, match.token->id, err);
        done = match.to;
    } while (match.token && !status);
    e->done = before + n; /* counted in bytes of the text itself */
    free(normal);
    return status;
}

enum status bpe_encoder_new(const struct bpe *bpe, size_t n, struct bpe_encoder **out, struct err *err)
{
    struct bpe_encoder *e = calloc(1, sizeof *e);
    size_t lines = 64;
    while (lines < CACHE_LINES_MAX && 8 * lines < n) lines *= 2; /* about as many lines as pieces, at most */
    if (!e) return err_no_memory(err, "encoding the text");
    e->bpe = bpe;
    e->cache_mask = lines - 1;
    e->cache = calloc(lines, sizeof *e->cache);
    e->pending = malloc(PENDING_IDS * sizeof *e->pending);
    enum status status = e->cache && e->pending ? pretokenizer_scratch_new(&e->scratch, err)
                                                : err_no_memory(err, "encoding the text");
    if (status)
        bpe_encoder_free(e);
    else
        *out = e;
    return status;
}

void bpe_encoder_free(struct bpe_encoder *e)
{
    if (!e) return;
    pretokenizer_scratch_free(e->scratch);
    free(e->cache);
    free(e->pending);
    free(e->symbols);
    free(e->heap.keys);
    free(e);
}

enum status bpe_encoder_run(struct bpe_encoder *e, const char *text, size_t n, const struct token_sink *sink,
                            struct err *err)
{
    size_t done = 0;
    struct added_match match = {0};
    enum status status = STATUS_OK;
    e->sink = sink;
    e->pending_count = e->heap.count = 0;
    e->done = 0;
    e->total = n;
    do {
        added_set_next(e->bpe->raw, text, n, &match);
        if (!status) status = encode_stretch(e, !done, text + done, match.from - done, err);
        if (match.token && !status) status = emit(e, match.token->id, err);
        e->done += match.to - match.from;
        done = match.to;
    } while (match.token && !status);
    return status ? status : flush(e, err);
}

enum status bpe_encode(const struct bpe *bpe, const char *text, size_t n, const struct token_sink *sink,
                       struct err *err)
{
    struct bpe_encoder *encoder = NULL;
    enum status status = bpe_encoder_new(bpe, n, &encoder, err);
    if (!status) status = bpe_encoder_run(encoder, text, n, sink, err);
    bpe_encoder_free(encoder);
    return status;
}
