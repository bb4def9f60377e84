/* Starts worker threads, which do not handle signals. */
#ifndef ANNEAL_CORE_BASE_THREAD_H
#define ANNEAL_CORE_BASE_THREAD_H

#include <pthread.h>

/* pthread_create with all signals blocked in the new thread, so that signals reach the threads that handle
 * them. Returns 0, or the error number. */
int thread_start(pthread_t *out, void *(*run)(void *argument), void *argument);

/* A mutex, and a condition whose deadlines are those of clock_deadline. */
void thread_lock_init(pthread_mutex_t *mutex, pthread_cond_t *changed);
void thread_lock_release(pthread_mutex_t *mutex, pthread_cond_t *changed);

#endif
