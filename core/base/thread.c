/* See thread.h. */
#include "core/base/thread.h"

#include <signal.h>
#include <time.h>

#include "core/base/processors.h"

int thread_start(pthread_t *out, void *(*run)(void *argument), void *argument)
{
    static const int faults[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV}; /* kill where they are blocked */
    sigset_t all, before;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&all, faults[i]);
    int code = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (code) return code;
    code = pthread_create(out, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

enum { SHARES_MAX = 64 };

struct share {
    void (*work)(void *context, size_t from, size_t to);
    void *context;
    size_t from, to;
};

static void *do_share(void *argument)
{
    struct share *share = argument;
    share->work(share->context, share->from, share->to);
    return NULL;
}

void thread_share(size_t count, size_t least, void (*work)(void *context, size_t from, size_t to),
                  void *context)
{
    struct share shares[SHARES_MAX];
    pthread_t threads[SHARES_MAX];
    size_t most = (size_t)processors_usable(), n = count / (least > 0 ? least : 1), started = 0;
    if (n > most) n = most;
    if (n > SHARES_MAX) n = SHARES_MAX;
    for (size_t i = 1; i < n; i++) {
        shares[i] = (struct share){work, context, count * i / n, count * (i + 1) / n};
        if (thread_start(&threads[i], do_share, &shares[i])) break;
        started = i;
    }
    if (n > 0 && started < n - 1) work(context, count * (started + 1) / n, count);
    work(context, 0, n > 0 ? count / n : count);
    for (size_t i = 1; i <= started; i++) pthread_join(threads[i], NULL);
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
