/* See background.h. */
#include "tui/command/background.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/text.h"
#include "tui/command/command.h"
#include "tui/command/output.h"
#include "tui/session/process.h"
#include "tui/view/launch.h"

enum { POLL_MS = 50 };

/* Prints a line that overwrites itself, if the terminal can do that. */
static void show(const char *doing)
{
    static const char what[] = "preparing: ";
    int width = output_columns(stderr), room = (width ? width : 80) - (int)sizeof what;
    if (room > 0 && output_is_terminal(stderr))
        fprintf(stderr, "\r%s%.*s\033[K", what, room, CLEAN_LINE(doing));
}

/* Ends a trainer that has not begun yet: it leaves no run behind. */
static enum status give_up(struct launch *launch, struct err *err)
{
    pid_t pid = launch->pid;
    launch_cancel(launch);
    show("stopping");
    waitpid(pid, NULL, 0);
    return err_set(err, STATUS_INTERRUPTED, "%s", "");
}

/* Waits until the trainer works on a run; fills in its id. */
static enum status wait_for_run(struct launch *launch, struct store *store, char id[RUN_ID_MAX],
                                struct err *err)
{
    enum status status;
    show("starting");
    while ((status = launch_poll(launch, store, id, err)) == STATUS_BUSY) {
        if (interrupt_requested()) {
            status = give_up(launch, err);
            break;
        }
        show(err->text);
        poll(NULL, 0, POLL_MS);
    }
    if (output_is_terminal(stderr)) fputs("\r\033[K", stderr);
    return status;
}

enum status background_watch(const char *command, char **argv, const struct run_info *resumed,
                             struct err *err)
{
    char id[RUN_ID_MAX];
    const char *arguments[LAUNCH_WORDS_MAX + 1] = {command, LAUNCH_PROGRESS};
    size_t count = 2;
    struct launch launch = {0};
    struct store *store = NULL;
    bool out = isatty(STDOUT_FILENO);
    if (!out || !isatty(STDIN_FILENO))
        return err_set(err, STATUS_FAILED,
                       "--watch: the workbench needs a terminal, but standard %s is not one (without "
                       "--watch anneal trains and prints its progress)",
                       out ? "input" : "output");
    for (; *argv && count < LAUNCH_WORDS_MAX; argv++) {
        if (strcmp(*argv, "--progress") == 0 && argv[1])
            argv++;
        else if (strcmp(*argv, "--watch") != 0 && strncmp(*argv, "--progress=", 11) != 0)
            arguments[count++] = *argv;
    }
    if (*argv) return err_set(err, STATUS_USAGE, "more than %d arguments", LAUNCH_WORDS_MAX);
    enum status status = store_open(NULL, STORE_WRITE, &store, err);
    interrupt_catch(); /* first: a Ctrl-C that ended only this process would leave the trainer behind */
    if (!status) status = launch_start(&launch, store_home(store), arguments, resumed, err);
    if (!status) status = wait_for_run(&launch, store, id, err);
    launch_release(&launch);
    store_close(store);
    if (status || !(status = watch_started(id, err))) return status;
    return err_prefix(err, "run %s has started in the background", id);
}
