/* See save_job.h. */
#include "core/checkpoint/save_job.h"

#include <assert.h>

#include "core/base/clock.h"
#include "core/base/thread.h"

void save_carry_out(struct save_job *job)
{
    job->before(job->context);
    job->status =
        checkpoint_save(job->folder, &job->source, &job->state, job->tokenizer, &job->bytes, &job->err);
    job->wall_time = clock_wall();
    if (!job->status && job->prune)
        checkpoint_prune(job->folder, job->keep, job->state.step, job->state.best_saved);
}

static void *run(void *job)
{
    save_carry_out(job);
    return NULL;
}

void save_start(struct save_job *job)
{
    assert(!job->started);
    job->started = true;
    job->threaded = thread_start(&job->thread, run, job) == 0;
    if (!job->threaded) save_carry_out(job);
}

bool save_collect(struct save_job *job, bool wait)
{
    if (!job->started) return false;
    if (job->threaded && (wait ? pthread_join(job->thread, NULL) : pthread_tryjoin_np(job->thread, NULL)))
        return false;
    job->started = false;
    return true;
}
