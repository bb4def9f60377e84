/* See token_file.h. */
#include "datasets/token_file.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "token files are mapped as they lie on disk");

enum { HEADER_BYTES = 8 };

static enum status wrong_field(struct err *err, const char *sidecar, const char *field, const char *wanted)
{
    return err_set(err, STATUS_CORRUPT, "%s: field \"%s\" is not %s (prepare the token file again)", sidecar,
                   field, wanted);
}

static enum status copy_text(json_t *root, const char *field, const char *sidecar, char *out, size_t size,
                             struct err *err)
{
    json_t *value = json_object_get(root, field);
    if (!value || json_is_null(value)) return STATUS_OK;
    if (!json_is_string(value) || json_string_length(value) >= size)
        return wrong_field(err, sidecar, field, "a text of less than 256 bytes");
    strcpy(out, json_string_value(value));
    return STATUS_OK;
}

static enum status read_sidecar(const char *path, struct token_file *file, struct err *err)
{
    char sidecar[PATH_MAX];
    struct file_map map = {0};
    if (snprintf(sidecar, sizeof sidecar, "%s.json", path) >= (int)sizeof sidecar || !file_exists(sidecar))
        return STATUS_OK;
    enum status status = file_map_open(sidecar, &map, err);
    if (status) return status;
    json_error_t where;
    json_t *root = json_loadb((const char *)map.data, map.size, JSON_REJECT_DUPLICATES, &where);
    file_map_close(&map);
    if (!root)
        return err_set(err, STATUS_CORRUPT, "%s: line %d: %s (prepare the token file again)", sidecar,
                       where.line, where.text);
    json_t *tokens = json_object_get(root, "tokens"), *vocab = json_object_get(root, "vocab_size");
    json_t *checksum = json_object_get(root, "tokenizer_checksum");
    if (!json_is_object(root)) {
        status =
            err_set(err, STATUS_CORRUPT, "%s: is not a JSON object (prepare the token file again)", sidecar);
        goto out;
    }
    if ((status = copy_text(root, "tokenizer", sidecar, file->tokenizer, sizeof file->tokenizer, err)) ||
        (status = copy_text(root, "tokenizer_file", sidecar, file->tokenizer_file,
                            sizeof file->tokenizer_file, err)))
        goto out;
    if (vocab) {
        if (!json_is_integer(vocab) || json_integer_value(vocab) < 1 ||
            json_integer_value(vocab) > INT32_MAX) {
            status = wrong_field(err, sidecar, "vocab_size", "a whole number from 1 to 2147483647");
            goto out;
        }
        file->vocab_size = (uint32_t)json_integer_value(vocab);
    }
    if (checksum) {
        const char *text = json_string_value(checksum);
        if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) {
            status = wrong_field(err, sidecar, "tokenizer_checksum", "16 hexadecimal digits");
            goto out;
        }
        file->tokenizer_checksum = strtoull(text, NULL, 16);
    }
    if (tokens && (!json_is_integer(tokens) || (uint64_t)json_integer_value(tokens) != file->count))
        status = err_set(
            err, STATUS_CORRUPT,
            "%s: belongs to another token file: it speaks of %lld tokens, %s has %llu (prepare it again)",
            sidecar, (long long)json_integer_value(tokens), path, (unsigned long long)file->count);
out:
    json_decref(root);
    return status;
}

/* ---- the formats ---- */

/* llm.c's files begin with 256 int32 that say what they are. */
enum {
    SHARD_HEADER_BYTES = 256 * 4,
    SHARD_MAGIC_16 = 20240520,
    SHARD_MAGIC_32 = 20240801,
    SHARD_MAGIC_CHOICES = 20240522, /* its multiple-choice evaluations: not a stream of tokens */
};

bool token_file_named(const char *path)
{
    size_t n = strlen(path);
    return n >= 4 && (strcmp(path + n - 4, ".tok") == 0 || strcmp(path + n - 4, ".bin") == 0);
}

const char *token_format_name(enum token_format format)
{
    static const char *const names[] = {".tok", "llm.c shard, 16 bits", "llm.c shard, 32 bits"};
    return names[format];
}

/* A count that does not fit the size. `count` is at most 2^48: nothing overflows. */
static enum status wrong_size(struct err *err, const char *path, const struct file_map *map, uint64_t header,
                              uint64_t width, uint64_t count)
{
    uint64_t wanted = header + width * count;
    return err_set(err, STATUS_CORRUPT,
                   "%s: is %s: its header promises %llu tokens, which is %llu bytes, but the file has %zu "
                   "(prepare it again)",
                   path, wanted > map->size ? "truncated" : "too long", (unsigned long long)count,
                   (unsigned long long)wanted, map->size);
}

static enum status read_shard(const char *path, const struct file_map *map, struct token_file *file,
                              struct err *err)
{
    int32_t header[3];
    if (map->size < SHARD_HEADER_BYTES)
        return err_set(err, STATUS_CORRUPT, "%s: is truncated: %zu bytes, but a shard's header alone has %d",
                       path, map->size, SHARD_HEADER_BYTES);
    memcpy(header, map->data, sizeof header);
    bool narrow = header[0] == SHARD_MAGIC_16;
    if (header[0] == SHARD_MAGIC_CHOICES)
        return err_set(err, STATUS_CORRUPT,
                       "%s: is an llm.c file of multiple-choice questions, not of tokens to train on (name "
                       "its train or val shards)",
                       path);
    if (header[1] != 1 && (narrow || header[1] != 7))
        return err_set(err, STATUS_CORRUPT, "%s: is an llm.c shard of version %d; known is %s", path,
                       header[1], narrow ? "1" : "1 or 7");
    if (header[2] < 0)
        return err_set(err, STATUS_CORRUPT, "%s: is no llm.c shard: its header promises %d tokens", path,
                       header[2]);
    file->count = (uint64_t)header[2];
    uint64_t width = narrow ? sizeof(uint16_t) : sizeof(uint32_t);
    if (map->size != SHARD_HEADER_BYTES + width * file->count)
        return wrong_size(err, path, map, SHARD_HEADER_BYTES, width, file->count);
    file->format = narrow ? TOKEN_FORMAT_SHARD_16 : TOKEN_FORMAT_SHARD_32;
    if (narrow)
        file->narrow = (const uint16_t *)(map->data + SHARD_HEADER_BYTES);
    else
        file->tokens = (const uint32_t *)(map->data + SHARD_HEADER_BYTES);
    return STATUS_OK;
}

static enum status read_tok(const char *path, const struct file_map *map, struct token_file *file,
                            struct err *err)
{
    size_t n = strlen(path);
    bool bin = n >= 4 && strcmp(path + n - 4, ".bin") == 0;
    uint64_t held = (map->size - HEADER_BYTES) / sizeof(uint32_t);
    if (bin && file->count != held)
        return err_set(
            err, STATUS_CORRUPT,
            "%s: is no llm.c shard: it begins with neither %d nor %d (a text file must not be named "
            ".bin)",
            path, SHARD_MAGIC_16, SHARD_MAGIC_32);
    if (file->count > ((uint64_t)1 << 48))
        return err_set(
            err, STATUS_CORRUPT,
            "%s: is no token file: its header promises %llu tokens, the file has %zu bytes (a text "
            "file must not be named .tok)",
            path, (unsigned long long)file->count, map->size);
    if (file->count != held || (map->size - HEADER_BYTES) % sizeof(uint32_t))
        return wrong_size(err, path, map, HEADER_BYTES, sizeof(uint32_t), file->count);
    file->tokens = (const uint32_t *)(map->data + HEADER_BYTES);
    return STATUS_OK;
}

/* No file is both: a shard read as .tok promises more than 2^32 tokens, 16 GiB; a shard has at most 8. */
static bool is_shard(const struct file_map *map)
{
    int32_t header[2];
    memcpy(header, map->data, sizeof header);
    return header[1] != 0 &&
           (header[0] == SHARD_MAGIC_16 || header[0] == SHARD_MAGIC_32 || header[0] == SHARD_MAGIC_CHOICES);
}

enum status token_file_open(const char *path, struct token_file *out, struct err *err)
{
    struct file_map map = {0};
    struct token_file file = {0};
    enum status status = file_map_open(path, &map, err);
    if (status) return status;
    if (map.size < HEADER_BYTES) {
        status = err_set(err, STATUS_CORRUPT, "%s: is no token file: %zu bytes, but the header alone has %d",
                         path, map.size, HEADER_BYTES);
        goto out;
    }
    memcpy(&file.count, map.data, sizeof file.count);
    bool tok = file.count == (map.size - HEADER_BYTES) / sizeof(uint32_t);
    status = !tok && is_shard(&map) ? read_shard(path, &map, &file, err) : read_tok(path, &map, &file, err);
    if (status) goto out;
    file.map = (void *)map.data;
    file.map_bytes = map.size;
    if ((status = read_sidecar(path, &file, err))) goto out;
    *out = file;
out:
    if (status) file_map_close(&map);
    return status;
}

void token_file_close(struct token_file *file)
{
    struct file_map map = {file->map, file->map_bytes};
    file_map_close(&map);
    *file = (struct token_file){0};
}

static uint32_t largest_of_narrow(const uint16_t *tokens, uint64_t count)
{
    uint16_t largest = 0;
#pragma omp parallel for simd reduction(max : largest) schedule(static) if (count > 1000000)
    for (uint64_t i = 0; i < count; i++) largest = tokens[i] > largest ? tokens[i] : largest;
    return largest;
}

static uint32_t largest_of(const uint32_t *tokens, uint64_t count)
{
    uint32_t largest = 0;
#pragma omp parallel for simd reduction(max : largest) schedule(static) if (count > 1000000)
    for (uint64_t i = 0; i < count; i++) largest = tokens[i] > largest ? tokens[i] : largest;
    return largest;
}

uint32_t token_file_largest(const struct token_file *file)
{
    if (file->bound) return (uint32_t)(file->bound - 1);
    if (file->narrow) return largest_of_narrow(file->narrow, file->count);
    return file->tokens ? largest_of(file->tokens, file->count) : 0;
}

void token_file_measure(struct token_file *file)
{
    file->bound = (uint64_t)token_file_largest(file) + 1;
}

enum status token_file_check(const struct token_file *file, const char *path, uint32_t vocab_size,
                             struct err *err)
{
    if (!file->count || token_file_largest(file) < vocab_size) return STATUS_OK;
    uint64_t i = 0;
    while (token_file_id(file, i) < vocab_size) i++;
    return err_set(
        err, STATUS_CORRUPT,
        "%s: token %llu has the id %u, but the vocabulary has %u (prepare it again with this tokenizer)",
        path, (unsigned long long)i, token_file_id(file, i), vocab_size);
}

/* ---- writing ---- */

struct token_writer {
    char path[PATH_MAX], temporary[PATH_MAX];
    int fd;
    uint64_t count;
};

enum status token_writer_open(const char *path, struct token_writer **out, struct err *err)
{
    if (file_is_folder(path))
        return err_set(err, STATUS_USAGE, "%s: is a folder (name a file to write)", path);
    struct token_writer *writer = calloc(1, sizeof *writer);
    if (!writer) return err_set(err, STATUS_NO_MEMORY, "%s: not enough memory to write it", path);
    if (snprintf(writer->path, sizeof writer->path, "%s", path) >= (int)sizeof writer->path ||
        snprintf(writer->temporary, sizeof writer->temporary, "%s.tmp-%ld", path, (long)getpid()) >=
            (int)sizeof writer->temporary) {
        free(writer);
        return err_set(err, STATUS_USAGE, "%s: the path is too long", path);
    }
    writer->fd = open(writer->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (writer->fd < 0) {
        int code = errno;
        free(writer);
        return err_set(err, code == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s: cannot create: %s", path,
                       strerror(code));
    }
    static const unsigned char header[HEADER_BYTES] = {0};
    enum status status = file_write_all(writer->fd, header, sizeof header, path, err);
    if (status)
        token_writer_abort(writer);
    else
        *out = writer;
    return status;
}

enum status token_writer_append(struct token_writer *writer, const uint32_t *tokens, uint64_t count,
                                struct err *err)
{
    writer->count += count;
    return file_write_all(writer->fd, tokens, count * sizeof *tokens, writer->path, err);
}

uint64_t token_writer_count(const struct token_writer *writer)
{
    return writer->count;
}

void token_writer_abort(struct token_writer *writer)
{
    if (!writer) return;
    if (writer->fd >= 0) close(writer->fd);
    unlink(writer->temporary);
    free(writer);
}

static enum status sidecar_text(const struct token_sidecar *sidecar, uint64_t count, char **out,
                                struct err *err)
{
    char checksum[17];
    snprintf(checksum, sizeof checksum, "%016llx", (unsigned long long)sidecar->tokenizer_checksum);
    json_t *root = json_pack("{s:I, s:s, s:s*, s:I, s:s}", "tokens", (json_int_t)count, "tokenizer",
                             sidecar->tokenizer, "tokenizer_file", sidecar->tokenizer_file, "vocab_size",
                             (json_int_t)sidecar->vocab_size, "tokenizer_checksum", checksum);
    if (!root)
        return err_set(err, STATUS_USAGE, "the tokenizer's name is not UTF-8: %.100s (rename its file)",
                       sidecar->tokenizer);
    *out = json_dumps(root, JSON_INDENT(1));
    json_decref(root);
    return *out ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "not enough memory to write the sidecar");
}

enum status token_writer_commit(struct token_writer *writer, const struct token_sidecar *sidecar,
                                struct err *err)
{
    char *text = NULL, beside[PATH_MAX + 8];
    snprintf(beside, sizeof beside, "%s.json", writer->path);
    enum status status = sidecar_text(sidecar, writer->count, &text, err);
    if (status) goto out;
    if (pwrite(writer->fd, &writer->count, sizeof writer->count, 0) != sizeof writer->count ||
        fsync(writer->fd) != 0) {
        status = err_set(err, STATUS_IO, "%s: cannot write: %s", writer->path, strerror(errno));
        goto out;
    }
    int closed = close(writer->fd);
    writer->fd = -1;
    if (closed != 0) {
        status = err_set(err, STATUS_IO, "%s: cannot close: %s", writer->path, strerror(errno));
        goto out;
    }
    /* The sidecar first: should the machine stop between the two, its token count tells the old file apart.
     */
    if ((status = file_write_atomic(beside, text, strlen(text), err))) goto out;
    if (rename(writer->temporary, writer->path) != 0) {
        status = err_set(err, STATUS_IO, "%s: cannot replace: %s", writer->path, strerror(errno));
        unlink(beside);
    }
out:
    free(text);
    token_writer_abort(writer); /* after the rename there is nothing left to remove */
    return status;
}
