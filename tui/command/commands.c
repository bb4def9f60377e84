/* The table of commands, for the dispatch, completion and the manual pages. `anneal complete`, which the
 * shells call, is not part of it: see complete.h. */
#include "tui/command/command.h"

#include "core/model/key_names.h"

/* In the order of the help. */
static const struct command *const commands[] = {
    &command_watch,
    &command_demo,
    &command_train,
    &command_resume,
    &command_fork,
    &command_lr_find,
    &command_sweep,
    &command_order,
    &command_runs,
    &command_show,
    &command_compare,
    &command_export,
    &command_tag,
    &command_delete,
    &command_doctor,
    &command_clean,
    &command_import,
    &command_generate,
    &command_chat,
    &command_evaluate,
    &command_classify,
    &command_data,
    &command_tokenizer,
    &command_model,
    &command_estimate,
    &command_plan,
    &command_devices,
    &command_bench,
    NULL,
};

static const struct command_hint hints[] = {
    {"rm", "delete RUN"},
    {"remove", "delete RUN"},
    {"del", "delete RUN"},
    {"ls", "runs"},
    {"list", "runs"},
    {"ps", "runs"},
    {"rename", "tag RUN --name NAME"},
    {"note", "tag RUN --note TEXT"},
    {"archive", "tag RUN +archived"},
    {"stop", "order RUN stop"},
    {"pause", "order RUN pause"},
    {"continue", "order RUN continue"},
    {"save", "order RUN checkpoint"},
    {"gc", "clean"},
    {"prune", "clean"},
    {"du", "doctor"},
    {"check", "doctor"},
    {"fsck", "doctor"},
    {"log", "show RUN"},
    {"logs", "show RUN"},
    {"plot", "watch RUN"},
    {"eval", "evaluate RUN --data FILE"},
    {"sample", "generate RUN"},
    {NULL, NULL},
};

const struct command command_anneal = {
    .line =
        {.name = "",
         .words = "COMMAND",
         .notes =
             "Begin with `anneal demo`, which trains a small model in some minutes, or with your own text: "
             "`anneal train --data.train=FILE --watch`.\n\n"
             "`anneal` alone opens the workbench, `anneal --version` prints the version. All state lives "
             "in $ANNEAL_HOME (default: ~/.local/share/anneal), except notes of which run uses how much "
             "memory: $ANNEAL_LEDGER, or /dev/shm/anneal-UID."},
    .summary = "train language models from the terminal and watch them live",
    .subcommands = commands,
    .hints = hints,
};

enum status command_refuse_option(const char *option, struct err *err)
{
    const char *key = key_name_suggest(option + 2);
    if (!key)
        return err_set(err, STATUS_USAGE,
                       "unknown option %.80s; a key of the configuration is set with --section.key=value",
                       option);
    return err_set(err, STATUS_USAGE, "unknown option %.80s (did you mean --%s=VALUE?)", option, key);
}
