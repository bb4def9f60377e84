/* How a training is shown: a progress bar on a terminal, plain lines elsewhere, JSON lines for programs, or
 * nothing. Plain and bar go to standard error; JSON, being the result asked for, to standard output. The
 * plain lines also go to the run's log, whatever is shown.
 *
 * JSON is one object a line, the kind in "type": first `run` (which run, and from which step on), then
 * `step`, `eval`, `sample`, `checkpoint`, `event`, `order` and `status` (paused, running) as they happen, at
 * last `end` with the run's final status. Members are named like the CSV's columns. */
#ifndef ANNEAL_TUI_COMMAND_TRAIN_REPORT_H
#define ANNEAL_TUI_COMMAND_TRAIN_REPORT_H

#include "core/base/json_out.h"
#include "tui/command/progress_bar.h"
#include "tui/session/training_session.h"

enum report_mode { REPORT_AUTO, REPORT_BAR, REPORT_PLAIN, REPORT_JSON, REPORT_START, REPORT_NONE };

struct report {
    enum report_mode mode;
    struct progress_bar bar;
    bool planning;        /* the data are read */
    char error[400];      /* the newest event of that level since the last pause; "": none */
    struct json_out json; /* the line that is being written */
    const struct training_session *session; /* set once it begins */
    int64_t began_after;                    /* the steps that were done before */
    bool evaluated;                         /* val_loss is set */
    double val_loss;                        /* of the last evaluation */
    double tokens, seconds;                 /* of a step, smoothed; 0: none yet */
    int write_error; /* errno of the first JSON line that could not be written; 0: none */
};

/* Makes a watcher that reports. Both must outlive the session. */
void report_init(struct report *report, enum report_mode mode, struct training_watcher *watcher);

#endif
