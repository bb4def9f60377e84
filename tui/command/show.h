/* One run with everything that is shown of it; lists are newest first. */
#ifndef ANNEAL_TUI_COMMAND_SHOW_H
#define ANNEAL_TUI_COMMAND_SHOW_H

#include <limits.h>

#include "core/base/json_out.h"
#include "runs/order.h"
#include "runs/run.h"
#include "runs/series.h"

/* The present state of a checkpoint. Damaged: by a quick look, or because a resume has found it so and
 * renamed it. */
struct show_place {
    bool exists, damaged;
};

struct show {
    struct arena arena;
    struct run_info run;
    char folder[PATH_MAX];
    char *config; /* INI text, owned */
    struct eval_record *evals;
    struct stopping_row *stopping;
    struct checkpoint_record *checkpoints;
    struct show_place *places; /* (checkpoint_count) where they are, or were */
    struct sample_record *samples;
    struct order_row *orders;
    struct event_record *events;
    struct show_trace {
        int64_t step;
        char name[64]; /* of the file below traces: step-N.json; of a later life of the run step-N.2.json */
    } * traces;
    size_t trace_count;
    bool looked_at;           /* the device was */
    struct gpu_record device; /* as last seen */
    size_t eval_count, stopping_count, checkpoint_count, sample_count, order_count, event_count;
};

/* A value of the configuration: "16" is a number, "true" a truth, anything else a text. */
void show_config_value(struct json_out *json, const char *name, const char *value);

/* All columns of a run as members of the object that is open; null where absent or not a number. */
void show_run_json(struct json_out *json, const struct run_info *run);

/* Prints one JSON object: the columns of the run, config, evals, early_stopping, checkpoints, traces,
 * samples, orders, events, device_sample (as last seen, null: never); lists oldest first, as in the CSV. */
enum status show_json(const struct show *show, struct err *err);

#endif
