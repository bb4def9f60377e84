/* The table of commands, for the dispatch, completion and the manual pages. `anneal complete`, which the
 * shells call, is not part of it: see complete.h. */
#include "tui/command/command.h"

/* In the order of the help. */
static const struct command *const commands[] = {
    &command_watch,  &command_demo,     &command_train,    &command_resume,  &command_fork,
    &command_order,  &command_runs,     &command_show,     &command_compare, &command_export,
    &command_import, &command_generate, &command_evaluate, &command_data,    &command_tokenizer,
    &command_model,  &command_estimate, &command_devices,  &command_bench,   NULL,
};

const struct command command_anneal = {
    .line = {.name = "",
             .words = "COMMAND",
             .notes =
                 "`anneal` alone opens the workbench, `anneal --version` prints the version. All state lives "
                 "in $ANNEAL_HOME (default: ~/.local/share/anneal)."},
    .summary = "train language models from the terminal and watch them live",
    .subcommands = commands,
};
