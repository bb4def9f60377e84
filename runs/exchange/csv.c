/* See csv.h. */
#include "runs/exchange/csv.h"

#include <csv.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

enum { BUFFER_BYTES = 1 << 20, NUMBER_BYTES = 40 };

bool csv_begin(struct csv_out *out, FILE *file)
{
    *out = (struct csv_out){.file = file, .buffer = malloc(BUFFER_BYTES)};
    return out->buffer != NULL;
}

static void write_out(struct csv_out *out, const void *data, size_t n)
{
    if (out->error || n == 0) return;
    errno = 0;
    if (fwrite(data, 1, n, out->file) != n) out->error = errno ? errno : EIO;
}

/* Room for `n` more bytes (n at most the buffer's size) and the field's separator. */
static char *open_field(struct csv_out *out, size_t n)
{
    if (BUFFER_BYTES - out->used < n + 1) {
        write_out(out, out->buffer, out->used);
        out->used = 0;
    }
    if (out->in_record) out->buffer[out->used++] = ',';
    out->in_record = true;
    return out->buffer + out->used;
}

static bool needs_quotes(const char *text, size_t n)
{
    if (n == 0 || text[0] == ' ' || text[0] == '\t' || text[n - 1] == ' ' || text[n - 1] == '\t') return true;
    for (size_t i = 0; i < n; i++)
        if (text[i] == ',' || text[i] == '"' || text[i] == '\n' || text[i] == '\r') return true;
    return false;
}

void csv_text(struct csv_out *out, const char *text, size_t n)
{
    if (!text) {
        csv_absent(out);
        return;
    }
    bool quotes = needs_quotes(text, n);
    size_t most = quotes ? 2 * n + 2 : n;
    if (most < BUFFER_BYTES) {
        char *field = open_field(out, most);
        if (quotes)
            out->used += csv_write(field, most, text, n);
        else {
            memcpy(field, text, n);
            out->used += n;
        }
        return;
    }
    open_field(out, 0);
    write_out(out, out->buffer, out->used);
    out->used = 0;
    errno = 0;
    if (!quotes)
        write_out(out, text, n);
    else if (!out->error && csv_fwrite(out->file, text, n) != 0)
        out->error = errno ? errno : EIO;
}

void csv_word(struct csv_out *out, const char *text)
{
    csv_text(out, text, strlen(text));
}

void csv_int(struct csv_out *out, int64_t value)
{
    char digits[24], *end = digits + sizeof digits, *c = end;
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    do {
        *--c = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (value < 0) *--c = '-';
    char *field = open_field(out, NUMBER_BYTES);
    memcpy(field, c, (size_t)(end - c));
    out->used += (size_t)(end - c);
}

void csv_double(struct csv_out *out, double value)
{
    char *field = open_field(out, NUMBER_BYTES);
    out->used += strlen(text_format_double(value, field, NUMBER_BYTES));
}

void csv_absent(struct csv_out *out)
{
    open_field(out, 0);
}

void csv_end_record(struct csv_out *out)
{
    if (BUFFER_BYTES - out->used < 2) {
        write_out(out, out->buffer, out->used);
        out->used = 0;
    }
    out->buffer[out->used++] = '\r';
    out->buffer[out->used++] = '\n';
    out->in_record = false;
}

int csv_finish(struct csv_out *out)
{
    write_out(out, out->buffer, out->used);
    if (!out->error && fflush(out->file) != 0) out->error = errno ? errno : EIO;
    free(out->buffer);
    out->buffer = NULL;
    out->used = 0;
    return out->error;
}
