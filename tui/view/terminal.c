/* See terminal.h. The questions are those of xterm ("XTerm Control Sequences": OSC 11, DSR 6), which
 * most terminals answer. */
#include "tui/view/terminal.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static bool begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

const char *terminal_stand_in(const char *term)
{
    static const char *const like_xterm[] = {"xterm-",  "alacritty", "ghostty", "kitty",   "foot",
                                             "wezterm", "rio",       "contour", "konsole", "vte",
                                             "mintty",  "st-",       "iterm"};
    if (!term) return NULL;
    if (begins(term, "tmux") || begins(term, "screen")) return "screen-256color";
    for (size_t i = 0; i < sizeof like_xterm / sizeof *like_xterm; i++)
        if (begins(term, like_xterm[i])) return "xterm-256color";
    return NULL;
}

bool terminal_takes_questions(const char *term)
{
    return term && (terminal_stand_in(term) || begins(term, "xterm") || begins(term, "rxvt"));
}

/* One of three parts, of one to four hexadecimal digits, as a fraction. */
static bool read_part(const char **at, double *out)
{
    double value = 0, most = 0;
    for (int digits = 0; digits < 4 && strchr("0123456789abcdefABCDEF", **at) && **at; digits++, (*at)++) {
        int digit = **at <= '9' ? **at - '0' : (**at | 0x20) - 'a' + 10;
        value = value * 16 + digit, most = most * 16 + 15;
    }
    *out = most > 0 ? value / most : 0;
    return most > 0;
}

bool terminal_read_background(const char *answer, enum background *out)
{
    double red, green, blue;
    const char *at = strchr(answer, ':');
    if (!begins(answer, "11;rgb") || !at++) return false;
    if (!read_part(&at, &red) || *at++ != '/' || !read_part(&at, &green) || *at++ != '/' ||
        !read_part(&at, &blue))
        return false;
    *out = 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 ? BACKGROUND_LIGHT : BACKGROUND_DARK;
    return true;
}

bool terminal_read_colorfgbg(const char *value, enum background *out)
{
    const char *last = value ? strrchr(value, ';') : NULL;
    char *end;
    if (!last || last[1] < '0' || last[1] > '9') return false;
    long colour = strtol(last + 1, &end, 10);
    if (*end || colour > 15) return false;
    *out = colour == 7 || colour > 8 ? BACKGROUND_LIGHT : BACKGROUND_DARK;
    return true;
}

bool terminal_locale_is_open(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value) return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return true;
}

/* Reads where the cursor is, "ESC [ ROW ; COLUMN R". What comes before it, or without it in time, is left in
 * `typed`. Returns the column; 0: there was no answer. */
static int read_column(int in, char typed[TERMINAL_TYPED_MAX])
{
    enum { WAIT_MS = 200 };
    struct pollfd fd = {in, POLLIN, 0};
    int row, column;
    char end;
    for (size_t n = 0; n + 1 < TERMINAL_TYPED_MAX && poll(&fd, 1, WAIT_MS) == 1; typed[++n] = '\0') {
        if (read(in, typed + n, 1) != 1) break;
        typed[n + 1] = '\0';
        char *answer = strrchr(typed, '\033');
        if (!answer || sscanf(answer, "\033[%d;%d%c", &row, &column, &end) != 3 || end != 'R') continue;
        *answer = '\0';
        return column;
    }
    return 0;
}

bool terminal_shows_utf8(int in, int out, char typed[TERMINAL_TYPED_MAX])
{
    static const char ask[] = "\r\xC3\xA9\033[6n", clear[] = "\r  \r";
    struct termios old, raw;
    int column = 0;
    typed[0] = '\0';
    if (tcgetattr(in, &old) != 0) return false;
    raw = old;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1, raw.c_cc[VTIME] = 0;
    if (tcsetattr(in, TCSANOW, &raw) != 0) return false;
    bool asked = write(out, ask, sizeof ask - 1) == (ssize_t)sizeof ask - 1;
    if (asked) column = read_column(in, typed);
    if (asked && write(out, clear, sizeof clear - 1) < 0) { /* ignore the failure */
    }
    tcsetattr(in, TCSANOW, &old);
    return column == 2;
}
