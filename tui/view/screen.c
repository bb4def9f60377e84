/* See screen.h. Signals arrive through a signalfd, so only the loop handles them and they never interrupt
 * curses; launch.c restores the old signal mask for children (trainers). */
#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <term.h>
/* term.h defines short names as macros, which clash with names below */
#undef lines
#undef columns

#include "tui/view/screen.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "tui/view/terminal.h"

enum { TICK_MS = 100 };
enum { ANSWER_SECONDS = 5, OSC_MAX = 64 }; /* how long an answer of the terminal may take; its bytes kept */

/* Codes for sequences that terminfo does not have as keys. */
enum { CODE_PASTE = KEY_MAX + 1, CODE_PASTE_END, CODE_OSC, CODE_OSC_END, CODE_MOUSE };

/* Bracketed paste: the terminal marks what is pasted, so that it can be told from keys. */
static const char paste_on[] = "\033[?2004h", paste_off[] = "\033[?2004l";

struct screen {
    SCREEN *terminal;
    WINDOW *keys;         /* never shown: reading stdscr would redraw it */
    int fd;               /* to ask for the size */
    const char *stand_in; /* the terminal that it is drawn as; NULL: that of TERM */
    enum glyph_level level;
    attr_t attr[ATTR_COUNT];
    attr_t style_attr[STYLE_COUNT];
    short pair[STYLE_COUNT];
    struct grid shown; /* the terminal's contents */
    cchar_t *row;      /* scratch, one row */
    bool all;          /* write every cell */
    int colours;       /* 0: none */
    enum background background;
    double asked;   /* when the terminal was asked for it; 0: not, or it has answered */
    bool answering; /* its answer has begun */
    char answer[OSC_MAX];
    size_t answer_bytes;
    bool mouse;      /* the terminal reports it */
    double reported; /* when a report of it began; 0: none has */
    char report[MOUSE_REPORT_MAX];
    size_t report_bytes;
    struct pointer pointer;
    char typed[TERMINAL_TYPED_MAX]; /* while the terminal was asked whether it shows UTF-8 */
    const char *next_typed;         /* the rest of it */
};

/* State for a signal handler, which gets no context, to restore the terminal. */
static struct {
    volatile sig_atomic_t armed;
    int fd;
    struct termios modes;
} rescue;

static const int fatal_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGQUIT};

static void restore_and_die(int number)
{
    static const char leave[] =
        "\033[?1006l\033[?1003l\033[?2004l\033[?1l\033>\033[?1049l\033[0m\033[?25h\r\n";
    if (rescue.armed) {
        rescue.armed = 0;
        tcsetattr(rescue.fd, TCSANOW, &rescue.modes);
        if (write(rescue.fd, leave, sizeof leave - 1) < 0) { /* ignore the failure */
        }
    }
    signal(number, SIG_DFL);
    raise(number);
}

static void arm_rescue(int fd)
{
    if (!isatty(fd) || tcgetattr(fd, &rescue.modes) != 0) return;
    rescue.fd = fd;
    rescue.armed = 1;
    for (size_t i = 0; i < sizeof fatal_signals / sizeof *fatal_signals; i++) {
        struct sigaction old;
        /* keep the handler of a sanitizer or debugger */
        if (sigaction(fatal_signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            signal(fatal_signals[i], restore_and_die);
    }
}

/* Chooses attributes and colours for the background. */
static void set_colours(struct screen *screen)
{
    short behind = screen->colours && use_default_colors() == OK ? -1 : COLOR_BLACK;
    for (int style = 0; style < STYLE_COUNT; style++) {
        bool faint = style == STYLE_DIM || style == STYLE_RULE;
        short colour = -1, pair = (short)(style + 1);
        if (screen->colours) colour = palette_colour(screen->background, screen->colours, (enum style)style);
        screen->style_attr[style] = screen->colours < 16 && faint ? A_DIM : A_NORMAL;
        screen->pair[style] = colour >= 0 && init_pair(pair, colour, behind) == OK ? pair : 0;
    }
    for (int bits = 0; bits < ATTR_COUNT; bits++)
        screen->attr[bits] = (bits & ATTR_BOLD ? A_BOLD : 0) | (bits & ATTR_REVERSE ? A_REVERSE : 0) |
                             (bits & ATTR_UNDERLINE ? A_UNDERLINE : 0);
    screen_forget(screen);
}

static int count_colours(void)
{
    const char *no_color = getenv("NO_COLOR");
    bool none = (no_color && *no_color) || !has_colors() || start_color() == ERR || COLORS < 8;
    return none ? 0 : COLORS;
}

/* Writes what changes no cell to the terminal, past curses. */
static void tell(const struct screen *screen, const char *bytes)
{
    if (write(screen->fd, bytes, strlen(bytes)) < 0) { /* ignore the failure */
    }
}

/* Chooses the colours: "dark" or "light", "none", or else those for the background of the terminal, which is
 * asked for it; its answer changes them when it comes. */
static void set_palette(struct screen *screen, const char *word)
{
    bool dark = strcmp(word, "dark") == 0, light = strcmp(word, "light") == 0;
    screen->colours = strcmp(word, "none") == 0 ? 0 : count_colours();
    screen->asked = 0;
    screen->background = light ? BACKGROUND_LIGHT : BACKGROUND_DARK;
    if (!dark && !light) {
        (void)terminal_read_colorfgbg(getenv("COLORFGBG"), &screen->background);
        if (screen->colours && terminal_takes_questions(getenv("TERM"))) {
            tell(screen, TERMINAL_ASK_BACKGROUND);
            screen->asked = clock_monotonic();
        }
    }
    set_colours(screen);
}

/* Defines keys of terminals that ignore the application mode of cursor keys, whatever terminfo has. */
static void define_cursor_keys(void)
{
    static const struct {
        const char *bytes;
        int key;
    } sequences[] = {
        {"\033[A", KEY_UP},    {"\033[B", KEY_DOWN}, {"\033[C", KEY_RIGHT}, {"\033[D", KEY_LEFT},
        {"\033OA", KEY_UP},    {"\033OB", KEY_DOWN}, {"\033OC", KEY_RIGHT}, {"\033OD", KEY_LEFT},
        {"\033[H", KEY_HOME},  {"\033[F", KEY_END},  {"\033OH", KEY_HOME},  {"\033OF", KEY_END},
        {"\033[1~", KEY_HOME}, {"\033[4~", KEY_END}, {"\033[Z", KEY_BTAB},
    };
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++)
        define_key(sequences[i].bytes, sequences[i].key);
    define_key("\033[200~", CODE_PASTE);
    define_key("\033[201~", CODE_PASTE_END);
    define_key("\033]", CODE_OSC);
    define_key(NULL, KEY_MOUSE); /* what terminfo has is another encoding */
    define_key("\033[<", CODE_MOUSE);
    define_key("\033\\", CODE_OSC_END);
}

/* Restores the terminal; refresh reclaims it. */
static void suspend(struct screen *screen)
{
    bool apart = exit_ca_mode != NULL; /* the terminal has an alternate screen for the workbench */
    tell(screen, paste_off);
    if (screen->mouse) tell(screen, mouse_off);
    endwin();
    if (!apart) tell(screen, "\r\n");
}

void screen_close(struct screen *screen)
{
    if (!screen) return;
    rescue.armed = 0;
    if (screen->keys)
        suspend(screen);
    else if (screen->terminal)
        endwin(); /* one that cannot place its cursor: curses has changed its modes, too */
    if (screen->keys) delwin(screen->keys);
    if (screen->terminal) delscreen(screen->terminal);
    grid_release(&screen->shown);
    free(screen->row);
    free(screen);
}

/* Opens the terminal of TERM or, where this system does not know it, another one that does as it does. */
static bool open_terminal(struct screen *screen, FILE *in, FILE *out, const char *term)
{
    screen->terminal = newterm(NULL, out, in);
    const char *stand_in = screen->terminal ? NULL : terminal_stand_in(term);
    if (stand_in && (screen->terminal = newterm(stand_in, out, in)) != NULL) screen->stand_in = stand_in;
    return screen->terminal && cursor_address && (screen->keys = newpad(1, 1)) != NULL;
}

/* Switches to UTF-8 where the terminal shows it and the locale does not forbid it. */
static void find_utf8(struct screen *screen, FILE *in, FILE *out, const char *term)
{
    if (strcmp(nl_langinfo(CODESET), "UTF-8") == 0 || !terminal_locale_is_open()) return;
    if (!term || strcmp(term, "dumb") == 0 || !isatty(fileno(in)) || !isatty(fileno(out))) return;
    if (terminal_shows_utf8(fileno(in), fileno(out), screen->typed)) setlocale(LC_CTYPE, "C.UTF-8");
}

enum status screen_open(FILE *in, FILE *out, struct screen **out_screen, struct err *err)
{
    const char *term = getenv("TERM");
    struct screen *screen = calloc(1, sizeof *screen);
    if (!screen) return err_no_memory(err, "the screen");
    screen->fd = fileno(out);
    find_utf8(screen, in, out, term);
    screen->next_typed = screen->typed;
    screen->level = glyph_level_detect(nl_langinfo(CODESET), term);
    screen->all = true;
    arm_rescue(screen->fd);
    if (!open_terminal(screen, in, out, term)) {
        screen_close(screen);
        return err_set(
            err, STATUS_FAILED,
            "the workbench cannot draw on a terminal \"%.64s\" (set TERM to one that terminfo knows and that "
            "can place its cursor, such as xterm-256color; `%s runs` needs none)",
            term ? term : "", TEXT_PROGRAM);
    }
    set_term(screen->terminal);
    raw(); /* Ctrl-C is a key, in its order among others: pasted text may hold one */
    noecho();
    nonl();
    curs_set(0);
    leaveok(stdscr, TRUE);
    scrollok(stdscr, FALSE);
    typeahead(-1); /* frames are short: finish each one before reading keys */
    keypad(screen->keys, TRUE);
    nodelay(screen->keys, TRUE);
    set_escdelay(25);
    define_cursor_keys();
    tell(screen, paste_on);
    screen->colours = count_colours();
    set_colours(screen);
    *out_screen = screen;
    return STATUS_OK;
}

void screen_forget(struct screen *screen)
{
    screen->all = true;
    clearok(curscr, TRUE);
}

static bool same(struct cell a, struct cell b)
{
    return a.glyph == b.glyph && a.style == b.style && a.attr == b.attr;
}

static void write_row(struct screen *screen, const struct cell *cells, int y, int width)
{
    int n = 0;
    for (int x = 0; x < width; x++) {
        if (cells[x].glyph == GRID_CONTINUATION) continue;
        wchar_t text[2] = {(wchar_t)cells[x].glyph, L'\0'};
        attr_t attr = screen->attr[cells[x].attr % ATTR_COUNT] | screen->style_attr[cells[x].style];
        setcchar(&screen->row[n++], text, attr, screen->pair[cells[x].style], NULL);
    }
    mvadd_wchnstr(y, 0, screen->row, n);
}

/* Passes only changed rows to curses, which finds the changed cells in them. */
void screen_show(struct screen *screen, const struct grid *grid)
{
    int w, h;
    struct err ignored;
    getmaxyx(stdscr, h, w);
    if (screen->shown.w != grid->w || screen->shown.h != grid->h) {
        cchar_t *row = realloc(screen->row, (size_t)grid->w * sizeof *row);
        if (row) screen->row = row;
        if (!row || grid_resize(&screen->shown, grid->w, grid->h, &ignored)) return;
        screen->all = true;
    }
    for (int y = 0; y < grid->h && y < h; y++) {
        const struct cell *new = grid->cells + (size_t)y *(size_t)grid->w;
        struct cell *old = screen->shown.cells + (size_t)y * (size_t)grid->w;
        int x = 0;
        while (!screen->all && x < grid->w && same(new[x], old[x])) x++;
        if (x == grid->w) continue;
        write_row(screen, new, y, grid->w < w ? grid->w : w);
        memcpy(old, new, (size_t)grid->w * sizeof *old);
    }
    screen->all = false;
    refresh();
}

/* Lets the terminal report the mouse, or keep it for itself. */
static void set_mouse(struct screen *screen, bool on)
{
    if (on != screen->mouse) tell(screen, on ? mouse_on : mouse_off);
    screen->mouse = on;
}

/* Discards the rest of an escape sequence unknown to terminfo, or the character of a key that was pressed
 * with Alt, which comes at once after the Escape: neither text nor a command. */
static bool swallow_sequence(struct screen *screen)
{
    wint_t key, next;
    int kind = wget_wch(screen->keys, &key);
    if (kind == KEY_CODE_YES && key == KEY_BACKSPACE) return true;
    if (kind == KEY_CODE_YES) ungetch((int)key);
    if (kind != OK) return false;
    if (key < ' ') {
        unget_wch((wchar_t)key);
        return false;
    }
    if (key != '[' && key != 'O') return true;
    while (wget_wch(screen->keys, &next) == OK && key == '[' && (next < 0x40 || next > 0x7E)) continue;
    return true;
}

/* Reads an answer of the terminal as far as it has come: it is no key. */
static bool take_answer(struct screen *screen)
{
    wint_t key;
    int kind;
    enum background found;
    while ((kind = wget_wch(screen->keys, &key)) != ERR) {
        bool end = kind == KEY_CODE_YES ? key == CODE_OSC_END : key == '\a';
        if (!end && kind == OK && screen->answer_bytes + 1 < OSC_MAX)
            screen->answer[screen->answer_bytes++] = (char)key;
        if (!end) continue;
        screen->answer[screen->answer_bytes] = '\0';
        screen->answering = false;
        if (!terminal_read_background(screen->answer, &found)) return true;
        screen->asked = 0;
        if (found != screen->background) {
            screen->background = found;
            set_colours(screen);
        }
        return true;
    }
    return false;
}

/* Reads a report of the mouse as far as it has come. */
static uint32_t take_report(struct screen *screen)
{
    wint_t key;
    while (wget_wch(screen->keys, &key) == OK) {
        bool part = (key >= '0' && key <= '9') || key == ';', end = key == 'M' || key == 'm';
        if ((!part && !end) || screen->report_bytes + 2 > MOUSE_REPORT_MAX) {
            screen->reported = 0;
            return K_REPORT;
        }
        screen->report[screen->report_bytes++] = (char)key;
        screen->report[screen->report_bytes] = '\0';
        if (!end) continue;
        screen->reported = 0;
        return mouse_read(screen->report, &screen->pointer);
    }
    return K_NONE;
}

static uint32_t key_of(wint_t character)
{
    if (character == '\n') return K_ENTER;
    if (character == '\b') return K_BACKSPACE;
    return character ? (uint32_t)character : K_OTHER;
}

/* Returns K_NONE if no key waits. Blocks only for the 25 ms that tell Escape from a sequence's start. */
static uint32_t next_key(struct screen *screen)
{
    wint_t key;
    if (*screen->next_typed == K_ESCAPE)
        screen->next_typed = ""; /* it may begin a sequence, which is no text */
    if (*screen->next_typed) return key_of(glyph_next(&screen->next_typed));
    if (screen->answering && clock_monotonic() > screen->asked + ANSWER_SECONDS) screen->answering = false;
    if (screen->answering) return take_answer(screen) ? K_REPORT : K_NONE;
    if (screen->reported > 0 && clock_monotonic() > screen->reported + ANSWER_SECONDS) screen->reported = 0;
    if (screen->reported > 0) return take_report(screen);
    int kind = wget_wch(screen->keys, &key);
    if (kind == ERR) return K_NONE;
    if (kind == KEY_CODE_YES && key == CODE_MOUSE) {
        screen->reported = clock_monotonic();
        screen->report_bytes = 0;
        return take_report(screen);
    }
    if (kind == KEY_CODE_YES && key == CODE_OSC && screen->asked > 0) {
        screen->answering = true;
        screen->answer_bytes = 0;
        return next_key(screen);
    }
    if (kind == OK) {
        if (key == K_ESCAPE) return swallow_sequence(screen) ? K_OTHER : K_ESCAPE;
        return key_of(key);
    }
    static const struct {
        wint_t curses;
        uint32_t code;
    } codes[] = {
        {KEY_UP, K_UP},
        {KEY_DOWN, K_DOWN},
        {KEY_LEFT, K_LEFT},
        {KEY_RIGHT, K_RIGHT},
        {KEY_HOME, K_HOME},
        {KEY_END, K_END},
        {KEY_PPAGE, K_PAGE_UP},
        {KEY_NPAGE, K_PAGE_DOWN},
        {KEY_DC, K_DELETE},
        {KEY_BTAB, K_BACK_TAB},
        {KEY_ENTER, K_ENTER},
        {KEY_BACKSPACE, K_BACKSPACE},
        {CODE_PASTE, K_PASTE},
        {CODE_PASTE_END, K_PASTE_END},
        {KEY_SUSPEND, K_CTRL('z')},
        {KEY_RESIZE, K_REPORT}, /* of resizeterm */
    };
    if (key >= KEY_F(1) && key <= KEY_F(12)) return K_F1 + key - KEY_F(1);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].curses == key) return codes[i].code;
    return K_OTHER;
}

/* Reads the terminal's size. */
static void resize(struct screen *screen)
{
    struct winsize size;
    if (ioctl(screen->fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return;
    resizeterm(size.ws_row, size.ws_col);
    screen_forget(screen);
}

/* --- the workbench --- */

struct session {
    struct workbench *workbench;
    struct screen *screen;
    struct grid grid;
    int signals;
};

static enum status open_signals(int *fd, struct err *err)
{
    static const int wanted[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) sigaddset(&set, wanted[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    *fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return *fd >= 0 ? STATUS_OK : err_set(err, STATUS_FAILED, "cannot receive signals: %s", strerror(errno));
}

static enum status fit_grid(struct session *session, struct err *err)
{
    int w, h;
    getmaxyx(stdscr, h, w);
    session->grid.level = session->screen->level;
    if (w == session->grid.w && h == session->grid.h) return STATUS_OK;
    session->workbench->dirty = true;
    return grid_resize(&session->grid, w, h, err);
}

static void take_signals(struct session *session)
{
    struct signalfd_siginfo info;
    while (read(session->signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGTSTP) {
            suspend(session->screen);
            kill(getpid(), SIGSTOP);
            refresh(); /* reclaims the terminal */
            tell(session->screen, paste_on);
            if (session->screen->mouse) tell(session->screen, mouse_on);
        } else if (info.ssi_signo == SIGINT) {
            workbench_key(session->workbench, K_CTRL('c'));
        } else if (info.ssi_signo != SIGWINCH) {
            session->workbench->left = session->workbench->abandoned = true;
        }
        resize(session->screen);
        session->workbench->dirty = true;
    }
}

static void take_keys(struct session *session)
{
    for (uint32_t key; (key = next_key(session->screen)) != K_NONE;) {
        if (key == K_REPORT) continue;
        if (key == K_CTRL('z') && !session->workbench->pasting)
            kill(0, SIGTSTP); /* as the terminal does: to all that run in front */
        else if (key_is_mouse(key))
            workbench_mouse(session->workbench, key, &session->screen->pointer);
        else
            workbench_key(session->workbench, key);
    }
}

/* A terminal that shows what it does not understand only gets the bell. */
static void give_notice(struct session *session)
{
    struct workbench *workbench = session->workbench;
    enum notice_kind kind = workbench->notify;
    char bytes[400];
    if (!workbench->notice[0]) return;
    if (kind != NOTICE_OFF && !terminal_takes_questions(getenv("TERM"))) kind = NOTICE_BELL;
    tell(session->screen, notice_bytes(kind, workbench->notice, bytes, sizeof bytes));
    workbench->notice[0] = '\0';
}

static enum status loop(struct session *session, struct err *err)
{
    struct pollfd fds[2] = {{STDIN_FILENO, POLLIN, 0}, {session->signals, POLLIN, 0}};
    double next_tick = 0;
    take_keys(session); /* those typed before */
    while (!session->workbench->left) {
        if (fit_grid(session, err)) return err->status;
        if (session->workbench->redraw) screen_forget(session->screen);
        session->workbench->redraw = false;
        give_notice(session);
        if (session->workbench->recolour) {
            const struct settings *settings = &session->workbench->settings;
            set_palette(session->screen, settings_get(settings, "palette"));
            set_mouse(session->screen, !settings_has(settings, "mouse", "off"));
        }
        session->workbench->recolour = false;
        if (session->workbench->dirty) {
            workbench_draw(session->workbench, &session->grid);
            screen_show(session->screen, &session->grid);
        }
        double wait_ms = (next_tick - clock_monotonic()) * 1000;
        int ready = poll(fds, 2, wait_ms < 0 ? 0 : wait_ms > TICK_MS ? TICK_MS : (int)wait_ms + 1);
        if (ready < 0 && errno != EINTR)
            return err_set(err, STATUS_IO, "cannot wait for keys: %s", strerror(errno));
        if (ready > 0 && fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)) {
            session->workbench->abandoned = true;
            return STATUS_OK;
        }
        if (ready > 0 && fds[1].revents) take_signals(session);
        if (ready > 0 && fds[0].revents & POLLIN) take_keys(session);
        if (clock_monotonic() >= next_tick) {
            next_tick = clock_monotonic() + TICK_MS / 1000.0;
            workbench_tick(session->workbench, clock_wall());
        }
    }
    return STATUS_OK;
}

const char *screen_locale_remedy(void)
{
    const char *all = getenv("LC_ALL"), *ctype = getenv("LC_CTYPE");
    if (glyph_level_detect(nl_langinfo(CODESET), NULL) != GLYPHS_ASCII) return NULL;
    return all && *all ? "LC_ALL=C.UTF-8" : ctype && *ctype ? "LC_CTYPE=C.UTF-8" : "LANG=C.UTF-8";
}

enum status screen_run(const struct workbench_options *options, struct err *err)
{
    struct session session = {.signals = -1};
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return err_set(err, STATUS_FAILED,
                       "the workbench needs a terminal, but standard %s is not one (`%s runs` and `%s show "
                       "latest` print the same information)",
                       isatty(STDOUT_FILENO) ? "input" : "output", TEXT_PROGRAM, TEXT_PROGRAM);
    enum status status = workbench_open(options, &session.workbench, err);
    if (status) return status;
    status = open_signals(&session.signals, err);
    if (status) goto out;
    status = screen_open(stdin, stdout, &session.screen, err);
    if (status) goto out;
    const char *remedy = screen_locale_remedy();
    if (session.screen->stand_in)
        workbench_add(session.workbench,
                      "This system has no description of the terminal %.60s, so it is drawn as %s.",
                      getenv("TERM"), session.screen->stand_in);
    if (remedy)
        workbench_add(session.workbench,
                      "This locale has no UTF-8, so charts are drawn in ASCII. To draw them with fine dots: "
                      "%s %s watch",
                      remedy, TEXT_PROGRAM);
    status = loop(&session, err);
out:
    screen_close(session.screen);
    if (session.signals >= 0) close(session.signals); /* signals stay blocked: the process ends now */
    struct err late = {0};
    size_t lost = workbench_finish(session.workbench, &late);
    if (lost > 0)
        fprintf(stderr, "%s: %zu change%s not made: %s\n", TEXT_PROGRAM, lost, lost == 1 ? " was" : "s were",
                late.text);
    size_t removed = session.workbench->removed;
    if (removed) fprintf(stderr, "%zu run%s deleted\n", removed, removed == 1 ? " was" : "s were");
    size_t live = status ? 0 : workbench_live_runs(session.workbench);
    if (live > 0)
        fprintf(stderr, "%zu run%s training in the background. To see %s again:\n  %s watch\n", live,
                live == 1 ? " continues" : "s continue", live == 1 ? "it" : "them", TEXT_PROGRAM);
    grid_release(&session.grid);
    workbench_close(session.workbench);
    return status;
}
