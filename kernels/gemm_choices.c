/* See gemm_choices.h. */
#include "kernels/gemm_choices.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
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

/* All of the file, NULL-terminated by nothing; STATUS_NOT_FOUND where there is none. */
static enum status read_whole(const char *path, unsigned char **out, size_t *size, struct err *err)
{
    struct stat st;
    size_t most = sizeof(struct header) + GEMM_CHOICES_MAX * sizeof(struct gemm_choice), used = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_set(err, errno == ENOENT || errno == ENOTDIR ? STATUS_NOT_FOUND : STATUS_IO,
                       "%s: cannot open: %s", path, strerror(errno));
    unsigned char *bytes = NULL;
    enum status status = STATUS_OK;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        status = err_set(err, STATUS_IO, "%s: is not a file", path);
    else if ((size_t)st.st_size < sizeof(struct header) || (size_t)st.st_size > most)
        status = err_set(err, STATUS_CORRUPT, "%s: is damaged: its size is %lld bytes", path,
                         (long long)st.st_size);
    else if (!(bytes = malloc((size_t)st.st_size)))
        status = err_set(err, STATUS_NO_MEMORY, "%s: no memory to read it", path);
    while (!status && used < (size_t)st.st_size) {
        ssize_t n = read(fd, bytes + used, (size_t)st.st_size - used);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            status = err_set(err, STATUS_IO, "%s: cannot read: %s", path, n ? strerror(errno) : "it ended");
        else
            used += (size_t)n;
    }
    close(fd);
    if (status) free(bytes);
    if (status) return status;
    *out = bytes;
    *size = used;
    return STATUS_OK;
}

static enum status understand(struct gemm_choices *out, const unsigned char *bytes, size_t size,
                              const char *path, const char *identity, struct err *err)
{
    struct header header;
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
        *out = (struct gemm_choices){choices, (int)header.count, (int)header.count + 1};
        return STATUS_OK;
    }
    free(choices);
    if (!sound) return err_set(err, STATUS_CORRUPT, "%s: is damaged: its checksum is wrong", path);
    return err_set(err, STATUS_CORRUPT, "%s: was measured on another device or with another cuBLASLt", path);
}

enum status gemm_choices_load(struct gemm_choices *out, const char *path, const char *identity,
                              struct err *err)
{
    unsigned char *bytes = NULL;
    size_t size = 0;
    *out = (struct gemm_choices){0};
    enum status status = read_whole(path, &bytes, &size, err);
    if (status == STATUS_NOT_FOUND) return STATUS_OK;
    if (status) return status;
    status = understand(out, bytes, size, path, identity, err);
    free(bytes);
    return status;
}

void gemm_choices_release(struct gemm_choices *choices)
{
    free(choices->at);
    *choices = (struct gemm_choices){0};
}

const struct gemm_choice *gemm_choices_find(const struct gemm_choices *choices, const struct gemm_key *key)
{
    for (int i = 0; i < choices->count; i++)
        if (memcmp(&choices->at[i].key, key, sizeof *key) == 0) return &choices->at[i];
    return NULL;
}

enum status gemm_choices_add(struct gemm_choices *choices, const struct gemm_choice *choice, struct err *err)
{
    if (gemm_choices_find(choices, &choice->key)) return STATUS_OK;
    if (choices->count == choices->capacity) {
        int capacity = choices->capacity * 2 + 32;
        struct gemm_choice *at = realloc(choices->at, (size_t)capacity * sizeof *at);
        if (!at) return err_set(err, STATUS_NO_MEMORY, "no memory for %d matrix products' choices", capacity);
        choices->at = at;
        choices->capacity = capacity;
    }
    choices->at[choices->count++] = *choice;
    return STATUS_OK;
}

static enum status write_out(const struct gemm_choices *choices, const char *path, const char *identity,
                             struct err *err)
{
    struct header header = {.count = (uint64_t)choices->count};
    size_t size = sizeof header + (size_t)choices->count * sizeof *choices->at;
    memcpy(header.magic, MAGIC, sizeof header.magic);
    snprintf(header.identity, sizeof header.identity, "%s", identity);
    header.checksum = file_checksum(header, choices->at);
    unsigned char *bytes = malloc(size);
    if (!bytes) return err_set(err, STATUS_NO_MEMORY, "%s: no memory to write it", path);
    memcpy(bytes, &header, sizeof header);
    memcpy(bytes + sizeof header, choices->at, size - sizeof header);
    enum status status = file_write_atomic(path, bytes, size, err);
    free(bytes);
    return status;
}

/* The file's folder, and its lock; the lock lies beside the file because the file itself is replaced. */
static enum status lock(const char *path, int *out, struct err *err)
{
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s", path);
    char *slash = strrchr(name, '/');
    if (slash && slash != name) {
        *slash = '\0';
        enum status status = file_make_folders(name, err);
        if (status) return status;
    }
    if (snprintf(name, sizeof name, "%s.lock", path) >= (int)sizeof name)
        return err_set(err, STATUS_USAGE, "%s: the path is too long", path);
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666), result;
    if (fd < 0) return err_set(err, STATUS_IO, "%s: cannot create: %s", name, strerror(errno));
    do result = flock(fd, LOCK_EX); /* held for as long as a small file takes to write */
    while (result != 0 && errno == EINTR);
    if (result != 0) {
        err_set(err, STATUS_IO, "%s: cannot lock: %s", name, strerror(errno));
        close(fd);
        return STATUS_IO;
    }
    *out = fd;
    return STATUS_OK;
}

/* Takes out of `choices` what is equal to one of `others`. */
static void subtract(struct gemm_choices *choices, const struct gemm_choices *others)
{
    int kept = 0;
    for (int i = 0; i < choices->count; i++) {
        const struct gemm_choice *other = gemm_choices_find(others, &choices->at[i].key);
        if (!other || memcmp(other, &choices->at[i], sizeof *other) != 0)
            choices->at[kept++] = choices->at[i];
    }
    choices->count = kept;
}

enum status gemm_choices_keep(struct gemm_choices *choices, const struct gemm_choices *refused,
                              const char *path, const char *identity, struct err *err)
{
    struct gemm_choices all = {0};
    struct err why;
    int fd = -1;
    enum status status = lock(path, &fd, err);
    if (status) return status;
    /* what cannot be understood is replaced; whoever loaded it before has said so */
    enum status loaded = gemm_choices_load(&all, path, identity, &why);
    if (loaded && loaded != STATUS_CORRUPT) status = err_set(err, loaded, "%s", why.text);
    subtract(&all, refused);
    int before = all.count;
    for (int i = 0; !status && i < choices->count; i++)
        status = all.count < GEMM_CHOICES_MAX
                     ? gemm_choices_add(&all, &choices->at[i], err)
                     : err_set(err, STATUS_FAILED,
                               "%s: is full with %d choices, a later run may choose others (delete it)", path,
                               GEMM_CHOICES_MAX);
    if (!status && all.count > before) status = write_out(&all, path, identity, err);
    close(fd);
    if (status) {
        gemm_choices_release(&all);
        return status;
    }
    gemm_choices_release(choices);
    *choices = all;
    return STATUS_OK;
}
