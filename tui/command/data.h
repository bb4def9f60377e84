/* Shared by the files of `anneal data`, and private to them. */
#ifndef ANNEAL_TUI_COMMAND_DATA_H
#define ANNEAL_TUI_COMMAND_DATA_H

#include "datasets/tokenizer.h"
#include "tui/command/command.h"

/* A token as text on one line: a backslash, control characters and what is not UTF-8 as escapes. tokenizer
 * NULL: "". Returns buf. */
char *data_spell(const struct tokenizer *tokenizer, uint32_t id, char *buf, size_t size);

extern const struct command data_show;

#endif
