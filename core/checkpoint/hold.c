/* See hold.h. */
#include "core/checkpoint/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/text.h"

/* Whether the folder by this name is still the one that was opened. */
static bool is_same(int fd, const char *folder)
{
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && stat(folder, &named) == 0 && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
}

bool checkpoint_hold_take(struct checkpoint_hold *hold, const char *folder)
{
    struct stat link;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *hold = (struct checkpoint_hold){.taken = true, .fd = fd};
    bool gone = fd < 0 ? lstat(folder, &link) != 0 && errno == ENOENT /* a link that leads nowhere is not */
                       : (flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK) || !is_same(fd, folder);
    if (gone) checkpoint_hold_release(hold);
    return !gone;
}

void checkpoint_hold_release(struct checkpoint_hold *hold)
{
    if (hold->taken && hold->fd >= 0) close(hold->fd);
    *hold = (struct checkpoint_hold){0};
}

enum status checkpoint_hold_end(struct checkpoint_hold *hold, const char *folder, enum status status,
                                struct err *err)
{
    if (status && hold->taken && !file_exists(folder) && err)
        text_add(err->text, sizeof err->text, " ",
                 "(the trainer of this run has removed this checkpoint meanwhile: try again)");
    checkpoint_hold_release(hold);
    return status;
}

enum status checkpoint_hold_remove(const char *folder, struct err *err)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool held = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
    enum status status = held ? err_set(err, STATUS_BUSY, "%s: a process reads this checkpoint", folder)
                              : file_remove_whole(folder, err);
    if (fd >= 0) close(fd);
    return status;
}
