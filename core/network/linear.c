/* See linear.h. */
#include "core/network/linear.h"

static struct matrix activation(const struct network *net, const void *at, int columns)
{
    return matrix_view(at, precision_element(net->plan->input.precision), columns);
}

/* The matrix without the columns before `first`. */
static struct matrix columns_from(struct matrix m, int first)
{
    return matrix_view((unsigned char *)m.at + (size_t)first * element_bytes(m.element), m.element, m.stride);
}

struct matrix linear_view(const struct network *net, const struct linear *w)
{
    return parameter_view(net, w->parts);
}

/* The same of weights that may be in NF4: these are dequantised part by part into a buffer that all products
 * share. */
static struct matrix operand(struct network *net, const struct linear *w)
{
    enum element element = w->parts->element;
    if (!w->parts->frozen || !element_is_nf4(element)) return linear_view(net, w);
    unsigned char *out = network_at(net, BUFFER_DEQUANTISED, 0), *end = out;
    for (int i = 0; i < w->count; i++) {
        const struct param *p = &w->parts[i];
        net->table->nf4_dequantise(end, parameter(net, p), p->count, element == ELEMENT_NF4_NESTED,
                                   net->calls);
        end += p->count * precision_bytes(net->plan->input.precision);
    }
    return activation(net, out, w->cols);
}

/* The parts from `from` on that are adjacent in memory, as one weight; *next: the part after them. */
static struct linear run_of(const struct linear *w, int from, int *next)
{
    struct linear run = {.parts = w->parts + from, .count = 1, .rows = w->parts[from].rows, .cols = w->cols};
    for (const struct param *p = run.parts; from + run.count < w->count; p++, run.count++) {
        if (!param_is_followed(p)) break;
        run.rows += p[1].rows;
    }
    *next = from + run.count;
    return run;
}

void linear_forward(struct network *net, void *out, const void *x, int N, const struct linear *w)
{
    net->where.weight = w->weight;
    for (int i = 0, row = 0; i < w->count;) {
        struct linear run = run_of(w, i, &i);
        struct matrix y = columns_from(activation(net, out, w->rows), row), a = activation(net, x, w->cols),
                      b = operand(net, &run);
        if (net->where.infers && N <= FEW_ROWS_MAX)
            net->table->gemm_few_rows(y, a, b, N, run.rows, run.cols, net->calls);
        else
            net->table->gemm(y, a, b, N, run.rows, run.cols, false, true, false, 1, net->calls);
        row += run.rows;
    }
}

bool linear_is_frozen(const struct linear *w)
{
    bool frozen = true;
    for (int i = 0; i < w->count; i++) frozen = frozen && w->parts[i].frozen;
    return frozen;
}

void linear_backward(struct network *net, void *dx, const void *dout, const void *x, int N,
                     const struct linear *w)
{
    net->where.weight = w->weight;
    for (int i = 0, row = 0; i < w->count;) {
        struct linear run = run_of(w, i, &i);
        struct matrix dy = columns_from(activation(net, dout, w->rows), row);
        row += run.rows;
        if (run.parts->frozen) continue;
        net->table->gemm(matrix_view(gradient(net, run.parts), ELEMENT_FP32, w->cols), dy,
                         activation(net, x, w->cols), run.rows, w->cols, N, true, false, true, 1, net->calls);
    }
    for (int i = 0, row = 0; dx && i < w->count;) {
        struct linear run = run_of(w, i, &i);
        net->table->gemm(activation(net, dx, w->cols), columns_from(activation(net, dout, w->rows), row),
                         operand(net, &run), N, w->cols, run.rows, false, false, row > 0, 1, net->calls);
        row += run.rows;
    }
}

/* ---- biases, packed like the weights ---- */

void linear_add_bias(struct network *net, void *out, int N, const struct linear *w, const struct param *bias)
{
    const struct linear all = {.parts = bias, .count = w->count};
    net->where.weight = w->weight;
    for (int i = 0, column = 0; i < all.count;) {
        struct linear run = run_of(&all, i, &i);
        net->table->bias_forward(columns_from(activation(net, out, w->rows), column).at,
                                 parameter(net, run.parts), N, run.rows, w->rows, net->calls);
        column += run.rows;
    }
}

void linear_bias_backward(struct network *net, const void *dout, int N, const struct linear *w,
                          const struct param *bias, void *scratch)
{
    const struct linear all = {.parts = bias, .count = w->count};
    net->where.weight = w->weight;
    for (int i = 0, column = 0; i < all.count;) {
        struct linear run = run_of(&all, i, &i);
        if (!run.parts->frozen)
            net->table->bias_backward(gradient(net, run.parts),
                                      columns_from(activation(net, dout, w->rows), column).at, scratch, N,
                                      run.rows, w->rows, net->calls);
        column += run.rows;
    }
}
