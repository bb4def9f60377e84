/* When ranks with slices exchange: gradients while the backward pass still computes, weights while the
 * forward pass already does. The collectives are those of this file: they count and exchange nothing. */
#include "core/network/exchange.h"
#include "kernels/device/cpu.h"
#include "kernels/device/world.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"

enum { L = 6, B = 2, T = 8 };

/* What happened, and how much of it before each layer's attention, forward and backward. */
static struct {
    unsigned char *sent, *received; /* (elements): how often */
    float *gradients;
    const unsigned char *weights;
    int awaited, forward, backward;
    int awaited_before[L];
    size_t sent_before[L];
} seen;

static size_t elements;

static size_t count(const unsigned char *times)
{
    size_t n = 0;
    for (size_t i = 0; i < elements; i++) n += times[i] > 0;
    return n;
}

static void spy_reduce(float *x, void *workspace, size_t n, size_t from, size_t slice, int ranks,
                       const struct world *world, struct stream *stream)
{
    (void)workspace, (void)slice, (void)ranks, (void)world, (void)stream;
    assert_ptr_equal(x, seen.gradients + from);
    for (size_t i = 0; i < n; i++) seen.sent[from + i]++;
}

static void spy_gather(void *x, size_t n, size_t from, size_t slice, const struct world *world,
                       struct stream *stream)
{
    (void)slice, (void)world, (void)stream;
    assert_ptr_equal(x, seen.weights + from * sizeof(float));
    for (size_t i = 0; i < n; i++) seen.received[from + i]++;
}

static void spy_value(double *x, const struct world *world, struct stream *stream)
{
    (void)x, (void)world, (void)stream;
}

static void spy_after(struct stream *stream, struct event *event)
{
    seen.awaited++;
    cpu_backend()->stream_after(stream, event);
}

static void spy_forward(void *out, float *lse, const void *qkv, const int32_t *positions, void *workspace,
                        int b, int t, int NH, int NKV, int HS, int window, struct stream *stream)
{
    seen.awaited_before[seen.forward++] = seen.awaited;
    cpu_backend()->attention_forward(out, lse, qkv, positions, workspace, b, t, NH, NKV, HS, window, stream);
}

static void spy_backward(void *dqkv, const void *dout, const void *out, const float *lse, const void *qkv,
                         const int32_t *positions, const float *cos_sin, void *workspace, int b, int t,
                         int NH, int NKV, int HS, int window, struct stream *stream)
{
    seen.sent_before[L - 1 - seen.backward++] = count(seen.sent);
    cpu_backend()->attention_backward(dqkv, dout, out, lse, qkv, positions, cos_sin, workspace, b, t, NH, NKV,
                                      HS, window, stream);
}

static struct backend spy;
static const struct world two = {.rank = 0, .size = 2, .beside = &two};

static void open_rank(struct rig *rig, const char *frozen, bool overlap)
{
    struct model_config config = rig_config();
    struct err err;
    spy = *cpu_backend();
    spy.reduce_slices = spy_reduce;
    spy.gather_slices = spy_gather;
    spy.all_reduce_value = spy_value;
    spy.stream_after = spy_after;
    spy.attention_forward = spy_forward;
    spy.attention_backward = spy_backward;
    config.num_layers = L; /* large enough that the weights come in several parts */
    config.hidden_dim = 192;
    config.num_kv_heads = 4;
    config.head_dim = 48;
    config.intermediate_dim = 512;
    struct plan_input input = {.B = B, .T = T, .moments = 2, .ranks = 2, .shard = true};
    rig_open_input(rig, &spy, &config, input, frozen);
    if (exchange_open(&rig->network, &two, overlap, &err)) fail_msg("%s", err.text);
    elements = rig->model.elements;
    memset(&seen, 0, sizeof seen);
    seen.sent = calloc(elements, 1);
    seen.received = calloc(elements, 1);
    seen.gradients = rig->network.gradients;
    seen.weights = rig->network.compute_weights;
}

static void train_step(struct rig *rig, bool last)
{
    int32_t tokens[B * T];
    rig_tokens(1, 13, tokens, B * T);
    network_clear(&rig->network);
    rig->network.exchange.last = last;
    rig_train(&rig->network, tokens, tokens, B, T, 1, (struct rig_dropout){0});
}

static void close_rank(struct rig *rig)
{
    free(seen.sent);
    free(seen.received);
    exchange_close(&rig->network);
    rig_close(rig);
}

/* Elements of the matrices of layers from `layer` on. */
static size_t matrices_from(const struct model *model, int layer)
{
    size_t n = 0;
    for (size_t i = 0; i < model->param_count; i++) {
        const struct param *p = &model->params[i];
        bool inside = p->place >= param_place(layer, 0) && p->place < param_place(L, 0);
        if (inside && p->cols && !p->frozen) n += p->count;
    }
    return n;
}

static void expect_once(const struct model *model, const unsigned char *times)
{
    for (size_t i = 0; i < model->param_count; i++)
        for (size_t k = 0; k < model->params[i].count && !model->params[i].frozen; k++)
            if (times[model->params[i].offset + k] != 1)
                fail_msg("%s, element %zu: %d times", model->params[i].name, k,
                         times[model->params[i].offset + k]);
}

static const char *const frozen[] = {"", "*layers.0*", "*norm*", "*layers.2.mlp* *embed*"};

TEST_CASE(a_layers_gradients_go_while_the_layers_below_compute)
{
    for (size_t f = 0; f < sizeof frozen / sizeof *frozen; f++) {
        struct rig rig;
        open_rank(&rig, frozen[f], true);
        train_step(&rig, true);
        for (int l = L - seen.backward; l < L - 1; l++)
            if (seen.sent_before[l] + plan_piece(&rig.plan.input) <= matrices_from(&rig.model, l + 1))
                fail_msg("frozen \"%s\": when layer %d computes, %zu of %zu elements are sent", frozen[f], l,
                         seen.sent_before[l], matrices_from(&rig.model, l + 1));
        network_gradient_squares(&rig.network);
        expect_once(&rig.model, seen.sent);
        close_rank(&rig);
    }
}

TEST_CASE(before_the_last_micro_batch_nothing_is_sent)
{
    struct rig rig;
    open_rank(&rig, "", true);
    train_step(&rig, false);
    assert_int_equal(count(seen.sent), 0);
    close_rank(&rig);
    open_rank(&rig, "", false);
    train_step(&rig, true);
    assert_int_equal(count(seen.sent), 0);
    network_gradient_squares(&rig.network);
    expect_once(&rig.model, seen.sent);
    close_rank(&rig);
}

TEST_CASE(a_layer_waits_for_no_weights_of_later_ones)
{
    for (size_t f = 0; f < sizeof frozen / sizeof *frozen; f++) {
        struct rig rig;
        open_rank(&rig, frozen[f], true);
        exchange_weights(&rig.network);
        expect_once(&rig.model, seen.received);
        seen.awaited = 0; /* the exchange itself waits for the update */
        train_step(&rig, false);
        if (seen.awaited_before[0] > EXCHANGE_PARTS / 2)
            fail_msg("frozen \"%s\": layer 0 waits for %d parts of %d", frozen[f], seen.awaited_before[0],
                     EXCHANGE_PARTS);
        for (int l = 1; l < L; l++) assert_true(seen.awaited_before[l] >= seen.awaited_before[l - 1]);
        assert_int_equal(seen.awaited, EXCHANGE_PARTS);
        close_rank(&rig);
    }
}

TEST_MAIN()
