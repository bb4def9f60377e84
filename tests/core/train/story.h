/* A training run in a test: a small configuration and corpus, an observer that records everything that is
 * reported to it, and a script of orders and requests by step. */
#ifndef ANNEAL_TESTS_CORE_TRAIN_STORY_H
#define ANNEAL_TESTS_CORE_TRAIN_STORY_H

#include <stdbool.h>

#include "core/train/trainer.h"

enum { STORY_MAX = 512, STORY_PROFILE_MAX = 4096 };

/* An order given when `at` steps are done, after `wait` idle polls (a paused trainer keeps polling). */
struct story_order {
    int64_t at;
    struct order order;
    int wait;
    bool taken;
};

struct story {
    struct step_record steps[STORY_MAX];
    struct eval_record evals[STORY_MAX];
    struct measures measures;     /* of the newest evaluation; its confusion has no names */
    char names[MEASURES_MAX][64]; /* of these measures */
    int64_t confusion[64];
    struct stopping_record stoppings[STORY_MAX];
    struct checkpoint_record checkpoints[STORY_MAX];  /* path is NULL: borrowed for the call only */
    struct profile_record profile[STORY_PROFILE_MAX]; /* their texts are static */
    int profile_count;
    int step_count, eval_count, stopping_count, checkpoint_count, sample_count, event_count, pause_count,
        lives_count, rollback_count;
    char events[8][512]; /* the first ones */
    char last_sample[8192], last_event[512], last_level[16], last_kind[16];
    bool pauses[STORY_MAX];
    int64_t last_event_step;
    int64_t done;         /* steps done */
    int64_t memory_bytes; /* planned, the sum of the last report */
    int64_t live_bytes, used_bytes;
    int memory_reports;
    struct story_order *orders; /* the script; id 0 ends it */
    int64_t leave_at;           /* request() says leave once so many steps are done; 0: never */
    int leave_calls;            /* request() says leave from this call on; 0: never */
    int calls;                  /* of request() */
    char results[16][512];      /* by order id */
    int64_t applied[16];        /* by order id; -1: not yet */
    int acknowledged;
    void (*on_step)(struct story *story);                /* may be NULL */
    void (*on_event)(struct story *story);               /* may be NULL */
    void (*on_saving)(struct story *story, bool begins); /* around a checkpoint; NULL: nothing */
    void (*on_safe)(struct story *story);                /* by the thread that writes; may be NULL */
};

/* A trainer and everything it needs. */
struct session {
    struct config config;
    struct corpus corpus;
    struct token_file file;
    uint32_t *tokens;
    const struct backend *backend;
    struct device *device;
    struct trainer *trainer;
    struct story story;
    bool check_allocations;
    char *folder, *traces; /* of checkpoints, and of traces in it */
};

/* Opens everything but the trainer: the model has V 256, C 16, L 2, 2 heads, F 24; B 2, T 16; one thread,
 * fp32; no evaluations, samples or checkpoints on the way. `words` (NULL-terminated, may be NULL) override
 * the configuration. The corpus is `count` bytes of a repeating text. `backend` NULL: the CPU. The folder is
 * empty. */
void session_open(struct session *s, const char *name, const struct backend *backend,
                  const char *const *words, uint64_t count);
void session_close(struct session *s);

/* Makes the batch of step `step` of a corpus that is read in order (data.shuffle=none) garbage: a spike of
 * the loss. Before session_start. */
void session_spoil(struct session *s, int step);

/* Opens a trainer; with `resume` from the newest checkpoint of the folder. Fails the test when it cannot. */
void session_start(struct session *s, bool resume);
enum status session_try(struct session *s, struct err *err);

/* Runs to the end and closes the trainer. */
enum train_outcome session_run(struct session *s);

/* The same losses, gradient norms, evaluations and sample to the bit; `what` names the other one. */
void story_expect_same(const struct story *story, const struct story *other, const char *what);

#endif
