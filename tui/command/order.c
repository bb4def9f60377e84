/* `anneal order`: an instruction to a living trainer. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "runs/order.h"
#include "runs/run.h"
#include "tui/command/clean.h"
#include "tui/command/run_commands.h"

enum { SILENCE_SECONDS = 5, FACTOR_MAX = 1000, ORDER_VERBS = ORDER_TRACE + 1 };

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
         "  trace          write the next step as a trace for Perfetto, into the run's folder\n"
         "  lr-factor F    multiply the scheduled learning rate with F, from 0 to 1000, from now on\n"
         "                 (1: as configured, 0: learn nothing until told otherwise)\n"
         "\n"
         "  --wait         wait until it is obeyed and print the outcome; after stop also until the trainer\n"
         "                 has let go of the run, so that it can be resumed\n"
         "\n"
         "RUN is an id, the start of one, a name, or latest:\n"
         "  anneal order latest checkpoint --wait\n"
         "  anneal order kjv lr-factor 0.5");
}

static void pause_shortly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
}

/* Waits for the answer; it comes within a step, or the trainer is gone. */
static enum status wait_for_answer(struct store *store, const char *run_id, int64_t id, struct err *err)
{
    enum status status = STATUS_OK;
    double start = clock_monotonic();
    bool told = false;
    for (bool gone = false;; pause_shortly()) {
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
        if (told || gone || clock_monotonic() - start < SILENCE_SECONDS) continue;
        told = true;
        char shown[3 * RUN_ID_MAX];
        clean_line(shown, sizeof shown, run_id);
        struct run_info now;
        bool paused = run_find(store, run_id, &now, NULL) == STATUS_OK && now.status == RUN_PAUSED;
        if (paused)
            fprintf(stderr, "anneal: run %s: is paused, and does this with its next step (still waiting; ",
                    shown);
        else
            fprintf(stderr,
                    "anneal: run %s: its trainer has not answered for %d s, it looks between steps (still "
                    "waiting; ",
                    shown, SILENCE_SECONDS);
        fprintf(stderr, "the order stands after Ctrl-C, too)\n");
    }
}

/* A trainer that has answered still closes its books; then the run can be had. Somebody who resumes it at
 * once is not waited for. */
static void wait_until_free(struct store *store, const struct run_info *run)
{
    struct run_info now;
    while (run_is_alive(store, run->id) && run_find(store, run->id, &now, NULL) == STATUS_OK &&
           now.segment == run->segment)
        pause_shortly();
}

static bool is_negative_number(const char *word)
{
    double number;
    return word[0] == '-' && text_parse_double(word, &number);
}

static int no_such_verb(const char *word)
{
    const char *names[ORDER_VERBS], *nearest;
    char list[160] = "", why[320];
    for (size_t i = 0; i < ORDER_VERBS; i++) {
        size_t used = strlen(list);
        names[i] = order_verb_name((enum order_verb)i);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
    }
    if ((nearest = text_nearest(word, names, ORDER_VERBS)))
        snprintf(why, sizeof why, "no verb \"%.40s\"; did you mean \"%s\"? (verbs: %s)", word, nearest, list);
    else
        snprintf(why, sizeof why, "no verb \"%.40s\" (verbs: %s)", word, list);
    return command_usage("order", why);
}

int command_order(int argc, char **argv)
{
    static const struct option options[] = {
        {"wait", no_argument, NULL, 'w'}, {"help", no_argument, NULL, 'h'}, {0}};
    bool wait = false;
    enum order_verb verb;
    double argument = NAN;
    bool negative = false; /* a number like -1 is a value, not an option */
    for (int i = 1; i < argc && !negative; i++)
        if ((negative = is_negative_number(argv[i]))) {
            argc--;
            for (int k = i; k < argc; k++) argv[k] = argv[k + 1];
            argv[argc] = NULL;
        }
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
    if (!order_verb_parse(words[1], &verb)) return no_such_verb(words[1]);
    if (verb == ORDER_LR_FACTOR && (negative || count != 3 || !text_parse_double(words[2], &argument) ||
                                    !(argument >= 0 && argument <= FACTOR_MAX)))
        return command_usage("order", "lr-factor needs one number from 0 to 1000 (1: as configured)");
    if (verb != ORDER_LR_FACTOR && (negative || count != 2))
        return command_usage("order", "only lr-factor takes a value");

    struct store *store = NULL;
    struct run_info run;
    struct err err = {0};
    int64_t id;
    enum status status = run_open_store(&store, &err);
    if (!status) status = run_find(store, words[0], &run, &err);
    if (!status) status = order_issue(store, run.id, verb, argument, "cli", &id, &err);
    if (!status && wait) status = wait_for_answer(store, run.id, id, &err);
    if (!status && wait && verb == ORDER_STOP) wait_until_free(store, &run);
    if (!status && !wait) {
        char shown[3 * RUN_ID_MAX];
        clean_line(shown, sizeof shown, run.id);
        fprintf(stderr, "order %s given to %s\n", order_verb_name(verb), shown);
    }
    if (!status) status = run_check_stdout(&err);
    store_close(store);
    return status ? command_fail(&err) : 0;
}
