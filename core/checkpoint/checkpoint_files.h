/* What lies in a checkpoint's folder. Private to checkpoint*.c. */
#ifndef ANNEAL_CORE_CHECKPOINT_CHECKPOINT_FILES_H
#define ANNEAL_CORE_CHECKPOINT_CHECKPOINT_FILES_H

#include <limits.h>
#include <stdint.h>

#include "core/base/err.h"

enum { CHECKPOINT_FILES = 6, CHECKPOINT_PATH = PATH_MAX };

/* All but `checksums`, the list of what the others hash to. */
extern const char *const checkpoint_files[CHECKPOINT_FILES];

enum status checkpoint_join(char path[CHECKPOINT_PATH], const char *folder, const char *name,
                            struct err *err);

/* XXH64 and size of a whole file, read in pieces. */
enum status checkpoint_hash(const char *path, uint64_t *hash, int64_t *bytes, struct err *err);

#endif
