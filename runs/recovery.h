/* A run's file of records (spill.h) and the database: what the database lacks is read from there. The
 * functions before the line are private to runs/, and their caller holds the run's lock. */
#ifndef ANNEAL_RUNS_RECOVERY_H
#define ANNEAL_RUNS_RECOVERY_H

#include "core/base/arena.h"
#include "core/base/err.h"
#include "runs/run.h"

struct spill;

/* Makes the file anew for a run of the database, without entries; those to come begin after all that the
 * database has. */
enum status recovery_begin(struct store *store, const char *run_id, struct spill *spill, struct err *err);

/* Appends all rows of the run that the database has, for a file that will be read into another database. */
enum status recovery_save(struct store *store, const char *run_id, struct spill *spill, struct err *err);

/* Stores what the database lacks of a run that no process trains, and the run itself if the database does not
 * know it: its row, from the beginning of the file. No file is no error. An entry that is damaged ends the
 * file: those before it are stored, the file is renamed to records.damaged, a new one is made, and the result
 * is STATUS_CORRUPT with out->aside. */
struct repair;
enum status recovery_read(struct store *store, const char *run_id, struct repair *out, struct err *err);

/* ---- for users ---- */

/* The result of a repair of one run. */
struct repair {
    char id[RUN_ID_MAX];
    bool made;      /* the database did not know the run */
    char aside[32]; /* its file is damaged, and has this name now; "": it is not */
    bool cut;       /* from an entry on, as a power cut leaves it; all before that is stored */
    int64_t stored; /* entries of its file that the database lacked */
    int64_t listed; /* checkpoints that it lacked */
    struct err err; /* why it could not be repaired; status 0: it was, or nothing was missing. Its text also
                       says where the file was cut */
};

/* Counts the entries of a run's file that the database lacks, and changes nothing. *found: there is a file.
 * STATUS_CORRUPT: an entry is damaged; those before it are counted. */
enum status recovery_look(struct store *store, const char *run_id, bool *found, int64_t *waiting,
                          struct err *err);

/* Does recovery_read for one run, but a file that is cut is no error; a run that trains is left alone:
 * STATUS_BUSY. `err` may be &out->err, and is not NULL. */
enum status recovery_repair(struct store *store, const char *run_id, struct repair *out, struct err *err);
/* Does the same for the folders of all runs that have such a file and do not train. Lists those of which
 * something was missing or could not be read, as an array in `arena`. */
enum status recovery_repair_all(struct store *store, struct arena *arena, struct repair **out, size_t *count,
                                struct err *err);

#endif
