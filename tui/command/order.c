/* `anneal order`: an instruction to a living trainer. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/text.h"
#include "runs/order.h"
#include "runs/run.h"
#include "tui/command/clean.h"
#include "tui/command/run_commands.h"

static void print_help(void)
{
    puts("usage: anneal order RUN VERB [VALUE] [--wait]\n"
         "\n"
         "Tells the trainer of a running run what to do. It looks between steps, and writes down when it "
         "obeyed:\n"
         "`anneal show RUN` lists all orders and what became of them.\n"
         "\n"
         "  pause          finish the step and wait     continue     go on\n"
         "  stop           checkpoint and end           checkpoint   write one now\n"
         "  eval           evaluate now                 sample       generate a sample now\n"
         "  lr-factor F    multiply the scheduled learning rate with F from now on (1: as configured,\n"
         "                 0: learn nothing until told otherwise)\n"
         "\n"
         "  --wait         wait until it is obeyed and print the outcome\n"
         "\n"
         "RUN is an id, the start of one, a name, or latest:\n"
         "  anneal order latest checkpoint --wait\n"
         "  anneal order kjv lr-factor 0.5");
}

/* Waits for the answer; it comes within a step, or the trainer is gone. */
static enum status wait_for_answer(struct store *store, const char *run_id, int64_t id, struct err *err)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    enum status status = STATUS_OK;
    for (bool gone = false;; nanosleep(&pause, NULL)) {
        struct arena arena;
        struct order_row row;
        arena_init(&arena, 0);
        status = order_get(store, id, &arena, &row, err);
        bool answered = !status && row.result;
        if (answered && row.applied_step >= 0)
            printf("step %lld: %s\n", (long long)row.applied_step, clean_line_new(&arena, row.result));
        else if (answered)
            status = err_set(err, STATUS_FAILED, "run %s: %s", run_id, row.result);
        arena_release(&arena);
        if (status || answered) return status;
        if (gone)
            return err_set(err, STATUS_FAILED, "run %s: its trainer ended before it could obey", run_id);
        gone = !run_is_alive(store, run_id); /* then look once more: it may have answered last thing */
    }
}

int command_order(int argc, char **argv)
{
    static const struct option options[] = {
        {"wait", no_argument, NULL, 'w'}, {"help", no_argument, NULL, 'h'}, {0}};
    bool wait = false;
    enum order_verb verb;
    double argument = NAN;
    opterr = 0;
    optind = 0;
    for (int option; (option = getopt_long(argc, argv, ":h", options, NULL)) != -1;) {
        if (option == 'h') {
            print_help();
            return 0;
        }
        if (option == 'w')
            wait = true;
        else
            return run_option_error(argv, option);
    }
    char **words = argv + optind;
    int count = argc - optind;
    if (count < 2) return command_usage("order", "needs a RUN and a VERB");
    if (!order_verb_parse(words[1], &verb)) {
        char why[200];
        snprintf(
            why, sizeof why,
            "no verb \"%.40s\" (verbs: pause, continue, stop, checkpoint, eval, sample, lr-factor VALUE)",
            words[1]);
        return command_usage("order", why);
    }
    if (verb == ORDER_LR_FACTOR &&
        (count != 3 || !text_parse_double(words[2], &argument) || !(argument >= 0) || !isfinite(argument)))
        return command_usage("order", "lr-factor needs one number from 0 up");
    if (verb != ORDER_LR_FACTOR && count != 2) return command_usage("order", "only lr-factor takes a value");

    struct store *store = NULL;
    struct run_info run;
    struct err err = {0};
    int64_t id;
    enum status status = run_open_store(&store, &err);
    if (!status) status = run_find(store, words[0], &run, &err);
    if (!status) status = order_issue(store, run.id, verb, argument, "cli", &id, &err);
    if (!status && wait)
        status = wait_for_answer(store, run.id, id, &err);
    else if (!status) {
        char shown[3 * RUN_ID_MAX];
        clean_line(shown, sizeof shown, run.id);
        fprintf(stderr, "order %s given to %s\n", order_verb_name(verb), shown);
    }
    if (!status) status = run_check_stdout(&err);
    store_close(store);
    return status ? command_fail(&err) : 0;
}
