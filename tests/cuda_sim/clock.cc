/* The simulator's clock. Time is pretended: it passes only by clock_advance, so that what a test measures
 * with events is the same on every machine. A launch takes a microsecond for each started 1,024 threads, a
 * copy one for each started 4 KiB, a matrix product what blas.cc says. */
#include "tests/cuda_sim/machine.hh"

static double now;

namespace sim {

void clock_advance(double microseconds)
{
    now += microseconds;
}

double clock_now()
{
    return now;
}

} // namespace sim
