/* A record of all that a program did to a folder, from which the folder is made as a power cut may leave it.
 *
 * A file's data are on the disk once the file is synced after they were written, a name once its folder is.
 * Of everything else any part may be there, in any order: a write of several pages of 4 KiB may be cut at any
 * of them. That is less than ext4, XFS and btrfs promise, and all that POSIX does. A rename is whole. */
#ifndef ANNEAL_TESTS_TUI_COMMAND_DISK_H
#define ANNEAL_TESTS_TUI_COMMAND_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/tui/command/traced.h"

struct disk;

/* What becomes of that which was not synced. */
enum disk_fate {
    DISK_LOST,
    DISK_NAMES, /* names are there, their data are not: files of zeros, or empty */
    DISK_DATA,  /* data are there, names are not */
    DISK_ANY,   /* each change by itself: there, not there, or in parts */
    DISK_FATES
};

/* The power goes after `point` changes. */
struct disk_cut {
    size_t point;
    enum disk_fate fate;
    uint32_t seed;
};

/* Runs a program and records what it does below `root`, which exists and counts as synced, and the lines that
 * it writes to traced->out. `said` (may be NULL) is called after each piece of output. traced->before, after
 * and context are not used. Returns the exit status as traced_run does. Free it with disk_free. */
struct disk *disk_record(const char *root, const struct traced *traced,
                         void (*said)(void *context, const char *text), void *context, int *status);
void disk_free(void *disk);

/* How many changes there are. */
size_t disk_count(const struct disk *disk);
/* Whether the change before `point` is a sync. */
bool disk_is_sync(const struct disk *disk, size_t point);
/* The output so far; yours to free. */
char *disk_output(const struct disk *disk, size_t point);

/* Makes the folder `to`, which does not exist. */
void disk_rebuild(const struct disk *disk, const struct disk_cut *cut, const char *to);
/* The same as if all changes before `point` had been synced: after the last one a copy of the root. */
void disk_copy(const struct disk *disk, size_t point, const char *to);

/* For messages: "after 17 of 230: sync runs/x/records; any, seed 3". */
const char *disk_describe(const struct disk *disk, const struct disk_cut *cut, char buf[400]);

#endif
