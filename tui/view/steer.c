/* See steer.h. */
#include "tui/view/steer.h"

#include <math.h>

#include "runs/order.h"
#include "tui/view/labels.h"

static int64_t send(struct workbench *workbench, const struct run_info *run, enum order_verb verb,
                    const char *what)
{
    struct err err = {0};
    int64_t id = 0;
    if (order_issue(workbench_store(workbench), run->id, verb, NAN, "workbench", &id, &err)) {
        workbench_fail(workbench, &err);
        return 0;
    }
    workbench_say(workbench, "asked %s to %s; it does so after the step it is in", run->name, what);
    return id;
}

int64_t steer_run(struct workbench *workbench, const struct run_info *run, enum action action)
{
    if (!label_is_live(run->status)) {
        workbench_say(workbench, "%s is not training: it is %s", run->name, run_status_name(run->status));
        return 0;
    }
    switch (action) {
    case ACTION_PAUSE:
        if (run->status == RUN_PAUSED) return send(workbench, run, ORDER_CONTINUE, "continue");
        return send(workbench, run, ORDER_PAUSE, "pause");
    case ACTION_CHECKPOINT:
        return send(workbench, run, ORDER_CHECKPOINT, "write a checkpoint");
    case ACTION_EVALUATE:
        return send(workbench, run, ORDER_EVAL, "evaluate");
    case ACTION_SAMPLE:
        return send(workbench, run, ORDER_SAMPLE, "write a sample");
    case ACTION_STOP:
        workbench_ask(workbench, ACTION_STOP, "Stop %s? It writes a checkpoint first.", run->name);
        return 0;
    default:
        return 0;
    }
}

int64_t steer_confirmed(struct workbench *workbench, const struct run_info *run, enum action action)
{
    return action == ACTION_STOP ? send(workbench, run, ORDER_STOP, "stop") : 0;
}
