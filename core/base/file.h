/* Files and folders: whole-file mapping, atomic replacement, paths. Every error names the path and the
 * reason. */
#ifndef ANNEAL_CORE_BASE_FILE_H
#define ANNEAL_CORE_BASE_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/err.h"

/* A file mapped read-only. An empty file maps to data = "", size = 0. A pointer of Git LFS is refused. */
struct file_map {
    const unsigned char *data;
    size_t size;
};

enum status file_map_open(const char *path, struct file_map *out, struct err *err);
void file_map_close(struct file_map *map); /* harmless on a zeroed struct */

/* A file that appears whole or not at all: data goes to "path.tmp-PID" in the same folder, which is renamed
 * to `path` when all went well. A device or a pipe is written directly; "-" is standard output. A process
 * that is killed leaves its "path.tmp-PID"; see file_remove_stale, which opening calls. */
struct file_out {
    FILE *stream;
    const char *path;         /* borrowed */
    char temporary[PATH_MAX]; /* "": data goes directly to `path` */
};

enum status file_out_open(struct file_out *out, const char *path, struct err *err);
/* The same to replace what the same command has written. STATUS_USAGE: there is a file that is not empty and
 * does not begin with these bytes, as all do that the command writes. */
enum status file_out_replace(struct file_out *out, const char *path, const char *beginning, struct err *err);
/* The same for one of several processes that write parts of a file: it is made if it is not there, and
 * neither cut off nor renamed or removed in the end. */
enum status file_out_join(struct file_out *out, const char *path, struct err *err);
/* Finishes the file: fsyncs it, renames it, fsyncs the folder. After a failure it removes the temporary file
 * and leaves an old file untouched. `status` and `err` are the result of the writing, `error` its errno (0:
 * none). Returns the final status. */
enum status file_out_close(struct file_out *out, enum status status, int error, struct err *err);

/* Opens, writes one piece of data, and closes. */
enum status file_write_atomic(const char *path, const void *data, size_t size, struct err *err);

/* Copies a file, equally atomic. */
enum status file_copy(const char *from, const char *to, struct err *err);

/* fsync, through EINTR; what cannot be synced (a pipe, some folders) counts as synced. 0, or -1 and errno. */
int file_sync(int fd);

/* fsyncs the folder that holds `path`, so that a rename in it survives a power cut; best effort. */
void file_sync_folder_of(const char *path);

/* Writes all of `data` to a descriptor, through EINTR and short writes. `path` is for the message. */
enum status file_write_all(int fd, const void *data, size_t size, const char *path, struct err *err);

/* mkdir -p with mode 0777 less the umask. A new folder survives a power cut. */
enum status file_make_folders(const char *path, struct err *err);

/* Removes a folder and what is in it; a missing one is no error. Does not follow links. */
enum status file_remove_tree(const char *path, struct err *err);

/* Removes what processes that were killed more than an hour ago have left of a file or folder: every
 * "path.tmp-PID" whose process is gone. */
void file_remove_stale(const char *path);

/* Renames a file or folder to "NAME.deleted", then removes it: whoever is killed here leaves nothing by the
 * name that is incomplete, but where the folder cannot be renamed: EXDEV, in a lower layer of an overlay, as
 * of a container's image. STATUS_NOT_FOUND: there is none. A name that ends so already is removed as it is.
 */
#define FILE_GOING ".deleted"
enum status file_remove_whole(const char *path, struct err *err);

/* snprintf for paths; STATUS_USAGE if the path does not fit. */
enum status file_format_path(char *buf, size_t size, struct err *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The bytes that a file, or a folder with all in it, takes on the disk; does not follow links. *alone (may be
 * NULL): those of them that removing it frees, as no other hard link holds them. 0: there is none. */
int64_t file_tree_bytes(const char *path, int64_t *alone);

/* The bytes that this user may still write to the disk on which this file or folder is or would be made; NaN:
 * not known. 0 where file_lacks_inodes. */
double file_free_bytes(const char *path);
/* Whether the file system has so few inodes left that the files of a checkpoint cannot be made. */
bool file_lacks_inodes(const char *path);

/* Whether this is the name of a temporary file or folder of anneal's, "NAME.tmp-PID". */
bool file_is_temporary(const char *name);

/* For scandir: whether the name does not begin with a dot. */
struct dirent;
int file_is_visible(const struct dirent *entry);

bool file_exists(const char *path);
bool file_exists_in(const char *folder, const char *name);
/* The same, but STATUS_IO where that cannot be known, such as in a folder that may not be entered. */
enum status file_look(const char *path, bool *there, struct err *err);
bool file_is_folder(const char *path);

/* Whether the file exists but cannot be written: no permission, or a read-only disk. */
bool file_is_read_only(const char *path);

/* The path of a library that comes with this program: in the program's folder (a build or a bundle), else in
 * ../lib/anneal (an installation). If neither holds it, the path in the program's folder. */
enum status file_of_program(const char *name, char *buf, size_t size, struct err *err);

/* The folder of anneal's state: $ANNEAL_HOME, else $XDG_DATA_HOME/anneal, else $HOME/.local/share/anneal.
 * Writes an absolute path without a trailing slash; STATUS_FAILED with a remedy if none of them is set. */
enum status file_anneal_home(char *buf, size_t size, struct err *err);
/* The path of NAME in it. */
enum status file_in_home(const char *name, char *buf, size_t size, struct err *err);

#endif
