/* Reports of the mouse in the encoding of xterm's mode 1006 (SGR): decimal numbers, so that no coordinate is
 * too large. Terminals send them over ssh, too, and tmux and screen pass them on. */
#ifndef ANNEAL_TUI_MOUSE_H
#define ANNEAL_TUI_MOUSE_H

#include <stdint.h>

enum { MOUSE_REPORT_MAX = 32 };

/* Where the pointer is, in cells from the upper left corner. */
struct pointer {
    int x, y;
    int wheel; /* of K_WHEEL: -1 away from the user, 1 towards it */
};

/* Asks a terminal for reports of buttons, wheel and movements, and ends them. */
extern const char mouse_on[], mouse_off[];

/* Reads the bytes after "ESC [ <", such as "0;17;4M". Returns K_MOVE, K_CLICK, K_DRAG or K_WHEEL, and sets
 * *at; K_REPORT for buttons that mean nothing here, and for what is no report: *at is then as it was. */
uint32_t mouse_read(const char *report, struct pointer *at);

#endif
