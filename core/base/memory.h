/* How much host memory this process may use, and how much of it is still free. */
#ifndef ANNEAL_CORE_BASE_MEMORY_H
#define ANNEAL_CORE_BASE_MEMORY_H

#include <stdint.h>

/* Bytes: what the kernel calls available, or what a control group's limit leaves, if that is less. 0:
 * unknown. */
int64_t memory_available(void);

/* Bytes: the machine's memory, or a control group's limit, if that is less. 0: unknown. */
int64_t memory_total(void);

/* Bytes that a process takes from the available memory: its resident pages, except file-backed ones. 0:
 * unknown. */
int64_t memory_private(int64_t pid);

/* Bytes: all resident pages of this process. -1: unknown. */
int64_t memory_resident(void);

/* The memory limits of a process's control group and of all its parents, of version 1 or 2. */
struct memory_group {
    int64_t limit; /* the lowest; -1: none has one */
    int64_t left;  /* the least that any group leaves, droppable file pages counted as free; -1: not
                      known */
};

/* `groups` is a process's /proc/<pid>/cgroup, `mounted` where control groups are mounted: /sys/fs/cgroup. */
struct memory_group memory_group_read(const char *groups, const char *mounted);

#endif
