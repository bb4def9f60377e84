/* RUN|FOLDER on the command line: the folder of a model, ours or any checkout with a config.json. A folder
 * stands for itself, any other word for a run. */
#ifndef ANNEAL_TUI_COMMAND_MODEL_FOLDER_H
#define ANNEAL_TUI_COMMAND_MODEL_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

/* Of a run the checkpoint of `step`, the one with its best validation loss, or (-1, false) the newest; a
 * newest one that is damaged is passed over with a warning on standard error. `command` is for messages. */
enum status model_folder_find(const char *command, const char *source, int64_t step, bool best, char *folder,
                              size_t size, struct err *err);

#endif
