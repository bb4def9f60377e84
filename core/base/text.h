/* Small pieces of text handling that every module needs. */
#ifndef ANNEAL_CORE_BASE_TEXT_H
#define ANNEAL_CORE_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
