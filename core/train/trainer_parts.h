/* The trainer's state, and what each part offers the later ones. Private to trainer*.c. Parts use only
 * earlier parts:
 *
 *     report    all reports but step records: events, memory, health, evaluations, samples
 *     step      one optimizer step, its profile and its trace
 *     save      checkpoints
 *     state     weights, moments and position to go on from: first ones, a checkpoint's, rank 0's; rollback
 *     run       the loop: gathers facts, calls decide, carries out the decision
 *     trainer   opening and closing */
#ifndef ANNEAL_CORE_TRAIN_TRAINER_PARTS_H
#define ANNEAL_CORE_TRAIN_TRAINER_PARTS_H

#include "core/checkpoint/checkpoint.h"
#include "core/generate/generate.h"
#include "core/model/data_format.h"
#include "core/train/decide.h"
#include "core/train/eval_tasks.h"
#include "core/train/feed.h"
#include "core/train/health.h"
#include "core/train/optimizer.h"
#include "core/train/pace.h"
#include "core/train/profiler.h"
#include "core/train/replay.h"
#include "core/train/schedule.h"
#include "core/train/task.h"
#include "core/train/trace.h"
#include "core/train/trainer.h"
#include "kernels/device/world.h"

/* Of a sample: as many tokens as sample.max_tokens may be, of 16 bytes each. Cleaning may turn one byte into
 * three. */
enum { SAMPLE_BYTES_MAX = 1 << 20, SAMPLE_TEXT_SIZE = 3 * SAMPLE_BYTES_MAX + 1 };
/* Rollbacks in a row are counted anew once training is this many steps, and a periodic checkpoint, past the
 * step in trouble: without the checkpoint each rollback would return to the same one. */
enum { ROLLBACK_OVERCOME = 64 };

/* A step that is queued and not yet reported. */
struct flight {
    int64_t step;
    uint64_t cursor; /* the position after it */
    double lr, start;
    double labels;     /* that its loss averages over, or their weights; above 0 */
    double loss_limit; /* of the sum of its losses, above which its update is skipped; 0: none */
};

/* A rank sends this to all others before each decision. */
struct told {
    struct facts facts;
    struct pace pace;
    double now;  /* by its clock_monotonic */
    bool traced; /* it has traced a step, and not given the trace away */
};

struct trainer {
    struct train_setup setup;
    const struct task *task;
    struct task_data *data;
    const struct world *world;
    struct device_info device;
    struct model model;
    struct plan plan;
    struct network network;
    struct schedule schedule;
    struct optimizer optimizer;
    struct train_state state;           /* after the last step that was reported */
    struct train_state origin;          /* before the first one */
    char moments_from[CHECKPOINT_PATH]; /* the checkpoint that it continues from; "": none */
    const struct param *thawed;         /* of it: the first parameter whose moments it lacks; NULL: none */
    bool asks_others;                   /* eval.tasks has other questions than when that was written */
    char computed_with[CHECKPOINT_MACHINE]; /* the machine of the checkpoint it continues from; "": unknown */

    /* ---- report ---- */
    int64_t last_memory_step; /* of the last memory report */
    struct health health;
    double waited;   /* seconds waited for batches, at the last reported step */
    bool not_finite; /* a number was not finite, and health.on_nan = stop */
    int64_t trouble; /* the step for which training goes back to an earlier one; -1: none */
    struct generator generator;
    struct eval_tasks tasks;
    bool samples;                    /* the corpus has a tokenizer, and the generator is open */
    struct token_list sample_prompt; /* of instruction tuning: sample.prompt as a question; owned */
    char *sample_bytes, *sample_text;
    char metric[CONFIG_TEXT_MAX]; /* eval.metric as the name of a measure: a label may have other signs */
    int64_t evaluated_step;       /* of the last evaluation; -1: none */
    double evaluated_loss;
    char average_names[MEASURES_MAX][64]; /* of the measures of averaged weights */

    /* ---- step ---- */
    struct profiler *profiler;                    /* NULL: off */
    struct profiler *profiling;                   /* the same while a profiled step is queued; else NULL */
    bool counts;                                  /* heap allocations are counted in the current step */
    int64_t heap_allocations, device_allocations; /* before the current step */
    bool trace_ordered, tracing;                  /* an order wants the next step; a step is being traced */
    int64_t trace_order;                          /* the id of that order, which is not answered yet */
    struct step_record traced;                    /* of several ranks: the step whose trace they join next */
    bool joins_traces;                            /* there is such a step */
    double common_time;  /* the begin of the clock of all ranks' traces, by this rank's clock_monotonic */
    struct trace *trace; /* NULL: there was no memory */
    struct err trace_problem; /* why the trace is incomplete; status ok: it is complete */
    struct feed feed;
    struct replay replay;
    double span;                         /* of the task: for FLOPs */
    struct flight flights[PLAN_FLIGHTS]; /* by step modulo PLAN_FLIGHTS, as the next two */
    struct event *landed[PLAN_FLIGHTS];  /* its result is on the host */
    struct step_result *results;         /* (PLAN_FLIGHTS) page-locked, of the plan */
    int in_flight;
    double reported_at;   /* by clock_monotonic */
    int64_t finite_steps; /* reported steps whose loss and gradient were finite, skipped or not */
    bool last_is_finite;  /* the last reported one is one of them; a resumed run has none yet */

    /* ---- save ---- */
    struct companions companions; /* of the model it started or continues from */
    struct save_job job;          /* the last one; of several ranks all have their part of it */
    double stood_still; /* seconds of the newest wait for a checkpoint in which the process was suspended */
    bool saving, stage_done; /* of several ranks: a job is not collected; this rank's stage is carried out */
    bool held;               /* it waits for a finite gradient, which shows that its weights are good: */
    int64_t held_at;         /* it starts when finite_steps exceeds this */
    int64_t saved_step;      /* of the last checkpoint; -1: none, or it failed */
    int64_t unsaved, unsaved_since; /* failed checkpoints in a row, and the step of the first */
    struct err unsaved_reason;      /* of the one reported */

    /* ---- run ---- */
    struct facts facts; /* the input of the next decision: orders and due work; completed just before it */
    struct told *told;  /* (ranks) the newest report of each; NULL with a single rank; owned */
    struct pace pace;   /* this rank's; in a world of one only the memory */
    struct paces paces; /* of all ranks */
    double step_began, waited_before; /* of several ranks: of the step that is not in `pace` yet; 0: none */
    uint64_t sent_before;             /* the first step */
    double ranks_reported;            /* by clock_monotonic */
    bool resting;                     /* the pause is reported */
    double owned_at; /* by clock_monotonic, when the observer was asked last whether the run is still ours */
};

/* Steps done when all queued steps are. */
static inline int64_t trainer_queued(const struct trainer *t)
{
    return t->state.step + t->in_flight;
}

/* ---- trainer_report.c ---- */

/* A line of the run's history, at the current step. */
void trainer_event(struct trainer *trainer, const char *level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Once the device has failed, its results do not count; every call returns the first failure. */
enum status trainer_device_status(struct trainer *trainer, struct err *err);
/* Reports a problem that does not end training; a failed device does end it, with an error of its own. */
void trainer_tolerate(struct trainer *trainer, const char *level, const struct err *problem);

/* Reports the memory of every tag, planned and real, and device memory in all. Allocates nothing. */
void trainer_report_memory(struct trainer *trainer);
void trainer_report_used(struct trainer *trainer); /* only the device memory taken */

/* Judges a step that has just been reported, and reports events. */
void trainer_judge_step(struct trainer *trainer, const struct step_record *record);
/* Whether the last reported step was skipped for a gradient or loss that is not finite. Then the update
 * before may have ruined the weights, even if they are finite; a skipped spike (health.on_spike = skip) shows
 * that it has not. Until a finite gradient shows that it has not, only ordered checkpoints are saved, and no
 * older one is removed for them. */
bool trainer_weights_are_in_doubt(const struct trainer *trainer);

enum status trainer_open_samples(struct trainer *trainer, struct err *err);
void trainer_close_samples(struct trainer *trainer);
/* Evaluates; call after the steps have settled. An `extra` evaluation, ordered or early, takes no patience.
 * Returns whether the measure of eval.metric is the best so far. */
bool trainer_evaluate(struct trainer *trainer, bool extra);
enum status trainer_sample(struct trainer *trainer, struct err *err); /* nothing without a tokenizer */

static inline const struct format_traits *trainer_format(const struct trainer *t)
{
    return format_traits(t->setup.config->data.format);
}

/* The measure that early stopping and the best checkpoint follow. */
static inline const char *trainer_metric(const struct trainer *t)
{
    return *t->metric ? t->metric : "val_loss";
}
/* STATUS_USAGE: the task does not measure it. */
enum status trainer_check_metric(struct trainer *trainer, struct err *err);

/* ---- trainer_step.c ---- */

/* Answers the order for a trace, of step `step`; harmless without one. */
void trainer_answer_trace(struct trainer *trainer, int64_t step, const char *result);
/* Of several ranks, which all call it when they know that all have traced the step: writes their trace. */
void trainer_join_traces(struct trainer *trainer);
enum status trainer_open_steps(struct trainer *trainer, struct err *err);
void trainer_close_steps(struct trainer *trainer); /* harmless on a zeroed struct */
/* Whether the last queued step takes the last example of an epoch: depends on the position alone, so that a
 * run resumed within an epoch ends it where an uninterrupted run does. */
bool trainer_ends_epoch(const struct trainer *trainer);
/* Queues one optimizer step, and reports all steps known to have happened. After a device failure nothing is
 * reported that did not happen. */
enum status trainer_step(struct trainer *trainer, struct err *err);
/* Waits for queued steps and reports them, until at most `left` remain queued; with 0 the trainer's state is
 * the device's. After a failure the rest never happened. */
enum status trainer_settle(struct trainer *trainer, int left, struct err *err);

/* ---- trainer_save.c: the steps have settled ---- */

bool trainer_weights_are_finite(struct trainer *trainer);
/* Takes a snapshot for a background write, or writes in the foreground; first waits for a write in progress.
 * `kind` is static text. A background write starts when a finite gradient is reported, or when somebody waits
 * for it. A failure does not end the run: it is reported if it is the first or has a new cause; the next
 * successful one reports how many failed. */
void trainer_try_save(struct trainer *trainer, const char *kind);
/* Returns when the checkpoint is on disk, or why it is not. */
enum status trainer_save_now(struct trainer *trainer, const char *kind, struct err *err);
/* Call after steps were reported: starts to write a snapshot that a finite gradient has confirmed, and
 * reports a finished write; a failure is tolerated. `wait`: decides about a held snapshot and waits for the
 * write. */
void trainer_collect_save(struct trainer *trainer, bool wait);
/* Names the machine in the state, as far as the last digits of the results depend on it, before a checkpoint
 * is saved or the machine of an earlier one is compared. */
void trainer_name_machine(struct trainer *trainer);
/* When no step follows soon: writes the held snapshot, or drops it with an event if its weights are in
 * doubt. */
void trainer_decide_save(struct trainer *trainer);
/* Call when no other checkpoint will be written: reports failures that were not reported yet. */
void trainer_report_unsaved(struct trainer *trainer);

/* ---- trainer_state.c ---- */

/* Initialises the weights or loads those that the configuration names. */
enum status trainer_load_first_weights(struct trainer *trainer, struct err *err);
/* Before the first step and after a rollback. All ranks call it: gives weights, moments and position of rank
 * 0 to the others. */
enum status trainer_share_state(struct trainer *trainer, struct err *err);
/* STATUS_USAGE: the configuration wants a rollback, or a limit of the loss, that it does not allow. */
enum status trainer_check_rollback(const struct config *config, struct err *err);
/* Goes back to the last good state, for the trouble at step `trouble`; all ranks call it. STATUS_FAILED:
 * there were too many rollbacks in a row. */
enum status trainer_roll_back(struct trainer *trainer, struct err *err);

#endif
