/* The largest batch and sequence that fit into a device's memory: the answer of `anneal estimate --fit`, as
 * text and as JSON.
 *
 * A given amount is the plan's, except for a GPU's context. Of the device's present memory, the plan gets
 * what a run can really take: the reservable amount, less the program's own memory, less what waiting
 * processes will take first, less a margin. */
#ifndef ANNEAL_TUI_COMMAND_FIT_REPORT_H
#define ANNEAL_TUI_COMMAND_FIT_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/options.h"
#include "core/network/plan.h"
#include "tui/command/output.h"
#include "tui/session/memory_share.h"

struct fit_report {
    bool gpu, now;             /* now: into the device's present memory; else a given amount */
    int64_t memory;            /* bytes: given, or reservable now */
    int64_t beside;            /* of them outside the plan: a GPU's context; now, on a CPU: the program */
    struct reservation *rows;  /* all of the device; owned */
    struct reservation *queue; /* of them, those waiting, in order */
    size_t waiting;            /* how many */
    int64_t promised;          /* bytes they will still take */
    int64_t margin;            /* stays free */
    size_t room;               /* bytes left for the plan */
    int batch, length;         /* fitting; 0: none */
    const char *batch_limit;   /* the limit of the batch: "memory", or the name of another limit */
    const char *length_limit;
    bool no_snapshot; /* a GPU's host has no page-locked memory for it */
};

/* A 32nd of the reservable memory, for changes between this answer and the run, and a large page for each
 * block of the plan, since the driver or the system rounds blocks up to one. */
int64_t fit_margin(int64_t memory);

/* Finds the room in `given` bytes; 0: in the present memory of the wish's device. `beside`: bytes of the
 * device outside the plan, as measured; -1: not known. */
enum status fit_report_look(struct fit_report *report, const struct memory_wish *wish, int64_t given,
                            int64_t beside, struct err *err);
/* Finds the largest batch and the longest sequence, up to `longest` tokens, with other input unchanged. */
enum status fit_report_solve(struct fit_report *report, const struct plan_input *input, int longest,
                             struct err *err);

/* Prints the member fit. The commands that a page recommends use `words` of `estimate` and its --device
 * (NULL: not given). */
void fit_report_print(struct output *output, const struct fit_report *report, const struct plan_input *input,
                      const struct words *words, const char *device);

#endif
