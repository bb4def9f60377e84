/* See question_file.h. The file is mapped and read line by line, so its size does not matter. */
#include "datasets/question_file.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "datasets/text_file.h"

enum status question_file_open(const char *path, struct question_file *file, struct err *err)
{
    *file = (struct question_file){.lines.path = path};
    enum status status = text_file_refuse_compressed(path, err);
    if (!status) status = file_map_open(path, &file->map, err);
    file->lines.n = file->map.size;
    return status;
}

enum status question_file_keep(struct question_file *file, struct err *err)
{
    size_t size = file->map.size;
    unsigned char *copy = malloc(size + 1);
    if (!copy) return err_no_memory(err, "a copy of %s", file->lines.path);
    memcpy(copy, file->map.data, size);
    file_map_close(&file->map);
    file->copy = copy;
    file->map.data = copy;
    file->map.size = size;
    return STATUS_OK;
}

void question_file_close(struct question_file *file)
{
    json_lines_close(&file->lines);
    if (!file->copy) file_map_close(&file->map);
    free(file->copy);
    *file = (struct question_file){0};
}

void question_file_rewind(struct question_file *file)
{
    file->lines.at = 0;
    file->lines.line = 0;
}

static enum status corrupt(const struct json_lines *lines, const char *what, struct err *err)
{
    return err_set(err, STATUS_CORRUPT, "%s: line %" PRIu64 ": %s", lines->path, lines->line, what);
}

static enum status read_choices(const struct json_lines *lines, const json_t *list, struct question *out,
                                struct err *err)
{
    size_t count = json_array_size(list); /* 0: no list, too */
    if (count < 2 || count > QUESTION_CHOICES_MAX)
        return corrupt(lines, "\"choices\" must be a list of 2 to 1024 texts", err);
    for (size_t i = 0; i < count; i++) {
        out->choices[i] = json_string_value(json_array_get(list, i));
        if (out->choices[i] && out->choices[i][strspn(out->choices[i], " ")]) continue;
        return err_set(err, STATUS_CORRUPT,
                       "%s: line %" PRIu64 ": \"choices\"[%zu] must be a text that is not blank", lines->path,
                       lines->line, i);
    }
    out->count = (int)count;
    return STATUS_OK;
}

static enum status read_object(const struct json_lines *lines, struct question *out, struct err *err)
{
    const json_t *answer = json_object_get(lines->object, "answer");
    if (!json_is_object(lines->object))
        return corrupt(
            lines,
            "is not a JSON object (a question is {\"context\": ..., \"choices\": [...], \"answer\": 0})",
            err);
    out->context = json_string_value(json_object_get(lines->object, "context"));
    if (!out->context) return corrupt(lines, "\"context\" must be a text", err);
    enum status status = read_choices(lines, json_object_get(lines->object, "choices"), out, err);
    if (status) return status;
    json_int_t index = json_is_integer(answer) ? json_integer_value(answer) : -1;
    if (index < 0 || index >= out->count)
        return err_set(err, STATUS_CORRUPT,
                       "%s: line %" PRIu64
                       ": \"answer\" must be the index of the right choice, a whole number from 0 to %d",
                       lines->path, lines->line, out->count - 1);
    out->answer = (int)index;
    return STATUS_OK;
}

enum status question_file_next(struct question_file *file, struct question *out, bool *more, struct err *err)
{
    file->lines.text = (const char *)file->map.data; /* a copy may have taken its place */
    enum status status = json_lines_next(&file->lines, more, err);
    return status || !*more ? status : read_object(&file->lines, out, err);
}

void question_count_bytes(const struct question *question, size_t *most)
{
    for (int i = 0; i < question->count; i++) {
        size_t bytes = strlen(question->context) + strlen(question->choices[i]);
        if (bytes > *most) *most = bytes;
    }
}
