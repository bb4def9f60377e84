/* The loop: gathers the facts, calls decide, and carries out the decision, until the end. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/network/exchange.h"
#include "core/train/trainer_parts.h"

enum { STEPS_BETWEEN_REPORTS = 100 }; /* of memory */

static const double SECONDS_BETWEEN_RANKS = 2; /* between reports of the ranks */

/* ---- the pace of ranks ---- */

/* Seconds that training has waited for other ranks. */
static double waited(const struct trainer *t)
{
    return world_waited(t->world) + t->network.exchange.waited;
}

static void begin_pace(struct trainer *t)
{
    if (t->world->size == 1) return;
    t->step_began = clock_monotonic();
    t->waited_before = waited(t);
    if (!t->pace.steps) t->sent_before = world_sent(t->world);
}

/* A step ends when all ranks have agreed on what follows it. */
static void end_pace(struct trainer *t, double now)
{
    if (t->step_began == 0) return;
    exchange_measure(&t->network);
    double waiting = waited(t) - t->waited_before;
    t->pace.steps++;
    t->pace.waiting += waiting;
    t->pace.computing += now - t->step_began - waiting;
    t->pace.sent = world_sent(t->world) - t->sent_before;
    t->step_began = 0;
}

/* Reports every rank; false: there was no step since the last report. */
static bool report_ranks(struct trainer *t)
{
    struct train_observer *o = &t->setup.observer;
    if (t->told[0].pace.steps == t->paces.of[0].reported.steps) return false;
    t->ranks_reported = clock_monotonic();
    for (int r = 0; r < t->world->size; r++) {
        struct rank_record record = paces_report(&t->paces, r, &t->told[r].pace);
        record.step = t->state.step;
        record.host = t->world->hosts[r];
        o->rank(o->context, &record);
    }
    return true;
}

static void name_slow_rank(struct trainer *t)
{
    double times;
    int slow = paces_judge(&t->paces, &times);
    if (slow >= 0)
        trainer_event(t, "warning",
                      "rank %d on %s computes %.1f times as long as the others; all wait for it (look for "
                      "other work on that host, and for fewer or slower cores)",
                      slow, t->world->hosts[slow], times);
}

/* The facts of rank 0, and what only one of the ranks may know: a failure, a request to leave, its pace. */
static void agree(struct trainer *t)
{
    struct facts *f = &t->facts;
    bool traced = t->joins_traces;
    t->told[t->world->rank] = (struct told){*f, t->pace, clock_monotonic(), traced};
    world_gather(t->world, t->told, sizeof *t->told);
    *f = t->told[0].facts;
    for (int r = 1; r < t->world->size; r++) {
        if (!f->failure) f->failure = t->told[r].facts.failure;
        f->leave |= t->told[r].facts.leave;
        traced = traced && t->told[r].traced;
    }
    double now = clock_monotonic();
    /* ranks of one host have one clock; on another host this moment is about the same */
    bool same_clock = strcmp(t->world->hosts[t->world->rank], t->world->hosts[0]) == 0;
    t->common_time = same_clock ? t->told[0].now : now;
    if (traced && t->told[0].traced) trainer_join_traces(t);
    end_pace(t, now);
    if (t->world->rank == 0 && now - t->ranks_reported >= SECONDS_BETWEEN_RANKS && report_ranks(t))
        name_slow_rank(t);
}

/* ---- facts ---- */

/* The facts for all ranks; `failure` is why training cannot continue. */
static const struct facts *gather(struct trainer *t, enum status failure)
{
    struct facts *f = &t->facts;
    const struct early_stopping *e = &t->state.stopping;
    bool evaluated = t->evaluated_step == t->state.step;
    f->step = trainer_queued(t);
    f->in_flight = t->in_flight;
    f->skipped_in_a_row = t->state.skipped_in_a_row;
    f->not_finite = t->not_finite;
    f->trouble = t->trouble >= 0;
    f->doubtful = trainer_weights_are_in_doubt(t);
    f->saved = t->saved_step == t->state.step;
    f->evaluated = evaluated || !t->setup.checkpoints || !task_examples(t->data, TASK_VALIDATION);
    f->cleared = evaluated && isfinite(t->evaluated_loss);
    f->patience_used_up = e->patience > 0 && e->used >= e->patience;
    f->failure = failure;
    if (t->world->size > 1) agree(t);
    return f;
}

/* ---- orders ---- */

static enum status ask(struct trainer *t, struct err *err)
{
    struct train_observer *o = &t->setup.observer;
    double now = clock_monotonic();
    if (now - t->owned_at >= 1) { /* it costs system calls, and saving asks again */
        enum status status = o->owns(o->context, err);
        t->owned_at = now;
        if (status) {
            t->held = false;
            return status;
        }
    }
    t->facts.ordered = o->next_order(o->context, trainer_queued(t), &t->facts.order);
    if (t->facts.ordered) return STATUS_OK; /* one at a time */
    t->facts.asked = true;
    t->facts.far_enough = t->setup.until > 0 && trainer_queued(t) >= t->setup.until;
    if (o->leave(o->context)) t->facts.leave = true;
    return STATUS_OK;
}

/* Fills `result`, one sentence, see ORDER_FAILED; false: the order is answered later. */
static bool carry_out_order(struct trainer *t, const struct order *order, char *result, size_t size)
{
    struct err err = {0};
    snprintf(result, size, "done");
    switch (order->verb) {
    case ORDER_PAUSE:
        t->facts.pause = true;
        break;
    case ORDER_CONTINUE:
        t->facts.pause = false;
        break;
    case ORDER_STOP:
        t->facts.leave = true;
        break;
    case ORDER_EVAL:
        if (t->evaluated_step != t->state.step && trainer_evaluate(t, true)) t->facts.due |= DUE_BEST;
        if (task_examples(t->data, TASK_VALIDATION))
            snprintf(result, size, "validation loss %s", TEXT_LOSS(t->evaluated_loss));
        else
            snprintf(result, size, ORDER_REFUSED "there are no validation tokens (data.val_fraction = 0)");
        break;
    case ORDER_SAMPLE:
        if (!t->samples)
            snprintf(result, size, ORDER_REFUSED "there is no tokenizer to decode text");
        else if (trainer_sample(t, &err))
            snprintf(result, size, ORDER_FAILED "%s", err.text);
        break;
    case ORDER_CHECKPOINT:
        if (!t->setup.checkpoints)
            snprintf(result, size, ORDER_REFUSED "this training keeps no checkpoints");
        else if (trainer_save_now(t, "ordered", &err))
            snprintf(result, size, ORDER_FAILED "%s", err.text);
        else
            snprintf(result, size, "written to checkpoints/step-%" PRId64, t->state.step);
        break;
    case ORDER_TRACE:
        if (!t->trace_ordered) {
            t->trace_ordered = true;
            t->trace_order = order->id;
            return false;
        }
        snprintf(result, size, ORDER_REFUSED "a trace of the next step has already been ordered");
        break;
    case ORDER_LR_FACTOR:
        if (order->argument >= 0 && order->argument <= LR_FACTOR_MAX) {
            t->state.lr_factor = order->argument;
            snprintf(result, size, "learning rate × %g from here on", order->argument);
        } else {
            snprintf(result, size, ORDER_REFUSED "the factor must be a number from 0 to 1000");
        }
    }
    return true;
}

/* If the device fails during an order, the order was not carried out and is not answered. */
static enum status obey(struct trainer *t, struct err *err)
{
    struct train_observer *o = &t->setup.observer;
    const struct order *order = &t->facts.order;
    char result[sizeof err->text];
    t->facts.ordered = false;
    if (!carry_out_order(t, order, result, sizeof result)) return STATUS_OK;
    enum status status = trainer_device_status(t, err);
    if (!status) o->order_done(o->context, order->id, t->state.step, result);
    return status;
}

/* ---- actions ---- */

static void set_resting(struct trainer *t, bool resting)
{
    struct train_observer *o = &t->setup.observer;
    if (t->resting == resting) return;
    t->resting = resting;
    o->paused(o->context, resting ? TRAIN_PAUSED : TRAIN_GOES_ON);
}

static void rest(struct trainer *t)
{
    trainer_decide_save(t); /* also of an order that was carried out in the pause */
    set_resting(t, true);
    trainer_collect_save(t, false);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    t->facts.asked = false;
}

static enum status step(struct trainer *t, struct err *err)
{
    set_resting(t, false);
    begin_pace(t);
    enum status status = t->setup.backend->stream_check(t->network.stream, err);
    int64_t before = trainer_queued(t);
    if (!status) status = trainer_step(t, err);
    if (status) return status;
    t->facts.asked = false;
    if (trainer_queued(t) == before) return STATUS_OK; /* given up: what was due is done */
    if (t->trouble >= 0) return STATUS_OK;             /* nothing of this step is kept */
    t->facts.due = decide_due(t->setup.config, trainer_queued(t), trainer_ends_epoch(t));
    trainer_collect_save(t, false);
    if (t->state.step - t->last_memory_step >= STEPS_BETWEEN_REPORTS) trainer_report_memory(t);
    return STATUS_OK;
}

static enum status carry_out(struct trainer *t, enum action action, struct err *err)
{
    static const unsigned due[] = {[ACTION_EVALUATE] = DUE_EVALUATION | DUE_EARLY,
                                   [ACTION_KEEP] = DUE_BEST,
                                   [ACTION_SAMPLE] = DUE_SAMPLE,
                                   [ACTION_SAVE] = DUE_CHECKPOINT,
                                   [ACTION_END] = 0};
    struct err problem = {0};
    bool early = t->facts.due & DUE_EARLY;
    t->facts.due &= ~due[action];
    switch (action) {
    case ACTION_ROLL_BACK:
        return trainer_roll_back(t, err);
    case ACTION_SETTLE:
        return trainer_settle(t, 0, err);
    case ACTION_EVALUATE:
        if (trainer_evaluate(t, early) && t->state.step > 0) /* the first weights can be made again */
            t->facts.due |= DUE_BEST;
        break;
    case ACTION_KEEP:
        trainer_try_save(t, "best");
        break;
    case ACTION_SAMPLE:
        if (trainer_sample(t, &problem)) trainer_tolerate(t, "warning", &problem);
        break;
    case ACTION_SAVE:
        trainer_try_save(t, "periodic");
        break;
    case ACTION_ASK:
        return ask(t, err);
    case ACTION_OBEY:
        return obey(t, err);
    case ACTION_REST:
        rest(t);
        return STATUS_OK;
    case ACTION_STEP:
        return step(t, err);
    case ACTION_END:
        return STATUS_OK;
    }
    return trainer_device_status(t, err);
}

/* ---- the end ---- */

/* Whether the run is asked to leave; answers orders, of which only `stop` can be carried out now. */
static bool is_to_leave(struct trainer *t)
{
    struct train_observer *o = &t->setup.observer;
    struct order order;
    while (o->next_order(o->context, t->state.step, &order)) {
        if (order.verb == ORDER_STOP) t->facts.leave = true;
        o->order_done(o->context, order.id, t->state.step,
                      order.verb == ORDER_STOP ? "done"
                                               : ORDER_REFUSED
                          "training has ended and waits for room on the disk");
    }
    if (o->leave(o->context)) t->facts.leave = true;
    return t->facts.leave;
}

static void report_full(struct trainer *t, double bytes)
{
    bool no_files = file_lacks_inodes(t->setup.checkpoints);
    trainer_event(t, "error",
                  "the disk is full: the weights of step %" PRId64
                  " are only in memory, and wait until %s%s (make room, and they are saved; to stop the run "
                  "gives them up)",
                  t->state.step,
                  no_files ? "more files can be created: `df -i` shows the inodes" : TEXT_BYTES(bytes),
                  no_files ? "" : " are free");
}

/* Waits until a checkpoint of `bytes` fits on the disk, so that the weights at the end, which are nowhere
 * else, are not lost. False: the run is to leave, or there seems to be room, so that waiting would not help.
 */
static bool wait_for_room(struct trainer *t, double bytes)
{
    enum { ROOM, NO_ROOM, LEAVES } now = NO_ROOM;
    bool waits = false;
    while (now == NO_ROOM) {
        if (t->world->rank == 0) {
            now = !(file_free_bytes(t->setup.checkpoints) < bytes) ? ROOM : is_to_leave(t) ? LEAVES : NO_ROOM;
            if (now == NO_ROOM && !waits) report_full(t, bytes);
        }
        world_share(t->world, &now, sizeof now);
        if (now != NO_ROOM) break;
        if (!waits) t->setup.observer.paused(t->setup.observer.context, TRAIN_WAITS_FOR_ROOM);
        waits = true;
        nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    }
    bool goes_on = waits && now == ROOM;
    if (goes_on) t->setup.observer.paused(t->setup.observer.context, TRAIN_GOES_ON);
    return goes_on;
}

/* On a full disk the last checkpoint takes the place of older ones, or waits for room: the weights at the end
 * are what the run was for. */
static enum status save_in_place_of_older(struct trainer *t, struct err *err)
{
    double bytes = 1.02 * (double)trainer_checkpoint_bytes(t) + 4194304; /* with its smaller files */
    const struct needed_steps none = {0}, *needed = t->setup.needed ? t->setup.needed : &none;
    int64_t removed;
    enum status status = trainer_save_now(t, "last", err);
    while (status == STATUS_IO && (err->system == ENOSPC || err->system == EDQUOT)) {
        removed = t->world->rank
                      ? -1
                      : checkpoint_remove_oldest(t->setup.checkpoints, t->state.best_saved, *needed);
        world_share(t->world, &removed, sizeof removed);
        if (removed >= 0)
            trainer_event(t, "warning",
                          "the disk is full: the checkpoint of step %" PRId64
                          " was removed to make room for the last one",
                          removed);
        else if (!wait_for_room(t, bytes))
            break;
        status = trainer_save_now(t, "last", err);
    }
    return status;
}

/* Writes the last checkpoint, if the weights are worth one. Earlier ones stay in any case. */
static enum status save_last(struct trainer *t, const struct decision *end, struct err *err)
{
    enum status status = trainer_device_status(t, err);
    if (status || t->saved_step == t->state.step || !t->setup.checkpoints) return status;
    if (!end->save && end->outcome != TRAIN_DIVERGED &&
        end->outcome != TRAIN_NOT_FINITE) /* these are reported already */
        trainer_event(
            t, "error",
            "no checkpoint at step %" PRId64
            ": its gradient is not finite, so the weights may be ruined; earlier checkpoints are kept",
            t->state.step);
    if (!end->save) return STATUS_OK;
    bool finite = trainer_weights_are_finite(t);
    if ((status = trainer_device_status(t, err))) return status;
    if (finite) return save_in_place_of_older(t, err);
    trainer_event(t, "error", "the weights are no longer finite; earlier checkpoints are kept");
    return STATUS_OK;
}

static enum status finish(struct trainer *t, const struct decision *end, struct err *err)
{
    trainer_answer_trace(t, t->state.step, ORDER_NO_TRACE "no step followed the order");
    trainer_collect_save(t, true);
    return save_last(t, end, err);
}

/* After a launch failed for lack of device memory, the state is that of the last reported step: saves it. */
static void rescue(struct trainer *t)
{
    struct err problem = {0};
    if (t->saved_step == t->state.step || trainer_weights_are_in_doubt(t)) return;
    enum status status = network_renew_stream(&t->network, &problem);
    if (!status) status = trainer_save_now(t, "last", &problem);
    if (status)
        trainer_event(t, "error", "no checkpoint at step %" PRId64 ": %s", t->state.step, problem.text);
}

enum status trainer_run(struct trainer *t, enum train_outcome *outcome, struct err *err)
{
    enum status status = STATUS_OK;
    struct decision decision = {.action = ACTION_ASK};
    trainer_name_machine(t);
    if (*t->computed_with && !t->setup.took_over && strcmp(t->computed_with, t->state.machine) != 0)
        trainer_event(t, "warning",
                      "continues with %s, but the checkpoint was computed with %s: the last digits of the "
                      "losses may differ from those of a run in one piece",
                      t->state.machine, t->computed_with);
    if (t->asks_others)
        trainer_event(
            t, "warning",
            "eval.tasks has other questions than before: their scores cannot be compared with earlier "
            "ones, and the best so far may be one of these");
    if (t->thawed)
        trainer_event(t, "warning",
                      "%s, which was frozen or updated by Muon when the checkpoint was saved, and all others "
                      "like it begin with moments of zero",
                      t->thawed->name);
    t->facts.total = t->setup.config->train.total_steps;
    t->facts.another_device = t->setup.another_device;
    snprintf(t->pace.device, sizeof t->pace.device, "%.15s", t->device.short_name);
    if (t->state.step == 0) t->facts.due = decide_due(t->setup.config, 0, false);
    trainer_report_memory(t);
    status = trainer_share_state(t, err);
    t->origin = t->state;
    while (decision.action != ACTION_END) {
        decision = decide(gather(t, status));
        status = decision.action == ACTION_END ? status : carry_out(t, decision.action, err);
    }
    t->resting = false; /* a paused run that ends does not continue first */
    if (!status && !t->facts.failure) status = finish(t, &decision, err); /* all ranks, or none */
    if (status || t->world->size > 1) decision = decide(gather(t, status));
    if (t->world->size > 1 && t->world->rank == 0) report_ranks(t);
    if (t->facts.failure) status = world_agree(t->world, status, err);
    *outcome = decision.outcome;
    if (status == STATUS_NO_MEMORY) allocator_report(t->network.allocator, &t->setup.full);
    trainer_collect_save(t, true);
    enum status device = status ? trainer_device_status(t, NULL) : STATUS_OK;
    if (device == STATUS_NO_MEMORY && t->world->size == 1) rescue(t);
    trainer_report_unsaved(t);
    if (status == STATUS_NO_MEMORY && !device) { /* host memory: another device would not help */
        status = err->status = STATUS_FAILED;
        *outcome = TRAIN_FAILED;
    }
    return status;
}
