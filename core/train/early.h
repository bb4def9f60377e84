/* Early evaluations and samples: before the first step and after 10, 20, 50, 100, 200, 500, ... steps, up to
 * half of their usual interval. So a run shows results soon, and often while it changes fast. */
#ifndef ANNEAL_CORE_TRAIN_EARLY_H
#define ANNEAL_CORE_TRAIN_EARLY_H

#include <stdbool.h>
#include <stdint.h>

/* Whether one is due after `step` steps. `wanted` is eval.early or sample.early, `every` the interval of the
 * same section; 0: none is due. */
bool early_is_due(bool wanted, int64_t every, int64_t step);

/* How many of them a run of `total` steps has. */
int64_t early_count(bool wanted, int64_t every, int64_t total);

#endif
