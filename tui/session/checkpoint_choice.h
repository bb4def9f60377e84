/* Sentences about damaged checkpoints of a run: that one was passed over, or which other one there is instead
 * of the one asked for. */
#ifndef ANNEAL_TUI_SESSION_CHECKPOINT_CHOICE_H
#define ANNEAL_TUI_SESSION_CHECKPOINT_CHOICE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"

/* Whether a newer checkpoint below `checkpoints` than `found`, which checkpoint_find gave, is damaged: then a
 * sentence that says so, and what goes on from `found` ("generating"). Else "". */
bool checkpoint_choice_passed_over(const char *checkpoints, const char *found, const char *doing, char *buf,
                                   size_t size);

/* The checkpoint of `run` (id) that is wanted is there and cannot be used, for the reason in `err`: adds
 * which other one can, or that none can and what to do then. Returns err's status. */
enum status checkpoint_choice_refuse(const char *checkpoints, const char *run, struct err *err);

#endif
