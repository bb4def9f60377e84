/* The table of subcommands, and what they share. */
#include "tui/command/command.h"

#include <stdio.h>
#include <string.h>

#include "kernels/cpu.h"
#include "tui/command/commands.h"

const struct command commands[] = {
    {"order", "RUN VERB [VALUE] [--wait]", "tell a running trainer to pause, continue, stop, checkpoint, ...",
     command_order, false},
    {"runs", "[--json] [--filter EXPR] [--sort KEY]", "list the runs", command_runs, false},
    {"show", "RUN [--json]", "all about one run", command_show, false},
    {"export", "RUN... [--table NAME] [--format csv] [-o FILE-OR-FOLDER]", "write what was recorded as CSV",
     command_export, false},
    {"bench", "step [--json] [--section.key=value ...]",
     "measure a training step beside this machine's matrix product", command_bench, true},
    {0},
};

int command_run(const struct command *command, int argc, char **argv)
{
    if (command->computes) cpu_blas_reexec(argv);
    return argc > 1 ? command->run(argc - 1, argv + 1) : command->run(argc, argv);
}

int command_fail(const struct err *err)
{
    fprintf(stderr, "anneal: %s\n", err->text);
    return err->status == STATUS_INTERRUPTED ? 130 : err->status == STATUS_USAGE ? 2 : 1;
}

int command_usage(const char *name, const char *why)
{
    if (why) fprintf(stderr, "anneal %s: %s\n", name, why);
    for (const struct command *c = commands; c->name; c++)
        if (strcmp(c->name, name) == 0)
            fprintf(stderr, "usage: anneal %s %s\n       %s\n", name, c->arguments, c->summary);
    return 2;
}
