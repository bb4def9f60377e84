/* A test's own place below $ANNEAL_TEST_DIR: a home, a small corpus, a configuration that trains in
 * milliseconds; and functions that read the records through `anneal export`. What they return belongs to the
 * test (kept.h). */
#ifndef ANNEAL_TESTS_TUI_COMMAND_STAGE_H
#define ANNEAL_TESTS_TUI_COMMAND_STAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/cmocka.h"
#include "tests/tui/command/process.h"

struct stage {
    char folder[512];
    char home[600];   /* also $ANNEAL_HOME and $ANNEAL_LEDGER */
    char corpus[600]; /* text.txt: some 17,000 bytes of words */
    char config[600]; /* tiny.ini: one layer of width 32 on that text, bytes, one thread, 40 steps */
};

/* Begins a test on a stage of its own, in a folder with the beginning of the test's name:
 * STAGE_CASE(name, struct stage *s) { … } */
#define STAGE_CASE(name, parameter) STAGE_CASE_TEARDOWN(name, kept_teardown, parameter)
/* With a teardown of its own, which calls kept_release. */
#define STAGE_CASE_TEARDOWN(name, teardown, parameter) TEST_CASE_ON(name, stage_setup, teardown, parameter)
/* With a setup of its own, which calls stage_setup and may leave more than the stage in *state. */
#define STAGE_CASE_SETUP(name, setup, parameter) TEST_CASE_ON(name, setup, kept_teardown, parameter)
int stage_setup(void **state);
/* The entry of a test of such a stage in a list of cmocka's. */
#define STAGE_TEST(test)                                                                                     \
    cmocka_unit_test_prestate_setup_teardown(test, stage_setup, kept_teardown, (void *)(uintptr_t) #test)

/* Empty and fresh; sets ANNEAL_HOME, and ANNEAL_LEDGER to the same. For a test with several stages. */
void stage_open(struct stage *stage, const char *name);

/* Skips the test where the MPI plugin was not built (no mpicc, or a sanitizer) or mpirun is missing. */
void stage_need_mpi(void);

/* The process of a rank that trains in this stage's home; 0: there is none. */
pid_t stage_find_rank(const struct stage *stage, int rank);
/* For mpirun started by a test: more ranks than cores, and six seconds after SIGTERM before it kills. */
extern const char *const stage_mpirun_environment[];

char *stage_path(const struct stage *stage, const char *name); /* FOLDER/NAME */
void stage_write(const char *path, const void *data, size_t size);
char *stage_read(const char *path); /* fails the test when it cannot */

/* Returns the results of `sql` on the stage's database, as store_fixture_text does. */
char *stage_query(const struct stage *stage, const char *sql);
/* Fails the test unless these are the results. */
void stage_expect(const struct stage *stage, const char *sql, const char *answer);

/* `anneal runs --json` as parsed. */
json_t *stage_runs(void);
/* The status of the newest run; "": there is none. */
const char *stage_status(void);
size_t stage_count_runs(void);
/* Counts files and folders below the stage that were left half-written: there must be none. */
int stage_count_leftovers(const struct stage *stage);

/* A JSON document without a key given twice; fails the test for another text. */
json_t *stage_json(const char *text);
/* The output of `--progress json` as a list of its objects; fails at the first line that is not one. */
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
        char values[160]; /* "loss,lr,grad_norm" as in the CSV; "": the step was not recorded */
    } * steps;
};
struct history history_of(const char *run);
/* Fails unless both hold exactly the same steps with bit-equal losses, rates and norms. */
void history_expect_equal(const struct history *expected, const struct history *actual);
/* Fails unless these runs have the same steps but for rounding: losses and rates within `most` of themselves,
 * norms within a hundred times as much. */
void history_expect_alike(const char *a, const char *b, double most);
/* The same bits, of two runs; returns how many steps they have. */
int64_t history_expect_same(const char *expected, const char *actual);

/* A run NAME that ends, with status 1, while the database lacks its table of steps, which is then there
 * again: its records wait in its folder. */
struct process *stage_run_without_table(struct stage *stage, const char *name);

#endif
