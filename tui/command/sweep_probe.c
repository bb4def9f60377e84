/* See sweep_probe.h. */
#include "tui/command/sweep_probe.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tui/command/progress_bar.h"
#include "tui/session/process.h"
#include "tui/session/training_session.h"

enum { POLL_MS = 10 };

/* In memory that the process shares. */
struct answer {
    int ranks; /* of the question */
    enum status status;
    struct err err;
    struct sweep_probe found;
};

/* Plans one of the ranks; they share the memory of a host, but not that of a GPU. */
static enum status plan_rank(const struct training_session *s, int ranks, int64_t *bytes, struct err *err)
{
    struct plan plan;
    struct plan_input input = trainer_plan(s->trainer)->input;
    plan_input_share(&input, &s->config, 0, ranks);
    enum status status = plan_init(&plan, &input, err);
    if (status) return status;
    *bytes = (int64_t)plan.total_bytes * (s->choice.backend == cpu_backend() ? ranks : 1);
    plan_release(&plan);
    return STATUS_OK;
}

static enum status note(const struct training_session *s, void *context, struct err *err)
{
    struct answer *answer = context;
    struct sweep_probe *found = &answer->found;
    const struct config *c = &s->config;
    const struct plan *plan = trainer_plan(s->trainer);
    enum status status = plan_rank(s, answer->ranks, &found->planned_bytes, err);
    if (status) return status;
    found->left_bytes = memory_share_left(&(struct memory_wish){
        .backend = s->choice.backend, .device = s->choice.device, .reserve = c->memory.reserve});
    found->total_steps = c->train.total_steps;
    double micro_batches = config_micro_batches_sum(c, c->train.total_steps) / (double)c->train.total_steps;
    found->tokens_per_step = llround(micro_batches * (double)(c->train.batch_size * c->train.seq_len));
    found->threads = c->train.threads;
    found->parameters = plan->input.model->parameters;
    found->frozen_parameters = plan->input.model->frozen_parameters;
    int64_t most = c->eval.batches * c->train.batch_size,
            all = (int64_t)trainer_sequences(s->trainer, TASK_VALIDATION);
    found->evaluated = (most && most < all ? most : all) * c->train.seq_len;
    snprintf(found->device, sizeof found->device, "%s", s->choice.info.short_name);
    snprintf(found->precision, sizeof found->precision, "%s", precision_name(plan->input.precision));
    return STATUS_OK;
}

static void prepared(void *context)
{
    progress_bar_finish(context);
}

static void probe(const struct config *config, const char *device, bool notes, struct answer *answer)
{
    struct ranks ranks;
    struct progress_bar bar;
    progress_bar_init(&bar, stderr, PROGRESS_AUTO);
    if (!notes) bar.progress.note = NULL;
    struct training_options options = {.config = *config,
                                       .device = device,
                                       .ranks = &ranks,
                                       .silent = true,
                                       .watcher = training_watcher_silent};
    options.watcher.context = &bar;
    options.watcher.progress = &bar.progress;
    options.watcher.prepared = prepared;
    answer->status = ranks_open(&ranks, true, &answer->err);
    if (!answer->status) answer->status = training_try(&options, note, answer, &answer->err);
    ranks_end(&ranks);
}

enum status sweep_probe(const struct config *config, const char *device, int ranks, bool notes,
                        struct sweep_probe *out, struct err *err)
{
    int status = 0;
    struct answer *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return err_no_memory(err, "checking a run");
    shared->ranks = ranks;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        probe(config, device, notes, shared);
        _exit(0);
    }
    for (bool told = false; child > 0 && waitpid(child, &status, WNOHANG) == 0; poll(NULL, 0, POLL_MS)) {
        if (!interrupt_requested() || told) continue;
        kill(child, SIGTERM); /* it need not be in the group that was signalled */
        told = true;
    }
    struct answer answer = *shared;
    munmap(shared, sizeof *shared);
    if (child < 0) return err_set(err, STATUS_FAILED, "cannot start a process: %s", strerror(errno));
    if (interrupt_requested()) return err_set(err, STATUS_INTERRUPTED, "interrupted while checking the runs");
    if (status)
        return err_set(err, STATUS_FAILED, "checking a run ended with %s %d",
                       WIFSIGNALED(status) ? "signal" : "status",
                       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    if (answer.status) *err = answer.err;
    *out = answer.found;
    return answer.status;
}
