/* train.loss: all logits at once, or a chunk of rows at a time. The two sum in another order, so they agree
 * within rounding; each by itself gives the same bits every time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h needs setjmp.h, stdarg.h, stddef.h and stdint.h before it */
#include <cmocka.h>
#include <math.h>

#include "tests/core/network/rig.h"

enum { B = 10, T = 64, N = B * T }; /* more rows than a chunk has */

/* Loss and gradients (yours to free) of one pass. */
static float *gradients_of(enum plan_loss choice, size_t *count, double *loss, int *rows)
{
    struct rig rig = {.backend = cpu_backend()};
    struct model_config config = rig_config();
    struct step_result result;
    int32_t *tokens = malloc((N + 1) * sizeof *tokens);
    assert_non_null(tokens);
    assert_int_equal(model_init(&rig.model, &config, NULL), STATUS_OK);
    assert_int_equal(rig.backend->device_open(DEVICE_FIRST, 2, &rig.device, NULL), STATUS_OK);
    struct plan_input input = {.model = &rig.model, .B = B, .T = T, .moments = 1, .loss = choice};
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

static void fused_and_plain_give_the_same_loss_and_gradients_within_rounding(void **state)
{
    (void)state;
    size_t count;
    double losses[2], apart = 0, size = 0;
    int rows[2];
    float *fused = gradients_of(PLAN_LOSS_FUSED, &count, &losses[0], &rows[0]),
          *plain = gradients_of(PLAN_LOSS_PLAIN, &count, &losses[1], &rows[1]);
    assert_true(rows[0] < N);
    assert_int_equal(rows[1], N);
    assert_true(fabs(losses[0] - losses[1]) <= 1e-6 * losses[1] && losses[1] > 0);
    for (size_t i = 0; i < count; i++) {
        double d = (double)fused[i] - (double)plain[i];
        apart += d * d;
        size += (double)plain[i] * (double)plain[i];
    }
    if (!(sqrt(apart) <= 1e-6 * sqrt(size)))
        fail_msg("the gradients are %.3g of their size apart", sqrt(apart / size));
    free(fused);
    free(plain);
}

static void either_gives_the_same_bits_every_time(void **state)
{
    (void)state;
    for (int choice = PLAN_LOSS_FUSED; choice <= PLAN_LOSS_PLAIN; choice++) {
        size_t count;
        double losses[2];
        int rows;
        float *first = gradients_of((enum plan_loss)choice, &count, &losses[0], &rows),
              *again = gradients_of((enum plan_loss)choice, &count, &losses[1], &rows);
        assert_true(losses[0] == losses[1]);
        assert_memory_equal(first, again, count * sizeof *first);
        free(first);
        free(again);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_and_plain_give_the_same_loss_and_gradients_within_rounding),
        cmocka_unit_test(either_gives_the_same_bits_every_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
