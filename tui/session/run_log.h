/* A run's log.txt: the plain lines of its training and its events, each with its time, for later reading with
 * tail or grep. A resumed run appends its lines.
 *
 * Always: the log never disturbs training. If the folder is not writable, the disk is full or the file is not
 * a plain one, the log has a gap or is missing, and nothing else changes. A line is one write to the end of
 * the file, so a killed trainer leaves whole lines, and nothing is allocated. */
#ifndef ANNEAL_TUI_SESSION_RUN_LOG_H
#define ANNEAL_TUI_SESSION_RUN_LOG_H

struct run_log {
    int fd; /* -1: none */
};

/* Opens FOLDER/log.txt. */
void run_log_open(struct run_log *log, const char *folder);
void run_log_close(struct run_log *log); /* harmless without a log */

/* Appends one line without control characters: "2026-11-21 06:14:41  TEXT". */
void run_log_line(const struct run_log *log, const char *text);

#endif
