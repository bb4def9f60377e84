/* Every operation (kernel_cases.def) at three shapes and in both precisions, timed alone: bytes, FLOPs, time,
 * and its share of the measured limit. That is the longer one of
 *
 *     moving its bytes as fast as memcpy by the same threads, from and to as much memory as its operands
 * need, rounded up to a power of two: so an operation in a cache is compared with a copy in that cache;
 *     computing its FLOPs as fast as a product of 2048³ in the same precision.
 *
 * At the end a table of the shares, in Markdown, where (!) marks those below their aims. `bench_kernels
 * WORD...` chooses: a shape (tiny, small, 124m), a precision (fp32, bf16), or operations whose names contain
 * the word. */
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "kernels/device/cpu.h"
#include "kernels/device/observed.h"
#include "kernels/linear_cross_entropy.h"
#include "tests/kernels/packed.h"
#include "tui/session/process.h"

/* The aims: shares of the limit. */
#define MEMORY    0.70
#define ATTENTION 0.70
#define PRODUCT   0.85
#define HEAD      0.90

/* rows of the loss at a time; tokens of a cached sequence, and how many such; keys that a query sees through
 * a window; tokens of a packed sequence, on average */
enum { CHUNK = 512, CACHED = 2048, DECODED = 16, WINDOW = 256, PACKED = 128 };

/* parameters: of the model, at most so many that the optimizer's arrays are larger than any cache */
struct shape {
    const char *name;
    int B, T, C, NH, HS, F, V, parameters;
};
static const struct shape shapes[] = {{"tiny", 16, 256, 256, 4, 64, 512, 32000, 10815744},
                                      {"small", 8, 256, 512, 8, 64, 1408, 32000, 32 << 20},
                                      {"124m", 4, 512, 768, 12, 64, 2048, 50304, 32 << 20}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Elements of the arrays, and bytes of the workspace: enough for the largest shape. */
enum {
    TOKENS = 4096,
    ROWS = 2048 * 3 * 768,
    STATISTICS = 2048 * 24,
    NESTED = 1 << 20,
    VOCABULARY = 50304 * 768,
    LARGEST = 32 << 20,
    WORKSPACE = 64 << 20,
    COPY_LEAST = 16, /* logarithms of the bytes that a copy reads and writes */
    COPY_MOST = 28
};

struct bench {
    const struct backend *k;
    struct device *device;
    struct stream *stream;
    struct shape s;
    enum precision precision;
    int threads;
    float *x, *y, *z, *w, *rstd, *losses, *nested; /* (N,3C) thrice, (V,C), and small ones */
    float *big, *big2, *big3, *big4, *big5;        /* larger than any operand */
    void *workspace;
    int32_t tokens[TOKENS], zeros[TOKENS], places[TOKENS];
    int32_t positions[TOKENS], ends[TOKENS]; /* of packed sequences; targets of the last of T tokens only */
    double packed_pairs, total;
    struct step_control control;
    struct clip_state clip;
    struct update_range all;
    struct optimizer_params rule;
    double bytes, flops, footprint;                 /* of a call */
    double product_rate, copy_rates[COPY_MOST + 1]; /* FLOP/s; bytes/s, 0 where not measured */
};

static void fail(const char *text)
{
    fprintf(stderr, "bench_kernels: %s\n", text);
    exit(1);
}

static void *memory(struct bench *b, size_t bytes)
{
    struct err err;
    void *out;
    if (b->k->mem_alloc(b->device, bytes, &out, &err) != STATUS_OK) fail(err.text);
    return out;
}

/* Each half of a float is a number in bf16 in [-1, 1), so that either element type finds numbers. */
static void fill(float *x, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed * (1.0f / 2147483648.0f);
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits = (bits & 0xffff0000u) | bits >> 16;
        memcpy(&x[i], &bits, sizeof bits);
    }
}

/* Seconds of a call: the fastest within 0.3 s, so that another program's turns on the cores do not count. */
static double measure(struct bench *b, void (*body)(struct bench *))
{
    double fastest = INFINITY, start, begin, end;
    body(b);
    start = end = clock_monotonic();
    do {
        begin = end;
        body(b);
        end = clock_monotonic();
        if (end - begin < fastest) fastest = end - begin;
    } while (end - start < 0.3);
    return fastest;
}

/* Half of b->footprint bytes from one array to another, in pieces: for a large one memcpy bypasses the
 * caches, which is slower where these are large. */
static void copy_body(struct bench *b)
{
    const size_t piece = 16384, pieces = (size_t)(b->footprint / 2) / piece;
#pragma omp parallel for num_threads(b->threads) schedule(static)
    for (size_t i = 0; i < pieces; i++)
        memcpy((char *)b->big + i * piece, (char *)b->big2 + i * piece, piece);
}

/* The rate of the copy for b->footprint, which becomes a power of two. */
static double copy_rate(struct bench *b)
{
    int power = COPY_LEAST;
    while (power < COPY_MOST && (double)((size_t)1 << power) < b->footprint) power++;
    b->footprint = (double)((size_t)1 << power);
    double *rate = &b->copy_rates[power];
    if (*rate == 0) *rate = b->footprint / measure(b, copy_body);
    return *rate;
}

/* Sums of weights' gradients (accumulate) are fp32. */
static void product(struct bench *b, float *out, const float *x, const float *y, int m, int n, int k,
                    bool transpose_x, bool transpose_y, bool accumulate)
{
    enum element element = precision_element(b->precision);
    b->k->gemm(matrix_view(out, accumulate ? ELEMENT_FP32 : element, n),
               matrix_view(x, element, transpose_x ? m : k), matrix_view(y, element, transpose_y ? k : n), m,
               n, k, transpose_x, transpose_y, accumulate, 1, b->stream);
}

static void large_product_body(struct bench *b)
{
    product(b, b->big3, b->big, b->big2, 2048, 2048, 2048, false, false, false);
}

static void few_rows(struct bench *b, struct matrix w, int rows)
{
    enum element element = precision_element(b->precision);
    int F = b->s.F, C = b->s.C;
    b->k->gemm_few_rows(matrix_view(b->y, element, 2 * F), matrix_view(b->x, element, C), w, rows, 2 * F, C,
                        b->stream);
}

/* The last token of `rows` cached sequences, each in a slot of its own. */
static void decode(struct bench *b, int rows, int heads, int window)
{
    int32_t positions[DECODED];
    for (int i = 0; i < rows; i++) positions[i] = CACHED - 1;
    b->k->attention_cached(b->y, b->x, b->big, b->big2, b->places, positions, b->workspace, rows, CACHED,
                           CACHED, heads, b->s.NH, b->s.HS, window, b->stream);
    if (b->footprint < b->bytes) b->footprint = b->bytes; /* the operands name one slot */
}

/* The second CHUNK tokens of a prompt. */
static void prompt(struct bench *b)
{
    int NH = b->s.NH, HS = b->s.HS;
    b->k->attention_cached(b->y, b->x, b->big, b->big2, b->zeros, b->places + CHUNK, b->workspace, CHUNK,
                           2 * CHUNK, CACHED, NH, NH, HS, 0, b->stream);
    b->bytes = (double)precision_bytes(b->precision) * (2 * CHUNK + 4 * CHUNK) * NH * HS;
    b->flops = 4.0 * HS * NH * (1.5 * CHUNK * CHUNK);
}

#pragma GCC diagnostic ignored "-Wunused-variable" /* no call needs all of them */
#define CASE(name, aim, ...)                                                                                 \
    static void name##_body(struct bench *b)                                                                 \
    {                                                                                                        \
        const struct backend *k = b->k;                                                                      \
        struct stream *stream = b->stream;                                                                   \
        const int B = b->s.B, T = b->s.T, N = B * T, C = b->s.C, NH = b->s.NH, HS = b->s.HS, F = b->s.F,     \
                  V = b->s.V, QKV = 3 * C, LONG_B = B / 4, LONG_T = 4 * T;                                   \
        const size_t PARAMETERS = (size_t)b->s.parameters, E = precision_bytes(b->precision);                \
        const bool narrow = b->precision == PRECISION_BF16;                                                  \
        const enum element element = precision_element(b->precision);                                        \
        const struct matrix weight = matrix_view(b->w, element, C),                                          \
                            logits = matrix_view(b->big, element, V);                                        \
        __VA_ARGS__;                                                                                         \
    }
#include "kernel_cases.def"
#undef CASE

static const struct {
    const char *name;
    double aim;
    void (*body)(struct bench *b);
} cases[] = {
#define CASE(name, aim, ...) {#name, aim, name##_body},
#include "kernel_cases.def"
#undef CASE
};
enum { CASES = sizeof cases / sizeof *cases };

static void count_call(void *context, const struct operation_call *call)
{
    struct bench *b = context;
    b->bytes += (double)call->bytes, b->flops += (double)call->flops;
    double footprint = 0;
    for (int i = 0; i < call->operand_count; i++)
        if (call->operands[i].access != ACCESS_SCRATCH) footprint += (double)call->operands[i].bytes;
    if (footprint > b->footprint) b->footprint = footprint;
}

/* Bytes and FLOPs of a call, which is not carried out. */
static void count(struct bench *b, void (*body)(struct bench *))
{
    const struct backend *k = b->k;
    struct stream *stream = b->stream;
    struct observer observer = {.note = count_call, .context = b, .precision = b->precision};
    b->bytes = b->flops = b->footprint = 0;
    b->k = observed_backend(), b->stream = observed_stream(&observer);
    body(b);
    b->k = k, b->stream = stream;
}

/* Prints a line, and returns the share of the limit. */
static double report(struct bench *b, int which)
{
    count(b, cases[which].body);
    double bytes = b->bytes, flops = b->flops, seconds = measure(b, cases[which].body);
    double copying = bytes / copy_rate(b), computing = flops / b->product_rate;
    double share = (copying > computing ? copying : computing) / seconds;
    char limit[64];
    snprintf(limit, sizeof limit, copying > computing ? "%.6g MiB copy" : "product", b->footprint / 1048576);
    printf("%-28s %9.2f MB %9.3f GFLOP %10.3f ms %4.0f %% of the %s\n", cases[which].name, bytes / 1e6,
           flops / 1e9, 1e3 * seconds, 100 * share, limit);
    fflush(stdout);
    return share;
}

/* A row for each operation, a column for each shape and precision; empty where it was not measured (0). */
static void print_table(double shares[2 * SHAPES][CASES])
{
    int below = 0;
    printf("\n| operation, aim |");
    for (int i = 0; i < 2 * SHAPES; i++)
        printf(" %s %s |", shapes[i / 2].name, precision_name(i % 2 ? PRECISION_BF16 : PRECISION_FP32));
    printf("\n| --- |");
    for (int i = 0; i < 2 * SHAPES; i++) printf(" --- |");
    for (int which = 0; which < CASES; which++) {
        double measured = 0;
        for (int i = 0; i < 2 * SHAPES; i++) measured += shares[i][which];
        if (measured == 0) continue;
        printf("\n| `%s`, %.0f %% |", cases[which].name, 100 * cases[which].aim);
        for (int i = 0; i < 2 * SHAPES; i++) {
            bool missed = shares[i][which] < cases[which].aim;
            if (shares[i][which] > 0) {
                printf(" %.0f %%%s |", 100 * shares[i][which], missed ? " (!)" : "");
                below += missed;
            } else {
                printf(" |");
            }
        }
    }
    printf("\n\n%d below their aims\n", below);
}

/* Whether no word is given, or one is part of the name. */
static bool has_word(const char *name, char **words)
{
    if (!*words) return true;
    for (; *words; words++)
        if (strstr(name, *words)) return true;
    return false;
}

/* Moves the words that name no shape and no precision to the front of `words`, and marks what the others
 * name. */
static void choose(char **words, bool *shape_chosen, bool *precision_chosen)
{
    char **rest = words;
    bool shape = false, precision = false;
    for (; *words; words++) {
        bool found = false;
        for (int i = 0; i < SHAPES; i++)
            if (strcmp(*words, shapes[i].name) == 0) shape = found = shape_chosen[i] = true;
        for (int i = 0; i < PRECISIONS; i++)
            if (strcmp(*words, precision_name(i)) == 0) precision = found = precision_chosen[i] = true;
        if (!found) *rest++ = *words;
    }
    *rest = NULL;
    for (int i = 0; i < SHAPES; i++) shape_chosen[i] |= !shape;
    precision_chosen[PRECISION_FP32] |= !precision, precision_chosen[PRECISION_BF16] |= !precision;
}

/* Fills the operands that operations read, the same for each shape and precision that comes before or after.
 */
static void prepare(struct bench *b)
{
    float **const arrays[] = {&b->x,      &b->y,   &b->z,    &b->w,    &b->rstd, &b->losses,
                              &b->nested, &b->big, &b->big2, &b->big3, &b->big4, &b->big5};
    static const size_t sizes[] = {ROWS,   ROWS,    ROWS,       VOCABULARY, STATISTICS, STATISTICS,
                                   NESTED, LARGEST, VOCABULARY, LARGEST,    LARGEST,    LARGEST};
    const int B = b->s.B, T = b->s.T;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (!*arrays[i]) *arrays[i] = memory(b, sizes[i] * sizeof(float));
        fill(*arrays[i], sizes[i], (uint32_t)i);
    }
    b->packed_pairs = 0;
    packed_positions(b->positions, B / 4, 4 * T, PACKED);
    for (int i = 0; i < B * T; i++) {
        b->tokens[i] = (int32_t)((uint32_t)i * 2654435761u % (uint32_t)b->s.V);
        b->places[i] = i, b->ends[i] = i % T == T - 1 ? 0 : -100;
        b->packed_pairs += b->positions[i] + 1;
    }
    b->control = (struct step_control){.seed = 1, .step = 2, .micro_batch = 3, .lr = 1e-9f};
    b->control.loss_scale = 1.0f / (float)(B * T);
    b->clip = (struct clip_state){1, 1, 1};
    b->all = (struct update_range){(size_t)b->s.parameters, 1, 0.1f};
    b->rule = (struct optimizer_params){0.9, 0.95, 1e-8f};
}

int main(int argc, char **argv)
{
    static struct bench b;
    static double shares[2 * SHAPES][CASES];
    struct err err;
    struct device_info info;
    bool shape_chosen[SHAPES] = {0}, precision_chosen[PRECISIONS] = {0};
    const char *threads = getenv("OMP_NUM_THREADS");
    second_start(argv); /* as anneal does: threads that sleep between operations */
    choose(argv + (argc > 0), shape_chosen, precision_chosen);
    b.k = cpu_backend(), b.threads = threads && atoi(threads) > 0 ? atoi(threads) : omp_get_max_threads();
    if (b.k->device_open(DEVICE_FIRST, b.threads, &b.device, &err) != STATUS_OK) fail(err.text);
    b.k->device_describe(b.device, &info);
    printf("%s; %s\n", info.name, info.computes);
    b.workspace = memory(&b, WORKSPACE);
    for (int i = 0; i < 2 * SHAPES; i++) {
        b.s = shapes[i / 2], b.precision = i % 2 ? PRECISION_BF16 : PRECISION_FP32;
        if (!shape_chosen[i / 2] || !precision_chosen[b.precision]) continue;
        if (b.k->stream_open(b.device, b.precision, &b.stream, &err) != STATUS_OK) {
            printf("\n%s\n", err.text);
            continue;
        }
        prepare(&b);
        b.product_rate = 2.0 * 2048 * 2048 * 2048 / measure(&b, large_product_body);
        printf("\n%s, %s: %d x %d, C %d, %d heads of %d, F %d, V %d; product %.1f GFLOP/s\n", b.s.name,
               precision_name(b.precision), b.s.B, b.s.T, b.s.C, b.s.NH, b.s.HS, b.s.F, b.s.V,
               b.product_rate / 1e9);
        for (int which = 0; which < CASES; which++) {
            if (!has_word(cases[which].name, argv + 1)) continue;
            shares[i][which] = report(&b, which);
        }
        b.k->stream_close(b.stream);
    }
    print_table(shares);
    return 0;
}
