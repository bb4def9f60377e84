/* See stopping_story.h. */
#include "tui/command/stopping_story.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/text.h"
#include "tui/command/clean.h"

/* " on 2026-11-21 at 13:20", when the evaluation of that step says when it was; else "". */
static const char *when_of(const struct show *show, int64_t step, char *buf, size_t size)
{
    struct tm local;
    buf[0] = '\0';
    for (size_t i = 0; i < show->eval_count; i++) {
        double wall_time = show->evals[i].wall_time;
        time_t seconds = (time_t)wall_time;
        if (show->evals[i].step != step || !isfinite(wall_time) || !localtime_r(&seconds, &local)) continue;
        if (!strftime(buf, size, " on %Y-%m-%d at %H:%M", &local)) buf[0] = '\0';
        break;
    }
    return buf;
}

static void print_best(const struct show *show, const struct stopping_record *now)
{
    char loss[48], when[48];
    if (now->best_step < 0) {
        printf("  best        none: no validation loss was a number\n");
        return;
    }
    printf("  best        %s after %lld step%s%s", text_format_loss(now->best_val_loss, loss, sizeof loss),
           (long long)now->best_step, text_plural(now->best_step),
           when_of(show, now->best_step, when, sizeof when));
    if (now->step > now->best_step)
        printf(", %lld evaluation%s and %lld step%s ago\n", (long long)now->patience_used,
               text_plural(now->patience_used), (long long)(now->step - now->best_step),
               text_plural(now->step - now->best_step));
    else
        printf(", the newest evaluation\n");
    if (*show->run.parent_id && now->best_step <= show->run.parent_step)
        printf("              an evaluation of the run that it was forked from\n");
    else if (now->min_delta > 0 && show->run.best_step >= 0 && show->run.best_step != now->best_step)
        printf("              the lowest, after %lld step%s, was not lower by more than min_delta\n",
               (long long)show->run.best_step, text_plural(show->run.best_step));
    if (!now->improved)
        printf("  newest      %s after %lld step%s\n", text_format_loss(now->val_loss, loss, sizeof loss),
               (long long)now->step, text_plural(now->step));
}

static void print_patience(const struct stopping_record *now)
{
    char delta[32];
    int64_t left = now->patience - now->patience_used;
    if (now->patience <= 0) {
        printf("  patience    without end: early stopping is off\n");
        return;
    }
    printf("  patience    %lld of %lld evaluation%s without improvement, %lld left\n",
           (long long)now->patience_used, (long long)now->patience, text_plural(now->patience),
           (long long)(left > 0 ? left : 0));
    if (now->min_delta > 0)
        printf("              an improvement is a loss lower by more than %s\n",
               text_format_double(now->min_delta, delta, sizeof delta));
}

void stopping_story_print(struct show *show)
{
    if (show->stopping_count == 0) return;
    const struct stopping_record *now = &show->stopping[0].record;
    printf("\nEarly stopping\n");
    print_best(show, now);
    print_patience(now);
    if (now->verdict != VERDICT_STOP) return;
    printf("  stopped     after %lld step%s: %lld evaluation%s in a row did not improve\n",
           (long long)now->step, text_plural(now->step), (long long)now->patience_used,
           text_plural(now->patience_used));
    if (show->run.status == RUN_EARLY_STOPPED)
        printf("              anneal resume %s --eval.early_stopping_patience=%lld goes on\n",
               clean_line_new(&show->arena, show->run.id), (long long)now->patience * 2);
    else
        printf("              it was resumed since, and has not been evaluated again\n");
}
