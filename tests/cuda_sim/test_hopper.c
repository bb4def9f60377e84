/* The simulator's instructions of compute capability 9.0: a kernel that uses all of them computes the right
 * values, and each of its planted bugs gives a finding or wrong values. */
#include <unistd.h>

#include "core/base/philox.h"
#include "kernels/device/cuda_plugin.h"
#include "tests/cmocka.h"
#include "tests/cuda_sim/child.h"
#include "tests/cuda_sim/planted_hopper.h"
#include "tests/cuda_sim/simulator.h"
#include "tests/gpu/op_cases.h"

extern const struct cuda_plugin cuda_plugin;

enum { ROWS = PLANTED_ROWS, WIDTH = PLANTED_WIDTH, TILES = 1 + PLANTED_ROUNDS, WRONG_VALUES = 7 };

static struct op_side side;
static char said[65536];

static int open_side(void **state)
{
    struct err err;
    (void)state;
    return (int)op_side_open(&side, cuda_plugin.table, PRECISION_BF16, &err);
}

static int close_side(void **state)
{
    (void)state;
    op_side_close(&side);
    return 0;
}

/* -1, 0 or 1, so that all sums are exact. */
static int value(int i)
{
    return (int)(philox4x32_10((uint32_t)i, 1, 0, 0, 5, 7).word[0] % 3) - 1;
}

/* Exits with WRONG_VALUES if the kernel's values are. */
static void run(int bug)
{
    static const uint16_t words[3] = {0xbf80, 0x0000, 0x3f80};
    static uint16_t x[TILES * ROWS * WIDTH];
    static float want[ROWS * WIDTH], got[ROWS * WIDTH];
    struct err err;
    void *device_x, *out;
    for (int i = 0; i < TILES * ROWS * WIDTH; i++) x[i] = words[value(i) + 1];
    for (int r = 0; r < ROWS; r++)
        for (int u = ROWS; u < TILES * ROWS; u++) {
            int score = 0; /* at most 128, exact in bf16 */
            for (int k = 0; k < WIDTH; k++) score += value(r * WIDTH + k) * value(u * WIDTH + k);
            for (int c = 0; c < WIDTH; c++) want[r * WIDTH + c] += (float)(score * value(u * WIDTH + c));
        }
    if (side.backend->mem_alloc(side.device, sizeof x, &device_x, &err) ||
        side.backend->mem_alloc(side.device, sizeof got, &out, &err))
        _exit(1);
    side.backend->mem_upload(device_x, x, sizeof x, side.stream);
    planted_hopper_run((enum planted_hopper)bug, out, device_x, side.stream);
    side.backend->mem_download(got, out, sizeof got, side.stream);
    if (side.backend->stream_wait(side.stream, &err)) _exit(1);
    if (memcmp(got, want, sizeof got) != 0) _exit(WRONG_VALUES);
}

static const enum sim_order orders[] = {SIM_FORWARD, SIM_REVERSE, SIM_SHUFFLED};

static void run_in_order(int order)
{
    sim_set_order(orders[order], 3);
    run(HOPPER_NOTHING);
}

TEST_CASE(products_of_copied_tiles_are_right_in_every_order)
{
    for (int i = 0; i < 3; i++) {
        int status = child_run(run_in_order, i, said, sizeof said);
        if (status != 0) fail_msg("order %d: exit status %d: %s", i, status, said);
    }
}

/* By bug; "": wrong values. */
static const char *const findings[HOPPER_BUGS] = {
    [HOPPER_PLAIN_BOXES] = "",
    [HOPPER_PLAIN_DESCRIPTOR] = "a descriptor of mode 0",
    [HOPPER_ROWS_STRIDE] = "",
    [HOPPER_COLUMNS_STRIDE] = "is outside of the 32768 bytes of dynamic shared memory",
    [HOPPER_COLUMNS_LEADING] = "",
    [HOPPER_STEP] = "",
    [HOPPER_TILE_UNALIGNED] = "which is not on its boundary",
    [HOPPER_OTHER_PART] = "",
    [HOPPER_OTHER_ROW] = "",
    [HOPPER_SUM_KEPT] = "",
    [HOPPER_OUT_OF_RANGE] = "is outside of the 32768 bytes of dynamic shared memory",
    [HOPPER_NOT_READY] = "a copy uses the barrier before barriers_ready",
    [HOPPER_NO_SYNC] = "the barrier is used before __syncthreads() made it known",
    [HOPPER_FEW_BYTES] = "without having waited for the barrier of its copy",
    [HOPPER_MANY_BYTES] = "for what no thread and no copy will do",
    [HOPPER_NO_WAIT] = "without having waited for the barrier of its copy",
    [HOPPER_OTHER_PARITY] = "without having waited for the barrier of its copy",
    [HOPPER_SAME_PARITY] = "for what no thread and no copy will do",
    [HOPPER_NOT_AWAITED] = "more than 1 arrivals in a phase",
    [HOPPER_RELEASED_EARLY] = "without having waited until warp 0 has read it",
    [HOPPER_ONE_RELEASES] = "without having waited until warp 1 has read it",
    [HOPPER_TWO_RELEASES] = "for what no thread and no copy will do",
    [HOPPER_BOX_LEFT] = "the block ended while 2 boxes were on their way",
    [HOPPER_NO_FENCE] = "the sum of a product is not named by the last group_fence",
    [HOPPER_FENCE_EARLY] = "the sum of a product was changed after group_fence",
    [HOPPER_LEFT_UNFENCED] = "the left operand of a product was changed after group_fence",
    [HOPPER_NO_COMMIT] = "group_wait does not name all registers of a product that it ends",
    [HOPPER_NO_GROUP_WAIT] = "group_wait does not name all registers of a product that it ends",
    [HOPPER_SUM_UNNAMED] = "group_wait does not name all registers of a product that it ends",
    [HOPPER_LEFT_UNNAMED] = "group_wait does not name all registers of a product that it ends",
    [HOPPER_SUM_READ] = "",
    [HOPPER_SUM_CHANGED] = "the sum of a product was changed before group_wait",
    [HOPPER_LEFT_CHANGED] = "the left operand of a product was changed before group_wait",
    [HOPPER_WARPS_DIFFER] = "the warps of a warpgroup begin different products",
    [HOPPER_LANES_DIFFER] = "a product of a warpgroup whose lanes have different operands",
    [HOPPER_WARP_MISSING] = "the warps of a warpgroup begin different products",
    [HOPPER_NOT_GIVEN] = "for what no thread and no copy will do",
    [HOPPER_ONE_GIVES] = "for what no thread and no copy will do",
    [HOPPER_WRONG_WAY] = "the number of registers changes from 168 to 160, the wrong way",
};

TEST_CASE(each_planted_bug_is_found)
{
    for (int bug = 1; bug < HOPPER_BUGS; bug++) {
        bool values = findings[bug][0] == '\0';
        int status = child_run(run, bug, said, sizeof said);
        if (status != (values ? WRONG_VALUES : SIM_FAILURE_STATUS) || !strstr(said, findings[bug]))
            fail_msg("bug %d: exit status %d, wanted \"%s\": %s", bug, status, findings[bug], said);
    }
}

int main(void)
{
    return TEST_RUN(open_side, close_side);
}
