/* The KV cache: logits through it are those of a full forward pass, for every kind of model, however a
 * sequence is cut into passes and whatever else the slots hold. */
/* cmocka wants the four above first */
#include "tests/cmocka.h"
#include "tests/core/network/cached.h"

TEST_CASE(every_kind_of_model_continues_as_if_it_computed_everything_again)
{
    for (int kind = 0; kind < CACHED_KINDS; kind++) cached_pieces_agree(NULL, PRECISION_FP32, kind);
}

TEST_CASE(sequences_of_different_length_share_their_passes)
{
    for (int kind = 0; kind < CACHED_KINDS; kind++) cached_mixture_agrees(NULL, PRECISION_FP32, kind);
}

TEST_CASE(a_slot_is_used_again_and_again)
{
    cached_reuse_agrees(NULL, PRECISION_FP32);
}

TEST_CASE(a_cache_may_be_longer_than_a_pass)
{
    cached_long_sequence_agrees(NULL, PRECISION_FP32);
}

TEST_MAIN()
