/* See screen.h. */
#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <term.h>
/* term.h defines short names as macros; none of them is wanted below */
#undef lines
#undef columns

#include "tui/view/screen.h"

#include <langinfo.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

struct screen {
    SCREEN *terminal;
    WINDOW *keys; /* never shown: reading from it does not redraw stdscr */
    int fd;       /* for its size */
    enum glyph_level level;
    attr_t attr[ATTR_COUNT];
    attr_t style_attr[STYLE_COUNT];
    short pair[STYLE_COUNT];
    struct grid shown; /* what the terminal holds */
    cchar_t *row;      /* scratch, one row */
    size_t row_capacity;
    bool all; /* every cell is to be written */
};

/* A signal handler is given no context, so what it needs to put the terminal back lies here. Written once by
 * screen_open, cleared by screen_close. */
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
        if (write(rescue.fd, leave, sizeof leave - 1) < 0) { /* nothing more can be done */
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
        /* a sanitizer or debugger that listens already knows better */
        if (sigaction(fault_signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            signal(fault_signals[i], restore_and_die);
    }
}

static void set_colours(struct screen *screen)
{
    /* foregrounds: -1 is the terminal's own. Columns: 256, 16, 8 colours */
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

/* Terminals that ignore the application mode of their cursor keys send these whatever terminfo says. */
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

static enum status check_terminal(int fd, struct err *err)
{
    const char *term = getenv("TERM");
    int why = 0;
    if (!term || !*term)
        return err_set(err, STATUS_FAILED,
                       "the workbench needs to know the terminal: TERM is not set (try TERM=xterm-256color)");
    if (setupterm(NULL, fd, &why) != OK)
        return err_set(
            err, STATUS_FAILED,
            why < 0 ? "the workbench cannot look up the terminal \"%.64s\": no terminfo database is "
                      "installed (install ncurses-base)"
                    : "the workbench does not know the terminal \"%.64s\" (set TERM to one that terminfo "
                      "has, such as xterm-256color)",
            term);
    const char *place = tigetstr("cup");
    bool able = place && place != (char *)-1;
    del_curterm(cur_term);
    if (!able)
        return err_set(
            err, STATUS_FAILED,
            "the workbench needs a terminal that can place its cursor, \"%.64s\" cannot (use `anneal "
            "runs` and `anneal show`)",
            term);
    return STATUS_OK;
}

enum status screen_open(FILE *in, FILE *out, struct screen **out_screen, struct err *err)
{
    if (check_terminal(fileno(out), err)) return err->status;
    struct screen *screen = calloc(1, sizeof *screen);
    if (!screen) return err_set(err, STATUS_NO_MEMORY, "no memory for the screen");
    screen->fd = fileno(out);
    screen->level = glyph_level_detect(nl_langinfo(CODESET), getenv("TERM"));
    screen->all = true;
    arm_rescue(screen->fd);
    screen->terminal = newterm(NULL, out, in);
    if (!screen->terminal || !(screen->keys = newpad(1, 1))) {
        screen_close(screen);
        return err_set(err, STATUS_FAILED, "the workbench cannot use this terminal (TERM=%.64s)",
                       getenv("TERM"));
    }
    set_term(screen->terminal);
    cbreak();
    noecho();
    nonl();
    curs_set(0);
    leaveok(stdscr, TRUE);
    scrollok(stdscr, FALSE);
    typeahead(-1); /* a frame is short: finish it before looking at keys */
    keypad(screen->keys, TRUE);
    nodelay(screen->keys, TRUE);
    set_escdelay(25);
    define_cursor_keys();
    define_key(NULL, KEY_MOUSE); /* a report of it is then like any unknown sequence */
    set_colours(screen);
    *out_screen = screen;
    return STATUS_OK;
}

void screen_close(struct screen *screen)
{
    if (!screen) return;
    rescue.armed = 0;
    if (screen->keys) delwin(screen->keys);
    if (screen->terminal) {
        screen_suspend(screen);
        delscreen(screen->terminal);
    }
    grid_release(&screen->shown);
    free(screen->row);
    free(screen);
}

void screen_size(const struct screen *screen, int *w, int *h)
{
    (void)screen;
    getmaxyx(stdscr, *h, *w);
}

enum glyph_level screen_glyphs(const struct screen *screen)
{
    return screen->level;
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

/* Hands columns [from, to) of row y to curses. */
static void write_cells(struct screen *screen, const struct grid *grid, int y, int from, int to)
{
    const struct cell *cells = grid->cells + (size_t)y * (size_t)grid->w;
    int n = 0;
    for (int x = from; x < to; x++) {
        if (cells[x].glyph == GRID_CONTINUATION) continue;
        wchar_t text[2] = {(wchar_t)cells[x].glyph, L'\0'};
        enum style style = cells[x].style < STYLE_COUNT ? (enum style)cells[x].style : STYLE_TEXT;
        attr_t attr = screen->attr[cells[x].attr % ATTR_COUNT] | screen->style_attr[style];
        setcchar(&screen->row[n++], text, attr, screen->pair[style], NULL);
    }
    mvadd_wchnstr(y, from, screen->row, n);
}

void screen_show(struct screen *screen, const struct grid *grid)
{
    int w, h;
    struct err ignored;
    getmaxyx(stdscr, h, w);
    if (screen->shown.w != grid->w || screen->shown.h != grid->h) {
        if (grid_resize(&screen->shown, grid->w, grid->h, &ignored)) return;
        screen->all = true;
    }
    if ((size_t)grid->w > screen->row_capacity) {
        cchar_t *row = realloc(screen->row, (size_t)grid->w * sizeof *row);
        if (!row) return;
        screen->row = row;
        screen->row_capacity = (size_t)grid->w;
    }
    for (int y = 0; y < grid->h && y < h; y++) {
        const struct cell *new = grid->cells + (size_t)y *(size_t)grid->w;
        struct cell *old = screen->shown.cells + (size_t)y * (size_t)grid->w;
        int from = 0, to = grid->w;
        if (!screen->all) {
            while (from < to && same(new[from], old[from])) from++;
            while (to > from && same(new[to - 1], old[to - 1])) to--;
            if (from == to) continue;
            while (from > 0 && (new[from].glyph == GRID_CONTINUATION || old[from].glyph == GRID_CONTINUATION))
                from--;
        }
        write_cells(screen, grid, y, from, to < w ? to : w);
        memcpy(old, new, (size_t)grid->w * sizeof *old);
    }
    screen->all = false;
    refresh();
}

static void swallow_parameters(struct screen *screen)
{
    wint_t key;
    while (wget_wch(screen->keys, &key) == OK && (key < 0x40 || key > 0x7E)) {
    }
}

/* After an escape: the rest of a sequence that terminfo does not know is no text and no command. */
static bool swallow_sequence(struct screen *screen)
{
    wint_t key;
    if (wget_wch(screen->keys, &key) != OK) return false;
    if (key != '[' && key != 'O') {
        unget_wch((wchar_t)key);
        return false;
    }
    if (key == '[')
        swallow_parameters(screen);
    else
        (void)wget_wch(screen->keys, &key);
    return true;
}

uint32_t screen_key(struct screen *screen)
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

void screen_resize(struct screen *screen)
{
    struct winsize size;
    if (ioctl(screen->fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return;
    resizeterm(size.ws_row, size.ws_col);
    screen_forget(screen);
}

void screen_suspend(struct screen *screen)
{
    static const char next_line[] = "\r\n";
    bool apart = exit_ca_mode != NULL; /* the workbench has a screen of its own, and leaves the old one */
    endwin();
    if (!apart && write(screen->fd, next_line, sizeof next_line - 1) < 0) { /* nothing more can be done */
    }
}

void screen_resume(struct screen *screen)
{
    refresh();
    screen_resize(screen);
    screen_forget(screen);
}
