/* A run's log.txt: the plain lines of its training and what happened to it, each with its time, for who reads
 * later with tail or grep. A resumed run's lines follow the earlier ones.
 *
 * Always: it never disturbs training. A folder that cannot be written to, a full disk, a file that is no
 * plain file: the log has a gap or is not there, and nothing else changes. A line is one write to the end of
 * the file, so a killed trainer leaves whole lines, and nothing is allocated. */
#ifndef ANNEAL_TUI_SESSION_RUN_LOG_H
#define ANNEAL_TUI_SESSION_RUN_LOG_H

struct run_log {
    int fd; /* -1: none */
};

/* Opens FOLDER/log.txt. */
void run_log_open(struct run_log *log, const char *folder);
void run_log_close(struct run_log *log); /* harmless when there is none */

/* "2026-11-21 06:14:41  TEXT": one line, without control characters. */
void run_log_line(const struct run_log *log, const char *text);

#endif
