/* A comparison as Markdown, for an issue, a report or a chat: tables in the form that GitHub's Markdown has.
 * Texts are escaped, so that a name or a setting cannot become markup. */
#ifndef ANNEAL_RUNS_EXCHANGE_EXPORT_MARKDOWN_H
#define ANNEAL_RUNS_EXCHANGE_EXPORT_MARKDOWN_H

#include "runs/comparison.h"

/* Writes to the file `path`, which is replaced as a whole or not at all; "-": standard output. */
enum status export_markdown(const struct comparison *comparison, const char *path, struct err *err);

#endif
