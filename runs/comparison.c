/* See comparison.h. */
#include "runs/comparison.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "runs/grouping.h"
#include "runs/table.h"

/* The outcomes, in the order in which they are shown: the status, columns of `runs`, then more. */
enum {
    OUTCOME_STATUS,
    OUTCOME_FINAL_LOSS = 2,
    OUTCOME_BEST_STEP = 4,
    OUTCOME_PEAK_MEMORY = 6,
    OUTCOME_WALL_TIME,
    OUTCOME_TARGET_TIME,
    OUTCOME_TARGET_TOKENS,
    OUTCOME_TARGET_STEPS,
    OUTCOME_TARGET_FLOPS,
    OUTCOME_COUNT
};

static const struct {
    const char *name, *json;
    int better;
    enum outcome_unit unit;
} outcomes[OUTCOME_COUNT] = {
    {"status", NULL, 0, IN_WORDS},
    {"steps", "steps", 0, IN_STEPS},
    {"final loss", "final_loss", -1, IN_NATS},
    {"best val loss", "best_val_loss", -1, IN_NATS},
    {"best step", "best_step", 0, IN_STEPS},
    {"tokens/s", "tokens_per_sec", 1, IN_TOKENS_PER_SEC},
    {"peak memory", "peak_memory_bytes", -1, IN_BYTES},
    {"wall time", "wall_time_sec", -1, IN_SECONDS},
    {"time to", "target_time_sec", -1, IN_SECONDS},
    {"tokens to", "target_tokens", -1, IN_TOKENS},
    {"steps to", "target_steps", -1, IN_STEPS},
    {"FLOPs to", "target_flops", -1, IN_FLOPS},
};

struct reader {
    struct store *store;
    const struct comparison_request *request;
    struct comparison *c;
    struct err *err;
};

static enum status no_memory(struct reader *r)
{
    return err_no_memory(r->err, "a comparison of runs");
}

/* ---- reading ---- */

/* "3e-4" equals "0.0003". */
static bool same_value(const char *a, const char *b)
{
    double x, y;
    if (!a || !b) return a == b;
    return strcmp(a, b) == 0 || (text_parse_double(a, &x) && text_parse_double(b, &y) && x == y);
}

/* Whether `list`, "1, 2, 3", has this value. */
static bool lists(const char *list, const char *value)
{
    size_t n = strlen(value);
    char entry[64];
    for (const char *at = list, *end; at; at = end ? end + 2 : NULL) {
        end = strstr(at, ", ");
        size_t length = end ? (size_t)(end - at) : strlen(at);
        if (strncmp(at, value, n) == 0 && (at[n] == '\0' || strncmp(at + n, ", ", 2) == 0)) return true;
        if (length >= sizeof entry) continue; /* no number */
        snprintf(entry, sizeof entry, "%.*s", (int)length, at);
        if (same_value(entry, value)) return true;
    }
    return false;
}

const char *comparison_setting(const struct compared *run, const char *key)
{
    return run_params_get(run->params, run->param_count, key);
}

/* Lists the values of a further run behind those of the runs before it. */
static enum status add_settings(struct reader *r, struct compared *run, const struct run_param *params,
                                size_t count)
{
    for (size_t k = 0; k < run->param_count; k++) {
        struct run_param *param = &run->params[k];
        const char *value = run_params_get(params, count, param->name);
        if (!value || lists(param->value, value)) continue;
        param->value = arena_printf(&r->c->arena, "%s, %s", param->value, value);
        if (!param->value) return no_memory(r);
    }
    return STATUS_OK;
}

/* NULL: memory is short. A later row may move this one. */
static struct comparison_row *add_row(struct comparison *c, enum comparison_section section, const char *name,
                                      int64_t order)
{
    struct comparison_row *row = arena_grow(&c->arena, &c->rows, c->row_count, sizeof *row);
    if (!row || !name) return NULL;
    *row = (struct comparison_row){.section = section, .name = name, .order = order};
    c->row_count++;
    return row;
}

/* Adds a row of numbers, none of which is known yet. */
static struct comparison_row *add_outcome(struct reader *r, const char *name, int64_t order)
{
    size_t count = r->request->count + 1;
    struct arena *arena = &r->c->arena;
    double *values = arena_alloc_array(arena, count, sizeof *values);
    int *counts = arena_alloc_array(arena, count, sizeof *counts);
    struct comparison_row *row = values && counts ? add_row(r->c, COMPARED_OUTCOMES, name, order) : NULL;
    for (size_t i = 0; row && i < count; i++) values[i] = NAN;
    if (row) row->values = values, row->counts = counts;
    return row;
}

enum { ORDER_STEP = 2, ORDER_MEASURES = OUTCOME_BEST_STEP * ORDER_STEP + 1 };

/* Names the row of best steps after what it is the best of, unless that is the validation loss of the row
 * above. NULL: no memory. */
static const char *name_best_step(struct reader *r, const char *name)
{
    const char *metric = NULL;
    for (size_t i = 0; i < r->request->count; i++) {
        const struct run_info *run = &r->request->runs[i];
        if (run->best_step < 0) continue;
        if (!metric) metric = run->best_metric;
        if (strcmp(metric, run->best_metric) != 0) metric = "metric";
    }
    return metric && *metric ? arena_printf(&r->c->arena, "%s by %s", name, metric) : name;
}

/* The outcomes of forks are their own, but their way to a target begins with that of their parent. */
static enum status add_outcomes(struct reader *r)
{
    bool forks = false;
    for (size_t i = 0; i < r->request->count; i++) forks = forks || *r->request->runs[i].parent_id;
    for (int o = 0; o < OUTCOME_COUNT; o++) {
        bool target = o >= OUTCOME_TARGET_TIME;
        const char *name = outcomes[o].name;
        if (target && !r->request->has_target) break;
        if (o == OUTCOME_BEST_STEP) name = name_best_step(r, name);
        if (target)
            name = arena_printf(&r->c->arena, "%s %.6g%s", name, r->request->target,
                                forks ? " with parent" : "");
        struct comparison_row *row = add_outcome(r, name, o * ORDER_STEP);
        if (!row) return no_memory(r);
        row->json = outcomes[o].json;
        row->better = outcomes[o].better;
        row->unit = outcomes[o].unit;
        row->target = target;
    }
    return STATUS_OK;
}

/* Makes the value part of the mean of those runs that are compared as one. */
static void add_value(struct comparison_row *row, size_t place, double value)
{
    int n = ++row->counts[place];
    row->values[place] = n > 1 ? row->values[place] + (value - row->values[place]) / n : value;
}

static enum status read_measures(struct reader *r, const struct run_info *info, size_t place)
{
    static const char of_best[] = "and t.step = (select best_step from runs where id = ?1) order by t.name";
    struct measure_record *measures;
    size_t count;
    struct table_request request = {TABLE_MEASURES, info->id, of_best, SIZE_MAX, sizeof *measures, true};
    enum status status = table_list(r->store, &request, &r->c->arena, &measures, &count, r->err);
    for (size_t i = 0; !status && i < count; i++) {
        struct comparison_row *row = NULL;
        for (size_t k = OUTCOME_TARGET_TIME; !row && k < r->c->row_count; k++)
            if (r->c->rows[k].measure && strcmp(r->c->rows[k].name, measures[i].name) == 0)
                row = &r->c->rows[k];
        if (!row && !(row = add_outcome(r, measures[i].name, ORDER_MEASURES))) return no_memory(r);
        row->measure = true;
        row->unit = strncmp(row->name, "val_loss", 8) == 0 ? IN_NATS : IN_SCORE;
        row->better = measure_falls(row->name) ? -1 : 1;
        if (!isnan(measures[i].value)) add_value(row, place, measures[i].value);
    }
    return status;
}

/* When the run with this number reached the target, if there is one. */
static enum status read_reach(struct reader *r, size_t number, struct reach *out)
{
    struct pace pace;
    const char *id = r->request->runs[number].id;
    struct reach_request reach = {.metric = METRIC_VAL_LOSS, .target = r->request->target};
    *out = (struct reach){.step = -1, .at = {NAN, NAN, NAN}};
    if (r->request->reached) *out = r->request->reached[number];
    if (!r->request->has_target || r->request->reached) return STATUS_OK;
    enum status status = pace_read(r->store, id, &r->c->arena, &pace, r->err);
    return status ? status : reach_read(r->store, id, &reach, &pace, out, r->err);
}

/* The value of a setting; NaN: the run has none, or it is no number. */
static double setting_number(const struct run_param *params, size_t count, const char *key)
{
    const char *text = run_params_get(params, count, key);
    double value;
    return text && text_parse_double(text, &value) ? value : NAN;
}

/* As in MFU (model_flops_per_token): 6 for each parameter, 4 for a frozen one, without an embedding that is
 * not the head, and 12 · width of the heads · length for each layer. NaN where the number of parameters is
 * not recorded, and where the length that a token attends to is not that of the sequences: with a sliding
 * window, and of rows packed with several texts. The optimizer's own are not counted, as in MFU. */
static double flops_per_token(const struct run_info *info, const struct run_param *params, size_t count)
{
    const char *documents = run_params_get(params, count, "data.documents");
    static const char *const keys[] = {"model.num_layers", "model.num_heads", "model.head_dim",
                                       "train.seq_len"};
    const char *format = run_params_get(params, count, "data.format"),
               *tied = run_params_get(params, count, "model.tie_weights");
    double attention = 12, trained = (double)info->parameters, frozen = (double)info->frozen_parameters;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        attention *= setting_number(params, count, keys[i]);
    if (info->parameters < 0 || !tied || (format && strcmp(format, "text") != 0)) return NAN;
    if (documents && strcmp(documents, "packed") == 0) return NAN;
    if (setting_number(params, count, "model.sliding_window") > 0) return NAN;
    double embedding = strcmp(tied, "true") == 0 ? 0
                                                 : setting_number(params, count, "model.vocab_size") *
                                                       setting_number(params, count, "model.hidden_dim");
    if (frozen >= embedding) frozen -= embedding; /* else it is trained */
    return 6 * (trained - embedding) - 2 * frozen + attention;
}

/* Adds a run to those that stand at `place`. One without a value changes no mean; but one whose loss is no
 * number, or which has not reached the target, makes the mean none. */
static enum status read_run(struct reader *r, size_t number, size_t place)
{
    const struct run_info *info = &r->request->runs[number];
    struct compared *run = &r->c->runs[place];
    int64_t memory = -1;
    struct reach reach;
    struct run_param *params;
    size_t count;
    enum status status = run_params_list(r->store, info->id, &r->c->arena, &params, &count, r->err);
    if (!status && run->run_count) status = add_settings(r, run, params, count);
    if (!status) status = run_peak_memory(r->store, info->id, &memory, r->err);
    if (!status) status = read_measures(r, info, place);
    if (!status) status = read_reach(r, number, &reach);
    if (status) return status;
    for (int o = OUTCOME_STATUS + 1; o < OUTCOME_COUNT && (o < OUTCOME_TARGET_TIME || r->request->has_target);
         o++) {
        double value = o == OUTCOME_PEAK_MEMORY     ? (memory < 0 ? NAN : (double)memory)
                       : o == OUTCOME_WALL_TIME     ? (info->segment > 0 ? info->elapsed : NAN)
                       : o == OUTCOME_TARGET_TIME   ? reach.at[PACE_ACTIVE]
                       : o == OUTCOME_TARGET_TOKENS ? reach.at[PACE_TOKENS]
                       : o == OUTCOME_TARGET_STEPS  ? (reach.step < 0 ? NAN : (double)reach.step)
                       : o == OUTCOME_TARGET_FLOPS
                           ? reach.at[PACE_TOKENS] * flops_per_token(info, params, count)
                           : column_number(table_column(TABLE_RUNS, outcomes[o].json), info);
        bool counts = (o == OUTCOME_FINAL_LOSS && info->loss_recorded) || o >= OUTCOME_TARGET_TIME;
        if (!isnan(value) || counts) add_value(&r->c->rows[o], place, value);
    }
    if (run->run_count) grouping_cut_stem(run->stem, info->name);
    if (run->run_count++) return STATUS_OK;
    snprintf(run->stem, sizeof run->stem, "%s", info->name);
    run->info = info;
    run->params = params;
    run->param_count = count;
    return STATUS_OK;
}

static enum status finish_run(struct reader *r, struct compared *run)
{
    struct arena *arena = &r->c->arena;
    size_t number = (size_t)(run - r->c->runs) + 1;
    run->title = run->run_count > 1 ? arena_printf(arena, "%zu %s ×%zu", number, run->stem, run->run_count)
                                    : arena_printf(arena, "%zu %s", number, run->stem);
    if (!run->title) return no_memory(r);
    if (!r->request->with_history) return STATUS_OK;
    return run_history_read(r->store, run->info->id, SIZE_MAX, arena, &run->history, r->err);
}

/* The next key after `key` ("" at first) of all runs, in the order of the alphabet; NULL: there is none. */
static const char *next_key(const struct comparison *c, const char *key)
{
    const char *next = NULL;
    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < c->runs[i].param_count; k++) {
            const char *name = c->runs[i].params[k].name;
            if (strcmp(name, key) > 0 && (!next || strcmp(name, next) < 0)) next = name;
        }
    return next;
}

/* Whether the runs differ in this key. "3e-4" equals "0.0003". */
static bool differs(const struct comparison *c, const char *key)
{
    const struct compared *first = NULL;
    for (size_t i = 0; i < c->count; i++) {
        if (c->runs[i].param_count == 0) continue;
        if (!first) first = &c->runs[i];
        if (!same_value(comparison_setting(first, key), comparison_setting(&c->runs[i], key))) return true;
    }
    return false;
}

static enum status add_keys(struct reader *r)
{
    for (const char *key = ""; (key = next_key(r->c, key)); r->c->key_count++)
        if (differs(r->c, key) && !add_row(r->c, COMPARED_SETTINGS, key, 0)) return no_memory(r);
    return STATUS_OK;
}

/* The verdict of one run at this step; NULL: none. */
static const struct stopping_record *stopping_at(const struct compared *run, int64_t step)
{
    for (size_t k = 0; k < run->history.stopping_count; k++) {
        const struct stopping_record *record = &run->history.stopping[k].record;
        if (record->step == step && record->patience > 0) return record;
    }
    return NULL;
}

/* Adds a row for each step at which early stopping judged an evaluation of any run that has it on. */
static enum status add_verdicts(struct reader *r)
{
    for (int64_t step = -1, next;; step = next) {
        next = INT64_MAX;
        for (size_t i = 0; i < r->c->count; i++)
            for (size_t k = 0; k < r->c->runs[i].history.stopping_count; k++) {
                const struct stopping_record *record = &r->c->runs[i].history.stopping[k].record;
                if (record->patience > 0 && record->step > step && record->step < next) next = record->step;
            }
        if (next == INT64_MAX) return STATUS_OK;
        if (!add_row(r->c, COMPARED_STOPPING, arena_printf(&r->c->arena, "after %" PRId64 " steps", next),
                     next))
            return no_memory(r);
    }
}

static int compare_rows(const void *left, const void *right)
{
    const struct comparison_row *a = left, *b = right;
    if (a->section != b->section) return a->section < b->section ? -1 : 1;
    if (a->order != b->order) return a->order < b->order ? -1 : 1;
    return strcmp(a->name, b->name);
}

enum status comparison_read(struct store *store, const struct comparison_request *request,
                            struct comparison *out, struct err *err)
{
    struct reader r = {store, request, out, err};
    *out = (struct comparison){0};
    out->runs = arena_alloc_array(&out->arena, request->count + 1, sizeof *out->runs);
    enum status status = out->runs ? add_outcomes(&r) : no_memory(&r);
    for (size_t i = 0; !status && i < request->count; i++) {
        size_t place = request->places ? request->places[i] : i;
        out->count += place == out->count;
        status = read_run(&r, i, place);
    }
    for (size_t i = 0; !status && i < out->count; i++) status = finish_run(&r, &out->runs[i]);
    if (!status) status = add_keys(&r);
    if (!status) status = add_verdicts(&r);
    if (!status) qsort(out->rows, out->row_count, sizeof *out->rows, compare_rows);
    return status;
}

void comparison_release(struct comparison *comparison)
{
    arena_release(&comparison->arena);
}

char *comparison_count_keys(const struct comparison *c, char *buf, size_t size)
{
    size_t different = 0, recorded = 0;
    for (size_t i = 0; i < c->count; i++) recorded += c->runs[i].param_count > 0;
    for (size_t i = 0; i < c->row_count; i++) different += c->rows[i].section == COMPARED_SETTINGS;
    snprintf(buf, size, "%zu of %zu keys differ%s", different, c->key_count,
             recorded < 2 ? " (fewer than two runs have a recorded configuration)" : "");
    return buf;
}

/* ---- the outcome ---- */

/* The length of text[0..n) without white space at its end. */
static size_t trimmed_length(const char *text, size_t n)
{
    while (n && isspace((unsigned char)text[n - 1])) n--;
    return n;
}

/* The length of the first name of a list, without its weight and blanks. */
static size_t name_length(const char *list)
{
    char number[64];
    double weight;
    size_t n = trimmed_length(list, strcspn(list, ","));
    const char *colon = memrchr(list, ':', n);
    if (colon) {
        snprintf(number, sizeof number, "%.*s", (int)(list + n - colon - 1), colon + 1);
        if (text_parse_double(number + strspn(number, " "), &weight)) n = (size_t)(colon - list);
    }
    return trimmed_length(list, n);
}

bool comparison_same_sources(const char *x, const char *y)
{
    while (*x && *y) {
        size_t n = name_length(x), m = name_length(y);
        if (n != m || memcmp(x, y, n) != 0) return false;
        x += strcspn(x, ","), y += strcspn(y, ",");
        x += *x == ',', y += *y == ',';
        x += strspn(x, " "), y += strspn(y, " ");
    }
    return *x == *y;
}

/* Why the losses of two runs cannot be compared, or NULL. With data.format = text a loss is the mean over
 * tokens, with instructions over tokens of answers, with labels over texts. A run of unknown configuration
 * counts as alike. */
static const char *loss_obstacle(const struct compared *a, const struct compared *b)
{
    static const char tokens[] = "the tokens differ (compare bits per byte: `anneal evaluate`)";
    const char *x = comparison_setting(a, "data.format"), *y = comparison_setting(b, "data.format");
    if (x && y && strcmp(x, y) != 0) return "data.format differs";
    if (x && y && strcmp(x, "labels") == 0) return NULL;
    x = comparison_setting(a, "data.tokenizer"), y = comparison_setting(b, "data.tokenizer");
    if (!x || !y) return NULL;
    if (strcmp(x, y) != 0) return tokens;
    if (strncmp(x, "bpe:", 4) != 0) return NULL; /* bpe is learned from the text */
    x = comparison_setting(a, "data.train");
    y = comparison_setting(b, "data.train");
    return x && y && !comparison_same_sources(x, y) ? tokens : NULL;
}

const char *comparison_loss_obstacle(const struct comparison *c)
{
    const char *obstacle = NULL;
    for (size_t i = 1; !obstacle && i < c->count; i++) obstacle = loss_obstacle(&c->runs[0], &c->runs[i]);
    return obstacle;
}

static bool same_setting(const struct compared *a, const struct compared *b, const char *key)
{
    const char *x = comparison_setting(a, key), *y = comparison_setting(b, key);
    return !x || !y || same_value(x, y);
}

/* The rows of an evaluation times their length, at most; 0: all of the text; -1: not known. */
static double evaluated_tokens(const struct compared *run)
{
    static const char *const keys[] = {"eval.batches", "train.batch_size", "train.seq_len"};
    double tokens = 1;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        tokens *= setting_number(run->params, run->param_count, keys[i]);
    return isnan(tokens) ? -1 : tokens;
}

/* Without data.val, a part of data.train is held out. */
static bool validate_on_same_text(const struct compared *a, const struct compared *b)
{
    const char *val = comparison_setting(a, "data.val"), *x = comparison_setting(a, "data.train"),
               *y = comparison_setting(b, "data.train");
    if (!same_setting(a, b, "data.val")) return false;
    if (!val || *val || !x || !y) return true;
    return comparison_same_sources(x, y) && same_setting(a, b, "data.val_fraction") &&
           same_setting(a, b, "data.val_split");
}

const char *comparison_validation_note(const struct comparison *c)
{
    static const char texts[] = "Validation losses may be of different texts: data.train, data.val, "
                                "data.val_fraction or data.val_split differ.",
                      parts[] =
                          "Validation losses may be of different parts of the text: an evaluation reads "
                          "eval.batches x train.batch_size sequences (eval.batches = 0: all of it).";
    const struct compared *first = NULL;
    const char *note = NULL;
    for (size_t i = 0; i < c->count; i++) {
        const struct compared *run = &c->runs[i];
        if (run->info->best_step < 0) continue;
        if (!first) first = run;
        if (!validate_on_same_text(first, run)) return texts;
        double tokens = evaluated_tokens(run), of_first = evaluated_tokens(first);
        if (tokens >= 0 && of_first >= 0 && tokens != of_first) note = parts;
    }
    return note;
}

/* Whether the outcome is a loss, or how a loss was reached. */
static bool is_of_loss(const struct comparison_row *row)
{
    return row->unit == IN_NATS || row->target;
}

/* Whether this outcome ranks two runs: losses if they are of the same tokens, times if they have trained the
 * same steps to the end. */
static bool are_comparable(const struct compared *a, const struct compared *b,
                           const struct comparison_row *row)
{
    if (is_of_loss(row)) return !loss_obstacle(a, b);
    if (row->unit != IN_SECONDS) return true;
    return a->info->status == RUN_FINISHED && b->info->status == RUN_FINISHED &&
           a->info->steps == b->info->steps && a->info->parent_step == b->info->parent_step;
}

bool comparison_is_best(const struct comparison *c, const struct comparison_row *row, size_t run)
{
    bool worse = false, loss = row->unit == IN_NATS;
    double own = row->values[run];
    if (!row->better || !isfinite(own)) return false;
    for (size_t i = 0; i < c->count; i++) {
        double other = row->values[i];
        bool comparable = are_comparable(&c->runs[run], &c->runs[i], row);
        if (!comparable && is_of_loss(row)) return false; /* no loss is best of all */
        if (!comparable) continue;
        if (isfinite(other) && (other - own) * row->better > 0) return false;
        worse = worse || (isfinite(other) ? other != own : loss && c->runs[i].info->loss_recorded);
    }
    return worse;
}

double comparison_delta(const struct comparison *c, const struct comparison_row *row, size_t run)
{
    if (!are_comparable(&c->runs[0], &c->runs[run], row)) return NAN;
    return row->values[run] - row->values[0];
}

static void format_value(double value, enum outcome_unit unit, char *buf, size_t size)
{
    if (unit == IN_NATS || unit == IN_SCORE)
        text_format_loss(value, buf, size);
    else if (unit == IN_TOKENS_PER_SEC || unit == IN_TOKENS)
        text_format_count(value, buf, size);
    else if (unit == IN_BYTES)
        text_format_bytes((uint64_t)value, buf, size);
    else if (unit == IN_SECONDS)
        clock_format_duration(value, buf, size);
    else
        snprintf(buf, size, unit == IN_FLOPS ? "%.3g" : "%.0f", value);
}

static void format_outcome(const struct comparison *c, const struct comparison_row *row, size_t run,
                           char *buf, size_t size)
{
    char value[32] = "-", by[32] = "", delta[48] = "";
    double number = row->values[run], first = row->values[0], change = comparison_delta(c, row, run);
    const struct run_info *info = c->runs[run].info;
    bool recorded = strcmp(row->name, "best val loss") == 0 ? info->best_step >= 0 : info->loss_recorded;
    bool is_nan = isnan(number) && row->unit == IN_NATS && !row->measure && recorded;
    if (!isnan(number) || is_nan) format_value(number, row->unit, value, sizeof value);
    if (isfinite(change) && row->unit <= IN_SCORE) format_value(change, row->unit, by, sizeof by);
    if (*by && change != 0)
        snprintf(delta, sizeof delta, " (%s%s)", change > 0 ? "+" : "", by);
    else if (isfinite(change) && first > 0 && fabs(change / first) >= 5e-4) /* 0.1 % */
        snprintf(delta, sizeof delta, " (%+.1f%%)", 100 * change / first);
    snprintf(buf, size, "%s%s%s", value, comparison_is_best(c, row, run) ? " *" : "", delta);
}

static void format_verdict(const struct stopping_record *record, char *buf, size_t size)
{
    char used[48] = "";
    if (record->verdict == VERDICT_WAITING || record->verdict == VERDICT_STOP)
        snprintf(used, sizeof used, " %lld/%lld", (long long)record->patience_used,
                 (long long)record->patience);
    snprintf(buf, size, "%s %s%s", TEXT_LOSS(record->val_loss), verdict_words[record->verdict], used);
}

const char *comparison_text(const struct comparison *c, const struct comparison_row *row, size_t run,
                            char *buf, size_t size)
{
    const struct compared *of = &c->runs[run];
    const char *setting = row->section == COMPARED_SETTINGS ? comparison_setting(of, row->name) : NULL;
    const struct stopping_record *record =
        row->section == COMPARED_STOPPING ? stopping_at(of, row->order) : NULL;
    *buf = '\0';
    if (setting) return *setting ? setting : "\"\"";
    if (row->section == COMPARED_SETTINGS) return "-";
    if (record) format_verdict(record, buf, size);
    if (row->section == COMPARED_STOPPING) return buf;
    if (row->unit == IN_WORDS) return run_status_word(of->info);
    format_outcome(c, row, run, buf, size);
    return buf;
}
