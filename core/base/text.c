/* See text.h. */
#include "core/base/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { WORD_MAX = 64 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Letters added, left out or replaced, and neighbours exchanged (optimal string alignment). */
static size_t edit_distance(const char *a, size_t na, const char *b, size_t nb)
{
    size_t rows[3][WORD_MAX + 1], *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= nb; j++) last[j] = j;
    for (size_t i = 1; i <= na; i++) {
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            row[j] = least(last[j - 1] + (a[i - 1] != b[j - 1]), least(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[nb];
}

const char *text_nearest(const char *word, const char *const *names, size_t count)
{
    size_t n = strlen(word), best = (n < 3 ? 1 : n / 3) + 1;
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

const char *text_plural(int64_t count)
{
    return count == 1 ? "" : "s";
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

bool text_parse_bytes(const char *word, size_t *out)
{
    static const char units[] = "kmgt";
    char *end;
    if (*word < '0' || *word > '9') return false;
    double value = strtod(word, &end), base = 1024;
    while (*end == ' ') end++;
    const char *unit = *end ? strchr(units, *end | 0x20) : NULL;
    if (unit) {
        end++;
        if (strcasecmp(end, "b") == 0)
            base = 1000;
        else if (*end && strcasecmp(end, "ib") != 0)
            return false;
        for (const char *u = units; u <= unit; u++) value *= base;
    } else if (*end && strcasecmp(end, "b") != 0) {
        return false;
    }
    if (!(value >= 1 && value <= 4.6e18)) return false;
    *out = (size_t)value;
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

/* 15 digits give back any decimal that has as few, 17 any double; whole numbers below 10^16 are written in
 * full. Of numbers below the normal ones fewer digits may do. */
char *text_format_double(double value, char *buf, size_t size)
{
    char text[32];
    int precision = fpclassify(value) == FP_SUBNORMAL ? 1 : 15;
    if (isnan(value)) {
        snprintf(buf, size, "nan");
    } else if (value == rint(value) && fabs(value) < 1e16) {
        snprintf(buf, size, "%.0f", value);
    } else {
        do snprintf(text, sizeof text, "%.*g", precision, value);
        while (precision++ < 17 && strtod(text, NULL) != value);
        snprintf(buf, size, "%s", text);
    }
    return buf;
}

char *text_format_loss(double loss, char *buf, size_t size)
{
    if (!isfinite(loss)) return text_format_double(loss, buf, size);
    snprintf(buf, size, "%.4f", loss);
    return buf;
}

char *text_format_number(uint64_t number, char *buf, size_t size)
{
    char digits[32];
    int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    size_t to = 0;
    for (int i = 0; i < n && to + 2 < size; i++) {
        if (i && (n - i) % 3 == 0) buf[to++] = ',';
        buf[to++] = digits[i];
    }
    buf[to] = '\0';
    return buf;
}
