/* See warming.cuh.
 *
 * A resumed run on the same device and library reads its choices from a file, named after both, whose records
 * are only appended or replaced in place. The process that has the file open locks it (flock), and others
 * wait until it has measured and written the missing choices. The file is not trusted: unknown keys are
 * ignored, a choice is checked before it is tried, and half a record at the end is overwritten. */
#include "kernels/attention_cudnn.cuh"
#include "kernels/warming.cuh"

extern "C" {
#include "core/base/file.h"
}

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* Products to warm up at most; gemm.cu has room for some more. */
enum { WARM_MAX = 192 };

/* ---- the file of choices ---- */

/* Opens the device's file and waits for its lock, as long as the watch allows. */
static enum status choices_open(const struct cudaDeviceProp *p, const struct warm_watch *watch, int count,
                                int *file, bool *go_on, struct err *err)
{
    char path[PATH_MAX], name[65];
    snprintf(name, sizeof name, "%.64s", p->name);
    for (char *c = name; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c)) *c = '-';
    enum status status = file_make_folders(watch->folder, err);
    if (!status)
        status = file_format_path(path, sizeof path, err, "%s/gemm4-%s-%d.%d-%d-%zu", watch->folder, name,
                                  p->major, p->minor, p->multiProcessorCount, cublasLtGetVersion());
    if (status) return status;
    *file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*file < 0) return err_set(err, STATUS_IO, "%s: cannot open: %s", path, strerror(errno));
    while (*go_on && flock(*file, LOCK_EX) != 0) {
        if (errno != EINTR) return err_set(err, STATUS_IO, "%s: cannot lock: %s", path, strerror(errno));
        *go_on = watch->progress(watch->context, 0, count);
    }
    return STATUS_OK;
}

/* Finds key's record, or with false the offset of room for one. */
static bool find(const struct warming *w, const struct choice *key, struct choice *out, off_t *at)
{
    for (*at = 0; pread(w->file, out, sizeof *out, *at) == sizeof *out; *at += sizeof *out)
        if (memcmp(out->key, key->key, sizeof key->key) == 0) return true;
    return false;
}

bool warming_recall(const struct warming *w, struct choice *choice)
{
    struct choice found;
    off_t at;
    if (w->file < 0 || !find(w, choice, &found, &at)) return false;
    *choice = found;
    return true;
}

void warming_keep(struct warming *w, const struct choice *choice)
{
    struct choice found;
    off_t at;
    if (w->file < 0) return;
    find(w, choice, &found, &at);
    if (pwrite(w->file, choice, sizeof *choice, at) != sizeof *choice)
        w->kept = err_set(&w->why, STATUS_IO, "cannot write its file: %s", strerror(errno));
}

/* ---- trials ---- */

/* An error of the device becomes the stream's fault: nothing uses the device afterwards. */
static enum status cuda_fail(struct stream *stream, const char *at, cudaError_t error, struct err *err)
{
    stream_fault(stream, at, cudaGetErrorString(error));
    return stream_check(stream, err);
}

/* Small finite numbers everywhere: leftover values could slow some algorithms down. */
static enum status scratch_open(struct warming *w, struct err *err)
{
    size_t cache = (size_t)w->stream->device->properties.l2CacheSize;
    enum status status =
        w->watch->scratch(w->watch->context, w->operands + w->workspace + cache, (void **)&w->scratch, err);
    if (status) return status;
    cudaError_t error = cudaMemsetAsync(w->scratch, 0x3c, w->operands, w->stream->queue);
    if (error == cudaSuccess) error = cudaEventCreate(&w->from);
    if (error == cudaSuccess) error = cudaEventCreate(&w->to);
    return error == cudaSuccess ? STATUS_OK : cuda_fail(w->stream, "warming up", error, err);
}

enum status warming_time(struct warming *w, bool (*work)(void *context), void *context, double *microseconds,
                         struct err *err)
{
    float milliseconds = 0;
    bool done = false;
    cudaError_t error = cudaMemsetAsync(warming_workspace(w) + w->workspace, 0x3c,
                                        (size_t)w->stream->device->properties.l2CacheSize, w->stream->queue);
    if (error == cudaSuccess) error = cudaEventRecord(w->from, w->stream->queue);
    if (error == cudaSuccess) done = work(context);
    if (error == cudaSuccess) error = cudaEventRecord(w->to, w->stream->queue);
    if (error == cudaSuccess) error = cudaEventSynchronize(w->to);
    if (error == cudaSuccess) error = cudaEventElapsedTime(&milliseconds, w->from, w->to);
    if (error != cudaSuccess) return cuda_fail(w->stream, "warming up", error, err);
    cudaGetLastError(); /* clears the error of a rejected launch */
    *microseconds = done ? 1e3 * (double)milliseconds : -1;
    return STATUS_OK;
}

/* ---- the slot ---- */

static void warming_close(struct warming *w)
{
    if (w->file >= 0) {
        fdatasync(w->file);
        flock(w->file, LOCK_UN); /* a forked process may hold it, too */
        close(w->file);
    }
    if (w->stream->device->lost) return; /* the rest is freed at the end of the process */
    if (w->from != NULL) cudaEventDestroy(w->from);
    if (w->to != NULL) cudaEventDestroy(w->to);
}

size_t library_workspace(struct device *device, const struct attention_problem *attention)
{
    size_t products = gemm_workspace(device),
           attentions = attention != NULL ? attention_cudnn_workspace(device, attention) : 0;
    return attentions > products ? attentions : products;
}

void workspace_lend(struct stream *stream, void *workspace, size_t bytes)
{
    stream->workspace = bytes > 0 ? workspace : NULL;
    stream->workspace_bytes = bytes;
}

/* The scratch that the work needs. */
static void measure(struct warming *w, const struct warm_work *work)
{
    w->workspace = gemm_workspace(w->stream->device);
    for (int i = 0; i < work->product_count; i++)
        if (gemm_operands(&work->products[i]) > w->operands) w->operands = gemm_operands(&work->products[i]);
    for (int i = 0; i < work->attention_count && w->stream->device->attention != NULL; i++) {
        size_t operands = attention_trial_bytes(&work->attentions[i]),
               workspace = library_workspace(w->stream->device, &work->attentions[i]);
        if (operands > w->operands) w->operands = operands;
        if (workspace > w->workspace) w->workspace = workspace;
    }
}

/* Chooses for the i-th part of the work. */
static enum status choose(struct warming *w, const struct warm_work *work, int i, struct err *err)
{
    if (i < work->product_count) return gemm_choose(w, &work->products[i], err);
    workspace_lend(w->stream, warming_workspace(w), w->workspace);
    enum status status = attention_choose(w, &work->attentions[i - work->product_count], work->cudnn, err);
    workspace_lend(w->stream, NULL, 0);
    return status;
}

enum status warm(struct stream *stream, const struct warm_work *work, const struct warm_watch *watch,
                 struct err *err)
{
    struct warming w = {};
    struct err missing; /* cuDNN, which measure and choose notice */
    int count = work->product_count + work->attention_count;
    w.stream = stream, w.watch = watch, w.file = -1;
    if (work->product_count > WARM_MAX)
        return err_set(err, STATUS_USAGE, "cuda: cannot warm up %d matrix products, at most %d",
                       work->product_count, WARM_MAX);
    if (stream_usable(stream)) modules_load();
    enum status status = cuda_table.stream_wait(stream, err);
    if (status || count == 0) return status;
    gemm_begin_warming(stream->device);
    attention_cudnn_release(stream->device);
    if (work->attention_count > 0) attention_cudnn_open(stream->device, &missing);
    measure(&w, work);
    bool go_on = watch->progress(watch->context, 0, count);
    if (go_on && watch->folder != NULL)
        w.kept = choices_open(&stream->device->properties, watch, count, &w.file, &go_on, &w.why);
    if (go_on) status = scratch_open(&w, err);
    for (int i = 0; i < count && !status && go_on; i++) {
        status = choose(&w, work, i, err);
        if (!status) go_on = watch->progress(watch->context, i + 1, count);
    }
    warming_close(&w);
    if (!status && w.kept) {
        err_prefix(&w.why,
                   "cuda: the choice of matrix products' algorithms is not stored, so a resumed run may "
                   "round differently");
        watch->warning(watch->context, w.why.text);
    }
    if (!status && !go_on) status = err_set(err, STATUS_INTERRUPTED, "interrupted while warming up");
    return status;
}
