/* See checkpoint.h. Here: the folders: verifying checkpoints, removing old ones, and copies. */
#define XXH_STATIC_LINKING_ONLY
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
#include "core/base/text.h"
#include "core/checkpoint/tokenizer_config.h"
#include "core/model/adapter_file.h"

/* At the end of the name of a folder that is set aside. */
#define DAMAGED ".damaged"
#define SUSPECT ".suspect"

enum { PIECE = 1 << 16, COPIED = 1 << 20, LARGE = 64 << 20 /* larger files are not read in a quick check */ };

/* All files except `checksums`. */
enum {
    MODEL,
    ADAPTER,
    OPTIMIZER,
    AVERAGE,
    ADAPTER_CONFIG,
    CONFIG,
    TRAINER,
    FILES = TRAINER + 1 + COMPANIONS
};
static const char *const files[FILES] = {"model.safetensors",
                                         "adapter_model.safetensors",
                                         "optimizer.safetensors",
                                         "ema.safetensors",
                                         "adapter_config.json",
                                         "config.json",
                                         "trainer.json",
                                         "tokenizer.json",
                                         "tokenizer_config.json",
                                         "generation_config.json",
                                         "special_tokens_map.json",
                                         "chat_template.jinja"};

char *checkpoint_join(char path[CHECKPOINT_PATH], const char *folder, const char *name)
{
    snprintf(path, CHECKPOINT_PATH, "%s/%s", folder, name);
    return path;
}

static char *join_step(char path[CHECKPOINT_PATH], const char *parent, int64_t step)
{
    snprintf(path, CHECKPOINT_PATH, "%s/step-%" PRId64, parent, step);
    return path;
}

/* ---- checksums ---- */

/* XXH64 and size of a whole file, read in pieces that `meter` (may be NULL) counts. */
static enum status hash_file(const char *path, uint64_t *hash, int64_t *bytes, struct progress_meter *meter,
                             struct err *err)
{
    unsigned char piece[PIECE];
    XXH64_state_t state;
    struct stat st = {0};
    ssize_t n = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool regular = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    enum status status = STATUS_OK;
    XXH64_reset(&state, 0);
    for (*bytes = 0; !status && regular && (n = TEMP_FAILURE_RETRY(read(fd, piece, sizeof piece))) > 0;
         *bytes += n) {
        XXH64_update(&state, piece, (size_t)n);
        if (meter) status = progress_advance(meter, (uint64_t)n, err);
    }
    *hash = XXH64_digest(&state);
    if (st.st_mode && !regular)
        status = err_set(err, STATUS_CORRUPT, "%s: not a file", path);
    else if (n < 0)
        status = err_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s: cannot read: %s", path,
                         strerror(errno));
    if (fd >= 0) close(fd);
    return status;
}

enum status checkpoint_seal(const char *folder, int64_t *bytes, struct err *err)
{
    char path[CHECKPOINT_PATH], text[FILES * 64];
    size_t length = 0;
    uint64_t hash;
    int64_t size;
    *bytes = 0;
    for (int i = 0; i < FILES; i++) {
        if (!file_exists(checkpoint_join(path, folder, files[i]))) continue;
        enum status status = hash_file(path, &hash, &size, NULL, err);
        if (status) return status;
        length +=
            (size_t)snprintf(text + length, sizeof text - length, "%016" PRIx64 "  %s\n", hash, files[i]);
        *bytes += size;
    }
    return file_write_atomic(checkpoint_join(path, folder, "checksums"), text, length, err);
}

static enum status damaged(const char *folder, const char *what, struct err *err)
{
    return err_set(err, STATUS_CORRUPT, "%s: the checkpoint is damaged: %s", folder, what);
}

/* A quick check of a large file reads its header and compares the length with it. */
static enum status check_file(const char *folder, int which, uint64_t expected, bool quick,
                              struct progress_meter *meter, struct err *err)
{
    char path[CHECKPOINT_PATH];
    struct safetensors numbers;
    struct stat st;
    uint64_t hash;
    int64_t bytes;
    checkpoint_join(path, folder, files[which]);
    if (quick && which <= AVERAGE && stat(path, &st) == 0 && st.st_size > LARGE) {
        enum status status = safetensors_open(path, &numbers, err);
        if (!status) safetensors_close(&numbers);
        return status;
    }
    enum status status = hash_file(path, &hash, &bytes, meter, err);
    return status || hash == expected ? status : damaged(folder, files[which], err);
}

/* Checks that every file a model needs is listed and that the checksum of every listed file is right;
 * `quick`: of files that are not large. */
static enum status verify(const char *folder, bool quick, struct progress_meter *meter, struct err *err)
{
    char path[CHECKPOINT_PATH], text[FILES * 64 + 1], name[48];
    bool adapter = adapter_file_exists(folder);
    const bool needed[FILES] = {[MODEL] = !adapter,
                                [ADAPTER] = adapter,
                                [OPTIMIZER] = checkpoint_is_full(folder),
                                [AVERAGE] = !checkpoint_find_average(folder, path, NULL),
                                [ADAPTER_CONFIG] = adapter,
                                [CONFIG] = true,
                                [TRAINER] = true};
    struct file_map map;
    bool seen[FILES] = {false};
    uint64_t expected;
    int used;
    enum status status = file_map_open(checkpoint_join(path, folder, "checksums"), &map, err);
    if (status) return status;
    snprintf(text, sizeof text, "%.*s", (int)(map.size < sizeof text ? map.size : sizeof text),
             (const char *)map.data);
    file_map_close(&map);
    for (const char *line = text; sscanf(line, "%16" SCNx64 "  %47[a-z_.]\n%n", &expected, name, &used) == 2;
         line += used) {
        int which = 0;
        while (which < FILES && strcmp(files[which], name) != 0) which++;
        if (which == FILES) return damaged(folder, "an unknown file is listed", err);
        if ((status = check_file(folder, which, expected, quick, meter, err))) return status;
        seen[which] = true;
    }
    /* a file that is present but not listed: the list was cut off */
    for (int i = 0; i < FILES; i++)
        if (!seen[i] && needed[i]) return damaged(folder, files[i], err);
    return STATUS_OK;
}

bool checkpoint_is_full(const char *folder)
{
    return file_exists_in(folder, files[OPTIMIZER]);
}

enum status checkpoint_find_average(const char *folder, char path[CHECKPOINT_PATH], struct err *err)
{
    if (file_exists(checkpoint_join(path, folder, files[AVERAGE]))) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "%s: holds no averages of the weights (they are kept where train.ema_decay is above 0)",
                   folder);
}

enum status checkpoint_verify(const char *folder, struct progress_meter *meter, struct err *err)
{
    return verify(folder, false, meter, err);
}

bool checkpoint_looks_damaged(const char *folder)
{
    enum status status = verify(folder, true, NULL, NULL);
    bool wrong = status == STATUS_CORRUPT || status == STATUS_NOT_FOUND;
    return wrong && file_is_folder(folder); /* it may have been removed meanwhile */
}

/* ---- finding ---- */

/* The number of a folder named step-N, -1 otherwise. */
static int64_t step_of(const char *name)
{
    int64_t step;
    return strncmp(name, "step-", 5) == 0 && name[5] >= '0' && name[5] <= '9' &&
                   text_parse_int(name + 5, &step)
               ? step
               : -1;
}

int64_t checkpoint_step(const char *folder)
{
    const char *slash = strrchr(folder, '/');
    return step_of(slash ? slash + 1 : folder);
}

static int is_step(const struct dirent *entry)
{
    return step_of(entry->d_name) >= 0;
}

static int newest_first(const struct dirent **a, const struct dirent **b)
{
    int64_t x = step_of((*a)->d_name), y = step_of((*b)->d_name);
    return x < y ? 1 : x > y ? -1 : 0;
}

int64_t *checkpoint_steps(const char *parent, size_t *count)
{
    struct dirent **entries = NULL;
    int n = scandir(parent, &entries, is_step, newest_first);
    int64_t *steps = n > 0 ? calloc((size_t)n, sizeof *steps) : NULL;
    for (int i = 0; i < n; i++) {
        if (steps) steps[i] = step_of(entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    *count = steps ? (size_t)n : 0;
    return steps;
}

/* For a folder that cannot be renamed: see file_remove_whole. */
static bool move_files(const char *from, const char *to)
{
    bool moved = mkdir(to, 0777) == 0;
    DIR *entries = opendir(from);
    int there = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (struct dirent *entry; moved && entries && (entry = readdir(entries));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            moved = renameat(dirfd(entries), entry->d_name, there, entry->d_name) == 0;
    if (entries) closedir(entries);
    if (there >= 0) close(there);
    return moved && rmdir(from) == 0;
}

static bool set_aside(const char *folder, const char *ending)
{
    char aside[CHECKPOINT_PATH + 16];
    snprintf(aside, sizeof aside, "%s%s", folder, ending);
    if (!file_exists(folder)) return false;
    file_remove_tree(aside, NULL); /* left from an earlier time */
    return rename(folder, aside) == 0 || (errno == EXDEV && move_files(folder, aside));
}

bool checkpoint_set_aside(const char *folder)
{
    return set_aside(folder, DAMAGED);
}

/* Whether the name is "step-N" and this ending. */
static bool is_step_with(const char *name, const char *ending)
{
    char step[64];
    if (!text_ends_with(name, ending) || strlen(name) >= sizeof step) return false;
    snprintf(step, sizeof step, "%.*s", (int)(strlen(name) - strlen(ending)), name);
    return step_of(step) >= 0;
}

bool checkpoint_is_leftover(const char *name)
{
    return strncmp(name, ".step-", 6) == 0 || is_step_with(name, FILE_GOING);
}

const char *checkpoint_aside(const char *name)
{
    if (is_step_with(name, DAMAGED)) return "damaged, and set aside";
    return is_step_with(name, SUSPECT) ? "whole, but a rollback has set it aside" : NULL;
}

int checkpoint_set_damaged_aside(const char *parent, const char *found)
{
    char path[CHECKPOINT_PATH];
    size_t count;
    int moved = 0;
    int64_t *steps = checkpoint_steps(parent, &count), good = checkpoint_step(found);
    for (size_t i = 0; i < count && steps[i] > good; i++) {
        if (verify(join_step(path, parent, steps[i]), false, NULL, NULL)) moved += checkpoint_set_aside(path);
    }
    free(steps);
    return moved;
}

void checkpoint_set_suspect_aside(const char *parent, int64_t step)
{
    char path[CHECKPOINT_PATH];
    set_aside(join_step(path, parent, step), SUSPECT);
}

void checkpoint_list(const char *parent, char *buf, size_t size)
{
    size_t count;
    int64_t *steps = checkpoint_steps(parent, &count);
    snprintf(buf, size, "%s", count ? "" : "none");
    for (size_t i = count; i-- > 0;) text_add(buf, size, ", ", "%" PRId64, steps[i]);
    free(steps);
}

static bool is_needed(struct needed_steps needed, int64_t step)
{
    size_t i = 0;
    while (i < needed.count && needed.steps[i] != step) i++;
    return i < needed.count;
}

void checkpoint_prune(const char *parent, int64_t keep, int64_t written, int64_t best_step,
                      struct needed_steps needed)
{
    char path[CHECKPOINT_PATH];
    size_t count;
    int64_t *steps = checkpoint_steps(parent, &count), kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (steps[i] > written) continue;
        if (kept++ < keep || steps[i] == written || steps[i] == best_step) continue;
        if (is_needed(needed, steps[i])) continue;
        (void)checkpoint_hold_remove(join_step(path, parent, steps[i]), NULL);
    }
    free(steps);
    /* leftovers of a killed trainer; this process is the only writer */
    DIR *folder = opendir(parent);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (checkpoint_is_leftover(entry->d_name))
            file_remove_tree(checkpoint_join(path, parent, entry->d_name), NULL);
    if (folder) closedir(folder);
}

int64_t checkpoint_remove_oldest(const char *parent, int64_t best_step, struct needed_steps needed)
{
    char path[CHECKPOINT_PATH];
    size_t count;
    int64_t *steps = checkpoint_steps(parent, &count), oldest = -1;
    for (size_t i = 1; i < count; i++) /* the newest first */
        if (steps[i] != best_step && !is_needed(needed, steps[i])) oldest = steps[i];
    free(steps);
    if (oldest < 0) return -1;
    return file_remove_whole(join_step(path, parent, oldest), NULL) ? -1 : oldest;
}

/* ---- publishing ---- */

enum status checkpoint_begin(const char *parent, int64_t step, char temporary[CHECKPOINT_PATH],
                             struct err *err)
{
    snprintf(temporary, CHECKPOINT_PATH, "%s/.step-%" PRId64 ".tmp-%ld", parent, step, (long)getpid());
    enum status status = file_remove_tree(temporary, err);
    return status ? status : file_make_folders(temporary, err);
}

enum status checkpoint_publish(const char *temporary, const char *final, struct err *err)
{
    bool replace = file_exists(final);
    int failed = renameat2(AT_FDCWD, temporary, AT_FDCWD, final, replace ? RENAME_EXCHANGE : 0);
    if (failed && replace && errno == EINVAL) /* without RENAME_EXCHANGE neither exists for a moment */
        failed = file_remove_tree(final, NULL) || rename(temporary, final);
    if (failed)
        return err_set(err, STATUS_IO, "%s: cannot move the checkpoint to its place: %s", final,
                       strerror(errno));
    if (replace) file_remove_tree(temporary, NULL);
    file_sync_folder_of(final);
    return STATUS_OK;
}

/* Links if `linked` and the file system allow it, else copies. Skips a missing file: verification of an
 * adopted checkpoint reports it, and an exported model needs only config.json. */
static enum status hand_over(const char *folder, const char *source, const char *temporary, const char *name,
                             bool linked, int64_t *bytes, struct err *err)
{
    char from[CHECKPOINT_PATH], to[CHECKPOINT_PATH];
    struct stat st = {0};
    enum status status = STATUS_OK;
    checkpoint_join(from, folder, source);
    checkpoint_join(to, temporary, name);
    if (stat(from, &st) != 0 && (linked || strcmp(name, files[CONFIG]) != 0)) return STATUS_OK;
    if (!linked || link(from, to) != 0) status = file_copy(from, to, err);
    if (!status && strcmp(name, "checksums") != 0) *bytes += st.st_size;
    return status;
}

enum status checkpoint_adopt(const char *parent, const char *folder, int64_t *bytes, struct err *err)
{
    char temporary[CHECKPOINT_PATH], final[CHECKPOINT_PATH];
    int64_t step = checkpoint_step(folder);
    join_step(final, parent, step);
    enum status status = checkpoint_begin(parent, step, temporary, err);
    *bytes = 0;
    for (int i = 0; !status && i < FILES; i++)
        status = hand_over(folder, files[i], temporary, files[i], true, bytes, err);
    if (!status) status = hand_over(folder, "checksums", temporary, "checksums", true, bytes, err);
    if (!status) status = checkpoint_publish(temporary, final, err);
    if (!status) return verify(final, false, NULL, err);
    file_remove_tree(temporary, NULL);
    return status;
}

/* ---- models for other programs ---- */

static enum status fetch_counted(void *context, void *host, const struct safetensor *t, size_t at,
                                 size_t bytes, struct err *err)
{
    memcpy(host, (const unsigned char *)t->data + at, bytes);
    return progress_advance(context, bytes, err);
}

/* Writes all shards as one file. */
static enum status join_shards(const char *folder, const char *to, struct progress_meter *meter,
                               struct err *err)
{
    struct safetensors shards;
    enum status status = safetensors_open_folder(folder, &shards, err);
    if (status) return status;
    for (size_t i = 0; i < shards.count; i++) meter->total += shards.tensors[i].bytes;
    status = safetensors_write(to, shards.tensors, shards.count, fetch_counted, meter, err);
    safetensors_close(&shards);
    return status;
}

static enum status copy_file(const char *from, const char *to, struct progress_meter *meter, struct err *err)
{
    struct file_map map;
    struct file_out out;
    enum status status = file_map_open(from, &map, err);
    if (status) return status;
    meter->total = map.size;
    status = file_out_open(&out, to, err);
    if (!status) {
        for (size_t at = 0, n; !status && at < map.size; at += n) {
            n = map.size - at < COPIED ? map.size - at : COPIED;
            status = file_write_all(fileno(out.stream), map.data + at, n, to, err);
            if (!status) status = progress_advance(meter, n, err);
        }
        status = file_out_close(&out, status, 0, err);
    }
    file_map_close(&map);
    return status;
}

struct copying {
    const struct progress *progress;
    enum checkpoint_weights which;
};

/* One file is copied as it is, shards are joined, and adapters have files of their own. */
static enum status copy_weights(void *context, const char *folder, const char *path, struct err *err)
{
    const struct copying *copying = context;
    char from[CHECKPOINT_PATH];
    struct progress_meter meter = {copying->progress, "copying", 0, 0, 0};
    if (adapter_file_exists(folder)) return STATUS_OK;
    checkpoint_join(from, folder, files[copying->which == CHECKPOINT_AVERAGE ? AVERAGE : MODEL]);
    return file_exists(from) ? copy_file(from, path, &meter, err) : join_shards(folder, path, &meter, err);
}

static enum status refuse_place(const char *to, struct err *err)
{
    bool exists = errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR || errno == EINVAL ||
                  errno == EBUSY; /* "." and "/" */
    if (exists) return err_set(err, STATUS_USAGE, "%s: exists already (name a new or an empty folder)", to);
    return err_set(err, STATUS_IO, "%s: cannot create: %s", to, strerror(errno));
}

/* checkpoint_export_with, with the file that becomes that of the adapters. Copies instead of linking, so that
 * changes to the copy cannot reach the run. */
static enum status export_with(const char *folder, const char *words, const char *to, const char *adapter,
                               checkpoint_writer *write, void *context, int64_t *bytes, struct err *err)
{
    char temporary[CHECKPOINT_PATH], path[CHECKPOINT_PATH];
    struct stat st;
    int length = (int)strlen(to);
    while (length > 1 && to[length - 1] == '/') length--;
    snprintf(temporary, sizeof temporary, "%.*s.tmp-%ld", length, to, (long)getpid());
    snprintf(path, sizeof path, "%.*s", length, to);
    file_remove_stale(path);
    if (rmdir(to) != 0 && errno != ENOENT) return refuse_place(to, err);
    *bytes = 0;
    enum status status = file_make_folders(temporary, err);
    if (!status) status = write(context, folder, checkpoint_join(path, temporary, files[MODEL]), err);
    bool alone = !status && !file_exists(path);
    for (int i = 0; !status && i < FILES; i++)
        if (stat(checkpoint_join(path, temporary, files[i]), &st) == 0) /* written just now */
            *bytes += st.st_size;
        else if (i >= CONFIG ? i != TRAINER : alone && (i == ADAPTER || i == ADAPTER_CONFIG))
            status = hand_over(i > TRAINER ? words : folder, i == ADAPTER ? adapter : files[i], temporary,
                               files[i], false, bytes, err);
    if (!status && file_exists_in(temporary, "tokenizer.json"))
        status = tokenizer_config_settle(temporary, err);
    if (!status && rename(temporary, to) != 0) status = refuse_place(to, err);
    if (status)
        file_remove_tree(temporary, NULL);
    else
        file_sync_folder_of(to);
    return status;
}

enum status checkpoint_export_with(const char *folder, const char *words, const char *to,
                                   checkpoint_writer *write, void *context, int64_t *bytes, struct err *err)
{
    return export_with(folder, words, to, files[ADAPTER], write, context, bytes, err);
}

enum status checkpoint_export(const char *folder, enum checkpoint_weights which, const char *to,
                              const struct progress *progress, int64_t *bytes, struct err *err)
{
    struct copying copying = {progress, which};
    char path[CHECKPOINT_PATH];
    bool average = which == CHECKPOINT_AVERAGE;
    enum status status = average ? checkpoint_find_average(folder, path, err) : STATUS_OK;
    if (status) return status;
    return export_with(folder, folder, to, files[average ? AVERAGE : ADAPTER], copy_weights, &copying, bytes,
                       err);
}
