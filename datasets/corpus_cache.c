/* See corpus_cache.h. */
#include "datasets/corpus_cache.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "datasets/token_file.h"

enum { KEY_DIGITS = 32 };

static bool is_key(const char *name)
{
    return strlen(name) == KEY_DIGITS && strspn(name, "0123456789abcdef") == KEY_DIGITS;
}

/* The bytes of the files in a folder, which has no folders in it. */
static uint64_t bytes_of(const char *path)
{
    char file[PATH_MAX];
    struct stat st;
    uint64_t bytes = 0;
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (snprintf(file, sizeof file, "%s/%s", path, entry->d_name) < (int)sizeof file &&
            lstat(file, &st) == 0 && S_ISREG(st.st_mode))
            bytes += (uint64_t)st.st_size;
    if (folder) closedir(folder);
    return bytes;
}

enum status corpus_cache_each(const char *cache,
                              enum status (*visit)(void *context, const struct corpus_cache_entry *entry,
                                                   struct err *err),
                              void *context, struct err *err)
{
    enum status status = STATUS_OK;
    DIR *folder = opendir(cache);
    if (!folder && errno != ENOENT) return err_set(err, STATUS_IO, "%.200s: %s", cache, strerror(errno));
    for (struct dirent *entry; !status && folder && (entry = readdir(folder));) {
        char path[PATH_MAX], tokens[PATH_MAX];
        struct token_file file = {0};
        if (!is_key(entry->d_name)) continue;
        if ((status = file_format_path(path, sizeof path, err, "%s/%s", cache, entry->d_name)) ||
            (status = file_format_path(tokens, sizeof tokens, err, "%s/corpus.tok", path)))
            break;
        if (token_file_open(tokens, &file, NULL)) file = (struct token_file){0};
        struct corpus_cache_entry found = {path, entry->d_name, file.tokenizer, file.count, bytes_of(path)};
        status = visit(context, &found, err);
        token_file_close(&file);
    }
    if (folder) closedir(folder);
    return status;
}

/* Renamed first, as something unfinished: a reader finds it whole or not at all, and what a killed process
 * leaves of it goes with the next preparation. */
enum status corpus_cache_remove(const char *path, struct err *err)
{
    char going[PATH_MAX];
    enum status status = file_format_path(going, sizeof going, err, "%s.tmp-%ld", path, (long)getpid());
    if (status) return status;
    if (rename(path, going) != 0)
        return errno == ENOENT
                   ? STATUS_OK
                   : err_set(err, STATUS_IO, "%.200s: cannot be removed: %s", path, strerror(errno));
    return file_remove_tree(going, err);
}
