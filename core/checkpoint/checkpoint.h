/* Checkpoints: the state of a training run in a folder "step-N" that Hugging Face opens as it is:
 * model.safetensors, config.json, tokenizer.json, tokenizer_config.json and trainer.json, which says how far
 * training is. A full one also holds the optimizer's moments, in optimizer.safetensors: only such a one can
 * be resumed. The file `checksums` (XXH64 of each of them) is written last, inside a temporary folder that is
 * then renamed: a folder that is incomplete or damaged is never offered. */
#ifndef ANNEAL_CORE_CHECKPOINT_CHECKPOINT_H
#define ANNEAL_CORE_CHECKPOINT_CHECKPOINT_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/model/safetensors.h"
#include "core/network/network.h"
#include "core/train/early_stopping.h"
#include "datasets/corpus.h"
#include "datasets/tokenizer.h"

enum { CHECKPOINT_MACHINE = 80 };

/* The state that training needs beside weights and moments. */
struct train_state {
    int64_t step;             /* steps done; the next one to run */
    int64_t updates;          /* of the weights: steps less the skipped ones */
    uint64_t cursor;          /* training sequences consumed */
    int64_t tokens;           /* tokens trained on */
    double lr_factor;         /* by order; 1 normally */
    int64_t skipped_in_a_row; /* updates skipped because of a non-finite norm */
    struct early_stopping stopping;
    int64_t best_saved; /* newest step that was the best and of which a checkpoint was written; -1: none */
    struct corpus_mark corpus;
    char machine[CHECKPOINT_MACHINE]; /* threads and kernels that computed it; "": not known */
};

/* Where a checkpoint's numbers lie, and how to read them. */
struct checkpoint_source {
    const struct model *model;
    const float *weights; /* (elements) of what is trainable, where `fetch` finds it */
    const void *frozen;   /* (frozen_elements), of `frozen_element` */
    enum element frozen_element;
    const float *moments[2]; /* (elements) each */
    int moment_count;        /* 0: the checkpoint holds weights alone */
    safetensors_fetch *fetch;
    void *context;
};

/* Straight from the network, which must not train on meanwhile. */
struct checkpoint_source checkpoint_of_network(struct network *network, bool full);

/* Copies what checkpoint_of_network gave into the plan's snapshot, from which any thread may then read until
 * the next is taken. STATUS_DEVICE: the device has failed. */
enum status checkpoint_take_snapshot(struct network *network, struct checkpoint_source *source,
                                     struct err *err);

/* Writes PARENT/step-N, N = state->step, replacing one of that name. `tokenizer` may be NULL. *bytes is the
 * size of all files. On failure nothing new is left behind and no older checkpoint is touched. */
enum status checkpoint_save(const char *parent, const struct checkpoint_source *source,
                            const struct train_state *state, const struct tokenizer *tokenizer,
                            int64_t *bytes, struct err *err);

/* Instead of a step: the newest, and the newest of those that are full. */
enum { CHECKPOINT_NEWEST = -1, CHECKPOINT_NEWEST_FULL = -2 };

/* The path of the complete, undamaged checkpoint of that step below `parent`, or of the newest.
 * STATUS_NOT_FOUND when there is none; where all are damaged, what is wrong with the newest. */
enum status checkpoint_find(const char *parent, int64_t step, char *path, size_t size, struct err *err);

/* Whether a folder is there and no whole checkpoint, as far as can be seen in no time, whatever its size: of
 * model and moments above 64 MiB only header and length are looked at. */
bool checkpoint_looks_damaged(const char *folder);

/* The newest step-N folder below `parent`, where it is newer than `found`, which checkpoint_find gave for the
 * newest, and damaged; else -1. */
int64_t checkpoint_passed_over(const char *parent, const char *found);

/* The steps of all that are there, oldest first, as text: "10, 20, 30"; "none". Cut where `size` ends. */
void checkpoint_list(const char *parent, char *buf, size_t size);

/* Gives `parent` the checkpoint in `folder`, another run's step-N, under the same name: the same files where
 * the file system can link them, copies elsewhere. Files of a checkpoint are never changed, so neither run
 * can spoil it for the other. */
enum status checkpoint_adopt(const char *parent, const char *folder, int64_t *bytes, struct err *err);

/* Copies what Hugging Face reads of a model (weights, as one file, config.json, the tokenizer) into a new
 * folder `to`. One that is there already is refused, unless it is empty; on failure none is left. */
enum status checkpoint_export(const char *folder, const char *to, int64_t *bytes, struct err *err);

/* The same of a checkout of others, once it has been checked: an architecture that is not computed, and every
 * tensor that is missing, not known, of another shape, or not F32, BF16 or F16, is refused before anything is
 * written. */
enum status checkpoint_import(const char *folder, const char *to, int64_t *bytes, struct err *err);

/* Whether a folder that checkpoint_find gave holds moments. */
bool checkpoint_is_full(const char *folder);

/* Uploads the weights that safetensors_open_folder finds in FOLDER. A model that differs is refused, naming
 * the field of its configuration or the tensor. F32, or BF16 and F16, as others write them. Host memory: 1
 * MiB, whatever the size. */
enum status checkpoint_load_weights(const char *folder, struct network *network, struct err *err);

/* How far training was. */
enum status checkpoint_load_state(const char *folder, struct train_state *state, struct err *err);

/* All of a full one, for resuming. *thawed: the first parameter that was frozen when it was saved and is not
 * now, so that its moments begin at zero; NULL: none. May be NULL. */
enum status checkpoint_load(const char *folder, struct network *network, struct train_state *state,
                            const struct param **thawed, struct err *err);

/* The step of a folder "…/step-N"; -1: it is not named so. */
int64_t checkpoint_step(const char *folder);

/* Renames every step-N folder newer than `found`, from which a run goes on, and damaged, to
 * step-N.damaged: it counts for nothing any more, and nobody but its user removes it. How many were. Only for
 * the process that holds the run's lock. */
int checkpoint_set_damaged_aside(const char *parent, const char *found);

/* Removes all step-N folders below `parent` up to that of `written`, the newest, but the `keep` newest of
 * them and the one of `best_step` (-1: none), and what a killed trainer left half-written. `written` itself
 * always stays, and folders of later steps, which an earlier life of the run left, neither count nor go. Only
 * for the process that holds the run's lock. What cannot be removed is left. */
void checkpoint_prune(const char *parent, int64_t keep, int64_t written, int64_t best_step);

/* A checkpoint to be written: here and now, or by a thread of its own while training goes on, from memory
 * that nobody changes meanwhile. Between save_start and save_collect it belongs to the thread. */
struct save_job {
    const char *folder; /* of all checkpoints; borrowed, like all pointers here, until the job has ended */
    const char *kind;   /* why it is written; static text */
    struct checkpoint_source source;
    struct train_state state;
    const struct tokenizer *tokenizer; /* may be NULL */
    int64_t keep;                      /* the newest ones that stay; and that of state.best_saved */
    bool prune;                        /* false: all older ones stay */
    void (*before)(void *context);     /* called before anything is written, by whoever writes */
    void *context;

    /* how it ended */
    enum status status;
    struct err err;   /* where status says so */
    int64_t bytes;    /* of all files */
    double wall_time; /* Unix seconds, when it was in its place */

    bool started, threaded; /* private: and not collected; by a thread */
    pthread_t thread;
};

/* Writes the checkpoint and prunes older ones, here and now. */
void save_carry_out(struct save_job *job);

/* Has a thread do it; where none can be had it is done when this returns. Only a job that is not started. */
void save_start(struct save_job *job);

/* Whether a job that was started has ended: true once for each; `wait`: waits until it has. */
bool save_collect(struct save_job *job, bool wait);

/* ---- the folder of a checkpoint, for those who fill one: private to checkpoint*.c ---- */

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
