/* The identity of a process, whose number alone is reused: when it started, and in which boot of the system.
 * Read from /proc. */
#ifndef ANNEAL_RUNS_RESERVATIONS_PROCESS_MARK_H
#define ANNEAL_RUNS_RESERVATIONS_PROCESS_MARK_H

#include <stdint.h>

enum { PROCESS_BOOT_BYTES = 64 };

/* The name of this boot of the system. */
void process_boot(char boot[PROCESS_BOOT_BYTES]);

/* When a process started, in ticks since the boot; 0: none of that number lives. */
int64_t process_started(int64_t pid);

/* A process other than this one that holds a lock on the file; 0: none, or not known. */
int64_t process_locking(const char *path);

#endif
