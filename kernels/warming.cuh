/* Preparing a device for a training: warming.cu has the slot `warm`. gemm.cu and attention_choice.cu choose
 * between several ways to compute the same, with the functions below. They measure each way, and store their
 * choice, because two ways may round differently. */
#ifndef ANNEAL_KERNELS_WARMING_CUH
#define ANNEAL_KERNELS_WARMING_CUH

#include "kernels/device/cuda_device.cuh"

/* Each way is tried so often, in turn with the others, so that a change of the clock hits all of them. The
 * round before loads their code. The least time counts. */
constexpr int WARM_ROUNDS = 5;

struct warming {
    struct stream *stream;
    const struct warm_watch *watch;
    unsigned char *scratch; /* borrowed: operands, then the workspace, then what empties the cache */
    size_t operands;        /* bytes */
    size_t workspace;       /* bytes that the libraries may use */
    cudaEvent_t from, to;
    int file;         /* of choices; -1: none */
    enum status kept; /* whether choices are stored, and why not */
    struct err why;
};

static inline unsigned char *warming_workspace(const struct warming *w)
{
    return w->scratch + w->operands;
}

/* Runs `work` on the stream, with a cold second-level cache as in a step, where other work comes between, and
 * waits. *microseconds: negative if `work` returns false, that it cannot be done this way. An error of the
 * device is sticky: it ends the warming. */
enum status warming_time(struct warming *w, bool (*work)(void *context), void *context, double *microseconds,
                         struct err *err);

/* A record of the file of choices. */
struct choice {
    unsigned char key[40], value[64];
};
static_assert(sizeof(struct choice) == 104, "a record has no padding");

/* Finds the record with choice->key; false: there is none. */
bool warming_recall(const struct warming *w, struct choice *choice);
/* Stores a record, in place of one with this key. */
void warming_keep(struct warming *w, const struct choice *choice);

/* In gemm.cu, of products: forgets which were warmed; bytes of the operands; chooses an algorithm. */
void gemm_begin_warming(struct device *device);
size_t gemm_operands(const struct gemm_shape *shape);
enum status gemm_choose(struct warming *w, const struct gemm_shape *shape, struct err *err);
size_t gemm_workspace(const struct device *device);

/* In attention_choice.cu: the same of attentions. Without cuDNN there is nothing to choose; `cudnn`: it must
 * be there, and computes what it can. */
size_t attention_trial_bytes(const struct attention_problem *problem);
enum status attention_choose(struct warming *w, const struct attention_problem *problem, bool cudnn,
                             struct err *err);

#endif
