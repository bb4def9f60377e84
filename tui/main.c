/* anneal: finds the command that the words of a command line name; without words it opens the workbench. No
 * other file ends the process. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <unistd.h>

#include "core/base/text.h"
#include "tui/command/command.h"
#include "tui/command/complete.h"
#include "tui/command/output.h"
#include "tui/session/process.h"

#define VERSION "0.1.0"
#ifndef COMMIT /* defined by the Makefile; empty if unknown */
#define COMMIT ""
#endif

enum { RECORD_MAX = 1024, COMMANDS_MAX = 64, STACK_KIB = 256, FILES_FREE = 16 };

/* Reports an error; a usage error names the command, and its help if the message has no remedy. */
static int fail(const struct command *command, const struct err *err)
{
    size_t n = strlen(err->text);
    bool usage = err->status == STATUS_USAGE, remedy = n && err->text[n - 1] == ')';
    const char *name = command->line.name, *colon = *name ? ": " : "", *blank = *name ? " " : "";
    if (n && usage && !remedy) /* without words another rank has said it */
        output_say("%s%s%s (see %s%s%s --help)", name, colon, err->text, TEXT_PROGRAM, blank, name);
    else if (n)
        output_say("%s%s%s", usage ? name : "", usage ? colon : "", err->text);
    return usage                               ? 2
           : err->status == STATUS_INTERRUPTED ? 128 + (interrupt_signal() == SIGTERM ? SIGTERM : SIGINT)
           : err->status == STATUS_PREEMPTED   ? EX_TEMPFAIL
                                               : 1;
}

static void print_help(const struct command *command)
{
    const char *name = command->line.name, *blank = *name ? " " : "";
    if (command->run) {
        options_print_help(&command->line, stdout);
        return;
    }
    printf("anneal%s%s: %s\n\n", blank, name, command->summary);
    for (const struct command *const *c = command->subcommands; *c; c++)
        printf("  anneal %-18s %s\n", (*c)->line.name, (*c)->summary);
    printf("\n`anneal%s%s COMMAND --help` explains one.\n", blank, name);
    if (command->line.notes) printf("\n%s\n", command->line.notes);
}

static int run(const struct command *command, int argc, char **argv)
{
    alignas(max_align_t) char record[RECORD_MAX];
    struct words words;
    struct err err = {0};
    assert(command->size <= sizeof record);
    if (command->defaults) memcpy(record, command->defaults, command->size);
    enum status status = options_parse(&command->line, argc, argv, record, &words, &err);
    if (!status && words.unknown) status = command_refuse_option(words.unknown, &err);
    if (!status && words.help)
        print_help(command);
    else if (!status)
        status = command->run(record, &words, &err);
    words_release(&words);
    if (!status) status = output_check(&err);
    return status ? fail(command, &err) : 0;
}

static bool asks_for_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

/* The command of this name (a subcommand's last word); NULL with err set. */
static const struct command *find(const struct command *command, const char *word, struct err *err)
{
    const struct command *const *list = command->subcommands;
    const char *names[COMMANDS_MAX];
    size_t count = 0;
    for (; list[count] && count < COMMANDS_MAX; count++) {
        const char *name = list[count]->line.name, *last = strrchr(name, ' ');
        names[count] = last ? last + 1 : name;
        if (strcmp(names[count], word) == 0) return list[count];
    }
    const char *nearest = text_nearest(word, names, count);
    for (const struct command_hint *hint = command->hints; hint && hint->word; hint++)
        if (strcmp(hint->word, word) == 0) nearest = hint->instead;
    err_set(err, STATUS_USAGE, "%s \"%.80s\"%s", *word == '-' ? "unknown option" : "no command", word,
            DID_YOU_MEAN(nearest));
    return NULL;
}

/* Prints the help of the command that `words` name, as "train" or "data prepare". */
static int help(const struct command *command, char **words)
{
    struct err err = {0};
    for (const struct command *next; *words; words++, command = next) {
        if (command->run) err_set(&err, STATUS_USAGE, "has no command \"%.80s\"", *words);
        if (command->run || !(next = find(command, *words, &err))) return fail(command, &err);
    }
    print_help(command);
    return output_check(&err) ? fail(command, &err) : 0;
}

static int dispatch(const struct command *command, int argc, char **argv)
{
    struct err err = {0};
    const struct command *next = NULL;
    if (command->run) return run(command, argc, argv);
    if (argc > 1 && asks_for_help(argv[1])) return help(command, argv + 2);
    if (argc > 1)
        next = find(command, argv[1], &err);
    else
        err_set(&err, STATUS_USAGE, "no command given: %s", command->line.words);
    return next ? dispatch(next, argc - 1, argv + 1) : fail(command, &err);
}

/* Training in less crashes, and nothing could be said then. */
static enum status check_stack(struct err *err)
{
    struct rlimit stack;
    if (getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= STACK_KIB * 1024) return STATUS_OK;
    return err_set(
        err, STATUS_FAILED,
        "the stack is limited to %lld KiB, which is too little (`ulimit -s 8192` allows what is usual)",
        (long long)(stack.rlim_cur / 1024));
}

/* With fewer, what could not be opened would be reported as something else, by doctor as lost. */
static enum status check_files(struct err *err)
{
    struct rlimit files;
    int first = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1); /* the lowest that is free */
    if (first >= 0) close(first);
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) return STATUS_OK;
    if (first >= 0 && files.rlim_cur >= (rlim_t)first + FILES_FREE) return STATUS_OK;
    return err_set(err, STATUS_FAILED,
                   "%lld files may be open, which is too little beside those that already are (`ulimit -n "
                   "1024` allows what is usual)",
                   (long long)files.rlim_cur);
}

int main(int argc, char **argv)
{
    standard_streams_reserve();
    signals_reset();
    prctl(PR_SET_NAME, program_invocation_short_name); /* started from /proc/self/exe it is called "exe" */
    if (argc > 1 && strcmp(argv[1], "complete") == 0) return complete_print(argc - 2, argv + 2, stdout);
    second_start(argv);
    struct err err = {0};
    if (check_stack(&err) || check_files(&err)) return fail(&command_anneal, &err);
    setlocale(LC_CTYPE, ""); /* numbers keep the C locale: '.' everywhere */
    /* so do letters: in Turkish, the small I has no dot, and "GIB" would not be "gib" */
    if (strcmp(nl_langinfo(CODESET), "UTF-8") == 0) setlocale(LC_CTYPE, "C.UTF-8");
    if (argc == 1) return run(&command_watch, argc, argv);
    if (strcmp(argv[1], "--version") != 0 && strcmp(argv[1], "version") != 0)
        return dispatch(&command_anneal, argc, argv);
    if (argc > 2)
        err_set(&err, STATUS_USAGE, "%.80s: takes no further argument", argv[1]);
    else
        puts(*COMMIT ? "anneal " VERSION " (" COMMIT ")" : "anneal " VERSION);
    return err.status || output_check(&err) ? fail(&command_anneal, &err) : 0;
}
