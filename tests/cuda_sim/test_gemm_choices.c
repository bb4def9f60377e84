/* How the algorithms of matrix products are kept between processes: the file as it should be, damaged,
 * foreign, hostile, not writable, and written by several at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
/* cmocka wants the first three above */
#include <cmocka.h>

#include "core/base/file.h"
#include "kernels/device/cuda_plugin.h"
#include "kernels/gemm_choices.h"
#include "tests/core/network/rig.h"
#include "tests/cuda_sim/simulator.h"
#include "tests/kernels/product.h"

extern const struct cuda_plugin cuda_plugin;

struct watcher {
    int warnings;
    char warning[512]; /* the last */
    void (*at_end)(void);
    struct device *device;
    void *scratch; /* what was asked for; NULL: nothing */
};

static bool on_progress(void *context, int done, int total)
{
    struct watcher *w = context;
    if (done == total && w->at_end) w->at_end();
    return true;
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
    enum status status = cuda_plugin.table->mem_alloc(w->device, bytes, &w->scratch, err);
    if (!status) *out = w->scratch;
    return status;
}

/* `vector` is the fastest for the first, `plain` next; `split` for the second. */
static const struct gemm_shape products[] = {
    {.M = 32, .N = 48, .K = 16, .transpose_b = true},
    {.M = 24, .N = 8, .K = 160, .transpose_a = true, .accumulate = true}};

/* A process's life: opens a device, warms, multiplies, closes. Returns the first shape's algorithm. */
static const char *live(const char *folder, struct watcher *w)
{
    const struct backend *k = cuda_plugin.table;
    struct watcher nobody = {0};
    if (!w) w = &nobody;
    struct warm_watch watch = {folder, w, on_progress, on_warning, on_scratch};
    struct gemm_shape shapes[] = {product_shape(products[0], PRECISION_FP32, 0),
                                  product_shape(products[1], PRECISION_FP32, 0)};
    struct gemm_shape g = shapes[0];
    struct device *device = NULL;
    struct stream *stream = NULL;
    struct err err = {0};
    void *memory = NULL, *workspace = NULL;
    if (k->device_open(DEVICE_FIRST, 1, &device, &err) ||
        k->stream_open(device, PRECISION_FP32, &stream, &err))
        fail_msg("%s", err.text);
    w->device = device;
    if (k->warm(stream, shapes, 2, &watch, &err) || k->mem_alloc(device, 16384, &memory, &err) ||
        k->mem_alloc(device, k->gemm_workspace(device), &workspace, &err))
        fail_msg("%s", err.text);
    k->mem_zero(memory, 16384, stream);
    k->gemm_lend(stream, workspace, k->gemm_workspace(device));
    unsigned char *at = memory;
    product_run(k, at, at + 8192, at + 12288, g, stream);
    if (k->stream_wait(stream, &err)) fail_msg("%s", err.text);
    const char *algorithm = sim_last_algorithm();
    k->mem_free(device, memory), k->mem_free(device, workspace), k->mem_free(device, w->scratch);
    k->stream_close(stream), k->device_close(device);
    return algorithm;
}

#define FILE_NAME "gemm-CUDA-simulator-9.0-1-130100"

/* An empty folder and the path of the choices in it; both yours to free. */
static char *fresh_folder(const char *name, char **path)
{
    char *folder = rig_path(name);
    assert_int_equal(file_remove_tree(folder, NULL), STATUS_OK);
    assert_true(asprintf(path, "%s/" FILE_NAME, folder) > 0);
    return folder;
}

static unsigned char *read_file(const char *path, size_t *size)
{
    struct file_map map;
    struct err err;
    if (file_map_open(path, &map, &err)) fail_msg("%s", err.text);
    unsigned char *copy = malloc(map.size);
    assert_non_null(copy);
    memcpy(copy, map.data, *size = map.size);
    file_map_close(&map);
    return copy;
}

static void a_choice_is_the_same_in_the_next_process(void **state)
{
    (void)state;
    char *path, *folder = fresh_folder("kept", &path);
    size_t size, again;
    struct watcher w = {0};
    sim_slow_down("vector"); /* today something else is faster */
    assert_string_equal(live(folder, &w), "plain");
    sim_slow_down(NULL);
    unsigned char *before = read_file(path, &size);
    uint64_t asked = sim_heuristics();
    assert_string_equal(live(folder, &w), "plain");
    assert_int_equal(sim_heuristics(), asked); /* nothing was chosen anew */
    unsigned char *after = read_file(path, &again);
    assert_true(size == again && memcmp(before, after, size) == 0 && w.warnings == 0);
    sim_set_blas_version(130200); /* another library: another file */
    assert_string_equal(live(folder, &w), "vector");
    sim_set_blas_version(130100);
    assert_string_equal(live(folder, &w), "plain");
    free(before), free(after), free(path), free(folder);
}

/* Whatever the file holds: warming works, says so once, and leaves a good file. */
static void expect_recovery(const char *folder, const char *path, const void *bytes, size_t size,
                            const char *sentence)
{
    struct watcher w = {0}, next = {0};
    struct err err;
    if (file_write_atomic(path, bytes, size, &err)) fail_msg("%s", err.text);
    assert_string_equal(live(folder, &w), "vector");
    if (w.warnings != 1 || !strstr(w.warning, sentence))
        fail_msg("%d warnings, the last \"%s\", not \"%s\"", w.warnings, w.warning, sentence);
    assert_string_equal(live(folder, &next), "vector");
    assert_int_equal(next.warnings, 0);
}

static void a_damaged_file_is_measured_anew(void **state)
{
    (void)state;
    char *path, *folder = fresh_folder("damaged", &path);
    size_t size;
    live(folder, NULL);
    unsigned char *good = read_file(path, &size);
    expect_recovery(folder, path, good, 0, "is damaged: its size is 0 bytes");
    expect_recovery(folder, path, good, 100, "is damaged: its size is 100 bytes");
    expect_recovery(folder, path, good, size - 1, "its size does not fit its header");
    for (size_t at = 0; at < size; at += at < 8 ? 7 : 23) { /* the magic, then everywhere */
        unsigned char *bad = malloc(size);
        assert_non_null(bad);
        memcpy(bad, good, size);
        bad[at] ^= 0x10;
        bool count = at >= 200 && at < 208; /* of the records */
        expect_recovery(folder, path, bad, size,
                        at < 8  ? "is not a file of matrix products' algorithms"
                        : count ? "its size does not fit its header"
                                : "its checksum is wrong");
        free(bad);
    }
    free(good), free(path), free(folder);
}

static struct gemm_key small_key(int M, int N)
{
    return (struct gemm_key){
        .M = M, .N = N, .K = 1, .out_stride = N, .a_stride = 1, .b_stride = N, .alignment = 4};
}

static void a_file_of_another_device_is_measured_anew(void **state)
{
    (void)state;
    char *path, *folder = fresh_folder("foreign", &path);
    size_t size;
    struct gemm_choices choices;
    struct gemm_choice choice = {.key = small_key(1, 1)};
    struct err err;
    assert_int_equal(gemm_choices_open(&choices, path, "NVIDIA Something", &err), STATUS_OK);
    assert_int_equal(gemm_choices_set(&choices, &choice, &err), STATUS_OK);
    assert_int_equal(gemm_choices_save(&choices, path, "NVIDIA Something", &err), STATUS_OK);
    gemm_choices_close(&choices);
    unsigned char *foreign = read_file(path, &size);
    expect_recovery(folder, path, foreign, size, "was measured on another device or with another cuBLASLt");
    free(foreign), free(path), free(folder);
}

/* The file is sound, but an algorithm in it is not known to cuBLASLt, cannot run, or adds up in no fixed
 * order: it is replaced, and only it. */
static void an_algorithm_that_cannot_run_is_replaced(void **state)
{
    (void)state;
    char *path, *folder = fresh_folder("refused", &path);
    static const char identity[] =
        "CUDA simulator, compute capability 9.0, 1 multiprocessors, cublasLt 130100";
    struct gemm_choices choices;
    struct err err;
    for (int kind = 0; kind < 3; kind++) {
        unlink(path);
        sim_slow_down("vector");
        live(folder, NULL);
        sim_slow_down(NULL);
        if (gemm_choices_open(&choices, path, identity, &err)) fail_msg("%s", err.text);
        assert_int_equal(choices.count, 2);
        int i = choices.at[0].key.K == products[0].K ? 0 : 1;
        struct gemm_choice other = choices.at[1 - i], bad = choices.at[i];
        uint32_t *words = (uint32_t *)bad.algorithm; /* see blas.cc */
        if (kind == 0) memset(words, 0xa5, sizeof bad.algorithm);
        if (kind == 1) words[1] = 2;               /* broken */
        if (kind == 2) words[1] = 4, words[6] = 1; /* racing */
        assert_int_equal(gemm_choices_set(&choices, &bad, &err), STATUS_OK);
        assert_int_equal(gemm_choices_save(&choices, path, identity, &err), STATUS_OK);
        gemm_choices_close(&choices);
        assert_string_equal(live(folder, NULL), "vector");
        if (gemm_choices_open(&choices, path, identity, &err)) fail_msg("%s", err.text);
        assert_int_equal(choices.count, 2);
        assert_memory_equal(gemm_choices_find(&choices, &other.key), &other, sizeof other);
        gemm_choices_close(&choices);
        uint64_t asked = sim_heuristics();
        assert_string_equal(live(folder, NULL), "vector");
        assert_int_equal(sim_heuristics(), asked);
    }
    free(path), free(folder);
}

static void a_folder_that_cannot_be_written_costs_a_warning(void **state)
{
    (void)state;
    char *path, *folder = fresh_folder("unwritable", &path), *inside;
    struct watcher w = {0};
    rig_write(folder, "a file", 6); /* where the folder should be */
    assert_true(asprintf(&inside, "%s/below", folder) > 0);
    assert_string_equal(live(inside, &w), "vector");
    assert_int_equal(w.warnings, 1);
    assert_non_null(strstr(w.warning, "is not kept, and a resumed run may round differently"));
    free(inside), free(path), free(folder);
}

static char *race_folder;
static pid_t second;

/* While the first one measures, another begins, on which another algorithm would be the fastest. */
static void begin_another(void)
{
    if (second == 0 && (second = fork()) == 0) {
        struct watcher w = {0};
        sim_slow_down("vector");
        _exit(strcmp(live(race_folder, &w), "vector") == 0 ? 0 : 1);
    }
}

static void of_two_processes_the_first_to_measure_decides(void **state)
{
    (void)state;
    char *path;
    int status;
    struct watcher w = {.at_end = begin_another};
    race_folder = fresh_folder("race", &path);
    assert_string_equal(live(race_folder, &w), "vector");
    assert_true(waitpid(second, &status, 0) == second && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    free(path), free(race_folder);
}

static void processes_that_write_at_once_lose_nothing(void **state)
{
    (void)state;
    enum { WRITERS = 3, EACH = 12 };
    char *path, *folder = fresh_folder("writers", &path);
    struct gemm_choices all;
    struct err err;
    int status;
    for (int writer = 0; writer < WRITERS; writer++) {
        if (fork() != 0) continue;
        for (int i = 0; i < EACH; i++) {
            struct gemm_choices one;
            struct gemm_choice choice = {.key = small_key(writer + 1, i + 1)};
            if (gemm_choices_open(&one, path, "x", &err) || gemm_choices_set(&one, &choice, &err) ||
                gemm_choices_save(&one, path, "x", &err))
                _exit(1);
            gemm_choices_close(&one);
        }
        _exit(0);
    }
    for (int writer = 0; writer < WRITERS; writer++) {
        assert_true(wait(&status) > 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    if (gemm_choices_open(&all, path, "x", &err)) fail_msg("%s", err.text);
    assert_int_equal(all.count, WRITERS * EACH);
    gemm_choices_close(&all);
    free(path), free(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_choice_is_the_same_in_the_next_process),
        cmocka_unit_test(a_damaged_file_is_measured_anew),
        cmocka_unit_test(a_file_of_another_device_is_measured_anew),
        cmocka_unit_test(an_algorithm_that_cannot_run_is_replaced),
        cmocka_unit_test(a_folder_that_cannot_be_written_costs_a_warning),
        cmocka_unit_test(of_two_processes_the_first_to_measure_decides),
        cmocka_unit_test(processes_that_write_at_once_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
