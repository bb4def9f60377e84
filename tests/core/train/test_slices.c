/* Slices of several ranks (world.shard): each has the masters and moments of its slice, updates it, and
 * writes it to the checkpoint that all write together. The ranks here are networks of one process, one after
 * the other. */
#include "core/base/file.h"
#include "core/train/optimizer.h"
#include "tests/cmocka.h"
#include "tests/core/checkpoint/saved.h"
#include "tests/core/network/rig.h"

enum { RANKS_MAX = 7, UNIT = MOMENT_BLOCK, B = 2, T = 8 };

static const char frozen[] = "*layers.0.mlp* *norm*";

static void open_rank(struct rig *rig, int rank, int ranks, bool shard, int moments, bool coded)
{
    struct model_config config = rig_config();
    struct plan_input input = {.B = B,
                               .T = T,
                               .moments = moments,
                               .moments_8bit = coded,
                               .averages = true,
                               .ranks = ranks,
                               .rank = rank,
                               .shard = shard,
                               .snapshot = 1 + moments};
    rig_open_input(rig, NULL, &config, input, frozen);
}

/* Moments and weights drawn from the seed, each rank its part. */
static void fill(struct rig *rig, uint64_t seed)
{
    size_t all = rig->model.elements;
    float *values = malloc(all * sizeof *values);
    struct slice owned = rig->network.owned;
    rig_weights(&rig->model, seed, values);
    memcpy(network_at(&rig->network, BUFFER_WEIGHTS, 0), values, all * sizeof *values);
    for (enum moment i = 0; i < MOMENT_KINDS; i++) {
        if (!slice_count(plan_with_moment(&rig->plan.input, i))) continue;
        rig_weights(&rig->model, seed + 100 + (uint64_t)i, values);
        for (size_t k = 0; k < all; k++) values[k] *= values[k]; /* v is not negative */
        float *own = values + owned.begin;
        if (network_write_moment(&rig->network, i, 0, own, slice_count(owned), NULL)) fail();
    }
    free(values);
}

static void expect_part(const char *what, const float *part, const float *whole, struct slice slice)
{
    for (size_t i = slice.begin; i < slice.end; i++)
        if (memcmp(&part[i - slice.begin], &whole[i], sizeof *whole) != 0)
            fail_msg("%s, element %zu of [%zu, %zu): %g instead of %g", what, i, slice.begin, slice.end,
                     (double)part[i - slice.begin], (double)whole[i]);
}

/* The owned elements of a moment as fp32 numbers; free(). */
static float *moment_of(const struct rig *rig, enum moment which)
{
    size_t n = slice_count(rig->network.owned);
    float *values = malloc((n + 1) * sizeof *values);
    const void *held = network_moment(&rig->network, which);
    if (rig->plan.input.moments_8bit && which != MOMENT_AVERAGE)
        moments_decode(values, held, 0, n, which == MOMENT_FIRST);
    else
        memcpy(values, held, n * sizeof *values);
    return values;
}

/* What a rank owns is the same as in the network of one. */
static void expect_equal(const struct rig *rank, const struct rig *one)
{
    struct slice owned = rank->network.owned;
    expect_part("weights", rank->network.weights, one->network.weights, owned);
    for (enum moment i = 0; i < MOMENT_KINDS; i++) {
        if (!slice_count(plan_with_moment(&one->plan.input, i))) continue;
        float *part = moment_of(rank, i), *whole = moment_of(one, i);
        expect_part("moment", part, whole, owned);
        free(part), free(whole);
    }
}

TEST_CASE(slices_cover_everything_once)
{
    static const size_t sizes[] = {1, 63, 64, 65, 640, 1000, 123456};
    struct model model = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
            struct plan_input input = {.model = &model, .ranks = ranks};
            size_t end = 0, most = (sizes[i] + (size_t)ranks - 1) / (size_t)ranks;
            model.elements = sizes[i];
            for (int rank = 0; rank < ranks; rank++) {
                struct slice slice = plan_slice(&input, rank);
                assert_int_equal(slice.begin, end);
                assert_true(slice.end >= slice.begin && slice_count(slice) < most + UNIT);
                if (ranks > 1 && slice.end < sizes[i]) assert_int_equal(slice.end % UNIT, 0);
                end = slice.end;
            }
            assert_int_equal(end, sizes[i]);
        }
}

TEST_CASE(a_slice_takes_its_part_of_the_memory)
{
    struct rig one, rank;
    open_rank(&one, 0, 1, true, 2, false);
    for (int ranks = 2; ranks <= 4; ranks++)
        for (int shard = 0; shard < 2; shard++) {
            open_rank(&rank, ranks - 1, ranks, shard, 2, false);
            size_t all = one.model.elements * sizeof(float);
            size_t slice = plan_slice(&rank.plan.input, 0).end * sizeof(float), own = shard ? slice : all;
            const size_t *bytes = rank.plan.category_bytes;
            assert_int_equal(bytes[PLAN_MOMENTS], 3 * own); /* with the average */
            assert_int_equal(rank.plan.bytes[BUFFER_SNAPSHOT_MOMENT2], slice);
            assert_int_equal(bytes[PLAN_GRADIENTS], all);
            assert_int_equal(bytes[PLAN_WEIGHTS], all); /* in fp32 they are also those for computing */
            assert_int_equal(rank.plan.bytes[BUFFER_SNAPSHOT_FROZEN], 0); /* rank 0 writes them */
            rig_close(&rank);
        }
    rig_close(&one);
}

/* Gradients of one micro-batch, and the update. */
static void step(struct rig *rig, enum optimizer_kind kind)
{
    int32_t tokens[B * T];
    struct config config;
    struct err err = {0};
    struct optimizer optimizer = {.kind = kind,
                                  .beta1 = 0.9,
                                  .beta2 = 0.99,
                                  .eps = 1e-8,
                                  .ema_decay = 0.9,
                                  .defaults.weight_decay = 0.1};
    config_init(&config);
    assert_int_equal(config_read_word(&config, "param_group.first.match=*layers.0*", &err), STATUS_OK);
    assert_int_equal(config_read_word(&config, "param_group.first.lr_scale=0.5", &err), STATUS_OK);
    if (optimizer_lay_ranges(&optimizer, &rig->network, &config.groups, &err)) fail_msg("%s", err.text);
    rig_tokens(3, rig->model.config.vocab_size, tokens, B * T);
    network_clear(&rig->network);
    rig_train(&rig->network, tokens, tokens, B, T, 0.1f, (struct rig_dropout){.seed = 1});
    network_control(&rig->network, (struct step_control){.lr = 0.1f});
    optimizer_step(&optimizer, &rig->network);
}

static void expect_step_of_one(enum optimizer_kind kind, bool coded)
{
    int moments = kind == OPTIMIZER_LION ? 1 : 2;
    struct rig one, rank;
    open_rank(&one, 0, 1, false, moments, coded);
    fill(&one, 5);
    step(&one, kind);
    for (int ranks = 2; ranks <= RANKS_MAX; ranks++)
        for (int r = 0; r < ranks; r++) {
            open_rank(&rank, r, ranks, true, moments, coded);
            fill(&rank, 5);
            step(&rank, kind);
            expect_equal(&rank, &one);
            rig_close(&rank);
        }
    rig_close(&one);
}

TEST_CASE(ranks_that_update_their_slices_make_the_step_of_one)
{
    for (int kind = 0; kind < OPTIMIZERS; kind++) expect_step_of_one((enum optimizer_kind)kind, false);
}

/* No block of them is in two slices. */
TEST_CASE(ranks_with_moments_in_8_bits_make_the_step_of_one)
{
    expect_step_of_one(OPTIMIZER_ADAMW, true);
    expect_step_of_one(OPTIMIZER_LION, true);
}

/* ---- checkpoints ---- */

/* Writes PARENT/step-1 by all ranks, the last one first, from a copy or straight from the network. */
static void write_parts(const char *parent, int ranks, bool shard, bool copied, bool coded)
{
    struct rig rigs[RANKS_MAX];
    struct checkpoint_source sources[RANKS_MAX];
    char temporary[CHECKPOINT_PATH];
    struct train_state train = saved_state(1);
    struct err err = {0};
    int64_t bytes;
    enum status status = checkpoint_begin(parent, 1, temporary, &err);
    for (int r = ranks - 1; r >= 0 && !status; r--) {
        open_rank(&rigs[r], r, ranks, shard, 2, coded);
        fill(&rigs[r], 5);
        sources[r] = checkpoint_of_network(&rigs[r].network, true);
        if (copied) status = checkpoint_take_snapshot(&rigs[r].network, &sources[r], &err);
        if (copied) fill(&rigs[r], 6);
        if (!status) status = checkpoint_write_part(temporary, &sources[r], &err);
    }
    if (!status) status = checkpoint_finish(parent, temporary, &sources[0], &train, NULL, NULL, &bytes, &err);
    if (status) fail_msg("%d ranks: %s", ranks, err.text);
    for (int r = 0; r < ranks; r++) rig_close(&rigs[r]);
}

static void expect_same_file(const char *a, const char *b, const char *name)
{
    struct file_map one, other;
    char *x = saved_path(a, "step-1", name), *y = saved_path(b, "step-1", name);
    assert_int_equal(file_map_open(x, &one, NULL), STATUS_OK);
    assert_int_equal(file_map_open(y, &other, NULL), STATUS_OK);
    if (one.size != other.size || memcmp(one.data, other.data, one.size) != 0) fail_msg("%s differs", y);
    file_map_close(&one);
    file_map_close(&other);
    free(x);
    free(y);
}

TEST_CASE(a_checkpoint_that_ranks_write_is_that_of_one)
{
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors", "ema.safetensors",
                                        "config.json",       "trainer.json",          "checksums"};
    for (int coded = 0; coded < 2; coded++) {
        char *whole = saved_folder("whole");
        write_parts(whole, 1, false, false, coded);
        for (int ranks = 2; ranks <= RANKS_MAX; ranks++)
            for (int way = 0; way < 4; way++) {
                char *parent = saved_folder("parts");
                write_parts(parent, ranks, way & 1, way & 2, coded);
                assert_int_equal(saved_offered(parent, -1), 1);
                for (size_t i = 0; i < sizeof files / sizeof *files; i++)
                    expect_same_file(whole, parent, files[i]);
                free(parent);
            }
        free(whole);
    }
}

static void expect_loaded_by_any_number(bool coded)
{
    char *parent = saved_folder("loaded"), *folder;
    struct rig one, rank;
    struct train_state train;
    struct err err = {0};
    open_rank(&one, 0, 1, false, 2, coded);
    fill(&one, 5);
    write_parts(parent, 3, true, true, coded);
    folder = saved_path(parent, "step-1", "");
    for (int ranks = 1; ranks <= RANKS_MAX; ranks++)
        for (int r = 0; r < ranks; r++) {
            open_rank(&rank, r, ranks, ranks != 2, 2, coded);
            fill(&rank, 7);
            if (checkpoint_load(folder, &rank.network, &train, NULL, &err)) fail_msg("%s", err.text);
            expect_equal(&rank, &one);
            expect_part("weights for computing", rank.network.compute_weights, one.network.weights,
                        (struct slice){0, one.model.elements});
            if (ranks == 1) saved_expect_equal_memory(&rank, &one); /* the codes, too */
            rig_close(&rank);
        }
    rig_close(&one);
    free(folder);
    free(parent);
}

TEST_CASE(any_number_of_ranks_loads_it)
{
    expect_loaded_by_any_number(false);
    expect_loaded_by_any_number(true);
}

TEST_CASE(a_part_that_cannot_be_written_is_reported)
{
    struct rig rig;
    struct err err = {0};
    char *parent = saved_folder("missing"), *gone = saved_path(parent, "step-1", "");
    open_rank(&rig, 1, 2, true, 2, false);
    struct checkpoint_source source = checkpoint_of_network(&rig.network, true);
    assert_int_not_equal(checkpoint_write_part(gone, &source, &err), STATUS_OK);
    assert_non_null(strstr(err.text, "model.safetensors: cannot create"));
    rig_close(&rig);
    free(parent);
    free(gone);
}

TEST_MAIN()
