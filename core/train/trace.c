/* See trace.h. */
#include "core/train/trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/json_out.h"
#include "core/base/text.h"

enum process { PROCESS_STEP = 1, PROCESS_DEVICE = 2 }; /* of rank 0; each next rank has the next two */

struct trace {
    int64_t step;
    int rank;
    int64_t shift; /* nanoseconds, added to all times */
    FILE *out;     /* into text */
    char *text;
    size_t size, head; /* head: bytes before the first event */
    int stream;        /* of the last activity; -1: none */
    struct json_out json;
};

/* what: "process_name" or "thread_name" */
static void put_name(struct trace *t, const char *what, enum process process, int thread, const char *name)
{
    struct json_out *j = &t->json;
    json_out_open(j, NULL, '{', JSON_OUT_COMPACT);
    JSON_MEMBERS(j, "name", what, "ph", "M", "pid", (int)process + 2 * t->rank, "tid", thread);
    json_out_open(j, "args", '{', JSON_OUT_COMPACT);
    json_out_text(j, "name", name);
    json_out_close(j);
    json_out_close(j);
}

/* Microseconds from whole nanoseconds, so that nested events stay nested in decimals. */
static void put_time(struct json_out *event, const char *name, int64_t ns)
{
    char number[32];
    snprintf(number, sizeof number, "%" PRId64 ".%03" PRId64, ns / 1000, ns % 1000);
    json_out_raw(event, name, number);
}

/* 10^9 per second. */
static void put_rate(struct json_out *event, const char *name, int64_t count, int64_t nanoseconds)
{
    if (count > 0 && nanoseconds > 0) json_out_real(event, name, (double)count / (double)nanoseconds);
}

/* A complete event, but for its arguments: the caller may add them, and ends it with json_out_close. */
static void open_event(struct trace *t, const char *name, const char *category, enum process process,
                       int thread, int64_t start, int64_t end)
{
    struct json_out *j = &t->json;
    json_out_open(j, NULL, '{', JSON_OUT_COMPACT);
    JSON_MEMBERS(j, "name", name, "ph", "X", "pid", (int)process + 2 * t->rank, "tid", thread, "cat",
                 category);
    put_time(j, "ts", start + t->shift);
    put_time(j, "dur", end - start);
}

/* Work that took this long; flops below 0: not counted. */
static void put_work(struct json_out *event, int64_t bytes, int64_t flops, int64_t nanoseconds,
                     double wait_us)
{
    json_out_open(event, "args", '{', JSON_OUT_COMPACT);
    json_out_int(event, "bytes", bytes);
    if (flops >= 0) json_out_int(event, "flops", flops);
    put_rate(event, "GB/s", bytes, nanoseconds);
    put_rate(event, "GFLOP/s", flops, nanoseconds);
    if (wait_us > 0) json_out_real(event, "waits for other ranks, us", wait_us);
    json_out_close(event);
}

static void put_sides(struct json_out *args, const char *name, const int sides[3])
{
    json_out_open(args, name, '[', JSON_OUT_COMPACT);
    for (int i = 0; i < 3; i++) json_out_int(args, NULL, sides[i]);
    json_out_close(args);
}

/* A kernel's launch; bytes unless the name says otherwise. */
static void put_launch(struct json_out *event, const struct kernel_launch *launch,
                       const struct occupancy *occupancy)
{
    json_out_open(event, "args", '{', JSON_OUT_COMPACT);
    put_sides(event, "grid", launch->grid);
    put_sides(event, "block", launch->block);
    JSON_MEMBERS(event, "registers per thread", launch->registers, "local memory per thread", launch->local,
                 "static shared memory", launch->static_shared, "dynamic shared memory",
                 launch->dynamic_shared);
    if (occupancy->share > 0)
        JSON_MEMBERS(event, "theoretical occupancy %", 100 * occupancy->share, "limited by", occupancy->limit,
                     "waves", occupancy->waves);
    json_out_close(event);
}

/* ---- spans as a tree ---- */

static int64_t start_of(const struct span *span)
{
    return llround(span->start_us * 1e3);
}

static int64_t end_of(const struct span *span)
{
    return llround((span->start_us + span->time_us) * 1e3);
}

/* The end of the group of spans that begins at `first`, at most `count`. */
static int group_end(const struct span *spans, int first, int count, bool same_layer)
{
    int i = first + 1;
    while (i < count && spans[i].phase == spans[first].phase &&
           (!same_layer || spans[i].layer == spans[first].layer))
        i++;
    return i;
}

static void put_group(struct trace *t, const char *name, const char *category, int64_t start, int64_t end)
{
    open_event(t, name, category, PROCESS_STEP, 1, start, end);
    json_out_close(&t->json);
}

static void put_layer(struct trace *t, const struct span *spans, int first, int end)
{
    char name[32];
    snprintf(name, sizeof name, "layer %d", spans[first].layer);
    if (spans[first].layer >= 0)
        put_group(t, name, "layer", start_of(&spans[first]), end_of(&spans[end - 1]));
    for (int i = first; i < end; i++) {
        int64_t from = start_of(&spans[i]), to = end_of(&spans[i]);
        open_event(t, spans[i].op, spans[i].collective ? "collective" : "operation", PROCESS_STEP, 1, from,
                   to);
        if (spans[i].bytes >= 0)
            put_work(&t->json, spans[i].bytes, spans[i].flops, to - from, spans[i].wait_us);
        json_out_close(&t->json);
    }
}

void trace_spans(struct trace *t, double step_us, const struct span *spans, int count)
{
    char name[48];
    int64_t end = llround(step_us * 1e3);
    if (count && end_of(&spans[count - 1]) > end) end = end_of(&spans[count - 1]);
    snprintf(name, sizeof name, "step %" PRId64, t->step);
    put_group(t, name, "step", 0, end);
    for (int phase = 0, next; phase < count; phase = next) {
        next = group_end(spans, phase, count, false);
        put_group(t, phase_name(spans[phase].phase), "phase", start_of(&spans[phase]),
                  end_of(&spans[next - 1]));
        for (int layer = phase, after; layer < next; layer = after) {
            after = group_end(spans, layer, next, true);
            put_layer(t, spans, layer, after);
        }
    }
}

static void name_processes(struct trace *t, const struct trace_origin *of)
{
    char step[160] = "anneal", device[200];
    if (of->host) snprintf(step, sizeof step, "rank %d on %s", of->rank, of->host);
    snprintf(device, sizeof device, "%s%s%s", of->host ? step : "", of->host ? ": " : "", of->device);
    put_name(t, "process_name", PROCESS_STEP, 1, step);
    put_name(t, "thread_name", PROCESS_STEP, 1, "step");
    put_name(t, "process_name", PROCESS_DEVICE, 1, device);
}

enum status trace_open(const struct trace_origin *origin, struct trace **out, struct err *err)
{
    struct trace *t = calloc(1, sizeof *t);
    if (t) t->out = open_memstream(&t->text, &t->size);
    if (!t || !t->out) {
        free(t);
        return err_no_memory(err, "the trace of step %" PRId64, origin->step);
    }
    t->step = origin->step;
    t->rank = origin->rank;
    t->shift = llround(origin->at * 1e9);
    t->stream = -1;
    json_out_begin(&t->json, t->out);
    json_out_open(&t->json, NULL, '{', JSON_OUT_COMPACT);
    json_out_text(&t->json, "displayTimeUnit", "ms");
    json_out_open(&t->json, "traceEvents", '[', JSON_OUT_LINES);
    fflush(t->out);
    t->head = t->size;
    name_processes(t, origin);
    *out = t;
    return STATUS_OK;
}

const char *trace_text(struct trace *t, size_t *size)
{
    fflush(t->out);
    *size = t->size - t->head;
    return t->text + t->head;
}

void trace_add(struct trace *t, const char *text)
{
    json_out_raw(&t->json, NULL, text);
}

void trace_activity(void *trace, const struct activity *a)
{
    struct trace *t = trace;
    int64_t start = a->start_ns > 0 ? a->start_ns : 0, end = a->start_ns + a->duration_ns;
    bool kernel = a->kind == ACTIVITY_KERNEL;
    char name[32];
    if (end < start) return;      /* before the step */
    if (a->stream != t->stream) { /* naming one twice is harmless */
        snprintf(name, sizeof name, "stream %d", a->stream);
        put_name(t, "thread_name", PROCESS_DEVICE, a->stream, name);
        t->stream = a->stream;
    }
    open_event(t, a->name, kernel ? "kernel" : "copy", PROCESS_DEVICE, a->stream, start, end);
    if (!kernel)
        put_work(&t->json, a->bytes, -1, end - start, 0);
    else if (a->launch.grid[0] > 0)
        put_launch(&t->json, &a->launch, &a->occupancy);
    json_out_close(&t->json);
}

enum status trace_close(struct trace *t, const char *path, struct err *err)
{
    enum status status = STATUS_OK;
    json_out_close(&t->json);
    json_out_close(&t->json);
    int error = json_out_finish(&t->json);
    if (!text_stream_end(t->out, &t->text) || error) status = err_no_memory(err, "the text of the trace");
    if (path && !status) status = file_write_atomic(path, t->text, t->size, err);
    free(t->text);
    free(t);
    return status;
}
