/* See line_input.h. libedit edits lines; here are what it reads from, what it does with a pasted text, and
 * lines that nobody edits. */
#include "tui/command/line_input.h"

#include <errno.h>
#include <histedit.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "core/base/arena.h"
#include "tui/command/output.h"
#include "tui/session/process.h"

enum {
    LINE_MOST = 1 << 20,  /* bytes */
    PIECE = 4096,         /* bytes that are read at once */
    TERMINAL_MOST = 4095, /* bytes of a line that a terminal edits itself; it drops the others */
    EARLIER_LINES = 1000,
};

struct line_input {
    const char *prompt;
    bool terminal, ended;
    char *bytes; /* read and not yet taken */
    size_t n, capacity, taken;
    EditLine *editor; /* NULL: lines are not edited here */
    History *history;
    char *line;         /* the newest that was edited */
    enum status status; /* why the editor got no more characters; STATUS_OK: they have ended */
    struct err err;
};

/* ---- reading ---- */

/* Reads what is there, and waits for it. */
static enum status read_piece(struct line_input *in, struct err *err)
{
    if (!list_reserve(&in->bytes, in->n, PIECE + 1, &in->capacity, 1))
        return err_no_memory(err, "a line of the input");
    struct pollfd fd = {STDIN_FILENO, POLLIN, 0};
    if (interrupt_requested() || poll(&fd, 1, -1) < 0) return STATUS_INTERRUPTED;
    ssize_t got = read(STDIN_FILENO, in->bytes + in->n, PIECE);
    if (got < 0 && errno != EINTR)
        return err_set(err, STATUS_IO, "cannot read standard input: %s", strerror(errno));
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
        enum status status = read_piece(in, err);
        if (status) return status;
    }
}

/* ---- editing ---- */

static struct line_input *input_of(EditLine *editor)
{
    struct line_input *in = NULL;
    el_get(editor, EL_CLIENTDATA, &in);
    return in;
}

static char *show_prompt(EditLine *editor)
{
    return (char *)input_of(editor)->prompt;
}

/* The next character, 1; 0: there is none; -1: see in->status. */
static int read_character(EditLine *editor, wchar_t *character)
{
    struct line_input *in = input_of(editor);
    mbstate_t state = {0};
    for (;;) {
        if (in->taken == in->n) {
            drop_taken(in);
            if (in->ended) return 0;
            if ((in->status = read_piece(in, &in->err))) return -1;
            el_resize(editor);
            continue;
        }
        bool within = !mbsinit(&state);
        size_t length = mbrtowc(character, in->bytes + in->taken, 1, &state);
        in->taken +=
            length != (size_t)-1 || !within; /* the byte that breaks a character begins the next one */
        if (length == (size_t)-2) continue;
        if (length == (size_t)-1) *character = 0xFFFD;
        if (length) return 1;
        /* NUL: Ctrl-D that was pressed before the line was edited */
        if (el_wline(editor)->lastchar == el_wline(editor)->buffer) return 0;
    }
}

/* Reads the rest of a control sequence behind its Esc; true: the end of a pasted text. */
static bool ends_paste(EditLine *editor)
{
    static const wchar_t end[] = L"[201~";
    wchar_t c = 0;
    size_t n = 0, same = 0;
    do {
        if (el_wgetc(editor, &c) != 1) return true;
        same += n < 5 && c == end[n] && same == n;
        n++;
    } while (c == '[' || c == ';' || (c >= '0' && c <= '9'));
    return same == 5;
}

/* A text that the terminal marks as pasted: newlines do not end the line, and control sequences are dropped.
 */
static unsigned char paste(EditLine *editor, int key)
{
    struct line_input *in = input_of(editor);
    wchar_t *text = NULL, c;
    size_t n = 0, room = 0;
    (void)key;
    while (el_wgetc(editor, &c) == 1) {
        if (c == 27 && ends_paste(editor)) break;
        if (c == '\r') c = '\n';
        if ((c < ' ' && c != '\n' && c != '\t') || c == 127) continue;
        if (n >= LINE_MOST) continue; /* reported when the line ends */
        if (!list_reserve(&text, n, 2, &room, sizeof *text)) {
            in->status = err_no_memory(&in->err, "a pasted text");
            break;
        }
        text[n++] = c;
    }
    if (n) {
        text[n] = 0;
        el_winsertstr(editor, text);
    }
    free(text);
    return in->status ? CC_EOF : CC_REFRESH;
}

/* Ctrl-C still is a signal while a line is edited; Ctrl-Z is a key, so that the modes are restored first. */
static void enter_modes(EditLine *editor)
{
    struct termios modes;
    el_set(editor, EL_PREP_TERM, 1);
    if (tcgetattr(STDIN_FILENO, &modes) != 0) return;
    modes.c_cc[VSUSP] = _POSIX_VDISABLE;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &modes);
}

/* Stops the job as Ctrl-Z does, with the modes that the shell expects. */
static unsigned char suspend(EditLine *editor, int key)
{
    (void)key;
    el_set(editor, EL_PREP_TERM, 0);
    kill(0, SIGSTOP);
    enter_modes(editor);
    return CC_REDISPLAY;
}

static bool edits_lines(void)
{
    return isatty(STDIN_FILENO) && output_is_terminal(stdout) && MB_CUR_MAX > 1;
}

static bool open_editor(struct line_input *in)
{
    /* what terminals send, whatever terminfo says, and Ctrl-U and Ctrl-W as in a shell */
    static const char *const keys[][2] = {
        {"\033[200~", "anneal-paste"}, {"\032", "anneal-suspend"},      {"\033[H", "ed-move-to-beg"},
        {"\033OH", "ed-move-to-beg"},  {"\033[1~", "ed-move-to-beg"},   {"\033[F", "ed-move-to-end"},
        {"\033OF", "ed-move-to-end"},  {"\033[4~", "ed-move-to-end"},   {"\033[3~", "ed-delete-next-char"},
        {"\025", "vi-kill-line-prev"}, {"\027", "ed-delete-prev-word"},
    };
    HistEvent event;
    in->editor = el_init("anneal", stdin, stdout, stderr);
    in->history = history_init();
    if (!in->editor || !in->history) return false;
    history(in->history, &event, H_SETSIZE, EARLIER_LINES);
    history(in->history, &event, H_SETUNIQUE, 1);
    el_set(in->editor, EL_CLIENTDATA, in);
    el_set(in->editor, EL_EDITOR, "emacs");
    el_set(in->editor, EL_PROMPT, show_prompt);
    el_set(in->editor, EL_HIST, history, in->history);
    el_set(in->editor, EL_GETCFN, read_character);
    /* the names in wide characters: libedit would copy others and never free them */
    el_wset(in->editor, EL_ADDFN, L"anneal-paste", L"takes a pasted text", paste);
    el_wset(in->editor, EL_ADDFN, L"anneal-suspend", L"stops the job", suspend);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        el_set(in->editor, EL_BIND, keys[i][0], keys[i][1], NULL);
    return true;
}

static enum status next_edited(struct line_input *in, char **line, size_t *n, struct err *err)
{
    int length = 0;
    HistEvent event;
    in->status = STATUS_OK;
    enter_modes(in->editor); /* before the prompt is there, and what is typed behind it */
    fputs("\033[?2004h", stdout);
    const char *text = el_gets(in->editor, &length);
    fputs(in->status == STATUS_INTERRUPTED ? "^C\033[?2004l" : "\033[?2004l", stdout);
    fflush(stdout);
    if (in->status) {
        *err = in->err;
        return in->status;
    }
    if (!text || length <= 0) return STATUS_NOT_FOUND;
    if (length > LINE_MOST) return too_long(err);
    free(in->line);
    if (!(in->line = strdup(text))) return err_no_memory(err, "a line of the input");
    while (length && in->line[length - 1] == '\n') in->line[--length] = '\0';
    if (length) history(in->history, &event, H_ENTER, in->line);
    *line = in->line;
    *n = (size_t)length;
    return STATUS_OK;
}

/* ---- the interface ---- */

enum status line_input_open(const char *prompt, struct line_input **out, struct err *err)
{
    struct line_input *in = calloc(1, sizeof *in);
    if (in) *in = (struct line_input){.prompt = prompt, .terminal = isatty(STDIN_FILENO)};
    if (!in || (edits_lines() && !open_editor(in))) {
        line_input_close(in);
        return err_no_memory(err, "lines of the input");
    }
    *out = in;
    return STATUS_OK;
}

enum status line_input_next(struct line_input *in, char **line, size_t *n, struct err *err)
{
    if (in->editor) return next_edited(in, line, n, err);
    if (in->terminal) fputs(in->prompt, stdout), fflush(stdout);
    return next_whole(in, line, n, err);
}

void line_input_close(struct line_input *in)
{
    if (!in) return;
    if (in->editor) el_end(in->editor);
    if (in->history) history_end(in->history);
    free(in->line);
    free(in->bytes);
    free(in);
}
