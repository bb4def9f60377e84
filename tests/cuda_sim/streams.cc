/* The simulator's streams, events and graphs. Work runs when it is queued. With late streams it runs as late
 * as the runtime allows: when the host waits for it or for work that depends on it. Page-locked memory is
 * then read and written at that late moment, an event happens only when the host waits, and work of two
 * streams that no event orders runs in the least expected order, so a missing wait gives a wrong result. A
 * captured stream runs nothing: its work becomes a graph.
 *
 * As in the runtime, some calls fail during a capture and invalidate it: on the captured stream, waits,
 * copies of pageable host memory and events; in the capturing thread, on any stream, allocations, queries of
 * events and waits for the device. */
#include <stdlib.h>

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "tests/cuda_sim/machine.hh"

using sim::task;

namespace {

struct line;

struct item {
    task run;
    std::shared_ptr<line> first; /* must have reached that point; NULL: nothing */
    uint64_t first_count;
};

/* The work queued on a stream; it outlives the stream if events refer to it. */
struct line {
    std::deque<item> items;
    uint64_t queued = 0, done = 0;
};

/* A point in a stream's work. */
struct mark {
    std::shared_ptr<line> of;
    uint64_t count;
    bool happened = false;
    double at = 0; /* microseconds */
};

bool late_now;
bool exchanges_first; /* with late streams: as soon as what they wait for has run, instead of late */
uint64_t graph_launches, waits;
auto &pinned = *new std::map<const unsigned char *, size_t>;

void run_to(const std::shared_ptr<line> &l, uint64_t count)
{
    while (l->done < count && !l->items.empty()) {
        item next = std::move(l->items.front());
        l->items.pop_front();
        if (next.first) run_to(next.first, next.first_count);
        next.run();
        l->done++;
    }
}

} // namespace

struct sim_graph {
    std::vector<task> works;
};

struct sim_stream {
    std::shared_ptr<line> queue = std::make_shared<line>();
    bool captured = false, spoilt = false;
    sim_graph *graph = NULL;
};

struct sim_event {
    std::shared_ptr<mark> last;
};

namespace {

/* Kept here, so that objects of a failed device, which are never destroyed, do not count as leaks. */
auto &streams = *new std::vector<sim_stream *>;
auto &events = *new std::vector<sim_event *>;
auto &graphs = *new std::vector<sim_graph *>; /* executable graphs */
auto &nobodys = *new sim_stream;              /* work on the stream NULL */
thread_local sim_stream *capturing;           /* of this thread */

sim_stream *of(cudaStream_t stream)
{
    return stream != NULL ? stream : &nobodys;
}

struct environment {
    environment()
    {
        const char *words = getenv("ANNEAL_SIM_STREAMS");
        exchanges_first = words != NULL && strcmp(words, "exchanges_first") == 0;
        late_now = exchanges_first || (words != NULL && strcmp(words, "late") == 0);
    }
} environment;

} // namespace

namespace sim {

bool late()
{
    return late_now;
}

bool spoils_capture(cudaStream_t stream)
{
    sim_stream *s = of(stream);
    if (s->captured) s->spoilt = true;
    return s->captured;
}

bool spoils_capture()
{
    if (capturing) capturing->spoilt = true;
    return capturing;
}

void queue(cudaStream_t stream, task run)
{
    sim_stream *s = of(stream);
    if (s->captured) {
        s->graph->works.push_back(std::move(run));
    } else if (late_now) {
        s->queue->items.push_back({std::move(run), NULL, 0});
        s->queue->queued++;
    } else {
        run();
    }
}

void drain(cudaStream_t stream)
{
    run_to(of(stream)->queue, of(stream)->queue->queued);
}

void drain_all()
{
    drain(NULL);
    for (sim_stream *s : streams) drain(s);
}

void streams_release()
{
    nobodys.queue->items.clear();
    for (sim_stream *s : streams) s->queue->items.clear();
    for (sim_event *event : events) delete event;
    events.clear();
    for (sim_graph *graph : graphs) delete graph;
    graphs.clear();
}

void host_waits()
{
    waits++;
}

bool is_pinned(const void *memory, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)memory;
    auto next = pinned.upper_bound(at);
    if (next == pinned.begin()) return false;
    auto block = std::prev(next);
    return at + bytes <= block->first + block->second;
}

} // namespace sim

extern "C" void sim_set_late(bool late)
{
    sim::drain_all();
    late_now = late;
}

extern "C" long sim_events(void)
{
    return (long)events.size();
}

extern "C" long sim_graphs(void)
{
    return (long)graphs.size();
}

extern "C" uint64_t sim_graph_launches(void)
{
    return graph_launches;
}

extern "C" uint64_t sim_waits(void)
{
    return waits;
}

/* ---- streams ---- */

static cudaError_t fault_or(cudaError_t error)
{
    return sim::faulted() ? sim::sticky_error() : error;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned)
{
    streams.push_back(*out = new sim_stream());
    return fault_or(cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    sim::drain(stream);
    std::erase(streams, stream);
    delete stream;
    return fault_or(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (sim::spoils_capture(stream)) return cudaErrorStreamCaptureUnsupported;
    waits++;
    sim::drain(stream);
    return fault_or(cudaSuccess);
}

cudaError_t cudaDeviceSynchronize()
{
    if (sim::spoils_capture()) return cudaErrorStreamCaptureUnsupported;
    waits++;
    sim::drain_all();
    return fault_or(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    if (event == NULL) return cudaErrorInvalidValue;
    if (sim::faulted()) return sim::sticky_error();
    if (sim::spoils_capture(stream)) return cudaErrorStreamCaptureUnsupported;
    if (event->last == NULL) return cudaSuccess;
    if (!late_now) return cudaSuccess;
    of(stream)->queue->items.push_back({[] {}, event->last->of, event->last->count});
    of(stream)->queue->queued++;
    return cudaSuccess;
}

/* ---- the work of libraries ---- */

static uint64_t library_calls;

extern "C" uint64_t sim_library_calls(void)
{
    return library_calls;
}

static void queue_run(cudaStream_t stream, const char *name, size_t bytes, double microseconds,
                      void (*run)(void *), void *context)
{
    sim::queue(stream, [=] {
        if (sim::device_failed()) return;
        sim::work_done(sim::KERNEL, name, bytes, microseconds);
        sim::memory_open(true);
        run(context);
        sim::memory_open(false);
    });
}

extern "C" __attribute__((visibility("default"))) void sim_queue_work(cudaStream_t stream, const char *name,
                                                                      const struct sim_range *ranges,
                                                                      int count, double microseconds,
                                                                      void (*run)(void *), void *context)
{
    size_t bytes = 0;
    library_calls++;
    for (int i = 0; i < count; i++) {
        sim::memory_expect(ranges[i].memory, ranges[i].bytes, name);
        bytes += ranges[i].bytes;
    }
    queue_run(stream, name, bytes, microseconds, run, context);
}

/* The order of exchanges is that in which they are queued, on whatever streams. */
extern "C" __attribute__((visibility("default"))) void sim_queue_exchange(cudaStream_t stream,
                                                                          const char *name, void *memory,
                                                                          size_t bytes, void (*run)(void *),
                                                                          void *context)
{
    static std::shared_ptr<line> last;
    static uint64_t last_count;
    sim_stream *s = of(stream);
    sim::memory_expect(memory, bytes, name);
    if (late_now && last != NULL) s->queue->items.push_back({[] {}, last, last_count}), s->queue->queued++;
    queue_run(stream, name, bytes, (double)((bytes + 4095) / 4096), run, context);
    last = s->queue;
    last_count = s->queue->queued;
    if (exchanges_first) sim::drain(stream);
}

/* ---- page-locked memory ---- */

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    if (sim::faulted()) return sim::sticky_error();
    if (sim::spoils_capture()) return cudaErrorStreamCaptureUnsupported;
    *out = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (*out == NULL) return cudaErrorMemoryAllocation;
    pinned[(const unsigned char *)*out] = bytes;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
    if (sim::spoils_capture()) return cudaErrorStreamCaptureUnsupported;
    waits++;
    sim::drain_all(); /* the runtime waits for the device */
    pinned.erase((const unsigned char *)memory);
    free(memory);
    return fault_or(cudaSuccess);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *out, const void *memory)
{
    out->type = sim::is_pinned(memory, 1) ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
    return cudaSuccess;
}

/* ---- events ---- */

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

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    if (sim::faulted()) return sim::sticky_error();
    if (sim::spoils_capture(stream)) return cudaErrorStreamCaptureUnsupported;
    std::shared_ptr<mark> now = event->last = std::make_shared<mark>();
    now->of = of(stream)->queue;
    sim::queue(stream, [now] { now->happened = true, now->at = sim::clock_now(); });
    now->count = now->of->queued;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    if (sim::spoils_capture()) return cudaErrorStreamCaptureUnsupported;
    if (event->last && !event->last->happened) {
        waits++;
        run_to(event->last->of, event->last->count);
    }
    return fault_or(cudaSuccess); /* also of one that was never recorded */
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    if (sim::faulted()) return sim::sticky_error();
    if (sim::spoils_capture()) return cudaErrorStreamCaptureUnsupported;
    return event->last && !event->last->happened ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    if (sim::faulted()) return sim::sticky_error();
    if (!from->last || !to->last) return cudaErrorInvalidValue;
    if (!from->last->happened || !to->last->happened) return cudaErrorNotReady;
    *milliseconds = (float)((to->last->at - from->last->at) * 1e-3);
    return cudaSuccess;
}

/* ---- graphs ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode)
{
    if (sim::faulted()) return sim::sticky_error();
    if (stream == NULL || stream->captured) return cudaErrorInvalidValue;
    stream->captured = true;
    stream->spoilt = false;
    stream->graph = new sim_graph();
    capturing = stream;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    *out = NULL;
    if (stream == NULL || !stream->captured) return cudaErrorInvalidValue;
    sim_graph *graph = stream->graph;
    stream->captured = false;
    stream->graph = NULL;
    capturing = NULL;
    if (stream->spoilt) {
        delete graph;
        return cudaErrorStreamCaptureInvalidated;
    }
    *out = graph;
    return fault_or(cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long)
{
    if (sim::faulted()) return sim::sticky_error();
    graphs.push_back(*out = new sim_graph(*graph));
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t)
{
    if (sim::faulted()) return sim::sticky_error();
    return sim::allocation_fails() ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    sim::drain_all(); /* running work uses it */
    std::erase(graphs, graph);
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    if (sim::faulted()) return sim::sticky_error();
    graph_launches++;
    for (const task &w : graph->works) sim::queue(stream, w);
    return cudaSuccess;
}
