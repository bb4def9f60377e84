/* See unfinished.h. A process id alone proves little: it is used again, and a cache may be shared with
 * another machine or container, where ids count anew. So a folder goes only when its lock is free as well;
 * the lock of a file system that has none is never free. */
#include "datasets/unfinished.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/text.h"

#define INFIX ".tmp-"

enum { KEY_DIGITS = 32, STALE_SECONDS = 3600 };

static int open_locked(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
    close(fd);
    return -1;
}

enum status unfinished_open(const char *folder, struct unfinished *out, struct err *err)
{
    *out = (struct unfinished){.fd = -1};
    if (snprintf(out->path, sizeof out->path, "%s" INFIX "%ld", folder, (long)getpid()) >=
        (int)sizeof out->path) {
        *out->path = '\0';
        return err_set(err, STATUS_USAGE, "%.200s…: the path is too long", folder);
    }
    enum status status = file_make_folders(out->path, err);
    if (!status) out->fd = open_locked(out->path); /* without a lock there is only the process id */
    return status;
}

void unfinished_close(struct unfinished *making)
{
    if (*making->path && file_exists(making->path)) file_remove_tree(making->path, NULL);
    if (making->fd >= 0) close(making->fd);
    *making = (struct unfinished){.fd = -1};
}

/* The process id behind "KEY.tmp-" or, *is_text, "NAME.txt.tmp-"; 0 for other names. */
static int64_t maker_of(const char *name, bool *is_text)
{
    const char *infix = strstr(name, INFIX);
    int64_t pid;
    if (!infix || !text_parse_int(infix + strlen(INFIX), &pid) || pid < 1 || pid > INT32_MAX) return 0;
    size_t n = (size_t)(infix - name);
    *is_text = n > 4 && strncmp(infix - 4, ".txt", 4) == 0;
    return *is_text || (n == KEY_DIGITS && strspn(name, "0123456789abcdef") == n) ? pid : 0;
}

void unfinished_sweep(const char *cache)
{
    char path[PATH_MAX];
    struct stat st;
    DIR *folder = opendir(cache);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        bool is_text;
        int64_t pid = maker_of(entry->d_name, &is_text);
        /* our own id: somebody had it before us, because we are making nothing yet */
        if (!pid || (pid != getpid() && !(kill((pid_t)pid, 0) != 0 && errno == ESRCH)) ||
            snprintf(path, sizeof path, "%s/%s", cache, entry->d_name) >= (int)sizeof path ||
            lstat(path, &st) != 0)
            continue;
        if (is_text) {
            if (S_ISREG(st.st_mode) && st.st_mtime < time(NULL) - STALE_SECONDS) unlink(path);
            continue;
        }
        int fd = S_ISDIR(st.st_mode) ? open_locked(path) : -1;
        if (fd < 0) continue;
        file_remove_tree(path, NULL);
        close(fd);
    }
    if (folder) closedir(folder);
}
