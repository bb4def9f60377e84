/* See trace.h. */
#include "core/train/trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/json_out.h"

enum { PROCESS_STEP = 1, PROCESS_DEVICE = 2, STREAMS_MAX = 64 };

struct trace {
    int64_t step;
    char device[96];
    FILE *out; /* into text */
    char *text;
    size_t size;
    int streams[STREAMS_MAX]; /* whose names are written */
    int stream_count;
    struct json_out json;
};

/* An event, open for what else it holds. */
static struct json_out *begin_event(struct trace *t, const char *name, const char *phase, int process,
                                    int thread)
{
    json_out_open(&t->json, NULL, '{', JSON_OUT_COMPACT);
    json_out_text(&t->json, "name", name);
    json_out_text(&t->json, "ph", phase);
    json_out_int(&t->json, "pid", process);
    json_out_int(&t->json, "tid", thread);
    return &t->json;
}

/* what: "process_name" or "thread_name" */
static void put_name(struct trace *t, const char *what, int process, int thread, const char *name)
{
    struct json_out *event = begin_event(t, what, "M", process, thread);
    json_out_open(event, "args", '{', JSON_OUT_COMPACT);
    json_out_text(event, "name", name);
    json_out_close(event);
    json_out_close(event);
}

/* Microseconds from whole nanoseconds, so that nested events stay nested in decimals. */
static void put_time(struct json_out *event, const char *name, int64_t ns)
{
    char number[32];
    snprintf(number, sizeof number, "%" PRId64 ".%03" PRId64, ns / 1000, ns % 1000);
    json_out_raw(event, name, number);
}

/* A complete event, open for its arguments. */
static struct json_out *begin_complete(struct trace *t, const char *name, const char *category, int process,
                                       int thread, int64_t start, int64_t end)
{
    struct json_out *event = begin_event(t, name, "X", process, thread);
    json_out_text(event, "cat", category);
    put_time(event, "ts", start);
    put_time(event, "dur", end - start);
    return event;
}

static void put_group(struct trace *t, const char *name, const char *category, int64_t start, int64_t end)
{
    json_out_close(begin_complete(t, name, category, PROCESS_STEP, 1, start, end));
}

/* G a second from a count and nanoseconds. */
static void put_rate(struct json_out *event, const char *name, int64_t count, int64_t nanoseconds)
{
    if (count > 0 && nanoseconds > 0) json_out_real(event, name, (double)count / (double)nanoseconds);
}

static void put_operation(struct trace *t, const struct span *s, int64_t start, int64_t end)
{
    struct json_out *event = begin_complete(t, s->op, "operation", PROCESS_STEP, 1, start, end);
    json_out_open(event, "args", '{', JSON_OUT_COMPACT);
    json_out_int(event, "bytes", s->bytes);
    json_out_int(event, "flops", s->flops);
    put_rate(event, "GB/s", s->bytes, end - start);
    put_rate(event, "GFLOP/s", s->flops, end - start);
    json_out_close(event);
    json_out_close(event);
}

/* ---- spans as a tree ---- */

struct interval {
    int64_t start, end; /* ns; both -1: not measured */
};

/* Rounding must not make neighbours overlap: each begins where or after the one before ends. */
static void place_spans(const struct span *spans, int count, struct interval *at)
{
    int64_t before = 0;
    for (int i = 0; i < count; i++) {
        const struct span *s = &spans[i];
        at[i] = (struct interval){-1, -1};
        if (!isfinite(s->start_us) || !isfinite(s->time_us)) continue;
        int64_t start = llround(s->start_us * 1e3), end = llround((s->start_us + s->time_us) * 1e3);
        if (start < before) start = before;
        if (end < start) end = start;
        at[i] = (struct interval){start, end};
        before = end;
    }
}

static bool together(const struct span *a, const struct span *b, bool same_layer)
{
    return a->phase == b->phase && (!same_layer || a->layer == b->layer);
}

/* The end of the group of spans that begins with `first`, at most `count`. */
static int group_end(const struct span *spans, int first, int count, bool same_layer)
{
    int i = first + 1;
    while (i < count && together(&spans[first], &spans[i], same_layer)) i++;
    return i;
}

/* From the first measured span's start to the last one's end; false where none is measured. */
static bool bounds(const struct interval *at, int first, int end, struct interval *out)
{
    *out = (struct interval){-1, -1};
    for (int i = first; i < end; i++) {
        if (at[i].start < 0) continue;
        if (out->start < 0) out->start = at[i].start;
        out->end = at[i].end;
    }
    return out->start >= 0;
}

static void put_layer(struct trace *t, const struct span *spans, const struct interval *at, int first,
                      int end)
{
    char name[32];
    struct interval whole;
    snprintf(name, sizeof name, "layer %d", spans[first].layer);
    if (spans[first].layer >= 0 && bounds(at, first, end, &whole))
        put_group(t, name, "layer", whole.start, whole.end);
    for (int i = first; i < end; i++)
        if (at[i].start >= 0) put_operation(t, &spans[i], at[i].start, at[i].end);
}

static void put_phase(struct trace *t, const struct span *spans, const struct interval *at, int first,
                      int end)
{
    struct interval whole;
    if (!bounds(at, first, end, &whole)) return;
    put_group(t, phase_name(spans[first].phase), "phase", whole.start, whole.end);
    for (int i = first, next; i < end; i = next) {
        next = group_end(spans, i, end, true);
        put_layer(t, spans, at, i, next);
    }
}

enum status trace_spans(struct trace *t, double step_us, const struct span *spans, int count, struct err *err)
{
    char name[48];
    struct interval whole, *at = calloc((size_t)count + 1, sizeof *at);
    int64_t end = isfinite(step_us) ? llround(step_us * 1e3) : 0;
    if (!at) return err_set(err, STATUS_NO_MEMORY, "no memory for the trace of step %" PRId64, t->step);
    place_spans(spans, count, at);
    if (bounds(at, 0, count, &whole) && whole.end > end) end = whole.end;
    snprintf(name, sizeof name, "step %" PRId64, t->step);
    put_group(t, name, "step", 0, end);
    for (int i = 0, next; i < count; i = next) {
        next = group_end(spans, i, count, false);
        put_phase(t, spans, at, i, next);
    }
    free(at);
    return STATUS_OK;
}

enum status trace_open(int64_t step, const char *device, struct trace **out, struct err *err)
{
    struct trace *t = calloc(1, sizeof *t);
    if (t) t->out = open_memstream(&t->text, &t->size);
    if (!t || !t->out) {
        free(t);
        return err_set(err, STATUS_NO_MEMORY, "no memory for the trace of step %" PRId64, step);
    }
    t->step = step;
    snprintf(t->device, sizeof t->device, "%s", device);
    json_out_begin(&t->json, t->out);
    json_out_open(&t->json, NULL, '{', JSON_OUT_COMPACT);
    json_out_text(&t->json, "displayTimeUnit", "ms");
    json_out_open(&t->json, "traceEvents", '[', JSON_OUT_LINES);
    put_name(t, "process_name", PROCESS_STEP, 1, "anneal");
    put_name(t, "thread_name", PROCESS_STEP, 1, "step");
    *out = t;
    return STATUS_OK;
}

/* ---- what the device saw ---- */

static void name_stream(struct trace *t, int stream)
{
    char name[32];
    for (int i = 0; i < t->stream_count; i++)
        if (t->streams[i] == stream) return;
    if (t->stream_count == 0) put_name(t, "process_name", PROCESS_DEVICE, stream, t->device);
    if (t->stream_count == STREAMS_MAX) return; /* then the number is its name */
    t->streams[t->stream_count++] = stream;
    snprintf(name, sizeof name, "stream %d", stream);
    put_name(t, "thread_name", PROCESS_DEVICE, stream, name);
}

void trace_activity(void *trace, const struct activity *a)
{
    struct trace *t = trace;
    int64_t start = a->start_ns > 0 ? a->start_ns : 0, end = a->start_ns + a->duration_ns;
    if (end < start) return; /* before the step */
    name_stream(t, a->stream);
    struct json_out *event = begin_complete(t, a->name, a->kind == ACTIVITY_KERNEL ? "kernel" : "copy",
                                            PROCESS_DEVICE, a->stream, start, end);
    if (a->kind != ACTIVITY_KERNEL) {
        json_out_open(event, "args", '{', JSON_OUT_COMPACT);
        json_out_int(event, "bytes", a->bytes);
        put_rate(event, "GB/s", a->bytes, end - start);
        json_out_close(event);
    }
    json_out_close(event);
}

enum status trace_close(struct trace *t, const char *path, struct err *err)
{
    enum status status = STATUS_OK;
    char folder[4096];
    json_out_close(&t->json);
    json_out_close(&t->json);
    int error = json_out_finish(&t->json);
    if (fclose(t->out) != 0 || error)
        status = err_set(err, STATUS_NO_MEMORY, "no memory for the text of the trace");
    if (path && !status) {
        const char *slash = strrchr(path, '/');
        snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
        status = file_make_folders(folder, err);
        if (!status) status = file_write_atomic(path, t->text, t->size, err);
    }
    free(t->text);
    free(t);
    return status;
}
