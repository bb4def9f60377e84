/* A JSON value on standard output, indented: how every `--json` but that of --progress speaks (json_line.h).
 *
 * Always: reals are the shortest that read back as the same double, as in the CSV, and stay reals (5.0);
 * control characters are escaped, also those that jansson leaves (DEL and U+0080 to U+009F), so that a
 * recorded text cannot steer the terminal. Members keep the order in which they were set. */
#ifndef ANNEAL_TUI_JSON_DOCUMENT_H
#define ANNEAL_TUI_JSON_DOCUMENT_H

#include <jansson.h>
#include <stdbool.h>

/* Prints `value` and a newline. False when memory is short; whether standard output took it all is for the
 * caller to ask. `value` is of our own making: its depth is not limited here. */
bool json_document_print(const json_t *value);

#endif
