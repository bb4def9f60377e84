/* How much memory there is for this process, and how much of it it may still take. */
#ifndef ANNEAL_BASE_MEMORY_H
#define ANNEAL_BASE_MEMORY_H

#include <stdint.h>

/* Bytes: what the kernel calls available, or what is left of the control group's limit where that is less. 0:
 * not known. */
int64_t memory_available(void);

/* Bytes: what the machine has, or the control group's limit where that is less. 0: not known. */
int64_t memory_total(void);

/* Bytes of the available that this process has taken: its resident pages but those it shares with a file. 0:
 * not known. */
int64_t memory_private(void);

#endif
