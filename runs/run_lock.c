/* Where a run lives, and whether: see run.h. A trainer holds a flock on its run's lock file for as long as it
 * lives. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "core/base/file.h"
#include "runs/run.h"

void run_folder(struct store *store, const char *id, char *buf, size_t size)
{
    snprintf(buf, size, "%s/runs/%s", store_home(store), id);
}

static enum status lock_path(struct store *store, const char *id, char *buf, size_t size, struct err *err)
{
    char folder[PATH_MAX];
    run_folder(store, id, folder, sizeof folder);
    if (snprintf(buf, size, "%s/lock", folder) >= (int)size)
        return err_set(err, STATUS_USAGE, "ANNEAL_HOME: the path is too long");
    return STATUS_OK;
}

enum status run_lock_acquire(struct store *store, const char *id, struct run_lock *out, struct err *err)
{
    char path[PATH_MAX], folder[PATH_MAX], pid[32] = "";
    out->fd = -1;
    run_folder(store, id, folder, sizeof folder);
    enum status status = lock_path(store, id, path, sizeof path, err);
    if (!status) status = file_make_folders(folder, err);
    if (status) return status;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return err_set(err, STATUS_IO, "%s: cannot open: %s%s", path, strerror(errno),
                       errno == EROFS ? " (set ANNEAL_HOME to a folder you may write to)" : "");
    /* run_is_alive holds the lock for a moment, so being refused once proves nothing */
    int result;
    for (int attempt = 0; (result = flock(fd, LOCK_EX | LOCK_NB)) != 0 && attempt < 250; attempt++)
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    if (result != 0) {
        ssize_t n = errno == EWOULDBLOCK ? pread(fd, pid, sizeof pid - 1, 0) : -1;
        if (n < 0)
            status = err_set(err, STATUS_IO, "%s: cannot lock: %s", path, strerror(errno));
        else
            status = err_set(
                err, STATUS_BUSY,
                "run %s: another trainer (process %ld) is at work on it (stop it with `anneal order %s "
                "stop`, or wait)",
                id, strtol(pid, NULL, 10), id);
        close(fd);
        return status;
    }
    int n = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, pid, (size_t)n, 0) != n) {
        status = err_set(err, STATUS_IO, "%s: cannot write: %s", path, strerror(errno));
        close(fd);
        return status;
    }
    out->fd = fd;
    return STATUS_OK;
}

void run_lock_release(struct run_lock *lock)
{
    if (lock->fd >= 0) close(lock->fd);
    lock->fd = -1;
}

bool run_is_alive(struct store *store, const char *id)
{
    char path[PATH_MAX];
    if (lock_path(store, id, path, sizeof path, NULL)) return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return false;
    bool alive = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(fd);
    return alive;
}
