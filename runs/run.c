/* See run.h: the folders and locks of runs, creating and deleting runs; run_find.c reads them. A trainer
 * holds a flock on its run's lock file until it ends. */
#include "runs/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/ini.h"
#include "core/base/mount.h"
#include "core/base/text.h"
#include "runs/annotation.h"
#include "runs/table.h"

/* ---- folder and lock ---- */

void run_folder(struct store *store, const char *id, char *buf, size_t size)
{
    snprintf(buf, size, "%s/runs/%s", store_home(store), id);
}

enum status run_path(struct store *store, const char *id, const char *name, char path[PATH_MAX],
                     struct err *err)
{
    return file_format_path(path, PATH_MAX, err, "%s/runs/%s/%s", store_home(store), id, name);
}

enum { HOLDER_SIZE = 128 };

/* Reads who took the run's lock last; *pid is 0 and `host` "" where the file does not say. */
static void read_lock_file(const char *path, long *pid, char host[65])
{
    char text[HOLDER_SIZE] = "";
    *pid = 0;
    *host = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return;
    if (pread(fd, text, sizeof text - 1, 0) > 0) sscanf(text, "%ld %64[A-Za-z0-9._-]", pid, host);
    close(fd);
}

/* Takes the lock and writes our pid and host into its file. */
static enum status take_lock(int fd, const char *path, const char *id, struct err *err)
{
    char holder[HOLDER_SIZE], host[65] = "";
    long pid;
    int tries = 250; /* run_is_alive also holds the lock for a moment, so one failed attempt proves nothing */
    bool locked;
    while (!(locked = flock(fd, LOCK_EX | LOCK_NB) == 0) && errno == EWOULDBLOCK && --tries > 0)
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    if (!locked && tries == 0) {
        read_lock_file(path, &pid, host);
        return err_set(err, STATUS_BUSY,
                       "run %s: another trainer (process %ld%s%s) is training it (stop it with `%s order %s "
                       "stop`, or wait)",
                       id, pid, *host ? " on " : "", host, TEXT_PROGRAM, id);
    }
    gethostname(host, sizeof host - 1);
    int n = snprintf(holder, sizeof holder, "%ld %s\n", (long)getpid(), host);
    if (locked && ftruncate(fd, 0) == 0 && pwrite(fd, holder, (size_t)n, 0) == n) return STATUS_OK;
    return err_set(err, STATUS_IO, "%s: cannot lock or write: %s", path, strerror(errno));
}

enum status run_lock_acquire(struct store *store, const char *id, struct run_lock *out, struct err *err)
{
    char path[PATH_MAX], folder[PATH_MAX];
    out->fd = -1;
    run_folder(store, id, folder, sizeof folder);
    enum status status = run_path(store, id, "lock", path, err);
    if (!status) status = file_make_folders(folder, err);
    if (status) return status;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return err_set(err, STATUS_IO, "%s: cannot open: %s (set ANNEAL_HOME to a folder you may write to)",
                       path, strerror(errno));
    status = take_lock(fd, path, id, err);
    if (status)
        close(fd);
    else
        out->fd = fd;
    return status;
}

enum status run_lock_check(struct store *store, const char *id, const struct run_lock *lock, struct err *err)
{
    char path[PATH_MAX];
    struct stat ours, there;
    enum status status = run_path(store, id, "lock", path, err);
    if (status || fstat(lock->fd, &ours) != 0) return status;
    bool found = stat(path, &there) == 0;
    if (!found && errno != ENOENT && errno != ENOTDIR) return STATUS_OK; /* a passing fault of the disk */
    if (found && there.st_dev == ours.st_dev && there.st_ino == ours.st_ino) return STATUS_OK;
    return err_set(err, STATUS_FAILED,
                   "run %s: its folder %s/runs/%s was removed or moved while it was training (stop a run "
                   "before you delete or move it: %s order %s stop)",
                   id, store_home(store), id, TEXT_PROGRAM, id);
}

void run_lock_release(struct run_lock *lock)
{
    if (lock->fd >= 0) close(lock->fd);
    lock->fd = -1;
}

bool run_is_alive(struct store *store, const char *id)
{
    char path[PATH_MAX];
    if (run_path(store, id, "lock", path, NULL)) return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return false;
    bool alive = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(fd);
    return alive;
}

bool run_may_train(struct store *store, const char *id)
{
    char path[PATH_MAX], holder[65], host[65] = "";
    struct mount mount;
    long pid;
    if (run_is_alive(store, id)) return true;
    if (run_path(store, id, "lock", path, NULL)) return false;
    mount_of(path, &mount);
    if (mount.locks) return false;
    read_lock_file(path, &pid, holder);
    gethostname(host, sizeof host - 1);
    return *holder && strcmp(holder, host) != 0;
}

bool run_is_suspended(struct store *store, const char *id)
{
    char path[PATH_MAX], holder[65], host[65] = "", state = '\0';
    long pid;
    if (run_path(store, id, "lock", path, NULL)) return false;
    read_lock_file(path, &pid, holder);
    gethostname(host, sizeof host - 1);
    if (pid <= 0 || strcmp(holder, host) != 0) return false;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = '\0'; /* our own name has no parenthesis */
    fclose(file);
    return state == 'T';
}

const char *run_status_word(const struct run_info *run)
{
    return run->suspended ? "suspended" : status_words[run->status];
}

double run_progress(const struct run_info *run)
{
    if (run->total_steps <= 0) return NAN;
    return fmin(fmax((double)run->steps / (double)run->total_steps, 0), 1);
}

/* ---- creating ---- */

static enum status add_params(struct store *store, const char *id, const char *config, struct err *err)
{
    char name[160], *copy = config ? strdup(config) : NULL;
    struct ini ini = {.rest = copy, .exact = true};
    enum status status = config && !copy ? err_no_memory(err, "the settings of run %s", id) : STATUS_OK;
    for (enum ini_line line; !status && (line = ini_next(&ini));) {
        if (line == INI_BAD) continue;
        struct run_param param = {name, ini.value};
        snprintf(name, sizeof name, "%s%s%s", ini.section, *ini.section ? "." : "", ini.key);
        status = table_add(store, TABLE_PARAMS, id, 0, &param, err);
    }
    free(copy);
    return status;
}

/* Creates runs/<id> for the first free id: <stem>, <stem>-2, <stem>-3, … Called in the transaction that adds
 * the row, so an empty folder without a row was left by a process that was killed here and may be used. */
static enum status claim_folder(struct store *store, const char *stem, char id[RUN_ID_MAX], struct err *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/runs", store_home(store));
    int most = (int)utf8_cut(stem, strnlen(stem, 80));
    enum status status = file_make_folders(path, err);
    for (int attempt = 1; !status && attempt < 10000; attempt++) {
        int64_t taken;
        if (attempt == 1)
            snprintf(id, RUN_ID_MAX, "%s", stem);
        else
            snprintf(id, RUN_ID_MAX, "%.*s-%d", most, stem, attempt);
        status = store_number(store, &taken, 0, err, "select count(*) from runs where id = ?1", "s", id);
        if (status || taken) continue;
        run_folder(store, id, path, sizeof path);
        if (mkdir(path, 0777) == 0 || (errno == EEXIST && rmdir(path) == 0 && mkdir(path, 0777) == 0)) {
            file_sync_folder_of(path); /* a power cut leaves no row without a folder */
            return STATUS_OK;
        }
        if (errno == ENOTEMPTY || errno == ENOTDIR) continue;
        if (errno != EEXIST)
            return err_set(err, STATUS_IO, "%s: cannot create the folder: %s", path, strerror(errno));
    }
    if (status) return status;
    return err_set(err, STATUS_FAILED, "run %s: too many runs have this name (choose another --name)", stem);
}

enum status run_insert(struct store *store, const struct run_new *run, const char *id, double created_at,
                       struct err *err)
{
    char name[RUN_NAME_CLEAN_MAX];
    const char *parent = run->parent_id;
    run_name_clean(run->name, name, sizeof name);
    enum status status = store_do(
        store, err,
        "insert into runs(id, name, status, created_at, device, precision, parameters, steps, tokens,"
        " total_steps, config, parent_id, parent_step, frozen_parameters)"
        " values(?1, ?2, 'created', ?3, ?4, ?5, case when ?6 >= 0 then ?6 end, ?10, 0, ?7, ?8, ?9, case when "
        "?9 is not null then ?10 end, ?11)",
        "ssdssiissii", id, name, created_at, run->device ? run->device : "",
        run->precision ? run->precision : "", run->parameters, run->total_steps,
        run->config ? run->config : "", parent, parent ? run->parent_step : 0, run->frozen_parameters);
    if (!status) status = add_params(store, id, run->config, err);
    return status || !run->tags ? status : run_add_tags(store, id, run->tags, err);
}

enum status run_begin(struct store *store, const struct run_new *run, double created_at, const char *stem,
                      char id[RUN_ID_MAX], struct err *err)
{
    char name[RUN_NAME_CLEAN_MAX], made[RUN_ID_MAX], time_text[24];
    time_t seconds = (time_t)created_at;
    struct tm local;
    id[0] = '\0';
    run_name_clean(run->name, name, sizeof name);
    if (run_name_check(name, err)) return STATUS_USAGE;
    if (!localtime_r(&seconds, &local) || !strftime(time_text, sizeof time_text, "%Y%m%d-%H%M%S", &local))
        return err_set(err, STATUS_FAILED, "run %s: its time %.3g is not a valid time", name, created_at);
    snprintf(made, sizeof made, "%s-%s", time_text, name);
    enum status status = store_begin(store, err);
    if (!status) status = claim_folder(store, stem ? stem : made, id, err);
    if (status)
        id[0] = '\0'; /* we have not created a folder */
    else
        status = run_insert(store, run, id, created_at, err);
    if (status) run_abandon(store, id);
    return status;
}

void run_abandon(struct store *store, const char *id)
{
    char folder[PATH_MAX];
    store_rollback(store);
    if (!*id) return;
    run_folder(store, id, folder, sizeof folder);
    file_remove_tree(folder, NULL);
}

enum status run_create(struct store *store, const struct run_new *run, char id[RUN_ID_MAX], struct err *err)
{
    char own[RUN_ID_MAX];
    enum status status = run_begin(store, run, clock_wall(), NULL, own, err);
    if (status) return status;
    status = store_commit(store, err);
    if (status)
        run_abandon(store, own);
    else
        memcpy(id, own, sizeof own);
    return status;
}

enum status run_reconfigure(struct store *store, const char *id, int64_t total_steps, const char *config,
                            struct err *err)
{
    enum status status = store_begin(store, err);
    if (!status)
        status = store_do(store, err, "update runs set total_steps = ?2, config = ?3 where id = ?1", "sis",
                          id, total_steps, config);
    if (!status) status = add_params(store, id, config, err);
    return store_end(store, status, err);
}

enum status run_add_inference(struct store *store, const char *id, const struct inference_record *record,
                              struct err *err)
{
    enum status status = store_begin(store, err);
    if (!status) status = table_add(store, TABLE_INFERENCE, id, 0, record, err);
    return store_end(store, status, err);
}

enum status run_record_loss(struct store *store, const char *id, const char *sentence, struct err *err)
{
    int64_t segment, steps;
    enum status status = store_begin(store, err);
    if (!status) status = run_exists(store, id, err);
    if (!status)
        status = store_number(store, &segment, -1, err, "select segment from runs where id = ?1", "s", id);
    if (!status)
        status = store_number(store, &steps, -1, err, "select steps from runs where id = ?1", "s", id);
    if (!status) {
        struct event_record event = {steps, clock_wall(), "error", sentence, false};
        status = table_add(store, TABLE_EVENTS, id, (int)segment, &event, err);
    }
    if (!status)
        status = store_do(store, err, "update runs set message = ?2 where id = ?1", "ss", id, sentence);
    return store_end(store, status, err);
}

int64_t run_process(void)
{
    int64_t starter;
    const char *set = getenv(RUN_STARTER);
    return set && text_parse_int(set, &starter) ? starter : getpid();
}

/* ---- deleting ---- */

/* Deletes up to DELETED_AT_ONCE rows of the run and, with the last of them, the run. */
static enum status delete_some(struct store *store, const char *id, bool *all, struct err *err)
{
    enum { DELETED_AT_ONCE = 20000 };
    int64_t left = DELETED_AT_ONCE;
    char sql[256];
    enum status status = store_begin(store, err);
    for (int t = 0; !status && left > 0 && t < TABLE_COUNT; t++) {
        const char *name = store_tables[t].name, *order = store_tables[t].order;
        if (t == TABLE_RUNS) continue;
        snprintf(
            sql, sizeof sql,
            "delete from %s where run_id = ?1 and (%s) in (select %s from %s where run_id = ?1 limit ?2)",
            name, order, order, name);
        status = store_do(store, err, sql, "si", id, left);
        left -= sqlite3_changes(store->db);
    }
    *all = left > 0;
    if (!status && *all) status = store_do(store, err, "delete from runs where id = ?1", "s", id);
    return store_end(store, status, err);
}

/* For whoever finds the run after this process was killed. */
static enum status mark_deletion(struct store *store, const char *id, struct err *err)
{
    enum status status = store_begin(store, err);
    if (!status)
        status =
            store_do(store, err,
                     "update runs set message = '" RUN_DELETION ": delete it again' where id = ?1", "s", id);
    return store_end(store, status, err);
}

bool run_is_half_deleted(struct store *store, const struct run_info *run)
{
    char checkpoints[PATH_MAX], going[PATH_MAX];
    if (strncmp(run->message, RUN_DELETION, strlen(RUN_DELETION)) == 0) return true;
    return !run_path(store, run->id, RUN_CHECKPOINTS_GOING, going, NULL) && file_is_folder(going) &&
           !run_path(store, run->id, "checkpoints", checkpoints, NULL) && !file_exists(checkpoints);
}

/* Removes what is in the run's folder but the lock, which keeps trainers away as long as there is a row.
 * Begins with the checkpoints, all under another name first: whoever is killed here leaves no half of one. */
static enum status empty_folder(const char *folder, struct err *err)
{
    char path[PATH_MAX];
    enum status status = file_format_path(path, sizeof path, err, "%s/checkpoints", folder);
    if (!status && file_exists(path)) status = file_remove_whole(path, err);
    if (status) return status;
    DIR *entries = opendir(folder);
    if (!entries) return err_set(err, STATUS_IO, "%s: cannot read: %s", folder, strerror(errno));
    for (struct dirent *entry; !status && (entry = readdir(entries));) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, "lock") == 0) continue;
        status = file_format_path(path, sizeof path, err, "%s/%s", folder, name);
        if (!status) status = file_remove_tree(path, err);
    }
    closedir(entries);
    return status;
}

enum status run_delete(struct store *store, const char *id, struct err *err)
{
    char folder[PATH_MAX];
    bool all = false;
    struct run_lock lock;
    struct err why;
    enum status status = run_exists(store, id, err);
    if (status) return status;
    if (strchr(id, '/'))
        return err_set(err, STATUS_CORRUPT, "run %s: an id must not contain '/' (a damaged database?)", id);
    status = run_lock_acquire(store, id, &lock, err);
    if (status) return status;
    run_folder(store, id, folder, sizeof folder);
    status = mark_deletion(store, id, &why);
    bool full = status == STATUS_IO && why.system == ENOSPC; /* the files make room for the mark */
    if (status && !full)
        err_set(err, status, "%s", why.text);
    else
        status = empty_folder(folder, err);
    if (!status && full) status = mark_deletion(store, id, err);
    double began = clock_monotonic();
    while (!status && !all) {
        status = delete_some(store, id, &all, err);
        if (!status && !all) store_give_way(&began);
    }
    if (!status && (status = file_remove_tree(folder, err)))
        status = err_prefix(err, "run %s is deleted, but not its empty folder", id);
    run_lock_release(&lock);
    return status;
}

/* Notes in the rows of a checkpoint, or of one that was set aside, that it was deleted and is not lost. Best
 * effort: a locked database keeps no file. */
static void note_removal(struct store *store, const char *id, const char *folder, const char *name)
{
    char path[PATH_MAX];
    int n = (int)strcspn(name, ".");
    if (name[n] &&
        (file_format_path(path, sizeof path, NULL, "%s/%.*s", folder, n, name) || file_exists(path)))
        return; /* a checkpoint of this step is there again */
    snprintf(path, sizeof path, "%.*s", n, name);
    if (store_begin(store, NULL)) return;
    enum status status = store_do(
        store, NULL, "update or replace checkpoints set kind = 'deleted' where run_id = ?1 and path = ?2",
        "ss", id, path);
    (void)store_end(store, status, NULL);
}

enum status run_remove(struct store *store, const char *id, const char *name, struct err *err)
{
    char folder[PATH_MAX], path[PATH_MAX];
    struct run_lock lock;
    run_folder(store, id, folder, sizeof folder);
    enum status status = file_format_path(path, sizeof path, err, "%s/%s", folder, name);
    if (!status && run_may_train(store, id) && !run_is_alive(store, id))
        return err_set(err, STATUS_BUSY,
                       "run %s: another host may train it, whose locks this one does not see", id);
    if (!status) status = run_lock_acquire(store, id, &lock, err);
    if (status) return status;
    note_removal(store, id, folder, name);
    status = file_remove_whole(path, err);
    run_lock_release(&lock);
    return status;
}
