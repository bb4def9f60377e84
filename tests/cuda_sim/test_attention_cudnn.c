/* Attention by cuDNN, whose stand-in computes the graphs as NVIDIA documents their operations: that they are
 * attention, and when they are used. */
#include <dlfcn.h>
#include <limits.h>
#include <math.h>

#include "core/base/file.h"
#include "core/base/half.h"
#include "core/base/philox.h"
#include "kernels/device/cuda_plugin.h"
#include "kernels/partition.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"
#include "tests/core/train/story.h"
#include "tests/cuda_sim/simulator.h"

extern const struct cuda_plugin cuda_plugin;

enum { SIZE_MAX_ELEMENTS = 1 << 16 };

/* A device, a stream in bf16 and an attention's operands on it. */
struct side {
    const struct backend *k;
    struct device *device;
    struct stream *stream;
    struct attention_problem p;
    void *qkv, *dout, *out, *dqkv, *scratch, *workspace, *warming, *angles;
    float *lse;
    int warnings;
    char warning[512];
};

/* The outputs of the forward and the backward pass. */
struct results {
    uint16_t out[SIZE_MAX_ELEMENTS], dqkv[SIZE_MAX_ELEMENTS];
    float lse[SIZE_MAX_ELEMENTS];
};

static size_t qkv_elements(const struct attention_problem *p)
{
    return (size_t)p->B * (size_t)p->T * (size_t)(p->NH + 2 * p->NKV) * (size_t)p->HS;
}

static size_t row_count(const struct attention_problem *p)
{
    return (size_t)p->B * (size_t)p->T * (size_t)p->NH;
}

static void *take(struct side *s, size_t bytes)
{
    struct err err;
    void *memory;
    if (s->k->mem_alloc(s->device, bytes, &memory, &err)) fail_msg("%s", err.text);
    s->k->mem_zero(memory, bytes, s->stream);
    return memory;
}

static void *noise(struct side *s, size_t n, uint32_t seed)
{
    static uint16_t values[SIZE_MAX_ELEMENTS];
    void *memory = take(s, n * sizeof *values);
    assert_true(n <= SIZE_MAX_ELEMENTS);
    for (uint32_t i = 0; i < n; i++)
        values[i] = bf16_of_float(2 * philox_uniform(philox4x32_10(i, 0, 0, 0, seed, 0).word[0]) - 1);
    s->k->mem_upload(memory, values, n * sizeof *values, s->stream);
    return memory;
}

static void side_open(struct side *s, struct attention_problem p)
{
    struct err err;
    *s = (struct side){.k = cuda_plugin.table, .p = p};
    if (s->k->device_open(DEVICE_FIRST, 1, &s->device, &err) ||
        s->k->stream_open(s->device, PRECISION_BF16, &s->stream, &err))
        fail_msg("%s", err.text);
    size_t out = row_count(&p) * (size_t)p.HS, angles = (size_t)p.T * (size_t)p.HS;
    float *turn = calloc(angles, sizeof *turn);
    assert_non_null(turn);
    for (size_t i = 0; i < angles; i++)
        turn[i] = i % 2 ? sinf((float)i * 0.01f) : cosf((float)(i + 1) * 0.01f);
    s->qkv = noise(s, qkv_elements(&p), 1);
    s->dout = noise(s, out, 2);
    s->out = take(s, out * 2);
    s->dqkv = take(s, qkv_elements(&p) * 2);
    s->lse = take(s, row_count(&p) * sizeof(float));
    s->angles = take(s, angles * sizeof(float));
    s->scratch = take(s, attention_workspace(p.B, p.T, p.NH, p.NKV, p.HS));
    s->k->mem_upload(s->angles, turn, angles * sizeof *turn, s->stream);
    free(turn);
}

static void side_close(struct side *s)
{
    void *const taken[] = {s->qkv,    s->dout,    s->out,       s->dqkv,   s->lse,
                           s->angles, s->scratch, s->workspace, s->warming};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (taken[i]) s->k->mem_free(s->device, taken[i]);
    s->k->stream_close(s->stream);
    s->k->device_close(s->device);
    assert_int_equal(sim_device_bytes(), 0);
}

static bool on_progress(void *context, int done, int total)
{
    (void)context, (void)done, (void)total;
    return true;
}

static void on_warning(void *context, const char *sentence)
{
    struct side *s = context;
    s->warnings++;
    snprintf(s->warning, sizeof s->warning, "%s", sentence);
}

static enum status on_scratch(void *context, size_t bytes, void **out, struct err *err)
{
    struct side *s = context;
    enum status status = s->k->mem_alloc(s->device, bytes, &s->warming, err);
    *out = s->warming;
    return status;
}

static enum status side_warm(struct side *s, const char *folder, bool cudnn, struct err *err)
{
    struct attention_problem problems[2] = {s->p, s->p};
    problems[1].backward = true;
    struct warm_work work = {.attentions = problems, .attention_count = 2, .cudnn = cudnn};
    struct warm_watch watch = {folder, s, on_progress, on_warning, on_scratch};
    size_t bytes = s->k->library_workspace(s->device, &problems[1]);
    enum status status = s->k->warm(s->stream, &work, &watch, err);
    s->workspace = take(s, bytes);
    s->k->workspace_lend(s->stream, s->workspace, bytes);
    return status;
}

static void side_warm_well(struct side *s, const char *folder, bool cudnn)
{
    struct err err;
    if (side_warm(s, folder, cudnn, &err)) fail_msg("%s", err.text);
}

/* Both passes. Returns how many of them cuDNN computed. */
static int side_run(struct side *s, struct results *r)
{
    struct err err;
    const struct attention_problem *p = &s->p;
    uint64_t before = sim_library_calls();
    s->k->attention_forward(s->out, s->lse, s->qkv, NULL, s->scratch, p->B, p->T, p->NH, p->NKV, p->HS,
                            p->window, s->stream);
    s->k->attention_backward(s->dqkv, s->dout, s->out, s->lse, s->qkv, NULL, s->angles, s->scratch, p->B,
                             p->T, p->NH, p->NKV, p->HS, p->window, s->stream);
    s->k->mem_download(r->out, s->out, row_count(p) * (size_t)p->HS * 2, s->stream);
    s->k->mem_download(r->dqkv, s->dqkv, qkv_elements(p) * 2, s->stream);
    s->k->mem_download(r->lse, s->lse, row_count(p) * sizeof(float), s->stream);
    if (s->k->stream_wait(s->stream, &err)) fail_msg("%s", err.text);
    return (int)(sim_library_calls() - before);
}

static void expect_close(const uint16_t *a, const uint16_t *b, size_t n, double tolerance)
{
    double most = 0, apart = 0;
    for (size_t i = 0; i < n; i++) {
        double x = float_of_bf16(a[i]), y = float_of_bf16(b[i]);
        most = fmax(most, fabs(x));
        apart = fmax(apart, fabs(x - y));
        if (isnan(y)) fail_msg("element %zu is not a number", i);
    }
    if (!(apart <= tolerance * most)) fail_msg("apart by %g of %g", apart, most);
}

/* ---- what is computed ---- */

TEST_CASE(cudnn_computes_what_our_own_kernels_compute)
{
    static const struct {
        struct attention_problem p;
        int major, minor;
        const char *words;
        int passes;
    } cases[] = {
        {{.B = 2, .T = 37, .NH = 2, .NKV = 2, .HS = 64}, 9, 0, "newest", 2},
        {{.B = 2, .T = 37, .NH = 4, .NKV = 2, .HS = 64}, 9, 0, "newest", 2},
        {{.B = 1, .T = 50, .NH = 4, .NKV = 1, .HS = 128, .window = 7}, 9, 0, "newest", 2},
        {{.B = 1, .T = 33, .NH = 2, .NKV = 2, .HS = 24, .window = 33}, 9, 0, "newest", 2},
        {{.B = 2, .T = 37, .NH = 4, .NKV = 2, .HS = 64, .window = 5}, 10, 0, "", 2},
        {{.B = 2, .T = 20, .NH = 3, .NKV = 3, .HS = 128}, 10, 0, "newest", 2},
        {{.B = 2, .T = 37, .NH = 4, .NKV = 2, .HS = 64, .window = 5}, 9, 0, "", 1},
        {{.B = 2, .T = 37, .NH = 4, .NKV = 2, .HS = 64}, 8, 0, "newest", 1},
        {{.B = 1, .T = 9, .NH = 2, .NKV = 2, .HS = 12}, 10, 0, "newest", 0},
    };
    static struct results own, theirs, again;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct side s;
        setenv("ANNEAL_SIM_CUDNN", cases[i].words, 1);
        sim_set_capability(cases[i].major, cases[i].minor);
        side_open(&s, cases[i].p);
        assert_int_equal(side_run(&s, &own), 0);
        side_warm_well(&s, NULL, true);
        assert_int_equal(side_run(&s, &theirs), cases[i].passes);
        assert_int_equal(side_run(&s, &again), cases[i].passes);
        size_t out = row_count(&s.p) * (size_t)s.p.HS;
        expect_close(own.out, theirs.out, out, 0.01);
        expect_close(own.dqkv, theirs.dqkv, qkv_elements(&s.p), 0.02);
        for (size_t r = 0; r < row_count(&s.p); r++) assert_true(fabsf(own.lse[r] - theirs.lse[r]) < 1e-3f);
        assert_memory_equal(theirs.dqkv, again.dqkv, qkv_elements(&s.p) * 2);
        assert_int_equal(s.warnings, 2 - cases[i].passes);
        side_close(&s);
    }
    unsetenv("ANNEAL_SIM_CUDNN");
    sim_set_capability(9, 0);
}

/* Rows of several sequences, and operands off their boundary, are for our own kernels. */
TEST_CASE(what_cudnn_does_not_take_is_computed_nevertheless)
{
    static struct results r;
    struct side s;
    struct err err;
    int32_t positions[20];
    setenv("ANNEAL_SIM_CUDNN", "newest", 1);
    side_open(&s, (struct attention_problem){.B = 1, .T = 20, .NH = 2, .NKV = 2, .HS = 64});
    side_warm_well(&s, NULL, true);
    assert_int_equal(side_run(&s, &r), 2);
    for (int t = 0; t < 20; t++) positions[t] = t % 7;
    int32_t *at = take(&s, sizeof positions);
    s.k->mem_upload(at, positions, sizeof positions, s.stream);
    uint64_t before = sim_library_calls();
    s.k->attention_forward(s.out, s.lse, s.qkv, at, s.scratch, 1, 20, 2, 2, 64, 0, s.stream);
    s.k->attention_forward((char *)s.out + 8, s.lse, s.qkv, NULL, s.scratch, 1, 19, 2, 2, 64, 0, s.stream);
    s.k->workspace_lend(s.stream, NULL, 0);
    s.k->attention_forward(s.out, s.lse, s.qkv, NULL, s.scratch, 1, 20, 2, 2, 64, 0, s.stream);
    if (s.k->stream_wait(s.stream, &err)) fail_msg("%s", err.text);
    assert_int_equal(sim_library_calls(), before);
    s.k->mem_free(s.device, at);
    side_close(&s);
    unsetenv("ANNEAL_SIM_CUDNN");
}

/* ---- which is chosen ---- */

static int passes_with(const char *words, const char *folder, const char *warning)
{
    static struct results r;
    struct device_info info;
    struct side s;
    setenv("ANNEAL_SIM_CUDNN", words, 1);
    side_open(&s, (struct attention_problem){.B = 1, .T = 40, .NH = 4, .NKV = 2, .HS = 64, .window = 9});
    side_warm_well(&s, folder, false);
    if (!warning && s.warnings) fail_msg("%s: %s", words, s.warning);
    if (warning && !strstr(s.warning, warning)) fail_msg("%s: %s", words, s.warning);
    int passes = side_run(&s, &r);
    s.k->device_describe(s.device, &info); /* on what a run's last digits depend */
    if (!strstr(info.computes, "cuDNN 9.") != !passes) fail_msg("%s: %s", words, info.computes);
    side_close(&s);
    unsetenv("ANNEAL_SIM_CUDNN");
    return passes;
}

TEST_CASE(it_is_taken_if_it_is_faster_and_right_and_repeats_itself)
{
    assert_int_equal(passes_with("newest", NULL, NULL), 2);
    assert_int_equal(passes_with("newest slow", NULL, NULL), 0);
    assert_int_equal(passes_with("old", NULL, NULL), 0);
    assert_int_equal(passes_with("newest wrong", NULL, "its results differ from our own by"), 0);
    assert_int_equal(passes_with("newest unsteady", NULL, "it gives other results the second time"), 0);
    assert_int_equal(passes_with("newest refuses", NULL, "it does not run"), 0);
}

TEST_CASE(a_choice_holds_in_the_next_process_and_for_this_version)
{
    char *folder = rig_path("choices");
    assert_int_equal(passes_with("newest", folder, NULL), 2);
    assert_int_equal(passes_with("newest slow", folder, NULL), 2); /* as it was measured before */
    assert_int_equal(passes_with("slow", folder, NULL), 0);        /* another version */
    assert_int_equal(passes_with("", folder, NULL), 0);
    free(folder);
}

TEST_CASE(who_asks_for_it_must_have_it)
{
    struct side s;
    struct err err;
    setenv("ANNEAL_SIM_CUDNN", "old", 1);
    side_open(&s, (struct attention_problem){.B = 1, .T = 8, .NH = 1, .NKV = 1, .HS = 64});
    assert_int_equal(side_warm(&s, NULL, true, &err), STATUS_NOT_FOUND);
    assert_string_equal(
        err.text, "kernels.attention = cudnn: libcudnn.so.9 is older than cuDNN 9.19 (install a newer one)");
    side_close(&s);
    unsetenv("ANNEAL_SIM_CUDNN");
}

TEST_CASE(a_pass_that_fails_is_reported)
{
    struct side s;
    struct err err = {0};
    setenv("ANNEAL_SIM_CUDNN", "newest", 1);
    side_open(&s, (struct attention_problem){.B = 1, .T = 8, .NH = 1, .NKV = 1, .HS = 64});
    side_warm_well(&s, NULL, true);
    setenv("ANNEAL_SIM_CUDNN", "newest refuses", 1);
    s.k->attention_forward(s.out, s.lse, s.qkv, NULL, s.scratch, 1, 8, 1, 1, 64, 0, s.stream);
    assert_int_equal(s.k->stream_wait(s.stream, &err), STATUS_DEVICE);
    if (!strstr(err.text, "attention by cuDNN")) fail_msg("%s", err.text);
    if (!strstr(err.text, "CUDNN_STATUS_EXECUTION_FAILED")) fail_msg("%s", err.text);
    side_close(&s);
    unsetenv("ANNEAL_SIM_CUDNN");
}

/* ---- training ---- */

static void train(struct session *s, const char *name, const char *attention, const char *graph)
{
    const char *const words[] = {attention,          graph, "train.total_steps=10", "train.precision=bf16",
                                 "model.head_dim=8", NULL};
    session_open(s, name, cuda_plugin.table, words, 900);
    session_start(s, false);
    assert_int_equal(session_run(s), TRAIN_FINISHED);
}

/* Call by call and as recorded graphs. */
TEST_CASE(a_model_learns_with_cudnn_as_with_our_own_kernels)
{
    struct session own, calls, graphs;
    setenv("ANNEAL_SIM_CUDNN", "newest", 1);
    uint64_t before = sim_library_calls();
    train(&own, "own", "kernels.attention=own", "train.graph=off");
    assert_int_equal(sim_library_calls(), before);
    train(&calls, "calls", "kernels.attention=cudnn", "train.graph=off");
    assert_true(sim_library_calls() - before >= 2 * 10); /* both passes of each step, at least */
    uint64_t recorded = sim_graph_launches();
    train(&graphs, "graphs", "kernels.attention=auto", "train.graph=on");
    assert_true(sim_graph_launches() > recorded);
    for (int i = 0; i < 10; i++) {
        double want = own.story.steps[i].loss, got = calls.story.steps[i].loss;
        if (!(fabs(got - want) <= 2e-3 * want)) fail_msg("step %d: %g and %g", i, got, want);
        assert_true(graphs.story.steps[i].loss == got);
    }
    assert_true(calls.story.steps[9].grad_norm != own.story.steps[9].grad_norm);
    session_close(&own), session_close(&calls), session_close(&graphs);
    unsetenv("ANNEAL_SIM_CUDNN");
}

int main(void)
{
    char path[PATH_MAX];
    struct err err;
    if (file_of_program("stand_in/cudnn/libcudnn.so.9", path, sizeof path, &err)) return 1;
    if (!dlopen(path, RTLD_NOW)) return 1;
    return TEST_RUN(NULL, NULL);
}
