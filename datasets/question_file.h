/* Files of multiple-choice questions, as HellaSwag, ARC and MMLU have them: one JSON object a line with
 * "context", a text; "choices", a list of at least two texts, of which each could follow the context as it
 * stands, so a choice normally begins with a blank; and "answer", the index of the right one from 0. Other
 * members and empty lines are ignored. */
#ifndef ANNEAL_DATASETS_QUESTION_FILE_H
#define ANNEAL_DATASETS_QUESTION_FILE_H

#include "core/base/err.h"
#include "core/base/file.h"
#include "datasets/json_lines.h"

enum { QUESTION_CHOICES_MAX = 1024 };

/* Texts are UTF-8 without NUL; the context may be empty, a choice not. */
struct question {
    const char *context;
    const char *choices[QUESTION_CHOICES_MAX]; /* count of them */
    int count, answer;
};

struct question_file {
    struct file_map map;
    unsigned char *copy;     /* of the map, in its place; NULL: the file is mapped; owned */
    struct json_lines lines; /* its object is the newest question; its path is borrowed */
};

enum status question_file_open(const char *path, struct question_file *file, struct err *err);
/* Reads from a copy in memory from now on: the file itself may change or go. */
enum status question_file_keep(struct question_file *file, struct err *err);
void question_file_close(struct question_file *file); /* harmless on a zeroed struct */
void question_file_rewind(struct question_file *file);

/* Reads the next question, whose texts stay valid until the next call; *more is false after the last one.
 * STATUS_CORRUPT names the line, the member and what it must be. */
enum status question_file_next(struct question_file *file, struct question *out, bool *more, struct err *err);

/* Raises *most to the bytes of the context with the longest choice. */
void question_count_bytes(const struct question *question, size_t *most);

#endif
