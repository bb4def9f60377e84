/* Every CPU twin in bf16 on every instruction set of this processor, against the same in fp32 on the same
 * inputs. */
#include "kernels/device/cpu.h"
#include "tests/cmocka.h"
#include "tests/kernels/each_isa.h"

#if defined(__SANITIZE_ADDRESS__)
enum { SHAPES = 10, SMALL = 1 };
#else
enum { SHAPES = 24, SMALL = 0 };
#endif

static void compare(const struct op_case *op, struct op_shape s, const struct sides *f)
{
    struct op_outcome want, got, again;
    isa_apply(f->fp32.stream, "baseline"); /* the reference is computed with FMA */
    s.precision = PRECISION_BF16;
    op->run(&f->fp32, s, &want);
    op->run(&f->bf16, s, &got);
    op->run(&f->bf16, s, &again);
    if (got.status || want.status) fail_msg("%s: %s", op->name, got.err.text);
    assert_int_equal(got.count, want.count);
    for (int i = 0; i < want.count; i++) {
        double error = op_error(&got, &want, i);
        if (!(error <= want.outputs[i].tolerance) || op_difference(&got, &again, i) >= 0)
            fail_msg("%s, %s %s: relative error %.3g, allowed %.3g; again the same bits: %s; B %d T %d NH %d "
                     "NKV %d HS %d C %d F %d V %d window %d seed %u skew %d",
                     cpu_isa(), op->name, want.outputs[i].name, error, want.outputs[i].tolerance,
                     op_difference(&got, &again, i) < 0 ? "yes" : "no", s.B, s.T, s.NH, s.NKV, s.HS, s.C, s.F,
                     s.V, s.window, s.seed, s.skew);
    }
    op_outcome_release(&want), op_outcome_release(&got), op_outcome_release(&again);
}

static void fuzz(const struct sides *sides)
{
    for (const struct op_case *op = op_cases; op->name; op++)
        for (uint32_t i = 0; i < SHAPES; i++) compare(op, op_fuzz(i, SMALL), sides);
}

TEST_CASE(every_operation_agrees_with_fp32)
{
    each_isa(fuzz);
}

/* Long sequences, whose sums have many parts; several blocks of a vocabulary; rows wider than a block of
 * sums; the widest head. */
static void large(const struct sides *sides)
{
    static const struct op_shape shapes[] = {
        {.B = 1, .T = 700, .NH = 2, .NKV = 1, .HS = 64, .C = 2057, .F = 519, .V = 2801, .seed = 1},
        {.B = 1,
         .T = 300,
         .NH = 3,
         .NKV = 3,
         .HS = 48,
         .C = 72,
         .F = 72,
         .V = 2056,
         .seed = 2,
         .window = 130},
        {.B = 1, .T = 3, .NH = 1, .NKV = 1, .HS = 1024, .C = 8, .F = 8, .V = 8, .seed = 3},
        {.B = 2, .T = 1000, .NH = 8, .NKV = 8, .HS = 32, .C = 8, .F = 8, .V = 8, .seed = 4},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (const struct op_case *op = op_cases; op->name; op++) compare(op, shapes[i], sides);
}

TEST_CASE(large_shapes_agree_too)
{
    with_best_isa(large);
}

TEST_MAIN()
