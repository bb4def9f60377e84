/* A trace as a test reads it: parsed, and checked against the rules for every trace. */
#ifndef ANNEAL_TESTS_CORE_TRAIN_TRACE_READER_H
#define ANNEAL_TESTS_CORE_TRAIN_TRACE_READER_H

#include <stdbool.h>

enum { TRACE_EVENTS_MAX = 4096 };

/* A complete event; times in nanoseconds. */
struct trace_event {
    char name[200], category[16];
    int process, thread;
    long long start, duration;
    double bytes, flops, gigabytes, gigaflops, wait; /* -1: not said; wait: microseconds */
    /* of a kernel; -1 or "": not said */
    double blocks, threads, registers, static_shared, dynamic_shared, occupancy, waves;
    char limit[16];
};

struct trace_reading {
    struct trace_event events[TRACE_EVENTS_MAX];
    int count;
    char processes[10][100];  /* names by number */
    char threads[10][10][40]; /* of process and thread */
};

/* Fails the test unless the file is JSON with traceEvents, each complete event has a name, a process and a
 * thread that have names, each rank has one step, and of two events of one thread one lies in the other or
 * they are apart. */
void trace_read(const char *path, struct trace_reading *out);

/* The first event of this name, or NULL; how many have the category. */
const struct trace_event *trace_find(const struct trace_reading *trace, const char *name);
int trace_count(const struct trace_reading *trace, const char *category);

/* Whether `inner` lies in `outer`, on the same thread. */
bool trace_holds(const struct trace_event *outer, const struct trace_event *inner);

/* The sum of the durations of all events of a category, and of the one event of the category "step". */
long long trace_sum(const struct trace_reading *trace, const char *category);

#endif
