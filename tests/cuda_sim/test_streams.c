/* Streams that run as late as the runtime allows, events between them, and graphs: the parts of the pipeline
 * of a training step. The same few calls are made once correctly and once with a wait left out: with late
 * streams each missing wait must give a wrong value, and with streams that run at once it must not. */
#include <math.h>

#include "kernels/device/cuda_plugin.h"
#include "tests/cmocka.h"
#include "tests/cuda_sim/simulator.h"

extern const struct cuda_plugin cuda_plugin;

enum { N = 64, ROUNDS = 6 };

struct fixture {
    const struct backend *backend;
    struct device *device;
    struct stream *compute, *copy;
    struct event *arrived[2], *consumed[2], *landed;
    float *host[2], *result; /* page-locked */
    float *place[2], *sum;   /* on the device: (N), (N), (N) */
};

static void *device_memory(struct fixture *f, size_t bytes)
{
    struct err err = {0};
    void *memory = NULL;
    assert_int_equal(f->backend->mem_alloc(f->device, bytes, &memory, &err), STATUS_OK);
    return memory;
}

static void *host_memory(struct fixture *f, size_t bytes)
{
    struct err err = {0};
    void *memory = NULL;
    assert_int_equal(f->backend->host_alloc(f->device, bytes, &memory, &err), STATUS_OK);
    return memory;
}

static void fixture_open(struct fixture *f, bool late)
{
    struct err err = {0};
    sim_set_machine(SIM_MACHINE_GOOD);
    sim_set_late(late);
    f->backend = cuda_plugin.table;
    assert_int_equal(f->backend->device_open(DEVICE_FIRST, 0, &f->device, &err), STATUS_OK);
    assert_int_equal(f->backend->stream_open(f->device, PRECISION_FP32, &f->compute, &err), STATUS_OK);
    assert_int_equal(f->backend->stream_open(f->device, PRECISION_FP32, &f->copy, &err), STATUS_OK);
    assert_int_equal(f->backend->event_open(f->device, &f->landed, &err), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(f->backend->event_open(f->device, &f->arrived[i], &err), STATUS_OK);
        assert_int_equal(f->backend->event_open(f->device, &f->consumed[i], &err), STATUS_OK);
        f->host[i] = host_memory(f, N * sizeof(float));
        f->place[i] = device_memory(f, N * sizeof(float));
    }
    f->result = host_memory(f, N * sizeof(float));
    memset(f->result, 0, N * sizeof(float));
    f->sum = device_memory(f, N * sizeof(float));
    f->backend->mem_zero(f->sum, N * sizeof(float), f->compute);
}

static void fixture_close(struct fixture *f)
{
    f->backend->stream_close(f->compute), f->backend->stream_close(f->copy);
    f->backend->event_close(f->landed);
    for (int i = 0; i < 2; i++) {
        f->backend->event_close(f->arrived[i]), f->backend->event_close(f->consumed[i]);
        f->backend->host_free(f->device, f->host[i]);
        f->backend->mem_free(f->device, f->place[i]);
    }
    f->backend->host_free(f->device, f->result);
    f->backend->mem_free(f->device, f->sum);
    f->backend->device_close(f->device);
    sim_set_late(false);
    assert_int_equal(sim_device_bytes(), 0);
    assert_int_equal(sim_events(), 0);
    assert_int_equal(sim_graphs(), 0);
}

/* The wait that is left out. */
enum omission { NOTHING, HOST_BUFFER, ARRIVAL, CONSUMPTION, LANDING };

/* Adds up ROUNDS vectors of 1, 2, 3, …, each through page-locked memory and the copy stream, as a trainer
 * feeds batches; returns the sum's first element as the host reads it at the end. */
static float add_up(enum omission bug, bool late)
{
    struct fixture f;
    fixture_open(&f, late);
    const struct backend *be = f.backend;
    for (int round = 0; round < ROUNDS; round++) {
        int i = round % 2;
        if (bug != HOST_BUFFER) assert_int_equal(be->event_wait(f.arrived[i], f.copy, NULL), STATUS_OK);
        for (int k = 0; k < N; k++) f.host[i][k] = (float)(round + 1);
        if (bug != CONSUMPTION) be->stream_after(f.copy, f.consumed[i]);
        be->mem_upload(f.place[i], f.host[i], N * sizeof(float), f.copy);
        be->event_record(f.arrived[i], f.copy);
        if (bug != ARRIVAL) be->stream_after(f.compute, f.arrived[i]);
        be->add(f.sum, f.place[i], N, f.compute);
        be->event_record(f.consumed[i], f.compute);
    }
    be->mem_download_async(f.result, f.sum, N * sizeof(float), f.compute);
    be->event_record(f.landed, f.compute);
    if (bug != LANDING) assert_int_equal(be->event_wait(f.landed, f.compute, NULL), STATUS_OK);
    float read = f.result[0];
    fixture_close(&f);
    return read;
}

TEST_CASE(batches_arrive_in_order_however_late_streams_are)
{
    assert_true(add_up(NOTHING, false) == 21);
    assert_true(add_up(NOTHING, true) == 21);
}

TEST_CASE(each_wait_left_out_is_a_wrong_sum)
{
    static const char *const names[] = {"", "the host's buffer", "arrival", "consumption", "landing"};
    for (int bug = HOST_BUFFER; bug <= LANDING; bug++) {
        if (add_up((enum omission)bug, false) != 21)
            fail_msg("%s: wrong where streams run at once", names[bug]);
        if (add_up((enum omission)bug, true) == 21) fail_msg("%s: not found", names[bug]);
    }
}

TEST_CASE(an_event_has_not_happened_before_somebody_waits)
{
    struct fixture f;
    fixture_open(&f, true);
    assert_true(f.backend->event_done(f.landed)); /* never made: nothing to wait for */
    f.backend->event_record(f.landed, f.compute);
    assert_false(f.backend->event_done(f.landed));
    assert_int_equal(f.backend->event_wait(f.landed, f.compute, NULL), STATUS_OK);
    assert_true(f.backend->event_done(f.landed));
    fixture_close(&f);
}

/* A pageable buffer may be reused as soon as the call returns, also with late streams. */
TEST_CASE(ordinary_memory_is_read_before_the_call_returns)
{
    struct fixture f;
    float host[N] = {0}, back[N];
    fixture_open(&f, true);
    host[3] = 5;
    f.backend->mem_upload(f.sum, host, sizeof host, f.compute);
    host[3] = 6;
    f.backend->mem_download(back, f.sum, sizeof back, f.compute);
    assert_true(back[3] == 5);
    fixture_close(&f);
}

/* Only a copy to ordinary memory waits by itself. */
TEST_CASE(a_download_to_page_locked_memory_is_there_when_the_call_returns)
{
    struct fixture f;
    float host[N] = {0};
    fixture_open(&f, true);
    host[3] = 5;
    f.backend->mem_upload(f.sum, host, sizeof host, f.compute);
    f.backend->mem_download(f.result, f.sum, sizeof host, f.compute);
    assert_true(f.result[3] == 5);
    fixture_close(&f);
}

/* Nothing is staged for a device that reads such memory directly. */
TEST_CASE(ordinary_memory_may_be_reused_also_where_the_device_reads_it_itself)
{
    struct fixture f;
    float host[N] = {0}, back[N];
    sim_set_reads_host_memory(true);
    fixture_open(&f, true);
    host[3] = 5;
    f.backend->mem_upload(f.sum, host, sizeof host, f.compute);
    host[3] = 6;
    f.backend->mem_download(back, f.sum, sizeof back, f.compute);
    assert_true(back[3] == 5);
    fixture_close(&f);
    sim_set_reads_host_memory(false);
}

/* ---- faults ---- */

/* The first mark follows work that succeeded: waiting for it does not report a later failure, unless the
 * device has failed by then, because then no result is valid. */
TEST_CASE(a_mark_before_a_refused_launch_is_good)
{
    struct fixture f;
    struct err err = {0};
    fixture_open(&f, true);
    f.backend->event_record(f.landed, f.compute);
    sim_set_fault("no_room_at:1");
    f.backend->add(f.sum, f.place[0], N, f.compute);
    assert_int_equal(f.backend->stream_check(f.compute, &err), STATUS_NO_MEMORY);
    assert_non_null(strstr(err.text, "out of memory"));
    assert_int_equal(f.backend->event_wait(f.landed, f.compute, &err), STATUS_OK);
    fixture_close(&f);
}

TEST_CASE(what_is_downloaded_after_a_failure_is_no_number)
{
    struct fixture f;
    float got[2] = {1, 2};
    fixture_open(&f, true);
    sim_set_fault("no_room_at:1");
    f.backend->add(f.sum, f.place[0], N, f.compute);
    f.backend->mem_download(got, f.sum, sizeof got, f.compute);
    assert_true(isnan(got[0]) && isnan(got[1]));
    fixture_close(&f);
}

TEST_CASE(a_fault_is_reported_with_its_reason_by_whoever_finds_it)
{
    for (int finder = 0; finder < 3; finder++) {
        struct fixture f;
        struct err err = {0};
        fixture_open(&f, false);
        sim_set_fault("fault_at:1");
        f.backend->add(f.sum, f.place[0], N, f.compute);
        if (finder == 0) assert_true(f.backend->event_done(f.landed));
        if (finder == 1) f.backend->event_record(f.consumed[0], f.copy);
        if (finder == 2) assert_int_equal(f.backend->event_wait(f.landed, f.compute, &err), STATUS_DEVICE);
        assert_int_equal(f.backend->stream_check(f.compute, &err), STATUS_DEVICE);
        assert_non_null(strstr(err.text, "unspecified launch failure"));
        f.backend->stream_close(f.compute), f.backend->stream_close(f.copy);
        f.backend->event_close(f.landed);
        for (int i = 0; i < 2; i++) {
            f.backend->event_close(f.arrived[i]), f.backend->event_close(f.consumed[i]);
            f.backend->host_free(f.device, f.host[i]);
        }
        f.backend->host_free(f.device, f.result);
        f.backend->device_close(f.device);
        sim_set_machine(SIM_MACHINE_GOOD);
    }
}

/* ---- graphs ---- */

static void add_a_round(void *context)
{
    struct fixture *f = context;
    f->backend->add(f->sum, f->place[0], N, f->compute);
    f->backend->mem_copy(f->place[1], f->sum, N * sizeof(float), f->compute);
}

TEST_CASE(a_graph_runs_when_it_is_queued_and_not_when_it_is_recorded)
{
    for (int late = 0; late < 2; late++) {
        struct fixture f;
        struct graph *graph;
        struct err err = {0};
        float ones[N], back[N];
        fixture_open(&f, late);
        for (int i = 0; i < N; i++) ones[i] = 1;
        f.backend->mem_upload(f.place[0], ones, sizeof ones, f.compute);
        assert_int_equal(f.backend->graph_open(f.compute, add_a_round, &f, &graph, &err), STATUS_OK);
        f.backend->mem_download(back, f.sum, sizeof back, f.compute);
        assert_true(back[N - 1] == 0);
        uint64_t before = sim_graph_launches();
        for (int i = 0; i < 3; i++) f.backend->graph_run(graph, f.compute);
        ones[N - 1] = 10; /* what a graph reads may change between two runs */
        f.backend->mem_upload(f.place[0], ones, sizeof ones, f.compute);
        f.backend->graph_run(graph, f.compute);
        f.backend->mem_download(back, f.place[1], sizeof back, f.compute);
        assert_true(back[0] == 4 && back[N - 1] == 13);
        assert_int_equal(sim_graph_launches() - before, 4);
        f.backend->graph_close(graph);
        fixture_close(&f);
    }
}

static void add_and_wait(void *context)
{
    struct fixture *f = context;
    f->backend->add(f->sum, f->place[0], N, f->compute);
    f->backend->stream_wait(f->compute, NULL);
    f->backend->add(f->sum, f->place[0], N, f->compute);
}

static void add_from_ordinary_memory(void *context)
{
    static const float ones[N] = {1};
    struct fixture *f = context;
    f->backend->mem_upload(f->place[0], ones, sizeof ones, f->compute);
    f->backend->add(f->sum, f->place[0], N, f->compute);
}

static void add_and_allocate(void *context)
{
    struct fixture *f = context;
    struct err err;
    void *memory;
    f->backend->add(f->sum, f->place[0], N, f->compute);
    f->backend->mem_alloc(f->device, 64, &memory, &err);
}

static void add_and_ask(void *context)
{
    struct fixture *f = context;
    f->backend->add(f->sum, f->place[0], N, f->compute);
    f->backend->event_done(f->landed);
}

TEST_CASE(work_that_cannot_be_recorded_leaves_the_stream_as_it_was)
{
    struct fixture f;
    struct graph *graph = NULL;
    struct err err = {0};
    float back[N];
    fixture_open(&f, false);
    assert_int_equal(f.backend->graph_open(f.compute, add_and_wait, &f, &graph, &err), STATUS_FAILED);
    assert_non_null(strstr(err.text, "cannot be captured"));
    assert_int_equal(f.backend->graph_open(f.compute, add_from_ordinary_memory, &f, &graph, &err),
                     STATUS_FAILED);
    assert_int_equal(f.backend->graph_open(f.compute, add_and_allocate, &f, &graph, &err), STATUS_FAILED);
    assert_int_equal(f.backend->graph_open(f.compute, add_and_ask, &f, &graph, &err), STATUS_FAILED);
    assert_null(graph);
    assert_int_equal(f.backend->stream_wait(f.compute, &err), STATUS_OK);
    f.backend->mem_download(back, f.sum, sizeof back, f.compute);
    assert_true(back[0] == 0); /* no part of it ran */
    fixture_close(&f);
}

TEST_CASE(a_launch_without_memory_is_no_graph_and_no_fault)
{
    struct fixture f;
    struct graph *graph = NULL;
    struct err err = {0};
    fixture_open(&f, false);
    sim_set_fault("no_room_at:1");
    assert_int_equal(f.backend->graph_open(f.compute, add_a_round, &f, &graph, &err), STATUS_FAILED);
    assert_non_null(strstr(err.text, "out of memory"));
    assert_int_equal(f.backend->stream_wait(f.compute, &err), STATUS_OK);
    fixture_close(&f);
}

/* A graph needs device memory of its own, so it is requested where steps can continue without it. */
TEST_CASE(a_graph_without_memory_is_refused_when_it_is_recorded)
{
    struct fixture f;
    struct graph *graph = NULL;
    struct err err = {0};
    fixture_open(&f, false);
    sim_set_machine(SIM_MACHINE_FULL);
    assert_int_equal(f.backend->graph_open(f.compute, add_a_round, &f, &graph, &err), STATUS_FAILED);
    assert_non_null(strstr(err.text, "out of memory"));
    sim_set_machine(SIM_MACHINE_GOOD);
    assert_null(graph);
    assert_int_equal(sim_graphs(), 0);
    assert_int_equal(f.backend->stream_wait(f.compute, &err), STATUS_OK);
    fixture_close(&f);
}

TEST_MAIN()
