/* See ledger_place.h. */
#include "runs/reservations/ledger_place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"

/* Whoever may rename it could put another in its place, with a file of their making; NULL: nobody else may.
 */
static const char *mistrust_parent(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) return strerror(errno);
    if (!S_ISDIR(info.st_mode)) return "is no folder";
    return (info.st_mode & 022) && !(info.st_mode & S_ISVTX) ? "others may rename what is in it" : NULL;
}

/* Why a folder that is there is not this user's alone; NULL: it is. */
static const char *mistrust(const struct stat *info)
{
    if (!S_ISDIR(info->st_mode)) return "is no folder";
    if (info->st_uid != geteuid()) return "belongs to another user";
    return info->st_mode & 022 ? "others may write there" : NULL;
}

/* Why the folder below `shm` cannot be used; NULL: it can. One that is missing can where it could be made. */
static enum status check_own(const char *shm, const char *folder, bool create, struct err *err)
{
    static const char remedy[] = "set ANNEAL_LEDGER to a folder that all your runs may write";
    struct stat info;
    const char *why = mistrust_parent(shm);
    if (why) return err_set(err, STATUS_IO, "%s: %s (%s)", shm, why, remedy);
    if (create && mkdir(folder, 0700) != 0 && errno != EEXIST)
        return err_set(err, STATUS_IO, "%s: cannot create: %s (%s)", folder, strerror(errno), remedy);
    if (lstat(folder, &info) == 0)
        why = mistrust(&info);
    else if (create || errno != ENOENT || access(shm, W_OK | X_OK) != 0)
        why = strerror(errno);
    return why ? err_set(err, STATUS_IO, "%s: %s (%s)", folder, why, remedy) : STATUS_OK;
}

enum status ledger_place_find(const char *shm, const char *home, bool create, struct ledger_place *out,
                              struct err *err)
{
    const char *given = getenv("ANNEAL_LEDGER");
    *out = (struct ledger_place){0};
    if (given && *given && *given != '/')
        return err_set(err, STATUS_USAGE,
                       "ANNEAL_LEDGER: \"%.200s\" depends on where a run is started (give a path that begins "
                       "with /)",
                       given);
    if (given && *given) return file_format_path(out->folder, sizeof out->folder, err, "%s", given);
    enum status status =
        file_format_path(out->folder, sizeof out->folder, err, "%s/anneal-%u", shm, (unsigned)geteuid());
    if (status || !check_own(shm, out->folder, create, &out->apart)) return status;
    if (home) return file_format_path(out->folder, sizeof out->folder, err, "%s", home);
    return err_set(err, STATUS_USAGE, "%s", out->apart.text);
}

enum status ledger_place_open(const char *home, bool only_look, struct ledger **out, struct err *apart,
                              struct err *err)
{
    struct ledger_place place;
    char path[PATH_MAX];
    *out = NULL;
    *apart = (struct err){0};
    enum status status = ledger_place_find("/dev/shm", home, !only_look, &place, err);
    if (status) return status;
    *apart = place.apart;
    if (only_look) status = ledger_file_path(place.folder, path, sizeof path, err);
    if (status || (only_look && !file_exists(path))) return status;
    status = ledger_open(place.folder, out, err);
    if (!status && home) ledger_set_home(*out, home);
    return status;
}
