/* See launch.h. */
#include "tui/view/launch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/spawn.h"
#include "core/base/text.h"

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
    int code = spawn_program("/proc/self/exe", (const int[3]){-1, -1, log}, true, all, &launch->pid);
    close(log);
    if (!code) return STATUS_OK;
    unlink(launch->log);
    launch->pid = 0;
    return err_set(err, STATUS_FAILED, "cannot start a trainer: %s", strerror(code));
}

/* Whether our trainer is or was at work on this run. A process id alone proves nothing: containers reuse
 * them. */
static bool is_ours(const struct launch *launch, struct store *store, const struct run_info *run, bool ended)
{
    bool begun = launch->resumed[0] ? strcmp(run->id, launch->resumed) == 0 && run->segment > launch->segment
                                    : run->created_at >= launch->started;
    if (!begun || run->pid != launch->pid) return false;
    bool over = run->status == RUN_FINISHED || run->status == RUN_EARLY_STOPPED;
    return ended || over || run_is_alive(store, run->id);
}

/* Fills *run_id; STATUS_NOT_FOUND: no such run exists. */
static enum status find_run(const struct launch *launch, struct store *store, bool ended,
                            char run_id[RUN_ID_MAX], struct err *err)
{
    struct arena arena = {0};
    struct run_info *runs;
    size_t count = 0;
    enum status status = run_list(store, &arena, &runs, &count, err);
    size_t i = count; /* the oldest first: a series of seeds is watched from its first run on */
    while (i > 0 && !is_ours(launch, store, &runs[i - 1], ended)) i--;
    if (!status && i == 0) status = STATUS_NOT_FOUND;
    if (!status) snprintf(run_id, RUN_ID_MAX, "%s", runs[i - 1].id);
    arena_release(&arena);
    return status;
}

enum status launch_poll(struct launch *launch, struct store *store, char run_id[RUN_ID_MAX], struct err *err)
{
    char folder[4096], kept[4096 + 16], sentence[400];
    if (!launch->pid) return err_set(err, STATUS_NOT_FOUND, "no trainer was started");
    /* check for the end before the run: a very short trainer may start and end in between */
    bool ended = waitpid(launch->pid, NULL, WNOHANG) != 0; /* -1: launch_reap has collected it */
    enum status status = find_run(launch, store, ended, run_id, err);
    if (status == STATUS_BUSY) return status;
    if (!status) {
        run_folder(store, run_id, folder, sizeof folder);
        snprintf(kept, sizeof kept, "%s/stderr.log", folder);
        if (rename(launch->log, kept) != 0) unlink(launch->log);
        launch->pid = 0;
        return STATUS_OK;
    }
    struct file_map log = {0};
    (void)file_map_open(launch->log, &log, NULL);
    bool said = text_last_line((const char *)log.data, log.size, sentence, sizeof sentence);
    file_map_close(&log);
    if (!ended) return err_set(err, STATUS_BUSY, "%s", *sentence ? sentence : "starting");
    launch_release(launch);
    if (said) return err_set(err, STATUS_FAILED, "%s", sentence);
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
