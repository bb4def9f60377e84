/* See json_file.h. */
#include "datasets/json_file.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"

enum status json_file_read(const char *path, size_t flags, json_t **out, struct err *err)
{
    struct file_map map;
    json_error_t problem;
    *out = NULL;
    enum status status = file_map_open(path, &map, err);
    if (status) return status;
    json_t *json = json_loadb((const char *)map.data, map.size, flags, &problem);
    file_map_close(&map);
    if (!json) return err_set(err, STATUS_CORRUPT, "%s:%d: %s", path, problem.line, problem.text);
    if (json_is_object(json)) {
        *out = json;
        return STATUS_OK;
    }
    json_decref(json);
    return err_set(err, STATUS_CORRUPT, "%s: not a JSON object", path);
}

enum status json_file_find(const char *folder, const char *name, size_t flags, json_t **out, struct err *err)
{
    char path[PATH_MAX];
    *out = NULL;
    enum status status = file_format_path(path, sizeof path, err, "%s/%s", folder, name);
    return status || !file_exists(path) ? status : json_file_read(path, flags, out, err);
}

char *json_file_text(const json_t *json, size_t flags)
{
    for (unsigned digits = 15;; digits++) {
        char *text = json_dumps(json, flags | JSON_REAL_PRECISION(digits));
        json_t *again = text && digits < 17 ? json_loads(text, 0, NULL) : NULL;
        bool exact = digits == 17 || json_equal(json, again);
        json_decref(again);
        char *ended = text && exact ? realloc(text, strlen(text) + 2) : NULL;
        if (ended) return strcat(ended, "\n");
        free(text);
        if (!text || exact) return NULL;
    }
}

enum status json_file_write(const char *path, json_t *json, size_t flags, struct err *err)
{
    char *text = json ? json_file_text(json, flags) : NULL;
    enum status status =
        text ? file_write_atomic(path, text, strlen(text), err) : err_no_memory(err, "writing %s", path);
    free(text);
    json_decref(json);
    return status;
}
