/* Private to runs/exchange: the metrics of a log, by the names that other programs give them, and what each
 * becomes: a column of `steps` or `evals` (train/loss, learning_rate, eval/loss, …), or else a measure.
 *
 * Always: what a name becomes depends on the names, not on their order in the log, as far as all of them were
 * added before import_metrics_assign. Of several names for a column, that of the column has it (loss), then
 * the one that comes first in the list of other names (train/loss before loss/train), then one that is
 * spelled as here (train_loss before train/loss), then the first by bytes; one that only the summary of a log
 * has comes last. The others become measures. A measure is called as scalar_word says. A name that would be
 * the same as another's, or that of a column or field of runs, gets a number: a_b, a_b_2. */
#ifndef ANNEAL_RUNS_EXCHANGE_IMPORT_METRICS_H
#define ANNEAL_RUNS_EXCHANGE_IMPORT_METRICS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "runs/columns.h"

enum { SCALAR_NAME_MAX = 96 }; /* a field may be called so: FIELD_NAME_MAX */

struct import_metric {
    const char *name; /* as the log has it */
    bool left_out;    /* not imported */

    /* its values, as far as import_metric_note knows them; NaN counts only as a fraction */
    int64_t count;
    bool fractions, falls; /* not all are whole; one is lower than the one before it */
    double least, most, newest;
    bool summed; /* `summary` is its value in a summary */
    double summary;

    /* the column or measure that it is imported as */
    bool assigned, renamed;           /* renamed: that is not plain from the name */
    const struct column_info *column; /* NULL: a measure */
    enum store_table table;           /* of the column */
    char word[SCALAR_NAME_MAX];       /* the name of the measure; "": not chosen, or nothing is left of it */

    int64_t turn; /* of the newest imported value (struct import); 0: none */
    double value; /* the newest imported value */
};

struct import_metrics { /* zero it before its first use */
    struct import_metric *all;
    size_t count, capacity, assigned; /* the first `assigned` ones are */
    json_t *names, *words;            /* objects: the index in `all` by name, and the words that are taken */
    struct arena arena;
};

/* "train/Loss" gives "train_loss": letters in lower case and digits, with '_' for all other characters. Bytes
 * beyond ASCII stay. Of a longer one the middle is left out, with "__" instead. "" if nothing is left.
 * Returns buf. */
char *scalar_word(const char *name, char *buf, size_t size);

/* The column that a word of scalar_word means, and its place among the words for it, from 0; NULL: none. */
const struct column_info *scalar_column_of(const char *word, enum store_table *table, int *rank);

/* The metric of a name, which is added if it is new; valid until the next one is added. NULL: memory is
 * short. */
struct import_metric *import_metrics_at(struct import_metrics *metrics, const char *name);

/* Notes a value of the history for the members above. */
void import_metric_note(struct import_metric *metric, double value);

/* Says what those become that are not assigned yet. False: memory is short. */
bool import_metrics_assign(struct import_metrics *metrics);

/* Chooses the name of a measure for a metric that has none. False: memory is short. */
bool import_metric_choose_word(struct import_metrics *metrics, struct import_metric *metric);

/* The metric that has a column; NULL: none. */
struct import_metric *import_metrics_owner(const struct import_metrics *metrics,
                                           const struct column_info *column);

/* The name of the column or measure that a metric is imported as. */
const char *import_metric_here(const struct import_metric *metric);

/* The renamed metrics, `count` of them, by name, in the arena; NULL: memory is short. */
struct import_metric **import_metrics_renamed(struct import_metrics *metrics, size_t *count);

void import_metrics_release(struct import_metrics *metrics);

#endif
