/* A checkpoint to be written: here and now, or by a thread of its own while training goes on, from memory
 * that nobody changes meanwhile. It knows no network and no observer: how it ended is for the training thread
 * to ask and to tell. Between save_start and save_collect the job belongs to the thread. */
#ifndef ANNEAL_CORE_CHECKPOINT_SAVE_JOB_H
#define ANNEAL_CORE_CHECKPOINT_SAVE_JOB_H

#include <pthread.h>

#include "core/checkpoint/checkpoint.h"

struct save_job {
    const char *folder; /* of all checkpoints; borrowed, like all pointers here, until the job has ended */
    const char *kind;   /* why it is written; static text */
    struct checkpoint_source source;
    struct train_state state;
    const struct tokenizer *tokenizer; /* may be NULL */
    int64_t keep;                      /* the newest ones that stay; and that of state.best_saved */
    bool prune;                        /* false: all older ones stay */
    void (*before)(void *context);     /* called before anything is written, by whoever writes */
    void *context;

    /* how it ended */
    enum status status;
    struct err err;   /* where status says so */
    int64_t bytes;    /* of all files */
    double wall_time; /* Unix seconds, when it was in its place */

    bool started, threaded; /* private: and not collected; by a thread */
    pthread_t thread;
};

/* Writes the checkpoint and prunes older ones, here and now. */
void save_carry_out(struct save_job *job);

/* Has a thread do it; without threads to be had it is done when this returns. Only a job that is not started.
 */
void save_start(struct save_job *job);

/* Whether a job that was started has ended: true once for each; `wait`: waits until it has. */
bool save_collect(struct save_job *job, bool wait);

#endif
