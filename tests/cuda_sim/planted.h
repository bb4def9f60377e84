/* Kernels with a bug each, which the simulator must find. */
#ifndef ANNEAL_TESTS_CUDA_SIM_PLANTED_H
#define ANNEAL_TESTS_CUDA_SIM_PLANTED_H

#include "kernels/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

enum planted {
    PLANTED_NOTHING, /* the same kernel without a bug: reverses x (64) through shared memory */
    PLANTED_MISSING_BARRIER,
    PLANTED_SHARED_OFF_BY_ONE,
    PLANTED_UNINITIALISED, /* shared memory that nobody wrote is read */
    PLANTED_WRITE_OFF_BY_ONE,
    PLANTED_WRITE_BELOW,
    PLANTED_WRITE_FAR,
    PLANTED_THREAD_EXITS, /* before a barrier that the others reach */
    PLANTED_TWO_BARRIERS, /* half of the block waits at another line */
    PLANTED_LANE_EXITS,   /* before a shuffle */
    PLANTED_MASK,         /* a shuffle's mask leaves out the lane that calls */
    PLANTED_WARP_RACE,    /* lanes exchange through shared memory by a shuffle's side effect */
};

/* Runs it on x (64) in device memory. */
void planted_run(enum planted bug, float *x, struct stream *stream);

/* attention_forward of the backend's table, straightforward; swapped takes the key/value head of a query head
 * from the wrong end. */
void planted_attention(float *out, const float *qkv, int B, int T, int NH, int NKV, int HS, bool swapped,
                       struct stream *stream);

#ifdef __cplusplus
}
#endif

#endif
