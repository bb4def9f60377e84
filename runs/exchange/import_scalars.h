/* Private to runs/: metrics as other programs name and log them, one value at a time. A name that means a
 * column of `steps` or `evals` (train/loss, learning_rate, eval/loss, …) goes there, any other becomes a
 * measure. A later value of the same step replaces the earlier one. Of two names that mean the same column,
 * such as train/loss and loss, the first has it. */
#ifndef ANNEAL_RUNS_EXCHANGE_IMPORT_SCALARS_H
#define ANNEAL_RUNS_EXCHANGE_IMPORT_SCALARS_H

#include "runs/exchange/import_stage.h"

enum { SCALAR_NAME_MAX = 48 };

/* "train/Loss" gives "train_loss": letters in lower case and digits, with '_' for all other characters. Bytes
 * beyond ASCII stay. "" if nothing is left. Returns buf. */
char *scalar_word(const char *name, char *buf, size_t size);

/* The column that a word of scalar_word means; NULL: none. *taken: its values are those of another word. */
const struct column_info *scalar_column(struct import *import, const char *word, enum store_table *table,
                                        bool *taken);

/* Zero it, but for `import`, before its first use. */
struct import_scalars {
    struct import *import;
    struct import_rows rows[24]; /* of the columns met so far, the measures among them */
    int count;
};

/* Stages a value. `wall_time` not finite: unknown. */
enum status import_scalar(struct import_scalars *scalars, const char *name, int64_t step, double wall_time,
                          double value);

#endif
