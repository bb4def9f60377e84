/* anneal resume: goes on with a run that was stopped, crashed or stopped early, as a new segment of the same
 * run. */
#include <stdio.h>

#include "tui/command/command.h"
#include "tui/command/commands.h"
#include "tui/command/training_words.h"
#include "tui/session/recorded_run.h"

static const char help[] =
    "usage: anneal resume RUN [--section.key=value ...] [--device D] [--wait] [--progress P]\n"
    "\n"
    "Goes on from the newest checkpoint of RUN (an id, a unique prefix of one, a name, or `latest`), as a "
    "new segment of\n"
    "the same run; one that ended before its first checkpoint begins again. Unchanged, the losses that "
    "follow are bit for\n"
    "bit those of a run that was never interrupted.\n"
    "The model, the data and the optimizer must stay as they are; anything else may be changed:\n"
    "\n"
    "  anneal resume latest                                 go on where it stopped\n"
    "  anneal resume latest --train.total_steps=4000        train on\n"
    "  anneal resume latest --eval.early_stopping_patience=10\n"
    "\n"
    "--device, --wait, --progress, --check-allocations as for anneal train\n";

int command_resume(int argc, char **argv)
{
    struct training_words words;
    struct training_options options = {0};
    struct train_report report;
    struct recorded_run run = {0};
    struct err err = {0};
    enum status status = training_words_parse(argc, argv, &words, &err);
    if (!status && !words.help && !words.positional) return command_usage("resume", "which run?");
    if (!status && !words.help && words.name)
        status = err_set(&err, STATUS_USAGE, "--name: a resumed run keeps its name");
    if (!status && !words.help) status = training_words_of_a_recorded_run(&words, &err);
    if (status) return command_usage("resume", err.text);
    if (words.help) {
        fputs(help, stdout);
        return 0;
    }
    status = recorded_run_read(words.positional, &run, &err);
    options.config = run.config;
    if (!status) status = training_words_take(&words, &options, &report, &err);
    if (!status) status = recorded_run_check(&run, &options.config, "resumed", &err);
    int code = status ? command_fail(&err)
                      : training_words_exit(training_resume(&options, &run.info, &err), &report, &err);
    recorded_run_release(&run);
    return code;
}
