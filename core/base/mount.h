/* The file system that a folder is on: whether other hosts may have it, too, and whether locks hold there. */
#ifndef ANNEAL_CORE_BASE_MOUNT_H
#define ANNEAL_CORE_BASE_MOUNT_H

#include <stdbool.h>

struct mount {
    char type[32]; /* as the system names it: "ext4", "nfs4", "fuse.sshfs"; "": not known */
    bool shared;   /* a file system that several hosts have at once */
    bool locks;    /* a lock that one of them takes holds for all */
};

/* Describes the file system of an existing file or folder. What cannot be found out counts as not shared. */
void mount_of(const char *path, struct mount *out);

/* The same by a list of mounts in the format of /proc/self/mountinfo (proc_pid_mountinfo(5)). */
void mount_find(const char *path, const char *list, struct mount *out);

#endif
