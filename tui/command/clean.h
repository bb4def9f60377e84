/* Moved to core/base/clean.h. */
#ifndef ANNEAL_TUI_COMMAND_CLEAN_H
#define ANNEAL_TUI_COMMAND_CLEAN_H

#include "core/base/clean.h"

#endif
