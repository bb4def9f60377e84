/* How many threads the CPU computes with, and what costs speed in that number. */
#ifndef ANNEAL_KERNELS_DEVICE_CPU_THREADS_H
#define ANNEAL_KERNELS_DEVICE_CPU_THREADS_H

#include <stdbool.h>
#include <stddef.h>

#define CPU_THREADS_MAX 1024

/* The settings and limits from which the number of threads follows. */
struct cpu_threads {
    int asked;     /* train.threads; 0: nothing */
    int wanted;    /* OMP_NUM_THREADS; 0: nothing */
    int most;      /* OMP_THREAD_LIMIT */
    int online;    /* processors of the machine */
    int allowed;   /* of these by the affinity of the process: taskset, a scheduler, a cpuset */
    double limit;  /* processor time that control groups leave, in processors; 0: no limit */
    bool spinning; /* waiting threads keep their processors: OMP_WAIT_POLICY or GOMP_SPINCOUNT */
};

/* Looks at the environment and at the process. */
struct cpu_threads cpu_threads_look(int asked);

/* The number that is asked for or wanted, else as many as there are processors allowed and within the limit;
 * never more than OpenMP starts. At least 1. */
int cpu_threads_choose(const struct cpu_threads *threads);

/* Writes a sentence for the user with a remedy: "warning" if the number of threads makes steps slower, "info"
 * if there are fewer than the machine has processors without anyone having said so; NULL: neither. */
const char *cpu_threads_note(const struct cpu_threads *threads, char *buf, size_t size);

/* Gives the calling thread, the first, all processors that OpenMP may use. OMP_PROC_BIND, OMP_PLACES and
 * GOMP_CPU_AFFINITY tie it to one place before main; threads that it makes, and the program that it starts
 * again, would inherit that. OpenMP ties its other threads itself. */
void cpu_threads_untie(void);

#endif
