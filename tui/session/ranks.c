/* See ranks.h. */
#include "tui/session/ranks.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/train/trainer.h"
#include "tui/session/configured_corpus.h"
#include "tui/session/process.h"

enum status ranks_open(struct ranks *ranks, bool alone, struct err *err)
{
    *ranks = (struct ranks){.world = world_of_one()};
    enum status status = alone ? STATUS_OK : world_open(&ranks->world, err);
    if (!status && ranks->world->size > 1) interrupt_catch_launcher();
    return status;
}

enum status ranks_open_device(const struct ranks *ranks, const char *wish, const struct config *config,
                              struct device_choice *choice, struct err *err)
{
    int threads = (int)config->train.threads;
    if (!threads && ranks->world->size > 1 && !getenv("OMP_NUM_THREADS")) threads = ranks->world->cores;
    enum status status = device_choice_open(choice, wish, threads, err);
    if (status || ranks->world->size == 1 || strcmp(choice->info.short_name, "cpu") == 0) return status;
    return err_set(err, STATUS_USAGE, "%d ranks: several ranks train on CPUs alone so far (add --device cpu)",
                   ranks->world->size);
}

/* In the thread that watches the ranks; the process ends next. */
static void lost(void *context, const char *sentence)
{
    const struct ranks *ranks = context;
    dprintf(STDERR_FILENO,
            "anneal: %s; all ranks end (%s resume continues from the last checkpoint, with any number of "
            "ranks)\n",
            sentence, TEXT_PROGRAM);
    if (ranks->log) run_log_line(ranks->log, sentence);
}

/* ---- rank 0 ---- */

/* Then come as many bytes of the configuration's text. 0: nothing is trained. */
struct opening {
    size_t bytes;
    double timeout;
};

enum status ranks_begin(struct ranks *ranks, const struct config *config, struct err *err)
{
    if (ranks->world->size == 1) return STATUS_OK;
    char *text = config_text(config);
    if (!text) return err_set(err, STATUS_NO_MEMORY, "no memory for the configuration's text");
    struct opening opening = {strlen(text) + 1, config->world.timeout};
    world_share(ranks->world, &opening, sizeof opening);
    world_share(ranks->world, text, opening.bytes);
    world_watch(ranks->world, opening.timeout, lost, ranks);
    free(text);
    ranks->stage = RANKS_OPEN;
    enum status status = world_agree(ranks->world, STATUS_OK, err); /* on the corpus */
    if (status) ranks->stage = RANKS_TRAIN;
    return status;
}

enum status ranks_train(struct ranks *ranks, struct err *err)
{
    ranks->stage = RANKS_TRAIN;
    return world_agree(ranks->world, STATUS_OK, err);
}

enum status ranks_end(struct ranks *ranks, enum status status, struct err *err)
{
    const struct world *world = ranks->world;
    struct opening none = {0};
    struct err left = {.status = STATUS_FAILED};
    if (world->size > 1 && world->rank == 0) {
        if (ranks->stage == RANKS_WAIT) world_share(world, &none, sizeof none);
        if (ranks->stage == RANKS_OPEN) world_agree(world, STATUS_FAILED, &left);
    }
    world_share(world, &status, sizeof status);
    if (world->rank > 0 && status) err_set(err, status, "%s", "");
    world_close(world);
    return status;
}

/* ---- the others ---- */

static enum status reserve(void *context, int64_t bytes, struct err *err)
{
    (void)context, (void)bytes, (void)err;
    return STATUS_OK; /* rank 0 has reserved for all ranks of its host */
}

static bool next_order(void *context, int64_t step, struct order *out)
{
    (void)context, (void)step, (void)out;
    return false;
}

static bool leave(void *context)
{
    (void)context;
    return interrupt_requested();
}

static enum status owns(void *context, struct err *err)
{
    (void)context, (void)err;
    return STATUS_OK;
}

#define NOTHING(name, ...)                                                                                   \
    static void name(__VA_ARGS__)                                                                            \
    {                                                                                                        \
    }
/* clang-format off */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
NOTHING(on_step, void *context, const struct step_record *record)
NOTHING(on_eval, void *context, const struct eval_record *record, const struct measures *measures)
NOTHING(on_stopping, void *context, const struct stopping_record *record)
NOTHING(on_sample, void *context, const struct sample_record *record)
NOTHING(on_saving, void *context)
NOTHING(on_checkpoint, void *context, const struct checkpoint_record *record)
NOTHING(on_memory, void *context, const struct memory_record *record)
NOTHING(on_rank, void *context, const struct rank_record *record)
NOTHING(on_used, void *context, int64_t bytes)
NOTHING(on_profile, void *context, const struct profile_record *record)
NOTHING(on_event, void *context, const struct event_record *record)
NOTHING(on_paused, void *context, bool paused)
NOTHING(on_order_done, void *context, int64_t id, int64_t step, const char *result)
#pragma GCC diagnostic pop
/* clang-format on */

static const struct train_observer silent = {.reserve = reserve,
                                             .step = on_step,
                                             .eval = on_eval,
                                             .stopping = on_stopping,
                                             .sample = on_sample,
                                             .saving = on_saving,
                                             .safe = on_saving,
                                             .checkpoint = on_checkpoint,
                                             .memory = on_memory,
                                             .rank = on_rank,
                                             .used = on_used,
                                             .profile = on_profile,
                                             .event = on_event,
                                             .paused = on_paused,
                                             .next_order = next_order,
                                             .order_done = on_order_done,
                                             .leave = leave,
                                             .owns = owns};

struct follower {
    struct ranks *ranks;
    struct config config;
    char home[PATH_MAX];
    struct device_choice choice;
    struct corpus corpus;
    struct trainer *trainer;
};

/* Receives the configuration; false: nothing is trained. */
static bool receive(struct follower *f, enum status *status, struct err *err)
{
    const struct world *world = f->ranks->world;
    struct opening opening = {0};
    world_share(world, &opening, sizeof opening);
    if (!opening.bytes) return false;
    char *text = malloc(opening.bytes);
    if (!text) abort(); /* the others wait */
    world_share(world, text, opening.bytes);
    world_watch(world, opening.timeout, lost, f->ranks);
    config_init(&f->config);
    *status = config_read_effective(&f->config, text, "the configuration of rank 0", err);
    if (!*status) *status = config_finish(&f->config, err);
    free(text);
    return true;
}

static enum status open_corpus(struct follower *f, struct err *err)
{
    const char *key;
    return configured_corpus_open(&f->config, f->home, NULL, &f->corpus, &key, err);
}

static enum status open_trainer(struct follower *f, struct err *err)
{
    struct train_setup setup = {.config = &f->config,
                                .backend = f->choice.backend,
                                .device = f->choice.device,
                                .corpus = &f->corpus,
                                .world = f->ranks->world,
                                .checkpoints = "",
                                .traces = "",
                                .observer = silent};
    return trainer_open(&setup, &f->trainer, err);
}

static enum status follow(struct follower *f, struct err *err)
{
    const struct world *world = f->ranks->world;
    enum train_outcome outcome;
    enum status status = STATUS_OK;
    if (!receive(f, &status, err)) return STATUS_OK;
    bool first = world->local_rank == 0; /* of its host: the others find what it has prepared */
    if (!status) status = file_anneal_home(f->home, sizeof f->home, err);
    if (!status) status = ranks_open_device(f->ranks, "cpu", &f->config, &f->choice, err);
    if (!status && first) status = open_corpus(f, err);
    status = world_agree(world, status, err);
    if (status) return status;
    if (!first) status = open_corpus(f, err);
    if (!status) status = open_trainer(f, err);
    status = world_agree(world, status, err);
    return status ? status : trainer_run(f->trainer, &outcome, err);
}

enum status ranks_follow(struct ranks *ranks, struct err *err)
{
    struct follower f = {.ranks = ranks};
    interrupt_catch();
    interrupt_catch_preemption();
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    enum status status = follow(&f, err);
    trainer_close(f.trainer);
    corpus_close(&f.corpus);
    device_choice_close(&f.choice);
    return status;
}
