/* The control channel, for the programs that give orders: rows in `orders` that the run's trainer reads
 * between steps. */
#ifndef ANNEAL_RUNS_ORDER_H
#define ANNEAL_RUNS_ORDER_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/arena.h"
#include "core/base/record.h"
#include "runs/store.h"

extern const char *const verb_words[]; /* "pause", … "lr-factor", NULL */

/* Adds an order. `issuer` is the program that gives it ("cli", "workbench"). `argument` is the factor of
 * ORDER_LR_FACTOR for the scheduled learning rate, a finite number from 0 up (else STATUS_USAGE); other verbs
 * ignore it. STATUS_FAILED if the run has no live trainer. */
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
/* Whether the trainer has carried out the order. Without an answer: false. A stop is answered before the
 * trainer saves, and the save may still fail. */
bool order_was_carried_out(const struct order_row *row);
enum status order_get(struct store *store, const char *run_id, int64_t id, struct arena *arena,
                      struct order_row *out, struct err *err);
/* Lists at most `limit` orders, newest first. */
enum status order_list(struct store *store, const char *run_id, size_t limit, struct arena *arena,
                       struct order_row **out, size_t *count, struct err *err);

#endif
