/* See overhead.h. */
#include "core/memory/overhead.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "kernels/device/gauge.h"

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
    snprintf(text, sizeof text, "%" PRId64 "\n", bytes);
    file_write_atomic(path, text, strlen(text), NULL);
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
