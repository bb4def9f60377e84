/* The cost of a checkpoint for preset tiny (AdamW, so three arenas of numbers) with tiny batches: how long
 * the training thread is blocked, and how much longer the run takes, if that thread or a background thread
 * writes it.
 *
 * An iteration of the loop is timed from one look at request() to the next; held is what one with a
 * checkpoint takes more than the median of those without. The files (124 MiB) are made in $ANNEAL_HOME and
 * removed. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/train/trainer.h"

enum { STEPS = 30, EVERY = 10, SAVES = STEPS / EVERY, TOKENS = 40000, ROUNDS = 2 };

static void stop_on(enum status status, const struct err *err)
{
    if (!status) return;
    printf("bench_checkpoint: %s\n", err->text);
    exit(1);
}

/* ---- an observer that only looks at the clock ---- */

struct watch {
    double looks[STEPS + 2]; /* seconds */
    int count;
    int64_t bytes;
    int saves;
};

static bool on_leave(void *context)
{
    struct watch *w = context;
    if (w->count < STEPS + 2) w->looks[w->count++] = clock_monotonic();
    return false;
}

static void on_checkpoint(void *context, const struct checkpoint_record *record)
{
    struct watch *w = context;
    w->bytes = record->bytes;
    w->saves++;
}

static void on_event(void *context, const struct event_record *record)
{
    (void)context;
    printf("  %s: %s\n", record->level, record->text);
}

static struct train_observer watching(struct watch *w)
{
    struct train_observer observer = train_observer_silent;
    observer.context = w;
    observer.checkpoint = on_checkpoint;
    observer.event = on_event;
    observer.leave = on_leave;
    return observer;
}

/* ---- a run ---- */

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, rising);
    return values[count / 2];
}

struct cost {
    double plain, held, all; /* seconds: an iteration without; more with one; the whole run */
    int64_t bytes;
};

static struct cost run(const struct corpus *corpus, struct device *device, const char *folder,
                       const char *background, const char *every)
{
    static const char *const words[] = {
        "model.preset=tiny",   "model.vocab_size=32000", "train.batch_size=1",
        "train.seq_len=32",    "eval.every=0",           "sample.every=0",
        "data.val_fraction=0", "checkpoint.keep=1",      "train.precision=fp32"};
    struct config config;
    struct watch watch = {0};
    struct trainer *trainer;
    struct cost cost = {0};
    struct err err = {0};
    enum train_outcome outcome;
    char word[64];
    double plain[STEPS], with[STEPS];
    int plain_count = 0, with_count = 0;
    config_init(&config);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        stop_on(config_read_word(&config, words[i], &err), &err);
    snprintf(word, sizeof word, "train.total_steps=%d", STEPS + 1);
    stop_on(config_read_word(&config, word, &err), &err);
    stop_on(config_read_word(&config, background, &err), &err);
    stop_on(config_read_word(&config, every, &err), &err);
    stop_on(config_finish(&config, &err), &err);
    struct train_setup setup = {.config = &config,
                                .backend = cpu_backend(),
                                .device = device,
                                .corpus = corpus,
                                .checkpoints = folder,
                                .observer = watching(&watch)};
    stop_on(trainer_open(&setup, &trainer, &err), &err);
    stop_on(trainer_run(trainer, &outcome, &err), &err);
    trainer_close(trainer);
    stop_on(file_remove_tree(folder, &err), &err);
    for (int i = 1; i < STEPS; i++) { /* the first step warms up */
        double seconds = watch.looks[i + 1] - watch.looks[i];
        if ((i + 1) % EVERY)
            plain[plain_count++] = seconds;
        else
            with[with_count++] = seconds;
    }
    cost.plain = median(plain, plain_count);
    cost.held = median(with, with_count) - cost.plain;
    cost.all = watch.looks[STEPS] - watch.looks[1];
    cost.bytes = watch.bytes;
    return cost;
}

static void keep_better(struct cost *best, struct cost new)
{
    if (best->bytes == 0 || new.all < best->all) *best = new;
}

int main(void)
{
    struct corpus corpus = {0};
    struct device *device;
    struct cost none = {0}, front = {0}, back = {0};
    struct err err = {0};
    char home[PATH_MAX - 32], folder[PATH_MAX];
    uint32_t *tokens = malloc(TOKENS * sizeof *tokens);
    if (!tokens) stop_on(err_set(&err, STATUS_NO_MEMORY, "no memory for %d tokens", TOKENS), &err);
    for (uint32_t i = 0; i < TOKENS; i++) tokens[i] = i * 2654435761u >> 19;
    struct token_file file = {.path = "corpus.tok", .tokens = tokens, .count = TOKENS};
    corpus = (struct corpus){.files = &file, .file_count = 1, .tokens = TOKENS, .vocab_size = 32000};
    stop_on(file_anneal_home(home, sizeof home, &err), &err);
    snprintf(folder, sizeof folder, "%s/bench-checkpoints", home);
    stop_on(cpu_backend()->device_open(DEVICE_FIRST, 0, &device, &err), &err);
    for (int i = 0; i < ROUNDS; i++) { /* in turns, so that a busy moment falls on all */
        keep_better(&none, run(&corpus, device, folder, "checkpoint.background=false", "checkpoint.every=0"));
        keep_better(&front,
                    run(&corpus, device, folder, "checkpoint.background=false", "checkpoint.every=10"));
        keep_better(&back, run(&corpus, device, folder, "checkpoint.background=true", "checkpoint.every=10"));
    }
    printf("preset tiny, a step of %.0f ms, a checkpoint of %.0f MiB every %d steps, best of %d rounds\n",
           none.plain * 1e3, (double)front.bytes / (1 << 20), EVERY, ROUNDS);
    printf("  training thread held by a checkpoint: in the foreground %.0f ms, in the background %.0f ms, "
           "%.1f times less\n",
           front.held * 1e3, back.held * 1e3, front.held / back.held);
    printf("  %d steps: without checkpoints %.2f s, in the foreground %.2f s, in the background %.2f s\n",
           STEPS - 1, none.all, front.all, back.all);
    cpu_backend()->device_close(device);
    free(tokens);
    return 0;
}
