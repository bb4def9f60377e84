/* Settings that the workbench remembers between starts, in $ANNEAL_HOME/workbench.ini: lines "key = value".
 * Lines that it does not know, comments and their order are preserved. */
#ifndef ANNEAL_TUI_SETTINGS_H
#define ANNEAL_TUI_SETTINGS_H

#include "core/base/arena.h"
#include "core/base/err.h"

struct settings {
    struct arena arena;
    struct setting {
        char *key, *value; /* key NULL: a line that is no setting, kept as it is in `value` */
        bool changed;
    } * lines;
    size_t count, capacity;
    char home[4096];
    bool refused; /* the file is too long, or no text: it is never written */
};

/* Reads the file below `home`. A file that is missing, unreadable or too long to be one gives no settings. */
void settings_open(struct settings *settings, const char *home);

/* The value of a key; "": it is empty or not set. Valid until the key is set again. */
const char *settings_get(const struct settings *settings, const char *key);

/* Whether a key is set and has this value. */
bool settings_has(const struct settings *settings, const char *key, const char *value);

/* Values are one line; other values and memory that runs out leave the setting as it was. */
void settings_set(struct settings *settings, const char *key, const char *value);

/* Changes a choice and remembers it as "yes" or "no". */
void settings_toggle(struct settings *settings, const char *key, bool *choice);

/* Writes the settings that have changed, atomically, into the file as it is now, which another workbench may
 * have written meanwhile; then releases them. */
enum status settings_close(struct settings *settings, struct err *err);

#endif
