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

/* Prints the answer if it has come. */
static enum status read_answer(struct store *store, const char *run_id, int64_t id, bool *answered,
                               struct err *err)
{
    struct arena arena = {0};
    struct order_row row = {0};
    enum status status = order_get(store, run_id, id, &arena, &row, err);
    *answered = !status && row.result;
    if (*answered && row.applied_step < 0)
        status = err_set(err, STATUS_FAILED, "run %s: %s", run_id, row.result);
    else if (*answered)
        printf("step %" PRId64 ": %s\n", row.applied_step, CLEAN_LINE(row.result));
    arena_release(&arena);
    return status;
}

/* Waits for the answer, which comes within a step unless the trainer is gone. */
static enum status wait_for_answer(struct store *store, const char *run_id, int64_t id, struct err *err)
{
    enum status status = STATUS_OK;
    double start = clock_monotonic();
    bool answered = false, silence_reported = false;
    for (bool gone = false; !status && !answered; poll(NULL, 0, POLL_MS)) {
        status = read_answer(store, run_id, id, &answered, err);
        if (status || answered) break;
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
    return status;
}

/* Waits until a trainer that has answered also releases its run, but not for a process that resumes the run
 * at once. */
static void wait_until_free(struct store *store, const struct run_info *run)
{
    struct run_info now;
    while (run_is_alive(store, run->id) && run_get(store, run->id, &now, NULL) == STATUS_OK &&
           now.segment == run->segment)
        poll(NULL, 0, POLL_MS);
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
    struct run_info run;
    double argument;
    int64_t id;
    int verb;
    enum status status = parse_order(words, &verb, &argument, err);
    if (!status) status = store_open(NULL, STORE_CHANGE, &store, err);
    if (!status) status = run_find(store, words->words[0], &run, err);
    if (!status) status = order_issue(store, run.id, (enum order_verb)verb, argument, "cli", &id, err);
    if (!status && wait) status = wait_for_answer(store, run.id, id, err);
    if (!status && wait && verb == ORDER_STOP) wait_until_free(store, &run);
    if (!status && !wait)
        output_say("order %s given to %s: its trainer carries it out at the end of its step",
                   verb_words[verb], run.id);
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
