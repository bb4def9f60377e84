/* See line_input.h. The line that is edited takes one row of the terminal: of a longer one the part around
 * the cursor is shown, and all of it once it is complete. */
#include "tui/command/line_input.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "core/base/text.h"
#include "tui/command/output.h"
#include "tui/session/process.h"

enum {
    LINE_MOST = 1 << 20,  /* bytes */
    PIECE = 4096,         /* bytes that are read at once */
    TERMINAL_MOST = 4095, /* bytes of a line that a terminal edits itself; it drops the others */
    ESCAPE_WAIT_MS = 50,  /* the bytes of a key come together */
    WIDTH_DEFAULT = 80,
};

#define KEY(letter) ((letter)&31)

struct line_input {
    const char *prompt;
    bool terminal, editing; /* editing: lines are edited here */
    bool ended;
    char *bytes; /* read and not yet taken */
    size_t n, capacity, taken;
    /* ---- of a line that is edited ---- */
    struct termios modes; /* of the terminal, to be restored */
    bool raw, pasting;
    char *text;
    size_t length, room, cursor, first; /* first: the first byte on the screen */
    char **lines;                       /* earlier ones; while one is edited, that one is behind them */
    size_t count, line_room, at;
};

/* ---- reading ---- */

static bool edits_lines(void)
{
    const char *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

enum status line_input_open(const char *prompt, struct line_input **out, struct err *err)
{
    struct line_input *in = calloc(1, sizeof *in);
    if (!in) return err_no_memory(err, "lines of the input");
    in->prompt = prompt;
    in->terminal = isatty(STDIN_FILENO);
    in->editing = in->terminal && edits_lines() && tcgetattr(STDIN_FILENO, &in->modes) == 0;
    *out = in;
    return STATUS_OK;
}

/* Reads what is there, and waits for it; STATUS_NOT_FOUND: after at most `milliseconds` (-1: no limit). */
static enum status read_piece(struct line_input *in, int milliseconds, struct err *err)
{
    if (!list_reserve(&in->bytes, in->n, PIECE + 1, &in->capacity, 1))
        return err_no_memory(err, "a line of the input");
    struct pollfd fd = {STDIN_FILENO, POLLIN, 0};
    int ready = interrupt_requested() ? -1 : poll(&fd, 1, milliseconds);
    if (ready <= 0) return ready ? STATUS_INTERRUPTED : STATUS_NOT_FOUND;
    ssize_t got = read(STDIN_FILENO, in->bytes + in->n, PIECE);
    if (got < 0 && errno != EINTR)
        return err_set(err, STATUS_IO, "chat: cannot read standard input: %s", strerror(errno));
    if (got == 0) in->ended = true;
    if (got > 0) in->n += (size_t)got;
    return STATUS_OK;
}

static void drop_taken(struct line_input *in)
{
    in->n -= in->taken;
    if (in->n) memmove(in->bytes, in->bytes + in->taken, in->n);
    in->taken = 0;
}

static enum status too_long(struct err *err)
{
    return err_set(err, STATUS_USAGE, "a line of the input is longer than 1 MiB");
}

/* A line as it comes. */
static enum status next_whole(struct line_input *in, char **line, size_t *n, struct err *err)
{
    drop_taken(in);
    for (;;) {
        char *end = in->n ? memchr(in->bytes, '\n', in->n) : NULL;
        if (end || (in->ended && in->n)) {
            *n = end ? (size_t)(end - in->bytes) : in->n;
            in->taken = end ? *n + 1 : in->n;
            in->bytes[*n] = '\0';
            *line = in->bytes;
            if (in->terminal && *n >= TERMINAL_MOST)
                return err_set(
                    err, STATUS_USAGE,
                    "this terminal passes on at most %d bytes of a line (pass a longer one through a "
                    "pipe)",
                    TERMINAL_MOST - 1);
            if (*n && in->bytes[*n - 1] == '\r') in->bytes[--*n] = '\0';
            return STATUS_OK;
        }
        if (in->ended) return STATUS_NOT_FOUND;
        if (in->n > LINE_MOST) return too_long(err);
        enum status status = read_piece(in, -1, err);
        if (status) return status;
    }
}

/* ---- the screen ---- */

/* Columns of the character at `at`, of *bytes bytes; a newline, a tab and a malformed byte take one. */
static int columns_of(const struct line_input *in, size_t at, size_t *bytes)
{
    uint32_t point;
    size_t length = utf8_character(in->text + at, in->length - at, &point);
    int width = length && point >= ' ' ? wcwidth((wchar_t)point) : 1;
    *bytes = length ? length : 1;
    return width < 0 ? 1 : width;
}

static size_t before(const struct line_input *in, size_t at)
{
    if (at) at--;
    while (at && ((unsigned char)in->text[at] & 0xC0) == 0x80) at--;
    return at;
}

/* The earliest byte from which at most `columns` lead to the cursor. */
static size_t reach_back(const struct line_input *in, int columns)
{
    size_t at = in->cursor, bytes;
    while (at) {
        size_t next = before(in, at);
        columns -= columns_of(in, next, &bytes);
        if (columns < 0) break;
        at = next;
    }
    return at;
}

static void draw(struct line_input *in)
{
    int width = output_columns(stdout), prompt = (int)strlen(in->prompt), column = prompt, cursor = 0;
    int room = (width ? width : WIDTH_DEFAULT) - prompt - 1;
    size_t bytes;
    if (room < 1) room = 1;
    size_t earliest = reach_back(in, room - 1);
    if (in->first < earliest) in->first = earliest;
    if (in->first > in->cursor) in->first = reach_back(in, room / 2);
    printf("\r%s", in->prompt);
    for (size_t at = in->first;; at += bytes) {
        char shown[16];
        if (at == in->cursor) cursor = column;
        if (at >= in->length) break;
        int columns = columns_of(in, at, &bytes);
        if (column + columns > prompt + room) break;
        clean_block(shown, sizeof shown, in->text + at, bytes);
        fputs(in->text[at] == '\n' ? "|" : in->text[at] == '\t' ? " " : *shown ? shown : "?", stdout);
        column += columns;
    }
    printf("\033[K\r");
    if (cursor) printf("\033[%dC", cursor);
    fflush(stdout);
}

/* The whole line, in as many rows as it needs. */
static void draw_complete(const struct line_input *in)
{
    char shown[1024];
    printf("\r\033[K%s", in->prompt);
    for (size_t at = 0, n; at < in->length; at += n) {
        n = in->length - at < 256 ? in->length - at : utf8_cut(in->text + at, 256);
        if (!n) n = 256; /* malformed */
        clean_block(shown, sizeof shown, in->text + at, n);
        fputs(shown, stdout);
    }
}

/* While a line is edited, Ctrl-C still is a signal; Ctrl-Z is a key, so that the modes are restored first. */
static void enter_raw(struct line_input *in)
{
    struct termios raw = in->modes;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | IEXTEN);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    raw.c_cc[VSUSP] = raw.c_cc[VQUIT] = _POSIX_VDISABLE;
    in->raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
    fputs("\033[?2004h", stdout);
    draw(in);
}

static void leave_raw(struct line_input *in)
{
    if (!in->raw) return;
    fputs("\033[?2004l", stdout);
    fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &in->modes);
    in->raw = false;
}

/* ---- editing ---- */

static bool insert(struct line_input *in, char byte)
{
    if (!list_reserve(&in->text, in->length, 2, &in->room, 1)) return false;
    memmove(in->text + in->cursor + 1, in->text + in->cursor, in->length - in->cursor);
    in->text[in->cursor++] = byte;
    in->text[++in->length] = '\0';
    return true;
}

static void erase(struct line_input *in, size_t from, size_t to)
{
    memmove(in->text + from, in->text + to, in->length - to);
    in->length -= to - from;
    in->text[in->length] = '\0';
    in->cursor = from;
}

static size_t after(const struct line_input *in, size_t at)
{
    size_t bytes = 0;
    if (at < in->length) columns_of(in, at, &bytes);
    return at + bytes;
}

static size_t word_before(const struct line_input *in)
{
    size_t at = in->cursor;
    while (at && in->text[at - 1] == ' ') at--;
    while (at && in->text[at - 1] != ' ') at--;
    return at;
}

/* Shows an earlier line (by -1) or a later one (by 1), and keeps the present one in its place. */
static void recall(struct line_input *in, int by)
{
    if ((by < 0 && !in->at) || (by > 0 && in->at == in->count)) return;
    char *present = strndup(in->length ? in->text : "", in->length);
    char *wanted = in->lines[in->at + (size_t)by];
    if (!present || !list_reserve(&in->text, 0, strlen(wanted) + 1, &in->room, 1)) {
        free(present);
        return;
    }
    free(in->lines[in->at]);
    in->lines[in->at] = present;
    in->at += (size_t)by;
    in->length = in->cursor = strlen(wanted);
    memcpy(in->text, wanted, in->length + 1);
    in->first = 0;
}

/* Makes room for the line to come, behind the earlier ones. */
static bool begin_line(struct line_input *in)
{
    in->length = in->cursor = in->first = 0;
    if (!list_reserve(&in->lines, in->count, 1, &in->line_room, sizeof *in->lines) ||
        !list_reserve(&in->text, 0, 1, &in->room, 1) || !(in->lines[in->count] = strdup("")))
        return false;
    in->text[0] = '\0';
    in->at = in->count;
    return true;
}

/* Keeps a complete line; an empty one and a repeated one are not kept. */
static void end_line(struct line_input *in, bool complete)
{
    bool repeated = in->count && strcmp(in->lines[in->count - 1], in->text) == 0;
    free(in->lines[in->count]);
    in->lines[in->count] = complete && in->length && !repeated ? strdup(in->text) : NULL;
    if (in->lines[in->count]) in->count++;
}

/* ---- keys ---- */

/* The next byte; draws the line before it waits for one. */
static enum status next_byte(struct line_input *in, int milliseconds, char *byte, struct err *err)
{
    if (in->taken == in->n) {
        drop_taken(in);
        if (in->ended) return STATUS_NOT_FOUND;
        if (milliseconds < 0) draw(in);
        enum status status = read_piece(in, milliseconds, err);
        if (status) return status;
        if (!in->n) return in->ended ? STATUS_NOT_FOUND : next_byte(in, milliseconds, byte, err);
    }
    *byte = in->bytes[in->taken++];
    return STATUS_OK;
}

/* Stops the job as Ctrl-Z does, with the modes that the shell expects. */
static void suspend(struct line_input *in)
{
    leave_raw(in);
    kill(0, SIGSTOP);
    enter_raw(in);
}

static void press(struct line_input *in, char key)
{
    switch (key) {
    case KEY('a'):
        in->cursor = 0;
        break;
    case KEY('b'):
        in->cursor = before(in, in->cursor);
        break;
    case KEY('d'):
        erase(in, in->cursor, after(in, in->cursor));
        break;
    case KEY('e'):
        in->cursor = in->length;
        break;
    case KEY('f'):
        in->cursor = after(in, in->cursor);
        break;
    case KEY('h'):
    case 127:
        erase(in, before(in, in->cursor), in->cursor);
        break;
    case KEY('k'):
        erase(in, in->cursor, in->length);
        break;
    case KEY('n'):
        recall(in, 1);
        break;
    case KEY('p'):
        recall(in, -1);
        break;
    case KEY('u'):
        erase(in, 0, in->cursor);
        break;
    case KEY('w'):
        erase(in, word_before(in), in->cursor);
        break;
    case KEY('z'):
        suspend(in);
        break;
    default:
        break;
    }
}

/* What follows the byte of Esc, and the control character that does the same. */
static const struct {
    const char *sequence;
    char key;
} keys[] = {{"[A", KEY('p')},  {"OA", KEY('p')},  {"[B", KEY('n')}, {"OB", KEY('n')}, {"[C", KEY('f')},
            {"OC", KEY('f')},  {"[D", KEY('b')},  {"OD", KEY('b')}, {"[H", KEY('a')}, {"OH", KEY('a')},
            {"[1~", KEY('a')}, {"[7~", KEY('a')}, {"[F", KEY('e')}, {"OF", KEY('e')}, {"[4~", KEY('e')},
            {"[8~", KEY('e')}, {"[3~", KEY('d')}};

/* The keys that begin with Esc, and the marks around what is pasted. Others do nothing. */
static enum status read_escape(struct line_input *in, struct err *err)
{
    char sequence[16] = "";
    for (size_t n = 0; n + 1 < sizeof sequence; n++) {
        enum status status = next_byte(in, ESCAPE_WAIT_MS, &sequence[n], err);
        if (status) return status == STATUS_NOT_FOUND && !in->ended ? STATUS_OK : status; /* Esc alone */
        bool opens = n == 0 && (sequence[0] == '[' || sequence[0] == 'O');
        if (!opens && (sequence[n] < '0' || sequence[n] > '9') && sequence[n] != ';') break;
    }
    if (strcmp(sequence, "[200~") == 0) in->pasting = true;
    if (strcmp(sequence, "[201~") == 0) in->pasting = false;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !in->pasting; i++)
        if (strcmp(sequence, keys[i].sequence) == 0) press(in, keys[i].key);
    return STATUS_OK;
}

/* Whether the byte belongs to the text. */
static bool is_text(const struct line_input *in, char byte)
{
    unsigned char c = (unsigned char)byte;
    return c == '\t' || (c >= ' ' && c != 127) || (in->pasting && c == '\n');
}

static enum status edit(struct line_input *in, struct err *err)
{
    for (;;) {
        char byte;
        enum status status = next_byte(in, -1, &byte, err);
        if (status) return status;
        if (byte == '\r') byte = '\n';
        /* NUL: Ctrl-D that was pressed before the line was edited here */
        if ((byte == KEY('d') || !byte) && !in->length) return STATUS_NOT_FOUND;
        if (byte == '\n' && !in->pasting) return STATUS_OK;
        if (is_text(in, byte)) {
            if (in->length >= LINE_MOST) status = too_long(err);
            if (!status && !insert(in, byte)) status = err_no_memory(err, "a line of the input");
        } else if (byte == '\033') {
            status = read_escape(in, err);
        } else if (!in->pasting) {
            press(in, byte);
        }
        if (status) return status;
    }
}

static enum status next_edited(struct line_input *in, char **line, size_t *n, struct err *err)
{
    if (!begin_line(in)) return err_no_memory(err, "a line of the input");
    enter_raw(in);
    enum status status = edit(in, err);
    while (!status && in->length && in->text[in->length - 1] == '\n') in->text[--in->length] = '\0';
    if (!status) draw_complete(in), putchar('\n');
    if (status == STATUS_INTERRUPTED) fputs("^C", stdout);
    leave_raw(in);
    end_line(in, !status);
    *line = in->text;
    *n = in->length;
    return status;
}

/* ---- the interface ---- */

enum status line_input_next(struct line_input *in, char **line, size_t *n, struct err *err)
{
    if (in->editing) return next_edited(in, line, n, err);
    if (in->terminal) fputs(in->prompt, stdout), fflush(stdout);
    return next_whole(in, line, n, err);
}

void line_input_close(struct line_input *in)
{
    if (!in) return;
    for (size_t i = 0; i < in->count; i++) free(in->lines[i]);
    free(in->lines);
    free(in->text);
    free(in->bytes);
    free(in);
}
