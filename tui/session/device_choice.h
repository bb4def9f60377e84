/* The device that a command computes on: the one --device names, or with `auto` the CPU where no GPU works,
 * at the start or later. A GPU that has failed is never tried again. */
#ifndef ANNEAL_TUI_SESSION_DEVICE_CHOICE_H
#define ANNEAL_TUI_SESSION_DEVICE_CHOICE_H

#include <stdbool.h>

#include "core/model/choices.h"
#include "kernels/device/backend.h"

struct device_choice {
    const char *wish; /* "auto", "cpu", "cuda", "cuda:1"; borrowed */
    int threads;      /* CPU threads; 0: all cores */
    const struct backend *backend;
    struct device *device; /* owned; NULL: none is open */
    struct device_info info;
    char why[512]; /* the reason if `auto` has taken the CPU; empty: nothing to report */
};

/* With "auto", fails only if the CPU cannot be opened. */
enum status device_choice_open(struct device_choice *choice, const char *wish, int threads, struct err *err);
void device_choice_close(struct device_choice *choice); /* harmless on a zeroed struct */

/* Whether the wish allows another device to take over. */
bool device_choice_has_another(const struct device_choice *choice);
/* Whether the wish allows another device and `err` is a failure that one may avoid: not a full disk, a
 * damaged file or a wrong word. */
bool device_choice_may_fall_back(const struct device_choice *choice, const struct err *err);

/* Closes the GPU and opens the CPU; `why` becomes the reason. The caller has closed everything on the GPU. */
enum status device_choice_fall_back(struct device_choice *choice, const struct err *why, struct err *err);

/* Checks that the device computes in the precision that train.precision names (auto: always); STATUS_USAGE
 * names the key and the remedy. Where `auto` has replaced a GPU by the CPU, sets `precision` to auto, the
 * CPU's own, instead and reports it in `why`. */
enum status device_choice_settle_precision(struct device_choice *choice, enum precision_choice *precision,
                                           struct err *err);

#endif
