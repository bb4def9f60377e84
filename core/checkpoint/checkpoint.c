/* See checkpoint.h. Here: which folders there are, which of them are whole, and which go. */
#include "core/checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/base/file.h"
#include "core/checkpoint/checkpoint_files.h"

/* What is larger is not read for a quick look. */
enum { PIECE = 1 << 18, LARGE = 64 << 20 };

const char *const checkpoint_files[CHECKPOINT_FILES] = {"model.safetensors",     "optimizer.safetensors",
                                                        "config.json",           "tokenizer.json",
                                                        "tokenizer_config.json", "trainer.json"};

enum status checkpoint_join(char path[CHECKPOINT_PATH], const char *folder, const char *name, struct err *err)
{
    return file_format_path(path, CHECKPOINT_PATH, err, "%s/%s", folder, name);
}

static enum status cannot_read(const char *path, struct err *err)
{
    return err_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s: cannot read: %s", path,
                   strerror(errno));
}

enum status checkpoint_hash(const char *path, uint64_t *hash, int64_t *bytes, struct err *err)
{
    XXH64_state_t *state = XXH64_createState();
    unsigned char *piece = malloc(PIECE);
    enum status status = STATUS_OK;
    struct stat st;
    ssize_t n = 0;
    int fd = -1;
    *bytes = 0;
    if (!state || !piece) {
        status = err_set(err, STATUS_NO_MEMORY, "%s: no memory to read it", path);
    } else if ((fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0 || fstat(fd, &st) != 0) {
        status = cannot_read(path, err);
    } else if (!S_ISREG(st.st_mode)) {
        status = err_set(err, STATUS_CORRUPT, "%s: is no file", path);
    } else {
        XXH64_reset(state, 0);
        while ((n = read(fd, piece, PIECE)) > 0 || (n < 0 && errno == EINTR)) {
            if (n < 0) continue;
            XXH64_update(state, piece, (size_t)n);
            *bytes += n;
        }
        if (n < 0) status = cannot_read(path, err);
        *hash = XXH64_digest(state);
    }
    if (fd >= 0) close(fd);
    free(piece);
    XXH64_freeState(state);
    return status;
}

/* ---- finding ---- */

/* The number of a folder named step-N, -1 otherwise. */
static int64_t step_of(const char *name)
{
    char *end;
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9') return -1;
    errno = 0;
    long long step = strtoll(name + 5, &end, 10);
    return *end || errno ? -1 : step;
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* The steps of all step-N folders, newest first, yours to free; NULL when there are none. */
static int64_t *list_steps(const char *parent, size_t *count)
{
    int64_t *steps = NULL;
    size_t capacity = 0;
    DIR *folder = opendir(parent);
    *count = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        int64_t step = step_of(entry->d_name);
        if (step < 0) continue;
        if (*count == capacity) {
            capacity = capacity ? capacity * 2 : 16;
            int64_t *grown = realloc(steps, capacity * sizeof *steps);
            if (!grown) break;
            steps = grown;
        }
        steps[(*count)++] = step;
    }
    if (folder) closedir(folder);
    if (*count) qsort(steps, *count, sizeof *steps, newest_first);
    return steps;
}

static enum status damaged(const char *folder, const char *what, struct err *err)
{
    return err_set(err, STATUS_CORRUPT, "%s: the checkpoint is damaged: %s", folder, what);
}

/* A large file of numbers: its header, and that it is as long as that says. */
static enum status look_at_numbers(const char *path, struct err *err)
{
    struct safetensors file;
    enum status status = safetensors_open(path, &file, err);
    if (!status) safetensors_close(&file);
    return status;
}

static bool is_large(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && st.st_size > LARGE;
}

/* Every file that a model needs is listed, and every listed file has its checksum; `quick`: those that are
 * not large. */
static enum status verify(const char *folder, bool quick, struct err *err)
{
    static const bool needed[CHECKPOINT_FILES] = {[0] = true, [2] = true, [5] = true};
    char path[CHECKPOINT_PATH], text[CHECKPOINT_FILES * 64 + 1], name[48];
    struct file_map map;
    bool seen[CHECKPOINT_FILES] = {false};
    uint64_t expected, hash;
    int64_t bytes;
    int used;
    enum status status = checkpoint_join(path, folder, "checksums", err);
    if (status || (status = file_map_open(path, &map, err))) return status;
    size_t length = map.size < sizeof text - 1 ? map.size : sizeof text - 1;
    memcpy(text, map.data, length);
    text[length] = '\0';
    file_map_close(&map);
    for (const char *line = text; sscanf(line, "%16" SCNx64 "  %47[a-z_.]\n%n", &expected, name, &used) == 2;
         line += used) {
        int which = 0;
        while (which < CHECKPOINT_FILES && strcmp(checkpoint_files[which], name) != 0) which++;
        if (which == CHECKPOINT_FILES) return damaged(folder, "an unknown file is listed", err);
        if ((status = checkpoint_join(path, folder, name, err))) return status;
        bool look = quick && which <= 1 && is_large(path);
        status = look ? look_at_numbers(path, err) : checkpoint_hash(path, &hash, &bytes, err);
        if (status) return status;
        if (!look && hash != expected) return damaged(folder, name, err);
        seen[which] = true;
    }
    for (int i = 0; i < CHECKPOINT_FILES; i++)
        if (needed[i] && !seen[i]) return damaged(folder, checkpoint_files[i], err);
    /* one that is there and not listed was full, and its list was cut off */
    status = checkpoint_join(path, folder, checkpoint_files[1], err);
    return !status && !seen[1] && file_exists(path) ? damaged(folder, checkpoint_files[1], err) : status;
}

bool checkpoint_looks_damaged(const char *folder)
{
    enum status status = verify(folder, true, NULL);
    bool wrong = status == STATUS_CORRUPT || status == STATUS_NOT_FOUND;
    return wrong && file_is_folder(folder); /* it may have been pruned meanwhile */
}

/* checkpoint_find, and with `full` only among those that hold moments. */
static enum status find(const char *parent, int64_t step, bool full, char *path, size_t size, struct err *err)
{
    struct err why, newest = {0};
    size_t count;
    int64_t *steps = list_steps(parent, &count);
    enum status status = STATUS_NOT_FOUND;
    for (size_t i = 0; status && i < count; i++) {
        if (step >= 0 && steps[i] != step) continue;
        if (snprintf(path, size, "%s/step-%" PRId64, parent, steps[i]) >= (int)size) continue;
        if (full && !checkpoint_is_full(path)) continue;
        status = verify(path, false, &why);
        if (status && !newest.status) newest = why;
    }
    free(steps);
    if (!status) return STATUS_OK;
    if (newest.status) return err_set(err, newest.status, "%s", newest.text);
    if (step >= 0) return err_set(err, STATUS_NOT_FOUND, "%s: no checkpoint of step %" PRId64, parent, step);
    return err_set(err, STATUS_NOT_FOUND, "%s: no checkpoint", parent);
}

enum status checkpoint_find(const char *parent, int64_t step, char *path, size_t size, struct err *err)
{
    return find(parent, step, false, path, size, err);
}

enum status checkpoint_find_full(const char *parent, char *path, size_t size, struct err *err)
{
    return find(parent, -1, true, path, size, err);
}

int64_t checkpoint_step(const char *folder)
{
    const char *slash = strrchr(folder, '/');
    return step_of(slash ? slash + 1 : folder);
}

bool checkpoint_passed_over(const char *parent, const char *found, char *newest, size_t size)
{
    size_t count;
    int64_t *steps = list_steps(parent, &count);
    bool known = count && snprintf(newest, size, "%s/step-%" PRId64, parent, steps[0]) < (int)size;
    free(steps);
    /* a trainer at work may just have added one, which is not damaged */
    return known && strcmp(newest, found) != 0 && verify(newest, false, NULL) != STATUS_OK;
}

int checkpoint_set_damaged_aside(const char *parent, const char *found)
{
    char path[CHECKPOINT_PATH], aside[CHECKPOINT_PATH];
    size_t count;
    int moved = 0;
    int64_t *steps = list_steps(parent, &count), good = checkpoint_step(found);
    for (size_t i = 0; i < count && steps[i] > good; i++) {
        snprintf(path, sizeof path, "%.*s/step-%" PRId64, CHECKPOINT_PATH - 48, parent, steps[i]);
        snprintf(aside, sizeof aside, "%.*s.damaged", CHECKPOINT_PATH - 16, path);
        if (!verify(path, false, NULL)) continue;
        file_remove_tree(aside, NULL); /* of an earlier time */
        moved += rename(path, aside) == 0;
    }
    free(steps);
    return moved;
}

void checkpoint_list(const char *parent, char *buf, size_t size)
{
    size_t count, used = 0;
    int64_t *steps = list_steps(parent, &count);
    snprintf(buf, size, "none");
    for (size_t i = count; i-- > 0 && used < size;)
        used += (size_t)snprintf(buf + used, size - used, "%s%" PRId64, used ? ", " : "", steps[i]);
    free(steps);
}

bool checkpoint_is_full(const char *folder)
{
    char path[CHECKPOINT_PATH];
    return !checkpoint_join(path, folder, checkpoint_files[1], NULL) && file_exists(path);
}

/* ---- pruning ---- */

/* What is to go, and what a killed trainer left half-written; its own process is the only writer, so nobody
 * misses it. */
static void remove_leftovers(const char *parent)
{
    char path[CHECKPOINT_PATH];
    DIR *folder = opendir(parent);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (strncmp(entry->d_name, ".step-", 6) == 0 && !checkpoint_join(path, parent, entry->d_name, NULL))
            file_remove_tree(path, NULL);
    if (folder) closedir(folder);
}

void checkpoint_prune(const char *parent, int64_t keep, int64_t written, int64_t best_step)
{
    char path[CHECKPOINT_PATH], gone[CHECKPOINT_PATH];
    size_t count;
    int64_t *steps = list_steps(parent, &count), kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (steps[i] > written) continue;
        if (kept++ < keep || steps[i] == written || steps[i] == best_step) continue;
        snprintf(path, sizeof path, "%.*s/step-%" PRId64, CHECKPOINT_PATH - 32, parent, steps[i]);
        snprintf(gone, sizeof gone, "%.*s/.step-%" PRId64, CHECKPOINT_PATH - 32, parent, steps[i]);
        rename(path, gone); /* at once: one that is half removed would look damaged */
    }
    free(steps);
    remove_leftovers(parent);
}
