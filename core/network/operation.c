/* See operation.h. */
#include "core/network/operation.h"

const char *operation_name(enum operation operation)
{
    static const char *const names[OPERATIONS] = {
        [OP_BATCH] = "batch",
        [OP_EMBEDDING] = "embedding",
        [OP_DROPOUT] = "dropout",
        [OP_NORM] = "norm",
        [OP_ADD_NORM] = "add norm",
        [OP_GEMM_QKV] = "gemm qkv",
        [OP_BIAS] = "bias qkv",
        [OP_ROPE] = "rope",
        [OP_QK_NORM_ROPE] = "qk norm rope",
        [OP_ATTENTION] = "attention",
        [OP_GEMM_O] = "gemm o",
        [OP_GEMM_GATE_UP] = "gemm gate_up",
        [OP_SWIGLU] = "swiglu",
        [OP_GEMM_DOWN] = "gemm down",
        [OP_HEAD_AND_LOSS] = "head and loss",
        [OP_LOSS_SUM] = "loss sum",
        [OP_ZERO_DX] = "zero dx",
        [OP_COPY_DX] = "copy dx",
        [OP_NORM_BACKWARD] = "norm",
        [OP_NORM_AGAIN] = "norm again",
        [OP_GEMM_DOWN_DW] = "gemm down dW",
        [OP_GEMM_DOWN_DX] = "gemm down dx",
        [OP_SWIGLU_AGAIN] = "swiglu again",
        [OP_SWIGLU_BACKWARD] = "swiglu",
        [OP_GEMM_GATE_UP_DW] = "gemm gate_up dW",
        [OP_GEMM_GATE_UP_DX] = "gemm gate_up dx",
        [OP_GEMM_O_DW] = "gemm o dW",
        [OP_GEMM_O_DX] = "gemm o dx",
        [OP_ATTENTION_BACKWARD] = "attention",
        [OP_ROPE_BACKWARD] = "rope",
        [OP_QK_NORM_ROPE_BACKWARD] = "qk norm rope",
        [OP_BIAS_BACKWARD] = "bias qkv",
        [OP_GEMM_QKV_DW] = "gemm qkv dW",
        [OP_GEMM_QKV_DX] = "gemm qkv dx",
        [OP_EMBEDDING_BACKWARD] = "embedding",
        [OP_ZERO_GRADIENTS] = "zero gradients",
        [OP_GRADIENT_NORM] = "gradient norm",
        [OP_ADAMW] = "adamw",
        [OP_LION] = "lion",
        [OP_READ_RESULT] = "read result",
    };
    return names[operation];
}

/* A product: (M,K) by (K,N); e bytes an element. Accumulating, it adds to fp32. */
static struct operation_cost product(int64_t M, int64_t N, int64_t K, int64_t e, bool accumulate)
{
    int64_t out = M * N * (accumulate ? 2 * (int64_t)sizeof(float) : e);
    return (struct operation_cost){(M * K + K * N) * e + out, 2 * M * N * K};
}

/* The projection of N rows from `in` to `out` columns, and its gradients. */
static struct operation_cost projection(int64_t N, int64_t out, int64_t in, int64_t e)
{
    return product(N, out, in, e, false);
}

static struct operation_cost projection_dw(int64_t N, int64_t out, int64_t in, int64_t e)
{
    return product(out, in, N, e, true);
}

static struct operation_cost projection_dx(int64_t N, int64_t out, int64_t in, int64_t e)
{
    return product(N, in, out, e, false);
}

/* Three products a chunk, each with all of the weight or its gradient; the loss reads the logits and writes
 * their gradients. */
static struct operation_cost head_and_loss(int64_t N, int64_t C, int64_t V, int64_t chunk, int64_t e)
{
    struct operation_cost sum = {0};
    for (int64_t start = 0; start < N; start += chunk) {
        int64_t rows = N - start < chunk ? N - start : chunk;
        struct operation_cost parts[] = {
            projection(rows, V, C, e),
            projection_dx(rows, V, C, e),
            projection_dw(rows, V, C, e),
            {2 * rows * V * e + 8 * rows, 5 * rows * V},
        };
        for (int i = 0; i < 4; i++) {
            sum.bytes += parts[i].bytes;
            sum.flops += parts[i].flops;
        }
    }
    return sum;
}

struct operation_cost operation_cost(enum operation operation, const struct operation_shape *shape)
{
    const struct model_config *c = &shape->model->config;
    int64_t B = shape->B, T = shape->T, N = B * T, C = c->hidden_dim, F = c->intermediate_dim,
            V = c->vocab_size, NH = c->num_heads, NKV = c->num_kv_heads, HS = c->head_dim;
    int64_t heads = NH * HS, Q = (NH + 2 * NKV) * HS, turned = N * (NH + NKV) * HS; /* elements of q and k */
    int64_t f = sizeof(float), e = (int64_t)precision_bytes(shape->precision),
            all = (int64_t)shape->model->elements, pairs = B * T * (T + 1) / 2;
    int64_t rounded = e == f ? 0 : all * e; /* the copy of the weights that is computed with */
    int64_t table = T * HS * f;
    switch (operation) {
    case OP_BATCH:
        return (struct operation_cost){4 * N * f, 0};
    case OP_EMBEDDING:
        return (struct operation_cost){2 * N * C * e + N * f, 0};
    case OP_DROPOUT:
        return (struct operation_cost){2 * N * C * e, N * C};
    case OP_NORM:
        return (struct operation_cost){2 * N * C * e + C * e + N * f, 4 * N * C};
    case OP_ADD_NORM:
        return (struct operation_cost){4 * N * C * e + C * e + N * f, 5 * N * C};
    case OP_GEMM_QKV:
        return projection(N, Q, C, e);
    case OP_BIAS:
        return (struct operation_cost){2 * N * Q * e + Q * e, N * Q};
    case OP_ROPE:
    case OP_ROPE_BACKWARD:
        return (struct operation_cost){2 * turned * e + table, 3 * turned};
    case OP_QK_NORM_ROPE:
        return (struct operation_cost){2 * N * Q * e + N * (NH + NKV) * f + 2 * HS * e + table, 7 * turned};
    case OP_ATTENTION:
        return (struct operation_cost){N * Q * e + N * heads * e + N * NH * f, 4 * heads * pairs};
    case OP_GEMM_O:
        return projection(N, C, heads, e);
    case OP_GEMM_GATE_UP:
        return projection(N, 2 * F, C, e);
    case OP_SWIGLU:
    case OP_SWIGLU_AGAIN:
        return (struct operation_cost){3 * N * F * e, 5 * N * F};
    case OP_GEMM_DOWN:
        return projection(N, C, F, e);
    case OP_HEAD_AND_LOSS:
        return head_and_loss(N, C, V, shape->loss_chunk, e);
    case OP_LOSS_SUM:
        return (struct operation_cost){N * f, N};
    case OP_ZERO_DX:
        return (struct operation_cost){N * C * e, 0};
    case OP_COPY_DX:
        return (struct operation_cost){2 * N * C * e, 0};
    case OP_NORM_BACKWARD:
        return (struct operation_cost){4 * N * C * e + C * e + N * f + 2 * C * f, 10 * N * C};
    case OP_NORM_AGAIN:
        return (struct operation_cost){2 * N * C * e + C * e + N * f, 2 * N * C};
    case OP_GEMM_DOWN_DW:
        return projection_dw(N, C, F, e);
    case OP_GEMM_DOWN_DX:
        return projection_dx(N, C, F, e);
    case OP_SWIGLU_BACKWARD:
        return (struct operation_cost){5 * N * F * e, 11 * N * F};
    case OP_GEMM_GATE_UP_DW:
        return projection_dw(N, 2 * F, C, e);
    case OP_GEMM_GATE_UP_DX:
        return projection_dx(N, 2 * F, C, e);
    case OP_GEMM_O_DW:
        return projection_dw(N, C, heads, e);
    case OP_GEMM_O_DX:
        return projection_dx(N, C, heads, e);
    case OP_ATTENTION_BACKWARD:
        return (struct operation_cost){2 * N * Q * e + 2 * N * heads * e + N * NH * f, 8 * heads * pairs};
    case OP_QK_NORM_ROPE_BACKWARD:
        return (struct operation_cost){3 * turned * e + N * (NH + NKV) * f + 2 * HS * e + 4 * HS * f + table,
                                       12 * turned};
    case OP_BIAS_BACKWARD:
        return (struct operation_cost){N * Q * e + 2 * Q * f, N * Q};
    case OP_GEMM_QKV_DW:
        return projection_dw(N, Q, C, e);
    case OP_GEMM_QKV_DX:
        return projection_dx(N, Q, C, e);
    case OP_EMBEDDING_BACKWARD: /* as if no token came twice, as far as the vocabulary allows */
        return (struct operation_cost){N * C * e + N * f + 2 * (N < V ? N : V) * C * f, N * C};
    case OP_ZERO_GRADIENTS:
        return (struct operation_cost){all * f, 0};
    case OP_GRADIENT_NORM:
        return (struct operation_cost){all * f, 2 * all};
    case OP_ADAMW:
        return (struct operation_cost){7 * all * f + rounded, 17 * all};
    case OP_LION:
        return (struct operation_cost){5 * all * f + rounded, 11 * all};
    case OP_READ_RESULT:
        return (struct operation_cost){2 * sizeof(double), 0};
    case OPERATIONS:
        break;
    }
    return (struct operation_cost){0};
}
