/* anneal sweep: plans a sweep, trains it, goes on with one, shows its results. tui/session/sweep.h describes
 * how runs are compared, sweep_run.h how they are trained. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/processors.h"
#include "core/base/record.h"
#include "core/base/text.h"
#include "core/model/data_format.h"
#include "datasets/tokenizer.h"
#include "kernels/device/world.h"
#include "runs/alike.h"
#include "runs/comparison.h"
#include "tui/command/command.h"
#include "tui/command/output.h"
#include "tui/command/sweep_axes.h"
#include "tui/command/sweep_probe.h"
#include "tui/command/sweep_run.h"
#include "tui/session/process.h"

struct options {
    const char *name, *resume, *device;
    int64_t samples, seed, factor, ranks, jobs; /* jobs 0: as the device has room */
    bool dry_run, json;
};

static const struct options defaults = {.device = "auto", .seed = 1, .factor = 2};

/* ---- planning ---- */

struct plan_of_sweep {
    struct sweep sweep;
    struct sweep_axes axes;
    char **configs;            /* of each run, as text */
    struct sweep_probe *found; /* of each run */
    struct config first;       /* of run 1 */
};

/* "my" of "configs/my.ini", with -2, -3, … if there is such a sweep. */
static enum status choose_name(struct sweep *sweep, const char *file, struct err *err)
{
    char stem[SWEEP_NAME_MAX - 5], name[SWEEP_NAME_MAX];
    const char *slash = file ? strrchr(file, '/') : NULL, *from = slash ? slash + 1 : file ? file : "sweep";
    text_plain_name(from, strcspn(from, "."), stem, sizeof stem);
    enum status status = sweep_name(sweep, stem, err);
    if (status) status = sweep_name(sweep, strcpy(stem, "sweep"), err);
    for (int i = 2; !status && file_exists(sweep->folder) && i < 1000; i++) {
        snprintf(name, sizeof name, "%s-%d", stem, i);
        status = sweep_name(sweep, name, err);
    }
    return status;
}

/* The configuration of a run: the file, the fixed settings, and its own values. */
static enum status configure(const struct plan_of_sweep *p, const struct words *words, int index,
                             struct config *config, struct err *err)
{
    char texts[SWEEP_KEYS_MAX][CONFIG_TEXT_MAX + 200];
    const char *settings[64 + SWEEP_KEYS_MAX];
    struct words all = {.words = words->words, .count = words->count, .settings = settings};
    for (int i = 0; i < p->axes.fixed_count; i++) settings[all.setting_count++] = p->axes.fixed[i];
    for (int k = 0; k < p->sweep.key_count; k++) {
        snprintf(texts[k], sizeof texts[k], "--%s=%s", p->sweep.keys[k], p->sweep.runs[index].values[k]);
        settings[all.setting_count++] = texts[k];
    }
    return train_read_config(&all, config, err);
}

/* Another run of the same configuration would teach nothing. */
static enum status check_different(const struct plan_of_sweep *p, int index, struct err *err)
{
    char one[400], other[400];
    for (int i = 0; i < index; i++)
        if (strcmp(p->configs[i], p->configs[index]) == 0)
            return err_set(err, STATUS_USAGE, "two runs would be the same: %s, and %s",
                           sweep_run_words(&p->sweep, i, one, sizeof one),
                           sweep_run_words(&p->sweep, index, other, sizeof other));
    return STATUS_OK;
}

/* The key that keeps the results of two runs from being compared; NULL: none does. A loss depends on the
 * tokens, and what is measured on validation text depends on that; the score of a task on neither. */
static const char *find_incomparable(const struct config *a, const struct config *b)
{
    const char *metric = a->eval.metric;
    bool loss = measure_falls(metric), classifies = format_traits(a->data.format)->least_labels > 0,
         same_sources = comparison_same_sources(a->data.train, b->data.train), own = !*a->data.val;
    if (strcmp(metric, b->eval.metric) != 0) return "eval.metric";
    if (!loss && strcmp(a->eval.tasks, b->eval.tasks) != 0) return "eval.tasks";
    if (!loss && !classifies) return NULL;
    if (a->data.format != b->data.format) return "data.format";
    if (strcmp(a->data.val, b->data.val) != 0) return "data.val";
    if (own && a->data.val_fraction != b->data.val_fraction) return "data.val_fraction";
    if (own && a->data.val_split != b->data.val_split) return "data.val_split";
    if (!classifies && strcmp(a->data.tokenizer, b->data.tokenizer) != 0) return "data.tokenizer";
    bool learns = !classifies && tokenizer_learned_size(a->data.tokenizer) > 0; /* from the texts */
    return !same_sources && (own || learns) ? "data.train" : NULL;
}

/* Whether run `index` can be compared with run 1. With several rungs the runs are compared, so it must be;
 * with one, a user may have reasons, and gets a warning. */
static enum status check_comparable(const struct plan_of_sweep *p, const struct config *config, int index,
                                    int rungs, struct err *err)
{
    const char *key = find_incomparable(&p->first, config);
    if (key && rungs > 1)
        return err_set(
            err, STATUS_USAGE,
            "run %d: %s must be the same for all runs, or their results cannot be compared (or --factor 1: "
            "then all train to their end)",
            index + 1, key);
    if (key)
        output_warn("%s differs between run 1 and run %d: their results cannot be compared", key, index + 1);
    else if (p->found[index].evaluated != p->found[0].evaluated)
        output_warn(
            "run %d is evaluated on %s tokens, run 1 on %s: eval.batches counts batches of train.batch_size "
            "sequences (eval.batches = 0 takes all of the text)",
            index + 1, TEXT_NUMBER(p->found[index].evaluated), TEXT_NUMBER(p->found[0].evaluated));
    return STATUS_OK;
}

/* Notes on the texts are for the first run that reads them. */
static bool reads_as_first(const struct plan_of_sweep *p, const struct config *config)
{
    const struct config *first = &p->first;
    return strcmp(config->data.train, first->data.train) == 0 &&
           strcmp(config->data.val, first->data.val) == 0 &&
           strcmp(config->data.tokenizer, first->data.tokenizer) == 0;
}

static enum status plan_run(struct plan_of_sweep *p, const struct words *words, const struct options *o,
                            int index, struct err *err)
{
    struct config config;
    char words_of[400];
    enum status status = configure(p, words, index, &config, err);
    if (!status && o->factor > 1 && config.checkpoint.contents != CONTENTS_FULL)
        status =
            err_set(err, STATUS_USAGE,
                    "checkpoint.contents must be full, so that runs can go on at a rung (or --factor 1)");
    bool notes = !index || !reads_as_first(p, &config);
    if (!status && !index) p->first = config;
    if (!status && !(p->configs[index] = config_text(&config)))
        status = err_no_memory(err, "the configurations");
    if (!status) status = check_different(p, index, err);
    if (!status) status = sweep_probe(&config, o->device, p->sweep.ranks, notes, &p->found[index], err);
    if (status == STATUS_INTERRUPTED) return status;
    if (status)
        return err_prefix(err, "run %d (%s)", index + 1,
                          sweep_run_words(&p->sweep, index, words_of, sizeof words_of));
    int64_t every = p->found[index].evaluated ? config.eval.every : 0;
    int count = sweep_choose_rungs(p->sweep.run_count, p->sweep.factor, every, p->found[index].total_steps,
                                   p->sweep.runs[index].rungs);
    if (index && count != p->sweep.rung_count)
        return err_set(err, STATUS_USAGE,
                       "run %d would have %d rungs, run 1 has %d (give them the same total_steps and "
                       "eval.every, or --factor 1)",
                       index + 1, count, p->sweep.rung_count);
    p->sweep.rung_count = count;
    return check_comparable(p, &config, index, count, err);
}

/* How many runs there is room for: in the device's memory, and on the processors, which a GPU needs, too. */
static int count_jobs(const struct sweep *sweep, const struct sweep_probe *found)
{
    int64_t most = processors_usable() / sweep->ranks / (found->threads > 0 ? found->threads : 1), room = 1;
    if (most < 1) most = 1;
    if (found->planned_bytes > 0) room += found->left_bytes / found->planned_bytes;
    if (room < most) most = room;
    if (sweep->run_count < most) most = sweep->run_count;
    return (int)(most < SWEEP_JOBS_MAX ? most : SWEEP_JOBS_MAX);
}

static enum status plan(struct plan_of_sweep *p, const struct options *o, const struct words *words,
                        struct err *err)
{
    struct sweep *sweep = &p->sweep;
    interrupt_catch();
    enum status status = o->name ? sweep_name(sweep, o->name, err) : choose_name(sweep, words->words[0], err);
    sweep->factor = (int)o->factor;
    sweep->ranks = o->ranks ? (int)o->ranks : 1;
    snprintf(sweep->device, sizeof sweep->device, "%s", o->device);
    if (!status) status = sweep_axes_read(&p->axes, words->settings, words->setting_count, err);
    if (!status) status = sweep_axes_combine(&p->axes, (int)o->samples, o->seed, sweep, err);
    if (status) return status;
    p->configs = arena_alloc_array(&sweep->arena, (size_t)sweep->run_count, sizeof *p->configs);
    p->found = arena_alloc_array(&sweep->arena, (size_t)sweep->run_count, sizeof *p->found);
    if (!p->configs || !p->found) return err_no_memory(err, "the runs of the sweep");
    for (int i = 0; !status && i < sweep->run_count; i++) status = plan_run(p, words, o, i, err);
    if (status) return status;
    struct sweep_probe largest = p->found[0];
    for (int i = 1; i < sweep->run_count; i++)
        if (p->found[i].planned_bytes > largest.planned_bytes) largest = p->found[i];
    sweep->jobs = o->jobs ? (int)o->jobs : count_jobs(sweep, &largest);
    return STATUS_OK;
}

static void release(struct plan_of_sweep *p)
{
    for (int i = 0; p->configs && i < p->sweep.run_count; i++) free(p->configs[i]);
    sweep_axes_release(&p->axes);
    sweep_release(&p->sweep);
}

/* ---- how long it takes ---- */

/* Work in parameters × tokens: of every run up to its last rung, where each rung leaves the share of
 * --factor. */
static double count_work(const struct plan_of_sweep *p)
{
    double work = 0;
    for (int i = 0; i < p->sweep.run_count; i++) {
        const struct sweep_probe *found = &p->found[i];
        double left = p->sweep.run_count, steps = 0;
        for (int r = 0; r < p->sweep.rung_count; r++) {
            int64_t from = r ? p->sweep.runs[i].rungs[r - 1] : 0;
            steps += (double)(p->sweep.runs[i].rungs[r] - from) * left / p->sweep.run_count;
            left = ceil(left / p->sweep.factor);
        }
        work += steps * (double)found->tokens_per_step * (double)found->parameters;
    }
    return work;
}

/* Seconds, from the speed of the recorded run that is most alike; NaN: there is none. */
static double estimate_seconds(const struct plan_of_sweep *p, char like[RUN_ID_MAX])
{
    struct store *store = NULL;
    struct run_info run;
    const struct sweep_probe *found = &p->found[0];
    struct run_info wanted = {.parameters = found->parameters, .frozen_parameters = found->frozen_parameters};
    memcpy(wanted.device, found->device, sizeof found->device);
    memcpy(wanted.precision, found->precision, sizeof found->precision);
    bool known = !store_open(NULL, STORE_UNTOUCHED, &store, NULL) && run_find_alike(store, &wanted, &run);
    store_close(store);
    if (known) memcpy(like, run.id, sizeof run.id);
    return known ? count_work(p) / run.tokens_per_sec / (double)run.parameters : NAN;
}

/* ---- printing ---- */

/* "100, 200, 400 steps", of run 1. */
static char *format_rungs(const struct sweep *sweep, char *buf, size_t size)
{
    *buf = '\0';
    for (int r = 0; r < sweep->rung_count; r++)
        text_add(buf, size, ", ", "%" PRId64, sweep->runs[0].rungs[r]);
    return buf;
}

static void print_values(struct output *out, const struct sweep *sweep, int index)
{
    for (int k = 0; k < sweep->key_count; k++) {
        const char *dot = strrchr(sweep->keys[k], '.');
        const char *value = sweep->runs[index].values[k];
        if (out->json)
            run_param_json(&out->out, sweep->keys[k], value);
        else
            output_line(out, dot ? dot + 1 : sweep->keys[k], "%s", CLEAN_LINE(value));
    }
}

static enum status print_plan(const struct plan_of_sweep *p, bool json, struct err *err)
{
    struct output out;
    const struct sweep *sweep = &p->sweep;
    char rungs[200], like[RUN_ID_MAX] = "";
    double seconds = estimate_seconds(p, like);
    output_begin(&out, json);
    OUTPUT_MEMBERS(&out, "sweep", sweep->name, "device", p->found[0].device, "side_by_side", sweep->jobs);
    if (json)
        OUTPUT_MEMBERS(&out, "factor", sweep->factor, "estimated_seconds", seconds, "estimated_like",
                       isnan(seconds) ? NULL : like);
    if (!json && sweep->rung_count > 1)
        output_line(&out, "rungs", "%s steps; 1 run in %d goes on at each but the last",
                    format_rungs(sweep, rungs, sizeof rungs), sweep->factor);
    else if (!json)
        output_line(&out, "rungs", "none: every run trains to its end");
    if (!json && isfinite(seconds))
        output_line(&out, "time", "about %s, judged by the speed of %s", CLOCK_DURATION(seconds), like);
    else if (!json)
        output_line(&out, "time", "not known: no run of such a size has been recorded on this device");
    output_list(&out, "runs", "");
    for (int i = 0; i < sweep->run_count; i++) {
        output_item(&out);
        output_whole(&out, "run", i + 1);
        print_values(&out, sweep, i);
        OUTPUT_MEMBERS(&out, "steps", sweep->runs[i].rungs[sweep->rung_count - 1], "planned_bytes",
                       p->found[i].planned_bytes);
        if (!json) continue;
        json_out_open(&out.out, "rungs", '[', JSON_OUT_FLAT);
        for (int r = 0; r < sweep->rung_count; r++) json_out_whole(&out.out, NULL, sweep->runs[i].rungs[r]);
        json_out_close(&out.out);
    }
    output_list_end(&out);
    return output_end(&out, err);
}

/* In a word or two, how far the run has come. */
static const char *outcome(const struct sweep *sweep, const struct sweep_run *run, char *buf, size_t size)
{
    if (!run->begun) return sweep_run_missing(sweep, run) ? "missing" : "not begun";
    if (!run->left) return run_status_word(&run->info);
    if (run->info.status == RUN_FAILED || run->info.status == RUN_CRASHED)
        return status_words[run->info.status];
    snprintf(buf, size, "left at %" PRId64, run->rungs[run->rung]);
    return buf;
}

static enum status print_results(const struct sweep *sweep, bool json, struct err *err)
{
    struct output out;
    int order[SWEEP_RUNS_MAX];
    char rungs[200], text[40], title[80];
    snprintf(title, sizeof title, ">%s", sweep_measure_words(sweep));
    output_begin(&out, json);
    output_text(&out, "sweep", sweep->name);
    if (json)
        output_whole(&out, "factor", sweep->factor);
    else if (sweep->rung_count > 1)
        output_line(&out, "rungs", "%s steps", format_rungs(sweep, rungs, sizeof rungs));
    sweep_sort(sweep, order);
    output_list(&out, "runs", "");
    for (int i = 0; i < sweep->run_count; i++) {
        const struct sweep_run *run = &sweep->runs[order[i]];
        const char *how = outcome(sweep, run, text, sizeof text);
        double value = run->begun ? run->newest : NAN;
        output_item(&out);
        output_whole(&out, "run", order[i] + 1);
        print_values(&out, sweep, order[i]);
        output_whole(&out, "steps", run->begun && run->info.steps > 0 ? run->info.steps : 0);
        if (json)
            output_real(&out, sweep->measure, value);
        else
            output_line(&out, title, "%s", isnan(value) ? "-" : TEXT_LOSS(value));
        OUTPUT_MEMBERS(&out, "outcome", how, "id", run->begun ? run->info.id : NULL);
    }
    output_list_end(&out);
    return output_end(&out, err);
}

/* ---- the command ---- */

/* A missing run is not waited for: the others are judged as far as they have come. */
static enum status look(struct sweep *sweep, struct store *store, struct err *err)
{
    enum status status = sweep_look(sweep, store, err);
    for (int i = 0; !status && i < sweep->run_count; i++)
        sweep->runs[i].given_up |= sweep_run_missing(sweep, &sweep->runs[i]);
    if (!status) sweep_judge(sweep);
    return status;
}

static enum status show(const char *name, bool json, struct err *err)
{
    struct sweep sweep;
    struct store *store = NULL;
    enum status status = sweep_read(&sweep, name, err);
    if (!status) status = store_open(NULL, STORE_READ, &store, err);
    if (!status) status = look(&sweep, store, err);
    if (!status) status = print_results(&sweep, json, err);
    store_close(store);
    sweep_release(&sweep);
    return status;
}

static enum status list(bool json, struct err *err)
{
    struct arena arena = {0};
    struct output out;
    const char **names;
    size_t count;
    enum status status = sweep_list(&arena, &names, &count, err);
    if (!status && !count && !json) output_say("there are no sweeps yet");
    output_begin(&out, json);
    output_list(&out, "sweeps", "");
    for (size_t i = 0; !status && i < count; i++) {
        struct sweep sweep;
        char keys[400] = "";
        bool whole = !sweep_read(&sweep, names[i], NULL); /* else `sweep show NAME` says what is wrong */
        for (int k = 0; whole && k < sweep.key_count; k++)
            text_add(keys, sizeof keys, ", ", "%s", sweep.keys[k]);
        if (whole) {
            output_item(&out);
            OUTPUT_MEMBERS(&out, "sweep", names[i], "runs", sweep.run_count, "keys", keys);
        }
        sweep_release(&sweep);
    }
    output_list_end(&out);
    if (!status) status = output_end(&out, err);
    arena_release(&arena);
    return status;
}

/* Trains what is left of a sweep, which has a folder, and prints the results. */
static enum status carry_on(struct sweep *sweep, bool json, struct err *err)
{
    struct store *store = NULL;
    int lock;
    interrupt_catch();
    interrupt_catch_preemption();
    enum status status = sweep_lock(sweep, &lock, err);
    if (status) return status;
    status = store_open(NULL, STORE_WRITE, &store, err);
    if (!status) status = sweep_train(sweep, store, err);
    if (!status && !interrupt_requested()) status = look(sweep, store, err);
    if (!status && !interrupt_requested()) status = print_results(sweep, json, err);
    store_close(store);
    close(lock);
    return status;
}

static enum status resume(const struct options *o, struct err *err)
{
    struct sweep sweep;
    enum status status = sweep_read(&sweep, o->resume, err);
    if (o->jobs) sweep.jobs = (int)o->jobs;
    if (!status) status = carry_on(&sweep, o->json, err);
    sweep_release(&sweep);
    return status;
}

static enum status start(const struct options *o, const struct words *words, struct err *err)
{
    struct plan_of_sweep p = {0};
    char rungs[200];
    enum status status = plan(&p, o, words, err);
    if (!status && o->dry_run) {
        status = print_plan(&p, o->json, err);
    } else if (!status) {
        status = sweep_write(&p.sweep, p.configs, err);
        if (!status)
            fprintf(stderr,
                    "sweep %s: %d runs, %d side by side; rungs at %s steps; continue it with: %s sweep "
                    "--resume %s\n",
                    p.sweep.name, p.sweep.run_count, p.sweep.jobs,
                    format_rungs(&p.sweep, rungs, sizeof rungs), TEXT_PROGRAM, p.sweep.name);
        if (!status) status = carry_on(&p.sweep, o->json, err);
    }
    release(&p);
    return status;
}

static enum status run(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    bool shows = words->count > 0 && strcmp(words->words[0], "show") == 0;
    if (words->count > 1 && !shows) return err_set(err, STATUS_USAGE, "one CONFIG.ini, not %d", words->count);
    bool stated = words->setting_count || o->dry_run || o->name || o->samples || o->ranks ||
                  o->seed != defaults.seed || o->factor != defaults.factor ||
                  strcmp(o->device, defaults.device) != 0;
    if ((shows || o->resume) && stated)
        return err_set(err, STATUS_USAGE, "%s takes no settings: a sweep is stated before its start",
                       shows ? "show" : "--resume");
    if (shows && (o->jobs || o->resume))
        return err_set(err, STATUS_USAGE, "show trains nothing: it takes no --%s",
                       o->jobs ? "jobs" : "resume");
    if (shows && words->count > 1) return show(words->words[1], o->json, err);
    if (shows) return list(o->json, err);
    if (o->seed != defaults.seed && !o->samples)
        return err_set(err, STATUS_USAGE, "--seed is that of --samples N (the runs' own is --train.seed)");
    if (o->resume && words->count) return err_set(err, STATUS_USAGE, "--resume takes no CONFIG.ini");
    return o->resume ? resume(o, err) : start(o, words, err);
}

static const struct option_spec options[] = {
    OPTION("name", OPTION_TEXT, AT(name), "NAME",
           "name of the sweep (default: that of the file): letters of any script, digits, _ and hyphens, at "
           "most 31 bytes"),
    OPTION("samples", OPTION_WHOLE, AT(samples), "N",
           "trains N combinations drawn at random, instead of all. A range, 1e-5..1e-2, is drawn from evenly "
           "in its logarithm, or evenly if it begins at 0 or below",
           .least = 1, .most = SWEEP_RUNS_MAX),
    OPTION("seed", OPTION_WHOLE, AT(seed), "N", "draws other samples (default 1)", .most = 1e15),
    OPTION("factor", OPTION_WHOLE, AT(factor), "N",
           "at each rung, the best of N runs goes on (default 2); 1: all runs train to their end", .least = 1,
           .most = SWEEP_RUNS_MAX),
    OPTION("ranks", OPTION_WHOLE, AT(ranks), "N", "trains each run in N processes, as `anneal train --ranks`",
           .least = 1, .most = WORLD_RANKS_MAX),
    OPTION("jobs", OPTION_WHOLE, AT(jobs), "N",
           "trains N runs side by side (default: as many as memory and processors have room for)", .least = 1,
           .most = SWEEP_JOBS_MAX),
    OPTION("device", OPTION_DEVICE, AT(device), DEVICE_WORDS, "where to train (default auto)"),
    OPTION("dry-run", OPTION_FLAG, AT(dry_run), NULL,
           "checks and lists the runs, with rungs, memory and an estimate of time, and trains none"),
    OPTION("resume", OPTION_TEXT, AT(resume), "SWEEP", "goes on with a sweep that was interrupted"),
    JSON_OPTION,
    {0},
};

const struct command command_sweep = COMMAND(
    "sweep", "CONFIG.ini|show [SWEEP]", 0, 2, options,
    "train runs that differ in some keys, and compare them", run, defaults, .settings = true,
    .about =
        "Trains a run for every combination of the values that are given with commas between. Hopeless ones "
        "are stopped early, by successive halving: all runs train up to the first rung, a number of steps; "
        "the better half, by the validation loss or eval.metric, goes on to the next one, and so on. The "
        "rungs are stated before the start. Every run keeps the learning-rate schedule of its full length, "
        "and at a rung it is saved and resumed, so its losses are those of a run that was never stopped.\n"
        "`anneal sweep show SWEEP` prints the results, the best first; `anneal sweep show` lists the sweeps. "
        "The runs have the tag sweep:SWEEP.",
    .notes = "  anneal sweep my.ini --train.learning_rate=1e-4,3e-4,1e-3 --train.optimizer=adamw,lion\n"
             "  anneal sweep my.ini --train.learning_rate=1e-5..1e-2 --samples 8 --dry-run\n"
             "  anneal sweep --resume my\n"
             "  anneal runs --filter tag=sweep:my --sort best\n\n"
             "A backslash before a comma makes it part of a value: --lora.targets='q\\,v,q\\,k\\,v'.\n"
             "Runs side by side share the processors. Each reserves its memory first and waits while there "
             "is none. Ctrl-C saves all runs and stops; after that, or after a crash, --resume continues.");
