/* Subcommands: each is one file and one entry of the table. A command is data, its words, options and help,
 * and one function, which calls the modules and prints results on standard output, everything else on
 * standard error. main.c turns the result into the exit status: 0 done; 1 failed, after one line "anneal:
 * what: why (what to do)"; 2 usage; 130 after Ctrl-C, 143 after SIGTERM. */
#ifndef ANNEAL_TUI_COMMAND_COMMAND_H
#define ANNEAL_TUI_COMMAND_COMMAND_H

#include <stddef.h>

#include "core/base/options.h"
#include "runs/store.h"

struct config;
struct run_info;

/* A word that is no command but may be meant as one, and what does that. */
struct command_hint {
    const char *word, *instead;
};

struct command {
    struct command_line line;
    const char *summary;  /* one line for the list of commands */
    const void *defaults; /* (size bytes) the record of the options before the words are read; NULL: none */
    size_t size;
    /* STATUS_INTERRUPTED without a message prints nothing. The caller then checks that standard output took
     * everything. */
    enum status (*run)(const void *options, const struct words *words, struct err *err);
    const struct command *const *subcommands; /* instead of run; NULL at the end */
    const struct command_hint *hints;         /* to subcommands, a NULL word at the end; NULL: none */
};

/* A command with a function: name, words and how many of them, options, a short summary, the function and the
 * record of its options before the words are read; then further members of its line by name. */
#define COMMAND(NAME, WORDS, LEAST, MOST, OPTIONS, SUMMARY, FUNCTION, RECORD, ...)                           \
    {                                                                                                        \
        .line =                                                                                              \
            {.name = NAME, .words = WORDS, .least = LEAST, .most = MOST, .options = OPTIONS, __VA_ARGS__},   \
        .summary = SUMMARY, .defaults = &(RECORD), .size = sizeof(RECORD), .run = FUNCTION                   \
    }

/* A field's offset in the file's own record of options. */
#define AT(field) offsetof(struct options, field)

/* Options of several commands, each stored in the field of its name. */
#define DEVICE_WORDS "auto|cpu|cuda|cuda:N"
#define JSON_OPTION  OPTION("json", OPTION_FLAG, AT(json), NULL, "one JSON value instead of text")
#define BEST_OPTION                                                                                          \
    OPTION("best", OPTION_FLAG, AT(best), NULL,                                                              \
           "RUN's best checkpoint, by the validation loss or eval.metric (default: its newest)")
#define ADAPTER_OPTION                                                                                       \
    OPTION(                                                                                                  \
        "adapter", OPTION_TEXT, AT(adapter), "ADAPTERS",                                                     \
        "load these adapters (LoRA) beside the model: a run or a folder, or several with commas between, "   \
        "which are added up; a run or folder of adapters alone finds its base")
#define STEP_OPTION OPTION("step", OPTION_WHOLE, AT(step), "N", "RUN's checkpoint of step N")
#define PROGRESS_OPTION                                                                                      \
    OPTION("progress", OPTION_CHOICE, AT(progress), "auto|bar|plain|none",                                   \
           "how progress is shown on standard error")

/* In train.c: reads the defaults, the file that the first word may name, and the settings, in this order, and
 * finishes. Relative paths of an existing corpus, tokenizer or model become absolute. */
enum status train_read_config(const struct words *words, struct config *config, struct err *err);

/* In train.c: the newest run of this name; STATUS_NOT_FOUND: there is none. */
enum status train_find_named(const char *name, struct run_info *out, struct err *err);

/* STATUS_USAGE for an option that is none (words.unknown): suggests the key of the configuration that it may
 * mean, such as train.total_steps for "--steps". */
enum status command_refuse_option(const char *option, struct err *err);

/* In watch.c: opens the workbench on a run that was just started in the background, and says how to leave. */
enum status watch_started(const char *run_id, struct err *err);

/* All commands, the subcommands of `anneal`, in the order of its help. */
extern const struct command command_anneal;

extern const struct command command_watch, command_demo, command_train, command_resume, command_fork,
    command_sweep, command_order, command_runs, command_show, command_compare, command_export, command_delete,
    command_tag, command_import, command_generate, command_chat, command_evaluate, command_classify,
    command_data, command_tokenizer, command_model, command_estimate, command_plan, command_devices,
    command_bench, command_lr_find, command_doctor, command_clean;

#endif
