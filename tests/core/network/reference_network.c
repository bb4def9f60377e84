/* See reference_network.h. Formulas from numerics: RMSNorm, rotary positions in split halves, causal
 * attention with grouped heads and windows, SwiGLU, dropout as kernels/operations.def defines its mask. */
#include "tests/core/network/reference_network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/philox.h"

/* One sequence on its way through the network. */
struct walk {
    const struct model *model;
    const double *w;
    struct rig_dropout dropout;
    int T, first_row; /* row of position 0 in the (B*T, C) stream */
    double *x;        /* (T, C) */
    double *qkv;      /* (T, NH+2*NKV, HS) */
    double *attn;     /* (T, NH*HS) */
    double *norm, *branch, *gate_up, *act, *scores;
};

/* out (rows) = matrix (rows, cols) · x (cols) */
static void multiply(double *out, const double *matrix, const double *x, int rows, int cols)
{
    for (int i = 0; i < rows; i++) {
        out[i] = 0;
        for (int j = 0; j < cols; j++) out[i] += matrix[(size_t)i * (size_t)cols + (size_t)j] * x[j];
    }
}

static void rms_norm(double *out, const double *x, const double *weight, int n, double eps)
{
    double square = 0;
    for (int i = 0; i < n; i++) square += x[i] * x[i];
    for (int i = 0; i < n; i++) out[i] = x[i] / sqrt(square / n + eps) * weight[i];
}

static void rotate(double *head, int HS, int position, double base)
{
    for (int i = 0; i < HS / 2; i++) {
        double angle = position * pow(base, -2.0 * i / HS), a = head[i], b = head[i + HS / 2];
        head[i] = a * cos(angle) - b * sin(angle);
        head[i + HS / 2] = b * cos(angle) + a * sin(angle);
    }
}

/* The row of position t after a dropout site. */
static void drop(const struct walk *s, double *row, int t, int layer, int site)
{
    const struct rig_dropout *d = &s->dropout;
    int C = s->model->config.hidden_dim;
    if (d->probability <= 0) return;
    for (int c = 0; c < C; c++) {
        uint64_t element = (uint64_t)(s->first_row + t) * (uint64_t)C + (uint64_t)c, block = element / 4;
        struct philox_block random = philox4x32_10(
            (uint32_t)block, (uint32_t)(block >> 32) ^ d->micro_batch * 65536u, d->step,
            (uint32_t)site * 65536u + (uint32_t)layer, (uint32_t)d->seed, (uint32_t)(d->seed >> 32));
        bool keep = (random.word[element % 4] >> 8) >= floor(d->probability * 16777216.0 + 0.5);
        row[c] = keep ? row[c] * (float)(1 / (1 - (double)d->probability)) : 0;
    }
}

static void attention(struct walk *s, int l)
{
    const struct model_config *c = &s->model->config;
    const struct layer_params *p = &s->model->layers[l];
    int NH = c->num_heads, NKV = c->num_kv_heads, HS = c->head_dim, C = c->hidden_dim,
        Q = (NH + 2 * NKV) * HS;
    for (int t = 0; t < s->T; t++) {
        double *qkv = s->qkv + (size_t)t * (size_t)Q;
        rms_norm(s->norm, s->x + (size_t)t * (size_t)C, s->w + p->attn_norm->offset, C, (float)c->norm_eps);
        multiply(qkv, s->w + p->qkv.parts->offset, s->norm, Q, C);
        for (int i = 0; c->qkv_bias && i < Q; i++) qkv[i] += s->w[p->qkv.bias->offset + (size_t)i];
        for (int h = 0; h < NH + NKV; h++) {
            double *head = qkv + h * HS;
            if (c->qk_norm)
                rms_norm(head, head, s->w + (h < NH ? p->q_norm : p->k_norm)->offset, HS, (float)c->norm_eps);
            rotate(head, HS, t, c->rope_base);
        }
    }
    for (int t = 0; t < s->T; t++)
        for (int h = 0; h < NH; h++) {
            const double *q = s->qkv + (size_t)t * (size_t)Q + (size_t)h * (size_t)HS;
            double *out = s->attn + ((size_t)t * (size_t)NH + (size_t)h) * (size_t)HS, most = -INFINITY,
                   sum = 0;
            int kv = h / (NH / NKV);
            int first = p->window && t >= p->window ? t - p->window + 1 : 0;
            for (int u = first; u <= t; u++) {
                const double *k = s->qkv + (size_t)u * (size_t)Q + (size_t)(NH + kv) * (size_t)HS;
                s->scores[u] = 0;
                for (int i = 0; i < HS; i++) s->scores[u] += q[i] * k[i] / sqrt(HS);
                most = fmax(most, s->scores[u]);
            }
            for (int u = first; u <= t; u++) sum += s->scores[u] = exp(s->scores[u] - most);
            memset(out, 0, (size_t)HS * sizeof *out);
            for (int u = first; u <= t; u++) {
                const double *v = s->qkv + (size_t)u * (size_t)Q + (size_t)(NH + NKV + kv) * (size_t)HS;
                for (int i = 0; i < HS; i++) out[i] += s->scores[u] / sum * v[i];
            }
        }
    for (int t = 0; t < s->T; t++) {
        multiply(s->branch, s->w + p->o.parts->offset, s->attn + (size_t)t * (size_t)(NH * HS), C, NH * HS);
        for (int i = 0; c->o_bias && i < C; i++) s->branch[i] += s->w[p->o.bias->offset + (size_t)i];
        drop(s, s->branch, t, l, 1);
        for (int i = 0; i < C; i++) s->x[(size_t)t * (size_t)C + (size_t)i] += s->branch[i];
    }
}

static void feed_forward(struct walk *s, int l)
{
    const struct model_config *c = &s->model->config;
    const struct layer_params *p = &s->model->layers[l];
    int C = c->hidden_dim, F = c->intermediate_dim;
    for (int t = 0; t < s->T; t++) {
        double *x = s->x + (size_t)t * (size_t)C;
        rms_norm(s->norm, x, s->w + p->mlp_norm->offset, C, (float)c->norm_eps);
        multiply(s->gate_up, s->w + p->gate_up.parts->offset, s->norm, 2 * F, C);
        for (int i = 0; c->mlp_bias && i < 2 * F; i++)
            s->gate_up[i] += s->w[p->gate_up.bias->offset + (size_t)i];
        for (int i = 0; i < F; i++) s->act[i] = s->gate_up[i] / (1 + exp(-s->gate_up[i])) * s->gate_up[F + i];
        multiply(s->branch, s->w + p->down.parts->offset, s->act, C, F);
        for (int i = 0; c->mlp_bias && i < C; i++) s->branch[i] += s->w[p->down.bias->offset + (size_t)i];
        drop(s, s->branch, t, l, 2);
        for (int i = 0; i < C; i++) x[i] += s->branch[i];
    }
}

/* The loss of one position; its logits (V) are left in `logits`. */
static double position_loss(struct walk *s, int t, int32_t target, double *logits)
{
    const struct model_config *c = &s->model->config;
    double most = -INFINITY, sum = 0;
    rms_norm(s->norm, s->x + (size_t)t * (size_t)c->hidden_dim, s->w + s->model->final_norm->offset,
             c->hidden_dim, (float)c->norm_eps);
    multiply(logits, s->w + s->model->head.parts->offset, s->norm, c->vocab_size, c->hidden_dim);
    for (int v = 0; v < c->vocab_size; v++) most = fmax(most, logits[v]);
    for (int v = 0; v < c->vocab_size; v++) sum += exp(logits[v] - most);
    return target == -100 ? 0 : most + log(sum) - logits[target];
}

double reference_loss(const struct model *model, const double *weights, const int32_t *inputs,
                      const int32_t *targets, int B, int T, struct rig_dropout dropout, double *logits)
{
    const struct model_config *c = &model->config;
    size_t C = (size_t)c->hidden_dim, F = (size_t)c->intermediate_dim, V = (size_t)c->vocab_size,
           n = (size_t)T;
    size_t A = (size_t)c->num_heads * (size_t)c->head_dim,
           Q = (size_t)(c->num_heads + 2 * c->num_kv_heads) * (size_t)c->head_dim;
    double *memory = calloc(n * (C + Q + A + 1) + 2 * C + 3 * F + V, sizeof *memory), loss = 0;
    if (!memory) abort();
    struct walk s = {.model = model, .w = weights, .dropout = dropout, .T = T, .x = memory};
    s.qkv = s.x + n * C;
    s.attn = s.qkv + n * Q;
    s.scores = s.attn + n * A;
    s.norm = s.scores + n;
    s.branch = s.norm + C;
    s.gate_up = s.branch + C;
    s.act = s.gate_up + 2 * F;
    for (int b = 0; b < B; b++) {
        s.first_row = b * T;
        for (int t = 0; t < T; t++) {
            double *row = s.x + (size_t)t * C;
            memcpy(row, weights + model->embed->offset + (size_t)inputs[b * T + t] * C, C * sizeof *row);
            drop(&s, row, t, 0, 0);
        }
        for (int l = 0; l < c->num_layers; l++) {
            attention(&s, l);
            feed_forward(&s, l);
        }
        for (int t = 0; t < T; t++)
            loss += position_loss(&s, t, targets[b * T + t],
                                  logits ? logits + (size_t)(b * T + t) * V : s.act + F);
    }
    free(memory);
    return loss;
}
