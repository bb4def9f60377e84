/* A command's entry in the ledger of device memory: reserved before allocation, corrected to the amount
 * allocated, released with the network. On a GPU it includes the memory of this process's context, as a run
 * has measured it (core/memory/fit.h). If the ledger cannot be kept, a warning is printed and only the
 * memory free now counts. */
#ifndef ANNEAL_TUI_SESSION_MEMORY_SHARE_H
#define ANNEAL_TUI_SESSION_MEMORY_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/device/backend.h"
#include "runs/reservations/ledger.h"

struct memory_share {
    struct ledger *ledger; /* owned; NULL: nothing is reserved */
    int64_t id, bytes;     /* the network's */
    int64_t overhead;      /* the context's */
    bool on_host;
};

struct memory_wish {
    const char *holder;            /* what the memory is for */
    const struct backend *backend; /* borrowed, like its device; every look asks for the free memory */
    struct device *device;
    double reserve; /* share of the device's memory that stays free; NaN: by the kind of device */
    int64_t bytes;
    bool may_wait; /* the command has --wait: a refusal suggests it */
    bool wait;     /* wait until it fits or a signal interrupts */
};

/* The device's name in the ledger. */
const char *memory_share_device(const struct device_info *device);

/* The share of a device's memory that stays free: `wanted`, or if that is NaN, a default. A tenth for a CPU
 * and for a GPU that drives a screen, whose memory others use, too; for a GPU in a rack a fiftieth, enough
 * for the driver and the libraries. */
double memory_share_reserve(const struct device_info *device, double wanted);

/* The bytes of the device taken outside the plan: as a run has measured them, or for a CPU as of now; -1:
 * unknown. */
int64_t memory_share_overhead(const struct device_info *device);

/* Reserves. STATUS_BUSY: others hold the missing memory. STATUS_NO_MEMORY: the device has less.
 * STATUS_INTERRUPTED: a signal ended the wait. A waiting process may get STATUS_BUSY, too: if the memory it
 * already holds leaves too little for one ahead of it. */
enum status memory_share_take(struct memory_share *share, const struct memory_wish *wish, struct err *err);
/* Records that `bytes` are allocated by now, for `holder`, and that the context exists. Host memory is taken
 * only once touched, so there the amount is measured. */
void memory_share_used(struct memory_share *share, const char *holder, int64_t bytes);
/* The bytes that a network could still take of the wish's device, less its context; INT64_MAX: unknown. */
int64_t memory_share_left(const struct memory_wish *wish);
void memory_share_release(struct memory_share *share); /* harmless on a zeroed struct */

/* Lists holders of a device's memory (`device` as in the ledger) and processes that wait for it: *count rows,
 * which the caller frees. None without a ledger; none and a warning if it cannot be read. */
struct reservation *memory_share_list(const char *device, size_t *count);

#endif
