/* Every key of the configuration has its documented effect, and no other: a run with the key changed differs
 * from one without in exactly the facets named here. config.def lists the keys, so one that has no row fails
 * the test. */
#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"
#include "tests/core/train/story.h"

#define FACETS(X)                                                                                            \
    X(MEMORY)   /* planned bytes */                                                                          \
    X(HELD)     /* bytes taken from the device */                                                            \
    X(LENGTH)   /* number of steps, and how the run ended */                                                 \
    X(TOKENS)   /* tokens of a step */                                                                       \
    X(EPOCHS)   /* steps of an epoch */                                                                      \
    X(RATE)     /* learning rates of the first steps */                                                      \
    X(FIRST)    /* loss of the first step */                                                                 \
    X(LOSS)     /* losses of the next ones */                                                                \
    X(CLIP)     /* whether the first gradient is clipped */                                                  \
    X(EVALS)    /* when it evaluates */                                                                      \
    X(VALUES)   /* the first validation loss */                                                              \
    X(PATIENCE) /* decisions of early stopping */                                                            \
    X(SAVES)    /* when it saves */                                                                          \
    X(FILES)    /* what is on disk at the end */                                                             \
    X(WRITER)   /* whether another thread writes checkpoints */                                              \
    X(CUTTER)   /* whether another thread cuts batches */                                                    \
    X(SAMPLES)  /* number of samples */                                                                      \
    X(TEXT)     /* the last sample */                                                                        \
    X(PROFILED) /* the steps that are profiled */                                                            \
    X(TRACES)   /* the traces on disk */                                                                     \
    X(EVENTS)   /* events of the run's health */
enum {
#define X(name) name##_BIT,
    FACETS(X)
#undef X
        FACET_COUNT
};
enum {
#define X(name) name = 1 << name##_BIT,
    FACETS(X)
#undef X
};
static const char *const facet_names[] = {
#define X(name) #name,
    FACETS(X)
#undef X
};

struct facets {
    uint64_t of[FACET_COUNT];
};

static void note(struct facets *f, int bit, const void *data, size_t size)
{
    f->of[bit] = XXH3_64bits_withSeed(data, size, f->of[bit] + 1);
}
#define NOTE(f, name, value) note(f, name##_BIT, &(value), sizeof(value))

/* ---- a run, and its facets ---- */

static pthread_t trainer_thread, writer_thread;
static int threads_at_most;

/* From this step on every reading of the clock advances it by 0.1 seconds, so that steps and waits seem to
 * take long. */
static int slow_from = INT_MAX;
static _Atomic bool slow;
static _Atomic int64_t ahead; /* nanoseconds */

int clock_gettime(clockid_t clock, struct timespec *out)
{
    if (syscall(SYS_clock_gettime, clock, out) != 0) return -1;
    if (clock != CLOCK_MONOTONIC) return 0;
    if (atomic_load(&slow)) atomic_fetch_add(&ahead, 100000000);
    int64_t now = (int64_t)out->tv_nsec + atomic_load(&ahead);
    *out = (struct timespec){out->tv_sec + now / 1000000000, now % 1000000000};
    return 0;
}

static int count_threads(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    while (folder && readdir(folder)) count++;
    if (folder) closedir(folder);
    return count;
}

static void on_step(struct story *story)
{
    int threads = count_threads();
    if (threads > threads_at_most) threads_at_most = threads;
    atomic_store(&slow, story->done >= slow_from);
}

static void on_safe(struct story *story)
{
    (void)story;
    writer_thread = pthread_self();
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The names of the files in a folder and in its folders, and their sizes. */
static void note_files(struct facets *f, int bit, const char *folder, int depth)
{
    char names[64][64] = {{0}}, path[4096];
    int count = 0;
    DIR *open = opendir(folder);
    for (struct dirent *entry; open && (entry = readdir(open));)
        if (entry->d_name[0] != '.' && count < 64) snprintf(names[count++], 64, "%s", entry->d_name);
    if (open) closedir(open);
    qsort(names, (size_t)count, sizeof *names, by_name);
    for (int i = 0; i < count; i++) {
        if (strcmp(names[i], "traces") == 0) continue;
        note(f, bit, names[i], sizeof names[i]);
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (depth) note_files(f, bit, path, depth - 1);
    }
}

static void note_story(struct facets *f, const struct story *story, enum train_outcome outcome)
{
    NOTE(f, LENGTH, story->step_count);
    NOTE(f, LENGTH, outcome);
    for (int i = 0; i < story->step_count && i < 5; i++) {
        const struct step_record *step = &story->steps[i];
        bool clipped = step->clip_scale != 1;
        NOTE(f, RATE, step->lr);
        if (i == 0) {
            NOTE(f, FIRST, step->loss);
            NOTE(f, TOKENS, step->tokens);
            NOTE(f, EPOCHS, step->epoch);
            NOTE(f, CLIP, clipped);
        } else {
            NOTE(f, LOSS, step->loss);
        }
    }
    for (int i = 0; i < story->eval_count; i++) NOTE(f, EVALS, story->evals[i].step);
    if (story->eval_count) NOTE(f, VALUES, story->evals[0].val_loss);
    for (int i = 0; i < story->stopping_count; i++) {
        int64_t said[] = {story->stoppings[i].improved, story->stoppings[i].patience_used,
                          story->stoppings[i].patience, story->stoppings[i].verdict};
        NOTE(f, PATIENCE, said);
        NOTE(f, PATIENCE, story->stoppings[i].min_delta);
    }
    for (int i = 0; i < story->checkpoint_count; i++) NOTE(f, SAVES, story->checkpoints[i].step);
    NOTE(f, SAMPLES, story->sample_count);
    note(f, TEXT_BIT, story->last_sample, strlen(story->last_sample));
    for (int i = 0; i < story->profile_count; i++)
        if (i == 0 || story->profile[i].step != story->profile[i - 1].step)
            NOTE(f, PROFILED, story->profile[i].step);
    NOTE(f, EVENTS, story->event_count);
}

enum start { FRESH, FROM_CHECKPOINT };

static void open_session(struct session *s, const char *name, const char *base, const char *changed)
{
    char text[512];
    const char *words[24] = {NULL};
    int count = 0;
    snprintf(text, sizeof text, "train.max_grad_norm=0 %s %s", base, changed);
    for (char *at = text, *word; (word = strsep(&at, " "));)
        if (*word) words[count++] = word;
    session_open(s, name, NULL, words, 900);
}

/* `base` and then `changed` are configuration words with spaces between. FROM_CHECKPOINT: both begin with
 * what `base` alone saved after 4 steps. */
static struct facets facets_of(const char *base, const char *changed, enum start start)
{
    struct facets f = {{0}};
    struct session s;
    if (start == FROM_CHECKPOINT) {
        open_session(&s, "keys", base, "train.total_steps=4");
        session_start(&s, false);
        session_run(&s);
        char *kept = rig_path("kept");
        assert_int_equal(file_remove_tree(kept, NULL), STATUS_OK);
        assert_int_equal(rename(s.folder, kept), 0);
        session_close(&s);
        open_session(&s, "keys", base, changed);
        assert_int_equal(rename(kept, s.folder), 0);
        free(kept);
    } else {
        open_session(&s, "keys", base, changed);
    }
    int before = count_threads();
    threads_at_most = 0;
    trainer_thread = writer_thread = pthread_self();
    s.story.on_step = on_step;
    s.story.on_safe = on_safe;
    session_start(&s, start == FROM_CHECKPOINT);
    enum train_outcome outcome = session_run(&s);
    NOTE(&f, MEMORY, s.story.memory_bytes);
    NOTE(&f, HELD, s.story.used_bytes);
    bool cuts = threads_at_most > before, writes = !pthread_equal(writer_thread, trainer_thread);
    NOTE(&f, CUTTER, cuts);
    NOTE(&f, WRITER, writes);
    note_story(&f, &s.story, outcome);
    note_files(&f, FILES_BIT, s.folder, 1);
    note_files(&f, TRACES_BIT, s.traces, 0);
    session_close(&s);
    return f;
}

/* ---- what each key changes ---- */

#define EVALUATES "eval.every=3 eval.batches=2 "
#define TALKS     "sample.every=5 "
#define SAVES_BY  "checkpoint.every=3 "
#define LEARNS    (LOSS | VALUES)  /* the weights become others */
#define SWAPPED   (FIRST | LEARNS) /* another model, or other numbers in it */
#define LONG      "train.total_steps=100 train.warmup_steps=0 train.learning_rate=0 "

static const struct row {
    const char *key, *value;
    int changes;
    const char *base;
    enum start start;
    int slow_from; /* see there; 0: never */
    const char
        *elsewhere; /* the test that shows it, where a run of the trainer alone cannot; it names the key */
} rows[] = {
    {"model.vocab_size", "300", MEMORY | HELD | SWAPPED, "", FRESH, 0, NULL},
    {"model.hidden_dim", "32", MEMORY | HELD | SWAPPED, "", FRESH, 0, NULL},
    {"model.num_layers", "3", MEMORY | HELD | SWAPPED, "", FRESH, 0, NULL},
    {"model.num_heads", "4", MEMORY | HELD | SWAPPED, "", FRESH, 0, NULL},
    {"model.num_kv_heads", "2", MEMORY | HELD | SWAPPED, "", FRESH, 0, NULL},
    {"model.head_dim", "16", MEMORY | HELD | SWAPPED, "", FRESH, 0, NULL},
    {"model.intermediate_dim", "32", MEMORY | HELD | SWAPPED, "", FRESH, 0, NULL},
    {"model.rope_base", "100", SWAPPED, "", FRESH, 0, NULL},
    {"model.rope_scaling", "linear", SWAPPED, "model.rope_factor=2", FRESH, 0, NULL},
    {"model.rope_factor", "4", SWAPPED, "model.rope_scaling=linear model.rope_factor=2", FRESH, 0, NULL},
    {"model.rope_low_freq_factor", "3", SWAPPED,
     "model.rope_scaling=llama3 model.rope_factor=4 model.rope_original_len=16", FRESH, 0, NULL},
    {"model.rope_high_freq_factor", "9", SWAPPED,
     "model.rope_scaling=llama3 model.rope_factor=4 model.rope_original_len=16", FRESH, 0, NULL},
    {"model.rope_original_len", "64", SWAPPED,
     "model.rope_scaling=llama3 model.rope_factor=4 model.rope_original_len=16", FRESH, 0, NULL},
    {"model.rope_attention_factor", "2", SWAPPED,
     "model.rope_scaling=yarn model.rope_factor=4 model.rope_original_len=1000", FRESH, 0, NULL},
    {"model.rope_beta_fast", "2", SWAPPED,
     "model.rope_scaling=yarn model.rope_factor=4 model.rope_original_len=1000", FRESH, 0, NULL},
    {"model.rope_beta_slow", "0.1", SWAPPED,
     "model.rope_scaling=yarn model.rope_factor=4 model.rope_original_len=1000 model.rope_truncate=false",
     FRESH, 0, NULL},
    {"model.rope_truncate", "false", SWAPPED,
     "model.rope_scaling=yarn model.rope_factor=4 model.rope_original_len=1000", FRESH, 0, NULL},
    {"model.norm_eps", "0.1", SWAPPED, "", FRESH, 0, NULL},
    {"model.tie_weights", "false", MEMORY | HELD | SWAPPED, "", FRESH, 0, NULL},
    {"model.qk_norm", "true", MEMORY | HELD | SWAPPED, "", FRESH, 0, NULL},
    {"model.qkv_bias", "true", MEMORY | HELD | LEARNS, "", FRESH, 0, NULL},
    {"model.o_bias", "true", MEMORY | HELD | LEARNS, "model.qkv_bias=true", FRESH, 0, NULL},
    {"model.mlp_bias", "true", MEMORY | HELD | LEARNS, "", FRESH, 0, NULL},
    {"model.sliding_window", "3", SWAPPED, "", FRESH, 0, NULL},
    {"model.full_attention_layers", "1", SWAPPED, "model.sliding_window=3 model.qk_norm=true", FRESH, 0,
     NULL},
    {"data.val_fraction", "0.3", EPOCHS | SWAPPED, EVALUATES, FRESH, 0, NULL},
    {"data.val_split", "blocks", EPOCHS | SWAPPED, EVALUATES, FRESH, 0, NULL},
    {"data.shuffle", "random", SWAPPED, "", FRESH, 0, NULL},
    {"data.padding", "101", SWAPPED, "", FRESH, 0, NULL},
    {"train.batch_size", "3", MEMORY | HELD | TOKENS | EPOCHS | SWAPPED, "", FRESH, 0, NULL},
    {"train.seq_len", "8", MEMORY | HELD | TOKENS | EPOCHS | SWAPPED, "", FRESH, 0, NULL},
    {"train.accumulation_steps", "2", MEMORY | HELD | TOKENS | EPOCHS | SWAPPED, "", FRESH, 0, NULL},
    {"train.accumulation_plan", "0:1,2:2", MEMORY | HELD | LEARNS, "", FRESH, 0, NULL},
    {"train.total_steps", "14", LENGTH | EVALS | VALUES | SAVES | FILES, "train.schedule=constant", FRESH, 0,
     NULL},
    {"train.epochs", "0.5", LENGTH | EVALS | VALUES | SAVES | FILES, "train.schedule=constant", FRESH, 0,
     NULL},
    {"train.recipe", "quick", MEMORY | HELD | SWAPPED, "", FRESH, 0, NULL}, /* the rate is given */
    {"train.optimizer", "lion", MEMORY | HELD | LEARNS, "train.beta2=0.99", FRESH, 0, NULL},
    {"train.moments", "8bit", MEMORY | HELD | LEARNS, "", FRESH, 0, NULL},
    {"train.learning_rate", "0.02", RATE | LEARNS, "", FRESH, 0, NULL},
    {"train.min_lr_factor", "0.5", RATE | LEARNS, "train.warmup_steps=1", FRESH, 0, NULL},
    {"train.schedule", "linear", RATE | LEARNS, "train.warmup_steps=1", FRESH, 0, NULL},
    {"train.decay_steps", "12", RATE | LEARNS, "train.schedule=wsd train.warmup_steps=1", FRESH, 0, NULL},
    {"train.decay_shape", "1-sqrt", RATE | LEARNS,
     "train.schedule=wsd train.decay_steps=12 train.warmup_steps=1", FRESH, 0, NULL},
    {"train.ema_decay", "0.9", MEMORY | HELD | FILES, EVALUATES, FRESH, 0, NULL},
    {"train.warmup_steps", "5", RATE | LEARNS, "", FRESH, 0, NULL},
    {"train.weight_decay", "1", LEARNS, "", FRESH, 0, NULL},
    {"train.beta1", "0.5", LEARNS, "", FRESH, 0, NULL},
    {"train.beta2", "0.5", LEARNS, "", FRESH, 0, NULL},
    {"train.adam_eps", "0.1", LEARNS, "", FRESH, 0, NULL},
    {"train.max_grad_norm", "0.001", LEARNS | CLIP, "", FRESH, 0, NULL},
    {"muon.lr_scale", "0.5", LEARNS, "train.optimizer=muon", FRESH, 0, NULL},
    {"muon.momentum", "0.5", LEARNS, "train.optimizer=muon", FRESH, 0, NULL},
    {"muon.nesterov", "false", LEARNS, "train.optimizer=muon", FRESH, 0, NULL},
    {"muon.iterations", "2", LEARNS, "train.optimizer=muon", FRESH, 0, NULL},
    {"muon.coefficients", "polar_express", LEARNS, "train.optimizer=muon", FRESH, 0, NULL},
    {"muon.scaling", "original", LEARNS, "train.optimizer=muon", FRESH, 0, NULL},
    {"train.z_loss", "0.1", LEARNS, "", FRESH, 0, NULL},
    {"model.zero_outputs", "true", SWAPPED, "", FRESH, 0, NULL},
    {"train.dropout", "0.5", SWAPPED, "", FRESH, 0, NULL},
    {"train.seed", "2", SWAPPED, "data.shuffle=none", FRESH, 0, NULL},             /* weights */
    {"train.seed", "2", SWAPPED, "data.shuffle=random", FROM_CHECKPOINT, 0, NULL}, /* order */
    {"train.seed", "2", SWAPPED, "data.shuffle=none train.dropout=0.5", FROM_CHECKPOINT, 0,
     NULL}, /* dropout */
    {"train.seed", "2", TEXT, TALKS "data.shuffle=none", FROM_CHECKPOINT, 0,
     NULL}, /* samples, and nothing else */
    {"train.async", "false", CUTTER, "checkpoint.background=false", FRESH, 0, NULL},
    {"eval.every", "4", EVALS | VALUES | PATIENCE | SAVES | FILES, EVALUATES, FRESH, 0, NULL},
    {"eval.at_epoch_end", "true", EVALS | PATIENCE | SAVES | FILES, EVALUATES "train.total_steps=30", FRESH,
     0, NULL},
    {"eval.early", "true", EVALS | VALUES | PATIENCE, EVALUATES, FRESH, 0, NULL},
    {"eval.batches", "22", VALUES, "eval.every=3 eval.batches=21 train.seq_len=4 train.batch_size=1", FRESH,
     0, NULL},
    {"eval.early_stopping_patience", "1", PATIENCE | LENGTH | EVALS | SAVES | FILES,
     EVALUATES "train.learning_rate=0 train.total_steps=20", FRESH, 0, NULL},
    {"eval.early_stopping_min_delta", "100", PATIENCE, EVALUATES "eval.early_stopping_patience=9", FRESH, 0,
     NULL},
    {"checkpoint.every", "4", SAVES | FILES, SAVES_BY, FRESH, 0, NULL},
    {"checkpoint.keep", "1", FILES, SAVES_BY, FRESH, 0, NULL},
    {"checkpoint.background", "false", WRITER | MEMORY | HELD, SAVES_BY, FRESH, 0, NULL},
    {"checkpoint.contents", "weights", FILES | MEMORY | HELD, SAVES_BY, FRESH, 0, NULL},
    {"checkpoint.activation_interval", "1", MEMORY | HELD, "", FRESH, 0, NULL},
    /* rounds otherwise, on some machines from the first loss on */
    {"train.loss_chunk", "", 0, "", FRESH, 0, "tests/core/network/test_loss_choice.c"},
    {"memory.allocator", "caching", HELD, "", FRESH, 0, NULL},
    {"profile.every", "3", PROFILED, "profile.every=4 profile.warmup_steps=1", FRESH, 0, NULL},
    {"profile.warmup_steps", "6", PROFILED, "profile.every=4 profile.warmup_steps=1", FRESH, 0, NULL},
    {"profile.trace_step", "4", TRACES | PROFILED | EVENTS, "", FRESH, 0, NULL},
    {"sample.every", "4", SAMPLES | TEXT, "sample.every=5 train.learning_rate=0", FRESH, 0, NULL},
    {"sample.early", "true", SAMPLES, TALKS, FRESH, 0, NULL},
    {"sample.prompt", "question", TEXT,
     TALKS "train.total_steps=200 train.learning_rate=0.03 sample.temperature=0 sample.max_tokens=40", FRESH,
     0, NULL},
    {"sample.max_tokens", "9", TEXT, TALKS, FRESH, 0, NULL},
    {"sample.temperature", "0.1", TEXT, TALKS, FRESH, 0, NULL},
    {"sample.top_k", "1", TEXT, TALKS, FRESH, 0, NULL},
    {"health.loss_spike", "0", EVENTS, "train.total_steps=120 train.warmup_steps=0 health.loss_spike=0.001",
     FRESH, 0, NULL},
    {"health.plateau_steps", "40", EVENTS, LONG "health.plateau_steps=0", FRESH, 0, NULL},
    {"health.plateau_delta", "0.9", EVENTS,
     "train.total_steps=100 train.warmup_steps=0 health.plateau_steps=40 health.plateau_delta=0", FRESH, 0,
     NULL},
    {"health.throughput_drop", "0", EVENTS, LONG "train.total_steps=120", FRESH, 80, NULL},
    {"health.starvation", "0.00000001", EVENTS,
     LONG "health.throughput_drop=0 health.starvation=0 health.loss_spike=0 train.async=false", FRESH, 40,
     NULL},
    {"health.on_nan", "stop",
     LENGTH | RATE | LOSS | EVALS | VALUES | PATIENCE | SAVES | FILES | WRITER | PROFILED,
     "train.learning_rate=1000 train.warmup_steps=0", FRESH, 0, NULL},
    {"health.on_spike", "", 0, "", FRESH, 0, "tests/core/train/test_rollback.c"},
    {"health.rollbacks", "", 0, "", FRESH, 0, "tests/core/train/test_rollback.c"},
    {"health.rollback_lr", "", 0, "", FRESH, 0, "tests/core/train/test_rollback.c"},
    {"hooks.on_event", "", 0, "", FRESH, 0, "tests/tui/command/test_hooks.c"},
    {"hooks.timeout", "", 0, "", FRESH, 0, "tests/tui/command/test_hooks.c"},
    {"hooks.stall", "", 0, "", FRESH, 0, "tests/tui/command/test_hooks.c"},
    {"lora.rank", "", 0, "", FRESH, 0, "tests/core/train/test_lora.c"},
    {"lora.alpha", "", 0, "", FRESH, 0, "tests/core/train/test_lora.c"},
    {"lora.rslora", "", 0, "", FRESH, 0, "tests/core/train/test_lora.c"},
    {"lora.dropout", "", 0, "", FRESH, 0, "tests/core/train/test_lora.c"},
    {"lora.targets", "", 0, "", FRESH, 0, "tests/core/train/test_lora.c"},
    {"lora.layers", "", 0, "", FRESH, 0, "tests/core/train/test_lora.c"},
    {"lora.from", "", 0, "", FRESH, 0, "tests/tui/command/test_peft_adapters.c"},
    {"lora.base", "", 0, "", FRESH, 0, "tests/core/train/test_nf4_training.c"},
    {"lora.double_quant", "", 0, "", FRESH, 0, "tests/core/train/test_nf4_training.c"},
    {"lora.train_norms", "", 0, "", FRESH, 0, "tests/core/train/test_lora.c"},
    {"lora.train_head", "", 0, "", FRESH, 0, "tests/core/train/test_lora.c"},
    {"lora.train_embedding", "", 0, "", FRESH, 0, "tests/core/train/test_lora.c"},
    {"model.preset", "", 0, "", FRESH, 0, "tests/core/model/test_presets.c"},
    {"model.from", "", 0, "", FRESH, 0, "tests/tui/command/test_model.c"},
    {"model.kind", "", 0, "", FRESH, 0, "tests/core/model/test_hugging_face.c"},
    {"model.max_seq_len", "", 0, "", FRESH, 0, "tests/core/model/test_config.c"},
    {"data.train", "", 0, "", FRESH, 0, "tests/tui/command/test_loader.c"},
    {"data.format", "", 0, "", FRESH, 0, "tests/core/train/test_classification.c"},
    {"data.too_long", "", 0, "", FRESH, 0, "tests/core/train/test_classification.c"},
    {"data.text_column", "", 0, "", FRESH, 0, "tests/core/train/test_classification.c"},
    {"data.label_column", "", 0, "", FRESH, 0, "tests/core/train/test_classification.c"},
    {"classifier.pooling", "", 0, "", FRESH, 0, "tests/core/train/test_classification.c"},
    {"classifier.weights", "", 0, "", FRESH, 0, "tests/core/train/test_classification.c"},
    {"eval.metric", "", 0, "", FRESH, 0, "tests/core/train/test_classification.c"},
    {"data.val", "", 0, "", FRESH, 0, "tests/tui/command/test_loader.c"},
    {"eval.tasks", "", 0, "", FRESH, 0, "tests/tui/command/test_eval_tasks.c"},
    {"data.template", "", 0, "", FRESH, 0, "tests/tui/command/test_instruction_runs.c"},
    {"data.tokenizer", "", 0, "", FRESH, 0, "tests/tui/command/test_model.c"},
    {"train.precision", "", 0, "", FRESH, 0, "tests/cuda_sim/test_training.c"},
    {"train.loss", "", 0, "", FRESH, 0, "tests/core/network/test_loss_choice.c"},
    {"train.graph", "", 0, "", FRESH, 0, "tests/cuda_sim/test_steps.c"},
    {"kernels.attention", "", 0, "", FRESH, 0, "tests/cuda_sim/test_attention_cudnn.c"},
    {"train.time_limit", "", 0, "", FRESH, 0, "tests/tui/command/test_preemption.c"},
    {"train.threads", "", 0, "", FRESH, 0, "tests/tui/command/test_kjv.c"},
    {"data.documents", "", 0, "", FRESH, 0, "tests/tui/command/test_mixtures.c"},
    {"data.end_token", "", 0, "", FRESH, 0, "tests/tui/command/test_mixtures.c"},
    {"checkpoint.layout", "", 0, "", FRESH, 0, "tests/tui/command/test_elastic.c"},
    {"world.timeout", "", 0, "", FRESH, 0, "tests/tui/command/test_lost_ranks.c"},
    {"world.shard", "", 0, "", FRESH, 0, "tests/tui/command/test_elastic.c"},
    {"world.overlap", "", 0, "", FRESH, 0, "tests/tui/command/test_elastic.c"},
    {"memory.reserve", "", 0, "", FRESH, 0, "tests/cuda_sim/test_fit.c"},
};
enum { ROWS = sizeof rows / sizeof *rows };

TEST_CASE(the_same_keys_give_the_same_run)
{
    struct facets one = facets_of(EVALUATES SAVES_BY TALKS, "", FRESH),
                  two = facets_of(EVALUATES SAVES_BY TALKS, "", FRESH);
    assert_memory_equal(&one, &two, sizeof one);
}

TEST_CASE(every_key_has_a_row)
{
    static const char *const keys[] = {
#define KEY(section, name, ...) #section "." #name,
#include "core/model/config.def"
    };
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        int found = 0;
        for (int i = 0; i < ROWS; i++) found += strcmp(rows[i].key, keys[k]) == 0;
        if (!found) fail_msg("%s: no row here says what it changes", keys[k]);
    }
    for (int i = 0; i < ROWS; i++) {
        struct file_map map;
        if (!rows[i].elsewhere) continue;
        assert_int_equal(file_map_open(rows[i].elsewhere, &map, NULL), STATUS_OK);
        if (!memmem(map.data, map.size, rows[i].key, strlen(rows[i].key)))
            fail_msg("%s: %s does not name it", rows[i].key, rows[i].elsewhere);
        file_map_close(&map);
    }
}

/* Whether the row holds. */
static bool check_facets(const struct row *row)
{
    char word[128], wrong[512] = "";
    snprintf(word, sizeof word, "%s=%s", row->key, row->value);
    slow_from = row->slow_from ? row->slow_from : INT_MAX;
    struct facets before = facets_of(row->base, "", row->start),
                  after = facets_of(row->base, word, row->start);
    for (int i = 0; i < FACET_COUNT; i++) {
        bool differs = before.of[i] != after.of[i], meant = row->changes >> i & 1;
        if (differs != meant)
            snprintf(wrong + strlen(wrong), sizeof wrong - strlen(wrong), " %s%s", meant ? "not " : "",
                     facet_names[i]);
    }
    if (*wrong) print_error("%s (%s): changes%s\n", word, row->base, wrong);
    return !*wrong;
}

TEST_CASE(a_key_changes_what_it_says_and_nothing_else)
{
    bool all = true;
    for (int i = 0; i < ROWS; i++) all = (rows[i].elsewhere || check_facets(&rows[i])) && all;
    assert_true(all);
}

TEST_MAIN()
