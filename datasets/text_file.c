/* See text_file.h. */
#include "datasets/text_file.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "core/base/file.h"
#include "core/base/text.h"

enum { GZIP_WINDOW = 15 + 16 /* zlib's word for gzip alone */, AT_ONCE = 1 << 20 };

struct text_file {
    const char *path; /* owned */
    struct file_map map;
    size_t at;      /* bytes of the map that were read */
    bool begun;     /* within a member or a frame */
    bool any;       /* at least one of them has begun */
    z_stream *gzip; /* one of the two is set for a compressed file */
    ZSTD_DStream *zstd;
    z_stream stream; /* of gzip */
};

static bool ends_with(const char *path, size_t n, const char *end)
{
    size_t m = strlen(end);
    return n >= m && strncasecmp(path + n - m, end, m) == 0;
}

static bool is_gzip(const char *path)
{
    return ends_with(path, strlen(path), ".gz");
}

static bool is_zstd(const char *path)
{
    return ends_with(path, strlen(path), ".zst");
}

bool text_file_compressed(const char *path)
{
    return is_gzip(path) || is_zstd(path);
}

enum status text_file_refuse_compressed(const char *path, struct err *err)
{
    if (!text_file_compressed(path)) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "%s: is compressed, and files of this kind are read as they are (decompress it first)",
                   path);
}

bool text_file_is_json_lines(const char *path)
{
    bool compressed = text_file_compressed(path);
    size_t n = compressed ? (size_t)(strrchr(path, '.') - path) : strlen(path);
    return ends_with(path, n, ".jsonl") || ends_with(path, n, ".ndjson") ||
           (compressed && ends_with(path, n, ".json"));
}

enum status text_file_refuse_archive(const char *path, struct err *err)
{
    static const char *const archives[] = {".bz2", ".xz",  ".lz4", ".br",     ".zip",
                                           ".7z",  ".tar", ".tgz", ".tar.gz", ".tar.zst"};
    size_t n = strlen(path);
    if (ends_with(path, n, ".parquet"))
        return err_set(err, STATUS_USAGE,
                       "%s: Parquet is not read (convert it, in Python: pandas.read_parquet(FILE).to_json("
                       "\"FILE.jsonl.gz\", orient=\"records\", lines=True))",
                       path);
    for (size_t i = 0; i < sizeof archives / sizeof *archives; i++)
        if (ends_with(path, n, archives[i]))
            return err_set(err, STATUS_USAGE,
                           "%s: %s files are not read, of compressed ones only .gz and .zst (unpack it)",
                           path, archives[i]);
    return STATUS_OK;
}

static enum status open_format(struct text_file *f, struct err *err)
{
    if (is_gzip(f->path)) {
        if (inflateInit2(&f->stream, GZIP_WINDOW) != Z_OK) return err_no_memory(err, "reading %s", f->path);
        f->gzip = &f->stream;
    } else if (is_zstd(f->path)) {
        f->zstd = ZSTD_createDStream();
        if (!f->zstd) return err_no_memory(err, "reading %s", f->path);
    }
    return STATUS_OK;
}

enum status text_file_open(const char *path, struct text_file **out, struct err *err)
{
    struct text_file *f = calloc(1, sizeof *f);
    if (!f || !(f->path = strdup(path))) {
        free(f);
        return err_no_memory(err, "reading %s", path);
    }
    enum status status = file_map_open(path, &f->map, err);
    if (!status) status = open_format(f, err);
    if (status)
        text_file_close(f);
    else
        *out = f;
    return status;
}

void text_file_close(struct text_file *f)
{
    if (!f) return;
    if (f->gzip) inflateEnd(f->gzip);
    ZSTD_freeDStream(f->zstd);
    file_map_close(&f->map);
    free((char *)f->path);
    free(f);
}

uint64_t text_file_position(const struct text_file *f)
{
    return f->at;
}

static enum status damaged(const struct text_file *f, const char *why, struct err *err)
{
    return err_set(
        err, STATUS_CORRUPT,
        "%s: cannot be decompressed after byte %zu of %zu: %s (it is damaged, or not in the format "
        "of its name)",
        f->path, f->at, f->map.size, why);
}

/* Decompresses to buf[0..size) what is left in it; *n: bytes made. Reads at least a byte, or makes one. */
static enum status inflate_some(struct text_file *f, char *buf, size_t size, size_t *n, struct err *err)
{
    size_t left = f->map.size - f->at, in = left < AT_ONCE ? left : AT_ONCE,
           out = size < AT_ONCE ? size : AT_ONCE;
    if (!f->begun && f->any && inflateReset(f->gzip) != Z_OK)
        return err_no_memory(err, "reading %s", f->path);
    f->gzip->next_in = (unsigned char *)(uintptr_t)f->map.data + f->at;
    f->gzip->avail_in = (unsigned)in;
    f->gzip->next_out = (unsigned char *)buf;
    f->gzip->avail_out = (unsigned)out;
    int result = inflate(f->gzip, Z_NO_FLUSH);
    f->at += in - f->gzip->avail_in;
    *n = out - f->gzip->avail_out;
    f->begun = result != Z_STREAM_END;
    if (result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR) return STATUS_OK;
    if (result == Z_MEM_ERROR) return err_no_memory(err, "reading %s", f->path);
    return damaged(f, f->gzip->msg ? f->gzip->msg : "invalid data", err);
}

static enum status unzstd_some(struct text_file *f, char *buf, size_t size, size_t *n, struct err *err)
{
    size_t left = f->map.size - f->at;
    ZSTD_inBuffer in = {f->map.data + f->at, left < AT_ONCE ? left : AT_ONCE, 0};
    ZSTD_outBuffer out = {buf, size, 0};
    size_t result = ZSTD_decompressStream(f->zstd, &out, &in);
    f->at += in.pos;
    *n = out.pos;
    f->begun = result != 0;
    return ZSTD_isError(result) ? damaged(f, ZSTD_getErrorName(result), err) : STATUS_OK;
}

enum status text_file_read(struct text_file *f, char *buf, size_t size, size_t *n, struct err *err)
{
    enum status status = STATUS_OK;
    *n = 0;
    if (!f->gzip && !f->zstd) {
        *n = f->map.size - f->at < size ? f->map.size - f->at : size;
        memcpy(buf, f->map.data + f->at, *n);
        f->at += *n;
        return STATUS_OK;
    }
    while (!status && *n < size && (f->at < f->map.size || f->begun || !f->any)) {
        size_t before = f->at, made = 0;
        status = f->gzip ? inflate_some(f, buf + *n, size - *n, &made, err)
                         : unzstd_some(f, buf + *n, size - *n, &made, err);
        f->any = true;
        *n += made;
        if (!status && !made && f->at == before && f->begun)
            status =
                err_set(err, STATUS_CORRUPT,
                        "%s: is cut off: its compressed data end in the middle, after %zu bytes (copy or "
                        "download it again)",
                        f->path, f->map.size);
    }
    return status;
}

size_t text_file_head(const char *path, char *head, size_t size)
{
    struct text_file *file;
    size_t n = 0;
    if (text_file_open(path, &file, NULL)) return 0;
    text_file_read(file, head, size, &n, NULL);
    text_file_close(file);
    return n;
}
