/* The commands over recorded runs, as a user runs them: the real binary, its output and its exit status. */
#ifndef ANNEAL_TESTS_RUNS_ANSWER_H
#define ANNEAL_TESTS_RUNS_ANSWER_H

#include <jansson.h>

#include "runs/run.h"

struct answer {
    int code;
    char *out, *err;
};

/* Runs `anneal ARGUMENTS` (a shell's words) with ANNEAL_HOME set to `home`. */
struct answer answer_of(const char *home, const char *arguments);
void answer_free(struct answer *answer);

/* The command must end with `code` and say `words` (on standard output for 0, else on standard error). */
void answer_expect(const char *home, const char *arguments, int code, const char *words);

/* The JSON that the command prints; json_decref it. */
json_t *answer_json(const char *home, const char *arguments);

/* Three runs: one finished, one crashed, one never started. */
void answer_furnish(const char *home, char finished[RUN_ID_MAX], char crashed[RUN_ID_MAX]);

#endif
