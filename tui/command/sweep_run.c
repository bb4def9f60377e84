/* See sweep_run.h. A trainer gets SIGTERM when this process dies, even by a kill -9: it saves and stops. It
 * inherits the descriptor of the sweep's lock, which is free when the last of them has ended. */
#include "tui/command/sweep_run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/processors.h"
#include "core/base/text.h"
#include "runs/annotation.h"
#include "tui/command/output.h"
#include "tui/session/process.h"

enum { POLL_MS = 50, WORDS_MAX = 16 };

static const double LOOK_SECONDS = 1;  /* between looks at a run that another program trains */
static const double GRACE_SECONDS = 1; /* for a process that has just taken the lock to say that it did */

struct sweep_runner {
    struct sweep *sweep;
    struct store *store;
    int active;
    struct {
        pid_t pid; /* 0: none */
        int run;
    } children[SWEEP_JOBS_MAX];
    bool started[SWEEP_RUNS_MAX]; /* for the rung that is trained for */
};

/* ---- the lock ---- */

enum status sweep_lock(const struct sweep *sweep, int *out, struct err *err)
{
    char path[PATH_MAX], text[32] = "";
    bool told = false;
    double begin = clock_monotonic();
    enum status status = file_format_path(path, sizeof path, err, "%s/lock", sweep->folder);
    if (status) return status;
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0666); /* the trainers keep it open */
    if (fd < 0) return err_set(err, STATUS_IO, "%s: cannot open: %s", path, strerror(errno));
    while (!status && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int why = errno;
        ssize_t n = pread(fd, text, sizeof text - 1, 0);
        long pid = n > 0 ? atol(text) : 0;
        if (why != EWOULDBLOCK && why != EINTR)
            status = err_set(err, STATUS_IO, "%s: cannot lock: %s", path, strerror(why));
        else if (pid > 0 && (kill((pid_t)pid, 0) == 0 || errno == EPERM))
            status = err_set(err, STATUS_BUSY,
                             "sweep %s: process %ld is training it (wait, or stop it with kill -INT %ld)",
                             sweep->name, pid, pid);
        else if (interrupt_requested())
            status = err_set(err, STATUS_INTERRUPTED, "%s", "");
        else if (!told && clock_monotonic() - begin > GRACE_SECONDS) {
            fprintf(stderr, "waits for trainers of this sweep, which save their work and stop\n");
            told = true;
        }
        if (!status) poll(NULL, 0, POLL_MS);
    }
    int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (!status && (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)n, 0) != n))
        status = err_set(err, STATUS_IO, "%s: cannot write: %s", path, strerror(errno));
    if (status)
        close(fd);
    else
        *out = fd;
    return status;
}

/* ---- what is reported ---- */

char *sweep_run_words(const struct sweep *sweep, int index, char *buf, size_t size)
{
    *buf = '\0';
    for (int k = 0; k < sweep->key_count; k++) {
        const char *dot = strrchr(sweep->keys[k], '.');
        text_add(buf, size, ", ", "%s %.60s", dot ? dot + 1 : sweep->keys[k],
                 CLEAN_LINE(sweep->runs[index].values[k]));
    }
    return buf;
}

/* Tells how a run has come to its rung, or that it did not. */
static void tell(const struct sweep *sweep, int index)
{
    const struct sweep_run *run = &sweep->runs[index];
    char words[400], path[PATH_MAX], why[600] = "";
    struct file_map log = {0};
    const char *status = run->begun ? status_words[run->info.status] : "failed";
    sweep_run_words(sweep, index, words, sizeof words);
    if (!run->given_up && run->info.status != RUN_FAILED) {
        fprintf(stderr, "run %d (%s): %s %s at step %" PRId64 "\n", index + 1, CLEAN_LINE(words),
                sweep_measure_words(sweep), TEXT_LOSS(run->value[run->rung]), run->info.steps);
        return;
    }
    if (run->begun && *run->info.message)
        snprintf(why, sizeof why, "%s", CLEAN_LINE(run->info.message));
    else if (!sweep_path(sweep, index, "log", path, NULL) && !file_map_open(path, &log, NULL))
        text_last_line((const char *)log.data, log.size, why, sizeof why);
    file_map_close(&log);
    fprintf(stderr, "run %d (%s): %s%s%s; the others go on without it\n", index + 1, CLEAN_LINE(words),
            status, *why ? ": " : "", why);
}

static void tell_rung(const struct sweep *sweep, int rung)
{
    int count = 0;
    for (int i = 0; i < sweep->run_count; i++) count += !sweep->runs[i].left && sweep->runs[i].rung == rung;
    fprintf(stderr, "rung %d of %d: %d run%s\n", rung + 1, sweep->rung_count, count, text_plural(count));
}

/* ---- trainers ---- */

/* Only calls that are safe between fork and exec in a process of one thread. */
static void become_trainer(const char *const *words, int log, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0); /* a Ctrl-C reaches this program's parent alone, which passes it on */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);
    int null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execv("/proc/self/exe", (char *const *)words);
    _exit(127);
}

static enum status spawn(const struct sweep_runner *r, int index, const char *const *words, pid_t *pid,
                         struct err *err)
{
    char path[PATH_MAX], threads[16];
    pid_t parent = getpid();
    enum status status = sweep_path(r->sweep, index, "log", path, err);
    if (status) return status;
    int log = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (log < 0) return err_set(err, STATUS_IO, "%s: cannot write: %s", path, strerror(errno));
    int share = processors_usable() / r->sweep->jobs / r->sweep->ranks;
    snprintf(threads, sizeof threads, "%d", share > 0 ? share : 1);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (r->sweep->jobs > 1) setenv("OMP_NUM_THREADS", threads, 1);
        become_trainer(words, log, parent);
    }
    close(log);
    if (child < 0) return err_set(err, STATUS_FAILED, "cannot start a trainer: %s", strerror(errno));
    *pid = child; /* never -1: stop_all sends it a signal, which would reach all processes */
    return STATUS_OK;
}

/* Starts the run, or goes on with it. */
static enum status start(struct sweep_runner *r, int index, struct err *err)
{
    const struct sweep *sweep = r->sweep;
    const struct sweep_run *run = &sweep->runs[index];
    char path[PATH_MAX], name[SWEEP_NAME_MAX + 16], tag[SWEEP_NAME_MAX + 16], until[32], ranks[32];
    const char *words[WORDS_MAX] = {program_invocation_name,
                                    run->begun ? "resume" : "train",
                                    run->begun ? run->info.id : path,
                                    "--progress=none",
                                    "--wait",
                                    "--device",
                                    sweep->device};
    int count = 7, slot = 0;
    enum status status = sweep_path(sweep, index, "ini", path, err);
    if (status) return status;
    snprintf(name, sizeof name, "--name=%s-%d", sweep->name, index + 1);
    snprintf(tag, sizeof tag, "--tag=sweep:%s", sweep->name);
    snprintf(until, sizeof until, "--until=%" PRId64, run->rungs[run->rung]);
    snprintf(ranks, sizeof ranks, "--ranks=%d", sweep->ranks);
    if (!run->begun) words[count++] = name, words[count++] = tag;
    if (sweep->ranks > 1) words[count++] = ranks;
    if (run->rung < sweep->rung_count - 1) words[count++] = until;
    while (r->children[slot].pid) slot++;
    status = spawn(r, index, words, &r->children[slot].pid, err);
    if (status) return status;
    r->children[slot].run = index;
    r->started[index] = true;
    r->active++;
    return STATUS_OK;
}

/* Collects trainers that have ended, and tells how. */
static enum status collect(struct sweep_runner *r, struct err *err)
{
    int ended[SWEEP_JOBS_MAX], count = 0;
    for (int i = 0; i < SWEEP_JOBS_MAX; i++) {
        pid_t pid = r->children[i].pid;
        if (!pid || (waitpid(pid, NULL, WNOHANG) == 0)) continue;
        r->children[i].pid = 0;
        ended[count++] = r->children[i].run;
        r->active--;
    }
    enum status status = count ? sweep_look(r->sweep, r->store, err) : STATUS_OK;
    for (int i = 0; !status && i < count && !interrupt_requested(); i++) {
        struct sweep_run *run = &r->sweep->runs[ended[i]];
        run->given_up = !sweep_run_done(run);
        tell(r->sweep, ended[i]);
    }
    return status;
}

/* Returns whether all have saved what they had trained. */
static bool stop_all(struct sweep_runner *r)
{
    bool saved = true;
    for (int i = 0; i < SWEEP_JOBS_MAX; i++)
        if (r->children[i].pid) kill(r->children[i].pid, SIGTERM);
    for (int i = 0; i < SWEEP_JOBS_MAX; i++)
        if (r->children[i].pid)
            while (waitpid(r->children[i].pid, NULL, 0) < 0 && errno == EINTR) continue;
    if (sweep_look(r->sweep, r->store, NULL)) return false;
    for (int i = 0; i < SWEEP_JOBS_MAX; i++) {
        const struct sweep_run *run = &r->sweep->runs[r->children[i].run];
        bool ended_badly = run->begun && (run->info.status == RUN_CRASHED || run->info.status == RUN_FAILED);
        if (r->children[i].pid && ended_badly && run->info.steps > 0) saved = false;
    }
    return saved;
}

/* Starts as many runs as there is room for. */
static enum status start_some(struct sweep_runner *r, struct err *err)
{
    enum status status = STATUS_OK;
    for (int i = 0; !status && i < r->sweep->run_count && r->active < r->sweep->jobs; i++) {
        const struct sweep_run *run = &r->sweep->runs[i];
        if (r->started[i] || sweep_run_done(run)) continue;
        if (run->begun && run_is_alive(r->store, run->info.id)) continue; /* the user has resumed it */
        status = start(r, i, err);
    }
    return status;
}

/* Before a rung is judged, all its trainers have ended: until then the store may lack their last evaluation.
 */
static enum status train(struct sweep_runner *r, struct err *err)
{
    enum status status = sweep_look(r->sweep, r->store, err);
    for (int i = 0; !status && i < r->sweep->run_count; i++)
        if (sweep_run_missing(r->sweep, &r->sweep->runs[i]))
            output_warn("run %d of the sweep is missing (it was deleted, lost its tag " TAG_SWEEP
                        "%s, or could not be started): it trains anew",
                        i + 1, r->sweep->name);
    double looked = clock_monotonic();
    for (int rung = -1; !status; poll(NULL, 0, POLL_MS)) {
        if (interrupt_requested()) return STATUS_INTERRUPTED;
        if (!r->active && sweep_judge(r->sweep) == r->sweep->rung_count) return STATUS_OK;
        if (rung != r->sweep->rung) {
            memset(r->started, 0, sizeof r->started);
            rung = r->sweep->rung;
            tell_rung(r->sweep, rung);
        }
        status = start_some(r, err);
        if (!status) status = collect(r, err);
        if (!status && !r->active && clock_monotonic() - looked > LOOK_SECONDS) {
            status = sweep_look(r->sweep, r->store, err);
            looked = clock_monotonic();
        }
    }
    return status;
}

enum status sweep_train(struct sweep *sweep, struct store *store, struct err *err)
{
    struct sweep_runner r = {.sweep = sweep, .store = store};
    signal(SIGHUP, SIG_IGN); /* a closed terminal does not stop a sweep */
    signal(SIGPIPE, SIG_IGN);
    enum status status = train(&r, err);
    bool saved = stop_all(&r);
    if (!interrupt_requested()) return status;
    if (!saved)
        return err_set(err, STATUS_FAILED,
                       "a run ended without saving (`%s runs` shows it; continue with: %s sweep --resume %s)",
                       TEXT_PROGRAM, TEXT_PROGRAM, sweep->name);
    fprintf(stderr, "the runs are saved; continue with: %s sweep --resume %s\n", TEXT_PROGRAM, sweep->name);
    if (interrupt_signal() == SIGTERM) return STATUS_OK;
    return err_set(err, interrupt_signal() == SIGUSR1 ? STATUS_PREEMPTED : STATUS_INTERRUPTED, "%s", "");
}
