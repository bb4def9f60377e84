/* See observed.h. Everything here is generated from the list of operations: for each slot a function that
 * records the operands one by one and forwards the call. */
#include "kernels/device/observed.h"

#include <assert.h>

struct stream {
    struct observer observer;
};

/* `sizes`: the bytes that the operand spans and, if count is 2, the bytes moved. */
static void operand(struct operation_call *call, const void *at, enum access access, int count,
                    const int64_t *sizes)
{
    if (!at) return;
    assert(call->operand_count < CALL_OPERANDS_MAX);
    call->operands[call->operand_count++] = (struct operand){.at = at, .bytes = sizes[0], .access = access};
    if (access != ACCESS_SCRATCH) call->bytes += sizes[count - 1] * (access == ACCESS_ADDED ? 2 : 1);
}

/* A matrix stored by rows; gaps between rows are spanned, not moved. */
static void matrix(struct operation_call *call, struct matrix m, enum access access, int64_t rows,
                   int64_t columns)
{
    int64_t spanned = (rows - 1) * m.stride + columns, moved = rows * columns;
    if (!m.at) return;
    operand(call, m.at, access, 2,
            (int64_t[]){(int64_t)element_storage(m.element, (size_t)spanned),
                        (int64_t)element_storage(m.element, (size_t)moved)});
    call->operands[call->operand_count - 1].layout = (struct gemm_layout){m.element, m.stride};
}

#define SPAN(name, access, ...)                                                                              \
    operand(&call, name##_, access, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),               \
            (int64_t[]){__VA_ARGS__});
#define NOTES(operands)   OPERANDS_END(NOTE_A operands)
#define NOTE_A(kind, ...) NOTE_##kind(__VA_ARGS__) NOTE_B
#define NOTE_B(kind, ...) NOTE_##kind(__VA_ARGS__) NOTE_A
#define NOTE_A_END
#define NOTE_B_END
#define NOTE_READ(name, type, ...)               SPAN(name, ACCESS_READ, __VA_ARGS__)
#define NOTE_WRITTEN(name, type, ...)            SPAN(name, ACCESS_WRITTEN, __VA_ARGS__)
#define NOTE_ADDED(name, type, ...)              SPAN(name, ACCESS_ADDED, __VA_ARGS__)
#define NOTE_STORED(name, type, added, ...)      SPAN(name, added ? ACCESS_ADDED : ACCESS_WRITTEN, __VA_ARGS__)
#define NOTE_MATRIX(name, access, rows, columns) matrix(&call, name##_, access, rows, columns);
#define NOTE_SCRATCH(name, ...)                  SPAN(name, ACCESS_SCRATCH, __VA_ARGS__)
#define NOTE_SITE(name)                                                                                      \
    operand(&call, name##_.control, ACCESS_READ, 2, (int64_t[]){sizeof(struct step_control), 0});
#define NOTE_COUNT(name, type)
#define NOTE_VALUE(name, type)

/* The counts, wide enough for the products in the list: the largest accepted model has more FLOPs than an
 * int64_t holds. */
typedef __int128 wide;

static int64_t capped(wide flops)
{
    return flops < INT64_MAX ? (int64_t)flops : INT64_MAX;
}

#define COUNTS(operands)   OPERANDS_END(COUNT_A operands)
#define COUNT_A(kind, ...) COUNT_##kind(__VA_ARGS__) COUNT_B
#define COUNT_B(kind, ...) COUNT_##kind(__VA_ARGS__) COUNT_A
#define COUNT_A_END
#define COUNT_B_END
#define COUNT_READ(...)
#define COUNT_WRITTEN(...)
#define COUNT_ADDED(...)
#define COUNT_STORED(...)
#define COUNT_MATRIX(...)
#define COUNT_SCRATCH(...)
#define COUNT_SITE(...)
#define COUNT_VALUE(...)
#define COUNT_COUNT(name, type)                                                                              \
    const wide name = (wide)name##_;                                                                         \
    call.counts[call.count_count++] = (int64_t)name;

#define OPERATION(slot, name, operands_, work)                                                               \
    static void slot(PARAMETERS(operands_) struct stream *stream)                                            \
    {                                                                                                        \
        const struct observer *o = &stream->observer;                                                        \
        const int64_t E = (int64_t)precision_bytes(o->precision);                                            \
        (void)E;                                                                                             \
        struct operation_call call = {.operation = OPERATION_##slot, .label = name};                         \
        COUNTS(operands_)                                                                                    \
        call.flops = capped(work);                                                                           \
        NOTES(operands_)                                                                                     \
        o->note(o->context, &call);                                                                          \
        if (o->backend) o->backend->slot(ARGUMENTS(operands_) o->stream);                                    \
    }
#include "kernels/operations.def"

const struct backend *observed_backend(void)
{
    static const struct backend table = {
        .name = "observed",
#define OPERATION(name, ...) .name = name,
#include "kernels/operations.def"
    };
    return &table;
}

struct stream *observed_stream(struct observer *observer)
{
    return (struct stream *)observer;
}

struct gemm_shape operation_product(const struct operation_call *call)
{
    const int64_t *n = call->counts;
    const struct operand *o = call->operands;
    assert(call->operation == OPERATION_gemm && call->operand_count == 3);
    return (struct gemm_shape){(int)n[0], (int)n[1],   (int)n[2],   n[3],       n[4],
                               n[5],      o[0].layout, o[1].layout, o[2].layout};
}

struct attention_problem operation_attention(const struct operation_call *call)
{
    const int64_t *n = call->counts;
    bool backward = call->operation == OPERATION_attention_backward;
    assert((backward || call->operation == OPERATION_attention_forward) && call->count_count == 6);
    return (struct attention_problem){(int)n[0], (int)n[1], (int)n[2], (int)n[3],
                                      (int)n[4], (int)n[5], backward};
}

const char *operation_name(enum operation operation)
{
    static const char *const names[OPERATIONS] = {
#define OPERATION(name, ...) #name,
#include "kernels/operations.def"
    };
    return names[operation];
}
