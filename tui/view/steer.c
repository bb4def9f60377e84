/* See steer.h. */
#include "tui/view/steer.h"

#include <math.h>
#include <stdio.h>

#include "runs/order.h"
#include "tui/view/labels.h"

static int64_t send(struct workbench *workbench, const struct run_info *run, enum order_verb verb,
                    double argument, const char *what)
{
    struct err err = {0};
    int64_t id = 0;
    if (order_issue(workbench_store(workbench), run->id, verb, argument, "workbench", &id, &err)) {
        workbench_fail(workbench, &err);
        return 0;
    }
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

int64_t steer_run(struct workbench *workbench, const struct run_info *run, enum action action)
{
    if (!is_training(workbench, run)) return 0;
    switch (action) {
    case ACTION_PAUSE:
        if (run->status == RUN_PAUSED) return send(workbench, run, ORDER_CONTINUE, NAN, "continue");
        return send(workbench, run, ORDER_PAUSE, NAN, "pause");
    case ACTION_CHECKPOINT:
        return send(workbench, run, ORDER_CHECKPOINT, NAN, "write a checkpoint");
    case ACTION_EVALUATE:
        return send(workbench, run, ORDER_EVAL, NAN, "evaluate");
    case ACTION_SAMPLE:
        return send(workbench, run, ORDER_SAMPLE, NAN, "write a sample");
    case ACTION_TRACE:
        return send(workbench, run, ORDER_TRACE, NAN, "write a trace of its next step");
    case ACTION_STOP:
        workbench_ask(workbench, ACTION_STOP, "Stop %s? It writes a checkpoint first.", run->name);
        return 0;
    default:
        return 0;
    }
}

int64_t steer_lr_factor(struct workbench *workbench, const struct run_info *run, double factor)
{
    char what[64];
    if (!is_training(workbench, run)) return 0;
    snprintf(what, sizeof what, "multiply its scheduled learning rate with %g", factor);
    return send(workbench, run, ORDER_LR_FACTOR, factor, what);
}

int64_t steer_confirmed(struct workbench *workbench, const struct run_info *run, enum action action)
{
    return action == ACTION_STOP ? send(workbench, run, ORDER_STOP, NAN, "stop") : 0;
}
