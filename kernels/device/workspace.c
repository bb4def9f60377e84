/* Workspace sizes of backend.h: what the planner reserves for an operation, on any device and with any number
 * of threads. The CPU's needs follow the partition rules of cpu_device.h. */
#include "kernels/device/backend.h"
#include "kernels/device/cpu_device.h"

size_t embedding_backward_workspace(int N, int V)
{
    (void)N;
    (void)V;
    return 0;
}

size_t rmsnorm_backward_workspace(int N, int C)
{
    return (size_t)row_chunk_count(N) * (size_t)C * sizeof(float);
}

size_t qk_norm_rope_backward_workspace(int N, int NH, int NKV, int HS)
{
    (void)NH;
    (void)NKV;
    return (size_t)row_chunk_count(N) * 2 * (size_t)HS * sizeof(float);
}

size_t attention_workspace(int B, int T, int NH, int NKV, int HS)
{
    /* the forward pass has a task per tile and query head; the backward pass up to one more per key/value
     * head */
    size_t tasks = (size_t)B * (size_t)(NH + NKV) * (size_t)attention_tiles(T);
    size_t workers = tasks < ATTENTION_WORKERS_MAX ? tasks : ATTENTION_WORKERS_MAX;
    size_t floats = workers * attention_worker_floats(HS), rows = (size_t)B * (size_t)T * (size_t)NH;
    return (floats > rows ? floats : rows) * sizeof(float); /* on a GPU, one float a row */
}

size_t bias_backward_workspace(int N, int C)
{
    return (size_t)row_chunk_count(N) * (size_t)C * sizeof(float);
}

size_t reduce_workspace(size_t n)
{
    return reduce_chunk_count(n) * sizeof(double);
}
