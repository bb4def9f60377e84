/* A text that grows: following its end, scrolling, hostile bytes, and what is kept of it. */
#include <locale.h>

#include "tests/cmocka.h"
#include "tests/tui/widget/cells.h"
#include "tui/view/keys.h"
#include "tui/widget/pager.h"

static void add(struct pager *pager, const char *text)
{
    assert_true(pager_add(pager, text, strlen(text)));
}

/* Draws the pager into 10 columns and 3 rows, and compares them. */
static void expect(struct pager *pager, const char *first, const char *second, const char *third)
{
    struct grid grid = make_grid(10, 3, GLYPHS_BRAILLE);
    pager_draw(pager, &grid, (struct rect){0, 0, 10, 3}, NULL);
    assert_row(&grid, 0, first);
    assert_row(&grid, 1, second);
    assert_row(&grid, 2, third);
    grid_release(&grid);
}

TEST_CASE(the_end_is_followed_until_the_user_scrolls_up)
{
    struct pager pager = {0};
    expect(&pager, "", "", "");
    add(&pager, "one\ntwo");
    expect(&pager, "one", "two", "");
    assert_false(pager.above || pager.below);
    add(&pager, " more\nthree\nfour\n");
    expect(&pager, "two more", "three", "four");
    assert_true(pager.above);
    pager_scroll(&pager, -1);
    expect(&pager, "one", "two more", "three");
    assert_true(pager.below);
    add(&pager, "five\n");
    expect(&pager, "one", "two more", "three"); /* it stays */
    pager_scroll(&pager, 1);
    add(&pager, "six\n");
    expect(&pager, "two more", "three", "four");
    pager_scroll(&pager, 100);
    add(&pager, "seven\n");
    expect(&pager, "five", "six", "seven"); /* it follows again */
    pager_go(&pager, false);
    expect(&pager, "one", "two more", "three");
    pager_scroll(&pager, -5);
    expect(&pager, "one", "two more", "three");
    pager_go(&pager, true);
    expect(&pager, "five", "six", "seven");
    pager_release(&pager);
}

TEST_CASE(long_lines_are_wrapped_and_scrolled_by_rows)
{
    struct pager pager = {0};
    add(&pager, "aaaa bbbb cccc dddd eeee\nx\n");
    expect(&pager, "cccc dddd", "eeee", "x");
    pager_scroll(&pager, -1);
    expect(&pager, "aaaa bbbb", "cccc dddd", "eeee");
    pager_scroll(&pager, 1);
    expect(&pager, "cccc dddd", "eeee", "x");
    pager_release(&pager);
}

TEST_CASE(pages_overlap_by_a_row_and_move_where_there_is_but_one)
{
    struct pager pager = {0};
    struct grid grid = make_grid(10, 3, GLYPHS_BRAILLE);
    add(&pager, "1\n2\n3\n4\n5\n6\n7\n");
    expect(&pager, "5", "6", "7");
    assert_true(keys_scroll(ACTION_PAGE_UP, &pager));
    expect(&pager, "3", "4", "5");
    assert_true(keys_scroll(ACTION_PAGE_DOWN, &pager));
    expect(&pager, "5", "6", "7");
    pager_draw(&pager, &grid, (struct rect){0, 0, 10, 1}, NULL);
    assert_row(&grid, 0, "7");
    assert_true(keys_scroll(ACTION_PAGE_UP, &pager));
    pager_draw(&pager, &grid, (struct rect){0, 1, 10, 1}, NULL);
    assert_row(&grid, 1, "6");
    grid_release(&grid);
    pager_release(&pager);
}

TEST_CASE(a_text_that_has_no_room_has_nothing_above_or_below)
{
    static const struct rect areas[] = {{0, 0, 0, 3}, {0, 0, 10, 0}, {0, 0, -2, 3}, {0, 0, 10, -1}};
    struct grid grid = make_grid(10, 3, GLYPHS_BRAILLE);
    struct pager pager = {0};
    add(&pager, "1\n2\n3\n4\n");
    pager_scroll(&pager, -1); /* not drawn yet: it has no rows to move by */
    expect(&pager, "2", "3", "4");
    for (size_t i = 0; i < sizeof areas / sizeof *areas; i++) {
        pager_draw(&pager, &grid, areas[i], NULL);
        assert_false(pager.above || pager.below);
        for (int y = 0; y < 3; y++) assert_row(&grid, y, "");
    }
    grid_release(&grid);
    pager_release(&pager);
}

TEST_CASE(a_row_of_more_bytes_than_cells_is_drawn)
{
    struct pager pager = {0};
    for (int i = 0; i < 3000; i++) add(&pager, i ? "\xCC\x81" : "e"); /* accents that take no cell */
    add(&pager, "\nend\n");
    expect(&pager, "e", "end", "");
    pager_release(&pager);
}

TEST_CASE(hostile_bytes_are_drawn_as_harmless_cells)
{
    static const char bytes[] = "\033[2J\0\x9b\xff\xc3\t\x07\r|\n\xe6\x97\xa5\xe6\x9c\xac";
    struct pager pager = {0};
    struct grid grid = make_grid(20, 4, GLYPHS_BRAILLE);
    assert_true(pager_add(&pager, bytes, sizeof bytes - 1));
    pager_draw(&pager, &grid, (struct rect){0, 0, 20, 4}, NULL);
    for (int i = 0; i < grid.w * grid.h; i++) {
        uint32_t glyph = grid.cells[i].glyph;
        assert_true(glyph == GRID_CONTINUATION || (glyph >= ' ' && (glyph < 0x7F || glyph >= 0xA0)));
    }
    assert_row(&grid, 1, "日本");
    grid_release(&grid);
    pager_release(&pager);
}

TEST_CASE(only_the_newest_part_of_a_long_text_is_kept)
{
    char line[16];
    struct pager pager = {0};
    for (int i = 0; i < 400000; i++) {
        snprintf(line, sizeof line, "n%d\n", i);
        add(&pager, line);
        assert_true(pager.length <= PAGER_MOST);
    }
    assert_true(pager.cut);
    expect(&pager, "n399997", "n399998", "n399999");
    pager_go(&pager, false);
    assert_string_not_equal(pager.text, "n0\n");
    assert_memory_equal(pager.text, "n", 1); /* whole lines */
    pager_release(&pager);
}

TEST_CASE(a_line_without_end_costs_no_more_than_its_length)
{
    static char much[3 * PAGER_MOST];
    struct pager pager = {0};
    memset(much, 'x', sizeof much);
    assert_true(pager_add(&pager, much, sizeof much));
    assert_true(pager.length <= PAGER_MOST);
    size_t last = pager.length % 10;
    expect(&pager, "xxxxxxxxxx", "xxxxxxxxxx", &"xxxxxxxxxx"[last ? 10 - last : 0]);
    pager_scroll(&pager, -2);
    expect(&pager, "xxxxxxxxxx", "xxxxxxxxxx", "xxxxxxxxxx");
    pager_release(&pager);
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
