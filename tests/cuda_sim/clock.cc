/* The simulator's clock. Only work_done advances it, so a test measures the same times with events on every
 * machine. A launch takes a microsecond for each started 1,024 threads, a copy one for each started 4 KiB, a
 * matrix product what blas.cc says. */
#include "tests/cuda_sim/machine.hh"

static double now;

namespace sim {

double clock_now()
{
    return now;
}

void work_done(work kind, const char *name, size_t bytes, double microseconds, const launch_shape &shape)
{
    double from = now;
    now += microseconds;
    cupti_record(kind, name, bytes, from, now, shape);
}

} // namespace sim
