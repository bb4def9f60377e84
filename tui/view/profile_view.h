/* The profile of a run: a tree of phases, layers and operations, its visible lines, and a table of them with
 * calls, time, share of the step as a bar, and the rates achieved. Folds survive when the profile is read
 * again. Tree and table are plain data and cells: only the view reads. */
#ifndef ANNEAL_TUI_VIEW_PROFILE_VIEW_H
#define ANNEAL_TUI_VIEW_PROFILE_VIEW_H

#include "core/base/arena.h"
#include "runs/profile.h"
#include "tui/view/list.h"

enum profile_level { PROFILE_PHASE, PROFILE_LAYER, PROFILE_OPERATION };

/* Numbers are per step; a phase or layer holds the sums over its parts. */
struct profile_line {
    enum profile_level level;
    struct profile_row of; /* op: only for an operation; layer: for a layer or its parts */
    bool folds;            /* the line has parts */
    bool open;             /* the parts are visible */
    /* private: the user has opened or closed it; its number; the first node after its parts */
    bool by_hand;
    size_t node, end;
};

struct profile_tree {
    struct profile_line *lines; /* visible ones, from the top */
    struct list list;
    bool by_time;  /* siblings are sorted by time, slowest first; else in profile order */
    bool all_open; /* layers are open unless the user folded them */
    /* private */
    struct arena arena;         /* holds lines and nodes */
    struct profile_line *nodes; /* in profile order, each node before its parts */
    size_t node_count;
};

/* Zero `tree` before its first use. Borrows texts from `profile` until the end of the next call. Keeps the
 * same line selected; if it is hidden or gone, its layer or phase, or the first line. */
enum status profile_tree_arrange(struct profile_tree *tree, const struct profile *profile, struct err *err);
void profile_tree_release(struct profile_tree *tree);

/* Opens or closes a line that has parts; profile_tree_arrange then updates the visible lines. */
void profile_tree_fold(struct profile_tree *tree, size_t line, bool open);
/* Likewise opens all layers, or closes them, and forgets what was done by hand. */
void profile_tree_fold_all(struct profile_tree *tree);

/* Draws the lines as a table into `area`, all of which it owns, scrolled to the selected one. */
void profile_draw_table(struct grid *grid, struct rect area, const struct profile *profile,
                        struct profile_tree *tree);

#endif
