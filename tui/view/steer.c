/* See steer.h. */
#include "tui/view/steer.h"

#include <math.h>
#include <stdio.h>

#include "runs/order.h"
#include "tui/view/labels.h"

static int64_t send(struct workbench *workbench, const struct run_info *run, enum order_verb verb,
                    double argument, const char *what)
{
    int64_t id = 0;
    struct err *err = &workbench->err;
    if (!workbench_did(workbench,
                       order_issue(workbench->store, run->id, verb, argument, "workbench", &id, err)))
        return 0;
    workbench_say(workbench, "asked %s to %s; it does so after the step it is in", run->name, what);
    return id;
}

static bool is_training(struct workbench *workbench, const struct run_info *run)
{
    bool live = label_is_live(run->status);
    if (!live)
        workbench_say(workbench, "%s is not training: it is %s", run->name, run_status_name(run->status));
    return live;
}

int64_t steer_run(struct workbench *workbench, const struct run_info *run, enum action action, bool confirmed)
{
    static const struct {
        enum action action;
        enum order_verb verb;
        const char *what;
    } orders[] = {
        {ACTION_PAUSE, ORDER_PAUSE, "pause"},
        {ACTION_STOP, ORDER_STOP, "stop"},
        {ACTION_CHECKPOINT, ORDER_CHECKPOINT, "write a checkpoint"},
        {ACTION_EVALUATE, ORDER_EVAL, "evaluate"},
        {ACTION_SAMPLE, ORDER_SAMPLE, "write a sample"},
        {ACTION_TRACE, ORDER_TRACE, "write a trace of its next step"},
    };
    if (!is_training(workbench, run)) return 0;
    if (action == ACTION_STOP && !confirmed) {
        workbench_ask(workbench, ACTION_STOP, "Stop %s? It writes a checkpoint first.", run->name);
        return 0;
    }
    if (action == ACTION_PAUSE && run->status == RUN_PAUSED)
        return send(workbench, run, ORDER_CONTINUE, NAN, "continue");
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (orders[i].action == action) return send(workbench, run, orders[i].verb, NAN, orders[i].what);
    return 0;
}

int64_t steer_lr_factor(struct workbench *workbench, const struct run_info *run, double factor)
{
    char what[64];
    if (!is_training(workbench, run)) return 0;
    snprintf(what, sizeof what, "multiply its scheduled learning rate with %g", factor);
    return send(workbench, run, ORDER_LR_FACTOR, factor, what);
}
