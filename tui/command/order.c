/* `anneal order`: instructs a running trainer. */
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "runs/columns.h"
#include "runs/order.h"
#include "runs/run.h"
#include "tui/command/command.h"
#include "tui/command/output.h"

enum { POLL_MS = 50, SILENCE_SECONDS = 5, FACTOR_MAX = 1000 };

/* Waits for the answer, which comes within a step unless the trainer is gone. Its text is in `arena`. */
static enum status wait_for_answer(struct store *store, const struct run_info *run, int64_t id,
                                   struct arena *arena, struct order_row *answer, struct err *err)
{
    const char *run_id = run->id;
    double start = clock_monotonic();
    bool silence_reported = run->suspended;
    for (bool gone = false;; poll(NULL, 0, POLL_MS)) {
        arena_release(arena);
        enum status status = order_get(store, run_id, id, arena, answer, err);
        if (status || answer->result) return status;
        if (gone)
            return err_set(err, STATUS_FAILED, "run %s: its trainer ended before it carried out the order",
                           run_id);
        gone = !run_is_alive(store, run_id); /* look once more: an answer may have come just before */
        if (silence_reported || gone || clock_monotonic() - start < SILENCE_SECONDS) continue;
        silence_reported = true;
        output_say(
            "run %s: its trainer has not answered for 5 s: it carries out orders between steps, so a long "
            "step or evaluation delays them, and a paused run writes no trace until it continues (still "
            "waiting; the order stays in force after Ctrl-C)",
            run_id);
    }
}

/* Prints what the trainer has done. What it has not done is a failure, so that a script goes no further. */
static enum status report_answer(const char *run_id, const struct order_row *answer, struct err *err)
{
    if (answer->applied_step < 0) return err_set(err, STATUS_FAILED, "run %s: %s", run_id, answer->result);
    if (!order_was_carried_out(answer))
        return err_set(err, STATUS_FAILED, "run %s, step %" PRId64 ": %s", run_id, answer->applied_step,
                       answer->result);
    printf("step %" PRId64 ": %s\n", answer->applied_step, CLEAN_LINE(answer->result));
    return STATUS_OK;
}

/* Waits until a trainer that has answered also releases its run, but not for a process that resumes the run
 * at once. It answers before it saves: STATUS_FAILED if the run has failed or crashed, so that it may lack
 * its last checkpoint. */
static enum status wait_until_free(struct store *store, const struct run_info *run, struct err *err)
{
    struct run_info now;
    enum status status;
    for (;; poll(NULL, 0, POLL_MS)) {
        bool alive = run_is_alive(store, run->id); /* first, so that what is read then is how it ended */
        status = run_get(store, run->id, &now, err);
        if (status || now.segment != run->segment) return status;
        if (!alive) break;
    }
    if (now.status != RUN_FAILED && now.status != RUN_CRASHED) return STATUS_OK;
    return err_set(err, STATUS_FAILED, "run %s has %s%s%s", run->id, status_words[now.status],
                   *now.message ? ": " : "", now.message);
}

static enum status parse_order(const struct words *words, int *verb, double *argument, struct err *err)
{
    const char *word = words->words[1], *value = words->words[2];
    *argument = NAN;
    if (!word_parse(verb_words, word, verb))
        return err_set(err, STATUS_USAGE, "there is no order \"%.40s\"%s (%s order --help lists them)", word,
                       DID_YOU_MEAN(text_nearest(word, verb_words, ORDER_TRACE + 1)), TEXT_PROGRAM);
    if (*verb != ORDER_LR_FACTOR)
        return value ? err_set(err, STATUS_USAGE, "only lr-factor takes a value") : STATUS_OK;
    if (words->count == 3 && text_parse_double(value, argument) && *argument >= 0 && *argument <= FACTOR_MAX)
        return STATUS_OK;
    return err_set(err, STATUS_USAGE, "lr-factor needs one number from 0 to 1000 (1: as configured)");
}

struct options {
    bool wait;
};

static enum status run_order(const void *options, const struct words *words, struct err *err)
{
    bool wait = ((const struct options *)options)->wait;
    struct store *store = NULL;
    struct arena arena = {0};
    struct order_row answer = {0};
    struct run_info run;
    double argument;
    int64_t id;
    int verb;
    enum status status = parse_order(words, &verb, &argument, err);
    if (!status) status = store_open(NULL, STORE_CHANGE, &store, err);
    if (!status) status = run_find(store, words->words[0], &run, err);
    if (!status) status = order_issue(store, run.id, (enum order_verb)verb, argument, "cli", &id, err);
    if (!status && run.suspended)
        output_say("order %s given to %s: its trainer is suspended, and carries it out when it continues: fg "
                   "where it was started, or kill -CONT %" PRId64 "%s",
                   verb_words[verb], run.id, run.pid,
                   wait ? " (waiting; the order stays in force after Ctrl-C)" : "");
    if (!status && wait) status = wait_for_answer(store, &run, id, &arena, &answer, err);
    if (!status && wait && verb == ORDER_STOP) status = wait_until_free(store, &run, err);
    if (!status && wait) status = report_answer(run.id, &answer, err);
    if (!status && !wait && !run.suspended)
        output_say("order %s given to %s: its trainer carries it out at the end of its step",
                   verb_words[verb], run.id);
    arena_release(&arena);
    store_close(store);
    return status;
}

static const struct option_spec options[] = {
    OPTION("wait", OPTION_FLAG, AT(wait), NULL,
           "waits until the order has been carried out and prints the outcome; after stop also until the "
           "trainer has ended, so that the run can be resumed"),
    {0},
};

const struct command command_order = COMMAND(
    "order", "RUN VERB [VALUE]", 2, -1 /* parse_order counts, behind an unknown verb none */, options,
    "order a running trainer to pause, continue, stop, checkpoint, ...", run_order, (struct options){0},
    .about = "Gives an order to the trainer of a running run. The trainer carries out orders between steps "
             "and records when it did: `anneal show RUN` lists all orders and their outcomes.\n\n"
             "  pause          finish the step and wait     continue     train on\n"
             "  stop           checkpoint and end           checkpoint   write one now\n"
             "  eval           evaluate now                 sample       generate a sample now\n"
             "  trace          write the next step as a trace for Perfetto, into the run's folder\n"
             "  lr-factor F    multiply the scheduled learning rate by F, from 0 to 1000, from now on\n"
             "                 (1: as configured, 0: learn nothing until the next lr-factor)",
    .notes = "RUN is an id, the start of one, a name, or latest:\n"
             "  anneal order latest checkpoint --wait\n"
             "  anneal order kjv lr-factor 0.5");
