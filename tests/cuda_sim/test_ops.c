/* Every CUDA operation, run by the simulator, against its CPU twin. */
#include <math.h>

#include "kernels/device/cuda_plugin.h"
#include "tests/cmocka.h"
#include "tests/cuda_sim/simulator.h"
#include "tests/gpu/op_cases.h"

extern const struct cuda_plugin cuda_plugin; /* linked in, as compiled for the simulator */

#if defined(__SANITIZE_ADDRESS__)
enum { SHAPES = 20, SHAPES_BF16 = 16, SMALL = 1 };
#else
enum { SHAPES = 100, SHAPES_BF16 = 60, SMALL = 0 };
#endif

enum { SHARED_FLOATS = (99 << 10) / 4 }; /* those that a block of any GPU may use */

/* The fuzz of one operation alone, where the variable names it. */
static bool chosen(const struct op_case *op)
{
    const char *name = getenv("ANNEAL_TEST_OPERATION");
    return name == NULL || *name == '\0' || strncmp(op->name, name, strlen(name)) == 0;
}

static void describe(char *buf, size_t size, const struct op_case *op, struct op_shape s, const char *output)
{
    snprintf(buf, size, "%s %s in %s: B %d T %d NH %d NKV %d HS %d C %d F %d V %d seed %u skew %d", op->name,
             output, precision_name(s.precision), s.B, s.T, s.NH, s.NKV, s.HS, s.C, s.F, s.V, s.seed, s.skew);
}

static void compare(const struct op_case *op, struct op_shape shape, const struct op_side *cpu,
                    const struct op_side *cuda)
{
    struct op_outcome want, got, again;
    char what[256];
    sim_set_order(SIM_FORWARD, 0);
    op->run(cpu, shape, &want);
    op->run(cuda, shape, &got);
    sim_set_order(shape.seed % 2 ? SIM_REVERSE : SIM_SHUFFLED, shape.seed);
    sim_set_races(shape.seed % 8 == 3); /* in a part of the shapes, because it takes time */
    op->run(cuda, shape, &again);
    sim_set_races(false);
    sim_set_order(SIM_FORWARD, 0);
    describe(what, sizeof what, op, shape, "");
    if (got.status || want.status) fail_msg("%s: %s", what, got.err.text);
    assert_int_equal(got.count, want.count);
    for (int i = 0; i < want.count; i++) {
        describe(what, sizeof what, op, shape, want.outputs[i].name);
        double error = op_error(&got, &want, i);
        if (!(error <= want.outputs[i].tolerance))
            fail_msg("%s: relative error %.3g over %.3g", what, error, want.outputs[i].tolerance);
        if (op_difference(&got, &again, i) >= 0)
            fail_msg("%s: the bits at %lld depend on the order of threads", what,
                     (long long)op_difference(&got, &again, i));
    }
    op_outcome_release(&want), op_outcome_release(&got), op_outcome_release(&again);
}

struct fixture {
    struct op_side cpu, cuda, bf16;
};

static int open_sides(void **state)
{
    static struct fixture fixture;
    struct err err;
    assert_int_equal(op_side_open(&fixture.cpu, cpu_backend(), PRECISION_FP32, &err), STATUS_OK);
    assert_int_equal(op_side_open(&fixture.cuda, cuda_plugin.table, PRECISION_FP32, &err), STATUS_OK);
    assert_int_equal(op_side_open(&fixture.bf16, cuda_plugin.table, PRECISION_BF16, &err), STATUS_OK);
    *state = &fixture;
    return 0;
}

static int close_sides(void **state)
{
    struct fixture *fixture = *state;
    op_side_close(&fixture->cpu);
    op_side_close(&fixture->cuda);
    op_side_close(&fixture->bf16);
    return 0;
}

static const struct op_case *find(const char *name)
{
    for (const struct op_case *op = op_cases; op->name; op++)
        if (strcmp(op->name, name) == 0) return op;
    fail_msg("no case %s", name);
    return NULL;
}

TEST_CASE(every_operation_agrees_with_its_twin)
{
    struct fixture *f = *state;
    for (const struct op_case *op = op_cases; op->name; op++)
        for (uint32_t i = 0; chosen(op) && i < SHAPES; i++) compare(op, op_fuzz(i, SMALL), &f->cpu, &f->cuda);
}

TEST_CASE(every_operation_in_bf16_agrees_with_its_twin)
{
    struct fixture *f = *state;
    for (const struct op_case *op = op_cases; op->name; op++)
        for (uint32_t i = 0; chosen(op) && i < SHAPES_BF16; i++) {
            struct op_shape shape = op_fuzz(i, SMALL);
            shape.precision = PRECISION_BF16;
            compare(op, shape, &f->cpu, &f->bf16);
        }
}

/* In both precisions: rows wider than a block takes at once, with and without a tail; a vocabulary over
 * 32,768; more rows than 64 chunks of 16; the width of a vector and its neighbours, aligned and one element
 * off. */
TEST_CASE(shapes_that_the_fuzz_leaves_out)
{
    struct fixture *f = *state;
    struct op_shape shapes[] = {
        {.B = 1, .T = 3, .NH = 2, .NKV = 1, .HS = 128, .C = 2056, .F = 4104, .V = 16, .seed = 1},
        {.B = 1, .T = 2, .NH = 1, .NKV = 1, .HS = 64, .C = 2057, .F = 4103, .V = 15, .seed = 2},
        {.B = 1, .T = 3, .NH = 1, .NKV = 1, .HS = 2, .C = 8, .F = 8, .V = 32776, .seed = 1},
        {.B = 1, .T = 2, .NH = 1, .NKV = 1, .HS = 2, .C = 1, .F = 1, .V = 32801, .seed = 2},
        {.B = 1, .T = 1100, .NH = 1, .NKV = 1, .HS = 8, .C = 24, .F = 8, .V = 16, .seed = 3},
        {.B = 1, .T = 9, .NH = 2, .NKV = 1, .HS = 16, .C = 7, .F = 7, .V = 7, .seed = 4},
        {.B = 1, .T = 9, .NH = 2, .NKV = 1, .HS = 16, .C = 8, .F = 8, .V = 8, .seed = 5},
        {.B = 1, .T = 9, .NH = 2, .NKV = 1, .HS = 32, .C = 9, .F = 9, .V = 9, .seed = 6},
        {.B = 1, .T = 9, .NH = 2, .NKV = 1, .HS = 48, .C = 16, .F = 24, .V = 32, .seed = 7, .skew = 1},
        {.B = 1, .T = 9, .NH = 2, .NKV = 1, .HS = 48, .C = 16, .F = 24, .V = 32, .seed = 8, .skew = 8},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (const struct op_case *op = op_cases; op->name; op++) {
            if (!chosen(op)) continue;
            compare(op, shapes[i], &f->cpu, &f->cuda);
            shapes[i].precision = PRECISION_BF16;
            compare(op, shapes[i], &f->cpu, &f->bf16);
            shapes[i].precision = PRECISION_FP32;
        }
}

TEST_CASE(norms_wider_than_shared_memory_and_longer_than_their_chunks)
{
    struct fixture *f = *state;
    struct op_shape shapes[] = {
        {.B = 1, .T = 2, .C = SHARED_FLOATS - 2, .seed = 1}, /* all that fits, but for sums */
        {.B = 1, .T = 9, .C = SHARED_FLOATS + 8, .seed = 1},
        {.B = 1, .T = 9, .C = SHARED_FLOATS + 9, .seed = 2},
        {.B = 1, .T = 8 * NORM_CHUNKS_MAX + 3, .C = 8, .seed = 1}};
    sim_set_capability(8, 6); /* with the least shared memory */
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        compare(find("rmsnorm_backward"), shapes[i], &f->cpu, &f->cuda);
        shapes[i].precision = PRECISION_BF16;
        compare(find("rmsnorm_backward"), shapes[i], &f->cpu, &f->bf16);
    }
    sim_set_capability(9, 0);
}

/* One shape for each edge of a tile that the fuzz may miss. */
TEST_CASE(attention_at_the_edges_of_its_tiles)
{
    struct fixture *f = *state;
    const struct op_shape shapes[] = {
        {.B = 1, .T = 1, .NH = 1, .NKV = 1, .HS = 1},    {.B = 1, .T = 64, .NH = 2, .NKV = 1, .HS = 64},
        {.B = 2, .T = 65, .NH = 1, .NKV = 1, .HS = 63},  {.B = 1, .T = 63, .NH = 3, .NKV = 1, .HS = 65},
        {.B = 1, .T = 33, .NH = 1, .NKV = 1, .HS = 128}, {.B = 1, .T = 33, .NH = 2, .NKV = 2, .HS = 129},
        {.B = 1, .T = 31, .NH = 1, .NKV = 1, .HS = 256}, {.B = 1, .T = 32, .NH = 2, .NKV = 1, .HS = 255},
        {.B = 1, .T = 65, .NH = 2, .NKV = 1, .HS = 96},  {.B = 1, .T = 17, .NH = 2, .NKV = 1, .HS = 192},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        compare(find("attention"), shapes[i], &f->cpu, &f->cuda);
}

/* Windows of one key, within a tile, of a tile and its neighbours, over several tiles, and as long as the
 * sequence, for each size of tile. */
TEST_CASE(windows_of_attention_at_the_edges_of_its_tiles)
{
    struct fixture *f = *state;
    const struct op_shape shapes[] = {
        {.B = 1, .T = 5, .NH = 1, .NKV = 1, .HS = 2, .window = 1},
        {.B = 2, .T = 200, .NH = 2, .NKV = 1, .HS = 8, .window = 1},
        {.B = 1, .T = 200, .NH = 2, .NKV = 1, .HS = 16, .window = 20},
        {.B = 1, .T = 197, .NH = 1, .NKV = 1, .HS = 32, .window = 64},
        {.B = 1, .T = 194, .NH = 2, .NKV = 1, .HS = 8, .window = 65},
        {.B = 1, .T = 260, .NH = 1, .NKV = 1, .HS = 8, .window = 130},
        {.B = 1, .T = 100, .NH = 1, .NKV = 1, .HS = 96, .window = 31},
        {.B = 1, .T = 70, .NH = 1, .NKV = 1, .HS = 192, .window = 33},
        {.B = 1, .T = 66, .NH = 1, .NKV = 1, .HS = 256, .window = 17},
        {.B = 1, .T = 66, .NH = 1, .NKV = 1, .HS = 8, .window = 65},
        {.B = 1, .T = 66, .NH = 1, .NKV = 1, .HS = 8, .window = 66},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct op_shape narrow = shapes[i];
        compare(find("attention"), shapes[i], &f->cpu, &f->cuda);
        narrow.precision = PRECISION_BF16;
        compare(find("attention"), narrow, &f->cpu, &f->bf16);
    }
}

/* Every combination of transposes, accumulation, gaps between rows and alignment. */
TEST_CASE(gemm_in_all_its_forms)
{
    struct fixture *f = *state;
    for (uint32_t seed = 0; seed < 16; seed++)
        for (int skew = 0; skew < (seed < 8 ? 4 : 1); skew++)
            compare(find("gemm"),
                    (struct op_shape){.B = 1, .T = 5 + skew, .C = 7, .F = 11, .seed = seed, .skew = skew},
                    &f->cpu, &f->cuda);
}

TEST_CASE(a_shape_asks_for_its_algorithm_once)
{
    struct fixture *f = *state;
    struct op_shape shape = {.B = 3, .T = 17, .C = 19, .F = 23, .seed = 5};
    uint64_t before = sim_heuristics();
    compare(find("gemm"), shape, &f->cpu, &f->cuda);
    assert_int_equal(sim_heuristics() - before, 1);
    for (int t = 1; t <= 300; t++) { /* more shapes than there are places */
        struct op_shape other = {.B = 1, .T = t, .C = 2, .F = 3, .seed = 0};
        compare(find("gemm"), other, &f->cpu, &f->cuda);
    }
    before = sim_heuristics();
    compare(find("gemm"), shape, &f->cpu, &f->cuda);
    assert_int_equal(sim_heuristics() - before, 1); /* it was evicted from the cache and is correct again */
}

/* The loss of a row with non-finite logits follows the contract. */
TEST_CASE(losses_of_logits_that_are_not_finite)
{
    struct fixture *f = *state;
    enum { V = 300, ROWS = 5 };
    static float logits[ROWS * V], losses[2][ROWS], gradients[2][ROWS * V];
    int32_t targets[ROWS] = {7, 7, 7, -100, 0};
    struct err err;
    for (int i = 0; i < ROWS * V; i++) logits[i] = (float)(i % 13);
    logits[0 * V + 100] = NAN;
    logits[1 * V + 100] = INFINITY;
    for (int i = 0; i < V; i += 2) logits[2 * V + i] = -INFINITY;
    logits[3 * V] = NAN;
    for (int i = 0; i < V; i++) logits[4 * V + i] = i == 0 ? 100.0f : -INFINITY;
    const struct op_side *sides[] = {&f->cpu, &f->cuda};
    for (int i = 0; i < 2; i++) {
        const struct backend *k = sides[i]->backend;
        void *x, *y, *t, *control;
        assert_int_equal(k->mem_alloc(sides[i]->device, sizeof(struct step_control), &control, &err),
                         STATUS_OK);
        k->control_set(control, (struct step_control){.loss_scale = 1}, sides[i]->stream);
        assert_int_equal(k->mem_alloc(sides[i]->device, sizeof logits, &x, &err), STATUS_OK);
        assert_int_equal(k->mem_alloc(sides[i]->device, sizeof losses[0], &y, &err), STATUS_OK);
        assert_int_equal(k->mem_alloc(sides[i]->device, sizeof targets, &t, &err), STATUS_OK);
        k->mem_upload(x, logits, sizeof logits, sides[i]->stream);
        k->mem_upload(t, targets, sizeof targets, sides[i]->stream);
        k->cross_entropy_fused(y, matrix_view(x, ELEMENT_FP32, V), t, control, ROWS, V, sides[i]->stream);
        k->mem_download(losses[i], y, sizeof losses[i], sides[i]->stream);
        k->mem_download(gradients[i], x, sizeof gradients[i], sides[i]->stream);
        k->mem_free(sides[i]->device, x), k->mem_free(sides[i]->device, y), k->mem_free(sides[i]->device, t);
        k->mem_free(sides[i]->device, control);
        assert_true(losses[i][0] != losses[i][0] && losses[i][1] != losses[i][1]); /* NaN */
        assert_true(losses[i][2] > 0 && losses[i][2] < 100);
        assert_true(losses[i][3] == 0 && losses[i][4] == 0);
        for (int c = 0; c < V; c++) assert_true(gradients[i][3 * V + c] == 0 && gradients[i][4 * V + c] == 0);
    }
    assert_true(losses[1][2] > losses[0][2] * 0.999999f && losses[1][2] < losses[0][2] * 1.000001f);
}

/* Also where nothing is clipped, and where only the norm as a float is infinite. The sum of losses is 12. */
TEST_CASE(norms_that_are_not_finite_and_losses_above_the_limit_give_scale_zero)
{
    struct fixture *f = *state;
    static const struct {
        float first, rest, max_norm, norm, scale;
        double limit;
    } cases[] = {{1e30f, 1e30f, 0, 1.7320508e30f, 1, 0},
                 {1e30f, 1e30f, 1, 1.7320508e30f, 5.7735027e-31f, 0},
                 {NAN, 1, 1, NAN, 0, 0},
                 {NAN, 1, 0, NAN, 0, 0},
                 {INFINITY, 1, 1, INFINITY, 0, 0},
                 {INFINITY, 1, 0, INFINITY, 0, 0},
                 {-INFINITY, 1, 0, INFINITY, 0, 0},
                 {3e38f, 3e38f, 1, INFINITY, 0, 0},
                 {3e38f, 3e38f, 0, INFINITY, 0, 0},
                 {0, 0, 0, 0, 1, 0},
                 {0, 0, 1, 0, 1, 0},
                 {0, 0, 0, 0, 0, 11.5},
                 {0, 0, 1, 0, 1, 12},
                 {NAN, 1, 0, NAN, 0, 13}};
    const double sum_of_losses = 12;
    const struct op_side *sides[] = {&f->cpu, &f->cuda};
    for (int s = 0; s < 2; s++) {
        const struct backend *k = sides[s]->backend;
        struct err err;
        void *x, *squares, *loss, *control, *out, *workspace;
        assert_int_equal(k->mem_alloc(sides[s]->device, 3 * sizeof(float), &x, &err), STATUS_OK);
        assert_int_equal(k->mem_alloc(sides[s]->device, sizeof(double), &squares, &err), STATUS_OK);
        assert_int_equal(k->mem_alloc(sides[s]->device, sizeof(double), &loss, &err), STATUS_OK);
        assert_int_equal(k->mem_alloc(sides[s]->device, sizeof(struct step_control), &control, &err),
                         STATUS_OK);
        assert_int_equal(k->mem_alloc(sides[s]->device, sizeof(struct clip_state), &out, &err), STATUS_OK);
        assert_int_equal(k->mem_alloc(sides[s]->device, reduce_workspace(3), &workspace, &err), STATUS_OK);
        k->mem_upload(loss, &sum_of_losses, sizeof sum_of_losses, sides[s]->stream);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            float g[3] = {cases[i].first, cases[i].rest, cases[i].rest}, norm = cases[i].norm;
            struct clip_state clip = {.updates = 7};
            k->mem_upload(x, g, sizeof g, sides[s]->stream);
            k->mem_upload(out, &clip, sizeof clip, sides[s]->stream);
            k->sum_of_squares(squares, x, 3, workspace, sides[s]->stream);
            k->control_set(control, (struct step_control){.loss_limit = cases[i].limit}, sides[s]->stream);
            k->clip_norm(out, squares, loss, control, cases[i].max_norm, sides[s]->stream);
            k->mem_download(&clip, out, sizeof clip, sides[s]->stream);
            if (isnan(norm) ? !isnan(clip.norm)
                            : !(clip.norm == norm || fabsf(clip.norm - norm) < 1e-6f * norm))
                fail_msg("side %d, case %zu: norm %g", s, i, (double)clip.norm);
            if (fabsf(clip.scale - cases[i].scale) > 1e-6f * cases[i].scale)
                fail_msg("side %d, case %zu: scale %g", s, i, (double)clip.scale);
            assert_int_equal(clip.updates, cases[i].scale != 0 ? 8 : 7);
        }
        k->mem_free(sides[s]->device, x), k->mem_free(sides[s]->device, squares);
        k->mem_free(sides[s]->device, loss), k->mem_free(sides[s]->device, control);
        k->mem_free(sides[s]->device, out), k->mem_free(sides[s]->device, workspace);
    }
}

TEST_CASE(nothing_is_left_on_the_device)
{
    assert_int_equal(sim_device_bytes(), 0);
}

int main(void)
{
    const char *filter = getenv("ANNEAL_TEST_FILTER");
    if (filter != NULL && *filter != '\0') cmocka_set_test_filter(filter);
    return TEST_RUN(open_sides, close_sides);
}
