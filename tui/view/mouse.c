/* See mouse.h. */
#include "tui/view/mouse.h"

#include <stdio.h>

#include "tui/view/keys.h"

const char mouse_on[] = "\033[?1003h\033[?1006h", mouse_off[] = "\033[?1006l\033[?1003l";

uint32_t mouse_read(const char *report, struct pointer *at)
{
    enum { BUTTON = 3, SHIFT_META_CTRL = 4 | 8 | 16, MOTION = 32, WHEEL = 64, NO_BUTTON = 3, MOST = 1 << 15 };
    unsigned bits, x, y;
    char end, rest;
    /* widths keep the numbers small */
    if (sscanf(report, "%4u;%5u;%5u%c%c", &bits, &x, &y, &end, &rest) != 4 || (end != 'M' && end != 'm'))
        return K_REPORT;
    if (x < 1 || y < 1 || x > MOST || y > MOST || bits >= 2 * WHEEL || end == 'm') return K_REPORT;
    unsigned button = bits & BUTTON;
    struct pointer to = {(int)x - 1, (int)y - 1, 0};
    uint32_t code = K_REPORT;
    if (bits & SHIFT_META_CTRL)
        code = K_REPORT; /* the terminal's own, to select text */
    else if (bits & WHEEL)
        code = button < 2 ? K_WHEEL : K_REPORT;
    else if (bits & MOTION)
        code = button == NO_BUTTON ? K_MOVE : button == 0 ? K_DRAG : K_REPORT;
    else if (button == 0)
        code = K_CLICK;
    if (code == K_WHEEL) to.wheel = button ? 1 : -1;
    if (code != K_REPORT) *at = to;
    return code;
}
