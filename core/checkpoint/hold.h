/* A hold on a checkpoint, for who reads one of a run that may be training: its trainer, which removes older
 * checkpoints when it has written a new one, leaves this one until a later time. It is a shared flock on the
 * folder, so it ends with its process. Where the file system has no locks it keeps nothing, and
 * checkpoint_hold_end says why reading has failed. */
#ifndef ANNEAL_CORE_CHECKPOINT_HOLD_H
#define ANNEAL_CORE_CHECKPOINT_HOLD_H

#include <stdbool.h>

#include "core/base/err.h"

struct checkpoint_hold {
    bool taken; /* zeroed: it is not */
    int fd;     /* -1: the folder cannot be opened or locked, for a reason that reading it will tell */
};

/* False: the folder is gone, or is being removed. */
bool checkpoint_hold_take(struct checkpoint_hold *hold, const char *folder);
void checkpoint_hold_release(struct checkpoint_hold *hold); /* harmless on a zeroed struct */

/* Releases it when the folder was used, with this result, which it returns. If that has failed and the folder
 * is gone by now, adds to `err` that its trainer has removed it. */
enum status checkpoint_hold_end(struct checkpoint_hold *hold, const char *folder, enum status status,
                                struct err *err);

/* file_remove_whole for a checkpoint; STATUS_BUSY: somebody holds it. */
enum status checkpoint_hold_remove(const char *folder, struct err *err);

#endif
