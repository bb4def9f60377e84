/* Tests of the keymap: it is unambiguous and complete, and the help and README agree with it. */
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tui/view/keymap.h"

static const bool all[ACTION_COUNT]; /* no action is of no use */
static struct keymap keymap;

static bool means(const struct key *key, uint32_t code)
{
    return code && (key->code == code || key->other == code);
}

TEST_CASE(no_key_means_two_things_in_one_context)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        for (size_t j = 0; j < KEY_COUNT; j++) {
            bool seen_together = keys[i].context == keys[j].context || keys[j].context == CONTEXT_ANY;
            if (i == j || !seen_together || keys[i].context == CONTEXT_CONFIRM) continue;
            if (means(&keys[j], keys[i].code) || means(&keys[j], keys[i].other))
                fail_msg("\"%s\" and \"%s\" share a key", keys[i].help, keys[j].help);
        }
    }
}

TEST_CASE(own_keys_come_before_those_of_everywhere)
{
    assert_int_equal(key_action(&keymap, CONTEXT_RUNS, K_ENTER), ACTION_OPEN);
    assert_int_equal(key_action(&keymap, CONTEXT_RUN, K_ENTER), ACTION_ENLARGE);
    assert_int_equal(key_action(&keymap, CONTEXT_RUNS, '?'), ACTION_HELP);
    assert_int_equal(key_action(&keymap, CONTEXT_RUN, K_CTRL('c')), ACTION_LEAVE);
    assert_int_equal(key_action(&keymap, CONTEXT_RUNS, 'Q'), ACTION_NONE);
    assert_int_equal(key_action(&keymap, CONTEXT_RUNS, K_NONE), ACTION_NONE);
}

TEST_CASE(a_key_with_two_codes_names_both)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        int words = 1;
        for (const char *c = keys[i].label; *c; c++) words += *c == ' ';
        assert_int_equal(words, keys[i].other ? 2 : 1);
    }
}

TEST_CASE(the_help_shows_every_key_of_a_context_by_scrolling)
{
    struct grid grid = {0};
    struct err err = {0};
    bool seen[KEY_COUNT] = {0};
    assert_true(KEY_COUNT <= sizeof seen);
    assert_int_equal(grid_resize(&grid, 80, 12, &err), STATUS_OK);
    grid.level = GLYPHS_BRAILLE;
    for (int wanted = 0; wanted < 60; wanted++) {
        size_t scroll = (size_t)wanted;
        grid_clear(&grid);
        keys_draw_help(&grid, &keymap, CONTEXT_RUN, all, &scroll);
        assert_true(scroll <= (size_t)wanted);
        for (int y = 0; y < grid.h; y++) {
            char row[512];
            grid_row(&grid, y, row, sizeof row);
            for (size_t i = 0; i < KEY_COUNT; i++)
                if ((keys[i].context == CONTEXT_RUN || keys[i].context == CONTEXT_ANY) &&
                    strstr(row, keys[i].help))
                    seen[i] = true;
        }
    }
    for (size_t i = 0; i < KEY_COUNT; i++)
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
        keys_draw_help(&grid, &keymap, context, all, &scroll);
        for (int y = 0; y < grid.h; y++) {
            char row[1024];
            used += (size_t)snprintf(buf + used, size - used, "%s\n", grid_row(&grid, y, row, sizeof row));
            assert_true(used < size);
        }
    }
    grid_release(&grid);
}

TEST_CASE(the_help_has_room_for_every_word)
{
    static char text[1 << 20];
    static const int widths[] = {40, 60, 80, 120, 200};
    for (int context = 0; context < CONTEXT_COUNT; context++)
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
            scroll_help(widths[i], (enum key_context)context, text, sizeof text);
            if (strstr(text, "…")) fail_msg("a word is cut at %d columns", widths[i]);
            for (size_t k = 0; k < KEY_COUNT; k++) /* one line each where there is room, else wrapped */
                if (keys[k].context == (enum key_context)context && widths[i] >= 80)
                    assert_non_null(strstr(text, keys[k].help));
        }
    scroll_help(40, CONTEXT_RUNS, text, sizeof text);
    assert_non_null(strstr(text, "│  D            delete an ended run    │")); /* and goes on below */
    assert_non_null(strstr(text, "│               with its checkpoints   │"));
}

TEST_CASE(hints_always_show_the_way_back)
{
    struct grid grid = {0};
    struct err err = {0};
    for (int w = 40; w <= 200; w++) {
        char row[1024];
        assert_int_equal(grid_resize(&grid, w, 1, &err), STATUS_OK);
        grid.level = GLYPHS_ASCII;
        keys_draw_hints(&grid, (struct rect){0, 0, w, 1}, &keymap, CONTEXT_RUN, all);
        grid_row(&grid, 0, row, sizeof row);
        assert_non_null(strstr(row, "q back"));
        assert_non_null(strstr(row, "? help"));
    }
    grid_release(&grid);
}

TEST_CASE(every_label_names_its_keys)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        char label[64], *rest = label;
        snprintf(label, sizeof label, "%s", keys[i].label);
        if (!keys[i].code) continue;
        assert_int_equal(keymap_code(strsep(&rest, " ")), keys[i].code);
        assert_int_equal(rest ? keymap_code(rest) : 0, keys[i].other);
    }
    assert_int_equal(keymap_code("F2"), K_F2);
    assert_int_equal(keymap_code("F12"), K_F12);
    assert_int_equal(keymap_code("ctrl-p"), K_CTRL('p'));
    assert_int_equal(keymap_code("\u00e9"), 0xE9);
    static const char *const none[] = {"",       " ",      "F0",     "F13", "Fx", "Ctrl-",
                                       "Ctrl-M", "Ctrl-Z", "Ctrl-1", "ab",  "\t", "Ctrl-Pq"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) assert_int_equal(keymap_code(none[i]), K_NONE);
}

TEST_CASE(every_key_of_a_context_has_a_command_of_its_own)
{
    char name[COMMAND_NAME_MAX];
    assert_string_equal(command_name(ACTION_ZOOM_IN, name), "zoom-in");
    for (size_t i = 0; i < KEY_COUNT; i++) {
        assert_true(strlen(command_name(keys[i].action, name)) < COMMAND_NAME_MAX - 1);
        for (size_t j = 0; j < i; j++)
            if (keys[j].action == keys[i].action &&
                (keys[j].context == keys[i].context || keys[j].context == CONTEXT_ANY))
                fail_msg("two keys are the command %s", name);
    }
}

/* The keymap that workbench.ini with this text gives; returns what it reports. */
static const char *read_keys(const char *text, struct keymap *out)
{
    static char problem[600];
    char home[1024];
    struct settings settings;
    store_fixture_home("keys", home, sizeof home);
    store_fixture_settings(home, text);
    settings_open(&settings, home);
    keymap_init(out);
    keymap_read(out, &settings, problem, sizeof problem);
    assert_int_equal(settings_close(&settings, NULL), STATUS_OK);
    return problem;
}

TEST_CASE(keys_are_bound_by_lines_of_the_settings)
{
    struct keymap own;
    const char *problem = read_keys("runs.sort = -best\nkey.runs.pause = Ctrl-P F9\nkey.run.lr-lower =\n"
                                    "key.any.help = F3\n",
                                    &own);
    assert_string_equal(problem, "");
    assert_int_equal(key_action(&own, CONTEXT_RUNS, K_CTRL('p')), ACTION_PAUSE);
    assert_int_equal(key_action(&own, CONTEXT_RUNS, K_F1 + 8), ACTION_PAUSE);
    assert_int_equal(key_action(&own, CONTEXT_RUNS, 'p'), ACTION_NONE);
    assert_int_equal(key_action(&own, CONTEXT_RUN, 'p'), ACTION_PAUSE); /* another context */
    assert_int_equal(key_action(&own, CONTEXT_RUN, '<'), ACTION_NONE);
    assert_int_equal(key_action(&own, CONTEXT_RUN, '?'), ACTION_NONE);
    char name[KEY_NAME_MAX]; /* in sentences */
    assert_string_equal(key_word(&own, CONTEXT_RUNS, ACTION_PAUSE, name), "Ctrl-P");
    assert_string_equal(key_word(&own, CONTEXT_RUNS, ACTION_UNDO, name), "u");
    assert_string_equal(key_word(&own, CONTEXT_RUN, ACTION_LR_LOWER, name), ":lr-lower");
    struct keymap tabbed;
    assert_string_equal(read_keys("key.runs.pause = Ctrl-P\tF9\n", &tabbed), "");
    assert_int_equal(key_action(&tabbed, CONTEXT_RUNS, K_F1 + 8), ACTION_PAUSE);
    assert_string_equal(key_word(&tabbed, CONTEXT_RUNS, ACTION_PAUSE, name), "Ctrl-P");
    struct grid grid = {0};
    struct err err = {0};
    char row[512];
    assert_int_equal(grid_resize(&grid, 200, 1, &err), STATUS_OK);
    keys_draw_hints(&grid, (struct rect){0, 0, 200, 1}, &own, CONTEXT_RUNS, all);
    grid_row(&grid, 0, row, sizeof row);
    assert_non_null(strstr(row, "Ctrl-P pause"));
    assert_non_null(strstr(row, "F3 help"));
    assert_string_equal(read_keys("key.runs.pause =\n", &own), "");
    grid_clear(&grid);
    keys_draw_hints(&grid, (struct rect){0, 0, 200, 1}, &own, CONTEXT_RUNS, all);
    assert_null(strstr(grid_row(&grid, 0, row, sizeof row), "pause")); /* which has no key */
    grid_release(&grid);
}

TEST_CASE(a_line_that_cannot_hold_is_reported_and_has_no_effect)
{
    static const struct {
        const char *text, *problem;
    } lines[] = {
        {"; mine\nkey.runs.pause = s\n", "/workbench.ini:2: key.runs.pause = s: the key is taken by stop"},
        {"key.runs.pause = ?\n", "/workbench.ini:1: key.runs.pause = ?: the key is taken by help"},
        {"key.any.help = p\n", "the key is taken by"},
        {"key.runs.pauze = x\n", "/workbench.ini:1: key.runs.pauze = x: no such command"},
        {"key.nowhere.pause = x\n", "no such command"},
        {"key.runs = x\n", "no such command"},
        {"key.runs.pause = Hyper-P\n", "\"Hyper-P\" is no key"},
        {"key.runs.pause = 1 2 3\n", "more than two keys"},
        {"key.runs.pause = Backspace or Shift-Tab too\n", "is no name of a key, or of two"},
        {"key.form.start = x\n", "\"x\" is text in the form"},
        {"key.form.start = Space\n", "\"Space\" is text in the form"},
        {"key.form.start = Up\n", "the key is taken by previous"},
        {"key.runs.pause = 1 s\n", "the key is taken by stop"}, /* the second of its keys */
        {"key.runs.pause = F1\n", "the key is taken by help"},  /* the second of the other's */
        {"key.runs.pause = 1 F1\n", "the key is taken by help"},
        {"key.runs.pause = 1\n\nkey.runs.pause = 2\n",
         "/workbench.ini:3: key.runs.pause = 2: line 1 binds it"},
        {"key.runs.pause = s\nkey.a.b = s\nkey.a.c = s\n", "and 2 more lines"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct keymap own;
        const char *problem = read_keys(lines[i].text, &own);
        if (!strstr(problem, lines[i].problem)) fail_msg("%s: %s", lines[i].text, problem);
        assert_int_equal(key_action(&own, CONTEXT_RUNS, 's'), ACTION_STOP);
        assert_int_equal(key_action(&own, CONTEXT_RUNS, '?'), ACTION_HELP);
        assert_int_equal(key_action(&own, CONTEXT_RUN, 'p'), ACTION_PAUSE);
    }
}

TEST_CASE(two_keys_can_change_places)
{
    struct keymap own;
    assert_string_equal(read_keys("key.runs.pause = s\nkey.runs.stop = p\n", &own), "");
    assert_int_equal(key_action(&own, CONTEXT_RUNS, 's'), ACTION_PAUSE);
    assert_int_equal(key_action(&own, CONTEXT_RUNS, 'p'), ACTION_STOP);
    /* and where one of them cannot, neither does */
    assert_non_null(strstr(read_keys("key.runs.pause = s\nkey.runs.stop = r\n", &own), "key.runs.stop"));
    assert_int_equal(key_action(&own, CONTEXT_RUNS, 's'), ACTION_STOP);
    assert_int_equal(key_action(&own, CONTEXT_RUNS, 'p'), ACTION_PAUSE);
}

int main(void)
{
    keymap_init(&keymap);
    return TEST_RUN(NULL, NULL);
}
