/* See ledger_file.h. */
#include "runs/reservations/ledger_file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"

/* A host's name as a file name can hold it. */
static void host_name(char *out, size_t size)
{
    if (gethostname(out, size) != 0) snprintf(out, size, "host");
    out[size - 1] = '\0';
    for (char *c = out; *c; c++)
        if (*c == '/' || *c < ' ') *c = '_';
}

enum status ledger_file_path(const char *folder, char *path, size_t size, struct err *err)
{
    char host[65];
    host_name(host, sizeof host);
    return file_format_path(path, size, err, "%s/ledger-%s.db", folder, host);
}

void ledger_file_create(const char *folder, const char *path)
{
    char fresh[PATH_MAX];
    struct stat info;
    if (access(path, F_OK) == 0 || stat(folder, &info) != 0) return;
    if (file_format_path(fresh, sizeof fresh, NULL, "%s.tmp-%ld", path, (long)getpid())) return;
    int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return;
    bool same_group = fchown(fd, (uid_t)-1, info.st_gid) == 0;
    bool made = fchmod(fd, info.st_mode & (same_group ? 0666 : 0606)) == 0;
    close(fd);
    if (made) (void)!link(fresh, path); /* another may have been faster */
    unlink(fresh);
}
