/* A store with three runs, one of them alive (this process is its trainer), and the workbench in a terminal
 * on it. */
#ifndef ANNEAL_TESTS_TUI_VIEW_TERMINAL_FIXTURE_H
#define ANNEAL_TESTS_TUI_VIEW_TERMINAL_FIXTURE_H

#include "tests/tui/view/fill.h"
#include "tests/tui/view/pty.h"

struct fixture {
    char home[1024], empty[1024], environment[1100], empty_environment[1100];
    struct fill_run run; /* the living one: this process is its trainer */
};

/* kjv-live: 420 of 1,000 steps, running, early stopping with a patience of 5. */
extern const struct fill terminal_live;
/* lion-first: 300 steps with a spike at 150, finished. diverged: 60 steps, failed. */

/* Group set-up and tear-down: *state is the struct fixture. */
int terminal_make_store(void **state);
int terminal_drop_store(void **state);

/* The workbench with `environment` ("ANNEAL_HOME=...") and `more` (a variable, or NULL), in UTF-8 unless that
 * says otherwise. */
struct pty *terminal_open(const char *environment, int rows, int columns, const char *term, const char *more,
                          const char *const *arguments);
/* On the list of the fixture's store. */
struct pty *terminal_open_list(const struct fixture *fixture, int rows, int columns);

/* Goes to the field of the form on the screen with this label, wherever it is. */
void terminal_go_to(struct pty *pty, const char *label);
/* Goes there and types. */
void terminal_fill(struct pty *pty, const char *label, const char *text);

#endif
