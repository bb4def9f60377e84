/* See fit.h. */
#include "core/memory/fit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "kernels/device/gauge.h"

enum status plan_bytes(const struct plan_input *input, size_t *out, struct err *err)
{
    struct plan plan;
    struct plan_input rough = *input;
    rough.rough = true;
    enum status status = plan_init(&plan, &rough, err);
    if (status) return status;
    status = plan_reserved(&plan, out, err);
    plan_release(&plan);
    return status;
}

/* The largest value found for *field, a member of *input, whose plan fits into `bytes` while the next value's
 * does not: doubles until a plan is too large, then bisects. 0: none fits. */
static enum status largest(struct plan_input *input, int *field, int most, size_t bytes, int *out,
                           struct err *err)
{
    int fits = 0, above = most + 1;
    while (above - fits > 1) {
        int half = (above - fits) / 2;
        size_t needed = 0;
        *field = fits + (half < fits + 1 ? half : fits + 1);
        enum status status = plan_bytes(input, &needed, err);
        if (status) return status;
        if (needed <= bytes)
            fits = *field;
        else
            above = *field;
    }
    *out = fits;
    return STATUS_OK;
}

enum status fit_batch(struct plan_input input, size_t bytes, int most, int *out, struct err *err)
{
    return largest(&input, &input.B, most, bytes, out, err);
}

enum status fit_length(struct plan_input input, size_t bytes, int most, int *out, struct err *err)
{
    return largest(&input, &input.T, most, bytes, out, err);
}

enum status fit_trade(struct plan_input input, int interval, struct activation_trade *out, struct err *err)
{
    struct plan plan;
    input.activation_interval = interval;
    enum status status = plan_init(&plan, &input, err);
    if (status) return status;
    double tokens = (double)input.B * input.T;
    *out = (struct activation_trade){interval, plan.total_bytes,
                                     plan.recomputed_flops / tokens /
                                         model_flops_per_token(input.model, input.T)};
    plan_release(&plan);
    return STATUS_OK;
}

/* ---- the overhead ---- */

int64_t overhead_measure(const struct device_info *device)
{
    struct gpu_record record;
    if (gauge_glance(device->uuid, GLANCE_SECONDS, &record, NULL)) return -1;
    free(record.processes);
    return record.process_bytes;
}

static bool path_of(char path[PATH_MAX], const char *folder, const struct device_info *device)
{
    return folder && snprintf(path, PATH_MAX, "%s/overhead-%s", folder,
                              device->uuid[0] != '\0' ? device->uuid : "cpu") < PATH_MAX;
}

void overhead_keep(const char *folder, const struct device_info *device, int64_t bytes)
{
    char path[PATH_MAX], text[32];
    if (bytes < 0 || !path_of(path, folder, device) || file_make_folders(folder, NULL)) return;
    int n = snprintf(text, sizeof text, "%" PRId64 "\n", bytes);
    /* in place: whoever is killed here leaves no temporary file, and an empty file counts as none */
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) return;
    (void)!write(fd, text, (size_t)n);
    close(fd);
}

int64_t overhead_recall(const char *folder, const struct device_info *device)
{
    char path[PATH_MAX];
    int64_t bytes = -1;
    FILE *file = path_of(path, folder, device) ? fopen(path, "re") : NULL;
    if (!file) return -1;
    if (fscanf(file, "%" SCNd64, &bytes) != 1 || bytes < 0) bytes = -1;
    fclose(file);
    return bytes;
}
