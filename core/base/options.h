/* The command line as data: a table of the words and options that each command takes, one parser for all
 * commands, and help text written from the same table.
 *
 * "--name VALUE" and "--name=VALUE" mean the same, as do "-o FILE" and "-oFILE"; options and words come in
 * any order; "--" ends the options; a negative number and a lone "-" are words. An option may be given once;
 * a setting, "--section.key=value", several times: the last one wins. */
#ifndef ANNEAL_CORE_BASE_OPTIONS_H
#define ANNEAL_CORE_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/base/err.h"

enum option_kind {
    OPTION_END,      /* the last entry of a table, {0} */
    OPTION_FLAG,     /* bool: takes no value */
    OPTION_TEXT,     /* const char *, not empty */
    OPTION_ANY_TEXT, /* const char *, may be empty */
    OPTION_MAYBE,    /* const char *, "" without a value; a value follows "=" or begins with a digit */
    OPTION_WHOLE,    /* int64_t, from least to most */
    OPTION_NUMBER,   /* double, likewise */
    OPTION_CHOICE,   /* int: which of the words in `value`, from 0 */
    OPTION_CHOICES,  /* int: a bit for each of them that is given, with commas between; bit 0 for the first */
    OPTION_DEVICE,   /* const char *: one of the words in `value`, where ":N" at the end is any number */
};

struct option_spec {
    const char *name; /* without the dashes */
    enum option_kind kind;
    size_t offset;     /* of its field in the command's record */
    const char *value; /* how the help names the value; of a choice its words, "auto|cpu|cuda" */
    const char *help;  /* wrapped by the printer */
    char letter;       /* of the short form, "-o"; 0: none */
    bool required;
    double least, most; /* bounds of a number; most 0: unbounded */
};

/* An entry of a table: the first five fields in order, then others by name. */
#define OPTION(NAME, KIND, OFFSET, VALUE, ...)                                                               \
    {                                                                                                        \
        .name = NAME, .kind = KIND, .offset = OFFSET, .value = VALUE, .help = __VA_ARGS__                    \
    }

/* The words and options of one command. Plain data, for the parser, the help, manual pages and completion. */
struct command_line {
    const char *name;  /* "generate", "data prepare" */
    const char *words; /* how the help names the words, "RUN|FOLDER"; "": it takes none */
    int least, most;   /* how many of them; most < 0: any number */
    bool blank;        /* words after the first may be empty */
    bool hyphen;       /* "-word" is a word unless it begins with the letter of an option */
    bool settings;     /* takes --section.key=value */
    const struct option_spec *options;
    /* Paragraphs, one a line, wrapped by the printer, before and after the options. A line that begins with a
     * blank keeps its layout. */
    const char *about, *notes;
};

/* The words as typed. Borrows from argv, which must outlive it; owns the lists. */
struct words {
    const char **words, **settings; /* NULL at the end */
    int count, setting_count;
    char **argv; /* all of it, after the command's name; NULL at the end */
    bool help;   /* --help or -h: the rest is not parsed */
    /* "--word" that is no option and far from all, where the command takes settings: perhaps a key without
     * its section, which the caller knows. NULL: none. The rest is not parsed. */
    const char *unknown;
};

/* Parses argv[1] … into `record`, which holds the defaults on entry, and into `out`. STATUS_USAGE names the
 * wrong word and the accepted ones. Release `out` also after a failure. */
enum status options_parse(const struct command_line *line, int argc, char **argv, void *record,
                          struct words *out, struct err *err);
void words_release(struct words *words); /* harmless on a zeroed struct */

/* "anneal runs [options]", without a newline. */
void options_print_usage(const struct command_line *line, FILE *out);
/* "-o, --output PATH". Returns buf. */
enum { OPTION_FORMAT_MAX = 400 };
char *options_format(const struct option_spec *option, char buf[OPTION_FORMAT_MAX]);

/* The help page: usage, what the command does, its options. Lines have at most 100 columns. */
void options_print_help(const struct command_line *line, FILE *out);

#endif
