/* Checkpoints and the disk: all files of a checkpoint are synced before it becomes visible; any failing
 * system call is reported and leaves older checkpoints; a file too large for a quick check must at least have
 * its full length. The program replaces libc's write, fsync, rename and renameat2 to record the calls and let
 * them fail. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/core/checkpoint/saved.h"

/* ---- the watched calls ---- */

enum call { WRITE, SYNC, RENAME, SYNC_FOLDER, CALLS };

struct seen {
    enum call call;
    char path[256], to[256]; /* of what was written, synced, renamed; below the scratch folder */
};

enum { SEEN_MAX = 4096 };

static struct {
    bool on;
    struct seen seen[SEEN_MAX];
    int count, of[CALLS];
    enum call failing;
    int fail_at; /* which of `failing` fails, from 1; 0: none */
    size_t most; /* bytes that one write takes; 0: all */
} disk;

static void watch(enum call failing, int fail_at)
{
    memset(&disk, 0, sizeof disk);
    disk.failing = failing;
    disk.fail_at = fail_at;
    disk.on = true;
}

/* Whether the call shall fail. */
static bool see(enum call call, const char *path, const char *to)
{
    const char *root = getenv("ANNEAL_TEST_DIR");
    if (!disk.on || !root || strncmp(path, root, strlen(root)) != 0) return false;
    assert_true(disk.count < SEEN_MAX);
    struct seen *s = &disk.seen[disk.count++];
    s->call = call;
    snprintf(s->path, sizeof s->path, "%s", path);
    snprintf(s->to, sizeof s->to, "%s", to);
    disk.of[call]++;
    return disk.failing == call && disk.fail_at && disk.of[call] == disk.fail_at;
}

static bool see_descriptor(enum call call, int fd)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return false;
    path[n] = '\0';
    return see(call, path, "");
}

ssize_t write(int fd, const void *data, size_t size)
{
    if (disk.on && see_descriptor(WRITE, fd)) {
        errno = EIO;
        return -1;
    }
    if (disk.on && disk.most && size > disk.most) size = disk.most;
    return syscall(SYS_write, fd, data, size);
}

int fsync(int fd)
{
    struct stat st;
    bool folder = fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
    if (see_descriptor(folder ? SYNC_FOLDER : SYNC, fd)) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    if (see(RENAME, from, to)) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    if (see(RENAME, from, to)) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

static bool no_stream;

FILE *fdopen(int fd, const char *mode)
{
    FILE *(*next)(int, const char *);
    *(void **)&next = dlsym(RTLD_NEXT, "fdopen");
    errno = ENOMEM;
    return no_stream ? NULL : next(fd, mode);
}

/* ---- the recorded calls ---- */

static int last(enum call call, const char *path)
{
    for (int i = disk.count; i-- > 0;)
        if (disk.seen[i].call == call && strcmp(disk.seen[i].path, path) == 0) return i;
    return -1;
}

static bool is_parent(const char *folder, const char *path)
{
    size_t n = strlen(folder);
    return strncmp(folder, path, n) == 0 && path[n] == '/' && !strchr(path + n + 1, '/');
}

/* Every written file is synced before it, or its folder, is renamed. */
static void expect_synced_before_seen(void)
{
    for (int i = 0; i < disk.count; i++) {
        const struct seen *s = &disk.seen[i];
        if (s->call == WRITE) {
            int synced = last(SYNC, s->path);
            if (synced < last(WRITE, s->path)) fail_msg("%s is written and not synced after", s->path);
            for (int k = i; k < synced; k++)
                if (disk.seen[k].call == RENAME &&
                    (strcmp(disk.seen[k].path, s->path) == 0 || is_parent(disk.seen[k].path, s->path)))
                    fail_msg("%s is renamed before %s is synced", disk.seen[k].path, s->path);
        }
        if (s->call == RENAME) {
            bool synced = false;
            for (int k = i + 1; k < disk.count; k++)
                synced = synced || (disk.seen[k].call == SYNC_FOLDER && is_parent(disk.seen[k].path, s->to));
            if (!synced) fail_msg("%s has its name, and its folder is not synced after", s->to);
        }
    }
}

TEST_CASE(everything_is_on_disk_before_the_checkpoint_has_its_name)
{
    struct rig rig;
    struct model_config config = rig_config();
    char *parent = saved_folder("synced");
    saved_open(&rig, &config, 2, 5);
    for (int again = 0; again < 2; again++) { /* the second time one is replaced */
        watch(CALLS, 0);
        saved_write(parent, &rig, 3);
        disk.on = false;
        assert_true(disk.of[WRITE] >= 7 && disk.of[SYNC] >= 7 && disk.of[RENAME] >= 6);
        expect_synced_before_seen();
        int published = 0, folder_synced = -1;
        for (int i = 0; i < disk.count; i++)
            if (disk.seen[i].call == RENAME) published = i;
        assert_non_null(strstr(disk.seen[published].to, "/step-3")); /* after all else */
        for (int i = 0; i < published; i++)
            if (disk.seen[i].call == SYNC_FOLDER && strcmp(disk.seen[i].path, disk.seen[published].path) == 0)
                folder_synced = i;
        for (int i = 0; i < published; i++) /* nothing appears in the folder after that */
            if (disk.seen[i].call == RENAME) assert_true(i < folder_synced);
        assert_true(folder_synced > 0); /* the list of checksums is the last to come */
        assert_non_null(strstr(disk.seen[folder_synced - 1].to, "/checksums"));
    }
    rig_close(&rig);
    free(parent);
}

static void expect_only(const char *parent, const char *name)
{
    struct dirent *entry;
    DIR *folder = opendir(parent);
    assert_non_null(folder);
    while ((entry = readdir(folder)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            assert_string_equal(entry->d_name, name);
    closedir(folder);
}

/* Each call in turn fails: the save fails with a message, and older checkpoints stay. */
TEST_CASE(each_call_that_fails_fails_the_save)
{
    struct rig old, new, loaded;
    struct model_config config = rig_config();
    struct train_state train = saved_state(2), back;
    struct err err;
    int64_t bytes;
    char *parent = saved_folder("failing"), *path = saved_path(parent, "step-2", ""),
         *other = saved_path(parent, "step-3", "");
    saved_open(&old, &config, 2, 5);
    saved_open(&new, &config, 2, 6);
    rig_open(&loaded, NULL, &config, 1, 1, 2);
    saved_write(parent, &old, 2);
    for (int call = 0; call < SYNC_FOLDER; call++) { /* syncing a folder is best effort */
        enum status status = STATUS_IO;
        int failed = 0;
        for (int at = 1; status; at++) {
            train.step = at % 2 ? 2 : 3;
            err = (struct err){0};
            watch((enum call)call, at);
            status = saved_write_state(parent, &new, &train, NULL, &bytes, &err);
            disk.on = false;
            if (!status) break;
            failed++;
            assert_int_equal(status, STATUS_IO);
            assert_non_null(strstr(err.text, "Input/output error"));
            expect_only(parent, "step-2");
            assert_int_equal(checkpoint_load(path, &loaded.network, &back, NULL, &err), STATUS_OK);
            saved_expect_equal_memory(&old, &loaded);
        }
        assert_true(failed >= 4); /* each file's */
        if (train.step == 2) saved_write(parent, &old, 2);
        assert_int_equal(file_remove_tree(other, NULL), STATUS_OK);
    }
    rig_close(&old), rig_close(&new), rig_close(&loaded);
    free(path), free(other), free(parent);
}

TEST_CASE(writes_that_take_less_than_they_were_given_continue)
{
    struct rig rig, loaded;
    struct model_config config = rig_config();
    struct train_state back;
    struct err err;
    char *parent = saved_folder("short"), *path = saved_path(parent, "step-1", "");
    saved_open(&rig, &config, 2, 5);
    rig_open(&loaded, NULL, &config, 1, 1, 2);
    watch(CALLS, 0);
    disk.most = 7000;
    saved_write(parent, &rig, 1);
    disk.on = false;
    if (checkpoint_load(path, &loaded.network, &back, NULL, &err)) fail_msg("%s", err.text);
    saved_expect_equal_memory(&rig, &loaded);
    rig_close(&rig), rig_close(&loaded);
    free(path), free(parent);
}

TEST_CASE(a_file_without_memory_for_its_stream_leaves_nothing_behind)
{
    struct err err = {0};
    char *path = rig_path("unmade.txt"), temporary[4200];
    snprintf(temporary, sizeof temporary, "%s.tmp-%ld", path, (long)getpid());
    no_stream = true;
    enum status status = file_write_atomic(path, "x", 1, &err);
    no_stream = false;
    assert_int_equal(status, STATUS_IO);
    assert_non_null(strstr(err.text, "unmade.txt: cannot create: Cannot allocate memory"));
    assert_false(file_exists(path) || file_exists(temporary));
    free(path);
}

/* ---- large files ---- */

/* Writes header and size of a model with `count` fp32 zeros, which take no room on the disk. */
static void write_sparse(const char *path, size_t count, off_t size_less)
{
    char text[256];
    int length =
        snprintf(text, sizeof text, "{\"w\":{\"dtype\":\"F32\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}",
                 count, 4 * count);
    uint64_t header = (uint64_t)length;
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(&header, 8, 1, file), 1);
    assert_int_equal(fwrite(text, 1, (size_t)length, file), length);
    assert_int_equal(fflush(file), 0);
    assert_int_equal(ftruncate(fileno(file), 8 + length + (off_t)(4 * count) - size_less), 0);
    fclose(file);
}

static void list(const char *parent, const char *sum)
{
    static const char *const names[] = {"config.json", "trainer.json"};
    char text[512];
    int used = snprintf(text, sizeof text, "%s  model.safetensors\n", sum);
    for (int i = 0; i < 2; i++) {
        saved_write_text(parent, "step-1", names[i], "{}");
        used += snprintf(text + used, sizeof text - (size_t)used, "%016llx  %s\n",
                         (unsigned long long)XXH64("{}", 2, 0), names[i]);
    }
    saved_write_text(parent, "step-1", "checksums", text);
}

/* A quick check compares the length of large files; only loading reads the numbers. */
TEST_CASE(a_large_file_is_whole_at_its_whole_length_and_with_its_checksum)
{
    enum { COUNT = (66 << 20) / 4 };
    struct err err;
    struct file_map map;
    char sum[17];
    char *parent = saved_folder("large"), *folder = saved_path(parent, "step-1", ""),
         *model = saved_path(parent, "step-1", "model.safetensors");
    assert_int_equal(file_make_folders(folder, NULL), STATUS_OK);
    write_sparse(model, COUNT, 0);
    assert_int_equal(file_map_open(model, &map, &err), STATUS_OK);
    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)XXH64(map.data, map.size, 0));
    file_map_close(&map);
    list(parent, sum);
    assert_false(checkpoint_looks_damaged(folder));
    assert_int_equal(saved_offered(parent, -1), 1);
    for (off_t less = 1; less < 1 << 21; less *= 1024) {
        write_sparse(model, COUNT, less);
        assert_true(checkpoint_looks_damaged(folder));
        assert_int_equal(saved_offered(parent, -1), -1);
    }
    write_sparse(model, COUNT, 0);
    list(parent, "0123456789abcdef");
    assert_false(checkpoint_looks_damaged(folder)); /* in no time, whatever the size */
    assert_int_equal(saved_offered(parent, -1), -1);
    free(parent), free(folder), free(model);
}

/* A quick check reads a small file completely. */
TEST_CASE(a_small_file_is_read_at_a_glance)
{
    char *parent = saved_folder("glance"), *folder = saved_path(parent, "step-1", ""),
         *model = saved_path(parent, "step-1", "model.safetensors");
    assert_int_equal(file_make_folders(folder, NULL), STATUS_OK);
    write_sparse(model, 1000, 0);
    list(parent, "0123456789abcdef");
    assert_true(checkpoint_looks_damaged(folder));
    free(parent), free(folder), free(model);
}

static enum status fetch_pattern(void *context, void *host, const struct safetensor *t, size_t at,
                                 size_t bytes, struct err *err)
{
    (*(int *)context)++;
    return safetensors_fetch_host(NULL, host, t, at, bytes, err);
}

/* Larger than one write, and not a multiple of it. */
TEST_CASE(a_tensor_of_several_pieces_comes_back)
{
    enum { COUNT = (5 << 20) / 8 + 3 };
    struct safetensors back;
    struct err err;
    float *values = malloc(COUNT * sizeof *values);
    char *path = rig_path("pieces.safetensors");
    int fetched = 0;
    assert_non_null(values);
    for (int i = 0; i < COUNT; i++) values[i] = (float)i;
    struct safetensor tensors[] = {
        {.name = "w", .dtype = "F32", .shape = {COUNT}, .dims = 1, .data = values, .bytes = COUNT * 4},
        {.name = "x", .dtype = "F32", .shape = {2}, .dims = 1, .data = values + 5, .bytes = 8}};
    if (safetensors_write(path, tensors, 2, fetch_pattern, &fetched, &err)) fail_msg("%s", err.text);
    assert_true(fetched > 2);
    if (safetensors_open(path, &back, &err)) fail_msg("%s", err.text);
    assert_int_equal(back.count, 2);
    assert_memory_equal(safetensors_find(&back, "w")->data, values, COUNT * 4);
    assert_memory_equal(safetensors_find(&back, "x")->data, values + 5, 8);
    safetensors_close(&back);
    free(values), free(path);
}

TEST_MAIN()
