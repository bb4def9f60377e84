/* The mouse: its reports, what they do in views, and on a real terminal. */
#include <locale.h>

#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/fill.h"
#include "tests/tui/view/headless.h"
#include "tests/tui/view/pty.h"
#include "tests/tui/view/terminal_fixture.h"
#include "tui/view/mouse.h"

TEST_CASE(reports_are_read_whole_or_not_at_all)
{
    static const struct {
        const char *report;
        uint32_t code;
        int x, y, wheel;
    } good[] = {{"0;1;1M", K_CLICK, 0, 0, 0},        {"32;300;90M", K_DRAG, 299, 89, 0},
                {"35;12;7M", K_MOVE, 11, 6, 0},      {"64;5;6M", K_WHEEL, 4, 5, -1},
                {"65;5;6M", K_WHEEL, 4, 5, 1},       {"35;224;1M", K_MOVE, 223, 0, 0},
                {"0;32768;1M", K_CLICK, 32767, 0, 0}};
    static const char *const none[] = {
        "",          "M",       "0;1;1",   "0;1;1m",  "0;0;1M",     "0;1;0M",      "2;1;1M",
        "4;1;1M",    "36;1;1M", "66;1;1M", "34;1;1M", "128;1;1M",   "0;99999;1M",  "0;1M",
        "-1;-1;-1M", "0;1;1MM", "a;b;cM",  "0;1;1X",  "99999;1;1M", "0;123456;1M", "4294967296;1;1M"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct pointer at = {-1, -1, 9};
        assert_int_equal(mouse_read(good[i].report, &at), good[i].code);
        assert_true(at.x == good[i].x && at.y == good[i].y && at.wheel == good[i].wheel);
    }
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        struct pointer at = {-1, -1, 9};
        if (mouse_read(none[i], &at) != K_REPORT) fail_msg("\"%s\" was read", none[i]);
        assert_true(at.x == -1 && at.y == -1 && at.wheel == 9);
    }
}

static void report(struct workbench *workbench, uint32_t code, int x, int y, int wheel)
{
    workbench_mouse(workbench, code, &(struct pointer){x, y, wheel});
}

enum { W = 120, H = 40, X = 30, Y = 8 /* in the chart of the loss */ };

static void expect(struct workbench *workbench, const char *words)
{
    headless_expect(workbench, W, H, W, words);
}

TEST_CASE(a_click_beside_the_rows_selects_none)
{
    char home[1024];
    fill_thirty("beside", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "G");
    int row = headless_selected_row(workbench, 80, 24);
    report(workbench, K_CLICK, 10, 1, 0); /* the titles, above which rows are scrolled away */
    assert_int_equal(headless_selected_row(workbench, 80, 24), row);
    row = headless_selected_row(workbench, W, H);
    report(workbench, K_CLICK, 10, row + 1, 0); /* below the last one */
    assert_int_equal(headless_selected_row(workbench, W, H), row);
}

TEST_CASE(the_cursor_follows_the_pointer_until_a_click_pins_it)
{
    char home[1024];
    fill_five_hundred("pointer", home, sizeof home);
    struct workbench *workbench = headless_open(home, "ended");
    headless_expect_not(workbench, W, H, "loss @"); /* also places the charts */
    expect(workbench, "▸loss");
    report(workbench, K_MOVE, X, Y, 0);
    expect(workbench, "▸loss @");
    expect(workbench, "learning rate @"); /* the cursor is that of all charts */
    char left[1024];
    snprintf(left, sizeof left, "%s", headless_row_with(workbench, W, H, "▸loss @"));
    report(workbench, K_MOVE, X + 10, Y, 0);
    assert_string_not_equal(headless_row_with(workbench, W, H, "▸loss @"), left);
    report(workbench, K_MOVE, X, 0, 0); /* in the header */
    headless_expect_not(workbench, W, H, "loss @");
    report(workbench, K_CLICK, 90, Y, 0); /* in the next chart */
    expect(workbench, "▸learning rate @");
    report(workbench, K_MOVE, X, 0, 0);
    expect(workbench, "▸learning rate @");
    char pinned[1024];
    snprintf(pinned, sizeof pinned, "%s", headless_row_with(workbench, W, H, "learning rate @"));
    report(workbench, K_MOVE, X, Y, 0);
    assert_string_equal(headless_row_with(workbench, W, H, "learning rate @"), pinned);
}

TEST_CASE(the_pointer_is_in_a_chart_from_its_title_to_its_axis)
{
    char home[1024], row[1024];
    fill_five_hundred("edges", home, sizeof home);
    struct workbench *workbench = headless_open(home, "ended");
    struct grid grid = headless_draw(workbench, W, H);
    int title = 0, below = 0;
    while (!strstr(grid_row(&grid, title, row, sizeof row), "▸loss")) title++;
    while (!strstr(grid_row(&grid, below, row, sizeof row), " sample ")) below++;
    grid_release(&grid);
    for (int y = 0; y < H - 1; y++) {
        if (y > title && y < below - 1) continue;
        report(workbench, K_MOVE, X, y, 0);
        assert_int_equal(headless_row_with(workbench, W, H, "loss @") != NULL, y == title || y == below - 1);
    }
}

TEST_CASE(a_message_stays_while_the_pointer_only_moves)
{
    char home[1024];
    fill_five_hundred("message", home, sizeof home);
    struct workbench *workbench = headless_open(home, "ended");
    expect(workbench, "▸loss");
    static const uint32_t others[] = {K_CLICK, K_WHEEL};
    for (int i = 0; i < 2; i++) {
        workbench_say(workbench, "nothing to do");
        report(workbench, K_MOVE, X, Y, 0);
        expect(workbench, "nothing to do");
        report(workbench, others[i], X, Y, -1);
        headless_expect_not(workbench, W, H, "nothing to do");
    }
}

TEST_CASE(the_wheel_zooms_at_the_pointer_and_dragging_pans)
{
    char home[1024], step[1024];
    fill_five_hundred("wheel", home, sizeof home);
    struct workbench *workbench = headless_open(home, "ended");
    expect(workbench, "▸loss");
    report(workbench, K_DRAG, X, Y, 0); /* nothing to pan yet */
    expect(workbench, " 0 ");
    report(workbench, K_MOVE, X, Y, 0);
    snprintf(step, sizeof step, "%s", strstr(headless_row_with(workbench, W, H, "loss @"), "@"));
    step[strcspn(step, " ")] = '\0';
    for (int i = 0; i < 4; i++) report(workbench, K_WHEEL, X, Y, -1);
    headless_expect_not(workbench, W, H, " 400 ");
    report(workbench, K_MOVE, X, Y, 0);
    expect(workbench, step); /* the step at the pointer has stayed there */
    report(workbench, K_CLICK, X, Y, 0);
    report(workbench, K_DRAG, X - 20, Y, 0);
    report(workbench, K_MOVE, X, 0, 0);
    headless_expect_not(workbench, W, H, "all is shown");
    report(workbench, K_CLICK, X, Y, 0);
    headless_expect_not(workbench, W, H, step); /* later steps are there now */
    for (int i = 0; i < 12; i++) report(workbench, K_WHEEL, X, Y, 1);
    expect(workbench, " 400 ");
    for (int i = 0; i < 60; i++) report(workbench, K_WHEEL, X, Y, -1); /* to the smallest window */
    report(workbench, K_CLICK, X, Y, 0);
    char before[1024];
    snprintf(before, sizeof before, "%s", headless_row_with(workbench, W, H, "loss @"));
    report(workbench, K_CLICK, X, 0, 0); /* from outside, nothing is dragged */
    report(workbench, K_DRAG, X + 20, Y, 0);
    report(workbench, K_CLICK, X, Y, 0);
    assert_string_equal(headless_row_with(workbench, W, H, "loss @"), before);
    for (int x = 0; x < W; x++) report(workbench, K_DRAG, x, Y, 0);
    for (int y = -5; y < H + 5; y++) report(workbench, K_CLICK, 500, y, 0);
    expect(workbench, "loss @");
}

/* The step at the pointer. */
static long step_at(struct workbench *workbench, int x)
{
    report(workbench, K_MOVE, x, Y, 0);
    const char *at = strstr(headless_row_with(workbench, W, H, "loss @"), "@");
    return strtol(at + 1, NULL, 10);
}

TEST_CASE(the_wheel_zooms_at_the_pointer_on_a_logarithmic_axis_too)
{
    char home[1024];
    fill_five_hundred("wheel-log", home, sizeof home);
    struct workbench *workbench = headless_open(home, "ended");
    headless_type(workbench, "X");
    expect(workbench, "▸loss");
    long step = step_at(workbench, 45);
    for (int i = 0; i < 4; i++) {
        report(workbench, K_WHEEL, 45, Y, -1);
        assert_in_range(step_at(workbench, 45), step - 4, step + 4); /* a column has two of them */
    }
    headless_expect_not(workbench, W, H, " 200 ");
    for (int i = 0; i < 8; i++) report(workbench, K_WHEEL, 45, Y, 1);
    assert_int_equal(step_at(workbench, 45), step); /* all of it again */
}

TEST_CASE(a_comparison_is_pointed_at_and_zoomed_as_well)
{
    char home[1024], place[1024];
    fill_thirty("compared", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "  C"); /* two runs of 11 steps */
    headless_expect(workbench, W, H, W, "compare 2 runs");
    headless_expect_not(workbench, W, H, "@");
    report(workbench, K_MOVE, 60, 10, 0);
    expect(workbench, "@");
    snprintf(place, sizeof place, "%s", strchr(headless_row_with(workbench, W, H, "@"), '@'));
    place[strcspn(place, " ")] = '\0';
    for (int i = 0; i < 3; i++) report(workbench, K_WHEEL, 60, 10, -1);
    report(workbench, K_MOVE, 60, 10, 0);
    expect(workbench, place);
    report(workbench, K_MOVE, 60, H - 1, 0);
    headless_expect_not(workbench, W, H, "@");
    report(workbench, K_CLICK, 60, 10, 0);
    report(workbench, K_DRAG, 0, 10, 0);
    report(workbench, K_DRAG, 110, 10, 0);
    report(workbench, K_MOVE, 60, H - 1, 0);
    expect(workbench, "@"); /* it was left there */
}

/* The column in which a row of a chart has the cursor; -1: none. */
static int cursor_column(struct workbench *workbench, int y)
{
    struct grid grid = headless_draw(workbench, W, H);
    int found = -1;
    for (int x = 0; x < W; x++)
        if (grid.cells[y * W + x].glyph == 0x250A) found = x;
    grid_release(&grid);
    return found;
}

TEST_CASE(the_cursor_of_a_comparison_is_under_the_pointer_on_every_axis)
{
    static const struct fill fill = {
        .steps = 301, .total_steps = 301, .spike_step = -1, .status = RUN_FINISHED};
    char home[1024];
    store_fixture_home("axes", home, sizeof home);
    for (int i = 0; i < 2; i++) {
        struct fill named = fill;
        struct fill_run run;
        named.name = i ? "one" : "other";
        fill_run(home, &named, &run);
    }
    store_fixture_sql(home, "update steps set step_ms = null"); /* as of an import: it begins at 0 */
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "aC");
    for (int axis = 0; axis < 5; axis++, headless_type(workbench, "x"))
        for (int log = 0; log < 2; log++, headless_type(workbench, "X"))
            for (int x = 40; x < 110; x += 20) {
                workbench_key(workbench, K_END);
                report(workbench, K_MOVE, x, 0, 0);
                headless_expect(workbench, W, H, W, "compare 2 runs"); /* drawn once */
                report(workbench, K_MOVE, x, 10, 0);
                int at = cursor_column(workbench, 20);
                if (axis != 3 && abs(at - x) > 2) /* a whole step may lie beside it */
                    fail_msg("axis %d, %s: column %d, not %d", axis, log ? "logarithmic" : "linear", at, x);
            }
}

TEST_CASE(a_click_selects_a_row_and_opens_it_the_second_time)
{
    char home[1024];
    fill_thirty("click", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    assert_int_equal(headless_selected_row(workbench, 80, 24), 2);
    report(workbench, K_CLICK, 10, 5, 0);
    assert_int_equal(headless_selected_row(workbench, 80, 24), 5);
    report(workbench, K_CLICK, 10, 1, 0); /* a title, and the last row */
    report(workbench, K_CLICK, 10, 23, 0);
    report(workbench, K_MOVE, 10, 7, 0);
    assert_int_equal(headless_selected_row(workbench, 80, 24), 5);
    report(workbench, K_WHEEL, 10, 5, 1);
    assert_int_equal(headless_selected_row(workbench, 80, 24), 8);
    report(workbench, K_WHEEL, 10, 5, -1);
    headless_type(workbench, "D"); /* the mouse never answers */
    headless_expect(workbench, 80, 24, 80, "y: yes");
    report(workbench, K_CLICK, 10, 7, 0);
    report(workbench, K_WHEEL, 10, 7, 1);
    headless_expect(workbench, 80, 24, 80, "y: yes");
    headless_type(workbench, "nn"); /* and never types */
    headless_expect(workbench, 80, 24, 80, "▸ name ");
    report(workbench, K_WHEEL, 10, 7, 1);
    report(workbench, K_CLICK, 10, 7, 0);
    headless_expect(workbench, 80, 24, 80, "▸ name ");
    workbench_key(workbench, K_ESCAPE);
    headless_type(workbench, "?");
    headless_expect(workbench, 80, 24, 80, "Keys");
    headless_expect_not(workbench, 80, 24, "leave the workbench"); /* the last line */
    for (int i = 0; i < 99; i++) report(workbench, K_WHEEL, 10, 7, 1);
    headless_expect(workbench, 80, 24, 80, "Keys", "leave the workbench");
    for (int i = 0; i < 99; i++) report(workbench, K_WHEEL, 10, 7, -1);
    headless_expect_not(workbench, 80, 24, "leave the workbench");
    report(workbench, K_CLICK, 10, 7, 0);
    headless_expect_not(workbench, 80, 24, "Keys");
    report(workbench, K_CLICK, 10, 5, 0);
    headless_expect(workbench, 80, 24, 80, "loss");
    headless_type(workbench, "q/zzz\r"); /* no row is shown */
    report(workbench, K_CLICK, 10, 2, 0);
    headless_expect_not(workbench, 80, 24, "no run given");
    headless_press(workbench, K_ESCAPE, 1);
    headless_type(workbench, "\r");
    headless_type(workbench, "x");
    headless_expect(workbench, 80, 24, 80, "Charts");
    report(workbench, K_CLICK, 10, 3, 0);
    headless_type(workbench, " ");
    headless_expect(workbench, 80, 24, 80, "[ ] lr");
}

TEST_CASE(a_terminal_sends_reports_of_any_column)
{
    char home[1024], environment[1100];
    fill_five_hundred("terminal", home, sizeof home);
    snprintf(environment, sizeof environment, "ANNEAL_HOME=%s", home);
    const char *watch[] = {"watch", "ended", NULL};
    struct pty *pty = terminal_open(environment, 60, 300, NULL, NULL, watch);
    pty_wait_text(pty, "▸loss");
    assert_non_null(strstr(pty_raw(pty), mouse_on));
    pty_send(pty, "?");
    pty_wait_text(pty, "Keys");
    pty_send(pty,
             "\033[<0;9;9m\033[<2;9;9M\033[<39;9;9M"); /* released, the right button, with Shift: no key */
    pty_send(pty, "\t"); /* closes the help, and does not go to the next chart */
    pty_wait_no_text(pty, "Keys");
    pty_wait_text(pty, "▸loss");
    pty_send(pty, "\033[<35;230;8M"); /* beyond what other encodings can say */
    pty_wait_text(pty, "▸loss @");
    pty_send(pty, "\033[<0;2");
    pty_send(pty, "30;8M\033[<0;230;8m"); /* the fourth chart, in pieces */
    pty_wait_no_text(pty, "▸loss");
    pty_send(pty, "\033[<0;1;xq\033[<99999999999999999999999999999999999999999999;1M"); /* no reports */
    pty_send(pty, "\033OS");                                                            /* F4 */
    pty_wait_text(pty, "the mouse is off");
    assert_non_null(strstr(pty_raw(pty), mouse_off));
    pty_send(pty, "\033OS");
    pty_wait_text(pty, "hold Shift to select text");
    pty_send(pty, "\003");
    assert_int_equal(pty_wait_exit(pty), 0);
    const char *raw = pty_raw(pty), *last = NULL;
    for (const char *at = raw; (at = strstr(at, mouse_off)) != NULL; at++) last = at;
    assert_non_null(last);
    assert_null(strstr(last, mouse_on)); /* the shell gets a quiet mouse */
    pty_close(pty);
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
