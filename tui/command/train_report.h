/* What `anneal train` says while it trains: a progress bar on a terminal, plain lines elsewhere, JSON lines
 * for programs, or nothing. Plain and bar write to stderr; JSON, being the result asked for, to stdout. */
#ifndef ANNEAL_TUI_TRAIN_REPORT_H
#define ANNEAL_TUI_TRAIN_REPORT_H

#include <stdint.h>

#include "core/base/record.h"
#include "tui/command/progress_bar.h"

enum report_mode { REPORT_AUTO, REPORT_BAR, REPORT_PLAIN, REPORT_JSON, REPORT_NONE };

struct train_report {
    enum report_mode mode; /* never AUTO after train_report_init */
    struct progress_bar bar;
    int64_t total_steps;
    double val_loss;       /* of the last evaluation; NaN: none */
    double tokens_per_sec; /* smoothed */
};

/* False for an unknown word. */
bool train_report_parse(const char *word, enum report_mode *out);

/* The style of a progress bar in this mode; JSON and NONE have none. */
enum progress_style train_report_style(enum report_mode mode);

/* AUTO becomes BAR when stderr is a terminal, else PLAIN. */
void train_report_init(struct train_report *report, enum report_mode mode, int64_t total_steps);

void train_report_step(struct train_report *report, const struct step_record *record);
void train_report_eval(struct train_report *report, const struct eval_record *record,
                       const struct stopping_record *stopping);
void train_report_sample(struct train_report *report, const struct sample_record *record);
void train_report_checkpoint(struct train_report *report, const struct checkpoint_record *record);
void train_report_event(struct train_report *report, const struct event_record *record);

/* A line for people: not shown as JSON or with NONE. */
void train_report_line(struct train_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Leaves the bar behind on a line of its own. */
void train_report_finish(struct train_report *report);

#endif
