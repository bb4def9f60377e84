/* The device of a run: what kernels/device/gauge.h reads of it, in time; and where its memory goes: what was
 * planned and is allocated by category, what its process and its device held when they were last looked at,
 * and who else on this host holds memory of that device now.
 *
 * Absent is not zero: a run without a row (imported, or too young) has no categories, or no sample. */
#ifndef ANNEAL_RUNS_MEMORY_USAGE_H
#define ANNEAL_RUNS_MEMORY_USAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/arena.h"
#include "core/base/record.h"
#include "runs/reservations/ledger.h"
#include "runs/store.h"

/* The sample's processes (by pid) are written where they, or what they hold, are others than in the run's
 * sample before of this device; else the sample refers to those of then. */
enum status gpu_samples_add(struct store *store, const char *run_id, const struct gpu_record *record,
                            struct err *err);

/* The newest sample of a run, with its processes by pid in `arena`; *found: there is one. */
enum status gpu_samples_last(struct store *store, const char *run_id, struct arena *arena,
                             struct gpu_record *out, bool *found, struct err *err);

/* One reservation on the run's device, its own among them. */
struct memory_holder {
    char name[LEDGER_TEXT]; /* of the run that holds it; what the ledger says where that is no run of the
                               store */
    bool own;               /* the run that was asked about */
    int64_t pid;
    int64_t bytes; /* reserved */
    int64_t used;  /* of them allocated, as last reported; 0: not yet */
};

struct memory_usage {
    struct memory_record *categories; /* as last recorded in the newest segment; in no particular order */
    size_t category_count;
    bool has_sample;
    struct gpu_record sample; /* the last one of the run */
    /* of that sample, who else held memory of the device, the largest first; with process_count below zero
       nobody knows */
    const struct gpu_process *others;
    size_t other_count;
    double reserve; /* share of the device that the run leaves free; NaN: its configuration does not say */
};

/* Rows and texts in `arena`. A run without any has none: that is no error. */
enum status memory_usage_read(struct store *store, const char *run_id, struct arena *arena,
                              struct memory_usage *out, struct err *err);

/* Living processes that hold memory of the device that run `run_id` holds some of, oldest first; none when it
 * holds none (it has ended), or there is no ledger (NULL). An array in `arena`. */
enum status memory_usage_holders(struct store *store, struct ledger *ledger, const char *run_id,
                                 struct arena *arena, struct memory_holder **out, size_t *count,
                                 struct err *err);

#endif
