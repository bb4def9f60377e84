/* See utf8.h. */
#include "core/base/utf8.h"

#include <string.h>

size_t utf8_character(const char *text, size_t n, uint32_t *point)
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
        size_t length = utf8_character(text + i, n - i, &point);
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
