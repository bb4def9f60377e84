/* A chart as a picture (SVG): the same curves, axes and marks that chart_draw draws into cells, for a report
 * or a page. One file has the colours for light and for dark pages (prefers-color-scheme); the legend never
 * covers data. */
#ifndef ANNEAL_TUI_CHART_SVG_H
#define ANNEAL_TUI_CHART_SVG_H

#include "core/base/err.h"
#include "tui/widget/chart.h"

/* Writes a chart to the file `path`, which is replaced as a whole or not at all; "-": standard output.
 * `heading`: above it; a cursor is not drawn. */
enum status chart_write_svg(const struct chart *chart, const char *heading, const char *path,
                            struct err *err);

#endif
