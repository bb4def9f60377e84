/* The columns of a run as commands show, filter, sort and write them: those of the CSV table `runs`, plus id,
 * total_steps, segment, pid, heartbeat and message. */
#ifndef ANNEAL_TUI_COMMAND_RUN_TABLE_H
#define ANNEAL_TUI_COMMAND_RUN_TABLE_H

#include <stddef.h>

#include "core/base/json_out.h"
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

/* All columns as members of the object that is open; null where absent or not a number. */
void run_table_json(struct json_out *json, const struct run_info *run);

#endif
