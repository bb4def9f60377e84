/* See linear.h. */
#include "core/network/linear.h"

#include "core/network/network_parts.h"

static struct matrix activation(const struct network *net, const void *at, int columns)
{
    return matrix_view(at, precision_element(net->plan->input.precision), columns);
}

struct matrix linear_view(const struct network *net, const struct linear *w)
{
    return activation(net, parameter(net, w->parts), w->cols);
}

void linear_forward(struct network *net, void *out, const void *x, int N, const struct linear *w)
{
    net->where.weight = w->weight;
    net->table->gemm(activation(net, out, w->rows), activation(net, x, w->cols), linear_view(net, w), N,
                     w->rows, w->cols, false, true, false, net->calls);
}

void linear_backward(struct network *net, void *dx, const void *dout, const void *x, int N,
                     const struct linear *w)
{
    struct matrix dy = activation(net, dout, w->rows),
                  dw = matrix_view(gradient(net, w->parts), ELEMENT_FP32, w->cols);
    net->where.weight = w->weight;
    net->table->gemm(dw, dy, activation(net, x, w->cols), w->rows, w->cols, N, true, false, true, net->calls);
    net->table->gemm(activation(net, dx, w->cols), dy, linear_view(net, w), N, w->cols, w->rows, false, false,
                     false, net->calls);
}
