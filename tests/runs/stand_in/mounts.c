/* To be preloaded: every mount in /proc/self/mountinfo is of the type that TEST_MOUNT names. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *rewrite(FILE *mounts, const char *type)
{
    FILE *out = tmpfile();
    char *line = NULL, *end;
    size_t size = 0;
    while (out && getline(&line, &size, mounts) > 0)
        if ((end = strstr(line, " - ")))
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
