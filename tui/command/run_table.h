/* The columns of a run as commands show, filter, sort and write them: those of the CSV table `runs`, plus id,
 * total_steps, segment, pid, heartbeat and message. */
#ifndef ANNEAL_TUI_COMMAND_RUN_TABLE_H
#define ANNEAL_TUI_COMMAND_RUN_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"
#include "runs/run.h"

/* Keeps the runs that satisfy EXPR: conditions COLUMN OP VALUE joined by commas, all of which must hold; OP
 * is one of = != < <= > >= and ~ (contains). A COLUMN with a dot is a key of the configuration
 * (train.learning_rate), compared as a number where both sides are one. A run without a value satisfies only
 * !=. Keeps the order; updates *count. STATUS_USAGE for an EXPR that makes no sense, naming what is accepted.
 */
enum status run_table_filter(struct store *store, const char *expr, struct run_info *runs, size_t *count,
                             struct err *err);

/* Sorts by a column, rising, or falling with a '-' before its name; runs without a value come last; equal
 * ones keep their order. STATUS_USAGE for an unknown column. */
enum status run_table_sort(const char *key, struct run_info *runs, size_t count, struct err *err);

/* A new JSON object of all columns; null where absent or not a number. NULL when memory is short. */
json_t *run_table_json(const struct run_info *run);

/* A JSON number, null when it is not finite. */
json_t *run_table_number(double value);

#endif
