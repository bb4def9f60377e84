/* How long-running work reports its progress and asks whether to continue. */
#ifndef ANNEAL_DATASETS_PROGRESS_H
#define ANNEAL_DATASETS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    /* `what` names the phase ("reading", "counting pairs", "encoding"); done and total are in `unit`
     * ("bytes", "merges"); the last report of a phase is its total. Called at most a few thousand times.
     * Return false to stop: the work then returns STATUS_INTERRUPTED and leaves nothing half-written. */
    bool (*report)(void *context, const char *what, const char *unit, uint64_t done, uint64_t total);
    void *context;
    /* Receives a sentence for the user about the current work, or as a warning. May be NULL. */
    void (*note)(void *context, bool warning, const char *sentence);
};

/* NULL-safe. */
static inline bool progress_report(const struct progress *p, const char *what, const char *unit,
                                   uint64_t done, uint64_t total)
{
    return !p || p->report(p->context, what, unit, done, total);
}

#endif
