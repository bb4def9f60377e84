/* See chart_scene.h. */
#include "tests/tui/widget/chart_scene.h"
#include "tests/cmocka.h"

int chart_scene_set_up(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    struct err err = {0};
    assert_non_null(scene);
    assert_int_equal(grid_resize(&scene->grid, 80, 24, &err), STATUS_OK);
    scene->grid.level = GLYPHS_BRAILLE;
    scene->chart = (struct chart){.title = "loss",
                                  .trace_count = 1,
                                  .cursor = -1,
                                  .best_step = -1,
                                  .trace = {{.points = scene->points, .style = STYLE_TRAIN}}};
    *state = scene;
    return 0;
}

int chart_scene_tear_down(void **state)
{
    struct scene *scene = *state;
    grid_release(&scene->grid);
    free(scene);
    return 0;
}

void chart_scene_draw(struct scene *scene, int w, int h)
{
    struct err err = {0};
    assert_int_equal(grid_resize(&scene->grid, w, h, &err), STATUS_OK);
    chart_draw(&scene->grid, (struct rect){0, 0, w, h}, &scene->chart);
}

void chart_scene_ramp(struct scene *scene, int count)
{
    for (int i = 0; i < count; i++) scene->points[i] = series_point_of(i, i);
    scene->chart.trace[0].count = (size_t)count;
    scene->chart.last_step = count - 1;
}
