/* See text_pieces.h. */
#include "datasets/text_pieces.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "datasets/crew.h"
#include "datasets/json_lines.h"
#include "datasets/text_file.h"

struct visiting {
    const struct text_reading *reading; /* NULL: each file is one piece, as it is */
    bool whole;
    text_visitor visit;
    void *context;
    bool any;                /* there was some text */
    struct text_piece piece; /* path, is_line, before and total are set for each file */
    struct err *err;
};

bool text_pieces_are_lines(const char *path, const struct text_reading *reading)
{
    return !reading->conversations && text_file_is_json_lines(path);
}

static enum status pass(struct visiting *v)
{
    v->any |= v->piece.n > 0;
    return v->visit(v->context, &v->piece, v->err);
}

/* ---- JSONL ---- */

static enum status text_of(const struct json_lines *lines, const char *key, const json_t **out,
                           struct err *err)
{
    char keys[120];
    if (!json_is_object(lines->object))
        return err_set(err, STATUS_CORRUPT, "%s: line %" PRIu64 ": is not an object (" JSON_LINES_RULE ")",
                       lines->path, lines->line);
    *out = json_object_get(lines->object, key);
    if (json_is_string(*out)) return STATUS_OK;
    if (!*out && (json_object_get(lines->object, "messages") ||
                  (json_object_get(lines->object, "prompt") && json_object_get(lines->object, "completion"))))
        return err_set(err, STATUS_CORRUPT,
                       "%s: line %" PRIu64 ": has no \"%.60s\" but a conversation (set data.format = "
                       "instructions, or give --conversations)",
                       lines->path, lines->line, key);
    return err_set(err, STATUS_CORRUPT,
                   "%s: line %" PRIu64
                   ": %s \"%.60s\"%s (set data.text_column, --text-key or --column to the key of "
                   "the text; the line has %s)",
                   lines->path, lines->line, *out ? "its" : "has no", key, *out ? " is not a string" : "",
                   json_lines_members(lines->object, keys, sizeof keys));
}

/* Visits the text of each line of `text`, n bytes of whole lines, which ends at `after`. */
static enum status visit_lines(struct visiting *v, const char *text, size_t n, uint64_t after)
{
    const char *key = v->reading->text_key ? v->reading->text_key : "text";
    struct json_lines lines = {
        .path = v->piece.path, .text = text, .n = n, .line = v->piece.line, .any_text = true};
    struct text_piece block = {.n = n, .before = v->piece.before, .after = after}, *p = &v->piece;
    const json_t *value = NULL;
    bool more;
    enum status status;
    while (!(status = json_lines_next(&lines, &more, v->err)) && more) {
        if ((status = text_of(&lines, key, &value, v->err))) break;
        p->text = json_string_value(value);
        p->n = json_string_length(value);
        p->after = text_piece_done(&block, lines.at);
        if (p->n && (status = pass(v))) break;
        p->before = p->after;
    }
    p->line = lines.line;
    json_lines_close(&lines);
    return status;
}

/* ---- files ---- */

/* Where to cut n bytes of text: the last place, 0 if there is none. */
static size_t last_cut(const struct visiting *v, const char *text, size_t n)
{
    bool lines = v->piece.is_line || v->reading->conversations;
    for (size_t at = n; !(v->whole && !lines) && at > 0; at--) {
        const char *feed = memrchr(text, '\n', at);
        if (!feed) break;
        at = (size_t)(feed - text) + 1;
        if (lines || crew_may_cut(text, n, at)) return at;
    }
    return 0;
}

static enum status too_long(const struct visiting *v)
{
    const struct text_piece *p = &v->piece;
    int most = TEXT_PIECE_MAX >> 20;
    if (p->is_line || v->reading->conversations)
        return err_set(v->err, STATUS_CORRUPT,
                       "%s: line %" PRIu64 ": is longer than %d MiB (shorten it, or decompress the file)",
                       p->path, p->line + 1, most);
    return err_set(v->err, STATUS_CORRUPT, "%s: holds %d MiB %s (decompress the file%s)", p->path, most,
                   v->whole ? "or more, and this tokenizer encodes a text as a whole"
                            : "of text without a line end where it may be cut",
                   v->whole ? ", or name smaller ones" : "");
}

/* Visits n bytes, up to a cut or, with `last`, up to the end of the file. */
static enum status visit_block(struct visiting *v, const char *text, size_t n, bool last, uint64_t after)
{
    struct text_piece *p = &v->piece;
    enum status status;
    if (p->is_line) {
        status = visit_lines(v, text, n, after);
    } else {
        p->text = text;
        p->n = n;
        p->after = after;
        p->ends = last;
        status = pass(v);
    }
    bool counts = !last && v->reading->conversations;
    for (const char *at = text; counts && (at = memchr(at, '\n', n - (size_t)(at - text))); at++) p->line++;
    p->before = after;
    return status;
}

static enum status visit_plain(struct visiting *v)
{
    struct file_map map = {0};
    enum status status = file_map_open(v->piece.path, &map, v->err);
    if (status) return status;
    size_t mark = utf8_mark((const char *)map.data, map.size);
    status = visit_block(v, (const char *)map.data + mark, map.size - mark, true, v->piece.before + map.size);
    file_map_close(&map);
    return status;
}

static enum status visit_compressed(struct visiting *v)
{
    struct text_file *file = NULL;
    char *text = NULL;
    size_t capacity = TEXT_PIECE, held = 0, n = 0, mark, cut;
    bool first = true;
    uint64_t before = v->piece.before;
    enum status status = text_file_open(v->piece.path, &file, v->err);
    if (!status && !(text = malloc(capacity))) status = err_no_memory(v->err, "reading %s", v->piece.path);
    while (!status && !(status = text_file_read(file, text + held, capacity - held, &n, v->err))) {
        bool last = held + n < capacity;
        held += n;
        if (first && (mark = utf8_mark(text, held))) memmove(text, text + mark, held -= mark);
        first = false;
        cut = last ? held : last_cut(v, text, held);
        if (last || cut) {
            status = visit_block(v, text, cut, last, before + text_file_position(file));
            if (last) break;
            memmove(text, text + cut, held -= cut);
        } else if (capacity >= TEXT_PIECE_MAX) {
            status = too_long(v);
        } else {
            char *more = realloc(text, 2 * capacity);
            if (!more) status = err_no_memory(v->err, "reading %s", v->piece.path);
            if (more) text = more, capacity *= 2;
        }
    }
    free(text);
    text_file_close(file);
    return status;
}

/* ---- all files ---- */

/* The bytes of the first `count` files. */
static uint64_t size_of(const struct inputs *texts, size_t count)
{
    uint64_t total = 0;
    struct stat st;
    for (size_t i = 0; i < count; i++)
        if (stat(texts->paths[i], &st) == 0) total += (uint64_t)st.st_size;
    return total;
}

static enum status visit_files(struct visiting *v, const struct inputs *texts, size_t first, size_t count)
{
    enum status status = STATUS_OK;
    uint64_t total = size_of(texts, texts->count), before = size_of(texts, first);
    for (size_t i = first; !status && i < first + count; i++, before = v->piece.before) {
        const char *path = texts->paths[i];
        bool lines = v->reading && text_pieces_are_lines(path, v->reading);
        v->piece = (struct text_piece){
            .path = path, .is_line = lines, .ends = lines, .before = before, .after = before, .total = total};
        status = v->reading && text_file_compressed(path) ? visit_compressed(v) : visit_plain(v);
    }
    if (status || v->any) return status;
    return err_set(v->err, STATUS_FAILED, "%s: is empty%s", texts->paths[first],
                   count > 1 ? ", as the other files are" : "");
}

enum status text_pieces_each(const struct inputs *texts, size_t first, size_t count,
                             const struct text_reading *reading, bool whole, text_visitor visit,
                             void *context, struct err *err)
{
    static const struct text_reading usual = {0};
    struct visiting v = {.reading = reading ? reading : &usual,
                         .whole = whole,
                         .visit = visit,
                         .context = context,
                         .err = err};
    return visit_files(&v, texts, first, count);
}

enum status text_pieces_of_files(const struct inputs *texts, text_visitor visit, void *context,
                                 struct err *err)
{
    struct visiting v = {.visit = visit, .context = context, .err = err};
    return visit_files(&v, texts, 0, texts->count);
}
