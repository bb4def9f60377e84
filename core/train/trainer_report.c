/* The trainer's reports other than step records: events, real and planned memory, health, judged from each
 * reported step, and between steps evaluations, which early stopping judges, and samples of text. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/generate/conversation.h"
#include "core/model/generation_config.h"
#include "core/train/trainer_parts.h"

enum { TAGS_MAX = 64 };

/* ---- events ---- */

static void report_event(struct trainer *t, int64_t step, const char *level, const char *text, bool diverged)
{
    struct event_record record = {step, clock_wall(), level, text, diverged};
    t->setup.observer.event(t->setup.observer.context, &record);
}

void trainer_event(struct trainer *t, const char *level, const char *format, ...)
{
    char text[400];
    TEXT_FORMAT(text, format);
    report_event(t, t->state.step, level, text, false);
}

enum status trainer_device_status(struct trainer *t, struct err *err)
{
    enum status status = t->setup.backend->stream_wait(t->network.stream, err);
    return status ? status : task_check_batches(t->data, err);
}

void trainer_tolerate(struct trainer *t, const char *level, const struct err *problem)
{
    if (!trainer_device_status(t, NULL)) trainer_event(t, level, "%s; training continues", problem->text);
}

/* ---- memory: when a segment starts, with evaluations and checkpoints, and every hundred steps ---- */

/* The plan's category of that name; PLAN_CATEGORIES: none. */
static int category_of(const char *tag)
{
    int i = 0;
    while (i < PLAN_CATEGORIES && strcmp(tag, plan_category_name((enum plan_category)i)) != 0) i++;
    return i;
}

void trainer_report_used(struct trainer *t)
{
    struct allocator_usage sum = {0};
    int64_t host = 0;
    if (t->network.allocator) {
        allocator_sum(t->network.allocator, &sum);
        if (t->plan.input.host_counts) host = (int64_t)(t->plan.total_bytes - plan_device_bytes(&t->plan));
    }
    t->pace.memory = sum.reserved + host;
    t->setup.observer.used(t->setup.observer.context, t->pace.memory);
}

void trainer_report_memory(struct trainer *t)
{
    struct train_observer *o = &t->setup.observer;
    struct allocator_usage tags[TAGS_MAX];
    int count = allocator_tags(t->network.allocator, tags, TAGS_MAX);
    t->last_memory_step = t->state.step;
    for (int i = 0; i < count; i++) {
        int category = category_of(tags[i].tag);
        int64_t planned = category < PLAN_CATEGORIES ? (int64_t)t->plan.category_bytes[category] : 0;
        struct memory_record record = {t->state.step, tags[i].tag, planned, tags[i].live, tags[i].peak};
        o->memory(o->context, &record);
    }
    trainer_report_used(t);
}

/* ---- health ---- */

static void report_health(struct trainer *t, int64_t step, bool not_finite, bool spike)
{
    const struct health *h = &t->health;
    for (int i = 0; i < h->event_count; i++)
        report_event(t, h->events[i].step, h->events[i].level, h->events[i].text, h->events[i].diverged);
    if (not_finite && h->limits.on_nan == ON_NAN_STOP) t->not_finite = true;
    if ((not_finite && h->limits.on_nan == ON_NAN_ROLLBACK) ||
        (spike && h->limits.on_spike == ON_SPIKE_ROLLBACK))
        t->trouble = step;
}

void trainer_judge_step(struct trainer *t, const struct step_record *record)
{
    double waited = prefetch_waited(t->data->prefetch[TASK_TRAINING]);
    bool spiked = t->state.level.spike_steps;
    health_judge(&t->health, record, waited - t->waited);
    t->waited = waited;
    bool finite = isfinite(record->loss) && isfinite(record->grad_norm);
    report_health(t, record->step, !finite, !spiked && t->state.level.spike_steps);
}

bool trainer_weights_are_in_doubt(const struct trainer *t)
{
    return t->not_finite || (t->state.skipped_in_a_row > 0 && !t->last_is_finite);
}

/* ---- evaluations and samples ---- */

/* The tokens that ask for an answer to sample.prompt, in the format of the conversations. */
static enum status encode_question(struct trainer *t, struct err *err)
{
    const struct config *c = t->setup.config;
    const char *prompt = c->sample.prompt;
    struct chat_format format = {0};
    struct conversation conversation = {0};
    enum status status = chat_format_of_config(c, &format, err);
    if (!status) status = conversation_begin(&conversation, &format, t->setup.corpus->tokenizer, err);
    if (!status) status = conversation_add(&conversation, "user", prompt, strlen(prompt), err);
    if (!status) status = conversation_encode(&conversation, &t->sample_prompt, err);
    conversation_close(&conversation);
    chat_format_release(&format);
    return status ? err_prefix(err, "sample.prompt") : STATUS_OK;
}

enum status trainer_open_samples(struct trainer *t, struct err *err)
{
    t->sample_bytes = malloc(SAMPLE_BYTES_MAX);
    t->sample_text = malloc(SAMPLE_TEXT_SIZE); /* untouched pages cost nothing */
    if (!t->sample_bytes || !t->sample_text) return err_no_memory(err, "samples of text");
    if (!t->setup.corpus->tokenizer || !trainer_format(t)->writes_text) return STATUS_OK;
    t->samples = true;
    enum status status = generator_open(&t->generator, &t->network, t->setup.corpus->tokenizer, err);
    t->generator.most = plan_sample_length(t->setup.config); /* the cache may be longer, for eval.tasks */
    return status || !trainer_format(t)->answers ? status : encode_question(t, err);
}

void trainer_close_samples(struct trainer *t)
{
    generator_close(&t->generator);
    token_list_release(&t->sample_prompt);
    free(t->sample_bytes);
    free(t->sample_text);
}

/* NULL: there is no measure of that name. */
static const struct measure *find_measure(const struct measures *measures, const char *name)
{
    for (int i = 0; i < measures->count; i++)
        if (strcmp(measures->of[i].name, name) == 0) return &measures->of[i];
    return NULL;
}

static double measure_of(const struct measures *measures, const char *name)
{
    const struct measure *measure = find_measure(measures, name);
    return measure ? measure->value : NAN;
}

/* Adds what the averaged weights measured, if there are any, under names of their own: "val_loss_ema". */
static void add_averages(struct trainer *t, struct measures *measures, const struct measures *averages)
{
    for (int i = 0; t->optimizer.ema_decay > 0 && i < averages->count && measures->count < MEASURES_MAX;
         i++) {
        char *name = t->average_names[i];
        snprintf(name, sizeof *t->average_names, "%.59s_ema", averages->of[i].name);
        measures->of[measures->count++] = (struct measure){name, averages->of[i].value};
    }
}

enum status trainer_check_metric(struct trainer *t, struct err *err)
{
    struct measures measures = t->task->measure(t->data), averages = measures;
    add_averages(t, &measures, &averages);
    char names[200] = "";
    for (int i = 0; i < t->tasks.count && measures.count + 2 <= MEASURES_MAX; i++) {
        measures.of[measures.count++].name = t->tasks.of[i].accuracy;
        measures.of[measures.count++].name = t->tasks.of[i].accuracy_per_byte;
    }
    if (find_measure(&measures, trainer_metric(t))) return STATUS_OK;
    for (int i = 0; i < measures.count; i++) text_add(names, sizeof names, ", ", "%s", measures.of[i].name);
    return err_set(err, STATUS_USAGE, "eval.metric = %.60s: an evaluation measures %s",
                   t->setup.config->eval.metric, names);
}

/* Measures the first batches of the validation data, the same ones every time; each rank a part of them. */
static struct measures measure(struct trainer *t)
{
    const struct config *c = t->setup.config;
    uint64_t all = task_examples(t->data, TASK_VALIDATION),
             most = (uint64_t)(c->eval.batches * c->train.batch_size), B = (uint64_t)t->plan.input.B;
    struct world_part part = world_divide(most && most < all ? most : all, t->world->rank, t->world->size);
    t->task->begin(t->data);
    for (uint64_t b; part.count; part.first += b, part.count -= b) {
        b = part.count < B ? part.count : B;
        t->task->judge(t->data, &t->network, part.first,
                       task_batch(t->data, TASK_VALIDATION, part.first, (int)b));
        t->setup.observer.lives(t->setup.observer.context);
    }
    t->task->join(t->data, t->world);
    return t->task->measure(t->data);
}

/* The same, and beside it the measures of the averaged weights. These are taken first: what the task keeps of
 * an evaluation then belongs to the weights. */
static struct measures measure_all(struct trainer *t)
{
    struct measures averages = {0};
    if (t->optimizer.ema_decay > 0) {
        network_show_average(&t->network, true);
        averages = measure(t);
        network_show_average(&t->network, false);
    }
    struct measures measures = measure(t);
    add_averages(t, &measures, &averages);
    return measures;
}

/* Asked after each batch of questions. */
static bool is_to_leave(void *context)
{
    const struct train_observer *o = context;
    o->lives(o->context);
    return o->leave(o->context);
}

/* Adds the scores of eval.tasks. False: the run was asked to end, so that some are missing. */
static bool answer_tasks(struct trainer *t, struct measures *measures)
{
    struct train_observer *o = &t->setup.observer;
    struct err problem = {0};
    enum status status = eval_tasks_measure(&t->tasks, is_to_leave, o, measures, &problem);
    if (status == STATUS_INTERRUPTED)
        trainer_event(t, "info", "%s", problem.text);
    else if (status)
        trainer_tolerate(t, "warning", &problem);
    for (int i = 0; i < t->tasks.count && !t->tasks.told; i++) {
        const struct examination *e = &t->tasks.of[i].examination;
        if (e->long_count)
            trainer_event(t, "warning",
                          "%s: %" PRIu64 " of %" PRIu64 " questions are longer than model.max_seq_len = %d: "
                          "the beginning of their contexts is left out",
                          e->file.lines.path, e->long_count, e->questions, t->model.config.max_seq_len);
    }
    t->tasks.told = true;
    return status != STATUS_INTERRUPTED;
}

bool trainer_evaluate(struct trainer *t, bool extra)
{
    struct train_observer *o = &t->setup.observer;
    struct eval_record record = {.step = t->state.step, .tokens = t->state.tokens};
    double start = clock_monotonic();
    if (!task_examples(t->data, TASK_VALIDATION)) return false;
    o->evaluating(o->context);
    struct measures measures = measure_all(t);
    struct {
        double by; /* perhaps a task's score, of which rank 0 alone knows */
        bool whole;
    } judgement = {.whole = true};
    if (t->world->rank == 0) judgement.whole = answer_tasks(t, &measures);
    judgement.by = measure_of(&measures, trainer_metric(t));
    world_share(t->world, &judgement, sizeof judgement);
    if (trainer_device_status(t, NULL)) return false;
    record.val_loss = measure_of(&measures, "val_loss");
    record.val_perplexity = measure_of(&measures, "val_perplexity");
    record.wall_time = clock_wall();
    record.eval_ms = (clock_monotonic() - start) * 1e3;
    bool judges = judgement.whole || !isnan(judgement.by); /* an evaluation cut short uses up no patience */
    t->evaluated_step = t->state.step;
    t->evaluated_loss = record.val_loss;
    o->eval(o->context, &record, &measures);
    if (!judges) return false;
    struct stopping_record judged =
        early_stopping_judge(&t->state.stopping, t->state.step, judgement.by, extra);
    judged.metric = t->metric;
    o->stopping(o->context, &judged);
    health_judge_evaluation(&t->health, record.step, record.val_loss);
    report_health(t, t->state.step, t->health.not_finite_evaluation, false);
    trainer_report_memory(t);
    return judged.improved;
}

enum status trainer_sample(struct trainer *t, struct err *err)
{
    const struct config *c = t->setup.config;
    struct train_observer *o = &t->setup.observer;
    struct sampling sampling = {.temperature = c->sample.temperature,
                                .top_k = (int)c->sample.top_k,
                                .top_p = 1,
                                .seed = (uint64_t)c->train.seed ^ ((uint64_t)t->state.step << 20)};
    size_t used = 0;
    if (!t->samples || t->world->rank > 0) return STATUS_OK;
    const struct tokenizer *tokenizer = t->setup.corpus->tokenizer;
    enum status status = t->sample_prompt.count
                             ? generator_start_tokens(&t->generator, &t->sample_prompt, err)
                             : generator_start(&t->generator, c->sample.prompt, err);
    for (int64_t i = 0; !status && i < c->sample.max_tokens; i++) {
        size_t n;
        uint32_t token = generator_next(&t->generator, &sampling, i);
        if (t->sample_prompt.count && tokenizer_is_special(tokenizer, token)) break; /* the answer's end */
        const char *piece = tokenizer_token_bytes(tokenizer, token, &n);
        if (used + n > SAMPLE_BYTES_MAX) break;
        memcpy(t->sample_bytes + used, piece, n);
        used += n;
    }
    if (!status) status = trainer_device_status(t, err);
    if (status) return status;
    if (sampler_check(&t->generator.sampler, err))
        return err_prefix(err, "no sample at step %" PRId64, t->state.step);
    clean_block(t->sample_text, SAMPLE_TEXT_SIZE, t->sample_bytes, used);
    struct sample_record record = {t->state.step, c->sample.prompt, t->sample_text};
    o->sample(o->context, &record);
    return STATUS_OK;
}
