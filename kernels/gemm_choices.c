/* See gemm_choices.h. */
#include "kernels/gemm_choices.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/file.h"
#include "kernels/device/backend.h"

#define MAGIC "ANLGEMM2"

/* The checksum is of the whole file, with this field as 0. */
struct header {
    char magic[8];
    char identity[GEMM_IDENTITY_MAX]; /* NUL-padded */
    uint64_t count, checksum;
};

_Static_assert(sizeof(struct gemm_key) == 40, "a key has no padding");
_Static_assert(sizeof(struct gemm_choice) == 104, "a choice has no padding");
_Static_assert(sizeof(struct header) == 216, "a header has no padding");

/* FNV-1a: against damage, not against malice; what malice could do is limited by what users check. */
static uint64_t checksum(uint64_t hash, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < size; i++) hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash;
}

static uint64_t file_checksum(struct header header, const struct gemm_choice *choices)
{
    header.checksum = 0;
    uint64_t hash = checksum(0xcbf29ce484222325u, &header, sizeof header);
    return checksum(hash, choices, header.count * sizeof *choices);
}

static bool key_is_sound(const struct gemm_key *key)
{
    return key->M > 0 && key->N > 0 && key->K > 0 && key->flags < 8 && key->precision < PRECISIONS &&
           key->alignment >= 2 && key->alignment <= 16 && (key->alignment & (key->alignment - 1)) == 0 &&
           key->out_stride > 0 && key->a_stride > 0 && key->b_stride > 0 &&
           key->out_element <= ELEMENT_BF16 && key->a_element <= ELEMENT_BF16 &&
           key->b_element <= ELEMENT_BF16 && key->zero[0] == 0 && key->zero[1] == 0;
}

static enum status understand(struct gemm_choices *out, const unsigned char *bytes, size_t size,
                              const char *path, const char *identity, struct err *err)
{
    struct header header;
    if (size < sizeof header || size > sizeof header + GEMM_CHOICES_MAX * sizeof(struct gemm_choice))
        return err_set(err, STATUS_CORRUPT, "%s: is damaged: its size is %zu bytes", path, size);
    memcpy(&header, bytes, sizeof header);
    if (memcmp(header.magic, MAGIC, sizeof header.magic) != 0)
        return err_set(err, STATUS_CORRUPT, "%s: is not a file of matrix products' algorithms", path);
    if (header.count > GEMM_CHOICES_MAX || size != sizeof header + header.count * sizeof(struct gemm_choice))
        return err_set(err, STATUS_CORRUPT, "%s: is damaged: its size does not fit its header", path);
    struct gemm_choice *choices = malloc((header.count + 1) * sizeof *choices);
    if (!choices) return err_set(err, STATUS_NO_MEMORY, "%s: no memory to read it", path);
    memcpy(choices, bytes + sizeof header, header.count * sizeof *choices);
    bool sound = file_checksum(header, choices) == header.checksum;
    for (uint64_t i = 0; sound && i < header.count; i++) sound = key_is_sound(&choices[i].key);
    char wanted[GEMM_IDENTITY_MAX] = {0};
    snprintf(wanted, sizeof wanted, "%s", identity);
    if (sound && memcmp(wanted, header.identity, sizeof wanted) == 0) {
        out->at = choices;
        out->count = (int)header.count;
        out->capacity = (int)header.count + 1;
        return STATUS_OK;
    }
    free(choices);
    if (!sound) return err_set(err, STATUS_CORRUPT, "%s: is damaged: its checksum is wrong", path);
    return err_set(err, STATUS_CORRUPT, "%s: was measured on another device or with another cuBLASLt", path);
}

/* The file's folder, and its lock; the lock lies beside the file because the file itself is replaced. */
static enum status lock(const char *path, int *out, struct err *err)
{
    char name[PATH_MAX];
    enum status status = file_format_path(name, sizeof name, err, "%s", path);
    char *slash = status ? NULL : strrchr(name, '/');
    if (slash && slash != name) {
        *slash = '\0';
        status = file_make_folders(name, err);
    }
    if (!status) status = file_format_path(name, sizeof name, err, "%s.lock", path);
    if (status) return status;
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd >= 0 && flock(fd, LOCK_EX) == 0) {
        *out = fd;
        return STATUS_OK;
    }
    status = err_set(err, errno == EINTR ? STATUS_INTERRUPTED : STATUS_IO, "%s: cannot %s: %s", name,
                     fd < 0 ? "create" : "lock", strerror(errno));
    if (fd >= 0) close(fd);
    return status;
}

enum status gemm_choices_open(struct gemm_choices *out, const char *path, const char *identity,
                              struct err *err)
{
    struct file_map map;
    *out = (struct gemm_choices){.lock = -1};
    if (lock(path, &out->lock, err) == STATUS_INTERRUPTED) return STATUS_INTERRUPTED;
    if (!file_exists(path)) return STATUS_OK;
    enum status status = file_map_open(path, &map, err);
    if (status) return status;
    status = understand(out, map.data, map.size, path, identity, err);
    file_map_close(&map);
    return status;
}

void gemm_choices_close(struct gemm_choices *choices)
{
    if (choices->lock >= 0) flock(choices->lock, LOCK_UN), close(choices->lock); /* a fork may hold it, too */
    free(choices->at);
    *choices = (struct gemm_choices){.lock = -1};
}

const struct gemm_choice *gemm_choices_find(const struct gemm_choices *choices, const struct gemm_key *key)
{
    for (int i = 0; i < choices->count; i++)
        if (memcmp(&choices->at[i].key, key, sizeof *key) == 0) return &choices->at[i];
    return NULL;
}

enum status gemm_choices_set(struct gemm_choices *choices, const struct gemm_choice *choice, struct err *err)
{
    struct gemm_choice *known = (struct gemm_choice *)gemm_choices_find(choices, &choice->key);
    if (!known && choices->count == choices->capacity) {
        int capacity = choices->capacity * 2 + 32;
        struct gemm_choice *at = realloc(choices->at, (size_t)capacity * sizeof *at);
        if (!at) return err_set(err, STATUS_NO_MEMORY, "no memory for %d matrix products' choices", capacity);
        choices->at = at;
        choices->capacity = capacity;
    }
    *(known ? known : &choices->at[choices->count++]) = *choice;
    choices->changed = true;
    return STATUS_OK;
}

enum status gemm_choices_save(struct gemm_choices *choices, const char *path, const char *identity,
                              struct err *err)
{
    struct header header = {.count = (uint64_t)choices->count};
    size_t size = sizeof header + (size_t)choices->count * sizeof *choices->at;
    enum status status = STATUS_OK;
    if (!choices->changed) return STATUS_OK;
    if (choices->count > GEMM_CHOICES_MAX)
        return err_set(err, STATUS_FAILED,
                       "%s: is full with %d choices, a later run may choose others (delete it)", path,
                       GEMM_CHOICES_MAX);
    if (choices->lock < 0 && (status = lock(path, &choices->lock, err))) return status;
    memcpy(header.magic, MAGIC, sizeof header.magic);
    snprintf(header.identity, sizeof header.identity, "%s", identity);
    header.checksum = file_checksum(header, choices->at);
    unsigned char *bytes = malloc(size);
    if (!bytes) return err_set(err, STATUS_NO_MEMORY, "%s: no memory to write it", path);
    memcpy(bytes, &header, sizeof header);
    memcpy(bytes + sizeof header, choices->at, size - sizeof header);
    status = file_write_atomic(path, bytes, size, err);
    free(bytes);
    choices->changed = status != STATUS_OK;
    return status;
}
