/* CUDA graphs: a stream's work captured once and launched again as one unit, which costs the host a few
 * microseconds however many operations it has; and the step control that makes a replay correct for its step.
 *
 * Work that cannot be captured leaves the stream as it was: CUDA rejects a call that is not allowed in a
 * capture, which is no fault of the device. The device is then queried to see whether it has really
 * failed. */
#include "kernels/device/cuda_device.cuh"

#include <stdio.h>
#include <stdlib.h>

struct graph {
    struct device *device;
    cudaGraphExec_t exec;
};

/* After a failed capture: clears the error, unless the device itself has failed. */
static enum status not_captured(struct stream *stream, cudaError_t error, struct err *err)
{
    char why[sizeof stream->fault];
    snprintf(why, sizeof why, "%s", stream->fault_at != NULL ? stream->fault : cudaGetErrorString(error));
    cudaGetLastError();
    cudaError_t device = cudaStreamSynchronize(stream->queue);
    if (device != cudaSuccess) {
        stream_fault(stream, "a kernel", cudaGetErrorString(device));
        return err_set(err, STATUS_DEVICE, "cuda: %s failed: %s", stream->fault_at, stream->fault);
    }
    stream_forget(stream);
    return err_set(err, STATUS_FAILED, "cuda: a step cannot be captured as a graph: %s", why);
}

enum status graph_open(struct stream *stream, void (*work)(void *context), void *context, struct graph **out,
                       struct err *err)
{
    cudaGraph_t captured = NULL;
    if (!stream_usable(stream)) return stream_check(stream, err);
    struct graph *graph = (struct graph *)calloc(1, sizeof *graph);
    if (graph == NULL) return err_no_memory(err, "a graph's handle");
    graph->device = stream->device;
    allocations_count(graph->device);
    /* this thread only: calls of other threads are neither captured nor rejected */
    cudaError_t error = cudaStreamBeginCapture(stream->queue, cudaStreamCaptureModeThreadLocal);
    if (error == cudaSuccess) {
        work(context);
        error = cudaStreamEndCapture(stream->queue, &captured);
    }
    if (error == cudaSuccess && stream->fault_at == NULL)
        error = cudaGraphInstantiateWithFlags(&graph->exec, captured, 0);
    if (captured != NULL) cudaGraphDestroy(captured);
    /* now, while training without graphs is possible: otherwise the first launch would allocate */
    if (error == cudaSuccess && stream->fault_at == NULL) error = cudaGraphUpload(graph->exec, stream->queue);
    if (error == cudaSuccess && stream->fault_at == NULL) {
        *out = graph;
        return STATUS_OK;
    }
    if (graph->exec != NULL) cudaGraphExecDestroy(graph->exec);
    free(graph);
    return not_captured(stream, error, err);
}

void graph_run(struct graph *graph, struct stream *stream)
{
    if (!stream_usable(stream)) return;
    cudaError_t error = cudaGraphLaunch(graph->exec, stream->queue);
    if (error != cudaSuccess) stream_refused(stream, "a kernel, or the graph after it,", error);
}

void graph_close(struct graph *graph)
{
    if (graph == NULL) return;
    if (!graph->device->lost) cudaGraphExecDestroy(graph->exec);
    free(graph);
}

/* The value travels as the launch's argument, which CUDA copies: no memory has to outlive the call. */
__global__ static void control_write(struct step_control *out, struct step_control value)
{
    if (threadIdx.x == 0) *out = value;
}

void control_set(struct step_control *out, struct step_control value, struct stream *stream)
{
    LAUNCH(control_write, 1, 32, 0, stream, out, value);
}
