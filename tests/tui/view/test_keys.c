/* Tests of the keymap: it is unambiguous and complete, and the help and README agree with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h needs setjmp.h, stdarg.h, stddef.h and stdint.h before it */
#include <cmocka.h>
#include <stdio.h>

#include "tui/view/keys.h"

static bool means(const struct key *key, uint32_t code)
{
    return code && (key->code == code || key->other == code);
}

static void no_key_means_two_things_in_one_context(void **state)
{
    (void)state;
    for (size_t i = 0; i < key_count; i++) {
        for (size_t j = 0; j < key_count; j++) {
            bool seen_together = keys[i].context == keys[j].context || keys[j].context == CONTEXT_ANY;
            if (i == j || !seen_together || keys[i].context == CONTEXT_CONFIRM) continue;
            if (means(&keys[j], keys[i].code) || means(&keys[j], keys[i].other))
                fail_msg("\"%s\" and \"%s\" share a key", keys[i].help, keys[j].help);
        }
    }
}

static void own_keys_come_before_those_of_everywhere(void **state)
{
    (void)state;
    assert_int_equal(key_action(CONTEXT_RUNS, K_ENTER), ACTION_OPEN);
    assert_int_equal(key_action(CONTEXT_RUN, K_ENTER), ACTION_ENLARGE);
    assert_int_equal(key_action(CONTEXT_RUNS, '?'), ACTION_HELP);
    assert_int_equal(key_action(CONTEXT_RUN, K_CTRL('c')), ACTION_LEAVE);
    assert_int_equal(key_action(CONTEXT_RUNS, 'Q'), ACTION_NONE);
    assert_int_equal(key_action(CONTEXT_RUNS, K_NONE), ACTION_NONE);
}

static void a_key_with_two_codes_names_both(void **state)
{
    (void)state;
    for (size_t i = 0; i < key_count; i++) {
        int words = 1;
        for (const char *c = keys[i].label; *c; c++) words += *c == ' ';
        assert_int_equal(words, keys[i].other ? 2 : 1);
    }
}

static void the_help_shows_every_key_of_a_context_by_scrolling(void **state)
{
    (void)state;
    struct grid grid = {0};
    struct err err = {0};
    bool seen[128] = {0};
    assert_true(key_count <= 128);
    assert_int_equal(grid_resize(&grid, 80, 12, &err), STATUS_OK);
    grid.level = GLYPHS_BRAILLE;
    for (int wanted = 0; wanted < 60; wanted++) {
        size_t scroll = (size_t)wanted;
        grid_clear(&grid);
        keys_draw_help(&grid, CONTEXT_RUN, &scroll);
        assert_true(scroll <= (size_t)wanted);
        for (int y = 0; y < grid.h; y++) {
            char row[512];
            grid_row(&grid, y, row, sizeof row);
            for (size_t i = 0; i < key_count; i++)
                if ((keys[i].context == CONTEXT_RUN || keys[i].context == CONTEXT_ANY) &&
                    strstr(row, keys[i].help))
                    seen[i] = true;
        }
    }
    for (size_t i = 0; i < key_count; i++)
        if (keys[i].context == CONTEXT_RUN || keys[i].context == CONTEXT_ANY) assert_true(seen[i]);
    grid_release(&grid);
}

/* All lines of the help at one size, as far as they scroll. */
static void scroll_help(int w, enum key_context context, char *buf, size_t size)
{
    struct grid grid = {0};
    struct err err = {0};
    size_t used = 0;
    assert_int_equal(grid_resize(&grid, w, 24, &err), STATUS_OK);
    grid.level = GLYPHS_BRAILLE;
    for (int wanted = 0; wanted < 120; wanted++) {
        size_t scroll = (size_t)wanted;
        grid_clear(&grid);
        keys_draw_help(&grid, context, &scroll);
        for (int y = 0; y < grid.h; y++) {
            char row[1024];
            used += (size_t)snprintf(buf + used, size - used, "%s\n", grid_row(&grid, y, row, sizeof row));
            assert_true(used < size);
        }
    }
    grid_release(&grid);
}

static void the_help_has_room_for_every_word(void **state)
{
    (void)state;
    static char text[1 << 20];
    static const int widths[] = {40, 60, 80, 120, 200};
    for (int context = 0; context < CONTEXT_COUNT; context++)
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
            scroll_help(widths[i], (enum key_context)context, text, sizeof text);
            if (strstr(text, "…")) fail_msg("a word is cut at %d columns", widths[i]);
            for (size_t k = 0; k < key_count; k++) /* one line each where there is room, else wrapped */
                if (keys[k].context == (enum key_context)context && widths[i] >= 80)
                    assert_non_null(strstr(text, keys[k].help));
        }
    scroll_help(40, CONTEXT_RUNS, text, sizeof text);
    assert_non_null(strstr(text, "│  D            delete an ended run    │")); /* and goes on below */
    assert_non_null(strstr(text, "│               with its checkpoints   │"));
}

static void hints_always_show_the_way_back(void **state)
{
    (void)state;
    static const bool all[ACTION_COUNT];
    struct grid grid = {0};
    struct err err = {0};
    for (int w = 40; w <= 200; w++) {
        char row[1024];
        assert_int_equal(grid_resize(&grid, w, 1, &err), STATUS_OK);
        grid.level = GLYPHS_ASCII;
        keys_draw_hints(&grid, (struct rect){0, 0, w, 1}, CONTEXT_RUN, all);
        grid_row(&grid, 0, row, sizeof row);
        assert_non_null(strstr(row, "q back"));
        assert_non_null(strstr(row, "? help"));
    }
    grid_release(&grid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_key_means_two_things_in_one_context),
        cmocka_unit_test(own_keys_come_before_those_of_everywhere),
        cmocka_unit_test(a_key_with_two_codes_names_both),
        cmocka_unit_test(the_help_shows_every_key_of_a_context_by_scrolling),
        cmocka_unit_test(the_help_has_room_for_every_word),
        cmocka_unit_test(hints_always_show_the_way_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
