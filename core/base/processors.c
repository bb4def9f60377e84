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

/* Walks from the process's group up to the mount point. In a container that group may itself be the mount
 * point, and the path that leads to it outside does not exist. */
static void read_groups(const char *mounted, const char *below, const char *group, bool second,
                        double *lowest)
{
    char folder[PATH_MAX], *slash;
    size_t root = strlen(mounted) + strlen(below);
    int n = snprintf(folder, sizeof folder, "%s%s%s", mounted, below, group);
    if (n >= (int)sizeof folder) return;
    if (folder[n - 1] == '/') folder[n - 1] = '\0';
    for (;; *slash = '\0') {
        double limit = read_group(folder, second);
        if (limit > 0 && (*lowest == 0 || limit < *lowest)) *lowest = limit;
        if (!(slash = strrchr(folder + root, '/'))) return;
    }
}

/* Whether a list such as "cpu,cpuacct" has the controller of processor time. */
static bool has_cpu(const char *names, size_t n)
{
    for (size_t at = 0, length; at < n; at += length + 1) {
        const char *comma = memchr(names + at, ',', n - at);
        length = comma ? (size_t)(comma - names) - at : n - at;
        if (length == 3 && memcmp(names + at, "cpu", 3) == 0) return true;
    }
    return false;
}

/* A line is "0::/path" of version 2, "4:cpu,cpuacct:/path" of version 1. */
double processors_limit_read(const char *groups, const char *mounted)
{
    double lowest = 0;
    char line[PATH_MAX];
    FILE *file = fopen(groups, "re");
    if (!file) return 0;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        const char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        if (!group || group[1] != '/') continue;
        if (group == names + 1) read_groups(mounted, "", group + 1, true, &lowest);
        if (has_cpu(names + 1, (size_t)(group - names - 1)))
            read_groups(mounted, "/cpu", group + 1, false, &lowest);
    }
    fclose(file);
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
