/* See record_file.h. */
#include "runs/exchange/record_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"

/* ---- checksums: both are CRCs with reflected bits ---- */

#define CRC32  0xEDB88320u /* of ISO 3309, as in zlib */
#define CRC32C 0x82F63B78u /* of RFC 3720 */

static void prepare_crc(uint32_t table[256], uint32_t polynomial)
{
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++) table[i] = table[i] >> 1 ^ (table[i] & 1 ? polynomial : 0);
    }
}

static uint32_t crc_of(const uint32_t table[256], const unsigned char *bytes, size_t size)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) crc = crc >> 8 ^ table[(crc ^ bytes[i]) & 0xFF];
    return ~crc;
}

/* TFRecord's checksum: it is masked, because a CRC of bytes that hold their own CRC tells little. */
static uint32_t masked_crc(const uint32_t table[256], const unsigned char *bytes, size_t size)
{
    uint32_t crc = crc_of(table, bytes, size);
    return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

static uint64_t little_endian(const unsigned char *bytes, int size)
{
    uint64_t value = 0;
    for (int i = 0; i < size; i++) value |= (uint64_t)bytes[i] << 8 * i;
    return value;
}

/* ---- the file ---- */

static const unsigned char wandb_header[7] = {':', 'W', '&', 'B', 0xE1, 0xBE, 0}; /* the last: its version */
enum { LENGTH_BYTES = 12, CHECKSUM_BYTES = 4, BLOCK_BYTES = 32768, PART_HEADER = 7 };

static const unsigned char *bytes_at(const struct record_file *file, size_t at)
{
    return (const unsigned char *)file->map.data + at;
}

static bool is_length(const struct record_file *file, size_t at)
{
    return file->map.size - at >= LENGTH_BYTES &&
           masked_crc(file->crc, bytes_at(file, at), 8) == (uint32_t)little_endian(bytes_at(file, at + 8), 4);
}

/* TensorBoard makes a file before it writes to it, and its program may have been killed then. */
static bool is_begun(const struct record_file *file)
{
    const char *slash = strrchr(file->path, '/');
    return file->map.size < LENGTH_BYTES &&
           strncmp(slash ? slash + 1 : file->path, "events.out.tfevents.", 20) == 0;
}

enum status record_file_open(struct record_file *out, const char *path, struct err *err)
{
    *out = (struct record_file){.path = path};
    enum status status = file_map_open(path, &out->map, err);
    if (status) return status;
    prepare_crc(out->crc, CRC32C);
    if (out->map.size >= sizeof wandb_header &&
        memcmp(out->map.data, wandb_header, sizeof wandb_header) == 0) {
        prepare_crc(out->crc, CRC32);
        out->form = RECORDS_WANDB;
    } else if (is_begun(out) || is_length(out, 0)) {
        out->form = RECORDS_TENSORBOARD;
    }
    record_file_rewind(out);
    return STATUS_OK;
}

void record_file_rewind(struct record_file *file)
{
    file->at = file->form == RECORDS_WANDB ? sizeof wandb_header : 0;
    file->cut = false;
}

void record_file_close(struct record_file *file)
{
    file_map_close(&file->map);
    free(file->joined);
}

static enum status damaged(const struct record_file *file, size_t at, const char *why, struct err *err)
{
    return err_set(err, STATUS_CORRUPT, "%s: the record at byte %zu %s (the file is damaged: copy it again)",
                   file->path, at, why);
}

/* Whether nothing but zeros is left, as a power cut leaves the end of a file. */
static bool is_blank(const struct record_file *file, size_t at)
{
    while (at < file->map.size && !*bytes_at(file, at)) at++;
    return at == file->map.size;
}

static enum status next_tfrecord(struct record_file *file, const unsigned char **bytes, size_t *size,
                                 struct err *err)
{
    size_t at = file->at, left = file->map.size - at;
    file->cut = left > 0 && (left < LENGTH_BYTES || is_blank(file, at));
    if (left < LENGTH_BYTES || file->cut) return STATUS_OK;
    if (!is_length(file, at)) return damaged(file, at, "has a length with a wrong checksum", err);
    uint64_t length = little_endian(bytes_at(file, at), 8);
    left -= LENGTH_BYTES;
    file->cut = left < CHECKSUM_BYTES || length > left - CHECKSUM_BYTES;
    if (file->cut) return STATUS_OK;
    const unsigned char *content = bytes_at(file, at + LENGTH_BYTES);
    if (masked_crc(file->crc, content, length) != (uint32_t)little_endian(content + length, 4)) {
        file->cut = is_blank(file, at + LENGTH_BYTES + length);
        return file->cut ? STATUS_OK : damaged(file, at, "has a wrong checksum", err);
    }
    file->at = at + LENGTH_BYTES + length + CHECKSUM_BYTES;
    *bytes = content;
    *size = length;
    return STATUS_OK;
}

enum part { PART_NONE, PART_FULL, PART_FIRST, PART_MIDDLE, PART_LAST };

/* Reads the next part of a record; *kind is PART_NONE at the end. */
static enum status next_part(struct record_file *file, enum part *kind, const unsigned char **bytes,
                             size_t *size, struct err *err)
{
    *kind = PART_NONE;
    size_t room = BLOCK_BYTES - file->at % BLOCK_BYTES;
    if (room < PART_HEADER) {
        file->at += room;
        room = BLOCK_BYTES;
    }
    if (file->at >= file->map.size) return STATUS_OK;
    size_t at = file->at, left = file->map.size - at;
    file->cut = left < PART_HEADER || is_blank(file, at);
    if (file->cut) return STATUS_OK;
    const unsigned char *header = bytes_at(file, at);
    size_t length = little_endian(header + 4, 2);
    if (header[6] < PART_FULL || header[6] > PART_LAST)
        return damaged(file, at, "is of an unknown kind", err);
    if (length > room - PART_HEADER) return damaged(file, at, "is longer than its block", err);
    file->cut = length > left - PART_HEADER;
    if (file->cut) return STATUS_OK;
    if (crc_of(file->crc, header + 6, length + 1) != (uint32_t)little_endian(header, 4))
        return damaged(file, at, "has a wrong checksum", err);
    *kind = header[6];
    *bytes = header + PART_HEADER;
    *size = length;
    file->at = at + PART_HEADER + length;
    return STATUS_OK;
}

/* The parts together are no larger than the file. */
static enum status join(struct record_file *file, const unsigned char *bytes, size_t size, struct err *err)
{
    if (size == 0) return STATUS_OK;
    if (!list_reserve(&file->joined, file->joined_size, size, &file->joined_capacity, 1))
        return err_no_memory(err, "reading %s", file->path);
    memcpy(file->joined + file->joined_size, bytes, size);
    file->joined_size += size;
    return STATUS_OK;
}

static enum status next_in_blocks(struct record_file *file, const unsigned char **bytes, size_t *size,
                                  struct err *err)
{
    const unsigned char *part;
    size_t length, start = file->at;
    enum part kind;
    bool within = false;
    file->joined_size = 0;
    for (;;) {
        enum status status = next_part(file, &kind, &part, &length, err);
        if (status) return status;
        if (kind == PART_NONE) {
            file->cut = file->cut || within;
            return STATUS_OK;
        }
        if (within != (kind == PART_MIDDLE || kind == PART_LAST))
            return damaged(file, start, "has parts in a wrong order", err);
        if (kind == PART_FULL) {
            *bytes = part;
            *size = length;
            return STATUS_OK;
        }
        if ((status = join(file, part, length, err))) return status;
        within = kind != PART_LAST;
        if (within) continue;
        *bytes = file->joined;
        *size = file->joined_size;
        return STATUS_OK;
    }
}

enum status record_file_next(struct record_file *file, const unsigned char **bytes, size_t *size,
                             struct err *err)
{
    *bytes = NULL;
    *size = 0;
    switch (file->form) {
    case RECORDS_TENSORBOARD:
        return next_tfrecord(file, bytes, size, err);
    case RECORDS_WANDB:
        return next_in_blocks(file, bytes, size, err);
    default:
        return STATUS_OK;
    }
}

/* ---- writing ---- */

static void put_little_endian(FILE *out, uint64_t value, int size)
{
    for (int i = 0; i < size; i++) putc_unlocked((int)(value >> 8 * i & 0xFF), out);
}

void record_writer_init(struct record_writer *out, FILE *stream)
{
    *out = (struct record_writer){.stream = stream};
    prepare_crc(out->crc, CRC32C);
}

void record_writer_add(struct record_writer *out, const void *bytes, size_t size)
{
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)size >> 8 * i);
    put_little_endian(out->stream, size, 8);
    put_little_endian(out->stream, masked_crc(out->crc, length, 8), CHECKSUM_BYTES);
    fwrite_unlocked(bytes, 1, size, out->stream);
    put_little_endian(out->stream, masked_crc(out->crc, bytes, size), CHECKSUM_BYTES);
    if (!out->error && ferror(out->stream)) out->error = errno ? errno : EIO;
}
