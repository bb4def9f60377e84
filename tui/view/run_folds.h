/* Groups of runs in the list: rows of runs that differ in certain keys alone, such as the seed, fold into
 * one, whose numbers are means or sums; those of a sweep fold into one with the numbers of the best. Without
 * groups each row has one run. */
#ifndef ANNEAL_TUI_RUN_FOLDS_H
#define ANNEAL_TUI_RUN_FOLDS_H

#include "runs/listing.h"
#include "tui/view/workbench.h"

enum { FOLDS_KEYS_MAX = 256, FOLDS_TEXT_MAX = 96 };

struct run_folds {
    bool on;
    char keys[FOLDS_KEYS_MAX]; /* as in grouping_read */
    /* the numbers of the runs in row r, once the groups were applied: members[begin[r]] …
     * members[begin[r + 1] - 1] */
    const size_t *members, *begin;
    /* private */
    struct arena arena, rows_arena; /* of group; of members and begin */
    size_t *group;                  /* of each run of the list; NULL: not read */
    size_t group_count;
    uint64_t stamp; /* of the runs for which `group` was read */
    char read_keys[FOLDS_KEYS_MAX];
};

void run_folds_release(struct run_folds *folds);

/* The keys in which runs of a group may differ, as the user has chosen them; the comparison shares them. */
const char *run_folds_keys(const struct settings *settings);

/* Takes `on` and the keys from the settings; whether they have changed. */
bool run_folds_recall(struct run_folds *folds, const struct settings *settings);

/* Reads the groups of the listing's runs, if they are needed and may have changed. */
enum status run_folds_read(struct run_folds *folds, struct store *store, const struct listing *listing,
                           struct err *err);

/* Leaves of the rows shown the first one of each group; none at all when memory runs out. */
void run_folds_apply(struct run_folds *folds, struct listing *listing);

/* How many runs a row stands for. */
static inline size_t run_folds_count(const struct run_folds *folds, size_t row)
{
    return folds->begin[row + 1] - folds->begin[row];
}

/* Handles the keys that fold and unfold, and that name the keys in which runs of a group may differ, by
 * changing the settings; whether it was one. */
bool run_folds_key(struct workbench *workbench, const struct run_folds *folds, struct listing *listing,
                   enum action action, uint32_t code);

/* Whether the row stands for several runs of a sweep. */
bool run_folds_sweep(const struct run_folds *folds, const struct listing *listing, size_t row);

/* The run that the row shows: of several a mean one, or the best of a sweep, named by what they share. */
struct run_info run_folds_info(const struct run_folds *folds, const struct listing *listing, size_t row);
/* A value of the row: the mean of numbers, of steps and times the sum, the texts one after another in
 * `buf`. */
struct field_value run_folds_value(const struct run_folds *folds, const struct listing *listing, int column,
                                   size_t row, char buf[FOLDS_TEXT_MAX]);

#endif
