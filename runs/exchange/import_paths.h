/* Private to runs/exchange: the files that an import reads. */
#ifndef ANNEAL_RUNS_EXCHANGE_IMPORT_PATHS_H
#define ANNEAL_RUNS_EXCHANGE_IMPORT_PATHS_H

#include "runs/exchange/import_stage.h"

/* Stages what the files hold, and of folders the logs of TensorBoard or wandb in them. The folders of
 * TensorBoard's logs below such a folder are parts of the same run, as add_scalars of PyTorch makes them, and
 * so are folders called train, validation and the like, as Keras makes them. STATUS_USAGE: logs of other
 * folders than one. */
enum status import_read_paths(struct import *import, const char *const *paths, size_t count);

/* The folder that a path is, or is in, and in *name its last word. */
void import_folder_of(const char *path, char folder[PATH_MAX], char name[PATH_MAX]);

#endif
