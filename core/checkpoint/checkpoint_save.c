/* See checkpoint.h. Here: writing a checkpoint: the numbers, piece by piece, and the jobs that do it. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/thread.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/tokenizer_config.h"
#include "core/model/adapter_file.h"
#include "core/model/hugging_face.h"

const char *checkpoint_prefix(int kind)
{
    static const char *const prefixes[] = {"", "m.", "v.", ADAPTER_FILE_PREFIX};
    return prefixes[kind];
}

/* ---- sources of numbers ---- */

/* A failed device returns NaN, which is never written into a checkpoint. */
static enum status fetch_from_device(void *context, void *host, const struct safetensor *t, size_t at,
                                     size_t bytes, struct err *err)
{
    struct network *net = context;
    net->backend->mem_download(host, (const unsigned char *)t->data + at, bytes, net->stream);
    return net->backend->stream_wait(net->stream, err);
}

struct checkpoint_source checkpoint_of_network(struct network *net, bool full)
{
    const struct plan_input *in = &net->plan->input;
    size_t behind = net->slice.begin - net->owned.begin; /* without ZeRO a rank owns more than it writes */
    struct checkpoint_source source = {.model = net->model,
                                       .rank = in->rank,
                                       .ranks = in->ranks,
                                       .slice = net->slice,
                                       .weights = net->weights + behind,
                                       .frozen = net->frozen,
                                       .moments_8bit = in->moments_8bit,
                                       .fetch = fetch_from_device,
                                       .context = net};
    for (enum moment i = 0; i < MOMENT_KINDS; i++)
        if ((full || i == MOMENT_AVERAGE) && slice_count(plan_with_moment(in, i)))
            source.moments[i] = (char *)network_moment(net, i) + plan_moment_bytes(in, i, behind);
    return source;
}

/* Copies an arena to its place in the snapshot, which it returns. */
static const void *copy_arena(struct network *net, enum buffer to, const void *from, size_t bytes)
{
    void *copy = network_at(net, to, 0);
    if (bytes) net->backend->mem_download(copy, from, bytes, net->stream);
    return copy;
}

enum status checkpoint_take_snapshot(struct network *net, struct checkpoint_source *source, struct err *err)
{
    size_t bytes = slice_count(source->slice) * sizeof(float);
    source->weights = copy_arena(net, BUFFER_SNAPSHOT_WEIGHTS, source->weights, bytes);
    if (!net->model->adapter.rank && source->rank == 0)
        source->frozen = copy_arena(net, BUFFER_SNAPSHOT_FROZEN, source->frozen, net->model->frozen_bytes);
    for (enum moment i = 0; i < MOMENT_KINDS; i++) {
        if (!source->moments[i]) continue;
        struct slice with = slice_common(source->slice, plan_with_moment(&net->plan->input, i));
        source->moments[i] = copy_arena(net, BUFFER_SNAPSHOT_MOMENT1 + (enum buffer)i, source->moments[i],
                                        plan_moment_bytes(&net->plan->input, i, slice_count(with)));
    }
    source->fetch = safetensors_fetch_host;
    return net->backend->stream_wait(net->stream, err);
}

/* ---- saving ---- */

/* Whether this kind of numbers is held in 8 bits. */
static bool is_coded(const struct checkpoint_source *source, int kind)
{
    return source->moments_8bit && kind != WEIGHTS_KIND && kind != ADAPTERS_KIND;
}

/* Fetches moments that are held in 8 bits, as fp32; the data of the tensor are at the code of its first
 * element, and the context is the source. */
static enum status fetch_coded(void *context, void *host, const struct safetensor *t, size_t at, size_t bytes,
                               struct err *err)
{
    enum { PIECE = 64 };
    const struct checkpoint_source *source = context;
    bool first = strncmp(t->name, checkpoint_prefix(1), strlen(checkpoint_prefix(1))) == 0;
    const struct safetensor blocks = {.data = source->moments[first ? MOMENT_FIRST : MOMENT_SECOND]};
    size_t code = (size_t)((const unsigned char *)t->data - (const unsigned char *)blocks.data);
    size_t from = code / sizeof(struct moment_block) * MOMENT_BLOCK + code % sizeof(struct moment_block) -
                  offsetof(struct moment_block, codes) + at / sizeof(float);
    enum status status = STATUS_OK;
    for (size_t i = from, n, end = from + bytes / sizeof(float); !status && i < end; i += n) {
        struct moment_block piece[PIECE];
        size_t inside = i % MOMENT_BLOCK;
        n = end - i < PIECE * MOMENT_BLOCK - inside ? end - i : PIECE * MOMENT_BLOCK - inside;
        status = source->fetch(source->context, piece, &blocks, moment_bytes(i - inside),
                               moment_bytes(inside + n), err);
        if (!status) moments_decode((float *)host + (i - from), piece, inside, n, first);
    }
    return status;
}

/* A tensor, and the range of it that this rank writes: of frozen ones rank 0 all. */
static struct safetensor describe(const struct checkpoint_source *source, int kind, const struct param *p,
                                  const char *name, struct byte_range *range)
{
    bool moments = kind != WEIGHTS_KIND && kind != ADAPTERS_KIND;
    const void *base = moments ? source->moments[kind - 1] : source->weights;
    struct slice part = slice_common(source->slice, (struct slice){p->offset, p->offset + p->count});
    struct safetensor t = {.name = name,
                           .dtype = p->element == ELEMENT_BF16 ? "BF16" : "F32",
                           .shape = {p->rows, p->cols},
                           .dims = p->cols ? 2 : 1,
                           .bytes = param_bytes(p)};
    *range = (struct byte_range){0};
    if (p->frozen) {
        t.data = (const unsigned char *)source->frozen + p->offset;
        range->to = source->rank == 0 ? t.bytes : 0;
    } else if (slice_count(part)) {
        size_t first = part.begin - source->slice.begin;
        const struct moment_block *block = (const struct moment_block *)base + first / MOMENT_BLOCK;
        t.data = is_coded(source, kind) ? (const void *)&block->codes[first % MOMENT_BLOCK]
                                        : (const void *)((const float *)base + first);
        range->from = (part.begin - p->offset) * sizeof(float);
        range->to = (part.end - p->offset) * sizeof(float);
    }
    return t;
}

/* Writes the kinds of numbers from `first` to `last`; all but whole weights only of trainable parameters. A
 * trained embedding that is also the head is in a file of adapters twice, because peft needs both. */
static enum status write_numbers(const char *path, const struct checkpoint_source *source, int first,
                                 int last, struct err *err)
{
    const struct model *model = source->model;
    size_t count = 0;
    struct arena arena = {0};
    struct safetensor *tensors = arena_alloc_array(&arena, model->param_count * 2 + 1, sizeof *tensors);
    struct byte_range *ranges = arena_alloc_array(&arena, model->param_count * 2 + 1, sizeof *ranges);
    bool named = tensors && ranges;
    for (int kind = first; kind <= last; kind++)
        for (size_t i = 0; named && i < model->param_count; i++) {
            const struct param *p = &model->params[i];
            if ((kind && p->frozen) || (kind == 2 && p->orthogonal)) continue;
            tensors[count] =
                describe(source, kind, p, arena_printf(&arena, "%s%s", checkpoint_prefix(kind), p->name),
                         &ranges[count]);
            named = tensors[count++].name != NULL;
        }
    if (named && first == ADAPTERS_KIND && model->head.parts == model->embed && !model->embed->frozen) {
        tensors[count] =
            describe(source, first, model->embed, ADAPTER_FILE_PREFIX "lm_head.weight", &ranges[count]);
        count++;
    }
    char base[17];
    snprintf(base, sizeof base, "%016" PRIx64, model->base.hash);
    const char *note = model->base.hash && first == ADAPTERS_KIND ? base : NULL;
    struct checkpoint_source coded = *source;
    bool decodes = is_coded(source, first);
    enum status status =
        named ? safetensors_write_part(path, tensors, source->ranks > 1 ? ranges : NULL, count, note,
                                       source->rank == 0, decodes ? fetch_coded : source->fetch,
                                       decodes ? &coded : source->context, err)
              : err_no_memory(err, "writing %s", path);
    arena_release(&arena);
    return status;
}

enum status checkpoint_write_part(const char *folder, const struct checkpoint_source *source, struct err *err)
{
    char path[CHECKPOINT_PATH];
    int kind = source->model->adapter.rank ? ADAPTERS_KIND : WEIGHTS_KIND;
    checkpoint_join(path, folder, kind ? "adapter_model.safetensors" : "model.safetensors");
    enum status status = write_numbers(path, source, kind, kind, err);
    checkpoint_join(path, folder, "optimizer.safetensors");
    if (!status && source->moments[MOMENT_FIRST])
        status = write_numbers(path, source, 1, source->moments[MOMENT_SECOND] ? 2 : 1, err);
    struct checkpoint_source average = *source;
    average.weights = source->moments[MOMENT_AVERAGE];
    checkpoint_join(path, folder, "ema.safetensors");
    return status || !average.weights ? status : write_numbers(path, &average, kind, kind, err);
}

/* Writes all other files. */
static enum status describe_numbers(const char *folder, const struct model *model,
                                    const struct train_state *state, const struct tokenizer *tokenizer,
                                    const struct companions *companions, struct err *err)
{
    char path[CHECKPOINT_PATH];
    enum status status = STATUS_OK;
    checkpoint_join(path, folder, "adapter_config.json");
    if (model->adapter.rank) status = adapter_file_write(model, path, err);
    checkpoint_join(path, folder, "config.json");
    if (!status) status = hugging_face_write_config(&model->config, &model->classes, path, err);
    if (!status) status = checkpoint_write_state(state, checkpoint_join(path, folder, "trainer.json"), err);
    if (!status && tokenizer)
        status = tokenizer_save_json(tokenizer, checkpoint_join(path, folder, "tokenizer.json"), err);
    if (!status && companions) status = companions_write(companions, folder, err);
    if (!status && file_exists_in(folder, "tokenizer.json")) status = tokenizer_config_settle(folder, err);
    return status;
}

enum status checkpoint_finish(const char *parent, const char *temporary,
                              const struct checkpoint_source *source, const struct train_state *state,
                              const struct tokenizer *tokenizer, const struct companions *companions,
                              int64_t *bytes, struct err *err)
{
    char final[CHECKPOINT_PATH];
    snprintf(final, sizeof final, "%s/step-%" PRId64, parent, state->step);
    enum status status = describe_numbers(temporary, source->model, state, tokenizer, companions, err);
    if (!status) status = checkpoint_seal(temporary, bytes, err);
    if (!status) status = checkpoint_publish(temporary, final, err);
    if (status) file_remove_tree(temporary, NULL);
    return status;
}

enum status checkpoint_save(const char *parent, const struct checkpoint_source *source,
                            const struct train_state *state, const struct tokenizer *tokenizer,
                            const struct companions *companions, int64_t *bytes, struct err *err)
{
    char temporary[CHECKPOINT_PATH];
    enum status status = checkpoint_begin(parent, state->step, temporary, err);
    if (!status && (status = checkpoint_write_part(temporary, source, err)))
        file_remove_tree(temporary, NULL);
    if (!status)
        status = checkpoint_finish(parent, temporary, source, state, tokenizer, companions, bytes, err);
    if (status) err_prefix(err, "checkpoint at step %" PRId64, state->step);
    return status;
}

void save_carry_out(struct save_job *job)
{
    if (job->stage == SAVE_PART) {
        job->status = checkpoint_write_part(job->temporary, &job->source, &job->err);
        return;
    }
    job->before(job->context);
    if (job->stage == SAVE_REST)
        job->status = checkpoint_finish(job->folder, job->temporary, &job->source, &job->state,
                                        job->tokenizer, job->companions, &job->bytes, &job->err);
    else
        job->status = checkpoint_save(job->folder, &job->source, &job->state, job->tokenizer, job->companions,
                                      &job->bytes, &job->err);
    job->wall_time = clock_wall();
    if (!job->status && job->prune)
        checkpoint_prune(job->folder, job->keep, job->state.step, job->state.best_saved, job->needed);
}

static void *carry_out(void *job)
{
    save_carry_out(job);
    return NULL;
}

void save_start(struct save_job *job)
{
    assert(!job->started);
    job->started = true;
    job->threaded = thread_start(&job->thread, carry_out, job) == 0;
    if (!job->threaded) save_carry_out(job);
}

/* Whether the thread has ended within so many seconds. */
static bool join(pthread_t thread, double seconds)
{
    struct timespec until;
    if (seconds <= 0) return pthread_tryjoin_np(thread, NULL) == 0;
    if (isinf(seconds)) return pthread_join(thread, NULL) == 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)seconds;
    return pthread_timedjoin_np(thread, NULL, &until) == 0;
}

bool save_collect(struct save_job *job, double seconds)
{
    if (!job->started || (job->threaded && !join(job->thread, seconds))) return false;
    job->started = false;
    return true;
}
