/* The file that stores the algorithms of matrix products between processes: intact, damaged, hostile, not
 * writable, and used by two processes at once. */
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file.h"
#include "kernels/device/cuda_plugin.h"
#include "tests/cmocka.h"
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

/* Acts as one process: opens a device, warms up, multiplies, closes. Returns the first shape's algorithm. */
static const char *live(const char *folder, struct watcher *w)
{
    const struct backend *k = cuda_plugin.table;
    struct watcher nobody = {0};
    if (!w) w = &nobody;
    struct warm_watch watch = {folder, w, on_progress, on_warning, on_scratch};
    struct gemm_shape shapes[] = {product_shape(products[0], PRECISION_FP32, 0),
                                  product_shape(products[1], PRECISION_FP32, 0)};
    struct warm_work work = {.products = shapes, .product_count = 2};
    struct gemm_shape g = shapes[0];
    struct device *device = NULL;
    struct stream *stream = NULL;
    struct err err = {0};
    void *memory = NULL, *workspace = NULL;
    if (k->device_open(DEVICE_FIRST, 1, &device, &err) ||
        k->stream_open(device, PRECISION_FP32, &stream, &err))
        fail_msg("%s", err.text);
    w->device = device;
    if (k->warm(stream, &work, &watch, &err) || k->mem_alloc(device, 16384, &memory, &err) ||
        k->mem_alloc(device, k->library_workspace(device, NULL), &workspace, &err))
        fail_msg("%s", err.text);
    k->mem_zero(memory, 16384, stream);
    k->workspace_lend(stream, workspace, k->library_workspace(device, NULL));
    unsigned char *at = memory;
    product_run(k, at, at + 8192, at + 12288, g, 1, stream);
    if (k->stream_wait(stream, &err)) fail_msg("%s", err.text);
    const char *algorithm = sim_last_algorithm();
    k->mem_free(device, memory), k->mem_free(device, workspace), k->mem_free(device, w->scratch);
    k->stream_close(stream), k->device_close(device);
    return algorithm;
}

#define FILE_NAME "gemm4-CUDA-simulator-9.0-1-130100"

/* A record of the file: the product, with M, N and K first, and its algorithm. */
enum { KEY_BYTES = 40, RECORD_BYTES = KEY_BYTES + 64 };

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

TEST_CASE(a_choice_is_the_same_in_the_next_process)
{
    char *path, *folder = fresh_folder("kept", &path);
    size_t size, again;
    struct watcher w = {0};
    sim_slow_down("vector"); /* today something else is faster */
    assert_string_equal(live(folder, &w), "plain");
    sim_slow_down(NULL);
    unsigned char *before = read_file(path, &size);
    uint64_t asked = sim_heuristics();
    assert_string_equal(live(folder, &w), "plain");
    assert_int_equal(sim_heuristics(), asked); /* nothing was chosen again */
    unsigned char *after = read_file(path, &again);
    assert_true(size == again && memcmp(before, after, size) == 0 && w.warnings == 0);
    sim_set_blas_version(130200); /* another library: another file */
    assert_string_equal(live(folder, &w), "vector");
    sim_set_blas_version(130100);
    assert_string_equal(live(folder, &w), "plain");
    free(before), free(after), free(path), free(folder);
}

TEST_CASE(measuring_waits_for_streams_that_run_late)
{
    sim_set_late(true);
    assert_string_equal(live(NULL, NULL), "vector");
    sim_set_late(false);
}

static enum status no_scratch(void *context, size_t bytes, void **out, struct err *err)
{
    (void)context, (void)bytes, (void)out;
    return err_set(err, STATUS_NO_MEMORY, "no scratch");
}

TEST_CASE(without_scratch_nothing_is_measured)
{
    const struct backend *k = cuda_plugin.table;
    struct watcher w = {0};
    struct warm_watch watch = {NULL, &w, on_progress, on_warning, no_scratch};
    struct gemm_shape shape = product_shape(products[0], PRECISION_FP32, 0);
    struct warm_work work = {.products = &shape, .product_count = 1};
    struct device *device = NULL;
    struct stream *stream = NULL;
    struct err err;
    if (k->device_open(DEVICE_FIRST, 1, &device, &err) ||
        k->stream_open(device, PRECISION_FP32, &stream, &err))
        fail_msg("%s", err.text);
    uint64_t before = sim_products();
    assert_int_equal(k->warm(stream, &work, &watch, &err), STATUS_NO_MEMORY);
    assert_string_equal(err.text, "no scratch");
    assert_int_equal(sim_products(), before);
    assert_int_equal(k->stream_wait(stream, &err), STATUS_OK);
    k->stream_close(stream), k->device_close(device);
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    struct err err;
    if (file_write_atomic(path, bytes, size, &err)) fail_msg("%s", err.text);
}

/* Whatever the file contains, warming works without a warning and leaves a file that is complete for the next
 * process. */
TEST_CASE(a_damaged_file_is_measured_anew)
{
    char *path, *folder = fresh_folder("damaged", &path);
    size_t size, again;
    struct watcher w = {0};
    live(folder, NULL);
    unsigned char *good = read_file(path, &size);
    assert_int_equal(size, 2 * RECORD_BYTES);
    for (size_t at = 0; at < size; at += 23) {
        unsigned char *bad = malloc(size);
        assert_non_null(bad);
        memcpy(bad, good, size);
        bad[at] ^= 0x10;
        write_file(path, bad, at % 2 ? at : size); /* cut off there, or all of it */
        assert_string_equal(live(folder, &w), "vector");
        uint64_t asked = sim_heuristics();
        assert_string_equal(live(folder, &w), "vector");
        assert_int_equal(sim_heuristics(), asked);
        free(read_file(path, &again));
        assert_int_equal(again % RECORD_BYTES, 0);
        assert_int_equal(w.warnings, 0);
        free(bad);
    }
    free(good), free(path), free(folder);
}

/* The file is sound, but an algorithm in it is not known to cuBLASLt, cannot run, or adds up in no fixed
 * order: it is replaced, and only it. */
TEST_CASE(an_algorithm_that_cannot_run_is_replaced)
{
    char *path, *folder = fresh_folder("refused", &path);
    size_t size, again;
    for (int kind = 0; kind < 3; kind++) {
        unlink(path);
        sim_slow_down("vector");
        live(folder, NULL);
        sim_slow_down(NULL);
        unsigned char *bytes = read_file(path, &size);
        assert_int_equal(size, 2 * RECORD_BYTES);
        int32_t M;
        memcpy(&M, bytes, sizeof M);
        size_t at = M == products[0].M ? 0 : RECORD_BYTES;
        uint32_t *words = (uint32_t *)(bytes + at + KEY_BYTES); /* see blas.cc */
        if (kind == 0) memset(words, 0xa5, RECORD_BYTES - KEY_BYTES);
        if (kind == 1) words[1] = 2;               /* broken */
        if (kind == 2) words[1] = 4, words[6] = 1; /* racing */
        write_file(path, bytes, size);
        assert_string_equal(live(folder, NULL), "vector");
        unsigned char *after = read_file(path, &again);
        assert_int_equal(again, size);
        assert_memory_equal(after + RECORD_BYTES - at, bytes + RECORD_BYTES - at, RECORD_BYTES);
        assert_memory_equal(after + at, bytes + at, KEY_BYTES);
        assert_memory_not_equal(after + at + KEY_BYTES, words, RECORD_BYTES - KEY_BYTES);
        uint64_t asked = sim_heuristics();
        assert_string_equal(live(folder, NULL), "vector");
        assert_int_equal(sim_heuristics(), asked);
        free(bytes), free(after);
    }
    free(path), free(folder);
}

TEST_CASE(a_folder_that_cannot_be_written_costs_a_warning)
{
    char *path, *folder = fresh_folder("unwritable", &path), *inside;
    struct watcher w = {0};
    rig_write(folder, "a file", 6); /* where the folder should be */
    assert_true(asprintf(&inside, "%s/below", folder) > 0);
    assert_string_equal(live(inside, &w), "vector");
    assert_int_equal(w.warnings, 1);
    assert_non_null(strstr(w.warning, "is not stored, so a resumed run may round differently"));
    free(inside), free(path), free(folder);
}

static char *race_folder;
static pid_t second;

/* While the first process measures, a second one starts, for which another algorithm is the fastest. */
static void begin_another(void)
{
    if (second == 0 && (second = fork()) == 0) {
        struct watcher w = {0};
        sim_slow_down("vector");
        _exit(strcmp(live(race_folder, &w), "vector") == 0 ? 0 : 1);
    }
}

TEST_CASE(of_two_processes_the_first_to_measure_decides)
{
    char *path;
    int status;
    struct watcher w = {.at_end = begin_another};
    race_folder = fresh_folder("race", &path);
    assert_string_equal(live(race_folder, &w), "vector");
    assert_true(waitpid(second, &status, 0) == second && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    free(path), free(race_folder);
}

TEST_MAIN()
