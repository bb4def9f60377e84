/* The operations of a training step: what a profile calls them, and what each must move and compute at least,
 * by its shapes alone. The one place where the bytes and FLOPs of profiles and traces come from.
 *
 * Bytes: every tensor that an operation reads or writes, once each way; one that it adds to, twice. FLOPs:
 * two for a multiply-add; in element-wise operations each addition, product, division, root and exponential
 * of the formula, one. Attention counts what the causal mask leaves, T·(T+1)/2 pairs a sequence and head,
 * where model_flops_per_token counts all T², and of its backward pass the four products of the gradients, not
 * the scores that are computed again. */
#ifndef ANNEAL_CORE_NETWORK_OPERATION_H
#define ANNEAL_CORE_NETWORK_OPERATION_H

#include "core/model/model.h"
#include "kernels/device/backend.h"

enum operation {
    OP_BATCH, /* until it is on its way to the device; the copy itself runs beside other work */
    OP_EMBEDDING,
    OP_DROPOUT,
    OP_NORM,
    OP_ADD_NORM, /* residual and norm in one */
    OP_GEMM_QKV,
    OP_BIAS,
    OP_ROPE,
    OP_QK_NORM_ROPE,
    OP_ATTENTION,
    OP_GEMM_O,
    OP_GEMM_GATE_UP,
    OP_SWIGLU,
    OP_GEMM_DOWN,
    /* backward; _DW: to the weight, _DX: to the input */
    OP_HEAD_AND_LOSS, /* logits, losses and both gradients, in chunks of rows */
    OP_LOSS_SUM,
    OP_ZERO_DX,
    OP_COPY_DX,
    OP_NORM_BACKWARD,
    OP_NORM_AGAIN,
    OP_GEMM_DOWN_DW,
    OP_GEMM_DOWN_DX,
    OP_SWIGLU_AGAIN,
    OP_SWIGLU_BACKWARD,
    OP_GEMM_GATE_UP_DW,
    OP_GEMM_GATE_UP_DX,
    OP_GEMM_O_DW,
    OP_GEMM_O_DX,
    OP_ATTENTION_BACKWARD,
    OP_ROPE_BACKWARD,
    OP_QK_NORM_ROPE_BACKWARD,
    OP_BIAS_BACKWARD,
    OP_GEMM_QKV_DW,
    OP_GEMM_QKV_DX,
    OP_EMBEDDING_BACKWARD,
    /* optimizer */
    OP_ZERO_GRADIENTS,
    OP_GRADIENT_NORM,
    OP_ADAMW,
    OP_LION,
    OP_READ_RESULT,
    OPERATIONS
};

/* Unique within a phase; an operation and its backward pass share one. Static text. */
const char *operation_name(enum operation operation);

/* What operations run on: B sequences of T tokens, the loss in chunks of loss_chunk rows. */
struct operation_shape {
    const struct model *model;
    enum precision precision;
    int B, T, loss_chunk;
};

struct operation_cost {
    int64_t bytes, flops;
};

/* Of one call. */
struct operation_cost operation_cost(enum operation operation, const struct operation_shape *shape);

#endif
