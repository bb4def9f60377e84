/* The folder of a checkpoint, for those who fill one. Private to checkpoint*.c. */
#ifndef ANNEAL_CORE_CHECKPOINT_CHECKPOINT_FILES_H
#define ANNEAL_CORE_CHECKPOINT_CHECKPOINT_FILES_H

#include <limits.h>
#include <stdint.h>

#include "core/base/err.h"

/* Room for more than the longest path: a folder's that is too long is refused by the system, never cut. */
enum { CHECKPOINT_PATH = PATH_MAX + 64 };

/* FOLDER/NAME in `path`, which it returns. */
char *checkpoint_join(char path[CHECKPOINT_PATH], const char *folder, const char *name);

/* Writes `checksums`, the list of what the files in the folder hash to; *bytes is their size. */
enum status checkpoint_seal(const char *folder, int64_t *bytes, struct err *err);

/* Makes `temporary` visible as `final`; a folder of that name is exchanged for it in one step, so that at no
 * moment neither is there. */
enum status checkpoint_publish(const char *temporary, const char *final, struct err *err);

#endif
