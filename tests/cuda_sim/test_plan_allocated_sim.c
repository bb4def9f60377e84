/* The plan of any configuration equals the allocation on the simulated GPU, to the byte, in every precision.
 * tests/core/network/test_plan_allocated.c is the same test for the CPU. */
#include "kernels/device/cuda_plugin.h"
#include "tests/cmocka.h"
#include "tests/core/network/plan_trial.h"
#include "tests/cuda_sim/simulator.h"

extern const struct cuda_plugin cuda_plugin;

TEST_CASE(the_plan_of_any_configuration_is_what_the_gpu_gives)
{
    struct plan_trial trial;
    int of_strategy[ALLOCATOR_KINDS] = {0}, of_precision[PRECISIONS] = {0};
    sim_set_machine(SIM_MACHINE_GOOD);
    for (uint64_t seed = 101; seed <= 150; seed++) {
        plan_trial_draw(seed, false, &trial);
        plan_trial_run(cuda_plugin.table, &trial);
        of_strategy[trial.input.allocator]++;
        of_precision[trial.input.precision]++;
        assert_int_equal(sim_device_bytes(), 0);
    }
    for (int i = 0; i < ALLOCATOR_KINDS; i++) assert_true(of_strategy[i] >= 5);
    for (int i = 0; i < PRECISIONS; i++) assert_true(of_precision[i] >= 5);
}

TEST_MAIN()
