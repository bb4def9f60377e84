/* The simulator's clock and events. Time is pretended: it passes only by work_done, so that what a test
 * measures with events is the same on every machine. A launch takes a microsecond for each started 1,024
 * threads, a copy one for each started 4 KiB, a matrix product what blas.cc says.
 *
 * Everything runs when it is asked for, so an event has happened as soon as it is recorded; one that has not
 * been recorded, and a pair of which one has not, is an error, as in the runtime. */
#include <vector>

#include "tests/cuda_sim/machine.hh"

struct sim_event {
    bool recorded;
    double at; /* microseconds */
};

static double now;

/* Kept here too: an event that is never destroyed, because its device has failed, is no leak. */
static auto &events = *new std::vector<sim_event *>;

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

void events_release()
{
    for (sim_event *event : events) delete event;
    events.clear();
}

} // namespace sim

extern "C" long sim_events(void)
{
    return (long)events.size();
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    if (sim::faulted()) return sim::sticky_error();
    events.push_back(*out = new sim_event());
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned)
{
    return cudaEventCreate(out);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    if (event == NULL) return cudaErrorInvalidValue;
    std::erase(events, event);
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t)
{
    if (sim::faulted()) return sim::sticky_error();
    event->recorded = true;
    event->at = now;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t)
{
    return sim::faulted() ? sim::sticky_error() : cudaSuccess; /* also of one that was never recorded */
}

cudaError_t cudaEventQuery(cudaEvent_t)
{
    return sim::faulted() ? sim::sticky_error() : cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    if (sim::faulted()) return sim::sticky_error();
    if (!from->recorded || !to->recorded) return cudaErrorInvalidValue;
    *milliseconds = (float)((to->at - from->at) * 1e-3);
    return cudaSuccess;
}
