/* What `anneal train` says while it trains: a progress bar on a terminal, plain lines elsewhere, JSON lines
 * for programs, or nothing. Plain and bar write to stderr; JSON, being the result asked for, to stdout. The
 * plain lines also go to the run's log (run_log.h), whatever is shown.
 *
 * JSON is one object a line, the kind in "type": first `run` (which run, and from which step on), then
 * `step`, `eval`, `sample`, `checkpoint`, `event`, `order` and `status` (paused, running) as they happen, at
 * last `end` with the run's final status. Members are named like the CSV's columns. */
#ifndef ANNEAL_TUI_TRAIN_REPORT_H
#define ANNEAL_TUI_TRAIN_REPORT_H

#include <stdint.h>

#include "core/base/record.h"
#include "tui/command/progress_bar.h"
#include "tui/session/run_log.h"

enum report_mode { REPORT_AUTO, REPORT_BAR, REPORT_PLAIN, REPORT_JSON, REPORT_NONE };

struct train_report {
    enum report_mode mode; /* never AUTO after train_report_init */
    struct progress_bar bar;
    struct run_log log;
    int64_t total_steps;
    bool evaluated;         /* val_loss is there */
    double val_loss;        /* of the last evaluation */
    double tokens_per_sec;  /* smoothed */
    const char *go_on_with; /* the command that goes on from this run's checkpoints: "resume", or "fork" */
    int write_error;        /* errno of the first JSON line that could not be written; 0: none */
};

/* What is known before the first step. Borrowed for the call. */
struct train_introduction {
    const char *run, *device;  /* the id; as the backend describes it */
    int64_t step, total_steps; /* done already, planned */
    int64_t parameters, corpus_tokens, planned_bytes;
};

/* False for an unknown word. */
bool train_report_parse(const char *word, enum report_mode *out);

/* The style of a progress bar in this mode; JSON and NONE have none. */
enum progress_style train_report_style(enum report_mode mode);

/* AUTO becomes BAR when stderr is a terminal, else PLAIN. */
void train_report_init(struct train_report *report, enum report_mode mode, int64_t total_steps);

/* From here on the lines also go to the log in `folder`, the run's; train_report_end closes it. */
void train_report_log(struct train_report *report, const char *folder);

void train_report_begin(struct train_report *report, const struct train_introduction *introduction);

void train_report_step(struct train_report *report, const struct step_record *record);
void train_report_eval(struct train_report *report, const struct eval_record *record,
                       const struct stopping_record *stopping);
void train_report_sample(struct train_report *report, const struct sample_record *record);
void train_report_checkpoint(struct train_report *report, const struct checkpoint_record *record);
void train_report_event(struct train_report *report, const struct event_record *record);

/* `verb` and what became of it. */
void train_report_order(struct train_report *report, const char *verb, int64_t step, const char *result);
/* "paused" or "running" after `step` steps of run `id`. */
void train_report_status(struct train_report *report, const char *id, int64_t step, const char *status);

/* The run's end: its final status, how many steps are done, and why it ended ("": nothing to say). The bar is
 * left behind on a line of its own. */
void train_report_end(struct train_report *report, const char *id, const char *status, int64_t step,
                      const char *message);

/* A line for people: not shown as JSON or with NONE, but logged. */
void train_report_line(struct train_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
