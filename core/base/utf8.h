/* UTF-8 (RFC 3629): which bytes are characters, and where text may be cut. */
#ifndef ANNEAL_CORE_BASE_UTF8_H
#define ANNEAL_CORE_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes of the well-formed character that text[0..n) begins with, its code point in *point; 0 where there
 * is none (surrogates, overlong forms and what lies beyond U+10FFFF are none). A NUL is a character. */
size_t utf8_character(const char *text, size_t n, uint32_t *point);

/* How many of the first bytes of text[0..n) are whole, well-formed characters. ASCII passes eight bytes at a
 * time. */
size_t utf8_valid_bytes(const char *text, size_t n);

/* How many of the last bytes (0 to 3) begin a character that is not complete yet. */
size_t utf8_incomplete_tail(const char *text, size_t n);

/* Where to cut a text that goes on after its first n bytes (text[n] is read): n, or less, so that no
 * character is cut in two. */
size_t utf8_cut(const char *text, size_t n);

/* Control characters: U+0000 to U+001F and U+007F to U+009F. A terminal obeys them instead of showing them.
 */
bool utf8_is_control(uint32_t point);

#endif
