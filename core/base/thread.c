/* See thread.h. */
#include "core/base/thread.h"

#include <signal.h>
#include <time.h>

int thread_start(pthread_t *out, void *(*run)(void *argument), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    int code = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (code) return code;
    code = pthread_create(out, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

void thread_lock_init(pthread_mutex_t *mutex, pthread_cond_t *changed)
{
    pthread_condattr_t monotonic;
    pthread_mutex_init(mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void thread_lock_release(pthread_mutex_t *mutex, pthread_cond_t *changed)
{
    pthread_cond_destroy(changed);
    pthread_mutex_destroy(mutex);
}
