/* See sweep_axes.h. */
#include "tui/command/sweep_axes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/philox.h"
#include "core/base/text.h"

/* ---- reading ---- */

static bool read_range(struct sweep_axis *axis, const char *value)
{
    const char *dots = strstr(value, "..");
    char from[64];
    int64_t whole;
    if (!dots || (size_t)(dots - value) >= sizeof from) return false;
    snprintf(from, sizeof from, "%.*s", (int)(dots - value), value);
    axis->range = text_parse_double(from, &axis->from) && text_parse_double(dots + 2, &axis->to) &&
                  isfinite(axis->from) && isfinite(axis->to);
    axis->whole = text_parse_int(from, &whole) && text_parse_int(dots + 2, &whole);
    return axis->range;
}

/* Cuts `text`, which is ours, at its commas. */
static enum status read_list(struct arena *arena, struct sweep_axis *axis, char *text, struct err *err)
{
    int most = 1;
    for (const char *c = text; *c; c++) most += *c == ',';
    axis->values = arena_alloc_array(arena, (size_t)most, sizeof *axis->values);
    if (!axis->values) return err_no_memory(err, "the values of %s", axis->key);
    for (char *from = text, *to = text, *value = text;; from++) {
        bool ends = !*from || *from == ',';
        if (*from == '\\' && from[1] == ',') from++;
        if (!ends) {
            *to++ = *from;
            continue;
        }
        bool last = !*from;
        *to++ = '\0';
        axis->values[axis->count++] = value;
        value = to;
        if (last) break;
    }
    for (int i = 0; i < axis->count; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(axis->values[i], axis->values[k]) == 0)
                return err_set(err, STATUS_USAGE, "--%s: \"%.80s\" is there twice", axis->key,
                               CLEAN_LINE(axis->values[i]));
    return STATUS_OK;
}

enum status sweep_axes_read(struct sweep_axes *axes, const char *const *settings, int count, struct err *err)
{
    enum status status = STATUS_OK;
    *axes = (struct sweep_axes){0};
    for (int i = 0; !status && i < count; i++) {
        const char *word = settings[i] + 2 * (strncmp(settings[i], "--", 2) == 0),
                   *equals = strchr(word, '=');
        struct sweep_axis axis = {0};
        char *copy = arena_strdup(&axes->arena, equals ? equals + 1 : "");
        axis.key = arena_printf(&axes->arena, "%.*s", (int)strcspn(word, "="), word);
        if (!copy || !axis.key) return err_no_memory(err, "the settings");
        for (const char *c = copy; *c; c++)
            if ((unsigned char)*c < ' ')
                return err_set(err, STATUS_USAGE, "--%s: a value of a sweep is one line", axis.key);
        if (!read_range(&axis, copy)) status = read_list(&axes->arena, &axis, copy, err);
        if (status) return status;
        for (int k = 0; k < axes->count; k++)
            if (strcmp(axes->axes[k].key, axis.key) == 0)
                return err_set(err, STATUS_USAGE, "--%s is there twice (give its values in one list)",
                               axis.key);
        if (!axis.range && axis.count == 1) {
            if (axes->fixed_count == (int)(sizeof axes->fixed / sizeof *axes->fixed))
                return err_set(err, STATUS_USAGE, "too many settings (write them into the CONFIG.ini)");
            axes->fixed[axes->fixed_count++] =
                arena_printf(&axes->arena, "--%s=%s", axis.key, axis.values[0]);
        } else if (axes->count == SWEEP_KEYS_MAX) {
            status =
                err_set(err, STATUS_USAGE, "a sweep has at most %d keys with several values", SWEEP_KEYS_MAX);
        } else {
            axes->axes[axes->count++] = axis;
        }
    }
    if (!status && !axes->count)
        status = err_set(err, STATUS_USAGE,
                         "needs a key with several values, such as --train.learning_rate=1e-4,3e-4,1e-3");
    return status;
}

void sweep_axes_release(struct sweep_axes *axes)
{
    arena_release(&axes->arena);
}

/* ---- combining ---- */

enum { RUNS_COUNTED = 1000000000 /* for the message; of more the number would be too large */ };

static enum status make_room(struct sweep *sweep, int64_t runs, struct err *err)
{
    if (runs > SWEEP_RUNS_MAX)
        return err_set(err, STATUS_USAGE,
                       "these are %s%lld runs, and a sweep has at most %d (try --samples N)",
                       runs > RUNS_COUNTED ? "more than " : "",
                       (long long)(runs > RUNS_COUNTED ? RUNS_COUNTED : runs), SWEEP_RUNS_MAX);
    sweep->runs = arena_alloc_array(&sweep->arena, (size_t)runs, sizeof *sweep->runs);
    if (!sweep->runs) return err_no_memory(err, "the runs of the sweep");
    return STATUS_OK;
}

static enum status combine_all(const struct sweep_axes *axes, struct sweep *sweep, struct err *err)
{
    int64_t runs = 1;
    for (int k = 0; k < axes->count; k++) {
        if (axes->axes[k].range)
            return err_set(err, STATUS_USAGE, "--%s: a range needs --samples N", axes->axes[k].key);
        if (runs <= RUNS_COUNTED) runs *= axes->axes[k].count;
    }
    enum status status = make_room(sweep, runs, err);
    for (int i = 0; !status && i < runs; i++)
        for (int k = axes->count - 1, rest = i; k >= 0; rest /= axes->axes[k].count, k--)
            sweep->runs[i].values[k] = axes->axes[k].values[rest % axes->axes[k].count];
    if (!status) sweep->run_count = (int)runs;
    return status;
}

/* A value of the axis for a number in [0, 1). */
static const char *draw(const struct sweep_axis *axis, double u, struct arena *arena)
{
    if (!axis->range) return axis->values[(int)(u * axis->count)];
    double from = axis->from, to = axis->to;
    bool logarithmic = from > 0; /* and `to` is larger */
    if (axis->whole) {           /* each whole number has an interval of its own */
        int64_t number = logarithmic ? (int64_t)floor(from * pow((to + 1) / from, u))
                                     : (int64_t)floor(from + u * (to + 1 - from));
        return arena_printf(arena, "%lld", (long long)number);
    }
    return arena_printf(arena, "%.4g", logarithmic ? from * pow(to / from, u) : from + u * (to - from));
}

static bool is_there(const struct sweep *sweep, const struct sweep_run *run)
{
    for (int i = 0; i < sweep->run_count; i++) {
        bool same = true;
        for (int k = 0; k < sweep->key_count; k++)
            same = same && strcmp(sweep->runs[i].values[k], run->values[k]) == 0;
        if (same) return true;
    }
    return false;
}

static enum status combine_samples(const struct sweep_axes *axes, int samples, int64_t seed,
                                   struct sweep *sweep, struct err *err)
{
    enum status status = STATUS_OK;
    for (int k = 0; !status && k < axes->count; k++)
        if (axes->axes[k].range && !(axes->axes[k].from < axes->axes[k].to))
            status =
                err_set(err, STATUS_USAGE, "--%s: a range goes from the smaller number to the larger one",
                        axes->axes[k].key);
    if (!status) status = make_room(sweep, samples, err);
    for (uint32_t i = 0; !status && sweep->run_count < samples; i++) {
        struct sweep_run run = {0};
        for (int k = 0; k < axes->count; k++) {
            uint32_t word =
                philox4x32_10(i, (uint32_t)k, 0, 0, (uint32_t)seed, (uint32_t)(seed >> 32)).word[0];
            run.values[k] = draw(&axes->axes[k], word * 0x1p-32, &sweep->arena);
            if (!run.values[k]) return err_no_memory(err, "the runs of the sweep");
        }
        if (!is_there(sweep, &run)) sweep->runs[sweep->run_count++] = run;
        if (i > 1000u + 100u * (uint32_t)samples)
            return err_set(err, STATUS_USAGE,
                           "--samples %d: there are not so many combinations (%d found; without --samples a "
                           "sweep tries all)",
                           samples, sweep->run_count);
    }
    return status;
}

enum status sweep_axes_combine(const struct sweep_axes *axes, int samples, int64_t seed, struct sweep *sweep,
                               struct err *err)
{
    sweep->key_count = axes->count;
    for (int k = 0; k < axes->count; k++) sweep->keys[k] = axes->axes[k].key;
    return samples ? combine_samples(axes, samples, seed, sweep, err) : combine_all(axes, sweep, err);
}
