/* See safetensors.h. */
#include "core/model/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEADER_MAX = 100000000, PIECE = 1 << 20 };

static size_t dtype_bytes(const char *dtype)
{
    static const struct {
        const char *name;
        size_t bytes;
    } known[] = {{"F64", 8}, {"I64", 8}, {"U64", 8},  {"F32", 4},     {"I32", 4},
                 {"U32", 4}, {"F16", 2}, {"BF16", 2}, {"I16", 2},     {"U16", 2},
                 {"I8", 1},  {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, dtype) == 0) return known[i].bytes;
    return 0;
}

static enum status corrupt(struct err *err, const char *path, const char *name, const char *why)
{
    return err_set(err, STATUS_CORRUPT, "%s: not a valid safetensors file: %.80s%s%s", path, name,
                   *name ? ": " : "", why);
}

static enum status read_entry(struct safetensors *file, const char *path, const char *name, json_t *entry,
                              size_t data_start, struct safetensor *out, struct err *err)
{
    const json_t *dtype = json_object_get(entry, "dtype"), *shape = json_object_get(entry, "shape");
    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (!json_is_string(dtype) || !json_is_array(shape) || !json_is_array(offsets) ||
        json_array_size(offsets) != 2)
        return corrupt(err, path, name, "dtype, shape or data_offsets is missing");
    size_t bytes = dtype_bytes(json_string_value(dtype));
    if (!bytes) return corrupt(err, path, name, "unknown dtype");
    out->dims = (int)json_array_size(shape);
    if (json_array_size(shape) > SAFETENSORS_DIMS_MAX)
        return corrupt(err, path, name, "more than 8 dimensions");
    for (int i = 0; i < out->dims; i++) {
        const json_t *size = json_array_get(shape, (size_t)i);
        json_int_t n = json_integer_value(size);
        if (!json_is_integer(size) || n < 0 || (n > 0 && bytes > SIZE_MAX / (size_t)n))
            return corrupt(err, path, name, "the shape is negative or overflows");
        out->shape[i] = n;
        bytes *= (size_t)n;
    }
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    json_int_t begin = json_integer_value(first), end = json_integer_value(last);
    size_t data_size = file->map.size - data_start;
    if (!json_is_integer(first) || !json_is_integer(last) || begin < 0 || end < begin ||
        (size_t)end > data_size)
        return corrupt(err, path, name, "data_offsets lie outside the file");
    if ((size_t)(end - begin) != bytes)
        return corrupt(err, path, name, "data_offsets do not fit shape and dtype");
    out->name = arena_strdup(&file->arena, name);
    out->dtype = arena_strdup(&file->arena, json_string_value(dtype));
    out->data = file->map.data + data_start + (size_t)begin;
    out->bytes = bytes;
    return out->name && out->dtype ? STATUS_OK
                                   : err_set(err, STATUS_NO_MEMORY, "%s: no memory to read it", path);
}

static int by_data(const void *a, const void *b)
{
    const struct safetensor *x = a, *y = b;
    if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static enum status check_metadata(const char *path, json_t *object, struct err *err)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object)) return corrupt(err, path, "__metadata__", "is no JSON object");
    json_object_foreach(object, key, value)
    {
        if (!json_is_string(value))
            return corrupt(err, path, "__metadata__", "holds something that is no text");
    }
    return STATUS_OK;
}

static enum status read_header(struct safetensors *file, const char *path, json_t *header, size_t data_start,
                               struct err *err)
{
    const char *name;
    json_t *entry;
    enum status status = STATUS_OK;
    file->tensors = arena_alloc_array(&file->arena, json_object_size(header) + 1, sizeof *file->tensors);
    if (!file->tensors) return err_set(err, STATUS_NO_MEMORY, "%s: no memory to read it", path);
    json_object_foreach(header, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0)
            status = check_metadata(path, entry, err);
        else
            status = read_entry(file, path, name, entry, data_start, &file->tensors[file->count++], err);
        if (status) return status;
    }
    qsort(file->tensors, file->count, sizeof *file->tensors, by_data);
    const unsigned char *expected = file->map.data + data_start;
    for (size_t i = 0; i < file->count; i++) {
        if (file->tensors[i].data != expected)
            return corrupt(err, path, file->tensors[i].name, "its data overlaps another's or leaves a gap");
        expected += file->tensors[i].bytes;
    }
    if (expected != file->map.data + file->map.size)
        return corrupt(err, path, "", "bytes behind the last tensor");
    return STATUS_OK;
}

enum status safetensors_open(const char *path, struct safetensors *out, struct err *err)
{
    struct safetensors file = {0};
    json_t *header = NULL;
    json_error_t problem;
    uint64_t size = 0;
    arena_init(&file.arena, 65536);
    enum status status = file_map_open(path, &file.map, err);
    if (status) goto out;
    for (int i = 0; i < 8 && file.map.size >= 8; i++) size |= (uint64_t)file.map.data[i] << (8 * i);
    if (file.map.size < 10 || size > HEADER_MAX || size > file.map.size - 8 || file.map.data[8] != '{') {
        status = corrupt(err, path, "", "the header is cut off or too large");
        goto out;
    }
    header = json_loadb((const char *)file.map.data + 8, (size_t)size, JSON_REJECT_DUPLICATES, &problem);
    if (!header || !json_is_object(header)) {
        status = corrupt(err, path, "", header ? "the header is no JSON object" : problem.text);
        goto out;
    }
    status = read_header(&file, path, header, 8 + (size_t)size, err);
out:
    json_decref(header);
    if (status)
        safetensors_close(&file);
    else
        *out = file;
    return status;
}

void safetensors_close(struct safetensors *file)
{
    file_map_close(&file->map);
    arena_release(&file->arena);
    *file = (struct safetensors){0};
}

const struct safetensor *safetensors_find(const struct safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->tensors[i].name, name) == 0) return &file->tensors[i];
    return NULL;
}

static json_t *header_of(const struct safetensor *tensors, size_t count)
{
    json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    size_t offset = 0;
    for (size_t i = 0; header && i < count; i++) {
        json_t *shape = json_array();
        for (int d = 0; d < tensors[i].dims; d++)
            json_array_append_new(shape, json_integer(tensors[i].shape[d]));
        json_t *entry =
            json_pack("{s:s, s:o, s:[I,I]}", "dtype", tensors[i].dtype, "shape", shape, "data_offsets",
                      (json_int_t)offset, (json_int_t)(offset + tensors[i].bytes));
        if (!entry || json_object_set_new(header, tensors[i].name, entry) != 0) {
            json_decref(header);
            header = NULL;
        }
        offset += tensors[i].bytes;
    }
    return header;
}

static enum status write_data(int fd, const struct safetensor *tensor, safetensors_fetch *fetch,
                              void *context, unsigned char *piece, const char *path, struct err *err)
{
    enum status status = STATUS_OK;
    for (size_t at = 0; !status && at < tensor->bytes; at += PIECE) {
        size_t n = tensor->bytes - at < PIECE ? tensor->bytes - at : PIECE;
        status = fetch(context, piece, (const unsigned char *)tensor->data + at, n, err);
        if (!status) status = file_write_all(fd, piece, n, path, err);
    }
    return status;
}

enum status safetensors_write(const char *path, const struct safetensor *tensors, size_t count,
                              safetensors_fetch *fetch, void *context, struct err *err)
{
    enum status status = STATUS_OK;
    unsigned char prefix[8], *piece = malloc(PIECE);
    char *text = NULL;
    int fd = -1;
    json_t *header = header_of(tensors, count);
    if (header) text = json_dumps(header, JSON_COMPACT);
    if (!text || !piece) {
        status = err_set(err, STATUS_NO_MEMORY, "%s: no memory to write it", path);
        goto out;
    }
    size_t length = strlen(text), padded = (length + 7) / 8 * 8; /* spaces align the data to 8 bytes */
    for (int i = 0; i < 8; i++) prefix[i] = (unsigned char)((uint64_t)padded >> (8 * i));
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        status = err_set(err, STATUS_IO, "%s: cannot create: %s", path, strerror(errno));
        goto out;
    }
    status = file_write_all(fd, prefix, sizeof prefix, path, err);
    if (!status) status = file_write_all(fd, text, length, path, err);
    if (!status) status = file_write_all(fd, "       ", padded - length, path, err);
    for (size_t i = 0; !status && i < count; i++)
        status = write_data(fd, &tensors[i], fetch, context, piece, path, err);
    if (!status && fsync(fd) != 0)
        status = err_set(err, STATUS_IO, "%s: cannot sync: %s", path, strerror(errno));
out:
    if (fd >= 0 && close(fd) != 0 && !status)
        status = err_set(err, STATUS_IO, "%s: cannot close: %s", path, strerror(errno));
    free(piece);
    free(text);
    json_decref(header);
    return status;
}
