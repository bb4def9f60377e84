/* After the first step the step loop allocates nothing: every heap allocation of the process, libraries and
 * threads included, is counted from the end of the first step to the end of the last.
 *
 * Without sanitizers the program brings its own malloc family, which counts and passes on to glibc's; a
 * symbol of the program comes before those of libraries. AddressSanitizer has its own family and a hook for
 * counting. */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "tests/core/train/story.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

/* Whether a team of several threads is kept for the next parallel region, so that nothing is allocated for
 * it: libgomp does that, clang's libomp does not. */
#ifdef __clang__
enum { TEAMS_ARE_KEPT = false };
#else
enum { TEAMS_ARE_KEPT = true };
#endif

static struct {
    atomic_bool on;
    atomic_long count, openmp; /* the OpenMP library's are counted apart */
} heap;

/* `caller`: an address in the calling code; NULL if unknown. */
static void note(const void *caller)
{
    Dl_info info;
    if (!atomic_load(&heap.on)) return;
    if (caller && dladdr(caller, &info) &&
        (strstr(info.dli_fname, "libgomp") || strstr(info.dli_fname, "libomp")))
        atomic_fetch_add(&heap.openmp, 1);
    else
        atomic_fetch_add(&heap.count, 1);
}

#ifdef SANITIZED

extern int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                                     void (*on_free)(const volatile void *));

static void on_malloc(const volatile void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
    /* for a thread that comes to run only now, the sanitizer itself allocates in it */
    if (gettid() == getpid()) note(NULL);
}

static void on_free(const volatile void *memory)
{
    (void)memory;
}

static int start_counting(void **state)
{
    (void)state;
    return __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free) > 0 ? 0 : -1;
}

#else

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes)
{
    note(__builtin_return_address(0));
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    note(__builtin_return_address(0));
    return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    note(__builtin_return_address(0));
    return __libc_realloc(memory, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
    note(__builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    note(__builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    note(__builtin_return_address(0));
    void *memory = __libc_memalign(alignment, bytes);
    if (!memory) return ENOMEM;
    *out = memory;
    return 0;
}

static int start_counting(void **state)
{
    (void)state;
    return 0;
}

#endif

/* From the first step's end to the last one's. */
static void count_between_steps(struct story *story)
{
    if (story->done == 1) {
        atomic_store(&heap.count, 0);
        atomic_store(&heap.openmp, 0);
        atomic_store(&heap.on, true);
    }
    if (story->done == 12) atomic_store(&heap.on, false);
}

/* Writing a checkpoint is no part of the step loop. */
static void leave_checkpoints_out(struct story *story, bool begins)
{
    if (story->done >= 1 && story->done < 12) atomic_store(&heap.on, !begins);
}

TEST_CASE(the_count_sees_every_way_to_allocate)
{
    void *memory[5] = {0};
    atomic_store(&heap.count, 0);
    atomic_store(&heap.on, true);
    void *(*volatile get)(size_t) = malloc; /* volatile: or the compiler takes the pair away */
    void *(*volatile get_zeroed)(size_t, size_t) = calloc;
    void *(*volatile grow)(void *, size_t) = realloc;
    void *(*volatile get_aligned)(size_t, size_t) = aligned_alloc;
    int (*volatile get_posix)(void **, size_t, size_t) = posix_memalign;
    memory[0] = get(10);
    memory[1] = get_zeroed(2, 10);
    memory[2] = grow(NULL, 100000);
    memory[3] = get_aligned(64, 128);
    assert_int_equal(get_posix(&memory[4], 64, 100), 0);
    atomic_store(&heap.on, false);
    for (int i = 0; i < 5; i++) {
        assert_non_null(memory[i]);
        free(memory[i]);
    }
#ifdef __SANITIZE_THREAD__ /* its hook is not called for aligned memory */
    assert_int_equal(atomic_load(&heap.count), 3);
#else
    assert_int_equal(atomic_load(&heap.count), 5);
#endif
}

static void expect_no_allocation(const char *const *words, struct story_order *orders)
{
    struct session s;
    session_open(&s, "heap", NULL, words, 900);
    s.story.on_step = count_between_steps;
    s.story.on_saving = leave_checkpoints_out;
    s.story.orders = orders;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    long count = atomic_load(&heap.count),
         openmp = s.config.train.threads > 1 && TEAMS_ARE_KEPT ? atomic_load(&heap.openmp) : 0;
    if (count + openmp) fail_msg("%ld heap allocations in eleven steps", count + openmp);
    assert_int_equal(s.story.step_count, 12);
    assert_true(s.story.profile_count > 0); /* one of them was profiled */
    session_close(&s);
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST_CASE(adamw_steps_allocate_nothing)
{
    expect_no_allocation(WORDS("train.dropout=0.1", "train.accumulation_steps=2", "train.threads=2"), NULL);
}

TEST_CASE(lion_steps_on_two_threads_allocate_nothing)
{
    expect_no_allocation(WORDS("train.optimizer=lion", "train.threads=2", "model.qk_norm=true",
                               "model.qkv_bias=true", "data.shuffle=random"),
                         NULL);
}

/* A team of one thread is the only one that libgomp does not keep for the next parallel region: it allocates
 * and frees its record every time. Nothing else may. */
TEST_CASE(on_one_thread_only_the_openmp_library_allocates)
{
#ifdef SANITIZED
    print_message("a sanitizer's hook does not tell who allocates\n");
    skip();
#else
    expect_no_allocation(WORDS("train.threads=1", "train.dropout=0.1"), NULL);
#endif
}

/* Large enough that products take the matrix library's own threads and buffers. */
TEST_CASE(steps_of_a_larger_model_allocate_nothing)
{
    expect_no_allocation(WORDS("model.hidden_dim=128", "model.head_dim=64", "model.intermediate_dim=344",
                               "train.threads=2", "train.seq_len=32", "train.batch_size=3"),
                         NULL);
}

TEST_CASE(evaluations_and_orders_between_steps_allocate_nothing)
{
    struct story_order script[] = {{.at = 3, .order = {.id = 1, .verb = ORDER_LR_FACTOR, .argument = 0.5}},
                                   {.at = 5, .order = {.id = 2, .verb = ORDER_EVAL}},
                                   {.at = 6, .order = {.id = 3, .verb = ORDER_PAUSE}},
                                   {.at = 6, .order = {.id = 4, .verb = ORDER_CONTINUE}, .wait = 1},
                                   {0}};
    expect_no_allocation(WORDS("eval.every=4", "train.threads=2"), script);
}

int main(void)
{
    return TEST_RUN(start_counting, NULL);
}
