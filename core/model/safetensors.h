/* safetensors files, both ways. Reading checks everything before a byte of data is used: header size, UTF-8
 * JSON, no duplicate keys, shapes that do not overflow, offsets in range, without gaps or overlap, covering
 * the whole file. Format: https://github.com/huggingface/safetensors (u64 little-endian header size ≤
 * 100,000,000, JSON, data).
 *
 * A model in a folder is one model.safetensors, or, as Hugging Face splits large ones, the shards that
 * model.safetensors.index.json lists: opened together they are one list of tensors. An index is as little
 * trusted as any file: a shard is a plain name in the same folder, and the shards hold as many tensors as the
 * index names. Its total_size is not looked at: writers disagree about what it counts. */
#ifndef ANNEAL_CORE_MODEL_SAFETENSORS_H
#define ANNEAL_CORE_MODEL_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

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
    const char *path; /* of the file that holds it, and where its data begin there; not needed for writing */
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
    struct arena arena; /* owns names and shards */
};

enum status safetensors_open(const char *path, struct safetensors *out, struct err *err);
/* Of a model in a folder. STATUS_NOT_FOUND where there is none; STATUS_CORRUPT for an index or a file that
 * cannot be trusted. */
enum status safetensors_open_folder(const char *folder, struct safetensors *out, struct err *err);
void safetensors_close(struct safetensors *file); /* harmless on a zeroed struct */

/* NULL when absent. */
const struct safetensor *safetensors_find(const struct safetensors *file, const char *name);

/* Copies `bytes` of a tensor's data, wherever it lives, to host memory. */
typedef enum status safetensors_fetch(void *context, void *host, const void *data, size_t bytes,
                                      struct err *err);
/* The one for data in host memory. */
enum status safetensors_fetch_host(void *context, void *host, const void *data, size_t bytes,
                                   struct err *err);

/* Writes the tensors (data, bytes, dtype, shape given) in order; atomic. Their data is read through `fetch`
 * in pieces of 1 MiB, so that device memory needs no second copy. __metadata__ is {"format":"pt"}. */
enum status safetensors_write(const char *path, const struct safetensor *tensors, size_t count,
                              safetensors_fetch *fetch, void *context, struct err *err);

#endif
