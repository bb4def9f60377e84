/* See doctor.h. */
#include "tui/command/doctor.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/checkpoint/checkpoint.h"
#include "runs/history.h"
#include "runs/recovery.h"

enum { RANGES_SHOWN = 3, REMEDY_MAX = 1400 /* the program's path twice */ };

/* ---- checkpoints ---- */

/* Writes the remedy for a damaged checkpoint; `whole`: the newest step that is whole, -1: none. */
static void advise(const char *run, int64_t whole, bool aside, char remedy[REMEDY_MAX])
{
    const char *program = TEXT_PROGRAM;
    if (whole < 0)
        snprintf(remedy, REMEDY_MAX, "no checkpoint of the run is whole: train it again");
    else
        snprintf(remedy, REMEDY_MAX, "`%s resume %s` continues from step-%" PRId64, program, run, whole);
    if (!aside) text_add(remedy, REMEDY_MAX, "; ", "`%s doctor --repair` sets this one aside", program);
}

/* Reports a checkpoint that could not be read as it was written, and with --repair renames it. */
static void report_damage(struct doctor *d, const char *run, const char *folder, int64_t whole,
                          const struct err *why)
{
    char remedy[REMEDY_MAX], target[PATH_MAX] = "";
    struct run_lock lock = {-1};
    struct stat found;
    if (lstat(folder, &found) != 0) return; /* its trainer has removed it meanwhile */
    if (S_ISLNK(found.st_mode) && !file_exists(folder)) {
        (void)!readlink(folder, target, sizeof target - 1);
        doctor_report(d, PROBLEM, run, folder, "mount or restore that folder",
                      "leads to %s, which is not there", target);
        return;
    }
    if (why->status != STATUS_CORRUPT && why->status != STATUS_NOT_FOUND) {
        doctor_report_error(d, PROBLEM, run, folder, "", why);
        return;
    }
    bool aside = d->repair && d->store && S_ISDIR(found.st_mode) && !run_may_train(d->store, run) &&
                 !run_lock_acquire(d->store, run, &lock, NULL) &&
                 checkpoint_verify(folder, NULL, NULL) && /* still: a trainer may have come between */
                 checkpoint_set_aside(folder);
    run_lock_release(&lock);
    advise(run, whole, aside, remedy);
    /* without a whole one the run is lost, whatever its folders are called */
    doctor_report_error(d, aside && whole >= 0 ? REPAIRED : PROBLEM, run, folder, remedy, why);
}

/* Reads all checkpoints of a run; *newest: the step of the newest folder, -1: there is none. */
static enum status check_checkpoints(struct doctor *d, const char *run, int64_t *newest, size_t *count,
                                     struct err *err)
{
    char parent[PATH_MAX], folder[PATH_MAX + 64];
    struct train_state state;
    struct err other;
    int64_t whole = -1;
    enum status status = file_format_path(parent, sizeof parent, err, "%s/runs/%s/checkpoints", d->home, run);
    if (status) return status;
    int64_t *steps = checkpoint_steps(parent, count);
    struct err *why = calloc(*count + 1, sizeof *why);
    if (!why) status = err_no_memory(err, "the checkpoints of %s", run);
    for (size_t i = 0; !status && i < *count; i++) {
        snprintf(folder, sizeof folder, "%s/step-%" PRId64, parent, steps[i]);
        why[i].status = checkpoint_verify(folder, &d->meter, &why[i]);
        if (why[i].status == STATUS_INTERRUPTED) status = err_set(err, STATUS_INTERRUPTED, "%s", "");
        if (!why[i].status && whole < 0) whole = steps[i];
        d->checkpoints++;
    }
    for (size_t i = 0; !status && i < *count; i++) {
        snprintf(folder, sizeof folder, "%s/step-%" PRId64, parent, steps[i]);
        if (why[i].status)
            report_damage(d, run, folder, whole, &why[i]);
        else if (checkpoint_load_state(folder, &state, &other) ==
                 STATUS_CORRUPT) /* whole, under a wrong name */
            doctor_report_error(d, PROBLEM, run, folder, "", &other);
    }
    *newest = *count ? steps[0] : -1;
    free(why);
    free(steps);
    return status;
}

/* Whether the folder is there, by its name or set aside. */
static bool is_there(const char *folder)
{
    static const char *const endings[] = {"", ".damaged", ".suspect"};
    char path[PATH_MAX + 80];
    struct stat found;
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s%s", folder, endings[i]);
        if (lstat(path, &found) == 0) return true;
    }
    return false;
}

/* Compares what is recorded with what is there. A trainer removes older checkpoints, but not the newest, nor
 * the best. Checkpoints without a row are what a killed trainer leaves. */
static enum status check_rows(struct doctor *d, const struct run_info *info, struct err *err)
{
    const char *run = info->id;
    struct checkpoint_record *rows = NULL;
    int64_t *steps = NULL, listed;
    size_t count = 0, steps_count = 0;
    char parent[PATH_MAX], folder[PATH_MAX + 64], remedy[300];
    enum status status = file_format_path(parent, sizeof parent, err, "%s/runs/%s/checkpoints", d->home, run);
    if (!status) status = run_checkpoints_read(d->store, run, &d->arena, &rows, &count, err);
    if (!status) steps = checkpoint_steps(parent, &steps_count);
    for (size_t i = 0; !status && i < count; i++) {
        bool best = rows[i].step == info->best_step && strcmp(rows[i].kind, "best") == 0,
             newer = steps && steps[0] > rows[i].step; /* killed before it was listed */
        if (strcmp(rows[i].kind, "deleted") == 0)
            continue; /* before the newest one the trainer has removed some */
        if (!i && !best && newer) continue;
        snprintf(folder, sizeof folder, "%s/step-%" PRId64, parent, rows[i].step);
        if ((i && (!best || rows[i].step == rows[i - 1].step)) || is_there(folder)) continue;
        doctor_report(d, PROBLEM, run, folder, "restore it from a copy, if there is one",
                      "the %s checkpoint of the run is missing, and anneal has not removed it",
                      best ? "best" : "newest");
    }
    snprintf(remedy, sizeof remedy, "`%s doctor --repair` lists it", TEXT_PROGRAM);
    for (size_t i = 0; !status && i < steps_count; i++) {
        status = run_lists_checkpoint(d->store, run, steps[i], &listed, err);
        snprintf(folder, sizeof folder, "%s/step-%" PRId64, parent, steps[i]);
        if (!status && !listed)
            doctor_report(d, NOTE, run, folder, remedy, "the database does not list this checkpoint");
    }
    free(steps);
    return status;
}

/* ---- a run ---- */

/* The records that wait in a run's folder; *waiting: how many. */
static enum status check_records(struct doctor *d, const char *run, const char *folder, int64_t *waiting,
                                 struct err *err)
{
    char path[PATH_MAX + 16], remedy[300];
    bool found;
    struct err why = {0};
    snprintf(path, sizeof path, "%s/records", folder);
    enum status status = recovery_look(d->store, run, &found, waiting, &why);
    if (status == STATUS_INTERRUPTED) return err_set(err, status, "%s", "");
    snprintf(remedy, sizeof remedy, "`%s doctor --repair` stores %s", TEXT_PROGRAM,
             status          ? "those before the damage and sets the file aside"
             : *waiting == 1 ? "it"
                             : "them");
    if (status)
        doctor_report_error(d, PROBLEM, run, folder, status == STATUS_CORRUPT ? remedy : "", &why);
    else if (*waiting)
        doctor_report(d, PROBLEM, run, path, remedy,
                      "%" PRId64 " record%s that the database lacks wait%s here", *waiting,
                      text_plural(*waiting), *waiting == 1 ? "s" : "");
    return STATUS_OK;
}

static enum status check_steps(struct doctor *d, const struct run_info *run, int64_t done, struct err *err)
{
    struct step_range *missing = NULL;
    size_t count = 0;
    char text[200] = "";
    enum status status = run_missing_steps(d->store, run, done, &d->arena, &missing, &count, err);
    for (size_t i = 0; !status && i < count && i < RANGES_SHOWN; i++)
        text_add(text, sizeof text, ", ", "%" PRId64 " to %" PRId64, missing[i].first, missing[i].last);
    if (count > RANGES_SHOWN) text_add(text, sizeof text, " ", "and %zu more gaps", count - RANGES_SHOWN);
    if (!status && count)
        doctor_report(d, PROBLEM, run->id, d->database,
                      "lost before they were stored, or removed since; the run can go on all the same",
                      "run %s: its history lacks the steps %s", run->id, text);
    return status;
}

/* Measures the folder of the run and how much of it can be removed. */
static enum status weigh(struct doctor *d, struct held *held, const char *folder, struct err *err)
{
    size_t first = d->cleaning.count;
    enum status status = cleaning_add_run(&d->cleaning, held->run, err);
    for (size_t i = first; !status && i < d->cleaning.count; i++) {
        const struct cleaning_item *item = &d->cleaning.items[i];
        held->removable += item->bytes;
        if (item->kind == CLEANING_DAMAGED) doctor_report_leftover(d, item);
    }
    held->bytes = file_tree_bytes(folder, NULL);
    return status;
}

enum status doctor_check_run(struct doctor *d, struct held *held, struct err *err)
{
    const struct run_info *run = held->run;
    char folder[PATH_MAX], records[PATH_MAX + 16], checkpoints[PATH_MAX + 16], remedy[RUN_ID_MAX + 600];
    int64_t newest = -1, waiting = 0;
    size_t count = 0;
    struct err why;
    if (strchr(run->id, '/') || *run->id == '.') {
        doctor_report(d, PROBLEM, run->id, d->database, "restore a copy of the database",
                      "has a run \"%s\", which cannot be the name of a folder", run->id);
        return STATUS_OK;
    }
    run_folder(d->store, run->id, folder, sizeof folder);
    snprintf(records, sizeof records, "%s/records", folder);
    bool trains = run_may_train(d->store, run->id);
    d->trains = d->trains || trains;
    if (!trains && run_is_half_deleted(d->store, run)) { /* its checkpoints were to be removed */
        snprintf(remedy, sizeof remedy, "`%s delete %s` deletes the rest", TEXT_PROGRAM, run->id);
        doctor_report(d, NOTE, run->id, folder, remedy, "deleting this run was interrupted");
        return weigh(d, held, folder, err);
    }
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", folder);
    if (checkpoint_look(checkpoints, &why)) { /* then what is missing there is not known, either */
        doctor_report_error(
            d, PROBLEM, run->id, checkpoints,
            why.system == ENOTDIR ? "restore the folder from a copy" : "change its permissions", &why);
        return STATUS_OK;
    }
    snprintf(remedy, sizeof remedy, "restore it from a copy, or: %s delete %s", TEXT_PROGRAM, run->id);
    if (!file_is_folder(folder))
        doctor_report(d, PROBLEM, run->id, folder, remedy,
                      "the folder of the run is missing, with its checkpoints");
    enum status status = check_checkpoints(d, run->id, &newest, &count, err);
    held->checkpoints = (int64_t)count;
    bool own = file_exists(records); /* else an import, perhaps without its checkpoints */
    if (!status && !trains && own) status = check_rows(d, run, err);
    if (!status && !trains) status = check_records(d, run->id, folder, &waiting, err);
    if (!status && !trains) status = check_steps(d, run, waiting ? -1 : newest, err);
    return status ? status : weigh(d, held, folder, err);
}

/* ---- folders that are no run's ---- */

/* How many entries a folder has; *bare: none but a lock and unfinished files. */
static size_t count_entries(const char *folder, bool *bare)
{
    struct dirent *entry;
    size_t count = 0;
    DIR *entries = opendir(folder);
    *bare = true;
    while (entries && (entry = readdir(entries))) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
        count++;
        if (strcmp(name, "lock") != 0 && !file_is_temporary(name)) *bare = false;
    }
    if (entries) closedir(entries);
    return count;
}

/* A folder of `runs` that the database does not know. One that is empty belongs to a run that is just being
 * made, or was when its process was killed: the next one may take it. */
static enum status check_orphan(struct doctor *d, const char *name, struct err *err)
{
    char folder[PATH_MAX], records[PATH_MAX + 16], remedy[600];
    int64_t newest;
    size_t count;
    bool bare;
    enum status status = file_format_path(folder, sizeof folder, err, "%s/runs/%s", d->home, name);
    if (status || !file_is_folder(folder) || !count_entries(folder, &bare)) return status;
    snprintf(records, sizeof records, "%s/records", folder);
    bool known = file_exists(records), lives = d->store && run_is_alive(d->store, name);
    d->trains = d->trains || lives;
    if (bare && !lives) {
        doctor_report(d, NOTE, name, folder, "remove it; nothing is lost with it",
                      "is left of a run that never began");
        return STATUS_OK;
    }
    if (known)
        snprintf(remedy, sizeof remedy, "%s`%s doctor --repair` makes the run again",
                 lives ? "it still trains; when it has ended, " : "", TEXT_PROGRAM);
    else
        snprintf(remedy, sizeof remedy, "it has no file of records to make the run again: move it away");
    if (d->store || !file_exists(d->database)) /* else nobody knows */
        doctor_report(d, PROBLEM, name, folder, remedy, "belongs to no run in the database");
    return check_checkpoints(d, name, &newest, &count, err);
}

enum status doctor_check_folders(struct doctor *d, struct err *err)
{
    char path[PATH_MAX];
    struct dirent **folders = NULL;
    struct run_info known;
    enum status status = file_format_path(path, sizeof path, err, "%s/runs", d->home);
    int n = status ? 0 : scandir(path, &folders, file_is_visible, alphasort);
    for (int i = 0; i < n; i++) {
        if (!status && (!d->store || run_get(d->store, folders[i]->d_name, &known, NULL) == STATUS_NOT_FOUND))
            status = check_orphan(d, folders[i]->d_name, err);
        free(folders[i]);
    }
    free(folders);
    return status;
}
