/* See safetensors.h. */
#include "core/model/safetensors.h"

#include <endian.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/half.h"
#include "core/base/text.h"
#include "datasets/json_file.h"

enum { HEADER_MAX = 100000000, PIECE = 1 << 20 };

/* Bytes of "F64", "BF16", "I32", "U8", "F8_E4M3", "BOOL" …; 0: unknown. */
static size_t dtype_bytes(const char *dtype)
{
    int bits = strcmp(dtype, "BOOL") == 0 ? 8 : atoi(dtype + strspn(dtype, "BFIU"));
    return strchr("BFIU", *dtype) && (bits == 8 || bits == 16 || bits == 32 || bits == 64) ? (size_t)bits / 8
                                                                                           : 0;
}

static enum status corrupt(struct err *err, const char *path, const char *name, const char *why)
{
    return err_set(err, STATUS_CORRUPT, "%s: not a valid safetensors file: %.80s%s%s", path, name,
                   *name ? ": " : "", why);
}

static enum status read_entry(struct safetensors *file, const struct shard *shard, const char *name,
                              json_t *entry, size_t data_start, struct safetensor *out, struct err *err)
{
    const char *path = shard->path, *dtype;
    json_t *shape;
    json_int_t begin, end;
    if (json_unpack(entry, "{s:s, s:o, s:[I, I!]}", "dtype", &dtype, "shape", &shape, "data_offsets", &begin,
                    &end) != 0 ||
        !json_is_array(shape))
        return corrupt(err, path, name, "dtype, shape or data_offsets is missing or malformed");
    size_t bytes = dtype_bytes(dtype), dims = json_array_size(shape);
    if (!bytes) return corrupt(err, path, name, "unknown dtype");
    if (dims > SAFETENSORS_DIMS_MAX) return corrupt(err, path, name, "more than 8 dimensions");
    *out = (struct safetensor){.dims = (int)dims, .path = path};
    for (size_t i = 0; i < dims; i++) {
        const json_t *size = json_array_get(shape, i);
        json_int_t n = json_integer_value(size);
        if (!json_is_integer(size) || n < 0 || (n > 0 && bytes > SIZE_MAX / (size_t)n))
            return corrupt(err, path, name, "the shape is negative or overflows");
        out->shape[i] = n;
        bytes *= (size_t)n;
    }
    if (begin < 0 || end < begin || (size_t)end > shard->map.size - data_start)
        return corrupt(err, path, name, "data_offsets lie outside the file");
    if ((size_t)(end - begin) != bytes)
        return corrupt(err, path, name, "data_offsets do not match shape and dtype");
    out->name = arena_strdup(&file->arena, name);
    out->dtype = arena_strdup(&file->arena, dtype);
    out->offset = data_start + (size_t)begin;
    out->data = shard->map.data + out->offset;
    out->bytes = bytes;
    return out->name && out->dtype ? STATUS_OK : err_no_memory(err, "reading %s", path);
}

static const char base_key[] = "base_model_xxh64";

static int by_data(const void *a, const void *b)
{
    const struct safetensor *x = a, *y = b;
    if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static enum status read_header(struct safetensors *file, const struct shard *shard, json_t *header,
                               size_t data_start, struct err *err)
{
    const char *name, *path = shard->path;
    const unsigned char *expected = shard->map.data + data_start;
    json_t *entry;
    size_t first = file->count;
    struct safetensor *grown =
        reallocarray(file->tensors, first + json_object_size(header) + 1, sizeof *file->tensors);
    if (!grown) return err_no_memory(err, "reading %s", path);
    file->tensors = grown;
    json_object_foreach(header, name, entry) {
        if (strcmp(name, "__metadata__") == 0) {
            const char *base = json_string_value(json_object_get(entry, base_key));
            if (base && !(file->base = arena_printf(&file->arena, "%s", base)))
                return err_no_memory(err, "reading %s", path);
            continue;
        }
        enum status status = read_entry(file, shard, name, entry, data_start, &grown[file->count++], err);
        if (status) return status;
    }
    qsort(grown + first, file->count - first, sizeof *grown, by_data);
    for (size_t i = first; i < file->count; expected += grown[i++].bytes)
        if (grown[i].data != expected)
            return corrupt(err, path, grown[i].name, "its data overlaps another's or leaves a gap");
    return expected == shard->map.data + shard->map.size
               ? STATUS_OK
               : corrupt(err, path, "", "extra bytes after the last tensor");
}

/* Opens one more file; file->shards has room for it. The arena owns `path`. */
static enum status open_shard(struct safetensors *file, char *path, struct err *err)
{
    struct shard *shard = &file->shards[file->shard_count];
    json_error_t problem;
    uint64_t size = 0;
    *shard = (struct shard){.path = path};
    if (!path) return err_no_memory(err, "reading %s", file->path);
    enum status status = file_map_open(path, &shard->map, err);
    if (status) return status;
    file->shard_count++;
    const unsigned char *data = shard->map.data;
    if (shard->map.size >= 10) memcpy(&size, data, sizeof size);
    size = le64toh(size);
    if (size < 2 || size > HEADER_MAX || size > shard->map.size - 8 || data[8] != '{')
        return corrupt(err, path, "", "the header is cut off or too large");
    json_t *header = json_loadb((const char *)data + 8, (size_t)size, JSON_REJECT_DUPLICATES, &problem);
    if (!header) return corrupt(err, path, "", problem.text);
    status = read_header(file, shard, header, 8 + (size_t)size, err);
    json_decref(header);
    return status;
}

/* ---- the index ---- */

/* A visible .safetensors file name without a path: an index can name neither other folders nor itself. */
static bool is_shard_name(const char *name)
{
    return *name != '.' && !strchr(name, '/') && strlen(name) <= NAME_MAX &&
           text_ends_with(name, ".safetensors");
}

static enum status open_named(struct safetensors *file, const char *folder, const char *tensor,
                              const char *shard, struct err *err)
{
    if (!shard || !is_shard_name(shard))
        return err_set(err, STATUS_CORRUPT,
                       "%s: %.80s: \"%.80s\" is not the name of a .safetensors file in "
                       "the same folder",
                       file->path, tensor, shard ? shard : "");
    for (size_t i = 0; i < file->shard_count; i++)
        if (strcmp(strrchr(file->shards[i].path, '/') + 1, shard) == 0) return STATUS_OK;
    return open_shard(file, arena_printf(&file->arena, "%s/%s", folder, shard), err);
}

static enum status open_shards(struct safetensors *file, const char *folder, json_t *map, struct err *err)
{
    const char *tensor;
    json_t *shard;
    enum status status = STATUS_OK;
    if (json_object_size(map) == 0)
        return err_set(err, STATUS_CORRUPT, "%s: weight_map is missing or empty", file->path);
    file->shards = arena_alloc_array(&file->arena, json_object_size(map), sizeof *file->shards);
    if (!file->shards) return err_no_memory(err, "reading %s", file->path);
    json_object_foreach(map, tensor, shard)
        if ((status = open_named(file, folder, tensor, json_string_value(shard), err))) return status;
    return file->count == json_object_size(map)
               ? STATUS_OK
               : err_set(err, STATUS_CORRUPT, "%s: lists %zu tensors, but its files hold %zu", file->path,
                         json_object_size(map), file->count);
}

static enum status open_index(struct safetensors *file, const char *folder, struct err *err)
{
    json_t *index;
    enum status status = json_file_read(file->path, JSON_REJECT_DUPLICATES, &index, err);
    if (!status) status = open_shards(file, folder, json_object_get(index, "weight_map"), err);
    json_decref(index);
    return status;
}

/* ---- opening ---- */

/* With a folder, `path` is an index that lists files of it; with folder NULL, `path` is the only file. */
static enum status open_path(const char *path, const char *folder, struct safetensors *out, struct err *err)
{
    struct safetensors file = {0};
    file.path = arena_strdup(&file.arena, path);
    file.shards = folder ? NULL : arena_alloc(&file.arena, sizeof *file.shards);
    enum status status = !file.path || (!folder && !file.shards) ? err_no_memory(err, "reading %s", path)
                         : folder                                ? open_index(&file, folder, err)
                                                                 : open_shard(&file, file.path, err);
    if (status)
        safetensors_close(&file);
    else
        *out = file;
    return status;
}

enum status safetensors_open(const char *path, struct safetensors *out, struct err *err)
{
    return open_path(path, NULL, out, err);
}

/* Also a link to a file that is missing: opening it says so. */
static bool is_there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

enum status safetensors_open_folder(const char *folder, struct safetensors *out, struct err *err)
{
    char path[PATH_MAX];
    enum status status = file_format_path(path, sizeof path, err, "%s/model.safetensors", folder);
    if (status || is_there(path)) return status ? status : safetensors_open(path, out, err);
    status = file_format_path(path, sizeof path, err, "%s/model.safetensors.index.json", folder);
    if (status || is_there(path)) return status ? status : open_path(path, folder, out, err);
    if (!file_format_path(path, sizeof path, NULL, "%s/adapter_config.json", folder) && is_there(path))
        return err_set(err, STATUS_USAGE,
                       "%s: holds adapters alone, not a model (`anneal model merge` writes them into a copy "
                       "of their base)",
                       folder);
    bool pickled =
        !file_format_path(path, sizeof path, NULL, "%s/pytorch_model.bin", folder) && is_there(path);
    return err_set(
        err, STATUS_NOT_FOUND, "%s: has neither model.safetensors nor model.safetensors.index.json%s", folder,
        pickled ? " (pytorch_model.bin is not read: save_pretrained of transformers writes it anew)" : "");
}

void safetensors_close(struct safetensors *file)
{
    for (size_t i = 0; i < file->shard_count; i++) file_map_close(&file->shards[i].map);
    free(file->tensors);
    arena_release(&file->arena);
    *file = (struct safetensors){0};
}

bool safetensor_is_finite(const struct safetensor *t)
{
    bool half = strcmp(t->dtype, "F16") == 0, is_float = strcmp(t->dtype, "F32") == 0;
    if (!half && !is_float && strcmp(t->dtype, "BF16") != 0) return true;
    /* the exponent, of which all bits are set then; that of F32 lies in its upper half as that of BF16 */
    const uint16_t exponent = half ? 0x7C00 : 0x7F80;
    const unsigned char *upper = (const unsigned char *)t->data + (is_float ? 2 : 0);
    const size_t width = safetensor_width(t), count = t->bytes / width;
    for (size_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, upper + i * width, sizeof bits);
        if ((le16toh(bits) & exponent) == exponent) return false;
    }
    return true;
}

void safetensor_read(const struct safetensor *t, size_t first, size_t count, float *out)
{
    size_t width = safetensor_width(t);
    const unsigned char *from = (const unsigned char *)t->data + first * width;
    bool half = *t->dtype == 'F';
    if (width == sizeof *out) {
        memcpy(out, from, count * width);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint16_t narrow;
        memcpy(&narrow, from + i * width, width);
        out[i] = half ? float_of_f16(le16toh(narrow)) : float_of_bf16(le16toh(narrow));
    }
}

void safetensor_encode(const struct safetensor *t, const float *from, size_t count, unsigned char *out)
{
    size_t width = safetensor_width(t);
    bool half = *t->dtype == 'F';
    if (width == sizeof *from) {
        memcpy(out, from, count * width);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint16_t narrow = htole16(half ? f16_of_float(from[i]) : bf16_of_float(from[i]));
        memcpy(out + i * width, &narrow, width);
    }
}

/* ---- writing ---- */

enum status safetensors_fetch_host(void *context, void *host, const struct safetensor *t, size_t at,
                                   size_t bytes, struct err *err)
{
    (void)context;
    (void)err;
    memcpy(host, (const unsigned char *)t->data + at, bytes);
    return STATUS_OK;
}

/* The header, with spaces at its end that align the data to 8 bytes; malloc'd. */
static char *header_of(const struct safetensor *tensors, size_t count, const char *base)
{
    json_t *header = json_pack("{s:{s:s, s:s*}}", "__metadata__", "format", "pt", base_key, base);
    size_t offset = 0;
    bool whole = header;
    for (size_t i = 0; whole && i < count; i++) {
        json_t *shape = json_array();
        for (int d = 0; d < tensors[i].dims; d++)
            json_array_append_new(shape, json_integer(tensors[i].shape[d]));
        json_t *entry =
            json_pack("{s:s, s:o, s:[I,I]}", "dtype", tensors[i].dtype, "shape", shape, "data_offsets",
                      (json_int_t)offset, (json_int_t)(offset + tensors[i].bytes));
        whole = entry && json_object_set_new(header, tensors[i].name, entry) == 0;
        offset += tensors[i].bytes;
    }
    char *text = whole ? json_dumps(header, JSON_COMPACT) : NULL;
    size_t length = text ? strlen(text) : 0, padded = (length + 7) / 8 * 8;
    char *grown = text ? realloc(text, padded + 1) : NULL;
    if (grown) memset(grown + length, ' ', padded - length), grown[padded] = '\0';
    if (!grown) free(text);
    json_decref(header);
    return grown;
}

/* A file that is being written. */
struct writing {
    int fd;
    const char *path;
    unsigned char *piece; /* (PIECE) */
    safetensors_fetch *fetch;
    void *context;
};

static enum status write_data(const struct writing *w, const struct safetensor *t, size_t bytes,
                              struct err *err)
{
    enum status status = STATUS_OK;
    for (size_t at = 0; !status && at < bytes; at += PIECE) {
        size_t n = bytes - at < PIECE ? bytes - at : PIECE;
        status = w->fetch(w->context, w->piece, t, at, n, err);
        if (!status) status = file_write_all(w->fd, w->piece, n, w->path, err);
    }
    return status;
}

static enum status write_tensors(const struct writing *w, const char *header,
                                 const struct safetensor *tensors, const struct byte_range *ranges,
                                 size_t count, bool first, struct err *err)
{
    uint64_t length = strlen(header), prefix = htole64(length);
    size_t at = sizeof prefix + length;
    enum status status = STATUS_OK;
    if (first) status = file_write_all(w->fd, &prefix, sizeof prefix, w->path, err);
    if (first && !status) status = file_write_all(w->fd, header, length, w->path, err);
    for (size_t i = 0; !status && i < count; at += tensors[i++].bytes) {
        size_t bytes = ranges ? ranges[i].to - ranges[i].from : tensors[i].bytes;
        if (ranges && bytes && lseek(w->fd, (off_t)(at + ranges[i].from), SEEK_SET) < 0)
            return err_set(err, STATUS_IO, "%s: cannot write: %s", w->path, strerror(errno));
        status = write_data(w, &tensors[i], bytes, err);
    }
    return status;
}

enum status safetensors_write_part(const char *path, const struct safetensor *tensors,
                                   const struct byte_range *ranges, size_t count, const char *base,
                                   bool first, safetensors_fetch *fetch, void *context, struct err *err)
{
    char *header = header_of(tensors, count, base);
    struct writing w = {.path = path, .piece = malloc(PIECE), .fetch = fetch, .context = context};
    struct file_out out;
    enum status status = header && w.piece ? STATUS_OK : err_no_memory(err, "writing %s", path);
    if (!status) status = ranges ? file_out_join(&out, path, err) : file_out_open(&out, path, err);
    if (!status) {
        w.fd = fileno(out.stream);
        status = write_tensors(&w, header, tensors, ranges, count, first, err);
        status = file_out_close(&out, status, 0, err);
    }
    free(w.piece);
    free(header);
    return status;
}

enum status safetensors_write(const char *path, const struct safetensor *tensors, size_t count,
                              safetensors_fetch *fetch, void *context, struct err *err)
{
    return safetensors_write_part(path, tensors, NULL, count, NULL, true, fetch, context, err);
}
