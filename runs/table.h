/* Private to runs/: writes records to the store's tables and reads them, for all tables alike (columns.h). */
#ifndef ANNEAL_RUNS_TABLE_H
#define ANNEAL_RUNS_TABLE_H

#include <stddef.h>

#include "core/base/arena.h"
#include "runs/columns.h"
#include "runs/database.h"

/* Stores a record with its run, its segment (if the table has one) and its fields. In a KEYED table it
 * replaces the row with the same key. */
enum status table_add(struct store *store, enum store_table table, const char *run_id, int segment,
                      const void *record, struct err *err);

/* Whether a table with segments, but without a key, has such a row: the same values in all fields. */
enum status table_has(struct store *store, enum store_table table, const char *run_id, int segment,
                      const void *record, bool *has, struct err *err);

/* Writes "t.step, t.epoch, …": the columns of the record's fields. */
void table_fields(enum store_table table, char *buf, size_t size);

/* Fills a record from these columns of a row, from column `first` on; fields without a column are not
 * changed. Texts are copied into `arena`. Returns false when memory is short. */
bool table_read(enum store_table table, sqlite3_stmt *row, int first, struct arena *arena, void *record);

/* The rows of a resumed run that count: each trainer of a run records one segment, whose first step replaces
 * the rows of earlier segments from that step on. Replaced rows stay in the tables and in the CSV, but
 * charts, panels, rollups and the other exports leave them out.
 *
 * "from TABLE t where t.run_id = ?1 and …" gives the rows that count, of a table with segments and steps.
 * `order by t.segment, t.step` is then the order of the steps and needs no sorting.
 *
 * A row with a number of completed steps s, such as an evaluation, belongs to the segment of step s - 1. If
 * the next segment evaluated at s again, only that row counts. */
#define HISTORY_UNLESS(table, replaced)                                                                      \
    "from " table " t where t.run_id = ?1 and not exists (select 1 from segments l where l.run_id = ?1"      \
    " and l.segment > t.segment and " replaced ")"
#define HISTORY_OF_STEPS(table) HISTORY_UNLESS(table, "l.first_step <= t.step")
#define HISTORY_AFTER_STEPS(table)                                                                           \
    HISTORY_UNLESS(table, "(l.first_step < t.step or exists (select 1 from " table                           \
                          " n where n.run_id = ?1 and n.segment = l.segment and n.step = t.step))")
#define COUNTED_STEPS    HISTORY_OF_STEPS("steps")
#define COUNTED_PROFILE  HISTORY_OF_STEPS("layer_profile")
#define COUNTED_EVALS    HISTORY_AFTER_STEPS("evals")
#define COUNTED_MEASURES HISTORY_AFTER_STEPS("measures")
#define COUNTED_RANKS    HISTORY_AFTER_STEPS("ranks")
/* The same of any table. */
enum { TABLE_HISTORY_MAX = 400 };
const char *table_history(enum store_table table);

/* Behind it where steps are looked for by number: with the list of segments SQLite finds each one's by the
 * key of the table; without it, it reads all rows of the run. */
#define IN_ITS_SEGMENTS " and t.segment in (select segment from segments where run_id = ?1) "

/* The rows that table_list returns. */
struct table_request {
    enum store_table table;
    const char *run_id; /* ?1 */
    const char
        *tail;    /* SQL after "select … from TABLE t where t.run_id = ?1": further conditions, the order */
    size_t limit; /* most rows; SIZE_MAX: all */
    size_t size; /* bytes of a row of the result: the record, then, if there is room, the segment as an int */
    bool shown;  /* only rows that count (table_history) */
};

/* Reads the rows as an array in `arena`, with their texts. */
enum status table_list(struct store *store, const struct table_request *request, struct arena *arena,
                       void *out, size_t *count, struct err *err);

#endif
