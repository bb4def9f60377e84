/* See json_lines.h. */
#include "datasets/json_lines.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "core/base/text.h"

static bool begins(const char *text, size_t n, const char *words)
{
    size_t m = strlen(words);
    return n >= m && memcmp(text, words, m) == 0;
}

/* For text[0..n), a line that Jansson refuses. */
static const char *remedy(const json_error_t *problem, const char *text, size_t n)
{
    const char *rest = text + ((size_t)problem->position < n ? (size_t)problem->position : n);
    switch (json_error_code(problem)) {
    case json_error_invalid_utf8:
        return begins(text, n, "\xFF\xFE") || begins(text, n, "\xFE\xFF")
                   ? "JSON is UTF-8; iconv -f UTF-16 -t UTF-8 FILE converts UTF-16"
                   : "JSON is UTF-8; iconv -f latin1 -t utf8 FILE converts Latin-1";
    case json_error_duplicate_key:
        return "an object has each key once";
    case json_error_invalid_syntax:
        /* Python's json module writes NaN and Infinity by default */
        if (strstr(problem->text, "near 'NaN'") || strstr(problem->text, "near 'Infinity'") ||
            begins(rest, (size_t)(text + n - rest), "Infinity"))
            return "JSON has no NaN and no Infinity: write null";
        return strstr(problem->text, "invalid Unicode") ? "half of a character: write \\ufffd instead"
                                                        : JSON_LINES_RULE;
    case json_error_premature_end_of_input:
        return "is the line cut off? " JSON_LINES_RULE;
    case json_error_numeric_overflow:
        return "a whole number takes at most 64 bits; put it in quotes, as a text";
    default:
        return JSON_LINES_RULE;
    }
}

enum status json_lines_next(struct json_lines *lines, bool *more, struct err *err)
{
    const char *line;
    size_t n;
    json_error_t problem;
    json_decref(lines->object);
    lines->object = NULL;
    *more = false;
    if (!lines->at) lines->at = utf8_mark(lines->text, lines->n);
    do {
        if (lines->at >= lines->n) return STATUS_OK;
        line = lines->text + lines->at;
        const char *end = memchr(line, '\n', lines->n - lines->at);
        n = end ? (size_t)(end - line) : lines->n - lines->at;
        lines->at += n + 1;
        lines->line++;
    } while (text_blanks(line, n) == n);
    size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | (lines->any_text ? JSON_ALLOW_NUL : 0);
    lines->object = json_loadb(line, n, flags, &problem);
    if (!lines->object)
        return err_set(err, STATUS_CORRUPT, "%s: line %" PRIu64 " column %d: %s (%s)", lines->path,
                       lines->line, problem.column, problem.text, remedy(&problem, line, n));
    *more = true;
    return STATUS_OK;
}

char *json_lines_members(const json_t *object, char *buf, size_t size)
{
    json_t *all = (json_t *)object, *member;
    const char *name;
    *buf = '\0';
    json_object_foreach(all, name, member) text_add(buf, size, ", ", "\"%.40s\"", CLEAN_LINE(name));
    if (!*buf) snprintf(buf, size, "nothing");
    return buf;
}

void json_lines_close(struct json_lines *lines)
{
    json_decref(lines->object);
    *lines = (struct json_lines){0};
}
