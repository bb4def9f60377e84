/* The estimate of a step on many GPUs: against published runs, and against what its formulas say. */
#include <math.h>

#include "core/train/cluster.h"
#include "tests/cmocka.h"

/* Sizes of a model, of a step, and the cluster. */
struct trial {
    const char *name;
    int L, C, NH, NKV, HS, F, V;
    bool tied, qk_norm;
    int T, batch, accumulation; /* of all GPUs together */
    const char *gpu;
    int gpus;
    double network; /* of a host, bytes per second */
    double seconds; /* of a step, as published */
};

struct estimate {
    struct config config;
    struct model model;
    struct plan_input one;
    struct cluster cluster;
};

static void estimate_open(struct estimate *e, const struct trial *t)
{
    struct err err;
    *e = (struct estimate){0};
    config_init(&e->config);
    e->config.train.optimizer = OPTIMIZER_ADAMW;
    e->config.train.batch_size = t->batch;
    e->config.train.accumulation_steps = t->accumulation;
    struct model_config sizes = {.vocab_size = t->V,
                                 .hidden_dim = t->C,
                                 .num_layers = t->L,
                                 .num_heads = t->NH,
                                 .num_kv_heads = t->NKV,
                                 .head_dim = t->HS,
                                 .intermediate_dim = t->F,
                                 .max_seq_len = t->T,
                                 .rope_base = 10000,
                                 .norm_eps = 1e-5,
                                 .tie_weights = t->tied,
                                 .qk_norm = t->qk_norm};
    if (model_init(&e->model, &sizes, &err)) fail_msg("%s: %s", t->name, err.text);
    e->one = (struct plan_input){.model = &e->model,
                                 .B = t->batch,
                                 .T = t->T,
                                 .micro_batches = t->accumulation,
                                 .moments = 2,
                                 .precision = PRECISION_BF16,
                                 .allocator = ALLOCATOR_ARENA};
    e->cluster = cluster_of(chip_find(t->gpu), PRECISION_BF16, 8, t->network);
    cluster_plan_input(&e->cluster, &e->one);
}

static struct cluster_step step_on(const struct estimate *e, int gpus)
{
    struct cluster_step step;
    struct err err;
    if (cluster_estimate(&e->cluster, &e->config, &e->one, gpus, &step, &err)) fail_msg("%s", err.text);
    return step;
}

/* Steps that others have published. GPT-2 has no rotation, norms with biases and a feed-forward layer of two
 * matrices; nanochat's layer squares a ReLU: here they are Llamas of the same width and depth, whose
 * feed-forward width gives as many parameters. Sources: llm.c, scripts/run_gpt2_{124M,350M,774M,1558M}.sh,
 * and its discussions 481 and 677; nanochat, discussion 1 ("step 00013/21400 … dt: 486.56ms") and pull
 * request 147 (A100); TinyLlama's README (24,000 tokens a second and GPU on 16 A100 with 40 GB, with FSDP; it
 * does not name the network). */
static const struct trial published[] = {
    {"GPT-2 124M", 12, 768, 12, 12, 64, 2048, 50304, true, false, 1024, 64, 8, "a100", 8, 50e9, 0.300},
    {"GPT-2 350M", 24, 1024, 16, 16, 64, 2731, 50304, true, false, 1024, 64, 8, "a100", 8, 50e9, 0.820},
    {"GPT-2 774M", 36, 1280, 20, 20, 64, 3413, 50304, true, false, 1024, 32, 16, "a100", 8, 50e9, 1.700},
    {"GPT-2 1558M", 48, 1600, 25, 25, 64, 4267, 50304, true, false, 1024, 16, 64, "h100", 8, 50e9, 2.800},
    {"nanochat d20", 20, 1280, 10, 10, 128, 3413, 65536, false, true, 2048, 32, 8, "h100", 8, 50e9, 0.487},
    {"nanochat d20", 20, 1280, 10, 10, 128, 3413, 65536, false, true, 2048, 32, 8, "a100", 8, 50e9, 0.993},
    {"TinyLlama", 22, 2048, 32, 4, 64, 5632, 32000, false, false, 2048, 8, 128, "a100-40gb", 16, 25e9, 5.461},
};

TEST_CASE(published_steps_are_met_within_a_quarter)
{
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        const struct trial *t = &published[i];
        struct estimate e;
        estimate_open(&e, t);
        struct cluster_step step = step_on(&e, t->gpus);
        printf("%-14s %2d x %-10s %6.3f s, published %6.3f s: %+.0f %%\n", t->name, t->gpus, t->gpu,
               step.seconds, t->seconds, 100 * (step.seconds / t->seconds - 1));
        if (!(fabs(step.seconds / t->seconds - 1) <= 0.25))
            fail_msg("%s on %s: %.3f s, not %.3f s", t->name, t->gpu, step.seconds, t->seconds);
        assert_true(step.fits);
        model_release(&e.model);
    }
}

/* Each layer's gradients are a bucket; embedding and head go with a layer, and the weights of two layers
 * together. */
static const struct trial small = {"small", 4,    1024, 16, 16,     64, 2752, 4096, false,
                                   false,   2048, 8,    4,  "h100", 16, 10e9, 0};

TEST_CASE(ranks_send_what_rings_send)
{
    struct estimate e;
    estimate_open(&e, &small);
    double elements = (double)e.model.parameters, all = (4 + 2) * elements;
    struct cluster_step one = step_on(&e, 1), eight = step_on(&e, 8), sixteen = step_on(&e, 16);
    assert_true(one.sent == 0 && one.communication == 0 && one.waiting == 0 && one.hosts == 1);
    assert_true(fabs(eight.sent - all * 7 / 8) < 1 && eight.host_sent == 0 && eight.hosts == 1);
    assert_true(fabs(sixteen.sent - all * 15 / 16) < 1 && fabs(sixteen.host_sent - all / 2) < 1);
    assert_int_equal(sixteen.hosts, 2);
    /* the network between hosts is the slower one; what is left are the hops of some buckets */
    double hops = sixteen.communication - all / 2 / (CLUSTER_NETWORK * 10e9);
    double buckets = hops / (7 * CLUSTER_LINK_DELAY + CLUSTER_NETWORK_DELAY);
    assert_true(fabs(buckets - round(buckets)) < 1e-6);
    assert_true(buckets >= all / 2 / CLUSTER_BUCKET / 2 && buckets <= 2 * (e.model.config.num_layers + 2));
    e.config.world.shard = SHARD_OFF;
    assert_true(fabs(step_on(&e, 8).sent - 2 * 4 * elements * 7 / 8) < 1);
    model_release(&e.model);
}

/* What a pass hides costs nothing. The gradients of the embedding, the last ones, cannot be hidden, nor the
 * weights of the embedding, the first that are needed. */
TEST_CASE(what_a_pass_hides_costs_no_time)
{
    struct estimate e;
    estimate_open(&e, &small);
    e.cluster.network = 1e9;
    struct cluster_step slow = step_on(&e, 16);
    e.cluster.network = e.cluster.link = 200e9;
    struct cluster_step fast = step_on(&e, 16);
    double embedding = (4 + 2) * 4096.0 * 1024;
    assert_true(fast.computing == slow.computing);
    assert_true(fast.waiting >= embedding * 7 / 8 / 200e9 && fast.waiting < 0.6 * fast.communication);
    assert_true(slow.waiting > 0.9 * slow.communication && slow.waiting < slow.communication);
    assert_true(slow.seconds == slow.computing + slow.waiting);
    e.config.world.overlap = OVERLAP_OFF;
    struct cluster_step after = step_on(&e, 16);
    assert_true(after.waiting == after.communication && after.communication == fast.communication);
    model_release(&e.model);
}

TEST_CASE(memory_is_the_plan_of_a_rank)
{
    struct estimate e;
    struct plan plan;
    struct err err;
    estimate_open(&e, &small);
    struct plan_input input = e.one;
    plan_input_share(&input, &e.config, 0, 4);
    if (plan_init(&plan, &input, &err)) fail_msg("%s", err.text);
    struct cluster_step four = step_on(&e, 4);
    assert_int_equal(four.bytes, plan.total_bytes);
    assert_int_equal(four.batch_size * four.micro_batches, 8);
    assert_true(four.bytes < step_on(&e, 1).bytes);
    plan_release(&plan);
    model_release(&e.model);
}

static const struct cluster_cost *cost_of(const struct cluster_step *step, enum phase phase, const char *op)
{
    for (int i = 0; i < step->cost_count; i++)
        if (step->costs[i].phase == phase && strcmp(step->costs[i].op, op) == 0) return &step->costs[i];
    fail_msg("no cost of \"%s\"", op);
    return NULL;
}

TEST_CASE(operations_add_up_to_the_step)
{
    struct estimate e;
    estimate_open(&e, &small);
    struct cluster_step step = step_on(&e, 1);
    const struct model_config *c = &e.model.config;
    double seconds = 0, tokens = 8 * 4 * 2048.0,
           product = 2 * tokens * 2 * c->intermediate_dim * c->hidden_dim;
    for (int i = 0; i < step.cost_count; i++) seconds += step.costs[i].seconds;
    assert_true(fabs(seconds / step.computing - 1) < 1e-9);
    assert_true(cost_of(&step, PHASE_FORWARD, "gemm gate_up")->flops == c->num_layers * product);
    assert_true(cost_of(&step, PHASE_BACKWARD, "gemm gate_up dW")->flops == c->num_layers * product);
    assert_true(cost_of(&step, PHASE_OPTIMIZER, "adamw")->flops > 0);
    /* the gradients of embedding and norms are cleared, products overwrite theirs */
    assert_true(cost_of(&step, PHASE_OPTIMIZER, "zero gradients")->bytes > 4.0 * 4096 * 1024);
    model_release(&e.model);
}

/* 32 sequences: the busiest of 12 GPUs has three, as the busiest of 11; 64 have no more than one each. */
TEST_CASE(the_busiest_gpu_decides)
{
    struct estimate e;
    estimate_open(&e, &small);
    assert_int_equal(step_on(&e, 12).batch_size, 3);
    assert_int_equal(step_on(&e, 11).batch_size, 3);
    assert_int_equal(step_on(&e, 64).batch_size, 1);
    assert_true(step_on(&e, 64).computing > 0.95 * step_on(&e, 32).computing);
    model_release(&e.model);
}

TEST_CASE(a_model_that_is_too_large_does_not_fit)
{
    static const struct trial large = {"8B",  32,   4096, 32, 8,      128, 14336, 128256, false,
                                       false, 2048, 1,    64, "h100", 64,  50e9,  0};
    struct estimate e;
    estimate_open(&e, &large);
    assert_false(step_on(&e, 1).fits);
    assert_true(step_on(&e, 64).fits);
    model_release(&e.model);
}

TEST_MAIN()
