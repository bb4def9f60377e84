/* See op_speed.h. The cases are in op_speed_cases.c. */
#include "tests/gpu/op_bench.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/philox.h"
#include "tests/gpu/warming.h"

/* The activations of preset medium at 16 sequences of 2,048 tokens: a row-wise operation moves 128 MB and
 * more in bf16, above the 50 MB of cache of the largest chips. */
const struct op_speed_sizes op_speed_large = {.B = 16,
                                              .T = 2048,
                                              .NH = 16,
                                              .NKV = 16,
                                              .HS = 64,
                                              .C = 1024,
                                              .F = 2816,
                                              .V = 32000,
                                              .rows = 4096,
                                              .square = 8192,
                                              .n = (size_t)64 << 20,
                                              .calls = 50};

enum { WARM_UP = 3, SAMPLES = 11 };

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* ---- operands ---- */

/* Keeps the first error in *status. */
static void *take(struct op_bench *b, size_t bytes, enum status *status, struct err *err)
{
    void *memory = NULL;
    if (*status) return NULL;
    *status = b->backend->mem_alloc(b->device, bytes, &memory, err);
    if (*status) return NULL;
    assert(b->count < OP_BENCH_BUFFERS_MAX);
    b->memory[b->count++] = memory;
    b->backend->mem_zero(memory, bytes, b->stream);
    return memory;
}

/* One block of noise, doubled on the device until it fills the memory. */
static void fill(struct op_bench *b, void *memory, size_t bytes, bool fp32, const float *noise, size_t n)
{
    size_t block = n * sizeof *noise, filled;
    if (fp32 || b->precision != PRECISION_BF16) {
        filled = block < bytes ? block : bytes;
        b->backend->mem_upload(memory, noise, filled, b->stream);
    } else {
        filled = block / 2 < bytes ? block / 2 : bytes;
        uint16_t *narrow = malloc(block / 2);
        for (size_t i = 0; narrow && i < n; i++) { /* truncated: noise is noise */
            uint32_t bits;
            memcpy(&bits, &noise[i], sizeof bits);
            narrow[i] = (uint16_t)(bits >> 16);
        }
        if (narrow) b->backend->mem_upload(memory, narrow, filled, b->stream);
        free(narrow);
    }
    for (; filled < bytes; filled *= 2)
        b->backend->mem_copy((char *)memory + filled, memory,
                             bytes - filled < filled ? bytes - filled : filled, b->stream);
}

static size_t row_count(const struct op_bench *b)
{
    return 2 * (size_t)b->N + 2 * (size_t)b->s.T;
}

static enum status fill_all(struct op_bench *b, struct err *err)
{
    enum { BLOCK = 1 << 17 };
    enum status status = STATUS_OK;
    float *noise = malloc(BLOCK * sizeof *noise);
    int32_t *tokens = malloc((size_t)b->N * sizeof *tokens), *rows = malloc(row_count(b) * sizeof *rows);
    float *angles = malloc((size_t)b->s.T * (size_t)b->s.HS * sizeof *angles);
    if (!noise || !tokens || !angles || !rows) {
        status = err_set(err, STATUS_NO_MEMORY, "no memory for the operands of the timed operations");
        goto out;
    }
    for (uint32_t i = 0; i < BLOCK; i++) noise[i] = philox_uniform(philox4x32_10(i, 0, 0, 0, 7, 0).word[0]);
    fill(b, b->second, b->s.n * sizeof(float), true, noise, BLOCK);
    for (uint32_t i = 0; i < BLOCK; i++) noise[i] = 2 * noise[i] - 1;
    void *const filled[] = {b->x, b->y, b->a, b->b, b->c};
    for (size_t i = 0; i < sizeof filled / sizeof *filled; i++)
        fill(b, filled[i], b->bytes, false, noise, BLOCK);
    for (int i = 0; i < b->N; i++)
        tokens[i] = (int32_t)(philox4x32_10((uint32_t)i, 1, 0, 0, 7, 0).word[0] % (uint32_t)b->s.V);
    for (int i = 0; i < b->N; i++) {
        rows[i] = i % b->s.B;
        rows[b->N + i] = b->s.T - 1 - i / b->s.B;
    }
    for (int t = 0; t < b->s.T; t++) {
        rows[2 * b->N + t] = 0;
        rows[2 * b->N + b->s.T + t] = t;
    }
    b->backend->mem_upload(b->rows, rows, row_count(b) * sizeof *rows, b->stream);
    struct update_range ranges[] = {{b->s.n / 10 * 9, 1, 0.1f}, {b->s.n, 1, 0}};
    b->backend->mem_upload(b->ranges, ranges, sizeof ranges, b->stream);
    b->backend->mem_upload(b->tokens, tokens, (size_t)b->N * sizeof *tokens, b->stream);
    for (size_t i = 0; i < (size_t)b->s.T * (size_t)b->s.HS; i += 2) { /* 3-4-5: rotations keep the length */
        angles[i] = 0.6f;
        angles[i + 1] = 0.8f;
    }
    b->backend->mem_upload(b->cos_sin, angles, (size_t)b->s.T * (size_t)b->s.HS * sizeof *angles, b->stream);
    status = b->backend->stream_wait(b->stream, err);
out:
    free(noise), free(tokens), free(angles), free(rows);
    return status;
}

static enum status take_all(struct op_bench *b, struct err *err)
{
    const struct op_speed_sizes *s = &b->s;
    enum status status = STATUS_OK;
    size_t N = (size_t)b->N, most = larger(N * (size_t)b->Q, N * (size_t)(2 * s->F)), work;
    most = larger(most, larger(N * (size_t)s->C, (size_t)s->rows * (size_t)s->V));
    most = larger(most, larger((size_t)s->V * (size_t)s->C, s->n));
    most = larger(most, larger((size_t)b->Q, (size_t)(2 * s->F)) * (size_t)s->C);
    most = larger(most, (size_t)s->square * (size_t)s->square);
    b->bytes = most * precision_bytes(b->precision);
    /* what holds fp32 in every precision: optimizer states, dweight */
    size_t fp32 = larger(s->n, larger((size_t)s->V * (size_t)s->C, (size_t)(2 * s->F) * (size_t)s->C));
    b->bytes = larger(b->bytes, fp32 * sizeof(float));
    work = larger(rmsnorm_backward_workspace(b->N, s->C), embedding_backward_workspace(b->N));
    work = larger(work, rmsnorm_backward_workspace(b->N, 2 * s->HS));
    work = larger(work, attention_workspace(s->B, s->T, s->NH, s->NKV, s->HS));
    work = larger(work, attention_cached_workspace(s->B > s->T ? s->B : s->T, s->T, s->NH, s->NKV, s->HS));
    work = larger(work, larger(row_chunk_workspace(b->N, b->Q), reduce_workspace(s->n)));
    b->x = take(b, b->bytes, &status, err);
    b->y = take(b, b->bytes, &status, err);
    b->a = take(b, b->bytes, &status, err);
    b->b = take(b, b->bytes, &status, err);
    b->c = take(b, b->bytes, &status, err);
    b->second = take(b, s->n * sizeof(float), &status, err);
    b->rstd = take(b, N * (size_t)(s->NH + s->NKV) * sizeof(float), &status, err);
    b->lse = take(b, N * (size_t)s->NH * sizeof(float), &status, err);
    b->losses = take(b, N * sizeof(float), &status, err);
    b->small = take(b, larger((size_t)b->Q, (size_t)(s->C + 2 * s->HS)) * sizeof(float), &status, err);
    b->cos_sin = take(b, (size_t)s->T * (size_t)s->HS * sizeof(float), &status, err);
    b->tokens = take(b, N * sizeof(int32_t), &status, err);
    b->rows = take(b, row_count(b) * sizeof(int32_t), &status, err);
    b->workspace = take(b, larger(work, 256), &status, err);
    b->clip = take(b, sizeof *b->clip, &status, err);
    b->ranges = take(b, 2 * sizeof *b->ranges, &status, err);
    b->control = take(b, sizeof *b->control, &status, err);
    size_t lent = b->backend->library_workspace(b->device, NULL);
    void *products = lent ? take(b, lent, &status, err) : NULL;
    if (!status && lent) b->backend->workspace_lend(b->stream, products, lent);
    return status;
}

/* As before a training, so that products are timed as one would do them. */
static enum status warm_products(struct op_bench *b, struct err *err)
{
    struct gemm_shape shapes[OP_BENCH_PRODUCTS];
    for (int i = 0; i < OP_BENCH_PRODUCTS; i++) shapes[i] = op_bench_product(b, (enum op_bench_products)i);
    struct warm_work work = {.products = shapes, .product_count = OP_BENCH_PRODUCTS};
    return warm_up(b->backend, b->device, b->stream, &work, NULL, err);
}

enum status op_bench_open(const struct backend *backend, enum precision precision,
                          const struct op_speed_sizes *sizes, struct op_bench **out, struct err *err)
{
    struct op_bench *b = calloc(1, sizeof *b);
    if (!b) return err_set(err, STATUS_NO_MEMORY, "no memory for the timed operations");
    b->backend = backend;
    b->precision = precision;
    b->s = *sizes;
    b->N = sizes->B * sizes->T;
    b->Q = (sizes->NH + 2 * sizes->NKV) * sizes->HS;
    enum status status = backend->device_open(DEVICE_FIRST, 0, &b->device, err);
    if (!status) status = backend->stream_open(b->device, precision, &b->stream, err);
    for (int i = 0; i < 2 && !status; i++) status = backend->event_open(b->device, &b->marks[i], err);
    if (!status) status = warm_products(b, err);
    if (!status) status = take_all(b, err);
    if (!status) status = fill_all(b, err);
    if (status) {
        op_bench_close(b);
        return status;
    }
    *out = b;
    return STATUS_OK;
}

enum status op_bench_use_cudnn(struct op_bench *b, bool window, struct err *err)
{
    const struct op_speed_sizes *s = &b->s;
    struct attention_problem problem = {s->B, s->T, s->NH, s->NKV, s->HS, window ? op_bench_window(b) : 0,
                                        false};
    assert(b->count < OP_BENCH_BUFFERS_MAX);
    enum status status = warm_cudnn(b->backend, b->device, b->stream, problem, &b->memory[b->count], err);
    b->count += !status;
    return status;
}

void op_bench_close(struct op_bench *b)
{
    if (!b) return;
    while (b->count > 0) b->backend->mem_free(b->device, b->memory[--b->count]);
    for (int i = 0; i < 2; i++)
        if (b->marks[i]) b->backend->event_close(b->marks[i]);
    if (b->stream) b->backend->stream_close(b->stream);
    if (b->device) b->backend->device_close(b->device);
    free(b);
}

/* ---- timing ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Milliseconds of so many calls, one after the other. */
static double time_calls(struct op_bench *b, const struct op_speed_case *op, int calls)
{
    b->backend->event_record(b->marks[0], b->stream);
    for (int i = 0; i < calls; i++) op->run(b);
    b->backend->event_record(b->marks[1], b->stream);
    return b->backend->event_elapsed(b->marks[0], b->marks[1]);
}

enum status op_bench_time(struct op_bench *b, const struct op_speed_case *op, double *ms,
                          struct op_work *work, struct err *err)
{
    double samples[SAMPLES];
    b->first = true;
    *work = op->run(b);
    b->first = false;
    /* two milliseconds between events: their resolution and the gaps between launches do not count */
    double once = time_calls(b, op, WARM_UP) / WARM_UP;
    int calls = once * b->s.calls < 2 ? b->s.calls : once < 2 ? (int)(2 / once) + 1 : 1;
    for (int i = 0; i < SAMPLES; i++) samples[i] = time_calls(b, op, calls) / calls;
    enum status status = b->backend->stream_wait(b->stream, err);
    if (status) return status;
    qsort(samples, SAMPLES, sizeof *samples, by_size);
    *ms = samples[SAMPLES / 2];
    return STATUS_OK;
}
