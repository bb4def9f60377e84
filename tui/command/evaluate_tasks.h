/* The part of anneal evaluate that answers multiple-choice questions. */
#ifndef ANNEAL_TUI_COMMAND_EVALUATE_TASKS_H
#define ANNEAL_TUI_COMMAND_EVALUATE_TASKS_H

#include <stdbool.h>

#include "core/base/err.h"
#include "core/memory/allocator.h"
#include "tui/command/progress_bar.h"

/* Answers the questions of `path` (see datasets/question_file.h) with the model of a checkpoint folder and
 * prints how many of the answers are right. Reads all questions before it computes, so that a mistake in the
 * last one shows at once. STATUS_INTERRUPTED, after printing the part that was done. */
enum status evaluate_tasks(const char *folder, const char *path, const char *device,
                           enum allocator_kind allocator, bool json, struct progress_bar *bar,
                           struct err *err);

#endif
