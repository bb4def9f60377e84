/* See dry_run.h. */
#include "tui/command/dry_run.h"

#include <inttypes.h>
#include <jansson.h>
#include <langinfo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/text.h"
#include "tui/command/group_table.h"
#include "tui/command/json_document.h"
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
        (int64_t)o->model->elements * (int64_t)sizeof(float) * (1 + (int64_t)plan->input.moments);
    if (s->corpus.tokenizer && c->sample.every) o->samples = steps / c->sample.every;
    struct memory_wish wish = {.home = s->home,
                               .backend = s->choice.backend,
                               .device = s->choice.device,
                               .reserve = c->memory.reserve};
    int64_t left = memory_share_left(&wish);
    if (left != INT64_MAX) o->headroom = left;
}

/* ---- text ---- */

static char *counted(int64_t count, char *buf, size_t size)
{
    return text_format_count((double)count, buf, size);
}

static char *measured(int64_t bytes, char *buf, size_t size)
{
    return text_format_bytes((uint64_t)bytes, buf, size);
}

static void print_model(const struct outlook *o)
{
    const struct model_config *m = &o->config->model.sizes;
    char text[32];
    printf("model        %s parameters: %lld layer%s of width %lld, %lld head%s, vocabulary %lld\n",
           counted(o->model->parameters, text, sizeof text), (long long)m->num_layers,
           text_plural(m->num_layers), (long long)m->hidden_dim, (long long)m->num_heads,
           text_plural(m->num_heads), (long long)m->vocab_size);
    printf("device       %s, %s, %s\n", o->device->name, precision_name(o->plan->input.precision),
           optimizer_kind_word(o->config->train.optimizer));
}

static void print_data(const struct outlook *o, const struct training_session *s)
{
    char tokens[32], train[32], step[32], all[32];
    const struct config *c = o->config;
    printf("data         %s token%s; %s sequence%s of %" PRId64 " to train on, %" PRId64
           " to validate on%s\n",
           counted((int64_t)s->corpus.file.count, tokens, sizeof tokens),
           text_plural((int64_t)s->corpus.file.count), counted(o->sequences, train, sizeof train),
           text_plural(o->sequences), c->train.seq_len, o->validation_sequences,
           o->validation_sequences ? "" : ": there will be no evaluations");
    printf("steps        %" PRId64 " of %" PRId64
           " sequence%s (%s token%s): %s token%s, %.2f epochs of %.1f steps\n",
           c->train.total_steps, o->sequences_a_step, text_plural(o->sequences_a_step),
           counted(o->tokens_a_step, step, sizeof step), text_plural(o->tokens_a_step),
           counted(o->tokens, all, sizeof all), text_plural(o->tokens), o->epochs, o->steps_an_epoch);
}

static void print_memory(const struct outlook *o)
{
    char planned[32], total[32], available[32], left[32];
    printf("memory       %s planned", measured((int64_t)o->plan->total_bytes, planned, sizeof planned));
    for (int i = 0; i < PLAN_CATEGORIES; i++)
        if (o->plan->category_bytes[i])
            printf("%s %s %s", i ? "," : ":", plan_category_name((enum plan_category)i),
                   text_format_bytes(o->plan->category_bytes[i], total, sizeof total));
    printf("\n");
    if (o->headroom < 0) return;
    printf("             it fits: %s has %s, %s of them free; beside the plan, %.0f %% kept free and what "
           "others have reserved, %s are left\n",
           o->device->short_name, measured(o->device->total_bytes, total, sizeof total),
           measured(o->device->available_bytes, available, sizeof available),
           memory_share_reserve(o->device, o->config->memory.reserve) * 100,
           measured(o->headroom, left, sizeof left));
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
    char bytes[32];
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
           measured(o->checkpoint_bytes, bytes, sizeof bytes), c->checkpoint.keep,
           o->evaluations ? ", and the best evaluation's" : "");
    printf("samples      %" PRId64 "\n", o->samples);
}

static enum status print_text(const struct outlook *o, const struct training_session *s, struct err *err)
{
    print_model(o);
    print_data(o, s);
    print_memory(o);
    if (s->choice.why[0]) printf("warning      on the CPU: %s\n", s->choice.why);
    char idle[CONFIG_WARNINGS_MAX][CONFIG_WARNING_SIZE];
    int idle_count = config_warnings(o->config, idle);
    for (int i = 0; i < idle_count; i++) printf("warning      %s\n", idle[i]);
    printf("\n");
    enum status status = print_chart(o, err);
    if (status) return status;
    print_moments(o);
    printf("\n");
    print_outcome(o);
    group_table_print(o->config, o->model);
    printf("\nNothing was trained, and no run was made.\n");
    return STATUS_OK;
}

/* ---- JSON ---- */

static json_t *bytes_json(int64_t bytes)
{
    return bytes < 0 ? json_null() : json_integer(bytes);
}

static json_t *memory_json(const struct outlook *o)
{
    json_t *categories = json_object();
    for (int i = 0; i < PLAN_CATEGORIES; i++)
        json_object_set_new(categories, plan_category_name((enum plan_category)i),
                            json_integer((json_int_t)o->plan->category_bytes[i]));
    return json_pack("{s:I, s:o, s:I, s:I, s:f, s:o}", "planned_bytes", (json_int_t)o->plan->total_bytes,
                     "categories", categories, "device_total_bytes", (json_int_t)o->device->total_bytes,
                     "device_available_bytes", (json_int_t)o->device->available_bytes, "reserve",
                     memory_share_reserve(o->device, o->config->memory.reserve), "headroom_bytes",
                     bytes_json(o->headroom));
}

static json_t *schedule_json(const struct outlook *o)
{
    struct schedule_moment moments[SCHEDULE_MOMENTS_MAX];
    size_t count = schedule_plan_moments(o->config, moments);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:I, s:f, s:s}", "step", (json_int_t)moments[i].step, "lr",
                                              moments[i].lr, "what", moments[i].what));
    return list;
}

static json_t *warnings_json(const struct outlook *o)
{
    char idle[CONFIG_WARNINGS_MAX][CONFIG_WARNING_SIZE];
    int count = config_warnings(o->config, idle);
    json_t *list = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(list, json_string(idle[i]));
    return list;
}

static json_t *outlook_json(const struct outlook *o, const struct training_session *s)
{
    return json_pack("{s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:o, s:s, s:o, s:I, s:I, "
                     "s:I, s:I, s:I, s:o, s:o}",
                     "parameters", (json_int_t)o->model->parameters, "device", o->device->short_name,
                     "precision", precision_name(o->plan->input.precision), "optimizer",
                     optimizer_kind_word(o->config->train.optimizer), "corpus_tokens",
                     (json_int_t)s->corpus.file.count, "train_sequences", (json_int_t)o->sequences,
                     "validation_sequences", (json_int_t)o->validation_sequences, "tokens_per_step",
                     (json_int_t)o->tokens_a_step, "total_steps", (json_int_t)o->config->train.total_steps,
                     "total_tokens", (json_int_t)o->tokens, "steps_per_epoch", o->steps_an_epoch, "epochs",
                     o->epochs, "memory", memory_json(o), "schedule",
                     schedule_kind_word(o->config->train.schedule), "learning_rate", schedule_json(o),
                     "evaluations", (json_int_t)o->evaluations, "sequences_per_evaluation",
                     (json_int_t)o->eval_sequences, "checkpoints", (json_int_t)o->checkpoints,
                     "checkpoint_bytes", (json_int_t)o->checkpoint_bytes, "samples", (json_int_t)o->samples,
                     "warnings", warnings_json(o), "param_groups", group_table_json(o->config, o->model));
}

enum status dry_run_print(const struct training_session *session, void *context, struct err *err)
{
    const bool *json = context;
    struct outlook outlook;
    enum status status = STATUS_OK;
    make_outlook(&outlook, session);
    if (*json) {
        json_t *value = outlook_json(&outlook, session);
        if (!value || !json_document_print(value))
            status = err_set(err, STATUS_NO_MEMORY, "no memory to print the dry run");
        json_decref(value);
    } else {
        status = print_text(&outlook, session, err);
    }
    if (!status && fflush(stdout) != 0) status = err_set(err, STATUS_IO, "standard output: cannot write");
    return status;
}
