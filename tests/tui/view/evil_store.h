/* A store whose every column holds what nobody expects. */
#ifndef ANNEAL_TESTS_TUI_VIEW_EVIL_STORE_H
#define ANNEAL_TESTS_TUI_VIEW_EVIL_STORE_H

#include <stddef.h>

/* A fresh home named `name` with six runs, evil-0 to evil-5. The first and the last have hostile rows in
 * every table, one of them has a folder with checkpoints; the others have nothing, one step, ten million
 * steps, and a step beyond them. */
void evil_store(const char *name, char *home, size_t size);

#endif
