/* The log of a run, log.txt in its folder, as its trainer writes it. Each wake-up reads the bytes that are
 * new, at most a piece; of a long log only the end is read. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tui/view/labels.h"
#include "tui/view/workbench.h"
#include "tui/widget/pager.h"

struct log_state {
    struct run_info run;
    char path[PATH_MAX + 16];
    int file; /* -1: none */
    struct stat known;
    off_t at; /* bytes read */
    struct pager pager;
    char remark[128]; /* why there is no log; "": there is one */
};

/* Opens the file anew, near its end if it is long. A file that is none, such as a pipe, is not read. */
static void open_log(struct log_state *state)
{
    enum { TAIL = PAGER_MOST / 2 };
    if (state->file >= 0) close(state->file);
    pager_clear(&state->pager);
    state->at = 0;
    state->file = open(state->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    bool usable = state->file >= 0 && fstat(state->file, &state->known) == 0 && S_ISREG(state->known.st_mode);
    snprintf(state->remark, sizeof state->remark, "%s",
             usable             ? ""
             : state->file >= 0 ? "log.txt is no file"
             : errno == ENOENT  ? "no log: the run was imported, or its trainer has not written yet"
                                : strerror(errno));
    if (!usable && state->file >= 0) close(state->file);
    if (!usable) state->file = -1;
    if (!usable || state->known.st_size <= TAIL) return;
    state->at = state->known.st_size - TAIL;
    state->pager.cut = true;
}

/* Whether another file has taken its place, or it has become shorter. */
static bool is_other(const struct log_state *state)
{
    struct stat now;
    if (stat(state->path, &now)) return state->file >= 0;
    return state->file < 0 || now.st_ino != state->known.st_ino || now.st_dev != state->known.st_dev ||
           now.st_size < state->at;
}

/* Takes the next piece of the log; true: the screen may have changed. */
static bool read_more(struct log_state *state)
{
    enum { PIECE = 65536, MOST = 1 << 20 };
    char bytes[PIECE];
    ssize_t n = 0;
    size_t all = 0;
    bool other = is_other(state);
    if (other) open_log(state);
    while (state->file >= 0 && all < MOST && (n = pread(state->file, bytes, PIECE, state->at)) > 0) {
        (void)pager_add(&state->pager, bytes, (size_t)n); /* without memory the text has a gap */
        state->at += n;
        all += (size_t)n;
    }
    return other || all > 0;
}

static enum status log_open(struct workbench *workbench, void *opaque, const char *argument, struct err *err)
{
    struct log_state *state = opaque;
    char folder[PATH_MAX];
    state->file = -1;
    if (run_find(workbench->store, argument, &state->run, err)) return err->status;
    run_folder(workbench->store, state->run.id, folder, sizeof folder);
    snprintf(state->path, sizeof state->path, "%s/log.txt", folder);
    open_log(state);
    read_more(state);
    workbench->eager = true;
    return STATUS_OK;
}

static void log_close(void *opaque)
{
    struct log_state *state = opaque;
    if (state->file >= 0) close(state->file);
    pager_release(&state->pager);
}

static bool log_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    struct log_state *state = opaque;
    bool looks = store_changed || status_is_live(state->run.status); /* a trainer dies without a commit */
    bool found = looks && workbench_did(workbench, run_get(workbench->store, state->run.id, &state->run,
                                                           &workbench->err));
    return read_more(state) || found;
}

static enum style line_style(const char *line, size_t n)
{
    if (memmem(line, n, "  error: ", 9)) return STYLE_BAD;
    if (memmem(line, n, "  warning: ", 11)) return STYLE_WARN;
    return STYLE_TEXT;
}

static void log_draw(struct workbench *workbench, void *opaque, struct grid *grid)
{
    struct log_state *state = opaque;
    struct rect body = {1, 2, grid->w - 2, grid->h - 3};
    label_draw_run(grid, &state->run, workbench->now);
    if (*state->remark || !state->pager.length)
        grid_text(grid, 1, 2, grid->w - 2, STYLE_DIM, 0, *state->remark ? state->remark : "the log is empty");
    pager_draw(&state->pager, grid, body, line_style);
    grid_scroll_marks(grid, (struct rect){0, body.y, grid->w, body.h}, state->pager.above || state->pager.cut,
                      state->pager.below);
    if (!state->pager.stays) workbench->no_hint[ACTION_LAST] = true;
}

static bool log_key(struct workbench *workbench, void *opaque, enum action action, uint32_t code)
{
    struct log_state *state = opaque;
    (void)workbench;
    (void)code;
    return keys_scroll(action, &state->pager);
}

const struct view_ops log_view = {
    CONTEXT_LOG, sizeof(struct log_state), log_open, log_read, log_draw, log_key, log_close};
