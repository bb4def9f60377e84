/* See decide.h. */
#include "core/train/decide.h"

#include "core/train/early.h"

static bool due(int64_t every, int64_t step)
{
    return every > 0 && step > 0 && step % every == 0;
}

unsigned decide_due(const struct config *c, int64_t step, bool ends_epoch)
{
    unsigned all = 0;
    if (due(c->eval.every, step) || (c->eval.at_epoch_end && ends_epoch)) all |= DUE_EVALUATION;
    if (!all && early_is_due(c->eval.early, c->eval.every, step)) all |= DUE_EVALUATION | DUE_EARLY;
    if (due(c->sample.every, step) || early_is_due(c->sample.early, c->sample.every, step)) all |= DUE_SAMPLE;
    /* the last step's is written at the end of the run */
    if (due(c->checkpoint.every, step) && step < c->train.total_steps) all |= DUE_CHECKPOINT;
    return all;
}

/* Doubtful weights are not saved, unless an evaluation of these very weights has a finite loss (a skipped
 * update left them unchanged): then the last step's batch was at fault. */
static struct decision end(const struct facts *f, enum train_outcome outcome)
{
    bool well = outcome == TRAIN_FINISHED || outcome == TRAIN_EARLY_STOPPED || outcome == TRAIN_STOPPED;
    return (struct decision){ACTION_END, outcome, !f->doubtful || (well && f->cleared)};
}

static struct decision act(enum action action)
{
    return (struct decision){.action = action};
}

struct decision decide(const struct facts *f)
{
    unsigned due = f->due;
    if (f->doubtful) due &= ~(unsigned)(DUE_BEST | DUE_CHECKPOINT);
    if (f->saved) due &= ~(unsigned)DUE_CHECKPOINT;
    if (f->failure) {
        bool device = f->failure == STATUS_DEVICE || f->failure == STATUS_NO_MEMORY;
        return end(f, device && f->another_device ? TRAIN_FALLS_BACK : TRAIN_FAILED);
    }
    if (f->trouble) return act(ACTION_ROLL_BACK);
    bool all = f->step >= f->total;
    bool stops = f->leave || f->far_enough;
    if (f->in_flight && (f->due || f->ordered || stops || all)) return act(ACTION_SETTLE);
    if (f->skipped_in_a_row >= SKIPS_IN_A_ROW_MAX) return end(f, TRAIN_DIVERGED);
    if (f->not_finite) return end(f, TRAIN_NOT_FINITE);
    if (due & DUE_EARLY) { /* not worth waiting for when the run is to stop at once */
        if (!f->asked && !f->ordered) return act(ACTION_ASK);
        if (f->leave) due &= ~(unsigned)(DUE_EVALUATION | DUE_SAMPLE);
    }
    if (f->step == 0 && (due & DUE_SAMPLE)) return act(ACTION_SAMPLE); /* sooner than an evaluation */
    if (due & DUE_EVALUATION) return act(ACTION_EVALUATE);
    /* before any checkpoint of this step: a resumed run does not repeat what was due after it */
    if (due & DUE_SAMPLE) return act(ACTION_SAMPLE);
    if (due & DUE_BEST) return act(ACTION_KEEP);
    if (due & DUE_CHECKPOINT) return act(ACTION_SAVE);
    if (f->ordered) return act(ACTION_OBEY);
    if (all && !f->evaluated) return act(ACTION_EVALUATE);
    if (all) return end(f, TRAIN_FINISHED);
    if (stops) return end(f, TRAIN_STOPPED);
    if (!f->asked) return act(ACTION_ASK);
    if (f->pause) return act(ACTION_REST);
    if (f->patience_used_up) return end(f, TRAIN_EARLY_STOPPED);
    return act(ACTION_STEP);
}
