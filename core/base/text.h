/* Small pieces of text handling that every module needs. */
#ifndef ANNEAL_CORE_BASE_TEXT_H
#define ANNEAL_CORE_BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/arena.h"

/* The entry of `names` (count of them) nearest to `word` by edit distance, or NULL if none is near enough to
 * be worth suggesting (more than a third of the letters differ, in short ones more than one). */
const char *text_nearest(const char *word, const char *const *names, size_t count);

/* "512 B", "3.4 KiB", "1.2 GiB". Returns buf. */
char *text_format_bytes(uint64_t bytes, char *buf, size_t size);

/* "950", "12.3k", "4.10M", "1.2B": three significant digits. Returns buf. */
char *text_format_count(double count, char *buf, size_t size);

/* "1162123" with separators: "1,162,123". Returns buf. */
char *text_format_number(uint64_t number, char *buf, size_t size);

/* "" for 1, else "s": "1 token", "0 tokens". */
const char *text_plural(int64_t count);

bool text_ends_with(const char *text, const char *end);

/* The whole word is a number: true and *out is set. Accepts what strtoll/strtod accept, nothing after it. */
bool text_parse_int(const char *word, int64_t *out);
bool text_parse_double(const char *word, double *out);

/* Bytes, or a number with a unit: "1048576", "24GiB", "1.5 GB", "512m" (K M G T are powers of 1,024, as are
 * KiB …; kB, MB, GB, TB are powers of 1,000; case is ignored). False for anything else, for 0, and beyond
 * 2^62. */
bool text_parse_bytes(const char *word, size_t *out);

/* The shortest decimal that reads back as the same double; nan, inf and -inf spelled so. The locale is not
 * asked: always '.'. buf of 32 bytes is enough. Returns buf. */
char *text_format_double(double value, char *buf, size_t size);

/* A loss as lines and tables show it: four decimals; what is no number is "nan" (whatever its sign), "inf" or
 * "-inf". Returns buf. */
char *text_format_loss(double loss, char *buf, size_t size);

/* The same of any number, in an array of the enclosing block: for an argument of printf. */
#define TEXT_BYTES(bytes)   text_format_bytes((uint64_t)(bytes), (char[32]){0}, 32)
#define TEXT_COUNT(count)   text_format_count((double)(count), (char[32]){0}, 32)
#define TEXT_NUMBER(number) text_format_number((uint64_t)(number), (char[32]){0}, 32)
#define TEXT_LOSS(loss)     text_format_loss(loss, (char[32]){0}, 32)

/* In a function of variable arguments: formats those after its last parameter `format` into the array `buf`.
 */
#define TEXT_FORMAT(buf, format)                                                                             \
    do {                                                                                                     \
        va_list args_;                                                                                       \
        va_start(args_, format);                                                                             \
        vsnprintf(buf, sizeof(buf), format, args_);                                                          \
        va_end(args_);                                                                                       \
    } while (0)

/* ---- UTF-8 (RFC 3629): which bytes are characters, and where text may be cut ---- */

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

/* Control characters, which a terminal obeys: U+0000 to U+001F and U+007F to U+009F. */
bool utf8_is_control(uint32_t point);

/* ---- texts on their way to a terminal ----
 *
 * Samples, names, messages and results come from models and from a database that anybody may have written;
 * printed raw they could move the cursor, change colours or retitle the window. A clean text is valid UTF-8
 * in which each control character and each byte that is not UTF-8 is U+FFFD. JSON and CSV have rules of their
 * own and do not pass here. */

/* Newlines and tabs stay; a character that is incomplete at the end is left out. Writes at most size - 1
 * bytes, cut between characters, and a NUL (nothing when size is 0); returns the length. 3·n + 1 bytes hold
 * any result. */
size_t clean_block(char *out, size_t size, const char *bytes, size_t n);

/* One line: newlines and tabs become spaces. */
char *clean_line(char *out, size_t size, const char *text); /* returns out */
/* The same of a line of at most 8 KiB, in an array of the enclosing block: for an argument of printf. */
#define CLEAN_LINE(text) clean_line((char[8192]){0}, 8192, text)

/* The same as long as they need to be, in `arena`; "?" when memory is short. */
const char *clean_block_new(struct arena *arena, const char *text);
const char *clean_line_new(struct arena *arena, const char *text);

#endif
