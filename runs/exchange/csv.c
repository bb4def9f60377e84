/* See csv.h. One thread has the file, so the stream's lock is left alone: it would cost more than the field.
 */
#include "runs/exchange/csv.h"

#include <csv.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/base/text.h"

void csv_absent(struct csv_out *out)
{
    if (out->in_record) putc_unlocked(',', out->file);
    out->in_record = true;
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
    csv_absent(out);
    if (text && needs_quotes(text, n))
        csv_fwrite(out->file, text, n);
    else if (text)
        fwrite_unlocked(text, 1, n, out->file);
}

void csv_word(struct csv_out *out, const char *text)
{
    csv_text(out, text, strlen(text));
}

void csv_int(struct csv_out *out, int64_t value)
{
    char digits[24];
    csv_text(out, digits, (size_t)snprintf(digits, sizeof digits, "%" PRId64, value));
}

void csv_double(struct csv_out *out, double value)
{
    char digits[40];
    csv_word(out, text_format_double(value, digits, sizeof digits));
}

void csv_end_record(struct csv_out *out)
{
    fwrite_unlocked("\r\n", 1, 2, out->file);
    out->in_record = false;
    if (!out->error && ferror(out->file)) out->error = errno ? errno : EIO;
}
