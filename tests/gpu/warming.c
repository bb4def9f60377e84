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

enum status warm_products(const struct backend *backend, struct device *device, struct stream *stream,
                          const struct gemm_shape *shapes, int count, const char *folder, struct err *err)
{
    struct scratch scratch = {.backend = backend, .device = device};
    struct warm_watch watch = {.folder = folder,
                               .context = &scratch,
                               .progress = on_progress,
                               .warning = on_warning,
                               .scratch = on_scratch};
    enum status status = backend->gemm_warm(stream, shapes, count, &watch, err);
    if (scratch.memory) backend->mem_free(device, scratch.memory);
    return status;
}
