/* The control channel, asking side: rows in `orders` that the run's trainer reads between steps. */
#ifndef ANNEAL_RUNS_ORDER_H
#define ANNEAL_RUNS_ORDER_H

#include <stddef.h>

#include "core/base/arena.h"
#include "core/base/record.h"
#include "runs/store.h"

extern const char *const verb_words[]; /* "pause", … "lr-factor", NULL */

/* `issuer` says who asks ("cli", "workbench"). `argument` is what ORDER_LR_FACTOR multiplies the scheduled
 * learning rate with, a finite number from 0 up (else STATUS_USAGE); other verbs ignore it. STATUS_FAILED
 * when the run has no living trainer to obey. */
enum status order_issue(struct store *store, const char *run_id, enum order_verb verb, double argument,
                        const char *issuer, int64_t *id, struct err *err);

struct order_row {
    int64_t id;
    double issued_at;
    enum order_verb verb;
    double argument;
    const char *issuer;
    int64_t applied_step; /* -1: not yet */
    const char *result;   /* NULL: not yet */
};
enum status order_get(struct store *store, const char *run_id, int64_t id, struct arena *arena,
                      struct order_row *out, struct err *err);
/* Newest first, at most `limit`. */
enum status order_list(struct store *store, const char *run_id, size_t limit, struct arena *arena,
                       struct order_row **out, size_t *count, struct err *err);

#endif
