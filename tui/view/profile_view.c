/* The view of where the time of a run's steps goes: a table that folds. A profiled step comes now and then
 * and reading sums over all of them, so a run that trains is read every few seconds, not with every commit.
 */

#include "runs/run.h"
#include "tui/view/labels.h"
#include "tui/view/profile_panel.h"
#include "tui/view/run_panels.h"
#include "tui/view/workbench.h"
#include "tui/widget/table.h"

enum { READ_SECONDS = 3, IDENTITY_ROWS = 2 };

struct profile_state {
    struct run_info run;
    struct profile profile;
    struct profile_tree tree;
    bool together;  /* a row an operation, not one a layer */
    double read_at; /* Unix seconds */
    size_t selected, scroll, page;
};

/* Arranges the lines anew; the same thing stays selected. `was` is the line that was, of a profile that is
 * still there. */
static enum status arrange(struct profile_state *state, const struct profile *profile,
                           const struct profile_line *was, struct err *err)
{
    struct profile_line line;
    bool any = was != NULL;
    if (any) line = *was; /* the lines move */
    enum status status = profile_tree_arrange(&state->tree, profile, err);
    if (!status) state->selected = any ? profile_tree_find(&state->tree, &line) : 0;
    return status;
}

static const struct profile_line *selected_line(const struct profile_state *state)
{
    return state->selected < state->tree.count ? &state->tree.lines[state->selected] : NULL;
}

static void rearrange(struct workbench *workbench, struct profile_state *state)
{
    workbench_did(workbench, arrange(state, &state->profile, selected_line(state), &workbench->err));
}

static enum status read_profile(struct workbench *workbench, struct profile_state *state, struct err *err)
{
    struct profile next = {0};
    state->read_at = workbench->now;
    enum status status = profile_read(workbench->store, state->run.id, !state->together, &next, err);
    if (!status) status = arrange(state, &next, selected_line(state), err);
    if (status) {
        profile_release(&next);
        return status;
    }
    profile_release(&state->profile);
    state->profile = next;
    return STATUS_OK;
}

static void profile_close(void *opaque)
{
    struct profile_state *state = opaque;
    profile_tree_release(&state->tree);
    profile_release(&state->profile);
}

static enum status profile_open(struct workbench *workbench, void *opaque, const char *argument,
                                struct err *err)
{
    struct profile_state *state = opaque;
    state->tree.by_time = true;
    if (run_find(workbench->store, argument, &state->run, err)) return err->status;
    return read_profile(workbench, state, err);
}

static bool profile_view_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    struct profile_state *state = opaque;
    struct run_info run;
    if (!store_changed && !label_is_live(state->run.status)) return false;
    if (workbench_did(workbench, run_find(workbench->store, state->run.id, &run, &workbench->err)))
        state->run = run;
    bool ended = !label_is_live(state->run.status), due = workbench->now - state->read_at >= READ_SECONDS;
    if (due || ended) workbench_did(workbench, read_profile(workbench, state, &workbench->err));
    return true;
}

static void profile_draw(struct workbench *workbench, void *opaque, struct grid *grid)
{
    struct profile_state *state = opaque;
    struct rect area = {0, IDENTITY_ROWS, grid->w, grid->h - IDENTITY_ROWS - 1};
    struct profile_panel panel = {&state->profile, &state->tree, state->selected, 0};
    state->page = profile_panel_page(area);
    table_scroll(&state->scroll, state->selected, state->tree.count, state->page);
    panel.scroll = state->scroll;
    panel_draw_identity(grid, (struct rect){0, 0, grid->w, IDENTITY_ROWS}, &state->run, workbench->now);
    profile_panel_draw(grid, area, &panel);
}

/* Folds or unfolds; to the left of what is closed lies what it is in. */
static void fold(struct workbench *workbench, struct profile_state *state, bool open)
{
    const struct profile_line *line = selected_line(state);
    if (!line) return;
    if (!open && !line->open) {
        int depth = line->depth;
        while (state->selected > 0 && depth > 0 && state->tree.lines[state->selected].depth >= depth)
            state->selected--;
        return;
    }
    if (workbench_did(workbench, profile_tree_fold(&state->tree, state->selected, open, &workbench->err)))
        rearrange(workbench, state);
}

static void fold_all(struct workbench *workbench, struct profile_state *state)
{
    profile_tree_fold_all(&state->tree, !state->tree.all_open);
    rearrange(workbench, state);
}

static void sort(struct workbench *workbench, struct profile_state *state)
{
    state->tree.by_time = !state->tree.by_time;
    rearrange(workbench, state);
    workbench_say(workbench, state->tree.by_time ? "the slowest first" : "phases and layers in their order");
}

static void profile_key(struct workbench *workbench, void *opaque, enum action action, uint32_t code)
{
    struct profile_state *state = opaque;
    const struct profile_line *line = selected_line(state);
    (void)code;
    if (keys_move(action, &state->selected, state->tree.count, state->page)) return;
    switch (action) {
    case ACTION_OPEN:
        fold(workbench, state, !(line && line->open));
        break;
    case ACTION_UNFOLD:
        fold(workbench, state, true);
        break;
    case ACTION_FOLD:
        fold(workbench, state, false);
        break;
    case ACTION_FOLD_ALL:
        fold_all(workbench, state);
        break;
    case ACTION_SORT:
        sort(workbench, state);
        break;
    case ACTION_TOGETHER:
        state->together = !state->together;
        workbench_did(workbench, read_profile(workbench, state, &workbench->err));
        break;
    case ACTION_BACK:
        workbench_back(workbench);
        break;
    default:
        break;
    }
}

const struct view_ops profile_view = {
    .name = "the view of a profile",
    .context = CONTEXT_PROFILE,
    .state_bytes = sizeof(struct profile_state),
    .open = profile_open,
    .read = profile_view_read,
    .draw = profile_draw,
    .key = profile_key,
    .close = profile_close,
};
