/* Compares the list of matrix products for warming up with those that the network really calls, and the
 * workspace that it lends them. */
/* cmocka wants the first four above */
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"
#include "tests/kernels/product.h"

enum { SHAPES_MAX = 64, WANTED = 1000 };

/* The products requested from the backend below; each test has its own. */
static struct {
    struct gemm_shape shapes[SHAPES_MAX];
    int count;
    void *lent;
    size_t lent_bytes;
} asked;

static int find(const struct gemm_shape *list, int count, struct gemm_shape s)
{
    for (int i = 0; i < count; i++)
        if (gemm_shape_same(&list[i], &s)) return i;
    return -1;
}

static void recording_gemm(struct matrix out, struct matrix a, struct matrix b, int M, int N, int K,
                           bool transpose_a, bool transpose_b, bool accumulate, float factor,
                           struct stream *stream)
{
    struct gemm_shape shape = gemm_shape_of(out, a, b, M, N, K, transpose_a, transpose_b, accumulate);
    if (find(asked.shapes, asked.count, shape) < 0) {
        assert_true(asked.count < SHAPES_MAX);
        asked.shapes[asked.count++] = shape;
    }
    cpu_backend()->gemm(out, a, b, M, N, K, transpose_a, transpose_b, accumulate, factor, stream);
}

static size_t wanting_workspace(struct device *device, const struct attention_problem *attention)
{
    (void)device, (void)attention;
    return WANTED;
}

static void recording_lend(struct stream *stream, void *workspace, size_t bytes)
{
    (void)stream;
    asked.lent = workspace;
    asked.lent_bytes = bytes;
}

static struct backend recording_backend(void)
{
    struct backend backend = *cpu_backend();
    backend.gemm = recording_gemm;
    backend.library_workspace = wanting_workspace;
    backend.workspace_lend = recording_lend;
    memset(&asked, 0, sizeof asked);
    return backend;
}

static void expect_equal_sets(const struct plan *plan)
{
    const struct gemm_shape *listed = plan->products;
    int count = plan->product_count;
    for (int i = 0; i < asked.count; i++) {
        struct gemm_shape s = asked.shapes[i];
        if (find(listed, count, s) < 0)
            fail_msg("(%d,%d,%d) %d%d%d is not listed", s.M, s.N, s.K, s.transpose_a, s.transpose_b,
                     s.accumulate);
    }
    for (int i = 0; i < count; i++) {
        struct gemm_shape s = listed[i];
        if (find(asked.shapes, asked.count, s) < 0)
            fail_msg("(%d,%d,%d) %d%d%d is listed and never asked for", s.M, s.N, s.K, s.transpose_a,
                     s.transpose_b, s.accumulate);
        assert_int_equal(find(listed, i, s), -1); /* once */
    }
}

/* A prompt as long as the cache, and a token after a shorter one. */
static void write_on(struct network *net, const int32_t *tokens, int T, float *logits)
{
    network_logits(net, network_append(net, 0, tokens, T), 1, logits);
    network_truncate(net, 0, T - 1);
    network_append(net, 0, tokens, 1);
}

/* With and without a tail behind the loss's chunks, heads of another width than the stream's, tied or not. */
TEST_CASE(exactly_the_products_of_a_step_are_listed)
{
    static const int sizes[][2] = {{13, 50}, {2, 8}, {16, 64}, {1, 1}};
    static int32_t tokens[1024], targets[1024];
    static float logits[16];
    for (int i = 0; i < 4; i++)
        for (int tied = 0; tied < 2; tied++) {
            int B = sizes[i][0], T = sizes[i][1];
            struct model_config config = rig_config();
            struct backend backend = recording_backend();
            struct rig rig;
            config.tie_weights = tied;
            config.head_dim = tied ? 6 : 4;
            config.qk_norm = config.qkv_bias = tied;
            rig_open(&rig, &backend, &config, B, T, 2);
            rig_tokens(1, config.vocab_size, tokens, B * T);
            rig_tokens(2, config.vocab_size, targets, B * T);
            network_forward(&rig.network, (struct batch_view){.inputs = tokens, .B = B, .T = T});
            write_on(&rig.network, tokens, T, logits);
            network_loss(&rig.network, (struct batch_view){.labels = targets, .B = B, .T = T});
            rig_train(&rig.network, tokens, targets, B, T, 1, (struct rig_dropout){0});
            expect_equal_sets(&rig.plan);
            rig_close(&rig);
        }
}

TEST_CASE(without_training_only_the_forward_products_are_listed)
{
    static int32_t tokens[650];
    static float logits[16];
    struct model_config config = rig_config();
    struct backend backend = recording_backend();
    struct rig rig;
    rig_open(&rig, &backend, &config, 13, 50, 0);
    network_forward(&rig.network, (struct batch_view){.inputs = tokens, .B = 13, .T = 50});
    write_on(&rig.network, tokens, 50, logits);
    network_loss(&rig.network, (struct batch_view){.labels = tokens, .B = 13, .T = 50});
    expect_equal_sets(&rig.plan);
    rig_close(&rig);
}

TEST_CASE(the_workspace_that_products_want_is_planned_and_lent)
{
    struct model_config config = rig_config();
    struct backend backend = recording_backend();
    struct rig with, without;
    rig_open(&with, &backend, &config, 2, 8, 2);
    rig_open(&without, NULL, &config, 2, 8, 2);
    assert_int_equal(with.plan.total_bytes - without.plan.total_bytes, 1024); /* 1000, aligned */
    const struct plan_buffer *lent = with.plan.buffers;
    while (lent->buffer != BUFFER_LIBRARY_WORKSPACE)
        assert_true(++lent < with.plan.buffers + with.plan.buffer_count);
    assert_true(lent->category == PLAN_WORKSPACE && lent->bytes == WANTED);
    assert_ptr_equal(asked.lent, with.network.memory[PLAN_WORKSPACE] + lent->offset);
    assert_int_equal(asked.lent_bytes, WANTED);
    assert_int_equal((uintptr_t)asked.lent % 256, 0);
    assert_int_equal(without.plan.buffer_count, with.plan.buffer_count - 1);
    rig_close(&with), rig_close(&without);
}

TEST_MAIN()
