/* Which file systems several hosts share, by lists of mounts as the system writes them. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/mount.h"
#include "tests/cmocka.h"

static bool old_kernel; /* before Linux 5.8, which does not tell the number of a mount */

/* Takes the place of the C library's. */
int statx(int folder, const char *restrict path, int flags, unsigned mask, struct statx *restrict info)
{
    int code = (int)syscall(SYS_statx, folder, path, flags, mask, info);
    if (old_kernel) info->stx_mask &= ~STATX_MNT_ID, info->stx_mnt_id = 0;
    return code;
}

/* The number of the mount that the current folder is in. */
static uint64_t here(void)
{
    struct statx info;
    assert_int_equal(statx(AT_FDCWD, ".", 0, STATX_MNT_ID, &info), 0);
    assert_true(info.stx_mask & STATX_MNT_ID);
    return info.stx_mnt_id;
}

/* What a list of mounts says of the current folder; # in it stands for the number of that folder's mount. */
static struct mount found(const char *text)
{
    char path[] = "/tmp/anneal-mounts-XXXXXX";
    struct mount mount;
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    const char *at = text;
    for (const char *number; (number = strchr(at, '#')); at = number + 1)
        fprintf(file, "%.*s%llu", (int)(number - at), at, (unsigned long long)here());
    fputs(at, file);
    fclose(file);
    mount_find(".", path, &mount);
    unlink(path);
    return mount;
}

TEST_CASE(shared_file_systems_are_known_and_whether_they_lock)
{
    static const struct {
        const char *end;
        bool shared, locks;
    } cases[] = {
        {"ext4 /dev/sda1 rw", false, true},
        {"overlay overlay rw,lowerdir=/a:/b", false, true},
        {"fuse.fuse-overlayfs fuse-overlayfs rw", false, true},
        {"fuseblk /dev/sdb1 rw", false, true},
        {"nfs4 server:/home rw,vers=4.2,local_lock=none,addr=10.0.0.1", true, true},
        {"nfs server:/home rw,vers=3,local_lock=none", true, true},
        {"nfs server:/home rw,vers=3,nolock,proto=tcp", true, false},
        {"nfs4 server:/home rw,local_lock=all", true, false},
        {"cifs //server/share rw,nobrl", true, false},
        {"lustre 10.0.0.1@o2ib:/scratch rw,flock,lazystatfs", true, true},
        {"lustre mgs:/scratch rw,localflock", true, false},
        {"beegfs beegfs_nodev rw", true, false},
        {"fuse.sshfs me@host: rw", true, false},
        {"fuse.glusterfs server:/volume rw", true, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[300];
        snprintf(line, sizeof line, "# 1 0:50 / /home rw,relatime shared:7 - %s\n", cases[i].end);
        struct mount mount = found(line);
        if (mount.shared != cases[i].shared || mount.locks != cases[i].locks)
            fail_msg("%s: shared %d, locks %d", cases[i].end, mount.shared, mount.locks);
        assert_true(strncmp(mount.type, cases[i].end, strlen(mount.type)) == 0 && *mount.type);
    }
}

TEST_CASE(only_the_mount_of_the_folder_counts)
{
    struct mount mount = found("999999 1 0:50 / /other rw - nfs4 a:/b rw\n"
                               "# 1 0:51 / /home rw master:1 propagate_from:2 - xfs /dev/sda rw\n"
                               "999998 1 0:52 / /more rw - fuse.sshfs a:/b rw\n");
    assert_string_equal(mount.type, "xfs");
    assert_false(mount.shared);
}

TEST_CASE(an_old_kernel_tells_the_mount_by_its_device)
{
    static const int others[][2] = {{0, 0}, {1, 0}, {0, 1}, {1, 1}};
    struct statx info;
    assert_int_equal(statx(AT_FDCWD, ".", 0, STATX_MNT_ID, &info), 0);
    for (int i = 0; i < 4; i++) {
        char list[100];
        snprintf(list, sizeof list, "36 1 %u:%u / /home rw - nfs4 a:/b rw\n",
                 info.stx_dev_major + (unsigned)others[i][0], info.stx_dev_minor + (unsigned)others[i][1]);
        old_kernel = true;
        struct mount mount = found(list);
        old_kernel = false;
        assert_string_equal(mount.type, i ? "" : "nfs4");
        assert_int_equal(mount.shared, i == 0);
    }
}

TEST_CASE(what_is_damaged_or_missing_is_not_shared)
{
    static const char *const lists[] = {"",
                                        "\n",
                                        "#",
                                        "# 1 0:50 / / rw nfs4",
                                        "- nfs4 a b",
                                        "# 1 0:50 / / rw - \n",
                                        "# 1 0:50 / / rw - nfs4",
                                        "# 1 x:y / / rw - nfs4 a rw\n"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (found(lists[i]).shared) fail_msg("\"%s\" counts as shared", lists[i]);
    struct mount mount;
    mount_find(".", "/nonexistent", &mount);
    assert_true(!mount.shared && mount.locks && !*mount.type);
    mount_find("/nonexistent", "/proc/self/mountinfo", &mount);
    assert_true(!mount.shared && mount.locks);
}

TEST_CASE(the_system_names_the_file_system_of_proc)
{
    struct mount mount;
    mount_of("/proc/self/status", &mount);
    assert_string_equal(mount.type, "proc");
    assert_false(mount.shared);
}

TEST_MAIN()
