/* Attention over the KV cache against a naive double-precision reference. What a row must not see is not a
 * number, so that reading it fails. */
#include <math.h>
#include <sys/mman.h>

#include "core/base/half.h"
#include "kernels/device/cpu.h"
#include "tests/cmocka.h"
#include "tests/kernels/check.h"

enum { SLOTS = 3, ROWS_MAX = 150 };

/* `lengths`: tokens that each slot has before; then `runs`, rows of slot 0, 1, 2, 0, …, up to a 0. */
struct shape {
    int NH, NKV, HS, window, spare; /* spare: positions of the cache behind the longest sequence */
    int lengths[SLOTS], runs[8];
};

struct scene {
    struct shape s;
    int N, S, longest;
    int32_t slots[ROWS_MAX], positions[ROWS_MAX];
    float *qkv, *keys, *values;
    size_t row, cache, out; /* floats of a row of qkv, of keys, of the result */
};

static size_t cache_at(const struct scene *c, int slot, int kv, int position)
{
    return (((size_t)slot * (size_t)c->s.NKV + (size_t)kv) * (size_t)c->S + (size_t)position) *
           (size_t)c->s.HS;
}

static void open_scene(struct scene *c, const struct check_target *t, const struct shape *s)
{
    int lengths[SLOTS];
    *c = (struct scene){.s = *s};
    memcpy(lengths, s->lengths, sizeof lengths);
    for (int run = 0; s->runs[run]; run++)
        for (int i = 0; i < s->runs[run]; i++, c->N++) {
            c->slots[c->N] = run % SLOTS;
            c->positions[c->N] = lengths[run % SLOTS]++;
        }
    for (int i = 0; i < c->N; i++)
        c->longest = c->positions[i] >= c->longest ? c->positions[i] + 1 : c->longest;
    c->S = c->longest + s->spare;
    for (int i = 0; i < SLOTS; i++) c->S = lengths[i] > c->S ? lengths[i] : c->S;
    size_t HS = (size_t)s->HS;
    c->row = (size_t)(s->NH + 2 * s->NKV) * HS;
    c->cache = (size_t)(SLOTS * s->NKV) * (size_t)c->S * HS;
    c->out = (size_t)(c->N * s->NH) * HS;
    c->qkv = check_random((size_t)c->N * c->row, 1, 1);
    c->keys = check_poisoned(c->cache);
    c->values = check_poisoned(c->cache);
    float *old = check_random(c->cache, 2, 1), *old_values = check_random(c->cache, 3, 1);
    for (int slot = 0; slot < SLOTS; slot++)
        for (int kv = 0; kv < s->NKV; kv++) {
            size_t at = cache_at(c, slot, kv, 0), bytes = (size_t)s->lengths[slot] * HS * sizeof(float);
            memcpy(c->keys + at, old + at, bytes);
            memcpy(c->values + at, old_values + at, bytes);
        }
    free(old), free(old_values);
    t->backend->cache_store(c->keys, c->values, c->qkv, c->slots, c->positions, c->N, c->S, s->NH, s->NKV,
                            s->HS, t->stream);
}

static void close_scene(struct scene *c)
{
    free(c->qkv), free(c->keys), free(c->values);
}

static void reference(const struct scene *c, double *out)
{
    const struct shape *s = &c->s;
    double *p = malloc((size_t)c->S * sizeof *p);
    for (int n = 0; n < c->N; n++)
        for (int h = 0; h < s->NH; h++) {
            const float *q = c->qkv + (size_t)n * c->row + (size_t)(h * s->HS);
            double *o = out + (size_t)(n * s->NH + h) * (size_t)s->HS, max = -INFINITY, total = 0;
            int kv = h / (s->NH / s->NKV), last = c->positions[n];
            int first = s->window && last >= s->window ? last - s->window + 1 : 0;
            for (int u = first; u <= last; u++) {
                const float *k = c->keys + cache_at(c, c->slots[n], kv, u);
                p[u] = 0;
                for (int i = 0; i < s->HS; i++) p[u] += (double)q[i] * (double)k[i];
                p[u] /= sqrt(s->HS);
                max = fmax(max, p[u]);
            }
            for (int u = first; u <= last; u++) total += p[u] = exp(p[u] - max);
            memset(o, 0, (size_t)s->HS * sizeof *o);
            for (int u = first; u <= last; u++) {
                const float *v = c->values + cache_at(c, c->slots[n], kv, u);
                for (int i = 0; i < s->HS; i++) o[i] += p[u] / total * (double)v[i];
            }
        }
    free(p);
}

static float *attend(const struct scene *c, const struct check_target *t, int longest)
{
    const struct shape *s = &c->s;
    float *out = check_poisoned(c->out);
    void *workspace = check_workspace(attention_cached_workspace(c->N, longest, s->NH, s->NKV, s->HS));
    t->backend->attention_cached(out, c->qkv, c->keys, c->values, c->slots, c->positions, workspace, c->N,
                                 longest, c->S, s->NH, s->NKV, s->HS, s->window, t->stream);
    free(workspace);
    return out;
}

static const struct shape shapes[] = {
    {1, 1, 2, 0, 0, {0}, {1}},
    {2, 1, 64, 0, 3, {5, 9, 0}, {1, 1, 1}},
    {4, 2, 17, 0, 0, {130, 0, 63}, {1, 2, 3, 4, 5}},
    {6, 2, 80, 0, 70, {700, 64, 300}, {1, 1, 1}},
    {3, 3, 31, 0, 1, {1000, 0, 0}, {1}},
    {2, 2, 256, 0, 0, {129, 0, 0}, {2, 1}},
    {8, 1, 128, 0, 0, {257, 0, 1}, {9, 40, 1, 2}},
    {2, 2, 8, 0, 0, {0, 200, 0}, {64, 65, 1, 3}},
    {70, 1, 4, 0, 5, {140, 3, 0}, {1, 2, 1}}, /* more query heads than a tile has lanes */
    {130, 2, 6, 0, 0, {50, 0, 0}, {3}},
    {4, 2, 16, 1, 0, {140, 7, 0}, {2, 3, 4}}, /* windows */
    {4, 1, 24, 70, 0, {140, 500, 0}, {2, 5, 90}},
    {2, 1, 32, 64, 9, {63, 64, 400}, {4, 4, 4}},
    {1, 1, 16, 1000, 0, {300, 0, 0}, {7}},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void shapes_body(const struct check_target *t)
{
    for (int i = 0; i < SHAPES; i++) {
        struct scene c;
        open_scene(&c, t, &shapes[i]);
        float *out = attend(&c, t, c.longest);
        double *want = check_doubles(NULL, c.out);
        reference(&c, want);
        check_near("attention_cached", out, want, c.out, CHECK_REDUCTION);
        free(out), free(want);
        close_scene(&c);
    }
}

TEST_CASE(every_shape_agrees_with_the_reference)
{
    check_each_isa(2, shapes_body);
}

/* x (n) in bf16, where memory ends behind the last of them. Release with munmap(*start, *length). */
static uint16_t *at_the_end(const float *x, size_t n, void **start, size_t *length)
{
    size_t bytes = n * sizeof(uint16_t), page = 4096, body = (bytes + page - 1) / page * page;
    *length = body + page;
    *start = mmap(NULL, *length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(*start, MAP_FAILED);
    assert_int_equal(mprotect((char *)*start + body, page, PROT_NONE), 0);
    uint16_t *end = (uint16_t *)((char *)*start + body) - n;
    for (size_t i = 0; i < n; i++) end[i] = bf16_of_float(x[i]);
    return end;
}

static void round_to_bf16(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = float_of_bf16(bf16_of_float(x[i]));
}

static void in_bf16(const struct check_target *t, const struct shape *s)
{
    struct scene c;
    struct stream *stream;
    struct err err;
    void *start[3];
    size_t length[3];
    open_scene(&c, t, s);
    size_t qkv_count = (size_t)c.N * c.row;
    round_to_bf16(c.qkv, qkv_count), round_to_bf16(c.keys, c.cache), round_to_bf16(c.values, c.cache);
    uint16_t *qkv = at_the_end(c.qkv, qkv_count, &start[0], &length[0]),
             *keys = at_the_end(c.keys, c.cache, &start[1], &length[1]),
             *values = at_the_end(c.values, c.cache, &start[2], &length[2]),
             *out = malloc(c.out * sizeof *out);
    void *workspace = check_workspace(attention_cached_workspace(c.N, c.longest, s->NH, s->NKV, s->HS));
    float *widened = check_poisoned(c.out);
    double *want = check_doubles(NULL, c.out);
    assert_non_null(out);
    assert_int_equal(t->backend->stream_open(t->device, PRECISION_BF16, &stream, &err), STATUS_OK);
    t->backend->attention_cached(out, qkv, keys, values, c.slots, c.positions, workspace, c.N, c.longest, c.S,
                                 s->NH, s->NKV, s->HS, s->window, stream);
    for (size_t i = 0; i < c.out; i++) widened[i] = float_of_bf16(out[i]);
    reference(&c, want);
    check_near(t->isa, widened, want, c.out, 6e-3);
    t->backend->stream_close(stream);
    for (int i = 0; i < 3; i++) munmap(start[i], length[i]);
    free(out), free(widened), free(want), free(workspace);
    close_scene(&c);
}

/* Nothing is read behind the cache, and nothing behind a sequence counts. */
TEST_CASE(in_bf16_each_instruction_set_agrees_with_the_reference)
{
    static const char *const isas[] = {"baseline", "v3", "v4", "v4-bf16", "v4-dot", "v4-amx"};
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        struct check_target t;
        if (!cpu_backend_for(isas[i])) continue;
        setenv("ANNEAL_CPU_ISA", isas[i], 1);
        check_open(&t, isas[i], 2);
        for (int shape = 0; shape < SHAPES; shape++) in_bf16(&t, &shapes[shape]);
        check_close(&t);
        unsetenv("ANNEAL_CPU_ISA");
    }
}

TEST_CASE(bits_do_not_depend_on_the_thread_count)
{
    for (int i = 2; i < SHAPES; i += 3) {
        float *outs[2];
        size_t n = 0;
        for (int run = 0; run < 2; run++) {
            struct check_target t;
            struct scene c;
            check_open(&t, "baseline", run ? 3 : 1);
            open_scene(&c, &t, &shapes[i]);
            outs[run] = attend(&c, &t, c.longest);
            n = c.out;
            close_scene(&c);
            check_close(&t);
        }
        check_same_bits("out", outs[0], outs[1], n);
        free(outs[0]), free(outs[1]);
    }
}

/* Other sequences in the pass may be much longer. */
TEST_CASE(a_larger_longest_only_changes_the_order_of_sums)
{
    struct check_target t;
    struct scene c;
    check_open(&t, "baseline", 2);
    open_scene(&c, &t, &shapes[2]);
    float *out = attend(&c, &t, 5000);
    double *want = check_doubles(NULL, c.out);
    reference(&c, want);
    check_near("attention_cached", out, want, c.out, CHECK_REDUCTION);
    free(out), free(want);
    close_scene(&c);
    check_close(&t);
}

TEST_CASE(the_workspace_is_enough_for_fewer_rows_and_keys)
{
    for (int NKV = 1; NKV <= 40; NKV += 3)
        for (int rows = 1; rows <= 300; rows = rows * 2 + 1)
            for (int longest = 1; longest <= 40000; longest = longest * 3 + 1) {
                size_t most = attention_cached_workspace(rows, longest, 4 * NKV, NKV, 64);
                for (int n = 1; n <= rows; n++) {
                    assert_true(attention_cached_workspace(n, longest, 4 * NKV, NKV, 64) <= most);
                    size_t needed = attention_partial_floats(n, longest, 4 * NKV, NKV, 64) +
                                    (size_t)attention_cached_workers(n, longest, 4 * NKV, NKV) *
                                        attention_cached_worker_floats(64);
                    assert_true(needed * sizeof(float) <=
                                attention_cached_workspace(n, longest, 4 * NKV, NKV, 64));
                }
            }
}

TEST_MAIN()
