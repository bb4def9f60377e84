/* Tests of the profile of a run as a tree and a table: what is visible, in which order, with which numbers.
 * No terminal, no store. */
#include <locale.h>
#include <math.h>

#include "tests/cmocka.h"
#include "tests/tui/widget/cells.h"
#include "tui/view/profile_heat.h"
#include "tui/view/profile_view.h"

/* As profile_read gives them: phases in the order of a step, layers, the slowest first. */
static struct profile_row rows[] = {
    {"forward", -1, "loss", 1, 2000, 4e6, 8e6, 0},
    {"forward", 0, "gemm qkv", 1, 1000, 1e6, 50e6, 0},
    {"forward", 0, "rmsnorm", 2, 100, 2e6, 0, 0},
    {"forward", 1, "gemm qkv", 1, 3000, 1e6, 50e6, 0},
    {"backward", 0, "gemm qkv", 2.5, 3500, 2e6, 100e6, 0},
    {"unattributed", -1, "unattributed", 1, 400, NAN, NAN, 0},
};
static const struct profile profile = {
    .rows = rows, .count = sizeof rows / sizeof *rows, .steps = 4, .last_step = 200, .step_us = 10000};

static void arrange(struct profile_tree *tree)
{
    struct err err = {0};
    assert_int_equal(profile_tree_arrange(tree, &profile, &err), STATUS_OK);
}

/* "forward", "layer 0", "rmsnorm": what line `at` is called. */
static const char *name_of(const struct profile_tree *tree, size_t at)
{
    static char name[64];
    assert_true(at < tree->list.count);
    const struct profile_line *line = &tree->lines[at];
    if (line->level == PROFILE_LAYER)
        snprintf(name, sizeof name, "layer %d", line->of.layer);
    else
        snprintf(name, sizeof name, "%s", line->level == PROFILE_PHASE ? line->of.phase : line->of.op);
    return name;
}

static void assert_names(const struct profile_tree *tree, size_t count, const char *const *names)
{
    assert_int_equal(tree->list.count, count);
    for (size_t i = 0; i < count; i++) assert_string_equal(name_of(tree, i), names[i]);
}

TEST_CASE(phases_are_open_and_layers_closed_at_first)
{
    struct profile_tree tree = {0};
    arrange(&tree);
    const char *const names[] = {"forward",  "loss",    "layer 0",     "layer 1",
                                 "backward", "layer 0", "unattributed"};
    assert_names(&tree, 7, names);
    assert_true(tree.lines[0].open);
    assert_false(tree.lines[2].open);
    assert_true(tree.lines[2].folds);
    assert_false(tree.lines[1].folds); /* an operation */
    assert_false(tree.lines[6].folds); /* no operation explains it: nothing is in it */
    profile_tree_release(&tree);
}

TEST_CASE(a_node_is_the_sum_of_what_is_in_it)
{
    struct profile_tree tree = {0};
    arrange(&tree);
    assert_true(tree.lines[0].of.time_us == 6100);
    assert_true(tree.lines[0].of.calls == 5);
    assert_true(tree.lines[0].of.flops == 108e6);
    assert_true(tree.lines[2].of.time_us == 1100);
    assert_true(tree.lines[2].of.bytes == 3e6);
    assert_true(isnan(tree.lines[6].of.bytes));
    assert_true(tree.lines[6].of.time_us == 400);
    profile_tree_release(&tree);
}

TEST_CASE(siblings_are_sorted_by_time_and_stay_with_their_parents)
{
    struct profile_tree tree = {.by_time = true, .all_open = true};
    arrange(&tree);
    const char *const names[] = {"forward", "layer 1",  "gemm qkv", "loss",     "layer 0",     "gemm qkv",
                                 "rmsnorm", "backward", "layer 0",  "gemm qkv", "unattributed"};
    assert_names(&tree, 11, names);
    profile_tree_release(&tree);
}

TEST_CASE(a_time_that_is_not_known_comes_last)
{
    struct profile_row unknown[] = {{"forward", -1, "a", 1, NAN, 0, 0, 0},
                                    {"forward", -1, "b", 1, 1, 0, 0, 0},
                                    {"forward", -1, "c", 1, NAN, 0, 0, 0},
                                    {"forward", -1, "d", 1, 2, 0, 0, 0}};
    const struct profile of_four = {.rows = unknown, .count = 4, .steps = 1, .step_us = 3};
    struct profile_tree tree = {.by_time = true, .all_open = true};
    struct err err = {0};
    assert_int_equal(profile_tree_arrange(&tree, &of_four, &err), STATUS_OK);
    assert_int_equal(tree.list.count, 5);
    assert_string_equal(name_of(&tree, 1), "d");
    assert_string_equal(name_of(&tree, 2), "b");
    profile_tree_fold(&tree, 5, true); /* no such line */
    profile_tree_release(&tree);
    tree = (struct profile_tree){0};
    assert_int_equal(profile_tree_arrange(&tree, &(struct profile){0}, &err), STATUS_OK);
    profile_tree_fold(&tree, 0, true); /* none at all */
    profile_tree_release(&tree);
}

TEST_CASE(what_was_folded_stays_so_when_it_is_read_again)
{
    struct profile_tree tree = {0};
    arrange(&tree);
    profile_tree_fold(&tree, 4, false); /* backward */
    profile_tree_fold(&tree, 2, true);  /* layer 0 of forward */
    arrange(&tree);
    const char *const names[] = {"forward", "loss",    "layer 0",  "gemm qkv",
                                 "rmsnorm", "layer 1", "backward", "unattributed"};
    assert_names(&tree, 8, names);
    tree.by_time = true; /* another order moves the lines, not what is open */
    arrange(&tree);
    assert_int_equal(tree.list.count, 8);
    assert_string_equal(name_of(&tree, 7), "unattributed");
    profile_tree_fold_all(&tree);
    arrange(&tree);
    assert_int_equal(tree.list.count, 11);
    profile_tree_fold_all(&tree); /* layers; the phases show what they are made of */
    arrange(&tree);
    assert_int_equal(tree.list.count, 7);
    profile_tree_release(&tree);
}

TEST_CASE(a_line_stays_selected_or_what_it_is_in)
{
    struct profile_tree tree = {.all_open = true};
    arrange(&tree);
    const char *const names[] = {"forward",  "loss",     "layer 0", "gemm qkv", "rmsnorm",     "layer 1",
                                 "gemm qkv", "backward", "layer 0", "gemm qkv", "unattributed"};
    assert_names(&tree, 11, names);
    tree.list.at = 9;
    tree.by_time = true;
    arrange(&tree);
    assert_int_equal(tree.list.at, 9);
    assert_string_equal(tree.lines[tree.list.at - 2].of.phase, "backward");
    tree.by_time = false;
    profile_tree_fold_all(&tree);
    arrange(&tree);
    assert_int_equal(tree.list.at, 5); /* its layer */
    tree.list.at = 1;
    arrange(&tree);
    assert_int_equal(tree.list.at, 1);
    tree.lines[1].of.phase = "recompute"; /* which is gone */
    arrange(&tree);
    assert_int_equal(tree.list.at, 0);
    profile_tree_release(&tree);
}

/* --- the table --- */

static struct grid draw(const struct profile *of, struct profile_tree *tree, int w, int h,
                        enum glyph_level level)
{
    struct grid grid = {0};
    struct err err = {0};
    assert_int_equal(grid_resize(&grid, w, h, &err), STATUS_OK);
    grid.level = level;
    profile_draw_table(&grid, (struct rect){0, 0, w, h}, of, tree);
    if (of->count) assert_int_equal(tree->list.page, h - 2);
    return grid;
}

TEST_CASE(the_table_has_time_share_and_rates)
{
    struct profile_tree tree = {0};
    arrange(&tree);
    tree.list.at = 2;
    struct grid grid = draw(&profile, &tree, 80, 12, GLYPHS_ASCII);
    assert_row(&grid, 0, " profile 10.00 ms a step, the mean of 4 profiled, the newest @200 --------------");
    assert_row(&grid, 1, " operation               calls  ms a step   share               GB/s    GFLOP/s");
    assert_row(&grid, 2, " v forward                   5      6.100   61.0%  ####....     1.31      17.70");
    assert_row(&grid, 3, "     loss                    1      2.000   20.0%  #.......     2.00       4.00");
    assert_row(&grid, 4, "   > layer 0                 3      1.100   11.0%  #.......     2.73      45.45");
    assert_row(&grid, 6, " v backward              2.500      3.500   35.0%  ##......     0.57      28.57");
    assert_row(&grid, 8, "   unattributed              1      0.400    4.0%  #.......");
    assert_true(grid.cells[4 * 80 + 10].attr & ATTR_REVERSE);
    assert_false(grid.cells[5 * 80 + 10].attr & ATTR_REVERSE);
    grid_release(&grid);
    grid = draw(&profile, &tree, 44, 12, GLYPHS_ASCII); /* the share outlives the rates and the bar */
    assert_row(&grid, 1, " operation                ms a step   share");
    grid_release(&grid);
    profile_tree_release(&tree);
}

TEST_CASE(the_lines_scroll)
{
    struct profile_tree tree = {0};
    arrange(&tree);
    tree.list.at = 6;
    tree.list.scroll = 5;
    struct grid grid = draw(&profile, &tree, 80, 6, GLYPHS_ASCII);
    assert_int_equal(tree.list.scroll, 3); /* no page ends in blank rows */
    assert_row(&grid, 4, "   > layer 0             2.500      3.500   35.0%  ##......     0.57      28.57");
    assert_row(&grid, 5, "   unattributed              1      0.400    4.0%  #.......");
    grid_release(&grid);
    profile_tree_release(&tree);
}

TEST_CASE(what_lies_beyond_the_edges_is_marked)
{
    struct profile_tree tree = {0};
    arrange(&tree); /* of 7 lines */
    static const struct {
        size_t scroll;
        int h;
        uint32_t above, below;
    } cases[] = {{0, 6, ' ', 'v'}, {2, 6, '^', 'v'}, {3, 6, '^', ' '}, {0, 9, ' ', ' '}, {0, 8, ' ', 'v'}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tree.list.at = tree.list.scroll = cases[i].scroll;
        struct grid grid = draw(&profile, &tree, 80, cases[i].h, GLYPHS_ASCII);
        assert_int_equal(grid.cells[2 * 80 + 79].glyph, cases[i].above);
        assert_int_equal(grid.cells[(cases[i].h - 1) * 80 + 79].glyph, cases[i].below);
        grid_release(&grid);
    }
    profile_tree_release(&tree);
}

TEST_CASE(a_run_without_a_profile_says_so)
{
    static const struct profile none = {.last_step = -1};
    struct profile_tree tree = {0};
    struct err err = {0};
    assert_int_equal(profile_tree_arrange(&tree, &none, &err), STATUS_OK);
    struct grid grid = draw(&none, &tree, 60, 5, GLYPHS_ASCII);
    assert_row(&grid, 1, " no step of this run has been profiled yet");
    grid_release(&grid);
    profile_tree_release(&tree);
}

TEST_CASE(a_line_that_has_changed_says_by_how_much)
{
    struct profile_row later[sizeof rows / sizeof *rows];
    struct profile changed = profile;
    struct profile_tree tree = {0};
    struct err err = {0};
    char text[200];
    memcpy(later, rows, sizeof rows);
    changed.rows = later;
    later[0].first_us = 1000; /* loss: twice as slow */
    later[4].first_us = 7000; /* backward: twice as fast */
    later[5].first_us = 1e-300;
    assert_int_equal(profile_tree_arrange(&tree, &changed, &err), STATUS_OK);
    struct grid grid = make_grid(110, 20, GLYPHS_BRAILLE);
    profile_draw_table(&grid, (struct rect){0, 0, 110, 20}, &changed, &tree);
    assert_non_null(strstr(grid_row(&grid, 1, text, sizeof text), "change"));
    assert_non_null(strstr(grid_row(&grid, 3, text, sizeof text), "+100%"));
    assert_non_null(strstr(grid_row(&grid, 6, text, sizeof text), "-50%"));
    grid_clear(&grid);
    assert_int_equal(profile_tree_arrange(&tree, &profile, &err), STATUS_OK);
    profile_draw_table(&grid, (struct rect){0, 0, 110, 20}, &profile, &tree);
    assert_null(strstr(grid_row(&grid, 1, text, sizeof text), "change"));
    grid_release(&grid);
    profile_tree_release(&tree);
}

TEST_CASE(the_heat_has_a_shade_for_each_layer_of_the_slowest_operations)
{
    char text[400];
    struct grid grid = make_grid(60, 20, GLYPHS_ASCII);
    assert_int_equal(profile_heat_draw(&grid, (struct rect){0, 0, 60, 15}, &profile), 0);
    /* of three operations two have room */
    assert_int_equal(profile_heat_draw(&grid, (struct rect){0, 0, 60, 20}, &profile), 4);
    assert_non_null(strstr(grid_row(&grid, 0, text, sizeof text), "the fullest is 3.500 ms a step"));
    /* 1,000 and 3,000 of 3,500 µs: the second and the fifth of five shades */
    assert_string_equal(grid_row(&grid, 1, text, sizeof text), " gemm qkv forward     ::::####");
    assert_string_equal(grid_row(&grid, 2, text, sizeof text), " gemm qkv backward    ####");
    assert_string_equal(grid_row(&grid, 3, text, sizeof text), "                      0   1");
    grid_release(&grid);
}

/* More layers than columns, names of any bytes, times that are no times. */
TEST_CASE(the_heat_stays_inside_any_area)
{
    enum { MANY = 3000 };
    struct profile_row *many = calloc(MANY, sizeof *many);
    assert_non_null(many);
    for (int i = 0; i < MANY; i++)
        many[i] =
            (struct profile_row){.phase = i % 2 ? "forward" : "\x1b[2J\xff",
                                 .layer = i % 7    ? i / 4
                                          : i % 11 ? -5
                                                   : 2000000000,
                                 .op = i % 5 ? "gemm 日本語 of a rather long name, longer than its room" : "",
                                 .time_us = i % 13   ? i
                                            : i % 17 ? NAN
                                            : i % 19 ? INFINITY
                                                     : -1e300};
    struct profile hostile = {.rows = many, .count = MANY, .steps = 1, .step_us = 1};
    for (int level = GLYPHS_ASCII; level <= GLYPHS_BRAILLE; level++)
        for (int w = 0; w < 90; w += 4)
            for (int h = 12; h < 40; h += 3) {
                struct grid grid = make_grid(100, 20, (enum glyph_level)level);
                int used = profile_heat_draw(&grid, (struct rect){3, 2, w, h}, &hostile);
                for (int y = 0; y < 20; y++)
                    for (int x = 0; x < 100; x++) {
                        uint32_t glyph = grid.cells[y * 100 + x].glyph;
                        if (x < 3 || y < 2 || x >= 3 + w || y >= 2 + used) assert_int_equal(glyph, ' ');
                        assert_true(glyph == GRID_CONTINUATION || glyph >= ' ');
                    }
                grid_release(&grid);
            }
    free(many);
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
