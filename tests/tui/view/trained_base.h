/* A run that the real binary has trained in a moment, for the forms and commands that begin with one. */
#ifndef ANNEAL_TESTS_TUI_VIEW_TRAINED_BASE_H
#define ANNEAL_TESTS_TUI_VIEW_TRAINED_BASE_H

#include "tests/tui/view/terminal_fixture.h"

extern char trained_home[1024]; /* has "base" */

/* Trains "base", of one small layer, with these further options. Returns 0: for a group's setup. */
int trained_base(const char *options);
/* The workbench on "base". */
struct pty *trained_base_watch(int rows, int columns);

#endif
