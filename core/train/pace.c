/* See pace.h. */
#include "core/train/pace.h"

#include "core/base/sort.h"

static const double EVEN = 1.25; /* times the median */

enum status paces_open(struct paces *paces, int ranks, struct err *err)
{
    *paces = (struct paces){.ranks = ranks};
    paces->of = calloc((size_t)ranks, sizeof *paces->of);
    paces->sorted = calloc((size_t)ranks, sizeof *paces->sorted);
    return paces->of && paces->sorted ? STATUS_OK : err_no_memory(err, "%d ranks", ranks);
}

void paces_close(struct paces *paces)
{
    free(paces->of);
    free(paces->sorted);
    *paces = (struct paces){0};
}

struct rank_record paces_report(struct paces *paces, int rank, const struct pace *now)
{
    struct pace_history *h = &paces->of[rank];
    double steps = (double)(now->steps - h->reported.steps);
    struct rank_record record = {.rank = rank,
                                 .device = now->device,
                                 .step_ms = (now->computing - h->reported.computing) * 1e3 / steps,
                                 .wait_ms = (now->waiting - h->reported.waiting) * 1e3 / steps,
                                 .sent_bytes = (int64_t)((double)(now->sent - h->reported.sent) / steps),
                                 .memory_bytes = now->memory};
    h->reported = *now;
    h->computing = record.step_ms;
    return record;
}

int paces_judge(struct paces *paces, double *times)
{
    int found = -1, n = paces->ranks;
    for (int r = 0; r < n; r++) paces->sorted[r] = paces->of[r].computing;
    sort_doubles(paces->sorted, (size_t)n);
    double median = paces->sorted[(n - 1) / 2];
    for (int r = 0; r < n; r++) {
        struct pace_history *h = &paces->of[r];
        h->slow = h->computing > RANK_SLOW * median ? h->slow + 1 : 0;
        h->even = h->computing < EVEN * median ? h->even + 1 : 0;
        if (h->even >= PACE_LASTING) h->named = false;
        if (h->named || h->slow < PACE_LASTING || found >= 0) continue;
        h->named = true;
        found = r;
        *times = h->computing / median;
    }
    return found;
}
