/* The saver: a thread that writes checkpoints while training goes on, one at a time, from memory that nobody
 * changes meanwhile. It knows no network and no observer: what is saved, and how it ended, is told and asked
 * by the training thread. A job that has been given is always carried out, also when the saver is closed. */
#ifndef ANNEAL_CORE_CHECKPOINT_SAVER_H
#define ANNEAL_CORE_CHECKPOINT_SAVER_H

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
};

struct save_result {
    enum status status;
    struct err err;   /* where status says so */
    int64_t bytes;    /* of all files */
    double wall_time; /* Unix seconds, when it was in its place */
};

/* Writes the checkpoint and prunes older ones, here and now. */
void save_carry_out(const struct save_job *job, struct save_result *result);

struct saver; /* opaque */

enum status saver_open(struct saver **out, struct err *err);
void saver_close(struct saver *saver); /* waits for a job under way; NULL is harmless */

/* Hands over a job, which is copied. Only when the one before has been collected. */
void saver_start(struct saver *saver, const struct save_job *job);

/* Whether a job was given and not yet collected. */
bool saver_is_busy(const struct saver *saver);

/* Collects a job that has ended: true once for each; `wait`: until it has. False where none was given, or it
 * goes on. */
bool saver_collect(struct saver *saver, bool wait, struct save_result *result);

#endif
