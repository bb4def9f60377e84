/* See saver.h. The job and its result belong to the thread from saver_start until `ended` is set, to the
 * training thread otherwise; `given` is the training thread's alone. */
#include "core/checkpoint/saver.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/thread.h"

struct saver {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* of the three below */
    bool started, ended, stop;
    bool given; /* and not collected */
    struct save_job job;
    struct save_result result;
};

void save_carry_out(const struct save_job *job, struct save_result *result)
{
    *result = (struct save_result){0};
    job->before(job->context);
    result->status =
        checkpoint_save(job->folder, &job->source, &job->state, job->tokenizer, &result->bytes, &result->err);
    result->wall_time = clock_wall();
    if (!result->status && job->prune)
        checkpoint_prune(job->folder, job->keep, job->state.step, job->state.best_saved);
}

static void *run(void *context)
{
    struct saver *s = context;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->started && !s->stop) pthread_cond_wait(&s->changed, &s->lock);
        if (!s->started) break;
        s->started = false;
        pthread_mutex_unlock(&s->lock);
        save_carry_out(&s->job, &s->result);
        pthread_mutex_lock(&s->lock);
        s->ended = true;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

enum status saver_open(struct saver **out, struct err *err)
{
    struct saver *s = calloc(1, sizeof *s);
    if (!s) return err_set(err, STATUS_NO_MEMORY, "no memory to write checkpoints in the background");
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    int code = thread_start(&s->thread, run, s);
    if (code) {
        free(s);
        return err_set(
            err, STATUS_FAILED,
            "cannot start a thread that writes checkpoints: %s (checkpoint.background = false does "
            "without)",
            strerror(code));
    }
    *out = s;
    return STATUS_OK;
}

void saver_close(struct saver *s)
{
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void saver_start(struct saver *s, const struct save_job *job)
{
    assert(!s->given);
    s->job = *job;
    s->given = true;
    pthread_mutex_lock(&s->lock);
    s->started = true;
    s->ended = false;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

bool saver_is_busy(const struct saver *s)
{
    return s->given;
}

bool saver_collect(struct saver *s, bool wait, struct save_result *result)
{
    if (!s->given) return false;
    pthread_mutex_lock(&s->lock);
    while (wait && !s->ended) pthread_cond_wait(&s->changed, &s->lock);
    bool ended = s->ended;
    pthread_mutex_unlock(&s->lock);
    if (!ended) return false;
    *result = s->result;
    s->given = false;
    return true;
}
