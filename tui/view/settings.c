/* See settings.h. */
#include "tui/view/settings.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "core/base/text.h"

enum { FILE_MAX = 64 << 10, LINE_MAX_BYTES = 4096 };

static bool add_line(struct settings *settings, const char *key, const char *value)
{
    struct setting line = {key ? arena_strdup(&settings->arena, key) : NULL,
                           arena_strdup(&settings->arena, value), false};
    if ((key && !line.key) || !line.value ||
        !list_reserve(&settings->lines, settings->count, 1, &settings->capacity, sizeof line))
        return false;
    settings->lines[settings->count++] = line;
    return true;
}

static void read_line(struct settings *settings, char *line)
{
    char *equals = strchr(line, '=');
    line[strcspn(line, "\r\n")] = '\0';
    if (!equals || strchr(";#[", line[strspn(line, " \t")])) {
        add_line(settings, NULL, line);
        return;
    }
    *equals = '\0';
    add_line(settings, text_trim(line), text_trim(equals + 1));
}

static enum status format_path(const char *home, char path[PATH_MAX], struct err *err)
{
    return file_format_path(path, PATH_MAX, err, "%s/workbench.ini", home);
}

void settings_open(struct settings *settings, const char *home)
{
    char line[LINE_MAX_BYTES], path[PATH_MAX];
    struct stat found;
    *settings = (struct settings){0};
    snprintf(settings->home, sizeof settings->home, "%s", home);
    if (format_path(home, path, NULL)) return;
    if (stat(path, &found) != 0) return;
    settings->refused = !S_ISREG(found.st_mode) || found.st_size > FILE_MAX;
    FILE *file = settings->refused ? NULL : fopen(path, "r");
    for (off_t read = 0; file && fgets(line, sizeof line, file);) {
        size_t n = strlen(line);
        read += (off_t)n;
        if ((n == 0 || line[n - 1] != '\n') && read < found.st_size) settings->refused = true;
        read_line(settings, line);
    }
    if (file) fclose(file);
}

static struct setting *find(const struct settings *settings, const char *key)
{
    for (size_t i = 0; i < settings->count; i++)
        if (settings->lines[i].key && strcmp(settings->lines[i].key, key) == 0) return &settings->lines[i];
    return NULL;
}

const char *settings_get(const struct settings *settings, const char *key)
{
    const struct setting *line = find(settings, key);
    return line ? line->value : "";
}

bool settings_has(const struct settings *settings, const char *key, const char *value)
{
    const struct setting *line = find(settings, key);
    return line && strcmp(line->value, value) == 0;
}

void settings_set(struct settings *settings, const char *key, const char *value)
{
    struct setting *line = find(settings, key);
    if (strpbrk(value, "\r\n") || strlen(key) + strlen(value) + 8 > LINE_MAX_BYTES) return;
    if (line ? strcmp(line->value, value) == 0 : !*value) return;
    if (!line && !add_line(settings, key, "")) return;
    if (!line) line = &settings->lines[settings->count - 1];
    char *copy = arena_strdup(&settings->arena, value);
    if (copy) line->value = copy;
    line->changed = copy != NULL;
}

static enum status write_file(const struct settings *settings, struct err *err)
{
    char *text = NULL, path[PATH_MAX];
    size_t size;
    enum status status = format_path(settings->home, path, err);
    FILE *out = status ? NULL : open_memstream(&text, &size);
    for (size_t i = 0; out && i < settings->count; i++) {
        const struct setting *line = &settings->lines[i];
        fprintf(out, "%s%s%s\n", line->key ? line->key : "", line->key ? " = " : "", line->value);
    }
    if (!status && !text_stream_end(out, &text)) status = err_no_memory(err, "the text of %s", path);
    if (!status) status = file_write_atomic(path, text, size, err);
    free(text);
    return status;
}

static void release(struct settings *settings)
{
    arena_release(&settings->arena);
    free(settings->lines);
    *settings = (struct settings){0};
}

void settings_toggle(struct settings *settings, const char *key, bool *choice)
{
    *choice = !*choice;
    settings_set(settings, key, *choice ? "yes" : "no");
}

enum status settings_close(struct settings *settings, struct err *err)
{
    struct settings now;
    bool changed = false;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < settings->count; i++) changed = changed || settings->lines[i].changed;
    if (changed) {
        settings_open(&now, settings->home);
        for (size_t i = 0; i < settings->count; i++)
            if (settings->lines[i].changed)
                settings_set(&now, settings->lines[i].key, settings->lines[i].value);
        status = now.refused ? err_set(err, STATUS_CORRUPT,
                                       "%s/workbench.ini: is no file of settings (move it away)", now.home)
                             : write_file(&now, err);
        release(&now);
    }
    release(settings);
    return status;
}
