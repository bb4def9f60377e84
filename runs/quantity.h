/* The quantities that a run has recorded: all that a chart can show. */
#ifndef ANNEAL_RUNS_QUANTITY_H
#define ANNEAL_RUNS_QUANTITY_H

#include "core/base/arena.h"
#include "runs/series.h"

enum { QUANTITY_NAME_MAX = 112, QUANTITY_COLUMN_MAX = 96 /* as in FIELD_NAME_MAX */ };

struct quantity {
    /* "loss", "accuracy", "gpu0.power_w", "cpu.load_1m", "rank.wait_ms", "inference.decode_tokens_per_sec";
     * one line without commas and equals signs, whatever a measure is called */
    char name[QUANTITY_NAME_MAX];
    enum metric metric; /* for series_read, as are the column (series.name) and the device */
    char column[QUANTITY_COLUMN_MAX];
    int device;
};

/* Lists them in `arena`: metrics of steps, evaluations, measures, devices, ranks, generated texts. A run
 * without steps has those that each step records, unless it is an import that has other values. */
enum status quantity_list(struct store *store, const char *run_id, struct arena *arena, struct quantity **out,
                          size_t *count, struct err *err);

#endif
