/* Compares the memory plan with the real requests to the backend: a copy of the CPU table whose mem_alloc
 * counts.
 *
 * */
#include <limits.h>

#include "core/memory/fit.h"
#include "core/model/config.h"
#include "core/train/optimizer.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"

/* mem_alloc has no context of its own, so the counts are the test program's. */
static struct {
    size_t bytes, host_bytes, calls, freed,
        refuse_after; /* host_bytes: of bytes; refuse_after 0: never refuses */
} asked;

static enum status counting_alloc(struct device *device, size_t bytes, void **out, struct err *err)
{
    if (asked.refuse_after && asked.calls == asked.refuse_after)
        return err_set(err, STATUS_NO_MEMORY, "the test's device has no more");
    asked.bytes += bytes;
    asked.calls++;
    return cpu_backend()->mem_alloc(device, bytes, out, err);
}

static void counting_free(struct device *device, void *memory)
{
    asked.freed++;
    cpu_backend()->mem_free(device, memory);
}

static enum status counting_host_alloc(struct device *device, size_t bytes, void **out, struct err *err)
{
    if (asked.refuse_after && asked.calls == asked.refuse_after)
        return err_set(err, STATUS_NO_MEMORY, "the test's host has no more");
    asked.bytes += bytes;
    asked.host_bytes += bytes;
    asked.calls++;
    return cpu_backend()->host_alloc(device, bytes, out, err);
}

static void counting_host_free(struct device *device, void *memory)
{
    asked.freed++;
    cpu_backend()->host_free(device, memory);
}

static struct backend counting_backend(void)
{
    struct backend backend = *cpu_backend();
    backend.host_alloc = counting_host_alloc;
    backend.host_free = counting_host_free;
    backend.mem_alloc = counting_alloc;
    backend.mem_free = counting_free;
    memset(&asked, 0, sizeof asked);
    return backend;
}

/* Whether two buffers may be needed at the same time. */
static bool conflict(const struct plan *plan, enum buffer a, enum buffer b)
{
    bool shared = buffer_facts[a].kind == BUFFER_SHARED || buffer_facts[a].kind == BUFFER_LAYER;
    bool both = shared && (buffer_facts[b].kind == BUFFER_SHARED || buffer_facts[b].kind == BUFFER_LAYER);
    return !both || (plan->conflicts[a] >> b & 1);
}

static void expect_room_for_what_is_needed_together(const struct plan *plan)
{
    size_t total = 0;
    assert_true(plan->buffer_count <= plan->buffer_capacity);
    for (size_t i = 0; i < plan->buffer_count; i++) {
        const struct plan_buffer *a = &plan->buffers[i];
        assert_true(a->offset % 256 == 0);
        assert_true(a->offset + a->bytes <= plan->category_bytes[a->category]);
        for (size_t j = 0; j < i; j++) {
            const struct plan_buffer *b = &plan->buffers[j];
            if (a->category != b->category) continue;
            if (a->category == PLAN_WORKSPACE && !conflict(plan, a->buffer, b->buffer)) continue;
            if (a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes)
                fail_msg("%s and %s are needed together and overlap", a->name, b->name);
        }
    }
    for (int i = 0; i < PLAN_CATEGORIES; i++) total += plan->category_bytes[i];
    assert_int_equal(total, plan->total_bytes);
}

/* One whole training step must stay inside the plan; under AddressSanitizer, to the byte. */
static void train_one_step(struct rig *rig, int B, int T, int moments)
{
    int32_t tokens[64];
    struct step_result result;
    struct optimizer optimizer = {.kind = moments == 2 ? OPTIMIZER_ADAMW : OPTIMIZER_LION,
                                  .beta1 = 0.9,
                                  .beta2 = 0.99,
                                  .eps = 1e-8,
                                  .max_grad_norm = 1,
                                  .defaults.weight_decay = 0.1};
    struct rig_dropout dropout = {.probability = 0.1f, .seed = 1};
    assert_true(B * T <= 64);
    assert_int_equal(optimizer_lay_ranges(&optimizer, &rig->network, NULL, NULL), STATUS_OK);
    rig_tokens(3, rig->model.config.vocab_size, tokens, B * T);
    network_clear(&rig->network);
    rig_train(&rig->network, tokens, tokens, B, T, 1, dropout);
    network_control(&rig->network, (struct step_control){.lr = 1e-3f});
    optimizer_step(&optimizer, &rig->network);
    network_result(&rig->network, &result);
    assert_true(result.clip.scale > 0 && result.clip.updates == 1);
}

static void expect_plan_is_what_is_allocated(const struct model_config *config, int B, int T, int moments)
{
    struct backend backend = counting_backend();
    struct rig rig;
    rig_open(&rig, &backend, config, B, T, moments);
    assert_int_equal(asked.bytes, rig.plan.total_bytes);
    assert_true(asked.calls <= PLAN_CATEGORIES);
    expect_room_for_what_is_needed_together(&rig.plan);
    size_t weights = rig.model.elements * sizeof(float);
    assert_int_equal(rig.plan.category_bytes[PLAN_WEIGHTS], weights);
    assert_int_equal(rig.plan.category_bytes[PLAN_GRADIENTS], moments ? weights : 0);
    assert_int_equal(rig.plan.category_bytes[PLAN_MOMENTS], (size_t)moments * weights);
    if (moments) train_one_step(&rig, B, T, moments);
    rig_close(&rig);
    assert_int_equal(asked.freed, asked.calls);
}

TEST_CASE(the_total_is_the_bytes_allocated_for_every_kind_of_model)
{
    for (int bits = 0; bits < 8; bits++)
        for (int moments = 0; moments <= 2; moments++) {
            struct model_config config = rig_config();
            config.qk_norm = bits & 1;
            config.qkv_bias = bits & 2;
            config.o_bias = bits == 6, config.mlp_bias = bits == 6 || bits == 0;
            config.tie_weights = bits & 4;
            expect_plan_is_what_is_allocated(&config, 3, 7, moments);
        }
}

TEST_CASE(the_total_is_the_bytes_allocated_for_the_smallest_and_odd_shapes)
{
    static const int shapes[][2] = {{1, 1}, {1, 64}, {64, 1}, {5, 11}};
    for (int i = 0; i < 4; i++) {
        struct model_config config = rig_config();
        expect_plan_is_what_is_allocated(&config, shapes[i][0], shapes[i][1], 2);
        config = (struct model_config){.vocab_size = 1,
                                       .hidden_dim = 1,
                                       .num_layers = 1,
                                       .num_heads = 1,
                                       .num_kv_heads = 1,
                                       .head_dim = 2,
                                       .intermediate_dim = 1,
                                       .max_seq_len = 64,
                                       .rope_base = 1e4,
                                       .norm_eps = 1e-5};
        struct backend backend = counting_backend();
        struct rig rig;
        rig_open(&rig, &backend, &config, shapes[i][0], shapes[i][1], 1);
        assert_int_equal(asked.bytes, rig.plan.total_bytes);
        rig_close(&rig);
    }
}

/* Twice the layers are twice what each of them saves, but without a backward pass no byte more. */
TEST_CASE(without_a_backward_pass_all_layers_share_one_residual_stream)
{
    struct model_config config = rig_config();
    size_t bytes[2];
    for (int deep = 0; deep < 2; deep++) {
        struct model model;
        struct plan plan;
        config.num_layers = deep ? 24 : 2;
        assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
        struct plan_input input = {.model = &model, .B = 2, .T = 8};
        assert_int_equal(plan_init(&plan, &input, NULL), STATUS_OK);
        bytes[deep] = plan.total_bytes - plan.category_bytes[PLAN_WEIGHTS];
        assert_int_equal(plan.category_bytes[PLAN_ACTIVATIONS], 0);
        plan_release(&plan);
        model_release(&model);
    }
    assert_int_equal(bytes[0], bytes[1]);
}

/* If the device has its own memory, the host's is planned separately and not added to it. */
TEST_CASE(the_hosts_memory_counts_only_where_the_device_computes_in_it)
{
    struct model_config config = rig_config();
    struct model model;
    struct plan own, shared;
    assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
    struct plan_input input = {.model = &model, .B = 2, .T = 8, .moments = 2};
    assert_int_equal(plan_init(&own, &input, NULL), STATUS_OK);
    input.host_counts = true;
    assert_int_equal(plan_init(&shared, &input, NULL), STATUS_OK);
    assert_true(own.category_bytes[PLAN_HOST] > 0);
    assert_int_equal(own.total_bytes, plan_device_bytes(&own));
    assert_int_equal(shared.total_bytes, own.total_bytes + own.category_bytes[PLAN_HOST]);
    plan_release(&own);
    plan_release(&shared);
    model_release(&model);
}

/* All logits at once: always if the key says so, automatically only if it needs no more memory; the plan then
 * says so. */
TEST_CASE(all_logits_at_once_where_they_are_asked_for_or_free)
{
    static const int vocabularies[] = {64, 512, 2048, 32000, 128000};
    int plain_by_itself = 0;
    for (int i = 0; i < 5; i++) {
        struct model_config config = model_preset(PRESET_TINY);
        struct model model;
        struct plan plans[3];
        config.vocab_size = vocabularies[i];
        assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
        struct plan_input input = {.model = &model, .B = 16, .T = 256, .moments = 2, .host_counts = true};
        for (int loss = PLAN_LOSS_AUTO; loss <= PLAN_LOSS_PLAIN; loss++) {
            input.loss = (enum plan_loss)loss;
            assert_int_equal(plan_init(&plans[loss], &input, NULL), STATUS_OK);
        }
        assert_int_equal(plans[PLAN_LOSS_PLAIN].loss_chunk, 16 * 256);
        assert_in_range(plans[PLAN_LOSS_FUSED].loss_chunk, 64, 512);
        bool plain = plans[PLAN_LOSS_AUTO].loss_chunk == 16 * 256;
        assert_int_equal(plain, plans[PLAN_LOSS_PLAIN].total_bytes <= plans[PLAN_LOSS_FUSED].total_bytes);
        assert_int_equal(plans[PLAN_LOSS_AUTO].total_bytes,
                         plans[plain ? PLAN_LOSS_PLAIN : PLAN_LOSS_FUSED].total_bytes);
        plain_by_itself += plain;
        for (int loss = PLAN_LOSS_AUTO; loss <= PLAN_LOSS_PLAIN; loss++) plan_release(&plans[loss]);
        model_release(&model);
    }
    assert_in_range(plain_by_itself, 1, 4);
}

TEST_CASE(a_gpu_takes_more_rows_of_logits_at_a_time)
{
    static const struct {
        int vocabulary, rows;
    } cases[] = {{1000, 4096}, {32000, 4096}, {50304, 2624}, {131072, 1024}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_config config = model_preset(PRESET_TINY);
        struct model model;
        struct plan plan;
        config.vocab_size = cases[i].vocabulary;
        assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
        struct plan_input input = {
            .model = &model, .B = 16, .T = 1024, .moments = 2, .loss = PLAN_LOSS_FUSED};
        assert_int_equal(plan_init(&plan, &input, NULL), STATUS_OK);
        assert_int_equal(plan.loss_chunk, cases[i].rows);
        plan_release(&plan);
        input.moments = 0; /* without training there is no gradient to rewrite */
        assert_int_equal(plan_init(&plan, &input, NULL), STATUS_OK);
        assert_int_equal(plan.loss_chunk, 64);
        plan_release(&plan);
        model_release(&model);
    }
}

/* Whatever the vocabulary, and in the loss's products, too. On a CPU there are no gaps. */
TEST_CASE(rows_of_logits_begin_on_lines_of_128_bytes_on_a_gpu)
{
    struct model_config config = model_preset(PRESET_TINY);
    struct model model;
    config.vocab_size = 50257;
    assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
    for (int host = 0; host < 2; host++) {
        int products = 0, stride = host ? 50257 : 50304;
        struct plan plan;
        struct plan_input input = {.model = &model,
                                   .B = 16,
                                   .T = 256,
                                   .moments = 2,
                                   .precision = PRECISION_BF16,
                                   .loss = PLAN_LOSS_FUSED,
                                   .host_counts = host};
        assert_int_equal(plan_init(&plan, &input, NULL), STATUS_OK);
        assert_int_equal(plan.bytes[BUFFER_LOGITS], (size_t)plan.loss_chunk * (size_t)stride * 2);
        for (int i = 0; i < plan.product_count; i++) {
            const struct gemm_shape *p = &plan.products[i];
            if (p->N == 50257) products++, assert_int_equal(p->out.stride, stride);
            if (p->K == 50257 || p->M == 50257) products++, assert_int_equal(p->a.stride, stride);
        }
        assert_true(products >= 3);
        plan_release(&plan);
    }
    model_release(&model);
}

/* Fewer rows, fewer bytes; and never more rows than a micro-batch has. */
TEST_CASE(the_plan_follows_the_rows_of_a_chunk)
{
    static const int64_t given[] = {1, 7, 64, 1000, 4096, 1 << 26};
    struct model_config config = model_preset(PRESET_TINY);
    struct model model;
    size_t before = 0;
    config.vocab_size = 32000;
    assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
    for (int i = 0; i < 6; i++)
        for (int loss = PLAN_LOSS_AUTO; loss <= PLAN_LOSS_FUSED; loss++) {
            struct plan plan;
            struct plan_input input = {.model = &model,
                                       .B = 16,
                                       .T = 256,
                                       .moments = 2,
                                       .loss = (enum plan_loss)loss,
                                       .loss_chunk = given[i]};
            assert_int_equal(plan_init(&plan, &input, NULL), STATUS_OK);
            assert_int_equal(plan.loss_chunk, given[i] < 4096 ? given[i] : 4096);
            assert_true(plan.bytes[BUFFER_LOGITS] >= (size_t)plan.loss_chunk * 32000 * sizeof(float));
            assert_true(plan.total_bytes >= before);
            before = plan.total_bytes;
            plan_release(&plan);
        }
    model_release(&model);
}

TEST_CASE(lion_plans_one_moment_less_than_adamw)
{
    struct model_config config = rig_config();
    struct model model;
    struct plan adamw, lion;
    assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
    struct device *device;
    struct config c = {.train = {.batch_size = 2, .seq_len = 8, .optimizer = OPTIMIZER_ADAMW}};
    assert_int_equal(cpu_backend()->device_open(DEVICE_FIRST, 1, &device, NULL), STATUS_OK);
    struct plan_input input = plan_input_of(&c, &model, cpu_backend(), device);
    assert_int_equal(plan_init(&adamw, &input, NULL), STATUS_OK);
    c.train.optimizer = OPTIMIZER_LION;
    input = plan_input_of(&c, &model, cpu_backend(), device);
    assert_int_equal(plan_init(&lion, &input, NULL), STATUS_OK);
    assert_int_equal(adamw.total_bytes - lion.total_bytes, model.elements * sizeof(float));
    plan_release(&adamw);
    plan_release(&lion);
    c.train.moments = MOMENTS_8BIT;
    input = plan_input_of(&c, &model, cpu_backend(), device);
    assert_int_equal(plan_init(&lion, &input, NULL), STATUS_OK);
    assert_int_equal(lion.bytes[BUFFER_MOMENT1], (model.elements + 255) / 256 * 260);
    assert_int_equal(lion.bytes[BUFFER_MOMENT2], 0);
    plan_release(&lion);
    cpu_backend()->device_close(device);
    model_release(&model);
}

TEST_CASE(every_buffer_has_a_name_and_a_category_that_has_one)
{
    static const char *const names[] = {"weights",   "frozen weights", "gradients", "moments", "activations",
                                        "workspace", "KV cache",       "host",      "snapshot"};
    struct model_config config = rig_config();
    struct model model;
    struct plan plan;
    assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
    struct plan_input input = {
        .model = &model, .B = 2, .T = 8, .moments = 2, .cache_slots = 3, .cache_length = 5};
    assert_int_equal(plan_init(&plan, &input, NULL), STATUS_OK);
    for (size_t i = 0; i < plan.buffer_count; i++) {
        assert_true(plan.buffers[i].name && *plan.buffers[i].name);
        assert_in_range(plan.buffers[i].layer + 1, 0, 2);
        assert_string_equal(plan_category_name(plan.buffers[i].category), names[plan.buffers[i].category]);
    }
    plan_release(&plan);
    model_release(&model);
}

static struct model_config large_config(void)
{
    return (struct model_config){.vocab_size = 1 << 24,
                                 .hidden_dim = 1 << 14,
                                 .num_layers = 1024,
                                 .num_heads = 128,
                                 .num_kv_heads = 128,
                                 .head_dim = 128,
                                 .intermediate_dim = 1 << 16,
                                 .max_seq_len = 1 << 20,
                                 .rope_base = 1e4,
                                 .norm_eps = 1e-5,
                                 .qk_norm = true,
                                 .qkv_bias = true};
}

TEST_CASE(a_very_large_configuration_does_not_overflow)
{
    struct model_config config = large_config();
    struct model model;
    struct plan plan;
    assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
    struct plan_input input = {.model = &model, .B = 64, .T = 1 << 20, .moments = 2};
    assert_int_equal(plan_init(&plan, &input, NULL), STATUS_OK);
    long double total = 0, shared = 0;
    for (size_t i = 0; i < plan.buffer_count; i++) {
        const struct plan_buffer *b = &plan.buffers[i];
        if (b->category == PLAN_WORKSPACE) shared += (long double)b->bytes;
        if (b->category != PLAN_HOST) total += (long double)b->bytes;
    }
    assert_true((long double)plan.total_bytes < total * 1.001L);
    assert_true((long double)plan.total_bytes > (total - shared) * 0.999L);
    assert_true((long double)plan.category_bytes[PLAN_ACTIVATIONS] > 1024.0L * (1 << 26) * 4 * (1 << 17));
    plan_release(&plan);
    model_release(&model);
}

/* B * T that no int holds, and B * T * V that no size_t does. */
TEST_CASE(more_than_can_be_counted_is_refused_with_the_numbers)
{
    static const int shapes[][2] = {{1 << 16, 1 << 16}, {46341, 46341}, {1, INT_MAX}};
    struct model_config config = large_config();
    struct model model;
    assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
    for (int i = 0; i < 3; i++)
        for (int moments = 0; moments <= 2; moments += 2) {
            struct plan_input input = {.model = &model,
                                       .B = shapes[i][0],
                                       .T = shapes[i][1],
                                       .moments = moments,
                                       .loss = PLAN_LOSS_PLAIN};
            struct plan plan;
            struct err err = {0};
            char numbers[80];
            snprintf(numbers, sizeof numbers, "%d sequences of %d tokens over a vocabulary of %d", input.B,
                     input.T, 1 << 24);
            assert_int_equal(plan_init(&plan, &input, &err), STATUS_USAGE);
            assert_non_null(strstr(err.text, numbers));
            assert_non_null(strstr(err.text, "train.batch_size"));
            plan_release(&plan);
        }
    model_release(&model);
}

/* Fitting records its plans with fewer pieces of the loss. */
TEST_CASE(a_rough_plan_has_the_same_sizes)
{
    for (int i = 0; i < 48; i++) {
        struct model_config config = rig_config();
        struct model model;
        struct plan plan, rough;
        config.num_layers = 1 + i % 3;
        config.vocab_size = i % 2 ? 13 : 3000;
        assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
        struct plan_input input = {.model = &model, .B = 1 + i * 7, .T = 40, .moments = i / 2 % 3};
        input.loss = i & 1 ? PLAN_LOSS_FUSED : PLAN_LOSS_AUTO;
        input.activation_interval = i / 3 % 3;
        assert_int_equal(plan_init(&plan, &input, NULL), STATUS_OK);
        input.rough = true;
        assert_int_equal(plan_init(&rough, &input, NULL), STATUS_OK);
        assert_int_equal(plan.total_bytes, rough.total_bytes);
        assert_memory_equal(plan.conflicts, rough.conflicts, sizeof plan.conflicts);
        assert_memory_equal(plan.bytes, rough.bytes, sizeof plan.bytes);
        assert_memory_equal(plan.places, rough.places, sizeof *plan.places * BUFFERS);
        plan_release(&plan), plan_release(&rough);
        model_release(&model);
    }
}

/* The answer fits, and one more does not: for many memory sizes, for batch and length. */
TEST_CASE(what_fits_is_the_most_that_fits)
{
    struct model_config config = rig_config();
    struct model model;
    int size;
    assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
    for (size_t memory = 1 << 12; memory < (size_t)1 << 28; memory = memory * 3 / 2)
        for (int length = 0; length < 2; length++) {
            struct plan_input input = {.model = &model, .B = 3, .T = 7, .moments = 2};
            size_t bytes;
            assert_int_equal(length ? fit_length(input, memory, 1 << 20, &size, NULL)
                                    : fit_batch(input, memory, 1 << 20, &size, NULL),
                             STATUS_OK);
            int *field = length ? &input.T : &input.B;
            if ((*field = size) > 0) {
                assert_int_equal(plan_bytes(&input, &bytes, NULL), STATUS_OK);
                assert_true(bytes <= memory);
            }
            *field = size + 1;
            assert_int_equal(plan_bytes(&input, &bytes, NULL), STATUS_OK);
            assert_true(bytes > memory);
        }
    struct plan_input input = {.model = &model, .B = 3, .T = 7, .moments = 2};
    assert_int_equal(fit_length(input, (size_t)1 << 40, 100, &size, NULL), STATUS_OK);
    assert_int_equal(size, 100);
    assert_int_equal(fit_batch(input, (size_t)1 << 40, 100, &size, NULL), STATUS_OK);
    assert_int_equal(size, 100);
    model_release(&model);
}

/* Without a device the result is the same as with one. */
TEST_CASE(what_is_reserved_is_what_every_allocator_takes)
{
    struct model_config config = rig_config();
    struct model model;
    struct device *device;
    assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
    assert_int_equal(cpu_backend()->device_open(DEVICE_FIRST, 1, &device, NULL), STATUS_OK);
    for (int kind = 0; kind < ALLOCATOR_KINDS; kind++)
        for (int B = 1; B <= 512; B *= 8) {
            struct plan_input input = {
                .model = &model, .B = B, .T = 64, .moments = 2, .allocator = (enum allocator_kind)kind};
            struct plan plan;
            struct network network;
            struct allocator_usage sum;
            size_t reserved;
            input.host_counts = true;
            assert_int_equal(plan_init(&plan, &input, NULL), STATUS_OK);
            assert_int_equal(plan_reserved(&plan, &reserved, NULL), STATUS_OK);
            assert_int_equal(network_open(&network, cpu_backend(), device, &model, &plan, NULL), STATUS_OK);
            allocator_sum(network.allocator, &sum);
            assert_int_equal(reserved, (size_t)sum.reserved + plan.total_bytes - plan_device_bytes(&plan));
            network_close(&network);
            plan_release(&plan);
        }
    cpu_backend()->device_close(device);
    model_release(&model);
}

TEST_CASE(a_device_that_refuses_leaves_nothing_allocated_and_names_the_category)
{
    struct model_config config = rig_config();
    struct model model;
    struct plan plan;
    struct network network;
    assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
    struct plan_input input = {.model = &model, .B = 2, .T = 8, .moments = 2};
    assert_int_equal(plan_init(&plan, &input, NULL), STATUS_OK);
    for (size_t i = 1; i < PLAN_WORKSPACE; i++) { /* nothing is frozen: that category is not asked for */
        struct backend backend = counting_backend();
        struct device *device;
        struct err err = {0};
        asked.refuse_after = i;
        assert_int_equal(backend.device_open(DEVICE_FIRST, 0, &device, &err), STATUS_OK);
        assert_int_equal(network_open(&network, &backend, device, &model, &plan, &err), STATUS_NO_MEMORY);
        assert_non_null(strstr(err.text, plan_category_name((enum plan_category)(i + 1))));
        assert_int_equal(asked.freed, asked.calls);
        backend.device_close(device);
    }
    plan_release(&plan);
    model_release(&model);
}

TEST_CASE(a_snapshot_is_host_memory_and_part_of_the_total_only_where_that_is_the_devices)
{
    struct model_config config = rig_config();
    struct model model;
    assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
    size_t arena = model.elements * sizeof(float);
    for (int i = 0; i < 8; i++) {
        struct plan_input input = {.model = &model, .B = 2, .T = 8, .moments = 2};
        struct backend backend = counting_backend();
        struct device *device;
        struct plan with, without;
        struct network network;
        input.allocator = i & 4 ? ALLOCATOR_ARENA : ALLOCATOR_BASIC;
        input.host_counts = i & 1;
        assert_int_equal(plan_init(&without, &input, NULL), STATUS_OK);
        input.snapshot = i & 2 ? 3 : 1;
        assert_int_equal(plan_init(&with, &input, NULL), STATUS_OK);
        assert_int_equal(with.category_bytes[PLAN_SNAPSHOT], (size_t)input.snapshot * arena);
        assert_int_equal(with.total_bytes - without.total_bytes, i & 1 ? (size_t)input.snapshot * arena : 0);
        assert_int_equal(backend.device_open(DEVICE_FIRST, 0, &device, NULL), STATUS_OK);
        assert_int_equal(network_open(&network, &backend, device, &model, &with, NULL), STATUS_OK);
        assert_int_equal(asked.host_bytes, with.category_bytes[PLAN_HOST] + (size_t)input.snapshot * arena);
        assert_int_equal(asked.bytes - asked.host_bytes, plan_device_bytes(&without));
        network_close(&network);
        backend.device_close(device);
        plan_release(&with);
        plan_release(&without);
    }
    model_release(&model);
}

TEST_MAIN()
