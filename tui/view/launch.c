/* See launch.h. */
#include "tui/view/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/clock.h"

/* Starts this program detached from the terminal; stderr goes to log. Returns 0 or an errno. posix_spawn
 * holds signals back until the child has their default effects: between a fork and an exec our own handlers
 * would swallow one. */
static int spawn_trainer(int log, const char **arguments, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&files, STDIN_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, log, STDERR_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int code = posix_spawn(pid, "/proc/self/exe", &files, &attributes, (char *const *)arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return code;
}

enum status launch_start(struct launch *launch, const char *home, const char *const *arguments,
                         const struct run_info *resumed, struct err *err)
{
    const char *all[LAUNCH_WORDS_MAX + 2] = {program_invocation_name}; /* for the commands it suggests */
    for (size_t i = 0; arguments[i]; i++) {
        if (i == LAUNCH_WORDS_MAX)
            return err_set(err, STATUS_USAGE, "more than %d arguments for a trainer", LAUNCH_WORDS_MAX);
        all[i + 1] = arguments[i];
    }
    *launch = (struct launch){.segment = resumed ? resumed->segment : 0};
    if (resumed) memcpy(launch->resumed, resumed->id, sizeof launch->resumed);
    snprintf(launch->log, sizeof launch->log, "%s/launch-XXXXXX", home);
    int log = mkstemp(launch->log);
    launch->started = clock_wall();
    if (log < 0) return err_set(err, STATUS_IO, "%s: cannot write: %s", launch->log, strerror(errno));
    int code = spawn_trainer(log, all, &launch->pid);
    close(log);
    if (!code) return STATUS_OK;
    unlink(launch->log);
    launch->pid = 0;
    return err_set(err, STATUS_FAILED, "cannot start a trainer: %s", strerror(code));
}

/* The trainer's last line; "" if it wrote none. */
static void last_line(const char *path, char *buf, size_t size)
{
    char line[8192];
    FILE *file = fopen(path, "r");
    buf[0] = '\0';
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (*line) snprintf(buf, size, "%.*s", (int)size - 1, line);
    }
    if (file) fclose(file);
}

/* Whether our trainer is or was at work on this run. A process id alone proves nothing: containers reuse
 * them. */
static bool is_ours(const struct launch *launch, struct store *store, const struct run_info *run, bool ended)
{
    bool begun = launch->resumed[0] ? strcmp(run->id, launch->resumed) == 0 && run->segment > launch->segment
                                    : run->created_at >= launch->started;
    return begun && run->pid == launch->pid && (ended || run_is_alive(store, run->id));
}

/* Fills *run_id; STATUS_NOT_FOUND: no such run exists. */
static enum status find_run(const struct launch *launch, struct store *store, bool ended,
                            char run_id[RUN_ID_MAX], struct err *err)
{
    struct arena arena = {0};
    struct run_info *runs;
    size_t count, i = 0;
    enum status status = run_list(store, &arena, &runs, &count, err);
    while (!status && i < count && !is_ours(launch, store, &runs[i], ended)) i++;
    if (!status && i == count) status = STATUS_NOT_FOUND;
    if (!status) snprintf(run_id, RUN_ID_MAX, "%s", runs[i].id);
    arena_release(&arena);
    return status;
}

enum status launch_poll(struct launch *launch, struct store *store, char run_id[RUN_ID_MAX], struct err *err)
{
    char folder[4096], kept[4096 + 16], sentence[400];
    if (!launch->pid) return err_set(err, STATUS_NOT_FOUND, "no trainer was started");
    /* check for the end before the run: a very short trainer may start and end in between */
    bool ended = waitpid(launch->pid, NULL, WNOHANG) != 0; /* -1: launch_reap has collected it */
    if (find_run(launch, store, ended, run_id, err) == STATUS_OK) {
        run_folder(store, run_id, folder, sizeof folder);
        snprintf(kept, sizeof kept, "%s/stderr.log", folder);
        if (rename(launch->log, kept) != 0) unlink(launch->log);
        launch->pid = 0;
        return STATUS_OK;
    }
    last_line(launch->log, sentence, sizeof sentence);
    if (!ended) return err_set(err, STATUS_BUSY, "%s", *sentence ? sentence : "starting");
    launch_release(launch);
    if (strncmp(sentence, "anneal: ", 8) == 0) return err_set(err, STATUS_FAILED, "%s", sentence + 8);
    return err_set(err, STATUS_FAILED, "the trainer ended before it made a run%s%s", *sentence ? ": " : "",
                   sentence);
}

void launch_release(struct launch *launch)
{
    if (launch->pid) unlink(launch->log);
    launch->pid = 0;
}

void launch_cancel(struct launch *launch)
{
    if (launch->pid) kill(launch->pid, SIGTERM);
    launch_release(launch);
}

void launch_reap(void)
{
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}
