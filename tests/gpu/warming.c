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

enum status warm_products(const struct backend *backend, struct stream *stream,
                          const struct gemm_shape *shapes, int count, const char *folder, struct err *err)
{
    struct warm_watch watch = {.folder = folder, .progress = on_progress, .warning = on_warning};
    return backend->warm(stream, shapes, count, &watch, err);
}
