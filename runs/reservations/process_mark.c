/* See process_mark.h. */
#include "runs/reservations/process_mark.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

void process_boot(char boot[PROCESS_BOOT_BYTES])
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    snprintf(boot, PROCESS_BOOT_BYTES, "unknown");
    if (!file) return;
    if (fgets(boot, PROCESS_BOOT_BYTES, file)) boot[strcspn(boot, "\n")] = '\0';
    fclose(file);
}

int64_t process_started(int64_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    /* the second field is a name in parentheses that may hold anything; the start time is the 22nd */
    char *at = strrchr(text, ')');
    if (at && (at[1] != ' ' || strchr("ZX", at[2]))) return 0; /* dead, and nobody has asked how it ended */
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    return at ? strtoll(at, NULL, 10) : 0;
}

/* A line a lock, or one that waits for it ("->"): "1: POSIX  ADVISORY  WRITE 1234 08:01:5678 first last". */
int64_t process_locking(const char *path)
{
    char line[256], kind[16];
    struct stat info;
    int64_t found = 0;
    FILE *file = stat(path, &info) == 0 ? fopen("/proc/locks", "re") : NULL;
    if (!file) return 0;
    while (!found && fgets(line, sizeof line, file)) {
        int64_t pid;
        unsigned major_number, minor_number;
        uint64_t inode;
        if (sscanf(line, "%*u: %15s %*s %*s %" SCNd64 " %x:%x:%" SCNu64, kind, &pid, &major_number,
                   &minor_number, &inode) != 5)
            continue;
        if (strcmp(kind, "POSIX") == 0 && inode == info.st_ino && major_number == major(info.st_dev) &&
            minor_number == minor(info.st_dev) && pid > 0 && pid != getpid())
            found = pid;
    }
    fclose(file);
    return found;
}
