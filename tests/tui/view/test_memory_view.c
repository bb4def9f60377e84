/* Tests of the memory of a run as cells: stacked bars, and the panel around them. No terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h needs setjmp.h, stdarg.h, stddef.h and stdint.h before it */
#include <cmocka.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>

#include "tests/tui/widget/cells.h"
#include "tui/view/memory_view.h"
#include "tui/widget/bars.h"

#define MIB (1 << 20)
#define GIB ((int64_t)1 << 30)

static const struct stack_part three[] = {
    {50, 0x2588, 'W', STYLE_TRAIN}, {30, 0x2593, 'G', STYLE_LR}, {20, 0x2592, 'M', STYLE_SPEED}};

static void parts_fill_the_bar_in_proportion(void **state)
{
    (void)state;
    struct grid grid = make_grid(12, 1, GLYPHS_BRAILLE);
    assert_int_equal(stack_draw(&grid, 0, 0, 10, three, 3, 100), 10);
    assert_row(&grid, 0, "██W██▓G▓▒▒");
    assert_int_equal(grid.cells[0].style, STYLE_TRAIN);
    assert_int_equal(grid.cells[5].style, STYLE_LR);
    assert_true(grid.cells[2].attr & ATTR_REVERSE); /* a letter reads as one without colour, too */
    grid_clear(&grid);
    assert_int_equal(stack_draw(&grid, 0, 0, 10, three, 3, 200), 5);
    assert_row(&grid, 0, "█W█▓▒"); /* 2.5, 4 and 5 cells, each end to the nearest */
    grid_release(&grid);
}

static void ascii_bars_are_made_of_letters(void **state)
{
    (void)state;
    struct grid grid = make_grid(12, 1, GLYPHS_ASCII);
    stack_draw(&grid, 1, 0, 10, three, 3, 100);
    assert_row(&grid, 0, " WWWWWGGGMM");
    grid_release(&grid);
}

static void what_lies_beyond_the_scale_is_marked(void **state)
{
    (void)state;
    struct grid grid = make_grid(12, 1, GLYPHS_ASCII);
    assert_int_equal(stack_draw(&grid, 0, 0, 10, three, 3, 60), 10);
    assert_row(&grid, 0, "WWWWWWWWG>");
    grid_clear(&grid);
    stack_draw(&grid, 0, 0, 10, three, 3, 100); /* exactly full is not cut */
    assert_row(&grid, 0, "WWWWWGGGMM");
    grid_release(&grid);
}

static void the_smallest_amount_has_a_cell_and_nothing_has_none(void **state)
{
    (void)state;
    struct grid grid = make_grid(12, 1, GLYPHS_ASCII);
    struct stack_part part = {1e-9, 'x', 'x', STYLE_TEXT};
    assert_int_equal(stack_draw(&grid, 0, 0, 10, &part, 1, 1), 1);
    assert_row(&grid, 0, "x");
    grid_clear(&grid);
    part.amount = 0;
    assert_int_equal(stack_draw(&grid, 0, 0, 10, &part, 1, 1), 0);
    part.amount = NAN;
    assert_int_equal(stack_draw(&grid, 0, 0, 10, &part, 1, 1), 0);
    part.amount = 1;
    assert_int_equal(stack_draw(&grid, 0, 0, 10, &part, 1, 0), 0); /* no scale, no bar */
    assert_row(&grid, 0, "");
    grid_release(&grid);
}

/* --- the panel --- */

/* A run of 1 GiB planned in five categories, 1.5 GiB held, on a device of 8 GiB of which 4 are in use. */
static struct memory_record records[] = {{0, "workspace", 128 * MIB, 128 * MIB, 128 * MIB},
                                         {0, "weights", 256 * MIB, 256 * MIB, 256 * MIB},
                                         {0, "moments", 256 * MIB, 256 * MIB, 256 * MIB},
                                         {0, "gradients", 128 * MIB, 128 * MIB, 128 * MIB},
                                         {0, "activations", 256 * MIB, 256 * MIB, 300 * MIB}};

static struct memory_usage usage_of_five(void)
{
    return (struct memory_usage){.categories = records,
                                 .category_count = 5,
                                 .has_sample = true,
                                 .reserve = 0.125,
                                 .sample = {.wall_time = 1e9,
                                            .gpu = 0,
                                            .memory_used_bytes = 4 * GIB,
                                            .memory_total_bytes = 8 * GIB,
                                            .process_bytes = 1536 * (int64_t)MIB,
                                            .utilization_pct = NAN,
                                            .power_w = NAN,
                                            .temperature_c = NAN,
                                            .sm_clock_mhz = NAN,
                                            .load_1m = NAN}};
}

static char *drawn(const struct memory_panel *panel, int w, int h, enum glyph_level level, char *buf,
                   size_t size)
{
    struct grid grid = make_grid(w, h, level);
    size_t used = 0;
    memory_panel_draw(&grid, (struct rect){0, 0, w, h}, panel);
    buf[0] = '\0';
    for (int y = 0; y < h; y++) {
        char row[4096];
        used += (size_t)snprintf(buf + used, size - used, "%s\n", grid_row(&grid, y, row, sizeof row));
        assert_true(used < size);
    }
    grid_release(&grid);
    return buf;
}

static void assert_shows(const char *text, const char *wanted)
{
    if (strstr(text, wanted)) return;
    print_error("%s", text); /* longer than fail_msg takes */
    fail_msg("\"%s\" is not there", wanted);
}

/* The line that holds `word` ends in `end`. */
static void assert_line(const char *text, const char *word, const char *end)
{
    const char *at = strstr(text, word);
    if (!at) fail_msg("\"%s\" is not there", word);
    size_t n = strcspn(at, "\n"), m = strlen(end);
    if (n < m || memcmp(at + n - m, end, m) != 0) fail_msg("\"%.*s\" does not end in %s", (int)n, at, end);
}

static void three_bars_have_one_scale(void **state)
{
    (void)state;
    char text[20000];
    struct memory_usage usage = usage_of_five();
    struct memory_panel panel = {.usage = &usage, .now = 1e9 + 5, .scale = MEMORY_SCALE_DEVICE};
    /* the bars are 100 - 9 - 22 - 3 = 66 cells for 8 GiB: a GiB is 8.25 */
    drawn(&panel, 100, 24, GLYPHS_ASCII, text, sizeof text);
    assert_shows(text, " planned  WWGMMAAK  ");
    assert_shows(text, " held     WWGMMAAK++++  ");
    assert_shows(text, " device   PPPPPPPPPPPPOOOOOOOOOOOOOOOOOOOOO");
    assert_shows(text, "OOO.........................RRRRRRRR ");
    assert_shows(text, "1.0 GiB\n");
    assert_shows(text, "1.5 GiB\n");
    assert_shows(text, "4.0 GiB of 8.0 GiB\n");
    panel.scale = MEMORY_SCALE_RUN;
    drawn(&panel, 100, 24, GLYPHS_ASCII, text, sizeof text);
    assert_shows(text, " planned  WWWWWWWWWWW"); /* a quarter of 1.5 GiB of 66 cells */
    assert_shows(text, "PPPPP>");                /* and the device goes on beyond it */
}

static void no_title_is_cut_on_a_narrow_screen(void **state)
{
    (void)state;
    char text[20000];
    struct memory_usage usage = usage_of_five();
    struct memory_panel panel = {.usage = &usage, .now = 1e9};
    for (int w = 40; w < 100; w++) {
        drawn(&panel, w, 24, GLYPHS_BRAILLE, text, sizeof text);
        if (strstr(text, "…")) fail_msg("%d columns: a word is cut: %s", w, text);
        assert_shows(text, "on one scale");
    }
}

static void what_is_unknown_is_seen_in_a_locale_without_unicode(void **state)
{
    (void)state;
    char text[20000];
    struct memory_usage usage = usage_of_five();
    struct memory_panel panel = {.usage = &usage, .now = 1e9};
    setlocale(LC_CTYPE, "C");
    drawn(&panel, 80, 21, GLYPHS_ASCII, text, sizeof text);
    setlocale(LC_CTYPE, "C.UTF-8");
    assert_shows(text, "outside it            -  512.0 MiB");
}

static void a_sliver_of_the_device_is_drawn_by_itself(void **state)
{
    (void)state;
    char text[20000];
    struct memory_usage usage = usage_of_five();
    struct memory_panel panel = {.usage = &usage, .now = 1e9, .scale = MEMORY_SCALE_FIT};
    drawn(&panel, 100, 24, GLYPHS_ASCII, text, sizeof text);
    assert_shows(text, "0 -"); /* the ruler */
    assert_shows(text, " 8.0 GiB\n");
    usage.sample.memory_total_bytes = 80 * GIB;
    drawn(&panel, 100, 24, GLYPHS_ASCII, text, sizeof text);
    assert_shows(text, " 1.5 GiB\n");
    assert_shows(text, "P>");
}

static void the_legend_has_every_number(void **state)
{
    (void)state;
    char text[20000];
    struct memory_usage usage = usage_of_five();
    struct memory_panel panel = {.usage = &usage, .now = 1e9 + 5};
    drawn(&panel, 120, 24, GLYPHS_BRAILLE, text, sizeof text);
    assert_shows(text, "█W weights");
    assert_shows(text, "256.0 MiB  256.0 MiB  300.0 MiB");
    assert_shows(text, "all"); /* planned, held; the peaks are of one moment each */
    assert_shows(text, "1.0 GiB    1.0 GiB    1.0 GiB");
    assert_shows(text, "▓+ outside it                     -  512.0 MiB");
    assert_shows(text, "device GPU 0, 5s ago");
    assert_shows(text, "headroom                                       3.0 GiB");
    assert_shows(text, "kept free, 12 %");
    assert_true(strstr(text, "weights") < strstr(text, "gradients"));
    assert_true(strstr(text, "activations") < strstr(text, "workspace")); /* in the planner's order */
}

static void what_nobody_measured_is_a_dash(void **state)
{
    (void)state;
    char text[20000];
    struct memory_usage usage = {.reserve = NAN};
    struct memory_panel panel = {.usage = &usage, .now = 1e9};
    drawn(&panel, 120, 24, GLYPHS_BRAILLE, text, sizeof text);
    assert_shows(text, "this run recorded no memory");
    assert_shows(text, "device no sample yet");
    assert_null(strstr(text, "NaN"));
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "0 B"));
    usage = usage_of_five();
    usage.sample.process_bytes = -1; /* a driver that does not tell */
    drawn(&panel, 120, 24, GLYPHS_BRAILLE, text, sizeof text);
    assert_line(text, "█P this process", "-");
    assert_line(text, "▓O all processes", "4.0 GiB");
    assert_null(strstr(text, "outside it"));
}

static void a_process_smaller_than_its_allocations_is_filled_in_their_order(void **state)
{
    (void)state;
    char text[20000];
    struct memory_usage usage = usage_of_five();
    usage.sample.process_bytes = 512 * (int64_t)MIB; /* pages that were never touched do not count */
    struct memory_panel panel = {.usage = &usage, .now = 1e9, .scale = MEMORY_SCALE_DEVICE};
    drawn(&panel, 100, 24, GLYPHS_ASCII, text, sizeof text);
    assert_shows(text, " held     WWGM  ");
    assert_null(strstr(text, "outside it"));
}

/* Checkpoints are written from it: until the first one its pages are only promised. */
static void a_snapshot_that_is_not_written_yet_is_drawn_as_far_as_there_is_room(void **state)
{
    (void)state;
    char text[20000];
    struct memory_record with_snapshot[] = {{0, "snapshot", GIB, GIB, GIB},
                                            {0, "weights", GIB, GIB, GIB},
                                            {0, "host", 512 * MIB, 512 * MIB, 512 * MIB}};
    struct memory_usage usage = usage_of_five();
    usage.categories = with_snapshot;
    usage.category_count = 3;
    usage.sample.gpu = -1;
    usage.sample.process_bytes = 2 * GIB;
    struct memory_panel panel = {.usage = &usage, .now = 1e9, .scale = MEMORY_SCALE_DEVICE};
    drawn(&panel, 100, 24, GLYPHS_ASCII, text, sizeof text);
    assert_shows(text, " planned  WWWWWWWWHHHHSSSSSSSSS  ");
    assert_shows(text, " held     WWWWWWWWHHHHSSSSS  ");
    assert_null(strstr(text, "outside it"));
    usage.sample.process_bytes = 3 * GIB; /* it is written */
    drawn(&panel, 100, 24, GLYPHS_ASCII, text, sizeof text);
    assert_shows(text, " held     WWWWWWWWHHHHSSSSSSSSS++++  ");
    assert_shows(text, "outside it");
    usage.sample.process_bytes = GIB; /* more is missing than that */
    drawn(&panel, 100, 24, GLYPHS_ASCII, text, sizeof text);
    assert_shows(text, " held     WWWWWWWW  ");
    usage.sample.gpu = 0; /* with a GPU it is in the host's memory */
    usage.sample.process_bytes = 2 * GIB;
    drawn(&panel, 100, 24, GLYPHS_ASCII, text, sizeof text);
    assert_shows(text, " held     WWWWWWWW+++++++++  ");
    assert_line(text, " planned", "1.0 GiB");
}

static void holders_are_shown_of_a_run_that_trains(void **state)
{
    (void)state;
    char text[20000];
    struct memory_usage usage = usage_of_five();
    struct memory_holder holders[20];
    for (int i = 0; i < 20; i++) {
        holders[i] = (struct memory_holder){.pid = 1000 + i, .bytes = (int64_t)(i + 1) * MIB};
        snprintf(holders[i].name, sizeof holders[i].name, "run-%d", i);
    }
    holders[0].own = true;
    holders[0].used = MIB / 2;
    struct memory_panel panel = {
        .usage = &usage, .holders = holders, .holder_count = 20, .live = true, .now = 1e9};
    drawn(&panel, 120, 24, GLYPHS_BRAILLE, text, sizeof text);
    assert_shows(text, "run-0, 1000");
    assert_shows(text, "1.0 MiB  512.0 KiB");
    assert_shows(text, "2.0 MiB          -"); /* reserved, and not reported as taken */
    panel.live = false;
    drawn(&panel, 120, 24, GLYPHS_BRAILLE, text, sizeof text);
    assert_null(strstr(text, "run-0"));
}

static void other_processes_are_named_the_largest_first(void **state)
{
    (void)state;
    char text[20000];
    static const struct gpu_process others[] = {
        {4243, "anneal", 2 * GIB}, {900, "Xorg", 300 * MIB}, {70, "", 100 * MIB}, {71, "", 28 * MIB}};
    struct memory_usage usage = usage_of_five();
    struct memory_holder holder = {.name = "wide", .pid = 4243, .bytes = 3 * GIB};
    struct memory_panel panel = {
        .usage = &usage, .holders = &holder, .holder_count = 1, .live = true, .now = 1e9};
    usage.others = others;
    usage.other_count = 3;
    drawn(&panel, 120, 24, GLYPHS_BRAILLE, text, sizeof text);
    assert_line(text, "    wide, 4243", "2.0 GiB"); /* by its run, which the ledger knows */
    assert_line(text, "    Xorg, 900", "300.0 MiB");
    assert_line(text, "    process 70", "100.0 MiB"); /* of a container: only its number */
    assert_true(strstr(text, "others") < strstr(text, "    wide, 4243"));
    assert_true(strstr(text, "process 70") < strstr(text, "headroom"));
    usage.other_count = 4;
    drawn(&panel, 120, 24, GLYPHS_BRAILLE, text, sizeof text);
    assert_line(text, "    process 70", "100.0 MiB");
    assert_null(strstr(text, "process 71"));
    assert_shows(text, "runs that hold memory of it"); /* they push nothing else out */
    drawn(&panel, 120, 17, GLYPHS_BRAILLE, text, sizeof text);
    assert_null(strstr(text, "Xorg"));
    assert_shows(text, "headroom");
}

static void how_busy_it_is_and_what_slows_it_stand_with_the_device(void **state)
{
    (void)state;
    char text[20000];
    struct memory_usage usage = usage_of_five();
    struct memory_panel panel = {.usage = &usage, .now = 1e9};
    usage.sample.utilization_pct = 97;
    usage.sample.power_w = 312.5;
    usage.sample.temperature_c = 84;
    usage.sample.sm_clock_mhz = 1410;
    usage.sample.load_1m = 12.26;
    drawn(&panel, 80, 21, GLYPHS_ASCII, text, sizeof text);
    assert_shows(text, "97 % busy, 312 W, 84 C, 1410 MHz");
    assert_shows(text, "host load 12.3");
    assert_null(strstr(text, "clocks low"));
    snprintf(usage.sample.throttle, sizeof usage.sample.throttle, "thermal, power cap");
    drawn(&panel, 120, 21, GLYPHS_ASCII, text, sizeof text);
    assert_shows(text, "clocks low: thermal, power cap");
    usage = usage_of_five();
    usage.sample.gpu = -1;
    usage.sample.utilization_pct = 38;
    drawn(&panel, 80, 21, GLYPHS_ASCII, text, sizeof text);
    assert_shows(text, "38 % of all processors busy"); /* of which the run has so much */
}

static void an_unknown_category_is_listed_too(void **state)
{
    (void)state;
    char text[20000];
    struct memory_record more[] = {records[1], {0, "cache", 64 * MIB, 64 * MIB, 64 * MIB}};
    struct memory_usage usage = {.categories = more, .category_count = 2, .reserve = NAN};
    struct memory_panel panel = {.usage = &usage, .now = 1e9};
    drawn(&panel, 80, 20, GLYPHS_ASCII, text, sizeof text);
    assert_shows(text, " W  weights");
    assert_shows(text, " ?  cache");
}

static void the_hosts_buffers_are_no_part_of_a_gpu(void **state)
{
    (void)state;
    char text[20000];
    struct memory_record with_host[] = {{0, "weights", GIB, GIB, GIB},
                                        {0, "host", 512 * MIB, 512 * MIB, 512 * MIB}};
    struct memory_usage usage = usage_of_five();
    usage.categories = with_host;
    usage.category_count = 2;
    struct memory_panel panel = {.usage = &usage, .now = 1e9, .scale = MEMORY_SCALE_DEVICE};
    drawn(&panel, 100, 24, GLYPHS_ASCII, text, sizeof text);
    assert_shows(text, " planned  WWWWWWWW  ");
    assert_shows(text, " held     WWWWWWWW++++  ");
    assert_shows(text, "512.0 MiB  512.0 MiB"); /* but it is reported */
    assert_line(text, " planned", "1.0 GiB");
    usage.sample.gpu = -1; /* a CPU's memory is the host's */
    drawn(&panel, 100, 24, GLYPHS_ASCII, text, sizeof text);
    assert_shows(text, " planned  WWWWWWWWHHHH  ");
    assert_line(text, " planned", "1.5 GiB");
}

static void the_panel_stays_inside_any_area(void **state)
{
    (void)state;
    static const struct gpu_process others[] = {{4194304, "", GIB}, {900, "a-name-of-its-o", -1}};
    struct memory_usage usage = usage_of_five();
    struct memory_holder holder = {.name = "a run with quite a long name", .pid = 4194304, .bytes = GIB};
    usage.others = others;
    usage.other_count = 2;
    usage.sample.utilization_pct = usage.sample.load_1m = 100;
    snprintf(usage.sample.throttle, sizeof usage.sample.throttle,
             "thermal (hardware), power brake, power cap");
    struct memory_panel panel = {
        .usage = &usage, .holders = &holder, .holder_count = 1, .live = true, .now = 1e9};
    for (int w = 1; w <= 130; w++) {
        for (int h = 1; h <= 40; h++) {
            struct grid grid = make_grid(w + 4, h + 4, GLYPHS_BRAILLE);
            grid_fill(&grid, (struct rect){0, 0, w + 4, h + 4}, '#', STYLE_TEXT, 0);
            grid_fill(&grid, (struct rect){2, 2, w, h}, ' ', STYLE_TEXT, 0);
            memory_panel_draw(&grid, (struct rect){2, 2, w, h}, &panel);
            for (int y = 0; y < h + 4; y++)
                for (int x = 0; x < w + 4; x++)
                    if ((x < 2 || y < 2 || x >= w + 2 || y >= h + 2) &&
                        grid.cells[y * (w + 4) + x].glyph != '#')
                        fail_msg("%d x %d: a cell outside is written, at %d, %d", w, h, x - 2, y - 2);
            grid_release(&grid);
        }
    }
}

static void the_summary_says_what_is_known(void **state)
{
    (void)state;
    char text[128];
    struct memory_usage usage = usage_of_five();
    assert_string_equal(memory_panel_summary(&usage, text, sizeof text),
                        "memory 1.0 GiB planned, 1.5 GiB held, 3.0 GiB free");
    usage.has_sample = false;
    assert_string_equal(memory_panel_summary(&usage, text, sizeof text),
                        "memory 1.0 GiB planned, - held, - free");
    usage.category_count = 0;
    assert_string_equal(memory_panel_summary(&usage, text, sizeof text), "");
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_fill_the_bar_in_proportion),
        cmocka_unit_test(ascii_bars_are_made_of_letters),
        cmocka_unit_test(what_lies_beyond_the_scale_is_marked),
        cmocka_unit_test(the_smallest_amount_has_a_cell_and_nothing_has_none),
        cmocka_unit_test(three_bars_have_one_scale),
        cmocka_unit_test(no_title_is_cut_on_a_narrow_screen),
        cmocka_unit_test(what_is_unknown_is_seen_in_a_locale_without_unicode),
        cmocka_unit_test(a_sliver_of_the_device_is_drawn_by_itself),
        cmocka_unit_test(the_legend_has_every_number),
        cmocka_unit_test(what_nobody_measured_is_a_dash),
        cmocka_unit_test(a_process_smaller_than_its_allocations_is_filled_in_their_order),
        cmocka_unit_test(a_snapshot_that_is_not_written_yet_is_drawn_as_far_as_there_is_room),
        cmocka_unit_test(holders_are_shown_of_a_run_that_trains),
        cmocka_unit_test(other_processes_are_named_the_largest_first),
        cmocka_unit_test(how_busy_it_is_and_what_slows_it_stand_with_the_device),
        cmocka_unit_test(an_unknown_category_is_listed_too),
        cmocka_unit_test(the_hosts_buffers_are_no_part_of_a_gpu),
        cmocka_unit_test(the_panel_stays_inside_any_area),
        cmocka_unit_test(the_summary_says_what_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
