/* Lists and removes by rule those parts of a store that nobody needs: checkpoints of ended runs, damaged ones
 * and leftovers, and caches. Nothing is changed while the list is made.
 *
 * Of every run with a checkpoint that is whole, the best one stays and, unless told otherwise, the newest
 * from which it can be resumed. Of a run without one all checkpoints stay, also those that are set aside:
 * they may be all that is left of a model. What a run or a fork refers to stays. Runs that train, also on
 * another host, are left as they are, and so are files whose names are not anneal's. */
#ifndef ANNEAL_TUI_SESSION_CLEANING_H
#define ANNEAL_TUI_SESSION_CLEANING_H

#include <sys/types.h>

#include "core/base/arena.h"
#include "datasets/progress.h"
#include "runs/reference.h"

enum cleaning_kind {
    CLEANING_CHECKPOINT,
    CLEANING_DAMAGED, /* also unfinished, half removed, left by a killed process */
    CLEANING_CACHE,   /* texts encoded for training: made again when they are needed */
    CLEANING_KINDS,
    CLEANING_KEPT = CLEANING_KINDS, /* not removed, for the reason in `why` */
};

struct cleaning_item {
    enum cleaning_kind kind;
    const char *run;  /* its id; "": it belongs to no run */
    const char *name; /* in the run's folder, or in $ANNEAL_HOME; "": the run as a whole */
    const char *why;  /* "not the best one and not the newest" */
    int64_t bytes;    /* that removing it frees */
    ino_t inode;      /* of the file or folder; what has its name later is not meant */
};

struct cleaning {
    struct store *store;
    bool all_but_best; /* of whole checkpoints only the best stays, or where none is best the newest */
    bool quick;        /* checkpoints are not read whole; else those that stay are */
    struct progress_meter *meter; /* counts the bytes that are read, and its total grows; NULL: nobody asks */
    struct arena arena;
    struct cleaning_item *items;
    size_t count;

    struct run_references references; /* private */
};

/* Call it with `store` and the options set, and all else zero. */
enum status cleaning_begin(struct cleaning *cleaning, struct err *err);
void cleaning_release(struct cleaning *cleaning);

/* Lists what can be removed of a run. STATUS_INTERRUPTED. */
enum status cleaning_add_run(struct cleaning *cleaning, const struct run_info *run, struct err *err);
/* The encoded texts, and what killed processes have left outside of runs. `trains`: a run of this store
 * trains, so that all encoded texts stay. */
enum status cleaning_add_rest(struct cleaning *cleaning, bool trains, struct err *err);

/* Removes an item. STATUS_BUSY: its run trains by now, or the checkpoint is referred to by now.
 * STATUS_NOT_FOUND: it is gone, or another one has its name. */
enum status cleaning_remove(struct cleaning *cleaning, const struct cleaning_item *item, struct err *err);

#endif
