/* The rows of the list of runs: read from the store, filtered by words, sorted, one of them selected. The
 * selection is an id: it stays on its run when rows come, go or change places. */
#ifndef ANNEAL_TUI_RUNS_LIST_H
#define ANNEAL_TUI_RUNS_LIST_H

#include "core/base/arena.h"
#include "runs/run.h"
#include "tui/widget/input.h"

enum sort { SORT_CREATED, SORT_STATUS, SORT_NAME, SORT_LOSS, SORT_BEST, SORT_SPEED, SORT_COUNT };
const char *sort_name(enum sort sort); /* "newest first" */

struct runs_list {
    struct arena arena;
    struct run_info *runs; /* all, newest first; in the arena */
    size_t count;
    size_t *shown; /* indices of those that pass the filter, sorted; in the arena */
    size_t shown_count;
    enum sort sort;
    bool reverse;
    struct input filter; /* words that name, id, status or device must contain, each of them */
    char selected[RUN_ID_MAX];
};

void runs_list_init(struct runs_list *list);
void runs_list_release(struct runs_list *list);

/* Reads all runs anew; on failure the old ones stay. */
enum status runs_list_read(struct runs_list *list, struct store *store, struct err *err);
/* After a change of filter, sort or reverse. */
void runs_list_arrange(struct runs_list *list);

size_t runs_list_row(const struct runs_list *list);        /* of the selection; 0 when there is none */
void runs_list_select(struct runs_list *list, size_t row); /* beyond the end: the last */
const struct run_info *runs_list_at(const struct runs_list *list, size_t row);
const struct run_info *runs_list_selected(const struct runs_list *list); /* NULL: nothing is shown */

#endif
