/* The KV cache on the CUDA table, in the simulator: logits through it are those of a full forward pass. */
/* cmocka wants the four above first */
#include "kernels/device/cuda_plugin.h"
#include "tests/cmocka.h"
#include "tests/core/network/cached.h"
#include "tests/cuda_sim/simulator.h"

extern const struct cuda_plugin cuda_plugin;

static void every_kind_of_model(enum precision precision)
{
    const struct backend *backend = cuda_plugin.table;
    sim_set_machine(SIM_MACHINE_GOOD);
    for (int kind = 0; kind < CACHED_KINDS; kind++) cached_mixture_agrees(backend, precision, kind);
    cached_long_sequence_agrees(backend, precision);
}

TEST_CASE(cached_logits_agree_in_fp32)
{
    every_kind_of_model(PRECISION_FP32);
}

TEST_CASE(cached_logits_agree_in_bf16)
{
    every_kind_of_model(PRECISION_BF16);
}

/* The second pass of a kind is recorded, and the bound of the length grows at 256 tokens. The prompt's pieces
 * of 40 tokens are as few rows as those of many sequences. */
TEST_CASE(next_tokens_are_replayed_and_agree)
{
    enum { PROMPT = 4, ONE = 5 + 3, TWO = 3, AGAIN = 3 };
    for (int bf16 = 0; bf16 < 2; bf16++) {
        uint64_t before = sim_graph_launches();
        sim_set_machine(SIM_MACHINE_GOOD);
        cached_decoding_agrees(cuda_plugin.table, bf16 ? PRECISION_BF16 : PRECISION_FP32);
        assert_int_equal(sim_graph_launches() - before, PROMPT + ONE + TWO + AGAIN);
        assert_int_equal(sim_graphs(), 0);
    }
}

TEST_MAIN()
