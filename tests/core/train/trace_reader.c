/* See trace_reader.h. */
#include "tests/core/train/trace_reader.h"
#include "tests/cmocka.h"

#include <jansson.h>
#include <math.h>

static long long nanoseconds(const json_t *event, const char *key)
{
    const json_t *value = json_object_get(event, key);
    assert_true(json_is_number(value));
    return llround(json_number_value(value) * 1e3);
}

static double number(const json_t *args, const char *key)
{
    const json_t *value = json_object_get(args, key);
    return value ? json_number_value(value) : -1;
}

/* The product of the list's three numbers; -1: there is none. */
static double volume(const json_t *args, const char *key)
{
    const json_t *sides = json_object_get(args, key);
    if (!sides) return -1;
    assert_int_equal(json_array_size(sides), 3);
    return json_number_value(json_array_get(sides, 0)) * json_number_value(json_array_get(sides, 1)) *
           json_number_value(json_array_get(sides, 2));
}

static void read_launch(const json_t *args, struct trace_event *event)
{
    const char *limit = json_string_value(json_object_get(args, "limited by"));
    event->blocks = volume(args, "grid");
    event->threads = volume(args, "block");
    event->registers = number(args, "registers per thread");
    event->static_shared = number(args, "static shared memory");
    event->dynamic_shared = number(args, "dynamic shared memory");
    event->occupancy = number(args, "theoretical occupancy %");
    event->waves = number(args, "waves");
    snprintf(event->limit, sizeof event->limit, "%s", limit ? limit : "");
}

static void read_event(const json_t *json, struct trace_reading *out)
{
    const json_t *args = json_object_get(json, "args");
    const char *name = json_string_value(json_object_get(json, "name")),
               *phase = json_string_value(json_object_get(json, "ph"));
    int process = (int)json_integer_value(json_object_get(json, "pid"));
    assert_true(name && *name && phase && process > 0 && process < 10);
    if (strcmp(phase, "M") == 0) {
        const char *given = json_string_value(json_object_get(args, "name"));
        json_int_t thread = json_integer_value(json_object_get(json, "tid"));
        bool whole = strcmp(name, "process_name") == 0;
        assert_true(given && (whole || (strcmp(name, "thread_name") == 0 && thread >= 0)));
        if (whole)
            snprintf(out->processes[process], sizeof out->processes[process], "%s", given);
        else if (thread < 10)
            snprintf(out->threads[process][thread], sizeof out->threads[process][thread], "%s", given);
        return;
    }
    assert_string_equal(phase, "X");
    assert_in_range(out->count, 0, TRACE_EVENTS_MAX - 1);
    struct trace_event *event = &out->events[out->count++];
    snprintf(event->name, sizeof event->name, "%s", name);
    snprintf(event->category, sizeof event->category, "%s", json_string_value(json_object_get(json, "cat")));
    event->process = process;
    event->thread = (int)json_integer_value(json_object_get(json, "tid"));
    event->start = nanoseconds(json, "ts");
    event->duration = nanoseconds(json, "dur");
    assert_true(event->start >= 0 && event->duration >= 0);
    event->bytes = number(args, "bytes");
    event->flops = number(args, "flops");
    event->gigabytes = number(args, "GB/s");
    event->gigaflops = number(args, "GFLOP/s");
    event->wait = number(args, "waits for other ranks, us");
    read_launch(args, event);
}

static void expect_nested(const struct trace_reading *trace)
{
    for (int i = 0; i < trace->count; i++)
        for (int k = i + 1; k < trace->count; k++) {
            const struct trace_event *a = &trace->events[i], *b = &trace->events[k];
            if (a->process != b->process || a->thread != b->thread) continue;
            bool apart = a->start + a->duration <= b->start || b->start + b->duration <= a->start;
            if (!apart && !trace_holds(a, b) && !trace_holds(b, a))
                fail_msg("\"%s\" and \"%s\" overlap in part", a->name, b->name);
        }
}

void trace_read(const char *path, struct trace_reading *out)
{
    json_error_t error;
    size_t i;
    json_t *event, *root = json_load_file(path, 0, &error);
    memset(out, 0, sizeof *out);
    if (!root) fail_msg("%s:%d: %s", path, error.line, error.text);
    json_t *events = json_object_get(root, "traceEvents");
    assert_true(json_is_array(events));
    json_array_foreach(events, i, event) read_event(event, out);
    json_decref(root);
    for (int k = 0; k < out->count; k++) {
        const struct trace_event *e = &out->events[k];
        assert_true(out->processes[e->process][0] &&
                    (e->thread >= 10 || out->threads[e->process][e->thread][0]));
    }
    int ranks = 0;
    for (int p = 1; p < 10; p += 2) ranks += out->processes[p][0] != '\0';
    assert_int_equal(trace_count(out, "step"), ranks);
    expect_nested(out);
}

const struct trace_event *trace_find(const struct trace_reading *trace, const char *name)
{
    for (int i = 0; i < trace->count; i++)
        if (strcmp(trace->events[i].name, name) == 0) return &trace->events[i];
    return NULL;
}

int trace_count(const struct trace_reading *trace, const char *category)
{
    int count = 0;
    for (int i = 0; i < trace->count; i++) count += strcmp(trace->events[i].category, category) == 0;
    return count;
}

bool trace_holds(const struct trace_event *outer, const struct trace_event *inner)
{
    return outer->process == inner->process && outer->thread == inner->thread &&
           outer->start <= inner->start && inner->start + inner->duration <= outer->start + outer->duration;
}

long long trace_sum(const struct trace_reading *trace, const char *category)
{
    long long sum = 0;
    for (int i = 0; i < trace->count; i++)
        if (strcmp(trace->events[i].category, category) == 0) sum += trace->events[i].duration;
    return sum;
}
