/* See thread.h. */
#include "core/base/thread.h"

#include <signal.h>

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
