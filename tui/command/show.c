/* `anneal show`: all about one run, on one page or as one JSON object (show_json.c); or its profile. */
#include "tui/command/show.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clean.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/checkpoint/checkpoint.h"
#include "runs/gpu_samples.h"
#include "tui/command/command.h"
#include "tui/command/show_profile.h"
#include "tui/view/labels.h"

/* The step of a trace's file; -1: it is none. */
static int64_t trace_step(const char *name)
{
    int64_t step;
    int end = 0, later = 0;
    bool read = sscanf(name, "step-%" SCNd64 ".json%n", &step, &end) == 1 && end && !name[end];
    if (!read)
        read = sscanf(name, "step-%" SCNd64 ".%*d.json%n", &step, &later) == 1 && later && !name[later];
    return read && step >= 0 && strlen(name) < sizeof((struct show_trace *)0)->name ? step : -1;
}

static int latest_first(const void *a, const void *b)
{
    const struct show_trace *left = a, *right = b;
    int by_step = (left->step < right->step) - (left->step > right->step);
    return by_step ? by_step : strcmp(left->name, right->name);
}

/* Lists the files that are there now: a trace has no row in the store. */
static enum status read_traces(struct show *s, struct err *err)
{
    char path[PATH_MAX + 8];
    size_t room = 0;
    snprintf(path, sizeof path, "%s/traces", s->folder);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        int64_t step = trace_step(entry->d_name);
        if (step < 0) continue;
        if (s->trace_count == room) {
            struct show_trace *grown =
                arena_alloc_array(&s->arena, room = room ? 2 * room : 16, sizeof *grown);
            if (grown && s->traces) memcpy(grown, s->traces, s->trace_count * sizeof *grown);
            s->traces = grown;
        }
        if (!s->traces) break;
        struct show_trace *trace = &s->traces[s->trace_count++];
        trace->step = step;
        snprintf(trace->name, sizeof trace->name, "%s", entry->d_name);
    }
    if (folder) closedir(folder);
    if (room && !s->traces) return err_set(err, STATUS_NO_MEMORY, "no memory for the list of traces");
    if (s->trace_count) qsort(s->traces, s->trace_count, sizeof *s->traces, latest_first);
    return STATUS_OK;
}

static struct show_place place_of(const char *folder, const char *checkpoint)
{
    char path[PATH_MAX], aside[PATH_MAX];
    struct show_place place = {0};
    if (file_format_path(path, sizeof path, NULL, "%s/%s", folder, checkpoint) ||
        file_format_path(aside, sizeof aside, NULL, "%s.damaged", path))
        return place;
    place.exists = file_exists(path);
    place.damaged = place.exists ? checkpoint_looks_damaged(path) : file_exists(aside);
    return place;
}

static enum status look_at_checkpoints(struct show *s, struct err *err)
{
    s->places = arena_alloc_array(&s->arena, s->checkpoint_count, sizeof *s->places);
    if (s->checkpoint_count && !s->places)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the list of checkpoints");
    for (size_t i = 0; i < s->checkpoint_count; i++)
        s->places[i] = place_of(s->folder, s->checkpoints[i].path);
    return STATUS_OK;
}

/* Reads the run that `word` means. Release `out` in any case. */
static enum status read_show(struct store *store, const char *word, struct show *out, struct err *err)
{
    struct show *s = out;
    arena_init(&s->arena, 65536);
    enum status status = run_find(store, word, &s->run, err);
    const char *id = s->run.id;
    if (!status) status = run_config(store, id, &s->config, err);
    if (!status) status = series_evals(store, id, SIZE_MAX, &s->arena, &s->evals, &s->eval_count, err);
    if (!status)
        status = series_stopping(store, id, SIZE_MAX, &s->arena, &s->stopping, &s->stopping_count, err);
    if (!status)
        status =
            series_checkpoints(store, id, SIZE_MAX, &s->arena, &s->checkpoints, &s->checkpoint_count, err);
    if (!status) status = series_samples(store, id, SIZE_MAX, &s->arena, &s->samples, &s->sample_count, err);
    if (!status) status = order_list(store, id, SIZE_MAX, &s->arena, &s->orders, &s->order_count, err);
    if (!status) status = series_events(store, id, SIZE_MAX, &s->arena, &s->events, &s->event_count, err);
    if (!status) status = gpu_samples_last(store, id, &s->arena, &s->device, &s->looked_at, err);
    if (status) return status;
    run_folder(store, id, s->folder, sizeof s->folder);
    status = look_at_checkpoints(s, err);
    return status ? status : read_traces(s, err);
}

static void release_show(struct show *show)
{
    free(show->config);
    arena_release(&show->arena);
    *show = (struct show){0};
}

/* ---- the page: every recorded text passes through line() or clean_block_new() ---- */

static const char *line(struct show *show, const char *text)
{
    return clean_line_new(&show->arena, text);
}

static const char *format_time(double when, char *buf, size_t size)
{
    time_t seconds = (time_t)when;
    struct tm local;
    if (!isfinite(when) || !localtime_r(&seconds, &local) ||
        !strftime(buf, size, "%Y-%m-%d %H:%M:%S", &local))
        snprintf(buf, size, "-");
    return buf;
}

/* "last seen   2026-01-31 12:00:00: 97 % busy, 312 W, 64 C, 1980 MHz, host load 3.2, clocks low: power cap"
 */
static void print_device(struct show *show)
{
    const struct gpu_record *device = &show->device;
    char state[96], when[48];
    if (!show->looked_at) return;
    printf("  last seen   %s: %s", format_time(device->wall_time, when, sizeof when),
           *label_device(device, state, sizeof state) ? state : "the device reports nothing");
    if (!isnan(device->load_1m)) printf(", host load %.1f", device->load_1m);
    if (*device->throttle) printf(", clocks low: %s", line(show, device->throttle));
    putchar('\n');
}

/* Of a run that died. */
static const char *what_a_resume_does(const struct show *show)
{
    bool whole = false, damaged = false;
    for (size_t i = 0; i < show->checkpoint_count; i++) {
        const struct show_place *place = &show->places[i];
        whole = whole || (place->exists && !place->damaged);
        damaged = damaged || place->damaged;
    }
    return whole                    ? "anneal resume goes on from the last checkpoint"
           : damaged                ? "its checkpoints are damaged: train it again"
           : show->checkpoint_count ? "its checkpoints are no longer there: train it again"
                                    : "anneal resume begins again: it has no checkpoint yet";
}

static void print_identity(struct show *show)
{
    const struct run_info *run = &show->run;
    char a[48];
    printf("%s\n", line(show, run->id));
    printf("  status      %s%s%s\n", run_status_name(run->status), *run->message ? ": " : "",
           line(show, run->message));
    printf("  device      %s, %s, %s parameters\n", *run->device ? line(show, run->device) : "-",
           *run->precision ? line(show, run->precision) : "-",
           run->parameters < 0 ? "-" : TEXT_COUNT(run->parameters));
    printf("  steps       %lld of %lld, %s token%s\n", (long long)(run->steps > 0 ? run->steps : 0),
           (long long)run->total_steps, TEXT_COUNT(run->tokens > 0 ? (double)run->tokens : 0),
           text_plural(run->tokens));
    if (run->loss_recorded) printf("  loss        %s\n", TEXT_LOSS(run->final_loss));
    if (run->best_step >= 0)
        printf("  best        validation loss %s after %lld step%s\n", TEXT_LOSS(run->best_val_loss),
               (long long)run->best_step, text_plural(run->best_step));
    if (isfinite(run->tokens_per_sec)) printf("  speed       %s tokens/s\n", TEXT_COUNT(run->tokens_per_sec));
    printf("  started     %s\n", format_time(run->created_at, a, sizeof a));
    if (isfinite(run->ended_at))
        printf("  ended       %s, after %s\n", format_time(run->ended_at, a, sizeof a),
               CLOCK_DURATION(run->elapsed));
    if (*run->parent_id)
        printf("  forked      from %s, after %lld step%s\n", line(show, run->parent_id),
               (long long)run->parent_step, text_plural(run->parent_step));
    if (run->segment > 1) printf("  resumed     %d time%s\n", run->segment - 1, run->segment > 2 ? "s" : "");
    if (run->status == RUN_RUNNING || run->status == RUN_PAUSED)
        printf("  trainer     process %lld, last sign of life %s ago\n", (long long)run->pid,
               CLOCK_DURATION(clock_wall() - run->heartbeat));
    else if (run->status == RUN_CRASHED)
        printf("  trainer     process %lld died without a word, last heard of %s (%s)\n", (long long)run->pid,
               format_time(run->heartbeat, a, sizeof a), what_a_resume_does(show));
    print_device(show);
    printf("  folder      %s\n", line(show, show->folder));
}

/* " on 2026-11-21 at 13:20", when the evaluation of that step says when it was; else "". */
static const char *when_of(const struct show *show, int64_t step, char *buf, size_t size)
{
    struct tm local;
    buf[0] = '\0';
    for (size_t i = 0; i < show->eval_count; i++) {
        double wall_time = show->evals[i].wall_time;
        time_t seconds = (time_t)wall_time;
        if (show->evals[i].step != step || !isfinite(wall_time) || !localtime_r(&seconds, &local)) continue;
        if (!strftime(buf, size, " on %Y-%m-%d at %H:%M", &local)) buf[0] = '\0';
        break;
    }
    return buf;
}

/* The lowest validation loss; of an evaluation that an order asked for only the run's row knows. */
static void print_best(const struct show *show, const struct stopping_record *now)
{
    char when[48];
    double best = now->best_val_loss;
    int64_t step = now->best_step;
    if (show->run.best_step >= 0 && show->run.best_val_loss < best) {
        best = show->run.best_val_loss;
        step = show->run.best_step;
    }
    if (step < 0) {
        printf("  best        none: no validation loss was a number\n");
        return;
    }
    printf("  best        %s after %lld step%s%s", TEXT_LOSS(best), (long long)step, text_plural(step),
           when_of(show, step, when, sizeof when));
    if (now->step > step)
        printf(", %lld step%s ago\n", (long long)(now->step - step), text_plural(now->step - step));
    else
        printf(", the newest evaluation\n");
    if (*show->run.parent_id && step <= show->run.parent_step)
        printf("              an evaluation of the run that it was forked from\n");
    if (now->step > step)
        printf("  newest      %s after %lld step%s\n", TEXT_LOSS(now->val_loss), (long long)now->step,
               text_plural(now->step));
}

static void print_patience(const struct stopping_record *now)
{
    char delta[32];
    int64_t left = now->patience - now->patience_used;
    if (now->patience <= 0) {
        printf("  patience    without end: early stopping is off\n");
        return;
    }
    printf("  patience    %lld of %lld evaluation%s without improvement, %lld left\n",
           (long long)now->patience_used, (long long)now->patience, text_plural(now->patience),
           (long long)(left > 0 ? left : 0));
    if (now->min_delta > 0)
        printf("              an improvement is a loss lower by more than %s\n",
               text_format_double(now->min_delta, delta, sizeof delta));
}

static void print_stopping(struct show *show)
{
    if (show->stopping_count == 0) return;
    const struct stopping_record *now = &show->stopping[0].record;
    printf("\nEarly stopping\n");
    print_best(show, now);
    print_patience(now);
    if (now->verdict != VERDICT_STOP) return;
    printf("  stopped     after %lld step%s: %lld evaluation%s in a row did not improve\n",
           (long long)now->step, text_plural(now->step), (long long)now->patience_used,
           text_plural(now->patience_used));
    if (show->run.status == RUN_EARLY_STOPPED)
        printf("              anneal resume %s --eval.early_stopping_patience=%lld goes on\n",
               clean_line_new(&show->arena, show->run.id), (long long)now->patience * 2);
    else
        printf("              it was resumed since, and has not been evaluated again\n");
}

enum { ROWS_SHOWN = 10 };

/* "Evaluations (newest 10 of 57)" */
static size_t print_heading(const char *what, size_t count)
{
    size_t shown = count < ROWS_SHOWN ? count : ROWS_SHOWN;
    if (count == 0) return 0;
    if (shown < count)
        printf("\n%s (newest %zu of %zu)\n", what, shown, count);
    else
        printf("\n%s\n", what);
    return shown;
}

/* Two decimals while they mean something: exp(loss) of an early loss has dozens of digits. */
static const char *format_perplexity(double value, char *buf, size_t size)
{
    snprintf(buf, size, fabs(value) < 1e6 ? "%.2f" : "%.3g", value);
    return buf;
}

static void print_evals(struct show *show)
{
    char b[32];
    size_t n = print_heading("Evaluations", show->eval_count);
    for (size_t i = 0; i < n; i++) {
        const struct eval_record *eval = &show->evals[i];
        printf("  %8lld  %s", (long long)eval->step, TEXT_LOSS(eval->val_loss));
        if (isnan(eval->val_perplexity) && !isnan(eval->val_loss)) /* an import that does not say it */
            printf("\n");
        else
            printf("  perplexity %s\n", format_perplexity(eval->val_perplexity, b, sizeof b));
    }
}

static void print_checkpoints(struct show *show)
{
    char a[48];
    size_t n = print_heading("Checkpoints", show->checkpoint_count);
    bool beaten = false; /* newest first: of those that were the best, only the first one still is */
    for (size_t i = 0; i < n; i++) {
        const struct checkpoint_record *c = &show->checkpoints[i];
        bool best = strcmp(c->kind, "best") == 0;
        const char *kind = best && beaten ? "best then" : line(show, c->kind);
        beaten = beaten || best;
        printf("  %8lld  %-9s %10s  %s  %s%s\n", (long long)c->step, kind,
               TEXT_BYTES(c->bytes > 0 ? (uint64_t)c->bytes : 0), format_time(c->wall_time, a, sizeof a),
               line(show, c->path),
               show->places[i].damaged  ? " (damaged)"
               : show->places[i].exists ? ""
                                        : " (removed)");
    }
}

static void print_traces(struct show *show)
{
    size_t n = print_heading("Traces", show->trace_count);
    for (size_t i = 0; i < n; i++)
        printf("  %8lld  traces/%s\n", (long long)show->traces[i].step, show->traces[i].name);
}

static void print_orders(struct show *show)
{
    char a[48], value[32] = "";
    size_t n = print_heading("Orders", show->order_count);
    for (size_t i = 0; i < n; i++) {
        const struct order_row *o = &show->orders[i];
        if (!isnan(o->argument)) text_format_double(o->argument, value, sizeof value);
        printf("  %s  %s%s%s by %s: ", format_time(o->issued_at, a, sizeof a), order_verb_name(o->verb),
               isnan(o->argument) ? "" : " ", isnan(o->argument) ? "" : value, line(show, o->issuer));
        if (o->applied_step >= 0) printf("step %lld, ", (long long)o->applied_step);
        printf("%s\n", o->result ? line(show, o->result) : "not yet obeyed");
    }
}

static void print_events(struct show *show)
{
    char a[48];
    size_t n = print_heading("Events", show->event_count);
    for (size_t i = 0; i < n; i++)
        printf("  %s  %-7s  %s\n", format_time(show->events[i].wall_time, a, sizeof a),
               line(show, show->events[i].level), line(show, show->events[i].text));
}

/* Indented, line by line. */
static void print_block(const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        printf("  %.*s\n", (int)n, text);
        text += n + (text[n] == '\n');
    }
}

static void print_page(struct show *show)
{
    print_identity(show);
    print_stopping(show);
    print_evals(show);
    print_checkpoints(show);
    print_traces(show);
    if (show->sample_count) {
        printf("\nSample after %lld step%s, from \"%s\"\n", (long long)show->samples[0].step,
               text_plural(show->samples[0].step), line(show, show->samples[0].prompt));
        print_block(clean_block_new(&show->arena, show->samples[0].text));
    }
    print_orders(show);
    print_events(show);
    if (*show->config) {
        printf("\nConfiguration\n");
        print_block(clean_block_new(&show->arena, show->config));
    }
}

struct options {
    bool profile, layers, json;
};

static enum status show_whole(struct store *store, const char *word, bool json, struct err *err)
{
    struct show show = {0};
    enum status status = read_show(store, word, &show, err);
    if (!status && json)
        status = show_json(&show, err);
    else if (!status)
        print_page(&show);
    release_show(&show);
    return status;
}

static enum status show_profile(struct store *store, const char *word, const struct options *o,
                                struct err *err)
{
    struct run_info run;
    struct profile profile = {0};
    enum status status = run_find(store, word, &run, err);
    if (!status) status = profile_read(store, run.id, o->layers, &profile, err);
    if (!status && o->json)
        status = show_profile_json(&run, &profile, err);
    else if (!status)
        show_profile_print(&run, &profile);
    profile_release(&profile);
    return status;
}

static enum status run(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct store *store = NULL;
    if (o->layers && !o->profile) return err_set(err, STATUS_USAGE, "--layers is of a --profile");
    enum status status = command_open_store(true, &store, err);
    if (!status)
        status = o->profile ? show_profile(store, words->words[0], o, err)
                            : show_whole(store, words->words[0], o->json, err);
    store_close(store);
    return status;
}

static const struct option_spec options[] = {
    OPTION("profile", OPTION_FLAG, AT(profile), NULL,
           "instead, where the time of its steps goes: phase and operation with calls, time, share and the "
           "rates achieved, of an average profiled step (one in profile.every)"),
    OPTION("layers", OPTION_FLAG, AT(layers), NULL, "of the profile, each layer by itself"),
    OPTION("json", OPTION_FLAG, AT(json), NULL, "one JSON object with all of it"),
    {0},
};

const struct command command_show = {
    .line = {.name = "show",
             .words = "RUN",
             .least = 1,
             .most = 1,
             .options = options,
             .about = "Shows one run: what it is and how it goes, its device as last seen, its evaluations, "
                      "the early-stopping story, checkpoints, traces, the newest sample, orders given to it, "
                      "events, and its complete configuration.",
             .notes = "RUN is an id, the start of one, a name (the newest of that name), or latest."},
    .summary = "all about one run; where the time of its steps goes",
    COMMAND_RUN(run, (struct options){0}),
};
