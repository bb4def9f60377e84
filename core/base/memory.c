/* See memory.h. */
#include "core/base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The number on the line of /proc/meminfo that begins with `name`, in bytes; -1 without one. */
static int64_t meminfo(const char *name)
{
    char line[128];
    int64_t kib = -1;
    FILE *file = fopen("/proc/meminfo", "r");
    if (!file) return -1;
    while (kib < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0) sscanf(line + strlen(name), ": %" SCNd64, &kib);
    fclose(file);
    return kib < 0 ? -1 : kib * 1024;
}

/* The number in a control group's file; -1 without one ("max", no such group). */
static int64_t group_number(const char *path)
{
    int64_t bytes = -1;
    FILE *file = fopen(path, "r");
    if (!file) return -1;
    if (fscanf(file, "%" SCNd64, &bytes) != 1) bytes = -1;
    fclose(file);
    return bytes;
}

static const char group_limit[] = "/sys/fs/cgroup/memory.max";

int64_t memory_total(void)
{
    int64_t bytes = meminfo("MemTotal"), limit = group_number(group_limit);
    if (limit > 0 && (bytes < 0 || limit < bytes)) bytes = limit;
    return bytes < 0 ? 0 : bytes;
}

int64_t memory_available(void)
{
    int64_t free_bytes = meminfo("MemAvailable");
    int64_t limit = group_number(group_limit), used = group_number("/sys/fs/cgroup/memory.current");
    if (limit >= 0 && used >= 0 && (free_bytes < 0 || limit - used < free_bytes))
        free_bytes = limit > used ? limit - used : 0;
    return free_bytes < 0 ? 0 : free_bytes;
}

int64_t memory_private(void)
{
    int64_t resident = 0, shared = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file) return 0;
    if (fscanf(file, "%*d %" SCNd64 " %" SCNd64, &resident, &shared) != 2) resident = shared = 0;
    fclose(file);
    return resident > shared ? (resident - shared) * sysconf(_SC_PAGESIZE) : 0;
}
