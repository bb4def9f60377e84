/* Requests on standard input, for commands that keep a model loaded between them. A request is options of the
 * command, one a line ("--prompt=In the"), up to an empty line; \n in a line is a new line, and \\ a
 * backslash. */
#ifndef ANNEAL_TUI_COMMAND_REQUEST_H
#define ANNEAL_TUI_COMMAND_REQUEST_H

#include "core/base/arena.h"
#include "core/base/options.h"
#include "tui/command/line_input.h"

/* Texts in the record and the words borrow from the arena. */
struct request {
    struct words words;
    struct arena arena;
};

/* Reads the next request into `record`, which holds the options of the command line on entry; `words` are
 * those of the command line. STATUS_USAGE: one of its lines is wrong, and the request after it can be read;
 * STATUS_NOT_FOUND: the input has ended; STATUS_INTERRUPTED: by another signal than SIGINT; STATUS_FAILED: a
 * line is longer than 1 MiB. Release it also after a failure. */
enum status request_read(struct line_input *in, const struct command_line *line, const struct words *words,
                         void *record, struct request *out, struct err *err);
void request_release(struct request *request);

#endif
