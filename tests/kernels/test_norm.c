/* RMSNorm, RoPE and their fused form against double-precision references; every backward against central
 * differences of the reference forward. */
#include <math.h>

#include "kernels/device/backend.h"
#include "tests/cmocka.h"
#include "tests/kernels/check.h"

#define EPS 1e-5

/* ---- RMSNorm ---- */

static void reference_rmsnorm(double *out, double *rstd, const double *x, const double *weight, int N, int C)
{
    for (int n = 0; n < N; n++) {
        double squares = 0;
        for (int c = 0; c < C; c++) squares += x[(size_t)n * C + c] * x[(size_t)n * C + c];
        double r = 1 / sqrt(squares / C + (double)(float)EPS);
        for (int c = 0; c < C; c++) out[(size_t)n * C + c] = x[(size_t)n * C + c] * r * weight[c];
        if (rstd != NULL) rstd[n] = r;
    }
}

static const int norm_shapes[][2] = {{1, 1},   {1, 7},    {3, 16},   {5, 17},  {67, 31},
                                     {2, 256}, {129, 64}, {1, 1025}, {3, 4099}};

static void rmsnorm_forward_body(const struct check_target *t)
{
    for (size_t s = 0; s < sizeof norm_shapes / sizeof *norm_shapes; s++) {
        int N = norm_shapes[s][0], C = norm_shapes[s][1];
        size_t n = (size_t)N * C;
        float *x = check_random(n, 1, 3), *delta = check_random(n, 2, 2), *weight = check_random(C, 3, 2);
        float *out = check_poisoned(n), *rstd = check_poisoned(N), *sum = check_poisoned(n);
        double *x64 = check_doubles(x, n), *w64 = check_doubles(weight, C), *out64 = check_doubles(NULL, n);
        double *rstd64 = check_doubles(NULL, N);
        reference_rmsnorm(out64, rstd64, x64, w64, N, C);
        t->backend->rmsnorm_forward(out, rstd, x, weight, N, C, (float)EPS, t->stream);
        check_near("rmsnorm_forward out", out, out64, n, CHECK_ELEMENTWISE);
        check_near("rmsnorm_forward rstd", rstd, rstd64, N, CHECK_ELEMENTWISE);

        float *again = check_poisoned(n);
        memcpy(again, x, n * sizeof *x);
        t->backend->rmsnorm_forward(again, rstd, again, weight, N, C, (float)EPS, t->stream);
        check_same_bits("rmsnorm_forward in place", again, out, n);

        for (size_t i = 0; i < n; i++) x64[i] = (double)(x[i] + delta[i]);
        reference_rmsnorm(out64, rstd64, x64, w64, N, C);
        t->backend->rmsnorm_residual_forward(sum, again, rstd, x, delta, weight, N, C, (float)EPS, t->stream);
        check_near("rmsnorm_residual_forward sum", sum, x64, n, CHECK_ELEMENTWISE);
        check_near("rmsnorm_residual_forward out", again, out64, n, CHECK_ELEMENTWISE);
        check_near("rmsnorm_residual_forward rstd", rstd, rstd64, N, CHECK_ELEMENTWISE);
        t->backend->rmsnorm_residual_forward(delta, out, rstd, x, delta, weight, N, C, (float)EPS, t->stream);
        check_same_bits("sum over delta", delta, sum, n);
        check_same_bits("out with sum over delta", out, again, n);
        free(x), free(delta), free(weight), free(out), free(rstd), free(sum), free(again);
        free(x64), free(w64), free(out64), free(rstd64);
    }
}

TEST_CASE(rmsnorm_agrees_with_the_reference_and_its_recomputation_to_the_bit)
{
    check_each_isa(2, rmsnorm_forward_body);
}

struct norm_loss {
    double *x, *weight, *out, *dout;
    int N, C;
};

static double norm_loss(const void *context)
{
    const struct norm_loss *c = context;
    double total = 0;
    reference_rmsnorm(c->out, NULL, c->x, c->weight, c->N, c->C);
    for (size_t i = 0; i < (size_t)c->N * c->C; i++) total += c->out[i] * c->dout[i];
    return total;
}

static void rmsnorm_backward_body(const struct check_target *t)
{
    const int shapes[][2] = {{1, 1}, {1, 5}, {3, 16}, {70, 3}, {17, 23}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        int N = shapes[s][0], C = shapes[s][1];
        size_t n = (size_t)N * C;
        float *x = check_random(n, 4, 1), *weight = check_random(C, 5, 2), *dout = check_random(n, 6, 1);
        float *dx = check_random(n, 7, 1), *dweight = check_random(C, 8, 1), *rstd = check_poisoned(N);
        float *out = check_poisoned(n);
        struct norm_loss c = {check_doubles(x, n),
                              check_doubles(weight, C),
                              check_doubles(NULL, n),
                              check_doubles(dout, n),
                              N,
                              C};
        double *dx64 = check_doubles(NULL, n), *dweight64 = check_doubles(NULL, C);
        check_differences(dx64, c.x, n, norm_loss, &c);
        check_differences(dweight64, c.weight, C, norm_loss, &c);
        for (size_t i = 0; i < n; i++) dx64[i] += (double)dx[i];
        for (int i = 0; i < C; i++) dweight64[i] += (double)dweight[i];
        void *workspace = check_workspace(rmsnorm_backward_workspace(N, C));
        t->backend->rmsnorm_forward(out, rstd, x, weight, N, C, (float)EPS, t->stream);
        float *alone = check_copy(dx, n), *again = check_poisoned(n);
        t->backend->rmsnorm_backward(dx, dweight, again, dout, x, weight, rstd, workspace, N, C, t->stream);
        check_same_bits("rmsnorm_backward norm", again, out, n);
        t->backend->rmsnorm_backward(alone, NULL, NULL, dout, x, weight, rstd, workspace, N, C, t->stream);
        check_same_bits("rmsnorm_backward dx without dweight", alone, dx, n);
        free(alone), free(again);
        check_near("rmsnorm_backward dx, added", dx, dx64, n, CHECK_ELEMENTWISE);
        check_near("rmsnorm_backward dweight, added", dweight, dweight64, C, CHECK_REDUCTION);
        free(x), free(weight), free(dout), free(dx), free(dweight), free(rstd), free(out), free(workspace);
        free(c.x), free(c.weight), free(c.out), free(c.dout), free(dx64), free(dweight64);
    }
}

TEST_CASE(rmsnorm_backward_adds_the_gradient)
{
    check_each_isa(2, rmsnorm_backward_body);
}

TEST_CASE(rmsnorm_backward_has_the_same_bits_on_any_thread_count)
{
    enum { N = 333, C = 50 };
    float *x = check_random(N * C, 1, 1), *weight = check_random(C, 2, 1), *dout = check_random(N * C, 3, 1);
    float *rstd = check_random(N, 4, 1), *dx[3], *dweight[3];
    const int threads[] = {1, 2, 7};
    for (int i = 0; i < 3; i++) {
        struct check_target t;
        check_open(&t, "baseline", threads[i]);
        dx[i] = check_random(N * C, 5, 1), dweight[i] = check_random(C, 6, 1);
        void *workspace = check_workspace(rmsnorm_backward_workspace(N, C));
        t.backend->rmsnorm_backward(dx[i], dweight[i], NULL, dout, x, weight, rstd, workspace, N, C,
                                    t.stream);
        check_same_bits("dx", dx[i], dx[0], N * C);
        check_same_bits("dweight", dweight[i], dweight[0], C);
        free(workspace);
        check_close(&t);
    }
    for (int i = 0; i < 3; i++) free(dx[i]), free(dweight[i]);
    free(x), free(weight), free(dout), free(rstd);
}

/* ---- RoPE and QK-norm ---- */

struct shape {
    int B, T, NH, NKV, HS;
};

static const struct shape rope_shapes[] = {
    {1, 1, 1, 1, 2}, {2, 3, 2, 1, 6}, {1, 5, 4, 2, 16}, {2, 17, 3, 3, 34}, {1, 2, 2, 1, 128}};

static float *make_cos_sin(int T, int HS)
{
    float *table = malloc((size_t)T * HS * sizeof *table);
    for (int t = 0; t < T; t++)
        for (int i = 0; i < HS / 2; i++) {
            double angle = (t + 1) * pow(10000, -2.0 * i / HS);
            table[((size_t)t * (HS / 2) + i) * 2] = (float)cos(angle);
            table[((size_t)t * (HS / 2) + i) * 2 + 1] = (float)sin(angle);
        }
    return table;
}

static void reference_rotate(double *head, const float *angles, int HS)
{
    for (int i = 0; i < HS / 2; i++) {
        double c = (double)angles[2 * i], s = (double)angles[2 * i + 1], x1 = head[i], x2 = head[HS / 2 + i];
        head[i] = x1 * c - x2 * s;
        head[HS / 2 + i] = x2 * c + x1 * s;
    }
}

/* out from qkv; no norm for NULL weights */
static void reference_rope(double *out, double *rstd, const double *qkv, const double *q_weight,
                           const double *k_weight, const float *cos_sin, struct shape s)
{
    int heads = s.NH + 2 * s.NKV;
    for (int n = 0; n < s.B * s.T; n++)
        for (int h = 0; h < heads; h++) {
            const double *x = qkv + ((size_t)n * heads + h) * s.HS;
            double *y = out + ((size_t)n * heads + h) * s.HS;
            memcpy(y, x, (size_t)s.HS * sizeof *y);
            if (h >= s.NH + s.NKV) continue;
            if (q_weight != NULL) {
                double r;
                reference_rmsnorm(y, &r, x, h < s.NH ? q_weight : k_weight, 1, s.HS);
                if (rstd != NULL) rstd[(size_t)n * (s.NH + s.NKV) + h] = r;
            }
            reference_rotate(y, cos_sin + (size_t)(n % s.T) * s.HS, s.HS);
        }
}

static void rope_body(const struct check_target *t)
{
    for (size_t i = 0; i < sizeof rope_shapes / sizeof *rope_shapes; i++) {
        struct shape s = rope_shapes[i];
        size_t n = (size_t)s.B * s.T * (s.NH + 2 * s.NKV) * s.HS;
        float *qkv = check_random(n, 9, 1), *cos_sin = make_cos_sin(s.T, s.HS), *x = check_copy(qkv, n);
        double *qkv64 = check_doubles(qkv, n), *out64 = check_doubles(NULL, n);
        reference_rope(out64, NULL, qkv64, NULL, NULL, cos_sin, s);
        t->backend->rope(x, cos_sin, NULL, s.B, s.T, s.NH, s.NKV, s.HS, false, t->stream);
        check_near("rope", x, out64, n, CHECK_ELEMENTWISE);
        /* a rotation's gradient is the rotation back */
        t->backend->rope(x, cos_sin, NULL, s.B, s.T, s.NH, s.NKV, s.HS, true, t->stream);
        check_near("rope back", x, qkv64, n, CHECK_ELEMENTWISE);
        free(qkv), free(cos_sin), free(x), free(qkv64), free(out64);
    }
}

TEST_CASE(rope_rotates_queries_and_keys_and_back)
{
    check_each_isa(2, rope_body);
}

struct qk_loss {
    double *qkv, *q_weight, *k_weight, *out, *dout;
    const float *cos_sin;
    struct shape shape;
    size_t n;
};

static double qk_loss(const void *context)
{
    const struct qk_loss *c = context;
    double total = 0;
    reference_rope(c->out, NULL, c->qkv, c->q_weight, c->k_weight, c->cos_sin, c->shape);
    for (size_t i = 0; i < c->n; i++) total += c->out[i] * c->dout[i];
    return total;
}

static void qk_norm_body(const struct check_target *t)
{
    for (size_t i = 0; i < sizeof rope_shapes / sizeof *rope_shapes; i++) {
        struct shape s = rope_shapes[i];
        size_t n = (size_t)s.B * s.T * (s.NH + 2 * s.NKV) * s.HS, stats = (size_t)s.B * s.T * (s.NH + s.NKV);
        float *qkv = check_random(n, 10, 1), *cos_sin = make_cos_sin(s.T, s.HS), *out = check_poisoned(n);
        float *q_weight = check_random(s.HS, 11, 2), *k_weight = check_random(s.HS, 12, 2);
        float *rstd = check_poisoned(stats), *dqkv = check_random(n, 13, 1);
        float *dq_weight = check_random(s.HS, 14, 1), *dk_weight = check_random(s.HS, 15, 1);
        struct qk_loss c = {check_doubles(qkv, n),
                            check_doubles(q_weight, s.HS),
                            check_doubles(k_weight, s.HS),
                            check_doubles(NULL, n),
                            check_doubles(dqkv, n),
                            cos_sin,
                            s,
                            n};
        double *out64 = check_doubles(NULL, n), *rstd64 = check_doubles(NULL, stats);
        reference_rope(out64, rstd64, c.qkv, c.q_weight, c.k_weight, cos_sin, s);
        t->backend->qk_norm_rope_forward(out, rstd, qkv, q_weight, k_weight, cos_sin, NULL, s.B, s.T, s.NH,
                                         s.NKV, s.HS, (float)EPS, t->stream);
        check_near("qk_norm_rope_forward out", out, out64, n, CHECK_ELEMENTWISE);
        check_near("qk_norm_rope_forward rstd", rstd, rstd64, stats, CHECK_ELEMENTWISE);
        float *in_place = check_copy(qkv, n);
        t->backend->qk_norm_rope_forward(in_place, rstd, in_place, q_weight, k_weight, cos_sin, NULL, s.B,
                                         s.T, s.NH, s.NKV, s.HS, (float)EPS, t->stream);
        check_same_bits("qk_norm_rope_forward in place", in_place, out, n);

        if (n < 2000) {
            double *dqkv64 = check_doubles(NULL, n), *dq64 = check_doubles(NULL, s.HS);
            double *dk64 = check_doubles(NULL, s.HS);
            check_differences(dqkv64, c.qkv, n, qk_loss, &c);
            check_differences(dq64, c.q_weight, s.HS, qk_loss, &c);
            check_differences(dk64, c.k_weight, s.HS, qk_loss, &c);
            for (int j = 0; j < s.HS; j++) dq64[j] += (double)dq_weight[j], dk64[j] += (double)dk_weight[j];
            void *workspace = check_workspace(rmsnorm_backward_workspace(s.B * s.T, 2 * s.HS));
            float *alone = check_copy(dqkv, n), *dq = check_copy(dq_weight, s.HS),
                  *dk = check_copy(dk_weight, s.HS), *last = check_copy(dqkv, n);
            t->backend->qk_norm_rope_backward(alone, dq, NULL, qkv, rstd, q_weight, k_weight, cos_sin, NULL,
                                              workspace, s.B, s.T, s.NH, s.NKV, s.HS, t->stream);
            t->backend->qk_norm_rope_backward(last, NULL, dk, qkv, rstd, q_weight, k_weight, cos_sin, NULL,
                                              workspace, s.B, s.T, s.NH, s.NKV, s.HS, t->stream);
            t->backend->qk_norm_rope_backward(dqkv, dq_weight, dk_weight, qkv, rstd, q_weight, k_weight,
                                              cos_sin, NULL, workspace, s.B, s.T, s.NH, s.NKV, s.HS,
                                              t->stream);
            check_same_bits("dqkv without dk_weight", alone, dqkv, n);
            check_same_bits("dqkv without dq_weight", last, dqkv, n);
            check_same_bits("dq_weight alone", dq, dq_weight, s.HS);
            check_same_bits("dk_weight alone", dk, dk_weight, s.HS);
            free(alone), free(dq), free(dk), free(last);
            check_near("qk_norm_rope_backward dqkv", dqkv, dqkv64, n, CHECK_ELEMENTWISE);
            check_near("qk_norm_rope_backward dq_weight", dq_weight, dq64, s.HS, CHECK_REDUCTION);
            check_near("qk_norm_rope_backward dk_weight", dk_weight, dk64, s.HS, CHECK_REDUCTION);
            free(dqkv64), free(dq64), free(dk64), free(workspace);
        }
        free(qkv), free(cos_sin), free(out), free(q_weight), free(k_weight), free(rstd), free(dqkv);
        free(dq_weight), free(dk_weight), free(in_place), free(out64), free(rstd64);
        free(c.qkv), free(c.q_weight), free(c.k_weight), free(c.out), free(c.dout);
    }
}

TEST_CASE(qk_norm_and_rope_in_one_pass_agree_with_the_reference)
{
    check_each_isa(2, qk_norm_body);
}

TEST_MAIN()
