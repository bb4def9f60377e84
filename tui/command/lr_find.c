/* anneal lr-find: a short training in which the learning rate rises exponentially, the losses by rate, and
 * the rate that they suggest. The weights are those that `anneal train` would begin with; they live in memory
 * alone. The steps are recorded as a run if it gets a name. */
#include <errno.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "runs/annotation.h"
#include "tui/command/command.h"
#include "tui/command/output.h"
#include "tui/command/progress_bar.h"
#include "tui/session/process.h"
#include "tui/session/ranks.h"
#include "tui/session/training_session.h"
#include "tui/widget/rate_curve.h"

enum { CHART_ROWS = 14 };

struct options {
    const char *device, *output, *name;
    double from, to;
    int64_t steps;
    int progress;
    bool json;
};

static const struct options defaults = {.device = "auto", .from = 1e-6, .to = 1, .steps = RATES_USUAL};

struct search {
    const struct options *options;
    struct progress_bar *bar;
    FILE *csv;     /* where the curve goes as it comes; NULL: nowhere */
    int csv_error; /* errno of the first write that failed; 0: none has */
    struct rate_curve curve;
    bool diverged;
    char run[RUN_ID_MAX]; /* "": none is kept */
};

/* ---- the training ---- */

static void write_point(struct search *search, int k)
{
    const struct rate_curve *curve = &search->curve;
    char numbers[3][40];
    fprintf(search->csv, "%d,%s,%s,%s\n", k, text_format_double(curve->rate[k], numbers[0], 40),
            text_format_double(curve->points[k].mean, numbers[1], 40),
            text_format_double(curve->smooth[k], numbers[2], 40));
    if (fflush(search->csv) != 0 && !search->csv_error) search->csv_error = errno;
}

/* Ends the search where the losses rise again; a step that was queued by then is not part of it. */
static bool note(void *context, const struct step_record *record)
{
    struct search *search = context;
    struct rate_curve *curve = &search->curve;
    char text[64];
    int before = curve->count;
    if (search->diverged) return false;
    search->diverged = !rate_curve_add(curve, record->lr, record->loss);
    if (search->csv && curve->count > before) write_point(search, before);
    snprintf(text, sizeof text, "loss %s  lr %.1e", TEXT_LOSS(record->loss), record->lr);
    progress_bar_update(search->bar, "searching", "steps", (uint64_t)curve->count,
                        (uint64_t)search->options->steps, text);
    return !search->diverged;
}

/* Only what a search needs: no evaluations, samples, checkpoints or profiles. */
static void prepare(struct config *c, const struct options *o)
{
    c->train.schedule = SCHEDULE_RISING;
    c->train.learning_rate = o->to;
    c->train.min_lr_factor = o->from / o->to;
    c->train.total_steps = o->steps;
    c->train.epochs = c->train.time_limit = c->train.ema_decay = 0;
    c->eval.every = c->eval.early_stopping_patience = c->sample.every = c->checkpoint.every = 0;
    c->eval.at_epoch_end = c->eval.early = c->sample.early = c->checkpoint.background = false;
    *c->eval.tasks = *c->eval.metric = '\0';
    c->profile.every = c->profile.trace_step = c->health.plateau_steps = 0;
    c->health.on_nan = ON_NAN_SKIP;
    c->health.on_spike = ON_SPIKE_WARN;
    c->health.loss_spike = 0; /* they are what ends it */
}

/* ---- the result ---- */

static enum status judge(const struct search *search, struct err *err)
{
    const struct options *o = search->options;
    if (!rate_curve_falls(&search->curve))
        return err_set(err, STATUS_FAILED,
                       "the loss does not fall at any rate from %g on (lower --from, or look at the data)",
                       o->from);
    if (!search->diverged && search->curve.count < o->steps)
        return err_set(err, STATUS_FAILED, "the search was stopped before the losses rose again");
    if (search->curve.lowest + 1 == o->steps)
        return err_set(err, STATUS_FAILED, "the loss still falls at the highest rate, %g (raise --to)",
                       o->to);
    return STATUS_OK;
}

static void print_json(struct output *out, const struct search *search)
{
    const struct rate_curve *c = &search->curve;
    const char *run = *search->run ? search->run : NULL;
    OUTPUT_MEMBERS(out, "run", run, "suggestion", rate_curve_suggestion(c), "lowest_rate", c->rate[c->lowest],
                   "lowest_loss", c->smooth[c->lowest], "steepest_rate", c->rate[rate_curve_steepest(c)],
                   "diverged", search->diverged);
    output_list(out, "points", "");
    for (int k = 0; k < c->count; k++) {
        output_item(out);
        OUTPUT_MEMBERS(out, "step", (int64_t)k, "lr", c->rate[k], "loss", c->points[k].mean, "smoothed_loss",
                       c->smooth[k]);
    }
    output_list_end(out);
}

static enum status print_page(struct output *out, const struct search *search, struct err *err)
{
    const struct rate_curve *c = &search->curve;
    struct chart chart = rate_curve_chart(c);
    chart.bare = true;
    output_line(out, "lowest loss", "%s at a rate of %.1e", TEXT_LOSS(c->smooth[c->lowest]),
                c->rate[c->lowest]);
    output_line(out, "steepest fall", "at %.1e", c->rate[rate_curve_steepest(c)]);
    output_line(out, "suggestion",
                "train.learning_rate = %g, the lower of that and a tenth of the rate of the lowest loss",
                rate_curve_suggestion(c));
    enum status status = output_chart(&chart, CHART_ROWS, err);
    if (status) return status;
    printf("\nThe line is the average of the losses. %s%s.\n",
           *search->run ? "The steps are kept as run " : "No run was made", search->run);
    return STATUS_OK;
}

static enum status print(const struct search *search, struct err *err)
{
    struct output out;
    enum status status = STATUS_OK;
    output_begin(&out, search->options->json);
    if (out.json)
        print_json(&out, search);
    else
        status = print_page(&out, search, err);
    return status ? status : output_end(&out, err);
}

/* ---- the command ---- */

static void prepared(void *context)
{
    progress_bar_finish(((struct search *)context)->bar);
}

static void begin(void *context, const struct training_session *session)
{
    struct search *search = context;
    memcpy(search->run, session->id, sizeof search->run);
    progress_bar_say(search->bar, "run %s; watch it with: %s watch %s", session->id, TEXT_PROGRAM,
                     session->id);
}

static enum status train(const struct training_session *session, void *context, struct err *err)
{
    enum train_outcome outcome;
    (void)context;
    return trainer_run(session->trainer, &outcome, err);
}

static enum status search_rates(struct search *search, struct training_options *training, struct err *err)
{
    struct ranks ranks;
    enum status status = ranks_open(&ranks, true, err);
    training->ranks = &ranks;
    if (!status)
        status = training->name ? training_start(training, err) : training_try(training, train, NULL, err);
    ranks_end(&ranks);
    progress_bar_clear(search->bar);
    return !status && interrupt_requested() ? err_set(err, STATUS_INTERRUPTED, "%s", "") : status;
}

static enum status run(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    static struct search search;
    struct file_out file = {0};
    struct progress_bar bar;
    progress_bar_init(&bar, stderr, o->progress);
    struct training_probe probe = {&search, note, "the losses rise again"};
    struct training_options training = {.name = o->name,
                                        .tags = TAG_RATES,
                                        .device = o->device,
                                        .silent = true,
                                        .probe = &probe,
                                        .watcher = training_watcher_silent};
    training.watcher.context = &search;
    training.watcher.progress = &bar.progress;
    training.watcher.prepared = prepared;
    training.watcher.begin = begin;
    if (o->from >= o->to)
        return err_set(err, STATUS_USAGE, "--from %g: must be below --to %g", o->from, o->to);
    bool page = !o->output || strcmp(o->output, "-") != 0;
    if (!page && o->json)
        return err_set(err, STATUS_USAGE,
                       "--json: --output=- writes the curve to standard output (name a file)");
    enum status status = train_read_config(words, &training.config, err);
    if (status) return status;
    prepare(&training.config, o);
    search.options = o;
    search.bar = &bar;
    if (o->output && (status = file_out_replace(&file, o->output, "step,lr,loss,", err))) return status;
    search.csv = file.stream;
    if (search.csv) fputs("step,lr,loss,smoothed_loss\n", search.csv);
    status = search_rates(&search, &training, err);
    if (search.csv) status = file_out_close(&file, status, search.csv_error, err);
    if (!status) status = judge(&search, err);
    return status || !page ? status : print(&search, err);
}

static const struct option_spec options[] = {
    OPTION("from", OPTION_NUMBER, AT(from), "RATE", "the first learning rate (default 1e-6)", .least = 1e-12,
           .most = 1000),
    OPTION("to", OPTION_NUMBER, AT(to), "RATE", "the last one (default 1)", .least = 1e-12, .most = 1000),
    OPTION("steps", OPTION_WHOLE, AT(steps), "N", "steps from one to the other (default 100)", .least = 20,
           .most = RATES_MAX),
    OPTION("device", OPTION_DEVICE, AT(device), DEVICE_WORDS,
           "where to train (default auto: the first GPU that works, else the CPU)"),
    OPTION("output", OPTION_TEXT, AT(output), "FILE",
           "the curve as CSV: step, lr, loss, smoothed_loss; - is standard output", .letter = 'o'),
    OPTION("name", OPTION_TEXT, AT(name), "NAME",
           "keep the steps as a run of this name with the tag " TAG_RATES ", without checkpoints"),
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
        "leaves no run unless --name asks for one.",
    .notes =
        "The suggestion is the lower of two rates: the one at which the average of the losses falls fastest, "
        "and a tenth of the one at which it is lowest. A training of many steps may take a higher one, two "
        "or three times as high. Optimizer, batch and model are those of the configuration: look "
        "again after changing one of them. `anneal show`, `compare`, `export` and the workbench show a run "
        "that is kept like any other; as it has no weights, it cannot be resumed or forked.\n\n"
        "  anneal lr-find my.ini\n"
        "  anneal lr-find my.ini --train.optimizer=muon --from 1e-4 --steps 200\n"
        "  anneal lr-find my.ini -o curve.csv\n"
        "  anneal lr-find my.ini --name rates");
