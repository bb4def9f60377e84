/* See place.h, and store.h for store_check_place. */
#include "runs/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runs/database.h"

static const struct {
    const char *suffix, *what;
} files[PLACE_FILES] = {
    {"", "the database"}, {"-wal", "the log of the database"}, {"-shm", "the index of its log"}};

/* The file that has the name now, 0 if there is none; false: the disk does not say. */
static bool look(const struct store *store, int which, struct place *out)
{
    char path[PATH_MAX + 8];
    struct stat info;
    *out = (struct place){0};
    snprintf(path, sizeof path, "%s%s", store->path, files[which].suffix);
    if (stat(path, &info) != 0) return errno == ENOENT || errno == ENOTDIR;
    *out = (struct place){info.st_dev, info.st_ino};
    return true;
}

static enum status fail(const struct store *store, int which, const char *how, struct err *err)
{
    return err_set(err, STATUS_FAILED, "%s%s: %s was %s while it was in use", store->path,
                   files[which].suffix, files[which].what, how);
}

enum status place_note(struct store *store, struct err *err)
{
    for (int i = 0; i < (store->mount.shared ? 1 : PLACE_FILES); i++)
        if (look(store, i, &store->place[i]) && !store->place[i].file) return fail(store, i, "removed", err);
    return STATUS_OK;
}

static bool is_same(const struct place *a, const struct place *b)
{
    return a->device == b->device && a->file == b->file;
}

/* Whether the log has frames, but does not begin as a log (https://sqlite.org/fileformat2.html#walformat):
 * SQLite appended to a new file what belongs behind frames that were in the removed one. A checkpoint would
 * write zeros over the database. */
static bool log_has_hole(const struct store *store)
{
    static const unsigned char magic[] = {0x37, 0x7f, 0x06};
    unsigned char begin[4];
    char path[PATH_MAX + 8];
    snprintf(path, sizeof path, "%s%s", store->path, files[PLACE_LOG].suffix);
    int fd =
        open(path, O_RDONLY | O_CLOEXEC); /* SQLite has no locks on this file that closing it could drop */
    bool hole = fd >= 0 && pread(fd, begin, sizeof begin, 0) == sizeof begin &&
                memcmp(begin, magic, sizeof magic) != 0;
    if (fd >= 0) close(fd);
    return hole;
}

enum status store_check_place(const struct store *store, struct err *err)
{
    struct place now;
    for (int i = 0; i < PLACE_FILES; i++) {
        if (!store->place[i].file || !look(store, i, &now) || is_same(&now, &store->place[i])) continue;
        return fail(store, i, now.file ? "replaced" : "removed", err);
    }
    if (store->place[PLACE_LOG].file && log_has_hole(store)) return fail(store, PLACE_LOG, "replaced", err);
    return STATUS_OK;
}

void place_leave(struct store *store)
{
    struct place database, log, index;
    char path[PATH_MAX + 8];
    if (!store->place[PLACE_INDEX].file) return;
    /* whoever has this index and writes ends first; later ones notice */
    bool held = sqlite3_exec(store->db, "begin immediate", NULL, NULL, NULL) == SQLITE_OK;
    snprintf(path, sizeof path, "%s%s", store->path, files[PLACE_INDEX].suffix);
    if (look(store, PLACE_DATABASE, &database) && is_same(&database, &store->place[PLACE_DATABASE]) &&
        look(store, PLACE_LOG, &log) && !is_same(&log, &store->place[PLACE_LOG]) &&
        look(store, PLACE_INDEX, &index) && is_same(&index, &store->place[PLACE_INDEX]))
        unlink(path);
    if (held) sqlite3_exec(store->db, "rollback", NULL, NULL, NULL);
}
