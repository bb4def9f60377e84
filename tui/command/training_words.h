/* The words of `train`, `resume` and `fork`: one positional, options, and --section.key=value in any order.
 */
#ifndef ANNEAL_TUI_COMMAND_TRAINING_WORDS_H
#define ANNEAL_TUI_COMMAND_TRAINING_WORDS_H

#include <stdbool.h>

#include "tui/command/train_report.h"

enum { SETTINGS_MAX = 128 };

struct training_words {
    const char *positional; /* NULL: none */
    const char *name, *device;
    enum report_mode progress;
    bool watch, wait, check_allocations, help, help_config;
    bool dry_run, json;                 /* json: of a dry run */
    const char *settings[SETTINGS_MAX]; /* --section.key=value, in order */
    int setting_count;
};

/* Borrowed from argv. STATUS_USAGE names the word that is wrong. */
enum status training_words_parse(int argc, char **argv, struct training_words *out, struct err *err);

/* Those that only a new run takes are an error, for commands that go out from a recorded one. */
enum status training_words_of_a_recorded_run(const struct training_words *words, struct err *err);

/* Applies the settings on top of `config` and finishes it; relative paths of an existing corpus or tokenizer
 * become absolute. */
enum status training_words_apply(const struct training_words *words, struct config *config, struct err *err);

/* Takes over all options but the name, and applies the settings on top of options->config. */
enum status training_words_take(const struct training_words *words, struct training_options *options,
                                struct train_report *report, struct err *err);

/* The exit status after a session; prints the sentence of a failure. */
int training_words_exit(enum status status, const struct train_report *report, struct err *err);

#endif
