/* See run_log.h. */
#include "tui/session/run_log.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/text.h"

void run_log_open(struct run_log *log, const char *folder)
{
    char path[PATH_MAX];
    struct stat st;
    *log = (struct run_log){.fd = -1};
    if (snprintf(path, sizeof path, "%s/log.txt", folder) >= (int)sizeof path) return;
    /* not even opening may wait: a pipe without a reader must not hold up training */
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        fd = -1;
    }
    log->fd = fd;
}

void run_log_close(struct run_log *log)
{
    if (log->fd >= 0) close(log->fd);
    log->fd = -1;
}

void run_log_line(const struct run_log *log, const char *text)
{
    char line[1200];
    struct tm local;
    time_t now = time(NULL);
    if (log->fd < 0) return;
    size_t n = localtime_r(&now, &local) ? strftime(line, sizeof line, "%Y-%m-%d %H:%M:%S  ", &local) : 0;
    clean_line(line + n, sizeof line - n - 1, text);
    n = strlen(line);
    line[n++] = '\n';
    ssize_t written = write(log->fd, line, n);
    (void)written; /* a full disk: the log has a gap */
}
