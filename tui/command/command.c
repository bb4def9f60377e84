/* The table of subcommands, and what they share. */
#include "tui/command/command.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tui/command/clean.h"
#include "tui/command/commands.h"

const struct command commands[] = {
    {"watch", "open the workbench, on the list of runs or on one run", command_watch},
    {"train", "train a new run", command_train},
    {"resume", "go on with a run from its newest checkpoint", command_resume},
    {"fork", "a new run that starts from a checkpoint of another", command_fork},
    {"order", "tell a running trainer to pause, continue, stop, checkpoint, ...", command_order},
    {"runs", "list the runs", command_runs},
    {"show", "all about one run; where the time of its steps goes", command_show},
    {"compare", "what differs between runs, and the outcome of each", command_compare},
    {"export", "write what was recorded as CSV or JSON", command_export},
    {"import", "a run from CSV, TensorBoard's scalars or llm.c's main.log", command_import},
    {"generate", "continue a text", command_generate},
    {"evaluate", "how well a checkpoint predicts a text: loss, perplexity, bits a byte", command_evaluate},
    {"data", "text into token files", command_data},
    {"tokenizer", "learn a tokenizer, turn text into ids and back", command_tokenizer},
    {"model", "what a model is made of; a run's as a Hugging Face folder, and such a folder for runs",
     command_model},
    {"estimate", "the memory that training would take, without taking it", command_estimate},
    {"devices", "what it can train on, and why not", command_devices},
    {"bench", "measure a training step beside this machine's matrix product", command_bench},
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

void command_warn(const char *format, ...)
{
    char text[1200], line[3 * sizeof text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    clean_line(line, sizeof line, text);
    fprintf(stderr, "anneal: warning: %s\n", line);
}

int command_surplus(const char *option, const char *word)
{
    char text[sizeof(struct err)];
    clean_line(text, sizeof text, word);
    fprintf(stderr, "anneal: %s: takes no further word, \"%s\" is one too many\n", option, text);
    return 2;
}

int command_usage(const char *name, const char *why)
{
    char text[2 * sizeof(struct err)]; /* it may quote what was typed */
    clean_line(text, sizeof text, why);
    fprintf(stderr, "anneal: %s: %s (see anneal %s --help)\n", name, text, name);
    return 2;
}
