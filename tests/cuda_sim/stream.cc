/* What tests may do to an open stream of the CUDA twins. */
#include "kernels/cuda_device.cuh"
#include "tests/cuda_sim/simulator.h"

extern "C" void sim_set_precision(struct stream *stream, enum precision precision)
{
    stream->precision = precision;
}
