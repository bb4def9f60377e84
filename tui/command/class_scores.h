/* The scores of a classifier by class, and its confusion matrix. */
#ifndef ANNEAL_TUI_COMMAND_CLASS_SCORES_H
#define ANNEAL_TUI_COMMAND_CLASS_SCORES_H

#include "core/base/confusion.h"
#include "tui/command/output.h"

/* Prints the lists "classes" and "confusion" of an evaluation after `step` steps; -1: it has none. Nothing on
 * a page without classes. In JSON the second list has the pairs that occur; on a page it is a matrix, unless
 * there are many classes. */
void class_scores_print(struct output *output, const struct confusion *confusion, int64_t step);

#endif
