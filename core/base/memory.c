/* See memory.h. Control groups as in the kernel's admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst. */
#include "core/base/memory.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The number on the line of a file that begins with `name`, -1 without one. */
static int64_t number_of(const char *path, const char *name)
{
    char line[256];
    int64_t number = -1;
    size_t n = strlen(name);
    FILE *file = fopen(path, "re");
    if (!file) return -1;
    while (number < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, name, n) == 0 && (line[n] == ':' || line[n] == ' '))
            sscanf(line + n + 1, "%" SCNd64, &number);
    fclose(file);
    return number;
}

static int64_t meminfo(const char *name)
{
    int64_t kib = number_of("/proc/meminfo", name);
    return kib < 0 ? -1 : kib * 1024;
}

/* ---- control groups ---- */

/* What the files of a version are called; below `mounted`, in `folder`. */
static const struct version {
    const char *folder, *limit, *used, *droppable;
} versions[] = {
    {"", "memory.max", "memory.current", "inactive_file"},
    {"/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
};

/* The number in a file; -1 without one ("max", no such group). */
static int64_t group_number(const char *folder, const char *name)
{
    char path[PATH_MAX + 32];
    int64_t bytes = -1;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (!file) return -1;
    if (fscanf(file, "%" SCNd64, &bytes) != 1) bytes = -1;
    fclose(file);
    return bytes;
}

static void read_group(const struct version *version, const char *folder, struct memory_group *out)
{
    char stat[PATH_MAX + 32];
    int64_t limit = group_number(folder, version->limit), used = group_number(folder, version->used);
    if (limit < 0) return;
    if (out->limit < 0 || limit < out->limit) out->limit = limit;
    if (used < 0) return;
    snprintf(stat, sizeof stat, "%s/memory.stat", folder);
    int64_t droppable = number_of(stat, version->droppable);
    if (droppable > 0) used = droppable < used ? used - droppable : 0;
    int64_t left = limit > used ? limit - used : 0;
    if (out->left < 0 || left < out->left) out->left = left;
}

/* From the process's group up to where they are mounted: in a container its own group may be mounted there,
 * and the path that leads to it outside does not exist. */
static void read_groups(const struct version *version, const char *mounted, const char *group,
                        struct memory_group *out)
{
    char folder[PATH_MAX];
    int root = snprintf(folder, sizeof folder, "%s%s", mounted, version->folder);
    if (root < 0 || (size_t)root >= sizeof folder) return;
    if (strcmp(group, "/") != 0) snprintf(folder + root, sizeof folder - (size_t)root, "%s", group);
    for (;;) {
        read_group(version, folder, out);
        char *slash = strrchr(folder + root, '/');
        if (!slash) return;
        *slash = '\0';
    }
}

/* A line is "0::/path" of version 2, "4:memory:/path" of version 1, which may have several names. */
struct memory_group memory_group_read(const char *groups, const char *mounted)
{
    struct memory_group found = {-1, -1};
    char line[PATH_MAX];
    FILE *file = fopen(groups, "re");
    if (!file) return found;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        if (!group) continue;
        *names = *group = ','; /* so that each name stands between two */
        char after = group[1];
        group[1] = '\0';
        bool second = strcmp(names, ",,") == 0, first = strstr(names, ",memory,") != NULL;
        group[1] = after;
        if (second || first) read_groups(&versions[second ? 0 : 1], mounted, group + 1, &found);
    }
    fclose(file);
    return found;
}

static struct memory_group own_group(void)
{
    return memory_group_read("/proc/self/cgroup", "/sys/fs/cgroup");
}

/* ---- what there is ---- */

int64_t memory_total(void)
{
    int64_t bytes = meminfo("MemTotal"), limit = own_group().limit;
    if (limit > 0 && (bytes < 0 || limit < bytes)) bytes = limit;
    return bytes < 0 ? 0 : bytes;
}

int64_t memory_available(void)
{
    int64_t bytes = meminfo("MemAvailable"), left = own_group().left;
    if (left >= 0 && (bytes < 0 || left < bytes)) bytes = left;
    return bytes < 0 ? 0 : bytes;
}

int64_t memory_private(int64_t pid)
{
    int64_t resident = 0, shared = 0;
    char path[48];
    snprintf(path, sizeof path, "/proc/%" PRId64 "/statm", pid);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    if (fscanf(file, "%*d %" SCNd64 " %" SCNd64, &resident, &shared) != 2) resident = shared = 0;
    fclose(file);
    return resident > shared ? (resident - shared) * sysconf(_SC_PAGESIZE) : 0;
}
