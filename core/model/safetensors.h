/* Reads and writes safetensors files. Reading checks everything before it uses a byte of data: header size,
 * UTF-8 JSON, no duplicate keys, shapes that do not overflow, offsets in range, without gaps or overlap,
 * covering the whole file. Format: https://github.com/huggingface/safetensors (u64 little-endian header size
 * ≤ 100,000,000, JSON, data).
 *
 * A model's folder holds either one model.safetensors or, as Hugging Face splits large models, the shards
 * that model.safetensors.index.json lists; they open as one list of tensors. An index is not trusted: a shard
 * must be a plain name in the same folder, and the shards must hold as many tensors as the index lists. Its
 * total_size is ignored: writers disagree about what it counts. */
#ifndef ANNEAL_CORE_MODEL_SAFETENSORS_H
#define ANNEAL_CORE_MODEL_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/file.h"

enum { SAFETENSORS_DIMS_MAX = 8 };

struct safetensor {
    const char *name;
    const char *dtype; /* "F32", "F16", "BF16", "I32", … as in the file */
    int64_t shape[SAFETENSORS_DIMS_MAX];
    int dims;
    const void *data; /* borrowed from the mapping or, for writing, from the caller */
    size_t bytes;
    const char *path; /* the file that holds it, and the offset of its data there; unused for writing */
    size_t offset;
};

struct safetensors {
    char *path; /* of the one file or of the index, for error messages */
    struct shard {
        char *path;
        struct file_map map;
    } * shards;
    struct safetensor *tensors; /* shard by shard, in the order of their data */
    size_t shard_count, count;
    const char *base;   /* of an adapter's file that anneal wrote: see safetensors_write_part; NULL: none */
    struct arena arena; /* owns names and shards */
};

enum status safetensors_open(const char *path, struct safetensors *out, struct err *err);
/* Opens the model in a folder. STATUS_NOT_FOUND if there is none; STATUS_CORRUPT for a bad index or file. */
enum status safetensors_open_folder(const char *folder, struct safetensors *out, struct err *err);
void safetensors_close(struct safetensors *file); /* harmless on a zeroed struct */

/* NULL if absent. Here, because gpu-check links no Jansson, which safetensors.c needs. */
static inline const struct safetensor *safetensors_find(const struct safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->tensors[i].name, name) == 0) return &file->tensors[i];
    return NULL;
}

/* Bytes of an element of a tensor that is F32, F16 or BF16. */
static inline size_t safetensor_width(const struct safetensor *tensor)
{
    return strcmp(tensor->dtype, "F32") == 0 ? 4 : 2;
}
/* Whether no number of a tensor is NaN or infinite; true for one of another type. Reads all its data. */
bool safetensor_is_finite(const struct safetensor *tensor);
/* `count` elements of such a tensor in host memory, from `first` on. */
void safetensor_read(const struct safetensor *tensor, size_t first, size_t count, float *out);
/* Numbers in the type of the tensor, rounded to the nearest. */
void safetensor_encode(const struct safetensor *tensor, const float *from, size_t count, unsigned char *out);

/* Copies `bytes` of a tensor that is written, from byte `at` of its data on, to host memory. `tensor` points
 * into the list that was passed on. */
typedef enum status safetensors_fetch(void *context, void *host, const struct safetensor *tensor, size_t at,
                                      size_t bytes, struct err *err);
/* The fetch function for data in host memory. */
enum status safetensors_fetch_host(void *context, void *host, const struct safetensor *tensor, size_t at,
                                   size_t bytes, struct err *err);

/* Writes the tensors (data, bytes, dtype, shape given) in order; atomic. `fetch` reads their data in pieces
 * of 1 MiB, so that no second copy of device memory is needed. __metadata__ is {"format":"pt"}. */
enum status safetensors_write(const char *path, const struct safetensor *tensors, size_t count,
                              safetensors_fetch *fetch, void *context, struct err *err);

/* The same with a note in __metadata__, "base_model_xxh64", unless `base` is NULL: what adapters in the file
 * belong to. With `ranges`, it writes a part of such a file, which several processes write together: of each
 * tensor the bytes [from, to) of its range, which are at `data`; the one with `first` also writes the header.
 * The file is whole when all have returned, in any order; until then it must not be opened, and after a
 * failure it is to be removed. */
struct byte_range {
    size_t from, to;
};
enum status safetensors_write_part(const char *path, const struct safetensor *tensors,
                                   const struct byte_range *ranges, size_t count, const char *base,
                                   bool first, safetensors_fetch *fetch, void *context, struct err *err);

#endif
