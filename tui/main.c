/* anneal: dispatches to a subcommand, or opens the workbench. The only file that ends the process. */
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "tui/command/command.h"
#include "tui/session/second_start.h"

#define VERSION "0.1.0"

static void print_help(FILE *out)
{
    fputs("anneal: train language models from the terminal and watch them live\n\n"
          "usage: anneal                    open the workbench\n",
          out);
    for (const struct command *c = commands; c->name; c++)
        fprintf(out, "       anneal %-10s %s\n", c->name, c->summary);
    fputs("\n`anneal COMMAND --help` explains one command, `anneal --version` tells which this is. State "
          "lives in $ANNEAL_HOME.\n",
          out);
}

int main(int argc, char **argv)
{
    second_start(argv);
    setlocale(LC_CTYPE, ""); /* numbers keep the C locale: '.' everywhere */
    if (argc >= 2 &&
        (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)) {
        print_help(stdout);
        return 0;
    }
    if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
        if (argc > 2) return command_surplus(argv[1], argv[2]);
        puts("anneal " VERSION);
        return 0;
    }
    const char *word = argc >= 2 ? argv[1] : "watch";
    const char *names[64];
    size_t count = 0;
    for (const struct command *c = commands; c->name; c++) {
        if (strcmp(c->name, word) == 0) return argc > 1 ? c->run(argc - 1, argv + 1) : c->run(argc, argv);
        if (count < sizeof names / sizeof *names) names[count++] = c->name;
    }
    const char *nearest = text_nearest(word, names, count);
    fprintf(stderr, "anneal: no command \"%s\"%s%s%s (anneal --help lists them)\n", word,
            nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
    return 2;
}
