/* What an operation moves and computes, counted by hand for a model of a few numbers, and all of a step
 * against the model's FLOPs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "core/network/operation.h"
#include "tests/core/network/rig.h"

/* C 6, F 5, V 7, 3 query heads and 1 key/value head of width 2: q, k, v have 10 columns, heads 6. B 2, T 3: N
 * 6, 6 pairs a sequence and head. */
static struct model_config tiny_config(void)
{
    struct model_config config = rig_config();
    config.vocab_size = 7;
    config.hidden_dim = 6;
    config.num_layers = 2;
    config.num_heads = 3;
    config.num_kv_heads = 1;
    config.head_dim = 2;
    config.intermediate_dim = 5;
    config.tie_weights = config.qk_norm = config.qkv_bias = false;
    return config;
}

enum { QK = 6 * 4 * 2, TABLE = 3 * 2 * 4 }; /* elements of q and k, bytes of the rotary table */

static void cost_is(const struct operation_shape *shape, enum operation operation, int64_t bytes,
                    int64_t flops)
{
    struct operation_cost cost = operation_cost(operation, shape);
    if (cost.bytes != bytes || cost.flops != flops)
        fail_msg("%s (%d): %lld bytes and %lld FLOPs, not %lld and %lld", operation_name(operation),
                 operation, (long long)cost.bytes, (long long)cost.flops, (long long)bytes, (long long)flops);
}

static void costs_are_those_counted_by_hand(void **state)
{
    (void)state;
    struct model model;
    struct model_config config = tiny_config();
    assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
    int64_t P = (int64_t)model.elements;
    struct operation_shape fp32 = {&model, PRECISION_FP32, 2, 3, 6}, bf16 = {&model, PRECISION_BF16, 2, 3, 6};

    cost_is(&fp32, OP_BATCH, 2 * 2 * 6 * 4, 0);
    cost_is(&fp32, OP_EMBEDDING, 36 * 4 + 36 * 4 + 6 * 4, 0);
    cost_is(&fp32, OP_DROPOUT, 36 * 4 * 2, 36);
    cost_is(&fp32, OP_NORM, 36 * 4 * 2 + 6 * 4 + 6 * 4, 4 * 36);
    cost_is(&fp32, OP_ADD_NORM, 36 * 4 * 4 + 6 * 4 + 6 * 4, 5 * 36);
    cost_is(&fp32, OP_GEMM_QKV, (6 * 6 + 6 * 10 + 6 * 10) * 4, 2 * 6 * 6 * 10);
    cost_is(&fp32, OP_BIAS, (60 * 2 + 10) * 4, 60);
    cost_is(&fp32, OP_ROPE, QK * 2 * 4 + TABLE, 3 * QK);
    cost_is(&fp32, OP_QK_NORM_ROPE, 60 * 2 * 4 + 6 * 4 * 4 + 2 * 2 * 4 + TABLE, 7 * QK);
    cost_is(&fp32, OP_ATTENTION, (60 + 36) * 4 + 6 * 3 * 4,
            2 * (2 * 6 * 6 * 2)); /* two products of 12 pairs, 6 wide */
    cost_is(&fp32, OP_GEMM_O, (36 + 36 + 36) * 4, 2 * 6 * 6 * 6);
    cost_is(&fp32, OP_GEMM_GATE_UP, (36 + 60 + 60) * 4, 2 * 6 * 6 * 10);
    cost_is(&fp32, OP_SWIGLU, (60 + 30) * 4, 5 * 30);
    cost_is(&fp32, OP_GEMM_DOWN, (30 + 30 + 36) * 4, 2 * 6 * 5 * 6);
    /* three products of 7 x 6 x 6, of which the gradient of the weight is read and written in fp32 */
    cost_is(&fp32, OP_HEAD_AND_LOSS,
            (36 + 42 + 42) * 4 + (42 + 42 + 36) * 4 + (42 + 36) * 4 + 2 * 42 * 4 + (2 * 42 * 4 + 6 * 8),
            3 * (2 * 6 * 7 * 6) + 5 * 42);
    cost_is(&fp32, OP_LOSS_SUM, 6 * 4, 6);
    cost_is(&fp32, OP_ZERO_DX, 36 * 4, 0);
    cost_is(&fp32, OP_COPY_DX, 36 * 4 * 2, 0);
    cost_is(&fp32, OP_NORM_BACKWARD, 36 * 4 * 4 + 6 * 4 + 6 * 4 + 2 * 6 * 4, 10 * 36);
    cost_is(&fp32, OP_NORM_AGAIN, 36 * 4 * 2 + 6 * 4 + 6 * 4, 2 * 36);
    cost_is(&fp32, OP_GEMM_DOWN_DW, (36 + 30) * 4 + 2 * 30 * 4, 2 * 6 * 5 * 6);
    cost_is(&fp32, OP_GEMM_DOWN_DX, (36 + 30 + 30) * 4, 2 * 6 * 5 * 6);
    cost_is(&fp32, OP_SWIGLU_AGAIN, (60 + 30) * 4, 5 * 30);
    cost_is(&fp32, OP_SWIGLU_BACKWARD, (30 + 60 + 60) * 4, 11 * 30);
    cost_is(&fp32, OP_GEMM_GATE_UP_DW, (60 + 36) * 4 + 2 * 60 * 4, 2 * 6 * 6 * 10);
    cost_is(&fp32, OP_GEMM_GATE_UP_DX, (60 + 60 + 36) * 4, 2 * 6 * 6 * 10);
    cost_is(&fp32, OP_GEMM_O_DW, (36 + 36) * 4 + 2 * 36 * 4, 2 * 6 * 6 * 6);
    cost_is(&fp32, OP_GEMM_O_DX, (36 + 36 + 36) * 4, 2 * 6 * 6 * 6);
    cost_is(&fp32, OP_ATTENTION_BACKWARD, (60 * 2 + 36 * 2) * 4 + 6 * 3 * 4, 4 * (2 * 6 * 6 * 2));
    cost_is(&fp32, OP_ROPE_BACKWARD, QK * 2 * 4 + TABLE, 3 * QK);
    cost_is(&fp32, OP_QK_NORM_ROPE_BACKWARD, QK * 3 * 4 + 6 * 4 * 4 + 2 * 2 * 4 + 2 * 2 * 2 * 4 + TABLE,
            12 * QK);
    cost_is(&fp32, OP_BIAS_BACKWARD, 60 * 4 + 2 * 10 * 4, 60);
    cost_is(&fp32, OP_GEMM_QKV_DW, (60 + 36) * 4 + 2 * 60 * 4, 2 * 6 * 6 * 10);
    cost_is(&fp32, OP_GEMM_QKV_DX, (60 + 60 + 36) * 4, 2 * 6 * 6 * 10);
    cost_is(&fp32, OP_EMBEDDING_BACKWARD, 36 * 4 + 6 * 4 + 2 * 36 * 4, 36);
    cost_is(&fp32, OP_ZERO_GRADIENTS, P * 4, 0);
    cost_is(&fp32, OP_GRADIENT_NORM, P * 4, 2 * P);
    cost_is(&fp32, OP_ADAMW, P * 4 * 7, 17 * P); /* w, m, v both ways, g */
    cost_is(&fp32, OP_LION, P * 4 * 5, 11 * P);
    cost_is(&fp32, OP_READ_RESULT, 16, 0);

    /* in bf16 elements take half, statistics and gradients of weights do not, and weights have a copy */
    cost_is(&bf16, OP_NORM, 36 * 2 * 2 + 6 * 2 + 6 * 4, 4 * 36);
    cost_is(&bf16, OP_GEMM_QKV, (36 + 60 + 60) * 2, 2 * 6 * 6 * 10);
    cost_is(&bf16, OP_GEMM_QKV_DW, (60 + 36) * 2 + 2 * 60 * 4, 2 * 6 * 6 * 10);
    cost_is(&bf16, OP_ATTENTION, (60 + 36) * 2 + 6 * 3 * 4, 4 * 12 * 6);
    cost_is(&bf16, OP_ADAMW, P * 4 * 7 + P * 2, 17 * P);
    cost_is(&bf16, OP_LION, P * 4 * 5 + P * 2, 11 * P);
    model_release(&model);
}

static void smaller_chunks_of_the_loss_move_more_and_compute_the_same(void **state)
{
    (void)state;
    struct model model;
    struct model_config config = tiny_config();
    assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
    struct operation_shape one = {&model, PRECISION_FP32, 2, 3, 6}, two = one;
    two.loss_chunk = 4; /* 4 rows and 2 */
    struct operation_cost whole = operation_cost(OP_HEAD_AND_LOSS, &one),
                          parts = operation_cost(OP_HEAD_AND_LOSS, &two);
    assert_int_equal(parts.flops, whole.flops);
    assert_int_equal(parts.bytes, whole.bytes + 42 * 4 * 2 + 42 * 4 * 2); /* the weight, its gradient again */
    model_release(&model);
}

static void products_and_attention_are_the_flops_of_the_model(void **state)
{
    (void)state;
    static const enum operation per_layer[] = {
        OP_GEMM_QKV,  OP_GEMM_O,    OP_GEMM_GATE_UP, OP_GEMM_DOWN,    OP_GEMM_QKV_DW,     OP_GEMM_QKV_DX,
        OP_GEMM_O_DW, OP_GEMM_O_DX, OP_GEMM_DOWN_DW, OP_GEMM_DOWN_DX, OP_GEMM_GATE_UP_DW, OP_GEMM_GATE_UP_DX};
    static const enum preset presets[] = {PRESET_TINY, PRESET_SHAKESPEARE, PRESET_SMALL};
    for (int tied = 0; tied < 2; tied++)
        for (int i = 0; i < 3; i++) {
            struct model model;
            struct model_config config = model_preset(presets[i]);
            int B = 3, T = 100;
            config.tie_weights = tied;
            assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
            struct operation_shape shape = {&model, PRECISION_FP32, B, T, 64};
            int64_t products = 0, attention = 0, vectors = 0, tokens = B * T;
            for (size_t j = 0; j < sizeof per_layer / sizeof *per_layer; j++)
                products += config.num_layers * operation_cost(per_layer[j], &shape).flops;
            products += operation_cost(OP_HEAD_AND_LOSS, &shape).flops - 5 * tokens * config.vocab_size;
            attention = config.num_layers * (operation_cost(OP_ATTENTION, &shape).flops +
                                             operation_cost(OP_ATTENTION_BACKWARD, &shape).flops);
            for (size_t j = 0; j < model.param_count; j++)
                if (!model.params[j].cols) vectors += (int64_t)model.params[j].count;
            /* The model counts six for each parameter, vectors too, and all pairs of tokens; half of them,
             * less half the diagonal, are masked. */
            assert_int_equal(attention * 2 % (T + 1), 0);
            double expected = model_flops_per_token(&model, T) * (double)tokens;
            assert_true((double)(products + 6 * vectors * tokens + attention * 2 / (T + 1) * T) == expected);
            model_release(&model);
        }
}

static void names_are_one_each_in_a_phase(void **state)
{
    (void)state;
    for (int i = 0; i < OPERATIONS; i++) {
        assert_non_null(operation_name((enum operation)i));
        for (int j = 0; j < i; j++) {
            bool same = strcmp(operation_name((enum operation)i), operation_name((enum operation)j)) == 0;
            /* an operation of the forward pass, up to the last, and its backward pass */
            if (same) assert_true(j <= OP_GEMM_DOWN && i > OP_GEMM_DOWN);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_are_those_counted_by_hand),
        cmocka_unit_test(smaller_chunks_of_the_loss_move_more_and_compute_the_same),
        cmocka_unit_test(products_and_attention_are_the_flops_of_the_model),
        cmocka_unit_test(names_are_one_each_in_a_phase),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
