/* The profile of a run: a tree of phases, layers and operations, the lines of it that are visible, and these
 * drawn as a table: calls, time, share of the step as a bar, and the rates achieved. Folds stay when the
 * profile is read again. Plain data and cells: only the view reads. */
#ifndef ANNEAL_TUI_VIEW_PROFILE_VIEW_H
#define ANNEAL_TUI_VIEW_PROFILE_VIEW_H

#include "core/base/arena.h"
#include "runs/profile.h"
#include "tui/widget/grid.h"

enum profile_level { PROFILE_PHASE, PROFILE_LAYER, PROFILE_OPERATION };
enum { PROFILE_FOLDS_MAX = 512, PROFILE_PHASE_MAX = 32 };

/* Numbers a step; those of a phase or layer are sums over what is in it. */
struct profile_line {
    enum profile_level level;
    struct profile_row of; /* op: of an operation only; layer: of a layer or what is in it */
    bool folds;            /* there is something in it */
    bool open;             /* and it is visible */
    size_t end;            /* private: the first node that is not in it */
};

struct profile_tree {
    struct profile_line *lines; /* visible, from above */
    size_t count;
    size_t selected, scroll; /* a line, and the first one shown */
    bool by_time;            /* siblings: the slowest first; else in the order of the profile */
    bool all_open;           /* layers are open unless folded by hand */
    /* private */
    struct arena arena;         /* of lines and nodes */
    struct profile_line *nodes; /* in the order of the profile, each before what is in it */
    size_t node_count;
    size_t fold_count; /* 0: forgets what was folded by hand */
    struct {
        char phase[PROFILE_PHASE_MAX];
        int layer;              /* -1: the phase itself */
    } folds[PROFILE_FOLDS_MAX]; /* opened or closed by hand; those beyond are forgotten */
};

/* Zero `tree` before its first use. Texts are borrowed from `profile` until the end of the next call. The
 * same thing stays selected; where that is hidden or gone the layer or phase it is in, or the first line. */
enum status profile_tree_arrange(struct profile_tree *tree, const struct profile *profile, struct err *err);
void profile_tree_release(struct profile_tree *tree);

/* Opens or closes a line that has something in it; profile_tree_arrange makes it visible. */
void profile_tree_fold(struct profile_tree *tree, size_t line, bool open);

/* Draws the lines as a table into `area`, all of which it owns, scrolled to the selected one. Returns how
 * many it shows at most. */
size_t profile_draw_table(struct grid *grid, struct rect area, const struct profile *profile,
                          struct profile_tree *tree);

#endif
