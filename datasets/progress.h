/* How long-running work reports its progress and asks whether to continue. */
#ifndef ANNEAL_DATASETS_PROGRESS_H
#define ANNEAL_DATASETS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

struct progress {
    /* `what` names the phase ("reading", "counting pairs", "encoding"); done and total are in `unit`
     * ("bytes", "merges"); the last report of a phase is its total. Called at most a few thousand times.
     * Return false to stop: the work then returns STATUS_INTERRUPTED and leaves nothing half-written. The
     * error says "interrupted while `what`". */
    bool (*report)(void *context, const char *what, const char *unit, uint64_t done, uint64_t total);
    void *context;
    /* Receives a sentence for the user about the current work, or as a warning. May be NULL. */
    void (*note)(void *context, bool warning, const char *sentence);
};

/* NULL-safe. */
static inline enum status progress_report(const struct progress *p, const char *what, const char *unit,
                                          uint64_t done, uint64_t total, struct err *err)
{
    if (!p || p->report(p->context, what, unit, done, total)) return STATUS_OK;
    return err_set(err, STATUS_INTERRUPTED, "interrupted while %s", what);
}

/* Work in many small pieces: it adds up their bytes and reports about a thousand times. */
struct progress_meter {
    const struct progress *to; /* borrowed; NULL: nobody */
    const char *what;
    uint64_t total, done, next; /* next: bytes that must be done for the next report */
};

/* Adds bytes that are done. */
static inline enum status progress_advance(struct progress_meter *meter, uint64_t bytes, struct err *err)
{
    meter->done += bytes;
    if (meter->done < meter->next && meter->done < meter->total) return STATUS_OK;
    meter->next = meter->done + meter->total / 1000;
    return progress_report(meter->to, meter->what, "bytes", meter->done, meter->total, err);
}

#endif
