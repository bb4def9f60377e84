/* The requests that views make of runs: orders to their trainers, changes of the store, resuming.
 * The last row reports each. Declared in workbench.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "runs/history.h"
#include "runs/order.h"
#include "tui/view/labels.h"
#include "tui/view/workbench.h"
#include "tui/widget/axis.h"

enum status workbench_change(struct workbench *workbench, const struct change *change, int64_t *order_id)
{
    enum status status =
        pending_make(&workbench->pending, workbench->store, change, order_id, &workbench->err);
    if (status != STATUS_BUSY) return status;
    workbench_say(workbench, "%s", workbench->err.text);
    workbench->message_style = STYLE_WARN;
    return status;
}

/* Says when the trainer will do as it was asked. */
static void say_asked(struct workbench *workbench, const struct run_info *run, const char *what)
{
    char when[160] = "it will do so after the current step";
    if (run->suspended)
        snprintf(when, sizeof when,
                 "it is suspended, and will do so when it continues: fg where it was started, or kill -CONT "
                 "%" PRId64,
                 run->pid);
    else if (label_stands_still(run, workbench->now))
        text_add(when, sizeof when, ", ", "but gives no sign of life for %s",
                 CLOCK_DURATION(workbench->now - run->heartbeat));
    workbench_say(workbench, "asked %s to %s; %s", run->name, what, when);
    if (label_stands_still(run, workbench->now)) workbench->message_style = STYLE_WARN;
}

static int64_t order(struct workbench *workbench, const struct run_info *run, enum order_verb verb,
                     double argument, const char *what)
{
    int64_t id = 0;
    struct change change = {.kind = CHANGE_ORDER, .verb = verb, .argument = argument};
    memcpy(change.run_id, run->id, sizeof change.run_id);
    if (!status_is_live(run->status)) {
        workbench_say(workbench, "%s is not training (status: %s)", run->name, status_words[run->status]);
        return 0;
    }
    enum status status = workbench_change(workbench, &change, &id);
    if (status != STATUS_BUSY && workbench_did(workbench, status)) say_asked(workbench, run, what);
    return id;
}

int64_t workbench_order(struct workbench *workbench, const struct run_info *run, enum action action,
                        bool confirmed)
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
    if (action == ACTION_STOP && status_is_live(run->status) && !confirmed) {
        workbench_ask(workbench, ACTION_STOP, "Stop %s? It writes a checkpoint first.", run->name);
        return 0;
    }
    if (action == ACTION_PAUSE && run->status == RUN_PAUSED)
        return order(workbench, run, ORDER_CONTINUE, NAN, "continue");
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (orders[i].action == action) return order(workbench, run, orders[i].verb, NAN, orders[i].what);
    return 0;
}

bool workbench_order_done(struct workbench *workbench, const char *run_id, int64_t id, bool named)
{
    struct arena arena = {0};
    struct order_row order;
    struct run_info run = {0};
    enum status status = order_get(workbench->store, run_id, id, &arena, &order, &workbench->err);
    if (!status && named) status = run_get(workbench->store, run_id, &run, &workbench->err);
    bool done =
        status ? status != STATUS_BUSY : order.applied_step >= 0; /* a run that is gone answers no more */
    if (workbench_did(workbench, status) && done)
        workbench_say(workbench, "%s%s%s at step %" PRId64 "%s%s", run.name, named ? ": " : "",
                      verb_words[order.verb], order.applied_step, order.result ? ": " : "",
                      order.result ? order.result : "");
    arena_release(&arena);
    return done;
}

/* Reads the factor that was ordered last: from the store, since a view has not read an order of a moment ago
 * yet. */
static bool read_lr_factor(struct workbench *workbench, const struct run_info *run, double *factor)
{
    struct arena arena = {0};
    struct order_row *orders;
    size_t count = 0;
    bool read = workbench_did(
        workbench, order_list(workbench->store, run->id, SIZE_MAX, &arena, &orders, &count, &workbench->err));
    *factor = 1;
    for (size_t i = count; read && i-- > 0;) /* newest first */
        if (orders[i].verb == ORDER_LR_FACTOR) *factor = orders[i].argument;
    arena_release(&arena);
    return read;
}

int64_t workbench_order_lr(struct workbench *workbench, const struct run_info *run, enum action action,
                           uint32_t code)
{
    char what[64];
    double now, factor;
    bool live = status_is_live(run->status);
    if (!read_lr_factor(workbench, run, &now)) return 0;
    factor = action == ACTION_LR ? now : action == ACTION_LR_HIGHER ? now * 2 : now / 2;
    if (action == ACTION_LR && code == K_ENTERED) {
        if (!text_parse_double(workbench->answer.text, &factor) ||
            !(factor >= 0 && factor <= LR_FACTOR_MAX)) {
            workbench_say(workbench,
                          "\"%.40s\" is no factor: a number from 0 to %d, 1 for the schedule as it is",
                          workbench->answer.text, LR_FACTOR_MAX);
            workbench->message_style = STYLE_WARN;
            workbench->prompted = ACTION_LR; /* to be typed on */
            return 0;
        }
    } else if (live && action == ACTION_LR) {
        workbench_prompt(workbench, ACTION_LR, "",
                         "factor of the scheduled learning rate, now %s, of %s:", AXIS_TEXT(now), run->name);
        return 0;
    } else if (live && code != K_CONFIRMED) {
        workbench_ask(workbench, action, "%s the learning rate of %s from its next step on?",
                      action == ACTION_LR_HIGHER ? "Double" : "Halve", run->name);
        return 0;
    }
    snprintf(what, sizeof what, "multiply its scheduled learning rate by %g", factor);
    return order(workbench, run, ORDER_LR_FACTOR, factor, what);
}

/* The learning rate that the schedule of these parameters plans for `step` of `total`; NaN: unknown. */
static double planned_lr(const struct workbench *workbench, const struct run_param *params, size_t count,
                         uint64_t total, uint64_t step)
{
    static const char *const of_schedule[] = {"train.schedule",      "train.learning_rate",
                                              "train.min_lr_factor", "train.warmup_steps",
                                              "train.decay_steps",   "train.decay_shape"};
    enum { KEYS = sizeof of_schedule / sizeof *of_schedule };
    const char *words[KEYS + 1];
    size_t n = 0, at = 0;
    struct arena arena = {0};
    struct form_preview preview = {0};
    for (size_t i = 0; i < KEYS; i++) {
        const char *value = run_params_get(params, count, of_schedule[i]);
        if (value && (words[n] = arena_printf(&arena, "%s=%s", of_schedule[i], value))) n++;
    }
    if ((words[n] = arena_printf(&arena, "train.total_steps=%" PRIu64, total))) n++;
    workbench->options.preview(words, n, &preview);
    arena_release(&arena);
    while (at < preview.count && preview.lr[at].last_step < (int64_t)step) at++;
    return *preview.problem || at == preview.count ? NAN : preview.lr[at].mean;
}

/* "Train it further, to 4,000?", and how the learning rate jumps where its schedule then spans them all. */
static void ask_further(struct workbench *workbench, const struct run_info *run, uint64_t planned)
{
    struct arena arena = {0};
    struct run_param *params;
    size_t count = 0;
    double ended = NAN, goes_on = NAN;
    char jump[160] = "";
    if (!run_params_list(workbench->store, run->id, &arena, &params, &count, NULL) && count) {
        ended = planned_lr(workbench, params, count, planned, planned - 1);
        goes_on = planned_lr(workbench, params, count, 2 * planned, planned);
    }
    arena_release(&arena);
    if (fabs(goes_on - ended) > 0.05 * ended)
        snprintf(jump, sizeof jump,
                 " Its schedule then spans them all: the learning rate jumps from %s to %s.",
                 AXIS_TEXT(ended), AXIS_TEXT(goes_on));
    workbench_ask(workbench, ACTION_RESUME, "%s has done its %s steps. Train it further, to %s?%s", run->name,
                  TEXT_NUMBER(planned), TEXT_NUMBER(2 * planned), jump);
}

/* Whether a resume has nothing to continue from, as the run's checkpoints are gone. A run that was killed
 * before its first one starts over. */
static bool is_without_origin(struct workbench *workbench, const struct run_info *run)
{
    struct arena arena = {0};
    struct checkpoint_record *written;
    size_t count = 0, i = 0;
    bool read = !run_checkpoints_read(workbench->store, run->id, &arena, &written, &count, NULL);
    while (read && i < count && !run_has_checkpoint(workbench->store, run->id, &written[i])) i++;
    bool none = read && i == count && (count > 0 || run->status == RUN_FINISHED);
    arena_release(&arena);
    return none;
}

void workbench_resume(struct workbench *workbench, const struct run_info *run, bool confirmed)
{
    bool done = run->total_steps > 0 && run->steps >= run->total_steps;
    uint64_t planned = run->total_steps < 0 ? 0 : (uint64_t)run->total_steps,
             steps = run->steps < 0 ? 0 : (uint64_t)run->steps;
    char total[64];
    const char *arguments[] = {"resume", run->id, LAUNCH_PROGRESS, done ? total : NULL, NULL};
    snprintf(total, sizeof total, "--train.total_steps=%" PRIu64, 2 * planned);
    if (run->status == RUN_PAUSED)
        workbench_say(workbench, "%s is paused: %s lets it continue", run->name,
                      WORKBENCH_KEY(workbench, ACTION_PAUSE));
    else if (status_is_live(run->status))
        workbench_say(workbench, "%s is training already", run->name);
    else if (run_is_imported(run))
        workbench_say(workbench, "%s was imported: it has no checkpoint to continue from", run->name);
    else if (workbench->resuming.pid)
        workbench_say(workbench, "%s is still being resumed: try again once it is training",
                      workbench->resuming.resumed);
    else if (!confirmed && is_without_origin(workbench, run))
        workbench_say(workbench, "%s has no checkpoint to continue from", run->name);
    else if (!confirmed && done)
        ask_further(workbench, run, planned);
    else if (!confirmed)
        workbench_ask(workbench, ACTION_RESUME,
                      "Resume %s from its newest checkpoint? It ended after %s of %s steps.", run->name,
                      TEXT_NUMBER(steps), TEXT_NUMBER(planned));
    else if (workbench_did(workbench, launch_start(&workbench->resuming, store_home(workbench->store),
                                                   arguments, run, &workbench->err)))
        workbench_say(workbench, "resuming %s", run->name);
}
