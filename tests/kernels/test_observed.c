/* The observing table: the accesses and costs that it records for each operation, computed by hand for small
 * shapes, and that calls reach the table below unchanged. */
#include "kernels/device/observed.h"
#include "tests/cmocka.h"
#include "tests/kernels/product.h"

/* C 6, F 5, V 7, 3 query heads and 1 key/value head of width 2: q, k, v have 10 columns, heads 6. B 2, T 3: N
 * 6, 6 pairs a sequence and head. */
enum { B = 2, T = 3, N = 6, C = 6, F = 5, V = 7, NH = 3, NKV = 1, HS = 2, P = 1000 };
enum { QK = 6 * 4 * 2, TABLE = 3 * 2 * 4 }; /* elements of q and k, bytes of the rotary table */

static struct operation_call noted;

static void keep(void *context, const struct operation_call *call)
{
    (void)context;
    noted = *call;
}

static void cost_is(int64_t bytes, int64_t flops)
{
    if (noted.bytes != bytes || noted.flops != flops)
        fail_msg("%s: %lld bytes and %lld FLOPs, not %lld and %lld", operation_name(noted.operation),
                 (long long)noted.bytes, (long long)noted.flops, (long long)bytes, (long long)flops);
}

/* Operand `index` begins at m + at and spans so many bytes. */
static char m[4096];

static void operand_is(int index, int at, int64_t bytes, enum access access)
{
    const struct operand *o = &noted.operands[index];
    assert_in_range(index, 0, noted.operand_count - 1);
    if (o->at != m + at || o->bytes != bytes || o->access != access)
        fail_msg("%s, operand %d: at %td, %lld bytes, access %d", operation_name(noted.operation), index,
                 (const char *)o->at - m, (long long)o->bytes, o->access);
}

#define AT(n) ((void *)(m + (n)))

TEST_CASE(costs_are_those_counted_by_hand)
{
    struct observer observer = {.note = keep};
    const struct backend *k = observed_backend();
    struct stream *s = observed_stream(&observer);
    struct dropout_site site = {AT(9), 1, 2, 0};
    struct matrix logits = matrix_view(AT(2), ELEMENT_FP32, V + 1); /* a gap is not moved */

    k->embedding_forward(AT(1), AT(2), matrix_view(AT(3), ELEMENT_FP32, C), N, V, C, s);
    cost_is(36 * 4 + 36 * 4 + 6 * 4, 0);
    k->embedding_backward(AT(1), AT(2), AT(3), AT(4), N, V, C, s);
    cost_is(36 * 4 + 6 * 4 + 2 * 36 * 4, 36);
    k->embedding_backward(AT(1), AT(2), AT(3), AT(4), N, 4, C, s); /* a vocabulary of fewer than the tokens */
    cost_is(36 * 4 + 6 * 4 + 2 * 24 * 4, 36);
    k->rmsnorm_forward(AT(1), AT(2), AT(3), AT(4), N, C, 1, s);
    cost_is(36 * 4 * 2 + 6 * 4 + 6 * 4, 4 * 36);
    k->rmsnorm_residual_forward(AT(1), AT(2), AT(3), AT(4), AT(5), AT(6), N, C, 1, s);
    cost_is(36 * 4 * 4 + 6 * 4 + 6 * 4, 5 * 36);
    k->rmsnorm_backward(AT(1), AT(2), AT(3), AT(4), AT(5), AT(6), AT(7), AT(8), N, C, s);
    cost_is(36 * 4 * 5 + 6 * 4 + 6 * 4 + 2 * 6 * 4, 10 * 36);
    k->bias_forward(AT(1), AT(2), N, 10, 10, s);
    cost_is((60 * 2 + 10) * 4, 60);
    k->bias_backward(AT(1), AT(2), AT(3), N, 10, 10, s);
    cost_is(60 * 4 + 2 * 10 * 4, 60);
    k->rope(AT(1), AT(2), NULL, B, T, NH, NKV, HS, false, s);
    cost_is(QK * 2 * 4 + TABLE, 3 * QK);
    k->qk_norm_rope_forward(AT(1), AT(2), AT(3), AT(4), AT(5), AT(6), NULL, B, T, NH, NKV, HS, 1, s);
    cost_is(60 * 2 * 4 + 6 * 4 * 4 + 2 * 2 * 4 + TABLE, 7 * QK);
    k->qk_norm_rope_backward(AT(1), AT(2), AT(3), AT(4), AT(5), AT(6), AT(7), AT(8), NULL, AT(9), B, T, NH,
                             NKV, HS, s);
    cost_is(QK * 3 * 4 + 6 * 4 * 4 + 2 * 2 * 4 + 2 * 2 * 2 * 4 + TABLE, 12 * QK);
    k->attention_forward(AT(1), AT(2), AT(3), NULL, AT(4), B, T, NH, NKV, HS, 0, s);
    cost_is((60 + 36) * 4 + 6 * 3 * 4, 2 * (2 * 6 * 6 * 2)); /* two products of 12 pairs, 6 wide */
    k->attention_forward(AT(1), AT(2), AT(3), NULL, AT(4), B, T, NH, NKV, HS, 2, s);
    cost_is((60 + 36) * 4 + 6 * 3 * 4, 2 * (2 * 6 * 5 * 2)); /* the last row misses one pair */
    k->attention_backward(AT(1), AT(2), AT(3), AT(4), AT(5), NULL, AT(7), AT(6), B, T, NH, NKV, HS, 0, s);
    cost_is((60 * 2 + 36 * 2) * 4 + 6 * 3 * 4 + 3 * 2 * 4, 4 * (2 * 6 * 6 * 2));
    k->cache_store(AT(1), AT(2), AT(3), AT(4), AT(5), N, 9, NH, NKV, HS, s);
    cost_is(4 * (6 * NKV * HS) * 4 + 2 * 6 * 4, 0); /* both read and written */
    k->attention_cached(AT(1), AT(2), AT(3), AT(4), AT(5), AT(6), AT(7), N, 5, 9, NH, NKV, HS, 0, s);
    cost_is(2 * 36 * 4 + 2 * (6 * 5 * NKV * HS) * 4 + 2 * 6 * 4, 2 * (2 * NH * HS * 6 * 5));
    k->swiglu_forward(AT(1), AT(2), N, F, s);
    cost_is((60 + 30) * 4, 5 * 30);
    k->swiglu_backward(AT(1), AT(2), AT(2), AT(1), N, F, s);
    cost_is((30 + 30 + 60 + 60) * 4, 13 * 30);
    k->nf4_dequantise(AT(1), AT(2), 65, false, s);
    cost_is(65 * 4 + 48 + 2 * 4, 65); /* 33 bytes of codes, padded, and two scales */
    k->nf4_dequantise(AT(1), AT(2), 65, true, s);
    cost_is(65 * 4 + 48 + (1 + 256 + 1) * 4 + 2, 65);
    k->add(AT(1), AT(2), 36, s);
    cost_is(3 * 36 * 4, 36);
    k->dropout(AT(1), 36, 0.5f, site, s);
    cost_is(36 * 4 * 2, 36);
    k->cross_entropy_forward(AT(1), logits, AT(3), N, V, s);
    cost_is(42 * 4 + 6 * 8, 3 * 42);
    k->cross_entropy_fused(AT(1), logits, AT(3), AT(4), N, V, s);
    cost_is(2 * 42 * 4 + 6 * 8, 5 * 42);
    k->weigh_classes(AT(1), logits, AT(3), AT(4), N, V, s);
    cost_is(2 * 42 * 4 + 2 * 6 * 4 + 6 * 4 + 7 * 4, 6 * 8);
    k->mean_pool_forward(AT(1), AT(2), AT(3), B, T, C, s);
    cost_is(2 * 36 * 4 + 2 * 6 * 4, 36);
    k->mean_pool_backward(AT(1), AT(2), AT(3), B, T, C, s);
    cost_is(2 * 36 * 4 + 2 * 6 * 4, 36);
    k->sum(AT(8), AT(1), N, true, AT(2), s);
    cost_is(6 * 4, 6);
    k->sum_of_squares(AT(8), AT(1), P, AT(2), s);
    cost_is(P * 4, 2 * P);
    k->clip_norm(AT(7), AT(8), AT(9), AT(6), 1, s);
    cost_is(0, 0);
    k->adamw_step(AT(1), AT(1), AT(2), AT(3), AT(4), P, AT(5), 2, (struct optimizer_params){0}, AT(6), AT(7),
                  s);
    cost_is(P * 4 * 7, 17 * P); /* w, m, v both ways, g */
    k->lion_step(AT(1), AT(1), AT(2), NULL, AT(4), P, AT(5), 2, (struct optimizer_params){0}, AT(6), AT(7),
                 s);
    cost_is(P * 4 * 5, 11 * P);
    k->adamw8_step(AT(1), AT(1), AT(2), AT(3), AT(4), P, AT(5), 2, (struct optimizer_params){0}, AT(6), AT(7),
                   s);
    cost_is(P * 4 * 3 + 4 * moment_bytes(P), 21 * P); /* w both ways, g; m and v both ways */
    k->lion8_step(AT(1), AT(1), AT(2), NULL, AT(4), P, AT(5), 2, (struct optimizer_params){0}, AT(6), AT(7),
                  s);
    cost_is(P * 4 * 3 + 2 * moment_bytes(P), 13 * P);
    k->mem_zero(AT(1), 44, s);
    cost_is(44, 0);
    k->mem_copy(AT(1), AT(50), 44, s);
    cost_is(88, 0);
    k->mem_download_async(m, AT(50), 44, s);
    cost_is(44, 0);
}

TEST_CASE(elements_of_bf16_are_half_as_large)
{
    struct observer observer = {.note = keep, .precision = PRECISION_BF16};
    const struct backend *k = observed_backend();
    struct stream *s = observed_stream(&observer);
    k->rmsnorm_forward(AT(1), AT(2), AT(3), AT(4), N, C, 1, s);
    cost_is(36 * 2 * 2 + 6 * 2 + 6 * 4, 4 * 36); /* rstd stays fp32 */
    k->adamw_step(AT(1), AT(1), AT(2), AT(3), AT(4), P, AT(5), 2, (struct optimizer_params){0}, AT(6), AT(7),
                  s);
    cost_is(P * (4 * 7 + 2), 17 * P); /* and the rounded copy */
}

/* Each of the 6 rows reads the 2 keys and values in its window, of the 5 that its sequence has at most. */
TEST_CASE(cached_attention_costs_the_keys_of_the_window)
{
    struct observer observer = {.note = keep};
    observed_backend()->attention_cached(AT(1), AT(2), AT(3), AT(4), AT(5), AT(6), AT(7), N, 5, 9, NH, NKV,
                                         HS, 2, observed_stream(&observer));
    cost_is(2 * 36 * 4 + 2 * (6 * 2 * NKV * HS) * 4 + 2 * 6 * 4, 2 * (2 * NH * HS * 6 * 2));
}

/* (4,3) = (4,2) (2,3): b stored transposed in rows of 5, out in rows of 8 of which 3 columns count. */
TEST_CASE(a_product_moves_what_counts_and_spans_what_lies_between)
{
    struct observer observer = {.note = keep};
    struct matrix out = {AT(1), ELEMENT_FP32, 8}, a = {AT(2), ELEMENT_BF16, 2}, b = {AT(3), ELEMENT_FP32, 5};
    observed_backend()->gemm(out, a, b, 4, 3, 2, false, true, false, 1, observed_stream(&observer));
    cost_is(12 * 4 + 8 * 2 + 6 * 4, 2 * 4 * 3 * 2);
    operand_is(0, 1, (3 * 8 + 3) * 4, ACCESS_WRITTEN);
    operand_is(1, 2, 8 * 2, ACCESS_READ);
    operand_is(2, 3, (2 * 5 + 2) * 4, ACCESS_READ);
    struct gemm_shape shape = operation_product(&noted),
                      expected = gemm_shape_of(out, a, b, 4, 3, 2, 0, 1, 0);
    assert_true(gemm_shape_same(&shape, &expected));
    observed_backend()->gemm(out, a, b, 4, 3, 2, false, true, true, 1, observed_stream(&observer));
    cost_is(2 * 12 * 4 + 8 * 2 + 6 * 4, 2 * 4 * 3 * 2);
    operand_is(0, 1, (3 * 8 + 3) * 4, ACCESS_ADDED);
    observed_backend()->gemm_few_rows(out, a, b, 4, 3, 2, observed_stream(&observer)); /* b is (3,2) */
    cost_is(12 * 4 + 8 * 2 + 6 * 4, 2 * 4 * 3 * 2);
    operand_is(2, 3, (2 * 5 + 2) * 4, ACCESS_READ);
}

TEST_CASE(operands_are_noted_with_their_places_and_accesses)
{
    struct observer observer = {.note = keep};
    const struct backend *k = observed_backend();
    struct stream *s = observed_stream(&observer);
    k->rmsnorm_backward(AT(1), AT(2), AT(3), AT(4), AT(5), AT(6), AT(7), AT(8), N, C, s);
    assert_int_equal(noted.operation, OPERATION_rmsnorm_backward);
    assert_string_equal(noted.label, "norm");
    assert_int_equal(noted.operand_count, 8);
    operand_is(0, 1, 36 * 4, ACCESS_ADDED);
    operand_is(1, 2, 6 * 4, ACCESS_ADDED);
    operand_is(2, 3, 36 * 4, ACCESS_WRITTEN);
    operand_is(3, 4, 36 * 4, ACCESS_READ);
    operand_is(6, 7, 6 * 4, ACCESS_READ);
    operand_is(7, 8, (int64_t)rmsnorm_backward_workspace(N, C), ACCESS_SCRATCH);
    assert_true(noted.count_count == 2 && noted.counts[0] == N && noted.counts[1] == C);
    k->sum(AT(8), AT(1), N, false, AT(2), s);
    operand_is(0, 8, 8, ACCESS_WRITTEN);
    k->sum(AT(8), AT(1), N, true, AT(2), s);
    operand_is(0, 8, 8, ACCESS_ADDED);
    struct dropout_site site = {AT(9), 1, 2, 0};
    k->dropout(AT(1), 36, 0.5f, site, s);
    operand_is(1, 9, sizeof(struct step_control), ACCESS_READ);
    k->rmsnorm_backward(AT(1), NULL, NULL, AT(4), AT(5), AT(6), AT(7), AT(8), N, C, s); /* no such operands */
    assert_int_equal(noted.operand_count, 6);
    cost_is(36 * 4 * 4 + 6 * 4 + 6 * 4, 10 * 36);
}

static struct {
    const void *out, *x;
    int N, C;
    struct stream *stream;
} passed;

static void swiglu_below(void *out, const void *gate_up, int n, int f, struct stream *stream)
{
    passed.out = out, passed.x = gate_up, passed.N = n, passed.C = f, passed.stream = stream;
}

TEST_CASE(calls_arrive_below_as_they_were_made)
{
    struct backend below = {.swiglu_forward = swiglu_below};
    struct stream *stream = AT(77);
    struct observer observer = {.note = keep, .backend = &below, .stream = stream};
    observed_backend()->swiglu_forward(AT(1), AT(2), N, F, observed_stream(&observer));
    assert_true(passed.out == AT(1) && passed.x == AT(2) && passed.N == N && passed.C == F);
    assert_ptr_equal(passed.stream, stream);
}

TEST_MAIN()
