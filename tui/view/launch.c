/* See launch.h. */
#include "tui/view/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/clock.h"

/* In the child: nothing of the terminal is left to it. Only async-signal-safe calls. */
static void become_trainer(int log, const char *const *arguments)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    int null = open("/dev/null", O_RDWR);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
    }
    dup2(log, STDERR_FILENO);
    for (int fd = 3; fd < 256; fd++) close(fd);
    execv("/proc/self/exe", (char *const *)(uintptr_t)arguments);
    static const char sorry[] = "anneal: cannot start a second anneal: /proc/self/exe does not run\n";
    if (write(STDERR_FILENO, sorry, sizeof sorry - 1) < 0) _exit(126);
    _exit(127);
}

enum status launch_start(struct launch *launch, const char *home, const char *const *arguments,
                         struct err *err)
{
    launch->pid = 0;
    snprintf(launch->log, sizeof launch->log, "%s/launch-XXXXXX", home);
    int log = mkstemp(launch->log);
    launch->started = clock_wall();
    if (log < 0) return err_set(err, STATUS_IO, "%s: cannot write: %s", launch->log, strerror(errno));
    pid_t pid = fork();
    if (pid == 0) become_trainer(log, arguments);
    close(log);
    if (pid < 0) {
        unlink(launch->log);
        return err_set(err, STATUS_FAILED, "cannot start a trainer: %s", strerror(errno));
    }
    launch->pid = pid;
    return STATUS_OK;
}

/* The trainer's last line that is not empty, without "anneal: ". */
static void last_sentence(const char *path, char *buf, size_t size)
{
    char text[8192];
    buf[0] = '\0';
    FILE *file = fopen(path, "r");
    if (!file) return;
    if (fseek(file, -(long)(sizeof text - 1), SEEK_END) != 0) rewind(file);
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' ')) n--;
    text[n] = '\0';
    char *line = strrchr(text, '\n');
    line = line ? line + 1 : text;
    if (strncmp(line, "anneal: ", 8) == 0) line += 8;
    snprintf(buf, size, "%.*s", (int)size - 1, line);
}

/* A process id alone proves nothing: they repeat, in containers all the time. */
static bool is_of_trainer(const struct launch *launch, struct store *store, const struct run_info *run,
                          bool ended)
{
    if (run->pid != launch->pid || !(run->created_at >= launch->started)) return false;
    return ended || run_is_alive(store, run->id);
}

enum status launch_poll(struct launch *launch, struct store *store, char run_id[RUN_ID_MAX], struct err *err)
{
    if (!launch->pid) return err_set(err, STATUS_NOT_FOUND, "no trainer was started");
    /* first whether it has ended, then whether its run exists: a very short run may have done both */
    int how = 0;
    pid_t reaped = waitpid(launch->pid, &how, WNOHANG); /* -1: launch_reap was first */
    bool ended = reaped != 0;
    struct arena arena;
    arena_init(&arena, 4096);
    struct run_info *runs;
    size_t count;
    enum status status = run_list(store, &arena, &runs, &count, err);
    bool found = false;
    for (size_t i = 0; status == STATUS_OK && i < count && !found; i++) {
        if (!is_of_trainer(launch, store, &runs[i], ended)) continue;
        char folder[4096], kept[4096 + 16];
        snprintf(run_id, RUN_ID_MAX, "%s", runs[i].id);
        run_folder(store, run_id, folder, sizeof folder);
        snprintf(kept, sizeof kept, "%s/stderr.log", folder);
        if (rename(launch->log, kept) != 0) unlink(launch->log);
        found = true;
    }
    arena_release(&arena);
    if (found) {
        launch->pid = 0;
        return STATUS_OK;
    }
    if (!ended) return err_set(err, STATUS_BUSY, "the trainer is starting");
    char sentence[400];
    last_sentence(launch->log, sentence, sizeof sentence);
    unlink(launch->log);
    launch->pid = 0;
    if (sentence[0]) return err_set(err, STATUS_FAILED, "%s", sentence);
    if (reaped < 0) return err_set(err, STATUS_FAILED, "the trainer ended before it made a run");
    if (WIFSIGNALED(how))
        return err_set(err, STATUS_FAILED, "the trainer was killed by signal %d before it made a run",
                       WTERMSIG(how));
    return err_set(err, STATUS_FAILED, "the trainer ended with status %d before it made a run",
                   WEXITSTATUS(how));
}

void launch_release(struct launch *launch)
{
    if (launch->pid) unlink(launch->log);
    launch->pid = 0;
}

void launch_reap(void)
{
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}
