/* Reading a configuration from the words of a command. */
#ifndef ANNEAL_TUI_COMMAND_TRAIN_H
#define ANNEAL_TUI_COMMAND_TRAIN_H

#include "core/base/options.h"
#include "core/model/config.h"

/* The option --device. */
#define DEVICE_WORDS "auto|cpu|cuda|cuda:N"

/* The defaults, the file that the first word names, where there is one, and the settings on top; finished.
 * Relative paths of an existing corpus, tokenizer or model become absolute. */
enum status train_read_config(const struct words *words, struct config *config, struct err *err);

#endif
