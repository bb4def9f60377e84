/* See spill.h. */
#define XXH_STATIC_LINKING_ONLY
#include "runs/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/base/arena.h"
#include "core/base/file.h"

static const char magic[8] = "ANNLREC\1";

struct head {
    uint64_t hash, number;
    int32_t segment;
    uint32_t bytes;
};

static enum status io_error(const struct spill *spill, const char *what, struct err *err)
{
    return err_set(err, STATUS_IO, "%s: cannot %s: %s", spill->path, what, strerror(errno));
}

static enum status damaged(const struct spill *spill, const char *why, struct err *err)
{
    return err_set(err, STATUS_CORRUPT, "%s: %s at byte %lld", spill->path, why, (long long)spill->next);
}

/* The file is no damage, and must stay where the newer anneal looks for it. */
static enum status newer(const struct spill *spill, struct err *err)
{
    return err_set(err, STATUS_FAILED, "%s: was written by a newer anneal (update anneal)", spill->path);
}

static uint64_t hash_of(const struct head *head, const void *bytes)
{
    XXH64_state_t state;
    XXH64_reset(&state, 0);
    XXH64_update(&state, &head->number, sizeof *head - offsetof(struct head, number));
    XXH64_update(&state, bytes, head->bytes);
    return XXH64_digest(&state);
}

/* ---- writing ---- */

/* Packs the entry into spill->bytes; *n: its size. */
static enum status pack(struct spill *spill, int segment, int kind, const void *message, size_t *n,
                        struct err *err)
{
    struct head head = {.number = spill->number + 1, .segment = segment};
    *n = sizeof head;
    if (!list_reserve(&spill->bytes, 0, *n, &spill->capacity, 1) ||
        !message_pack(kind, message, &spill->bytes, n, &spill->capacity))
        return err_no_memory(err, "%s", spill->path);
    head.bytes = (uint32_t)(*n - sizeof head);
    head.hash = hash_of(&head, spill->bytes + sizeof head);
    memcpy(spill->bytes, &head, sizeof head);
    return STATUS_OK;
}

enum status spill_add(struct spill *spill, int segment, int kind, const void *message, struct err *err)
{
    size_t n;
    enum status status = pack(spill, segment, kind, message, &n, err);
    if (status) return status;
    if (spill->end + (int64_t)n > SPILL_MAX || n > SPILL_ENTRY_MAX)
        return err_set(err, STATUS_IO, "%s: is full: it takes at most 1 GiB", spill->path);
    for (size_t done = 0; done < n;) {
        ssize_t some = pwrite(spill->fd, spill->bytes + done, n - done, spill->end + (int64_t)done);
        if (some < 0 && errno == EINTR) continue;
        if (some <= 0) {
            if (!some) errno = ENOSPC;
            status = io_error(spill, "write", err);
            (void)!ftruncate(spill->fd, spill->end); /* or a part would stay behind a shorter next one */
            return status;
        }
        done += (size_t)some;
    }
    spill->end += (int64_t)n;
    spill->number++;
    spill->unsynced = true;
    return STATUS_OK;
}

enum status spill_sync(struct spill *spill, struct err *err)
{
    if (spill->fd < 0 || !spill->unsynced) return STATUS_OK;
    if (file_sync(spill->fd)) return io_error(spill, "write", err);
    spill->unsynced = false;
    return STATUS_OK;
}

enum status spill_make(struct spill *spill, const char *path, const struct run_note *run, uint64_t number,
                       struct err *err)
{
    size_t n;
    struct file_out out;
    struct run_note unused;
    *spill = (struct spill){.fd = -1, .number = number};
    enum status status = file_format_path(spill->path, sizeof spill->path, err, "%s", path);
    if (!status) status = pack(spill, 0, MESSAGE_RUN, run, &n, err);
    if (!status) status = file_out_open(&out, path, err);
    if (!status) {
        fwrite(magic, 1, sizeof magic, out.stream);
        fwrite(spill->bytes, 1, n, out.stream);
        status = file_out_close(&out, STATUS_OK, 0, err);
    }
    free(spill->bytes);
    spill->bytes = NULL;
    return status ? status : spill_open(spill, path, &unused, err);
}

/* ---- reading ---- */

/* Reads up to n bytes at spill->next into spill->bytes + at; *got: how many there are. */
static enum status read_at(struct spill *spill, size_t at, size_t n, size_t *got, struct err *err)
{
    *got = 0;
    if (!list_reserve(&spill->bytes, at, n, &spill->capacity, 1))
        return err_no_memory(err, "%s", spill->path);
    while (*got < n) {
        ssize_t some =
            pread(spill->fd, spill->bytes + at + *got, n - *got, spill->next + (int64_t)(at + *got));
        if (some < 0 && errno == EINTR) continue;
        if (some < 0) return io_error(spill, "read", err);
        if (!some) break;
        *got += (size_t)some;
    }
    return STATUS_OK;
}

/* Reads the next entry; *whole is false at the end of the file. */
static enum status read_entry(struct spill *spill, struct spill_entry *out, bool *whole, struct err *err)
{
    struct head head;
    size_t got;
    enum status status = read_at(spill, 0, sizeof head, &got, err);
    *whole = false;
    if (status || got < sizeof head) return status;
    memcpy(&head, spill->bytes, sizeof head);
    if (head.bytes > SPILL_ENTRY_MAX) return damaged(spill, "a record has an impossible length", err);
    status = read_at(spill, sizeof head, head.bytes, &got, err);
    if (status || got < head.bytes) return status;
    if (hash_of(&head, spill->bytes + sizeof head) != head.hash)
        return damaged(spill, "a record has a wrong checksum", err);
    status = message_unpack(spill->bytes + sizeof head, head.bytes, &out->kind, &out->message);
    if (status == STATUS_FAILED) return newer(spill, err);
    if (status) return damaged(spill, "a record cannot have been written by anneal", err);
    out->number = head.number;
    out->segment = head.segment;
    spill->next += (int64_t)(sizeof head + head.bytes);
    *whole = true;
    return STATUS_OK;
}

enum status spill_next(struct spill *spill, struct spill_entry *out, struct err *err)
{
    bool whole;
    enum status status = read_entry(spill, out, &whole, err);
    return status || whole ? status : damaged(spill, "the file was cut off meanwhile", err);
}

static enum status open_file(struct spill *spill, const char *path, struct err *err)
{
    struct stat info;
    char start[sizeof magic] = "";
    *spill = (struct spill){.fd = -1};
    enum status status = file_format_path(spill->path, sizeof spill->path, err, "%s", path);
    if (status) return status;
    spill->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (spill->fd < 0 && (errno == EACCES || errno == EROFS)) /* it can be read all the same */
        spill->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (spill->fd < 0 && errno == ENOENT)
        return err_set(err, STATUS_NOT_FOUND, "%s: there is no such file", path);
    if (spill->fd < 0) return io_error(spill, "open", err);
    if (fstat(spill->fd, &info) != 0) return io_error(spill, "read", err);
    ssize_t n = S_ISREG(info.st_mode) ? TEMP_FAILURE_RETRY(pread(spill->fd, start, sizeof start, 0)) : 0;
    if (n < 0) return io_error(spill, "read", err);
    if (n != sizeof start || !spill_is_file(start, sizeof start))
        return err_set(err, STATUS_CORRUPT, "%s: is not a file of a run's records", path);
    if (memcmp(start, magic, sizeof magic) != 0) return newer(spill, err);
    spill->next = spill->end = sizeof magic;
    return STATUS_OK;
}

bool spill_is_file(const void *bytes, size_t n)
{
    return n >= sizeof magic && memcmp(bytes, magic, sizeof magic - 1) == 0;
}

/* Reads all entries, and finds the end of the last good one. */
static enum status check_entries(struct spill *spill, struct err *err)
{
    struct spill_entry entry;
    bool whole;
    for (;;) {
        enum status status = read_entry(spill, &entry, &whole, err);
        if (status || !whole) return status;
        bool begins = !spill->first;
        if (begins != (entry.kind == MESSAGE_RUN) || (!begins && entry.number <= spill->number) ||
            entry.segment < !begins)
            return damaged(spill, "a record does not follow the one before it", err);
        spill->number = entry.number;
        spill->end = spill->next;
        if (begins) spill->first = spill->end;
    }
}

enum status spill_open(struct spill *spill, const char *path, struct run_note *run, struct err *err)
{
    struct spill_entry entry;
    enum status status = open_file(spill, path, err);
    if (!status) status = check_entries(spill, err);
    if (!status && !spill->first) status = damaged(spill, "the description of the run is incomplete", err);
    if (!spill->first) return status;
    spill->next = sizeof magic;
    enum status begins = spill_next(spill, &entry, status ? NULL : err);
    if (!begins) *run = entry.message.run;
    return status ? status : begins;
}

void spill_clear(struct spill *spill)
{
    if (ftruncate(spill->fd, spill->first) != 0) return; /* the entries count as read: runs.recorded */
    spill->next = spill->end = spill->first;
}

void spill_close(struct spill *spill)
{
    if (spill->fd >= 0) close(spill->fd);
    free(spill->bytes);
    *spill = (struct spill){.fd = -1};
}
