/* Chooses between our own attention and cuDNN's, see warming.cuh. Both compute the same problem of random
 * numbers by the slots that a training calls. cuDNN's is taken if it is faster, gives the same bits twice,
 * and agrees with ours as far as two orders of addition in bf16 can. */
#include "kernels/attention.cuh"
#include "kernels/attention_cudnn.cuh"

extern "C" {
#include "kernels/partition.h"
}

#include <stdio.h>
#include <string.h>

enum { ALIGN = 256, BLOCKS = 128, BLOCK = 256 };

/* Of the largest number. */
constexpr float AGREEMENT = 1.0f / 32;

/* ---- numbers ---- */

/* In [−1, 1), a function of the index. */
__global__ void attention_noise(bf16 *__restrict__ x, size_t n, uint32_t seed)
{
    for (size_t i = (size_t)blockIdx.x * BLOCK + threadIdx.x; i < n; i += (size_t)gridDim.x * BLOCK) {
        uint32_t h = ((uint32_t)i ^ seed) * 0x9e3779b9u;
        h = (h ^ h >> 16) * 0x85ebca6bu;
        h = (h ^ h >> 13) * 0xc2b2ae35u;
        x[i] = __float2bfloat16_rn((float)(h >> 8) * (2.0f / (1 << 24)) - 1.0f);
    }
}

/* Cosine and sine of the same angle everywhere. */
__global__ void attention_angles(float *__restrict__ x, size_t n)
{
    for (size_t i = (size_t)blockIdx.x * BLOCK + threadIdx.x; i < n; i += (size_t)gridDim.x * BLOCK)
        x[i] = i % 2 == 0 ? 0.6f : 0.8f;
}

/* partial (gridDim.x, 2) = the largest |a − b| and |a| of a block's elements; infinite where b is not a
 * number. */
template <typename T>
__global__ void attention_compare(float *__restrict__ partial, const T *__restrict__ a,
                                  const T *__restrict__ b, size_t n)
{
    float apart = 0, most = 0;
    for (size_t i = (size_t)blockIdx.x * BLOCK + threadIdx.x; i < n; i += (size_t)gridDim.x * BLOCK) {
        float x = load<1>(a + i).at[0], difference = fabsf(load<1>(b + i).at[0] - x);
        apart = fmaxf(apart, difference <= 3e38f ? difference : INFINITY);
        most = fmaxf(most, fabsf(x));
    }
    apart = block_max(apart);
    most = block_max(most);
    if (threadIdx.x == 0) {
        partial[2 * blockIdx.x] = apart;
        partial[2 * blockIdx.x + 1] = most;
    }
}

/* ---- trials ---- */

/* Results are there twice: [0] of our own kernels, then cuDNN's first ones; [1] the others. */
struct trial {
    struct warming *warming;
    const struct attention_problem *problem;
    const struct attention_compiled *compiled;
    bool cudnn; /* whether the next run is by cuDNN */
    int to;     /* where it writes */
    size_t qkv_elements, out_elements, rows;
    bf16 *qkv, *dout, *out[2], *dqkv[2];
    float *lse[2], *angles, *partial;
    void *scratch;
};

/* Places the operands from `at` on; returns their end. */
static unsigned char *trial_place(struct trial *t, const struct attention_problem *p, unsigned char *at)
{
    auto take = [&](size_t bytes) {
        unsigned char *from = at;
        at += (bytes + ALIGN - 1) / ALIGN * ALIGN;
        return from;
    };
    t->rows = (size_t)p->B * (size_t)p->T * (size_t)p->NH;
    t->out_elements = t->rows * (size_t)p->HS;
    t->qkv_elements = (size_t)p->B * (size_t)p->T * (size_t)(p->NH + 2 * p->NKV) * (size_t)p->HS;
    t->qkv = (bf16 *)take(t->qkv_elements * sizeof(bf16));
    t->dout = (bf16 *)take(t->out_elements * sizeof(bf16));
    t->partial = (float *)take(2 * BLOCKS * sizeof(float));
    t->angles = (float *)take((size_t)p->T * (size_t)p->HS * sizeof(float));
    t->scratch = take(attention_workspace(p->B, p->T, p->NH, p->NKV, p->HS));
    for (int i = 0; i < 2; i++) {
        t->out[i] = (bf16 *)take(t->out_elements * sizeof(bf16));
        t->lse[i] = (float *)take(t->rows * sizeof(float));
        t->dqkv[i] = (bf16 *)take(t->qkv_elements * sizeof(bf16));
    }
    return at;
}

size_t attention_trial_bytes(const struct attention_problem *problem)
{
    struct trial t = {};
    return (size_t)(trial_place(&t, problem, NULL) - (unsigned char *)NULL);
}

/* Numbers for all, and for the backward pass what a forward pass of our own makes of them. */
static void trial_fill(struct trial *t)
{
    const struct attention_problem *p = t->problem;
    struct stream *stream = t->warming->stream;
    LAUNCH(attention_noise, BLOCKS, BLOCK, 0, stream, t->qkv, t->qkv_elements, 1u);
    LAUNCH(attention_noise, BLOCKS, BLOCK, 0, stream, t->dout, t->out_elements, 2u);
    LAUNCH(attention_angles, BLOCKS, BLOCK, 0, stream, t->angles, (size_t)p->T * (size_t)p->HS);
    if (!p->backward) return;
    attention_forward(t->out[0], t->lse[0], t->qkv, NULL, t->scratch, p->B, p->T, p->NH, p->NKV, p->HS,
                      p->window, stream);
}

/* The backward pass rotates, too: our own kernels do that on the way. cuDNN may refuse. */
static bool trial_run(void *context)
{
    struct trial *t = (struct trial *)context;
    const struct attention_problem *p = t->problem;
    struct stream *stream = t->warming->stream;
    if (t->cudnn) attention_cudnn_take(stream->device, t->compiled);
    if (p->backward)
        attention_backward(t->dqkv[t->to], t->dout, t->out[0], t->lse[0], t->qkv, NULL, t->angles, t->scratch,
                           p->B, p->T, p->NH, p->NKV, p->HS, p->window, stream);
    else
        attention_forward(t->out[t->to], t->lse[t->to], t->qkv, NULL, t->scratch, p->B, p->T, p->NH, p->NKV,
                          p->HS, p->window, stream);
    if (t->cudnn) attention_cudnn_return(stream->device);
    if (stream->fault_at == NULL || stream->device->lost) return true;
    stream_forget(stream);
    return false;
}

/* The largest difference of the two results, as a share of the largest number. */
template <typename T>
static enum status trial_apart(struct trial *t, const T *a, const T *b, size_t n, float *out, struct err *err)
{
    float partial[2 * BLOCKS], most = 0, apart = 0;
    struct stream *stream = t->warming->stream;
    LAUNCH(attention_compare<T>, BLOCKS, BLOCK, 0, stream, t->partial, a, b, n);
    mem_download(partial, t->partial, sizeof partial, stream);
    enum status status = stream_wait(stream, err);
    for (int i = 0; i < BLOCKS; i++) {
        apart = fmaxf(apart, partial[2 * i]);
        most = fmaxf(most, partial[2 * i + 1]);
    }
    *out = apart == 0 ? 0 : apart / most;
    return status;
}

/* The same of all that the pass writes. */
static enum status trial_compare(struct trial *t, float *apart, struct err *err)
{
    float of_lse = 0;
    if (t->problem->backward) return trial_apart(t, t->dqkv[0], t->dqkv[1], t->qkv_elements, apart, err);
    enum status status = trial_apart(t, t->out[0], t->out[1], t->out_elements, apart, err);
    if (!status) status = trial_apart(t, t->lse[0], t->lse[1], t->rows, &of_lse, err);
    if (of_lse > *apart) *apart = of_lse;
    return status;
}

/* Whether cuDNN computes the problem as it must; if not, `why`. */
static enum status trial_judge(struct trial *t, bool *good, char *why, size_t size, struct err *err)
{
    double microseconds[3] = {};
    float apart = 0, again = 0;
    enum status status = STATUS_OK;
    *good = false;
    for (int i = 0; i < 3 && !status; i++) {
        t->cudnn = i > 0, t->to = i == 1;
        status = warming_time(t->warming, trial_run, t, &microseconds[i], err);
        if (!status && i == 1) status = trial_compare(t, &apart, err);
    }
    if (!status) status = trial_compare(t, &again, err);
    if (status) return status;
    *good = microseconds[1] >= 0 && microseconds[2] >= 0 && apart <= AGREEMENT && again == 0;
    if (microseconds[1] < 0 || microseconds[2] < 0)
        snprintf(why, size, "it does not run");
    else if (apart > AGREEMENT)
        snprintf(why, size, "its results differ from our own by %.2g of the largest", apart);
    else if (again > 0)
        snprintf(why, size, "it gives other results the second time");
    return STATUS_OK;
}

static enum status trial_faster(struct trial *t, bool *cudnn, struct err *err)
{
    double least[2] = {INFINITY, INFINITY}, once = 0;
    enum status status = STATUS_OK;
    for (int i = 0; i < 2 * WARM_ROUNDS && !status; i++) {
        t->cudnn = i % 2, t->to = 1;
        status = warming_time(t->warming, trial_run, t, &once, err);
        if (!status && once >= 0 && once < least[t->cudnn]) least[t->cudnn] = once;
    }
    *cudnn = least[1] < least[0];
    return status;
}

/* ---- choosing ---- */

enum { OURS = 1, CUDNN = 2 }; /* a stored choice */

static struct choice choice_of(const struct attention_problem *p, const struct cudnn *cudnn)
{
    const int32_t numbers[] = {p->B, p->T, p->NH, p->NKV, p->HS, p->window, p->backward, cudnn->version};
    struct choice choice = {};
    memcpy(choice.key, "attention", 8); /* no product has so many rows */
    memcpy(choice.key + 8, numbers, sizeof numbers);
    static_assert(sizeof choice.key == 8 + sizeof numbers);
    return choice;
}

static void tell(struct warming *w, const struct attention_problem *p, const char *why)
{
    struct err sentence;
    err_set(&sentence, STATUS_FAILED, "cuda: our own kernels compute the %s pass of attention: %s",
            p->backward ? "backward" : "forward", why);
    w->watch->warning(w->watch->context, sentence.text);
}

/* *cudnn: whether cuDNN's results can be used and come faster than ours. If they cannot be used, the watch
 * gets a warning. */
static enum status try_both(struct warming *w, const struct attention_problem *problem,
                            const struct attention_compiled *compiled, bool *cudnn, struct err *err)
{
    struct trial t = {};
    char why[120] = "";
    bool good = false;
    t.warming = w, t.problem = problem, t.compiled = compiled;
    trial_place(&t, problem, w->scratch);
    trial_fill(&t);
    enum status status = trial_judge(&t, &good, why, sizeof why, err);
    if (!status && good) status = trial_faster(&t, cudnn, err);
    if (!status && !good) tell(w, problem, why);
    return status;
}

enum status attention_choose(struct warming *w, const struct attention_problem *problem, bool cudnn,
                             struct err *err)
{
    struct device *device = w->stream->device;
    struct attention_compiled compiled;
    struct err why = {};
    enum status status = attention_cudnn_open(device, &why);
    if (status && cudnn) return err_set(err, STATUS_NOT_FOUND, "kernels.attention = cudnn: %s", why.text);
    if (status || w->stream->precision != PRECISION_BF16 ||
        device->attention->count == ATTENTION_COMPILED_MAX)
        return STATUS_OK;
    struct choice choice = choice_of(problem, &device->attention->cudnn);
    bool known = !cudnn && warming_recall(w, &choice), taken = cudnn || known;
    if (known && choice.value[0] != CUDNN) return STATUS_OK;
    status = attention_compile(&device->attention->cudnn, device->properties.major, device->properties.minor,
                               problem, &compiled, &why);
    if (!status && compiled.workspace > w->workspace)
        status = err_set(&why, STATUS_NOT_FOUND, "cuDNN wants more scratch than is planned");
    if (status == STATUS_NOT_FOUND && cudnn) tell(w, problem, why.text);
    if (!status && !taken) {
        status = try_both(w, problem, &compiled, &taken, err);
        choice.value[0] = taken ? CUDNN : OURS;
        if (!status) warming_keep(w, &choice);
    } else {
        *err = why;
    }
    if (!status && taken)
        attention_cudnn_take(device, &compiled);
    else
        graph_plan_release(&device->attention->cudnn, &compiled.plan);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}
