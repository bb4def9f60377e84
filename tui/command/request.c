/* See request.h. */
#include "tui/command/request.h"

#include <signal.h>
#include <string.h>

#include "tui/session/process.h"

enum { LINES_MAX = 40, WORDS_MAX = 8 };

/* A copy with newlines for \n and backslashes for two of them. */
static char *unescape(struct arena *arena, const char *line)
{
    char *copy = arena_strdup(arena, line), *to = copy;
    for (const char *from = line; copy && *from; from++) {
        bool escape = from[0] == '\\' && (from[1] == 'n' || from[1] == '\\');
        from += escape;
        *to++ = *from;
        if (escape && *from == 'n') to[-1] = '\n';
    }
    if (copy) *to = '\0';
    return copy;
}

/* Appends lines to argv up to an empty one. A wrong line ends that, but all of the request is read. */
static enum status read_lines(struct line_input *in, struct arena *arena, char **argv, int *argc,
                              struct err *err)
{
    enum status wrong = STATUS_OK;
    int most = *argc + LINES_MAX;
    for (;;) {
        char *line;
        size_t n;
        enum status status = line_input_next(in, &line, &n, err);
        if (status == STATUS_INTERRUPTED && interrupt_signal() == SIGINT) {
            interrupt_forget(); /* it is for a text, and none is being written */
            continue;
        }
        if (status == STATUS_USAGE) return err->status = STATUS_FAILED; /* too long: its end is not known */
        if (status || !n) return status ? status : wrong;
        if (wrong) continue;
        if (strlen(line) != n)
            wrong = err_set(err, STATUS_USAGE, "a request holds a zero byte");
        else if (*argc == most)
            wrong = err_set(err, STATUS_USAGE, "a request has at most %d lines", LINES_MAX);
        else if (!(argv[(*argc)++] = unescape(arena, line)))
            return err_no_memory(err, "a request");
    }
}

enum status request_read(struct line_input *in, const struct command_line *line, const struct words *words,
                         void *record, struct request *out, struct err *err)
{
    char *argv[1 + WORDS_MAX + LINES_MAX + 1] = {(char *)line->name};
    int argc = 1;
    *out = (struct request){0};
    for (int i = 0; i < words->count && i < WORDS_MAX; i++) argv[argc++] = (char *)words->words[i];
    enum status status = read_lines(in, &out->arena, argv, &argc, err);
    if (status) return status;
    status = options_parse(line, argc, argv, record, &out->words, err);
    out->words.argv = NULL; /* it ends with this function */
    if (!status && (out->words.help || out->words.unknown))
        status = err_set(err, STATUS_USAGE, "a request is options and their values");
    return status;
}

void request_release(struct request *request)
{
    words_release(&request->words);
    arena_release(&request->arena);
}
