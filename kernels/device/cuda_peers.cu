/* The GPUs of other ranks, and how this one exchanges with them: through NCCL, which is part of neither the
 * driver nor the Toolkit, so it is loaded at run time, and only for several ranks.
 *
 * One communicator serves all streams: the ranks queue its work in the same order, and NCCL keeps to it. Only
 * sums to one rank and copies from one are used. For these NCCL knows a single algorithm, a ring that begins
 * behind that rank, so the order of additions is the same from run to run, for as many ranks on the same
 * GPUs.
 *
 * While a rank waits on its GPU for one that has failed, nothing on its host would notice. So the thread that
 * watches the ranks also asks here for errors of NCCL's connections and for faults of this rank's streams; it
 * reports them, and ends all ranks. The GPU's waiting kernels end with their process. */
#include "kernels/device/cuda_device.cuh"

extern "C" {
#include "kernels/device/nccl.h"
#include "kernels/device/world.h"
}

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { OLDEST = 21800 }; /* NCCL 2.18, of 2023: version · 10,000 + release · 100 */

struct peers {
    struct nccl_functions nccl;
    nccl_comm comm;
    const struct world *world;
    const char *device; /* in messages */
    bool failed;        /* a stream: written after `why`, read by the watching thread */
    char why[200];
    bool noticed; /* the watching thread's own, like `lost` */
    char lost[200];
};

/* ---- opening ---- */

/* Looks in the plugin's and the loader's search paths. The library stays open: it has threads. */
static enum status load(struct nccl_functions *out, struct err *err)
{
    int version = 0;
    bool found = true;
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return err_set(err, STATUS_NOT_FOUND,
                       "several ranks on GPUs need NVIDIA's library NCCL: %s (install it: libnccl2 of NVIDIA's "
                       "repository, or nvidia-nccl-cu13 with pip, and name its folder in LD_LIBRARY_PATH)",
                       dlerror());
#define FIND(name, arguments)                                                                                \
    out->name = reinterpret_cast<decltype(out->name)>(dlsym(library, #name));                                \
    found = found && out->name != NULL;
    NCCL_FUNCTIONS(FIND)
#undef FIND
    out->ncclGetErrorString = reinterpret_cast<nccl_error_string *>(dlsym(library, "ncclGetErrorString"));
    found = found && out->ncclGetErrorString != NULL && out->ncclGetVersion(&version) == NCCL_CODE_SUCCESS;
    if (found && version >= OLDEST) return STATUS_OK;
    return err_set(err, STATUS_NOT_FOUND, "libnccl.so.2 is older than NCCL 2.18 (install a newer one)");
}

enum status peers_find(struct err *err)
{
    struct nccl_functions functions;
    return load(&functions, err);
}

static enum status refused(const struct peers *p, const char *what, int code, struct err *err)
{
    return err_set(err, STATUS_DEVICE, "%s: %s: %s", p->device, what, p->nccl.ncclGetErrorString(code));
}

/* Connects the ranks, which find each other by an id of rank 0. */
static enum status connect(struct peers *p, struct err *err)
{
    struct nccl_id id = {};
    int code = NCCL_CODE_SUCCESS;
    enum status status = STATUS_OK;
    if (p->world->rank == 0) code = p->nccl.ncclGetUniqueId(&id);
    if (code != NCCL_CODE_SUCCESS) status = refused(p, "NCCL cannot begin", code, err);
    status = world_agree(p->world, status, err);
    if (status) return status;
    world_share(p->world, &id, sizeof id);
    code = p->nccl.ncclCommInitRank(&p->comm, p->world->size, id, p->world->rank);
    if (code != NCCL_CODE_SUCCESS) status = refused(p, "NCCL cannot connect the ranks", code, err);
    return world_agree(p->world, status, err);
}

/* The connections of both kinds are made, and their memory is taken, when they are first used: now. */
static enum status try_out(struct device *device, struct err *err)
{
    const struct world *world = device->peers->world;
    struct stream *stream = NULL;
    void *value = NULL;
    double one = 1, sum = 0;
    enum status status = stream_open(device, PRECISION_FP32, &stream, err);
    if (!status) status = mem_alloc(device, sizeof one, &value, err);
    status = world_agree(world, status, err);
    if (!status) {
        mem_upload(value, &one, sizeof one, stream);
        all_reduce_value((double *)value, world, stream);
        mem_download(&sum, value, sizeof sum, stream);
        status = stream_wait(stream, err);
        if (!status && sum != world->size)
            status = err_set(err, STATUS_DEVICE, "%s: NCCL adds up %d ones to %g", device->peers->device,
                             world->size, sum);
        status = world_agree(world, status, err);
    }
    if (value != NULL) mem_free(device, value);
    stream_close(stream);
    return status;
}

/* For the watching thread. */
static const char *failure(void *context)
{
    struct peers *p = (struct peers *)context;
    int code = NCCL_CODE_SUCCESS;
    bool noticed = p->noticed;
    p->noticed = __atomic_load_n(&p->failed, __ATOMIC_ACQUIRE);
    if (p->noticed) return noticed ? p->why : NULL; /* twice: stream_forget may follow */
    if (p->nccl.ncclCommGetAsyncError(p->comm, &code) != NCCL_CODE_SUCCESS || code == NCCL_CODE_SUCCESS ||
        code == NCCL_CODE_IN_PROGRESS)
        return NULL;
    snprintf(p->lost, sizeof p->lost, "%s: NCCL lost its connection to another rank: %s", p->device,
             p->nccl.ncclGetErrorString(code));
    return p->lost;
}

enum status device_join(struct device *device, const struct world *world, struct err *err)
{
    struct peers *p = (struct peers *)calloc(1, sizeof *p);
    enum status status = p != NULL ? load(&p->nccl, err) : err_no_memory(err, "the ranks' GPUs");
    status = world_agree(world, status, err);
    if (status) {
        free(p);
        return status;
    }
    p->world = world;
    p->device = device->info.short_name;
    device->peers = p;
    status = connect(p, err);
    if (!status) world_also_watch(world, failure, p);
    if (!status) status = try_out(device, err);
    p->failed = status != STATUS_OK;
    if (status) peers_close(device);
    return status;
}

void peers_close(struct device *device)
{
    struct peers *p = device->peers;
    device->peers = NULL;
    if (p == NULL) return;
    world_also_watch(p->world, NULL, NULL);
    if (p->comm != NULL) { /* after a failure others may never come to what is queued */
        bool whole = !p->failed && !p->noticed && !p->lost[0] && !device->lost;
        (whole ? p->nccl.ncclCommDestroy : p->nccl.ncclCommAbort)(p->comm);
    }
    free(p);
}

/* ---- exchanging ---- */

void peers_failed(struct device *device, const char *at, const char *why)
{
    struct peers *p = device->peers;
    if (p == NULL || p->failed) return;
    snprintf(p->why, sizeof p->why, "%s: %.80s failed: %.80s", p->device, at, why);
    __atomic_store_n(&p->failed, true, __ATOMIC_RELEASE);
}

void peers_forget(struct device *device)
{
    if (device->peers != NULL) __atomic_store_n(&device->peers->failed, false, __ATOMIC_RELEASE);
}

void peers_await_end(const struct device *device)
{
    while (device->peers != NULL && device->peers->failed && device->peers->world->watched != NULL)
        pause();
}

/* NULL: there is nothing to exchange. After a failure of one stream another must not go on: the others would
 * take what it exchanges for what the first one did not. */
static const struct peers *peers_of(struct stream *stream)
{
    const struct peers *p = stream->device->peers;
    return p != NULL && !p->failed && stream_usable(stream) ? p : NULL;
}

static void called(const struct peers *p, int code, struct stream *stream)
{
    if (code != NCCL_CODE_SUCCESS)
        stream_fault(stream, "an exchange with other ranks", p->nccl.ncclGetErrorString(code));
}

void peers_begin(struct stream *stream)
{
    const struct peers *p = peers_of(stream);
    if (p != NULL) called(p, p->nccl.ncclGroupStart(), stream);
}

void peers_end(struct stream *stream)
{
    const struct peers *p = peers_of(stream);
    if (p != NULL) called(p, p->nccl.ncclGroupEnd(), stream);
}

void peers_exchange(void *x, size_t n, int type, bool sums, int owner, struct stream *stream)
{
    const struct peers *p = peers_of(stream);
    if (p == NULL) return;
    called(p,
           sums ? p->nccl.ncclReduce(x, x, n, type, NCCL_OP_SUM, owner, p->comm, stream->queue)
                : p->nccl.ncclBroadcast(x, x, n, type, owner, p->comm, stream->queue),
           stream);
}
