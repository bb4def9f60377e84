/* The view of a run's memory, live or past: a past run shows what was seen last. Reads the run store, and
 * once a second while the run trains the ledger of device memory, which changes without the store. */

#include "runs/memory_usage.h"
#include "runs/reservations/ledger.h"
#include "runs/run.h"
#include "tui/view/labels.h"
#include "tui/view/memory_panel.h"
#include "tui/view/run_panels.h"
#include "tui/view/workbench.h"

struct memory_state {
    struct run_info run;
    struct arena arena; /* of usage */
    struct memory_usage usage;
    struct arena holders_arena;
    struct memory_panel panel;
    double holders_read; /* Unix seconds */
};

static enum status read_usage(struct workbench *workbench, struct memory_state *state, struct err *err)
{
    struct store *store = workbench->store;
    struct memory_usage usage;
    struct arena arena;
    struct run_info run;
    enum status status = run_find(store, state->run.id, &run, err);
    if (status) return status;
    arena_init(&arena, 4096);
    status = memory_usage_read(store, run.id, &arena, &usage, err);
    if (status) {
        arena_release(&arena);
        return status;
    }
    arena_release(&state->arena);
    state->arena = arena;
    state->usage = usage;
    state->run = run;
    return STATUS_OK;
}

/* The holders of now say nothing about a run that has ended. */
static enum status read_holders(struct workbench *workbench, struct memory_state *state, struct err *err)
{
    struct store *store = workbench->store;
    struct memory_holder *holders;
    struct arena arena;
    size_t count;
    struct ledger *ledger;
    state->holders_read = workbench->now;
    if (!label_is_live(state->run.status)) {
        state->panel.holder_count = 0;
        return STATUS_OK;
    }
    enum status status = ledger_open_own(store_home(store), true, &ledger, err);
    if (status) return status;
    arena_init(&arena, 4096);
    status = memory_usage_holders(store, ledger, state->run.id, &arena, &holders, &count, err);
    ledger_close(ledger);
    if (status) {
        arena_release(&arena);
        return status;
    }
    arena_release(&state->holders_arena);
    state->holders_arena = arena;
    state->panel.holders = holders;
    state->panel.holder_count = count;
    return STATUS_OK;
}

static void memory_close(void *opaque)
{
    struct memory_state *state = opaque;
    arena_release(&state->arena);
    arena_release(&state->holders_arena);
}

static enum status memory_open(struct workbench *workbench, void *opaque, const char *argument,
                               struct err *err)
{
    struct memory_state *state = opaque;
    arena_init(&state->arena, 4096);
    arena_init(&state->holders_arena, 4096);
    enum status status = run_find(workbench->store, argument, &state->run, err);
    if (!status) status = read_usage(workbench, state, err);
    if (status) return status;
    /* without the ledger the rest is as true as before */
    workbench_did(workbench, read_holders(workbench, state, &workbench->err));
    return STATUS_OK;
}

static bool memory_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    struct memory_state *state = opaque;
    bool live = label_is_live(state->run.status);
    if (!store_changed && !live) return false;
    workbench_did(workbench, read_usage(workbench, state, &workbench->err));
    if (live && workbench->now - state->holders_read >= 1)
        workbench_did(workbench, read_holders(workbench, state, &workbench->err));
    return true;
}

static void memory_draw(struct workbench *workbench, void *opaque, struct grid *grid)
{
    struct memory_state *state = opaque;
    state->panel.usage = &state->usage;
    state->panel.live = label_is_live(state->run.status);
    state->panel.now = workbench->now;
    panel_draw_identity(grid, (struct rect){0, 0, grid->w, 2}, &state->run, workbench->now);
    int top = grid->h >= 26 ? 3 : 2;
    memory_panel_draw(grid, (struct rect){0, top, grid->w, grid->h - top - 1}, &state->panel);
}

static void memory_key(struct workbench *workbench, void *opaque, enum action action, uint32_t code)
{
    struct memory_state *state = opaque;
    (void)code;
    if (action == ACTION_ZOOM_IN) state->panel.scale = MEMORY_SCALE_RUN;
    if (action == ACTION_ZOOM_OUT) state->panel.scale = MEMORY_SCALE_DEVICE;
    if (action == ACTION_ZOOM_ALL) state->panel.scale = MEMORY_SCALE_FIT;
    if (action == ACTION_BACK) workbench_back(workbench);
}

const struct view_ops memory_view = {
    .name = "the view of a run's memory",
    .context = CONTEXT_MEMORY,
    .state_bytes = sizeof(struct memory_state),
    .open = memory_open,
    .read = memory_read,
    .draw = memory_draw,
    .key = memory_key,
    .close = memory_close,
};
