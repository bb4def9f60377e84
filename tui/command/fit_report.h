/* The largest batch and sequence that fit into a device's memory: the answer of `anneal estimate --fit`, as
 * text and as JSON.
 *
 * Of an amount that is given the whole is the plan's, but a GPU's context. Of what the device has now, the
 * plan gets what really starts there: what could be reserved, less what the program takes beside its plan,
 * less what those who wait will take first, less a margin. */
#ifndef ANNEAL_TUI_COMMAND_FIT_REPORT_H
#define ANNEAL_TUI_COMMAND_FIT_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/options.h"
#include "core/network/plan.h"
#include "tui/command/output.h"
#include "tui/session/memory_share.h"

struct fit_report {
    bool gpu, now;             /* now: into what the device has; else an amount that was given */
    int64_t memory;            /* bytes: given, or that could be reserved now */
    int64_t beside;            /* of them not the plan's: a GPU's context; now, on a CPU: the program */
    struct reservation *rows;  /* all of the device; owned */
    struct reservation *queue; /* of them, who waits, in order */
    size_t waiting;            /* how many */
    int64_t promised;          /* what they will still take */
    int64_t margin;            /* that stays */
    size_t room;               /* what is left of all that, for the plan */
    int batch, length;         /* that fit; 0: none */
    const char *batch_limit;   /* what keeps the batch from being larger: "memory", or what names a limit */
    const char *length_limit;
    bool no_snapshot; /* a GPU's host has no page-locked memory for it */
};

/* A 32nd of what could be reserved, for what comes and goes between this answer and the run, and a large page
 * for each block of the plan, to whose multiple the driver or the system rounds it up. */
int64_t fit_margin(int64_t memory);

/* Into `given` bytes; 0: into what the wish's device has now, its own bytes aside. `beside` of the device's
 * memory are not the plan's, as measured; -1: not known. */
enum status fit_report_look(struct fit_report *report, const struct memory_wish *wish, int64_t given,
                            int64_t beside, struct err *err);
/* The largest batch and the longest sequence, of at most `longest` tokens, with the rest as in the input. */
enum status fit_report_solve(struct fit_report *report, const struct plan_input *input, int longest,
                             struct err *err);

/* As the member fit. `words` of `estimate` and its --device (NULL: not given): for the commands that a page
 * recommends. */
void fit_report_print(struct output *output, const struct fit_report *report, const struct plan_input *input,
                      const struct words *words, const char *device);

#endif
