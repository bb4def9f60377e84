/* Slices of several ranks in bf16, where a rank has the fp32 weights of its slice alone: what all ranks
 * update and save is what one does. tests/core/train/test_slices.c is about fp32; ranks that exchange are in
 * test_ranks_cuda.c. */
#include "core/base/file.h"
#include "core/train/optimizer.h"
#include "kernels/device/cuda_plugin.h"
#include "tests/cmocka.h"
#include "tests/core/checkpoint/saved.h"
#include "tests/core/network/rig.h"
#include "tests/cuda_sim/simulator.h"

extern const struct cuda_plugin cuda_plugin;

enum { RANKS = 3, B = 1, T = 8 };

/* Its weights are written. */
static void open_rank(struct rig *rig, int rank, int ranks)
{
    struct model_config config = rig_config();
    struct err err = {0};
    config.vocab_size = config.hidden_dim = config.intermediate_dim = 16;
    config.head_dim = 8;
    *rig = (struct rig){.backend = cuda_plugin.table};
    if (model_init(&rig->model, &config, &err)) fail_msg("%s", err.text);
    if (rig->backend->device_open(DEVICE_FIRST, 1, &rig->device, &err)) fail_msg("%s", err.text);
    struct plan_input input = {.model = &rig->model,
                               .B = B,
                               .T = T,
                               .moments = 2,
                               .precision = PRECISION_BF16,
                               .library_workspace = rig->backend->library_workspace(rig->device, NULL),
                               .ranks = ranks,
                               .rank = rank,
                               .shard = true};
    if (plan_init(&rig->plan, &input, &err)) fail_msg("%s", err.text);
    if (network_open(&rig->network, rig->backend, rig->device, &rig->model, &rig->plan, &err))
        fail_msg("%s", err.text);
    float *values = malloc(rig->model.elements * sizeof *values);
    rig_weights(&rig->model, 5, values);
    for (size_t i = 0; i < rig->model.param_count; i++) {
        const struct param *p = &rig->model.params[i];
        if (network_write_parameter(&rig->network, p, 0, values + p->offset, p->count, &err))
            fail_msg("%s", err.text);
    }
    network_weights_written(&rig->network);
    free(values);
}

static void *read(const struct rig *rig, const void *memory, size_t bytes)
{
    void *copy = malloc(bytes);
    rig->backend->mem_download(copy, memory, bytes, rig->network.stream);
    return copy;
}

/* `part` (of the slice) of the rank is that of the network of one. */
static void expect_part(const struct rig *rank, const void *part, const struct rig *one, const void *whole,
                        size_t width)
{
    struct slice owned = rank->network.owned;
    size_t bytes = slice_count(owned) * width;
    void *a = read(rank, part, bytes), *b = read(one, (const char *)whole + owned.begin * width, bytes);
    assert_memory_equal(a, b, bytes);
    free(a);
    free(b);
}

static void step(struct rig *rig)
{
    int32_t tokens[B * T];
    struct err err = {0};
    struct optimizer optimizer = {
        .kind = OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .defaults.weight_decay = 0.1};
    if (optimizer_lay_ranges(&optimizer, &rig->network, NULL, &err)) fail_msg("%s", err.text);
    rig_tokens(3, rig->model.config.vocab_size, tokens, B * T);
    network_clear(&rig->network);
    rig_train(&rig->network, tokens, tokens, B, T, 0.1f, (struct rig_dropout){.seed = 1});
    network_control(&rig->network, (struct step_control){.lr = 0.1f});
    optimizer_step(&optimizer, &rig->network);
    if (rig->backend->stream_wait(rig->network.stream, &err)) fail_msg("%s", err.text);
}

static void expect_same_file(const char *parent, const char *name)
{
    struct file_map one, all;
    char *a = saved_path(parent, "step-1", name), *b = saved_path(parent, "step-2", name);
    assert_int_equal(file_map_open(a, &one, NULL), STATUS_OK);
    assert_int_equal(file_map_open(b, &all, NULL), STATUS_OK);
    assert_int_equal(one.size, all.size);
    assert_memory_equal(one.data, all.data, one.size);
    file_map_close(&one);
    file_map_close(&all);
    free(a);
    free(b);
}

TEST_CASE(ranks_in_bf16_update_and_save_what_one_does)
{
    struct rig one, ranks[RANKS];
    struct checkpoint_source sources[RANKS];
    struct train_state train = saved_state(1);
    struct err err = {0};
    int64_t bytes;
    char *parent = saved_folder("slices"), temporary[CHECKPOINT_PATH];
    sim_set_machine(SIM_MACHINE_GOOD);
    open_rank(&one, 0, 1);
    step(&one);
    assert_int_equal(checkpoint_begin(parent, 2, temporary, &err), STATUS_OK);
    for (int r = 0; r < RANKS; r++) {
        struct network *net = &ranks[r].network;
        open_rank(&ranks[r], r, RANKS);
        assert_true(ranks[r].plan.bytes[BUFFER_WEIGHTS] < one.plan.bytes[BUFFER_WEIGHTS] / 2);
        step(&ranks[r]);
        expect_part(&ranks[r], net->weights, &one, one.network.weights, sizeof(float));
        expect_part(&ranks[r], network_compute_weights(net, net->owned.begin), &one,
                    one.network.compute_weights, 2);
        for (int i = 0; i < 2; i++)
            expect_part(&ranks[r], network_moment(net, i), &one, network_moment(&one.network, i),
                        sizeof(float));
        sources[r] = checkpoint_of_network(net, true);
        if (checkpoint_write_part(temporary, &sources[r], &err)) fail_msg("%s", err.text);
    }
    struct checkpoint_source alone = checkpoint_of_network(&one.network, true);
    assert_int_equal(checkpoint_save(parent, &alone, &train, NULL, NULL, &bytes, &err), STATUS_OK);
    train.step = 2;
    assert_int_equal(checkpoint_finish(parent, temporary, &sources[0], &train, NULL, NULL, &bytes, &err),
                     STATUS_OK);
    expect_same_file(parent, "model.safetensors");
    expect_same_file(parent, "optimizer.safetensors");
    for (int r = 0; r < RANKS; r++) rig_close(&ranks[r]);
    rig_close(&one);
    free(parent);
}

TEST_MAIN()
