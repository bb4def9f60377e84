/* See text.h. */
#include "core/base/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 64 };

static size_t edit_distance(const char *a, size_t na, const char *b, size_t nb)
{
    size_t row[WORD_MAX + 1];
    for (size_t j = 0; j <= nb; j++) row[j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[nb];
}

const char *text_nearest(const char *word, const char *const *names, size_t count)
{
    size_t n = strlen(word), best = n / 3 + 2;
    const char *nearest = NULL;
    if (n > WORD_MAX) return NULL;
    for (size_t i = 0; i < count; i++) {
        size_t m = strlen(names[i]);
        if (m > WORD_MAX) continue;
        size_t distance = edit_distance(word, n, names[i], m);
        if (distance < best) {
            best = distance;
            nearest = names[i];
        }
    }
    return nearest;
}

char *text_format_bytes(uint64_t bytes, char *buf, size_t size)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    int u = 0;
    while (value >= 1023.95 && u < 6) {
        value /= 1024;
        u++;
    }
    snprintf(buf, size, u ? "%.1f %s" : "%.0f %s", value, unit[u]);
    return buf;
}

char *text_format_count(double count, char *buf, size_t size)
{
    static const char unit[] = "\0kMBT";
    int u = 0;
    if (!isfinite(count)) {
        snprintf(buf, size, "--");
        return buf;
    }
    double value = fabs(count);
    while (value >= 999.5 && u < 4) {
        value /= 1000;
        u++;
    }
    int decimals = u == 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    snprintf(buf, size, u ? "%s%.*f%c" : "%s%.*f", count < 0 ? "-" : "", decimals, value, unit[u]);
    return buf;
}

bool text_parse_int(const char *word, int64_t *out)
{
    char *end;
    errno = 0;
    long long value = strtoll(word, &end, 10);
    if (end == word || *end || errno) return false;
    *out = value;
    return true;
}

bool text_parse_double(const char *word, double *out)
{
    char *end;
    errno = 0;
    double value = strtod(word, &end);
    if (end == word || *end || (errno == ERANGE && fabs(value) > 1)) return false;
    *out = value;
    return true;
}

char *text_format_double(double value, char *buf, size_t size)
{
    if (isnan(value)) {
        snprintf(buf, size, "nan");
        return buf;
    }
    if (isinf(value)) {
        snprintf(buf, size, value < 0 ? "-inf" : "inf");
        return buf;
    }
    if (fabs(value) < 1e15 && value == (double)(int64_t)value && !(value == 0 && signbit(value))) {
        snprintf(buf, size, "%lld", (long long)value);
        return buf;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(buf, size, "%.*g", digits, value);
        if (strtod(buf, NULL) == value) break;
    }
    for (char *c = buf; *c; c++)
        if (*c == ',') *c = '.';
    return buf;
}
