/* A thread that carries out work in the order in which it is queued, beside the thread that queues it: a
 * stream of the CPU on which collectives run while others compute. Waiting threads sleep. */
#ifndef ANNEAL_KERNELS_DEVICE_WORKER_H
#define ANNEAL_KERNELS_DEVICE_WORKER_H

#include <stddef.h>
#include <stdint.h>

struct worker;

enum { WORKER_ARGUMENTS = 96 }; /* bytes */

/* NULL: the system has no thread or no memory left. */
struct worker *worker_open(void);
void worker_close(struct worker *worker); /* waits for the work; NULL is harmless */

/* Queues run(a copy of the arguments); waits while the queue is full. */
void worker_queue(struct worker *worker, void (*run)(const void *arguments), const void *arguments,
                  size_t bytes);

uint64_t worker_queued(struct worker *worker); /* how much was queued so far */
uint64_t worker_done(struct worker *worker);   /* and carried out */

/* Returns when the first `count` pieces of work are done. */
void worker_wait(struct worker *worker, uint64_t count);

#endif
