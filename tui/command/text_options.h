/* The options that `anneal data` and `anneal tokenizer` have in common, and how both find a subcommand. */
#ifndef ANNEAL_TUI_TEXT_OPTIONS_H
#define ANNEAL_TUI_TEXT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "tui/command/progress_bar.h"

struct text_options {
    const char *tokenizer; /* -t; NULL: not given */
    const char *output;    /* -o */
    const char *text;      /* --text */
    int64_t vocab;         /* --vocab; 0: not given */
    bool json, help, dry_run;
    enum progress_style progress;
    char **words; /* word_count of them: what is no option */
    int word_count;
};

struct subcommand {
    const char *name;
    const char
        *options; /* letters of the options it takes: t o x(--text) v(--vocab) j p(--progress) n(--dry-run) */
    int least, most;   /* words; most < 0: any number */
    const char *needs; /* what the first of them is */
    bool blank;        /* those after the first may be empty */
    int (*run)(const struct text_options *options);
};

/* Runs the subcommand argv[1] of the command argv[0]. `subcommands` ends with a NULL name; `help` is what
 * --help prints. Returns the exit status. */
int text_command_run(int argc, char **argv, const struct subcommand *subcommands, const char *help);

/* What --progress says: auto, bar, plain, none; false for any other word. */
bool text_options_progress(const char *word, enum progress_style *out);

/* "1162123" with separators: "1,162,123". Returns buf. */
char *text_options_number(uint64_t number, char *buf, size_t size);

#endif
