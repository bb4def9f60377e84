/* See data_words.h. */
#include "datasets/data_words.h"

#include <ctype.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "datasets/recipe.h"
#include "datasets/text_inputs.h"
#include "datasets/token_file.h"

enum { FILES_MAX = 10000 }; /* each is a mapping; Linux gives a process 65,530 of them */

static bool is_pattern(const char *name)
{
    return strpbrk(name, "*?[") && !file_exists(name);
}

/* The next name of a list from *at on, without the blanks around it; false at the end. */
static bool next_name(const char **at, const char **name, size_t *n)
{
    const char *start = *at;
    if (!start) return false;
    size_t length = strcspn(start, ",");
    *at = start[length] ? start + length + 1 : NULL;
    while (length && isspace((unsigned char)*start)) start++, length--;
    while (length && isspace((unsigned char)start[length - 1])) length--;
    *name = start;
    *n = length;
    return true;
}

static enum status add(struct data_words *words, const char *name, struct err *err)
{
    if (words->count == FILES_MAX)
        return err_set(err, STATUS_USAGE, "%s: more than %d files (put more into each)", name, FILES_MAX);
    if (words->count == words->capacity) {
        size_t capacity = words->capacity ? 2 * words->capacity : 16;
        char **grown = realloc(words->names, capacity * sizeof *grown);
        if (!grown)
            return err_set(err, STATUS_NO_MEMORY, "%s: not enough memory for the list of files", name);
        words->names = grown;
        words->capacity = capacity;
    }
    char *copy = strdup(name);
    if (!copy) return err_set(err, STATUS_NO_MEMORY, "%s: not enough memory for the list of files", name);
    words->names[words->count++] = copy;
    return STATUS_OK;
}

static bool is_json(const char *path)
{
    size_t n = strlen(path);
    return n >= 5 && strcmp(path + n - 5, ".json") == 0;
}

/* A folder of token files as its files, any other as itself. */
static enum status add_folder(struct data_words *words, const char *folder, struct err *err)
{
    struct text_inputs files = {0};
    const char *tokens = NULL, *other = NULL;
    enum status status = text_inputs_open(&folder, 1, "", NULL, &files, err);
    if (status) return status;
    for (size_t i = 0; i < files.count; i++) {
        if (token_file_named(files.paths[i]))
            tokens = files.paths[i];
        else if (!is_json(files.paths[i]))
            other = files.paths[i];
    }
    if (tokens && other)
        status = err_set(err, STATUS_USAGE,
                         "%s: holds token files (%s) and others (%s): name those to train on, as with *.tok",
                         folder, tokens + strlen(folder) + 1, other + strlen(folder) + 1);
    else if (!tokens)
        status = add(words, folder, err);
    for (size_t i = 0; tokens && !status && i < files.count; i++)
        if (token_file_named(files.paths[i])) status = add(words, files.paths[i], err);
    text_inputs_close(&files);
    return status;
}

static enum status add_path(struct data_words *words, const char *name, struct err *err)
{
    return !recipe_find(name) && file_is_folder(name) ? add_folder(words, name, err) : add(words, name, err);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b); /* glob itself would ask the locale */
}

static enum status add_pattern(struct data_words *words, const char *pattern, struct err *err)
{
    glob_t found = {0};
    enum status status = STATUS_OK;
    int code = glob(pattern, GLOB_NOSORT, NULL, &found);
    if (code == GLOB_NOSPACE)
        status = err_set(err, STATUS_NO_MEMORY, "%s: not enough memory for the files that match", pattern);
    else if (code)
        status = err_set(err, STATUS_NOT_FOUND, "%s: no file matches this pattern", pattern);
    else
        qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, by_bytes);
    for (size_t i = 0; !status && i < found.gl_pathc; i++) status = add_path(words, found.gl_pathv[i], err);
    globfree(&found);
    return status;
}

static enum status add_list(struct data_words *words, const char *value, struct err *err)
{
    char name[PATH_MAX];
    const char *start;
    size_t n;
    enum status status = STATUS_OK;
    while (!status && next_name(&value, &start, &n)) {
        if (n == 0 || n >= sizeof name)
            return err_set(err, STATUS_USAGE, "a name in a list of data files is %s",
                           n ? "too long" : "empty (a comma too many?)");
        memcpy(name, start, n);
        name[n] = '\0';
        status = is_pattern(name) ? add_pattern(words, name, err) : add_path(words, name, err);
    }
    return status;
}

/* ---- what they are, together ---- */

static enum status refuse_a_mixture(const struct data_words *words, struct err *err)
{
    const char *tokens = NULL, *text = NULL;
    for (size_t i = 0; i < words->count; i++)
        *(token_file_named(words->names[i]) ? &tokens : &text) = words->names[i];
    if (!tokens || !text) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "%.150s is a token file and %.150s is not: name either token files or texts (anneal data "
                   "prepare makes a token file of texts)",
                   tokens, text);
}

struct place {
    dev_t device;
    ino_t number;
    size_t name;
};

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->device != y->device) return x->device < y->device ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static enum status refuse_twice(const struct data_words *words, struct err *err)
{
    struct stat st;
    size_t count = 0;
    enum status status = STATUS_OK;
    struct place *places = calloc(words->count, sizeof *places);
    if (!places) return err_set(err, STATUS_NO_MEMORY, "not enough memory for the list of files");
    for (size_t i = 0; i < words->count; i++)
        if (stat(words->names[i], &st) == 0) places[count++] = (struct place){st.st_dev, st.st_ino, i};
    qsort(places, count, sizeof *places, by_place);
    for (size_t i = 1; !status && i < count; i++)
        if (by_place(&places[i - 1], &places[i]) == 0)
            status = err_set(err, STATUS_USAGE, "%.200s: is named twice among the data files, also as %.200s",
                             words->names[places[i].name], words->names[places[i - 1].name]);
    free(places);
    return status;
}

enum status data_words_open(const char *value, struct data_words *out, struct err *err)
{
    struct data_words words = {0};
    enum status status = file_exists(value) || recipe_find(value) ? add_path(&words, value, err)
                                                                  : add_list(&words, value, err);
    if (!status) status = refuse_a_mixture(&words, err);
    if (!status && (words.tokens = token_file_named(words.names[0]))) status = refuse_twice(&words, err);
    if (status)
        data_words_close(&words);
    else
        *out = words;
    return status;
}

void data_words_close(struct data_words *words)
{
    for (size_t i = 0; i < words->count; i++) free(words->names[i]);
    free(words->names);
    *words = (struct data_words){0};
}

/* ---- from another folder ---- */

bool data_words_absolute(char *value, size_t size)
{
    char here[PATH_MAX], name[PATH_MAX];
    if (!*value || recipe_find(value) || !getcwd(here, sizeof here)) return true;
    char *whole = malloc(size);
    if (!whole) return false;
    const char *at = value, *start;
    size_t n, used = 0;
    bool list = !file_exists(value), fits = true;
    do {
        if (!list) {
            start = value;
            n = strlen(value);
        } else if (!next_name(&at, &start, &n)) {
            break;
        }
        if (n >= sizeof name) {
            fits = false;
            break;
        }
        memcpy(name, start, n);
        name[n] = '\0';
        bool relative =
            *name && *name != '/' && !recipe_find(name) && (file_exists(name) || is_pattern(name));
        used += (size_t)snprintf(whole + used, size - used, "%s%s%s%s", used ? "," : "", relative ? here : "",
                                 relative && here[1] ? "/" : "", name);
        fits = used < size;
    } while (list && fits);
    if (fits) memcpy(value, whole, used + 1);
    free(whole);
    return fits;
}
