/* See pty.h. */
#include "tests/tui/view/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <vterm.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "tests/cmocka.h"
#include "tui/widget/grid.h"

enum { DEADLINE_SECONDS = 60, RAW_MAX = 1 << 24 };

struct pty {
    int master;
    pid_t pid;
    bool ended;
    int how; /* wait status once ended */
    VTerm *terminal;
    VTermScreen *screen;
    bool alternate, cursor;
    char row[4096 * 4];
    char *raw;
    size_t raw_bytes, drawn; /* bytes that have come, and of them those that the terminal has drawn */
};

static int on_property(VTermProp property, VTermValue *value, void *opaque)
{
    struct pty *pty = opaque;
    if (property == VTERM_PROP_ALTSCREEN) pty->alternate = value->boolean;
    if (property == VTERM_PROP_CURSORVISIBLE) pty->cursor = value->boolean;
    return 1;
}

static const VTermScreenCallbacks callbacks = {.settermprop = on_property};

static void become_child(const struct pty_options *options)
{
    const char *binary = getenv("ANNEAL_BINARY");
    const char *arguments[32] = {binary};
    setenv("TERM", options->term ? options->term : "xterm-256color", 1);
    unsetenv("LINES");
    unsetenv("COLUMNS");
    unsetenv("NO_COLOR");
    for (const char *const *e = options->environment; e && *e; e++) {
        if (strchr(*e, '='))
            putenv((char *)(uintptr_t)*e);
        else
            unsetenv(*e);
    }
    for (int i = 0; options->arguments && options->arguments[i] && i < 30; i++)
        arguments[i + 1] = options->arguments[i];
    execv(binary, (char *const *)(uintptr_t)arguments);
    fprintf(stderr, "cannot run %s: %s\n", binary, strerror(errno));
    _exit(127);
}

struct pty *pty_open(const struct pty_options *options)
{
    struct winsize size = {.ws_row = (unsigned short)options->rows,
                           .ws_col = (unsigned short)options->columns};
    struct pty *pty = calloc(1, sizeof *pty);
    assert_non_null(pty);
    assert_non_null(getenv("ANNEAL_BINARY"));
    pty->raw = malloc(RAW_MAX + 1);
    assert_non_null(pty->raw);
    pty->raw[0] = '\0';
    pty->cursor = true;
    pty->terminal = vterm_new(options->rows, options->columns);
    vterm_set_utf8(pty->terminal, 1);
    pty->screen = vterm_obtain_screen(pty->terminal);
    vterm_screen_set_callbacks(pty->screen, &callbacks, pty);
    vterm_screen_enable_altscreen(pty->screen, 1);
    vterm_screen_reset(pty->screen, 1);
    pty->pid = forkpty(&pty->master, NULL, NULL, &size);
    assert_true(pty->pid >= 0);
    if (pty->pid == 0) become_child(options);
    fcntl(pty->master, F_SETFL, O_NONBLOCK);
    fcntl(pty->master, F_SETFD, FD_CLOEXEC);
    return pty;
}

void pty_close(struct pty *pty)
{
    if (!pty) return;
    if (!pty->ended) {
        kill(pty->pid, SIGKILL);
        waitpid(pty->pid, NULL, 0);
    }
    close(pty->master);
    vterm_free(pty->terminal);
    free(pty->raw);
    free(pty);
}

/* Keeps the bytes and draws them. libvterm draws a character wrong that comes in two pieces, so its first
 * bytes wait for the others. */
static void take(struct pty *pty, const char *bytes, size_t n)
{
    if (n > RAW_MAX - pty->raw_bytes) { /* begin anew with what is not drawn yet */
        pty->raw_bytes -= pty->drawn;
        memmove(pty->raw, pty->raw + pty->drawn, pty->raw_bytes);
        pty->drawn = 0;
    }
    memcpy(pty->raw + pty->raw_bytes, bytes, n);
    pty->raw_bytes += n;
    pty->raw[pty->raw_bytes] = '\0';
    size_t end = pty->raw_bytes - utf8_incomplete_tail(pty->raw + pty->drawn, pty->raw_bytes - pty->drawn);
    vterm_input_write(pty->terminal, pty->raw + pty->drawn, end - pty->drawn);
    pty->drawn = end;
}

/* Takes what the child has written; waits at most `milliseconds` for the first byte. */
static void pump(struct pty *pty, int milliseconds)
{
    struct pollfd fd = {pty->master, POLLIN, 0};
    char bytes[16384];
    if (poll(&fd, 1, milliseconds) > 0) {
        for (ssize_t n; (n = read(pty->master, bytes, sizeof bytes)) > 0;) take(pty, bytes, (size_t)n);
        vterm_screen_flush_damage(pty->screen);
    }
    size_t reply =
        vterm_output_read(pty->terminal, bytes, sizeof bytes); /* answers to the child's questions */
    for (size_t done = 0; done < reply;) {
        ssize_t n = write(pty->master, bytes + done, reply - done);
        if (n <= 0) break;
        done += (size_t)n;
    }
    if (!pty->ended && waitpid(pty->pid, &pty->how, WNOHANG) == pty->pid) pty->ended = true;
}

void pty_send(struct pty *pty, const char *bytes)
{
    size_t n = strlen(bytes);
    assert_int_equal(write(pty->master, bytes, n), (ssize_t)n);
}

void pty_signal(struct pty *pty, int number)
{
    kill(pty->pid, number);
}

void pty_resize(struct pty *pty, int rows, int columns)
{
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
    pump(pty, 0);
    vterm_set_size(pty->terminal, rows, columns);
    assert_int_equal(ioctl(pty->master, TIOCSWINSZ, &size), 0);
}

const char *pty_row(struct pty *pty, int row)
{
    int rows, columns;
    size_t n = 0, end = 0;
    vterm_get_size(pty->terminal, &rows, &columns);
    for (int column = 0; column < columns;) {
        VTermScreenCell cell = {0};
        vterm_screen_get_cell(pty->screen, (VTermPos){row, column}, &cell);
        column += cell.width > 0 ? cell.width : 1;
        size_t wrote = glyph_encode(cell.chars[0] ? cell.chars[0] : ' ', pty->row + n, sizeof pty->row - n);
        if (!wrote) break;
        n += wrote;
        if (cell.chars[0] && cell.chars[0] != ' ') end = n;
    }
    pty->row[end] = '\0';
    return pty->row;
}

char *pty_dump(struct pty *pty)
{
    int rows, columns;
    size_t n = 0;
    vterm_get_size(pty->terminal, &rows, &columns);
    char *text = malloc((size_t)rows * ((size_t)columns * 4 + 2) + 1);
    assert_non_null(text);
    for (int row = 0; row < rows; row++) {
        const char *line = pty_row(pty, row);
        size_t length = strlen(line);
        memcpy(text + n, line, length);
        n += length;
        text[n++] = '\n';
    }
    text[n] = '\0';
    return text;
}

void pty_draw(struct pty *pty)
{
    pump(pty, 0);
}

bool pty_has_text(struct pty *pty, const char *text)
{
    int rows, columns;
    vterm_get_size(pty->terminal, &rows, &columns);
    for (int row = 0; row < rows; row++)
        if (strstr(pty_row(pty, row), text)) return true;
    return false;
}

static void give_up(struct pty *pty, const char *why, const char *text)
{
    char *screen = pty_dump(pty);
    printf("%s\"%s\"; the child %s; the screen:\n%s", why, text, pty->ended ? "has ended" : "lives", screen);
    fflush(stdout); /* print_error would cut the screen */
    free(screen);
    pty_close(pty);
    fail();
}

static void wait_for(struct pty *pty, const char *text, bool there)
{
    double deadline = clock_monotonic() + DEADLINE_SECONDS;
    while (pty_has_text(pty, text) != there) {
        if (clock_monotonic() > deadline || (pty->ended && there)) {
            pump(pty, 0);
            if (pty_has_text(pty, text) == there) return;
            give_up(pty, there ? "never came: " : "never went: ", text);
        }
        pump(pty, 100);
    }
}

void pty_wait_text(struct pty *pty, const char *text)
{
    wait_for(pty, text, true);
}

void pty_wait_no_text(struct pty *pty, const char *text)
{
    wait_for(pty, text, false);
}

void pty_expect_redraw(struct pty *pty, const char *bytes)
{
    double deadline = clock_monotonic() + DEADLINE_SECONDS;
    char *before = pty_dump(pty), *now = NULL;
    const char *from = pty->raw + pty->raw_bytes;
    bool same = false;
    pty_send(pty, bytes);
    while (!same) {
        if (clock_monotonic() > deadline || pty->ended) give_up(pty, "is drawn in another way: ", before);
        pump(pty, 100);
        if (!strstr(from, "\033[H\033[")) continue; /* it clears the screen first */
        now = pty_dump(pty);
        same = strcmp(before, now) == 0;
        free(now);
    }
    free(before);
}

int pty_wait_exit(struct pty *pty)
{
    double deadline = clock_monotonic() + DEADLINE_SECONDS;
    while (!pty->ended) {
        if (clock_monotonic() > deadline) give_up(pty, "did not end: ", "exit");
        pump(pty, 20);
    }
    pump(pty, 0);
    return WIFEXITED(pty->how) ? WEXITSTATUS(pty->how) : 128 + WTERMSIG(pty->how);
}

void pty_wait_stopped(struct pty *pty)
{
    double deadline = clock_monotonic() + DEADLINE_SECONDS;
    for (int how; waitpid(pty->pid, &how, WNOHANG | WUNTRACED) != pty->pid || !WIFSTOPPED(how);) {
        if (clock_monotonic() > deadline) give_up(pty, "did not stop: ", "SIGTSTP");
        pump(pty, 20);
    }
    pump(pty, 0); /* what it wrote last */
}

int pty_coloured_cells(struct pty *pty)
{
    int rows, columns, count = 0;
    vterm_get_size(pty->terminal, &rows, &columns);
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < columns; column++) {
            VTermScreenCell cell = {0};
            vterm_screen_get_cell(pty->screen, (VTermPos){row, column}, &cell);
            count += cell.chars[0] && cell.chars[0] != ' ' && !VTERM_COLOR_IS_DEFAULT_FG(&cell.fg);
        }
    return count;
}

bool pty_on_alternate_screen(const struct pty *pty)
{
    return pty->alternate;
}

bool pty_cursor_visible(const struct pty *pty)
{
    return pty->cursor;
}

bool pty_modes_restored(const struct pty *pty)
{
    struct termios modes;
    if (tcgetattr(pty->master, &modes) != 0) return false;
    return (modes.c_lflag & ICANON) && (modes.c_lflag & ECHO);
}

const char *pty_raw(const struct pty *pty)
{
    return pty->raw;
}

pid_t pty_pid(const struct pty *pty)
{
    return pty->pid;
}
