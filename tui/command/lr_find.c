/* anneal lr-find: a short training in which the learning rate rises exponentially, the losses by rate, and
 * the rate that they suggest (Smith, "Cyclical Learning Rates for Training Neural Networks", 2017). The
 * weights are those that `anneal train` would begin with; they live in memory alone, and no run is recorded.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "tui/command/command.h"
#include "tui/command/output.h"
#include "tui/command/progress_bar.h"
#include "tui/session/process.h"
#include "tui/session/ranks.h"
#include "tui/session/training_session.h"

/* WARMING: the first steps are not judged, since the average of so few losses is noise. */
enum { STEPS_MOST = 10000, WARMING = 5, CHART_ROWS = 14, RATES_SHOWN = 5 };

/* The weight of the losses before in the average that is judged. */
static const double DECAY = 0.9;

struct options {
    const char *device, *output;
    double from, to;
    int64_t steps;
    int progress;
    bool json;
};

static const struct options defaults = {.device = "auto", .from = 1e-6, .to = 1, .steps = 100};

struct search {
    const struct options *options;
    struct progress_bar *bar;
    struct point {
        double rate, loss, smooth;
    } points[STEPS_MOST];
    int count;
    double sum; /* Σ DECAY^(steps ago) · (1 − DECAY) · loss */
    int lowest, steepest;
    bool diverged;
};

/* ---- the training ---- */

/* Reached at the last step: training runs at --to and at fractions of it. */
static double factor(void *context, int64_t step)
{
    const struct search *search = context;
    const struct options *o = search->options;
    if (step >= o->steps || search->diverged) return -1;
    return pow(o->from / o->to, 1 - (double)step / (double)(o->steps - 1));
}

/* Ends the search where the average is back above where it began, or a loss is no number. */
static void note(void *context, const struct step_record *record)
{
    struct search *search = context;
    int k = search->count;
    char text[64];
    search->diverged = search->diverged || !isfinite(record->loss);
    if (search->diverged || k == STEPS_MOST) return;
    search->sum = DECAY * search->sum + (1 - DECAY) * record->loss;
    double smooth = search->sum / (1 - pow(DECAY, k + 1));
    search->points[search->count++] = (struct point){record->lr, record->loss, smooth};
    if (smooth < search->points[search->lowest].smooth || k <= WARMING) search->lowest = k;
    search->diverged = smooth > 1.2 * search->points[0].smooth;
    snprintf(text, sizeof text, "loss %s  lr %.1e", TEXT_LOSS(record->loss), record->lr);
    progress_bar_update(search->bar, "searching", "steps", (uint64_t)search->count,
                        (uint64_t)search->options->steps, text);
}

/* Only what a search needs: no evaluations, samples, checkpoints or profiles. */
static void prepare(struct config *c, const struct options *o)
{
    c->train.schedule = SCHEDULE_CONSTANT;
    c->train.learning_rate = o->to;
    c->train.total_steps = o->steps + 1; /* the end of a run would be evaluated */
    c->train.epochs = c->train.time_limit = c->train.ema_decay = 0;
    c->train.async = false; /* each step's rate is set when the one before is known */
    c->eval.every = c->eval.early_stopping_patience = c->sample.every = c->checkpoint.every = 0;
    c->eval.at_epoch_end = c->eval.early = c->sample.early = c->checkpoint.background = false;
    *c->eval.tasks = *c->eval.metric = '\0';
    c->profile.every = c->profile.trace_step = c->health.plateau_steps = 0;
    c->health.on_nan = ON_NAN_SKIP;
    c->health.on_spike = ON_SPIKE_WARN;
}

/* ---- the result ---- */

/* Where the average falls fastest by the logarithm of the rate, up to its lowest value. */
static void find_steepest(struct search *search)
{
    double steepest = 0;
    for (int k = WARMING; k + 1 <= search->lowest; k++) {
        double slope = search->points[k + 1].smooth - search->points[k - 1].smooth;
        if (slope < steepest) steepest = slope, search->steepest = k;
    }
}

static enum status judge(struct search *search, struct err *err)
{
    const struct options *o = search->options;
    if (search->count <= 2 * WARMING || search->lowest <= WARMING)
        return err_set(err, STATUS_FAILED,
                       "the loss does not fall at any rate from %g on (lower --from, or look at the data)",
                       o->from);
    if (search->lowest + 1 == o->steps)
        return err_set(err, STATUS_FAILED, "the loss still falls at the highest rate, %g (raise --to)",
                       o->to);
    find_steepest(search);
    return STATUS_OK;
}

static enum status print_chart(const struct search *search, struct err *err)
{
    static struct series_point points[STEPS_MOST];
    static double smooth[STEPS_MOST];
    struct rect plot = chart_plot((struct rect){0, 0, OUTPUT_CHART_W, CHART_ROWS});
    char axis[OUTPUT_CHART_W + 32];
    int last = search->count - 1, end = 0;
    for (int k = 0; k < search->count; k++) {
        double loss = search->points[k].loss;
        points[k] = (struct series_point){.first_step = k,
                                          .last_step = k,
                                          .min = loss,
                                          .max = loss,
                                          .mean = loss,
                                          .last = loss,
                                          .count = 1};
        smooth[k] = search->points[k].smooth;
    }
    struct chart chart = {
        .title = "loss by learning rate",
        .trace = {{.points = points, .smooth = smooth, .count = (size_t)search->count, .style = STYLE_TRAIN}},
        .trace_count = 1,
        .bare = true,
        .last_step = last,
        .cursor = -1,
        .best_step = search->lowest,
        .best = smooth[search->lowest]};
    for (int i = 0; i < RATES_SHOWN; i++) {
        char rate[32];
        snprintf(rate, sizeof rate, "%.0e", search->points[last * i / (RATES_SHOWN - 1)].rate);
        int x = plot.x + (plot.w - (int)strlen(rate)) * i / (RATES_SHOWN - 1);
        end += snprintf(axis + end, sizeof axis - (size_t)end, "%*s%s", x - end, "", rate);
    }
    return output_chart(&chart, CHART_ROWS, axis, err);
}

static enum status print(const struct search *search, struct err *err)
{
    struct output out;
    enum status status = STATUS_OK;
    const struct point *lowest = &search->points[search->lowest],
                       *steepest = &search->points[search->steepest];
    char rounded[32];
    snprintf(rounded, sizeof rounded, "%.1e", lowest->rate / 10);
    double suggestion = strtod(rounded, NULL);
    output_begin(&out, search->options->json);
    if (out.json) {
        OUTPUT_MEMBERS(&out, "suggestion", suggestion, "lowest_rate", lowest->rate, "lowest_loss",
                       lowest->smooth, "steepest_rate", steepest->rate, "diverged", search->diverged);
        output_list(&out, "points", "");
        for (int k = 0; k < search->count; k++) {
            const struct point *p = &search->points[k];
            output_item(&out);
            OUTPUT_MEMBERS(&out, "step", (int64_t)k, "lr", p->rate, "loss", p->loss, "smoothed_loss",
                           p->smooth);
        }
        output_list_end(&out);
        return output_end(&out, err);
    }
    output_line(&out, "lowest loss", "%s at a rate of %.1e", TEXT_LOSS(lowest->smooth), lowest->rate);
    output_line(&out, "steepest fall", "at %.1e", steepest->rate);
    output_line(&out, "suggestion", "train.learning_rate = %g, a tenth of the rate of the lowest loss",
                suggestion);
    status = print_chart(search, err);
    if (!status) puts("\nThe line is the average of the losses. No run was made.");
    return status ? status : output_end(&out, err);
}

static enum status write_csv(const struct search *search, const char *path, struct err *err)
{
    struct file_out file;
    char numbers[3][40];
    enum status status = file_out_open(&file, path, err);
    if (status) return status;
    fprintf(file.stream, "step,lr,loss,smoothed_loss\n");
    for (int k = 0; k < search->count; k++) {
        const struct point *p = &search->points[k];
        fprintf(file.stream, "%d,%s,%s,%s\n", k, text_format_double(p->rate, numbers[0], 40),
                text_format_double(p->loss, numbers[1], 40), text_format_double(p->smooth, numbers[2], 40));
    }
    return file_out_close(&file, STATUS_OK, 0, err);
}

/* ---- the command ---- */

static void prepared(void *context)
{
    progress_bar_finish(context);
}

static enum status search_rates(const struct training_session *session, void *context, struct err *err)
{
    enum train_outcome outcome;
    struct search *search = context;
    enum status status = trainer_run(session->trainer, &outcome, err);
    progress_bar_clear(search->bar);
    return !status && interrupt_requested() ? err_set(err, STATUS_INTERRUPTED, "%s", "") : status;
}

static enum status run(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    static struct search search;
    struct ranks ranks;
    struct progress_bar bar;
    struct progress progress = progress_bar_init(&bar, stderr, (enum progress_style)o->progress);
    struct training_probe probe = {&search, factor, note};
    struct training_options training = {
        .device = o->device,
        .ranks = &ranks,
        .silent = true,
        .probe = &probe,
        .watcher = {.context = &bar, .progress = &progress, .prepared = prepared}};
    if (o->from >= o->to)
        return err_set(err, STATUS_USAGE, "--from %g: must be below --to %g", o->from, o->to);
    bool page = !o->output || strcmp(o->output, "-") != 0;
    if (!page && o->json)
        return err_set(err, STATUS_USAGE,
                       "--json: --output=- writes the curve to standard output (name a file)");
    enum status status = train_read_config(words, &training.config, err);
    if (status) return status;
    prepare(&training.config, o);
    search = (struct search){.options = o, .bar = &bar};
    status = ranks_open(&ranks, true, err);
    if (!status) status = training_try(&training, search_rates, &search, err);
    ranks_end(&ranks);
    if (!status && o->output) status = write_csv(&search, o->output, err);
    if (!status) status = judge(&search, err);
    return status || !page ? status : print(&search, err);
}

static const struct option_spec options[] = {
    OPTION("from", OPTION_NUMBER, AT(from), "RATE", "the first learning rate (default 1e-6)", .least = 1e-12,
           .most = 1000),
    OPTION("to", OPTION_NUMBER, AT(to), "RATE", "the last one (default 1)", .least = 1e-12, .most = 1000),
    OPTION("steps", OPTION_WHOLE, AT(steps), "N", "steps from one to the other (default 100)", .least = 20,
           .most = STEPS_MOST),
    OPTION("device", OPTION_DEVICE, AT(device), DEVICE_WORDS,
           "where to train (default auto: the first GPU that works, else the CPU)"),
    OPTION("output", OPTION_TEXT, AT(output), "FILE",
           "the curve as CSV: step, lr, loss, smoothed_loss; - is standard output", .letter = 'o'),
    PROGRESS_OPTION,
    JSON_OPTION,
    {0},
};

const struct command command_lr_find = COMMAND(
    "lr-find", "CONFIG.ini", 0, 1, options, "find a learning rate with a short training", run, defaults,
    .settings = true,
    .about =
        "Trains a few steps with a learning rate that rises exponentially, and shows the losses by rate. It "
        "begins with the weights that `anneal train` begins with, ends where the losses rise again, and "
        "leaves no run.",
    .notes =
        "The suggestion is a tenth of the rate at which the average of the losses is lowest; the rate where "
        "it falls fastest is given, too. Optimizer, batch and model are those of the configuration: look "
        "again after changing one of them.\n\n"
        "  anneal lr-find my.ini\n"
        "  anneal lr-find my.ini --train.optimizer=muon --from 1e-4 --steps 200\n"
        "  anneal lr-find my.ini -o curve.csv");
