/* The workbench on a grid alone, without a terminal: opened on a store, given keys and ticks, its screen read
 * as text. Everything here fails the test when it cannot. */
#ifndef ANNEAL_TESTS_TUI_VIEW_HEADLESS_H
#define ANNEAL_TESTS_TUI_VIEW_HEADLESS_H

#include "tui/view/workbench.h"

/* The form that headless_open gives the workbench: name, data.train, train.schedule, sample.prompt. */
enum { HEADLESS_FIELDS = 4 };
extern const struct form_field headless_fields[HEADLESS_FIELDS];

/* On the run `run_id`; NULL: on the list. Close it with workbench_close. */
struct workbench *headless_open(const char *home, const char *run_id);
struct workbench *headless_open_with(const char *home, const char *run_id, const char *greeting);
void headless_press(struct workbench *workbench, uint32_t code, int times);
/* Each byte of `text` as a key. */
void headless_type(struct workbench *workbench, const char *text);

/* Draws a frame into a grid of this size; grid_release it. */
struct grid headless_draw(struct workbench *workbench, int w, int h);
/* The first row that holds `words`, in a buffer that the next call overwrites; NULL: none does. */
const char *headless_row_with(struct workbench *workbench, int w, int h, const char *words);

/* Columns [0, width) of the screen contain `sentence`; rows are joined, and words separated by single
 * spaces. */
void headless_expect(struct workbench *workbench, int w, int h, int width, const char *sentence);
void headless_expect_not(struct workbench *workbench, int w, int h, const char *words);

/* Row of the list that is marked as selected, at this size; -1: none. */
int headless_selected_row(struct workbench *workbench, int w, int h);
/* The selected row at 80 x 24 holds `name`. */
void headless_expect_selected(struct workbench *workbench, const char *name);

#endif
