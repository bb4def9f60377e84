/* Kernels with a bug each, which the simulator must find. */
#ifndef ANNEAL_TESTS_CUDA_SIM_PLANTED_H
#define ANNEAL_TESTS_CUDA_SIM_PLANTED_H

#include "kernels/device/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

enum planted {
    PLANTED_NOTHING, /* the same kernel without a bug: reverses x (64) through shared memory */
    PLANTED_MISSING_BARRIER,
    PLANTED_SHARED_OFF_BY_ONE,
    PLANTED_UNINITIALISED, /* reads shared memory that no thread has written */
    PLANTED_WRITE_OFF_BY_ONE,
    PLANTED_WRITE_BELOW,
    PLANTED_WRITE_FAR,
    PLANTED_THREAD_EXITS, /* a thread exits before a barrier that the others reach */
    PLANTED_TWO_BARRIERS, /* half of the block waits at a different line */
    PLANTED_LANE_EXITS,   /* a lane exits before a shuffle */
    PLANTED_MASK,         /* a shuffle's mask leaves out the lane that calls */
    PLANTED_WARP_RACE,    /* lanes exchange through shared memory by a shuffle's side effect */
};

/* Runs the kernel on x (64) in device memory. */
void planted_run(enum planted bug, float *x, struct stream *stream);

enum planted_grid {
    GRID_NOTHING, /* two blocks, each reverses its half of x (128) in place, after all have read x[128] */
    GRID_HALVES,  /* no bug: two threads write the two halves of a word */
    GRID_MISSING_BARRIER,
    GRID_LANES,          /* lanes exchange through device memory without a __syncwarp() */
    GRID_WRITTEN_TWICE,  /* both blocks write x[0] */
    GRID_READ_ELSEWHERE, /* block 1 reads what block 0 writes */
    GRID_READ_BY_ALL,    /* one thread writes x[128] */
    GRID_ORDER,          /* no race: an atomic counter says where a block writes its number */
};

/* Runs the kernel on x (131) in device memory. */
void planted_grid_run(enum planted_grid bug, float *x, struct stream *stream);

/* A simple attention_forward for the backend's table; swapped takes the key/value heads in reverse order. */
void planted_attention(float *out, const float *qkv, int B, int T, int NH, int NKV, int HS, bool swapped,
                       struct stream *stream);

/* Bugs in how tensor cores and asynchronous copies are used. */
enum planted_product {
    PRODUCT_NOTHING, /* the same kernel without a bug: two warps, x · xᵀ for the left and right half of x */
    PRODUCT_MISSING_WAIT,
    PRODUCT_MISSING_COMMIT,
    PRODUCT_MISSING_BARRIER,  /* after the wait: each warp waits only for its own copies */
    PRODUCT_COPIED_OVER,      /* the next copy begins while the other warp still reads */
    PRODUCT_COPIES_LEFT,      /* the kernel ends before its copies */
    PRODUCT_SOURCE_UNALIGNED, /* the source of a copy of 16 bytes */
    PRODUCT_ROW_UNALIGNED,    /* a row of a matrix */
    PRODUCT_ROW_OFF_BY_ONE,
    PRODUCT_LANE_MISSING,
    PRODUCT_HALVES, /* no bug: two threads write the two halves of each word */
    PRODUCT_SAME_HALF,
    PRODUCT_SWAPPED_FRAGMENT, /* from here on only the values are wrong */
    PRODUCT_SWAPPED_HALVES,
    PRODUCT_TRANSPOSED,
};

/* Multiplies each half i of the 32 columns of x (16,32) bf16 by the first 8 rows of x; out (2,16,8) floats:
 * out[i][r][c] = Σ_k x[r][16·i + k] · x[c][16·i + k]. */
void planted_product(enum planted_product bug, float *out, const void *x, struct stream *stream);

/* Reverses x (64) through dynamic shared memory of at least 256 bytes; the kernel also has a static array of
 * 256 bytes. First sets cudaFuncSetAttribute to `leave` bytes; 0: does not call it. */
void planted_shared(size_t bytes, size_t leave, float *x, struct stream *stream);

#ifdef __cplusplus
}
#endif

#endif
