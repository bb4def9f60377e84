/* The table of subcommands, and what they share. */
#include "tui/command/command.h"

#include <stdio.h>
#include <string.h>

#include "kernels/cpu.h"
#include "tui/command/commands.h"

const struct command commands[] = {
    {"data", "prepare INPUT... -o FILE.tok | info FILE.tok | fetch [NAME]", "text into token files",
     command_data, false},
    {"tokenizer", "train INPUT... --vocab N -o FILE.json | encode T | decode T | info T",
     "learn a tokenizer, turn text into ids and back", command_tokenizer, false},
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
