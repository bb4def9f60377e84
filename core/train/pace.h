/* How fast each rank of a world computes, and which one the others wait for.
 *
 * Every rank counts its own steps; rank 0 receives the counts of all with the facts of a decision
 * (trainer_run.c), and makes a record of each rank from what was added since the last report. A rank is slow
 * when PACE_LASTING reports in a row it computes longer than RANK_SLOW times the median of all ranks (of two
 * ranks: than the other one). It is named once, and again only after as many reports below 1.25 times. Pure:
 * no clock, no store; nothing is allocated after paces_open. */
#ifndef ANNEAL_CORE_TRAIN_PACE_H
#define ANNEAL_CORE_TRAIN_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/record.h"

enum { PACE_LASTING = 8, PACE_DEVICE = 16 };

/* Of one rank, since its trainer began. Plain data: ranks share it. */
struct pace {
    int64_t steps;
    double computing, waiting; /* seconds of these steps: its own work, and waiting for other ranks */
    uint64_t sent;             /* bytes to other ranks */
    int64_t memory;            /* bytes that its training takes */
    char device[PACE_DEVICE];  /* short name */
};

struct pace_history {
    struct pace reported; /* at the last report */
    double computing;     /* ms a step in the last report */
    int slow, even;       /* reports in a row */
    bool named;
};

struct paces {
    int ranks;
    struct pace_history *of; /* (ranks) owned */
    double *sorted;          /* (ranks) owned */
};

enum status paces_open(struct paces *paces, int ranks, struct err *err);
void paces_close(struct paces *paces); /* harmless on a zeroed struct */

/* The record of a rank since the last report, without step and host. Its steps must have grown. */
struct rank_record paces_report(struct paces *paces, int rank, const struct pace *now);

/* After all ranks are reported: a rank that is slow and was not named yet, and how many times the median it
 * computes; -1: none. */
int paces_judge(struct paces *paces, double *times);

#endif
