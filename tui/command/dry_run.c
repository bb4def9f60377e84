/* See dry_run.h. */
#include "tui/command/dry_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/text.h"
#include "core/model/data_format.h"
#include "core/model/param_group.h"
#include "core/train/early.h"
#include "core/train/optimizer.h"
#include "core/train/schedule.h"
#include "tui/session/disk_need.h"
#include "tui/session/memory_share.h"
#include "tui/widget/chart.h"

enum { CHART_ROWS = 12, POINTS = 512 };

/* ---- the schedule ---- */

/* Every schedule with a warm-up rises until that ends and does not rise after it, and every other one never
 * changes direction: the extremes of a range of steps are at its ends or at that step. */
static int64_t peak_step(const struct schedule *schedule)
{
    return schedule_warms_up(schedule->kind) && schedule->warmup > 0 ? schedule->warmup - 1 : 0;
}

size_t schedule_points(const struct config *config, struct series_point *points, size_t most)
{
    struct schedule schedule = schedule_of(config);
    int64_t total = schedule.total, peak = peak_step(&schedule);
    int64_t n = total < (int64_t)most ? total : (int64_t)most;
    for (int64_t i = 0; i < n; i++) {
        int64_t first = (int64_t)((double)i / (double)n * (double)total);
        int64_t last = (int64_t)((double)(i + 1) / (double)n * (double)total) - 1;
        if (last < first) last = first;
        double a = schedule_lr(&schedule, first), b = schedule_lr(&schedule, last);
        points[i] = (struct series_point){.first_step = first,
                                          .last_step = last,
                                          .min = fmin(a, b),
                                          .max = fmax(a, b),
                                          .mean = (a + b) / 2,
                                          .last = b,
                                          .count = last - first + 1};
        if (peak > first && peak < last) points[i].max = fmax(points[i].max, schedule_lr(&schedule, peak));
    }
    return (size_t)n;
}

size_t schedule_moments(const struct config *config, struct schedule_moment moments[SCHEDULE_MOMENTS_MAX])
{
    struct schedule schedule = schedule_of(config);
    struct schedule_moment all[] = {
        {0, 0, "the first step"},
        {peak_step(&schedule), 0, "the end of the warm-up"},
        {schedule.total / 2, 0, "half of the run"},
        {schedule.total - 1, 0, "the last step"},
    };
    if (all[1].step > all[2].step) {
        struct schedule_moment warmed = all[1];
        all[1] = all[2];
        all[2] = warmed;
    }
    size_t count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].step >= schedule.total || (count && moments[count - 1].step >= all[i].step)) continue;
        moments[count++] =
            (struct schedule_moment){all[i].step, schedule_lr(&schedule, all[i].step), all[i].what};
    }
    return count;
}

/* ---- printing ---- */

void parts_print_groups(struct output *out, const struct config *c, const struct plan *plan)
{
    struct param_share shares[PARAM_SHARES_MAX];
    int count = param_groups_share(&c->groups, plan->input.model, optimizer_of(c).defaults, shares);
    bool muon = c->train.optimizer == OPTIMIZER_MUON;
    if (!c->groups.count && !muon && !out->json) return;
    output_list(out, "param_groups", "parameter groups");
    for (int i = 0; i < count; i++) {
        output_item(out);
        OUTPUT_MEMBERS(out, "name", shares[i].name, "match", shares[i].match, "tensors", shares[i].tensors,
                       "parameters", shares[i].parameters, "weight_decay", shares[i].weight_decay, "lr_scale",
                       shares[i].lr_scale);
        if (muon) OUTPUT_MEMBERS(out, "optimizer", shares[i].muon ? "muon" : "adamw");
    }
    output_list_end(out);
}

void parts_print_categories(struct output *out, const struct plan *plan)
{
    output_open(out, "categories", "Memory by category");
    for (int i = 0; i < PLAN_CATEGORIES; i++)
        if (plan_has_category(plan, (enum plan_category)i))
            output_bytes(out, plan_category_name((enum plan_category)i), (int64_t)plan->category_bytes[i]);
    output_close(out);
}

/* The learning rate as the workbench would draw it, without colours. */
static enum status print_chart(const struct config *c, struct err *err)
{
    struct series_point points[POINTS];
    struct chart chart = {.title = "learning rate",
                          .trace = {{.points = points, .style = STYLE_LR}},
                          .trace_count = 1,
                          .last_step = c->train.total_steps - 1,
                          .zero = true,
                          .cursor = -1,
                          .best_step = -1};
    chart.trace[0].count = schedule_points(c, points, POINTS);
    return output_chart(&chart, CHART_ROWS, err);
}

/* Prints totals of a complete run. */
static void print_arithmetic(struct output *out, const struct training_session *s)
{
    const struct config *c = &s->config;
    const struct plan *plan = trainer_plan(s->trainer);
    int64_t steps = c->train.total_steps, most = c->eval.batches * c->train.batch_size;
    int64_t batch = c->train.batch_size * config_micro_batches(c, 0), tokens = batch * c->train.seq_len,
            all = (int64_t)config_micro_batches_sum(c, steps) * c->train.batch_size;
    bool grows = *c->train.accumulation_plan;
    int64_t sequences = (int64_t)trainer_sequences(s->trainer, TASK_TRAINING),
            validation = (int64_t)trainer_sequences(s->trainer, TASK_VALIDATION);
    int64_t evaluated = most && most < validation ? most : validation;
    double epoch = (double)sequences / (double)batch;
    struct disk_need need = disk_need_of(s);
    int64_t evaluations = need.evaluations, checkpoints = need.checkpoints;
    const struct model *model = plan->input.model;
    int64_t trained = model->parameters - model->frozen_parameters,
            trained_bytes = (int64_t)(model->elements * sizeof(float));
    bool writes = s->corpus.tokenizer && format_traits(c->data.format)->writes_text;
    int64_t samples = writes && c->sample.every ? steps / c->sample.every : 0;
    if (writes) samples += early_count(c->sample.early, c->sample.every, steps);
    double epochs = (double)all / (double)sequences;
    char note[TASK_NOTE_SIZE], in_steps[48] = "";
    if (!grows)
        snprintf(in_steps, sizeof in_steps, "; one epoch takes %s step%s", TEXT_NUMBER(ceil(epoch)),
                 text_plural((int64_t)ceil(epoch)));
    trainer_note(s->trainer, note, sizeof note);
    if (out->json) {
        OUTPUT_MEMBERS(out, "parameters", model->parameters, "trained_parameters", trained,
                       "frozen_parameters", model->frozen_parameters, "frozen_bytes",
                       (int64_t)model->frozen_bytes);
        OUTPUT_MEMBERS(out, "device", s->choice.info.short_name, "precision",
                       precision_name(plan->input.precision), "optimizer",
                       optimizer_kind_word(c->train.optimizer), "corpus_tokens",
                       (int64_t)trainer_state(s->trainer)->corpus.tokens, "train_sequences", sequences,
                       "validation_sequences", validation);
        OUTPUT_MEMBERS(out, "data_note", note, "validation", training_session_validation(s), "vocab_size",
                       c->model.sizes.vocab_size);
        OUTPUT_MEMBERS(out, "tokens_per_step", tokens, "total_steps", steps, "total_tokens",
                       all * c->train.seq_len, "steps_per_epoch", epoch, "epochs", epochs);
        OUTPUT_MEMBERS(out, "evaluations", evaluations, "sequences_per_evaluation", evaluated, "checkpoints",
                       checkpoints, "checkpoint_bytes", need.checkpoint_bytes, "samples", samples);
        OUTPUT_MEMBERS(out, "checkpoints_most_bytes", need.bytes, "disk_free_bytes", need.free);
        return;
    }
    char vocabulary[CONFIG_NOTE_SIZE];
    config_vocabulary_note(c, vocabulary, sizeof vocabulary);
    output_line(out, "model", "%s parameters: %d layers of width %d, %d heads, vocabulary %d",
                TEXT_COUNT(model->parameters), (int)c->model.sizes.num_layers, (int)c->model.sizes.hidden_dim,
                (int)c->model.sizes.num_heads, (int)c->model.sizes.vocab_size);
    if (model->frozen_parameters) {
        output_line(out, "trained", "%s parameters, %s", TEXT_COUNT(trained), TEXT_BYTES(trained_bytes));
        output_line(out, "frozen", "%s parameters, %s", TEXT_COUNT(model->frozen_parameters),
                    TEXT_BYTES(model->frozen_bytes));
    }
    if (*vocabulary) output_line(out, "vocabulary", "%s", vocabulary);
    output_line(out, "device", "%s, %s, %s", s->choice.info.name, precision_name(plan->input.precision),
                optimizer_kind_word(c->train.optimizer));
    output_line(out, "data", "%s tokens: %s sequences of %d to train on, %s to validate on",
                TEXT_COUNT((double)trainer_state(s->trainer)->corpus.tokens), TEXT_COUNT((double)sequences),
                (int)c->train.seq_len, TEXT_COUNT((double)validation));
    if (*note) output_line(out, "", "%s", note);
    output_line(out, "validation", "%s", training_validation_words(training_session_validation(s)));
    output_line(out, "steps", "%" PRId64 ", each on %d sequence%s%s (%s tokens); %s tokens in all", steps,
                (int)batch, text_plural(batch), grows ? " at first" : "", TEXT_COUNT((double)tokens),
                TEXT_COUNT((double)all * (double)c->train.seq_len));
    if (epochs < 1)
        output_line(out, "epochs", "the run reads %.2g %% of the training data%s", fmin(100 * epochs, 99),
                    in_steps);
    else
        output_line(out, "epochs", "the run reads the training data %.*f times%s", epochs < 100 ? 2 : 0,
                    epochs, in_steps);
    output_line(out, "evaluations", evaluations ? "%" PRId64 ", each on %d sequence%s" : "none", evaluations,
                (int)evaluated, text_plural(evaluated));
    output_line(out, "checkpoints", "%" PRId64 "%s, of %s each; the newest %d and the best are kept",
                checkpoints, evaluations ? " and one at each best evaluation" : "",
                TEXT_BYTES(need.checkpoint_bytes), (int)c->checkpoint.keep);
    output_line(out, "disk", "up to %s for them; %s%s", TEXT_BYTES(fmin(need.bytes, 1e18)),
                need.no_files      ? "no more files can be created (`df -i`)"
                : isnan(need.free) ? "?"
                                   : TEXT_BYTES(need.free),
                need.no_files ? "" : " are free");
    output_line(out, "samples", "%" PRId64, samples);
}

/* Prints the warnings at the start. */
static void print_warnings(struct output *out, const struct training_session *s)
{
    char idle[CONFIG_WARNINGS_MAX][CONFIG_WARNING_SIZE], on_cpu[600], full[900],
        doubts[SESSION_WARNINGS_MAX][TASK_NOTE_SIZE];
    const char *name = out->json ? NULL : "warning";
    int count = config_warnings(&s->config, idle), doubt_count = training_session_warnings(s, doubts);
    snprintf(on_cpu, sizeof on_cpu, "on the CPU: %s", s->choice.why);
    if (out->json) json_out_open(&out->out, "warnings", '[', JSON_OUT_LINES);
    if (*s->choice.why) output_text(out, name, on_cpu);
    for (int i = 0; i < doubt_count; i++) output_text(out, name, doubts[i]);
    if (disk_need_warning(s, full, sizeof full)) output_text(out, name, full);
    for (int i = 0; i < count; i++) output_text(out, name, idle[i]);
    output_close(out);
}

static void print_memory(struct output *out, const struct training_session *s)
{
    const struct device_info *device = &s->choice.info;
    const struct plan *plan = trainer_plan(s->trainer);
    double reserve = s->config.memory.reserve;
    int64_t left = memory_share_left(
        &(struct memory_wish){.backend = s->choice.backend, .device = s->choice.device, .reserve = reserve});
    output_line(out, "memory", "%s planned: it fits; %s of %s are free, and %.0f %% of all memory stays free",
                TEXT_BYTES(plan->total_bytes), TEXT_BYTES(device->available_bytes),
                TEXT_BYTES(device->total_bytes), 100 * memory_share_reserve(device, reserve));
    if (left != INT64_MAX)
        output_line(out, "", "another run could reserve %s at the same time", TEXT_BYTES(left));
    if (out->json) output_open(out, "memory", "");
    if (out->json)
        OUTPUT_MEMBERS(out, "planned_bytes", (int64_t)plan->total_bytes, "device_total_bytes",
                       device->total_bytes, "device_available_bytes", device->available_bytes, "reserve",
                       memory_share_reserve(device, reserve), "headroom_bytes",
                       left == INT64_MAX ? -1 : left);
    parts_print_categories(out, plan);
    if (out->json) output_close(out);
}

static void print_schedule(struct output *out, const struct config *c)
{
    struct schedule_moment moments[SCHEDULE_MOMENTS_MAX];
    size_t count = schedule_moments(c, moments);
    if (out->json) output_text(out, "schedule", schedule_kind_word(c->train.schedule));
    output_list(out, "learning_rate", schedule_kind_word(c->train.schedule));
    for (size_t i = 0; i < count; i++) {
        output_item(out);
        OUTPUT_MEMBERS(out, "step", moments[i].step, "lr", moments[i].lr, "what", moments[i].what);
    }
    output_list_end(out);
}

enum status dry_run_print(const struct training_session *s, void *context, struct err *err)
{
    const bool *json = context;
    struct output out;
    enum status status = STATUS_OK;
    output_begin(&out, *json);
    print_arithmetic(&out, s);
    print_warnings(&out, s);
    print_memory(&out, s);
    if (!*json) status = print_chart(&s->config, err);
    print_schedule(&out, &s->config);
    parts_print_groups(&out, &s->config, trainer_plan(s->trainer));
    if (!*json) puts("\nNothing was trained, and no run was made.");
    return status ? status : output_end(&out, err);
}
