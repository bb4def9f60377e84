/* The tables of the run store and how a database of an earlier version becomes one of today.
 *
 * Always: PRAGMA user_version is the number of migrations applied; a migration is one transaction; a
 * published migration never changes, a new one is appended (columns.def). */
#ifndef ANNEAL_RUNS_SCHEMA_H
#define ANNEAL_RUNS_SCHEMA_H

#include <stddef.h>

#include "runs/database.h"

enum { SCHEMA_APPLICATION_ID = 0x414e4e4c }; /* "ANNL", in PRAGMA application_id */

/* The SQL that leads from version - 1 to `version`, made from columns.def; yours to free, NULL when memory is
 * short. */
char *schema_script(int version);

/* STATUS_CORRUPT for a database that is not a run store, STATUS_FAILED for one with more than `count`
 * migrations, that is, from a newer anneal. Only reads. *version (may be NULL) is how many it has. */
enum status schema_check(struct store *store, int count, int64_t *version, struct err *err);

/* Applies what is missing of `count` migrations: scripts[i] leads from version i to i + 1; that of
 * schema_script where it or `scripts` is NULL. What schema_check refuses is not touched. Several processes
 * may call it at once. */
enum status schema_migrate(struct store *store, const char *const *scripts, int count, struct err *err);

#endif
