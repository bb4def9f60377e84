/* See inputs.h. */
#include "datasets/inputs.h"

#include <ctype.h>
#include <errno.h>
#include <fts.h>
#include <glob.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "datasets/recipe.h"
#include "datasets/text_file.h"
#include "datasets/token_file.h"

enum { BINARY_BYTES = 8000 };

/* The files found so far, and the folder for recipes' texts. */
struct gathering {
    struct inputs *inputs;
    const char *cache;
    const struct progress *progress;
    bool texts;      /* all files are texts */
    bool names_only; /* opens no file, and no folder inside a folder */
    struct err *err;
};

/* ---- names ---- */

static bool is_pattern(const char *name)
{
    return strpbrk(name, "*?[") && !file_exists(name);
}

/* The next name of a list, from *at on, without surrounding blanks. A value that is a path or a recipe is a
 * single name. *at is NULL at the end. */
static char *next_name(char **at)
{
    char *name = *at;
    if (file_exists(name) || recipe_find(name)) {
        *at = NULL;
        return name;
    }
    return text_trim(strsep(at, ","));
}

/* Cuts the weight off a name, "books/ : 0.7"; NULL: it has none. A name that exists as a file, colon
 * included, has none. */
static const char *cut_weight(char *name, double *weight)
{
    char *colon = strrchr(name, ':');
    if (!colon || file_exists(name)) return NULL;
    char *text = colon + 1 + strspn(colon + 1, " \t");
    if (!text_parse_double(text, weight)) return NULL;
    while (colon > name && isspace((unsigned char)colon[-1])) colon--;
    *colon = '\0';
    return text;
}

static enum status add(struct gathering *g, const char *path)
{
    struct inputs *inputs = g->inputs;
    char *copy = strdup(path);
    if (!copy || !list_reserve(&inputs->paths, inputs->count, 1, &inputs->capacity, sizeof *inputs->paths)) {
        free(copy);
        return err_no_memory(g->err, "the list of files");
    }
    inputs->paths[inputs->count++] = copy;
    return STATUS_OK;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* ---- binary files ---- */

/* By its name, or by git's test: a NUL among the first bytes. */
static bool is_binary(const char *path)
{
    char head[BINARY_BYTES];
    return text_file_refuse_archive(path, NULL) != STATUS_OK ||
           memchr(head, '\0', text_file_head(path, head, sizeof head));
}

/* Whether one of the inputs from `first` on, which a folder or a pattern has added, is a text by its name. */
static bool has_text(const struct inputs *inputs, size_t first)
{
    for (size_t i = first; i < inputs->count; i++)
        if (!token_file_named(inputs->paths[i]) && !text_ends_with(inputs->paths[i], ".json")) return true;
    return false;
}

/* Many kinds of binary files are named .bin: among texts, a token file also begins like one. */
static bool is_token_file(const struct gathering *g, const char *path, bool among_texts)
{
    if (!token_file_named(path) || g->names_only || !among_texts) return token_file_named(path);
    return text_ends_with(path, ".tok") || !is_binary(path) || token_file_begins(path);
}

/* Removes the binary files among the inputs from `first` on, which a folder or a pattern has added. */
static enum status skip_binary(struct gathering *g, size_t first, const char *name)
{
    struct inputs *inputs = g->inputs;
    size_t kept = first, count = inputs->count;
    bool among_texts = has_text(inputs, first);
    if (g->names_only) return STATUS_OK;
    for (size_t i = first; i < count; i++) {
        char *path = inputs->paths[i];
        if ((!g->texts && is_token_file(g, path, among_texts)) || !is_binary(path)) {
            inputs->paths[kept++] = path;
            continue;
        }
        if (!inputs->skipped++)
            inputs->first_skipped = path;
        else
            free(path);
    }
    inputs->count = kept;
    if (kept > first) return STATUS_OK;
    return err_set(
        g->err, STATUS_FAILED,
        "%.200s: %zu file%s, and none of them is text: each has a NUL byte among its first %d bytes "
        "(name text files, or token files that end with .tok or .bin)",
        name, count - first, text_plural((int64_t)(count - first)), BINARY_BYTES);
}

/* ---- folders and patterns ---- */

/* Adds all files of a folder. Follows links to files but not to folders, which may be circular. */
static enum status add_files(struct gathering *g, char *folder)
{
    struct stat st;
    enum status status = STATUS_OK;
    FTS *tree = fts_open((char *[]){folder, NULL}, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
    if (!tree) return err_set(g->err, STATUS_IO, "%s: %s", folder, strerror(errno));
    for (FTSENT *entry; !status && (entry = fts_read(tree));) {
        if (entry->fts_level > 0 && (*entry->fts_name == '.' || (g->names_only && entry->fts_info == FTS_D)))
            fts_set(tree, entry, FTS_SKIP);
        else if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR)
            status = err_set(g->err, STATUS_IO, "%s: cannot list the folder: %s", entry->fts_path,
                             strerror(entry->fts_errno));
        else if (entry->fts_info == FTS_F ||
                 (entry->fts_info == FTS_SL && stat(entry->fts_path, &st) == 0 && S_ISREG(st.st_mode)))
            status = add(g, entry->fts_path);
        else if (entry->fts_info == FTS_SL && !g->inputs->dead_links++)
            g->inputs->first_dead_link = strdup(entry->fts_path);
    }
    fts_close(tree);
    return status;
}

/* Adds the token files of a folder that has some, or else all files. */
static enum status add_folder(struct gathering *g, char *folder)
{
    struct inputs *inputs = g->inputs;
    size_t first = inputs->count, kept = first;
    const char *tokens = NULL, *other = NULL;
    enum status status = add_files(g, folder);
    if (status) return status;
    if (inputs->count == first && inputs->first_dead_link)
        return err_set(g->err, STATUS_FAILED,
                       "%s: no files in this folder, and %s is a link that leads to no file (name what it "
                       "should lead to; links to folders are not followed)",
                       folder, inputs->first_dead_link);
    if (inputs->count == first)
        return err_set(g->err, STATUS_FAILED, "%s: no files in this folder (put text files into it)", folder);
    bool among_texts = has_text(inputs, first);
    for (size_t i = first; i < inputs->count; i++) {
        if (is_token_file(g, inputs->paths[i], among_texts))
            tokens = inputs->paths[i];
        else if (!text_ends_with(inputs->paths[i], ".json"))
            other = inputs->paths[i];
    }
    if (g->texts || !tokens) return skip_binary(g, first, folder);
    if (other)
        return err_set(
            g->err, STATUS_USAGE,
            "%s: has token files (%s) and others (%s): name the files to train on, for example with *.tok",
            folder, tokens, other);
    for (size_t i = first; i < inputs->count; i++) {
        if (token_file_named(inputs->paths[i]))
            inputs->paths[kept++] = inputs->paths[i];
        else
            free(inputs->paths[i]);
    }
    inputs->count = kept;
    return STATUS_OK;
}

static enum status add_name(struct gathering *g, char *name)
{
    char path[PATH_MAX];
    struct stat st;
    const struct recipe *recipe = recipe_find(name);
    if (recipe && !g->cache) return add(g, name);
    if (recipe) {
        enum status status = recipe_fetch(recipe, g->cache, g->progress, path, sizeof path, g->err);
        return status ? status : add(g, path);
    }
    if (stat(name, &st) == 0) {
        if (S_ISDIR(st.st_mode)) return add_folder(g, name);
        enum status status = g->names_only ? STATUS_OK : text_file_refuse_archive(name, g->err);
        if (!status && g->texts && token_file_named(name) && token_file_begins(name))
            status = err_set(g->err, STATUS_USAGE,
                             "%.200s: is a token file, not a text (name the text that it was made of)", name);
        return status ? status : add(g, name);
    }
    if (token_file_named(name)) return add(g, name); /* opening it reports the error */
    if (errno != ENOENT && errno != ENOTDIR)
        return err_set(g->err, STATUS_IO, "%.200s: cannot open: %s", name, strerror(errno));
    const char *weight = strchr(name, ':') ? "the weight of a source is a number, as in books/ : 0.7" : "";
    if (g->cache || g->names_only)
        return err_set(g->err, STATUS_NOT_FOUND,
                       "%.200s: no such file, folder or recipe (%s data fetch lists the recipes%s%s)", name,
                       TEXT_PROGRAM, *weight ? "; " : "", weight);
    return err_set(g->err, STATUS_NOT_FOUND, "%.200s: no such file or folder%s%s%s", name,
                   *weight ? " (" : "", weight, *weight ? ")" : "");
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b); /* glob's own order depends on the locale */
}

static enum status add_pattern(struct gathering *g, const char *pattern)
{
    glob_t found = {0};
    size_t first = g->inputs->count;
    enum status status = STATUS_OK;
    if (glob(pattern, GLOB_NOSORT, NULL, &found))
        status = err_set(g->err, STATUS_NOT_FOUND, "%s: no file matches this pattern", pattern);
    else
        qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, by_bytes);
    for (size_t i = 0; !status && i < found.gl_pathc; i++) status = add_name(g, found.gl_pathv[i]);
    globfree(&found);
    return status ? status : skip_binary(g, first, pattern);
}

/* ---- sources ---- */

/* The name of a source: the last part of what names it that is no pattern, without endings. */
static void name_source(const char *name, struct inputs *inputs)
{
    struct input_source *source = &inputs->sources[inputs->source_count];
    size_t n = strcspn(name, "*?["), from;
    while (name[n] && n && name[n - 1] != '/') n--; /* the folder of a pattern */
    while (n && name[n - 1] == '/') n--;
    for (from = n; from && name[from - 1] != '/';) from--;
    for (int endings = name[n] ? 0 : text_file_compressed(name) ? 2 : 1; endings-- > 0;) { /* of a file */
        const char *dot = memrchr(name + from, '.', n - from);
        if (dot && dot > name + from) n = (size_t)(dot - name);
    }
    char *out = source->name;
    text_plain_name(name + from, n - from, out, sizeof source->name - 4);
    if (!*out || strcmp(out, "ema") == 0) strcpy(out, "source"); /* val_loss_ema is of the averages */
    size_t length = strlen(out);
    for (size_t i = 0, again = 2; i < inputs->source_count; i++)
        if (strcmp(inputs->sources[i].name, out) == 0) {
            snprintf(out + length, 4, "_%zu", again++ % 100);
            i = SIZE_MAX; /* compare with all again */
        }
}

/* Adds the files from `first` on as a source. */
static enum status add_source(struct inputs *inputs, const char *name, size_t first, double weight,
                              struct err *err)
{
    if (!(weight > 0) || isinf(weight))
        return err_set(err, STATUS_USAGE, "%.200s: its weight is %g, which is not a number above 0", name,
                       weight);
    if (inputs->source_count == INPUT_SOURCES_MAX)
        return err_set(err, STATUS_USAGE,
                       "%.200s: a mixture has at most %d sources (a folder or a pattern is one)", name,
                       INPUT_SOURCES_MAX);
    if (!inputs->sources) inputs->sources = calloc(INPUT_SOURCES_MAX, sizeof *inputs->sources);
    if (!inputs->sources) return err_no_memory(err, "the list of files");
    name_source(name, inputs);
    struct input_source *source = &inputs->sources[inputs->source_count++];
    source->first = first;
    source->count = inputs->count - first;
    source->weight = weight;
    return STATUS_OK;
}

static enum status refuse_some_weights(size_t names, const char *without, const struct inputs *inputs,
                                       struct err *err)
{
    if (!inputs->source_count || inputs->source_count == names) return STATUS_OK;
    return err_set(
        err, STATUS_USAGE,
        "%.200s: has no weight, but other names have (give each name one, such as %.150s : 0.5, or "
        "none)",
        without, without);
}

enum status inputs_refuse_weights(const struct inputs *inputs, const char *key, struct err *err)
{
    if (!inputs->source_count) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "%s: takes no weights, which are for text to train on (name files alone)", key);
}

/* ---- checks of all files ---- */

bool inputs_same_file(const char *a, const char *b)
{
    struct stat first, second;
    return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

static enum status refuse_both_kinds(const struct inputs *inputs, struct err *err)
{
    const char *tokens = NULL, *text = NULL;
    for (size_t i = 0; i < inputs->count; i++)
        *(token_file_named(inputs->paths[i]) ? &tokens : &text) = inputs->paths[i];
    if (!tokens || !text) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "%.150s is a token file and %.150s is not: name either token files or texts (%s data "
                   "prepare makes a token file of texts)",
                   tokens, text, TEXT_PROGRAM);
}

/* A file that exists. */
struct found {
    dev_t device;
    ino_t inode;
    size_t i; /* in inputs->paths */
};

static int compare_files(const void *one, const void *other)
{
    const struct found *a = one, *b = other;
    if (a->device != b->device) return a->device < b->device ? -1 : 1;
    if (a->inode != b->inode) return a->inode < b->inode ? -1 : 1;
    return a->i < b->i ? -1 : 1;
}

static const char *source_of(const struct inputs *inputs, size_t i)
{
    const struct input_source *source = inputs->sources;
    while (i >= source->first + source->count) source++;
    return source->name;
}

static enum status say_twice(const struct inputs *inputs, size_t i, size_t j, struct err *err)
{
    const char *path = inputs->paths[j], *also = inputs->paths[i];
    const char *here = inputs->source_count ? source_of(inputs, j) : "",
               *there = *here ? source_of(inputs, i) : "";
    if (strcmp(here, there) == 0)
        return err_set(
            err, STATUS_USAGE,
            "%.200s: is listed twice in the data files, also as %.200s (name it once; weights, as in "
            "\"a : 2, b : 1\", let a text count more)",
            path, also);
    return err_set(err, STATUS_USAGE, "%.200s of source %s: is also in source %s, as %.200s", path, here,
                   there, also);
}

static enum status refuse_twice(const struct inputs *inputs, struct err *err)
{
    enum status status = STATUS_OK;
    struct stat st;
    size_t n = 0;
    struct found *files = calloc(inputs->count, sizeof *files);
    if (!files) return err_no_memory(err, "the list of files");
    for (size_t i = 0; i < inputs->count; i++)
        if (stat(inputs->paths[i], &st) == 0) files[n++] = (struct found){st.st_dev, st.st_ino, i};
    qsort(files, n, sizeof *files, compare_files);
    for (size_t k = 1; !status && k < n; k++)
        if (files[k].device == files[k - 1].device && files[k].inode == files[k - 1].inode)
            status = say_twice(inputs, files[k - 1].i, files[k].i, err);
    free(files);
    return status;
}

static enum status open_list(const char *value, struct gathering *g, struct inputs *out)
{
    struct inputs inputs = {0};
    struct err *err = g->err;
    g->inputs = &inputs;
    char *list = strdup(value);
    enum status status = list ? STATUS_OK : err_no_memory(err, "the list of files");
    const char *without = "";
    size_t names = 0;
    for (char *at = list; !status && at; names++) {
        char *name = next_name(&at);
        double weight;
        bool weighs = cut_weight(name, &weight);
        size_t first = inputs.count;
        if (!*name && weighs)
            status = err_set(err, STATUS_USAGE, "a weight in a list of data files has no name before it");
        else if (!*name)
            status =
                err_set(err, STATUS_USAGE, "a name in a list of data files is empty (a comma too many?)");
        else
            status = is_pattern(name) ? add_pattern(g, name) : add_name(g, name);
        if (!status && weighs) status = add_source(&inputs, name, first, weight, err);
        if (!weighs) without = name;
    }
    if (!status) status = refuse_some_weights(names, without, &inputs, err);
    free(list);
    if (!status) status = refuse_both_kinds(&inputs, err);
    inputs.tokens = !status && token_file_named(inputs.paths[0]);
    if (!status && (inputs.tokens || inputs.source_count)) status = refuse_twice(&inputs, err);
    if (status)
        inputs_close(&inputs);
    else
        *out = inputs;
    return status;
}

enum status inputs_open(const char *value, const char *cache, const struct progress *progress,
                        struct inputs *out, struct err *err)
{
    struct gathering g = {.cache = cache, .progress = progress, .err = err};
    return open_list(value, &g, out);
}

bool inputs_repeat(const char *value, struct err *err)
{
    struct inputs inputs;
    struct err why;
    if (inputs_open(value, NULL, NULL, &inputs, &why)) return false;
    bool repeat = refuse_twice(&inputs, err) == STATUS_USAGE;
    inputs_close(&inputs);
    return repeat;
}

enum status inputs_peek(const char *value, struct inputs *out, struct err *err)
{
    struct gathering g = {.names_only = true, .err = err};
    return open_list(value, &g, out);
}

enum status inputs_open_texts(const char *const *words, size_t count, const char *cache,
                              const struct progress *progress, struct inputs *out, struct err *err)
{
    struct inputs inputs = {0};
    struct gathering g = {.inputs = &inputs, .cache = cache, .progress = progress, .texts = true, .err = err};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count && !status; i++) status = add_name(&g, (char *)words[i]);
    if (!status) status = refuse_twice(&inputs, err);
    if (status)
        inputs_close(&inputs);
    else
        *out = inputs;
    return status;
}

void inputs_close(struct inputs *inputs)
{
    for (size_t i = 0; i < inputs->count; i++) free(inputs->paths[i]);
    free(inputs->paths);
    free(inputs->first_skipped);
    free(inputs->first_dead_link);
    free(inputs->sources);
    *inputs = (struct inputs){0};
}

enum status inputs_refuse_output(const struct inputs *inputs, const char *path, struct err *err)
{
    for (size_t i = 0; i < inputs->count; i++)
        if (inputs_same_file(inputs->paths[i], path))
            return err_set(err, STATUS_USAGE,
                           "%s: is also an input, %s (give the output another name or folder)", path,
                           inputs->paths[i]);
    return STATUS_OK;
}

/* ---- from another folder ---- */

bool inputs_make_absolute(char *value, size_t size)
{
    char *here = getcwd(NULL, 0), *list = strdup(value), *whole = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&whole, &n);
    for (char *at = list; here && out && at;) {
        bool begun = at != list;
        char *name = next_name(&at);
        double number;
        const char *weight = cut_weight(name, &number);
        bool relative =
            *name && *name != '/' && !recipe_find(name) && (file_exists(name) || is_pattern(name));
        fprintf(out, "%s%s%s%s%s%s", begun ? "," : "", relative ? here : "", relative && here[1] ? "/" : "",
                name, weight ? " : " : "", weight ? weight : "");
    }
    bool fits = text_stream_end(out, &whole) && here && list && n < size;
    if (fits) memcpy(value, whole, n + 1);
    free(whole);
    free(list);
    free(here);
    return fits;
}
