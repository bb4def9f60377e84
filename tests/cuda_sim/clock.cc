/* The simulator's clock. Time is pretended: it passes only by work_done, so that what a test measures with
 * events is the same on every machine. A launch takes a microsecond for each started 1,024 threads, a copy one
 * for each started 4 KiB, a matrix product what blas.cc says. */
#include "tests/cuda_sim/machine.hh"

static double now;

namespace sim {

double clock_now()
{
    return now;
}

void work_done(work kind, const char *name, size_t bytes, double microseconds)
{
    double from = now;
    now += microseconds;
    cupti_record(kind, name, bytes, from, now);
}

} // namespace sim
