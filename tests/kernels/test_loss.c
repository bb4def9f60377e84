/* Cross-entropy, alone and fused with the head, against double-precision references. */
#include <math.h>

#include "kernels/device/backend.h"
#include "kernels/linear_cross_entropy.h"
#include "tests/cmocka.h"
#include "tests/kernels/check.h"

/* losses (N), and dlogits (N,V) of scale · Σ losses unless NULL */
static void reference_loss(double *losses, double *dlogits, const double *logits, const int32_t *targets,
                           double scale, int N, int V)
{
    for (int n = 0; n < N; n++) {
        const double *row = logits + (size_t)n * V;
        double max = -INFINITY, total = 0;
        for (int v = 0; v < V; v++) max = fmax(max, row[v]);
        for (int v = 0; v < V; v++) total += exp(row[v] - max);
        losses[n] = targets[n] < 0 ? 0 : max + log(total) - row[targets[n]];
        for (int v = 0; dlogits != NULL && v < V; v++)
            dlogits[(size_t)n * V + v] =
                targets[n] < 0 ? 0 : scale * (exp(row[v] - max) / total - (v == targets[n] ? 1 : 0));
    }
}

static struct matrix rows_of(float *logits, int stride)
{
    return matrix_view(logits, ELEMENT_FP32, stride);
}

static int32_t *make_targets(int N, int V)
{
    int32_t *targets = check_tokens((size_t)N, V, 20);
    for (int n = 2; n < N; n += 3) targets[n] = -100;
    return targets;
}

static void cross_entropy_body(const struct check_target *t)
{
    const int shapes[][2] = {{1, 1}, {1, 2}, {3, 17}, {5, 511}, {4, 512}, {3, 513}, {2, 5003}, {1, 300007}};
    const float scales[] = {1, 30, 2000};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int k = 0; k < 3; k++) {
            int N = shapes[s][0], V = shapes[s][1];
            size_t n = (size_t)N * V;
            float *logits = check_random(n, 21, scales[k]), *losses = check_poisoned(N),
                  *fused = check_poisoned(N);
            int32_t *targets = make_targets(N, V);
            double *logits64 = check_doubles(logits, n), *losses64 = check_doubles(NULL, N);
            double *dlogits64 = check_doubles(NULL, n);
            reference_loss(losses64, dlogits64, logits64, targets, 0.25, N, V);
            t->backend->cross_entropy_forward(losses, rows_of(logits, V), targets, N, V, t->stream);
            check_near("cross_entropy_forward", losses, losses64, N, CHECK_REDUCTION);
            t->backend->cross_entropy_fused(fused, rows_of(logits, V), targets,
                                            &(struct step_control){.loss_scale = 0.25f}, N, V, t->stream);
            check_near("cross_entropy_fused losses", fused, losses64, N, CHECK_REDUCTION);
            check_near("cross_entropy_fused dlogits", logits, dlogits64, n, CHECK_REDUCTION);
            free(logits), free(losses), free(fused), free(targets), free(logits64), free(losses64),
                free(dlogits64);
        }
}

TEST_CASE(cross_entropy_agrees_with_the_reference)
{
    check_each_isa(2, cross_entropy_body);
}

struct loss_context {
    double *logits, *losses;
    int32_t *targets;
    int N, V;
    double z_loss;
};

static double mean_loss(const void *context)
{
    const struct loss_context *c = context;
    double total = 0;
    reference_loss(c->losses, NULL, c->logits, c->targets, 0, c->N, c->V);
    for (int n = 0; n < c->N; n++) {
        if (c->targets[n] < 0) continue;
        double lse = c->losses[n] + c->logits[(size_t)n * c->V + c->targets[n]];
        total += 0.5 * (c->losses[n] + c->z_loss * lse * lse);
    }
    return total;
}

static void expect_gradient(const struct check_target *t, float z_loss)
{
    enum { N = 4, V = 29 };
    float *logits = check_random(N * V, 22, 3), *losses = check_poisoned(N);
    struct loss_context c = {
        check_doubles(logits, N * V), check_doubles(NULL, N), make_targets(N, V), N, V, z_loss};
    double *differences = check_doubles(NULL, N * V);
    check_differences(differences, c.logits, N * V, mean_loss, &c);
    t->backend->cross_entropy_fused(losses, rows_of(logits, V), c.targets,
                                    &(struct step_control){.loss_scale = 0.5f, .z_loss = z_loss}, N, V,
                                    t->stream);
    reference_loss(c.losses, NULL, c.logits, c.targets, 0, N, V);
    check_near("losses without the z loss", losses, c.losses, N, CHECK_REDUCTION);
    check_near("dlogits against central differences", logits, differences, N * V, CHECK_ELEMENTWISE);
    for (int v = 0; v < V; v++) assert_true(logits[2 * V + v] == 0); /* the ignored row */
    free(logits), free(losses), free(c.logits), free(c.losses), free(c.targets), free(differences);
}

static void gradient_body(const struct check_target *t)
{
    expect_gradient(t, 0);
    expect_gradient(t, 0.3f);
}

TEST_CASE(cross_entropy_gradient_agrees_with_central_differences)
{
    check_each_isa(2, gradient_body);
}

static void extremes_body(const struct check_target *t)
{
    enum { V = 1500 };
    float losses[5], *x = malloc(5 * V * sizeof *x);
    const int32_t targets[5] = {700, 3, 3, 3, 3};
    for (int i = 0; i < 5 * V; i++) x[i] = 0;
    for (int v = 0; v < V; v++) x[v] = v == 700 ? 3e38f : -3e38f;     /* certain, at the edge of fp32 */
    for (int v = 0; v < V; v++) x[V + v] = v == 3 ? 1.0f : -INFINITY; /* everything else impossible */
    x[2 * V + 1400] = NAN;                                            /* far from the target */
    x[3 * V + 1400] = INFINITY;
    x[4 * V + 3] = -INFINITY; /* the target itself impossible */
    float *forward = malloc(5 * sizeof *forward);
    t->backend->cross_entropy_forward(forward, rows_of(x, V), targets, 5, V, t->stream);
    t->backend->cross_entropy_fused(losses, rows_of(x, V), targets, &(struct step_control){.loss_scale = 1},
                                    5, V, t->stream);
    const float *both[2] = {forward, losses};
    for (int i = 0; i < 2; i++) {
        assert_true(both[i][0] == 0);
        assert_true(both[i][1] == 0);
        assert_true(isnan(both[i][2]));
        assert_true(isnan(both[i][3]));
        assert_true(isinf(both[i][4]) && both[i][4] > 0);
    }
    for (int v = 0; v < 2 * V; v++) assert_true(x[v] == 0);
    assert_true(isnan(x[2 * V]));
    free(x), free(forward);
}

TEST_CASE(extreme_logits_are_exact_and_nan_is_never_hidden)
{
    check_each_isa(2, extremes_body);
}

static void head_body(const struct check_target *t)
{
    const int shapes[][4] = {
        {1, 1, 1, 1}, {7, 5, 33, 3}, {16, 24, 600, 16}, {13, 17, 101, 64}, {65, 32, 130, 32}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        int N = shapes[s][0], C = shapes[s][1], V = shapes[s][2], chunk = shapes[s][3];
        size_t n = (size_t)N * C, m = (size_t)V * C;
        float *x = check_random(n, 23, 1), *weight = check_random(m, 24, 1), *dx = check_poisoned(n);
        float *dweight = check_random(m, 25, 1), *losses = check_poisoned(N), *forward = check_poisoned(N);
        float *before = check_copy(dweight, m);
        int32_t *targets = make_targets(N, V);
        int stride = V + (int)s; /* rows with gaps, but for the first shape */
        float *workspace = check_workspace((size_t)chunk * (size_t)stride * sizeof(float));
        struct matrix logits = rows_of(workspace, stride);
        double *logits64 = check_doubles(NULL, (size_t)N * V),
               *dlogits64 = check_doubles(NULL, (size_t)N * V);
        double *losses64 = check_doubles(NULL, N), *dx64 = check_doubles(NULL, n),
               *dweight64 = check_doubles(dweight, m);
        for (int i = 0; i < N; i++)
            for (int v = 0; v < V; v++)
                for (int c = 0; c < C; c++)
                    logits64[(size_t)i * V + v] +=
                        (double)x[(size_t)i * C + c] * (double)weight[(size_t)v * C + c];
        reference_loss(losses64, dlogits64, logits64, targets, 0.125, N, V);
        for (int i = 0; i < N; i++)
            for (int v = 0; v < V; v++)
                for (int c = 0; c < C; c++) {
                    double d = dlogits64[(size_t)i * V + v];
                    dx64[(size_t)i * C + c] += d * (double)weight[(size_t)v * C + c];
                    dweight64[(size_t)v * C + c] += d * (double)x[(size_t)i * C + c];
                }
        struct matrix head = matrix_view(weight, ELEMENT_FP32, C);
        linear_cross_entropy(t->backend, losses, dx, dweight, x, head, targets, NULL,
                             &(struct step_control){.loss_scale = 0.125f}, chunk, true, logits, N, C, V,
                             t->stream);
        linear_cross_entropy(t->backend, forward, NULL, NULL, x, head, targets, NULL, NULL, chunk, true,
                             logits, N, C, V, t->stream);
        float *alone = check_poisoned(n), *dweight_alone = check_copy(before, m);
        linear_cross_entropy(t->backend, losses, alone, NULL, x, head, targets, NULL,
                             &(struct step_control){.loss_scale = 0.125f}, chunk, true, logits, N, C, V,
                             t->stream);
        linear_cross_entropy(t->backend, losses, NULL, dweight_alone, x, head, targets, NULL,
                             &(struct step_control){.loss_scale = 0.125f}, chunk, true, logits, N, C, V,
                             t->stream);
        check_same_bits("linear_cross_entropy dx without dweight", alone, dx, n);
        check_same_bits("linear_cross_entropy dweight without dx", dweight_alone, dweight, m);
        float *written = check_poisoned(m);
        linear_cross_entropy(t->backend, losses, NULL, written, x, head, targets, NULL,
                             &(struct step_control){.loss_scale = 0.125f}, chunk, false, logits, N, C, V,
                             t->stream);
        check_near("linear_cross_entropy losses", losses, losses64, N, CHECK_REDUCTION);
        check_near("linear_cross_entropy losses alone", forward, losses64, N, CHECK_REDUCTION);
        check_near("linear_cross_entropy dx", dx, dx64, n, CHECK_REDUCTION);
        check_near("linear_cross_entropy dweight, added", dweight, dweight64, m, CHECK_REDUCTION);
        for (size_t i = 0; i < (size_t)m; i++) dweight64[i] -= (double)before[i];
        check_near("linear_cross_entropy dweight", written, dweight64, m, CHECK_REDUCTION);
        free(x), free(weight), free(dx), free(dweight), free(losses), free(forward), free(targets),
            free(workspace), free(before), free(alone), free(dweight_alone), free(written);
        free(logits64), free(dlogits64), free(losses64), free(dx64), free(dweight64);
    }
}

TEST_CASE(head_and_loss_in_chunks_agree_with_the_whole)
{
    check_each_isa(2, head_body);
}

TEST_MAIN()
