/* See story.h. */
#include "tests/core/train/story.h"
#include "tests/cmocka.h"

/* cmocka wants the first three above */
#include "core/base/file.h"
#include "tests/core/network/rig.h"

static void on_step(void *context, const struct step_record *record)
{
    struct story *story = context;
    assert_true(story->step_count < STORY_MAX);
    story->steps[story->step_count++] = *record;
    story->done = record->step + 1;
    if (story->on_step) story->on_step(story);
}

static void on_eval(void *context, const struct eval_record *record, const struct measures *measures)
{
    struct story *story = context;
    assert_true(story->eval_count < STORY_MAX);
    story->evals[story->eval_count++] = *record;
    story->measures = *measures;
    for (int i = 0; i < measures->count; i++) { /* they are the task's, as are the counts */
        snprintf(story->names[i], sizeof story->names[i], "%s", measures->of[i].name);
        story->measures.of[i].name = story->names[i];
    }
    struct confusion *c = &story->measures.confusion;
    size_t cells = (size_t)c->classes * (size_t)c->classes;
    assert_true(cells * sizeof *c->counts <= sizeof story->confusion);
    if (cells) memcpy(story->confusion, c->counts, cells * sizeof *c->counts);
    *c = (struct confusion){.classes = c->classes, .counts = story->confusion};
}

static void on_stopping(void *context, const struct stopping_record *record)
{
    struct story *story = context;
    assert_true(story->stopping_count < STORY_MAX);
    story->stoppings[story->stopping_count++] = *record;
}

static void on_sample(void *context, const struct sample_record *record)
{
    struct story *story = context;
    story->sample_count++;
    snprintf(story->last_sample, sizeof story->last_sample, "%s", record->text);
}

static enum status on_reserve(void *context, int64_t bytes, struct err *err)
{
    (void)context;
    (void)bytes;
    (void)err;
    return STATUS_OK;
}

static void on_saving(void *context)
{
    struct story *story = context;
    if (story->on_saving) story->on_saving(story, true);
}

static void on_safe(void *context)
{
    struct story *story = context;
    if (story->on_safe) story->on_safe(story);
}

static void on_checkpoint(void *context, const struct checkpoint_record *record)
{
    struct story *story = context;
    assert_true(story->checkpoint_count < STORY_MAX);
    story->checkpoints[story->checkpoint_count] = *record;
    story->checkpoints[story->checkpoint_count].path = NULL;
    story->checkpoints[story->checkpoint_count++].kind = NULL;
    snprintf(story->last_kind, sizeof story->last_kind, "%s", record->kind);
    if (story->on_saving) story->on_saving(story, false);
}

static void on_memory(void *context, const struct memory_record *record)
{
    struct story *story = context;
    if (strcmp(record->category, "weights") == 0) {
        story->memory_bytes = story->live_bytes = 0;
        story->memory_reports++;
    }
    assert_true(record->live_bytes <= record->peak_bytes);
    story->memory_bytes += record->planned_bytes;
    story->live_bytes += record->live_bytes;
}

static void on_used(void *context, int64_t bytes)
{
    struct story *story = context;
    story->used_bytes = bytes;
}

static void on_profile(void *context, const struct profile_record *record)
{
    struct story *story = context;
    assert_true(story->profile_count < STORY_PROFILE_MAX);
    assert_int_equal(record->step, story->steps[story->step_count - 1].step); /* reported after its step */
    story->profile[story->profile_count++] = *record;
}

static void on_event(void *context, const struct event_record *record)
{
    struct story *story = context;
    if (story->event_count < 8)
        snprintf(story->events[story->event_count], sizeof story->events[0], "%s", record->text);
    story->event_count++;
    story->last_event_step = record->step;
    snprintf(story->last_event, sizeof story->last_event, "%s", record->text);
    snprintf(story->last_level, sizeof story->last_level, "%s", record->level);
    if (story->on_event) story->on_event(story);
}

static void on_rolled_back(void *context)
{
    struct story *story = context;
    story->rollback_count++;
}

static void on_evaluating(void *context)
{
    (void)context;
}

static void on_lives(void *context)
{
    ((struct story *)context)->lives_count++;
}

static void on_paused(void *context, enum train_pause pause)
{
    struct story *story = context;
    assert_true(story->pause_count < STORY_MAX);
    story->pauses[story->pause_count++] = pause != TRAIN_GOES_ON;
}

static bool next_order(void *context, int64_t step, struct order *out)
{
    struct story *story = context;
    (void)step;
    for (struct story_order *o = story->orders; o && o->order.id; o++) {
        if (o->taken || o->at > story->done) continue;
        if (o->wait-- > 0) return false;
        o->taken = true;
        *out = o->order;
        return true;
    }
    return false;
}

static enum status owns(void *context, struct err *err)
{
    (void)context, (void)err;
    return STATUS_OK;
}

static void order_done(void *context, int64_t id, int64_t applied_step, const char *result)
{
    struct story *story = context;
    assert_in_range(id, 1, 15);
    assert_int_equal(story->applied[id], -1); /* acknowledged once */
    story->acknowledged++;
    story->applied[id] = applied_step;
    snprintf(story->results[id], sizeof story->results[id], "%s", result);
}

static bool leave(void *context)
{
    struct story *story = context;
    if (++story->calls >= story->leave_calls && story->leave_calls) return true;
    return story->leave_at && story->done >= story->leave_at;
}

static void read_words(struct config *config, const char *const *words)
{
    struct err err = {0};
    for (; words && *words; words++)
        if (config_read_word(config, *words, &err)) fail_msg("%s", err.text);
}

void session_open(struct session *s, const char *name, const struct backend *backend,
                  const char *const *words, uint64_t count)
{
    static const char text[] = "to be, or not to be: that is the question. ";
    static const char *const small[] = {"model.vocab_size=256",
                                        "model.hidden_dim=16",
                                        "model.num_layers=2",
                                        "model.num_heads=2",
                                        "model.num_kv_heads=1",
                                        "model.head_dim=8",
                                        "model.intermediate_dim=24",
                                        "train.batch_size=2",
                                        "train.seq_len=16",
                                        "train.total_steps=12",
                                        "train.warmup_steps=3",
                                        "eval.every=0",
                                        "eval.early=false",
                                        "sample.early=false",
                                        "eval.batches=0",
                                        "sample.every=0",
                                        "checkpoint.every=0",
                                        "checkpoint.keep=1000",
                                        "sample.max_tokens=8",
                                        "sample.prompt=to be",
                                        "train.learning_rate=0.01",
                                        "train.threads=1",
                                        "train.precision=fp32",
                                        "data.val_split=tail",
                                        NULL};
    struct err err = {0};
    *s = (struct session){.backend = backend ? backend : cpu_backend()};
    config_init(&s->config);
    read_words(&s->config, small);
    read_words(&s->config, words);
    if (config_finish(&s->config, &err)) fail_msg("%s", err.text);
    s->tokens = malloc((count + 1) * sizeof *s->tokens);
    assert_non_null(s->tokens);
    for (uint64_t i = 0; i < count; i++) s->tokens[i] = (unsigned char)text[i % (sizeof text - 1)];
    s->file = (struct token_file){.path = "corpus.tok", .tokens = s->tokens, .count = count};
    s->corpus = (struct corpus){.files = &s->file, .file_count = 1, .tokens = count, .vocab_size = 256};
    if (tokenizer_open_bytes(&s->corpus.tokenizer, &err)) fail_msg("%s", err.text);
    if (s->backend->device_open(DEVICE_FIRST, (int)s->config.train.threads, &s->device, &err))
        fail_msg("%s", err.text);
    s->folder = rig_path(name);
    assert_true(asprintf(&s->traces, "%s/traces", s->folder) > 0);
    assert_int_equal(file_remove_tree(s->folder, NULL), STATUS_OK);
    memset(s->story.applied, 0xFF, sizeof s->story.applied);
}

void session_spoil(struct session *s, int step)
{
    int rows = (int)(s->config.train.batch_size * s->config.train.accumulation_steps),
        n = rows * (int)s->config.train.seq_len;
    for (int i = 0; i < n; i++) s->tokens[step * n + i] = (uint32_t)(128 + (i * 37 + step) % 128);
}

void session_close(struct session *s)
{
    trainer_close(s->trainer);
    s->backend->device_close(s->device);
    tokenizer_close(s->corpus.tokenizer);
    free(s->tokens);
    free(s->folder);
    free(s->traces);
}

enum status session_try(struct session *s, struct err *err)
{
    struct train_setup setup = {.config = &s->config,
                                .backend = s->backend,
                                .device = s->device,
                                .corpus = &s->corpus,
                                .checkpoints = s->folder,
                                .traces = s->traces,
                                .check_allocations = s->check_allocations,
                                .observer = {.context = &s->story,
                                             .step = on_step,
                                             .evaluating = on_evaluating,
                                             .lives = on_lives,
                                             .eval = on_eval,
                                             .stopping = on_stopping,
                                             .sample = on_sample,
                                             .reserve = on_reserve,
                                             .saving = on_saving,
                                             .safe = on_safe,
                                             .rolled_back = on_rolled_back,
                                             .checkpoint = on_checkpoint,
                                             .memory = on_memory,
                                             .used = on_used,
                                             .profile = on_profile,
                                             .event = on_event,
                                             .paused = on_paused,
                                             .next_order = next_order,
                                             .order_done = order_done,
                                             .leave = leave,
                                             .owns = owns}};
    return trainer_open(&setup, &s->trainer, err);
}

void session_start(struct session *s, bool resume)
{
    char path[4096];
    struct err err = {0};
    if (session_try(s, &err)) fail_msg("%s", err.text);
    if (!resume) return;
    if (checkpoint_find(s->folder, -1, path, sizeof path, &err)) fail_msg("%s", err.text);
    if (trainer_resume(s->trainer, path, &err)) fail_msg("%s", err.text);
    s->story.done = trainer_state(s->trainer)->step;
}

enum train_outcome session_run(struct session *s)
{
    struct err err = {0};
    enum train_outcome outcome;
    if (trainer_run(s->trainer, &outcome, &err)) fail_msg("%s", err.text);
    trainer_close(s->trainer);
    s->trainer = NULL;
    return outcome;
}

void story_expect_same(const struct story *a, const struct story *b, const char *what)
{
    if (a->step_count != b->step_count)
        fail_msg("%s: %d steps instead of %d", what, b->step_count, a->step_count);
    for (int i = 0; i < a->step_count; i++) {
        const struct step_record *x = &a->steps[i], *y = &b->steps[i];
        if (memcmp(&x->loss, &y->loss, sizeof x->loss) != 0 ||
            memcmp(&x->grad_norm, &y->grad_norm, sizeof x->grad_norm) != 0)
            fail_msg("%s: step %d: loss %.17g instead of %.17g", what, i, y->loss, x->loss);
    }
    assert_int_equal(a->eval_count, b->eval_count);
    for (int i = 0; i < a->eval_count; i++)
        if (memcmp(&a->evals[i].val_loss, &b->evals[i].val_loss, sizeof(double)) != 0)
            fail_msg("%s: evaluation %d: %.17g instead of %.17g", what, i, b->evals[i].val_loss,
                     a->evals[i].val_loss);
    assert_string_equal(a->last_sample, b->last_sample);
}
