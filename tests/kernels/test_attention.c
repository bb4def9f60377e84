/* Attention against a naive double-precision reference, whose gradient is checked by central differences
 * first. */
#include <math.h>

#include "kernels/device/backend.h"
#include "tests/cmocka.h"
#include "tests/kernels/check.h"
#include "tests/kernels/packed.h"

struct shape {
    int B, T, NH, NKV, HS;
    int window; /* 0: none */
    int each;   /* tokens of a sequence, on average; 0: a row is one sequence */
};

static size_t qkv_size(struct shape s)
{
    return (size_t)s.B * s.T * (s.NH + 2 * s.NKV) * s.HS;
}

static size_t out_size(struct shape s)
{
    return (size_t)s.B * s.T * s.NH * s.HS;
}

static const double *head_at(const double *qkv, struct shape s, int b, int t, int head)
{
    return qkv + (((size_t)b * s.T + t) * (s.NH + 2 * s.NKV) + head) * s.HS;
}

/* (B,T); NULL where rows are sequences; free it. */
static int32_t *positions_of(struct shape s)
{
    if (!s.each) return NULL;
    int32_t *positions = malloc((size_t)s.B * (size_t)s.T * sizeof *positions);
    packed_positions(positions, s.B, s.T, s.each);
    return positions;
}

/* The first column that row t sees. */
static int first_seen(struct shape s, int b, int t)
{
    int32_t *positions = positions_of(s);
    int start = positions ? t - positions[b * s.T + t] : 0, first = s.window ? t - s.window + 1 : 0;
    free(positions);
    return first > start ? first : start;
}

/* p (T) = probabilities of row t; returns the log-sum-exp */
static double row_probabilities(double *p, const double *qkv, struct shape s, int b, int h, int t)
{
    int kv = s.NH + h / (s.NH / s.NKV), first = first_seen(s, b, t);
    double max = -INFINITY, total = 0;
    for (int u = first; u <= t; u++) {
        const double *q = head_at(qkv, s, b, t, h), *k = head_at(qkv, s, b, u, kv);
        p[u] = 0;
        for (int i = 0; i < s.HS; i++) p[u] += q[i] * k[i];
        p[u] /= sqrt(s.HS);
        max = fmax(max, p[u]);
    }
    for (int u = first; u <= t; u++) total += p[u] = exp(p[u] - max);
    for (int u = first; u <= t; u++) p[u] /= total;
    return max + log(total);
}

static void reference_forward(double *out, double *lse, const double *qkv, struct shape s)
{
    double *p = malloc((size_t)s.T * sizeof *p);
    for (int b = 0; b < s.B; b++)
        for (int h = 0; h < s.NH; h++)
            for (int t = 0; t < s.T; t++) {
                double *o = out + (((size_t)b * s.T + t) * s.NH + h) * s.HS;
                int first = first_seen(s, b, t);
                lse[((size_t)b * s.NH + h) * s.T + t] = row_probabilities(p, qkv, s, b, h, t);
                memset(o, 0, (size_t)s.HS * sizeof *o);
                for (int u = first; u <= t; u++) {
                    const double *v = head_at(qkv, s, b, u, s.NH + s.NKV + h / (s.NH / s.NKV));
                    for (int i = 0; i < s.HS; i++) o[i] += p[u] * v[i];
                }
            }
    free(p);
}

static void reference_backward(double *dqkv, const double *dout, const double *qkv, struct shape s)
{
    double *p = malloc((size_t)s.T * sizeof *p), *dp = malloc((size_t)s.T * sizeof *dp);
    memset(dqkv, 0, qkv_size(s) * sizeof *dqkv);
    for (int b = 0; b < s.B; b++)
        for (int h = 0; h < s.NH; h++)
            for (int t = 0; t < s.T; t++) {
                int kv = s.NH + h / (s.NH / s.NKV);
                const double *d = dout + (((size_t)b * s.T + t) * s.NH + h) * s.HS,
                             *q = head_at(qkv, s, b, t, h);
                double *dq = (double *)head_at(dqkv, s, b, t, h), mean = 0;
                int first = first_seen(s, b, t);
                row_probabilities(p, qkv, s, b, h, t);
                for (int u = first; u <= t; u++) {
                    const double *v = head_at(qkv, s, b, u, kv + s.NKV);
                    dp[u] = 0;
                    for (int i = 0; i < s.HS; i++) dp[u] += d[i] * v[i];
                    mean += p[u] * dp[u];
                }
                for (int u = first; u <= t; u++) {
                    const double *k = head_at(qkv, s, b, u, kv);
                    double *dk = (double *)head_at(dqkv, s, b, u, kv);
                    double *dv = (double *)head_at(dqkv, s, b, u, kv + s.NKV);
                    double ds = p[u] * (dp[u] - mean) / sqrt(s.HS);
                    for (int i = 0; i < s.HS; i++) {
                        dq[i] += ds * k[i];
                        dk[i] += ds * q[i];
                        dv[i] += p[u] * d[i];
                    }
                }
            }
    free(p);
    free(dp);
}

struct loss_context {
    struct shape shape;
    double *qkv, *out, *lse, *dout;
};

static double loss(const void *context)
{
    const struct loss_context *c = context;
    double total = 0;
    reference_forward(c->out, c->lse, c->qkv, c->shape);
    for (size_t i = 0; i < out_size(c->shape); i++) total += c->out[i] * c->dout[i];
    return total;
}

TEST_CASE(reference_gradient_agrees_with_central_differences)
{
    const struct shape shapes[] = {{1, 1, 1, 1, 2, 0, 0}, {1, 5, 2, 1, 3, 0, 0}, {2, 4, 4, 2, 4, 0, 0},
                                   {1, 6, 2, 1, 3, 1, 0}, {1, 7, 2, 1, 3, 3, 0}, {2, 7, 2, 1, 3, 0, 2},
                                   {1, 8, 2, 1, 3, 2, 3}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct shape s = shapes[i];
        float *qkv = check_random(qkv_size(s), 1, 1), *dout = check_random(out_size(s), 2, 1);
        struct loss_context c = {s, check_doubles(qkv, qkv_size(s)), check_doubles(NULL, out_size(s)),
                                 check_doubles(NULL, (size_t)s.B * s.NH * s.T),
                                 check_doubles(dout, out_size(s))};
        double *differences = check_doubles(NULL, qkv_size(s)), *analytic = check_doubles(NULL, qkv_size(s));
        check_differences(differences, c.qkv, qkv_size(s), loss, &c);
        reference_backward(analytic, c.dout, c.qkv, s);
        for (size_t j = 0; j < qkv_size(s); j++) assert_true(fabs(differences[j] - analytic[j]) < 1e-8);
        free(qkv), free(dout), free(c.qkv), free(c.out), free(c.lse), free(c.dout);
        free(differences), free(analytic);
    }
}

static void compare(const struct check_target *t, struct shape s, float scale)
{
    size_t n = qkv_size(s), m = out_size(s), rows = (size_t)s.B * s.NH * s.T;
    size_t bytes = attention_workspace(s.B, s.T, s.NH, s.NKV, s.HS);
    float *qkv = check_random(n, 3, scale), *dout = check_random(m, 4, 1);
    float *out = check_poisoned(m), *lse = check_poisoned(rows), *dqkv = check_poisoned(n);
    void *workspace = check_workspace(bytes);
    int32_t *positions = positions_of(s);
    double *qkv64 = check_doubles(qkv, n), *dout64 = check_doubles(dout, m);
    double *out64 = check_doubles(NULL, m), *lse64 = check_doubles(NULL, rows),
           *dqkv64 = check_doubles(NULL, n);
    reference_forward(out64, lse64, qkv64, s);
    reference_backward(dqkv64, dout64, qkv64, s);
    t->backend->attention_forward(out, lse, qkv, positions, workspace, s.B, s.T, s.NH, s.NKV, s.HS, s.window,
                                  t->stream);
    check_near("attention_forward out", out, out64, m, CHECK_REDUCTION);
    check_near("attention_forward lse", lse, lse64, rows, CHECK_REDUCTION);
    free(workspace);
    workspace = check_workspace(bytes);
    t->backend->attention_backward(dqkv, dout, out, lse, qkv, positions, NULL, workspace, s.B, s.T, s.NH,
                                   s.NKV, s.HS, s.window, t->stream);
    check_near("attention_backward", dqkv, dqkv64, n, CHECK_REDUCTION);
    free(qkv), free(dout), free(out), free(lse), free(dqkv), free(workspace), free(positions);
    free(qkv64), free(dout64), free(out64), free(lse64), free(dqkv64);
}

static void shapes_body(const struct check_target *t)
{
    const struct shape shapes[] = {
        {1, 1, 1, 1, 2, 0, 0},
        {1, 2, 1, 1, 64, 0, 0},
        {2, 7, 3, 1, 5, 0, 0},
        {1, 15, 2, 2, 16, 0, 0},
        {1, 16, 2, 2, 17, 0, 0},
        {1, 17, 1, 1, 64, 0, 0},
        {1, 63, 1, 1, 32, 0, 0},
        {1, 64, 2, 1, 64, 0, 0},
        {2, 65, 2, 2, 64, 0, 0},
        {1, 67, 6, 2, 31, 0, 0},
        {1, 97, 1, 1, 80, 0, 0},
        {1, 127, 2, 1, 48, 0, 0},
        {1, 128, 1, 1, 8, 0, 0},
        {1, 129, 4, 2, 64, 0, 0},
        {1, 131, 1, 1, 128, 0, 0},
        {1, 33, 2, 1, 256, 0, 0},
        {1, 200, 2, 1, 24, 0, 0},
        /* with a window: of one key, within a tile, a tile and its neighbours, several tiles, the sequence */
        {1, 9, 1, 1, 4, 1, 0},
        {2, 200, 2, 1, 16, 1, 0},
        {1, 100, 2, 1, 8, 20, 0},
        {1, 200, 2, 2, 16, 63, 0},
        {1, 256, 2, 1, 16, 64, 0},
        {1, 199, 1, 1, 16, 65, 0},
        {1, 321, 2, 1, 8, 130, 0},
        {1, 70, 2, 1, 16, 69, 0},
        {1, 70, 2, 1, 16, 70, 0},
        {1, 130, 3, 1, 80, 2, 0},
        /* several sequences in a row: shorter than a tile, about as long, longer; with a window, too */
        {2, 40, 2, 1, 8, 0, 1},
        {1, 200, 2, 1, 16, 0, 9},
        {2, 300, 4, 2, 16, 0, 70},
        {1, 400, 2, 2, 8, 0, 130},
        {2, 200, 2, 1, 16, 20, 30},
        {1, 321, 2, 1, 8, 130, 160},
        {1, 64, 2, 1, 48, 0, 64},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) compare(t, shapes[i], 1.0f);
}

TEST_CASE(every_shape_agrees_with_the_reference)
{
    check_each_isa(2, shapes_body);
}

/* Scores in the hundreds: softmax is nearly one-hot and a later tile's maximum overturns an earlier one's. */
static void large_scores_body(const struct check_target *t)
{
    size_t T = 150, HS = 16, width = 3 * HS;
    float *qkv = check_random(T * width, 5, 1), *out = check_poisoned(T * HS), *lse = check_poisoned(T);
    for (size_t i = 0; i < T; i++)
        for (size_t j = 0; j < 2 * HS; j++) qkv[i * width + j] *= 12.0f + (float)i * 0.1f;
    struct shape s = {1, (int)T, 1, 1, (int)HS, 0, 0};
    double *qkv64 = check_doubles(qkv, T * width), *out64 = check_doubles(NULL, T * HS),
           *lse64 = check_doubles(NULL, T);
    void *workspace = check_workspace(attention_workspace(1, s.T, 1, 1, s.HS));
    reference_forward(out64, lse64, qkv64, s);
    t->backend->attention_forward(out, lse, qkv, NULL, workspace, 1, s.T, 1, 1, s.HS, 0, t->stream);
    /* scores near 1,000 carry an absolute fp32 error near 1e-4, which exp turns into a relative one */
    check_near("attention_forward with large scores", out, out64, T * HS, 2e-4);
    check_near("lse with large scores", lse, lse64, T, CHECK_REDUCTION);
    free(qkv), free(out), free(lse), free(qkv64), free(out64), free(lse64), free(workspace);
}

TEST_CASE(large_scores_stay_finite)
{
    check_each_isa(2, large_scores_body);
}

static void a_row_never_sees_its_future_body(const struct check_target *t)
{
    struct shape s = {1, 100, 2, 1, 32, 0, 0};
    size_t n = qkv_size(s), m = out_size(s), width = (size_t)(s.NH + 2 * s.NKV) * s.HS, cut = 70;
    float *qkv = check_random(n, 6, 1), *first = check_poisoned(m), *second = check_poisoned(m);
    float *lse = check_poisoned(2 * 100);
    void *workspace = check_workspace(attention_workspace(s.B, s.T, s.NH, s.NKV, s.HS));
    t->backend->attention_forward(first, lse, qkv, NULL, workspace, s.B, s.T, s.NH, s.NKV, s.HS, s.window,
                                  t->stream);
    for (size_t i = cut * width; i < n; i++) qkv[i] = 50.0f - qkv[i];
    t->backend->attention_forward(second, lse, qkv, NULL, workspace, s.B, s.T, s.NH, s.NKV, s.HS, s.window,
                                  t->stream);
    check_same_bits("rows before the change", first, second, cut * (size_t)s.NH * s.HS);
    assert_true(first[cut * (size_t)s.NH * s.HS] != second[cut * (size_t)s.NH * s.HS]);
    free(qkv), free(first), free(second), free(lse), free(workspace);
}

TEST_CASE(a_row_never_sees_its_future)
{
    check_each_isa(2, a_row_never_sees_its_future_body);
}

static void a_row_never_sees_what_is_before_its_window_body(const struct check_target *t)
{
    struct shape s = {1, 200, 2, 1, 16, 70, 0};
    size_t n = qkv_size(s), m = out_size(s), width = 4 * 16, cut = 50, from = (cut + 70 - 1) * 2 * 16;
    float *qkv = check_random(n, 6, 1), *first = check_poisoned(m), *second = check_poisoned(m);
    float *lse = check_poisoned(2 * 200);
    void *workspace = check_workspace(attention_workspace(s.B, s.T, s.NH, s.NKV, s.HS));
    t->backend->attention_forward(first, lse, qkv, NULL, workspace, s.B, s.T, s.NH, s.NKV, s.HS, s.window,
                                  t->stream);
    for (size_t i = 0; i < cut * width; i++) qkv[i] = 50.0f - qkv[i];
    t->backend->attention_forward(second, lse, qkv, NULL, workspace, s.B, s.T, s.NH, s.NKV, s.HS, s.window,
                                  t->stream);
    check_same_bits("rows past the change", first + from, second + from, m - from);
    assert_true(first[from - 1] != second[from - 1]); /* the last row that sees it */
    free(qkv), free(first), free(second), free(lse), free(workspace);
}

TEST_CASE(a_row_never_sees_what_is_before_its_window)
{
    check_each_isa(2, a_row_never_sees_what_is_before_its_window_body);
}

TEST_CASE(a_window_as_long_as_the_sequence_changes_no_bit)
{
    struct check_target t;
    size_t n = 150 * 4 * 16, m = 150 * 2 * 16;
    float *qkv = check_random(n, 7, 1), *dout = check_random(m, 8, 1), *results[3][2];
    void *workspace = check_workspace(attention_workspace(1, 150, 2, 1, 16));
    const int windows[3] = {0, 150, 1 << 20};
    check_open(&t, "baseline", 2);
    for (int i = 0; i < 3; i++) {
        float *lse = check_poisoned(300), *out = results[i][0] = check_poisoned(m),
              *dqkv = results[i][1] = check_poisoned(n);
        t.backend->attention_forward(out, lse, qkv, NULL, workspace, 1, 150, 2, 1, 16, windows[i], t.stream);
        t.backend->attention_backward(dqkv, dout, out, lse, qkv, NULL, NULL, workspace, 1, 150, 2, 1, 16,
                                      windows[i], t.stream);
        check_same_bits("out", results[0][0], out, m);
        check_same_bits("dqkv", results[0][1], dqkv, n);
        free(lse);
    }
    for (int i = 0; i < 3; i++) free(results[i][0]), free(results[i][1]);
    free(qkv), free(dout), free(workspace);
    check_close(&t);
}

/* The position of each token is its place in the row. */
TEST_CASE(positions_of_one_sequence_change_no_bit)
{
    enum { T = 150, N = T * 4 * 16, M = T * 2 * 16 };
    struct check_target t;
    float *qkv = check_random(N, 7, 1), *dout = check_random(M, 8, 1), *results[2][2];
    int32_t positions[T];
    void *workspace = check_workspace(attention_workspace(1, T, 2, 1, 16));
    for (int i = 0; i < T; i++) positions[i] = i;
    check_open(&t, "baseline", 2);
    for (int i = 0; i < 2; i++) {
        float *lse = check_poisoned((size_t)2 * T), *out = results[i][0] = check_poisoned(M),
              *dqkv = results[i][1] = check_poisoned(N);
        const int32_t *given = i ? positions : NULL;
        t.backend->attention_forward(out, lse, qkv, given, workspace, 1, T, 2, 1, 16, 40, t.stream);
        t.backend->attention_backward(dqkv, dout, out, lse, qkv, given, NULL, workspace, 1, T, 2, 1, 16, 40,
                                      t.stream);
        free(lse);
    }
    check_same_bits("out", results[0][0], results[1][0], M);
    check_same_bits("dqkv", results[0][1], results[1][1], N);
    for (int i = 0; i < 2; i++) free(results[i][0]), free(results[i][1]);
    free(qkv), free(dout), free(workspace);
    check_close(&t);
}

TEST_CASE(rotates_the_gradients_back_as_rope_does)
{
    struct shape s = {2, 70, 4, 2, 20, 0, 40};
    size_t n = qkv_size(s), m = out_size(s), rows = (size_t)s.B * s.NH * s.T;
    float *qkv = check_random(n, 7, 1), *dout = check_random(m, 8, 1), *angles = check_random(70 * 20, 9, 1);
    float *out = check_poisoned(m), *lse = check_poisoned(rows), *plain = check_poisoned(n),
          *turned = check_poisoned(n);
    int32_t *positions = positions_of(s);
    void *workspace = check_workspace(attention_workspace(s.B, s.T, s.NH, s.NKV, s.HS));
    struct check_target t;
    check_open(&t, "baseline", 2);
    t.backend->attention_forward(out, lse, qkv, positions, workspace, s.B, s.T, s.NH, s.NKV, s.HS, 0,
                                 t.stream);
    t.backend->attention_backward(plain, dout, out, lse, qkv, positions, NULL, workspace, s.B, s.T, s.NH,
                                  s.NKV, s.HS, 0, t.stream);
    t.backend->attention_backward(turned, dout, out, lse, qkv, positions, angles, workspace, s.B, s.T, s.NH,
                                  s.NKV, s.HS, 0, t.stream);
    t.backend->rope(plain, angles, positions, s.B, s.T, s.NH, s.NKV, s.HS, true, t.stream);
    check_same_bits("dqkv", turned, plain, n);
    check_close(&t);
    free(qkv), free(dout), free(angles), free(out), free(lse), free(plain), free(turned), free(positions),
        free(workspace);
}

TEST_CASE(bits_do_not_depend_on_the_thread_count)
{
    const struct shape shapes[] = {{1, 150, 4, 2, 32, 0, 0},
                                   {3, 70, 2, 2, 20, 0, 0},
                                   {1, 9, 1, 1, 4, 0, 0},
                                   {1, 210, 4, 2, 16, 70, 0},
                                   {2, 210, 4, 2, 16, 0, 40}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct shape s = shapes[i];
        size_t n = qkv_size(s), m = out_size(s), rows = (size_t)s.B * s.NH * s.T;
        float *qkv = check_random(n, 7, 1), *dout = check_random(m, 8, 1), *results[4][3];
        int32_t *positions = positions_of(s);
        const int threads[4] = {1, 2, 5, 2};
        for (int run = 0; run < 4; run++) {
            struct check_target t;
            check_open(&t, "baseline", threads[run]);
            void *workspace = check_workspace(attention_workspace(s.B, s.T, s.NH, s.NKV, s.HS));
            float *out = check_poisoned(m), *lse = check_poisoned(rows), *dqkv = check_poisoned(n);
            t.backend->attention_forward(out, lse, qkv, positions, workspace, s.B, s.T, s.NH, s.NKV, s.HS,
                                         s.window, t.stream);
            t.backend->attention_backward(dqkv, dout, out, lse, qkv, positions, NULL, workspace, s.B, s.T,
                                          s.NH, s.NKV, s.HS, s.window, t.stream);
            results[run][0] = out, results[run][1] = lse, results[run][2] = dqkv;
            free(workspace);
            check_close(&t);
        }
        for (int run = 1; run < 4; run++) {
            check_same_bits("out", results[0][0], results[run][0], m);
            check_same_bits("lse", results[0][1], results[run][1], rows);
            check_same_bits("dqkv", results[0][2], results[run][2], n);
        }
        for (int run = 0; run < 4; run++)
            for (int j = 0; j < 3; j++) free(results[run][j]);
        free(qkv), free(dout), free(positions);
    }
}

TEST_MAIN()
