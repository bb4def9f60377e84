/* See weight_files.h. */
#include "core/model/weight_files.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <string.h>

static enum status no_memory(const char *path, struct err *err)
{
    return err_set(err, STATUS_NO_MEMORY, "%s: no memory to read it", path);
}

/* files->path is set. */
static enum status open_single(struct weight_files *files, struct err *err)
{
    files->files = arena_alloc_array(&files->arena, 1, sizeof *files->files);
    if (!files->files) return no_memory(files->path, err);
    files->files[0] = (struct weight_file){.path = files->path};
    enum status status = safetensors_open(files->path, &files->files[0].content, err);
    if (!status) files->count = 1;
    return status;
}

/* ---- the index ---- */

/* Not a path, not hidden, and a safetensors file: so it is neither elsewhere nor the index itself. */
static bool is_shard_name(const char *name)
{
    static const char end[] = ".safetensors";
    size_t length = strlen(name), n = sizeof end - 1;
    return *name != '.' && !strchr(name, '/') && length > n && length <= NAME_MAX &&
           strcmp(name + length - n, end) == 0;
}

static const struct weight_file *file_named(const struct weight_files *files, const char *shard)
{
    for (size_t i = 0; i < files->count; i++)
        if (strcmp(strrchr(files->files[i].path, '/') + 1, shard) == 0) return &files->files[i];
    return NULL;
}

static enum status open_shard(struct weight_files *files, const char *folder, const char *tensor,
                              const char *shard, struct err *err)
{
    if (!is_shard_name(shard))
        return err_set(
            err, STATUS_CORRUPT,
            "%s: %.80s is said to be in \"%.80s\", which is not the name of a .safetensors file in the "
            "same folder",
            files->path, tensor, shard);
    if (file_named(files, shard)) return STATUS_OK;
    struct weight_file *file = &files->files[files->count];
    *file = (struct weight_file){.path = arena_printf(&files->arena, "%s/%s", folder, shard)};
    if (!file->path) return no_memory(files->path, err);
    if (!file_exists(file->path))
        return err_set(
            err, STATUS_NOT_FOUND,
            "%s: is not there, and the index says that it holds %.80s (the checkout is not complete)",
            file->path, tensor);
    enum status status = safetensors_open(file->path, &file->content, err);
    if (!status) files->count++;
    return status;
}

/* What a shard has, the index says that it has. */
static enum status check_shard(const struct weight_file *file, const json_t *map, struct err *err)
{
    for (size_t i = 0; i < file->content.count; i++) {
        const char *tensor = file->content.tensors[i].name,
                   *said = json_string_value(json_object_get(map, tensor));
        if (!said)
            return err_set(err, STATUS_CORRUPT, "%s: has %.80s, which the index does not name", file->path,
                           tensor);
        if (strcmp(strrchr(file->path, '/') + 1, said) != 0)
            return err_set(err, STATUS_CORRUPT, "%s: has %.80s, which the index says is in %.80s", file->path,
                           tensor, said);
    }
    return STATUS_OK;
}

static enum status name_missing(const struct weight_files *files, const json_t *map, struct err *err)
{
    const char *tensor;
    json_t *shard;
    json_object_foreach((json_t *)map, tensor, shard)
    {
        const struct weight_file *file = file_named(files, json_string_value(shard));
        if (!safetensors_find(&file->content, tensor))
            return err_set(err, STATUS_CORRUPT, "%s: lacks %.80s, which the index says it has", file->path,
                           tensor);
    }
    return STATUS_OK;
}

static enum status open_shards(struct weight_files *files, const char *folder, const json_t *map,
                               struct err *err)
{
    const char *tensor;
    json_t *shard;
    size_t held = 0;
    enum status status = STATUS_OK;
    files->files = arena_alloc_array(&files->arena, json_object_size(map), sizeof *files->files);
    if (!files->files) return no_memory(files->path, err);
    json_object_foreach((json_t *)map, tensor, shard)
    {
        if (!json_is_string(shard))
            return err_set(err, STATUS_CORRUPT, "%s: weight_map names no file for %.80s", files->path,
                           tensor);
        if ((status = open_shard(files, folder, tensor, json_string_value(shard), err))) return status;
    }
    for (size_t i = 0; i < files->count; i++) {
        if ((status = check_shard(&files->files[i], map, err))) return status;
        held += files->files[i].content.count;
    }
    return held < json_object_size(map) ? name_missing(files, map, err) : STATUS_OK;
}

static enum status open_index(struct weight_files *files, const char *folder, struct err *err)
{
    struct file_map text;
    json_error_t problem;
    enum status status = file_map_open(files->path, &text, err);
    if (status) return status;
    json_t *index = json_loadb((const char *)text.data, text.size, JSON_REJECT_DUPLICATES, &problem);
    file_map_close(&text);
    if (!index) return err_set(err, STATUS_CORRUPT, "%s:%d: %s", files->path, problem.line, problem.text);
    const json_t *map = json_object_get(index, "weight_map");
    status = json_object_size(map)
                 ? open_shards(files, folder, map, err)
                 : err_set(err, STATUS_CORRUPT, "%s: weight_map is missing or empty", files->path);
    json_decref(index);
    return status;
}

/* ---- opening ---- */

/* An index names files of `folder`; folder NULL: `path` is the one file. */
static enum status open_path(const char *path, const char *folder, struct weight_files *out, struct err *err)
{
    struct weight_files files = {0};
    arena_init(&files.arena, 4096);
    files.path = arena_strdup(&files.arena, path);
    enum status status = !files.path ? no_memory(path, err)
                         : folder    ? open_index(&files, folder, err)
                                     : open_single(&files, err);
    if (status)
        weight_files_close(&files);
    else
        *out = files;
    return status;
}

enum status weight_files_open_one(const char *path, struct weight_files *out, struct err *err)
{
    return open_path(path, NULL, out, err);
}

enum status weight_files_open(const char *folder, struct weight_files *out, struct err *err)
{
    char path[PATH_MAX];
    enum status status = file_format_path(path, sizeof path, err, "%s/model.safetensors", folder);
    if (status) return status;
    if (file_exists(path)) return open_path(path, NULL, out, err);
    status = file_format_path(path, sizeof path, err, "%s/model.safetensors.index.json", folder);
    if (status) return status;
    if (!file_exists(path))
        return err_set(err, STATUS_NOT_FOUND,
                       "%s: holds no model.safetensors and no model.safetensors.index.json", folder);
    return open_path(path, folder, out, err);
}

void weight_files_close(struct weight_files *files)
{
    for (size_t i = 0; i < files->count; i++) safetensors_close(&files->files[i].content);
    arena_release(&files->arena);
    *files = (struct weight_files){0};
}

const struct safetensor *weight_files_find(const struct weight_files *files, const char *name,
                                           const struct weight_file **file)
{
    for (size_t i = 0; i < files->count; i++) {
        const struct safetensor *tensor = safetensors_find(&files->files[i].content, name);
        if (tensor) {
            *file = &files->files[i];
            return tensor;
        }
    }
    return NULL;
}
