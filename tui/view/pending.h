/* Changes of the store that the user has asked for. The screen does not wait for another process's lock: a
 * change that finds the database locked is kept, with all that come after it, and tried again until it is
 * made. */
#ifndef ANNEAL_TUI_PENDING_H
#define ANNEAL_TUI_PENDING_H

#include "core/base/record.h"
#include "runs/run.h"
#include "tui/view/keys.h"

enum change_kind {
    CHANGE_ORDER,    /* gives the run's trainer the order `verb` with `argument` */
    CHANGE_TAGS,     /* adds and removes the tags in `text`: "+new -old" */
    CHANGE_ALL_TAGS, /* replaces the tags by those in `text` */
    CHANGE_NOTE,
    CHANGE_NAME
};

struct change {
    enum change_kind kind;
    char run_id[RUN_ID_MAX];
    enum order_verb verb;
    double argument;
    char text[INPUT_MAX];
};

struct pending {
    struct change *changes; /* the oldest first */
    size_t count, capacity;
};

/* Makes the change, or keeps it and returns STATUS_BUSY: `err` then says what it waits for. Other failures
 * drop it. *order_id: the order's id, 0 for none; may be NULL. */
enum status pending_make(struct pending *pending, struct store *store, const struct change *change,
                         int64_t *order_id, struct err *err);

/* Makes the oldest change that waits. STATUS_BUSY: the database is still locked. */
enum status pending_retry(struct pending *pending, struct store *store, struct err *err);

void pending_release(struct pending *pending); /* drops what waits */

#endif
