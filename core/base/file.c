/* See file.h. */
#include "core/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

/* On a shared file system a process of another host may write to a temporary file, whose number says nothing
 * here. It writes more often than this. */
enum { STALE_SECONDS = 3600, FEW_INODES = 16 };

static enum status io_error(struct err *err, const char *path, const char *what)
{
    int code = errno;
    return err_set(err, code == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s: cannot %s: %s", path, what,
                   strerror(code));
}

/* `git clone` without Git LFS leaves such a text in the place of each large file. */
static bool is_lfs_pointer(const unsigned char *data, size_t size)
{
    static const char start[] = "version https://git-lfs.github.com/spec/";
    return size >= sizeof start && size < 1024 && memcmp(data, start, sizeof start - 1) == 0;
}

enum status file_map_open(const char *path, struct file_map *out, struct err *err)
{
    enum status status = STATUS_OK;
    struct stat st = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return io_error(err, path, "open");
    void *data = "";
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        status = err_set(err, STATUS_USAGE, "%s: is %s, not a file", path,
                         S_ISDIR(st.st_mode) ? "a folder" : "a device or pipe");
    else if (st.st_size > 0)
        data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) status = io_error(err, path, "map");
    if (!status && is_lfs_pointer(data, (size_t)st.st_size)) {
        munmap(data, (size_t)st.st_size);
        status =
            err_set(err, STATUS_CORRUPT,
                    "%s: is a pointer of Git LFS, not the file itself (`git lfs pull` fetches it)", path);
    }
    if (!status) *out = (struct file_map){data, (size_t)st.st_size};
    close(fd);
    return status;
}

void file_map_close(struct file_map *map)
{
    if (map->size) munmap((void *)map->data, map->size);
    *map = (struct file_map){0};
}

enum status file_write_all(int fd, const void *data, size_t size, const char *path, struct err *err)
{
    const char *bytes = data;
    while (size) {
        ssize_t n = write(fd, bytes, size < (1u << 30) ? size : (1u << 30));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return io_error(err, path, "write");
        bytes += n;
        size -= (size_t)n;
    }
    return STATUS_OK;
}

int file_sync(int fd)
{
    int code = TEMP_FAILURE_RETRY(fsync(fd));
    return code != 0 && errno != EINVAL && errno != EROFS ? -1 : 0;
}

void file_sync_folder_of(const char *path)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)file_sync(fd);
    close(fd);
}

void file_remove_stale(const char *path)
{
    char folder[PATH_MAX], whole[PATH_MAX];
    struct stat st;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t n = strlen(name);
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        const char *found = entry->d_name;
        if (strncmp(found, name, n) != 0 || strncmp(found + n, ".tmp-", 5) != 0) continue;
        const char *pid = found + n + 5;
        if (!*pid || pid[strspn(pid, "0123456789")]) continue;
        if (kill((pid_t)strtol(pid, NULL, 10), 0) == 0 || errno != ESRCH) continue;
        if (fstatat(dirfd(entries), found, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            st.st_mtime >= time(NULL) - STALE_SECONDS)
            continue;
        if (S_ISREG(st.st_mode)) unlinkat(dirfd(entries), found, 0);
        if (S_ISDIR(st.st_mode) && !file_format_path(whole, sizeof whole, NULL, "%s/%s", folder, found))
            (void)file_remove_tree(whole, NULL);
    }
    if (entries) closedir(entries);
}

enum status file_out_open(struct file_out *out, const char *path, struct err *err)
{
    struct stat st;
    /* replacing a device or a pipe would destroy it */
    bool special = stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
    int flags = O_WRONLY | O_CLOEXEC | (special ? 0 : O_CREAT | O_TRUNC | O_NOFOLLOW);
    *out = (struct file_out){.path = path};
    if (strcmp(path, "-") == 0) {
        *out = (struct file_out){.path = "standard output", .stream = stdout};
        return STATUS_OK;
    }
    enum status status = STATUS_OK;
    if (!special)
        status =
            file_format_path(out->temporary, sizeof out->temporary, err, "%s.tmp-%ld", path, (long)getpid());
    if (status) return status;
    if (!special) file_remove_stale(path);
    int fd = open(special ? path : out->temporary, flags, 0666);
    out->stream = fd < 0 ? NULL : fdopen(fd, "w");
    if (out->stream) return STATUS_OK;
    status = io_error(err, path, "create");
    if (fd >= 0) close(fd);
    if (fd >= 0 && !special) unlink(out->temporary);
    return status;
}

/* Whether it is a file that is not empty and begins in another way. */
static bool is_other_file(const char *path, const char *beginning)
{
    char found[64];
    struct stat st;
    size_t n = strlen(beginning);
    if (stat(path, &st) || !S_ISREG(st.st_mode) || !st.st_size) return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool other = fd < 0 || read(fd, found, n) != (ssize_t)n || memcmp(found, beginning, n) != 0;
    if (fd >= 0) close(fd);
    return other;
}

enum status file_out_replace(struct file_out *out, const char *path, const char *beginning, struct err *err)
{
    if (strcmp(path, "-") != 0 && is_other_file(path, beginning))
        return err_set(err, STATUS_USAGE, "%s: exists already and holds something else (choose another name)",
                       path);
    return file_out_open(out, path, err);
}

enum status file_out_join(struct file_out *out, const char *path, struct err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    *out = (struct file_out){.path = path, .stream = fd < 0 ? NULL : fdopen(fd, "w")};
    if (out->stream) return STATUS_OK;
    enum status status = io_error(err, path, "create");
    if (fd >= 0) close(fd);
    return status;
}

enum status file_out_close(struct file_out *out, enum status status, int error, struct err *err)
{
    if (!error && fflush(out->stream) != 0) error = errno;
    if (!error && ferror(out->stream)) error = EIO; /* an earlier write: its text is dropped */
    if (!error && !status && file_sync(fileno(out->stream))) error = errno;
    if (out->stream != stdout && fclose(out->stream) != 0 && !error) error = errno;
    out->stream = NULL;
    if (*out->temporary && !status && !error && rename(out->temporary, out->path) != 0) error = errno;
    errno = error;
    if (!status && error) status = io_error(err, out->path, "write");
    if (*out->temporary && status)
        unlink(out->temporary);
    else if (*out->temporary)
        file_sync_folder_of(out->path);
    return status;
}

enum status file_write_atomic(const char *path, const void *data, size_t size, struct err *err)
{
    struct file_out out;
    enum status status = file_out_open(&out, path, err);
    if (status) return status;
    status = file_write_all(fileno(out.stream), data, size, path, err);
    return file_out_close(&out, status, 0, err);
}

enum status file_copy(const char *from, const char *to, struct err *err)
{
    struct file_map map;
    enum status status = file_map_open(from, &map, err);
    if (status) return status;
    status = file_write_atomic(to, map.data, map.size, err);
    file_map_close(&map);
    return status;
}

enum status file_make_folders(const char *path, struct err *err)
{
    char partial[PATH_MAX];
    if (snprintf(partial, sizeof partial, "%s", path) >= (int)sizeof partial)
        return err_set(err, STATUS_USAGE, "%s: the path is too long", path);
    for (char *c = partial + 1;; c++) {
        char saved = *c;
        if (saved != '/' && saved != '\0') continue;
        *c = '\0';
        if (mkdir(partial, 0777) == 0)
            file_sync_folder_of(partial);
        else if (errno != EEXIST)
            return io_error(err, partial, "create the folder");
        *c = saved;
        if (!saved) break;
    }
    errno = ENOTDIR;
    return file_is_folder(path) ? STATUS_OK : io_error(err, path, "create the folder");
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path) != 0 && errno != ENOENT ? -1 : 0;
}

enum status file_remove_tree(const char *path, struct err *err)
{
    return nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT
               ? STATUS_OK
               : io_error(err, path, "remove");
}

enum status file_remove_whole(const char *path, struct err *err)
{
    char going[PATH_MAX];
    size_t n = strlen(path), m = strlen(FILE_GOING);
    if (n > m && strcmp(path + n - m, FILE_GOING) == 0) return file_remove_tree(path, err);
    enum status status = file_format_path(going, sizeof going, err, "%s" FILE_GOING, path);
    if (!status) status = file_remove_tree(going, err); /* left from an earlier time */
    if (!status && rename(path, going) != 0) {
        if (errno == EXDEV) return file_remove_tree(path, err);
        status = io_error(err, path, "remove");
    }
    return status ? status : file_remove_tree(going, err);
}

struct tree_size {
    int64_t bytes, freed;
};

/* Adds an entry of a folder with all that it holds; one that is gone by now is nothing. glibc's fts would do
 * it, but crashes where memory has run out, and nftw ends at a folder that is gone. */
static void add_entry(int folder, const char *name, struct tree_size *size)
{
    struct stat st;
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0) return;
    size->bytes += (int64_t)st.st_blocks * 512;
    if (S_ISDIR(st.st_mode) || st.st_nlink == 1) size->freed += (int64_t)st.st_blocks * 512;
    if (!S_ISDIR(st.st_mode)) return;
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            add_entry(fd, entry->d_name, size);
    if (entries)
        closedir(entries);
    else if (fd >= 0)
        close(fd);
}

int64_t file_tree_bytes(const char *path, int64_t *alone)
{
    struct tree_size size = {0};
    add_entry(AT_FDCWD, path, &size);
    if (alone) *alone = size.freed;
    return size.bytes;
}

/* Of the disk on which it is or would be made; false: not known. */
static bool find_disk(const char *path, struct statvfs *disk)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    int failed = statvfs(folder, disk);
    while (failed && errno == ENOENT && strcmp(folder, "/") != 0 && strcmp(folder, ".") != 0) {
        const char *parent = dirname(folder); /* part of folder, or a constant */
        memmove(folder, parent, strlen(parent) + 1);
        failed = statvfs(folder, disk);
    }
    return !failed && disk->f_blocks > 0;
}

/* f_files 0: there is no such limit. */
static bool lacks_inodes(const struct statvfs *disk)
{
    return disk->f_files > 0 && disk->f_favail < FEW_INODES;
}

bool file_lacks_inodes(const char *path)
{
    struct statvfs disk;
    return find_disk(path, &disk) && lacks_inodes(&disk);
}

double file_free_bytes(const char *path)
{
    struct statvfs disk;
    if (!find_disk(path, &disk)) return NAN;
    return lacks_inodes(&disk) ? 0 : (double)disk.f_bavail * (double)disk.f_frsize;
}

int file_is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

bool file_is_temporary(const char *name)
{
    const char *found = NULL;
    for (const char *at = name; (at = strstr(at, ".tmp-")); at++) found = at + 5;
    return found && *found && strspn(found, "0123456789") == strlen(found);
}

enum status file_format_path(char *buf, size_t size, struct err *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(buf, size, format, args);
    va_end(args);
    return n >= 0 && (size_t)n < size ? STATUS_OK
                                      : err_set(err, STATUS_USAGE, "%.200s…: the path is too long", buf);
}

bool file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

bool file_exists_in(const char *folder, const char *name)
{
    char path[PATH_MAX];
    return !file_format_path(path, sizeof path, NULL, "%s/%s", folder, name) && file_exists(path);
}

enum status file_look(const char *path, bool *there, struct err *err)
{
    *there = file_exists(path);
    return *there || errno == ENOENT ? STATUS_OK : io_error(err, path, "look for it");
}

bool file_is_read_only(const char *path)
{
    return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0 && (errno == EROFS || errno == EACCES);
}

bool file_is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

enum status file_of_program(const char *name, char *buf, size_t size, struct err *err)
{
    char self[PATH_MAX] = "";
    if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0)
        return err_set(err, STATUS_NOT_FOUND, "%s: cannot find the folder of this program", name);
    const char *folder = dirname(self);
    enum status status = file_format_path(buf, size, err, "%s/%s", folder, name);
    if (status || file_exists(buf)) return status;
    status = file_format_path(buf, size, err, "%s/../lib/anneal/%s", folder, name);
    return status || file_exists(buf) ? status : file_format_path(buf, size, err, "%s/%s", folder, name);
}

enum status file_anneal_home(char *buf, size_t size, struct err *err)
{
    const char *own = getenv("ANNEAL_HOME"), *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    char path[PATH_MAX], here[PATH_MAX] = "";
    if (own && *own)
        snprintf(path, sizeof path, "%s", own);
    else if (data && *data == '/')
        snprintf(path, sizeof path, "%s/anneal", data);
    else if (home && *home)
        snprintf(path, sizeof path, "%s/.local/share/anneal", home);
    else
        return err_set(err, STATUS_FAILED,
                       "nowhere to keep runs: HOME is not set (set ANNEAL_HOME to a folder)");
    if (path[0] != '/' && !getcwd(here, sizeof here)) return io_error(err, path, "find the current folder");
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') path[--n] = '\0';
    return file_format_path(buf, size, err, "%s%s%s", here, *here ? "/" : "", path);
}

enum status file_in_home(const char *name, char *buf, size_t size, struct err *err)
{
    char home[PATH_MAX];
    enum status status = file_anneal_home(home, sizeof home, err);
    return status ? status : file_format_path(buf, size, err, "%s/%s", home, name);
}
