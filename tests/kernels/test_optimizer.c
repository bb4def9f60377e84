/* The flat reductions and the optimizers against double-precision references. */
#include <math.h>

#include "kernels/device/backend.h"
#include "tests/cmocka.h"
#include "tests/kernels/check.h"

static const size_t sizes[] = {0, 1, 2, 15, 17, 1021, 65535, 65536, 65537, 200003};

static void clip_at(const struct check_target *t, struct clip_state *out, const float *g, size_t n,
                    float max_norm, void *workspace)
{
    double squares = NAN, loss = 9;
    t->backend->sum_of_squares(&squares, g, n, workspace, t->stream);
    t->backend->clip_norm(out, &squares, &loss, &(struct step_control){0}, max_norm, t->stream);
}

static void sum_body(const struct check_target *t)
{
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t n = sizes[s];
        float *x = check_random(n, 1, 1);
        void *workspace = check_workspace(reduce_workspace(n));
        double out = NAN, expected = 0, squares = 0;
        for (size_t i = 0; i < n; i++) expected += (double)x[i], squares += (double)x[i] * (double)x[i];
        t->backend->sum(&out, x, n, false, workspace, t->stream);
        assert_true(fabs(out - expected) <= 1e-11 * (double)n);
        double once = out, more = 3;
        t->backend->sum(&more, x, n, true, workspace, t->stream);
        assert_true(more == 3 + once);
        struct clip_state clip = {NAN, NAN, 7};
        clip_at(t, &clip, x, n, 0.5f, workspace);
        double norm = sqrt(squares), scale = fmin(1, 0.5 / (norm + 1e-6));
        assert_true(fabs((double)clip.norm - norm) <= 1e-6 * norm);
        assert_true(fabs((double)clip.scale - scale) <= 1e-6 * scale);
        clip_at(t, &clip, x, n, 0.0f, workspace);
        assert_true(clip.scale == 1 && clip.updates == 9);
        free(x), free(workspace);
    }
}

TEST_CASE(sums_and_norms_agree_with_the_reference)
{
    check_each_isa(2, sum_body);
}

static void non_finite_body(const struct check_target *t)
{
    enum { N = 70001 };
    float *g = check_random(N, 2, 1);
    void *workspace = check_workspace(reduce_workspace(N));
    struct clip_state clip = {.updates = 5};
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        float keep = g[N - 1];
        g[N - 1] = bad[i];
        clip_at(t, &clip, g, N, 1.0f, workspace);
        assert_false(isfinite(clip.norm));
        assert_true(clip.scale == 0);
        clip_at(t, &clip, g, N, 0.0f, workspace);
        assert_true(clip.scale == 0);
        g[N - 1] = keep;
    }
    for (size_t i = 0; i < N; i++) g[i] = 1e30f; /* squares overflow fp32, the norm does not */
    clip_at(t, &clip, g, N, 1.0f, workspace);
    assert_true(isfinite(clip.norm) && clip.scale > 0 && clip.updates == 6); /* skipped ones do not count */
    for (size_t i = 0; i < N; i++) g[i] = 3e38f; /* finite gradients, but their norm is no fp32 number */
    clip_at(t, &clip, g, N, 1.0f, workspace);
    assert_true(clip.scale == 0);
    free(g), free(workspace);
}

TEST_CASE(non_finite_norm_gives_scale_zero)
{
    check_each_isa(2, non_finite_body);
}

static void limit_body(const struct check_target *t)
{
    const double squares = 4, loss = 12, limits[] = {0, 11.5, 12, 13};
    struct clip_state clip = {.updates = 5};
    for (int i = 0; i < 4; i++) {
        struct step_control control = {.loss_limit = limits[i]};
        t->backend->clip_norm(&clip, &squares, &loss, &control, 1.0f, t->stream);
        assert_true(clip.norm == 2 && (clip.scale == 0) == (i == 1));
    }
    assert_true(clip.updates == 8);
}

TEST_CASE(a_loss_above_the_limit_gives_scale_zero)
{
    check_each_isa(1, limit_body);
}

TEST_CASE(reductions_have_the_same_bits_on_any_thread_count)
{
    enum { N = 300001 };
    float *x = check_random(N, 3, 1);
    void *workspace = check_workspace(reduce_workspace(N));
    double first = 0;
    for (int threads = 1; threads <= 5; threads++) {
        struct check_target t;
        double out;
        check_open(&t, "baseline", threads);
        t.backend->sum(&out, x, N, false, workspace, t.stream);
        if (threads == 1) first = out;
        assert_memory_equal(&first, &out, sizeof out);
        check_close(&t);
    }
    free(x), free(workspace);
}

static void adamw_body(const struct check_target *t)
{
    for (size_t s = 1; s < sizeof sizes / sizeof *sizes; s++) {
        size_t n = sizes[s];
        float *w = check_random(n, 4, 1), *m = check_random(n, 5, 0.1f), *v = check_random(n, 6, 0.01f);
        for (size_t i = 0; i < n; i++) v[i] = fabsf(v[i]);
        double *w64 = check_doubles(w, n), *m64 = check_doubles(m, n), *v64 = check_doubles(v, n);
        struct step_control control = {.lr = 1e-2f};
        for (int step = 3; step < 6; step++) {
            const struct clip_state clip = {4, 0.25f, step};
            float *g = check_random(n, 7 + (uint32_t)step, 1);
            double b1 = (double)0.9f, b2 = (double)0.95f, lr = (double)1e-2f, eps = (double)1e-8f,
                   decay = (double)0.1f;
            double c1 = 1 - pow(b1, step), c2 = 1 - pow(b2, step);
            struct optimizer_params params = {b1, b2, 1e-8f};
            struct update_range all = {n, 1, 0.1f};
            for (size_t i = 0; i < n; i++) {
                double gi = (double)g[i] * 0.25;
                m64[i] = b1 * m64[i] + (1 - b1) * gi;
                v64[i] = b2 * v64[i] + (1 - b2) * gi * gi;
                w64[i] -= lr * ((m64[i] / (double)(float)c1) / (sqrt(v64[i] / (double)(float)c2) + eps) +
                                decay * w64[i]);
            }
            t->backend->adamw_step(w, w, m, v, g, n, &all, 1, params, &control, &clip, t->stream);
            free(g);
        }
        check_near("adamw w", w, w64, n, CHECK_ELEMENTWISE);
        check_near("adamw m", m, m64, n, CHECK_ELEMENTWISE);
        check_near("adamw v", v, v64, n, CHECK_ELEMENTWISE);
        free(w), free(m), free(v), free(w64), free(m64), free(v64);
    }
}

TEST_CASE(adamw_agrees_with_the_reference)
{
    check_each_isa(2, adamw_body);
}

static void lion_body(const struct check_target *t)
{
    for (size_t s = 1; s < sizeof sizes / sizeof *sizes; s++) {
        size_t n = sizes[s];
        float *w = check_random(n, 8, 1), *m = check_random(n, 9, 0.1f), *g = check_random(n, 10, 1);
        m[0] = g[0] = 0; /* sign(0) = 0 */
        double *w64 = check_doubles(w, n), *m64 = check_doubles(m, n);
        double b1 = (double)0.9f, b2 = (double)0.99f, lr = (double)1e-3f, decay = (double)0.1f;
        struct optimizer_params params = {0.9f, 0.99f, 0};
        struct step_control control = {.lr = 1e-3f};
        struct clip_state clip = {2, 0.5f, 1};
        struct update_range all = {n, 1, 0.1f};
        size_t undecided = 0;
        for (size_t i = 0; i < n; i++) {
            double gi = (double)g[i] * 0.5, c = b1 * m64[i] + (1 - b1) * gi;
            if (c != 0 && fabs(c) < 1e-8) undecided++;
            w64[i] -= lr * ((c > 0) - (c < 0) + decay * w64[i]);
            m64[i] = b2 * m64[i] + (1 - b2) * gi;
        }
        assert_int_equal(undecided, 0);
        t->backend->lion_step(w, w, m, NULL, g, n, &all, 1, params, &control, &clip, t->stream);
        check_near("lion w", w, w64, n, CHECK_ELEMENTWISE);
        check_near("lion m", m, m64, n, CHECK_ELEMENTWISE);
        free(w), free(m), free(g), free(w64), free(m64);
    }
}

TEST_CASE(lion_agrees_with_the_paper)
{
    check_each_isa(2, lion_body);
}

static void scale_zero_body(const struct check_target *t)
{
    enum { N = 1000 };
    float *w = check_random(N, 11, 1), *m = check_random(N, 12, 1), *v = check_random(N, 13, 1),
          *g = check_poisoned(N);
    float *w0 = check_copy(w, N), *m0 = check_copy(m, N), *v0 = check_copy(v, N);
    struct clip_state clip = {NAN, 0, 0};
    struct step_control control = {.lr = 1};
    struct optimizer_params adamw = {0.9, 0.95, 1e-8f};
    struct optimizer_params lion = {0.9f, 0.99f, 0};
    struct update_range all = {N, 1, 0.1f};
    t->backend->adamw_step(w, w, m, v, g, N, &all, 1, adamw, &control, &clip, t->stream);
    t->backend->lion_step(w, w, m, NULL, g, N, &all, 1, lion, &control, &clip, t->stream);
    check_same_bits("w", w, w0, N);
    check_same_bits("m", m, m0, N);
    check_same_bits("v", v, v0, N);
    free(w), free(m), free(v), free(g), free(w0), free(m0), free(v0);
}

TEST_CASE(scale_zero_leaves_everything_untouched)
{
    check_each_isa(2, scale_zero_body);
}

/* Ranges as groups of parameters produce them: boundaries anywhere, with their own decay and rate. */
static const struct update_range pieces[] = {{1, 1, 0.1f},  {1021, 0.5f, 0},   {1023, 4, 0.3f},
                                             {40007, 1, 0}, {40008, 2, 0.05f}, {70001, 0.25f, 0.1f}};
enum { PIECES = sizeof pieces / sizeof *pieces, PIECES_END = 70001 };

/* The same elements, a call for each range: w, m, v must be alike to the bit. */
static void pieces_body(const struct check_target *t)
{
    enum { N = PIECES_END };
    float *g = check_random(N, 14, 1), *w = check_random(N, 15, 1), *m = check_random(N, 16, 0.1f),
          *v = check_random(N, 17, 0.01f);
    for (size_t i = 0; i < N; i++) v[i] = fabsf(v[i]);
    struct clip_state clip = {4, 0.25f, 2};
    struct optimizer_params adamw = {0.9, 0.95, 1e-8f};
    struct optimizer_params lion = {0.9f, 0.99f, 0};
    for (int kind = 0; kind < 2; kind++) {
        struct step_control whole = {.lr = kind ? 1e-3f : 1e-2f};
        float *w0 = check_copy(w, N), *m0 = check_copy(m, N), *v0 = check_copy(v, N);
        float *w1 = check_copy(w, N), *m1 = check_copy(m, N), *v1 = check_copy(v, N);
        if (kind)
            t->backend->lion_step(w0, w0, m0, NULL, g, N, pieces, PIECES, lion, &whole, &clip, t->stream);
        else
            t->backend->adamw_step(w0, w0, m0, v0, g, N, pieces, PIECES, adamw, &whole, &clip, t->stream);
        for (size_t i = 0, from = 0; i < PIECES; from = pieces[i++].end) {
            size_t n = pieces[i].end - from;
            struct update_range alone = {n, 1, pieces[i].weight_decay};
            struct step_control own = {.lr = whole.lr * pieces[i].lr_scale}; /* a power of two: exact */
            if (kind)
                t->backend->lion_step(w1 + from, w1 + from, m1 + from, NULL, g + from, n, &alone, 1, lion,
                                      &own, &clip, t->stream);
            else
                t->backend->adamw_step(w1 + from, w1 + from, m1 + from, v1 + from, g + from, n, &alone, 1,
                                       adamw, &own, &clip, t->stream);
        }
        check_same_bits("w", w0, w1, N);
        check_same_bits("m", m0, m1, N);
        check_same_bits("v", v0, v1, N);
        free(w0), free(m0), free(v0), free(w1), free(m1), free(v1);
    }
    free(g), free(w), free(m), free(v);
}

TEST_CASE(ranges_are_updated_as_if_each_were_alone)
{
    check_each_isa(2, pieces_body);
}

/* Σ βᵗ⁻ⁱ wᵢ / Σ βᵗ⁻ⁱ, written out; a skipped update does not count. */
static void average_body(const struct check_target *t)
{
    enum { N = 1021, STEPS = 9 };
    const double decay = 0.8;
    float *average = check_random(N, 1, 1); /* the first update overwrites it */
    double *sum = calloc(N, sizeof *sum), weights = 0;
    for (int step = 1; step <= STEPS; step++) {
        struct clip_state clip = {.scale = 1, .updates = step}, skip = {.scale = 0, .updates = step};
        float *w = check_random(N, 10 + (unsigned)step, 1);
        weights = decay * weights + 1;
        for (size_t i = 0; i < N; i++) sum[i] = decay * sum[i] + (double)w[i];
        t->backend->average_weights(average, w, N, decay, &clip, t->stream);
        t->backend->average_weights(average, w, N, decay, &skip, t->stream);
        for (size_t i = 0; i < N; i++) assert_true(fabs((double)average[i] - sum[i] / weights) <= 1e-6);
        free(w);
    }
    free(average), free(sum);
}

TEST_CASE(the_average_of_weights_is_the_weighted_sum_written_out)
{
    check_each_isa(2, average_body);
}

TEST_MAIN()
