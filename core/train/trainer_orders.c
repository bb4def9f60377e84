/* What a running trainer is asked from outside, obeyed between two steps. */
#include "core/train/trainer_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "core/base/text.h"

/* Applies one order; *leave and *pause are set where it asks for that. One that the device failed in the
 * midst of is not answered: it has not been carried out. */
static void apply_order(struct trainer *t, const struct order *order, bool *leave, bool *pause)
{
    struct train_observer *o = &t->setup.observer;
    struct err err = {0};
    char result[sizeof err.text] = "done", loss[32];
    switch (order->verb) {
    case ORDER_PAUSE:
        *pause = true;
        break;
    case ORDER_CONTINUE:
        *pause = false;
        break;
    case ORDER_STOP:
        *leave = true;
        break;
    case ORDER_EVAL: /* the same evaluation twice would use up the patience of early stopping */
        if (t->last_eval_step != t->state.step) trainer_evaluate(t);
        if (t->validation.sequences)
            snprintf(result, sizeof result, "validation loss %s",
                     text_format_loss(t->last_val_loss, loss, sizeof loss));
        else
            snprintf(result, sizeof result, "there are no validation tokens (data.val_fraction = 0)");
        break;
    case ORDER_SAMPLE:
        if (!t->sampling)
            snprintf(result, sizeof result, "there is no tokenizer to write text with");
        else if (trainer_sample(t, &err))
            snprintf(result, sizeof result, "%s", err.text);
        break;
    case ORDER_CHECKPOINT:
        if (trainer_save_now(t, "ordered", &err))
            snprintf(result, sizeof result, "%s", err.text);
        else
            snprintf(result, sizeof result, "written to checkpoints/step-%" PRId64, t->state.step);
        break;
    case ORDER_TRACE:
        if (trainer_trace_order(t, order)) return; /* answered when the step has been traced */
        snprintf(result, sizeof result, "refused: a trace of the next step is ordered already");
        break;
    case ORDER_LR_FACTOR:
        if (order->argument >= 0 && order->argument <= LR_FACTOR_MAX) {
            t->state.lr_factor = order->argument;
            snprintf(result, sizeof result, "learning rate × %g from here on", order->argument);
        } else {
            snprintf(result, sizeof result, "refused: the factor must be a number from 0 to 1000");
        }
    }
    if (trainer_device_status(t, NULL))
        *leave = true;
    else
        o->order_done(o->context, order->id, t->state.step, result);
}

/* Takes all waiting orders; while paused, waits for more. True: leave. An order finds the steps done that
 * were queued before it. */
bool trainer_obey_orders(struct trainer *t)
{
    struct train_observer *o = &t->setup.observer;
    struct order order;
    bool leave = false, pause = false, told = false;
    do {
        while (!leave && o->next_order(o->context, trainer_queued(t), &order))
            if (trainer_settle(t, NULL))
                leave = true;
            else
                apply_order(t, &order, &leave, &pause);
        if (o->request(o->context) == TRAIN_LEAVE) leave = true;
        if (pause && !told) trainer_decide_save(t);
        if (pause != told && !leave) o->paused(o->context, told = pause);
        if (pause) trainer_collect_save(t);
        if (pause && !leave) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    } while (pause && !leave);
    if (told) o->paused(o->context, false);
    return leave;
}
