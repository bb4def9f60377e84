/* See commands.h. */
#include "tui/command/run_commands.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "tui/command/json_document.h"

enum status run_open_store(struct store **out, struct err *err)
{
    char home[PATH_MAX];
    enum status status = file_anneal_home(home, sizeof home, err);
    return status ? status : store_open(home, out, err);
}

enum status run_open_store_to_read(struct store **out, struct err *err)
{
    char home[PATH_MAX];
    enum status status = file_anneal_home(home, sizeof home, err);
    return status ? status : store_open_to_read(home, out, err);
}

enum status run_print_json(json_t *value, struct err *err)
{
    if (!value) return err_set(err, STATUS_NO_MEMORY, "writing JSON: not enough memory");
    bool printed = json_document_print(value);
    json_decref(value);
    return printed ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "writing JSON: not enough memory");
}

enum status run_check_stdout(struct err *err)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return STATUS_OK;
    return err_set(err, STATUS_IO, "standard output: cannot write: %s",
                   errno ? strerror(errno) : "write error");
}

int run_option_error(char **argv, int option)
{
    char why[160];
    const char *word = optind > 0 && argv[optind - 1] ? argv[optind - 1] : "";
    snprintf(why, sizeof why, option == ':' ? "%.100s needs a value" : "no option %.100s", word);
    return command_usage(argv[0], why);
}
