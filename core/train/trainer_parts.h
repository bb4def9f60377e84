/* The trainer's state, and what each part offers those that come after it. Private to trainer*.c. Parts use
 * only those before them:
 *
 *     report    what is reported beside the records: events, memory, health, evaluations, samples
 *     step      one optimizer step, its profile and its trace
 *     save      checkpoints
 *     run       the loop: gathers facts, has decide.h decide, and carries out
 *     trainer   opening and closing */
#ifndef ANNEAL_CORE_TRAIN_TRAINER_PARTS_H
#define ANNEAL_CORE_TRAIN_TRAINER_PARTS_H

#include "core/checkpoint/checkpoint.h"
#include "core/generate/generate.h"
#include "core/train/decide.h"
#include "core/train/feed.h"
#include "core/train/health.h"
#include "core/train/optimizer.h"
#include "core/train/profiler.h"
#include "core/train/replay.h"
#include "core/train/schedule.h"
#include "core/train/task.h"
#include "core/train/trace.h"
#include "core/train/trainer.h"
#include "core/train/world.h"

enum { SAMPLE_BYTES_MAX = 16384 };

/* A step that is queued and not yet reported. */
struct flight {
    int64_t step;
    uint64_t cursor; /* after it */
    double lr, start;
    double labels; /* of its loss, at least 1 */
};

struct trainer {
    struct train_setup setup;
    const struct task *task;
    void *data; /* the task's */
    const struct world *world;
    struct device_info device;
    struct model model;
    struct plan plan;
    struct network network;
    struct schedule schedule;
    struct optimizer optimizer;
    struct train_state state;               /* after the last step that was reported */
    char computed_with[CHECKPOINT_MACHINE]; /* what the checkpoint was that it goes on from; "": not known */

    /* ---- report ---- */
    int64_t last_memory_step; /* when what is held was reported last */
    struct health health;
    double waited;   /* seconds for batches, by the last step reported */
    bool not_finite; /* a number was not, and health.on_nan = stop */
    struct generator generator;
    bool samples; /* the corpus has a tokenizer, and the generator is open */
    char *sample_bytes, *sample_text;
    int64_t evaluated_step; /* of the last evaluation; -1: none */
    double evaluated_loss;

    /* ---- step ---- */
    struct profiler *profiler;  /* NULL: off */
    struct profiler *profiling; /* the same while a step is queued that is profiled; else NULL */
    bool counts;                /* heap allocations, in the step under way */
    int64_t heap_allocations, device_allocations; /* before it */
    bool trace_ordered, tracing;                  /* the next step by an order; a step is being traced */
    int64_t trace_order;                          /* its id: it waits for its answer */
    struct trace *trace;                          /* NULL: there was no memory for it */
    struct err trace_problem;                     /* why something is missing in it; status ok: nothing is */
    struct feed feed;
    struct replay replay;
    struct flight flights[PLAN_FLIGHTS]; /* by step modulo PLAN_FLIGHTS, as the next two */
    struct event *landed[PLAN_FLIGHTS];  /* its result is on the host */
    struct step_result *results;         /* (PLAN_FLIGHTS) page-locked, of the plan */
    int in_flight;
    double reported_at;   /* of clock_monotonic */
    int64_t finite_steps; /* reported so far, whose loss and gradient were finite */

    /* ---- save ---- */
    struct save_job job;            /* the newest */
    bool held;                      /* it is not started before a finite gradient speaks for its weights, */
    int64_t held_at;                /* that is before there are more finite steps than these */
    int64_t saved_step;             /* of the newest checkpoint; -1: none, or it failed */
    int64_t unsaved, unsaved_since; /* checkpoints in a row that could not be written, and the first's step */
    struct err unsaved_reason;      /* of the one that was reported */

    /* ---- run ---- */
    struct facts facts; /* the input of the next decision: orders and due work; completed just before it */
    bool resting;       /* the observer knows of the pause */
};

/* Steps done when all that are queued are. */
static inline int64_t trainer_queued(const struct trainer *t)
{
    return t->state.step + t->in_flight;
}

/* ---- trainer_report.c ---- */

/* A line of the run's history, at the current step. */
void trainer_event(struct trainer *trainer, const char *level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Once the device has failed nothing that comes from it counts; each answer repeats the first fault. */
enum status trainer_device_status(struct trainer *trainer, struct err *err);
/* Reports a problem beside training; a failed device ends it, and has its own sentence there. */
void trainer_tolerate(struct trainer *trainer, const char *level, const struct err *problem);

/* The memory of every tag, planned and real, and how much the device has given in all. Allocates nothing. */
void trainer_report_memory(struct trainer *trainer);
void trainer_report_used(struct trainer *trainer); /* only how much the device has given */

/* Judges a step that has just been reported, and reports events. */
void trainer_judge_step(struct trainer *trainer, const struct step_record *record);
/* Whether the newest step reported had a gradient or loss that is not finite. The update before may have
 * ruined the weights, though they are finite: until a finite gradient shows that it has not, only what is
 * ordered is saved, and nothing older goes for it. */
bool trainer_weights_are_in_doubt(const struct trainer *trainer);

enum status trainer_open_samples(struct trainer *trainer, struct err *err);
void trainer_close_samples(struct trainer *trainer);
/* After the steps have settled. Evaluates; one that is ordered takes no patience. True: its loss is the
 * lowest so far. */
bool trainer_evaluate(struct trainer *trainer, bool ordered);
enum status trainer_sample(struct trainer *trainer, struct err *err); /* none without a tokenizer */

/* ---- trainer_step.c ---- */

/* Answers the order for a trace, of step `step`; harmless without one. */
void trainer_answer_trace(struct trainer *trainer, int64_t step, const char *result);
enum status trainer_open_steps(struct trainer *trainer, struct err *err);
void trainer_close_steps(struct trainer *trainer); /* harmless on a zeroed struct */
/* Whether the last step queued takes the last example of an epoch: by the position alone, so that a run
 * resumed in the midst of an epoch ends it where the uninterrupted one does. */
bool trainer_ends_epoch(const struct trainer *trainer);
/* Queues one optimizer step, and reports the observer of all that are known to have happened. On a failure of
 * the device nothing is reported of what did not. */
enum status trainer_step(struct trainer *trainer, struct err *err);
/* Waits for the steps that are queued and reports them, until at most `left` are under way; with 0 the state
 * is that of the device. On a failure the rest never happened. */
enum status trainer_settle(struct trainer *trainer, int left, struct err *err);

/* ---- trainer_save.c: the steps have settled ---- */

bool trainer_weights_are_finite(struct trainer *trainer);
/* Takes a snapshot and goes on, or in the foreground writes it; one that is being written is waited for.
 * `kind` is static text. What is written in the background begins when a finite gradient is reported, or when
 * somebody waits for it. A failure is no reason to end the run: it is reported when it is the first, or has
 * another cause than the one before; the next that is written reports how many were not. */
void trainer_try_save(struct trainer *trainer, const char *kind);
/* Returns when it is on disk, or why it is not. */
enum status trainer_save_now(struct trainer *trainer, const char *kind, struct err *err);
/* After steps were reported: starts to write a snapshot that a finite gradient speaks for, and reports how
 * one ended; a failure is tolerated. `wait`: decides what is held and returns when nothing is written. */
void trainer_collect_save(struct trainer *trainer, bool wait);
/* No step will follow soon: the snapshot that is held is written, or given up where the weights are in doubt,
 * which an event reports. */
void trainer_decide_save(struct trainer *trainer);
/* When no other will be written: how many were not, of those that were not reported. */
void trainer_report_unsaved(struct trainer *trainer);

#endif
