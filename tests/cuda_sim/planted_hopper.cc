/* See planted_hopper.h. A warpgroup computes, and a thread of another one copies into one tile, in rounds. */
#include "tests/cuda_sim/planted_hopper.h"

#include "kernels/hopper.cuh"
#include "kernels/mma.cuh"

enum { ROWS = PLANTED_ROWS, WIDTH = PLANTED_WIDTH, TILE = ROWS * WIDTH, ROUNDS = PLANTED_ROUNDS };

static void copies(shared_pointer<__nv_bfloat16> left, shared_pointer<__nv_bfloat16> right,
                   shared_pointer<uint64_t> barriers, const CUtensorMap *x, enum planted_hopper bug)
{
    barrier_expect(barriers, 2 * TILE);
    tile_load<WIDTH, ROWS>(left, x, barriers, 0, 0, 0);
    for (int n = 0; n < ROUNDS; n++) {
        if (bug != HOPPER_NOT_AWAITED) barrier_wait(barriers + 2, (unsigned)((n & 1) ^ 1));
        unsigned bytes = 2 * TILE;
        if (bug == HOPPER_FEW_BYTES) bytes = TILE;
        if (bug == HOPPER_MANY_BYTES) bytes += 128;
        barrier_expect(barriers + 1, bytes);
        int row = (n + 1) * ROWS + (bug == HOPPER_OTHER_ROW && n == 1);
        if (bug == HOPPER_OTHER_PART && n == 1)
            for (int part = 0; part < 2; part++)
                box_load(right + part * ROWS * BOX, x, barriers + 1, 0, 0, row, 0);
        else
            tile_load<WIDTH, ROWS>(right, x, barriers + 1, row, 0, 0);
    }
    if (bug != HOPPER_BOX_LEFT) return;
    barrier_wait(barriers + 2, (ROUNDS - 1) & 1);
    barrier_expect(barriers + 1, 2 * TILE);
    tile_load<WIDTH, ROWS>(right, x, barriers + 1, 0, 0, 0);
}

static void hopper(float *out, CUtensorMap x, enum planted_hopper bug)
{
    SHARED_TILES(shared);
    SHARED_ARRAY(uint64_t, barriers, 3); /* left filled, right filled, right free */
    shared_pointer<__nv_bfloat16> left = shared,
                                  right = shared + (TILE + (bug == HOPPER_TILE_UNALIGNED ? 64 : 0));
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    if (threadIdx.x == 0) {
        barrier_init(barriers, 1);
        barrier_init(barriers + 1, 1);
        barrier_init(barriers + 2, 4);
        if (bug != HOPPER_NOT_READY) barriers_ready();
    }
    if (bug != HOPPER_NO_SYNC) __syncthreads();
    if (warp >= 8) return; /* so that a thread starts with 168 registers */
    if (warp >= 4) {
        if (bug != HOPPER_NOT_GIVEN && (bug != HOPPER_ONE_GIVES || warp == 5)) registers_give<24>();
        if (threadIdx.x == 128) copies(left, right, barriers, &x, bug);
        return;
    }
    if (bug == HOPPER_WRONG_WAY)
        registers_take<160>();
    else
        registers_take<240>();

    float s[8][4] = {}, sum[16][4] = {};
    uint32_t w[4][4];
    barrier_wait(barriers, 0);
    for (int n = 0; n < ROUNDS; n++) {
        unsigned parity = (unsigned)n & 1;
        if (bug == HOPPER_OTHER_PARITY) parity ^= 1;
        if (bug == HOPPER_SAME_PARITY) parity = 0;
        if (bug != HOPPER_NO_WAIT) barrier_wait(barriers + 1, parity);
        if (bug != HOPPER_NO_FENCE) group_fence(s);
        if (bug == HOPPER_FENCE_EARLY) s[3][1] = 1;
        for (int k = 0; k < WIDTH; k += 16) {
            uint64_t a = rows_operand<ROWS>(left, 0, k), b = rows_operand<ROWS>(right, 0, k);
            int step = bug == HOPPER_STEP ? k / 64 * ROWS * BOX + k % 32 * 2 : 0;
            if (bug == HOPPER_STEP) b = operand_at(shared_address(right + step), 16, 1024);
            if (bug == HOPPER_ROWS_STRIDE) b = operand_at(shared_address(right), 16, 512);
            if (bug == HOPPER_PLAIN_DESCRIPTOR) b &= ~((uint64_t)3 << 62);
            if (bug == HOPPER_OUT_OF_RANGE) b += 4 * 1024;
            if (bug == HOPPER_WARPS_DIFFER && warp == 2 && k == 16) b = rows_operand<ROWS>(right, 0, 32);
            if (bug == HOPPER_LANES_DIFFER && lane == 7 && k == 16) b = rows_operand<ROWS>(right, 0, 32);
            if (bug == HOPPER_WARP_MISSING && n == ROUNDS - 1 && warp == 3 && k == WIDTH - 16) continue;
            group_rows(s, a, b, k > 0 || bug == HOPPER_SUM_KEPT);
        }
        if (bug != HOPPER_NO_COMMIT) group_commit();
        float early = bug == HOPPER_SUM_READ ? s[2][2] : 0.0f;
        if (bug == HOPPER_SUM_CHANGED) s[2][2] = 0;
        if (bug == HOPPER_SUM_UNNAMED)
            group_wait<0>(sum);
        else if (bug != HOPPER_NO_GROUP_WAIT)
            group_wait<0>(s);
        s[2][2] += 0 * early;
        for (int k = 0; k < 4; k++) {
            w[k][0] = bf16_pair(s[2 * k][0], s[2 * k][1]);
            w[k][1] = bf16_pair(s[2 * k][2], s[2 * k][3]);
            w[k][2] = bf16_pair(s[2 * k + 1][0], s[2 * k + 1][1]);
            w[k][3] = bf16_pair(s[2 * k + 1][2], s[2 * k + 1][3]);
        }
        group_fence(sum, w);
        if (bug == HOPPER_LEFT_UNFENCED) w[1][1] ^= 1;
        for (int k = 0; k < 4; k++) {
            uint64_t b = columns_operand<ROWS>(right, 16 * k);
            if (bug == HOPPER_COLUMNS_STRIDE)
                b = operand_at(shared_address(right + 16 * k * BOX), ROWS * 128, 2048);
            if (bug == HOPPER_COLUMNS_LEADING)
                b = operand_at(shared_address(right + 16 * k * BOX), ROWS * 64, 1024);
            group_columns(sum, w[k], b);
        }
        group_commit();
        if (bug == HOPPER_RELEASED_EARLY && lane == 0) barrier_arrive(barriers + 2);
        if (bug == HOPPER_LEFT_CHANGED) w[3][3] ^= 1;
        if (bug == HOPPER_LEFT_UNNAMED)
            group_wait<0>(sum);
        else
            group_wait<0>(sum, w);
        if (bug == HOPPER_ONE_RELEASES) {
            for (int i = 0; i < 4 && threadIdx.x == 0; i++) barrier_arrive(barriers + 2);
            continue;
        }
        if (lane == 0 && bug != HOPPER_RELEASED_EARLY) barrier_arrive(barriers + 2);
        if (lane == 1 && bug == HOPPER_TWO_RELEASES) barrier_arrive(barriers + 2);
    }
    for (int n = 0; n < 16; n++)
        for (int i = 0; i < 4; i++)
            out[(warp * 16 + lane / 4 + i / 2 * 8) * WIDTH + 8 * n + lane % 4 * 2 + i % 2] = sum[n][i];
}

void planted_hopper_run(enum planted_hopper bug, float *out, const void *x, struct stream *stream)
{
    CUtensorMap tensor;
    size_t bytes = 2 * (2 * TILE + (bug == HOPPER_TILE_UNALIGNED ? 64 : 0));
    if (!tensor_describe(&tensor, x, 1, (1 + ROUNDS) * ROWS, 1, WIDTH)) sim::fail("no tensor map");
    if (bug == HOPPER_PLAIN_BOXES) {
        cuuint64_t sizes[4] = {BOX, 2, (1 + ROUNDS) * ROWS, 1},
                   strides[3] = {128, 2 * WIDTH, 2 * TILE * (1 + ROUNDS)};
        cuuint32_t box[4] = {BOX, 1, BOX, 1}, steps[4] = {1, 1, 1, 1};
        cuTensorMapEncodeTiled(&tensor, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, (void *)x, sizes, strides, box,
                               steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                               CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    }
    LAUNCH(hopper, dim3(1, 1), dim3(384), bytes, stream, out, tensor, bug);
}
