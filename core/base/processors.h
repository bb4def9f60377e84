/* How many processors this process may use. */
#ifndef ANNEAL_CORE_BASE_PROCESSORS_H
#define ANNEAL_CORE_BASE_PROCESSORS_H

/* Processors of the machine that are switched on. At least 1. */
int processors_online(void);

/* Those that the calling thread's affinity (taskset, a scheduler, a cpuset) allows. At least 1. */
int processors_allowed(void);

/* Processor time in processors, such as 1.5, that the control groups of this process leave it; 0: no limit.
 */
double processors_limit(void);

/* The lowest limit of a process's control group and of all its parents, of version 1 or 2. `groups` is a
 * process's /proc/<pid>/cgroup, `mounted` where control groups are mounted: /sys/fs/cgroup. 0: there is none.
 */
double processors_limit_read(const char *groups, const char *mounted);

/* How many threads a limit has work for: it is rounded up, so that none of its time is lost. At least 1;
 * `most` for 0. */
int processors_within(double limit, int most);

/* $OMP_NUM_THREADS, or the first number of its list; 0: it is not set, or is not a number from 1 to 65,536.
 */
int processors_wanted(void);

/* How many threads this process should have: processors_wanted, or else as many as there are processors that
 * are allowed and within the limit. At least 1. */
int processors_usable(void);

#endif
