/* A command of this program that runs beside the workbench and whose output a view shows as it comes. Nothing
 * here waits: the pipes are read as far as they are filled. The process ends with the job. */
#ifndef ANNEAL_TUI_JOB_H
#define ANNEAL_TUI_JOB_H

#include <sys/types.h>

#include "core/base/err.h"
#include "tui/widget/pager.h"

enum { JOB_WORDS_MAX = 256 };

struct job {
    pid_t pid;                 /* 0: none was started, or it has ended */
    bool ended;                /* it ran and has ended */
    bool failed;               /* with another status than 0 */
    bool stopped;              /* by job_stop */
    int input, output, errors; /* 0 or -1: closed */
    size_t asked, answered;    /* requests, and zero bytes of the output, which end their answers */
    struct pager text;         /* of standard output; with requests, the answer to the newest */
    struct pager report;       /* of standard error, likewise */
};

/* `arguments`: the command and its words, NULL at the end. `listens`: it takes requests (job_ask); else its
 * standard input is empty. Ends the job before, whose texts are dropped. */
enum status job_start(struct job *job, const char *const *arguments, bool listens, struct err *err);

/* The same without requests, with the words one a line. */
enum status job_start_lines(struct job *job, const char *words, struct err *err);

/* "running", "done", "stopped" or "failed", and its style. */
const char *job_word(const struct job *job, enum style *style);

/* Sends a request, which ends the answer that is being written. False: the job takes none (any more). */
bool job_ask(struct job *job, const char *request);

/* Whether an answer is being written. */
bool job_answers(const struct job *job);

/* Takes what has come. True: there was something, or the job has ended. */
bool job_read(struct job *job);

/* Asks it to end: Ctrl-C once, then at once. Returns what to tell the user. */
const char *job_stop(struct job *job);

/* Asks it to end with what it holds, such as a reservation of memory, waits for 100 ms, then as job_close. */
void job_leave(struct job *job);

/* Ends it at once and releases all. Harmless on a zeroed job, and twice. */
void job_close(struct job *job);

/* The last line of standard error without "anneal: "; "" for none. Returns buf. */
char *job_last_line(const struct job *job, char *buf, size_t size);

#endif
