/* train.loss and train.loss_chunk: all logits at once, or a chunk of rows at a time. The two sum in another
 * order, so they agree within rounding; each by itself gives the same bits every time. */
#include <math.h>

#include "tests/cmocka.h"
#include "tests/core/network/rig.h"

enum { B = 10, T = 64, N = B * T }; /* more rows than a chunk has */

/* Loss and gradients (yours to free) of one pass. */
static float *gradients_of(enum plan_loss choice, int chunk, size_t *count, double *loss, int *rows)
{
    struct rig rig = {.backend = cpu_backend()};
    struct model_config config = rig_config();
    struct step_result result;
    int32_t *tokens = malloc((N + 1) * sizeof *tokens);
    assert_non_null(tokens);
    assert_int_equal(model_init(&rig.model, &config, NULL), STATUS_OK);
    assert_int_equal(rig.backend->device_open(DEVICE_FIRST, 2, &rig.device, NULL), STATUS_OK);
    struct plan_input input = {.model = &rig.model,
                               .B = B,
                               .T = T,
                               .moments = 1,
                               .loss = choice,
                               .loss_chunk = chunk,
                               .host_counts = true};
    assert_int_equal(plan_init(&rig.plan, &input, NULL), STATUS_OK);
    assert_int_equal(network_open(&rig.network, rig.backend, rig.device, &rig.model, &rig.plan, NULL),
                     STATUS_OK);
    rig_weights(&rig.model, 3, rig.network.weights);
    rig_tokens(1, config.vocab_size, tokens, N + 1);
    rig_train(&rig.network, tokens, tokens + 1, B, T, 1.0f / N, (struct rig_dropout){0});
    network_result(&rig.network, &result);
    *loss = result.loss_sum;
    *count = rig.model.elements;
    *rows = rig.plan.loss_chunk;
    float *copy = malloc(*count * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, rig.network.gradients, *count * sizeof *copy);
    free(tokens);
    rig_close(&rig);
    return copy;
}

static void expect_near(const float *got, const float *wanted, size_t count)
{
    double apart = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        double d = (double)got[i] - (double)wanted[i];
        apart += d * d;
        size += (double)wanted[i] * (double)wanted[i];
    }
    if (!(sqrt(apart) <= 1e-6 * sqrt(size)))
        fail_msg("the gradients are %.3g of their size apart", sqrt(apart / size));
}

/* Chunks of any number of rows: chosen, given, and one that does not divide N. */
TEST_CASE(fused_and_plain_give_the_same_loss_and_gradients_within_rounding)
{
    static const int chunks[] = {0, 1, 13, 320};
    size_t count;
    double wanted, loss;
    int rows;
    float *plain = gradients_of(PLAN_LOSS_PLAIN, 0, &count, &wanted, &rows);
    assert_int_equal(rows, N);
    for (size_t k = 0; k < sizeof chunks / sizeof *chunks; k++) {
        float *fused = gradients_of(PLAN_LOSS_FUSED, chunks[k], &count, &loss, &rows);
        assert_true(chunks[k] ? rows == chunks[k] : rows < N);
        assert_true(fabs(loss - wanted) <= 1e-6 * wanted && wanted > 0);
        expect_near(fused, plain, count);
        free(fused);
    }
    free(plain);
}

TEST_CASE(either_gives_the_same_bits_every_time)
{
    for (int choice = PLAN_LOSS_FUSED; choice <= PLAN_LOSS_PLAIN; choice++) {
        size_t count;
        double losses[2];
        int rows;
        float *first = gradients_of((enum plan_loss)choice, 0, &count, &losses[0], &rows),
              *again = gradients_of((enum plan_loss)choice, 0, &count, &losses[1], &rows);
        assert_true(losses[0] == losses[1]);
        assert_memory_equal(first, again, count * sizeof *first);
        free(first);
        free(again);
    }
}

TEST_MAIN()
