/* RUN|FOLDER on the command line: the folder of a model, ours or any checkout with a config.json. A folder
 * stands for itself, any other word for a run, or for an imported model where there is no such run. */
#ifndef ANNEAL_TUI_SESSION_MODEL_FOLDER_H
#define ANNEAL_TUI_SESSION_MODEL_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/memory/allocator.h"

/* A run, and which of its checkpoints; or the folder of a checkpoint, which stands for itself. */
struct model_choice {
    const char *doing; /* for messages: "generating" */
    const char *source;
    int64_t step; /* of the checkpoint; -1: the newest */
    bool best;    /* that of the lowest validation loss; where it is gone, the best before it */
};

/* The folder that is meant. A newest checkpoint that is damaged is passed over with a warning on standard
 * error. `allocator` (or NULL): memory.allocator of the run's configuration; of what is no run, and where the
 * configuration cannot be read, the key's default. */
enum status model_choice_find(const struct model_choice *choice, char *folder, size_t size,
                              enum allocator_kind *allocator, struct err *err);

#endif
