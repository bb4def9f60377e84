/* See checkpoint_choice.h. */
#include "tui/session/checkpoint_choice.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/checkpoint/checkpoint.h"

bool checkpoint_choice_passed_over(const char *checkpoints, const char *found, const char *doing, char *buf,
                                   size_t size)
{
    int64_t newest = checkpoint_passed_over(checkpoints, found);
    *buf = '\0';
    if (newest < 0) return false;
    snprintf(buf, size,
             "checkpoints/step-%" PRId64 ": the newest checkpoint is damaged, %s from step-%" PRId64, newest,
             doing, checkpoint_step(found));
    return true;
}

enum status checkpoint_choice_refuse(const char *checkpoints, const char *run, struct err *err)
{
    char whole[PATH_MAX];
    struct err why = *err;
    if (!checkpoint_find(checkpoints, -1, whole, sizeof whole, NULL))
        return err_set(err, why.status, "%.360s (the newest that is whole: --step %" PRId64 ")", why.text,
                       checkpoint_step(whole));
    return err_set(
        err, why.status,
        "%.360s (run %s has no checkpoint that is whole: train it again, `anneal show %s` prints its "
        "configuration)",
        why.text, run, run);
}
