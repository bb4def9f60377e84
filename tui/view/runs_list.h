/* The rows of the list of runs: read from the store, filtered by words, sorted, one of them selected. The
 * selection is an id: it stays on its run when rows come, go or change places. */
#ifndef ANNEAL_TUI_RUNS_LIST_H
#define ANNEAL_TUI_RUNS_LIST_H

#include "core/base/arena.h"
#include "runs/run.h"
#include "tui/view/input.h"

enum { RUN_TAG_MAX = 24 };

enum sort { SORT_CREATED, SORT_STATUS, SORT_NAME, SORT_LOSS, SORT_BEST, SORT_SPEED, SORT_COUNT };
const char *sort_name(enum sort sort); /* "newest first" */

struct runs_list {
    struct arena arena;
    struct run_info *runs; /* all, newest first; in the arena */
    size_t count;
    size_t *shown; /* indices of those that pass the filter, sorted; in the arena */
    size_t shown_count;
    /* tags[i] distinguishes runs[i] from others of its name: when it started, as shortly as is enough
       ("14:02" or "14:02:31" of today's, "09 Sep" or "09 Sep 14:02" of older ones), or else its id without
       the name ("20260909-140231-2"); "" for a name that only one run has. In the arena. */
    char (*tags)[RUN_TAG_MAX];
    size_t *by_name; /* scratch of runs_list_tag; in the arena */
    int tag_width;   /* columns of the longest tag; 0: all names are different */
    enum sort sort;
    bool reverse;
    struct input filter; /* words that name, id, status or device must contain, each of them */
    char selected[RUN_ID_MAX];
};

void runs_list_init(struct runs_list *list);
void runs_list_release(struct runs_list *list);

/* Reads all runs anew and tags them; on failure the old ones stay. `now`: Unix seconds. */
enum status runs_list_read(struct runs_list *list, struct store *store, double now, struct err *err);
/* When the day may have changed: what is today's is written differently. */
void runs_list_tag(struct runs_list *list, double now);
/* After a change of filter, sort or reverse. */
void runs_list_arrange(struct runs_list *list);

size_t runs_list_row(const struct runs_list *list);        /* of the selection; 0 when there is none */
void runs_list_select(struct runs_list *list, size_t row); /* beyond the end: the last */
/* The run itself; a filter that hides it is emptied, or keys would aim at another one. One that is gone is
 * not selected. */
void runs_list_select_run(struct runs_list *list, const char *run_id);
const struct run_info *runs_list_at(const struct runs_list *list, size_t row);
const char *runs_list_tag_at(const struct runs_list *list, size_t row);
const struct run_info *runs_list_selected(const struct runs_list *list); /* NULL: nothing is shown */

#endif
