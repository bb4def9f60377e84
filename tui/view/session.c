/* See session.h. Signals come through a signalfd, so nothing happens behind the loop's back and curses is
 * never interrupted; children (trainers) get the old mask back in launch.c. */
#include "tui/view/session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "tui/view/screen.h"

enum { TICK_MS = 100 };

struct session {
    struct workbench *workbench;
    struct screen *screen;
    struct grid grid;
    int signals;
    bool gone; /* the terminal hung up: nothing can be shown any more */
};

static enum status open_signals(int *fd, sigset_t *old, struct err *err)
{
    static const int wanted[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) sigaddset(&set, wanted[i]);
    sigprocmask(SIG_BLOCK, &set, old);
    *fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (*fd >= 0) return STATUS_OK;
    sigprocmask(SIG_SETMASK, old, NULL);
    return err_set(err, STATUS_FAILED, "cannot listen to signals: %s", strerror(errno));
}

static enum status fit_grid(struct session *session, struct err *err)
{
    int w, h;
    screen_size(session->screen, &w, &h);
    session->grid.level = screen_glyphs(session->screen);
    if (w == session->grid.w && h == session->grid.h) return STATUS_OK;
    session->workbench->dirty = true;
    return grid_resize(&session->grid, w, h, err);
}

static void take_signals(struct session *session)
{
    struct signalfd_siginfo info;
    while (read(session->signals, &info, sizeof info) == sizeof info) {
        switch (info.ssi_signo) {
        case SIGWINCH:
            screen_resize(session->screen);
            session->workbench->dirty = true;
            break;
        case SIGTSTP:
            screen_suspend(session->screen);
            kill(getpid(), SIGSTOP);
            screen_resume(session->screen);
            session->workbench->dirty = true;
            break;
        case SIGHUP:
            session->gone = true; /* fall through */
        default:
            session->workbench->left = true;
            break;
        }
    }
}

static enum status loop(struct session *session, struct err *err)
{
    struct pollfd fds[2] = {{STDIN_FILENO, POLLIN, 0}, {session->signals, POLLIN, 0}};
    double next_tick = 0;
    while (!session->workbench->left) {
        if (fit_grid(session, err)) return err->status;
        if (session->workbench->redraw) screen_forget(session->screen);
        session->workbench->redraw = false;
        if (session->workbench->dirty) {
            workbench_draw(session->workbench, &session->grid);
            screen_show(session->screen, &session->grid);
        }
        double wait_ms = (next_tick - clock_monotonic()) * 1000;
        int ready = poll(fds, 2, wait_ms < 0 ? 0 : wait_ms > TICK_MS ? TICK_MS : (int)wait_ms + 1);
        if (ready < 0 && errno != EINTR)
            return err_set(err, STATUS_IO, "cannot wait for keys: %s", strerror(errno));
        if (ready > 0 && fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)) {
            session->gone = true;
            return STATUS_OK;
        }
        if (ready > 0 && fds[1].revents) take_signals(session);
        if (ready > 0 && fds[0].revents & POLLIN)
            for (uint32_t key; (key = screen_key(session->screen)) != K_NONE;)
                workbench_key(session->workbench, key);
        if (clock_monotonic() >= next_tick) {
            next_tick = clock_monotonic() + TICK_MS / 1000.0;
            workbench_tick(session->workbench, clock_wall());
        }
    }
    return STATUS_OK;
}

enum status session_run(const struct workbench_options *options, struct err *err)
{
    struct session session = {.signals = -1};
    sigset_t old;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return err_set(
            err, STATUS_FAILED,
            "the workbench needs a terminal, and standard %s is none (`anneal runs` and `anneal show` print "
            "the same facts)",
            isatty(STDOUT_FILENO) ? "input" : "output");
    enum status status = workbench_open(options, &session.workbench, err);
    if (status) return status;
    status = open_signals(&session.signals, &old, err);
    if (status) goto out;
    status = screen_open(stdin, stdout, &session.screen, err);
    if (status) goto out;
    status = loop(&session, err);
out:
    screen_close(session.screen);
    if (session.signals >= 0) {
        close(session.signals);
        sigprocmask(SIG_SETMASK, &old, NULL);
    }
    size_t live = status || session.gone ? 0 : workbench_live_runs(session.workbench);
    if (live > 0)
        fprintf(stderr, "%zu run%s on training; `anneal watch` shows %s again\n", live,
                live == 1 ? " goes" : "s go", live == 1 ? "it" : "them");
    grid_release(&session.grid);
    workbench_close(session.workbench);
    return status;
}
