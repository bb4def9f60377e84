/* The kernel's files on control groups, in a folder of a test. */
#ifndef ANNEAL_TESTS_CORE_BASE_GROUPS_H
#define ANNEAL_TESTS_CORE_BASE_GROUPS_H

/* The folder that stands for /sys/fs/cgroup, and the file that stands for /proc/self/cgroup. */
extern char groups_root[512], groups_file[600];

/* A fresh folder for one test. */
void groups_begin(const char *name);
/* Writes ROOT/FOLDER/NAME; the folder is "" or begins with a slash. */
void groups_put(const char *folder, const char *name, const char *text);

#endif
