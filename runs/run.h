/* Runs: creating, finding, listing, their state and liveness. */
#ifndef ANNEAL_RUNS_RUN_H
#define ANNEAL_RUNS_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/accumulation.h"
#include "core/base/arena.h"
#include "core/base/file.h"
#include "core/base/json_out.h"
#include "core/base/record.h"
#include "runs/store.h"

enum run_status {
    RUN_CREATED,
    RUN_RUNNING,
    RUN_PAUSED,
    RUN_FINISHED,
    RUN_EARLY_STOPPED,
    RUN_STOPPED,
    RUN_FAILED,
    RUN_CRASHED, /* never stored: a running or paused run whose lock no process holds */
};
extern const char *const status_words[]; /* "running", … as in the CSV, NULL */

/* Whether a trainer lives and accepts orders. */
static inline bool status_is_live(enum run_status status)
{
    return status == RUN_RUNNING || status == RUN_PAUSED;
}

enum { RUN_ID_MAX = 96, RUN_NAME_MAX = 72, RUN_DEVICE_MAX = 96, RUN_NOTE_MAX = 256, RUN_TAGS_MAX = 256 };
enum { RUN_NAME_CLEAN_MAX = RUN_NAME_MAX - 8 /* bytes of a name and its NUL */ };

/* One row of `runs`; `status` includes whether the run has crashed. Absent numbers: NaN for doubles, -1 for
 * steps. */
struct run_info {
    char id[RUN_ID_MAX];
    char name[RUN_NAME_MAX];
    enum run_status status;
    double created_at, ended_at; /* Unix seconds; ended_at NaN while it runs */
    double elapsed; /* seconds that its trainers ran, for a live one until its heartbeat; the time between a
                       trainer's end and a resume does not count; never NaN */
    char device[RUN_DEVICE_MAX]; /* "cpu", "cuda:0" */
    char precision[16];
    int64_t parameters;
    int64_t steps, total_steps; /* done, planned */
    int64_t tokens;
    double final_loss;  /* loss of the newest step */
    bool loss_recorded; /* false: final_loss is NaN because no loss was recorded, as in an import */
    double best_val_loss;
    int64_t best_step;          /* of the best evaluation: by best_metric if it has one */
    double tokens_per_sec;      /* recent */
    double step_tokens;         /* tokens of its trainer's newest step; NaN: it has none */
    int segment;                /* the newest */
    int64_t pid;                /* process of the newest trainer */
    double heartbeat;           /* Unix seconds of its last sign of life */
    char message[256];          /* why it failed or stopped; "" otherwise */
    char parent_id[RUN_ID_MAX]; /* of a fork: the run it started from; "" otherwise */
    int64_t parent_step;        /* and the step of the checkpoint, where it starts */
    int64_t frozen_parameters;  /* those that are not trained */
    int64_t trained_parameters; /* the others */
    char note[RUN_NOTE_MAX];    /* by the user; "": none */
    char best_metric[64];       /* a measure that the best checkpoint follows; "": the loss */
    double best_value;          /* its best value */
    char tags[RUN_TAGS_MAX];    /* in the order of the alphabet, with blanks between; "": none */
    char accumulation_plan[ACCUMULATION_PLAN_MAX]; /* train.accumulation_plan; "": the batch does not grow */
    bool suspended; /* a signal has stopped its trainer, as Ctrl-Z does; false also where it runs elsewhere */
};

/* The word for the status in a table: "suspended" if the trainer is, else that of status_words, which the
 * store, JSON, CSV and filters have in any case. */
const char *run_status_word(const struct run_info *run);

/* The steps that are done, as a part of those planned: 0 to 1; NaN: not known. */
double run_progress(const struct run_info *run);

/* The description of a new run. */
struct run_new {
    const char *name;   /* NULL or "": made from the preset or corpus, "shakespeare"; checked and cleaned */
    const char *device; /* short name */
    const char *precision;
    int64_t parameters, total_steps;
    int64_t frozen_parameters; /* how many of them are not trained */
    const char *config;        /* the complete effective configuration as INI text */
    const char *parent_id;     /* of a fork, see struct run_info; NULL: none */
    int64_t parent_step;
    const char *tags; /* with blanks or commas between; NULL: none */
};

/* How run_name_clean changes a name: printf's format of RUN_NAME_CLEAN_MAX - 1. */
#define RUN_NAME_RULE "a name consists of letters, digits, _, . and hyphens, at most %d bytes"

/* Makes a valid run name from `name`, in a buffer of RUN_NAME_CLEAN_MAX bytes: other characters in a row than
 * letters, digits and marks of any script, emoji, _ and . become one hyphen; characters are composed
 * (Unicode's NFC). If nothing is left, it is "run" and the result false. */
bool run_name_clean(const char *name, char *buf, size_t size);

/* Whether a run may have this name. */
enum status run_name_check(const char *name, struct err *err);

/* Makes the row and the folder with status `created`; writes the id (YYYYMMDD-HHMMSS-<name>, made unique).
 * STATUS_USAGE for the name "latest", which has another meaning in run_find. */
enum status run_create(struct store *store, const struct run_new *run, char id[RUN_ID_MAX], struct err *err);

/* The same for a run with a history: begins a write transaction of the store and creates row and folder in
 * it. The caller commits, or calls run_abandon, which rolls back and removes the folder (`id` "": there is
 * none). The id is `stem` (NULL: made from the time and the name), with -2, -3, … if it is in use. On failure
 * nothing is left. Parameters below 0 are absent. */
enum status run_begin(struct store *store, const struct run_new *run, double created_at, const char *stem,
                      char id[RUN_ID_MAX], struct err *err);
void run_abandon(struct store *store, const char *id);

/* Adds the row of a run whose folder exists; call it in a write transaction. */
enum status run_insert(struct store *store, const struct run_new *run, const char *id, double created_at,
                       struct err *err);

/* The run with exactly this id; STATUS_NOT_FOUND. */
enum status run_get(struct store *store, const char *id, struct run_info *out, struct err *err);

/* RUN as a user types it: an id, a unique prefix of one, a name (the newest of that name), an id without its
 * date ("twin-2", the newest), or "latest".
 * Errors: STATUS_NOT_FOUND (suggests the nearest), STATUS_USAGE when a prefix fits several (names them). */
enum status run_find(struct store *store, const char *word, struct run_info *out, struct err *err);
/* Says of a store that has no run what to do: start one or, where the database has lost them, repair it. */
void run_none_words(struct store *store, char *buf, size_t size);
/* The newest run of exactly this name; STATUS_NOT_FOUND: none has it. */
enum status run_find_named(struct store *store, const char *name, struct run_info *out, struct err *err);

/* Whether it is what a killed import has left: its message begins so. */
#define RUN_PARTIAL "incomplete: "
bool run_is_partial(const struct run_info *run);

/* Whether its history was read from files, which have no checkpoints: its message begins so. */
#define RUN_FROM_FILES "imported from "
bool run_is_imported(const struct run_info *run);

/* Whether it is what a killed run_delete has left: its message begins so or, where a full disk had no room
 * for that, its checkpoints are going. Training it again clears both. */
#define RUN_DELETION          "deleting it was interrupted"
#define RUN_CHECKPOINTS_GOING "checkpoints" FILE_GOING
bool run_is_half_deleted(struct store *store, const struct run_info *run);

/* Finds the run of each word, as an array in `arena`; STATUS_USAGE if two words name the same run. */
enum status run_find_all(struct store *store, const char *const *words, size_t count, struct arena *arena,
                         struct run_info **out, struct err *err);

/* All runs, newest first, as an array in `arena`. */
enum status run_list(struct store *store, struct arena *arena, struct run_info **out, size_t *count,
                     struct err *err);
/* Likewise those that train or are paused, and those whose trainer has died. */
enum status run_list_begun(struct store *store, struct arena *arena, struct run_info **out, size_t *count,
                           struct err *err);

/* The stored configuration (INI text), yours to free. */
enum status run_config(struct store *store, const char *id, char **out, struct err *err);

/* One key of that configuration and its value as written: "train.learning_rate", "3e-4". */
struct run_param {
    const char *name, *value;
};
/* Lists them in the order of their names; texts and array in `arena`. An unknown run has none. */
enum status run_params_list(struct store *store, const char *run_id, struct arena *arena,
                            struct run_param **out, size_t *count, struct err *err);
/* Writes a setting as a member: "16" as a number, "true" as a boolean, other values as a text, NULL as
 * null. */
void run_param_json(struct json_out *out, const char *name, const char *value);
/* The length of the section of a key: all before its last dot. */
size_t run_param_section(const struct run_param *param);
/* Writes all settings as one object, with one object per section. */
void run_params_json(struct json_out *out, const char *name, const struct run_param *params, size_t count);

/* The value of `name` among `count` in the order of run_params_list, or NULL. */
const char *run_params_get(const struct run_param *params, size_t count, const char *name);

/* Replaces a run's configuration and number of steps, when it is resumed with other settings. The caller must
 * hold the run's lock. */
enum status run_reconfigure(struct store *store, const char *id, int64_t total_steps, const char *config,
                            struct err *err);

/* $ANNEAL_HOME/runs/<id> */
void run_folder(struct store *store, const char *id, char *buf, size_t size);
/* $ANNEAL_HOME/runs/<id>/NAME; STATUS_USAGE if it is too long. */
enum status run_path(struct store *store, const char *id, const char *name, char path[PATH_MAX],
                     struct err *err);

/* Adds a text that `anneal generate` wrote with a checkpoint of the run. */
enum status run_add_inference(struct store *store, const char *id, const struct inference_record *record,
                              struct err *err);

/* Records why a run that is about to crash does so: as its message, and as the last event of its newest
 * segment. For any process of the run, also while its trainer still writes. */
enum status run_record_loss(struct store *store, const char *id, const char *sentence, struct err *err);

/* The process that a run of this process is recorded with: this one or, among several ranks, the one that has
 * started them and set this variable of the environment. It takes signals for the run. */
#define RUN_STARTER "ANNEAL_STARTER"
int64_t run_process(void);

/* Deletes files, history and row, in this order, so that no folder is left without a run, from which a repair
 * would make the run again. The checkpoints go first, together. STATUS_BUSY while a trainer holds the run. A
 * long history goes in several transactions, between which others write. A failure, or the end of this
 * process, leaves the run with the rest and a message that says so, for which a full disk has room only
 * behind the files. */
enum status run_delete(struct store *store, const char *id, struct err *err);

/* Removes a file or folder in the run's folder, "checkpoints/step-40", as file_remove_whole does. The rows of
 * a checkpoint stay, with the kind "deleted". STATUS_BUSY where run_may_train. */
enum status run_remove(struct store *store, const char *id, const char *name, struct err *err);

/* --- liveness: a trainer holds a flock on runs/<id>/lock; the kernel releases it when the trainer ends
 * --- */
struct run_lock {
    int fd;
};
/* STATUS_BUSY, naming the pid, when another trainer holds the run. */
enum status run_lock_acquire(struct store *store, const char *id, struct run_lock *out, struct err *err);
/* STATUS_FAILED when the lock file was removed, moved or replaced: the lock then keeps no other trainer out.
 */
enum status run_lock_check(struct store *store, const char *id, const struct run_lock *lock, struct err *err);
void run_lock_release(struct run_lock *lock);
bool run_is_alive(struct store *store, const char *id);
/* Whether the process that holds the run is one of this host and was stopped by a signal (SIGSTOP, SIGTSTP).
 */
bool run_is_suspended(struct store *store, const char *id);
/* Whether a trainer holds the run, or may do so: where other hosts do not see the locks of this one, also if
 * its lock's file names another host. */
bool run_may_train(struct store *store, const char *id);

#endif
