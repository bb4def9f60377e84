/* See run_folds.h. */
#include "tui/view/run_folds.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "core/base/text.h"
#include "runs/annotation.h"
#include "runs/columns.h"
#include "runs/grouping.h"
#include "tui/view/labels.h"

void run_folds_release(struct run_folds *folds)
{
    arena_release(&folds->arena);
    arena_release(&folds->rows_arena);
    *folds = (struct run_folds){0};
}

const char *run_folds_keys(const struct settings *settings)
{
    const char *chosen = settings_get(settings, "runs.folds");
    return *chosen ? chosen : GROUPING_DEFAULT;
}

bool run_folds_recall(struct run_folds *folds, const struct settings *settings)
{
    const char *chosen = run_folds_keys(settings);
    bool folded = settings_has(settings, "runs.folded", "yes");
    if (folded == folds->on && strcmp(chosen, folds->keys) == 0) return false;
    folds->on = folded;
    snprintf(folds->keys, sizeof folds->keys, "%s", chosen);
    return true;
}

/* Changes when other runs are listed, when one is resumed, perhaps with other settings, or joins a sweep. */
static uint64_t stamp_of(const struct listing *listing)
{
    uint64_t stamp = listing->count;
    for (size_t i = 0; i < listing->count; i++) {
        const struct run_info *run = &listing->runs[i];
        size_t bytes;
        const char *sweep = run_sweep_tag(run, &bytes);
        stamp = XXH64(run->id, strlen(run->id), stamp + (uint64_t)run->segment);
        if (sweep) stamp = XXH64(sweep, bytes, stamp);
    }
    return stamp;
}

enum status run_folds_read(struct run_folds *folds, struct store *store, const struct listing *listing,
                           struct err *err)
{
    struct arena arena = {0};
    size_t *group;
    uint64_t stamp = stamp_of(listing);
    if (!folds->on || (folds->group && folds->stamp == stamp && strcmp(folds->keys, folds->read_keys) == 0))
        return STATUS_OK;
    enum status status =
        grouping_read(store, folds->keys, true, listing->runs, listing->count, &arena, &group, err);
    if (status) {
        arena_release(&arena);
        return status;
    }
    arena_release(&folds->arena);
    folds->arena = arena;
    folds->group = group;
    folds->group_count = listing->count;
    folds->stamp = stamp;
    memcpy(folds->read_keys, folds->keys, sizeof folds->read_keys);
    return STATUS_OK;
}

void run_folds_apply(struct run_folds *folds, struct listing *listing)
{
    static const size_t none[2] = {0, 0};
    size_t rows = 0, count = listing->shown_count;
    const size_t *group = folds->on && folds->group_count == listing->count ? folds->group : NULL;
    arena_release(&folds->rows_arena);
    size_t *members = arena_alloc_array(&folds->rows_arena, count + 1, sizeof *members),
           *begin = arena_alloc_array(&folds->rows_arena, count + 2, sizeof *begin),
           *row_of = arena_alloc_array(&folds->rows_arena, listing->count + 1, sizeof *row_of),
           *heads = arena_alloc_array(&folds->rows_arena, count + 1, sizeof *heads);
    bool room = members && begin && row_of && heads;
    if (!room) count = 0;
    for (size_t i = 0; i < count; i++) { /* rows are counted from 1 here; begin[row] counts its runs */
        size_t number = listing->shown[i], first = group ? group[number] : number;
        if (!row_of[first]) {
            heads[rows] = number;
            row_of[first] = ++rows;
        }
        begin[row_of[first]]++;
    }
    for (size_t r = 1; r <= rows; r++) begin[r] += begin[r - 1];
    for (size_t i = count; i-- > 0;) { /* from the last, so that each group keeps its order */
        size_t number = listing->shown[i], first = group ? group[number] : number;
        members[--begin[row_of[first]]] = number;
    }
    if (rows) { /* begin[row] is now where the runs of row `row - 1` begin */
        memmove(begin, begin + 1, rows * sizeof *begin);
        begin[rows] = count;
        memcpy(listing->shown, heads, rows * sizeof *heads);
    }
    listing->shown_count = rows;
    folds->members = room ? members : none;
    folds->begin = room ? begin : none;
}

/* Whether all words are names of fields. */
static bool are_fields(struct workbench *workbench, struct listing *listing, const char *words)
{
    char name[FIELD_NAME_MAX];
    enum status status = listing_names(listing, workbench->store, &workbench->err);
    while (!status && *(words += strspn(words, ", "))) {
        size_t n = strcspn(words, ", ");
        snprintf(name, sizeof name, "%.*s", (int)n, words);
        status = field_check(name, listing->names, listing->name_count, &workbench->err);
        words += n;
    }
    return workbench_did(workbench, status);
}

bool run_folds_key(struct workbench *workbench, const struct run_folds *folds, struct listing *listing,
                   enum action action, uint32_t code)
{
    bool fold = !folds->on;
    if (action == ACTION_FOLD_KEYS && code != K_ENTERED) {
        workbench_prompt(workbench, action, folds->keys, "fold runs that differ only in");
        return true;
    }
    if (action != ACTION_FOLD_RUNS && action != ACTION_FOLD_KEYS) return false;
    if (action == ACTION_FOLD_KEYS) {
        if (!are_fields(workbench, listing, workbench->answer.text)) return true;
        settings_set(&workbench->settings, "runs.folds", workbench->answer.text);
        fold = true;
    }
    settings_set(&workbench->settings, "runs.folded", fold ? "yes" : "no");
    if (fold)
        workbench_say(workbench, "runs of a sweep, and runs that differ only in %s, are one row",
                      run_folds_keys(&workbench->settings));
    else
        workbench_say(workbench, "each run has a row of its own");
    return true;
}

bool run_folds_sweep(const struct run_folds *folds, const struct listing *listing, size_t row)
{
    size_t bytes;
    const struct run_info *first = &listing->runs[folds->members[folds->begin[row]]];
    return run_folds_count(folds, row) > 1 && run_sweep_tag(first, &bytes) != NULL;
}

/* Adds `value` to the mean of `count` values before it; one that is not known changes nothing. */
static void add(double *mean, int *count, double value, bool known)
{
    if (known) *mean = (*count)++ ? *mean + (value - *mean) / *count : value;
}

/* How urgent a state is in a row of several: what trains first, then what went wrong. */
static int urgency(enum run_status status)
{
    return status_is_live(status)                          ? 3
           : status == RUN_FAILED || status == RUN_CRASHED ? 2
                                                           : status != RUN_FINISHED;
}

/* Whether the run has the lower validation loss. */
static bool is_better(const struct run_info *run, const struct run_info *than)
{
    return run->best_step >= 0 && (than->best_step < 0 || run->best_val_loss < than->best_val_loss);
}

/* Of counts that a hostile store may hold: at most INT64_MAX. */
static int64_t add_count(int64_t sum, int64_t count)
{
    if (count <= 0) return sum;
    return count > INT64_MAX - sum ? INT64_MAX : sum + count;
}

struct run_info run_folds_info(const struct run_folds *folds, const struct listing *listing, size_t row)
{
    enum { LOSS, BEST, SPEED, STEP, MEANS };
    const size_t *members = &folds->members[folds->begin[row]], count = run_folds_count(folds, row);
    const struct run_info *first = &listing->runs[members[0]], *best = first;
    double mean[MEANS] = {NAN, NAN, 0, NAN};
    int counts[MEANS] = {0};
    bool moves = false, sweep = run_folds_sweep(folds, listing, row);
    int64_t furthest = 0;
    if (count == 1) return *first;
    struct run_info out = *first;
    for (size_t m = 0; sweep && m < count; m++) run_sweep_pass(&listing->runs[members[m]], &furthest);
    if (run_sweep_left(first, furthest)) out.status = RUN_FINISHED;
    out.steps = out.total_steps = out.tokens = 0;
    out.loss_recorded = false;
    out.elapsed = 0;
    out.best_step = -1;
    for (size_t m = 0; m < count; m++) {
        const struct run_info *run = &listing->runs[members[m]];
        if (is_better(run, best)) best = run;
        if (m) grouping_cut_stem(out.name, run->name);
        bool left = run_sweep_left(run, furthest); /* nothing is missing there */
        if (!left && urgency(run->status) > urgency(out.status)) out.status = run->status;
        moves = moves || (status_is_live(run->status) && !run->suspended);
        out.steps = add_count(out.steps, run->steps);
        out.total_steps = add_count(out.total_steps, left ? run->steps : run->total_steps);
        out.tokens = add_count(out.tokens, run->tokens);
        out.elapsed += run->elapsed;
        out.loss_recorded = out.loss_recorded || run->loss_recorded;
        if (run->best_step > out.best_step) out.best_step = run->best_step;
        if (run->heartbeat > out.heartbeat) out.heartbeat = run->heartbeat;
        if (!(run->ended_at <= out.ended_at)) out.ended_at = run->ended_at;
        add(&mean[LOSS], &counts[LOSS], run->final_loss, run->loss_recorded);
        add(&mean[BEST], &counts[BEST], run->best_val_loss, run->best_step >= 0);
        add(&mean[SPEED], &counts[SPEED], run->tokens_per_sec, run->tokens_per_sec > 0);
        add(&mean[STEP], &counts[STEP], run->step_tokens, run->step_tokens > 0);
    }
    out.final_loss = sweep ? best->final_loss : mean[LOSS];
    out.loss_recorded = sweep ? best->loss_recorded : out.loss_recorded;
    out.best_val_loss = sweep ? best->best_val_loss : mean[BEST];
    out.best_step = sweep ? best->best_step : out.best_step;
    out.suspended = status_is_live(out.status) && !moves;
    out.tokens_per_sec = mean[SPEED];
    out.step_tokens = mean[STEP];
    return out;
}

/* Whether a row of several runs shows the sum, as its progress does: of steps, tokens, time, disk space. */
static bool is_summed(const struct field *field)
{
    return field->made == MADE_ELAPSED || field->made == MADE_DISK ||
           (field->column && (field->column == COLUMN(RUNS, steps) || field->column == COLUMN(RUNS, tokens) ||
                              field->column == COLUMN(RUNS, total_steps)));
}

struct field_value run_folds_value(const struct run_folds *folds, const struct listing *listing, int column,
                                   size_t row, char buf[FOLDS_TEXT_MAX])
{
    const size_t *members = &folds->members[folds->begin[row]], count = run_folds_count(folds, row);
    struct field_value out = *listing_value(listing, column, members[0]);
    int known = 0;
    const char *last = NULL;
    if (count == 1) return out;
    double mean = NAN;
    *buf = '\0';
    out.known = false;
    for (size_t m = 0; m < count; m++) {
        const struct field_value *value = listing_value(listing, column, members[m]);
        if (!value->known) continue;
        out.known = true;
        add(&mean, &known, value->number, true);
        if (!value->text || (last && strcmp(last, value->text) == 0)) continue;
        last = value->text;
        text_add(buf, FOLDS_TEXT_MAX, ", ", "%s", value->text);
    }
    out.number = is_summed(&listing->fields[column].field) ? mean * known : mean;
    out.text = *buf ? buf : NULL;
    return out;
}
