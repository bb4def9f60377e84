/* Tables as CSV through libcsv: RFC 4180 (records end with CR LF), a header line, '.' decimals, shortest
 * round-trip floats, nan and inf spelled so, empty for an absent value. Columns and their order are fixed;
 * new ones are only ever appended. */
#ifndef ANNEAL_RUNS_EXCHANGE_EXPORT_H
#define ANNEAL_RUNS_EXCHANGE_EXPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "runs/columns.h"
#include "runs/store.h"

/* Writes one table of the given runs (ids), rows in (run, segment, step) order. The table has a CSV. The file
 * at `path` is replaced whole or not at all: a full disk leaves no half file and an old one untouched. A
 * device or a pipe is written to as it is; "-" is standard output. */
enum status export_csv(struct store *store, const char *const *run_ids, size_t run_count,
                       enum store_table table, const char *path, struct err *err);

#endif
