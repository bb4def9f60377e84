/* The ranks of a training session. Rank 0 has the store, the screen and the user's orders, and runs the
 * session; the others follow it: they open the same configuration and corpus, and train. They say nothing and
 * write nothing: what goes wrong on one of them is an error of rank 0. All end together; the exit status is
 * that of rank 0, and 0 on the others: a launcher that sees a failure soon kills all ranks, perhaps before
 * rank 0 has printed it. One world may train several runs, one after the other.
 *
 * In a world of one nothing here has an effect. */
#ifndef ANNEAL_TUI_SESSION_RANKS_H
#define ANNEAL_TUI_SESSION_RANKS_H

#include "core/model/config.h"
#include "kernels/device/world.h"
#include "runs/run.h"
#include "tui/session/device_choice.h"

struct ranks {
    const struct world *world;
    char run[RUN_ID_MAX]; /* whose history learns why a rank is lost; "": none. Set by rank 0 */
    bool opening;         /* private: the others open their trainers */
};

/* Joins the world that this process was started in; `alone`: a world of one whatever the environment says.
 * End it also after a failure. */
enum status ranks_open(struct ranks *ranks, bool alone, struct err *err);

/* Opens the device for a rank: its GPU among those of its host, or its share of the host's cores unless
 * train.threads says how many. Of several ranks none falls back to the CPU later. */
enum status ranks_open_device(const struct ranks *ranks, const char *wish, const struct config *config,
                              struct device_choice *choice, struct err *err);

/* For rank 0, when its device and corpus are open: the others open the same, GPUs are connected, and the
 * others begin to open the trainer. */
enum status ranks_begin(struct ranks *ranks, const struct config *config, const struct device_choice *choice,
                        struct err *err);

/* For rank 0, before trainer_run: returns when all others are ready for it and know the run. */
enum status ranks_train(struct ranks *ranks, struct err *err);

/* For rank 0, after a run or a failure: the others wait for the next run. */
void ranks_rest(struct ranks *ranks);

/* For the other ranks: all that they do until the end. */
void ranks_follow(struct ranks *ranks);

/* Ends the world. */
void ranks_end(struct ranks *ranks);

#endif
