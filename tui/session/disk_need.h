/* How much of the disk the checkpoints of a run will take, and whether it has that room. */
#ifndef ANNEAL_TUI_SESSION_DISK_NEED_H
#define ANNEAL_TUI_SESSION_DISK_NEED_H

#include "tui/session/training_session.h"

struct disk_need {
    int64_t checkpoints; /* that the whole run writes, without those of the best evaluations */
    int64_t evaluations;
    int64_t checkpoint_bytes; /* of one */
    double bytes;  /* of as many as lie on disk at once: those that are kept, the best, and one more
                      while it is written */
    double held;   /* by those that the run has already */
    double free;   /* bytes that this user may write below $ANNEAL_HOME/runs; NaN: not known */
    bool no_files; /* inodes have run out, so nothing is free */
};

/* Of a session whose trainer is open. */
struct disk_need disk_need_of(const struct training_session *session);

/* Writes a sentence if there is no room for all of them; false: there is. */
bool disk_need_warning(const struct training_session *session, char *buf, size_t size);

/* For a new run: an error if there is no room for one checkpoint, as all that it learns would be lost. */
enum status disk_need_check(const struct training_session *session, struct err *err);

#endif
