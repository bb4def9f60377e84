/* See processors.h. Control groups as in the kernel's admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst.
 */
#include "core/base/processors.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/control_group.h"

enum { PROCESSORS_MAX = 65536 };

int processors_online(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > PROCESSORS_MAX ? PROCESSORS_MAX : (int)count;
}

int processors_allowed(void)
{
    cpu_set_t *set = CPU_ALLOC(PROCESSORS_MAX);
    size_t bytes = CPU_ALLOC_SIZE(PROCESSORS_MAX);
    int count = 0;
    if (set && sched_getaffinity(0, bytes, set) == 0) count = CPU_COUNT_S(bytes, set);
    CPU_FREE(set);
    return count > 0 ? count : processors_online();
}

/* ---- control groups ---- */

static bool read_line(const char *folder, const char *file, char line[64])
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *in = fopen(path, "re");
    bool there = in && fgets(line, 64, in);
    if (in) fclose(in);
    return there;
}

/* The quotient of two positive numbers of microseconds; 0 for "max", -1 and anything else. */
static double quotient(const char *quota, const char *period)
{
    char *end;
    errno = 0;
    long long time = strtoll(quota, &end, 10);
    if (errno || end == quota || time <= 0) return 0;
    long long of = strtoll(period, &end, 10);
    if (errno || end == period || of <= 0) return 0;
    return (double)time / (double)of;
}

/* "150000 100000" of version 2; version 1 has the numbers in two files. */
static double read_group(const char *folder, bool second)
{
    char quota[64], period[64];
    if (!read_line(folder, second ? "cpu.max" : "cpu.cfs_quota_us", quota)) return 0;
    if (second) return quotient(quota, quota + strcspn(quota, " "));
    return read_line(folder, "cpu.cfs_period_us", period) ? quotient(quota, period) : 0;
}

static void keep_lowest(void *lowest_, const char *folder, bool second)
{
    double *lowest = lowest_, limit = read_group(folder, second);
    if (limit > 0 && (*lowest == 0 || limit < *lowest)) *lowest = limit;
}

double processors_limit_read(const char *groups, const char *mounted)
{
    double lowest = 0;
    control_groups_visit(groups, mounted, "cpu", keep_lowest, &lowest);
    return lowest;
}

double processors_limit(void)
{
    return processors_limit_read("/proc/self/cgroup", "/sys/fs/cgroup");
}

/* ---- threads ---- */

int processors_within(double limit, int most)
{
    double whole = ceil(limit - 0.05); /* a twentieth is not worth a thread */
    if (limit <= 0 || whole >= most) return most;
    return whole < 1 ? 1 : (int)whole;
}

int processors_wanted(void)
{
    const char *wanted = getenv("OMP_NUM_THREADS");
    char *end;
    if (!wanted) return 0;
    errno = 0;
    long count = strtol(wanted, &end, 10);
    end += strspn(end, " \t");
    bool read = !errno && (*end == '\0' || *end == ',');
    return read && count > 0 && count <= PROCESSORS_MAX ? (int)count : 0;
}

int processors_usable(void)
{
    int wanted = processors_wanted();
    return wanted ? wanted : processors_within(processors_limit(), processors_allowed());
}
