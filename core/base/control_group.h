/* The control groups that limit this process, of version 1 and 2, as in the kernel's
 * admin-guide/cgroup-v2.rst and cgroup-v1. */
#ifndef ANNEAL_CORE_BASE_CONTROL_GROUP_H
#define ANNEAL_CORE_BASE_CONTROL_GROUP_H

#include <stdbool.h>

/* Calls `visit` with the folder of the process's group for a controller ("memory", "cpu"), then with those of
 * the groups that it lies in, up to the mount point; second: the group is of version 2. `groups` is a file
 * like /proc/self/cgroup, `mounted` a folder like /sys/fs/cgroup. */
void control_groups_visit(const char *groups, const char *mounted, const char *controller,
                          void (*visit)(void *context, const char *folder, bool second), void *context);

#endif
