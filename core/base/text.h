/* Small pieces of text handling that every module needs. */
#ifndef ANNEAL_CORE_BASE_TEXT_H
#define ANNEAL_CORE_BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/arena.h"

/* The entry of `names` (count of them) nearest to `word` by edit distance in any case; NULL: none is near
 * enough to be worth suggesting (more than a third of the letters differ, in short ones more than one), and
 * not just one begins with the two or more letters of `word`. */
const char *text_nearest(const char *word, const char *const *names, size_t count);

/* Writes "; did you mean \"NEAREST\"?" to buf, the end of a message about an unknown word; "" for NULL.
 * Returns buf. */
char *text_did_you_mean(const char *nearest, char *buf, size_t size);
#define DID_YOU_MEAN(nearest) text_did_you_mean(nearest, (char[128]){0}, 128)

/* The place, from 0, of a word of n bytes in a text of words with one blank between; -1: it is not there. */
int text_word_index(const char *words, const char *word, size_t n);

/* Takes the next name of a list with commas between, without the blanks around it, cut to `size`; *rest is
 * then after it. False: there is none. */
bool text_next_name(const char **rest, char *name, size_t size);

/* "512 B", "3.4 KiB", "1.2 GiB". Returns buf. */
char *text_format_bytes(uint64_t bytes, char *buf, size_t size);

/* A part of 1 in whole percent, rounded down: of 0.58 it is 58, though 0.58 * 100 is a bit less in a double.
 */
static inline int text_percent(double part)
{
    return (int)(part * 100 + 1e-9);
}

/* "950", "12.3k", "4.10M", "1.2B": three significant digits. Returns buf. */
char *text_format_count(double count, char *buf, size_t size);

/* Three significant digits, but whole numbers in full: "0.0123", "12.3", "12346". Returns buf. */
char *text_format_short(double number, char *buf, size_t size);

/* "1162123" with separators: "1,162,123". Returns buf. */
char *text_format_number(uint64_t number, char *buf, size_t size);

/* "" for 1, else "s": "1 token", "0 tokens". */
const char *text_plural(int64_t count);

/* Appends to the text in `buf`, after `between` unless that text is empty; cuts off what does not fit. */
void text_add(char *buf, size_t size, const char *between, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Quotes a word for a shell: unchanged, or in single quotes. Cut if it does not fit. Returns buf. */
char *text_quote(const char *word, char *buf, size_t size);

/* This program as its user called it, by a path or by a name on PATH, for the commands that messages suggest:
 * "build/anneal", quoted where a shell needs that; "anneal" if it has no name or a very long one. Returns
 * buf. */
char *text_program(char *buf, size_t size);
#define TEXT_PROGRAM text_program((char[512]){0}, 512)

/* Cuts white space off both ends, in place. Returns where the rest begins. */
char *text_trim(char *text);

/* How many of the first bytes of text[0..n) are blanks, tabs and ends of lines. */
size_t text_blanks(const char *text, size_t n);

bool text_ends_with(const char *text, const char *end);

/* Parses a decimal number as strtoll/strtod do, also "1e4", "nan" and "inf"; false unless the whole word is
 * one, without blanks. */
bool text_parse_int(const char *word, int64_t *out);
bool text_parse_double(const char *word, double *out);

/* Bytes, or a number with a unit: "1048576", "24GiB", "1.5 GB", "512m" (K M G T are powers of 1,024, as are
 * KiB …; kB, MB, GB, TB are powers of 1,000; case is ignored). False for anything else, for 0, and beyond
 * 2^62. */
bool text_parse_bytes(const char *word, size_t *out);

/* A count: "1000000", "33.5M", "10B", "1.5e9" (k, M, B and T are powers of 1,000; case is ignored), at least
 * 1 and at most 1e18. */
bool text_parse_count(const char *word, double *out);

/* A rate of a network, in bytes per second: "400Gb/s", "400Gbit/s" and "400Gbps" count bits, "50GB/s" bytes
 * (k M G T are powers of 1,000; here the case of b matters). */
bool text_parse_rate(const char *word, double *out);

/* The shortest decimal that reads back as the same double; "nan", "inf" and "-inf"; always with '.', whatever
 * the locale. A buffer of 32 bytes is enough. Returns buf. */
char *text_format_double(double value, char *buf, size_t size);

/* A loss for lines and tables: four decimals, below 0.001 and from a million on "5.00e-28", or "nan"
 * (whatever its sign), "inf", "-inf". Returns buf. */
char *text_format_loss(double loss, char *buf, size_t size);

/* The same formats in an array of the enclosing block: for an argument of printf. */
#define TEXT_BYTES(bytes)   text_format_bytes((uint64_t)(bytes), (char[32]){0}, 32)
#define TEXT_COUNT(count)   text_format_count((double)(count), (char[32]){0}, 32)
#define TEXT_SHORT(number)  text_format_short(number, (char[32]){0}, 32)
#define TEXT_NUMBER(number) text_format_number((uint64_t)(number), (char[32]){0}, 32)
#define TEXT_LOSS(loss)     text_format_loss(loss, (char[32]){0}, 32)

/* In a variadic function: formats the arguments after its last parameter `format` into the array `buf`. */
#define TEXT_FORMAT(buf, format)                                                                             \
    do {                                                                                                     \
        va_list args_;                                                                                       \
        va_start(args_, format);                                                                             \
        vsnprintf(buf, sizeof(buf), format, args_);                                                          \
        va_end(args_);                                                                                       \
    } while (0)

/* ---- UTF-8 (RFC 3629): characters, and where text may be cut ---- */

/* The length of the well-formed character at the start of text[0..n), its code point in *point; 0 if there is
 * none (surrogates, overlong forms and code points beyond U+10FFFF are malformed). A NUL is a character. */
size_t utf8_character(const char *text, size_t n, uint32_t *point);

/* The length of the well-formed character that ends text[0..n), its code point in *point; 0 if there is none.
 */
size_t utf8_last_character(const char *text, size_t n, uint32_t *point);

/* How many bytes at the start of text[0..n), where there is no well-formed character, one U+FFFD stands for:
 * the longest beginning of a character, else one byte (The Unicode Standard, 3.9: "maximal subparts"; Python,
 * Hugging Face's tokenizers and browsers do the same). */
size_t utf8_malformed_bytes(const char *text, size_t n);

/* How many of the first bytes of text[0..n) are whole, well-formed characters. ASCII passes eight bytes at a
 * time. */
size_t utf8_valid_bytes(const char *text, size_t n);

/* The length of the byte-order mark that text[0..n) begins with: 3, or 0 if there is none. */
size_t utf8_mark(const char *text, size_t n);

/* How many of the last bytes (0 to 3) begin an incomplete character. */
size_t utf8_incomplete_tail(const char *text, size_t n);

/* Where to cut a text that continues after its first n bytes (text[n] is read): n, or less, so that no
 * character is split. */
size_t utf8_cut(const char *text, size_t n);

/* Characters that a terminal obeys: controls (U+0000 to U+001F, U+007F to U+009F), and those that change the
 * direction of text and so its visible order, such as U+202E. */
bool utf8_is_control(uint32_t point);

/* ---- text for a terminal ----
 *
 * Samples, names, messages and results come from models and from a database that anybody may have written;
 * printed raw they could move the cursor, change colours, retitle the window or show words in another order.
 * A clean text is valid UTF-8 in which each control character (utf8_is_control) and each byte that is not
 * UTF-8 is U+FFFD. JSON does its own escaping. */

/* Newlines and tabs stay; an incomplete character at the end is dropped. Writes at most size - 1 bytes, cut
 * between characters, and a NUL (nothing when size is 0); returns the length. 3·n + 1 bytes hold any
 * result. */
size_t clean_block(char *out, size_t size, const char *bytes, size_t n);

/* Writes n bytes of text as a clean block, of any length. */
void clean_print(FILE *out, const char *bytes, size_t n);
/* The same if `out` is a terminal. A file or a pipe gets the bytes as they are: a program may read them. */
void clean_print_raw(FILE *out, const char *bytes, size_t n);

/* One line: newlines and tabs become spaces. */
char *clean_line(char *out, size_t size, const char *text); /* returns out */
/* The same for a line of at most 8 KiB, in an array of the enclosing block: for an argument of printf. */
#define CLEAN_LINE(text) clean_line((char[8192]){0}, 8192, text)

/* Writes the last line of a text that is not empty, as clean_line, without "anneal: " before it: what a
 * command has said in the end. Returns whether it had these words; "": there is no such line. */
bool text_last_line(const char *text, size_t n, char *buf, size_t size);

/* The same without a length limit, in `arena`; "?" when memory runs out. */
const char *clean_block_new(struct arena *arena, const char *text);
const char *clean_line_new(struct arena *arena, const char *text);

/* Makes a name that may also be the name of a file of the n bytes of `text`: letters, digits, - and, but for
 * the first one, dots stay; all other bytes become _. Cut to `size`. Returns buf. */
char *text_plain_name(const char *text, size_t n, char *buf, size_t size);

/* Closes a stream of open_memstream, of which `text` is the text: false if `stream` is NULL or memory ran
 * out, and then *text is freed and NULL. fclose alone does not say so when it cannot make room for the last
 * bytes. */
bool text_stream_end(FILE *stream, char **text);

#endif
