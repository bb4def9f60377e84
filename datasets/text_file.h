/* Text files, plain or compressed, read from the beginning to the end. The name says which: one that ends
 * with ".gz" is gzip (RFC 1952, also several members one after the other, as bgzip and pigz make them), one
 * that ends with ".zst" is Zstandard (RFC 8878, also several frames), any other is plain.
 *
 * Memory does not depend on what a file expands to: the reader holds the mapping of the file and one window
 * of the format, 32 KiB or at most 128 MiB. */
#ifndef ANNEAL_DATASETS_TEXT_FILE_H
#define ANNEAL_DATASETS_TEXT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct text_file;

/* Whether a name is that of a compressed file. */
bool text_file_compressed(const char *path);

/* STATUS_USAGE if it is, for a file that is not read through this header. */
enum status text_file_refuse_compressed(const char *path, struct err *err);

/* Whether a name is that of JSON Lines: it ends with ".jsonl" or ".ndjson", also before ".gz" and ".zst", or
 * with ".json" before one of these, as corpora are published; a plain ".json", as a folder of code has, is
 * one value. Case does not count. */
bool text_file_is_json_lines(const char *path);

/* STATUS_USAGE for a name of another archive, or of Parquet, whose bytes are no text; with the remedy. */
enum status text_file_refuse_archive(const char *path, struct err *err);

enum status text_file_open(const char *path, struct text_file **out, struct err *err);
void text_file_close(struct text_file *file); /* NULL is harmless */

/* Fills buf with the next bytes of the text: `size` of them, fewer only before its end; *n is how many.
 * STATUS_CORRUPT names the file for data that are damaged, cut off or in another format. */
enum status text_file_read(struct text_file *file, char *buf, size_t size, size_t *n, struct err *err);

/* The first bytes of a file's text, at most `size`; 0: it has none, or cannot be read, which fails later with
 * an error. */
size_t text_file_head(const char *path, char *head, size_t size);

/* Bytes of the file, compressed where it is, that have been read so far. */
uint64_t text_file_position(const struct text_file *file);

#endif
