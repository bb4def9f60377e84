/* How the trainer queues steps while the device works: one or two in flight, call by call or as graphs, with
 * streams at once or as late as allowed. All give the same bits, and the host waits only for the result of
 * the previous step. */
#include <math.h>

#include "kernels/device/cuda_plugin.h"
#include "tests/cmocka.h"
#include "tests/core/train/story.h"
#include "tests/cuda_sim/simulator.h"

extern const struct cuda_plugin cuda_plugin;

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void train(struct session *s, const char *name, const struct backend *backend,
                  const char *const *words)
{
    session_open(s, name, backend, words, 900);
    session_start(s, false);
    assert_int_equal(session_run(s), TRAIN_FINISHED);
}

/* The variants of a step; each word is a setting, in addition to a small run of six steps. */
static const struct variant {
    const char *name;
    int micro_batches;
    bool bf16; /* of a GPU */
    const char *words[6];
} variants[] = {
    {"plain", 1, false, {NULL}},
    {"padding", 1, false, {"data.padding=32", NULL}},
    {"padding, three micro-batches", 3, false, {"data.padding=32", "train.accumulation_steps=3", NULL}},
    {"more micro-batches than buffers",
     17,
     false,
     {"train.accumulation_steps=17", "train.batch_size=1", "train.total_steps=3", NULL}},
    {"dropout", 2, false, {"train.dropout=0.3", "train.accumulation_steps=2", NULL}},
    {"recomputed activations", 1, false, {"checkpoint.activation_interval=1", "train.dropout=0.1", NULL}},
    {"lion", 1, false, {"train.optimizer=lion", "train.learning_rate=0.003", "data.padding=32", NULL}},
    {"moments in 8 bits", 2, false, {"train.moments=8bit", "train.accumulation_steps=2", NULL}},
    {"lion with moments in 8 bits, in bf16",
     1,
     true,
     {"train.moments=8bit", "train.optimizer=lion", "train.learning_rate=0.003", "train.precision=bf16",
      NULL}},
    {"muon",
     2,
     false,
     {"train.optimizer=muon", "train.learning_rate=0.01", "muon.coefficients=polar_express",
      "train.accumulation_steps=2", NULL}},
    {"muon in bf16", 1, true, {"train.optimizer=muon", "train.precision=bf16", NULL}},
    {"groups",
     1,
     false,
     {"param_group.norms.match=*norm*", "param_group.norms.lr_scale=0.5", "param_group.embed.match=*embed*",
      "param_group.embed.lr_scale=0", NULL}},
    {"qwen", 1, false, {"model.qk_norm=true", "model.qkv_bias=true", "model.tie_weights=true", NULL}},
    {"all biases", 1, false, {"model.qkv_bias=true", "model.o_bias=true", "model.mlp_bias=true", NULL}},
    {"window in bf16", 1, true, {"train.precision=bf16", "model.sliding_window=5", NULL}},
    {"profiled", 1, false, {"profile.every=2", "profile.warmup_steps=1", NULL}},
    {"bf16", 1, true, {"train.precision=bf16", NULL}},
    {"bf16 with everything",
     2,
     true,
     {"train.precision=bf16", "data.padding=32", "train.accumulation_steps=2", "train.dropout=0.1",
      "checkpoint.activation_interval=1", NULL}},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* The variant's words after those of every run here, and then two more. */
static const char *const *variant_words(const struct variant *v, const char *async, const char *graph)
{
    static const char *words[16];
    static const char *const all[] = {"train.total_steps=6", "model.num_layers=1", "train.seq_len=9",
                                      "profile.every=0"};
    int count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) words[count++] = all[i];
    for (int i = 0; v->words[i]; i++) words[count++] = v->words[i];
    words[count++] = async;
    words[count++] = graph;
    words[count] = NULL;
    return words;
}

#define TEN(...)                                                                                             \
    WORDS("train.total_steps=10", "model.num_layers=1", "train.dropout=0.2", "train.accumulation_steps=2",   \
          "eval.every=4", "eval.batches=2", "sample.every=5", "sample.max_tokens=2", "checkpoint.every=5",   \
          "profile.every=0", __VA_ARGS__)

/* Streams at once or as late as allowed, one step at a time or two in flight, call by call or as graphs, on
 * either device: not one bit of the curve, of an evaluation or of a sample may differ. */
TEST_CASE(however_steps_are_queued_the_bits_are_the_same)
{
    static const struct {
        const char *async, *graph;
        bool late;
    } ways[] = {
        {"train.async=false", "train.graph=on", false}, {"train.async=true", "train.graph=off", false},
        {"train.async=true", "train.graph=on", true},   {"train.async=true", "train.graph=off", true},
        {"train.async=false", "train.graph=on", true},  {"train.async=true", "train.graph=auto", true},
    };
    for (int device = 0; device < 2; device++) {
        const struct backend *backend = device ? cuda_plugin.table : NULL;
        struct session plain;
        train(&plain, "plain", backend, TEN("train.async=false", "train.graph=off"));
        assert_int_equal(plain.story.step_count, 10);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            struct session other;
            uint64_t before = sim_graph_launches();
            char name[96];
            sim_set_late(ways[i].late);
            snprintf(name, sizeof name, "%s, %s, %s, %s", device ? "cuda" : "cpu", ways[i].async,
                     ways[i].graph, ways[i].late ? "late" : "at once");
            train(&other, "other", backend, TEN(ways[i].async, ways[i].graph));
            sim_set_late(false);
            story_expect_same(&plain.story, &other.story, name);
            /* the first step goes call by call, the nine after it as two passes and an update */
            if (device && !strstr(ways[i].graph, "auto"))
                assert_int_equal(sim_graph_launches() - before, strstr(ways[i].graph, "on") ? 9 * 3 : 0);
            session_close(&other);
        }
        session_close(&plain);
    }
    assert_int_equal(sim_graphs(), 0);
    assert_int_equal(sim_events(), 0);
}

/* The same for every variant of a step. With graphs, each step after the first is made of graphs only, except
 * those that are profiled operation by operation. */
TEST_CASE(whatever_a_step_is_made_of_the_bits_are_the_same)
{
    static const struct {
        const char *async, *graph;
        bool late;
    } ways[] = {{"train.async=true", "train.graph=on", true}, {"train.async=true", "train.graph=off", true}};
    for (int device = 0; device < 2; device++)
        for (int v = 0; v < VARIANTS; v++) {
            const struct backend *backend = device ? cuda_plugin.table : NULL;
            struct session plain;
            if (!device && variants[v].bf16) continue;
            train(&plain, "plain", backend,
                  variant_words(&variants[v], "train.async=false", "train.graph=off"));
            int total = variants[v].micro_batches > 8 ? 3 : 6; /* the first and two in flight are enough */
            assert_int_equal(plain.story.step_count, total);
            for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
                struct session other;
                char name[128];
                uint64_t before = sim_graph_launches();
                bool graphs = device && strcmp(ways[i].graph, "train.graph=on") == 0;
                snprintf(name, sizeof name, "%s, %s, %s", device ? "cuda" : "cpu", variants[v].name,
                         ways[i].graph);
                sim_set_late(ways[i].late);
                train(&other, "other", backend, variant_words(&variants[v], ways[i].async, ways[i].graph));
                sim_set_late(false);
                story_expect_same(&plain.story, &other.story, name);
                int steps = strcmp(variants[v].name, "profiled") == 0 ? 2 : total - 1;
                int launched = (int)(sim_graph_launches() - before);
                if (launched != (graphs ? steps * (variants[v].micro_batches + 1) : 0))
                    fail_msg("%s: %d graphs", name, launched);
                session_close(&other);
            }
            session_close(&plain);
        }
}

/* Orders given when the third step is reported: another learning rate, an evaluation, a sample, a
 * checkpoint. */
static const struct story_order script[] = {
    {3, {.id = 1, .verb = ORDER_LR_FACTOR, .argument = 0.5}, 0, false},
    {3, {.id = 2, .verb = ORDER_EVAL}, 0, false},
    {3, {.id = 3, .verb = ORDER_SAMPLE}, 0, false},
    {3, {.id = 4, .verb = ORDER_CHECKPOINT}, 0, false},
    {.order = {.id = 0}},
};

static long graphs_at_last;

static void note_graphs(struct story *story)
{
    if (story->done == 6) graphs_at_last = sim_graphs();
}

static void train_with_orders(struct session *s, const char *graph, bool resume)
{
    struct story_order orders[sizeof script / sizeof *script];
    memcpy(orders, script, sizeof script);
    session_open(s, graph, cuda_plugin.table, variant_words(&variants[1], "train.async=true", graph), 900);
    s->story.orders = orders;
    s->story.on_step = note_graphs;
    if (resume) s->story.leave_at = 4;
    session_start(s, false);
    assert_int_equal(session_run(s), resume ? TRAIN_STOPPED : TRAIN_FINISHED);
    s->story.orders = NULL;
    s->story.leave_at = 0;
    if (!resume) return;
    trainer_close(s->trainer);
    session_start(s, true);
    assert_int_equal(session_run(s), TRAIN_FINISHED);
}

/* Orders and evaluations change values in device memory, and the same recorded graph is still valid. A
 * resumed run records its own graph, with the same bits. */
TEST_CASE(what_happens_between_steps_needs_no_new_recording)
{
    struct session plain, graphs, resumed;
    train_with_orders(&plain, "train.graph=off", false);
    assert_int_equal(graphs_at_last, 0);
    uint64_t before = sim_graph_launches();
    train_with_orders(&graphs, "train.graph=on", false);
    assert_int_equal(sim_graph_launches() - before, 5 * 2);
    assert_int_equal(graphs_at_last, 3); /* a pass for either place of a batch, and the update */
    story_expect_same(&plain.story, &graphs.story, "graphs");
    assert_true(graphs.story.steps[3].lr < 0.6 * graphs.story.steps[2].lr); /* the order took effect */
    train_with_orders(&resumed, "train.graph=on", true);
    story_expect_same(&plain.story, &resumed.story, "resumed");
    session_close(&plain), session_close(&graphs), session_close(&resumed);
}

static void forget_to_wait(struct stream *stream, struct event *event)
{
    (void)stream;
    (void)event;
}

/* Shows that the test above can fail: the trainer on a device whose streams do not wait for each other. */
TEST_CASE(without_its_waits_between_streams_the_curve_is_another)
{
    struct backend careless = *cuda_plugin.table;
    careless.stream_after = forget_to_wait;
    struct session right, wrong;
    train(&right, "right", cuda_plugin.table, WORDS("train.total_steps=4"));
    sim_set_late(true);
    train(&wrong, "wrong", &careless, WORDS("train.total_steps=4"));
    sim_set_late(false);
    assert_true(right.story.steps[3].loss != wrong.story.steps[3].loss);
    session_close(&right), session_close(&wrong);
}

static double pretended_milliseconds;

static double pretend_elapsed(struct event *from, struct event *to)
{
    (void)from;
    (void)to;
    return pretended_milliseconds;
}

static uint64_t graphs_launched(double milliseconds)
{
    struct session s;
    struct backend pretending = *cuda_plugin.table;
    uint64_t before = sim_graph_launches();
    pretending.event_elapsed = pretend_elapsed;
    pretended_milliseconds = milliseconds;
    train(&s, "auto", &pretending,
          WORDS("train.total_steps=7", "train.graph=auto", "model.num_layers=1", "profile.every=0"));
    session_close(&s);
    return sim_graph_launches() - before;
}

/* The first step warms up, three are measured, and the next three are graphs of a pass and an update each, if
 * the host limits the speed. */
TEST_CASE(graphs_are_for_devices_that_are_faster_than_the_host)
{
    assert_int_equal(graphs_launched(1e-6), 3 * 2);
    assert_int_equal(graphs_launched(1e9), 0);
}

/* Counts the trainer's calls to a device: queued updates, and calls that wait for it. */
static struct {
    const struct backend *table;
    int updates, waits, waits_at_first, waits_at_last, ahead[10];
    uint64_t mallocs_at_first, mallocs_at_last;
} asked;

static void count_update(float *w, void *weights, float *m, float *v, const float *g, size_t n,
                         const struct update_range *ranges, int range_count, struct optimizer_params params,
                         struct step_control *control, const struct clip_state *clip, struct stream *stream)
{
    asked.updates++;
    asked.table->adamw_step(w, weights, m, v, g, n, ranges, range_count, params, control, clip, stream);
}

static void count_download(void *host, const void *memory, size_t bytes, struct stream *stream)
{
    asked.waits++;
    asked.table->mem_download(host, memory, bytes, stream);
}

static enum status count_wait(struct stream *stream, struct err *err)
{
    asked.waits++;
    return asked.table->stream_wait(stream, err);
}

static void note_step(struct story *story)
{
    asked.ahead[story->done - 1] = asked.updates - (int)story->done;
    if (story->done == 1) asked.waits_at_first = asked.waits, asked.mallocs_at_first = sim_mallocs();
    if (story->done == 10) asked.waits_at_last = asked.waits, asked.mallocs_at_last = sim_mallocs();
}

static void expect_ahead(const char *async, int ahead)
{
    struct session s;
    struct backend counting = *cuda_plugin.table;
    counting.adamw_step = count_update;
    counting.mem_download = count_download;
    counting.stream_wait = count_wait;
    memset(&asked, 0, sizeof asked);
    asked.table = cuda_plugin.table;
    sim_set_late(true);
    session_open(&s, "ahead", &counting, WORDS("train.total_steps=10", "train.graph=off", async), 900);
    s.story.on_step = note_step;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    sim_set_late(false);
    for (int i = 0; i < 9; i++) assert_int_equal(asked.ahead[i], ahead);
    assert_int_equal(asked.ahead[9], 0); /* there is no eleventh */
    assert_int_equal(asked.waits_at_last - asked.waits_at_first, 0);
    assert_int_equal(asked.mallocs_at_last - asked.mallocs_at_first, 0);
    session_close(&s);
}

/* When a step is reported, the next one is queued; the host waits only for one event, and allocates no device
 * memory. */
TEST_CASE(a_step_is_queued_before_the_one_before_it_is_reported)
{
    expect_ahead("train.async=true", 1);
    expect_ahead("train.async=false", 0);
}

/* ---- what the host waits for ---- */

static uint64_t waits_at[7]; /* when so many steps are reported */

static void note_waits(struct story *story)
{
    waits_at[story->done] = sim_waits();
}

/* Between the reports of two steps the host waits once, for the result of a step. With more micro-batches
 * than buffers it also waits for buffers when it is far ahead. */
TEST_CASE(a_steady_step_waits_for_one_result_and_nothing_else)
{
    static const struct {
        const char *async, *graph;
        int variants;
    } ways[] = {{"train.async=true", "train.graph=off", VARIANTS},
                {"train.async=true", "train.graph=on", 3},
                {"train.async=false", "train.graph=off", 1}};
    for (int way = 0; way < 3; way++)
        for (int v = 0; v < ways[way].variants; v++) {
            struct session s;
            if (variants[v].micro_batches > 8) continue;
            sim_set_late(true);
            session_open(&s, "waits", cuda_plugin.table,
                         variant_words(&variants[v], ways[way].async, ways[way].graph), 900);
            s.story.on_step = note_waits;
            session_start(&s, false);
            assert_int_equal(session_run(&s), TRAIN_FINISHED);
            sim_set_late(false);
            for (int step = 3; step < 6; step++)
                if (waits_at[step] - waits_at[step - 1] != 1)
                    fail_msg("%s, %s, %s: %d waits between steps %d and %d", variants[v].name,
                             ways[way].async, ways[way].graph, (int)(waits_at[step] - waits_at[step - 1]),
                             step - 1, step);
            session_close(&s);
        }
}

TEST_MAIN()
