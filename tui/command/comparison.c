/* See comparison.h. */
#include "tui/command/comparison.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "runs/series.h"

const struct outcome_kind outcomes[OUTCOMES] = {
    [STEPS] = {"steps", "steps", 0, false},
    [FINAL_LOSS] = {"final loss", "final_loss", -1, false},
    [BEST_VAL_LOSS] = {"best val loss", "best_val_loss", -1, false},
    [BEST_STEP] = {"  at step", "best_step", 0, false},
    [TOKENS_PER_SEC] = {"tokens/s", "tokens_per_sec", 1, true},
    [PEAK_MEMORY] = {"peak memory", "peak_memory_bytes", -1, true},
    [WALL_TIME] = {"wall time", "wall_time_sec", -1, true},
};

static void set_outcome(struct compared *run, enum outcome which, double value, bool present)
{
    run->values[which] = present ? value : NAN;
    run->present[which] = present;
}

static enum status read_run(struct store *store, const char *word, struct comparison *c, struct compared *run,
                            struct err *err)
{
    int64_t memory = -1;
    enum status status = run_find(store, word, &run->info, err);
    const struct run_info *info = &run->info;
    for (size_t i = 0; !status && &c->runs[i] < run; i++)
        if (strcmp(c->runs[i].info.id, info->id) == 0)
            return err_set(err, STATUS_USAGE,
                           "compare: \"%s\" is run %s, which is named before (name different runs)", word,
                           info->id);
    if (!status) status = run_params_list(store, info->id, &c->arena, &run->params, &run->param_count, err);
    if (!status) status = series_peak_memory(store, info->id, &memory, err);
    if (status) return status;
    set_outcome(run, STEPS, (double)info->steps, info->steps >= 0);
    set_outcome(run, FINAL_LOSS, info->final_loss, info->loss_recorded);
    set_outcome(run, BEST_VAL_LOSS, info->best_val_loss, info->best_step >= 0);
    set_outcome(run, BEST_STEP, (double)info->best_step, info->best_step >= 0);
    set_outcome(run, TOKENS_PER_SEC, info->tokens_per_sec, !isnan(info->tokens_per_sec));
    set_outcome(run, PEAK_MEMORY, (double)memory, memory >= 0);
    set_outcome(run, WALL_TIME, info->elapsed, info->segment > 0);
    return STATUS_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* "3e-4" is 0.0003. */
static bool same_value(const char *a, const char *b)
{
    double x, y;
    if (!a || !b) return a == b;
    return strcmp(a, b) == 0 || (text_parse_double(a, &x) && text_parse_double(b, &y) && x == y);
}

static enum status no_memory(struct err *err)
{
    return err_set(err, STATUS_NO_MEMORY, "comparing runs: not enough memory");
}

/* All keys of all runs, sorted, each once. */
static enum status list_keys(struct comparison *c, const char ***out, struct err *err)
{
    size_t all = 0, n = 0;
    for (size_t i = 0; i < c->count; i++) all += c->runs[i].param_count;
    const char **keys = arena_alloc_array(&c->arena, all + 1, sizeof *keys);
    if (!keys) return no_memory(err);
    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < c->runs[i].param_count; k++) keys[n++] = c->runs[i].params[k].name;
    qsort(keys, n, sizeof *keys, by_name);
    for (size_t i = 0; i < n; i++)
        if (c->key_count == 0 || strcmp(keys[c->key_count - 1], keys[i]) != 0) keys[c->key_count++] = keys[i];
    *out = keys;
    return STATUS_OK;
}

static enum status find_differences(struct comparison *c, struct err *err)
{
    const char **keys = NULL;
    enum status status = list_keys(c, &keys, err);
    if (status) return status;
    c->differences = arena_alloc_array(&c->arena, c->key_count + 1, sizeof *c->differences);
    if (!c->differences) return no_memory(err);
    size_t first = 0; /* that has a configuration */
    while (first + 1 < c->count && c->runs[first].param_count == 0) first++;
    for (size_t k = 0; k < c->key_count; k++) {
        bool differs = false;
        const char **values = arena_alloc_array(&c->arena, c->count, sizeof *values);
        if (!values) return no_memory(err);
        for (size_t i = 0; i < c->count; i++) {
            values[i] = run_params_get(c->runs[i].params, c->runs[i].param_count, keys[k]);
            differs = differs || (c->runs[i].param_count && !same_value(values[first], values[i]));
        }
        if (differs) c->differences[c->difference_count++] = (struct difference){keys[k], values};
    }
    return STATUS_OK;
}

bool comparison_is_best(const struct comparison *c, size_t run, enum outcome which)
{
    bool worse = false;
    double own = c->runs[run].values[which];
    if (!outcomes[which].better || !isfinite(own)) return false;
    for (size_t i = 0; i < c->count; i++) {
        double other = c->runs[i].values[which];
        if (isfinite(other) && (other - own) * outcomes[which].better > 0) return false;
        worse = worse || (c->runs[i].present[which] && other != own);
    }
    return worse;
}

enum status comparison_read(struct store *store, char *const *words, size_t count, struct comparison *out,
                            struct err *err)
{
    *out = (struct comparison){0};
    arena_init(&out->arena, 65536);
    out->runs = arena_alloc_array(&out->arena, count, sizeof *out->runs);
    enum status status = out->runs ? STATUS_OK : no_memory(err);
    for (; !status && out->count < count; out->count++)
        status = read_run(store, words[out->count], out, &out->runs[out->count], err);
    return status ? status : find_differences(out, err);
}

void comparison_release(struct comparison *comparison)
{
    arena_release(&comparison->arena);
    *comparison = (struct comparison){0};
}
