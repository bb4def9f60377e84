/* Bugs planted on purpose: the simulator, which tests the CUDA operations, must find each and report where it
 * is. */
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/device/cuda_plugin.h"
#include "tests/cmocka.h"
#include "tests/cuda_sim/child.h"
#include "tests/cuda_sim/planted.h"
#include "tests/cuda_sim/simulator.h"
#include "tests/gpu/op_cases.h"

extern const struct cuda_plugin cuda_plugin;

static struct op_side side;

static int open_side(void **state)
{
    struct err err;
    (void)state;
    sim_set_capability(8, 6); /* with the least shared memory */
    return (int)op_side_open(&side, cuda_plugin.table, PRECISION_FP32, &err);
}

static int close_side(void **state)
{
    (void)state;
    op_side_close(&side);
    return 0;
}

static void run_planted(int bug)
{
    struct err err;
    float host[64], back[64];
    void *x;
    for (int i = 0; i < 64; i++) host[i] = (float)i;
    if (side.backend->mem_alloc(side.device, sizeof host, &x, &err)) _exit(1);
    side.backend->mem_upload(x, host, sizeof host, side.stream);
    planted_run((enum planted)bug, x, side.stream);
    side.backend->mem_download(back, x, sizeof back, side.stream);
    for (int i = 0; i < 64; i++)
        if (back[i] != host[63 - i]) _exit(2);
}

/* The longest report of a sanitizer, and the line that follows it. */
static char said[65536];

static void expect_found(enum planted bug, const char *where, const char *what)
{
    int status = child_run(run_planted, (int)bug, said, sizeof said);
    if (status != SIM_FAILURE_STATUS || !strstr(said, where) || !strstr(said, what))
        fail_msg("exit status %d, wanted \"%s\" and \"%s\" in: %s", status, where, what, said);
}

TEST_CASE(a_kernel_without_a_bug_passes)
{
    assert_int_equal(child_run(run_planted, PLANTED_NOTHING, said, sizeof said), 0);
    assert_string_equal(said, "");
}

TEST_CASE(a_missing_barrier_is_a_race)
{
    for (int order = SIM_FORWARD; order <= SIM_SHUFFLED; order++) {
        sim_set_order((enum sim_order)order, 3);
        expect_found(PLANTED_MISSING_BARRIER, "kernel reverse, block (0,0,0), thread (", "");
        /* which of the two is reported depends on which thread runs first */
        assert_true(strstr(said, "race on shared memory: tile[") ||
                    strstr(said, "no thread of this block wrote"));
    }
    sim_set_order(SIM_FORWARD, 0);
    expect_found(PLANTED_WARP_RACE, "kernel reverse, block (0,0,0), thread (",
                 "race on shared memory: tile[");
}

TEST_CASE(shared_memory_out_of_range_is_found)
{
    expect_found(PLANTED_SHARED_OFF_BY_ONE, "kernel reverse, block (0,0,0), thread (63,0,0)",
                 "shared memory out of range: tile[64] of 64");
}

/* Bytes of dynamic shared memory, next to a static array of 256, and the value of cudaFuncSetAttribute. */
static const struct {
    size_t bytes, leave;
    const char *finding; /* NULL: none */
} requests[] = {
    {(48 << 10) - 256, 0, NULL},
    {48 << 10, 48 << 10, NULL},
    {64 << 10, 64 << 10, NULL},
    {(99 << 10) - 256, (99 << 10) - 256, NULL},
    {48 << 10, 0, "49408 bytes of shared memory, 49152 of them dynamic: the launch has leave for 49152"},
    {64 << 10, 0, "65536 bytes of shared memory, 65536 of them dynamic: the launch has leave for 49152"},
    {64 << 10, 63 << 10,
     "65536 bytes of shared memory, 65536 of them dynamic: the launch has leave for 64512"},
    {99 << 10, 99 << 10,
     "101632 bytes of shared memory, 101376 of them dynamic: the launch has leave for 101376"},
    {100 << 10, 0, "102400 bytes of shared memory, 102400 of them dynamic: the launch has leave for 49152"},
};

static void run_with_shared(int request)
{
    struct err err;
    float host[64], back[64];
    void *x;
    for (int i = 0; i < 64; i++) host[i] = (float)i;
    if (side.backend->mem_alloc(side.device, sizeof host, &x, &err)) _exit(1);
    side.backend->mem_upload(x, host, sizeof host, side.stream);
    planted_shared(requests[request].bytes, requests[request].leave, x, side.stream);
    side.backend->mem_download(back, x, sizeof back, side.stream);
    for (int i = 0; i < 64; i++)
        if (back[i] != host[63 - i]) _exit(2);
}

TEST_CASE(shared_memory_without_leave_is_found)
{
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        const char *finding = requests[i].finding;
        int status = child_run(run_with_shared, (int)i, said, sizeof said);
        if (status != (finding ? SIM_FAILURE_STATUS : 0) || (finding && !strstr(said, finding)))
            fail_msg("request %zu: exit status %d: %s", i, status, said);
    }
}

static void ask_for_too_much_shared(int bytes)
{
    struct err err;
    void *x;
    if (side.backend->mem_alloc(side.device, 256, &x, &err)) _exit(1);
    uint64_t launches = sim_launches();
    planted_shared((size_t)bytes, (size_t)bytes, x, side.stream);
    enum status status = side.backend->stream_wait(side.stream, &err);
    fputs(err.text, stderr);
    if (status != STATUS_DEVICE || sim_launches() != launches) _exit(2);
}

/* A GPU would refuse it, too: the stream fails, and the kernel is not launched. */
TEST_CASE(more_shared_memory_than_every_gpu_has_is_refused)
{
    int status = child_run(ask_for_too_much_shared, 100 << 10, said, sizeof said);
    if (status != 0 || !strstr(said, "shared memory of the next one, failed: invalid argument"))
        fail_msg("exit status %d: %s", status, said);
}

TEST_CASE(shared_memory_that_nobody_wrote_is_found)
{
    expect_found(PLANTED_UNINITIALISED, "kernel reverse, block (0,0,0), thread (0,0,0)",
                 "untouched[0] is read, but no thread of this block wrote it");
}

TEST_CASE(device_memory_out_of_range_is_found)
{
    expect_found(PLANTED_WRITE_OFF_BY_ONE, "kernel reverse", "device memory out of range");
    expect_found(PLANTED_WRITE_BELOW, "kernel reverse, block (0,0,0), thread (0,0,0)",
                 "device memory out of range");
    expect_found(PLANTED_WRITE_FAR, "kernel reverse, block (0,0,0), thread (7,0,0)",
                 "device memory out of range: byte 20256 of an allocation of 256 bytes");
}

enum { GRID = 131 };

static void run_grid(enum planted_grid bug, float back[GRID])
{
    struct err err;
    float host[GRID] = {0};
    void *x;
    for (int i = 0; i < 128; i++) host[i] = (float)i;
    if (side.backend->mem_alloc(side.device, sizeof host, &x, &err)) _exit(1);
    side.backend->mem_upload(x, host, sizeof host, side.stream);
    planted_grid_run(bug, x, side.stream);
    side.backend->mem_download(back, x, sizeof host, side.stream);
    side.backend->mem_free(side.device, x);
}

static void run_grid_alone(int bug)
{
    float back[GRID];
    run_grid((enum planted_grid)bug, back);
}

TEST_CASE(races_on_device_memory_are_found)
{
    static const struct {
        enum planted_grid bug;
        const char *what, *who; /* NULL: no finding */
    } bugs[] = {
        {GRID_NOTHING, NULL, NULL},
        {GRID_HALVES, NULL, NULL},
        {GRID_ORDER, NULL, NULL},
        {GRID_MISSING_BARRIER, "byte", "by thread ("},
        {GRID_LANES, "byte", "by thread ("},
        {GRID_WRITTEN_TWICE, "byte 0 of an allocation of 524 bytes", "of another block"},
        {GRID_READ_ELSEWHERE, "byte", "block"},
        {GRID_READ_BY_ALL, "byte 512 of an allocation of 524 bytes", "block"},
    };
#if defined(__SANITIZE_ADDRESS__)
    skip(); /* kernels are compiled with one sanitizer, not both */
#endif
    sim_set_races(true);
    for (int order = SIM_FORWARD; order <= SIM_SHUFFLED; order++)
        for (size_t i = 0; i < sizeof bugs / sizeof *bugs; i++) {
            sim_set_order((enum sim_order)order, 3);
            int status = child_run(run_grid_alone, (int)bugs[i].bug, said, sizeof said);
            if (bugs[i].what == NULL
                    ? status != 0 || *said
                    : status != SIM_FAILURE_STATUS || !strstr(said, "race on device memory: ") ||
                          !strstr(said, bugs[i].what) || !strstr(said, bugs[i].who))
                fail_msg("bug %d in order %d: exit status %d: %s", (int)bugs[i].bug, order, status, said);
        }
    sim_set_order(SIM_FORWARD, 0);
    sim_set_races(false);
}

TEST_CASE(blocks_run_in_the_chosen_order)
{
    float back[GRID];
    run_grid(GRID_ORDER, back);
    assert_true(back[129] == 0 && back[130] == 1);
    sim_set_order(SIM_REVERSE, 0);
    run_grid(GRID_ORDER, back);
    assert_true(back[129] == 1 && back[130] == 0);
    sim_set_order(SIM_FORWARD, 0);
}

TEST_CASE(divergent_barriers_are_found)
{
    expect_found(PLANTED_THREAD_EXITS, "kernel reverse, block (0,0,0), thread (5,0,0)",
                 "divergent barrier: it has ended, but thread (0,0,0) waits for it");
    expect_found(PLANTED_TWO_BARRIERS, "kernel reverse, block (0,0,0), thread (32,0,0)",
                 "divergent barrier: it waits at");
    expect_found(PLANTED_LANE_EXITS, "kernel reverse, block (0,0,0), thread (40,0,0)",
                 "divergent barrier: it has ended");
    expect_found(PLANTED_MASK, "kernel reverse, block (0,0,0), thread (3,0,0)",
                 "leaves out the lane that calls");
}

static void read_from_the_host(int argument)
{
    struct err err;
    void *x;
    (void)argument;
    if (side.backend->mem_alloc(side.device, 64, &x, &err)) _exit(1);
    volatile float *p = x;
    if (*p == 1.0f) _exit(3);
}

TEST_CASE(the_host_may_not_touch_device_memory)
{
    int status = child_run(read_from_the_host, 0, said, sizeof said);
    if (status != SIM_FAILURE_STATUS || !strstr(said, "outside any kernel"))
        fail_msg("exit status %d: %s", status, said);
}

static const struct op_case *attention_case(void)
{
    const struct op_case *op = op_cases;
    while (strcmp(op->name, "attention") != 0) op++;
    return op;
}

/* The seed of one sequence a row: shorter ones would not reach from tile to tile. */
static const struct op_shape several_tiles = {.B = 1, .T = 130, .NH = 2, .NKV = 1, .HS = 6, .seed = 2};

static void run_attention_without(int barrier)
{
    struct op_outcome out;
    sim_skip_barrier(barrier);
    attention_case()->run(&side, several_tiles, &out);
}

/* Without any one barrier of the real attention kernel, the simulator must report an error. */
TEST_CASE(attention_needs_each_of_its_barriers)
{
    struct op_outcome out;
    sim_skip_barrier(-1);
    attention_case()->run(&side, several_tiles, &out);
    op_outcome_release(&out);
    int barriers = sim_barriers();
    assert_true(barriers >= 10);
    for (int i = 0; i < barriers; i++) {
        int status = child_run(run_attention_without, i, said, sizeof said);
        if (status != SIM_FAILURE_STATUS ||
            !(strstr(said, "race on shared memory") || strstr(said, "wrote it")))
            fail_msg("without barrier %d of %d: exit status %d: %s", i, barriers, status, said);
    }
}

/* A wrong index in range is found by comparison with the CPU twin. */
TEST_CASE(a_swapped_head_index_is_found)
{
    enum { T = 9, NH = 4, NKV = 2, HS = 8, QKV = T * (NH + 2 * NKV) * HS, OUT = T * NH * HS };
    static float qkv[QKV], want[OUT], lse[NH * T], got[OUT];
    struct err err;
    struct op_side cpu;
    void *x, *y;
    for (int i = 0; i < QKV; i++) qkv[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    assert_int_equal(op_side_open(&cpu, cpu_backend(), PRECISION_FP32, &err), STATUS_OK);
    void *workspace = malloc(attention_workspace(1, T, NH, NKV, HS));
    cpu.backend->attention_forward(want, lse, qkv, NULL, workspace, 1, T, NH, NKV, HS, 0, cpu.stream);
    assert_int_equal(side.backend->mem_alloc(side.device, sizeof qkv, &x, &err), STATUS_OK);
    assert_int_equal(side.backend->mem_alloc(side.device, sizeof got, &y, &err), STATUS_OK);
    side.backend->mem_upload(x, qkv, sizeof qkv, side.stream);
    for (int swapped = 0; swapped < 2; swapped++) {
        struct op_outcome reference = {.count = 1}, outcome = {.count = 1};
        planted_attention(y, x, 1, T, NH, NKV, HS, swapped, side.stream);
        side.backend->mem_download(got, y, sizeof got, side.stream);
        reference.outputs[0].values = want;
        outcome.outputs[0].values = got;
        reference.outputs[0].n = outcome.outputs[0].n = OUT;
        if (swapped)
            assert_true(op_error(&outcome, &reference, 0) > 0.01);
        else
            assert_true(op_error(&outcome, &reference, 0) < 1e-5);
    }
    side.backend->mem_free(side.device, x), side.backend->mem_free(side.device, y);
    free(workspace);
    op_side_close(&cpu);
}

/* Exits with 2 where the values are wrong. */
static void run_product(int bug)
{
    enum { X = 16 * 32, OUT = 2 * 16 * 8 };
    struct err err;
    float host[X], back[OUT];
    uint16_t bits[X];
    void *x, *out;
    for (int i = 0; i < X; i++) {
        uint32_t word;
        host[i] = (float)(i * 37 % 101 - 50); /* whole numbers: every sum is exact */
        memcpy(&word, &host[i], sizeof word);
        bits[i] = (uint16_t)(word >> 16);
    }
    if (side.backend->mem_alloc(side.device, sizeof bits, &x, &err)) _exit(1);
    if (side.backend->mem_alloc(side.device, sizeof back, &out, &err)) _exit(1);
    side.backend->mem_upload(x, bits, sizeof bits, side.stream);
    planted_product((enum planted_product)bug, out, x, side.stream);
    side.backend->mem_download(back, out, sizeof back, side.stream);
    for (int i = 0; i < OUT; i++) {
        const float *half = host + i / 128 * 16;
        float sum = 0;
        for (int k = 0; k < 16; k++) sum += half[i / 8 % 16 * 32 + k] * half[i % 8 * 32 + k];
        if (back[i] != sum) _exit(2);
    }
}

TEST_CASE(misuse_of_tensor_cores_and_copies_is_found)
{
    static const struct {
        enum planted_product bug;
        const char *what;
    } bugs[] = {
        {PRODUCT_MISSING_WAIT, "read while an asynchronous copy of thread (0,0,0), not yet waited for"},
        {PRODUCT_MISSING_COMMIT, "read while an asynchronous copy of thread (0,0,0), not yet waited for"},
        {PRODUCT_MISSING_BARRIER, "rows["}, /* a race or never written, depending on the order */
        {PRODUCT_COPIED_OVER, "race on shared memory: rows["},
        {PRODUCT_COPIES_LEFT, "thread (0,0,0): ended with 1 asynchronous copies that it never waited for"},
        {PRODUCT_SOURCE_UNALIGNED, "thread (9,0,0): an asynchronous copy from "},
        {PRODUCT_ROW_UNALIGNED, "rows[1] does not lie on a boundary of 16 bytes"},
        {PRODUCT_ROW_OFF_BY_ONE, "shared memory out of range: rows[519] of 512"},
        {PRODUCT_LANE_MISSING, "thread (45,0,0): divergent barrier: it has ended"},
        {PRODUCT_SAME_HALF, "race on shared memory: rows[0]: written after a write by thread (0,0,0)"},
    };
    for (size_t i = 0; i < sizeof bugs / sizeof *bugs; i++) {
        int status = child_run(run_product, (int)bugs[i].bug, said, sizeof said);
        if (status != SIM_FAILURE_STATUS || !strstr(said, bugs[i].what))
            fail_msg("exit status %d, wanted \"%s\" in: %s", status, bugs[i].what, said);
    }
}

TEST_CASE(fragments_are_laid_out_as_on_the_hardware)
{
    assert_int_equal(child_run(run_product, PRODUCT_NOTHING, said, sizeof said), 0);
    assert_string_equal(said, "");
    assert_int_equal(child_run(run_product, PRODUCT_HALVES, said, sizeof said), 0);
    assert_string_equal(said, "");
    for (int bug = PRODUCT_SWAPPED_FRAGMENT; bug <= PRODUCT_TRANSPOSED; bug++)
        assert_int_equal(child_run(run_product, bug, said, sizeof said), 2);
}

int main(void)
{
    return TEST_RUN(open_side, close_side);
}
