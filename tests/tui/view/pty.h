/* The real binary in a pseudo-terminal, its screen read through libvterm. Tests wait for a condition on the
 * screen, never for a time; the deadline is only there to end a test that has failed, with the screen in its
 * message. */
#ifndef ANNEAL_TESTS_TUI_VIEW_PTY_H
#define ANNEAL_TESTS_TUI_VIEW_PTY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct pty;

struct pty_options {
    int rows, columns;
    const char *term;               /* NULL: xterm-256color */
    const char *const *environment; /* "NAME=value" or "NAME" to unset, NULL at the end; NULL: nothing more */
    const char *const *arguments;   /* after the binary's name, NULL at the end; NULL: none */
};

/* Starts $ANNEAL_BINARY. Fails the test when it cannot. */
struct pty *pty_open(const struct pty_options *options);
/* Ends the child if it still lives; NULL is harmless. */
void pty_close(struct pty *pty);

void pty_send(struct pty *pty, const char *bytes);
void pty_signal(struct pty *pty, int number);
void pty_resize(struct pty *pty, int rows, int columns);

/* Waits until the screen shows `text` in one row; fails with a dump of the screen. */
void pty_wait_text(struct pty *pty, const char *text);
void pty_wait_no_text(struct pty *pty, const char *text);
/* Sends `bytes`, which ask for every cell to be written again, and waits until the screen is as it was. */
void pty_expect_redraw(struct pty *pty, const char *bytes);
/* Waits until the child has ended; returns its exit status, or 128 + the signal. */
int pty_wait_exit(struct pty *pty);
/* Waits until the child is stopped (Ctrl-Z). */
void pty_wait_stopped(struct pty *pty);

/* Draws what the child has written so far, so that it can write on. */
void pty_draw(struct pty *pty);
bool pty_has_text(struct pty *pty, const char *text);
/* Row as UTF-8 without trailing spaces, in a buffer of the pty's that the next call overwrites. */
const char *pty_row(struct pty *pty, int row);
/* The whole screen, rows ended by newlines; yours to free. */
char *pty_dump(struct pty *pty);
/* Cells whose foreground is not the terminal's own. */
int pty_coloured_cells(struct pty *pty);
bool pty_on_alternate_screen(const struct pty *pty);
bool pty_cursor_visible(const struct pty *pty);
/* True when the terminal's modes (echo, canonical input) are those of a shell again. */
bool pty_modes_restored(const struct pty *pty);
/* Everything the child wrote, raw, of more than 16 MiB the end; NUL-terminated. */
const char *pty_raw(const struct pty *pty);
pid_t pty_pid(const struct pty *pty);

#endif
