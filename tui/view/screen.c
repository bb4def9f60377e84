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

enum { TICK_MS = 100 };

struct screen {
    SCREEN *terminal;
    WINDOW *keys; /* never shown: reading stdscr would redraw it */
    int fd;       /* to ask for the size */
    enum glyph_level level;
    attr_t attr[ATTR_COUNT];
    attr_t style_attr[STYLE_COUNT];
    short pair[STYLE_COUNT];
    struct grid shown; /* the terminal's contents */
    cchar_t *row;      /* scratch, one row */
    bool all;          /* write every cell */
};

/* State for a signal handler, which gets no context, to restore the terminal. */
static struct {
    volatile sig_atomic_t armed;
    int fd;
    struct termios modes;
} rescue;

static const int fault_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

static void restore_and_die(int number)
{
    static const char leave[] = "\033[?1049l\033[0m\033[?25h\r\n";
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
    for (size_t i = 0; i < sizeof fault_signals / sizeof *fault_signals; i++) {
        struct sigaction old;
        /* keep the handler of a sanitizer or debugger */
        if (sigaction(fault_signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            signal(fault_signals[i], restore_and_die);
    }
}

static void set_colours(struct screen *screen)
{
    /* foregrounds: -1 is the terminal's default. Columns: 256, 16, 8 colours */
    static const short palette[STYLE_COUNT][3] = {
        [STYLE_TEXT] = {-1, -1, -1},
        [STYLE_DIM] = {245, 8, -1},
        [STYLE_RULE] = {240, 8, -1},
        [STYLE_ACCENT] = {75, 12, COLOR_CYAN},
        [STYLE_GOOD] = {78, 10, COLOR_GREEN},
        [STYLE_WARN] = {214, 11, COLOR_YELLOW},
        [STYLE_BAD] = {203, 9, COLOR_RED},
        [STYLE_TRAIN] = {75, 12, COLOR_CYAN},
        [STYLE_VAL] = {215, 11, COLOR_YELLOW},
        [STYLE_BEST] = {120, 10, COLOR_GREEN},
        [STYLE_LR] = {176, 13, COLOR_MAGENTA},
        [STYLE_GRAD] = {80, 14, COLOR_CYAN},
        [STYLE_SPEED] = {114, 10, COLOR_GREEN},
    };
    const char *no_color = getenv("NO_COLOR");
    bool mono = (no_color && *no_color) || !has_colors() || start_color() == ERR || COLORS < 8;
    int column = mono ? 2 : COLORS >= 256 ? 0 : COLORS >= 16 ? 1 : 2;
    short background = !mono && use_default_colors() == OK ? -1 : COLOR_BLACK;
    for (int style = 0; style < STYLE_COUNT; style++) {
        bool faint = style == STYLE_DIM || style == STYLE_RULE;
        screen->style_attr[style] = (mono || column == 2) && faint ? A_DIM : A_NORMAL;
        if (mono || palette[style][column] < 0) continue;
        short pair = (short)(style + 1);
        if (init_pair(pair, palette[style][column], background) == OK) screen->pair[style] = pair;
    }
    for (int bits = 0; bits < ATTR_COUNT; bits++)
        screen->attr[bits] = (bits & ATTR_BOLD ? A_BOLD : 0) | (bits & ATTR_REVERSE ? A_REVERSE : 0) |
                             (bits & ATTR_UNDERLINE ? A_UNDERLINE : 0);
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
}

/* Restores the terminal; refresh reclaims it. */
static void suspend(struct screen *screen)
{
    static const char next_line[] = "\r\n";
    bool apart = exit_ca_mode != NULL; /* the terminal has an alternate screen for the workbench */
    endwin();
    if (!apart && write(screen->fd, next_line, sizeof next_line - 1) < 0) { /* ignore the failure */
    }
}

void screen_close(struct screen *screen)
{
    if (!screen) return;
    rescue.armed = 0;
    if (screen->keys) suspend(screen);
    if (screen->keys) delwin(screen->keys);
    if (screen->terminal) delscreen(screen->terminal);
    grid_release(&screen->shown);
    free(screen->row);
    free(screen);
}

enum status screen_open(FILE *in, FILE *out, struct screen **out_screen, struct err *err)
{
    const char *term = getenv("TERM");
    struct screen *screen = calloc(1, sizeof *screen);
    if (!screen) return err_set(err, STATUS_NO_MEMORY, "no memory for the screen");
    screen->fd = fileno(out);
    screen->level = glyph_level_detect(nl_langinfo(CODESET), term);
    screen->all = true;
    arm_rescue(screen->fd);
    screen->terminal = newterm(NULL, out, in);
    if (!screen->terminal || !cursor_address || !(screen->keys = newpad(1, 1))) {
        screen_close(screen);
        return err_set(
            err, STATUS_FAILED,
            "the workbench cannot draw on a terminal \"%.64s\" (set TERM to one that terminfo knows and that "
            "can place its cursor, such as xterm-256color; `%s runs` needs none)",
            term ? term : "", TEXT_PROGRAM);
    }
    set_term(screen->terminal);
    cbreak();
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
    define_key(NULL, KEY_MOUSE); /* treat a mouse report like any unknown sequence */
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

/* Discards the rest of an escape sequence unknown to terminfo: neither text nor a command. */
static bool swallow_sequence(struct screen *screen)
{
    wint_t key, next;
    if (wget_wch(screen->keys, &key) != OK) return false;
    if (key != '[' && key != 'O') {
        unget_wch((wchar_t)key);
        return false;
    }
    while (wget_wch(screen->keys, &next) == OK && key == '[' && (next < 0x40 || next > 0x7E)) continue;
    return true;
}

/* Returns K_NONE if no key waits. Blocks only for the 25 ms that tell Escape from a sequence's start. */
static uint32_t next_key(struct screen *screen)
{
    wint_t key;
    int kind = wget_wch(screen->keys, &key);
    if (kind == ERR) return K_NONE;
    if (kind == OK) {
        if (key == K_ESCAPE) return swallow_sequence(screen) ? K_OTHER : K_ESCAPE;
        if (key == '\n') return K_ENTER;
        if (key == '\b') return K_BACKSPACE;
        return key ? (uint32_t)key : K_OTHER;
    }
    static const struct {
        wint_t curses;
        uint32_t code;
    } codes[] = {
        {KEY_UP, K_UP},     {KEY_DOWN, K_DOWN},     {KEY_LEFT, K_LEFT},     {KEY_RIGHT, K_RIGHT},
        {KEY_HOME, K_HOME}, {KEY_END, K_END},       {KEY_PPAGE, K_PAGE_UP}, {KEY_NPAGE, K_PAGE_DOWN},
        {KEY_DC, K_DELETE}, {KEY_BTAB, K_BACK_TAB}, {KEY_ENTER, K_ENTER},   {KEY_BACKSPACE, K_BACKSPACE},
        {KEY_F(1), K_F1},   {KEY_F(5), K_F5},
    };
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
        } else if (info.ssi_signo != SIGWINCH) {
            session->workbench->left = true;
        }
        resize(session->screen);
        session->workbench->dirty = true;
    }
}

static enum status loop(struct session *session, struct err *err)
{
    struct pollfd fds[2] = {{STDIN_FILENO, POLLIN, 0}, {session->signals, POLLIN, 0}};
    double next_tick = 0;
    while (!session->workbench->left) {
        if (fit_grid(session, err)) return err->status;
        if (session->workbench->redraw) screen_forget(session->screen);
        session->workbench->redraw = false;
        if (session->workbench->dirty) {
            workbench_draw(session->workbench, &session->grid);
            screen_show(session->screen, &session->grid);
        }
        double wait_ms = (next_tick - clock_monotonic()) * 1000;
        int ready = poll(fds, 2, wait_ms < 0 ? 0 : wait_ms > TICK_MS ? TICK_MS : (int)wait_ms + 1);
        if (ready < 0 && errno != EINTR)
            return err_set(err, STATUS_IO, "cannot wait for keys: %s", strerror(errno));
        if (ready > 0 && fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)) return STATUS_OK;
        if (ready > 0 && fds[1].revents) take_signals(session);
        if (ready > 0 && fds[0].revents & POLLIN)
            for (uint32_t key; (key = next_key(session->screen)) != K_NONE;)
                workbench_key(session->workbench, key);
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
    if (remedy)
        workbench_say(
            session.workbench,
            "%s%sThis locale has no UTF-8, so charts are drawn in ASCII. To draw them with fine dots: "
            "%s %s watch",
            options->greeting ? options->greeting : "", options->greeting ? "\n" : "", remedy, TEXT_PROGRAM);
    status = loop(&session, err);
out:
    screen_close(session.screen);
    if (session.signals >= 0) close(session.signals); /* signals stay blocked: the process ends now */
    size_t live = status ? 0 : workbench_live_runs(session.workbench);
    if (live > 0)
        fprintf(stderr, "%zu run%s training in the background. To see %s again:\n  %s watch\n", live,
                live == 1 ? " continues" : "s continue", live == 1 ? "it" : "them", TEXT_PROGRAM);
    grid_release(&session.grid);
    workbench_close(session.workbench);
    return status;
}
