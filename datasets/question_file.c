/* See question_file.h. The file is mapped and read line by line, so its size does not matter. */
#include "datasets/question_file.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum status question_file_open(const char *path, struct question_file *file, struct err *err)
{
    *file = (struct question_file){.path = path};
    return file_map_open(path, &file->map, err);
}

enum status question_file_keep(struct question_file *file, struct err *err)
{
    size_t size = file->map.size;
    unsigned char *copy = malloc(size + 1);
    if (!copy) return err_no_memory(err, "a copy of %s", file->path);
    memcpy(copy, file->map.data, size);
    file_map_close(&file->map);
    file->copy = copy;
    file->map.data = copy;
    file->map.size = size;
    return STATUS_OK;
}

void question_file_close(struct question_file *file)
{
    json_decref(file->object);
    if (!file->copy) file_map_close(&file->map);
    free(file->copy);
    *file = (struct question_file){0};
}

void question_file_rewind(struct question_file *file)
{
    file->at = 0;
    file->line = 0;
}

static enum status corrupt(const struct question_file *file, const char *what, struct err *err)
{
    return err_set(err, STATUS_CORRUPT, "%s: line %" PRIu64 ": %s", file->path, file->line, what);
}

static enum status read_choices(const struct question_file *file, const json_t *list, struct question *out,
                                struct err *err)
{
    size_t count = json_array_size(list); /* 0: no list, too */
    if (count < 2 || count > QUESTION_CHOICES_MAX)
        return corrupt(file, "\"choices\" must be a list of 2 to 1024 texts", err);
    for (size_t i = 0; i < count; i++) {
        out->choices[i] = json_string_value(json_array_get(list, i));
        if (out->choices[i] && out->choices[i][strspn(out->choices[i], " ")]) continue;
        return err_set(err, STATUS_CORRUPT,
                       "%s: line %" PRIu64 ": \"choices\"[%zu] must be a text that is not blank", file->path,
                       file->line, i);
    }
    out->count = (int)count;
    return STATUS_OK;
}

static enum status read_object(const struct question_file *file, struct question *out, struct err *err)
{
    const json_t *answer = json_object_get(file->object, "answer");
    if (!json_is_object(file->object))
        return corrupt(
            file,
            "is not a JSON object (a question is {\"context\": ..., \"choices\": [...], \"answer\": 0})",
            err);
    out->context = json_string_value(json_object_get(file->object, "context"));
    if (!out->context) return corrupt(file, "\"context\" must be a text", err);
    enum status status = read_choices(file, json_object_get(file->object, "choices"), out, err);
    if (status) return status;
    json_int_t index = json_is_integer(answer) ? json_integer_value(answer) : -1;
    if (index < 0 || index >= out->count)
        return err_set(err, STATUS_CORRUPT,
                       "%s: line %" PRIu64
                       ": \"answer\" must be the index of the right choice, a whole number from 0 to %d",
                       file->path, file->line, out->count - 1);
    out->answer = (int)index;
    return STATUS_OK;
}

static bool is_blank(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r", text[i]) || !text[i]) return false;
    return true;
}

enum status question_file_next(struct question_file *file, struct question *out, bool *more, struct err *err)
{
    const char *line;
    size_t n;
    json_error_t problem;
    json_decref(file->object);
    file->object = NULL;
    *more = false;
    do {
        if (file->at >= file->map.size) return STATUS_OK;
        line = (const char *)file->map.data + file->at;
        const char *end = memchr(line, '\n', file->map.size - file->at);
        n = end ? (size_t)(end - line) : file->map.size - file->at;
        file->at += n + 1;
        file->line++;
    } while (is_blank(line, n));
    file->object = json_loadb(line, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &problem);
    if (!file->object)
        return err_set(err, STATUS_CORRUPT,
                       "%s: line %" PRIu64 " column %d: %s (each line must be one JSON object)", file->path,
                       file->line, problem.column, problem.text);
    *more = true;
    return read_object(file, out, err);
}
