/* How many threads the CPU computes with, and what is said about it. */
#include "kernels/device/cpu_threads.h"

#include <limits.h>

#include "tests/cmocka.h"

/* Eight processors, and nothing that restricts them. */
static const struct cpu_threads plain = {.most = INT_MAX, .online = 8, .allowed = 8};

static void expect(struct cpu_threads facts, int threads, const char *severity, const char *part)
{
    char sentence[300] = "";
    const char *found = cpu_threads_note(&facts, sentence, sizeof sentence);
    assert_int_equal(cpu_threads_choose(&facts), threads);
    if (!severity) assert_null(found);
    if (!severity) return;
    assert_non_null(found);
    assert_string_equal(found, severity);
    if (!strstr(sentence, part)) fail_msg("\"%s\" lacks \"%s\"", sentence, part);
    assert_true(strlen(sentence) < sizeof sentence - 1);
}

TEST_CASE(without_a_restriction_there_is_nothing_to_say)
{
    struct cpu_threads t = plain;
    expect(t, 8, NULL, NULL);
    t.asked = 3;
    expect(t, 3, NULL, NULL);
    t = plain;
    t.wanted = 2;
    expect(t, 2, NULL, NULL);
    t.asked = 8;
    expect(t, 8, NULL, NULL);
    t = plain;
    t.spinning = true;
    expect(t, 8, NULL, NULL);
}

TEST_CASE(threads_follow_a_control_group)
{
    struct cpu_threads t = plain;
    t.limit = 2.5;
    expect(t, 3, "info", "a control group leaves 2.5 of 8 processors: training with 3 threads");
    t.limit = 1;
    expect(t, 1, "info", "training with 1 thread");
    t.limit = 20;
    expect(t, 8, NULL, NULL);
    t.limit = 2.5;
    t.wanted = 2; /* someone has thought of it */
    expect(t, 2, NULL, NULL);
    t.wanted = 8;
    expect(t, 8, "warning", "share 3 processors, as a control group limits their time");
}

TEST_CASE(threads_follow_the_affinity)
{
    struct cpu_threads t = plain;
    t.allowed = 1;
    expect(t, 1, "info", "the affinity of the process allows 1 of 8 processors");
    t.asked = 4;
    expect(t, 4, "warning", "as the affinity of the process allows no more");
    t.limit = 8; /* a control group that limits nothing */
    expect(t, 4, "warning", "as the affinity of the process allows no more");
}

TEST_CASE(more_threads_than_processors_are_used_and_reported)
{
    struct cpu_threads t = plain;
    t.wanted = 64;
    expect(t, 64, "warning",
           "OMP_NUM_THREADS = 64: the threads share 8 processors, which makes steps slower (unset it, or set "
           "train.threads = 8)");
    t.asked = 9;
    expect(t, 9, "warning",
           "train.threads = 9: the threads share 8 processors, which makes steps slower (at most 8");
    t.asked = 0;
    t.wanted = 60000;
    expect(t, CPU_THREADS_MAX, "warning", "OMP_NUM_THREADS = 1024");
}

TEST_CASE(openmps_limit_of_threads_is_reported)
{
    struct cpu_threads t = plain;
    t.most = 4;
    expect(t, 4, "warning", "OMP_THREAD_LIMIT = 4 leaves processors unused");
    t.asked = 6;
    expect(t, 4, "warning", "OMP_THREAD_LIMIT = 4");
    t.asked = 4;
    expect(t, 4, NULL, NULL);
    t = plain;
    t.most = 8;
    expect(t, 8, NULL, NULL);
}

TEST_CASE(spinning_under_a_limit_is_reported)
{
    struct cpu_threads t = plain;
    t.limit = 1.5;
    t.spinning = true;
    expect(t, 2, "warning", "waiting threads spin, and a control group leaves 1.5 of 8 processors");
    t.limit = 1;
    expect(t, 1, "info", "training with 1 thread");
}

TEST_CASE(the_environment_is_read)
{
    setenv("OMP_WAIT_POLICY", "ACTIVE", 1);
    assert_true(cpu_threads_look(0).spinning);
    setenv("GOMP_SPINCOUNT", "0", 1); /* counts more */
    assert_false(cpu_threads_look(0).spinning);
    setenv("GOMP_SPINCOUNT", "infinite", 1);
    assert_true(cpu_threads_look(0).spinning);
    unsetenv("GOMP_SPINCOUNT");
    unsetenv("OMP_WAIT_POLICY");
    assert_false(cpu_threads_look(0).spinning);
    setenv("OMP_NUM_THREADS", "5", 1);
    assert_int_equal(cpu_threads_look(2).wanted, 5);
    assert_int_equal(cpu_threads_look(2).asked, 2);
    unsetenv("OMP_NUM_THREADS");
}

TEST_MAIN()
