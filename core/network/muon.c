/* See muon.h. */
#include "core/network/muon.h"

#include <math.h>

/* a, b, c of one iteration. */
struct polynomial {
    float a, b, c;
};

/* Quintic: the same polynomial each time, whose slope at 0 is as large as it can be while singular values end
 * between 0.7 and 1.2 (Jordan et al.). Polar Express: for each iteration the best polynomial for what the
 * earlier ones leave of [0.001, 1], divided by powers of 1.01 against rounding; the last one is repeated
 * (Amsel, Persson, Musco and Gower, "The Polar Express", 2025). */
static struct polynomial polynomial_of(enum muon_coefficients coefficients, int iteration)
{
    static const struct polynomial polar[MUON_ITERATIONS_MAX] = {
        {8.28721201814563f, -23.595886519098837f, 17.300387312530933f},
        {4.107059111542203f, -2.9478499167379106f, 0.5448431082926601f},
        {3.9486908534822946f, -2.908902115962949f, 0.5518191394370137f},
        {3.3184196573706015f, -2.488488024314874f, 0.51004894012372f},
        {2.300652019954817f, -1.6689039845747493f, 0.4188073119525673f},
        {1.891301407787398f, -1.2679958271945868f, 0.37680408948524835f},
        {1.8750014808534479f, -1.2500016453999487f, 0.3750001645474248f},
        {1.875f, -1.25f, 0.375f}};
    static const float safety = 1.01f;
    if (coefficients == MUON_QUINTIC) return (struct polynomial){3.4445f, -4.7750f, 2.0315f};
    struct polynomial p = polar[iteration];
    if (iteration + 1 < MUON_ITERATIONS_MAX) p.a /= safety, p.b /= powf(safety, 3), p.c /= powf(safety, 5);
    return p;
}

/* The factor of the update. MUON_RMS: the elements of an orthogonal matrix have the root mean square
 * sqrt(1 / longer side); those of AdamW's updates have about 0.2 (Liu et al., "Muon is Scalable for LLM
 * Training", 2025), so that learning rate and decay of AdamW fit. */
static float scale_of(enum muon_scaling scaling, const struct param *p)
{
    double rows = p->rows, cols = p->cols;
    return (float)(scaling == MUON_RMS ? 0.2 * sqrt(fmax(rows, cols)) : sqrt(fmax(1, rows / cols)));
}

/* One iteration: from x (rows, cols) to next (rows, cols). */
static void iterate(struct network *net, const struct param *p, struct polynomial by, void *next,
                    const void *x)
{
    enum element element = precision_element(net->plan->input.precision);
    bool tall = p->rows > p->cols;
    int side = tall ? p->cols : p->rows, longer = tall ? p->rows : p->cols;
    struct matrix from = matrix_view(x, element, p->cols), to = matrix_view(next, element, p->cols),
                  gram = matrix_view(network_at(net, BUFFER_GRAM, 0), element, side),
                  sum = matrix_view(network_at(net, BUFFER_POLYNOMIAL, 0), element, side);
    net->table->gemm(gram, from, from, side, side, longer, tall, !tall, false, 1, net->calls);
    net->table->gemm(sum, gram, gram, side, side, side, false, false, false, by.c, net->calls);
    net->table->muon_polynomial(sum.at, gram.at, side, by.a, by.b, net->calls);
    net->table->gemm(to, tall ? from : sum, tall ? sum : from, p->rows, p->cols, side, false, false, false, 1,
                     net->calls);
}

static void update(struct network *net, const struct muon *muon, const struct param *p,
                   const struct update_range *ranges, int range_count, const struct clip_state *clip)
{
    float *g = net->gradients + p->offset;
    double *squares = network_at(net, BUFFER_SQUARES, 0);
    void *x = network_at(net, BUFFER_ORTHOGONAL, 0), *next = network_at(net, BUFFER_ORTHOGONAL_NEXT, 0);
    float *m = network_moment(net, MOMENT_FIRST);
    size_t at = p->offset - net->owned.begin;
    net->table->muon_momentum(m + at, g, p->count, (float)muon->momentum, muon->nesterov, clip, net->calls);
    net->table->sum_of_squares(squares, g, p->count, network_at(net, BUFFER_SCRATCH, 0), net->calls);
    net->table->muon_normalise(x, g, squares, p->count, 1e-7f, net->calls);
    for (int i = 0; i < muon->iterations; i++) {
        iterate(net, p, polynomial_of(muon->coefficients, i), next, x);
        void *before = x;
        x = next;
        next = before;
    }
    net->table->muon_update(net->weights + at, network_compute_weights(net, p->offset), x, p->count, at,
                            ranges, range_count, scale_of(muon->scaling, p),
                            network_at(net, BUFFER_CONTROL, 0), clip, net->calls);
}

void muon_step(struct network *net, const struct muon *muon, const struct update_range *ranges,
               int range_count, const struct clip_state *clip)
{
    network_enter(net, PHASE_OPTIMIZER, -1);
    for (size_t i = 0; i < net->model->param_count; i++) {
        const struct param *p = &net->model->params[i];
        bool owned = p->offset >= net->owned.begin && p->offset < net->owned.end;
        if (p->orthogonal && owned) update(net, muon, p, ranges, range_count, clip);
    }
}

void muon_walk(struct network *net, const struct clip_state *clip)
{
    static const struct muon longest = {.iterations = MUON_ITERATIONS_MAX};
    const struct slice owned = net->owned;
    net->owned = (struct slice){0, net->model->elements};
    muon_step(net, &longest, network_at(net, BUFFER_RANGES, 0), 1, clip);
    net->owned = owned;
}
