/* See cpu_threads.h. */
#include "kernels/device/cpu_threads.h"

#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "core/base/processors.h"
#include "core/base/text.h"

static bool waiting_spins(void)
{
    const char *policy = getenv("OMP_WAIT_POLICY"), *spins = getenv("GOMP_SPINCOUNT");
    if (spins) return strcasecmp(spins, "infinite") == 0 || atof(spins) > 1e6;
    return policy && strcasecmp(policy, "active") == 0;
}

struct cpu_threads cpu_threads_look(int asked)
{
    return (struct cpu_threads){.asked = asked,
                                .wanted = processors_wanted(),
                                .most = omp_get_thread_limit(),
                                .online = processors_online(),
                                .allowed = omp_get_num_procs(),
                                .limit = processors_limit(),
                                .spinning = waiting_spins()};
}

static int available(const struct cpu_threads *t)
{
    return processors_within(t->limit, t->allowed);
}

int cpu_threads_choose(const struct cpu_threads *t)
{
    int threads = t->asked ? t->asked : t->wanted ? t->wanted : available(t);
    if (threads > t->most) threads = t->most;
    if (threads > CPU_THREADS_MAX) threads = CPU_THREADS_MAX;
    return threads < 1 ? 1 : threads;
}

/* "1.5 of 2 processors" */
static void say_limit(const struct cpu_threads *t, char *buf, size_t size)
{
    snprintf(buf, size, "%.3g of %d processor%s", t->limit, t->online, text_plural(t->online));
}

const char *cpu_threads_note(const struct cpu_threads *t, char *buf, size_t size)
{
    int threads = cpu_threads_choose(t), room = available(t);
    const char *plural = text_plural(threads);
    char limit[64];
    bool limited = t->limit > 0 && room < t->allowed;
    say_limit(t, limit, sizeof limit);
    if (threads > room) {
        snprintf(buf, size, "%s = %d: the threads share %d processor%s%s, which makes steps slower (%s%d%s)",
                 t->asked ? "train.threads" : "OMP_NUM_THREADS", threads, room, text_plural(room),
                 limited            ? ", as a control group limits their time"
                 : room < t->online ? ", as the affinity of the process allows no more"
                                    : "",
                 t->asked ? "at most " : "unset it, or set train.threads = ", room,
                 t->asked ? ", or 0 for as many as can be used" : "");
        return "warning";
    }
    if (threads == t->most && threads < room &&
        (t->asked    ? t->asked
         : t->wanted ? t->wanted
                     : room) > t->most) {
        snprintf(buf, size, "OMP_THREAD_LIMIT = %d leaves processors unused: steps take longer (unset it)",
                 t->most);
        return "warning";
    }
    if (t->spinning && t->limit > 0 && threads > 1) {
        snprintf(
            buf, size,
            "OMP_WAIT_POLICY or GOMP_SPINCOUNT lets waiting threads spin, and a control group leaves %s: "
            "they use up its time (unset both)",
            limit);
        return "warning";
    }
    if (t->asked || t->wanted || threads == t->online) return NULL;
    if (limited)
        snprintf(buf, size, "a control group leaves %s: training with %d thread%s", limit, threads, plural);
    else
        snprintf(
            buf, size,
            "the affinity of the process allows %d of %d processors (taskset, a scheduler): training with "
            "%d thread%s",
            t->allowed, t->online, threads, plural);
    return "info";
}

void cpu_threads_untie(void)
{
    cpu_set_t all;
    CPU_ZERO(&all);
    for (int place = 0; place < omp_get_num_places(); place++) {
        int count = omp_get_place_num_procs(place), ids[CPU_SETSIZE];
        if (count > CPU_SETSIZE) continue;
        omp_get_place_proc_ids(place, ids);
        for (int i = 0; i < count; i++)
            if (ids[i] < CPU_SETSIZE) CPU_SET(ids[i], &all);
    }
    if (CPU_COUNT(&all)) (void)sched_setaffinity(0, sizeof all, &all);
}
