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
    (void)!write(STDERR_FILENO, sorry, sizeof sorry - 1);
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

/* The trainer's last line, without "anneal: "; "" where it wrote none. */
static void last_sentence(const char *path, char *buf, size_t size)
{
    char line[8192];
    FILE *file = fopen(path, "r");
    buf[0] = '\0';
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        const char *sentence = strncmp(line, "anneal: ", 8) == 0 ? line + 8 : line;
        if (*sentence) snprintf(buf, size, "%.*s", (int)size - 1, sentence);
    }
    if (file) fclose(file);
}

/* Fills *run_id; STATUS_NOT_FOUND: there is no such run. */
static enum status find_run(const struct launch *launch, struct store *store, bool ended,
                            char run_id[RUN_ID_MAX], struct err *err)
{
    struct arena arena = {0};
    struct run_info *runs;
    size_t count, i = 0;
    enum status status = run_list(store, &arena, &runs, &count, err);
    for (; !status && i < count; i++) { /* a process id alone proves nothing: in containers they repeat */
        bool ours = runs[i].pid == launch->pid && runs[i].created_at >= launch->started;
        if (ours && (ended || run_is_alive(store, runs[i].id))) break;
    }
    if (!status && i == count) status = STATUS_NOT_FOUND;
    if (!status) snprintf(run_id, RUN_ID_MAX, "%s", runs[i].id);
    arena_release(&arena);
    return status;
}

enum status launch_poll(struct launch *launch, struct store *store, char run_id[RUN_ID_MAX], struct err *err)
{
    char folder[4096], kept[4096 + 16], sentence[400];
    if (!launch->pid) return err_set(err, STATUS_NOT_FOUND, "no trainer was started");
    /* first whether it has ended, then whether its run exists: a very short run may have done both */
    bool ended = waitpid(launch->pid, NULL, WNOHANG) != 0; /* -1: launch_reap was first */
    if (find_run(launch, store, ended, run_id, err) == STATUS_OK) {
        run_folder(store, run_id, folder, sizeof folder);
        snprintf(kept, sizeof kept, "%s/stderr.log", folder);
        if (rename(launch->log, kept) != 0) unlink(launch->log);
        launch->pid = 0;
        return STATUS_OK;
    }
    if (!ended) return err_set(err, STATUS_BUSY, "the trainer is starting");
    last_sentence(launch->log, sentence, sizeof sentence);
    launch_release(launch);
    return err_set(err, STATUS_FAILED, "%s", *sentence ? sentence : "the trainer ended before it made a run");
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
