/* The workbench on a grid alone, without a terminal: opened on a store, given keys and ticks, its screen read
 * as text. Everything here fails the test when it cannot. */
#ifndef ANNEAL_TESTS_TUI_VIEW_HEADLESS_H
#define ANNEAL_TESTS_TUI_VIEW_HEADLESS_H

#include "tui/view/workbench.h"

/* The form that headless_open gives the workbench: name, data.train, train.schedule, sample.prompt. */
enum { HEADLESS_FIELDS = 4 };
extern const struct form_field headless_fields[HEADLESS_FIELDS];

/* On the run `run_id`; NULL: on the list. It is kept (kept.h). */
struct workbench *headless_open(const char *home, const char *run_id);
struct workbench *headless_open_with(const char *home, const char *run_id, const char *greeting);
/* Closes it before the end of the test. */
void headless_close(struct workbench *workbench);
void headless_press(struct workbench *workbench, uint32_t code, int times);
/* Each byte of `text` as a key. */
void headless_type(struct workbench *workbench, const char *text);

/* Goes to the field of a form with this label, wherever it is. */
void headless_go_to(struct workbench *workbench, const char *label);

/* Draws a frame into a grid of this size; grid_release it. */
struct grid headless_draw(struct workbench *workbench, int w, int h);
/* The first row that holds `words`, in a buffer that the next call overwrites; NULL: none does. */
const char *headless_row_with(struct workbench *workbench, int w, int h, const char *words);

/* The first row that holds `words` holds all the texts that follow. */
#define headless_expect_row(workbench, w, h, ...) headless_expect_row_all(workbench, w, h, __VA_ARGS__, NULL)
void headless_expect_row_all(struct workbench *workbench, int w, int h, const char *words, ...)
    __attribute__((sentinel));

/* Columns [0, width) of the screen contain each of the sentences that follow; rows are joined, and words
 * separated by single spaces. */
#define headless_expect(workbench, w, h, ...) headless_expect_all(workbench, w, h, __VA_ARGS__, NULL)
void headless_expect_all(struct workbench *workbench, int w, int h, int width, ...) __attribute__((sentinel));
void headless_expect_not(struct workbench *workbench, int w, int h, const char *words);

/* Row of the list that is marked as selected, at this size; -1: none. */
int headless_selected_row(struct workbench *workbench, int w, int h);
/* The selected row at 80 x 24 holds `name`. */
void headless_expect_selected(struct workbench *workbench, const char *name);

#endif
