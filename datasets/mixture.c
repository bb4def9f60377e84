/* See mixture.h. */
#include "datasets/mixture.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* ---- shares ---- */

/* Divides a period by the weights: whole parts, and what is left to the largest remainders. */
static enum status divide_period(struct mixture *m, const double *weights, struct err *err)
{
    double sum = 0, remainders[MIXTURE_SOURCES_MAX];
    uint64_t left = MIXTURE_PERIOD;
    for (int s = 0; s < m->count; s++) sum += weights[s];
    for (int s = 0; s < m->count; s++) {
        double share = weights[s] / sum * MIXTURE_PERIOD;
        if (!(share >= 1))
            return err_set(err, STATUS_USAGE,
                           "the weight of source %d is %g of the sum of all weights, less than 1/%d (leave "
                           "the source out, "
                           "or raise its weight)",
                           s + 1, weights[s] / sum, MIXTURE_PERIOD);
        m->quotas[s] = (uint64_t)share;
        remainders[s] = share - floor(share);
        left -= m->quotas[s] < left ? m->quotas[s] : left;
    }
    for (; left; left--) {
        int most = 0;
        for (int s = 1; s < m->count; s++)
            if (remainders[s] > remainders[most]) most = s;
        m->quotas[most]++;
        remainders[most] = -1;
    }
    return STATUS_OK;
}

/* Spreads each source's rows evenly: every place adds each source's quota to its credit, and the source with
 * the most credit takes the place and pays a period for it. After a period all credits are 0 again. */
static void fill_period(struct mixture *m)
{
    int64_t credits[MIXTURE_SOURCES_MAX] = {0};
    uint32_t ranks[MIXTURE_SOURCES_MAX] = {0};
    for (int i = 0; i < MIXTURE_PERIOD; i++) {
        int most = 0;
        for (int s = 0; s < m->count; s++) {
            credits[s] += (int64_t)m->quotas[s];
            if (credits[s] > credits[most]) most = s;
        }
        credits[most] -= MIXTURE_PERIOD;
        m->period[i] = (struct mixture_place){ranks[most]++, (uint32_t)most};
    }
    for (int s = 0; s < m->count; s++) assert(ranks[s] == m->quotas[s]);
}

enum status mixture_open_training(const struct batch_source *sources, const double *weights, int count,
                                  struct mixture *out, struct err *err)
{
    struct mixture m = {.count = count};
    assert(count > 0 && count <= MIXTURE_SOURCES_MAX);
    for (int s = 0; s < count; s++) {
        m.sources[s] = sources[s];
        m.rows += sources[s].rows;
    }
    enum status status = divide_period(&m, weights, err);
    if (status) return status;
    m.period = malloc(MIXTURE_PERIOD * sizeof *m.period);
    if (!m.period) return err_no_memory(err, "the mixture of %d sources", count);
    fill_period(&m);
    *out = m;
    return STATUS_OK;
}

void mixture_open_validation(const struct batch_source *sources, const double *weights, int count,
                             uint64_t most, struct mixture *out)
{
    struct mixture m = {.count = count};
    uint64_t rows[MIXTURE_SOURCES_MAX], all = 0, taken = (uint64_t)count;
    for (int s = 0; s < count; s++) {
        m.sources[s] = sources[s];
        all += sources[s].rows;
        rows[s] = 1;
    }
    if (!most || most > all) most = all;
    for (; taken < most; taken++) { /* each row to the source that lacks most, of those that have one left */
        int next = -1;
        for (int s = 0; s < count; s++)
            if (rows[s] < sources[s].rows &&
                (next < 0 || (double)rows[s] * weights[next] < (double)rows[next] * weights[s]))
                next = s;
        rows[next]++;
    }
    for (int s = 0; s < count; s++) m.first[s + 1] = m.first[s] + rows[s];
    m.rows = m.first[count];
    *out = m;
}

void mixture_close(struct mixture *m)
{
    free(m->period);
    *m = (struct mixture){0};
}

/* ---- rows ---- */

int mixture_source_of(const struct mixture *m, uint64_t row, uint64_t *index)
{
    if (m->period) {
        const struct mixture_place *place = &m->period[row % MIXTURE_PERIOD];
        *index = row / MIXTURE_PERIOD * m->quotas[place->source] + place->rank;
        return (int)place->source;
    }
    uint64_t epoch = row / m->rows, in_epoch = row % m->rows;
    int s = 0;
    while (in_epoch >= m->first[s + 1]) s++;
    *index = epoch * m->sources[s].rows + in_epoch - m->first[s];
    return s;
}

static void fill(const void *context, uint64_t cursor, int B, int32_t *inputs, int32_t *targets,
                 int32_t *positions)
{
    const struct mixture *m = context;
    for (int b = 0, T = m->sources[0].T; b < B; b++) {
        uint64_t index;
        const struct batch_source *source = &m->sources[mixture_source_of(m, cursor + (uint64_t)b, &index)];
        ptrdiff_t at = (ptrdiff_t)b * T;
        source->fill(source->context, index, 1, inputs + at, targets + at, positions ? positions + at : NULL);
    }
}

static double labels(const void *context, uint64_t cursor, uint64_t rows)
{
    const struct mixture *m = context;
    double sum = 0;
    for (uint64_t b = 0; b < rows; b++) {
        uint64_t index;
        const struct batch_source *source = &m->sources[mixture_source_of(m, cursor + b, &index)];
        sum += source->labels(source->context, index, 1);
    }
    return sum;
}

static void announce(const void *context, uint64_t cursor, int B)
{
    const struct mixture *m = context;
    for (int b = 0; b < B; b++) {
        uint64_t index;
        const struct batch_source *source = &m->sources[mixture_source_of(m, cursor + (uint64_t)b, &index)];
        source->announce(source->context, index, 1);
    }
}

struct batch_source mixture_batches(const struct mixture *m)
{
    double span = 0, all = 0;
    for (int s = 0; s < m->count; s++) {
        double share = m->period ? (double)m->quotas[s] : (double)(m->first[s + 1] - m->first[s]);
        span += share * m->sources[s].span;
        all += share;
    }
    return (struct batch_source){.context = m,
                                 .T = m->sources[0].T,
                                 .packed = m->sources[0].packed,
                                 .rows = m->rows,
                                 .span = span / all,
                                 .fill = fill,
                                 .labels = labels,
                                 .announce = announce};
}
