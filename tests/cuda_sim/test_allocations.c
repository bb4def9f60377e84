/* `--check-allocations` on a GPU: steps on the GPU allocate nothing either, whether streams run at once or
 * late, and a step that allocates is reported. */
#include "core/base/heap.h"
#include "kernels/device/cuda_plugin.h"
#include "tests/cmocka.h"
#include "tests/core/train/story.h"
#include "tests/counted.h"
#include "tests/cuda_sim/simulated_plugin.h"
#include "tests/cuda_sim/simulator.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

extern const struct cuda_plugin cuda_plugin;

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void *(*volatile get)(size_t) = malloc; /* volatile: or the compiler takes the pair away */

/* A sanitizer has its own malloc family. */
static void need_counting(void)
{
    if (!heap_counts()) skip();
}

static struct device *device; /* of the run */
static struct story_order *orders;

static enum status train(const struct backend *backend, const char *const *words, struct err *err)
{
    struct session s;
    enum train_outcome outcome;
    session_open(&s, "steps", backend, words, 900);
    s.check_allocations = true;
    s.story.orders = orders;
    session_start(&s, false);
    device = s.device;
    enum status status = trainer_run(s.trainer, &outcome, err);
    session_close(&s);
    return status;
}

TEST_CASE(steps_on_a_gpu_allocate_nothing)
{
    struct err err = {0};
    need_counting();
    for (int late = 0; late < 2; late++) {
        sim_set_late(late);
        static const char *const precisions[] = {"train.precision=fp32", "train.precision=bf16"};
        for (int i = 0; i < 2; i++) {
            if (train(cuda_plugin.table,
                      WORDS("train.total_steps=6", "train.dropout=0.1", "profile.warmup_steps=1",
                            "profile.every=2", precisions[i]),
                      &err))
                fail_msg("%s, %s: %s", precisions[i], late ? "late" : "at once", err.text);
            if (train(cuda_plugin.table,
                      WORDS("train.total_steps=6", "train.graph=off", "train.accumulation_steps=2",
                            "train.optimizer=lion", precisions[i]),
                      &err))
                fail_msg("%s, %s: %s", precisions[i], late ? "late" : "at once", err.text);
        }
        sim_set_late(false);
    }
}

enum kind { HEAP, DEVICE, POOL, HOST, KINDS };

static int updates;
static enum kind kind;
static void *taken;

static void allocate(struct stream *stream)
{
    const struct backend *be = cuda_plugin.table;
    struct err err = {0};
    enum status status = kind == DEVICE ? be->mem_alloc(device, 1000, &taken, &err)
                         : kind == POOL ? be->pool_alloc(device, 1000, stream, &taken, &err)
                         : kind == HOST ? be->host_alloc(device, 1000, &taken, &err)
                                        : STATUS_OK;
    if (status) fail_msg("%s", err.text);
    if (kind == HEAP) free(get(10));
}

static void give_back(struct stream *stream)
{
    const struct backend *be = cuda_plugin.table;
    if (kind == DEVICE) be->mem_free(device, taken);
    if (kind == POOL) be->pool_free(device, taken, 1000, stream);
    if (kind == HOST) be->host_free(device, taken);
}

static void careless_step(float *w, void *weights, float *m, float *v, const float *g, size_t n,
                          const struct update_range *ranges, int range_count, struct optimizer_params params,
                          struct step_control *control, const struct clip_state *clip, struct stream *stream)
{
    if (++updates == 3) allocate(stream), give_back(stream);
    cuda_plugin.table->adamw_step(w, weights, m, v, g, n, ranges, range_count, params, control, clip, stream);
}

TEST_CASE(a_step_on_a_gpu_that_allocates_is_found)
{
    struct err err = {0};
    struct backend careless = *cuda_plugin.table;
    need_counting();
    careless.adamw_step = careless_step;
    for (kind = HEAP; kind < KINDS; kind++) {
        updates = 0;
        assert_int_equal(train(&careless, WORDS("train.total_steps=5", "train.graph=off"), &err),
                         STATUS_FAILED);
        /* the simulated device's memory comes from the heap, too */
        const char *wanted =
            kind == HEAP ? "1 heap allocation and 0 of device memory" : "and 1 of device memory";
        if (!strstr(err.text, "step 2 made ") || !strstr(err.text, wanted))
            fail_msg("%s; not: %s", wanted, err.text);
    }
}

/* NVIDIA's tools allocate inside the calls that they observe, so only device memory is checked, not the
 * heap. */
TEST_CASE(a_traced_step_may_use_the_heap_alone)
{
    struct err err = {0};
    struct backend careless = *cuda_plugin.table;
    const char *const *words = WORDS("train.total_steps=5", "train.graph=off", "profile.trace_step=2");
    need_counting();
    if (train(cuda_plugin.table, words, &err)) fail_msg("%s", err.text);
    careless.adamw_step = careless_step;
    updates = 0;
    kind = HEAP;
    if (train(&careless, words, &err)) fail_msg("%s", err.text);
    updates = 0;
    kind = DEVICE;
    assert_int_equal(train(&careless, words, &err), STATUS_FAILED);
    assert_non_null(strstr(err.text, "step 2 made 0 heap allocations and 1 of device memory"));
}

TEST_CASE(a_trace_that_is_ordered_passes)
{
    struct err err = {0};
    struct story_order script[] = {{.at = 3, .order = {.id = 1, .verb = ORDER_TRACE}}, {0}};
    need_counting();
    orders = script;
    enum status status = train(cuda_plugin.table, WORDS("train.total_steps=6"), &err);
    orders = NULL;
    if (status) fail_msg("%s", err.text);
    assert_true(script[0].taken);
}

TEST_CASE(the_step_after_a_trace_is_watched_again)
{
    struct err err = {0};
    struct backend careless = *cuda_plugin.table;
    need_counting();
    careless.adamw_step = careless_step;
    updates = 0;
    kind = HEAP;
    assert_int_equal(
        train(&careless, WORDS("train.total_steps=5", "train.graph=off", "profile.trace_step=1"), &err),
        STATUS_FAILED);
    assert_non_null(strstr(err.text, "step 2 made 1 heap allocation and"));
}

/* The binary itself, which opens the plugin. */
STAGE_CASE_TEARDOWN(a_whole_run_on_a_gpu_passes, simulated_plugin_forget, struct stage *s)
{
    need_counting();
    simulated_plugin_use("good");
    process_run(0, "train", s->config, "--device=cuda", "--check-allocations", "--train.total_steps=12",
                "--progress=none", NULL);
    process_run(0, "train", s->config, "--device=cuda", "--check-allocations", "--train.total_steps=12",
                "--profile.trace_step=3", "--progress=none", NULL);
    stage_expect(s, "select count(*) from events where text like 'trace of step 3: written%'", "1");
    char *steps = stage_query(s, "select distinct steps from runs");
    assert_string_equal(steps, "12");
}

int main(int argc, char **argv)
{
    (void)argc;
    counted_start(argv);
    return TEST_RUN(NULL, NULL);
}
