/* The table of subcommands, and what they share. */
#include "tui/command/command.h"

#include <stdio.h>
#include <string.h>

#include "tui/command/clean.h"
#include "tui/command/commands.h"

const struct command commands[] = {
    {"watch", "[RUN]", "open the workbench, on the list of runs or on one run", command_watch},
    {"train", "[CONFIG.ini] [--section.key=value ...] [--name NAME] [--watch]", "train a new run",
     command_train},
    {"resume", "RUN [--section.key=value ...]", "go on with a run from its newest checkpoint",
     command_resume},
    {"fork", "RUN [--step N] [--section.key=value ...] [--name NAME]",
     "a new run that starts from a checkpoint of another", command_fork},
    {"order", "RUN VERB [VALUE] [--wait]", "tell a running trainer to pause, continue, stop, checkpoint, ...",
     command_order},
    {"runs", "[--json] [--filter EXPR] [--sort KEY]", "list the runs", command_runs},
    {"show", "RUN [--profile [--layers]] [--json]", "all about one run; where the time of its steps goes",
     command_show},
    {"compare", "RUN RUN... [--json]", "what differs between runs, and the outcome of each", command_compare},
    {"export", "RUN... [--table NAME] [--format csv|long|tensorboard|json] [-o FILE-OR-FOLDER]",
     "write what was recorded as CSV or JSON", command_export},
    {"import", "FILE... [--name NAME]", "a run from CSV, TensorBoard's scalars or llm.c's main.log",
     command_import},
    {"generate", "RUN|FOLDER --prompt TEXT [--max-tokens N] [--temperature T]", "continue a text",
     command_generate},
    {"evaluate", "RUN|FOLDER --data DATA [--seq-len T] [--batches N] [--json]",
     "how well a checkpoint predicts a text: loss, perplexity, bits a byte", command_evaluate},
    {"data", "prepare INPUT... -o FILE.tok | info FILE.tok | fetch [NAME] | clean", "text into token files",
     command_data},
    {"tokenizer", "train INPUT... --vocab N -o FILE.json | encode T | decode T | info T",
     "learn a tokenizer, turn text into ids and back", command_tokenizer},
    {"model", "info RUN|FOLDER | export RUN|FOLDER -o FOLDER | import FOLDER [--name NAME | -o FOLDER]",
     "what a model is made of; a run's as a Hugging Face folder, and such a folder for runs", command_model},
    {"estimate", "[CONFIG.ini] [--section.key=value ...] [--fit [MEMORY]] [--json]",
     "the memory that training would take, without taking it", command_estimate},
    {"devices", "", "what it can train on, and why not", command_devices},
    {"bench", "step [--json] [--section.key=value ...]",
     "measure a training step beside this machine's matrix product", command_bench},
    {0},
};

int command_fail(const struct err *err)
{
    char text[3 * sizeof err->text]; /* it may quote file names and what was recorded */
    clean_line(text, sizeof text, err->text);
    fprintf(stderr, "anneal: %s\n", text);
    if (err->status == STATUS_INTERRUPTED) return 130;
    return err->status == STATUS_USAGE ? 2 : 1;
}

int command_usage(const char *name, const char *why)
{
    if (why) fprintf(stderr, "anneal %s: %s\n", name, why);
    for (const struct command *c = commands; c->name; c++)
        if (strcmp(c->name, name) == 0)
            fprintf(stderr, "usage: anneal %s %s\n       %s\n", name, c->arguments, c->summary);
    return 2;
}
