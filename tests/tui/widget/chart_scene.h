/* A chart on a grid, for the tests of charts. */
#ifndef ANNEAL_TESTS_TUI_CHART_SCENE_H
#define ANNEAL_TESTS_TUI_CHART_SCENE_H

#include "tests/cmocka.h"
#include "tui/widget/chart.h"

enum { POINTS = 5000 };

struct scene {
    struct grid grid;
    struct series_point points[POINTS];
    double smooth[POINTS];
    struct chart chart; /* at first one empty trace, of `points` */
};

int chart_scene_set_up(void **state);
int chart_scene_tear_down(void **state);
#define CHART_CASE(name) TEST_CASE_WITH(name, chart_scene_set_up, chart_scene_tear_down)

/* Steps 0 to count - 1, each with its number as value. */
void chart_scene_ramp(struct scene *scene, int count);
/* Draws on a fresh grid of this size. */
void chart_scene_draw(struct scene *scene, int w, int h);

#endif
