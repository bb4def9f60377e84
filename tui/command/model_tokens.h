/* Part of `anneal model`, and private to it. */
#ifndef ANNEAL_TUI_COMMAND_MODEL_TOKENS_H
#define ANNEAL_TUI_COMMAND_MODEL_TOKENS_H

#include "tui/command/command.h"

extern const struct command model_add_tokens;

#endif
