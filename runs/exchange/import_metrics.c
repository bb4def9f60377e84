/* See import_metrics.h. */
#include "runs/exchange/import_metrics.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "runs/field.h"

/* A metric and its names in other programs, in the spelling of scalar_word. Lightning logs NAME_step where it
 * also logs the mean of an epoch, and the learning rate as lr-AdamW. Keras logs epoch_NAME, in folders called
 * train and validation. */
enum { NAMES_MAX = 10 };
static const char *const aliases[][NAMES_MAX] = {
    {"loss", "train_loss", "training_loss", "loss_train", "loss_training", "train_loss_step", "loss_step",
     "train_epoch_loss", "epoch_loss"},
    {"lr", "learning_rate", "train_lr", "train_learning_rate", "train_epoch_learning_rate",
     "epoch_learning_rate", "lr_adamw", "lr_adam", "lr_sgd"},
    {"grad_norm", "gradient_norm", "train_grad_norm"},
    {"epoch", "train_epoch"},
    {"tokens_per_sec", "tokens_per_second"},
    {"val_loss", "eval_loss", "validation_loss", "loss_val", "loss_eval", "loss_validation", "val_loss_epoch",
     "validation_epoch_loss"},
    {"perplexity", "ppl", "train_perplexity"},
    {"val_perplexity", "eval_perplexity", "validation_perplexity"},
};
enum { NO_RANK = 99 };

/* ---- names ---- */

/* Shortens a word of n bytes to fit: "__" takes the place of its middle. The end stays, because the names of
 * layers differ there. */
static void cut_middle(const char *word, size_t n, char *buf, size_t size)
{
    size_t head = utf8_cut(word, size / 2 - 2), tail = n - (size - 1 - head - 2);
    while (head && word[head - 1] == '_') head--;
    while (tail < n && (((unsigned char)word[tail] & 0xC0) == 0x80 || word[tail] == '_')) tail++;
    snprintf(buf, size, "%.*s__%s", (int)head, word, word + tail);
}

char *scalar_word(const char *name, char *buf, size_t size)
{
    char word[1024];
    size_t n = 0;
    for (; *name && n + 1 < sizeof word; name++) {
        unsigned char c = (unsigned char)*name;
        if (isalnum(c) || c >= 0x80)
            word[n++] = (char)tolower(c);
        else if (n && word[n - 1] != '_')
            word[n++] = '_';
    }
    n -= utf8_incomplete_tail(word, n);
    while (n && word[n - 1] == '_') n--;
    word[n] = '\0';
    if (n < size)
        memcpy(buf, word, n + 1);
    else
        cut_middle(word, n, buf, size);
    return buf;
}

const struct column_info *scalar_column_of(const char *word, enum store_table *table, int *rank)
{
    const char *name = word;
    *rank = 0;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        for (int k = 1; k < NAMES_MAX && aliases[i][k]; k++)
            if (strcmp(word, aliases[i][k]) == 0) name = aliases[i][0], *rank = k;
    const struct column_info *column = table_column(*table = TABLE_STEPS, name);
    if (!column) column = table_column(*table = TABLE_EVALS, name);
    bool known =
        column && column->csv && column->field && strcmp(name, "step") != 0 && strcmp(name, "wall_time") != 0;
    return known ? column : NULL;
}

/* Where lists and filters find something else by this name: a column, or a field of runs. */
static bool is_reserved(const char *word)
{
    enum store_table table;
    struct field field;
    int rank;
    if (scalar_column_of(word, &table, &rank) && rank == 0) return true;
    return field_find(word, &field) && (field.column || field.made || field.metric != METRIC_COUNT);
}

bool import_metric_choose_word(struct import_metrics *metrics, struct import_metric *metric)
{
    char clean[1024], word[SCALAR_NAME_MAX], chosen[SCALAR_NAME_MAX];
    clean_line(clean, sizeof clean, metric->name);
    scalar_word(clean, word, sizeof word);
    size_t kept = strlen(word) < sizeof word - 8 ? strlen(word) : sizeof word - 8;
    kept -= utf8_incomplete_tail(word, kept);
    strcpy(chosen, word);
    for (int n = 2; *word && (is_reserved(chosen) || json_object_get(metrics->words, chosen)); n++)
        snprintf(chosen, sizeof chosen, "%.*s_%d", (int)kept, word, n);
    metric->renamed |= strcmp(chosen, word) != 0 || strstr(word, "__");
    strcpy(metric->word, chosen);
    if (!metrics->words) metrics->words = json_object();
    return json_object_set_new_nocheck(metrics->words, chosen, json_null()) == 0;
}

/* ---- the list ---- */

struct import_metric *import_metrics_at(struct import_metrics *metrics, const char *name)
{
    const json_t *known = json_object_get(metrics->names, name);
    if (known) return &metrics->all[json_integer_value(known)];
    char *copy = arena_strdup(&metrics->arena, name);
    if (!copy || !list_reserve(&metrics->all, metrics->count, 1, &metrics->capacity, sizeof *metrics->all))
        return NULL;
    if (!metrics->names) metrics->names = json_object();
    if (json_object_set_new_nocheck(metrics->names, name, json_integer((json_int_t)metrics->count)) != 0)
        return NULL;
    struct import_metric *metric = &metrics->all[metrics->count++];
    *metric = (struct import_metric){.name = copy, .least = NAN, .most = NAN, .newest = NAN};
    return metric;
}

void import_metric_note(struct import_metric *metric, double value)
{
    metric->count++;
    metric->fractions |= !(floor(value) == value);
    metric->falls |= value < metric->newest;
    metric->least = fmin(metric->least, value);
    metric->most = fmax(metric->most, value);
    metric->newest = value;
}

static int compare_names(const void *a, const void *b)
{
    const struct import_metric *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

struct import_metric *import_metrics_owner(const struct import_metrics *metrics,
                                           const struct column_info *column)
{
    for (size_t i = 0; i < metrics->count; i++)
        if (metrics->all[i].column == column) return &metrics->all[i];
    return NULL;
}

const char *import_metric_here(const struct import_metric *metric)
{
    return metric->column ? metric->column->name : metric->word;
}

struct import_metric **import_metrics_renamed(struct import_metrics *metrics, size_t *count)
{
    struct import_metric **renamed = arena_alloc_array(&metrics->arena, metrics->count + 1, sizeof *renamed);
    *count = 0;
    for (size_t i = 0; renamed && i < metrics->count; i++)
        if (metrics->all[i].renamed && *import_metric_here(&metrics->all[i]))
            renamed[(*count)++] = &metrics->all[i];
    if (renamed) qsort(renamed, *count, sizeof(*renamed), compare_names);
    return renamed;
}

void import_metrics_release(struct import_metrics *metrics)
{
    free(metrics->all);
    json_decref(metrics->names);
    json_decref(metrics->words);
    arena_release(&metrics->arena);
    *metrics = (struct import_metrics){0};
}

/* ---- what they become ---- */

/* A metric that waits, and by what it is put in order. */
struct candidate {
    struct import_metric *metric;
    const struct column_info *column;
    enum store_table table;
    int rank;
    bool plain; /* the log spells it as scalar_word does */
};

static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    bool summary_x = !x->metric->count && x->metric->summed,
         summary_y = !y->metric->count && y->metric->summed;
    if (summary_x != summary_y) return summary_x - summary_y;
    if (x->rank != y->rank) return x->rank - y->rank;
    if (x->plain != y->plain) return y->plain - x->plain;
    return strcmp(x->metric->name, y->metric->name);
}

static struct candidate candidate_of(struct import_metric *metric)
{
    char clean[1024], word[SCALAR_NAME_MAX];
    struct candidate c = {.metric = metric};
    clean_line(clean, sizeof clean, metric->name);
    scalar_word(clean, word, sizeof word);
    c.column = scalar_column_of(word, &c.table, &c.rank);
    if (c.column && column_is_integer(c.column) && metric->fractions) c.column = NULL;
    if (!c.column) c.rank = NO_RANK;
    c.plain = strcmp(metric->name, word) == 0;
    return c;
}

/* False: memory is short. */
static bool assign(struct import_metrics *metrics, const struct candidate *c)
{
    struct import_metric *owner = c->column ? import_metrics_owner(metrics, c->column) : NULL;
    if (c->column && !owner) {
        c->metric->column = c->column;
        c->metric->table = c->table;
        c->metric->renamed =
            text_ends_with(c->metric->name, "_step") || text_ends_with(c->metric->name, "_epoch");
        return true;
    }
    if (!import_metric_choose_word(metrics, c->metric)) return false;
    if (!owner) return true;
    if (c->metric->count) owner->renamed = strcmp(owner->name, owner->column->name) != 0;
    c->metric->renamed = strcmp(c->metric->name, c->metric->word) != 0;
    return true;
}

bool import_metrics_assign(struct import_metrics *metrics)
{
    size_t waiting = metrics->count - metrics->assigned, count = 0;
    bool room = true;
    struct candidate *candidates = calloc(waiting + 1, sizeof *candidates);
    if (!candidates) return false;
    for (size_t i = metrics->assigned; i < metrics->count; i++) {
        metrics->all[i].assigned = true;
        if (!metrics->all[i].left_out) candidates[count++] = candidate_of(&metrics->all[i]);
    }
    qsort(candidates, count, sizeof *candidates, compare_candidates);
    for (size_t i = 0; room && i < count; i++) room = assign(metrics, &candidates[i]);
    metrics->assigned = metrics->count;
    free(candidates);
    return room;
}
