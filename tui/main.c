/* anneal: dispatches to a subcommand, or opens the workbench. The only file that ends the process. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/text.h"
#include "tui/command/command.h"

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

/* OpenMP's threads spin for work between two operations, and where other processes want the cores they spin
 * in each other's way: two runs on one machine were twenty times slower. Let them sleep, unless the user
 * chose. The library reads this before main, so it takes a second start. */
static void let_idle_threads_sleep(char **argv)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0 || getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return;
    self[n] = '\0';
    if (setenv("OMP_WAIT_POLICY", "passive", 1) == 0) execv(self, argv);
}

int main(int argc, char **argv)
{
    let_idle_threads_sleep(argv);
    setlocale(LC_CTYPE, ""); /* numbers keep the C locale: '.' everywhere */
    if (argc >= 2 &&
        (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)) {
        print_help(stdout);
        return 0;
    }
    if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
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
