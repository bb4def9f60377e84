/* Private to runs/: records into the store's tables and out of them, whatever their columns (columns.h). */
#ifndef ANNEAL_RUNS_TABLE_H
#define ANNEAL_RUNS_TABLE_H

#include <stddef.h>

#include "core/base/arena.h"
#include "runs/columns.h"
#include "runs/database.h"

/* Stores a record with its run, segment (where the table has one) and fields. In a KEYED table it replaces a
 * row of its key. */
enum status table_add(struct store *store, enum store_table table, const char *run_id, int segment,
                      const void *record, struct err *err);

/* Writes "t.step, t.epoch, …": the columns of the record's fields. */
void table_fields(enum store_table table, char *buf, size_t size);

/* Fills a record from such columns of a row, from column `first` on; what is no column of the table stays as
 * it is. Texts are copied into `arena`. False when memory is short. */
bool table_read(enum store_table table, sqlite3_stmt *row, int first, struct arena *arena, void *record);

/* Which rows of a resumed run count: a segment is one trainer's life, and when it records its first step it
 * replaces what earlier segments hold from that step on. Those rows stay in the tables and in the CSV, but
 * charts, panels, rollups and the other exports show the run as its newest segment remembers it.
 *
 * Writes "from TABLE t where t.run_id = ?1 and …" for the rows of a table of segments and steps that count.
 * `order by t.segment, t.step` is then the order of the steps, and costs no sorting. */
enum { TABLE_HISTORY_MAX = 400 };
const char *table_history(enum store_table table, char buf[TABLE_HISTORY_MAX]);

/* Of what table_list gives a list. */
struct table_request {
    enum store_table table;
    const char *run_id; /* ?1 */
    const char *tail; /* SQL behind "select … from TABLE t where t.run_id = ?1": more conditions, the order */
    size_t limit;     /* most rows; SIZE_MAX: all */
    size_t size;      /* of a row of the result: the record, and where there is room, an int, the segment */
    bool shown;       /* only rows that count (table_history) */
};

/* The rows as an array in `arena`, texts too. */
enum status table_list(struct store *store, const struct table_request *request, struct arena *arena,
                       void *out, size_t *count, struct err *err);

#endif
