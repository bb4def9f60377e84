/* The charts of a run: which quantities it has, and how each is shown. */
#ifndef ANNEAL_TUI_RUN_CHARTS_H
#define ANNEAL_TUI_RUN_CHARTS_H

#include "tui/view/run_model.h"
#include "tui/view/settings.h"

enum { CHART_TITLE_MAX = QUANTITY_NAME_MAX };

struct chart_look {
    char title[CHART_TITLE_MAX]; /* "gradient norm" */
    const char *unit;            /* NULL: none */
    double scale;                /* the shown value is `scale` times that of the series */
    enum style style;
    bool zero;         /* the axis of the values begins at 0 */
    bool exponential;  /* shows exp of the series: perplexity */
    bool marks;        /* there are few points */
    bool smoothable;   /* a value of each step that is no schedule */
    double least_span; /* as in struct chart */
};

struct chart_look run_chart_look(const struct quantity *quantity);

/* Gives a chart title, unit and scale; it borrows them. */
void run_chart_dress(const struct chart_look *look, struct chart *chart);

/* The scale and the smoothing of a quantity's charts in the settings: "chart.grad_norm = log 0.9". Returns
 * the factor of the moving average, one of rollup_decay; 0: none, or it is not smoothable. */
double run_chart_recall(const struct settings *settings, const struct quantity *quantity, bool *log);
void run_chart_remember(struct settings *settings, const struct quantity *quantity, bool log, double decay);

/* The factor of the moving average after this one, of rollup_decay; 0: none any more. */
double run_chart_next_decay(double decay);

/* Lists the quantities of a run, in the order in which charts show them at first. `perplexity` is one of them
 * where the loss is that of a language model. `config`: see run_charts_kind. */
enum status run_charts_list(struct store *store, const char *run_id, const char *config, struct arena *arena,
                            struct quantity **out, size_t *count, struct err *err);

/* Writes to which[] the numbers of the quantities that `names` lists, with commas between, as far as they are
 * there; of all, if none is. Returns how many, at most `most`. */
size_t run_charts_choose(const struct quantity *all, size_t count, const char *names, size_t *which,
                         size_t most);

/* Whether a configuration (INI text; NULL: none) has a line, such as "early = true", in a section. */
bool run_config_says(const char *config, const char *section, const char *line);

/* "text", "labels" or "instructions": the run trains on these, which decides what its evaluations measure. */
const char *run_charts_kind(const char *config);

#endif
