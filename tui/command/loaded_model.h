/* The model of a checkpoint, ready to compute forward passes: which one the command line names, and on which
 * device. Shared by the commands that use models and do not train them. */
#ifndef ANNEAL_TUI_LOADED_MODEL_H
#define ANNEAL_TUI_LOADED_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/network.h"
#include "tui/command/device_choice.h"

/* A run, and which of its checkpoints; or the folder of a checkpoint, which stands for itself. */
struct model_choice {
    const char *command, *doing; /* for messages: "generate", "generating" */
    const char *source;
    int64_t step; /* of the checkpoint; -1: the newest */
    bool best;    /* the one with the run's best validation loss */
};

/* The folder that is meant. A newest checkpoint that is damaged is passed over with a warning on standard
 * error. */
enum status model_choice_find(const struct model_choice *choice, char *folder, size_t size, struct err *err);

struct loaded_model {
    struct model model;
    struct plan plan;
    struct device_choice choice;
    struct network network;
};

struct loaded_shape {
    int B, T; /* the largest batch and sequence; T no longer than the model's */
};

/* Reads FOLDER/config.json into loaded->model, and leaves the rest zero. To be closed, whatever is returned.
 */
enum status loaded_model_describe(struct loaded_model *loaded, const char *folder, struct err *err);

/* Then its weights onto the device, in fp32; with "auto" onto the CPU where the GPU cannot, which is a
 * warning on standard error ("`doing` on the CPU: why"). */
enum status loaded_model_load(struct loaded_model *loaded, const char *folder, const char *device,
                              struct loaded_shape shape, const char *doing, struct err *err);
void loaded_model_close(struct loaded_model *loaded); /* harmless on a zeroed struct */

#endif
