/* See disk_need.h. */
#include "tui/session/disk_need.h"

#include <math.h>
#include <stdio.h>
#include <sys/statvfs.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/train/early.h"

static int64_t bytes_of_one(const struct config *c, const struct plan *plan)
{
    const struct model *model = plan->input.model;
    bool full = c->checkpoint.contents == CONTENTS_FULL;
    int64_t bytes = (int64_t)(model->elements * sizeof(float));
    for (enum moment i = 0; i < MOMENT_KINDS; i++)
        if (full || i == MOMENT_AVERAGE)
            bytes += (int64_t)(slice_count(plan_with_moment(&plan->input, i)) * sizeof(float));
    if (model->adapter.rank && model->head.parts == model->embed && !model->embed->frozen)
        bytes += (int64_t)param_bytes(model->embed); /* once more as head */
    return model->adapter.rank ? bytes : bytes + (int64_t)plan->category_bytes[PLAN_FROZEN];
}

static double free_below(const char *home)
{
    char runs[PATH_MAX];
    struct statvfs disk;
    if (file_format_path(runs, sizeof runs, NULL, "%s/runs", home)) return NAN;
    if (statvfs(runs, &disk) != 0 && statvfs(home, &disk) != 0) return NAN;
    return (double)disk.f_bavail * (double)disk.f_frsize;
}

struct disk_need disk_need_of(const struct training_session *s)
{
    const struct config *c = &s->config;
    int64_t steps = c->train.total_steps, every = c->eval.every;
    bool validates = trainer_sequences(s->trainer, TASK_VALIDATION) > 0;
    struct disk_need need = {.checkpoint_bytes = bytes_of_one(c, trainer_plan(s->trainer))};
    /* evaluations each `every` steps, early, and once at the end */
    if (validates) need.evaluations = every ? (steps + every - 1) / every : 1;
    if (validates) need.evaluations += early_count(c->eval.early, every, steps);
    need.checkpoints = 1 + (c->checkpoint.every ? (steps - 1) / c->checkpoint.every : 0);
    double kept = fmin((double)c->checkpoint.keep + 1, (double)need.checkpoints);
    need.bytes = (kept + (need.evaluations > 0)) * (double)need.checkpoint_bytes;
    need.held = *s->checkpoints ? (double)file_tree_bytes(s->checkpoints, NULL) : 0;
    need.free = free_below(s->home);
    return need;
}

bool disk_need_warning(const struct training_session *s, char *buf, size_t size)
{
    struct disk_need need = disk_need_of(s);
    if (isnan(need.free) || need.bytes - need.held <= need.free) return false;
    snprintf(
        buf, size,
        "the disk has no room for all checkpoints: they take up to %s (%s each, checkpoint.keep = %lld), and "
        "%s are free below %.200s (`%s clean` frees space; a smaller checkpoint.keep or "
        "checkpoint.contents = weights needs less)",
        TEXT_BYTES(fmin(need.bytes, 1e18)), TEXT_BYTES(need.checkpoint_bytes),
        (long long)s->config.checkpoint.keep, TEXT_BYTES(need.free), s->home, TEXT_PROGRAM);
    return true;
}
