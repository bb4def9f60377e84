/* See ranks.h. */
#include "tui/session/ranks.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/processors.h"
#include "core/base/text.h"
#include "core/train/trainer.h"
#include "kernels/device/cuda_plugin.h"
#include "runs/store.h"
#include "tui/session/configured_corpus.h"
#include "tui/session/memory_share.h"
#include "tui/session/process.h"
#include "tui/session/run_log.h"

enum status ranks_open(struct ranks *ranks, bool alone, struct err *err)
{
    *ranks = (struct ranks){.world = world_of_one()};
    return alone ? STATUS_OK : world_open(&ranks->world, err);
}

/* ---- devices ---- */

static bool has_gpu(const struct device_choice *choice)
{
    return choice->backend != cpu_backend();
}

/* Ranks of a host take its GPUs in order; one that a launcher shows a single GPU takes that. Rank 0 is the
 * first of its host. */
static void choose_gpu(const struct world *world, char wish[16])
{
    const struct cuda_plugin *plugin;
    struct cuda_driver_report driver;
    int index = world->local_rank;
    if (!cuda_plugin_open(&plugin, NULL) && !plugin->inspect(&driver, NULL)) index %= driver.devices;
    snprintf(wish, 16, "cuda:%d", index);
}

enum status ranks_open_device(const struct ranks *ranks, const char *wish, const struct config *config,
                              struct device_choice *choice, struct err *err)
{
    const struct world *world = ranks->world;
    int threads = (int)config->train.threads;
    char own[16];
    if (world->size == 1) return device_choice_open(choice, wish, threads, err);
    if (strncmp(wish, "cuda:", 5) == 0)
        return err_set(
            err, STATUS_USAGE,
            "--device %s: each rank takes a GPU of its own (use --device cuda; CUDA_VISIBLE_DEVICES "
            "chooses among the GPUs)",
            wish);
    if (!threads && !processors_wanted())
        threads = processors_within(processors_limit() / world->local_size, world->cores);
    if (world->rank > 0 && strcmp(wish, "cuda") == 0) {
        choose_gpu(world, own);
        wish = own;
    }
    enum status status = device_choice_open(choice, wish, threads, err);
    if (status || !has_gpu(choice)) return status;
    choice->wish = "cuda"; /* none falls back alone */
    if (world->beside) return STATUS_OK;
    return err_set(
        err, STATUS_USAGE,
        "%d ranks on GPUs: this MPI lets only one thread of a process use it (use one that supports "
        "MPI_THREAD_MULTIPLE, or --device cpu)",
        world->size);
}

/* Connects the GPUs of all ranks, which call it together. */
static enum status join(const struct world *world, const struct device_choice *choice, struct err *err)
{
    char all[WORLD_RANKS_MAX][sizeof choice->info.uuid];
    if (!has_gpu(choice)) return STATUS_OK;
    snprintf(all[world->rank], sizeof *all, "%s", choice->info.uuid);
    world_gather(world, all, sizeof *all);
    for (int b = 1; b < world->size; b++)
        for (int a = 0; a < b; a++)
            if (strcmp(world->hosts[a], world->hosts[b]) == 0 && strcmp(all[a], all[b]) == 0)
                return err_set(
                    err, STATUS_USAGE,
                    "ranks %d and %d would share a GPU of %s: each needs its own (start as many ranks "
                    "as the host has GPUs, or add --device cpu)",
                    a, b, world->hosts[a]);
    return choice->backend->device_join(choice->device, world, err);
}

/* Rank 0 may be the lost one, so the rank that reports does this, on a connection of its own. On a host that
 * does not see the run's home, nothing is recorded. */
static void record_loss(const char *run, const char *sentence)
{
    char path[PATH_MAX], folder[PATH_MAX];
    struct store *store = NULL;
    struct run_log log;
    if (store_path(NULL, path, NULL) || !file_exists(path) || store_open(NULL, STORE_WRITE, &store, NULL))
        return;
    if (!run_record_loss(store, run, sentence, NULL)) {
        run_folder(store, run, folder, sizeof folder);
        run_log_open(&log, folder);
        run_log_line(&log, sentence);
        run_log_close(&log);
    }
    store_close(store);
}

/* In the thread that watches the ranks; the process ends next. */
static void lost(void *context, const char *sentence)
{
    const struct ranks *ranks = context;
    dprintf(STDERR_FILENO,
            "anneal: %s; all ranks end (%s resume continues from the last checkpoint, with any number of "
            "ranks)\n",
            sentence, TEXT_PROGRAM);
    if (*ranks->run) record_loss(ranks->run, sentence);
}

/* ---- rank 0 ---- */

/* Then come as many bytes of the configuration's text. 0: nothing more is trained. */
struct opening {
    size_t bytes;
    double timeout;
    char device[8]; /* "cpu", "cuda" */
};

enum status ranks_begin(struct ranks *ranks, const struct config *config, const struct device_choice *choice,
                        struct err *err)
{
    if (ranks->world->size == 1) return STATUS_OK;
    char *text = config_text(config);
    if (!text) return err_no_memory(err, "the configuration's text");
    struct opening opening = {strlen(text) + 1, config->world.timeout, ""};
    snprintf(opening.device, sizeof opening.device, "%s", has_gpu(choice) ? "cuda" : "cpu");
    world_share(ranks->world, &opening, sizeof opening);
    world_share(ranks->world, text, opening.bytes);
    world_watch(ranks->world, opening.timeout, lost, ranks);
    free(text);
    enum status status = world_agree(ranks->world, STATUS_OK, err); /* on the corpus */
    if (!status) status = join(ranks->world, choice, err);
    ranks->opening = !status;
    return status;
}

enum status ranks_train(struct ranks *ranks, struct err *err)
{
    ranks->opening = false;
    enum status status = world_agree(ranks->world, STATUS_OK, err);
    if (!status) world_share(ranks->world, ranks->run, sizeof ranks->run);
    return status;
}

void ranks_rest(struct ranks *ranks)
{
    struct err left = {.status = STATUS_FAILED};
    if (ranks->opening) world_agree(ranks->world, STATUS_FAILED, &left);
    ranks->opening = false;
    *ranks->run = '\0';
}

void ranks_end(struct ranks *ranks)
{
    struct opening none = {0};
    if (ranks->world->rank == 0) world_share(ranks->world, &none, sizeof none);
    world_close(ranks->world);
}

/* ---- the others ---- */

struct follower {
    struct ranks *ranks;
    struct config config;
    char device[8], home[PATH_MAX];
    struct device_choice choice;
    struct memory_share share;
    struct corpus corpus;
    struct trainer *trainer;
};

static const char *holder(const struct follower *f, char buf[32])
{
    snprintf(buf, 32, "rank %d of a run", f->ranks->world->rank);
    return buf;
}

/* Its GPU; of a CPU, rank 0 has reserved for all ranks of its host. */
static enum status reserve(void *context, int64_t bytes, struct err *err)
{
    struct follower *f = context;
    char text[32];
    struct memory_wish wish = {.holder = holder(f, text),
                               .backend = f->choice.backend,
                               .device = f->choice.device,
                               .reserve = f->config.memory.reserve,
                               .bytes = bytes};
    return has_gpu(&f->choice) ? memory_share_take(&f->share, &wish, err) : STATUS_OK;
}

static void on_used(void *context, int64_t bytes)
{
    struct follower *f = context;
    char text[32];
    memory_share_used(&f->share, holder(f, text), bytes);
}

static bool leave(void *context)
{
    (void)context;
    return interrupt_requested();
}

/* Receives the configuration; false: nothing more is trained. */
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
    memcpy(f->device, opening.device, sizeof f->device);
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
                                .observer = train_observer_silent};
    setup.observer.context = f;
    setup.observer.reserve = reserve;
    setup.observer.used = on_used;
    setup.observer.leave = leave;
    return trainer_open(&setup, &f->trainer, err);
}

/* Failures are those of rank 0, too. */
static enum status train(struct follower *f, enum status status, struct err *err)
{
    const struct world *world = f->ranks->world;
    enum train_outcome outcome;
    bool first = world->local_rank == 0; /* of its host: the others find what it has prepared */
    if (!status) status = file_anneal_home(f->home, sizeof f->home, err);
    if (!status) status = ranks_open_device(f->ranks, f->device, &f->config, &f->choice, err);
    if (!status && first) status = open_corpus(f, err);
    status = world_agree(world, status, err);
    if (!status) status = join(world, &f->choice, err);
    if (status) return status;
    if (!first) status = open_corpus(f, err);
    if (!status) status = open_trainer(f, err);
    status = world_agree(world, status, err);
    if (status) return status;
    world_share(world, f->ranks->run, sizeof f->ranks->run);
    return trainer_run(f->trainer, &outcome, err);
}

void ranks_follow(struct ranks *ranks)
{
    enum status status = STATUS_OK;
    struct err err = {0};
    interrupt_catch();
    interrupt_catch_preemption();
    lost_pages_report();
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    for (;;) {
        struct follower f = {.ranks = ranks};
        if (!receive(&f, &status, &err)) break;
        train(&f, status, &err);
        trainer_close(f.trainer);
        memory_share_release(&f.share);
        corpus_close(&f.corpus);
        device_choice_close(&f.choice);
        *ranks->run = '\0';
    }
}
