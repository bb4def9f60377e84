/* Whether a run of a sweep can be trained: everything is opened as for training, and closed again. */
#ifndef ANNEAL_TUI_COMMAND_SWEEP_PROBE_H
#define ANNEAL_TUI_COMMAND_SWEEP_PROBE_H

#include "core/model/config.h"

struct sweep_probe {
    int64_t planned_bytes; /* of the device, by the memory plan; on a CPU of all ranks */
    int64_t left_bytes;    /* that another run could reserve beside it; INT64_MAX: not known */
    int64_t total_steps, tokens_per_step, parameters, frozen_parameters;
    int64_t threads;   /* train.threads; 0: as many as there are */
    int64_t evaluated; /* tokens in an evaluation; 0: there is no validation text */
    char device[32], precision[16];
};

/* Tries it for a run of `ranks` processes, in a process of its own, so that this one never holds memory of a
 * device. Prepares the corpus, with its progress on standard error, and with `notes` also what is to be said
 * about its texts. */
enum status sweep_probe(const struct config *config, const char *device, int ranks, bool notes,
                        struct sweep_probe *out, struct err *err);

#endif
