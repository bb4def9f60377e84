/* The CPU device itself: opening, describing, memory, the choice of instruction set, and that no operation
 * allocates once it has been called. */
#include <ctype.h>
#include <errno.h>
#include <omp.h>
#include <stdatomic.h>

#include "kernels/device/cpu.h"
#include "kernels/linear_cross_entropy.h"
#include "tests/cmocka.h"
#include "tests/kernels/check.h"
#include "tests/kernels/product.h"

/* Sanitizers replace malloc themselves, and LLVM's OpenMP runtime, which clang links, allocates in every
 * region. */
#if defined(__SANITIZE_ADDRESS__) || defined(__clang__)
#define COUNTING 0
#else
#define COUNTING 1
#endif

static atomic_long allocations;

#if COUNTING
/* Every allocation of this process, libraries included, comes through here. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    atomic_fetch_add(&allocations, 1);
    *out = __libc_memalign(alignment, bytes);
    return *out != NULL ? 0 : ENOMEM;
}
#endif

TEST_CASE(bad_thread_counts_are_refused_in_a_sentence)
{
    struct err err;
    struct device *device = NULL;
    assert_int_equal(cpu_backend()->device_open(1, 0, &device, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "there is no CPU 1"));
    assert_int_equal(cpu_backend()->device_open(DEVICE_FIRST, -1, &device, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "-1 threads"));
    assert_int_equal(cpu_backend()->device_open(DEVICE_FIRST, 100000, &device, &err), STATUS_USAGE);
    assert_null(device);
}

TEST_CASE(device_describes_itself)
{
    struct err err;
    struct device *device;
    struct device_info info;
    assert_int_equal(cpu_backend()->device_open(DEVICE_FIRST, 3, &device, &err), STATUS_OK);
    cpu_backend()->device_describe(device, &info);
    const char *words = strstr(info.name, ", 3 threads, "); /* before them the processor */
    assert_true(words && words >= info.name + 3);           /* "CPU", if it is not known */
    for (const char *c = info.name; c < words; c++) assert_true(isprint((unsigned char)*c));
    assert_string_equal(info.short_name, "cpu");
    assert_true(info.total_bytes > 1 << 20);
    cpu_backend()->device_close(device);
}

TEST_CASE(memory_is_aligned_zeroed_and_copied)
{
    struct check_target t;
    struct err err;
    check_open(&t, "baseline", 2);
    enum { BYTES = 200003 };
    unsigned char *host = malloc(BYTES), *back = malloc(BYTES);
    void *memory = NULL, *copy = NULL;
    assert_int_equal(t.backend->mem_alloc(t.device, BYTES, &memory, &err), STATUS_OK);
    assert_int_equal((uintptr_t)memory % 256, 0);
    for (int i = 0; i < BYTES; i++) host[i] = (unsigned char)(i * 7);
    t.backend->mem_upload(memory, host, BYTES, t.stream);
    t.backend->mem_download(back, memory, BYTES, t.stream);
    assert_memory_equal(host, back, BYTES);
    assert_int_equal(t.backend->mem_alloc(t.device, BYTES, &copy, &err), STATUS_OK);
    t.backend->mem_zero(copy, BYTES, t.stream);
    t.backend->mem_copy(copy, memory, BYTES - 1, t.stream);
    t.backend->mem_download(back, copy, BYTES, t.stream);
    assert_memory_equal(host, back, BYTES - 1);
    assert_int_equal(back[BYTES - 1], 0);
    t.backend->mem_free(t.device, copy);
    t.backend->mem_zero(memory, BYTES - 1, t.stream);
    t.backend->mem_download(back, memory, BYTES, t.stream);
    for (int i = 0; i < BYTES - 1; i++) assert_int_equal(back[i], 0);
    assert_int_equal(back[BYTES - 1], host[BYTES - 1]);
    t.backend->mem_free(t.device, memory);
    free(host), free(back);
    check_close(&t);
}

TEST_CASE(events_measure_what_lies_between_them)
{
    struct check_target t;
    struct err err;
    struct event *marks[3];
    enum { BYTES = 1 << 20 };
    static unsigned char from[BYTES], to[BYTES];
    check_open(&t, "baseline", 1);
    for (int i = 0; i < 3; i++) assert_int_equal(t.backend->event_open(t.device, &marks[i], &err), STATUS_OK);
    t.backend->event_record(marks[0], t.stream);
    t.backend->mem_copy(to, from, BYTES, t.stream);
    t.backend->event_record(marks[1], t.stream);
    t.backend->mem_copy(to, from, BYTES, t.stream);
    t.backend->event_record(marks[2], t.stream);
    double first = t.backend->event_elapsed(marks[0], marks[1]),
           both = t.backend->event_elapsed(marks[0], marks[2]);
    assert_true(first > 0 && both > first);
    t.backend->event_record(marks[0], t.stream); /* a mark made again is the later one */
    assert_true(t.backend->event_elapsed(marks[2], marks[0]) > 0);
    for (int i = 0; i < 3; i++) t.backend->event_close(marks[i]);
    check_close(&t);
}

TEST_CASE(impossible_memory_is_an_error_with_the_size)
{
    if (!COUNTING) skip(); /* the sanitizer ends the process instead of returning NULL */
    struct check_target t;
    struct err err;
    void *memory = NULL;
    check_open(&t, "baseline", 1);
    assert_int_equal(t.backend->mem_alloc(t.device, (size_t)1 << 60, &memory, &err), STATUS_NO_MEMORY);
    assert_non_null(strstr(err.text, "iB"));
    assert_int_equal(t.backend->mem_alloc(t.device, SIZE_MAX, &memory, &err), STATUS_NO_MEMORY);
    assert_null(memory);
    check_close(&t);
}

static enum precision best_with(const char *isa)
{
    struct device_info info;
    struct device *device = NULL;
    struct err err = {0};
    setenv("ANNEAL_CPU_ISA", isa, 1);
    assert_int_equal(cpu_backend()->device_open(DEVICE_FIRST, 1, &device, &err), STATUS_OK);
    cpu_backend()->device_describe(device, &info);
    cpu_backend()->device_close(device);
    unsetenv("ANNEAL_CPU_ISA");
    return info.best;
}

TEST_CASE(bf16_is_the_default_where_dot_products_are_used)
{
    assert_int_equal(best_with("baseline"), PRECISION_FP32);
    if (cpu_backend_for("v4-bf16")) assert_int_equal(best_with("v4-bf16"), PRECISION_FP32);
    if (cpu_backend_for("v4-dot")) assert_int_equal(best_with("v4-dot"), PRECISION_BF16);
}

TEST_CASE(environment_chooses_the_instruction_set)
{
    setenv("ANNEAL_CPU_ISA", "baseline", 1);
    assert_string_equal(cpu_isa(), "baseline");
    assert_ptr_equal(cpu_backend(), cpu_backend_for("baseline"));
    setenv("ANNEAL_CPU_ISA", "no such thing", 1);
    assert_non_null(cpu_backend());
    unsetenv("ANNEAL_CPU_ISA");
    const char *best = cpu_backend_for("v4") != NULL   ? "v4"
                       : cpu_backend_for("v3") != NULL ? "v3"
                                                       : "baseline";
    assert_memory_equal(cpu_isa(), best, strlen(best)); /* or v4-bf16, v4-dot */
    if (cpu_backend_for("v4-dot")) {
        setenv("ANNEAL_CPU_ISA", "v4-dot", 1);
        assert_int_equal(cpu_product_way(), WAY_DOTS);
        setenv("ANNEAL_CPU_ISA", "v4", 1);
        assert_int_equal(cpu_product_way(), WAY_FMA);
        assert_false(cpu_has_bf16());
        setenv("ANNEAL_CPU_ISA", "v4-bf16", 1);
        assert_int_equal(cpu_product_way(), WAY_FMA);
        assert_true(cpu_has_bf16());
        unsetenv("ANNEAL_CPU_ISA");
    }
    assert_null(cpu_backend_for("no such thing"));
}

/* One call of every operation, as a training step makes them; buffers are big enough for all. */
static void call_everything(const struct check_target *t, float *f[8], int32_t *tokens, void *workspace)
{
    const struct backend *k = t->backend;
    enum {
        B = 2,
        T = 70,
        N = B * T,
        NH = 4,
        NKV = 2,
        HS = 16,
        C = NH * HS,
        F = 96,
        V = 333,
        ROWS = 4,
        LENGTH = 300
    };
    static const int32_t slots[ROWS] = {0, 2, 2, 1}, positions[ROWS] = {5, 298, 299, 0};
    struct step_control control = {.seed = 1, .step = 2, .micro_batch = 3, .loss_scale = 1, .lr = 1e-3f};
    const struct dropout_site site = {&control, 4, 0, 0};
    struct clip_state clip = {1, 1, 0};
    struct optimizer_params adamw = {0.9, 0.95, 1e-8f};
    struct optimizer_params lion = {0.9f, 0.99f, 0};
    struct update_range all = {N * C, 1, 0.1f};
    double total;
    k->mem_zero(f[7], 4096, t->stream);
    k->embedding_forward(f[0], tokens, matrix_view(f[1], ELEMENT_FP32, C), N, V, C, t->stream);
    k->embedding_backward(f[1], f[0], tokens, workspace, N, V, C, t->stream);
    k->rmsnorm_forward(f[0], f[7], f[1], f[2], N, C, 1e-5f, t->stream);
    k->rmsnorm_residual_forward(f[0], f[3], f[7], f[1], f[4], f[2], N, C, 1e-5f, t->stream);
    k->rmsnorm_backward(f[0], f[2], f[5], f[3], f[1], f[4], f[7], workspace, N, C, t->stream);
    k->rope(f[0], f[5], NULL, B, T, NH, NKV, HS, false, t->stream);
    k->rope(f[0], f[5], NULL, B, T, NH, NKV, HS, true, t->stream);
    k->qk_norm_rope_forward(f[0], f[7], f[1], f[2], f[3], f[5], NULL, B, T, NH, NKV, HS, 1e-5f, t->stream);
    k->qk_norm_rope_backward(f[0], f[2], f[3], f[1], f[7], f[4], f[4], f[5], NULL, workspace, B, T, NH, NKV,
                             HS, t->stream);
    k->attention_forward(f[0], f[7], f[1], NULL, workspace, B, T, NH, NKV, HS, 0, t->stream);
    k->attention_backward(f[2], f[3], f[0], f[7], f[1], NULL, f[5], workspace, B, T, NH, NKV, HS, 0,
                          t->stream);
    k->cache_store(f[2], f[3], f[1], slots, positions, ROWS, LENGTH, NH, NKV, HS, t->stream);
    k->attention_cached(f[0], f[1], f[2], f[3], slots, positions, workspace, ROWS, LENGTH, LENGTH, NH, NKV,
                        HS, 0, t->stream);
    k->swiglu_forward(f[0], f[1], N, F, t->stream);
    k->swiglu_backward(f[2], f[0], f[0], f[1], N, F, t->stream);
    k->bias_forward(f[0], f[1], N, C, C, t->stream);
    k->bias_backward(f[1], f[0], workspace, N, C, C, t->stream);
    k->add(f[0], f[1], N * C, t->stream);
    k->dropout(f[0], N * C, 0.5f, site, t->stream);
    product_dense(k, f[0], f[1], f[2], N, F, C, false, true, false, t->stream);
    k->gemm_few_rows(matrix_view(f[0], ELEMENT_FP32, F), matrix_view(f[1], ELEMENT_FP32, C),
                     matrix_view(f[2], ELEMENT_FP32, C), FEW_ROWS_MAX, F, C, t->stream);
    k->nf4_dequantise(f[0], f[6], N * C, false, t->stream);
    k->nf4_dequantise(f[0], f[6], N * C, true, t->stream);
    product_dense(k, f[0], f[1], f[2], 1, F, C, false, false, true, t->stream);
    product_dense(k, f[0], f[1], f[2], C, F, N, true, false, true, t->stream);
    linear_cross_entropy(k, f[0], f[1], f[2], f[3], matrix_view(f[4], ELEMENT_FP32, C), tokens, NULL,
                         &control, 32, true, matrix_view(f[5], ELEMENT_FP32, V), N, C, V, t->stream);
    linear_cross_entropy(k, f[0], NULL, NULL, f[3], matrix_view(f[4], ELEMENT_FP32, C), tokens, NULL, NULL,
                         32, true, matrix_view(f[5], ELEMENT_FP32, V), N, C, V, t->stream);
    k->sum(&total, f[0], N * C, false, workspace, t->stream);
    k->sum_of_squares(&total, f[0], N * C, workspace, t->stream);
    k->clip_norm(&clip, &total, &total, &control, 1.0f, t->stream);
    k->adamw_step(f[0], f[0], f[1], f[2], f[3], N * C, &all, 1, adamw, &control, &clip, t->stream);
    k->lion_step(f[0], f[0], f[1], NULL, f[2], N * C, &all, 1, lion, &control, &clip, t->stream);
}

static void no_allocation_body(const struct check_target *t)
{
    enum { FLOATS = 40000 };
    float *f[8];
    for (uint32_t i = 0; i < 8; i++) f[i] = check_random(FLOATS, i, 1);
    int32_t *tokens = check_tokens(140, 333, 9);
    void *workspace = check_workspace(attention_workspace(2, 70, 4, 2, 16) + 140 * 333 * sizeof(float));
    call_everything(t, f, tokens, workspace);
    long before = atomic_load(&allocations);
    for (int i = 0; i < 3; i++) call_everything(t, f, tokens, workspace);
    assert_int_equal(atomic_load(&allocations) - before, 0);
    for (int i = 0; i < 8; i++) free(f[i]);
    free(tokens), free(workspace);
}

TEST_CASE(no_operation_allocates_after_its_first_call)
{
    if (!COUNTING) skip();
    void *volatile probe = malloc(1); /* the counter counts */
    assert_true(atomic_load(&allocations) > 0);
    free(probe);
    check_each_isa(2, no_allocation_body);
    check_each_isa(1, no_allocation_body);
}

TEST_MAIN()
