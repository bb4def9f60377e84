/* The ranks of a training session. Rank 0 has the store, the screen and the user's orders, and runs the
 * session; the others follow it: they open the same configuration and corpus, and train. They say nothing and
 * write nothing: what goes wrong on one of them is an error of rank 0. All end together, with the same exit
 * status.
 *
 * In a world of one nothing here has an effect. */
#ifndef ANNEAL_TUI_SESSION_RANKS_H
#define ANNEAL_TUI_SESSION_RANKS_H

#include "core/model/config.h"
#include "kernels/device/world.h"
#include "tui/session/device_choice.h"
#include "tui/session/run_log.h"

struct ranks {
    const struct world *world;
    const struct run_log *log; /* learns why a rank is lost; NULL: none. Set by rank 0, before ranks_train */
    enum { RANKS_WAIT, RANKS_OPEN, RANKS_TRAIN } stage; /* private: how far the others have come */
};

/* Joins the world that this process was started in; `alone`: a world of one whatever the environment says.
 * End it also after a failure. */
enum status ranks_open(struct ranks *ranks, bool alone, struct err *err);

/* Opens the device for a rank: it takes its share of the host's cores unless train.threads says how many. */
enum status ranks_open_device(const struct ranks *ranks, const char *wish, const struct config *config,
                              struct device_choice *choice, struct err *err);

/* For rank 0, when its corpus is open: the others begin to open corpus and trainer. */
enum status ranks_begin(struct ranks *ranks, const struct config *config, struct err *err);

/* For rank 0, before trainer_run: returns when all others are ready for it. */
enum status ranks_train(struct ranks *ranks, struct err *err);

/* For the other ranks: all that they do until the end. */
enum status ranks_follow(struct ranks *ranks, struct err *err);

/* Ends the world. Returns the status of rank 0 on all ranks; the others have no error to print. */
enum status ranks_end(struct ranks *ranks, enum status status, struct err *err);

#endif
