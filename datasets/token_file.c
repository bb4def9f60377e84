/* See token_file.h. */
#include "datasets/token_file.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/base/text.h"
#include "datasets/json_file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "token files are mapped as they lie on disk");

static const struct {
    const char *name;
    int32_t magic, versions[2]; /* of llm.c's files; otherwise the header is only a count */
    size_t header, width;       /* bytes of the header and of an id */
} formats[] = {
    [TOKEN_FORMAT_TOK] = {".tok", 0, {0}, 8, 4},
    [TOKEN_FORMAT_SHARD_16] = {"llm.c shard, 16 bits", 20240520, {1, 1}, 1024, 2},
    [TOKEN_FORMAT_SHARD_32] = {"llm.c shard, 32 bits", 20240801, {1, 7}, 1024, 4},
};

enum { PIECE_BYTES = 4 << 20 }; /* of the checksum */

bool token_file_named(const char *path)
{
    return text_ends_with(path, ".tok") || text_ends_with(path, ".bin");
}

const char *token_format_name(enum token_format format)
{
    return formats[format].name;
}

/* ---- reading ---- */

static bool is_checksum(const char *word)
{
    return strlen(word) == 16 && strspn(word, "0123456789abcdef") == 16;
}

/* A sidecar without a list has no sources. */
static bool copy_sources(const json_t *list, struct token_file *file)
{
    size_t count = json_array_size(list), i;
    uint64_t sum = 0;
    const json_t *value;
    if (!list) return true;
    file->sources = calloc(count + 1, sizeof *file->sources);
    if (!file->sources) return false;
    json_array_foreach((json_t *)(uintptr_t)list, i, value) {
        uint64_t tokens = (uint64_t)json_integer_value(value); /* a negative one is too large */
        if (tokens > file->count - sum) return false;
        sum += file->sources[i] = tokens;
    }
    file->source_count = count;
    return sum == file->count;
}

static bool copy_sidecar(json_t *root, struct token_file *file, json_int_t *tokens)
{
    json_int_t vocab = 0;
    const char *tokenizer = "", *tokenizer_file = "", *checksum = "0000000000000000", *sum = NULL;
    if (json_unpack(root, "{s?I, s?s, s?s, s?I, s?s, s?s}", "tokens", tokens, "tokenizer", &tokenizer,
                    "tokenizer_file", &tokenizer_file, "vocab_size", &vocab, "tokenizer_checksum", &checksum,
                    "checksum", &sum) != 0 ||
        strlen(tokenizer) >= sizeof file->tokenizer ||
        strlen(tokenizer_file) >= sizeof file->tokenizer_file || strchr(tokenizer_file, '/') || vocab < 0 ||
        vocab > INT32_MAX || !is_checksum(checksum) || (sum && !is_checksum(sum)))
        return false;
    strcpy(file->tokenizer, tokenizer);
    strcpy(file->tokenizer_file, tokenizer_file);
    file->vocab_size = (uint32_t)vocab;
    file->tokenizer_checksum = strtoull(checksum, NULL, 16);
    file->summed = sum;
    file->checksum = sum ? strtoull(sum, NULL, 16) : 0;
    return true;
}

bool token_sidecar_is(const char *path)
{
    struct err problem;
    json_t *root = NULL;
    if (json_file_read(path, JSON_REJECT_DUPLICATES, &root, &problem)) return false;
    bool is = json_is_integer(json_object_get(root, "tokens")) &&
              json_is_string(json_object_get(root, "tokenizer"));
    json_decref(root);
    return is;
}

static enum status read_sidecar(struct token_file *file, struct err *err)
{
    char path[PATH_MAX];
    struct err problem;
    json_t *root;
    json_int_t tokens = (json_int_t)file->count;
    if (snprintf(path, sizeof path, "%s.json", file->path) >= (int)sizeof path || !file_exists(path))
        return STATUS_OK;
    enum status status = json_file_read(path, JSON_REJECT_DUPLICATES, &root, &problem);
    if (status) return err_set(err, status, "%s (prepare the token file again)", problem.text);
    if (!copy_sidecar(root, file, &tokens))
        status = err_set(
            err, STATUS_CORRUPT,
            "%s: is not an object in which \"tokens\" and \"vocab_size\" are whole numbers, "
            "\"tokenizer\" and \"tokenizer_file\" texts of less than 256 bytes (the latter a file beside "
            "it) and "
            "\"tokenizer_checksum\" and \"checksum\" 16 hexadecimal digits (prepare the token file again)",
            path);
    else if ((uint64_t)tokens != file->count)
        status = err_set(err, STATUS_CORRUPT,
                         "%s: belongs to another token file: it lists %lld tokens, but %s has %llu (prepare "
                         "it again)",
                         path, (long long)tokens, file->path, (unsigned long long)file->count);
    else if (!copy_sources(json_object_get(root, "sources"), file))
        status = err_set(err, STATUS_CORRUPT,
                         "%s: \"sources\" are not whole numbers that add up to its %llu tokens (prepare the "
                         "token file again)",
                         path, (unsigned long long)file->count);
    json_decref(root);
    return status;
}

/* Decides by content. A file cannot match two formats: a shard read as .tok would need more than 2^32 tokens,
 * 16 GiB; a shard has at most 8 GiB. */
static enum token_format format_of(const struct file_map *map)
{
    uint64_t count;
    int32_t head[2];
    memcpy(&count, map->data, sizeof count);
    memcpy(head, map->data, sizeof head);
    for (enum token_format f = TOKEN_FORMAT_SHARD_16; f <= TOKEN_FORMAT_SHARD_32; f++)
        if (head[0] == formats[f].magic && head[1] != 0 && count != (map->size - sizeof count) / 4) return f;
    return TOKEN_FORMAT_TOK;
}

bool token_file_begins(const char *path)
{
    struct file_map map;
    uint64_t count;
    bool begins = false;
    if (file_map_open(path, &map, NULL)) return false;
    if (map.size >= sizeof count) {
        memcpy(&count, map.data, sizeof count);
        begins = format_of(&map) != TOKEN_FORMAT_TOK ||
                 (map.size % 4 == 0 && count == (map.size - sizeof count) / 4);
    }
    file_map_close(&map);
    return begins;
}

static enum status read_header(struct token_file *file, struct err *err)
{
    int32_t head[3];
    size_t size = file->map.size;
    file->format = size < sizeof file->count ? TOKEN_FORMAT_TOK : format_of(&file->map);
    size_t header = formats[file->format].header, width = formats[file->format].width;
    if (size < header)
        return err_set(err, STATUS_CORRUPT, "%s: is truncated: %zu bytes, but the header alone has %zu",
                       file->path, size, header);
    memcpy(&file->count, file->map.data, sizeof file->count);
    if (file->format != TOKEN_FORMAT_TOK) {
        const int32_t *known = formats[file->format].versions;
        memcpy(head, file->map.data, sizeof head);
        if (head[1] != known[0] && head[1] != known[1])
            return err_set(err, STATUS_CORRUPT,
                           "%s: is an llm.c shard of version %d (supported are %d and %d)", file->path,
                           head[1], known[0], known[1]);
        file->count = head[2] < 0 ? UINT64_MAX : (uint64_t)head[2];
    }
    if (file->format == TOKEN_FORMAT_TOK && file->count >> 48) /* no file of that format is so large */
        return err_set(
            err, STATUS_CORRUPT,
            "%s: is not a token file (a name ending with .tok or .bin means one; a text file needs "
            "another name)",
            file->path);
    if (file->count != (size - header) / width || (size - header) % width)
        return err_set(err, STATUS_CORRUPT,
                       "%s: is %s: its header promises %llu tokens of %zu bytes, but %zu bytes follow it "
                       "(prepare it again; a text file must not be named .tok or .bin)",
                       file->path, file->count > (size - header) / width ? "truncated" : "too long",
                       (unsigned long long)file->count, width, size - header);
    if (width == sizeof *file->narrow)
        file->narrow = (const uint16_t *)(file->map.data + header);
    else
        file->tokens = (const uint32_t *)(file->map.data + header);
    return STATUS_OK;
}

enum status token_file_open(const char *path, struct token_file *out, struct err *err)
{
    struct token_file file = {.path = strdup(path)};
    enum status status =
        file.path ? file_map_open(path, &file.map, err) : err_no_memory(err, "opening %s", path);
    if (!status) status = read_header(&file, err);
    if (!status) status = read_sidecar(&file, err);
    if (status)
        token_file_close(&file);
    else
        *out = file;
    return status;
}

void token_file_close(struct token_file *file)
{
    file_map_close(&file->map);
    free(file->path);
    free(file->sources);
    *file = (struct token_file){0};
}

/* The largest id of a piece of the file, [from, from + n). */
static uint32_t largest_of(const struct token_file *file, uint64_t from, uint64_t n)
{
    uint16_t largest_narrow = 0;
    uint32_t largest = 0;
    if (file->narrow) {
        const uint16_t *ids = file->narrow + from;
#pragma omp simd reduction(max : largest_narrow)
        for (uint64_t i = 0; i < n; i++) largest_narrow = ids[i] > largest_narrow ? ids[i] : largest_narrow;
        return largest_narrow;
    }
    const uint32_t *ids = file->tokens + from;
#pragma omp simd reduction(max : largest)
    for (uint64_t i = 0; i < n; i++) largest = ids[i] > largest ? ids[i] : largest;
    return largest;
}

/* Works in pieces, so that all cores share the work and each piece is read from memory once. */
enum status token_file_measure(struct token_file *file, struct err *err)
{
    uint64_t width = formats[file->format].width, size = PIECE_BYTES / width;
    uint64_t pieces = (file->count + size - 1) / size, *sums = malloc((pieces + 1) * sizeof *sums);
    uint32_t largest = 0;
    const unsigned char *ids = file->narrow ? (const void *)file->narrow : (const void *)file->tokens;
    if (!sums) return err_no_memory(err, "the checksums of %s", file->path);
#pragma omp parallel for reduction(max : largest) schedule(static) if (pieces > 1)
    for (uint64_t p = 0; p < pieces; p++) {
        uint64_t from = p * size, n = file->count - from < size ? file->count - from : size;
        uint32_t here = largest_of(file, from, n);
        largest = here > largest ? here : largest;
        sums[p] = file->summed ? XXH3_64bits(ids + from * width, n * width) : 0;
    }
    uint64_t checksum = XXH3_64bits(sums, pieces * sizeof *sums);
    free(sums);
    file->bound = file->count ? (uint64_t)largest + 1 : 0;
    if (!file->summed || checksum == file->checksum) return STATUS_OK;
    return err_set(err, STATUS_CORRUPT,
                   "%s: is damaged: its tokens do not match their checksum (prepare it again)", file->path);
}

bool token_file_find(const struct token_file *file, uint32_t least, uint64_t *index)
{
    if (file->bound && file->bound <= least) return false;
    for (uint64_t i = 0; i < file->count; i++) {
        if (token_file_id(file, i) < least) continue;
        *index = i;
        return true;
    }
    return false;
}

/* ---- writing ---- */

static void free_checksum(struct token_writer *writer)
{
    XXH3_freeState(writer->piece);
    XXH3_freeState(writer->pieces);
    writer->piece = writer->pieces = NULL;
}

enum status token_writer_open(struct token_writer *writer, const char *path, struct err *err)
{
    *writer = (struct token_writer){0};
    if (file_is_folder(path))
        return err_set(err, STATUS_USAGE, "%s: is a folder (name a file to write)", path);
    writer->piece = XXH3_createState();
    writer->pieces = XXH3_createState();
    if (!writer->piece || !writer->pieces) {
        token_writer_abort(writer);
        return err_no_memory(err, "writing %s", path);
    }
    XXH3_64bits_reset(writer->piece);
    XXH3_64bits_reset(writer->pieces);
    enum status status = file_out_open(&writer->out, path, err);
    if (!status)
        status = file_write_all(fileno(writer->out.stream), &writer->count, sizeof writer->count, path, err);
    if (status) token_writer_abort(writer);
    return status;
}

static void end_piece(struct token_writer *writer)
{
    uint64_t sum = XXH3_64bits_digest(writer->piece);
    if (writer->in_piece) XXH3_64bits_update(writer->pieces, &sum, sizeof sum);
    XXH3_64bits_reset(writer->piece);
    writer->in_piece = 0;
}

static void add_to_checksum(struct token_writer *writer, const unsigned char *bytes, uint64_t n)
{
    for (uint64_t part; n; bytes += part, n -= part) {
        part = PIECE_BYTES - writer->in_piece < n ? PIECE_BYTES - writer->in_piece : n;
        XXH3_64bits_update(writer->piece, bytes, part);
        if ((writer->in_piece += part) == PIECE_BYTES) end_piece(writer);
    }
}

enum status token_writer_append(struct token_writer *writer, const uint32_t *tokens, uint64_t count,
                                struct err *err)
{
    writer->count += count;
    add_to_checksum(writer, (const unsigned char *)tokens, count * sizeof *tokens);
    return file_write_all(fileno(writer->out.stream), tokens, count * sizeof *tokens, writer->out.path, err);
}

void token_writer_abort(struct token_writer *writer)
{
    free_checksum(writer);
    if (writer->out.stream) file_out_close(&writer->out, STATUS_INTERRUPTED, 0, NULL);
}

static enum status write_sidecar(struct token_writer *writer, const struct token_sidecar *sidecar,
                                 const char *path, struct err *err)
{
    char checksum[17], sum[17];
    end_piece(writer);
    snprintf(checksum, sizeof checksum, "%016llx", (unsigned long long)sidecar->tokenizer_checksum);
    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)XXH3_64bits_digest(writer->pieces));
    json_t *root =
        json_pack("{s:I, s:s, s:s*, s:I, s:s, s:s}", "tokens", (json_int_t)writer->count, "tokenizer",
                  sidecar->tokenizer, "tokenizer_file", sidecar->tokenizer_file, "vocab_size",
                  (json_int_t)sidecar->vocab_size, "tokenizer_checksum", checksum, "checksum", sum);
    json_t *list = root && sidecar->source_count ? json_array() : NULL;
    for (size_t i = 0; i < sidecar->source_count; i++)
        json_array_append_new(list, json_integer((json_int_t)sidecar->sources[i]));
    if (list) json_object_set_new(root, "sources", list);
    if (!root)
        return err_set(err, STATUS_USAGE, "the tokenizer's name is not UTF-8: %.100s (rename its file)",
                       sidecar->tokenizer);
    return json_file_write(path, root, JSON_INDENT(1), err);
}

/* Writes the sidecar before the tokens: if the machine stops between the two, the token count shows that the
 * sidecar does not belong to the old file. */
enum status token_writer_commit(struct token_writer *writer, const struct token_sidecar *sidecar,
                                struct err *err)
{
    char sidecar_path[PATH_MAX + 8];
    enum status status;
    snprintf(sidecar_path, sizeof sidecar_path, "%s.json", writer->out.path);
    if (pwrite(fileno(writer->out.stream), &writer->count, sizeof writer->count, 0) != sizeof writer->count)
        status = err_set(err, STATUS_IO, "%s: cannot write: %s", writer->out.path, strerror(errno));
    else
        status = write_sidecar(writer, sidecar, sidecar_path, err);
    free_checksum(writer);
    if (status) return file_out_close(&writer->out, status, 0, err);
    status = file_out_close(&writer->out, STATUS_OK, 0, err);
    if (status) unlink(sidecar_path);
    return status;
}
