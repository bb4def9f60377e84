/* See profiler.h. Mark i is before span i, mark `count` after the last span. */
#include "core/train/profiler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct profiler {
    struct profiler_options options;
    struct stream *stream;    /* of the current step, borrowed */
    struct network *network;  /* the observed one, borrowed; NULL: none */
    struct observer observer; /* of this network */
    int64_t steps;            /* begun in this profiler's life */
    int64_t step;             /* the one profiled last */
    bool pending;             /* it has not been collected */
    bool full;                /* there was no room for its last marks */
    int phase;                /* of the open named range, which contains an operation's; -1: none */
    struct event **marks;     /* (capacity + 1) */
    struct span *spans;       /* (capacity) */
    double *waits; /* (capacity + 1) seconds waited for other ranks until each mark; NULL: one rank */
    int count, capacity;
    struct profile_record *rows;        /* (row_capacity + 1): the last for unattributed time */
    int row_count, row_capacity, found; /* found: the last row found */
};

enum status profiler_open(const struct profiler_options *options, struct profiler **out, struct err *err)
{
    struct profiler *p = calloc(1, sizeof *p);
    enum status status = STATUS_OK;
    if (!p) return err_no_memory(err, "a profiler");
    p->options = *options;
    p->capacity = (int)(options->marks < PROFILER_MARKS_MAX ? options->marks : PROFILER_MARKS_MAX);
    p->row_capacity = (int)(options->rows < p->capacity ? options->rows : p->capacity);
    p->marks = calloc((size_t)p->capacity + 1, sizeof *p->marks);
    p->spans = calloc((size_t)p->capacity, sizeof *p->spans);
    p->rows = calloc((size_t)p->row_capacity + 1, sizeof *p->rows);
    if (options->world && options->world->size > 1)
        p->waits = calloc((size_t)p->capacity + 1, sizeof *p->waits);
    if (!p->marks || !p->spans || !p->rows || (options->world && options->world->size > 1 && !p->waits))
        status =
            err_no_memory(err, "a profile of %d operations (turn it off: profile.every = 0)", p->capacity);
    for (int i = 0; !status && i <= p->capacity; i++)
        status = options->backend->event_open(options->device, &p->marks[i], err);
    if (status) {
        profiler_close(p);
        return status;
    }
    *out = p;
    return STATUS_OK;
}

void profiler_close(struct profiler *p)
{
    if (!p) return;
    for (int i = 0; p->marks && i <= p->capacity && p->marks[i]; i++)
        p->options.backend->event_close(p->marks[i]);
    free(p->marks);
    free(p->spans);
    free(p->waits);
    free(p->rows);
    free(p);
}

static bool is_due(const struct profiler *p)
{
    int64_t warm = p->steps - p->options.warmup_steps, every = p->options.every;
    return every > 0 && warm >= 0 && warm % every == 0;
}

bool profiler_is_held_up(const struct profiler *p)
{
    return p && p->pending && is_due(p);
}

/* For the vendor's tools: ends the open ranges, except that of the phase that continues (-1: none). */
static void end_ranges(struct profiler *p, int next)
{
    if (p->phase < 0) return;
    p->options.backend->range_pop();
    if (p->phase != next) p->options.backend->range_pop();
}

/* In a profiled step a collective is exchanged by this thread, in whichever of the two worlds. */
static void set_mark(struct profiler *p)
{
    const struct world *world = p->options.world;
    p->options.backend->event_record(p->marks[p->count], p->stream);
    if (p->waits)
        p->waits[p->count] = world_waited(world) + (world->beside ? world_waited(world->beside) : 0);
}

void profiler_mark(struct profiler *p, enum phase phase, int layer, const char *op, int64_t bytes,
                   int64_t flops)
{
    if (p->full) return;
    end_ranges(p, (int)phase);
    if (p->phase != (int)phase) p->options.backend->range_push(phase_name(phase));
    p->options.backend->range_push(op);
    p->phase = (int)phase;
    set_mark(p);
    if (p->count == p->capacity)
        p->full = true;
    else
        p->spans[p->count++] =
            (struct span){.phase = phase, .layer = layer, .op = op, .bytes = bytes, .flops = flops};
}

/* Attention in rows that hold several sequences computes less than its shape says. For all tokens of an epoch
 * this is exact without a window. */
static int64_t flops_of(const struct profiler *p, const struct operation_call *call)
{
    bool attention =
        call->operation == OPERATION_attention_forward || call->operation == OPERATION_attention_backward;
    if (!attention || p->options.span <= 0) return call->flops;
    int64_t T = call->counts[1], window = call->counts[5];
    double span = p->options.span, W = window > 0 && (double)window < span ? (double)window : span;
    double pairs = (double)T * W * (1 - (W - 1) / (2 * span));
    return (int64_t)((double)call->flops * pairs / (double)attention_pairs(T, window));
}

static void note(void *context, const struct operation_call *call)
{
    struct profiler *p = context;
    const char *label = network_label(p->network, call);
    struct pass_place where = p->network->where;
    if (!label) return;
    profiler_mark(p, where.phase, where.layer, label, call->bytes, flops_of(p, call));
    if (!p->full) p->spans[p->count - 1].collective = network_is_collective(call->operation);
}

struct profiler *profiler_begin(struct profiler *p, int64_t step, struct stream *stream,
                                struct network *network, bool wished)
{
    if (!p) return NULL;
    bool due = is_due(p) && !p->pending;
    p->steps++;
    if (!due && !wished) return NULL;
    p->stream = stream;
    p->step = step;
    p->count = p->row_count = p->found = 0;
    p->full = false;
    p->phase = -1;
    p->pending = true;
    p->network = network;
    p->observer = (struct observer){.note = note, .context = p};
    if (network) network_observe(network, &p->observer);
    return p;
}

void profiler_end(struct profiler *p)
{
    if (!p) return;
    end_ranges(p, -1);
    p->phase = -1;
    if (p->network) network_observe(p->network, NULL);
    p->network = NULL;
    if (!p->full) set_mark(p);
}

void profiler_forget(struct profiler *p)
{
    if (p) p->pending = false;
}

/* ---- reading ---- */

/* The row of a span, added if there is none; NULL: no room. Micro-batches repeat their operations, so the row
 * is usually the one after the last row found. */
static struct profile_record *row_of(struct profiler *p, const struct span *span)
{
    const char *phase = phase_name(span->phase);
    for (int i = 1; i <= p->row_count; i++) {
        struct profile_record *row = &p->rows[(p->found + i) % p->row_count];
        if (row->phase != phase || row->layer != span->layer || strcmp(row->op, span->op) != 0) continue;
        p->found = (int)(row - p->rows);
        return row;
    }
    if (p->row_count == p->row_capacity) return NULL;
    p->found = p->row_count++;
    p->rows[p->found] =
        (struct profile_record){.step = p->step, .phase = phase, .layer = span->layer, .op = span->op};
    return &p->rows[p->found];
}

/* False if a mark cannot be read: the stream failed. */
static bool read_times(struct profiler *p)
{
    double at = 0;
    for (int i = 0; i < p->count; i++) {
        p->spans[i].start_us = at;
        p->spans[i].time_us = p->options.backend->event_elapsed(p->marks[i], p->marks[i + 1]) * 1e3;
        if (isnan(p->spans[i].time_us)) return false;
        if (p->waits && p->spans[i].collective) p->spans[i].wait_us = (p->waits[i + 1] - p->waits[i]) * 1e6;
        at += p->spans[i].time_us;
    }
    return true;
}

/* Adds to the row of a span; false: there is no room for it. */
static bool add(struct profiler *p, const struct span *span, double time_us)
{
    struct profile_record *row = row_of(p, span);
    if (!row) return false;
    row->calls++;
    row->time_us += time_us;
    row->bytes += span->bytes;
    row->flops += span->flops;
    return true;
}

const struct profile_record *profiler_collect(struct profiler *p, int64_t step, double step_us, int *count)
{
    *count = 0;
    if (!p || !p->pending || p->step != step) return NULL;
    if (!p->options.backend->event_done(p->marks[p->count])) return NULL;
    p->pending = false;
    if (!read_times(p)) return NULL;
    double left = step_us;
    for (int i = 0; i < p->count; i++) {
        const struct span *span = &p->spans[i];
        struct span wait = {.phase = span->phase, .layer = -1, .op = PROFILE_WAIT};
        bool waited = span->wait_us > 0 && add(p, &wait, span->wait_us);
        add(p, span, span->time_us - (waited ? span->wait_us : 0));
    }
    for (int i = 0; i < p->row_count; i++) left -= p->rows[i].time_us;
    p->rows[p->row_count] = (struct profile_record){.step = step,
                                                    .phase = "unattributed",
                                                    .layer = -1,
                                                    .op = "unattributed",
                                                    .calls = 1,
                                                    .time_us = left};
    *count = p->row_count + 1;
    return p->rows;
}

const struct span *profiler_spans(const struct profiler *p, int *count)
{
    *count = p->count;
    return p->spans;
}
