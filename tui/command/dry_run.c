/* See dry_run.h. */
#include "tui/command/dry_run.h"

#include <inttypes.h>
#include <langinfo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/text.h"
#include "core/train/schedule.h"
#include "tui/command/command.h"
#include "tui/command/plan_parts.h"
#include "tui/session/memory_share.h"
#include "tui/widget/chart.h"

enum { CHART_W = 78, CHART_H = 12, POINTS = 512 };

/* ---- the schedule ---- */

/* Every schedule rises until its warm-up ends and does not rise after it: the extremes of a range of steps
 * are at its ends or at that step. */
static int64_t peak_step(const struct schedule *schedule)
{
    return schedule->warmup > 0 ? schedule->warmup - 1 : 0;
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
    bool warms = schedule.kind != SCHEDULE_CONSTANT && schedule.warmup > 1;
    struct schedule_moment all[] = {
        {0, 0, "the first step"},
        {warms ? peak_step(&schedule) : 0, 0, "the end of the warm-up"},
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

/* ---- the form of a new run ---- */

/* "5.34M parameters; 2000 steps of 4.10k tokens: 8.19M" */
static enum status describe(const struct config *config, struct form_preview *out, struct err *err)
{
    struct model model;
    enum status status = model_init(&model, &config->model.sizes, err);
    if (status) return status;
    int64_t tokens = config->train.batch_size * config->train.seq_len * config->train.accumulation_steps;
    snprintf(out->facts, sizeof out->facts, "%s parameters; %lld step%s of %s token%s, %s in all",
             TEXT_COUNT(model.parameters), (long long)config->train.total_steps,
             text_plural(config->train.total_steps), TEXT_COUNT(tokens), text_plural(tokens),
             TEXT_COUNT((double)tokens * (double)config->train.total_steps));
    model_release(&model);
    return STATUS_OK;
}

void form_preview_make(const char *const *settings, size_t count, struct form_preview *out)
{
    struct config config;
    struct err err = {0};
    enum status status = STATUS_OK;
    config_init(&config);
    for (size_t i = 0; i < count && !status; i++) status = config_read_word(&config, settings[i], &err);
    if (!status) status = config_finish(&config, &err);
    *out = (struct form_preview){0};
    if (!status) status = describe(&config, out, &err);
    if (status) {
        snprintf(out->problem, sizeof out->problem, "%s", err.text);
        return;
    }
    out->total_steps = config.train.total_steps;
    out->count = schedule_points(&config, out->lr, FORM_PREVIEW_POINTS);
}

/* ---- the arithmetic of a run that goes to its end ---- */

struct outlook {
    const struct training_session *session;
    const struct config *config;
    const struct plan *plan;
    const struct model *model;
    const struct device_info *device;
    double reserve; /* the share of the device's memory that stays free */
    int64_t tokens_a_step, sequences_a_step;
    int64_t sequences, validation_sequences;
    double steps_an_epoch, epochs;
    int64_t tokens;
    int64_t evaluations, eval_sequences; /* how many; what each of them reads */
    int64_t checkpoints;                 /* the last one included, those of a best evaluation not */
    int64_t checkpoint_bytes;            /* weights and moments of each */
    int64_t samples;
    int64_t headroom; /* bytes that another run could reserve now beside this one; -1: unknown */
    char idle[CONFIG_WARNINGS_MAX][CONFIG_WARNING_SIZE], on_cpu[600];
    const char *warnings[CONFIG_WARNINGS_MAX + 1]; /* that training would begin with */
    int warning_count;
};

static void make_outlook(struct outlook *o, const struct training_session *s)
{
    const struct config *c = &s->config;
    int64_t steps = c->train.total_steps;
    *o = (struct outlook){.session = s,
                          .config = c,
                          .plan = trainer_plan(s->trainer),
                          .model = trainer_plan(s->trainer)->input.model,
                          .device = &s->choice.info,
                          .reserve = memory_share_reserve(&s->choice.info, c->memory.reserve),
                          .sequences_a_step = c->train.batch_size * c->train.accumulation_steps,
                          .sequences = (int64_t)trainer_sequences(s->trainer, TASK_TRAINING),
                          .validation_sequences = (int64_t)trainer_sequences(s->trainer, TASK_VALIDATION),
                          .checkpoints = 1 + (c->checkpoint.every ? (steps - 1) / c->checkpoint.every : 0)};
    o->tokens_a_step = o->sequences_a_step * c->train.seq_len;
    o->tokens = o->tokens_a_step * steps;
    o->steps_an_epoch = (double)o->sequences / (double)o->sequences_a_step;
    o->epochs = (double)steps / o->steps_an_epoch;
    if (o->validation_sequences) { /* each `every` steps, and once at the end */
        int64_t most = c->eval.batches * c->train.batch_size;
        o->evaluations = c->eval.every ? (steps + c->eval.every - 1) / c->eval.every : 1;
        o->eval_sequences = most && most < o->validation_sequences ? most : o->validation_sequences;
    }
    o->checkpoint_bytes =
        (int64_t)o->model->elements * (int64_t)sizeof(float) * (1 + (int64_t)o->plan->input.moments) +
        (int64_t)o->plan->category_bytes[PLAN_FROZEN];
    if (s->corpus.tokenizer && c->sample.every) o->samples = steps / c->sample.every;
    struct memory_wish wish = {.home = s->home,
                               .backend = s->choice.backend,
                               .device = s->choice.device,
                               .reserve = c->memory.reserve};
    int64_t left = memory_share_left(&wish);
    o->headroom = left == INT64_MAX ? -1 : left;
    snprintf(o->on_cpu, sizeof o->on_cpu, "on the CPU: %s", s->choice.why);
    if (*s->choice.why) o->warnings[o->warning_count++] = o->on_cpu;
    int idle = config_warnings(c, o->idle);
    for (int i = 0; i < idle; i++) o->warnings[o->warning_count++] = o->idle[i];
}

/* ---- text ---- */

static void print_model(const struct outlook *o)
{
    const struct config *c = o->config;
    const struct model_config *m = &c->model.sizes;
    int64_t tokens = (int64_t)o->session->corpus.tokens;
    printf("model        %s parameters: %lld layer%s of width %lld, %lld head%s, vocabulary %lld\n",
           TEXT_COUNT(o->model->parameters), (long long)m->num_layers, text_plural(m->num_layers),
           (long long)m->hidden_dim, (long long)m->num_heads, text_plural(m->num_heads),
           (long long)m->vocab_size);
    printf("device       %s, %s, %s\n", o->device->name, precision_name(o->plan->input.precision),
           optimizer_kind_word(c->train.optimizer));
    printf("data         %s token%s; %s sequence%s of %" PRId64 " to train on, %" PRId64
           " to validate on%s\n",
           TEXT_COUNT(tokens), text_plural(tokens), TEXT_COUNT(o->sequences), text_plural(o->sequences),
           c->train.seq_len, o->validation_sequences,
           o->validation_sequences ? "" : ": there will be no evaluations");
    printf("steps        %" PRId64 " of %" PRId64
           " sequence%s (%s token%s): %s token%s, %.2f epochs of %.1f steps\n",
           c->train.total_steps, o->sequences_a_step, text_plural(o->sequences_a_step),
           TEXT_COUNT(o->tokens_a_step), text_plural(o->tokens_a_step), TEXT_COUNT(o->tokens),
           text_plural(o->tokens), o->epochs, o->steps_an_epoch);
}

static void print_memory(const struct outlook *o)
{
    printf("memory       %s planned", TEXT_BYTES(o->plan->total_bytes));
    for (int i = 0; i < PLAN_CATEGORIES; i++)
        if (o->plan->category_bytes[i])
            printf("%s %s %s", i ? "," : ":", plan_category_name((enum plan_category)i),
                   TEXT_BYTES(o->plan->category_bytes[i]));
    printf("\n");
    if (o->headroom >= 0)
        printf("             it fits: %s has %s, %s of them free; beside the plan, %.0f %% kept free and "
               "what others have reserved, %s are left\n",
               o->device->short_name, TEXT_BYTES(o->device->total_bytes),
               TEXT_BYTES(o->device->available_bytes), o->reserve * 100, TEXT_BYTES(o->headroom));
    for (int i = 0; i < o->warning_count; i++) printf("warning      %s\n", o->warnings[i]);
}

/* The learning rate as the workbench would draw it, without colours. */
static enum status print_schedule(const struct outlook *o, struct err *err)
{
    struct series_point points[POINTS];
    struct schedule_moment moments[SCHEDULE_MOMENTS_MAX];
    struct grid grid = {0};
    char row[CHART_W * 4 + 1];
    struct chart chart = {.title = "learning rate",
                          .trace = {{.points = points, .style = STYLE_LR}},
                          .trace_count = 1,
                          .last_step = o->config->train.total_steps - 1,
                          .zero = true,
                          .cursor = -1,
                          .best_step = -1};
    chart.trace[0].count = schedule_points(o->config, points, POINTS);
    enum status status = grid_resize(&grid, CHART_W, CHART_H, err);
    grid.level = glyph_level_detect(nl_langinfo(CODESET), getenv("TERM"));
    if (!status) chart_draw(&grid, (struct rect){0, 0, CHART_W, CHART_H}, &chart);
    for (int y = 0; !status && y < CHART_H; y++) printf("%s\n", grid_row(&grid, y, row, sizeof row));
    grid_release(&grid);
    size_t count = status ? 0 : schedule_moments(o->config, moments);
    for (size_t i = 0; i < count; i++)
        printf("  step %12" PRId64 "   %.3e   %s\n", moments[i].step, moments[i].lr, moments[i].what);
    return status;
}

static void print_outcome(const struct outlook *o)
{
    const struct config *c = o->config;
    if (o->evaluations)
        printf("\nevaluations  %" PRId64 ", each on %" PRId64 " sequence%s", o->evaluations,
               o->eval_sequences, text_plural(o->eval_sequences));
    else
        printf("\nevaluations  none");
    if (o->evaluations && c->eval.early_stopping_patience)
        printf("; it stops early after %" PRId64 " without improvement", c->eval.early_stopping_patience);
    printf("\ncheckpoints  %" PRId64 ", of %s each; the newest %" PRId64 " are kept%s\n", o->checkpoints,
           TEXT_BYTES(o->checkpoint_bytes), c->checkpoint.keep,
           o->evaluations ? ", and the best evaluation's" : "");
    printf("samples      %" PRId64 "\n", o->samples);
}

static enum status print_text(const struct outlook *o, struct err *err)
{
    print_model(o);
    print_memory(o);
    printf("\n");
    enum status status = print_schedule(o, err);
    if (status) return status;
    print_outcome(o);
    parts_print_groups(o->config, o->model);
    printf("\nNothing was trained, and no run was made.\n");
    return STATUS_OK;
}

/* ---- JSON ---- */

static void print_schedule_json(struct json_out *json, const struct outlook *o)
{
    struct schedule_moment moments[SCHEDULE_MOMENTS_MAX];
    size_t count = schedule_moments(o->config, moments);
    json_out_text(json, "schedule", schedule_kind_word(o->config->train.schedule));
    json_out_open(json, "learning_rate", '[', JSON_OUT_LINES);
    for (size_t i = 0; i < count; i++) {
        json_out_open(json, NULL, '{', JSON_OUT_LINES);
        JSON_MEMBERS(json, "step", moments[i].step, "lr", moments[i].lr, "what", moments[i].what);
        json_out_close(json);
    }
    json_out_close(json);
}

static enum status print_json(const struct outlook *o, struct err *err)
{
    struct json_out json;
    command_begin_json(&json, '{');
    JSON_MEMBERS(&json, "parameters", o->model->parameters, "device", o->device->short_name, "precision",
                 precision_name(o->plan->input.precision), "optimizer",
                 optimizer_kind_word(o->config->train.optimizer), "corpus_tokens",
                 (int64_t)o->session->corpus.tokens, "train_sequences", o->sequences, "validation_sequences",
                 o->validation_sequences, "tokens_per_step", o->tokens_a_step);
    JSON_MEMBERS(&json, "total_steps", o->config->train.total_steps, "total_tokens", o->tokens,
                 "steps_per_epoch", o->steps_an_epoch, "epochs", o->epochs);
    json_out_open(&json, "memory", '{', JSON_OUT_LINES);
    json_out_int(&json, "planned_bytes", (int64_t)o->plan->total_bytes);
    parts_print_categories_json(&json, o->plan);
    JSON_MEMBERS(&json, "device_total_bytes", o->device->total_bytes, "device_available_bytes",
                 o->device->available_bytes, "reserve", o->reserve);
    json_out_whole(&json, "headroom_bytes", o->headroom);
    json_out_close(&json);
    print_schedule_json(&json, o);
    JSON_MEMBERS(&json, "evaluations", o->evaluations, "sequences_per_evaluation", o->eval_sequences,
                 "checkpoints", o->checkpoints, "checkpoint_bytes", o->checkpoint_bytes, "samples",
                 o->samples);
    json_out_open(&json, "warnings", '[', JSON_OUT_LINES);
    for (int i = 0; i < o->warning_count; i++) json_out_text(&json, NULL, o->warnings[i]);
    json_out_close(&json);
    parts_print_groups_json(&json, o->config, o->model);
    return command_end_json(&json, err);
}

enum status dry_run_print(const struct training_session *session, void *context, struct err *err)
{
    const bool *json = context;
    struct outlook outlook;
    make_outlook(&outlook, session);
    return *json ? print_json(&outlook, err) : print_text(&outlook, err);
}
