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

static bool is_nf4(const struct param *p)
{
    return p->frozen && element_is_nf4(p->element);
}

/* A matrix as an operand. One in NF4 is dequantised into a buffer that all products share. */
static struct matrix operand(struct network *net, const struct param *p)
{
    if (!is_nf4(p)) return parameter_view(net, p);
    void *out = network_at(net, BUFFER_DEQUANTISED, 0);
    net->table->nf4_dequantise(out, parameter(net, p), p->count, p->element == ELEMENT_NF4_NESTED,
                               net->calls);
    return activation(net, out, p->cols);
}

/* Parts that follow each other as operands, from `first` on, as one weight. One in NF4 is alone. */
struct run {
    const struct param *first;
    int row, rows; /* row: of the whole weight, where it begins */
    int next;      /* the part after it */
};

/* The run after this one, {0} before the first one; false: there is none. */
static bool next_run(const struct param *parts, int count, struct run *run)
{
    const struct param *p = run->first = parts + run->next;
    if (run->next == count) return false;
    run->row += run->rows;
    run->rows = p->rows;
    for (; ++run->next < count && param_is_followed(p); p++) run->rows += p[1].rows;
    return true;
}

/* out (N, rows) = x (N, cols) Wᵀ without adapters. */
static void forward_parts(struct network *net, void *out, const void *x, int N, const struct linear *w)
{
    bool few = net->where.infers && N <= FEW_ROWS_MAX;
    for (struct run run = {0}; next_run(w->parts, w->count, &run);) {
        bool codes = few && is_nf4(run.first) && w->cols % NF4_BLOCK == 0; /* multiplied as they are */
        struct matrix y = columns_from(activation(net, out, w->rows), run.row),
                      a = activation(net, x, w->cols),
                      b = codes ? parameter_view(net, run.first) : operand(net, run.first);
        if (few)
            net->table->gemm_few_rows(y, a, b, N, run.rows, w->cols, net->calls);
        else
            net->table->gemm(y, a, b, N, run.rows, w->cols, false, true, false, 1, net->calls);
    }
}

/* The gradient of W = doutᵀ x, or +=. */
static void weight_gradients(struct network *net, struct matrix dout, const void *x, int N,
                             const struct linear *w)
{
    for (struct run run = {0}; next_run(w->parts, w->count, &run);)
        if (!run.first->frozen)
            net->table->gemm(matrix_view(gradient(net, run.first), ELEMENT_FP32, w->cols),
                             columns_from(dout, run.row), activation(net, x, w->cols), run.rows, w->cols, N,
                             true, false, net->adds, 1, net->calls);
}

/* dx (N, cols) = dout W, or += */
static void backward_parts(struct network *net, void *dx, struct matrix dout, int N, const struct linear *w,
                           bool add)
{
    for (struct run run = {0}; next_run(w->parts, w->count, &run);)
        net->table->gemm(activation(net, dx, w->cols), columns_from(dout, run.row), operand(net, run.first),
                         N, w->cols, run.rows, false, false, add || run.row > 0, 1, net->calls);
}

/* ---- adapters ---- */

/* The dropout site of an adapter is this number plus its projection's. The passes use the smaller numbers
 * (network_pass.c). */
enum { SITE_ADAPTER = 16 };

static bool drops(const struct network *net, const struct adapter *adapter)
{
    return net->where.trains && adapter->dropout > 0;
}

/* x (N, cols) in place: drops elements, or with the same mask those of its gradient. */
static void drop(struct network *net, void *x, int N, const struct adapter *adapter)
{
    struct dropout_site site = {network_at(net, BUFFER_CONTROL, 0), (uint16_t)net->where.layer,
                                (uint16_t)(SITE_ADAPTER + adapter->a.weight),
                                (size_t)net->plan->input.T * (size_t)adapter->a.cols};
    net->table->dropout(x, (size_t)N * (size_t)adapter->a.cols, adapter->dropout, site, net->calls);
}

/* The input of the adapters: x (N, cols) itself or, with dropout, a copy of x with elements dropped. */
static const void *adapter_input(struct network *net, const void *x, int N, const struct adapter *adapter)
{
    net->where.part = PART_ADAPTER_A;
    if (!drops(net, adapter)) return x;
    void *copy = network_at(net, BUFFER_ADAPTER_INPUT, 0);
    size_t bytes = (size_t)N * (size_t)adapter->a.cols * precision_bytes(net->plan->input.precision);
    net->table->mem_copy(copy, x, bytes, net->calls);
    drop(net, copy, N, adapter);
    return copy;
}

/* u (N, rows of A) = x Aᵀ, in BUFFER_ADAPTED. */
static struct matrix adapted(struct network *net, const void *x, int N, const struct adapter *adapter)
{
    void *u = network_at(net, BUFFER_ADAPTED, 0);
    forward_parts(net, u, x, N, &adapter->a);
    return activation(net, u, adapter->a.rows);
}

/* out (N, rows) += scale · u Bᵀ, for each adapter in its part's columns. */
static void adapter_forward(struct network *net, struct matrix out, const void *x, int N,
                            const struct adapter *adapter)
{
    struct matrix u = adapted(net, adapter_input(net, x, N, adapter), N, adapter);
    net->where.part = PART_ADAPTER_B;
    for (int i = 0, r = adapter->rank; i < adapter->count; i++)
        net->table->gemm(columns_from(out, adapter->first_row[i]), columns_from(u, i * r),
                         parameter_view(net, adapter->b[i]), N, adapter->b[i]->rows, r, false, true, true,
                         adapter->scale, net->calls);
}

/* du (N, rows of A) = scale · dout B, in BUFFER_ADAPTED. */
static struct matrix adapted_gradient(struct network *net, struct matrix dout, int N,
                                      const struct adapter *adapter)
{
    struct matrix du = activation(net, network_at(net, BUFFER_ADAPTED, 0), adapter->a.rows);
    int r = adapter->rank;
    net->where.part = PART_ADAPTER_B;
    for (int i = 0; i < adapter->count; i++)
        net->table->gemm(columns_from(du, i * r), columns_from(dout, adapter->first_row[i]),
                         parameter_view(net, adapter->b[i]), N, r, adapter->b[i]->rows, false, false, false,
                         adapter->scale, net->calls);
    return du;
}

/* The gradients of A, from du in BUFFER_ADAPTED, and of B, from u, which overwrites du. */
static void adapter_gradients(struct network *net, struct matrix dout, const void *x, int N,
                              const struct adapter *adapter)
{
    const void *input = adapter_input(net, x, N, adapter);
    int r = adapter->rank;
    weight_gradients(net, activation(net, network_at(net, BUFFER_ADAPTED, 0), adapter->a.rows), input, N,
                     &adapter->a);
    struct matrix u = adapted(net, input, N, adapter);
    net->where.part = PART_ADAPTER_B;
    for (int i = 0; i < adapter->count; i++) {
        const struct param *b = adapter->b[i];
        if (b->frozen) continue;
        net->table->gemm(matrix_view(gradient(net, b), ELEMENT_FP32, r),
                         columns_from(dout, adapter->first_row[i]), columns_from(u, i * r), b->rows, r, N,
                         true, false, net->adds, adapter->scale, net->calls);
    }
}

/* dx (N, cols) += du A */
static void adapter_backward(struct network *net, void *dx, struct matrix du, int N,
                             const struct adapter *adapter)
{
    const struct linear *a = &adapter->a;
    bool dropping = drops(net, adapter);
    void *to = dropping ? network_at(net, BUFFER_ADAPTER_INPUT, 0) : dx;
    net->where.part = PART_ADAPTER_A;
    backward_parts(net, to, du, N, a, !dropping);
    if (!dropping) return;
    drop(net, to, N, adapter);
    net->table->add(dx, to, (size_t)N * (size_t)a->cols, net->calls);
}

/* ---- biases, packed like the weights ---- */

static bool next_bias(const struct linear *w, struct run *run)
{
    return w->bias && next_run(w->bias, w->count, run);
}

static void add_bias(struct network *net, void *out, int N, const struct linear *w)
{
    for (struct run run = {0}; next_bias(w, &run);)
        net->table->bias_forward(columns_from(activation(net, out, w->rows), run.row).at,
                                 parameter(net, run.first), N, run.rows, w->rows, net->calls);
}

void linear_backward_bias(struct network *net, const void *dout, int N, const struct linear *w)
{
    net->where.weight = w->weight;
    for (struct run run = {0}; next_bias(w, &run);)
        if (!run.first->frozen)
            net->table->bias_backward(gradient(net, run.first),
                                      columns_from(activation(net, dout, w->rows), run.row).at,
                                      network_at(net, BUFFER_SCRATCH, 0), N, run.rows, w->rows, net->calls);
}

/* ---- projections ---- */

void linear_forward(struct network *net, void *out, const void *x, int N, const struct linear *w)
{
    net->where.weight = w->weight;
    forward_parts(net, out, x, N, w);
    if (w->adapter) adapter_forward(net, activation(net, out, w->rows), x, N, w->adapter);
    net->where.part = PART_BASE;
    add_bias(net, out, N, w);
}

bool linear_is_frozen(const struct linear *w)
{
    bool frozen = !w->adapter || linear_is_frozen(&w->adapter->a);
    for (int i = 0; w->adapter && i < w->adapter->count; i++) frozen = frozen && w->adapter->b[i]->frozen;
    for (int i = 0; i < w->count; i++) frozen = frozen && w->parts[i].frozen;
    return frozen;
}

void linear_backward_input(struct network *net, void *dx, const void *dout, int N, const struct linear *w)
{
    struct matrix dy = activation(net, dout, w->rows), du = {0};
    net->where.weight = w->weight;
    if (w->adapter && (dx || !linear_is_frozen(w))) du = adapted_gradient(net, dy, N, w->adapter);
    net->where.part = PART_BASE;
    if (!dx) return;
    backward_parts(net, dx, dy, N, w, false);
    if (w->adapter) adapter_backward(net, dx, du, N, w->adapter);
    net->where.part = PART_BASE;
}

void linear_backward_weights(struct network *net, const void *dout, const void *x, int N,
                             const struct linear *w)
{
    struct matrix dy = activation(net, dout, w->rows);
    if (linear_is_frozen(w)) return;
    net->where.weight = w->weight;
    weight_gradients(net, dy, x, N, w);
    if (w->adapter) adapter_gradients(net, dy, x, N, w->adapter);
    net->where.part = PART_BASE;
}
