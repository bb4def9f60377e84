/* See import_turns.h. */
#include "runs/exchange/import_turns.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"

enum status import_lock(struct store *store, int *fd, struct err *err)
{
    char folder[PATH_MAX - 16], path[PATH_MAX];
    *fd = -1;
    enum status status = file_format_path(folder, sizeof folder, err, "%s/runs", store_home(store));
    if (!status) status = file_make_folders(folder, err);
    if (status) return status;
    snprintf(path, sizeof path, "%s/.importing", folder);
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*fd >= 0) (void)TEMP_FAILURE_RETRY(flock(*fd, LOCK_EX));
    return STATUS_OK;
}

enum status import_remove_incomplete(struct import_turns *turns, const char *message)
{
    sqlite3_stmt *select;
    char id[RUN_ID_MAX] = "";
    for (;;) {
        enum status status =
            store_query(turns->store, &select, turns->err,
                        "select id from runs where status = 'created' and message = ?1 and id > ?2"
                        " order by id limit 1",
                        "ss", message, id);
        if (!store_next(turns->store, select, &status, turns->err)) return status;
        store_column_text(select, 0, id, sizeof id);
        sqlite3_reset(select);
        (void)run_delete(turns->store, id, NULL);
    }
}

enum status import_begin_run(struct import_turns *turns, const struct run_new *run, double start,
                             const char *stem, const char *message, char id[RUN_ID_MAX],
                             struct run_lock *lock)
{
    enum status status = run_begin(turns->store, run, start, stem, id, turns->err);
    if (status) return status;
    status =
        store_do(turns->store, turns->err, "update runs set message = ?2 where id = ?1", "ss", id, message);
    if (!status) status = run_lock_acquire(turns->store, id, lock, turns->err);
    if (!status) status = store_commit(turns->store, turns->err);
    if (!status) return STATUS_OK;
    run_lock_release(lock);
    run_abandon(turns->store, id);
    return status;
}

enum status import_first_turn(struct import_turns *turns)
{
    turns->began = clock_monotonic();
    return store_begin(turns->store, turns->err);
}

enum status import_next_turn(struct import_turns *turns)
{
    enum status status = store_commit(turns->store, turns->err);
    if (!status) store_give_way(&turns->began);
    return status ? status : store_begin(turns->store, turns->err);
}
