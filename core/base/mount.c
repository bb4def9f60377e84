/* See mount.h. The list of mounts names types that statfs does not tell apart: all file systems in user space
 * have one number there. */
#include "core/base/mount.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* File systems that several hosts share. Types in user space begin with "fuse.": the kernel keeps their locks
 * to itself unless they implement them. BeeGFS does so only where it is told to, which the mount does not
 * show. Shares between a machine and its own host (9p, virtiofs, vboxsf) are not listed: they have one user.
 */
static const struct {
    const char *type;
    bool locks;
    const char *unless; /* options of the mount with which they are of this host alone, with blanks between */
} shared[] = {
    {"nfs", true, "nolock local_lock=all local_lock=flock local_lock=posix"},
    {"nfs4", true, "nolock local_lock=all local_lock=flock local_lock=posix"},
    {"cifs", true, "nobrl"},
    {"smb3", true, "nobrl"},
    {"lustre", true, "localflock noflock"},
    {"gpfs", true, ""},
    {"ceph", true, ""},
    {"gfs2", true, "localflocks"},
    {"panfs", true, ""},
    {"wekafs", true, ""},
    {"fuse.glusterfs", true, ""},
    {"fuse.ceph-fuse", true, ""},
    {"fuse.juicefs", true, ""},
    {"beegfs", false, ""},
    {"ocfs2", false, ""},
    {"afs", false, ""},
    {"orangefs", false, ""},
    {"fuse.sshfs", false, ""},
    {"fuse.rclone", false, ""},
    {"fuse.s3fs", false, ""},
    {"fuse.gcsfuse", false, ""},
    {"fuse.blobfuse", false, ""},
    {"fuse.blobfuse2", false, ""},
    {"fuse.mfs", false, ""},
    {"fuse.davfs", false, ""},
};

/* Whether a list with this separator has the word. */
static bool lists(const char *list, char separator, const char *word, size_t n)
{
    for (const char *at = list; at; at = strchr(at, separator), at += at != NULL)
        if (strncmp(at, word, n) == 0 && (at[n] == separator || !at[n])) return true;
    return false;
}

static bool any_of(const char *options, const char *words)
{
    for (size_t n; *words; words += n + (words[n] == ' '))
        if (n = strcspn(words, " "), lists(options, ',', words, n)) return true;
    return false;
}

/* The file system of a line " - TYPE SOURCE OPTIONS", the end of a mount's. */
static void describe(char *rest, struct mount *out)
{
    char *type = strsep(&rest, " "), *source = strsep(&rest, " \n"), *options = strsep(&rest, "\n");
    *out = (struct mount){.locks = true};
    snprintf(out->type, sizeof out->type, "%s", type);
    for (size_t i = 0; source && i < sizeof shared / sizeof *shared; i++)
        if (strcmp(type, shared[i].type) == 0) {
            out->shared = true;
            out->locks = shared[i].locks && !(options && any_of(options, shared[i].unless));
        }
}

void mount_find(const char *path, const char *list, struct mount *out)
{
    struct statx info;
    char *line = NULL;
    size_t size = 0;
    *out = (struct mount){.locks = true};
    if (statx(AT_FDCWD, path, 0, STATX_MNT_ID, &info) != 0) return;
    FILE *file = fopen(list, "re");
    while (file && getline(&line, &size, file) > 0) {
        uint64_t id;
        unsigned major, minor;
        char *rest = strstr(line, " - ");
        if (!rest || sscanf(line, "%" SCNu64 " %*u %u:%u", &id, &major, &minor) != 3) continue;
        bool known = info.stx_mask & STATX_MNT_ID;
        if (known ? id == info.stx_mnt_id : major == info.stx_dev_major && minor == info.stx_dev_minor)
            describe(rest + 3, out); /* a later mount in the same place hides an earlier one */
    }
    if (file) fclose(file);
    free(line);
}

void mount_of(const char *path, struct mount *out)
{
    mount_find(path, "/proc/self/mountinfo", out);
}
