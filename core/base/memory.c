/* See memory.h. Control groups as in the kernel's admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst. */
#include "core/base/memory.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/base/control_group.h"

/* The number on the file's line that begins with `name`; -1 if there is none ("max", no such file). */
static int64_t number_in(const char *folder, const char *file, const char *name)
{
    char line[PATH_MAX + 32];
    int64_t number = -1;
    size_t n = strlen(name);
    snprintf(line, sizeof line, "%s/%s", folder, file);
    FILE *in = fopen(line, "re");
    if (!in) return -1;
    while (number < 0 && fgets(line, sizeof line, in))
        if (strncmp(line, name, n) == 0) sscanf(line + n + strspn(line + n, ": "), "%" SCNd64, &number);
    fclose(in);
    return number;
}

/* ---- control groups ---- */

/* The file names of each version of control groups. */
static const struct version {
    const char *limit, *used, *droppable;
} versions[] = {
    {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "},
    {"memory.max", "memory.current", "inactive_file "},
};

/* The smaller of two numbers; -1 means unknown. */
static int64_t lesser(int64_t a, int64_t b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

static void read_group(void *found, const char *folder, bool second)
{
    struct memory_group *out = found;
    const struct version *version = &versions[second];
    int64_t limit = number_in(folder, version->limit, ""), used = number_in(folder, version->used, "");
    if (limit < 0) return;
    out->limit = lesser(out->limit, limit);
    if (used < 0) return;
    int64_t droppable = number_in(folder, "memory.stat", version->droppable);
    if (droppable > 0) used = droppable < used ? used - droppable : 0;
    out->left = lesser(out->left, limit > used ? limit - used : 0);
}

struct memory_group memory_group_read(const char *groups, const char *mounted)
{
    struct memory_group found = {-1, -1};
    control_groups_visit(groups, mounted, "memory", read_group, &found);
    return found;
}

/* ---- totals ---- */

/* Converts the line's KiB to bytes. */
static int64_t bytes_in(const char *folder, const char *file, const char *name)
{
    int64_t kib = number_in(folder, file, name);
    return kib < 0 ? -1 : kib * 1024;
}

static int64_t known(int64_t bytes)
{
    return bytes < 0 ? 0 : bytes;
}

int64_t memory_total(void)
{
    return known(lesser(bytes_in("/proc", "meminfo", "MemTotal:"),
                        memory_group_read("/proc/self/cgroup", "/sys/fs/cgroup").limit));
}

int64_t memory_available(void)
{
    return known(lesser(bytes_in("/proc", "meminfo", "MemAvailable:"),
                        memory_group_read("/proc/self/cgroup", "/sys/fs/cgroup").left));
}

int64_t memory_private(int64_t pid)
{
    char folder[48];
    snprintf(folder, sizeof folder, "/proc/%" PRId64, pid);
    return known(bytes_in(folder, "status", "RssAnon:"));
}

int64_t memory_resident(void)
{
    return bytes_in("/proc/self", "status", "VmRSS:");
}
