/* Shared by the tests of runs/: a fresh home for each, records that are functions of the step, child
 * processes. */
#ifndef ANNEAL_TESTS_STORE_FIXTURE_H
#define ANNEAL_TESTS_STORE_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "core/base/record.h"
#include "runs/run.h"
#include "runs/store.h"
#include "runs/writer.h"
#include "tests/runs/flush.h"

/* A new empty folder below ANNEAL_TEST_DIR, named after `name`. */
void store_fixture_home(const char *name, char *buf, size_t size);

/* Opens the store or fails the test with the sentence. */
struct store *store_fixture_open(const char *home);

/* Creates a run called `name` and closes the store again. */
void store_fixture_run(const char *home, const char *name, char id[RUN_ID_MAX]);

/* A writer on the run; fails the test when it cannot. */
struct writer *store_fixture_writer(const char *home, const char *id);

/* Step `step` with values that depend on it and on `salt`; mfu unknown in every third one. */
struct step_record store_fixture_step(int64_t step, int salt);

/* Runs one SQL text that gives one number; fails the test otherwise. */
double store_fixture_number(const char *home, const char *sql);
/* The rows that SQL text gives: a line each without the last newline, columns parted by '|', NULL as nothing.
 * Yours to free. */
char *store_fixture_text(const char *home, const char *sql);
/* Runs SQL text on the database below `home`. */
void store_fixture_sql(const char *home, const char *sql);
/* A new home named after `name` with the store of tests/fixtures/store.sql. */
void store_fixture_everything(const char *name, char *home, size_t size);
/* Begins to write in that database, which locks it, until the unlocking, which undoes nothing but that. */
struct sqlite3 *store_fixture_lock(const char *home);
void store_fixture_unlock(struct sqlite3 *db);

/* Refuses the statement before which `left` others are compiled: it fails as it would in a damaged database.
 * All that were compiled before are compiled anew. NULL: none is refused any more. */
struct store_refusal {
    int left;
    bool refused;
};
void store_fixture_refuse(struct store *store, struct store_refusal *refusal);

/* Runs `body` in a child; returns its process id. The child's exit status is what body returns. */
pid_t store_fixture_fork(int (*body)(void *), void *argument);
int store_fixture_wait(pid_t pid); /* the exit status, or 128 + the signal */

/* Gives the workbench on this home these settings. */
void store_fixture_settings(const char *home, const char *text);
/* The whole file as a string, yours to free; *n its length. */
char *store_fixture_slurp(const char *path, size_t *n);

#endif
