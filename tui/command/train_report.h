/* How `anneal train` shows a training session: a progress bar on a terminal, plain lines elsewhere, JSON
 * lines for programs, or nothing. Plain and bar write to stderr; JSON, being the result asked for, to stdout.
 * The plain lines also go to the run's log, whatever is shown.
 *
 * JSON is one object a line, the kind in "type": first `run` (which run, and from which step on), then
 * `step`, `eval`, `sample`, `checkpoint`, `event`, `order` and `status` (paused, running) as they happen, at
 * last `end` with the run's final status. Members are named like the CSV's columns. */
#ifndef ANNEAL_TUI_COMMAND_TRAIN_REPORT_H
#define ANNEAL_TUI_COMMAND_TRAIN_REPORT_H

#include "core/base/json_out.h"
#include "tui/command/progress_bar.h"
#include "tui/session/training.h"

enum report_mode { REPORT_AUTO, REPORT_BAR, REPORT_PLAIN, REPORT_JSON, REPORT_NONE };

struct train_report {
    enum report_mode mode;
    struct progress_bar bar;
    struct progress progress; /* the bar's */
    struct json_out json;     /* the line that is being written */
    char run[RUN_ID_MAX];
    const char *go_on_with; /* see struct training_introduction */
    int64_t total_steps;
    bool evaluated;        /* val_loss is there */
    double val_loss;       /* of the last evaluation */
    double tokens_per_sec; /* smoothed */
    int write_error;       /* errno of the first JSON line that could not be written; 0: none */
};

/* AUTO is BAR when stderr is a terminal, else PLAIN. */
void train_report_init(struct train_report *report, enum report_mode mode);

/* The report as a session's watcher; it must outlive the session. */
struct training_watcher train_report_watcher(struct train_report *report);

/* After the session: STATUS_IO where standard output could not take all JSON lines. A reader that has gone is
 * no error. */
enum status train_report_check(const struct train_report *report, struct err *err);

#endif
