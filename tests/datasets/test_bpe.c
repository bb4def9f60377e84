/* Encoding with merges: neighbours merge in the order of the ranks, leftmost first; compared with the
 * definition. */
#include "datasets/bpe.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

enum { BYTES = 256, MERGES_MAX = 40, TEXT_MAX = 300 };

/* All bytes, then a token for each merge; merges name their sides by id. */
struct vocabulary {
    struct bpe_token tokens[BYTES + MERGES_MAX];
    char text[BYTES + MERGES_MAX][TEXT_MAX];
    struct bpe_merge merges[MERGES_MAX];
    size_t count; /* of merges */
};

static void begin(struct vocabulary *v)
{
    v->count = 0;
    for (int i = 0; i < BYTES; i++) {
        v->text[i][0] = (char)i;
        v->tokens[i] = (struct bpe_token){.bytes = v->text[i], .n = 1};
    }
}

/* Makes the token of a merge and returns its id; false if it would be too long or exists already. */
static bool add_merge(struct vocabulary *v, uint32_t left, uint32_t right)
{
    uint32_t id = BYTES + (uint32_t)v->count, n = v->tokens[left].n + v->tokens[right].n;
    if (v->count == MERGES_MAX || n > TEXT_MAX) return false;
    for (size_t i = 0; i < v->count; i++)
        if (v->merges[i].left == left && v->merges[i].right == right) return false;
    memcpy(v->text[id], v->tokens[left].bytes, v->tokens[left].n);
    memcpy(v->text[id] + v->tokens[left].n, v->tokens[right].bytes, v->tokens[right].n);
    v->tokens[id] = (struct bpe_token){.bytes = v->text[id], .n = n};
    v->merges[v->count++] = (struct bpe_merge){left, right, id};
    return true;
}

static struct tokenizer *open_vocabulary(const struct vocabulary *v)
{
    struct bpe bpe = {
        .vocab_size = BYTES + v->count, .merge_count = v->count, .patterns = {"[a-z]+"}, .pattern_count = 1};
    struct tokenizer *tokenizer = NULL;
    struct err err = {0};
    bpe.tokens = arena_alloc_array(&bpe.arena, bpe.vocab_size, sizeof *bpe.tokens);
    bpe.merges = arena_alloc_array(&bpe.arena, bpe.merge_count, sizeof *bpe.merges);
    assert_true(bpe.tokens && bpe.merges);
    memcpy(bpe.tokens, v->tokens, bpe.vocab_size * sizeof *bpe.tokens);
    memcpy(bpe.merges, v->merges, bpe.merge_count * sizeof *bpe.merges);
    assert_ok(tokenizer_new(&bpe, NULL, "test", &tokenizer, &err), &err);
    return tokenizer;
}

/* The definition: of all neighbours that merge, those with the lowest rank, the leftmost of these, again and
 * again. */
static size_t encode_naively(const struct vocabulary *v, const char *text, size_t n, uint32_t *ids)
{
    for (size_t i = 0; i < n; i++) ids[i] = (unsigned char)text[i];
    for (;;) {
        size_t best = v->count, at = 0;
        for (size_t i = 0; i + 1 < n; i++)
            for (size_t rank = 0; rank < best; rank++)
                if (v->merges[rank].left == ids[i] && v->merges[rank].right == ids[i + 1])
                    best = rank, at = i;
        if (best == v->count) return n;
        ids[at] = v->merges[best].result;
        memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof *ids);
        n--;
    }
}

static void expect_ids(const struct tokenizer *tokenizer, const char *text, size_t n, const uint32_t *ids,
                       size_t count)
{
    struct token_list list = {0};
    struct err err = {0};
    assert_ok(tokenizer_encode(tokenizer, text, n, &list, &err), &err);
    if (list.count != count || memcmp(list.ids, ids, count * sizeof *ids) != 0)
        fail_msg("\"%.*s\": %zu tokens, not the %zu of the definition", (int)n, text, list.count, count);
    token_list_release(&list);
}

/* "a b" waits for its turn when "b c" has taken the b; "bc d" comes before "a bc", though that is the further
 * left. */
TEST_CASE(a_merge_whose_neighbour_has_changed_waits_for_its_new_rank)
{
    static struct vocabulary v;
    begin(&v);
    assert_true(add_merge(&v, 'b', 'c') && add_merge(&v, 'a', 'b'));
    assert_true(add_merge(&v, BYTES, 'd') && add_merge(&v, 'a', BYTES));
    struct tokenizer *tokenizer = open_vocabulary(&v);
    expect_ids(tokenizer, "abcd", 4, (const uint32_t[]){'a', BYTES + 2}, 2);
    expect_ids(tokenizer, "abc", 3, (const uint32_t[]){BYTES + 3}, 1);
    tokenizer_close(tokenizer);
}

/* Few letters and many merges, so that most merges take a neighbour from another; long and short pieces, two
 * of a length side by side, so that a cache of ids that confuses the two is detected. */
TEST_CASE(any_merges_give_what_the_definition_gives)
{
    static struct vocabulary v;
    uint64_t noise = 7;
    for (int round = 0; round < 300; round++) {
        begin(&v);
        uint64_t letters = 2 + noise_next(&noise) % 4, merges = 1 + noise_next(&noise) % MERGES_MAX;
        for (uint64_t i = 0; i < merges; i++) {
            uint64_t symbols = letters + v.count, left = noise_next(&noise) % symbols,
                     right = noise_next(&noise) % symbols;
            add_merge(&v, (uint32_t)(left < letters ? 'a' + left : BYTES + left - letters),
                      (uint32_t)(right < letters ? 'a' + right : BYTES + right - letters));
        }
        struct tokenizer *tokenizer = open_vocabulary(&v);
        for (int i = 0; i < 20; i++) {
            char text[2 * TEXT_MAX + 1];
            uint32_t ids[2 * TEXT_MAX + 1];
            size_t n = 1 + noise_next(&noise) % (i % 4 ? 20 : TEXT_MAX);
            for (size_t k = 0; k < 2 * n + 1; k++) text[k] = (char)('a' + noise_next(&noise) % letters);
            text[n] = ' ';
            size_t count = encode_naively(&v, text, n, ids);
            ids[count++] = ' ';
            count += encode_naively(&v, text + n + 1, n, ids + count);
            expect_ids(tokenizer, text, 2 * n + 1, ids, count);
        }
        tokenizer_close(tokenizer);
    }
}

/* A vocabulary of the 256 bytes in another order is not the kind `bytes`. */
TEST_CASE(bytes_may_have_any_ids)
{
    static struct vocabulary v;
    begin(&v);
    v.text['a'][0] = 'b', v.text['b'][0] = 'a';
    struct tokenizer *tokenizer = open_vocabulary(&v);
    expect_ids(tokenizer, "abc", 3, (const uint32_t[]){'b', 'a', 'c'}, 3);
    tokenizer_close(tokenizer);
}

TEST_MAIN()
