/* To be preloaded: every mount in /proc/self/mountinfo but /dev/shm is of the type that TEST_MOUNT names; and
 * whoever opens anneal.db leaves a line with its rank in the file that TEST_OPENED names. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *rewrite(FILE *mounts, const char *type)
{
    FILE *out = tmpfile();
    char *line = NULL, *end;
    size_t size = 0;
    while (out && getline(&line, &size, mounts) > 0)
        if (strstr(line, " /dev/shm "))
            fputs(line, out);
        else if ((end = strstr(line, " - ")))
            fprintf(out, "%.*s - %s server:/home rw\n", (int)(end - line), line, type);
    free(line);
    fclose(mounts);
    if (out) rewind(out);
    return out;
}

FILE *fopen(const char *path, const char *mode)
{
    FILE *(*next)(const char *, const char *);
    *(void **)&next = dlsym(RTLD_NEXT, "fopen");
    FILE *file = next(path, mode);
    const char *type = getenv("TEST_MOUNT");
    return file && type && strcmp(path, "/proc/self/mountinfo") == 0 ? rewrite(file, type) : file;
}

int open(const char *path, int flags, ...)
{
    int (*next)(const char *, int, ...);
    *(void **)&next = dlsym(RTLD_NEXT, "open");
    const char *name = strrchr(path, '/'), *opened = getenv("TEST_OPENED"),
               *rank = getenv("OMPI_COMM_WORLD_RANK");
    va_list args;
    va_start(args, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, int) : 0;
    va_end(args);
    if (name && opened && rank && strcmp(name, "/anneal.db") == 0) {
        int fd = next(opened, O_WRONLY | O_CREAT | O_APPEND, 0666);
        if (fd >= 0) dprintf(fd, "rank %s\n", rank);
        if (fd >= 0) close(fd);
    }
    return next(path, flags, mode);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));
