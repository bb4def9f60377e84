/* A test's own place below $ANNEAL_TEST_DIR: a home, a small corpus, a configuration that trains in
 * milliseconds; and functions that read the records through `anneal export`. */
#ifndef ANNEAL_TESTS_TUI_COMMAND_STAGE_H
#define ANNEAL_TESTS_TUI_COMMAND_STAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stage {
    char folder[512];
    char home[600];   /* also $ANNEAL_HOME and $ANNEAL_LEDGER */
    char corpus[600]; /* text.txt: some 17,000 bytes of words */
    char config[600]; /* tiny.ini: one layer of width 32 on that text, bytes, one thread, 40 steps */
};

/* Empty and fresh; sets ANNEAL_HOME, and ANNEAL_LEDGER to the same. */
void stage_open(struct stage *stage, const char *name);

/* Skips the test where the MPI plugin was not built (no mpicc, or a sanitizer) or mpirun is missing. */
void stage_need_mpi(void);

void stage_write(const char *path, const void *data, size_t size);
char *stage_read(const char *path); /* yours to free; fails the test when it cannot */

/* Returns the results of `sql` on the stage's database, as store_fixture_text does. */
char *stage_query(const struct stage *stage, const char *sql);

/* `anneal runs --json` as parsed; yours to json_decref. */
json_t *stage_runs(void);
/* The status of the newest run; the buffer is overwritten by the next call. */
const char *stage_status(void);
size_t stage_count_runs(void);
/* Counts files and folders below the stage that were left half-written: there must be none. */
int stage_count_leftovers(const struct stage *stage);

/* The output of `--progress json` as a list of its objects; fails at the first line that is not one. Call
 * json_decref on it. */
json_t *stage_parse_lines(const char *text);
/* The n-th object of that list with this "type" (from 0; -1: the last), or NULL. Borrowed. */
json_t *stage_find_line(const json_t *lines, const char *type, int n);
size_t stage_count_lines(const json_t *lines, const char *type);
const char *stage_text(const json_t *object, const char *name); /* "" when it is no text */
int64_t stage_int(const json_t *object, const char *name);      /* fails if it is not a whole number */
double stage_real(const json_t *object, const char *name);      /* NaN for null; fails when it is absent */

/* The recorded steps of a run; for each step the values of its last segment. */
struct history {
    int64_t count; /* steps 0 … count-1 */
    struct history_step {
        int segment;
        char *values; /* "loss,lr,grad_norm" as in the CSV; NULL: the step was not recorded */
    } * steps;
};
void history_read(const char *run, struct history *out);
void history_release(struct history *history);
/* Fails unless both hold exactly the same steps with bit-equal losses, rates and norms. */
void history_expect_equal(const struct history *expected, const struct history *actual);

#endif
