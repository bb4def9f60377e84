/* See training_session.h. */
#include "tui/session/training_session.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/model/data_format.h"
#include "runs/reference.h"
#include "tui/session/process.h"

/* ---- records: from the trainer to the store and the watcher ---- */

/* Records that are only stored. */
#define STORED(name)                                                                                         \
    static void on_##name(void *context, const struct name##_record *record)                                 \
    {                                                                                                        \
        writer_##name(((struct training_session *)context)->writer, record);                                 \
    }
STORED(memory)
STORED(rank)
STORED(profile)

static void on_sample(void *context, const struct sample_record *record)
{
    struct training_session *s = context;
    writer_sample(s->writer, record);
    s->watcher->sample(s->watcher->context, record);
}

static void probe_step(void *context, const struct step_record *record)
{
    struct training_session *s = context;
    const struct training_probe *probe = s->options->probe;
    if (probe && !probe->step(probe->context, record)) s->enough = true;
}

static void on_step(void *context, const struct step_record *record)
{
    struct training_session *s = context;
    probe_step(s, record);
    writer_step(s->writer, record);
    hook_step(s->hook, record->step);
    s->watcher->step(s->watcher->context, record);
}

static void on_event(void *context, const struct event_record *record)
{
    struct training_session *s = context;
    writer_event(s->writer, record);
    if (record->diverged) hook_event(s->hook, "divergence", "running", record->step, record->text);
    s->watcher->event(s->watcher->context, record);
}

static void on_checkpoint(void *context, const struct checkpoint_record *record)
{
    struct training_session *s = context;
    s->longest_save = fmax(s->longest_save, clock_monotonic() - s->saving_at);
    writer_checkpoint(s->writer, record);
    s->watcher->checkpoint(s->watcher->context, record);
}

static void record_confusion(struct training_session *s, int64_t step, const struct confusion *c)
{
    for (int i = 0; i < c->classes; i++) {
        struct class_scores of = confusion_scores(c, i);
        writer_class(s->writer,
                     &(struct class_record){step, c->names[i], of.precision, of.recall, of.f1, of.support});
        for (int k = 0; k < c->classes; k++) {
            int64_t count = c->counts[(size_t)i * (size_t)c->classes + (size_t)k];
            if (count)
                writer_confusion(s->writer,
                                 &(struct confusion_record){step, c->names[i], c->names[k], count});
        }
    }
}

static void on_evaluating(void *context)
{
    hook_excuse(((struct training_session *)context)->hook, HOOK_EVALUATES, true);
}

static void on_lives(void *context)
{
    writer_lives(((struct training_session *)context)->writer);
}

static void on_eval(void *context, const struct eval_record *record, const struct measures *measures)
{
    struct training_session *s = context;
    hook_excuse(s->hook, HOOK_EVALUATES, false);
    s->last_eval = *record;
    s->last_measures = (struct measures){0};
    writer_eval(s->writer, record);
    for (int i = 0; i < measures->count; i++) {
        const struct measure *m = &measures->of[i];
        if (table_column(TABLE_EVALS, m->name)) continue; /* the record has it */
        writer_measure(s->writer, &(struct measure_record){record->step, m->name, m->value});
        s->last_measures.of[s->last_measures.count++] = *m;
    }
    record_confusion(s, record->step, &measures->confusion);
}

static void on_stopping(void *context, const struct stopping_record *record)
{
    struct training_session *s = context;
    if (record->verdict != VERDICT_ORDERED) writer_stopping(s->writer, record);
    s->watcher->eval(s->watcher->context, &s->last_eval, &s->last_measures, record);
}

static void on_rolled_back(void *context)
{
    struct training_session *s = context;
    writer_next_segment(s->writer, trainer_state(s->trainer)->step);
}

/* Lists which of the run's checkpoints other runs need: bases of adapters, origins of forks. What cannot be
 * read now is as before. */
static void find_needed(struct training_session *s)
{
    struct arena arena = {0};
    struct run_references references;
    size_t count, kept = 0;
    int64_t *steps = checkpoint_steps(s->checkpoints, &count);
    bool read = !run_references_read(s->store, &arena, &references, NULL);
    for (size_t i = 0; read && i < count; i++)
        if (run_references_find(&references, s->store, s->id, steps[i], 0) < references.count)
            steps[kept++] = steps[i];
    arena_release(&arena);
    int64_t *unused = read ? s->needed_steps : steps;
    if (read) s->needed = (struct needed_steps){s->needed_steps = steps, kept};
    free(unused);
}

static void on_saving(void *context)
{
    struct training_session *s = context;
    find_needed(s);
    s->saving = writer_flush_begin(s->writer);
    s->saving_at = clock_monotonic();
}

/* No checkpoint is ahead of the recorded rows, so a killed run has no gap in its history. If the store is too
 * slow for that, the writer has reported why. */
static void on_safe(void *context)
{
    struct training_session *s = context;
    writer_flush_wait(s->writer, s->saving, 2, NULL);
}

static void on_paused(void *context, enum train_pause pause)
{
    struct training_session *s = context;
    writer_status(s->writer, pause == TRAIN_GOES_ON ? RUN_RUNNING : RUN_PAUSED);
    hook_excuse(s->hook, HOOK_PAUSED, pause != TRAIN_GOES_ON);
    s->watcher->paused(s->watcher->context, trainer_state(s->trainer)->step, pause);
}

void training_session_event(struct training_session *s, int64_t step, const char *level, const char *format,
                            ...)
{
    char text[1024];
    TEXT_FORMAT(text, format);
    struct event_record event = {.step = step, .wall_time = clock_wall(), .level = level, .text = text};
    on_event(s, &event);
}

/* ---- memory ---- */

/* The purpose of the memory, such as " (classify-qlora)"; "" for plain training. */
static void describe_purpose(const struct config *c, bool starting, char buf[48])
{
    const char *format = format_traits(c->data.format)->purpose, *adapters = !c->lora.rank ? ""
                                                                             : c->lora.base == LORA_BASE_NF4
                                                                                 ? "qlora"
                                                                                 : "lora";
    const char *dash = *format && *adapters ? "-" : "", *comma = *format || *adapters ? ", " : "";
    *buf = '\0';
    if (starting)
        snprintf(buf, 48, " (%s%s%s%sstarting)", format, dash, adapters, comma);
    else if (*format || *adapters)
        snprintf(buf, 48, " (%s%s%s)", format, dash, adapters);
}

/* The run's id or, until it has one, its name with "(starting)"; and its purpose. */
static const char *holder(const struct training_session *s, char buf[LEDGER_TEXT])
{
    const char *name = s->options->name ? s->options->name : preset_word(s->config.model.preset);
    bool starting = s->id[0] == '\0';
    char purpose[48];
    describe_purpose(&s->config, starting, purpose);
    snprintf(buf, LEDGER_TEXT, "%.*s%s", RUN_ID_MAX - 1, starting ? name : s->id, purpose);
    return buf;
}

/* The ranks of this host share its memory; a GPU belongs to one. */
static int64_t of_host(const struct training_session *s, int64_t bytes)
{
    return s->choice.backend == cpu_backend() ? bytes * s->options->ranks->world->local_size : bytes;
}

static enum status on_reserve(void *context, int64_t bytes, struct err *err)
{
    struct training_session *s = context;
    char text[LEDGER_TEXT];
    struct memory_wish wish = {.holder = holder(s, text),
                               .backend = s->choice.backend,
                               .device = s->choice.device,
                               .reserve = s->config.memory.reserve,
                               .bytes = of_host(s, bytes),
                               .may_wait = true,
                               .wait = s->options->wait};
    return memory_share_take(&s->share, &wish, err);
}

static void on_used(void *context, int64_t bytes)
{
    struct training_session *s = context;
    char text[LEDGER_TEXT];
    memory_share_used(&s->share, holder(s, text), of_host(s, bytes));
}

void training_session_hold(struct training_session *s)
{
    char text[LEDGER_TEXT];
    memory_share_used(&s->share, holder(s, text), s->share.bytes);
}

/* Standard error has one line; the log has every line. */
static void on_full(void *context, const char *line)
{
    struct training_session *s = context;
    size_t used = strlen(s->full), length = strlen(line);
    if (s->log.fd >= 0)
        run_log_line(&s->log, line);
    else if (used + length + 2 <= sizeof s->full)
        snprintf(s->full + used, sizeof s->full - used, "%s\n", line);
}

/* ---- orders: from the store to the trainer ---- */

/* Finds the next rate ordered before the interruption, if its step has come. */
static bool recall_order(struct training_session *s, int64_t step, struct order *out)
{
    while (s->recalled_count > 0 && s->recalled[0].applied_step <= step) {
        struct order_row row = *s->recalled++;
        s->recalled_count--;
        if (trainer_state(s->trainer)->lr_factor == row.argument) continue; /* the checkpoint has it */
        training_session_event(s, step, "info",
                               "learning rate × %g again from step %" PRId64
                               " on, as ordered before the run was interrupted",
                               row.argument, step);
        *out = (struct order){.verb = ORDER_LR_FACTOR, .argument = row.argument};
        return true;
    }
    return false;
}

/* Removes one; the others stay in order. */
static struct order remove_order(struct order *orders, int *count, int at)
{
    struct order order = orders[at];
    memmove(orders + at, orders + at + 1, (size_t)(--*count - at) * sizeof *orders);
    return order;
}

static bool on_next_order(void *context, int64_t step, struct order *out)
{
    struct training_session *s = context;
    if (s->carried_count > 0)
        *out = remove_order(s->carried, &s->carried_count, 0);
    else if (!recall_order(s, step, out) && !writer_next_order(s->writer, out))
        return false;
    /* room for three more when carrying them */
    if (s->unanswered_count < SESSION_ORDERS_MAX - 3) s->unanswered[s->unanswered_count++] = *out;
    return true;
}

/* An order to trace is answered after the next step: others may be answered before. */
static void on_order_done(void *context, int64_t order_id, int64_t applied_step, const char *result)
{
    struct training_session *s = context;
    int at = 0;
    while (at < s->unanswered_count && s->unanswered[at].id != order_id) at++;
    if (at == s->unanswered_count) return;
    struct order order = remove_order(s->unanswered, &s->unanswered_count, at);
    if (order.verb == ORDER_PAUSE || order.verb == ORDER_CONTINUE) s->paused = order.verb == ORDER_PAUSE;
    if (order.verb == ORDER_STOP) s->stopping = true;
    if (!order_id) return;
    if (order.verb == ORDER_LR_FACTOR && trainer_state(s->trainer)->lr_factor == order.argument)
        s->recalled_count = 0; /* the newest order counts */
    writer_order_done(s->writer, order_id, applied_step, result);
    s->watcher->order(s->watcher->context, verb_words[order.verb], applied_step, result);
}

/* Whether the run must leave now, so that its last checkpoint is written before train.time_limit. Until the
 * next question passes at most the longest time so far between two, evaluations and samples included. */
static bool is_out_of_time(struct training_session *s)
{
    double now = clock_monotonic(), limit = s->config.train.time_limit * 60, left = s->started + limit - now;
    if (limit <= 0 || s->out_of_time) return s->out_of_time;
    if (s->asked_at > 0) s->longest_gap = fmax(s->longest_gap, now - s->asked_at);
    s->asked_at = now;
    s->out_of_time = left < s->longest_gap + 2 * s->longest_save + 1;
    if (s->out_of_time)
        training_session_event(s, trainer_state(s->trainer)->step, "info",
                               "train.time_limit = %g minutes: leaves %s before, to save a checkpoint",
                               s->config.train.time_limit, CLOCK_DURATION(left));
    return s->out_of_time;
}

static bool on_leave(void *context)
{
    return is_out_of_time(context) || ((struct training_session *)context)->enough || interrupt_requested();
}

static enum status on_owns(void *context, struct err *err)
{
    struct training_session *s = context;
    return run_lock_check(s->store, s->id, &s->lock, err);
}

void training_session_carry_orders(struct training_session *s)
{
    struct order *carried = s->carried;
    *carried++ = (struct order){.verb = ORDER_LR_FACTOR, .argument = trainer_state(s->trainer)->lr_factor};
    if (s->paused) *carried++ = (struct order){.verb = ORDER_PAUSE, .argument = NAN};
    for (int i = 0; i < s->unanswered_count; i++) *carried++ = s->unanswered[i];
    if (s->stopping) *carried++ = (struct order){.verb = ORDER_STOP, .argument = NAN};
    s->carried_count = (int)(carried - s->carried);
    s->unanswered_count = 0;
}

/* ---- the trainer ---- */

enum status training_session_open_trainer(struct training_session *s, struct err *err)
{
    char warm_folder[PATH_MAX + 8];
    snprintf(warm_folder, sizeof warm_folder, "%s/cuda", s->home);
    enum status status = device_choice_settle_precision(&s->choice, &s->config.train.precision, err);
    if (status) return status;
    struct train_setup setup = {.config = &s->config,
                                .backend = s->choice.backend,
                                .device = s->choice.device,
                                .corpus = &s->corpus,
                                .world = s->options->ranks->world,
                                .checkpoints = s->options->probe ? NULL : s->checkpoints,
                                .needed = &s->needed,
                                .weights = s->weights,
                                .traces = s->traces,
                                .warm_folder = warm_folder,
                                .progress = s->watcher->progress,
                                .full = {on_full, s},
                                .check_allocations = s->options->check_allocations,
                                .another_device = !s->options->probe && device_choice_has_another(&s->choice),
                                .took_over = s->took_over,
                                .until = s->options->until,
                                .observer = {.context = s,
                                             .reserve = on_reserve,
                                             .step = on_step,
                                             .evaluating = on_evaluating,
                                             .lives = on_lives,
                                             .eval = on_eval,
                                             .stopping = on_stopping,
                                             .sample = on_sample,
                                             .saving = on_saving,
                                             .safe = on_safe,
                                             .rolled_back = on_rolled_back,
                                             .checkpoint = on_checkpoint,
                                             .memory = on_memory,
                                             .rank = on_rank,
                                             .used = on_used,
                                             .profile = on_profile,
                                             .event = on_event,
                                             .paused = on_paused,
                                             .next_order = on_next_order,
                                             .order_done = on_order_done,
                                             .leave = on_leave,
                                             .owns = on_owns}};
    if (s->tries) {
        setup.observer = train_observer_silent;
        setup.observer.context = s;
        setup.observer.reserve = on_reserve;
        setup.observer.used = on_used;
        setup.observer.step = probe_step;
        setup.observer.leave = on_leave;
    }
    status = trainer_open(&setup, &s->trainer, err);
    s->watcher->prepared(s->watcher->context);
    if (status)
        memory_share_release(&s->share);
    else
        training_session_hold(s);
    return status;
}

/* Whether a tokenizer learned from the corpus has fewer tokens than asked for, with a sentence about it in
 * `buf`. */
static bool unlearned(const struct training_session *s, char *buf, size_t size)
{
    int64_t asked = tokenizer_learned_size(s->config.data.tokenizer);
    int learned = s->corpus.learned ? tokenizer_vocab_size(s->corpus.tokenizer) : 0;
    if (!learned || learned >= asked) return false;
    snprintf(buf, size,
             "the text was enough for only %d of the %" PRId64
             " tokens of data.tokenizer = %s (bpe:%d makes the same tokenizer and a smaller model)",
             learned, asked, s->config.data.tokenizer, learned);
    return true;
}

/* Whether the whole run reads its training data over a hundred times, although neither train.epochs asks for
 * it nor early stopping ends it. From about 40 times on, further ones teach next to nothing (Muennighoff et
 * al. 2023, "Scaling Data-Constrained Language Models", section 6). */
static bool repeats(const struct training_session *s, char *buf, size_t size)
{
    const struct config *c = &s->config;
    double all = (double)config_micro_batches_sum(c, c->train.total_steps) * c->train.batch_size,
           sequences = (double)trainer_sequences(s->trainer, TASK_TRAINING), epochs = all / sequences;
    bool meant = c->train.epochs > 0 || c->eval.early_stopping_patience > 0;
    if (meant || !(epochs > 100)) return false;
    snprintf(
        buf, size,
        "the training data are so few that the run reads them %.0f times, and a model soon knows them by "
        "heart: give a length in train.epochs, or end the run with eval.early_stopping_patience",
        epochs);
    return true;
}

int training_session_warnings(const struct training_session *s,
                              char out[SESSION_WARNINGS_MAX][TASK_NOTE_SIZE])
{
    int count = 0;
    count += unlearned(s, out[count], sizeof *out);
    count += repeats(s, out[count], sizeof *out);
    trainer_warn(s->trainer, out[count], sizeof *out);
    return count + (*out[count] != '\0');
}

const char *training_session_validation(const struct training_session *s)
{
    static const char *const of_split[] = {[VAL_BLOCKS] = "blocks", [VAL_TAIL] = "tail"};
    if (!trainer_sequences(s->trainer, TASK_VALIDATION)) return "none";
    if (*s->config.data.val) return "data.val";
    return format_traits(s->config.data.format)->least_labels ? "labels" : of_split[s->config.data.val_split];
}

const char *training_validation_words(const char *validation)
{
    if (strcmp(validation, "blocks") == 0) return "evenly spread over the corpus (data.val_split = blocks)";
    if (strcmp(validation, "tail") == 0) return "at the end of the corpus (data.val_split = tail)";
    if (strcmp(validation, "labels") == 0)
        return "with a share of the texts of each label (data.val_fraction)";
    return strcmp(validation, "data.val") == 0 ? "of data.val" : "none (data.val_fraction = 0)";
}

void training_session_stop_metrics(struct training_session *s)
{
    struct err err;
    if (metrics_stop(s->metrics, METRICS_PATIENCE, &err))
        training_session_event(s, s->trainer ? trainer_state(s->trainer)->step : -1, "warning", "%s",
                               err.text);
    s->metrics = NULL;
}

void training_session_close_trainer(struct training_session *s)
{
    training_session_stop_metrics(s);
    trainer_close(s->trainer);
    s->trainer = NULL;
    memory_share_release(&s->share);
}
