/* The device of a run: the samples that kernels/device/gauge.h takes of it; and its memory: what was planned
 * and is allocated by category, what the process and the device held in the last sample, and which other
 * processes on this host have reserved memory of that device now.
 *
 * Absent is not zero: an imported or very new run may have no categories or no sample. */
#ifndef ANNEAL_RUNS_MEMORY_USAGE_H
#define ANNEAL_RUNS_MEMORY_USAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/arena.h"
#include "core/base/record.h"
#include "runs/reservations/ledger.h"
#include "runs/store.h"

/* Adds a sample. Its processes (sorted by pid) are written only if they or their memory differ from the run's
 * previous sample of this device; else the sample refers to the earlier rows. */
enum status gpu_samples_add(struct store *store, const char *run_id, const struct gpu_record *record,
                            struct err *err);

/* Reads the newest sample of a run, with its processes sorted by pid in `arena`; *found: there is one. */
enum status gpu_samples_last(struct store *store, const char *run_id, struct arena *arena,
                             struct gpu_record *out, bool *found, struct err *err);

/* One reservation on the run's device; the run's own is included. */
struct memory_holder {
    char name[LEDGER_TEXT]; /* name of the run that holds it, with " (qlora)" and the like; the ledger's text
                               if that run is not in the store */
    bool own;               /* it belongs to the run asked for */
    int64_t pid;
    int64_t bytes; /* reserved */
    int64_t used;  /* allocated of these, as last reported; 0: nothing yet */
};

struct memory_usage {
    struct memory_record *categories; /* as last recorded in the newest segment; in no particular order */
    size_t category_count;
    bool has_sample;
    struct gpu_record sample; /* the last one of the run */
    /* the other processes in that sample, the largest first; unknown if process_count is below 0 */
    const struct gpu_process *others;
    size_t other_count;
    double reserve; /* share of the device that the run leaves free; NaN: not in its configuration */
};

/* Rows and texts are in `arena`. A run without rows is not an error. */
enum status memory_usage_read(struct store *store, const char *run_id, struct arena *arena,
                              struct memory_usage *out, struct err *err);

/* Lists the live reservations on the device where run `run_id` has one, oldest first, as an array in `arena`.
 * Empty if the run has none (it has ended) or there is no ledger (NULL). */
enum status memory_usage_holders(struct store *store, struct ledger *ledger, const char *run_id,
                                 struct arena *arena, struct memory_holder **out, size_t *count,
                                 struct err *err);

#endif
