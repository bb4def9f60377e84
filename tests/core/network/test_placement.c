/* Places that buffers share: buffers needed at the same time never overlap, and no memory is wasted. */
#include "core/network/plan.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"

/* Two buffers conflict where one stage needs both. */
static size_t solve(struct placement *at, const unsigned *stages, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        at[i].number = (int)i;
        at[i].conflicts = 0;
        for (size_t k = 0; k < count; k++)
            if (k != i && (stages[i] & stages[k])) at[i].conflicts |= (uint64_t)1 << k;
    }
    return placement_solve(at, count);
}

TEST_CASE(buffers_of_different_stages_lie_on_each_other)
{
    struct placement at[] = {{.bytes = 256}, {.bytes = 1024}, {.bytes = 512}};
    assert_int_equal(solve(at, (unsigned[]){1, 2, 4}, 3), 1024);
    for (int i = 0; i < 3; i++) assert_int_equal(at[i].offset, 0);
}

TEST_CASE(buffers_of_one_stage_lie_behind_each_other)
{
    struct placement at[] = {{.bytes = 256}, {.bytes = 1024}, {.bytes = 512}};
    assert_int_equal(solve(at, (unsigned[]){3, 2, 6}, 3), 256 + 1024 + 512);
    assert_int_equal(at[1].offset, 0); /* the largest first */
}

/* a and b are needed together, b and c, but not a and c: c goes where a is. */
TEST_CASE(a_gap_below_others_is_used)
{
    struct placement at[] = {{.bytes = 1024}, {.bytes = 512}, {.bytes = 256}};
    assert_int_equal(solve(at, (unsigned[]){1, 3, 2}, 3), 1024 + 512);
    assert_int_equal(at[1].offset, 1024);
    assert_int_equal(at[2].offset, 0);
}

TEST_CASE(none_take_nothing)
{
    struct placement empty = {.offset = 9};
    assert_int_equal(placement_solve(NULL, 0), 0);
    assert_int_equal(placement_solve(&empty, 1), 0);
}

/* Random sets: buffers needed together never overlap; the size is at least that of the fullest stage and at
 * most the sum of all buffers. */
TEST_CASE(whatever_the_sizes_and_stages_nothing_needed_together_overlaps)
{
    enum { MOST = 20, SETS = 2000, STAGES = 6 };
    for (uint64_t set = 0; set < SETS; set++) {
        struct placement at[MOST];
        unsigned stages[MOST];
        size_t count = 1 + (size_t)(rig_uniform(set, 0) * (MOST - 1)), all = 0, fullest = 0;
        for (size_t i = 0; i < count; i++) {
            at[i].bytes = 256 * (size_t)(rig_uniform(set, 2 * i + 1) * 40);
            stages[i] = 1 + (unsigned)(rig_uniform(set, 2 * i + 2) * ((1 << STAGES) - 1));
            all += at[i].bytes;
        }
        size_t height = solve(at, stages, count);
        for (unsigned stage = 0; stage < STAGES; stage++) {
            size_t needed = 0;
            for (size_t i = 0; i < count; i++) needed += stages[i] >> stage & 1 ? at[i].bytes : 0;
            if (needed > fullest) fullest = needed;
        }
        assert_in_range(height, fullest, all);
        for (size_t i = 0; i < count; i++) {
            assert_true(at[i].offset + at[i].bytes <= height && at[i].offset % 256 == 0);
            for (size_t k = 0; k < i; k++)
                if (stages[i] & stages[k])
                    assert_true(at[i].offset + at[i].bytes <= at[k].offset ||
                                at[k].offset + at[k].bytes <= at[i].offset);
        }
    }
}

TEST_MAIN()
