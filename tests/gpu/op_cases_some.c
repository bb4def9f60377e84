/* The cases of op_cases.h that only some runs have: those of a classifier, of averaged weights, of moments in
 * 8 bits, of Muon, and of several ranks. */
#include <stdlib.h>

#include "kernels/device/world.h"
#include "kernels/moments.h"
#include "tests/gpu/op_cases.h"
#include "tests/gpu/op_desk.h"

void op_case_class_weights(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t N = (size_t)s.B * (size_t)s.T, V = (size_t)s.V;
    struct matrix dlogits = desk_logits(&d, 1), none = {NULL, dlogits.element, dlogits.stride};
    float *losses = desk_floats(&d, N, 3, 2), *alone = desk_floats(&d, N, 3, 2),
          *weights = desk_floats(&d, V, 2, 2);
    int32_t *t = desk_tokens(&d, N, s.V, true);
    side->backend->weigh_classes(losses, dlogits, t, weights, (int)N, s.V, side->stream);
    side->backend->weigh_classes(alone, none, t, weights, (int)N, s.V, side->stream);
    desk_result(&d, out, "losses", losses, N, 0);
    desk_result(&d, out, "losses alone", alone, N, 0);
    desk_tensor_result(&d, out, "dlogits and gaps", dlogits.at, N * (size_t)dlogits.stride, 0);
    desk_close(&d, out);
}

/* Sequences of different length follow each other in a row; some have no target, as padding. With an even
 * seed a row is one sequence. */
void op_case_pooling(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t N = (size_t)s.B * (size_t)s.T, C = (size_t)s.C;
    void *x = desk_tensor(&d, N * C, 0, 1), *dx = desk_tensor(&d, N * C, 0, 1);
    int32_t *places = malloc(N * sizeof *places), *ends = malloc(N * sizeof *ends);
    bool packed = s.seed % 2;
    for (int n = 0, first = 0, length = 1; places && ends && n < (int)N; n++) {
        int t = n % s.T;
        if (t == 0 || t == first + length)
            first = t, length = packed ? 1 + (n * 7 + (int)s.seed % 97) % 23 : s.T;
        places[n] = t - first;
        ends[n] = (t == s.T - 1 || t + 1 == first + length) && n % 5 ? 1 : -100;
    }
    int32_t *positions = desk_put(&d, places, N * sizeof *places, sizeof *places),
            *targets = desk_put(&d, ends, N * sizeof *ends, sizeof *ends);
    side->backend->mean_pool_forward(x, targets, packed ? positions : NULL, s.B, s.T, s.C, side->stream);
    side->backend->mean_pool_backward(dx, targets, packed ? positions : NULL, s.B, s.T, s.C, side->stream);
    desk_tensor_result(&d, out, "x", x, N * C, 1e-5);
    desk_tensor_result(&d, out, "dx", dx, N * C, 1e-6);
    desk_close(&d, out);
    free(places);
    free(ends);
}

/* In a world of one. Several ranks are in tests/kernels/test_world.c. */
void op_case_all_reduce(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t n = (size_t)s.B * (size_t)s.T;
    double value = 0.1;
    float *x = desk_floats(&d, n, 0, 1);
    double *sum = desk_put(&d, &value, sizeof value, sizeof value);
    side->backend->all_reduce(x, desk_scratch(&d, all_reduce_workspace(n, 1)), n, 1, world_of_one(),
                              side->stream);
    side->backend->all_reduce_value(sum, world_of_one(), side->stream);
    side->backend->reduce_slices(x, desk_scratch(&d, reduce_slices_workspace(n, n, 1)), n, 0, n, 1,
                                 world_of_one(), side->stream);
    side->backend->gather_slices(x, n, 0, n, world_of_one(), side->stream);
    desk_result(&d, out, "x", x, n, 0);
    desk_result(&d, out, "value", (const float *)sum, 2, 0);
    desk_close(&d, out);
}

void op_case_average(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t n = (size_t)s.B * (size_t)s.T * (size_t)s.C;
    float *average = desk_floats(&d, n, 0, 1), *w = desk_floats(&d, n, 0, 1),
          *first = desk_floats(&d, n, 0, 1);
    const struct clip_state *clip = desk_clip(&d, 0.5f, 2 + s.seed % 50), *skip = desk_clip(&d, 0, 3),
                            *begin = desk_clip(&d, 1, 1);
    side->backend->average_weights(average, w, n, 0.99, clip, side->stream);
    side->backend->average_weights(average, w, n, 0.99, skip, side->stream);
    side->backend->average_weights(first, w, n, 0.99, begin, side->stream);
    desk_result(&d, out, "average", average, n, ELEMENTWISE);
    desk_result(&d, out, "after the first update", first, n, ELEMENTWISE);
    desk_close(&d, out);
}

/* n moments in 8 bits, encoded on the host. */
static struct moment_block *coded_moments(struct desk *d, size_t n, float middle, float spread, bool has_sign)
{
    const float *there = desk_floats(d, n, middle, spread);
    float *x = malloc((n + 1) * sizeof *x);
    struct moment_block *blocks = malloc(moment_bytes(n));
    d->side->backend->mem_download(x, there, n * sizeof *x, d->side->stream);
    moments_encode(blocks, x, n, has_sign);
    void *out = desk_put(d, blocks, moment_bytes(n), sizeof *blocks);
    free(x), free(blocks);
    return out;
}

/* Their values. An element between two codes may get the other one, as rounding differs before: one such
 * element of a block is off by a hundredth of the scale. */
static void coded_result(struct desk *d, struct op_outcome *out, const char *name,
                         const struct moment_block *there, size_t n, bool has_sign)
{
    float *x = malloc((n + 1) * sizeof *x), *values = desk_blank(d, n);
    struct moment_block *blocks = malloc(moment_bytes(n));
    d->side->backend->mem_download(blocks, there, moment_bytes(n), d->side->stream);
    moments_decode(x, blocks, 0, n, has_sign);
    d->side->backend->mem_upload(values, x, n * sizeof *x, d->side->stream);
    desk_result(d, out, name, values, n, 0.01);
    free(x), free(blocks);
}

void op_case_moments(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t n = (size_t)s.B * (size_t)s.T * (size_t)s.C;
    bool lion = s.seed % 2;
    float *w = desk_floats(&d, n, 0, 1), *g = desk_floats(&d, n, 0, 1);
    struct moment_block *m = coded_moments(&d, n, 0, 1, true), *v = coded_moments(&d, n, 1, 1, false);
    void *weights = side->precision == PRECISION_BF16 ? desk_blank_tensor(&d, n) : w;
    struct optimizer_params p = {0.9, 0.95, 1e-8f};
    struct step_control *control = desk_control(&d, (struct step_control){.lr = 1e-2f});
    const struct clip_state *clips[2] = {desk_clip(&d, 0.5f, 1 + s.seed % 50), desk_clip(&d, 0, 3)};
    int count;
    struct update_range *ranges = desk_ranges(&d, n, &count);
    for (int i = 0; i < 2; i++) /* the second one is skipped */
        if (lion)
            side->backend->lion8_step(w, weights, m, NULL, g, n, ranges, count, p, control, clips[i],
                                      side->stream);
        else
            side->backend->adamw8_step(w, weights, m, v, g, n, ranges, count, p, control, clips[i],
                                       side->stream);
    desk_result(&d, out, "w", w, n, ELEMENTWISE);
    desk_tensor_result(&d, out, "weights", weights, n, ELEMENTWISE);
    coded_result(&d, out, "m", m, n, true);
    coded_result(&d, out, "v", v, n, false);
    desk_close(&d, out);
}

/* A matrix (n, n), in the last of the ranges. */
void op_case_muon(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t n = (size_t)s.C * (size_t)s.C;
    float *m = desk_floats(&d, n, 0, 1), *g = desk_floats(&d, n, 0, 1), *w = desk_floats(&d, n, 0, 1);
    void *x = desk_blank_tensor(&d, n), *gram = desk_tensor(&d, n, 0, 1), *change = desk_tensor(&d, n, 0, 1),
         *sum = desk_tensor(&d, n, 0, 1),
         *weights = side->precision == PRECISION_BF16 ? desk_blank_tensor(&d, n) : w;
    const double squares = (double)s.seed;
    double *norm = desk_put(&d, &squares, sizeof squares, sizeof squares);
    const struct step_control *control = desk_control(&d, (struct step_control){.lr = 1e-2f});
    const struct clip_state *clip = desk_clip(&d, 0.5f, 1), *skip = desk_clip(&d, 0, 1);
    int count;
    struct update_range *ranges = desk_ranges(&d, n, &count);
    side->backend->cast(weights, w, n, side->stream); /* an update that is skipped leaves these values */
    side->backend->muon_momentum(m, g, n, 0.95f, s.seed % 2, clip, side->stream);
    side->backend->muon_momentum(m, g, n, 0.95f, true, skip, side->stream);
    side->backend->muon_normalise(x, g, norm, n, 2.0f, side->stream);
    side->backend->muon_polynomial(sum, gram, s.C, 3.4f, -4.7f, side->stream);
    side->backend->muon_update(w, weights, change, n, n - 1, ranges, count, 0.2f, control, clip,
                               side->stream);
    side->backend->muon_update(w, weights, change, n, 0, ranges, count, 0.2f, control, skip, side->stream);
    desk_result(&d, out, "m", m, n, ELEMENTWISE);
    desk_tensor_result(&d, out, "x", x, n, ELEMENTWISE);
    desk_tensor_result(&d, out, "sum", sum, n, ELEMENTWISE);
    desk_result(&d, out, "w", w, n, ELEMENTWISE);
    desk_tensor_result(&d, out, "weights", weights, n, ELEMENTWISE);
    desk_close(&d, out);
}
