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

bool text_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
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

/* ---- UTF-8 ---- */

/* Inline, so that who does not ask for the code point does not pay for it. */
static inline size_t character(const char *text, size_t n, uint32_t *point)
{
    const unsigned char *c = (const unsigned char *)text;
    uint32_t lead = n ? c[0] : 0xFF;
    *point = lead;
    if (lead < 0x80) return 1;
    if (lead < 0xC2 || lead > 0xF4) return 0;
    size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (n < length) return 0;
    unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (c[1] < low || c[1] > high) return 0;
    *point = lead & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((c[i] & 0xC0) != 0x80) return 0;
        *point = *point << 6 | (c[i] & 0x3Fu);
    }
    return length;
}

size_t utf8_character(const char *text, size_t n, uint32_t *point)
{
    return character(text, n, point);
}

size_t utf8_valid_bytes(const char *text, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint64_t word;
        uint32_t point;
        if (n - i >= sizeof word) {
            memcpy(&word, text + i, sizeof word);
            if (!(word & 0x8080808080808080u)) {
                i += sizeof word;
                continue;
            }
        }
        size_t length = character(text + i, n - i, &point);
        if (!length) break;
        i += length;
    }
    return i;
}

size_t utf8_incomplete_tail(const char *text, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        unsigned char lead = (unsigned char)text[n - back];
        if ((lead & 0xC0) == 0x80) continue;
        size_t want = lead > 0xF4 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 1;
        return want > back ? back : 0;
    }
    return 0;
}

size_t utf8_cut(const char *text, size_t n)
{
    while (n && ((unsigned char)text[n] & 0xC0) == 0x80) n--;
    return n;
}

bool utf8_is_control(uint32_t point)
{
    return point < 0x20 || (point >= 0x7F && point < 0xA0);
}

/* ---- clean ---- */

size_t clean_block(char *out, size_t size, const char *bytes, size_t n)
{
    size_t used = 0;
    if (!size) return 0;
    n -= utf8_incomplete_tail(bytes, n);
    for (size_t at = 0; at < n;) {
        uint32_t point;
        size_t length = utf8_character(bytes + at, n - at, &point), m = length;
        const char *piece = bytes + at;
        if (!length || (utf8_is_control(point) && point != '\n' && point != '\t')) {
            piece = "\xEF\xBF\xBD";
            m = 3;
        }
        if (used + m + 1 > size) break;
        memcpy(out + used, piece, m);
        used += m;
        at += length ? length : 1;
    }
    out[used] = '\0';
    return used;
}

char *clean_line(char *out, size_t size, const char *text)
{
    clean_block(out, size, text, strlen(text));
    for (char *c = out; size && (c = strpbrk(c, "\n\t")); c++) *c = ' ';
    return out;
}

const char *clean_block_new(struct arena *arena, const char *text)
{
    size_t n = strlen(text), size = 3 * n + 1;
    char *out = arena_alloc(arena, size);
    if (out) clean_block(out, size, text, n);
    return out ? out : "?";
}

const char *clean_line_new(struct arena *arena, const char *text)
{
    size_t size = 3 * strlen(text) + 1;
    char *out = arena_alloc(arena, size);
    if (out) clean_line(out, size, text);
    return out ? out : "?";
}
