/* The trainer's reports on memory: a request that can never fit, who decides about free memory, and the
 * memory in use. */
#include "tests/cmocka.h"
#include "tests/core/train/story.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST_CASE(memory_is_reported_also_where_nothing_else_is_due)
{
    struct session s;
    session_open(&s, "reported", NULL, WORDS("train.total_steps=350"), 2000);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    /* at the start and every hundred steps; with the last evaluation and the last checkpoint */
    assert_int_equal(s.story.memory_reports, 1 + 3 + s.story.eval_count + s.story.checkpoint_count);
    session_close(&s);
}

/* Others would else take it for still to come and for another program's at once, until the first step. */
TEST_CASE(what_the_device_has_given_is_reported_before_the_first_step)
{
    struct session s;
    session_open(&s, "given", NULL, WORDS("train.total_steps=1"), 2000);
    session_start(&s, false);
    int64_t given = s.story.used_bytes;
    assert_int_equal(s.story.memory_reports, 0);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_true(given > s.story.used_bytes / 2 && given <= s.story.used_bytes);
    session_close(&s);
}

/* The CPU, of which others hold nearly everything. */
static void nearly_full(struct device *device, struct device_info *out)
{
    cpu_backend()->device_describe(device, out);
    out->available_bytes = 4096;
}

/* The observer reserves memory and may wait for it, so the trainer must not fail on free memory before asking
 * the observer. */
TEST_CASE(memory_that_others_hold_is_left_to_who_reserves)
{
    struct session s;
    struct backend backend = *cpu_backend();
    backend.device_describe = nearly_full;
    session_open(&s, "nearly-full", &backend, WORDS("train.total_steps=1"), 2000);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    session_close(&s);
}

static void tiny(struct device *device, struct device_info *out)
{
    cpu_backend()->device_describe(device, out);
    out->total_bytes = 4096;
}

TEST_CASE(more_than_the_device_has_fails_at_once)
{
    struct session s;
    struct err err = {0};
    struct backend backend = *cpu_backend();
    backend.device_describe = tiny;
    session_open(&s, "tiny", &backend, WORDS("train.total_steps=1"), 2000);
    assert_int_equal(session_try(&s, &err), STATUS_NO_MEMORY);
    assert_non_null(strstr(err.text, ", cpu has 4.0 KiB (use a smaller model"));
    session_close(&s);
}

/* ---- what warming up is tried on ---- */

static struct {
    enum status ends; /* how warming up does */
    int live, given;  /* blocks of device memory */
} warmed;

static enum status counted_alloc(struct device *device, size_t bytes, void **out, struct err *err)
{
    if (bytes > (size_t)1 << 40) return err_set(err, STATUS_NO_MEMORY, "full");
    warmed.live++;
    warmed.given++;
    return cpu_backend()->mem_alloc(device, bytes, out, err);
}

static void counted_free(struct device *device, void *memory)
{
    warmed.live--;
    cpu_backend()->mem_free(device, memory);
}

static enum status warm(struct stream *stream, const struct warm_work *work, const struct warm_watch *watch,
                        struct err *err)
{
    void *memory;
    (void)stream, (void)work;
    enum status status = watch->scratch(watch->context, 4096, &memory, err);
    assert_int_equal(status, STATUS_OK);
    memset(memory, 1, 4096);
    if (warmed.ends == STATUS_NO_MEMORY) return watch->scratch(watch->context, (size_t)1 << 41, &memory, err);
    return warmed.ends ? err_set(err, warmed.ends, "warming up failed") : STATUS_OK;
}

TEST_CASE(warming_up_gives_its_memory_back_on_every_way_out)
{
    static const enum status ends[] = {STATUS_DEVICE, STATUS_INTERRUPTED, STATUS_NO_MEMORY, STATUS_OK};
    for (int i = 0; i < 4; i++) {
        struct session s;
        struct err err = {0};
        struct backend backend = *cpu_backend();
        backend.mem_alloc = counted_alloc;
        backend.mem_free = counted_free;
        backend.warm = warm;
        warmed.ends = ends[i];
        warmed.live = warmed.given = 0;
        session_open(&s, "warm", &backend, WORDS("train.total_steps=1"), 2000);
        assert_int_equal(session_try(&s, &err), ends[i]);
        if (ends[i] == STATUS_OK) {
            assert_int_equal(warmed.live, 1); /* the network's arena */
            assert_int_equal(session_run(&s), TRAIN_FINISHED);
        }
        if (ends[i] == STATUS_NO_MEMORY)
            assert_non_null(strstr(err.text, "warming up: no room for 2.0 TiB (in use: warming up 4.0 KiB"));
        session_close(&s);
        assert_true(warmed.given > 0);
        assert_int_equal(warmed.live, 0);
    }
}

TEST_MAIN()
