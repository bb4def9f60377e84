/* `anneal show`: everything about one run, or the profile of its steps, as a page or as one JSON object.
 * Lists are oldest first, as in the CSV. */
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/ini.h"
#include "core/base/text.h"
#include "core/checkpoint/checkpoint.h"
#include "runs/history.h"
#include "runs/memory_usage.h"
#include "runs/profile.h"
#include "runs/run.h"
#include "tui/command/class_scores.h"
#include "tui/command/command.h"
#include "tui/command/output.h"
#include "tui/view/labels.h"

enum { ROWS_SHOWN = 10 /* of a list, on the page */, ID_TIME_LENGTH = 16 /* "20260131-120000-" */ };

/* One run with everything that is shown of it; lists are newest first. */
struct show {
    struct arena arena;
    bool all; /* lists whole */
    struct run_info run;
    char folder[PATH_MAX];
    char *config;             /* INI text, owned */
    struct run_param *params; /* the same, by name */
    size_t param_count;
    struct run_history history;
    bool looked_at;           /* `device` is set */
    struct gpu_record device; /* as last seen */
};

static enum status read_show(struct store *store, const char *word, struct show *s, struct err *err)
{
    const char *id = s->run.id;
    struct arena *arena = &s->arena;
    enum status status = run_find(store, word, &s->run, err);
    if (!status) status = run_params_list(store, id, arena, &s->params, &s->param_count, err);
    if (!status) status = run_config(store, id, &s->config, err);
    if (!status) status = run_history_read(store, id, SIZE_MAX, arena, &s->history, err);
    if (!status) status = gpu_samples_last(store, id, arena, &s->device, &s->looked_at, err);
    if (!status) run_folder(store, id, s->folder, sizeof s->folder);
    return status;
}

/* ---- lists ---- */

struct place {
    bool exists, damaged;
};

/* The present state of a checkpoint. Damaged: by a quick look, or found so and renamed by a resume. */
static struct place place_of(const struct show *s, const struct checkpoint_record *checkpoint)
{
    char path[PATH_MAX], aside[PATH_MAX];
    struct place place = {0};
    if (file_format_path(path, sizeof path, NULL, "%s/%s", s->folder, checkpoint->path) ||
        file_format_path(aside, sizeof aside, NULL, "%s.damaged", path))
        return place;
    place.exists = file_exists(path);
    place.damaged = place.exists ? checkpoint_looks_damaged(path) : file_exists(aside);
    return place;
}

/* Opens a list; returns how many of its `count` rows are shown. */
static size_t open_list(struct output *o, const struct show *s, const char *name, const char *title,
                        size_t count)
{
    char heading[64];
    size_t shown = o->json || s->all || count < ROWS_SHOWN ? count : ROWS_SHOWN;
    snprintf(heading, sizeof heading, shown < count ? "%s (the last %zu of %zu)" : "%s", title, shown, count);
    output_list(o, name, heading);
    return shown;
}

static void show_records(struct output *o, const struct show *s, const char *name, const char *title,
                         enum store_table table, const void *rows, size_t count)
{
    size_t shown = open_list(o, s, name, title, count);
    while (shown-- > 0) {
        output_item(o);
        output_record(o, table, (const char *)rows + shown * store_tables[table].record, NULL);
    }
    output_list_end(o);
}

/* On a page a row is a measure, and a column one of the last evaluations, by its step. */
static void print_measures(struct output *o, const struct run_history *h)
{
    enum { EVALUATIONS = 6 };
    int64_t steps[EVALUATIONS];
    int count = 0;
    char step[32];
    for (size_t i = 0; i < h->measure_count && count < EVALUATIONS; i++)
        if (i == 0 || h->measures[i].step != h->measures[i - 1].step) steps[count++] = h->measures[i].step;
    output_list(o, "measures", "Measures of the last evaluations, by step");
    for (size_t newest = h->measure_count; newest-- > 0;) { /* the first name comes last */
        if (h->measures[newest].step != steps[0]) continue;
        const char *name = h->measures[newest].name;
        output_item(o);
        output_line(o, "measure", "%s", name);
        for (int k = count; k-- > 0;) {
            snprintf(step, sizeof step, "%" PRId64, steps[k]);
            const struct measure_record *found = run_history_find(h, steps[k], name);
            output_real(o, step, found ? found->value : NAN);
        }
    }
    output_list_end(o);
}

/* On a page, the newest value of each measure that the last evaluation lacks, as of a run that was imported.
 */
static void print_older_measures(struct output *o, const struct run_history *h)
{
    struct arena arena = {0};
    const char **seen = NULL;
    size_t count = 0;
    output_list(o, "older_measures", "Newest values of other measures");
    for (size_t i = 0; i < h->measure_count; i++) {
        const struct measure_record *measure = &h->measures[i];
        size_t k = 0;
        while (k < count && strcmp(seen[k], measure->name) != 0) k++;
        if (k < count) continue;
        const char **name = arena_grow(&arena, &seen, count, sizeof *name);
        if (!name) break;
        *name = measure->name;
        count++;
        if (measure->step == h->measures[0].step) continue;
        output_item(o);
        output_line(o, "measure", "%s", measure->name);
        output_line(o, ">step", "%" PRId64, measure->step);
        output_real(o, "value", measure->value);
    }
    output_list_end(o);
    arena_release(&arena);
}

static void show_measures(struct output *o, const struct show *s)
{
    if (!o->json && s->history.measure_count)
        print_measures(o, &s->history), print_older_measures(o, &s->history);
    else
        show_records(o, s, "measures", "", TABLE_MEASURES, s->history.measures, s->history.measure_count);
}

static void show_stopping(struct output *o, const struct show *s)
{
    bool off = !s->history.stopping_count || s->history.stopping[0].record.patience == 0;
    if (off && !o->json) return;
    size_t shown = open_list(o, s, "early_stopping", "Early stopping", s->history.stopping_count);
    while (shown-- > 0) {
        output_item(o);
        output_whole(o, "segment", s->history.stopping[shown].segment);
        output_record(o, TABLE_STOPPING, &s->history.stopping[shown].record,
                      s->history.stopping[shown].record.metric);
    }
    output_list_end(o);
}

static void show_checkpoints(struct output *o, const struct show *s)
{
    size_t shown = open_list(o, s, "checkpoints", "Checkpoints", s->history.checkpoint_count);
    while (shown-- > 0) {
        const struct checkpoint_record *c = &s->history.checkpoints[shown];
        struct place place = place_of(s, c);
        bool best = strcmp(c->kind, "best") == 0 && c->step == s->run.best_step;
        output_item(o);
        output_record(o, TABLE_CHECKPOINTS, c, NULL);
        output_line(o, "state", "%s%s",
                    place.damaged  ? "damaged"
                    : place.exists ? "whole"
                                   : "removed",
                    best ? ", the best" : "");
        if (!o->json) continue;
        json_out_bool(&o->out, "exists", place.exists);
        json_out_bool(&o->out, "damaged", place.damaged);
    }
    output_list_end(o);
}

/* The step of a trace's file, step-N.json or, of a later segment, step-N.2.json; -1: another file. */
static int64_t trace_step(const char *name)
{
    int64_t step;
    int end = 0, later = 0;
    if (sscanf(name, "step-%" SCNd64 "%n.%*d%n", &step, &end, &later) != 1 || step < 0) return -1;
    return strcmp(name + (later ? later : end), ".json") == 0 ? step : -1;
}

static int is_trace(const struct dirent *entry)
{
    return trace_step(entry->d_name) >= 0;
}

/* Lists the present files by their numbers: a trace has no row in the store. */
static void show_traces(struct output *o, const struct show *s)
{
    char path[PATH_MAX + 8], file[sizeof((struct dirent *)0)->d_name + 8];
    struct dirent **traces = NULL;
    snprintf(path, sizeof path, "%s/traces", s->folder);
    int found = scandir(path, &traces, is_trace, versionsort), count = found < 0 ? 0 : found;
    int first = count - (int)open_list(o, s, "traces", "Traces", (size_t)count);
    for (int i = 0; i < count; i++) {
        snprintf(file, sizeof file, "traces/%s", traces[i]->d_name);
        if (i >= first) output_item(o);
        if (i >= first) OUTPUT_MEMBERS(o, "step", trace_step(traces[i]->d_name), "path", file);
        free(traces[i]);
    }
    free(traces);
    output_list_end(o);
}

/* A page shows only the newest: a text of several lines. */
static void show_samples(struct output *o, struct show *s)
{
    if (o->json)
        show_records(o, s, "samples", "", TABLE_SAMPLES, s->history.samples, s->history.sample_count);
    else if (s->history.sample_count)
        printf("\nSample after %" PRId64 " step%s, from \"%s\"\n%s\n", s->history.samples[0].step,
               text_plural(s->history.samples[0].step),
               clean_line_new(&s->arena, s->history.samples[0].prompt),
               clean_block_new(&s->arena, s->history.samples[0].text));
}

/* The slowest first: the others wait for it. */
static void show_ranks(struct output *o, const struct show *s)
{
    const struct run_history *h = &s->history;
    size_t shown = o->json || s->all || h->rank_count < ROWS_SHOWN ? h->rank_count : ROWS_SHOWN;
    char title[64];
    snprintf(title, sizeof title,
             shown < h->rank_count ? "Ranks, the slowest %zu of %zu" : "Ranks, slowest first", shown,
             h->rank_count);
    output_list(o, "ranks", title);
    for (size_t i = 0; i < shown; i++) {
        output_item(o);
        output_record(o, TABLE_RANKS, &h->ranks[i], NULL);
    }
    output_list_end(o);
}

/* ---- the scores of a classifier ---- */

static int class_of(const struct confusion *c, const char *label)
{
    int i = 0;
    while (i < c->classes && strcmp(c->names[i], label) != 0) i++;
    return i;
}

/* Those of the newest evaluation, from its confusion matrix. */
static void show_scores(struct output *o, struct show *s)
{
    const struct run_history *h = &s->history;
    size_t K = h->class_count;
    const char **names = arena_alloc_array(&s->arena, K + 1, sizeof *names);
    struct confusion c = {(int)K, arena_alloc_array(&s->arena, K * K + 1, sizeof *c.counts), names};
    if ((!o->json && !K) || !names || !c.counts) return;
    for (size_t i = 0; i < K; i++) names[i] = h->classes[K - 1 - i].label;
    memset(c.counts, 0, K * K * sizeof *c.counts);
    for (size_t i = 0; i < h->confusion_count; i++) {
        int of = class_of(&c, h->confusion[i].label), given = class_of(&c, h->confusion[i].predicted);
        if (of < c.classes && given < c.classes)
            c.counts[(size_t)of * K + (size_t)given] = h->confusion[i].count;
    }
    class_scores_print(o, &c, K ? h->classes[0].step : -1);
}

/* ---- the rest ---- */

/* Prints the configuration as INI text that can start a new run; the stored text is cut in place. */
static void print_configuration(struct show *s)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (out) ini_print_exact(out, s->config);
    if (text_stream_end(out, &text)) printf("\nConfiguration\n%s", clean_block_new(&s->arena, text));
    free(text);
}

static void show_configuration(struct output *o, struct show *s)
{
    if (o->json)
        run_params_json(&o->out, "config", s->params, s->param_count);
    else if (*s->config)
        print_configuration(s);
}

/* The device as last seen, null: never; processes is null if unknown. */
static void show_device(struct output *o, const struct show *s)
{
    const struct gpu_record *r = &s->device;
    if (!s->looked_at) {
        if (o->json) json_out_text(&o->out, "device_sample", NULL);
        return;
    }
    output_open(o, "device_sample", "Device, as last measured");
    output_record(o, TABLE_GPU, r, NULL);
    if (r->process_count < 0 && o->json) json_out_text(&o->out, "processes", NULL);
    if (r->process_count >= 0) output_list(o, "processes", "Processes that hold its memory");
    for (int64_t i = 0; i < r->process_count; i++) {
        const struct gpu_process *p = &r->processes[i];
        output_item(o);
        OUTPUT_MEMBERS(o, "pid", p->pid, "name", *p->name ? p->name : NULL, "bytes", p->bytes);
    }
    if (r->process_count >= 0) output_list_end(o);
    output_close(o);
}

/* Adds to the run's status whether its trainer lives or has died. */
static void show_trainer(struct output *o, const struct show *s)
{
    const struct run_info *run = &s->run;
    bool whole = false, damaged = false;
    if (status_is_live(run->status))
        output_line(o, "trainer", "%slast sign of life %s ago", run->suspended ? "suspended, " : "",
                    CLOCK_DURATION(clock_wall() - run->heartbeat));
    if (run->status == RUN_EARLY_STOPPED && s->history.stopping_count)
        output_line(o, "continue", "%s resume %s --eval.early_stopping_patience=%" PRId64, TEXT_PROGRAM,
                    run->id, 2 * (int64_t)s->history.stopping[0].record.patience);
    if (run->status != RUN_CRASHED || run_is_partial(run)) return;
    for (size_t i = 0; i < s->history.checkpoint_count; i++) {
        struct place place = place_of(s, &s->history.checkpoints[i]);
        whole = whole || (place.exists && !place.damaged);
        damaged = damaged || place.damaged;
    }
    bool lost = !whole && (damaged || s->history.checkpoint_count);
    output_line(o, "trainer", "ended unexpectedly%s",
                !lost     ? ""
                : damaged ? " (its checkpoints are damaged: start it anew)"
                          : " (its checkpoints are gone: start it anew)");
    if (!lost)
        output_line(o, "continue", "%s resume %s   (from %s)", TEXT_PROGRAM, run->id,
                    whole ? "the last checkpoint" : "the beginning: it has no checkpoint yet");
}

/* A summary of a run, in a reader's order of interest. */
static void show_summary(struct output *o, const struct run_info *run)
{
    size_t before = strlen(run->id) - strlen(run->name); /* the date and the time, or nothing */
    output_line(o, "run", "%s", run->id);
    if (!text_ends_with(run->id, run->name) || (before && before != ID_TIME_LENGTH))
        output_line(o, "name", "%s", run->name);
    output_line(o, "status", "%s%s%s", status_words[run->status], *run->message ? ": " : "", run->message);
    if (*run->tags) output_line(o, "tags", "%s", run->tags);
    if (*run->note) output_line(o, "note", "%s", run->note);
    if (*run->parent_id)
        output_line(o, "forked", "from %s, after %" PRId64 " step%s", run->parent_id, run->parent_step,
                    text_plural(run->parent_step));
    if (*run->device || run->parameters >= 0) /* an import may lack them */
        output_line(o, "device", "%s, %s, %s", *run->device ? run->device : "-",
                    *run->precision ? run->precision : "-", label_parameters(run, (char[80]){0}, 80));
    output_line(o, "steps",
                run->tokens > 0 ? "%" PRId64 " of %" PRId64 ", %s tokens" : "%" PRId64 " of %" PRId64,
                run->steps > 0 ? run->steps : 0, run->total_steps, TEXT_COUNT(run->tokens));
    if (run->loss_recorded) output_line(o, "loss", "%s", TEXT_LOSS(run->final_loss));
    if (*run->best_metric && run->best_step >= 0)
        output_line(o, "best", "%s %s after %" PRId64 " step%s", run->best_metric, TEXT_LOSS(run->best_value),
                    run->best_step, text_plural(run->best_step));
    else if (run->best_step >= 0)
        output_line(o, "lowest", "validation loss %s after %" PRId64 " step%s", TEXT_LOSS(run->best_val_loss),
                    run->best_step, text_plural(run->best_step));
    if (run->tokens_per_sec > 0) output_line(o, "speed", "%s tokens/s", TEXT_COUNT(run->tokens_per_sec));
    output_line(o, "started", "%s", OUTPUT_TIME(run->created_at));
    if (isfinite(run->ended_at))
        output_line(o, "ended", "%s, after %s", OUTPUT_TIME(run->ended_at), CLOCK_DURATION(run->elapsed));
    else
        output_line(o, "elapsed", "%s", CLOCK_DURATION(run->elapsed));
}

static enum status print_show(struct show *s, bool json, struct err *err)
{
    struct output o;
    output_begin(&o, json);
    if (json)
        output_run(&o.out, &s->run);
    else
        show_summary(&o, &s->run);
    show_trainer(&o, s);
    output_text(&o, "folder", s->folder);
    if (json) show_configuration(&o, s);
    show_records(&o, s, "evals", "Evaluations", TABLE_EVALS, s->history.evals, s->history.eval_count);
    show_measures(&o, s);
    show_scores(&o, s);
    show_stopping(&o, s);
    show_checkpoints(&o, s);
    show_traces(&o, s);
    show_ranks(&o, s);
    show_samples(&o, s);
    show_records(&o, s, "orders", "Orders", TABLE_ORDERS, s->history.orders, s->history.order_count);
    show_records(&o, s, "events", "Events", TABLE_EVENTS, s->history.events, s->history.event_count);
    show_device(&o, s);
    if (!json) show_configuration(&o, s);
    return output_end(&o, err);
}

/* ---- the profile ---- */

/* Sums the phase that begins at rows[at] into one row; *end is the row after it. An amount unknown for one
 * operation is unknown for the phase. */
static struct profile_row phase_of(const struct profile *profile, size_t at, size_t *end)
{
    struct profile_row sum = {.phase = profile->rows[at].phase};
    for (; at < profile->count && strcmp(profile->rows[at].phase, sum.phase) == 0; at++) {
        sum.time_us += profile->rows[at].time_us;
        sum.bytes += profile->rows[at].bytes;
        sum.flops += profile->rows[at].flops;
    }
    *end = at;
    return sum;
}

static void show_profile_row(struct output *o, const struct profile *profile, const struct profile_row *row,
                             const char *name, bool layers)
{
    double moved = profile_rate(row->bytes, row->time_us), computed = profile_rate(row->flops, row->time_us),
           share = profile->step_us > 0 ? row->time_us / profile->step_us : NAN;
    char layer[16] = ""; /* a phase has none */
    output_item(o);
    if (o->json) {
        OUTPUT_MEMBERS(o, "phase", row->phase, "layer", row->layer, "op", row->op, "calls", row->calls,
                       "time_us", row->time_us, "share", share, "bytes", row->bytes, "flops", row->flops);
        OUTPUT_MEMBERS(o, "gb_per_sec", moved, "gflops_per_sec", computed);
    }
    if (row->op && row->layer >= 0) snprintf(layer, sizeof layer, "%d", row->layer);
    output_line(o, "", "%s", name);
    if (layers) output_line(o, ">layer", "%s", layer);
    output_line(o, ">calls", "%s", row->op ? TEXT_SHORT(row->calls) : "");
    output_line(o, ">ms", "%.3f", row->time_us / 1e3);
    output_line(o, ">share", "%.1f%%", 100 * share);
    output_line(o, ">GB/s", "%s", moved > 0 ? TEXT_SHORT(moved) : "-");
    output_line(o, ">GFLOP/s", "%s", computed > 0 ? TEXT_SHORT(computed) : "-");
}

/* A page lists each phase with its operations below it, then the step. */
static enum status print_profile(const char *id, const struct profile *profile, bool layers, bool json,
                                 struct err *err)
{
    struct profile_row all = {.time_us = profile->step_us};
    struct output o;
    char name[64];
    size_t end;
    output_begin(&o, json);
    if (json)
        OUTPUT_MEMBERS(&o, "run", id, "steps", profile->steps, "last_step", profile->last_step, "step_ms",
                       profile->step_us / 1e3);
    else
        printf("%s: an average of %" PRId64 " profiled step%s, the newest is step %" PRId64 "\n\n",
               CLEAN_LINE(id), profile->steps, text_plural(profile->steps), profile->last_step);
    output_list(&o, "rows", "");
    for (size_t i = 0; i < profile->count; i = end) {
        struct profile_row sum = phase_of(profile, i, &end);
        if (!isnan(sum.bytes)) all.bytes += sum.bytes;
        if (!isnan(sum.flops)) all.flops += sum.flops;
        if (!json) show_profile_row(&o, profile, &sum, sum.phase, layers);
        for (size_t k = i; k < end; k++) {
            snprintf(name, sizeof name, "  %s", profile->rows[k].op);
            if (json || strcmp(profile->rows[k].op, sum.phase) != 0)
                show_profile_row(&o, profile, &profile->rows[k], name, layers);
        }
    }
    if (!json) show_profile_row(&o, profile, &all, "step", layers);
    output_list_end(&o);
    return output_end(&o, err);
}

struct options {
    bool profile, layers, all, json;
};

static enum status show_profile(struct store *store, const char *word, const struct options *o,
                                struct err *err)
{
    struct run_info run;
    struct profile profile = {0};
    enum status status = run_find(store, word, &run, err);
    if (!status) status = profile_read(store, run.id, o->layers, &profile, err);
    if (!status && profile.count == 0 && !o->json)
        puts("no step has been profiled yet (after profile.warmup_steps, one step in profile.every is "
             "profiled; 0: none)");
    else if (!status)
        status = print_profile(run.id, &profile, o->layers, o->json, err);
    profile_release(&profile);
    return status;
}

static enum status show_run(struct store *store, const char *word, const struct options *o, struct err *err)
{
    struct show show = {.all = o->all};
    enum status status = read_show(store, word, &show, err);
    if (!status) status = print_show(&show, o->json, err);
    free(show.config);
    arena_release(&show.arena);
    return status;
}

static enum status run(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct store *store = NULL;
    if (o->all && o->profile)
        return err_set(err, STATUS_USAGE, "--profile shows all its rows and takes no --all");
    if (o->layers && !o->profile) return err_set(err, STATUS_USAGE, "--layers needs --profile");
    enum status status = store_open(NULL, STORE_READ, &store, err);
    if (!status)
        status = o->profile ? show_profile(store, words->words[0], o, err)
                            : show_run(store, words->words[0], o, err);
    store_close(store);
    return status;
}

static const struct option_spec options[] = {
    OPTION("profile", OPTION_FLAG, AT(profile), NULL,
           "shows instead where the time of a step goes: calls, time, share and rates of each phase and "
           "operation, averaged over the profiled steps (one in profile.every) since the newest resume, at "
           "most 200"),
    OPTION("all", OPTION_FLAG, AT(all), NULL,
           "all rows of each list, such as every verdict of early stopping (default: the last ten)"),
    OPTION("layers", OPTION_FLAG, AT(layers), NULL, "with --profile: each layer by itself"),
    JSON_OPTION,
    {0},
};

const struct command command_show = COMMAND(
    "show", "RUN", 1, 1, options, "show all about one run, or where the time of its steps goes", run,
    (struct options){0},
    .about = "Shows one run: a summary, its device as last measured, evaluations, measures, early stopping, "
             "checkpoints, traces, the newest sample, orders, events, and the complete configuration.",
    .notes = "RUN is an id, the start of one, a name (the newest of that name), or latest.\n\n"
             "  anneal show latest\n"
             "  anneal show latest --profile --layers");
