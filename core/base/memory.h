/* How much memory there is for this process, and how much of it it may still take. */
#ifndef ANNEAL_CORE_BASE_MEMORY_H
#define ANNEAL_CORE_BASE_MEMORY_H

#include <stdint.h>

/* Bytes: what the kernel calls available, or what is left of a control group's limit where that is less. 0:
 * not known. */
int64_t memory_available(void);

/* Bytes: what the machine has, or a control group's limit where that is less. 0: not known. */
int64_t memory_total(void);

/* Bytes of the available that a process has taken: its resident pages but those it shares with a file. 0: not
 * known. */
int64_t memory_private(int64_t pid);

/* Bytes: all of this process's resident pages. -1: not known. */
int64_t memory_resident(void);

/* The memory limits of a process's control groups, its own and all around it, of version 1 or 2. */
struct memory_group {
    int64_t limit; /* the lowest; -1: none has one */
    int64_t left;  /* the least that any of them leaves, pages of files that it could drop included; -1: not
                      known */
};

/* `groups` is a process's /proc/<pid>/cgroup, `mounted` where control groups are mounted: /sys/fs/cgroup. */
struct memory_group memory_group_read(const char *groups, const char *mounted);

#endif
