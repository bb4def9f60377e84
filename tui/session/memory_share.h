/* A command's entry in the ledger of device memory: reserved before anything is allocated, corrected by what
 * is really allocated, given up with the network. On a GPU it has also what this process's context takes
 * there, as a run has measured it (core/memory/overhead.h). A ledger that cannot be kept is a warning, and
 * what is free now decides alone. */
#ifndef ANNEAL_TUI_SESSION_MEMORY_SHARE_H
#define ANNEAL_TUI_SESSION_MEMORY_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/device/backend.h"
#include "runs/reservations/ledger.h"

struct memory_share {
    struct ledger *ledger; /* owned; NULL: nothing is reserved */
    int64_t id, bytes;     /* of the network's */
    int64_t overhead;      /* beside them */
    bool on_host;
};

struct memory_wish {
    const char *holder;            /* what the memory is for */
    const struct backend *backend; /* borrowed, with its device: what is free is asked at every look */
    struct device *device;
    double reserve; /* share of the device's memory that stays free; NaN: by the kind of device */
    int64_t bytes;
    bool may_wait; /* the command has --wait: a refusal says so */
    bool wait;     /* until it fits, or a signal asks us to leave */
};

/* The device's name in the ledger. */
const char *memory_share_device(const struct device_info *device);

/* The share of a device's memory that stays free: what is wanted, or where that is NaN, by the kind of
 * device. A CPU's memory, and that of a GPU whose screen somebody works at, is also for everybody else: a
 * tenth. Of a GPU in a rack only the driver's and the libraries' own are to fit beside: a fiftieth. */
double memory_share_reserve(const struct device_info *device, double wanted);

/* The bytes of the device that are not the plan's, as a run has measured them, or of a CPU by now; -1: not
 * known. */
int64_t memory_share_overhead(const struct device_info *device);

/* STATUS_BUSY: others hold what is missing. STATUS_NO_MEMORY: the device has less. STATUS_INTERRUPTED: a
 * signal ended the waiting. A waiting process may get STATUS_BUSY, too: where who came before could not come
 * in beside what this process holds already. */
enum status memory_share_take(struct memory_share *share, const struct memory_wish *wish, struct err *err);
/* So much of it is allocated by now, for `holder`; the context beside it is known. Of the host's memory only
 * what was touched is taken, so there it is measured. */
void memory_share_used(struct memory_share *share, const char *holder, int64_t bytes);
/* The bytes that a network could still take of the wish's device, its own aside; INT64_MAX: not known. */
int64_t memory_share_left(const struct memory_wish *wish);
void memory_share_release(struct memory_share *share); /* harmless on a zeroed struct */

/* Holders of a device's memory (named as in the ledger) and processes that wait for it: *count rows, yours to
 * free. Where nobody keeps a ledger there are none, and with a warning where it cannot be read. */
struct reservation *memory_share_list(const char *device, size_t *count);

#endif
