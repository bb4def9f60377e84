/* See command.h: the table of commands, how the words of a command line find the one they mean, and what
 * commands share. */
#include "tui/command/command.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "core/base/file.h"
#include "core/base/text.h"

void command_say(const char *format, ...)
{
    char text[4096], line[3 * sizeof text]; /* it may quote file names and what was recorded */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    clean_line(line, sizeof line, text);
    fprintf(stderr, "anneal: %s\n", line);
}

int command_columns(FILE *out)
{
    int64_t columns;
    struct winsize size;
    const char *set = getenv("COLUMNS");
    if (set && text_parse_int(set, &columns) && columns > 0) return columns < 10000 ? (int)columns : 10000;
    return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static enum status fail_to_write(int code, struct err *err)
{
    return err_set(err, STATUS_IO, "standard output: cannot write: %s",
                   code ? strerror(code) : "write error");
}

void command_begin_json(struct json_out *json, char open)
{
    json_out_begin(json, stdout);
    json_out_open(json, NULL, open, JSON_OUT_LINES);
}

enum status command_end_json(struct json_out *json, struct err *err)
{
    json_out_close(json);
    int code = json_out_finish(json);
    return code ? fail_to_write(code, err) : STATUS_OK;
}

enum status command_open_store(bool to_read, struct store **out, struct err *err)
{
    char home[PATH_MAX];
    enum status status = file_anneal_home(home, sizeof home, err);
    if (status) return status;
    return to_read ? store_open_to_read(home, out, err) : store_open(home, out, err);
}

enum status command_check_stdout(struct err *err)
{
    errno = 0;
    return fflush(stdout) == 0 && !ferror(stdout) ? STATUS_OK : fail_to_write(errno, err);
}
