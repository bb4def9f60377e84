/* See classifier.h. */
#include "core/generate/classifier.h"

#include <math.h>
#include <stdlib.h>

enum { LOGITS_MOST = 1 << 20 }; /* that are read at a time, unless one row has more */

enum status classifier_open(struct classifier *c, struct network *network, struct err *err)
{
    int labels = network->model->config.num_labels, N = network->plan->input.B * network->plan->input.T;
    int rows = LOGITS_MOST / labels < 1 ? 1 : LOGITS_MOST / labels;
    *c = (struct classifier){.network = network, .rows = rows < N ? rows : N};
    c->logits = malloc((size_t)c->rows * (size_t)labels * sizeof *c->logits);
    return c->logits ? STATUS_OK : err_no_memory(err, "the logits of %d labels", labels);
}

void classifier_close(struct classifier *c)
{
    free(c->logits);
    *c = (struct classifier){0};
}

int classifier_place(enum pooling pooling, int pad, const uint32_t *ids, int count)
{
    int at = count - 1;
    while (pooling == POOLING_LAST && pad >= 0 && at >= 0 && ids[at] == (uint32_t)pad) at--;
    return at < 0 ? 0 : at;
}

void classifier_run(struct classifier *c, struct batch_view batch,
                    void (*take)(void *context, int row, const float *logits), void *context)
{
    size_t labels = (size_t)c->network->model->config.num_labels;
    int N = batch.B * batch.T;
    network_forward(c->network, batch);
    network_pool(c->network, batch);
    for (int from = 0; from < N; from += c->rows) {
        int rows = N - from < c->rows ? N - from : c->rows;
        network_logits(c->network, from, rows, c->logits);
        for (int i = 0; i < rows; i++)
            if (batch.labels[from + i] >= 0) take(context, from + i, c->logits + (size_t)i * labels);
    }
}

int classifier_probabilities(const float *logits, int count, double *out)
{
    int best = 0;
    double sum = 0;
    for (int i = 0; i < count; i++) {
        if (!isfinite(logits[i])) return -1;
        if (logits[i] > logits[best]) best = i;
    }
    for (int i = 0; i < count; i++) sum += out[i] = exp((double)logits[i] - logits[best]);
    for (int i = 0; i < count; i++) out[i] /= sum;
    return best;
}
