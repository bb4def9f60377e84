/* See text_inputs.h. */
#include "datasets/text_inputs.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/text.h"
#include "core/base/utf8.h"
#include "datasets/recipe.h"

enum { FOLDERS_DEEP = 64, LOOK_BYTES = 64 << 10, NAMES_TOLD = 5 };

static enum status add_path(struct text_inputs *inputs, const char *path, struct err *err)
{
    if (inputs->count == inputs->capacity) {
        size_t capacity = inputs->capacity ? 2 * inputs->capacity : 16;
        char **grown = realloc(inputs->paths, capacity * sizeof *grown);
        if (!grown)
            return err_set(err, STATUS_NO_MEMORY, "%s: not enough memory for the list of files", path);
        inputs->paths = grown;
        inputs->capacity = capacity;
    }
    char *copy = strdup(path);
    if (!copy) return err_set(err, STATUS_NO_MEMORY, "%s: not enough memory for the list of files", path);
    inputs->paths[inputs->count++] = copy;
    return STATUS_OK;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name); /* alphasort would ask the locale */
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Links to files are followed, links to folders are not: they may lead in circles. */
static enum status add_folder(struct text_inputs *inputs, const char *folder, int depth, struct err *err)
{
    struct dirent **entries;
    enum status status = STATUS_OK;
    if (depth > FOLDERS_DEEP) return err_set(err, STATUS_USAGE, "%s: folders are nested too deep", folder);
    int count = scandir(folder, &entries, is_visible, by_bytes);
    if (count < 0) return err_set(err, STATUS_IO, "%s: cannot list the folder: %s", folder, strerror(errno));
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];
        struct stat st, link;
        if (!status && snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name) >= (int)sizeof path)
            status = err_set(err, STATUS_USAGE, "%s: a path in it is too long", folder);
        free(entries[i]);
        if (status || lstat(path, &link) != 0 || stat(path, &st) != 0) continue;
        if (S_ISREG(st.st_mode))
            status = add_path(inputs, path, err);
        else if (S_ISDIR(link.st_mode))
            status = add_folder(inputs, path, depth + 1, err);
    }
    free(entries);
    return status;
}

static enum status no_such_input(const char *word, struct err *err)
{
    const char *names[16], *nearest;
    size_t count = 0;
    char list[256] = "";
    for (const struct recipe *r = recipes; r->name && count < sizeof names / sizeof *names; r++) {
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", count ? ", " : "", r->name);
        names[count++] = r->name;
    }
    if (!strchr(word, '/') && (nearest = text_nearest(word, names, count)))
        return err_set(err, STATUS_NOT_FOUND,
                       "%s: no such file, folder or recipe (did you mean the recipe \"%s\"?)", word, nearest);
    return err_set(err, STATUS_NOT_FOUND, "%s: no such file, folder or recipe (recipes: %s)", word, list);
}

static enum status add_word(struct text_inputs *inputs, const char *word, const char *cache,
                            const struct progress *progress, struct err *err)
{
    char path[PATH_MAX];
    struct stat st;
    const struct recipe *recipe = recipe_find(word);
    if (recipe) {
        enum status status = recipe_fetch(recipe, cache, progress, path, sizeof path, err);
        return status ? status : add_path(inputs, path, err);
    }
    if (stat(word, &st) != 0) {
        if (errno == ENOENT || errno == ENOTDIR) return no_such_input(word, err);
        return err_set(err, STATUS_IO, "%s: cannot open: %s", word, strerror(errno));
    }
    if (!S_ISDIR(st.st_mode)) return add_path(inputs, word, err);
    size_t before = inputs->count;
    enum status status = add_folder(inputs, word, 0, err);
    if (!status && inputs->count == before)
        status = err_set(err, STATUS_FAILED, "%s: no files in this folder (put text files into it)", word);
    return status;
}

enum status text_inputs_open(const char *const *words, size_t count, const char *cache,
                             const struct progress *progress, struct text_inputs *out, struct err *err)
{
    struct text_inputs inputs = {0};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count && !status; i++) status = add_word(&inputs, words[i], cache, progress, err);
    if (status)
        text_inputs_close(&inputs);
    else
        *out = inputs;
    return status;
}

enum status text_inputs_refuse_output(const struct text_inputs *inputs, const char *path, struct err *err)
{
    struct stat output, input;
    if (stat(path, &output) != 0) return STATUS_OK;
    for (size_t i = 0; i < inputs->count; i++)
        if (stat(inputs->paths[i], &input) == 0 && input.st_dev == output.st_dev &&
            input.st_ino == output.st_ino)
            return err_set(err, STATUS_USAGE,
                           "%s: is also the text to read, %s (give the output another name or place)", path,
                           inputs->paths[i]);
    return STATUS_OK;
}

void text_inputs_close(struct text_inputs *inputs)
{
    for (size_t i = 0; i < inputs->count; i++) free(inputs->paths[i]);
    free(inputs->paths);
    *inputs = (struct text_inputs){0};
}

/* ---- what is told about them ---- */

static bool looks_binary(const char *path)
{
    struct file_map map;
    if (file_map_open(path, &map, NULL)) return false; /* reading it will say why */
    size_t n = map.size < LOOK_BYTES ? map.size : LOOK_BYTES, invalid = 0;
    const char *text = (const char *)map.data;
    bool binary = memchr(text, '\0', n);
    for (size_t i = 0; i < n && !binary; i++) {
        i += utf8_valid_bytes(text + i, n - i);
        invalid += i < n;
    }
    binary = binary || 10 * invalid > 3 * n;
    file_map_close(&map);
    return binary;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Names of files may hold anything, and go to a terminal. */
static void tell(const struct progress *progress, bool warning, char *sentence)
{
    for (char *c = sentence; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    progress->note(progress->context, warning, sentence);
}

void text_inputs_note(const struct text_inputs *inputs, const struct progress *progress)
{
    char sentence[PATH_MAX + 256], size[32];
    size_t binary = 0, first = 0;
    uint64_t bytes = 0;
    struct stat st;
    if (!progress || !progress->note) return;
    for (size_t i = 0; i < inputs->count; i++) {
        if (stat(inputs->paths[i], &st) == 0) bytes += (uint64_t)st.st_size;
        if (!looks_binary(inputs->paths[i])) continue;
        if (!binary++) first = i;
    }
    if (inputs->count > 1) {
        int used = snprintf(sentence, sizeof sentence, "reading %zu files, %s:", inputs->count,
                            text_format_bytes(bytes, size, sizeof size));
        size_t i = 0;
        for (; i < inputs->count && i < NAMES_TOLD; i++)
            used += snprintf(sentence + used, sizeof sentence - (size_t)used, "%s %.255s", i ? "," : "",
                             last_part(inputs->paths[i]));
        if (i < inputs->count)
            snprintf(sentence + used, sizeof sentence - (size_t)used, " and %zu more", inputs->count - i);
        tell(progress, false, sentence);
    }
    if (binary) {
        int used =
            snprintf(sentence, sizeof sentence, "%s: looks binary, not like text", inputs->paths[first]);
        if (binary > 1)
            snprintf(sentence + used, sizeof sentence - (size_t)used, ", as do %zu more of the %zu files",
                     binary - 1, inputs->count);
        tell(progress, true, sentence);
    }
}

enum status text_inputs_each(const struct text_inputs *inputs, text_visitor visit, void *context,
                             struct err *err)
{
    uint64_t total = 0, before = 0;
    struct stat st;
    for (size_t i = 0; i < inputs->count; i++)
        if (stat(inputs->paths[i], &st) == 0) total += (uint64_t)st.st_size;
    for (size_t i = 0; i < inputs->count; i++) {
        struct file_map map = {0};
        enum status status = file_map_open(inputs->paths[i], &map, err);
        if (status) return status;
        status = visit(context, inputs->paths[i], (const char *)map.data, map.size, before, total, err);
        before += map.size;
        file_map_close(&map);
        if (status) return status;
    }
    if (before == 0)
        return err_set(err, STATUS_FAILED, "%s: %s empty: there is nothing to learn from",
                       inputs->count ? inputs->paths[0] : "no input",
                       inputs->count > 1 ? "and the other files are all" : "is");
    return STATUS_OK;
}

static bool report_part(void *context, const char *what, const char *unit, uint64_t done, uint64_t total)
{
    struct progress_part *part = context;
    (void)total;
    return progress_report(part->whole, what, unit, part->before + done, part->total);
}

void progress_part_init(struct progress_part *part, const struct progress *whole, uint64_t before,
                        uint64_t total)
{
    *part = (struct progress_part){.whole = whole, .before = before, .total = total};
    part->progress = (struct progress){.report = report_part, .context = part};
}
