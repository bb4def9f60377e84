/* See disk_need.h. */
#include "tui/session/disk_need.h"

#include <math.h>
#include <stdio.h>

#include "core/base/accumulation.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/train/decide.h"
#include "core/train/early.h"

static void look_at_disk(const char *home, struct disk_need *need)
{
    char runs[PATH_MAX];
    bool fits = !file_format_path(runs, sizeof runs, NULL, "%s/runs", home);
    need->free = fits ? file_free_bytes(runs) : NAN;
    need->no_files = fits && file_lacks_inodes(runs);
}

/* Evaluations of eval.at_epoch_end in steps that have no other one; of a million epochs at most. */
static int64_t epoch_end_count(const struct config *c, double sequences)
{
    const char *plan = c->train.accumulation_plan;
    double batch = (double)c->train.batch_size * (*plan ? 1 : (double)c->train.accumulation_steps);
    int64_t count = 0, step, last = 0;
    for (int64_t epoch = 1; c->eval.at_epoch_end && epoch <= 1000000; epoch++, last = step) {
        double end = accumulation_steps(plan, (double)epoch * sequences / batch);
        if (end >= (double)c->train.total_steps) break;
        step = (int64_t)end;
        count += step > last && !(decide_due(c, step, false) & DUE_EVALUATION);
    }
    return count;
}

struct disk_need disk_need_of(const struct training_session *s)
{
    const struct config *c = &s->config;
    int64_t steps = c->train.total_steps, every = c->eval.every;
    bool validates = trainer_sequences(s->trainer, TASK_VALIDATION) > 0;
    struct disk_need need = {.checkpoint_bytes = trainer_checkpoint_bytes(s->trainer)};
    /* evaluations each `every` steps, early, at the end of epochs, and once at the end */
    if (validates) need.evaluations = every ? (steps + every - 1) / every : 1;
    if (validates)
        need.evaluations += early_count(c->eval.early, every, steps) +
                            epoch_end_count(c, (double)trainer_sequences(s->trainer, TASK_TRAINING));
    need.checkpoints = 1 + (c->checkpoint.every ? (steps - 1) / c->checkpoint.every : 0);
    double kept = fmin((double)c->checkpoint.keep + 1, (double)need.checkpoints);
    need.bytes = (kept + (need.evaluations > 0)) * (double)need.checkpoint_bytes;
    need.held = *s->checkpoints ? (double)file_tree_bytes(s->checkpoints, NULL) : 0;
    look_at_disk(s->home, &need);
    return need;
}

bool disk_need_warning(const struct training_session *s, char *buf, size_t size)
{
    struct disk_need need = disk_need_of(s);
    if (isnan(need.free) || (need.bytes - need.held <= need.free && !need.no_files)) return false;
    if (need.no_files)
        snprintf(buf, size,
                 "the disk has no room for all checkpoints: no more files can be created below %.200s (`df "
                 "-i` shows its inodes; `%s clean` frees some)",
                 s->home, TEXT_PROGRAM);
    else
        snprintf(buf, size,
                 "the disk has no room for all checkpoints: they take up to %s (%s each, checkpoint.keep = "
                 "%lld), and %s are free below %.200s (`%s clean` frees space; a smaller checkpoint.keep or "
                 "checkpoint.contents = weights needs less)",
                 TEXT_BYTES(fmin(need.bytes, 1e18)), TEXT_BYTES(need.checkpoint_bytes),
                 (long long)s->config.checkpoint.keep, TEXT_BYTES(need.free), s->home, TEXT_PROGRAM);
    return true;
}

enum status disk_need_check(const struct training_session *s, struct err *err)
{
    struct disk_need need = disk_need_of(s);
    if (!((double)need.checkpoint_bytes > need.free)) return STATUS_OK; /* also where that is not known */
    if (need.no_files)
        return err_set(
            err, STATUS_IO,
            "the disk has no room for a checkpoint: no more files can be created below %.200s (`df -i` shows "
            "its inodes; `%s clean` frees some; ANNEAL_HOME may be a folder on another disk)",
            s->home, TEXT_PROGRAM);
    return err_set(
        err, STATUS_IO,
        "the disk has no room for a checkpoint: it takes %s, and %s are free below %.200s (`%s clean` "
        "frees space; ANNEAL_HOME may be a folder on another disk)",
        TEXT_BYTES(need.checkpoint_bytes), TEXT_BYTES(need.free), s->home, TEXT_PROGRAM);
}
