/* See text.h. */
#include "core/base/text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { WORD_MAX = 64 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* How many letters are inserted, deleted, replaced or swapped with a neighbour (optimal string alignment). */
static size_t edit_distance(const char *a, size_t na, const char *b, size_t nb)
{
    size_t rows[3][WORD_MAX + 1], *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= nb; j++) last[j] = j;
    for (size_t i = 1; i <= na; i++) {
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            row[j] = least(last[j - 1] + !same_letter(a[i - 1], b[j - 1]), least(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]))
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
        size_t m = strlen(names[i]), longer = m > n ? m - n : n - m; /* as many edits at least */
        if (m > WORD_MAX || longer >= best) continue;
        size_t distance = edit_distance(word, n, names[i], m);
        if (distance < best) {
            best = distance;
            nearest = names[i];
        }
    }
    if (nearest || n < 2) return nearest;
    for (size_t i = 0; i < count; i++) {
        if (strncmp(names[i], word, n) != 0) continue;
        if (nearest) return NULL; /* several begin so */
        nearest = names[i];
    }
    return nearest;
}

char *text_did_you_mean(const char *nearest, char *buf, size_t size)
{
    *buf = '\0';
    if (nearest) snprintf(buf, size, "; did you mean \"%s\"?", nearest);
    return buf;
}

int text_word_index(const char *words, const char *word, size_t n)
{
    for (int index = 0; *words; index++) {
        size_t length = strcspn(words, " ");
        if (length == n && memcmp(words, word, n) == 0) return index;
        words += length + (words[length] == ' ');
    }
    return -1;
}

bool text_next_name(const char **rest, char *name, size_t size)
{
    *rest += strspn(*rest, ", \t");
    size_t n = strcspn(*rest, ","), trimmed = n;
    while (trimmed && strchr(" \t", (*rest)[trimmed - 1])) trimmed--;
    snprintf(name, size, "%.*s", (int)trimmed, *rest);
    *rest += n;
    return n > 0;
}

char *text_format_bytes(uint64_t bytes, char *buf, size_t size)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    int u = 0;
    for (; value >= 1023.95 && u < 6; u++) value /= 1024;
    snprintf(buf, size, u ? "%.1f %s" : "%.0f %s", value, unit[u]);
    return buf;
}

const char *text_plural(int64_t count)
{
    return count == 1 ? "" : "s";
}

void text_add(char *buf, size_t size, const char *between, const char *format, ...)
{
    size_t used = strlen(buf);
    va_list arguments;
    used += (size_t)snprintf(buf + used, size - used, "%s", used ? between : "");
    if (used >= size) return;
    va_start(arguments, format);
    vsnprintf(buf + used, size - used, format, arguments);
    va_end(arguments);
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
    for (; value >= 999.5 && u < 4; u++) value /= 1000;
    int decimals = u == 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    snprintf(buf, size, u ? "%s%.*f%c" : "%s%.*f", count < 0 ? "-" : "", decimals, value, unit[u]);
    return buf;
}

char *text_format_short(double number, char *buf, size_t size)
{
    bool whole = fabs(number) >= 999.5 && fabs(number) < 1e15;
    snprintf(buf, size, whole ? "%.0f" : "%.3g", number);
    return buf;
}

char *text_quote(const char *word, char *buf, size_t size)
{
    bool plain = *word && !word[strcspn(word, " \t\n'\"\\$`!&|;<>()[]{}*?~#")];
    size_t used = 0;
    buf[0] = '\0';
    if (plain || size < 3) {
        snprintf(buf, size, "%s", word);
        return buf;
    }
    buf[used++] = '\'';
    for (; *word && used + 6 < size; word++) /* "'\''", the closing quote, the end */
        if (*word == '\'')
            used = (size_t)(stpcpy(buf + used, "'\\''") - buf);
        else
            buf[used++] = *word;
    snprintf(buf + used, size - used, "'");
    return buf;
}

char *text_program(char *buf, size_t size)
{
    const char *called = program_invocation_name; /* argv[0], kept by the C library */
    bool fits = *called && 4 * strlen(called) + 3 < size;
    return text_quote(fits ? called : "anneal", buf, size);
}

char *text_trim(char *text)
{
    while (isspace((unsigned char)*text)) text++;
    size_t n = strlen(text);
    while (n && isspace((unsigned char)text[n - 1])) n--;
    text[n] = '\0';
    return text;
}

size_t text_blanks(const char *text, size_t n)
{
    size_t count = 0;
    while (count < n && text[count] && strchr(" \t\r\n", text[count])) count++;
    return count;
}

bool text_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* strtod without what nobody means to type: *end is `word` where a blank stands before the number, and for
 * "0x10" and "nan(1)". */
static double read_decimal(const char *word, char **end)
{
    double value = strtod(word, end);
    size_t n = (size_t)(*end - word);
    if (isspace((unsigned char)*word) || memchr(word, 'x', n) || memchr(word, 'X', n) || memchr(word, '(', n))
        *end = (char *)word;
    return value;
}

/* "1e4", as people write large numbers. */
static bool parse_exponent(const char *word, int64_t *out)
{
    double value;
    if (!text_parse_double(word, &value)) return false;
    if (!(fabs(value) <= 1LL << 53) || value != trunc(value)) return false;
    *out = (int64_t)value;
    return true;
}

bool text_parse_int(const char *word, int64_t *out)
{
    char *end;
    errno = 0;
    long long value = strtoll(word, &end, 10);
    if (end == word || errno || isspace((unsigned char)*word)) return false;
    if (*end) return strpbrk(end, "eE") && parse_exponent(word, out);
    *out = value;
    return true;
}

bool text_parse_bytes(const char *word, size_t *out)
{
    static const char units[] = "kmgt";
    char *end;
    if (*word < '0' || *word > '9') return false;
    double value = read_decimal(word, &end), base = 1024;
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

/* The number at the start of `word`, times the power of 1,000 that a letter of `units` behind it means; *end
 * is what follows. */
static bool parse_thousands(const char *word, const char *units, double *out, char **end)
{
    if (*word < '0' || *word > '9') return false;
    *out = read_decimal(word, end);
    while (**end == ' ') ++*end;
    const char *unit = **end ? strchr(units, **end | 0x20) : NULL;
    if (!unit) return true;
    for (const char *u = units; u <= unit; u++) *out *= 1000;
    ++*end;
    return true;
}

bool text_parse_count(const char *word, double *out)
{
    char *end;
    double value;
    if (!parse_thousands(word, "kmbt", &value, &end) || *end || !(value >= 1 && value <= 1e18)) return false;
    *out = value;
    return true;
}

bool text_parse_rate(const char *word, double *out)
{
    static const struct {
        const char *unit;
        double bytes;
    } units[] = {{"b/s", 0.125}, {"bit/s", 0.125}, {"bps", 0.125}, {"B/s", 1}};
    char *end;
    double value;
    if (!parse_thousands(word, "kmgt", &value, &end)) return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].unit) == 0 && value > 0 && value <= 1e18) {
            *out = value * units[i].bytes;
            return true;
        }
    return false;
}

bool text_parse_double(const char *word, double *out)
{
    char *end;
    errno = 0;
    double value = read_decimal(word, &end);
    if (end == word || *end || (errno == ERANGE && fabs(value) > 1)) return false;
    *out = value;
    return true;
}

/* ---- doubles ---- */

__extension__ typedef unsigned __int128 uint128;

/* floor(power · c / 2^128), with the lowest bit set if the part below was not zero. */
static uint64_t scale(uint128 power, uint64_t c)
{
    uint128 low = (uint128)(uint64_t)power * c, high = (uint128)(uint64_t)(power >> 64) * c;
    high += low >> 64;
    return (uint64_t)(high >> 64) | ((uint64_t)high > 1);
}

/* Finds value = digits · 10^exponent: the shortest decimal that rounds to `value` (positive), and of these
 * the closest. False if the value is too large or too small for the method, Raffaello Giulietti's ("The
 * Schubfach way to render doubles", 2020). It scales by a power of ten, here one whose power of five fits 128
 * bits, so that the interval that rounds to the value is between 1 and 10 wide; the answer is the only
 * multiple of ten in it, or one of two neighbours. Powers rounded to odd keep comparisons exact. */
static bool shortest(double value, uint64_t *digits, int *exponent)
{
    uint64_t bits, mantissa;
    memcpy(&bits, &value, sizeof bits);
    mantissa = bits & (((uint64_t)1 << 52) - 1);
    int biased = (int)(bits >> 52), q = biased - 1075;
    bool closer = mantissa == 0; /* the neighbour below is half as far away */
    int k = (q * 1262611 - (closer ? 524031 : 0)) >> 22, h = q + ((-k * 1741647) >> 19) + 1;
    if (biased < 2 || k > 0 || k < -54) return false;
    uint64_t c = mantissa | (uint64_t)1 << 52, odd = c % 2; /* the ends round to an even mantissa only */
    uint128 power = 1, square = 5;
    for (int left = -k; left; left /= 2, square *= square)
        if (left % 2) power *= square;
    uint64_t top = (uint64_t)(power >> 64);
    power <<= top ? __builtin_clzll(top) : 64 + __builtin_clzll((uint64_t)power);
    uint64_t lower = scale(power, (4 * c - 2 + closer) << h) + odd, middle = scale(power, (4 * c) << h),
             upper = scale(power, (4 * c + 2) << h) - odd, s = middle / 4, tens = s / 10;
    bool down = lower <= 40 * tens, up = 40 * tens + 40 <= upper, fewer = s >= 10 && down != up;
    if (!fewer) {
        down = lower <= 4 * s, up = 4 * s + 4 <= upper;
        if (down == up) up = middle > 4 * s + 2 || (middle == 4 * s + 2 && s % 2 == 1);
    }
    *digits = fewer ? tens + up : s + up;
    *exponent = k + fewer;
    for (; *digits % 10 == 0; ++*exponent) *digits /= 10;
    return true;
}

/* Like printf's %g with just enough digits, of a number with a fraction or of at least 10^16: 1e-05, 0.0001,
 * 12.5, 1e+16. */
static void lay_out(uint64_t number, int exponent, char text[32])
{
    char digits[24] = "", *first = digits + sizeof digits - 1;
    for (; number; number /= 10) *--first = (char)('0' + number % 10);
    int n = (int)(digits + sizeof digits - 1 - first), point = n + exponent;
    if (point > 0 && point < n) { /* the common case: a million steps hold nine million such numbers */
        memcpy(text, first, (size_t)point);
        text[point] = '.';
        memcpy(text + point + 1, first + point, (size_t)(n - point + 1));
    } else if (point > 0 || point < -3)
        snprintf(text, 32, "%c%s%se%+03d", *first, n > 1 ? "." : "", first + 1, point - 1);
    else
        snprintf(text, 32, "0.%.*s%s", -point, "000", first);
}

char *text_format_double(double value, char *buf, size_t size)
{
    char text[33] = "-";
    uint64_t digits;
    int exponent, precision = 1;
    if (isnan(value))
        strcpy(text, "nan");
    else if (value == rint(value) && fabs(value) < 1e16)
        snprintf(text, sizeof text, "%.0f", value);
    else if (isfinite(value) && shortest(fabs(value), &digits, &exponent))
        lay_out(digits, exponent, text + (value < 0));
    else
        do snprintf(text, sizeof text, "%.*g", precision, value);
        while (precision++ < 17 && strtod(text, NULL) != value);
    size_t n = strlen(text);
    if (n >= size) n = size - 1;
    memcpy(buf, text, n);
    buf[n] = '\0';
    return buf;
}

char *text_format_loss(double loss, char *buf, size_t size)
{
    if (!isfinite(loss)) return text_format_double(loss, buf, size);
    bool plain = loss == 0 || (fabs(loss) >= 0.001 && fabs(loss) < 1e6);
    snprintf(buf, size, plain ? "%.4f" : "%.2e", loss);
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

/* Whether the second byte may follow the first one. */
static inline bool is_second(const unsigned char *c)
{
    unsigned char low = c[0] == 0xE0 ? 0xA0 : c[0] == 0xF0 ? 0x90 : 0x80;
    unsigned char high = c[0] == 0xED ? 0x9F : c[0] == 0xF4 ? 0x8F : 0xBF;
    return c[1] >= low && c[1] <= high;
}

/* Inline, so that callers that need no code point do not pay for it. */
static inline size_t character(const char *text, size_t n, uint32_t *point)
{
    const unsigned char *c = (const unsigned char *)text;
    uint32_t lead = n ? c[0] : 0xFF;
    *point = lead;
    if (lead < 0x80) return 1;
    if (lead < 0xC2 || lead > 0xF4) return 0;
    size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (n < length || !is_second(c)) return 0;
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

size_t utf8_last_character(const char *text, size_t n, uint32_t *point)
{
    for (size_t length = 1; length <= 4 && length <= n; length++)
        if (character(text + n - length, length, point) == length) return length;
    return 0;
}

size_t utf8_malformed_bytes(const char *text, size_t n)
{
    const unsigned char *c = (const unsigned char *)text;
    if (n < 2 || c[0] < 0xC2 || c[0] > 0xF4 || !is_second(c)) return 1;
    size_t length = c[0] < 0xE0 ? 2 : c[0] < 0xF0 ? 3 : 4, i = 2;
    while (i < n && i < length && (c[i] & 0xC0) == 0x80) i++;
    return i;
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

size_t utf8_mark(const char *text, size_t n)
{
    return n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
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
    if (point < 0x20 || (point >= 0x7F && point < 0xA0)) return true;
    /* Unicode's property Bidi_Control */
    return point == 0x061C || point == 0x200E || point == 0x200F || (point >= 0x202A && point <= 0x202E) ||
           (point >= 0x2066 && point <= 0x2069);
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
        at += length ? length : utf8_malformed_bytes(bytes + at, n - at);
    }
    out[used] = '\0';
    return used;
}

void clean_print(FILE *out, const char *bytes, size_t n)
{
    char clean[1024];
    while (n) {
        size_t piece = n < sizeof clean / 4 ? n : sizeof clean / 4;
        size_t whole = piece - utf8_incomplete_tail(bytes, piece);
        if (!whole) whole = piece; /* at the end of a text that ends within a character */
        fwrite(clean, 1, clean_block(clean, sizeof clean, bytes, whole), out);
        bytes += whole;
        n -= whole;
    }
}

void clean_print_raw(FILE *out, const char *bytes, size_t n)
{
    if (isatty(fileno(out)))
        clean_print(out, bytes, n);
    else
        fwrite(bytes, 1, n, out);
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

char *text_plain_name(const char *text, size_t n, char *buf, size_t size)
{
    if (n >= size) n = size - 1;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        bool plain = c < 128 && (isalnum(c) || c == '-' || (c == '.' && i > 0));
        buf[i] = plain ? text[i] : '_';
    }
    buf[n] = '\0';
    return buf;
}

bool text_last_line(const char *text, size_t n, char *buf, size_t size)
{
    static const char prefix[] = "anneal: ";
    char line[1024];
    while (n > 0 && strchr("\r\n", text[n - 1])) n--;
    size_t from = n;
    while (from > 0 && text[from - 1] && !strchr("\r\n", text[from - 1])) from--;
    snprintf(line, sizeof line, "%.*s", (int)(n - from < sizeof line ? n - from : sizeof line), text + from);
    bool said = strncmp(line, prefix, sizeof prefix - 1) == 0;
    clean_line(buf, size, said ? line + sizeof prefix - 1 : line);
    return said;
}

bool text_stream_end(FILE *stream, char **text)
{
    bool written = stream && !ferror(stream);
    if (stream && fclose(stream) == 0 && written && *text) return true;
    if (stream) free(*text);
    *text = NULL;
    return false;
}
