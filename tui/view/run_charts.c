/* See run_charts.h. */
#include "tui/view/run_charts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

/* The quantities with a look of their own, in the order in which they are shown at first. All others are
 * measures. */
static const struct kind {
    const char *name; /* after "gpu0." and the like */
    const char *title, *unit;
    enum style style;
    double scale;
    bool zero;
    double least_span;
} kinds[] = {
    {"loss", "loss", NULL, STYLE_TRAIN, 1, false, 0},
    {"lr", "learning rate", NULL, STYLE_LR, 1, true, 0},
    {"grad_norm", "gradient norm", NULL, STYLE_GRAD, 1, false, 0},
    {"tokens_per_sec", "throughput", "tokens/s", STYLE_SPEED, 1, false, 0.25},
    {"step_ms", "step time", "ms", STYLE_SPEED, 1, false, 0.25},
    {"perplexity", "perplexity", NULL, STYLE_TRAIN, 1, false, 0},
    {"val_loss", "validation loss", NULL, STYLE_VAL, 1, false, 0},
    {"mfu", "MFU", "% of peak", STYLE_SPEED, 100, true, 0},
    {"clip_scale", "clip scale", NULL, STYLE_GRAD, 1, true, 0},
    {"utilization_pct", "busy", "%", STYLE_SPEED, 1, true, 0},
    {"memory_used_bytes", "memory", "GiB", STYLE_VAL, 1.0 / (1 << 30), true, 0},
    {"process_bytes", "memory of the trainer", "GiB", STYLE_VAL, 1.0 / (1 << 30), true, 0},
    {"power_w", "power", "W", STYLE_WARN, 1, true, 0},
    {"temperature_c", "temperature", "C", STYLE_WARN, 1, false, 0.25},
    {"sm_clock_mhz", "clock", "MHz", STYLE_SPEED, 1, false, 0.25},
    {"load_1m", "load", "processes", STYLE_SPEED, 1, true, 0},
    {"rank.step_ms", "step time of ranks", "ms", STYLE_SPEED, 1, true, 0},
    {"rank.wait_ms", "waiting of ranks", "ms", STYLE_WARN, 1, true, 0},
    {"inference.decode_tokens_per_sec", "generation", "tokens/s", STYLE_SPEED, 1, true, 0},
    {"inference.prefill_tokens_per_sec", "prompt", "tokens/s", STYLE_SPEED, 1, true, 0},
    {"inference.time_to_first_token_ms", "first token", "ms", STYLE_SPEED, 1, true, 0},
    {"inference.latency_median_ms", "time of a token", "ms", STYLE_SPEED, 1, true, 0},
};
enum { KINDS = sizeof kinds / sizeof *kinds, MEASURES_AT = 7 /* after val_loss */ };

/* KINDS: a measure. */
static size_t kind_of(const struct quantity *quantity)
{
    const char *name = quantity->metric == METRIC_DEVICE ? quantity->column : quantity->name;
    size_t k = quantity->metric == METRIC_MEASURE ? KINDS : 0;
    while (k < KINDS && strcmp(kinds[k].name, name) != 0) k++;
    return k;
}

struct chart_look run_chart_look(const struct quantity *quantity)
{
    size_t k = kind_of(quantity);
    struct chart_look look = {.scale = 1, .style = STYLE_VAL, .marks = true};
    snprintf(look.title, sizeof look.title, "%.*s", CHART_TITLE_MAX - 1, quantity->name);
    if (k == KINDS) return look;
    const struct kind *kind = &kinds[k];
    int place = (int)strcspn(quantity->name, ".");
    if (quantity->metric == METRIC_DEVICE)
        snprintf(look.title, sizeof look.title, "%.*s %s", place, quantity->name, kind->title);
    else
        snprintf(look.title, sizeof look.title, "%s", kind->title);
    look.unit = kind->unit;
    look.scale = kind->scale;
    look.style = kind->style;
    look.zero = kind->zero;
    look.least_span = kind->least_span;
    look.exponential = strcmp(kind->name, "perplexity") == 0;
    look.marks = quantity->metric == METRIC_VAL_LOSS || quantity->metric == METRIC_INFERENCE;
    look.smoothable = quantity->metric < METRIC_VAL_LOSS && quantity->metric != METRIC_LR;
    return look;
}

void run_chart_dress(const struct chart_look *look, struct chart *chart)
{
    chart->title = look->title;
    chart->unit = look->unit;
    chart->scale = look->scale;
    chart->zero = look->zero;
    chart->exponential = look->exponential;
    chart->least_span = look->least_span;
}

static void format_key(const struct quantity *quantity, char key[QUANTITY_NAME_MAX + 8])
{
    snprintf(key, QUANTITY_NAME_MAX + 8, "chart.%s", quantity->name);
}

double run_chart_recall(const struct settings *settings, const struct quantity *quantity, bool *log)
{
    char key[QUANTITY_NAME_MAX + 8];
    format_key(quantity, key);
    const char *words = settings_get(settings, key);
    *log = strncmp(words, "log", 3) == 0;
    double decay = strtod(words + strcspn(words, "0123456789"), NULL);
    return rollup_ema_column(decay) && run_chart_look(quantity).smoothable ? decay : 0;
}

double run_chart_next_decay(double decay)
{
    double next = 0;
    for (int d = ROLLUP_DECAYS - 1; d >= 0; d--)
        if (rollup_decay[d] > decay) next = rollup_decay[d];
    return next;
}

void run_chart_remember(struct settings *settings, const struct quantity *quantity, bool log, double decay)
{
    char key[QUANTITY_NAME_MAX + 8], words[32];
    format_key(quantity, key);
    snprintf(words, sizeof words, "%s", log ? "log" : "");
    if (decay > 0) text_add(words, sizeof words, " ", "%g", decay);
    settings_set(settings, key, words);
}

bool run_config_says(const char *config, const char *section, const char *line)
{
    char head[32], wanted[64];
    snprintf(head, sizeof head, "[%s]\n", section);
    snprintf(wanted, sizeof wanted, "\n%s", line);
    const char *begin = config ? strstr(config, head) : NULL, *found = begin ? strstr(begin, wanted) : NULL,
               *next = begin ? strstr(begin, "\n[") : NULL;
    return found && (!next || found < next) && strchr("\n", found[strlen(wanted)]);
}

const char *run_charts_kind(const char *config)
{
    return run_config_says(config, "data", "format = labels")         ? "labels"
           : run_config_says(config, "data", "format = instructions") ? "instructions"
                                                                      : "text";
}

enum status run_charts_list(struct store *store, const char *run_id, const char *config, struct arena *arena,
                            struct quantity **out, size_t *count, struct err *err)
{
    struct quantity *read, *rows;
    size_t found, n = 0;
    bool classifier = strcmp(run_charts_kind(config), "labels") == 0;
    enum status status = quantity_list(store, run_id, arena, &read, &found, err);
    if (status) return status;
    rows = arena_alloc_array(arena, found + 1, sizeof *rows);
    if (!rows) return err_no_memory(err, "%zu charts", found);
    for (size_t k = 0; k < KINDS; k++) {
        if (k == (classifier ? 1 : MEASURES_AT))
            for (size_t i = 0; i < found; i++)
                if (kind_of(&read[i]) == KINDS) rows[n++] = read[i];
        for (size_t i = 0; i < found; i++)
            if (kind_of(&read[i]) == k) rows[n++] = read[i];
        if (strcmp(kinds[k].name, "perplexity") == 0 && !classifier && found &&
            read[0].metric == METRIC_LOSS) {
            rows[n] = read[0];
            snprintf(rows[n++].name, sizeof rows->name, "perplexity");
        }
    }
    *out = rows;
    *count = n;
    return STATUS_OK;
}

size_t run_charts_choose(const struct quantity *all, size_t count, const char *names, size_t *which,
                         size_t most)
{
    char name[QUANTITY_NAME_MAX];
    size_t n = 0;
    while (text_next_name(&names, name, sizeof name)) {
        size_t i = 0;
        while (i < count && strcmp(all[i].name, name) != 0) i++;
        bool twice = false;
        for (size_t k = 0; k < n; k++) twice = twice || which[k] == i;
        if (i < count && !twice && n < most) which[n++] = i;
    }
    if (n) return n;
    for (; n < count && n < most; n++) which[n] = n;
    return n;
}
