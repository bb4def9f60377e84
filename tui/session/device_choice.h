/* Which device a command computes on: what --device says, and the CPU where `auto` finds no GPU that works,
 * at the start or later. A GPU that has failed is never tried again. */
#ifndef ANNEAL_TUI_SESSION_DEVICE_CHOICE_H
#define ANNEAL_TUI_SESSION_DEVICE_CHOICE_H

#include <stdbool.h>

#include "core/model/choices.h"
#include "kernels/device/backend.h"

struct device_choice {
    const char *wish; /* "auto", "cpu", "cuda", "cuda:1"; borrowed */
    int threads;      /* of the CPU; 0: all cores */
    const struct backend *backend;
    struct device *device; /* owned; NULL: none is open */
    struct device_info info;
    char why[512]; /* `auto` computes on the CPU because of this; empty: nothing to say */
};

/* With "auto" only a CPU that cannot be opened is an error. */
enum status device_choice_open(struct device_choice *choice, const char *wish, int threads, struct err *err);
void device_choice_close(struct device_choice *choice); /* harmless on a zeroed struct */

/* Whether the wish allows another device to take over. */
bool device_choice_has_another(const struct device_choice *choice);
/* Whether `err` is of the kind for which another device may do better, and the wish allows it. A full disk, a
 * damaged file or a wrong word is not. */
bool device_choice_may_fall_back(const struct device_choice *choice, const struct err *err);

/* Closes the GPU, opens the CPU; `why` becomes the reason. What was opened on the GPU has been closed. */
enum status device_choice_fall_back(struct device_choice *choice, const struct err *why, struct err *err);

/* Checks that the device computes in the precision that train.precision names (auto: always); STATUS_USAGE
 * names the key and the remedy. Where `auto` has the CPU stand in for a GPU, `precision` becomes auto
 * instead: the CPU's own, and `why` says so. */
enum status device_choice_settle_precision(struct device_choice *choice, enum precision_choice *precision,
                                           struct err *err);

#endif
