/* Threads beside the one that a process begins with. */
#ifndef ANNEAL_CORE_BASE_THREAD_H
#define ANNEAL_CORE_BASE_THREAD_H

#include <pthread.h>

/* pthread_create, with all signals blocked in the new thread: they are for the threads that know what to do
 * about them. Returns 0, or the error number. */
int thread_start(pthread_t *out, void *(*run)(void *argument), void *argument);

#endif
