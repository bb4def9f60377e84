/* See cells.h. */
#include "tests/tui/widget/cells.h"

#include "tests/cmocka.h"

struct grid make_grid(int w, int h, enum glyph_level level)
{
    struct grid grid = {0};
    struct err err = {0};
    assert_int_equal(grid_resize(&grid, w, h, &err), STATUS_OK);
    grid.level = level;
    return grid;
}

void assert_row(const struct grid *grid, int y, const char *expected)
{
    char row[4096];
    assert_string_equal(grid_row(grid, y, row, sizeof row), expected);
}
