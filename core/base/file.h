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

/* A file mapped read-only. An empty file maps to data = "", size = 0. */
struct file_map {
    const unsigned char *data;
    size_t size;
};

enum status file_map_open(const char *path, struct file_map *out, struct err *err);
void file_map_close(struct file_map *map); /* harmless on a zeroed struct */

/* A file that appears whole or not at all: what is written goes to "path.tmp-PID" beside it, which takes the
 * file's place when all went well. A device or a pipe is written to as it is; "-" is standard output. */
struct file_out {
    FILE *stream;
    const char *path;         /* borrowed */
    char temporary[PATH_MAX]; /* "": `path` itself is written to */
};

enum status file_out_open(struct file_out *out, const char *path, struct err *err);
/* Ends it: fsyncs, renames, fsyncs the folder; on failure nothing is left behind and an old file is
 * untouched. `status` and `err` are what became of the writing, `error` its errno (0: none). Returns the
 * final status. */
enum status file_out_close(struct file_out *out, enum status status, int error, struct err *err);

/* Both around the one piece of data. */
enum status file_write_atomic(const char *path, const void *data, size_t size, struct err *err);

/* The same with the content of another file. */
enum status file_copy(const char *from, const char *to, struct err *err);

/* fsyncs the folder that holds `path`, so that a rename in it survives a power cut; best effort. */
void file_sync_folder_of(const char *path);

/* Writes all of `data` to a descriptor, through EINTR and short writes. `path` is for the message. */
enum status file_write_all(int fd, const void *data, size_t size, const char *path, struct err *err);

/* mkdir -p with mode 0777 less the umask. */
enum status file_make_folders(const char *path, struct err *err);

/* Removes a folder and what is in it; a missing one is no error. Does not follow links. */
enum status file_remove_tree(const char *path, struct err *err);

/* snprintf for paths: one that does not fit is STATUS_USAGE. */
enum status file_format_path(char *buf, size_t size, struct err *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

bool file_exists(const char *path);
bool file_is_folder(const char *path);

/* Whether it is there but this user may not write it: for want of a permission, or on a read-only disk. */
bool file_is_read_only(const char *path);

/* The path of a library that comes with this program: beside it, as built or in a bundle, or in
 * ../lib/anneal, where it is installed; beside it where it is in neither. */
enum status file_of_program(const char *name, char *buf, size_t size, struct err *err);

/* Where anneal keeps its state: $ANNEAL_HOME, else $XDG_DATA_HOME/anneal, else $HOME/.local/share/anneal.
 * Writes an absolute path without a trailing slash; STATUS_FAILED with a remedy if none of them is set. */
enum status file_anneal_home(char *buf, size_t size, struct err *err);

#endif
