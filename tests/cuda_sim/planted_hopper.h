/* A kernel of kernels/hopper.cuh with a bug each, which the simulator must find. */
#ifndef ANNEAL_TESTS_CUDA_SIM_PLANTED_HOPPER_H
#define ANNEAL_TESTS_CUDA_SIM_PLANTED_HOPPER_H

#include "kernels/device/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { PLANTED_ROWS = 64, PLANTED_WIDTH = 128, PLANTED_ROUNDS = 3 };

enum planted_hopper {
    HOPPER_NOTHING, /* no bug */

    /* the layout of tiles and descriptors: values are wrong, or the simulator says why */
    HOPPER_PLAIN_BOXES,      /* a tensor whose boxes are not permuted */
    HOPPER_PLAIN_DESCRIPTOR, /* a descriptor that says so */
    HOPPER_ROWS_STRIDE,      /* half of the step to the next eight rows */
    HOPPER_COLUMNS_STRIDE,
    HOPPER_COLUMNS_LEADING, /* half of the step to the next 64 columns */
    HOPPER_STEP,            /* twice the step to the next 16 columns */
    HOPPER_TILE_UNALIGNED,
    HOPPER_OTHER_PART, /* columns 0 to 63 twice */
    HOPPER_OTHER_ROW,
    HOPPER_SUM_KEPT, /* the scores are added to those of the round before */
    HOPPER_OUT_OF_RANGE,

    /* barriers */
    HOPPER_NOT_READY, /* no barriers_ready */
    HOPPER_NO_SYNC,   /* no __syncthreads after barrier_init */
    HOPPER_FEW_BYTES,
    HOPPER_MANY_BYTES,
    HOPPER_NO_WAIT, /* for the copy */
    HOPPER_OTHER_PARITY,
    HOPPER_SAME_PARITY,    /* in all rounds */
    HOPPER_NOT_AWAITED,    /* the copy does not wait until the tile is free */
    HOPPER_RELEASED_EARLY, /* before group_wait */
    HOPPER_ONE_RELEASES,   /* one warp for all four */
    HOPPER_TWO_RELEASES,   /* by each warp */
    HOPPER_BOX_LEFT,       /* the block ends before a copy */

    /* products */
    HOPPER_NO_FENCE,
    HOPPER_FENCE_EARLY,   /* the sum is changed after it */
    HOPPER_LEFT_UNFENCED, /* the left operand is changed after it */
    HOPPER_NO_COMMIT,
    HOPPER_NO_GROUP_WAIT,
    HOPPER_SUM_UNNAMED, /* by group_wait */
    HOPPER_LEFT_UNNAMED,
    HOPPER_SUM_READ, /* before group_wait */
    HOPPER_SUM_CHANGED,
    HOPPER_LEFT_CHANGED,
    HOPPER_WARPS_DIFFER,
    HOPPER_LANES_DIFFER,
    HOPPER_WARP_MISSING,

    /* registers */
    HOPPER_NOT_GIVEN, /* nobody gives the registers that the computing warps take */
    HOPPER_ONE_GIVES, /* one warp of a warpgroup */
    HOPPER_WRONG_WAY, /* fewer are taken than there are */
    HOPPER_BUGS
};

/* With x (1 + PLANTED_ROUNDS, 64, 128) bf16, whose first tile is a, the others b: out (64,128) floats = Σ_b
 * (a · bᵀ) · b, where the products a · bᵀ are rounded to bf16. */
void planted_hopper_run(enum planted_hopper bug, float *out, const void *x, struct stream *stream);

#ifdef __cplusplus
}
#endif

#endif
