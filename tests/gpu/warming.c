/* See warming.h. */
#include "tests/gpu/warming.h"

#include <stdio.h>

static bool on_progress(void *context, int done, int total)
{
    (void)context, (void)done, (void)total;
    return true;
}

static void on_warning(void *context, const char *sentence)
{
    (void)context;
    printf("     warming up: %s\n", sentence);
}

struct scratch {
    const struct backend *backend;
    struct device *device;
    void *memory; /* NULL: none was asked for */
};

static enum status on_scratch(void *context, size_t bytes, void **out, struct err *err)
{
    struct scratch *s = context;
    enum status status = s->backend->mem_alloc(s->device, bytes, &s->memory, err);
    if (!status) *out = s->memory;
    return status;
}

enum status warm_up(const struct backend *backend, struct device *device, struct stream *stream,
                    const struct warm_work *work, const char *folder, struct err *err)
{
    struct scratch scratch = {.backend = backend, .device = device};
    struct warm_watch watch = {.folder = folder,
                               .context = &scratch,
                               .progress = on_progress,
                               .warning = on_warning,
                               .scratch = on_scratch};
    enum status status = backend->warm(stream, work, &watch, err);
    if (scratch.memory) backend->mem_free(device, scratch.memory);
    return status;
}

enum status warm_cudnn(const struct backend *backend, struct device *device, struct stream *stream,
                       struct attention_problem problem, void **workspace, struct err *err)
{
    struct attention_problem passes[2] = {problem, problem};
    passes[0].backward = false;
    passes[1].backward = true;
    struct warm_work work = {.attentions = passes, .attention_count = 2, .cudnn = true};
    enum status status = warm_up(backend, device, stream, &work, NULL, err);
    size_t bytes = backend->library_workspace(device, &passes[1]);
    if (!status) status = backend->mem_alloc(device, bytes, workspace, err);
    if (!status) backend->workspace_lend(stream, *workspace, bytes);
    return status;
}
