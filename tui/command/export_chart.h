/* `anneal export --format svg`: metrics of runs as one chart. */
#ifndef ANNEAL_TUI_COMMAND_EXPORT_CHART_H
#define ANNEAL_TUI_COMMAND_EXPORT_CHART_H

#include <stddef.h>

#include "runs/store.h"

struct chart_request {
    const char *const *ids;
    size_t count;
    const char *metrics; /* names, separated by commas; NULL: the losses */
    double decay;        /* of an exponential moving average per step; 0: none */
    bool log;            /* logarithmic values */
};

/* Writes the chart to `path` ("-": standard output). STATUS_USAGE: a name that no run has recorded, or more
 * curves than a chart holds. */
enum status export_chart(struct store *store, const struct chart_request *request, const char *path,
                         struct err *err);

#endif
