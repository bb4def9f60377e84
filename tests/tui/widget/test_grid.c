/* The cells of a screen at their limits: characters of every length, places beyond the edges, areas without
 * room, and double-width characters that are half overwritten. */
#include <locale.h>

#include "tests/cmocka.h"
#include "tests/tui/widget/cells.h"

TEST_CASE(characters_are_encoded_in_as_many_bytes_as_utf8_needs)
{
    static const struct {
        uint32_t point;
        const char *bytes;
    } cases[] = {{'a', "a"},
                 {0x7F, "\x7F"},
                 {0x80, "\xC2\x80"},
                 {0x7FF, "\xDF\xBF"},
                 {0x800, "\xE0\xA0\x80"},
                 {0xFFFF, "\xEF\xBF\xBF"},
                 {0x10000, "\xF0\x90\x80\x80"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char bytes[5];
        size_t n = strlen(cases[i].bytes);
        assert_int_equal(glyph_encode(cases[i].point, bytes, sizeof bytes), n);
        assert_string_equal(bytes, cases[i].bytes);
        assert_int_equal(glyph_encode(cases[i].point, bytes, n + 1), n);
        assert_int_equal(glyph_encode(cases[i].point, bytes, n), 0); /* no room for the zero byte */
    }
}

TEST_CASE(nothing_is_drawn_beyond_the_edges)
{
    static const int places[][2] = {{-1, 0}, {0, -1}, {9, -1}, {10, 0}, {0, 3}, {9, 3}, {-1, -1}};
    struct grid grid = make_grid(10, 3, GLYPHS_BRAILLE);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        grid_put(&grid, places[i][0], places[i][1], 'x', STYLE_TEXT, 0);
        (void)grid_text(&grid, 0, places[i][1] < 0 ? -1 : 3, 10, STYLE_TEXT, 0, "text");
    }
    for (int y = 0; y < 3; y++) assert_row(&grid, y, "");
    grid_release(&grid); /* which finds damage to the memory around the cells */
}

TEST_CASE(a_name_without_room_loses_its_middle)
{
    static const struct {
        const char *name;
        int width;
        const char *shown;
    } cases[] = {
        {"kjv-small-lr3e-4", 16, "kjv-small-lr3e-4"},
        {"kjv-small-lr3e-4", 15, "kjv-sma…-lr3e-4"},
        {"kjv-small-lr3e-4", 8, "kjv…3e-4"},
        {"kjv-small-lr3e-4", 2, "…4"},
        {"kjv-small-lr3e-4", 1, "…"},
        {"kjv-small-lr3e-4", 0, ""},
        {"中文中文中文", 7, "中…文"}, /* of two columns each: half of one is left blank */
    };
    struct grid grid = make_grid(16, 1, GLYPHS_BRAILLE);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        grid_clear(&grid);
        int used = grid_name(&grid, 0, 0, cases[i].width, STYLE_TEXT, 0, cases[i].name);
        assert_row(&grid, 0, cases[i].shown);
        assert_true(used <= cases[i].width);
        assert_int_equal(used, glyph_text_width(cases[i].shown));
    }
    grid_release(&grid);
}

TEST_CASE(a_row_is_read_as_far_as_the_buffer_and_the_grid_go)
{
    char row[6];
    struct err err = {0};
    struct grid grid = make_grid(8, 3, GLYPHS_BRAILLE);
    grid_text(&grid, 0, 0, 8, STYLE_TEXT, 0,
              "abc\xE4\xB8\xAD"
              "d");
    assert_string_equal(grid_row(&grid, 0, row, sizeof row), "abc"); /* and not what lies behind the gap */
    grid_fill(&grid, (struct rect){0, 0, 8, 3}, 'x', STYLE_TEXT);
    assert_int_equal(grid_resize(&grid, 4, 1, &err), STATUS_OK);
    assert_string_equal(grid_row(&grid, 1, row, sizeof row), "");
    assert_string_equal(grid_row(&grid, -1, row, sizeof row), "");
    grid_release(&grid);
}

TEST_CASE(half_of_a_wide_character_becomes_a_space)
{
    static const struct {
        int x;
        const char *text, *row;
    } cases[] = {{0, "a", "a 本語"},  {1, "a", " a本語"}, {3, "ab", "日 ab "}, {1, "中", " 中 語"},
                 {2, "中", "日中語"}, {5, "a", "日本 a"}, {4, "中", "日本中"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct grid grid = make_grid(6, 1, GLYPHS_BRAILLE);
        char row[64], *expected = strdup(cases[i].row);
        grid_text(&grid, 0, 0, 6, STYLE_TEXT, 0, "日本語");
        grid_text(&grid, cases[i].x, 0, 6, STYLE_TEXT, 0, cases[i].text);
        for (size_t n = strlen(expected); n > 0 && expected[n - 1] == ' ';) expected[--n] = '\0';
        assert_string_equal(grid_row(&grid, 0, row, sizeof row), expected);
        for (int x = 0; x < 6; x++) /* a continuation follows its character */
            if (grid.cells[x].glyph == GRID_CONTINUATION)
                assert_true(x > 0 && glyph_width(grid.cells[x - 1].glyph) == 2);
        free(expected);
        grid_release(&grid);
    }
}

TEST_CASE(the_smallest_box_has_corners_and_no_inside)
{
    struct grid grid = make_grid(4, 4, GLYPHS_BRAILLE);
    struct rect inside = grid_box(&grid, (struct rect){1, 1, 2, 2}, STYLE_TEXT, NULL);
    assert_row(&grid, 0, "");
    assert_row(&grid, 1, " ┌┐");
    assert_row(&grid, 2, " └┘");
    assert_row(&grid, 3, "");
    assert_true(inside.w == 0 && inside.h == 0);
    inside = grid_box(&grid, (struct rect){0, 3, 4, 1}, STYLE_TEXT, NULL); /* no room for one */
    assert_row(&grid, 3, "");
    assert_true(inside.w == 0 && inside.h == 0);
    grid_release(&grid);
}

TEST_CASE(text_without_room_takes_no_rows)
{
    struct grid grid = make_grid(4, 4, GLYPHS_BRAILLE);
    assert_int_equal(wrap_draw(&grid, (struct rect){1, 0, 0, 4}, STYLE_TEXT, "some words"), 0);
    assert_int_equal(wrap_draw(&grid, (struct rect){1, 0, 3, 0}, STYLE_TEXT, "some words"), 0);
    for (int y = 0; y < 4; y++) assert_row(&grid, y, "");
    grid_release(&grid);
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
