/* `--check-allocations`: the trainer counts its own allocations. Clean steps pass, one that allocates ends
 * the run with a sentence, and allocations of an observer do not count. */
#include <pthread.h>

#include "core/base/heap.h"
#include "tests/cmocka.h"
#include "tests/core/train/story.h"
#include "tests/counted.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void *(*volatile get)(size_t) = malloc; /* volatile: or the compiler takes the pair away */

/* A sanitizer has its own malloc family. */
static void need_counting(void)
{
    if (!heap_counts()) skip();
}

static void *allocate_elsewhere(void *context)
{
    free(get(100));
    return context;
}

TEST_CASE(a_thread_counts_its_own_allocations_while_it_is_watched)
{
    pthread_t thread;
    void *(*volatile get_zeroed)(size_t, size_t) = calloc;
    void *(*volatile grow)(void *, size_t) = realloc;
    void *(*volatile get_aligned)(size_t, size_t) = aligned_alloc;
    int (*volatile get_posix)(void **, size_t, size_t) = posix_memalign;
    void *posix = NULL;
    need_counting();
    free(get(1)); /* not watched */
    int64_t before = heap_allocations();
    heap_watch(true);
    free(grow(get(1), 100)), free(get_zeroed(1, 1)), free(get_aligned(64, 64));
    assert_int_equal(get_posix(&posix, 64, 64), 0);
    heap_watch(false);
    free(posix);
    assert_int_equal(heap_allocations() - before, 5);
    heap_watch(true);
    assert_int_equal(pthread_create(&thread, NULL, allocate_elsewhere, NULL), 0);
    heap_watch(false);
    before = heap_allocations();
    heap_watch(true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    heap_watch(false);
    assert_int_equal(heap_allocations(), before);
}

static void allocate_in_observer(struct story *story)
{
    (void)story;
    free(get(1000));
}

static void expect_clean(const char *const *words)
{
    struct session s;
    session_open(&s, "clean", NULL, words, 900);
    s.check_allocations = true;
    s.story.on_step = allocate_in_observer;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_int_equal(s.story.step_count, 12);
    session_close(&s);
}

TEST_CASE(steps_that_allocate_nothing_pass)
{
    need_counting();
    expect_clean(WORDS("train.threads=1", "train.dropout=0.1", "eval.every=5", "checkpoint.every=4"));
    expect_clean(WORDS("train.threads=2", "train.accumulation_steps=2", "train.optimizer=lion",
                       "train.async=false", "train.graph=on"));
}

static int updates, leak_at;
static struct device *device;
static void *taken; /* of it, in the step */

static void careless_step(float *w, void *weights, float *m, float *v, const float *g, size_t n,
                          const struct update_range *ranges, int range_count, struct optimizer_params params,
                          struct step_control *control, const struct clip_state *clip, struct stream *stream)
{
    if (++updates == leak_at && device)
        assert_int_equal(cpu_backend()->mem_alloc(device, 1000, &taken, NULL), STATUS_OK);
    else if (updates == leak_at)
        free(get(10)), free(get(10));
    cpu_backend()->adamw_step(w, weights, m, v, g, n, ranges, range_count, params, control, clip, stream);
}

/* Update number `at` allocates from its device or from the heap. */
static enum status run_careless(int at, bool of_device, struct err *err, int *reported)
{
    struct session s;
    struct backend careless = *cpu_backend();
    enum train_outcome outcome;
    careless.adamw_step = careless_step;
    updates = 0;
    leak_at = at;
    session_open(&s, "careless", &careless, WORDS("train.total_steps=5"), 900);
    s.check_allocations = true;
    session_start(&s, false);
    device = of_device ? s.device : NULL;
    enum status status = trainer_run(s.trainer, &outcome, err);
    if (taken) cpu_backend()->mem_free(s.device, taken);
    taken = NULL;
    *reported = s.story.step_count;
    session_close(&s);
    return status;
}

TEST_CASE(a_step_that_allocates_ends_the_run_with_a_sentence)
{
    struct err err = {0};
    int reported;
    need_counting();
    assert_int_equal(run_careless(1, false, &err, &reported), STATUS_OK); /* the first may */
    assert_int_equal(reported, 5);
    assert_int_equal(run_careless(3, false, &err, &reported), STATUS_FAILED);
    assert_string_equal(err.text,
                        "--check-allocations: step 2 made 2 heap allocations and 0 of device memory; "
                        "after the first step there should be none");
    assert_int_equal(reported, 3);
}

/* A CPU's memory comes from the heap, too. */
TEST_CASE(a_step_that_takes_device_memory_ends_the_run_with_a_sentence)
{
    struct err err = {0};
    int reported;
    need_counting();
    assert_int_equal(run_careless(1, true, &err, &reported), STATUS_OK);
    assert_int_equal(run_careless(4, true, &err, &reported), STATUS_FAILED);
    assert_string_equal(err.text,
                        "--check-allocations: step 3 made 1 heap allocation and 1 of device memory; "
                        "after the first step there should be none");
    assert_int_equal(reported, 4);
}

TEST_CASE(memory_of_every_kind_counts_for_the_device)
{
    const struct backend *be = cpu_backend();
    void *memory[3];
    assert_int_equal(be->device_open(DEVICE_FIRST, 1, &device, NULL), STATUS_OK);
    int64_t before = be->allocations(device);
    assert_int_equal(be->mem_alloc(device, 10, &memory[0], NULL), STATUS_OK);
    assert_int_equal(be->pool_alloc(device, 10, NULL, &memory[1], NULL), STATUS_OK);
    assert_int_equal(be->host_alloc(device, 10, &memory[2], NULL), STATUS_OK);
    assert_int_equal(be->allocations(device) - before, 3);
    be->mem_free(device, memory[0]), be->pool_free(device, memory[1], 10, NULL);
    be->host_free(device, memory[2]);
    assert_int_equal(be->allocations(device) - before, 3);
    be->device_close(device);
}

TEST_CASE(a_traced_step_may_use_the_heap)
{
    need_counting();
    expect_clean(WORDS("profile.trace_step=3", "profile.every=0"));
}

int main(int argc, char **argv)
{
    (void)argc;
    counted_start(argv);
    return TEST_RUN(NULL, NULL);
}
