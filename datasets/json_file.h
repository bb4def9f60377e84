/* JSON files, each with one object. json_lines.h reads files with an object a line, core/base/json_out.h
 * writes JSON piece by piece. */
#ifndef ANNEAL_DATASETS_JSON_FILE_H
#define ANNEAL_DATASETS_JSON_FILE_H

#include <jansson.h>
#include <stddef.h>

#include "core/base/err.h"

/* Reads the object in a file; `flags` are json_loadb's. Release *out with json_decref in any case: it is NULL
 * after a failure. STATUS_CORRUPT names the line. */
enum status json_file_read(const char *path, size_t flags, json_t **out, struct err *err);

/* The same for a file of a folder, which need not be there: then *out is NULL. */
enum status json_file_find(const char *folder, const char *name, size_t flags, json_t **out, struct err *err);

/* The text of a JSON value, ended by a newline. Reals have the fewest digits, from 15 to 17, that keep the
 * values of all of them, so that 1e-5 stays 1e-5. The caller frees it; NULL: no memory. */
char *json_file_text(const json_t *json, size_t flags);

/* Writes that text, atomically, and releases `json`. NULL: there was no memory for it. */
enum status json_file_write(const char *path, json_t *json, size_t flags, struct err *err);

#endif
