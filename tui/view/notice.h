/* Notices about runs for a user who looks elsewhere: a bell, or a message of the desktop. Off unless the
 * setting "notify" says otherwise. */
#ifndef ANNEAL_TUI_NOTICE_H
#define ANNEAL_TUI_NOTICE_H

#include "runs/run.h"

enum notice_kind { NOTICE_OFF, NOTICE_BELL, NOTICE_OSC9, NOTICE_OSC777 };

extern const char *const notice_words[]; /* "off", "bell", … NULL */

/* The runs that trained at the last look, and how they stood. */
struct notice {
    struct notice_run {
        char id[RUN_ID_MAX];
        bool paused, diverged;
    } * runs;
    size_t count, capacity;
};

/* Compares the runs with those of the last look. Where one that trained has ended, diverged or is paused
 * since, `text` says so of the first, and how many more there are. A store that cannot be read gives no
 * notice. */
void notice_look(struct notice *notice, struct store *store, char *text, size_t size);
void notice_release(struct notice *notice); /* empties it */

/* The bytes that give the notice on a terminal; without control characters of the text. Returns buf. */
char *notice_bytes(enum notice_kind kind, const char *text, char *buf, size_t size);

#endif
