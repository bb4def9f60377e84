/* See dry_run.h. */
#include "tui/command/dry_run.h"

#include <inttypes.h>
#include <langinfo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/text.h"
#include "tui/command/command.h"
#include "tui/command/plan_parts.h"
#include "tui/session/memory_share.h"
#include "tui/session/schedule_plan.h"
#include "tui/widget/chart.h"

enum { CHART_W = 78, CHART_H = 12, POINTS = 512 };

/* The arithmetic of a run that goes to its end. */
struct outlook {
    const struct config *config;
    const struct plan *plan;
    const struct model *model;
    const struct device_info *device;
    int64_t tokens_a_step, sequences_a_step;
    int64_t sequences, validation_sequences;
    double steps_an_epoch, epochs;
    int64_t tokens;
    int64_t evaluations, eval_sequences; /* how many; what each of them reads */
    int64_t checkpoints;                 /* the last one included, those of a best evaluation not */
    int64_t checkpoint_bytes;            /* weights and moments of each */
    int64_t samples;
    int64_t headroom; /* bytes that another run could reserve now beside this one; -1: unknown */
};

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void make_outlook(struct outlook *o, const struct training_session *s)
{
    const struct config *c = &s->config;
    const struct plan *plan = trainer_plan(s->trainer);
    int64_t steps = c->train.total_steps;
    *o = (struct outlook){.config = c,
                          .plan = plan,
                          .model = trainer_model(s->trainer),
                          .device = &s->choice.info,
                          .sequences_a_step = c->train.batch_size * c->train.accumulation_steps,
                          .sequences = (int64_t)trainer_sequences(s->trainer),
                          .validation_sequences = (int64_t)trainer_validation_sequences(s->trainer),
                          .headroom = -1};
    o->tokens_a_step = o->sequences_a_step * c->train.seq_len;
    o->tokens = o->tokens_a_step * steps;
    o->steps_an_epoch = (double)o->sequences / (double)o->sequences_a_step;
    o->epochs = (double)steps / o->steps_an_epoch;
    if (o->validation_sequences) { /* each `every` steps, and once at the end */
        o->evaluations = c->eval.every ? (steps + c->eval.every - 1) / c->eval.every : 1;
        o->eval_sequences = o->validation_sequences;
        if (c->eval.batches)
            o->eval_sequences = lesser(c->eval.batches * c->train.batch_size, o->eval_sequences);
    }
    o->checkpoints = 1 + (c->checkpoint.every ? (steps - 1) / c->checkpoint.every : 0);
    o->checkpoint_bytes =
        (int64_t)o->model->elements * (int64_t)sizeof(float) * (1 + (int64_t)plan->input.moments) +
        (int64_t)plan->category_bytes[PLAN_FROZEN];
    if (s->corpus.tokenizer && c->sample.every) o->samples = steps / c->sample.every;
    struct memory_wish wish = {.home = s->home,
                               .backend = s->choice.backend,
                               .device = s->choice.device,
                               .reserve = c->memory.reserve};
    int64_t left = memory_share_left(&wish);
    if (left != INT64_MAX) o->headroom = left;
}

/* The warnings that training would begin with. */
struct warnings {
    char idle[CONFIG_WARNINGS_MAX][CONFIG_WARNING_SIZE], device[600];
    const char *text[CONFIG_WARNINGS_MAX + 1];
    int count;
};

static void find_warnings(const struct outlook *o, const struct training_session *s, struct warnings *out)
{
    int idle = config_warnings(o->config, out->idle);
    out->count = 0;
    snprintf(out->device, sizeof out->device, "on the CPU: %s", s->choice.why);
    if (*s->choice.why) out->text[out->count++] = out->device;
    for (int i = 0; i < idle; i++) out->text[out->count++] = out->idle[i];
}

/* ---- text ---- */

static void print_model(const struct outlook *o)
{
    const struct model_config *m = &o->config->model.sizes;
    printf("model        %s parameters: %lld layer%s of width %lld, %lld head%s, vocabulary %lld\n",
           TEXT_COUNT(o->model->parameters), (long long)m->num_layers, text_plural(m->num_layers),
           (long long)m->hidden_dim, (long long)m->num_heads, text_plural(m->num_heads),
           (long long)m->vocab_size);
    printf("device       %s, %s, %s\n", o->device->name, precision_name(o->plan->input.precision),
           optimizer_kind_word(o->config->train.optimizer));
}

static void print_data(const struct outlook *o, const struct training_session *s)
{
    const struct config *c = o->config;
    printf("data         %s token%s; %s sequence%s of %" PRId64 " to train on, %" PRId64
           " to validate on%s\n",
           TEXT_COUNT(s->corpus.file.count), text_plural((int64_t)s->corpus.file.count),
           TEXT_COUNT(o->sequences), text_plural(o->sequences), c->train.seq_len, o->validation_sequences,
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
    if (o->headroom < 0) return;
    printf("             it fits: %s has %s, %s of them free; beside the plan, %.0f %% kept free and what "
           "others have reserved, %s are left\n",
           o->device->short_name, TEXT_BYTES(o->device->total_bytes), TEXT_BYTES(o->device->available_bytes),
           memory_share_reserve(o->device, o->config->memory.reserve) * 100, TEXT_BYTES(o->headroom));
}

/* The learning rate as the workbench would draw it, without colours. */
static enum status print_chart(const struct outlook *o, struct err *err)
{
    struct series_point points[POINTS];
    struct grid grid = {0};
    struct canvas canvas = {0};
    char row[CHART_W * 4 + 1];
    struct chart chart = {.title = "learning rate",
                          .trace = {{.points = points, .style = STYLE_LR}},
                          .trace_count = 1,
                          .last_step = o->config->train.total_steps - 1,
                          .zero = true,
                          .cursor = -1,
                          .best_step = -1};
    chart.trace[0].count = schedule_plan_points(o->config, points, POINTS);
    enum status status = grid_resize(&grid, CHART_W, CHART_H, err);
    grid.level = glyph_level_detect(nl_langinfo(CODESET), getenv("TERM"));
    if (!status) status = chart_draw(&grid, (struct rect){0, 0, CHART_W, CHART_H}, &chart, &canvas, err);
    for (int y = 0; !status && y < CHART_H; y++) printf("%s\n", grid_row(&grid, y, row, sizeof row));
    canvas_release(&canvas);
    grid_release(&grid);
    return status;
}

static void print_moments(const struct outlook *o)
{
    struct schedule_moment moments[SCHEDULE_MOMENTS_MAX];
    size_t count = schedule_plan_moments(o->config, moments);
    for (size_t i = 0; i < count; i++)
        printf("  step %12" PRId64 "   %.3e   %s\n", moments[i].step, moments[i].lr, moments[i].what);
}

static void print_outcome(const struct outlook *o)
{
    const struct config *c = o->config;
    if (o->evaluations)
        printf("evaluations  %" PRId64 ", each on %" PRId64 " sequence%s", o->evaluations, o->eval_sequences,
               text_plural(o->eval_sequences));
    else
        printf("evaluations  none");
    if (o->evaluations && c->eval.early_stopping_patience)
        printf("; it stops early after %" PRId64 " without improvement\n", c->eval.early_stopping_patience);
    else
        printf("\n");
    printf("checkpoints  %" PRId64 ", of %s each; the newest %" PRId64 " are kept%s\n", o->checkpoints,
           TEXT_BYTES(o->checkpoint_bytes), c->checkpoint.keep,
           o->evaluations ? ", and the best evaluation's" : "");
    printf("samples      %" PRId64 "\n", o->samples);
}

static enum status print_text(const struct outlook *o, const struct training_session *s, struct err *err)
{
    print_model(o);
    print_data(o, s);
    print_memory(o);
    struct warnings warnings;
    find_warnings(o, s, &warnings);
    for (int i = 0; i < warnings.count; i++) printf("warning      %s\n", warnings.text[i]);
    printf("\n");
    enum status status = print_chart(o, err);
    if (status) return status;
    print_moments(o);
    printf("\n");
    print_outcome(o);
    parts_print_groups(o->config, o->model);
    printf("\nNothing was trained, and no run was made.\n");
    return STATUS_OK;
}

/* ---- JSON ---- */

static void print_memory_json(struct json_out *json, const struct outlook *o)
{
    json_out_open(json, "memory", '{', JSON_OUT_LINES);
    json_out_int(json, "planned_bytes", (int64_t)o->plan->total_bytes);
    parts_print_categories_json(json, o->plan);
    json_out_int(json, "device_total_bytes", o->device->total_bytes);
    json_out_int(json, "device_available_bytes", o->device->available_bytes);
    json_out_real(json, "reserve", memory_share_reserve(o->device, o->config->memory.reserve));
    json_out_whole(json, "headroom_bytes", o->headroom);
    json_out_close(json);
}

static void print_schedule_json(struct json_out *json, const struct outlook *o)
{
    struct schedule_moment moments[SCHEDULE_MOMENTS_MAX];
    size_t count = schedule_plan_moments(o->config, moments);
    json_out_text(json, "schedule", schedule_kind_word(o->config->train.schedule));
    json_out_open(json, "learning_rate", '[', JSON_OUT_LINES);
    for (size_t i = 0; i < count; i++) {
        json_out_open(json, NULL, '{', JSON_OUT_LINES);
        json_out_int(json, "step", moments[i].step);
        json_out_real(json, "lr", moments[i].lr);
        json_out_text(json, "what", moments[i].what);
        json_out_close(json);
    }
    json_out_close(json);
}

static enum status print_json(const struct outlook *o, const struct training_session *s, struct err *err)
{
    struct json_out json;
    struct warnings warnings;
    find_warnings(o, s, &warnings);
    command_begin_json(&json, '{');
    json_out_int(&json, "parameters", o->model->parameters);
    json_out_text(&json, "device", o->device->short_name);
    json_out_text(&json, "precision", precision_name(o->plan->input.precision));
    json_out_text(&json, "optimizer", optimizer_kind_word(o->config->train.optimizer));
    json_out_int(&json, "corpus_tokens", (int64_t)s->corpus.file.count);
    json_out_int(&json, "train_sequences", o->sequences);
    json_out_int(&json, "validation_sequences", o->validation_sequences);
    json_out_int(&json, "tokens_per_step", o->tokens_a_step);
    json_out_int(&json, "total_steps", o->config->train.total_steps);
    json_out_int(&json, "total_tokens", o->tokens);
    json_out_real(&json, "steps_per_epoch", o->steps_an_epoch);
    json_out_real(&json, "epochs", o->epochs);
    print_memory_json(&json, o);
    print_schedule_json(&json, o);
    json_out_int(&json, "evaluations", o->evaluations);
    json_out_int(&json, "sequences_per_evaluation", o->eval_sequences);
    json_out_int(&json, "checkpoints", o->checkpoints);
    json_out_int(&json, "checkpoint_bytes", o->checkpoint_bytes);
    json_out_int(&json, "samples", o->samples);
    json_out_open(&json, "warnings", '[', JSON_OUT_LINES);
    for (int i = 0; i < warnings.count; i++) json_out_text(&json, NULL, warnings.text[i]);
    json_out_close(&json);
    parts_print_groups_json(&json, o->config, o->model);
    return command_end_json(&json, err);
}

enum status dry_run_print(const struct training_session *session, void *context, struct err *err)
{
    const bool *json = context;
    struct outlook outlook;
    make_outlook(&outlook, session);
    return *json ? print_json(&outlook, session, err) : print_text(&outlook, session, err);
}
