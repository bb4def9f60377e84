/* Checkpoints: the state of a training run in a folder "step-N" that Hugging Face opens directly:
 * model.safetensors, config.json, tokenizer.json and its companions, and trainer.json, the trainer's state. A
 * full checkpoint also has optimizer.safetensors, the optimizer's moments: only a full one can be resumed.
 * With train.ema_decay there is ema.safetensors, the averages of the weights under the weights' names.
 * With adapters adapter_model.safetensors and adapter_config.json stand in place of model.safetensors, and
 * hold the trained parameters alone. The file `checksums` (XXH64 of each file) is written last, in a
 * temporary folder that is then renamed: incomplete or damaged folders are never used. */
#ifndef ANNEAL_CORE_CHECKPOINT_CHECKPOINT_H
#define ANNEAL_CORE_CHECKPOINT_CHECKPOINT_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/checkpoint/companions.h"
#include "core/checkpoint/hold.h"
#include "core/model/gguf.h"
#include "core/model/safetensors.h"
#include "core/network/network.h"
#include "core/train/early_stopping.h"
#include "core/train/health.h"
#include "datasets/corpus.h"
#include "datasets/tokenizer.h"

enum { CHECKPOINT_MACHINE = 100 };

/* Room for more than the longest path: the system rejects a folder that is too long; it is never cut. */
enum { CHECKPOINT_PATH = PATH_MAX + 64 };

/* The state that training needs in addition to weights and moments. */
struct train_state {
    int64_t step;             /* steps done; the next one to run */
    int64_t updates;          /* of the weights: steps less the skipped ones */
    uint64_t cursor;          /* training sequences consumed */
    int64_t tokens;           /* tokens trained on */
    double lr_factor;         /* set by an order; normally 1 */
    double lr_cut;            /* by rollbacks; 1: there was none, or health.rollback_lr was 1 */
    int64_t skipped_in_a_row; /* updates skipped, because of a non-finite norm or a loss above its limit */
    int64_t rollbacks;        /* in a row */
    int64_t trouble;          /* the step that caused the last one */
    struct loss_level level;
    struct early_stopping stopping;
    int64_t best_saved; /* last best step with a written checkpoint; -1: none */
    struct corpus_mark corpus;
    int64_t questions;                /* checksum of the files of eval.tasks; 0: none, or unknown */
    char machine[CHECKPOINT_MACHINE]; /* threads and kernels that computed it; "": unknown */
};

/* The numbers of a checkpoint, and how to read them. */
struct checkpoint_source {
    const struct model *model;
    int rank, ranks;                   /* of those that write it; 0 of 1: alone */
    struct slice slice;                /* of the trainable numbers: what this rank writes; alone all */
    const float *weights;              /* (slice) trainable, readable by `fetch` */
    const void *frozen;                /* (frozen_bytes), of rank 0 */
    const void *moments[MOMENT_KINDS]; /* (slice) each; NULL: not part of the checkpoint */
    bool moments_8bit;                 /* as plan_input.moments_8bit says */
    safetensors_fetch *fetch;
    void *context;
};

/* Reads directly from the network, which must not train meanwhile. */
struct checkpoint_source checkpoint_of_network(struct network *network, bool full);

/* Copies the source of checkpoint_of_network into the plan's snapshot, which any thread may read until the
 * next snapshot is taken. STATUS_DEVICE: the device has failed. */
enum status checkpoint_take_snapshot(struct network *network, struct checkpoint_source *source,
                                     struct err *err);

/* Writing a checkpoint in parts: one rank begins, all write their numbers, and when all have, rank 0
 * finishes. `temporary` is its folder meanwhile. checkpoint_finish removes it if it fails; *bytes is the size
 * of all files, and `tokenizer` and `companions` may be NULL. */
enum status checkpoint_begin(const char *parent, int64_t step, char temporary[CHECKPOINT_PATH],
                             struct err *err);
enum status checkpoint_write_part(const char *temporary, const struct checkpoint_source *source,
                                  struct err *err);
enum status checkpoint_finish(const char *parent, const char *temporary,
                              const struct checkpoint_source *source, const struct train_state *state,
                              const struct tokenizer *tokenizer, const struct companions *companions,
                              int64_t *bytes, struct err *err);

/* All three, alone. Writes PARENT/step-N, N = state->step, replacing an existing one. On failure nothing
 * new is left behind and no older checkpoint is touched. */
enum status checkpoint_save(const char *parent, const struct checkpoint_source *source,
                            const struct train_state *state, const struct tokenizer *tokenizer,
                            const struct companions *companions, int64_t *bytes, struct err *err);

/* Instead of a step: the newest checkpoint, or the newest full one. */
enum { CHECKPOINT_NEWEST = -1, CHECKPOINT_NEWEST_FULL = -2 };

/* STATUS_IO: this user may not read the folder of checkpoints, or one above it, so whether it has any is not
 * known; with ENOTDIR: something else has its name. */
enum status checkpoint_look(const char *parent, struct err *err);

/* The path of the complete, undamaged checkpoint of that step below `parent`, or of the newest.
 * STATUS_NOT_FOUND if there is none; if all are damaged, the error describes the newest. STATUS_IO with
 * EACCES: this user may not read the folder, or a checkpoint that would be it and may be whole. */
enum status checkpoint_find(const char *parent, int64_t step, char *path, size_t size, struct err *err);

/* The same with a hold on it, for who opens it of a run that may be training: release it when that is done.
 */
enum status checkpoint_find_held(const char *parent, int64_t step, char *path, size_t size,
                                 struct checkpoint_hold *hold, struct err *err);

/* The newest one of at most `step` steps, likewise. */
enum status checkpoint_find_up_to(const char *parent, int64_t step, char *path, size_t size, struct err *err);

/* Whether a folder exists and is not a whole checkpoint, from a check that takes no time: of model and
 * moments above 64 MiB it reads only header and length. */
bool checkpoint_looks_damaged(const char *folder);

/* Reads a checkpoint whole and compares it with its checksums; `meter` (may be NULL) counts the bytes.
 * STATUS_CORRUPT and STATUS_NOT_FOUND: it is damaged, and the error names the file. STATUS_INTERRUPTED. */
enum status checkpoint_verify(const char *folder, struct progress_meter *meter, struct err *err);

/* The steps of all step-N folders below `parent`, newest first, which the caller frees; NULL: there are none.
 */
int64_t *checkpoint_steps(const char *parent, size_t *count);

/* Whether this is the name of a folder beside the checkpoints of a run that is none itself: unfinished or
 * half removed. */
bool checkpoint_is_leftover(const char *name);

/* Why a folder beside the checkpoints is set aside, for the user; NULL: this is not the name of one. A
 * suspect one is whole. */
const char *checkpoint_aside(const char *name);

/* The newest step-N folder below `parent` if it is damaged and newer than `found`, the newest that
 * checkpoint_find finds; else -1. */
int64_t checkpoint_passed_over(const char *parent, const char *found);

/* The steps of all checkpoints, oldest first, as text: "10, 20, 30"; "none". Cut to `size`. */
void checkpoint_list(const char *parent, char *buf, size_t size);

/* Adds the checkpoint in `folder`, another run's step-N, to `parent` under the same name: hard links if the
 * file system can, else copies. Files of a checkpoint are never changed, so neither run affects the other. */
enum status checkpoint_adopt(const char *parent, const char *folder, int64_t *bytes, struct err *err);

/* The weights of a checkpoint, or their averages. */
enum checkpoint_weights { CHECKPOINT_WEIGHTS, CHECKPOINT_AVERAGE };

/* Copies the files of a model that Hugging Face reads (weights as one file, config.json, tokenizer) to a new
 * or empty folder `to`; any other folder is an error. On failure, and when `progress` (may be NULL) stops it,
 * the folder is removed. STATUS_USAGE: there are no averages. */
enum status checkpoint_export(const char *folder, enum checkpoint_weights which, const char *to,
                              const struct progress *progress, int64_t *bytes, struct err *err);

/* Writes the model in `folder`, with its tokenizer and chat template, as one file for llama.cpp: see gguf.h.
 */
enum status checkpoint_export_gguf(const char *folder, enum checkpoint_weights which, const char *path,
                                   enum gguf_type type, const struct progress *progress, int64_t *bytes,
                                   struct err *err);

/* Like checkpoint_export, for models from elsewhere, which are checked first: before anything is written it
 * rejects an architecture that is not supported, and every tensor that is missing, unknown, of another shape,
 * or not F32, BF16 or F16. */
enum status checkpoint_import(const char *folder, const char *to, const struct progress *progress,
                              int64_t *bytes, struct err *err);

/* Checks that the tensors are those of a model of these sizes. STATUS_USAGE names the first one that is
 * missing, unknown or of another shape. */
struct safetensors;
enum status checkpoint_check_weights(const struct safetensors *file, const struct model_config *config,
                                     struct err *err);

/* Whether a folder from checkpoint_find has moments. */
bool checkpoint_is_full(const char *folder);

/* How to store the base of adapters (with LORA_BASE_AUTO in the types of its file), and those adapters. */
struct base_storage {
    enum lora_base base;
    bool nested;                 /* NF4 with nested scales */
    const char *const *adapters; /* folders; parameters of the base that they replace are not rounded */
    int adapter_count;
};

/* Freezes all parameters of `model`, for a network that does not train, stores them as storage.h says, and
 * chooses the precision on this device. LORA_BASE_AUTO and LORA_BASE_NF4: bf16 if all matrices in FOLDER are
 * BF16 and the device computes in bf16, else fp32. LORA_BASE_FP32: fp32. LORA_BASE_BF16: the device's best.
 */
enum status checkpoint_freeze(const char *folder, struct model *model, const struct base_storage *base,
                              const struct device_info *device, enum precision *precision, struct err *err);

/* Uploads the weights that safetensors_open_folder finds in FOLDER: F32, BF16 or F16. A different model is an
 * error that names the field of its configuration or the tensor. Needs 1 MiB of host memory. The adapters of
 * the model keep their values, and so does the head of a classifier where FOLDER holds a language model. If
 * FOLDER holds adapters, uploads them and the parameters saved beside them over those of the base, which must
 * be loaded; adapters that were trained on another base are an error. */
enum status checkpoint_load_weights(const char *folder, struct network *network, struct err *err);

/* The same for a new run that trains all of the model: its rotary frequencies may be others than those that
 * the weights were trained with, so that it learns longer texts. */
enum status checkpoint_load_first_weights(const char *folder, struct network *network, struct err *err);

/* Reads the trainer's state. STATUS_CORRUPT: also that of another step than a folder step-N names. */
enum status checkpoint_load_state(const char *folder, struct train_state *state, struct err *err);

/* Loads the moments of a slice, which may be another rank's, to where the network has its own; those that the
 * checkpoint does not have become zero, and averages that it does not have the weights, which are loaded. */
enum status checkpoint_load_moments(const char *folder, struct network *network, struct slice slice,
                                    const struct param **thawed, struct err *err);

/* Loads a full checkpoint, for resuming. *thawed (may be NULL): the first parameter that was frozen when it
 * was saved and is trainable now, so that its moments start at zero; NULL: none. */
enum status checkpoint_load(const char *folder, struct network *network, struct train_state *state,
                            const struct param **thawed, struct err *err);

/* The step of a folder "…/step-N"; -1: any other name. */
int64_t checkpoint_step(const char *folder);

/* Renames every damaged step-N folder newer than `found`, from which a run continues, to step-N.damaged; such
 * folders are ignored, and only the user removes them. Returns how many. Only with the run's lock held. */
int checkpoint_set_damaged_aside(const char *parent, const char *found);

/* Renames a damaged step-N folder in the same way. */
bool checkpoint_set_aside(const char *folder);

/* Renames the folder of this step, if there is one, to step-N.suspect, which is ignored from then on. */
void checkpoint_set_suspect_aside(const char *parent, int64_t step);

/* Checkpoints that other runs need, which are never removed. Borrowed. */
struct needed_steps {
    const int64_t *steps;
    size_t count;
};

/* Removes step-N folders below `parent` up to `written`, the newest, except the `keep` newest of them, the
 * one of `best_step` (-1: none), those that are needed, and those that somebody holds just now; also
 * unfinished folders of a killed trainer. `written` always stays; folders of later steps, left by an earlier
 * segment of the run, neither count nor are removed. Only for the process that holds the run's lock. Ignores
 * errors. */
void checkpoint_prune(const char *parent, int64_t keep, int64_t written, int64_t best_step,
                      struct needed_steps needed);

/* Removes the oldest step-N folder below `parent` except the newest and that of `best_step`, to make room on
 * a full disk. Returns its step; -1: there is none to remove. Only for the process that holds the run's lock.
 */
int64_t checkpoint_remove_oldest(const char *parent, int64_t best_step, struct needed_steps needed);

/* The work of a job. One rank alone writes everything. Of several ranks, each writes its part; when all have,
 * rank 0 writes the rest. */
enum save_stage { SAVE_ALL, SAVE_PART, SAVE_REST };

/* A checkpoint to write: now, or by a thread while training continues, from memory that does not change
 * meanwhile. Between save_start and save_collect the job belongs to the thread. */
struct save_job {
    const char *folder; /* of all checkpoints; like all pointers here, borrowed until the job ends */
    const char *kind;   /* why it is written; static text */
    enum save_stage stage;
    char temporary[CHECKPOINT_PATH]; /* of several ranks: from checkpoint_begin */
    struct checkpoint_source source;
    struct train_state state;
    const struct tokenizer *tokenizer;   /* may be NULL */
    const struct companions *companions; /* may be NULL */
    int64_t keep;                        /* how many of the newest stay, besides state.best_saved */
    struct needed_steps needed;
    bool prune;                    /* false: all older ones stay */
    void (*before)(void *context); /* called before anything is written, by the writing thread */
    void *context;

    /* the result */
    enum status status;
    struct err err;   /* unless status is 0 */
    int64_t bytes;    /* of all files */
    double wall_time; /* Unix seconds, when it was renamed to its place */

    bool started, threaded; /* private: started and not collected; runs in a thread */
    pthread_t thread;
};

/* Carries out a stage, in this thread. The last one also removes older checkpoints. */
void save_carry_out(struct save_job *job);

/* Starts a thread for a job that is not started yet; without threads the job is done on return. */
void save_start(struct save_job *job);

/* Whether a started job has ended, for which it waits up to that many seconds: returns true once per job. */
bool save_collect(struct save_job *job, double seconds);

/* ---- the folder of a checkpoint, private to core/checkpoint/ ---- */

/* Kinds of numbers: weights, m and v at 1 and 2, and weights in the file of adapters. */
enum { WEIGHTS_KIND, ADAPTERS_KIND = 3 };
/* How names of its tensors begin: "", "m.", … */
const char *checkpoint_prefix(int kind);

/* Opens the weights in the folder, or its adapters if it has them, and checks that they are this model's.
 * Close `file` also after a failure. */
enum status checkpoint_open_weights(const char *folder, const struct model *model, struct safetensors *file,
                                    struct err *err);

/* Writes the weights of the model in FOLDER to `path`; nothing if it holds adapters, which are copied. Other
 * files that it writes beside them take the place of FOLDER's. */
typedef enum status checkpoint_writer(void *context, const char *folder, const char *path, struct err *err);
/* checkpoint_export with another writer, and with the tokenizer of the folder `words`. */
enum status checkpoint_export_with(const char *folder, const char *words, const char *to,
                                   checkpoint_writer *write, void *context, int64_t *bytes, struct err *err);

/* Writes the trainer's state to a file. */
enum status checkpoint_write_state(const struct train_state *state, const char *path, struct err *err);

/* The file of averages below a checkpoint, in `path`. STATUS_USAGE: it has none. */
enum status checkpoint_find_average(const char *folder, char path[CHECKPOINT_PATH], struct err *err);

/* FOLDER/NAME in `path`, which it returns. */
char *checkpoint_join(char path[CHECKPOINT_PATH], const char *folder, const char *name);

/* Writes `checksums`, the hashes of the files in the folder; *bytes is their size. */
enum status checkpoint_seal(const char *folder, int64_t *bytes, struct err *err);

/* Renames `temporary` to `final`. An existing folder is exchanged, so that one of the two always exists. */
enum status checkpoint_publish(const char *temporary, const char *final, struct err *err);

#endif
