/* See import_named.h. */
#include "runs/exchange/import_named.h"

#include <math.h>
#include <string.h>

/* In the spelling of scalar_word; the best first. An epoch is a step where nothing else is, as in Keras's
 * logs. */
static const char *const step_words[] = {
    "step",      "global_step", "trainer_global_step", "train_global_step",
    "iteration", "iter",        "current_steps",       "train_step",
    "epoch"};

int import_named_step_rank(const char *name)
{
    char word[SCALAR_NAME_MAX];
    scalar_word(name, word, sizeof word);
    for (int i = 0; i < (int)(sizeof step_words / sizeof *step_words); i++)
        if (strcmp(word, step_words[i]) == 0) return i;
    return -1;
}

static bool is_time(const char *name)
{
    char word[SCALAR_NAME_MAX];
    scalar_word(name, word, sizeof word);
    return strcmp(word, "wall_time") == 0 || strcmp(word, "timestamp") == 0;
}

/* Sees whether a metric that is met for the first time is the step or the time. */
static enum status note_name(struct import_named *named, const char *name)
{
    struct import *import = named->scalars.import;
    struct import_metric *metric = import_metrics_at(&import->metrics, name);
    if (!metric) return err_no_memory(import->err, "the names of metrics");
    if (metric->count) return STATUS_OK;
    int rank = import_named_step_rank(name);
    if (rank >= 0 && (!named->step_name || rank < named->step_rank)) {
        named->step_name = metric->name;
        named->step_rank = rank;
    }
    if (!named->time_name && is_time(name)) named->time_name = metric->name;
    return STATUS_OK;
}

static bool is_called(const char *name, const char *wanted)
{
    return wanted && strcmp(name, wanted) == 0;
}

enum status import_named_row(struct import_named *named, const struct import_number *row, size_t count)
{
    struct import *import = named->scalars.import;
    double time = NAN, step = (double)named->step;
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < count; i++) {
        if (named->scalars.survey) status = note_name(named, row[i].name);
        if (is_called(row[i].name, named->step_name)) step = row[i].value;
        if (is_called(row[i].name, named->time_name)) time = row[i].value;
    }
    if (!status && !named->scalars.survey &&
        !(step >= 0 && step <= (double)IMPORT_STEP_MAX && floor(step) == step)) {
        import->left_out += (int64_t)count;
        return STATUS_OK;
    }
    if (!named->scalars.survey) named->step = (int64_t)step;
    for (size_t i = 0; !status && i < count; i++)
        status = import_scalar(&named->scalars, row[i].name, named->step, time, row[i].value);
    return status;
}

enum status import_named_begin(struct import_named *named)
{
    struct import *import = named->scalars.import;
    char word[SCALAR_NAME_MAX];
    enum store_table table;
    int rank;
    if (!named->step_name && import->metrics.count)
        return err_set(import->err, STATUS_CORRUPT,
                       "%s: no number in it is called step, global_step, iteration or epoch", import->path);
    if (is_called("current_steps", named->step_name)) import->steps_done = true; /* LLaMA-Factory's log */
    if (named->step_name)
        import_metrics_at(&import->metrics, named->step_name)->left_out =
            !scalar_column_of(scalar_word(named->step_name, word, sizeof word), &table, &rank);
    if (named->time_name) import_metrics_at(&import->metrics, named->time_name)->left_out = true;
    named->scalars.survey = false;
    if (!import_metrics_assign(&import->metrics)) return err_no_memory(import->err, "the names of metrics");
    return STATUS_OK;
}
