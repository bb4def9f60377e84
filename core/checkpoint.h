/* Checkpoints: the whole state of a training run in a folder "step-N" that Hugging Face opens as it is:
 * model.safetensors, config.json, tokenizer.json, tokenizer_config.json, and for resuming
 * optimizer.safetensors and trainer.json. The file `checksums` (XXH64 of each of them) is written last,
 * inside a temporary folder that is then renamed: a folder that is incomplete or damaged is never offered. */
#ifndef ANNEAL_CORE_CHECKPOINT_H
#define ANNEAL_CORE_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/early_stopping.h"
#include "core/network.h"
#include "datasets/corpus_mark.h"
#include "datasets/tokenizer.h"

/* What training needs beside weights and moments. */
struct train_state {
    int64_t step;             /* steps done; the next one to run */
    int64_t updates;          /* of the weights: steps less the skipped ones */
    uint64_t cursor;          /* training sequences consumed */
    int64_t tokens;           /* tokens trained on */
    double lr_factor;         /* by order; 1 normally */
    int64_t skipped_in_a_row; /* updates skipped because of a non-finite norm */
    struct early_stopping stopping;
    struct corpus_mark corpus;
};

/* Writes PARENT/step-N, N = state->step, replacing one of that name. `tokenizer` may be NULL. *bytes is the
 * size of all files. On failure nothing new is left behind and no older checkpoint is touched. */
enum status checkpoint_save(const char *parent, struct network *network, const struct train_state *state,
                            const struct tokenizer *tokenizer, int64_t *bytes, struct err *err);

/* The path of the newest complete, undamaged checkpoint below `parent`, or of step `step` when step >= 0.
 * STATUS_NOT_FOUND when there is none. */
enum status checkpoint_find(const char *parent, int64_t step, char *path, size_t size, struct err *err);

/* Whether `found`, which checkpoint_find gave for the newest, is not the newest step-N folder below `parent`,
 * because that is damaged: then its path in `newest`. */
bool checkpoint_passed_over(const char *parent, const char *found, char *newest, size_t size);

/* Uploads the weights of FOLDER/model.safetensors. A model that differs is refused, naming the tensor. */
enum status checkpoint_load_weights(const char *folder, struct network *network, struct err *err);

/* The same with moments and state, for resuming. */
enum status checkpoint_load(const char *folder, struct network *network, struct train_state *state,
                            struct err *err);

/* Removes all step-N folders below `parent` but the `keep` newest and the one of `best_step` (-1: none), and
 * what a killed trainer left half-written. Only for the process that holds the run's lock. What cannot be
 * removed is left. */
void checkpoint_prune(const char *parent, int64_t keep, int64_t best_step);

#endif
