/* Starts worker threads, which do not handle signals, and divides work among them. */
#ifndef ANNEAL_CORE_BASE_THREAD_H
#define ANNEAL_CORE_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* pthread_create with all signals blocked in the new thread but those of its own faults, so that signals
 * reach the threads that handle them. Returns 0, or the error number. */
int thread_start(pthread_t *out, void *(*run)(void *argument), void *argument);

/* Calls `work` for ranges that make up 0 … count, each in a thread of its own and none shorter than `least`,
 * and waits for all. There are at most as many as processors_usable says, and fewer if the system has no
 * threads left. */
void thread_share(size_t count, size_t least, void (*work)(void *context, size_t from, size_t to),
                  void *context);

/* A mutex, and a condition whose deadlines are those of clock_deadline. */
void thread_lock_init(pthread_mutex_t *mutex, pthread_cond_t *changed);
void thread_lock_release(pthread_mutex_t *mutex, pthread_cond_t *changed);

#endif
