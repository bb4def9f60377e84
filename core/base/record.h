/* The records of a training run, shared by the trainer that makes them, the run store that keeps them and the
 * workbench that shows them. Plain data: no tensors, no SQL, no screen.
 *
 * A field is a column of the store and of the CSV files; runs/columns.def lists them in the same order. */
#ifndef ANNEAL_CORE_BASE_RECORD_H
#define ANNEAL_CORE_BASE_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/base/confusion.h"

/* One optimizer step. */
struct step_record {
    int64_t step;      /* from 0 */
    double epoch;      /* passes over the training tokens, with a fraction */
    int64_t tokens;    /* trained on since the run began, this step included */
    double wall_time;  /* Unix seconds at the step's end */
    double step_ms;    /* ms from its start, or the end of the step before if later, to its end */
    double loss;       /* mean cross-entropy in nats over the step's valid tokens; may be NaN or infinite */
    double lr;         /* learning rate applied */
    double grad_norm;  /* L2 norm of all gradients before clipping; may be NaN or infinite */
    double clip_scale; /* factor the gradients were multiplied by, 0 for a skipped update */
    double tokens_per_sec; /* tokens of this step over its time */
    double mfu;            /* model FLOPs utilisation in [0, 1]; NaN: unknown, stored as NULL */
    double perplexity;     /* exp(loss) */
};

/* One evaluation on the validation tokens. */
struct eval_record {
    int64_t step; /* steps done before it */
    int64_t tokens;
    double wall_time;
    double val_loss;       /* mean cross-entropy in nats; NaN, like the perplexity, where the task has none */
    double val_perplexity; /* exp(val_loss) */
    double eval_ms;
};

enum { MEASURES_MAX = 96 };

/* All that an evaluation measured, by name, including val_loss and val_perplexity where the task has them. */
struct measures {
    int count;
    struct measure {
        const char *name; /* letters, digits, _, - and dots (text_plain_name); lives as long as the trainer */
        double value;
    } of[MEASURES_MAX];
    struct confusion confusion; /* of a classifier; borrowed for the call; else of 0 classes */
};

/* Whether the lowest value of a measure is its best: of losses and perplexities of validation text
 * ("val_loss", "val_loss_ema", "val_loss_books", "val_perplexity"), and of "", which stands for val_loss. Of
 * all others, such as accuracy, the highest is; questions in val.jsonl give a "val_acc". */
static inline bool measure_falls(const char *name)
{
    return !*name || strncmp(name, "val_loss", 8) == 0 || strncmp(name, "val_perplexity", 14) == 0;
}

/* The scores of one class in an evaluation of a classifier: struct class_scores. */
struct class_record {
    int64_t step;
    const char *label; /* borrowed */
    double precision, recall, f1;
    int64_t support;
};

/* How many texts of one class got one label; only what is not 0 has a record. */
struct confusion_record {
    int64_t step;
    const char *label, *predicted; /* borrowed */
    int64_t count;
};

/* A measure of an evaluation that has no field in eval_record. */
struct measure_record {
    int64_t step;
    const char *name; /* borrowed */
    double value;     /* may be NaN */
};

enum stopping_verdict { VERDICT_IMPROVED, VERDICT_WAITING, VERDICT_STOP, VERDICT_ORDERED };

/* One early-stopping decision. Every evaluation makes one, also with early stopping off (patience 0). An
 * evaluation requested by an order uses up no patience, and its decision is not stored. */
struct stopping_record {
    int64_t step;
    double val_loss;      /* or the value of the measure that eval.metric names */
    double best_val_loss; /* the best so far, this one included */
    int64_t best_step;
    double min_delta;
    bool improved;         /* val_loss is the lowest so far: the weights are kept */
    int64_t patience_used; /* evaluations since val_loss fell by more than min_delta; 0: it just did */
    int64_t patience;      /* 0: off */
    enum stopping_verdict verdict;
    const char *metric; /* the measure, NULL or "": val_loss; borrowed */
};

/* Text generated during training. */
struct sample_record {
    int64_t step;
    const char *prompt; /* UTF-8, borrowed for the call */
    const char *text; /* UTF-8 with invalid bytes replaced, the prompt not included; borrowed for the call */
};

/* A text written by `anneal generate`, and how fast. NaN: the text is too short to tell. */
struct inference_record {
    double wall_time;       /* Unix seconds at its end */
    const char *checkpoint; /* the folder's name, "step-100"; borrowed for the call */
    int64_t prompt_tokens, new_tokens;
    double time_to_first_token_ms;            /* from the start, with the reading of the prompt */
    double latency_median_ms, latency_p95_ms; /* between two tokens, from the second on */
    double prefill_tokens_per_sec;            /* tokens of the prompt, until the first token */
    double decode_tokens_per_sec;             /* tokens from the second on */
    double total_ms;
};

struct checkpoint_record {
    int64_t step; /* steps done; resuming runs this step next */
    double wall_time;
    const char *path; /* folder, relative to the run's folder; borrowed */
    const char *kind; /* "last", "best", "periodic"; borrowed */
    int64_t bytes;
};

/* Planned and actual memory of one category; see the planner. */
struct memory_record {
    int64_t step;
    const char *category; /* "weights", "gradients", "moments", "activations", "workspace", …; borrowed */
    int64_t planned_bytes, live_bytes, peak_bytes;
};

/* A rank is slow when its step_ms is so many times the median of all ranks. */
#define RANK_SLOW 1.5

/* One rank of several, over the steps since the last such record. */
struct rank_record {
    int64_t step; /* steps done */
    int rank;
    const char *host, *device; /* borrowed */
    double step_ms;            /* of its own work in a step: without wait_ms; mean */
    double wait_ms;            /* that it waited for other ranks in a step; mean */
    int64_t sent_bytes;        /* to other ranks, a step */
    int64_t memory_bytes;      /* that its training takes */
};

/* The time of one operation of one layer in a profiled step, summed over its calls. The rows of a step add up
 * to its time: time outside all operations is a row of phase and op "unattributed". */
struct profile_record {
    int64_t step;
    const char *phase; /* "data", "forward", "backward", "recompute", "optimizer", "unattributed"; borrowed */
    int layer;         /* from 0; -1: not part of a layer */
    const char *op;    /* "attention", "gemm gate_up", …; borrowed */
    int64_t calls;
    double time_us; /* microseconds on the device */
    int64_t bytes;  /* least memory traffic, computed from the shapes */
    int64_t flops;  /* two for a multiply-add */
};

/* A process that holds memory of a device. */
struct gpu_process {
    int64_t pid;
    char name[16]; /* the kernel's; "": unknown, as in a container, where pids are the host's */
    int64_t bytes; /* -1: unknown */
};

/* The state of a device at a moment; see kernels/device/gauge.h. Unknown numbers are NaN or -1. */
struct gpu_record {
    double wall_time;
    int gpu;                /* NVML's index; -1: the CPU */
    double utilization_pct; /* GPU: time with work on it; CPU: this process's share of all processors */
    int64_t memory_used_bytes, memory_total_bytes; /* used by all processes; installed */
    double power_w, temperature_c, sm_clock_mhz;
    int64_t process_bytes; /* held by this process; on the CPU: resident */
    char
        throttle[160]; /* why clocks are reduced, main reason first: "thermal, power cap"; "": they are not */
    double load_1m;    /* of the host: processes that ran or wanted to, on average over the last minute */
    /* the processes that hold memory of a GPU, this one included, by pid; the producer owns the array */
    struct gpu_process *processes;
    int64_t process_count; /* -1: unknown */
};

/* Something worth a line in the run's history: a skipped update, a fallback, a changed schedule. */
struct event_record {
    int64_t step; /* -1: before the first step */
    double wall_time;
    const char *level; /* "info", "warning", "error"; borrowed */
    const char *text;  /* one sentence; borrowed */
    bool diverged;     /* it says that training diverges; not stored */
};

enum order_verb {
    ORDER_PAUSE,
    ORDER_CONTINUE,
    ORDER_STOP,
    ORDER_CHECKPOINT,
    ORDER_EVAL,
    ORDER_SAMPLE,
    ORDER_LR_FACTOR,
    ORDER_TRACE,
};

/* How the answer to an order begins that was not carried out. The rest is a sentence for the user, and so is
 * the answer to any other order. */
#define ORDER_FAILED   "failed: "
#define ORDER_REFUSED  "refused: "
#define ORDER_NO_TRACE "no trace: "

enum { LR_FACTOR_MAX = 1000 }; /* a larger ORDER_LR_FACTOR is refused */

/* An instruction to a running trainer, given through the store. */
struct order {
    int64_t id; /* row id in the store */
    enum order_verb verb;
    double argument; /* ORDER_LR_FACTOR: the factor; else NaN */
};

#endif
