/* See out_file.h. */
#include "runs/exchange/out_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_special(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

enum status out_file_open(struct out_file *out, const char *path, struct err *err)
{
    *out = (struct out_file){.path = path};
    if (strcmp(path, "-") == 0) {
        out->path = "standard output";
        out->stream = stdout;
        return STATUS_OK;
    }
    int fd;
    if (is_special(path)) {
        fd = open(path, O_WRONLY | O_CLOEXEC);
    } else {
        if (snprintf(out->temporary, sizeof out->temporary, "%s.tmp-%ld", path, (long)getpid()) >=
            (int)sizeof out->temporary)
            return err_set(err, STATUS_USAGE, "%s: the path is too long", path);
        fd = open(out->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    }
    out->stream = fd < 0 ? NULL : fdopen(fd, "w");
    if (out->stream) return STATUS_OK;
    int code = errno;
    if (fd >= 0) close(fd);
    return err_set(err, STATUS_IO, "%s: cannot create: %s", path, strerror(code));
}

enum status out_file_close(struct out_file *out, enum status status, int error, struct err *err)
{
    if (!error && fflush(out->stream) != 0) error = errno ? errno : EIO;
    if (!error && fsync(fileno(out->stream)) != 0 && errno != EINVAL && errno != EROFS) error = errno;
    if (out->stream != stdout && fclose(out->stream) != 0 && !error) error = errno;
    if (*out->temporary && !status && !error && rename(out->temporary, out->path) != 0) error = errno;
    if (!status && error)
        status = err_set(err, STATUS_IO, "%s: cannot write: %s", out->path, strerror(error));
    if (*out->temporary && status) unlink(out->temporary);
    return status;
}
