/* Matrix products on the simulated cuBLASLt: every form against the CPU twin, and how algorithms are chosen
 * before training, never within a step. test_gemm_choices.c tests their storage. */
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>
/* cmocka wants the first four above */
#include "core/base/philox.h"
#include "kernels/device/cuda_plugin.h"
#include "tests/cmocka.h"
#include "tests/core/train/story.h"
#include "tests/cuda_sim/simulator.h"
#include "tests/kernels/product.h"

extern const struct cuda_plugin cuda_plugin;

/* ---- one side: a device, a stream, and memory for three operands and the workspace ---- */

enum { OPERAND_BYTES = 1 << 16 };
static const float FACTOR = -0.625f;

struct side {
    const struct backend *k;
    struct device *device;
    struct stream *stream;
    enum precision precision;
    unsigned char *out, *a, *b;
    void *workspace;
};

static unsigned char *take(struct side *s, size_t bytes)
{
    struct err err;
    void *memory = NULL;
    if (s->k->mem_alloc(s->device, bytes, &memory, &err)) fail_msg("%s", err.text);
    return memory;
}

static void open_side(struct side *s, const struct backend *k, enum precision precision)
{
    struct err err;
    *s = (struct side){.k = k, .precision = precision};
    if (k->device_open(DEVICE_FIRST, 1, &s->device, &err)) fail_msg("%s", err.text);
    if (k->stream_open(s->device, precision, &s->stream, &err)) fail_msg("%s", err.text);
    s->out = take(s, OPERAND_BYTES), s->a = take(s, OPERAND_BYTES), s->b = take(s, OPERAND_BYTES);
    size_t bytes = k->library_workspace(s->device, NULL);
    if (bytes) s->workspace = take(s, bytes);
}

static void lend(struct side *s)
{
    s->k->workspace_lend(s->stream, s->workspace, s->k->library_workspace(s->device, NULL));
}

static void free_side(struct side *s)
{
    unsigned char *memory[] = {s->out, s->a, s->b, s->workspace};
    for (int i = 0; i < 4; i++)
        if (memory[i]) s->k->mem_free(s->device, memory[i]);
    s->k->stream_close(s->stream);
    s->k->device_close(s->device);
}

static void close_side(struct side *s)
{
    free_side(s);
    assert_int_equal(sim_device_bytes(), 0);
    assert_int_equal(sim_events(), 0);
}

static uint16_t to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t narrow)
{
    uint32_t bits = (uint32_t)narrow << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* n numbers in (-1, 1) that the precision can hold: the operands are exact on both sides, but for tf32. */
static void draw(float *values, size_t n, uint32_t stream, enum precision precision)
{
    for (size_t i = 0; i < n; i++) {
        float x = 2.0f * philox_uniform(philox4x32_10((uint32_t)i, stream, 0, 0, 7, 9).word[0]) - 1.0f;
        values[i] = precision == PRECISION_BF16 ? from_bf16(to_bf16(x)) : x;
    }
}

static void upload(struct side *s, unsigned char *to, const float *values, size_t n, bool wide)
{
    uint16_t *narrow = malloc(n * sizeof *narrow);
    assert_non_null(narrow);
    for (size_t i = 0; i < n; i++) narrow[i] = to_bf16(values[i]);
    s->k->mem_upload(to, wide ? (const void *)values : narrow, n * (wide ? 4 : 2), s->stream);
    free(narrow);
}

static void download(struct side *s, float *values, const unsigned char *from, size_t n, bool wide)
{
    uint16_t *narrow = malloc(n * sizeof *narrow);
    assert_non_null(narrow);
    s->k->mem_download(wide ? (void *)values : narrow, from, n * (wide ? 4 : 2), s->stream);
    for (size_t i = 0; i < n && !wide; i++) values[i] = from_bf16(narrow[i]);
    free(narrow);
}

/* Copies `values` (rows, columns) into rows of `stride`; the gaps are NaN. */
static void spread(float *out, const float *values, int rows, int columns, int stride)
{
    for (int i = 0; i < rows * stride; i++)
        out[i] = i % stride < columns ? values[i / stride * columns + i % stride] : NAN;
}

/* Lays an operand of numbers drawn from `stream` at `to`. */
static void lay(struct side *s, unsigned char *to, int rows, int columns, struct gemm_layout l,
                uint32_t stream)
{
    size_t n = (size_t)rows * (size_t)columns, all = (size_t)rows * (size_t)l.stride;
    float *values = malloc(n * sizeof *values), *wide = malloc(all * sizeof *wide);
    assert_true(values && wide && all * sizeof *wide <= OPERAND_BYTES);
    draw(values, n, stream, s->precision);
    spread(wide, values, rows, columns, l.stride);
    upload(s, to, wide, all, l.element == ELEMENT_FP32);
    free(values), free(wide);
}

/* Runs one product, times FACTOR, with operands `skew` elements into their memory and rows `gap` elements
 * longer than needed. out is NaN before, or 0.5 if it is added to; its gaps are 7 and must not change. */
static void multiply(struct side *s, struct gemm_shape g, size_t skew, int gap, float *out)
{
    g = product_shape(g, s->precision, gap);
    size_t e = precision_bytes(s->precision), n = (size_t)g.M * (size_t)g.out.stride;
    unsigned char *to = s->out + skew * element_bytes(g.out.element), *a = s->a + skew * e,
                  *b = s->b + skew * e;
    float *wide = malloc(n * sizeof *wide);
    assert_true(wide && n * sizeof *wide <= OPERAND_BYTES - 64);
    lay(s, a, g.transpose_a ? g.K : g.M, g.transpose_a ? g.M : g.K, g.a, 1);
    lay(s, b, g.transpose_b ? g.N : g.K, g.transpose_b ? g.K : g.N, g.b, 2);
    for (size_t i = 0; i < n; i++)
        wide[i] = i % (size_t)g.out.stride >= (size_t)g.N ? 7 : g.accumulate ? 0.5f : NAN;
    upload(s, to, wide, n, g.out.element == ELEMENT_FP32);
    product_run(s->k, to, a, b, g, FACTOR, s->stream);
    download(s, wide, to, n, g.out.element == ELEMENT_FP32);
    for (size_t i = 0; i < n; i++) {
        size_t row = i / (size_t)g.out.stride, column = i % (size_t)g.out.stride;
        if (column < (size_t)g.N)
            out[row * (size_t)g.N + column] = wide[i];
        else
            assert_true(wide[i] == 7);
    }
    free(wide);
    assert_int_equal(s->k->stream_wait(s->stream, NULL), STATUS_OK);
}

static double relative_error(const float *got, const float *want, size_t n)
{
    double error = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        error += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        norm += (double)want[i] * want[i];
    }
    return sqrt(error / norm);
}

enum { OUT_MAX = 4096 };

/* The CPU twin gets the same operands in fp32. */
static double error_of(struct side *cuda, struct side *cpu, struct gemm_shape g, size_t skew, int gap)
{
    static float got[OUT_MAX], want[OUT_MAX];
    cpu->precision = cuda->precision; /* of the drawn numbers */
    size_t n = (size_t)g.M * (size_t)g.N;
    assert_true(n <= OUT_MAX);
    multiply(cuda, g, skew, gap, got);
    size_t na = (size_t)g.M * (size_t)g.K, nb = (size_t)g.K * (size_t)g.N;
    float *a = malloc(na * sizeof *a), *b = malloc(nb * sizeof *b);
    assert_true(a && b);
    draw(a, na, 1, cuda->precision), draw(b, nb, 2, cuda->precision);
    for (size_t i = 0; i < n; i++) want[i] = g.accumulate ? 0.5f : NAN;
    product_run(cpu->k, want, a, b, product_shape(g, PRECISION_FP32, 0), FACTOR, cpu->stream);
    free(a), free(b);
    return relative_error(got, want, n);
}

/* The error allowed for rounding operands to 10 bits and out to bf16; sums are fp32 as on the CPU. */
static double tolerance(enum precision precision, bool accumulate)
{
    if (precision == PRECISION_TF32) return 1e-3;
    return precision == PRECISION_BF16 && !accumulate ? 3e-3 : 1e-5;
}

TEST_CASE(every_form_agrees_with_the_cpu)
{
    static const struct gemm_shape sizes[] = {{.M = 1, .N = 1, .K = 1},
                                              {.M = 5, .N = 7, .K = 11},
                                              {.M = 16, .N = 24, .K = 8},
                                              {.M = 17, .N = 8, .K = 70},
                                              {.M = 1, .N = 64, .K = 33}};
    for (int p = 0; p < PRECISIONS; p++) {
        struct side cuda, cpu;
        double largest = 0;
        open_side(&cpu, cpu_backend(), PRECISION_FP32);
        open_side(&cuda, cuda_plugin.table, (enum precision)p);
        for (int form = 0; form < 8 * 5 * 2; form++) {
            struct gemm_shape g = sizes[form / 8 % 5];
            g.transpose_a = form & 1, g.transpose_b = form & 2, g.accumulate = form & 4;
            if (form / 40)
                lend(&cuda);
            else
                cuda.k->workspace_lend(cuda.stream, NULL, 0);
            for (size_t skew = 0; skew <= 8; skew = skew ? skew * 2 : 1) { /* alignments of 2 to 16 bytes */
                int gap = skew == 2 ? 3 : skew == 8 ? 8 : 0;
                double error = error_of(&cuda, &cpu, g, skew, gap);
                if (!(error <= tolerance(cuda.precision, g.accumulate)))
                    fail_msg("%s (%d,%d,%d) form %d skew %zu: relative error %.3g",
                             precision_name(cuda.precision), g.M, g.N, g.K, form, skew, error);
                if (error > largest) largest = error;
            }
        }
        /* the expected rounding is there: else this was not the requested computation */
        assert_true(p == PRECISION_FP32 ? largest < 1e-6 : largest > 1e-4);
        close_side(&cuda);
        free_side(&cpu);
    }
}

/* ---- warming up ---- */

struct watcher {
    int reports, done, total, warnings, stop_at, fault_at; /* …_at: 0 never */
    char warning[512];
    struct side *side;
    void *scratch; /* what was asked for; NULL: nothing */
};

static bool on_progress(void *context, int done, int total)
{
    struct watcher *w = context;
    w->reports++;
    w->done = done;
    w->total = total;
    if (w->fault_at && done == w->fault_at) sim_set_machine(SIM_MACHINE_LAUNCH_FAULT);
    return !w->stop_at || done < w->stop_at;
}

static void on_warning(void *context, const char *sentence)
{
    struct watcher *w = context;
    w->warnings++;
    snprintf(w->warning, sizeof w->warning, "%s", sentence);
}

static enum status on_scratch(void *context, size_t bytes, void **out, struct err *err)
{
    struct watcher *w = context;
    enum status status = w->side->k->mem_alloc(w->side->device, bytes, &w->scratch, err);
    if (!status) *out = w->scratch;
    return status;
}

/* Wide: vector is fastest; long: split is. */
static const struct gemm_shape wide = {.M = 32, .N = 48, .K = 16, .transpose_b = true},
                               lengthy = {.M = 24, .N = 8, .K = 160, .transpose_a = true, .accumulate = true};

static enum status warm(struct side *s, struct watcher *w, struct err *err)
{
    struct gemm_shape shapes[] = {product_shape(wide, s->precision, 0),
                                  product_shape(lengthy, s->precision, 0)};
    struct warm_work work = {.products = shapes, .product_count = 2};
    struct warm_watch watch = {NULL, w, on_progress, on_warning, on_scratch};
    w->side = s;
    w->scratch = NULL;
    enum status status = s->k->warm(s->stream, &work, &watch, err);
    if (w->scratch) s->k->mem_free(s->device, w->scratch);
    return status;
}

static void warm_well(struct side *s, struct watcher *w)
{
    struct err err;
    struct watcher nobody = {0};
    if (warm(s, w ? w : &nobody, &err)) fail_msg("%s", err.text);
}

static const char *algorithm_of(struct side *s, struct gemm_shape g)
{
    static float out[OUT_MAX];
    multiply(s, g, 0, 0, out);
    return sim_last_algorithm();
}

TEST_CASE(the_fastest_that_adds_in_a_fixed_order_is_chosen)
{
    for (int p = 0; p < PRECISIONS; p++) {
        struct side s, cpu;
        struct watcher w = {0};
        open_side(&s, cuda_plugin.table, (enum precision)p);
        assert_string_equal(algorithm_of(&s, wide), "plain"); /* not warmed: the heuristics' first */
        warm_well(&s, &w);
        assert_true(w.reports == 3 && w.done == 2 && w.total == 2 && w.warnings == 0);
        lend(&s);
        assert_string_equal(algorithm_of(&s, wide), "vector");
        assert_string_equal(algorithm_of(&s, lengthy), "split");
        open_side(&cpu, cpu_backend(), PRECISION_FP32);
        assert_true(error_of(&s, &cpu, lengthy, 0, 0) <= tolerance(s.precision, true));
        free_side(&cpu);
        s.k->workspace_lend(s.stream, NULL, 0); /* taken back: what needs none */
        assert_string_equal(algorithm_of(&s, lengthy), "plain");
        close_side(&s);
    }
}

TEST_CASE(a_product_is_warmed_for_its_strides)
{
    static float out[OUT_MAX];
    struct side s;
    open_side(&s, cuda_plugin.table, PRECISION_FP32);
    warm_well(&s, NULL);
    lend(&s);
    uint64_t before = sim_heuristics();
    multiply(&s, wide, 0, 0, out);
    assert_int_equal(sim_heuristics(), before);
    multiply(&s, wide, 0, 4, out);
    assert_int_equal(sim_heuristics(), before + 1);
    close_side(&s);
}

TEST_CASE(elements_that_do_not_go_together_are_declined)
{
    for (int p = 0; p < PRECISIONS; p++)
        for (int which = 0; which < 3; which++) { /* one operand of another type than the stream's */
            struct gemm_shape g = product_shape((struct gemm_shape){.M = 2, .N = 2, .K = 2}, p, 0);
            enum element *of[] = {&g.a.element, &g.b.element, &g.out.element};
            struct side s;
            bool bf16 = p == PRECISION_BF16, sums = bf16 && which == 2; /* they may stay fp32 */
            *of[which] = bf16 ? ELEMENT_FP32 : ELEMENT_BF16;
            open_side(&s, cuda_plugin.table, (enum precision)p);
            s.k->mem_zero(s.a, 64, s.stream), s.k->mem_zero(s.b, 64, s.stream);
            product_run(s.k, s.out, s.a, s.b, g, 1, s.stream);
            assert_int_equal(s.k->stream_wait(s.stream, NULL), sums ? STATUS_OK : STATUS_DEVICE);
            close_side(&s);
        }
}

TEST_CASE(a_warmed_product_is_never_pushed_out)
{
    struct side s;
    open_side(&s, cuda_plugin.table, PRECISION_FP32);
    warm_well(&s, NULL), lend(&s);
    for (int m = 1; m <= 400; m++) algorithm_of(&s, (struct gemm_shape){.M = m, .N = 2, .K = 3});
    uint64_t before = sim_heuristics();
    assert_string_equal(algorithm_of(&s, wide), "vector");
    assert_string_equal(algorithm_of(&s, lengthy), "split");
    assert_int_equal(sim_heuristics(), before);
    algorithm_of(&s, (struct gemm_shape){.M = 1, .N = 2, .K = 3}); /* that one was */
    assert_int_equal(sim_heuristics(), before + 1);
    close_side(&s);
}

/* If anything has failed on the device, warming reports it and does nothing else. */
TEST_CASE(a_faulted_device_is_not_warmed)
{
    struct side s;
    struct err err;
    struct watcher w = {0};
    open_side(&s, cuda_plugin.table, PRECISION_FP32);
    s.k->mem_zero(s.out, 16, s.stream), s.k->mem_zero(s.a, 16, s.stream);
    sim_set_machine(SIM_MACHINE_LAUNCH_FAULT);
    s.k->add(s.out, s.a, 4, s.stream);
    assert_int_equal(warm(&s, &w, &err), STATUS_DEVICE);
    assert_non_null(strstr(err.text, "unspecified launch failure"));
    assert_int_equal(w.reports, 0);
    sim_set_machine(SIM_MACHINE_GOOD);
    close_side(&s);
}

/* Runs in its own process, as memory of a failed device is freed only when the process ends. */
TEST_CASE(a_fault_while_warming_is_a_sentence)
{
    struct side s;
    struct err err;
    struct watcher w = {.fault_at = 1};
    int status;
    open_side(&s, cuda_plugin.table, PRECISION_FP32);
    s.k->mem_zero(s.out, 16, s.stream), s.k->mem_zero(s.a, 16, s.stream);
    s.k->add(s.out, s.a, 4, s.stream);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool failed = warm(&s, &w, &err) == STATUS_DEVICE && w.done == 1;
        _exit(failed && strstr(err.text, "warming up failed: unspecified launch failure") ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close_side(&s);
}

TEST_CASE(warming_that_is_stopped_or_has_no_room_leaves_nothing)
{
    struct side s;
    struct err err;
    struct watcher w = {.stop_at = 1};
    open_side(&s, cuda_plugin.table, PRECISION_FP32);
    uint64_t bytes = sim_device_bytes();
    assert_int_equal(warm(&s, &w, &err), STATUS_INTERRUPTED);
    assert_int_equal(w.done, 1);
    sim_set_machine(SIM_MACHINE_FULL);
    w.stop_at = 0;
    assert_int_equal(warm(&s, &w, &err), STATUS_NO_MEMORY);
    assert_non_null(strstr(err.text, "MiB"));
    sim_set_machine(SIM_MACHINE_GOOD);
    assert_true(sim_device_bytes() == bytes && sim_events() == 0);
    close_side(&s);
}

/* ---- failing ---- */

/* The simulator ends the process if CUDA is called again. Each call has a stream without the error. */
TEST_CASE(a_lost_device_is_called_by_no_operation)
{
    struct side s;
    struct err err;
    struct event *from, *to;
    struct stream *of[7];
    open_side(&s, cuda_plugin.table, PRECISION_FP32);
    for (int i = 0; i < 7; i++)
        assert_int_equal(s.k->stream_open(s.device, s.precision, &of[i], &err), STATUS_OK);
    assert_int_equal(s.k->event_open(s.device, &from, &err), STATUS_OK);
    assert_int_equal(s.k->event_open(s.device, &to, &err), STATUS_OK);
    s.k->mem_zero(s.out, OPERAND_BYTES, s.stream), s.k->mem_zero(s.a, OPERAND_BYTES, s.stream);
    s.k->mem_zero(s.b, OPERAND_BYTES, s.stream);
    s.k->event_record(from, s.stream), s.k->event_record(to, s.stream);
    sim_set_machine(SIM_MACHINE_LAUNCH_FAULT);
    s.k->add(s.out, s.a, 4, s.stream);
    assert_true(isnan(s.k->event_elapsed(from, to))); /* gets the error; the stream does not */
    uint64_t launches = sim_launches(), products = sim_products(), heuristics = sim_heuristics();
    s.k->attention_forward(s.out, (float *)s.b, s.a, NULL, s.workspace, 1, 1, 1, 1, 4, 0, of[0]);
    s.k->add(s.out, s.a, 4, of[1]);
    product_dense(s.k, s.out, s.a, s.b, 1, 2, 3, false, false, false, of[2]);
    s.k->event_record(to, of[3]);
    s.k->stream_after(of[4], to);
    s.k->mem_copy(s.out, s.a, 16, of[5]);
    /* of[6] is not used at all */
    assert_true(sim_launches() == launches && sim_products() == products && sim_heuristics() == heuristics);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(s.k->stream_wait(of[i], &err), STATUS_DEVICE);
        assert_string_equal(err.text, "cuda: an earlier call failed: the device is lost");
        s.k->stream_close(of[i]);
    }
    s.k->event_close(from), s.k->event_close(to);
    sim_set_machine(SIM_MACHINE_GOOD);
    close_side(&s);
}

/* The stream has failed, but device memory keeps its contents, and another stream reads it. */
static void expect_declined(const char *machine, enum status status, const char *why)
{
    struct side s;
    struct err err;
    struct stream *failed;
    float before[6] = {1, 2, 3, 4, 5, 6}, after[6];
    open_side(&s, cuda_plugin.table, PRECISION_FP32);
    s.k->mem_upload(s.a, before, sizeof before, s.stream),
        s.k->mem_upload(s.b, before, sizeof before, s.stream);
    s.k->mem_upload(s.out, before, sizeof before, s.stream);
    sim_set_fault(machine);
    product_dense(s.k, s.out, s.a, s.b, 2, 2, 3, false, false, false, s.stream);
    uint64_t launches = sim_launches(), products = sim_products();
    product_dense(s.k, s.out, s.a, s.b, 2, 2, 3, false, false, false, s.stream);
    s.k->add(s.out, s.a, 4, s.stream);
    assert_true(sim_launches() == launches && sim_products() == products);
    assert_int_equal(s.k->stream_wait(s.stream, &err), status);
    assert_non_null(strstr(err.text, why));
    failed = s.stream;
    assert_int_equal(s.k->stream_open(s.device, PRECISION_FP32, &s.stream, &err), STATUS_OK);
    s.k->mem_download(after, s.out, sizeof after, s.stream);
    assert_memory_equal(after, before, sizeof before);
    s.k->add(s.out, s.a, 4, s.stream); /* which also sees no error */
    s.k->mem_download(after, s.out, sizeof after, s.stream);
    if (s.k->stream_wait(s.stream, &err)) fail_msg("%s", err.text);
    assert_true(after[3] == 8.0f);
    s.k->stream_close(failed);
    close_side(&s); /* and all of it is given back */
    sim_set_machine(SIM_MACHINE_GOOD);
}

TEST_CASE(a_product_that_fails_alone_leaves_the_device_in_use)
{
    expect_declined("no_room_at:1:cublasLtMatmul", STATUS_NO_MEMORY,
                    "cublasLtMatmul failed: (2,2) += (2,3)(3,2): an allocation failed");
    expect_declined("refused_at:1", STATUS_DEVICE,
                    "cublasLtMatmul failed: (2,2) += (2,3)(3,2): not supported");
    expect_declined("broken_at:1", STATUS_DEVICE,
                    "cublasLtMatmul failed: (2,2) += (2,3)(3,2): the execution failed");
}

/* ---- training ---- */

static uint64_t counted[4];

static void count(uint64_t out[4])
{
    out[0] = sim_heuristics(), out[1] = sim_descriptors(), out[2] = sim_mallocs(),
    out[3] = (uint64_t)sim_events();
}

static void expect_nothing_new(struct story *story)
{
    uint64_t now[4];
    count(now);
    if (memcmp(now, counted, sizeof now) != 0)
        fail_msg("step %d: %d heuristics, %d descriptors, %d allocations, %d events", story->step_count - 1,
                 (int)(now[0] - counted[0]), (int)(now[1] - counted[1]), (int)(now[2] - counted[2]),
                 (int)(now[3] - counted[3]));
}

/* The first step chooses none either, also with every option of the configuration switched on. */
TEST_CASE(no_step_chooses_or_allocates_anything)
{
    static const char *const plain[] = {"train.total_steps=3", "eval.every=1", "data.val_fraction=0.2",
                                        "eval.batches=2", NULL};
    static const char *const full[] = {"train.total_steps=3",    "model.qk_norm=true", "model.qkv_bias=true",
                                       "model.tie_weights=true", "train.dropout=0.1",  "train.optimizer=lion",
                                       "train.precision=tf32",   "train.seq_len=17",   NULL};
    static const char *const narrow[] = {"train.total_steps=3", "train.precision=bf16", NULL};
    const char *const *words[] = {plain, full, narrow};
    for (int i = 0; i < 3; i++) {
        struct session s;
        session_open(&s, "warm", cuda_plugin.table, words[i], 900);
        session_start(&s, false);
        count(counted);
        s.story.on_step = expect_nothing_new;
        assert_int_equal(session_run(&s), TRAIN_FINISHED);
        assert_int_equal(s.story.step_count, 3);
        session_close(&s);
    }
}

/* A sample's context grows by a token a pass: not every length may be a new product. */
TEST_CASE(samples_prepare_no_products)
{
    struct session s;
    static const char *const words[] = {"train.total_steps=2", "sample.every=1",     "sample.max_tokens=40",
                                        "train.seq_len=64",    "train.batch_size=1", NULL};
    session_open(&s, "sample", cuda_plugin.table, words, 900);
    session_start(&s, false);
    count(counted);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_int_equal(s.story.sample_count, 2);
    /* the prompt and every next token are few rows, which need no choice of an algorithm */
    assert_int_equal(sim_heuristics() - counted[0], 0);
    session_close(&s);
}

TEST_MAIN()
