/* The plan of any configuration equals the allocation on the CPU, to the byte: sixty drawn from a seed, for
 * every strategy. tests/cuda_sim/test_plan_allocated_sim.c is the same test for the simulated GPU. */
#include "tests/cmocka.h"
#include "tests/core/network/plan_trial.h"

TEST_CASE(the_plan_of_any_configuration_is_what_is_allocated)
{
    struct plan_trial trial;
    int of_strategy[ALLOCATOR_KINDS] = {0}, of_moments[3] = {0}, recomputed = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        plan_trial_draw(seed, true, &trial);
        plan_trial_run(cpu_backend(), &trial);
        of_strategy[trial.input.allocator]++;
        of_moments[trial.input.moments]++;
        recomputed += trial.input.activation_interval > 0;
    }
    for (int i = 0; i < ALLOCATOR_KINDS; i++) assert_true(of_strategy[i] >= 5);
    for (int i = 0; i < 3; i++) assert_true(of_moments[i] >= 5);
    assert_in_range(recomputed, 10, 50);
}

TEST_MAIN()
