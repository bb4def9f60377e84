/* Private to `anneal doctor`: what its checks share. doctor.c has the command, the database, the reservations
 * and what is on disk; doctor_runs.c the runs and their folders; doctor_report.c prints what is found. */
#ifndef ANNEAL_TUI_COMMAND_DOCTOR_H
#define ANNEAL_TUI_COMMAND_DOCTOR_H

#include "tui/command/output.h"
#include "tui/command/progress_bar.h"
#include "tui/session/cleaning.h"

enum finding_level {
    PROBLEM,  /* something is damaged, missing or in the wrong place */
    REPAIRED, /* it was */
    NOTE,     /* nothing is wrong, but something can be removed */
    LEVELS
};

/* The space that a run takes on disk. */
struct held {
    const struct run_info *run;
    int64_t checkpoints, bytes, removable;
};

struct doctor {
    bool repair;
    struct output out;
    struct progress_bar bar;
    struct progress_meter meter;
    struct store *store; /* read-only; NULL: there is none that can be read */
    char home[PATH_MAX], database[PATH_MAX];
    struct arena arena;
    struct run_info *runs;
    size_t run_count;
    struct held *held; /* (run_count) */
    struct cleaning cleaning;
    int64_t found[LEVELS], checkpoints;
    bool trains; /* a run does */
};

/* Prints a finding about `path`; `remedy`: what to do, or "". `run` "": it concerns no run. */
void doctor_report(struct doctor *d, enum finding_level level, const char *run, const char *path,
                   const char *remedy, const char *format, ...) __attribute__((format(printf, 6, 7)));
/* The same of a sentence "PATH: what", where the path begins with `prefix`. */
void doctor_report_error(struct doctor *d, enum finding_level level, const char *run, const char *prefix,
                         const char *remedy, const struct err *why);
/* The same of an item of cleaning that is left over. */
void doctor_report_leftover(struct doctor *d, const struct cleaning_item *item);

/* Each reports what it finds; the status is only that of the check: STATUS_INTERRUPTED, no memory. */
enum status doctor_check_run(struct doctor *d, struct held *held, struct err *err);
/* The folders of `runs` that the database does not know. */
enum status doctor_check_folders(struct doctor *d, struct err *err);

#endif
