/* The frame of `anneal evaluate` and its kinds. evaluate.c opens the checkpoint, calls a kind until all
 * is measured or an interrupt, and prints what the kind has measured. Private to evaluate*.c. */
#ifndef ANNEAL_TUI_COMMAND_EVALUATION_H
#define ANNEAL_TUI_COMMAND_EVALUATION_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "datasets/progress.h"
#include "tui/command/output.h"
#include "tui/session/loaded_model.h"

struct evaluate_options {
    const char *data, *tasks, *adapter, *column, *label_column;
    const char *device;
    int progress;
    int64_t step, length, batches, padding; /* 0: the default, all; -1: none */
    bool best, json, conversations;
};

struct evaluation {
    const struct evaluate_options *options;
    const char *folder; /* of the checkpoint */
    const struct progress *progress;
    struct loaded_model loaded; /* described before `open`, loaded after it */
    struct loaded_wish wish;    /* set by `open` */
    uint64_t done, total;       /* in the unit; `total` is set by `open` */
    double seconds;             /* of measuring */
};

struct evaluation_kind {
    const char *unit, *doing; /* "sequence", "evaluating" */
    /* `state`, all zero, is the kind's own record of this many bytes. */
    size_t state;
    enum status (*open)(struct evaluation *e, void *state, struct err *err);
    enum status (*ready)(struct evaluation *e, void *state, struct err *err); /* the model is loaded */
    /* Measures more and adds to e->done; `suffix` (48 bytes) is for the progress bar. */
    enum status (*next)(struct evaluation *e, void *state, char *suffix, struct err *err);
    enum status (*finish)(const struct evaluation *e, const void *state,
                          struct err *err); /* is it a result? */
    void (*print)(const struct evaluation *e, const void *state, struct output *out);
    void (*close)(void *state);
};

extern const struct evaluation_kind evaluation_of_data, evaluation_of_labels, evaluation_of_tasks;

#endif
