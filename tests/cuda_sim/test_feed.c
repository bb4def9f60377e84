/* The feed on streams that run as late as allowed: the device computes on the batch that was cut for the
 * step, although the host has already cut later ones; also across the ends of epochs. */
#include "core/train/feed.h"
#include "datasets/prefetch.h"
#include "kernels/device/cuda_plugin.h"
#include "tests/cmocka.h"
#include "tests/cuda_sim/simulator.h"

extern const struct cuda_plugin cuda_plugin;

enum { B = 3, T = 4, BATCHES = 40, TOKENS = 31, BATCH = 3 * B * T };

/* The batches of a split, with their inputs as positions. */
static void fill(const void *split, uint64_t cursor, int count, int32_t *inputs, int32_t *targets,
                 int32_t *positions)
{
    split_batch(split, cursor, count, inputs, targets);
    memcpy(positions, inputs, sizeof *inputs * (size_t)count * T);
}

/* Queues BATCHES batches from `first` on without waiting, and compares the device's copies with split_batch.
 * Fails if one differs, or returns how many do. */
static int wrong_batches(const struct backend *backend, int micro_batches, bool async, uint64_t first)
{
    static const struct model_config config = {.vocab_size = 64,
                                               .hidden_dim = 8,
                                               .num_layers = 1,
                                               .num_heads = 1,
                                               .num_kv_heads = 1,
                                               .head_dim = 8,
                                               .intermediate_dim = 8,
                                               .max_seq_len = T,
                                               .rope_base = 100,
                                               .norm_eps = 1e-5};
    uint32_t tokens[TOKENS];
    int32_t *found = malloc(sizeof *found * BATCHES * BATCH), want[BATCH];
    int wrong = 0;
    void *saved = NULL;
    struct err err = {0};
    struct device *device;
    struct model model;
    struct plan plan;
    struct network network;
    struct feed feed;
    struct split train, validation;
    struct task_data data = {0};
    for (uint32_t i = 0; i < TOKENS; i++) tokens[i] = i;
    struct token_file file = {.tokens = tokens, .count = TOKENS};
    struct corpus corpus = {.files = &file, .file_count = 1, .tokens = TOKENS};
    assert_int_equal(split_corpus(&corpus, &(struct split_rule){VAL_TAIL, 0, T, 5, SHUFFLE_RANDOM}, &train,
                                  &validation, &err),
                     STATUS_OK);
    assert_true(train.sequences % B != 0); /* epochs end in the midst of batches */
    data.sources[TASK_TRAINING] = split_source(&train);
    data.sources[TASK_TRAINING].packed = true;
    data.sources[TASK_TRAINING].fill = fill;
    assert_int_equal(
        prefetch_open(data.sources[TASK_TRAINING], B, async, &data.prefetch[TASK_TRAINING], &err), STATUS_OK);
    assert_int_equal(backend->device_open(DEVICE_FIRST, 0, &device, &err), STATUS_OK);
    assert_int_equal(model_init(&model, &config, &err), STATUS_OK);
    struct plan_input input = {
        .model = &model, .B = B, .T = T, .micro_batches = micro_batches, .packed = true, .moments = 1};
    assert_int_equal(plan_init(&plan, &input, &err), STATUS_OK);
    assert_int_equal(network_open(&network, backend, device, &model, &plan, &err), STATUS_OK);
    assert_int_equal(backend->mem_alloc(device, sizeof *found * BATCHES * BATCH, &saved, &err), STATUS_OK);
    assert_int_equal(feed_open(&feed, &network, &data, &err), STATUS_OK);
    for (int i = 0; i < BATCHES; i++) {
        int place = feed_take(&feed, first + (uint64_t)i * B, B);
        backend->mem_copy((int32_t *)saved + i * BATCH, network_batch(&network, place), sizeof *found * BATCH,
                          network.stream);
        feed_release(&feed, place);
    }
    backend->mem_download(found, saved, sizeof *found * BATCHES * BATCH, network.stream);
    for (int i = 0; i < BATCHES; i++) {
        split_batch(&train, first + (uint64_t)i * B, B, want, want + B * T);
        memcpy(want + 2 * B * T, want, sizeof *want * B * T);
        wrong += memcmp(want, found + i * BATCH, sizeof want) != 0;
    }
    backend->mem_free(device, saved);
    feed_close(&feed);
    network_close(&network);
    backend->device_close(device);
    plan_release(&plan);
    model_release(&model);
    task_close_batches(&data);
    split_release(&train);
    split_release(&validation);
    free(found);
    return wrong;
}

TEST_CASE(the_device_finds_each_batch_as_it_was_cut)
{
    static const int micro_batches[] = {1, 2, 3, 8, 100};
    sim_set_late(true);
    for (size_t i = 0; i < sizeof micro_batches / sizeof *micro_batches; i++)
        for (int async = 0; async < 2; async++)
            for (uint64_t first = 0; first < 12; first += 11) /* the second begins in the midst of an epoch */
                assert_int_equal(wrong_batches(cuda_plugin.table, micro_batches[i], async, first), 0);
    sim_set_late(false);
}

static enum status do_not_wait(struct event *event, struct stream *stream, struct err *err)
{
    (void)event, (void)stream, (void)err;
    return STATUS_OK;
}

static void do_not_wait_for(struct stream *stream, struct event *event)
{
    (void)stream, (void)event;
}

/* A race planted in each of the feed's waits. */
TEST_CASE(without_waiting_a_copy_reads_what_the_host_writes_after_it)
{
    struct backend host_runs_ahead = *cuda_plugin.table, streams_run_ahead = *cuda_plugin.table;
    host_runs_ahead.event_wait = do_not_wait;
    streams_run_ahead.stream_after = do_not_wait_for;
    sim_set_late(true);
    assert_true(wrong_batches(&host_runs_ahead, 1, true, 0) > 0);
    assert_true(wrong_batches(&host_runs_ahead, 8, true, 0) > 0);
    assert_true(wrong_batches(&streams_run_ahead, 1, true, 0) > 0);
    sim_set_late(false);
    assert_int_equal(wrong_batches(&host_runs_ahead, 1, true, 0), 0); /* only late streams show the race */
}

TEST_MAIN()
