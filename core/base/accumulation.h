/* A plan of growing batches, train.accumulation_plan: from which step on a step has how many micro-batches,
 * as text: "0: 1, 1000: 2, 4000: 4". Pure functions of that text, for the trainer and for who estimates how
 * long it has to go. "" is a plan of one micro-batch throughout. */
#ifndef ANNEAL_CORE_BASE_ACCUMULATION_H
#define ANNEAL_CORE_BASE_ACCUMULATION_H

#include <stdint.h>

#include "core/base/err.h"

enum { ACCUMULATION_PLAN_MAX = 256, ACCUMULATION_MOST = 65536 /* micro-batches of a step */ };

/* STATUS_USAGE: it is no such plan, does not begin with step 0, or its steps do not ascend. The functions
 * below are for plans that pass. */
enum status accumulation_check(const char *plan, struct err *err);

/* Micro-batches of a step; and the most that any step has. */
int64_t accumulation_at(const char *plan, int64_t step);
int64_t accumulation_most(const char *plan);

/* Micro-batches of the first `steps` steps; and how many steps have at least so many. */
double accumulation_sum(const char *plan, int64_t steps);
double accumulation_steps(const char *plan, double micro_batches);

#endif
