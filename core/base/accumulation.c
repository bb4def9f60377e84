/* See accumulation.h. */
#include "core/base/accumulation.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The steps [begin, end) of one size. The first range is {0}, behind which the plan begins. */
struct range {
    int64_t begin, end, size;
};

/* Reads "1000: 2" and the comma behind it. False: there is no other entry. */
static bool read_entry(const char **at, int64_t *from, int64_t *size)
{
    long long step, count;
    int used = 0;
    if (sscanf(*at, " %18lld : %6lld %n", &step, &count, &used) != 2) return false;
    *at += used;
    *from = step;
    *size = count;
    if (**at && **at != ',') return false;
    *at += **at == ',';
    return true;
}

/* The range that begins with the entry at *at, up to the next one. */
static bool next_range(const char **at, struct range *r)
{
    int64_t size;
    if (!**at && !r->size) {
        *r = (struct range){0, INT64_MAX, 1};
        return true;
    }
    if (!read_entry(at, &r->begin, &r->size)) return false;
    const char *behind = *at;
    if (!read_entry(&behind, &r->end, &size)) r->end = INT64_MAX;
    return true;
}

enum status accumulation_check(const char *plan, struct err *err)
{
    const char *at = plan;
    int64_t from, before = -1, size;
    bool right = strlen(plan) < ACCUMULATION_PLAN_MAX;
    while (right && read_entry(&at, &from, &size)) {
        right = (before < 0 ? from == 0 : from > before) && size >= 1 && size <= ACCUMULATION_MOST;
        before = from;
    }
    if (!*plan || (right && before >= 0 && !*at)) return STATUS_OK;
    return err_set(
        err, STATUS_USAGE,
        "train.accumulation_plan = %.100s: expects steps and the micro-batches that a step has from "
        "there on, such as 0: 1, 1000: 2, 4000: 4 (the first is 0, each is above the one before; 1 to "
        "%d micro-batches; at most %d characters)",
        plan, ACCUMULATION_MOST, ACCUMULATION_PLAN_MAX - 1);
}

int64_t accumulation_at(const char *plan, int64_t step)
{
    struct range r = {0};
    while (next_range(&plan, &r) && r.end <= step) continue;
    return r.size;
}

int64_t accumulation_most(const char *plan)
{
    struct range r = {0};
    int64_t most = 1;
    while (next_range(&plan, &r)) most = r.size > most ? r.size : most;
    return most;
}

double accumulation_sum(const char *plan, int64_t steps)
{
    struct range r = {0};
    double sum = 0;
    while (next_range(&plan, &r) && r.begin < steps)
        sum += (double)((r.end < steps ? r.end : steps) - r.begin) * (double)r.size;
    return sum;
}

double accumulation_steps(const char *plan, double micro_batches)
{
    struct range r = {0};
    while (next_range(&plan, &r)) {
        double whole = (double)(r.end - r.begin) * (double)r.size;
        if (micro_batches <= whole) break;
        micro_batches -= whole;
    }
    return (double)r.begin + ceil(micro_batches / (double)r.size - 1e-9);
}
