/* See checkpoint.h. Here: finding the checkpoint to use among those of a run, which may train meanwhile. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/checkpoint/checkpoint.h"

enum status checkpoint_look(const char *parent, struct err *err)
{
    if (file_exists(parent) && !file_is_folder(parent))
        errno = ENOTDIR;
    else if (faccessat(AT_FDCWD, parent, R_OK | X_OK, AT_EACCESS) == 0 || errno != EACCES)
        return STATUS_OK;
    return err_set(err, STATUS_IO, "%s: cannot read the folder: %s", parent, strerror(errno));
}

/* One look of find; *gone: a trainer has removed one that was listed, and has a newer one. */
static enum status look_through(const char *parent, int64_t step, int64_t most, char *path, size_t size,
                                struct checkpoint_hold *hold, bool *gone, struct err *newest)
{
    struct err why;
    size_t count;
    int64_t *steps = checkpoint_steps(parent, &count);
    bool closed = false; /* it may be whole, so no older one takes its place */
    enum status status = STATUS_NOT_FOUND;
    *newest = (struct err){0};
    *gone = false;
    for (size_t i = 0; status && !closed && i < count; i++) {
        checkpoint_hold_release(hold);
        if ((step >= 0 && steps[i] != step) || steps[i] > most) continue;
        if (snprintf(path, size, "%s/step-%" PRId64, parent, steps[i]) >= (int)size) continue;
        bool held = checkpoint_hold_take(hold, path);
        *gone = *gone || !held;
        if (!held) continue;
        if (step == CHECKPOINT_NEWEST_FULL && !checkpoint_is_full(path) && errno != EACCES) continue;
        status = checkpoint_verify(path, NULL, &why);
        closed = status == STATUS_IO && why.system == EACCES;
        if (status && (!newest->status || closed)) *newest = why;
    }
    if (status) checkpoint_hold_release(hold);
    free(steps);
    return status;
}

/* checkpoint_find_held, among those of at most `most` steps. */
static enum status find(const char *parent, int64_t step, int64_t most, char *path, size_t size,
                        struct checkpoint_hold *hold, struct err *err)
{
    enum { LOOKS = 100 };
    struct err newest = {0};
    bool gone = true;
    *hold = (struct checkpoint_hold){0};
    enum status status = checkpoint_look(parent, err);
    if (status) return status;
    for (int looks = 0; gone && looks < LOOKS; looks++) {
        status = look_through(parent, step, most, path, size, hold, &gone, &newest);
        if (!status) return STATUS_OK;
    }
    if (newest.status && err) *err = newest;
    if (newest.status) return newest.status;
    if (step >= 0) return err_set(err, STATUS_NOT_FOUND, "%s: no checkpoint of step %" PRId64, parent, step);
    return err_set(err, STATUS_NOT_FOUND, "%s: no checkpoint", parent);
}

enum status checkpoint_find(const char *parent, int64_t step, char *path, size_t size, struct err *err)
{
    struct checkpoint_hold hold;
    enum status status = find(parent, step, INT64_MAX, path, size, &hold, err);
    checkpoint_hold_release(&hold);
    return status;
}

enum status checkpoint_find_held(const char *parent, int64_t step, char *path, size_t size,
                                 struct checkpoint_hold *hold, struct err *err)
{
    return find(parent, step, INT64_MAX, path, size, hold, err);
}

enum status checkpoint_find_up_to(const char *parent, int64_t step, char *path, size_t size, struct err *err)
{
    struct checkpoint_hold hold;
    enum status status = find(parent, CHECKPOINT_NEWEST, step, path, size, &hold, err);
    checkpoint_hold_release(&hold);
    return status;
}

int64_t checkpoint_passed_over(const char *parent, const char *found)
{
    char path[CHECKPOINT_PATH];
    size_t count;
    int64_t *steps = checkpoint_steps(parent, &count), newest = count ? steps[0] : -1;
    free(steps);
    if (newest <= checkpoint_step(found)) return -1;
    /* a running trainer may have just added one, which is not damaged, or removed it since */
    snprintf(path, sizeof path, "%s/step-%" PRId64, parent, newest);
    return checkpoint_verify(path, NULL, NULL) && file_exists(path) ? newest : -1;
}
