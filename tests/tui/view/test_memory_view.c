/* Tests of the memory of a run as cells: stacked bars, and the panel around them. No terminal. */
#include <locale.h>
#include <math.h>

#include "tests/cmocka.h"
#include "tests/tui/widget/cells.h"
#include "tui/view/memory_view.h"
#include "tui/widget/bars.h"

#define MIB (1 << 20)
#define GIB ((int64_t)1 << 30)

static const struct stack_part three[] = {
    {50, 0x2588, 'W', STYLE_TRAIN}, {30, 0x2593, 'G', STYLE_LR}, {20, 0x2592, 'M', STYLE_SPEED}};

TEST_CASE(parts_fill_the_bar_in_proportion)
{
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

TEST_CASE(ascii_bars_are_made_of_letters)
{
    struct grid grid = make_grid(12, 1, GLYPHS_ASCII);
    stack_draw(&grid, 1, 0, 10, three, 3, 100);
    assert_row(&grid, 0, " WWWWWGGGMM");
    grid_release(&grid);
}

TEST_CASE(what_lies_beyond_the_scale_is_marked)
{
    struct grid grid = make_grid(12, 1, GLYPHS_ASCII);
    assert_int_equal(stack_draw(&grid, 0, 0, 10, three, 3, 60), 10);
    assert_row(&grid, 0, "WWWWWWWWG>");
    grid_clear(&grid);
    stack_draw(&grid, 0, 0, 10, three, 3, 100); /* exactly full is not cut */
    assert_row(&grid, 0, "WWWWWGGGMM");
    grid_release(&grid);
}

TEST_CASE(the_smallest_amount_has_a_cell_and_nothing_has_none)
{
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

/* The panel of that run, anew for each test, and what was drawn last. */
static struct memory_usage usage;
static struct memory_panel panel;
static char text[40000];

static int set_up(void **state)
{
    (void)state;
    usage = usage_of_five();
    panel = (struct memory_panel){.usage = &usage, .now = 1e9 + 5};
    return 0;
}

#define TEST(name) TEST_CASE_WITH(name, set_up, kept_teardown)

static void draw(int w, int h, enum glyph_level level)
{
    struct grid grid = make_grid(w, h, level);
    size_t used = 0;
    memory_panel_draw(&grid, (struct rect){0, 0, w, h}, &panel);
    for (int y = 0; y < h; y++) {
        char row[4096];
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s\n", grid_row(&grid, y, row, sizeof row));
        assert_true(used < sizeof text);
    }
    grid_release(&grid);
}

static void assert_shows(const char *wanted)
{
    if (strstr(text, wanted)) return;
    print_error("%s", text); /* longer than fail_msg takes */
    fail_msg("\"%s\" is not there", wanted);
}

/* The line that holds `word` ends in `end`. */
static void assert_line(const char *word, const char *end)
{
    const char *at = strstr(text, word);
    if (!at) fail_msg("\"%s\" is not there", word);
    size_t n = strcspn(at, "\n"), m = strlen(end);
    if (n < m || memcmp(at + n - m, end, m) != 0) fail_msg("\"%.*s\" does not end in %s", (int)n, at, end);
}

TEST(a_table_without_room_for_a_row_is_not_begun)
{
    draw(40, 7, GLYPHS_BRAILLE);
    assert_shows("by category: in a higher window");
    assert_null(strstr(text, "by category ─"));
    draw(40, 9, GLYPHS_BRAILLE);
    assert_shows("by category ─");
    assert_shows("weights");
}

TEST(three_bars_have_one_scale)
{
    panel.scale = MEMORY_SCALE_DEVICE;
    /* the bars are 100 - 9 - 22 - 3 = 66 cells for 8 GiB: a GiB is 8.25 */
    draw(100, 24, GLYPHS_ASCII);
    assert_shows(" planned  WWGMMAAK  ");
    assert_shows(" held     WWGMMAAK++++  ");
    assert_shows(" device   PPPPPPPPPPPPOOOOOOOOOOOOOOOOOOOOO");
    assert_shows("OOO.........................RRRRRRRR ");
    assert_shows("1.0 GiB\n");
    assert_shows("1.5 GiB\n");
    assert_shows("4.0 GiB of 8.0 GiB\n");
    panel.scale = MEMORY_SCALE_RUN;
    draw(100, 24, GLYPHS_ASCII);
    assert_shows(" planned  WWWWWWWWWWW"); /* a quarter of 1.5 GiB of 66 cells */
    assert_shows("the device on its own scale");
    assert_shows(" device   PPPPPPPPPPPPOOOOOOOOOOOOOOOOOOOOO"); /* as full as it is */
    assert_true(strstr(text, "8.0 GiB\n") != NULL);
}

/* As a store of a later program, or a hostile one, may have. */
TEST(of_more_categories_than_the_bars_have_parts_the_first_are_shown)
{
    enum { MANY = 40 };
    static struct memory_record many[MANY];
    for (int i = 0; i < MANY; i++) many[i] = (struct memory_record){0, "other", MIB, MIB, MIB};
    usage.categories = many;
    usage.category_count = MANY;
    draw(100, 60, GLYPHS_ASCII);
    assert_line(" planned ", "24.0 MiB");
    usage.sample.process_bytes = 0; /* which is known */
    draw(100, 60, GLYPHS_ASCII);
    assert_line(" held ", " 0 B");
    usage.sample.process_bytes = -1;
    draw(100, 60, GLYPHS_ASCII);
    assert_line(" held ", " -");
}

TEST(a_small_process_leaves_a_large_device_empty_at_first_sight)
{
    usage.sample.process_bytes = 27 << 20;
    usage.sample.memory_used_bytes = 174 << 20;
    usage.sample.memory_total_bytes = (int64_t)(23.5 * (1 << 30));
    usage.reserve = 0;
    for (int scale = MEMORY_SCALE_FIT; scale <= MEMORY_SCALE_DEVICE; scale++) {
        panel.scale = (enum memory_scale)scale;
        draw(100, 24, GLYPHS_ASCII);
        assert_shows(" device   P.......");
    }
}

TEST(the_largest_batch_counts_what_grows_with_it_and_what_is_free)
{
    panel.batch_size = 4;
    double grows = 0, headroom, most;
    for (size_t i = 0; i < usage.category_count; i++)
        if (strcmp(usage.categories[i].category, "activations") == 0 ||
            strcmp(usage.categories[i].category, "workspace") == 0)
            grows += (double)usage.categories[i].planned_bytes;
    assert_true(grows > 0);
    headroom = (double)(usage.sample.memory_total_bytes - usage.sample.memory_used_bytes) -
               usage.reserve * (double)usage.sample.memory_total_bytes;
    most = floor(4 * (1 + (headroom - headroom / 32 - (16 << 20)) / grows));
    draw(100, 24, GLYPHS_ASCII);
    const char *at = strstr(text, "largest batch, at least");
    assert_non_null(at);
    assert_int_equal(atoi(at + 23), most);
    panel.batch_size = INT64_MAX;
    draw(100, 24, GLYPHS_ASCII);
    assert_shows(" 65535\n");
    usage.sample.memory_total_bytes = -1;
    draw(100, 24, GLYPHS_ASCII);
    assert_null(strstr(text, "largest batch"));
}

TEST(the_memory_of_the_process_is_drawn_over_the_steps)
{
    struct series_point points[50];
    for (int i = 0; i < 50; i++) points[i] = (struct series_point)series_point_of(i, 900.0 * MIB);
    panel.history = points;
    panel.history_count = 50;
    draw(100, 24, GLYPHS_BRAILLE);
    assert_null(strstr(text, "memory of the process"));
    draw(100, 45, GLYPHS_BRAILLE);
    assert_shows("memory of the process MiB 900");
    assert_shows("this process"); /* the rest is still there */
}

TEST(no_title_is_cut_on_a_narrow_screen)
{
    for (int w = 40; w < 100; w++) {
        draw(w, 24, GLYPHS_BRAILLE);
        if (strstr(text, "…")) fail_msg("%d columns: a word is cut: %s", w, text);
        assert_shows("on one scale");
    }
}

TEST(what_is_unknown_is_seen_in_a_locale_without_unicode)
{
    setlocale(LC_CTYPE, "C");
    draw(80, 21, GLYPHS_ASCII);
    setlocale(LC_CTYPE, "C.UTF-8");
    assert_shows("outside it            -  512.0 MiB");
}

TEST(a_sliver_of_the_device_is_drawn_by_itself)
{
    panel.scale = MEMORY_SCALE_FIT;
    draw(100, 24, GLYPHS_ASCII);
    assert_shows("0 -"); /* the ruler */
    assert_shows(" 8.0 GiB\n");
    usage.sample.memory_total_bytes = 80 * GIB;
    draw(100, 24, GLYPHS_ASCII);
    assert_shows(" 1.5 GiB\n");
    assert_shows(" device   POO"); /* a fiftieth of it, a twentieth with the others */
    assert_shows(" 80.0 GiB\n");
}

TEST(the_legend_has_every_number)
{
    draw(120, 24, GLYPHS_BRAILLE);
    assert_shows("█W weights");
    assert_shows("256.0 MiB  256.0 MiB  300.0 MiB");
    assert_shows("all"); /* planned, held; the peaks are of one moment each */
    assert_shows("1.0 GiB    1.0 GiB    1.0 GiB");
    assert_shows("▓+ outside it                     -  512.0 MiB");
    assert_shows("device GPU 0, 5s ago");
    assert_shows("headroom                                       3.0 GiB");
    assert_shows("kept free, 12 %");
    assert_true(strstr(text, "weights") < strstr(text, "gradients"));
    assert_true(strstr(text, "activations") < strstr(text, "workspace")); /* in the planner's order */
}

TEST(what_nobody_measured_is_a_dash)
{
    usage = (struct memory_usage){.reserve = NAN};
    draw(120, 24, GLYPHS_BRAILLE);
    assert_shows("this run recorded no memory");
    assert_shows("device no sample yet");
    assert_null(strstr(text, "NaN"));
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "0 B"));
    usage = usage_of_five();
    usage.sample.process_bytes = -1; /* a driver that does not tell */
    draw(120, 24, GLYPHS_BRAILLE);
    assert_line("█P this process", "-");
    assert_line("▓O all processes", "4.0 GiB");
    assert_null(strstr(text, "outside it"));
}

TEST(a_process_smaller_than_its_allocations_is_filled_in_their_order)
{
    usage.sample.process_bytes = 512 * (int64_t)MIB; /* pages that were never touched do not count */
    panel.scale = MEMORY_SCALE_DEVICE;
    draw(100, 24, GLYPHS_ASCII);
    assert_shows(" held     WWGM  ");
    assert_null(strstr(text, "outside it"));
}

/* Checkpoints are written from it: until the first one its pages are only promised. */
TEST(a_snapshot_that_is_not_written_yet_is_drawn_as_far_as_there_is_room)
{
    struct memory_record with_snapshot[] = {{0, "snapshot", GIB, GIB, GIB},
                                            {0, "weights", GIB, GIB, GIB},
                                            {0, "host", 512 * MIB, 512 * MIB, 512 * MIB}};
    usage.categories = with_snapshot;
    usage.category_count = 3;
    usage.sample.gpu = -1;
    usage.sample.process_bytes = 2 * GIB;
    panel.scale = MEMORY_SCALE_DEVICE;
    draw(100, 24, GLYPHS_ASCII);
    assert_shows(" planned  WWWWWWWWHHHHSSSSSSSSS  ");
    assert_shows(" held     WWWWWWWWHHHHSSSSS  ");
    assert_null(strstr(text, "outside it"));
    usage.sample.process_bytes = 3 * GIB; /* it is written */
    draw(100, 24, GLYPHS_ASCII);
    assert_shows(" held     WWWWWWWWHHHHSSSSSSSSS++++  ");
    assert_shows("outside it");
    usage.sample.process_bytes = GIB; /* more is missing than that */
    draw(100, 24, GLYPHS_ASCII);
    assert_shows(" held     WWWWWWWW  ");
    usage.sample.gpu = 0; /* with a GPU it is in the host's memory */
    usage.sample.process_bytes = 2 * GIB;
    draw(100, 24, GLYPHS_ASCII);
    assert_shows(" held     WWWWWWWW+++++++++  ");
    assert_line(" planned", "1.0 GiB");
}

TEST(holders_are_shown_of_a_run_that_trains)
{
    struct memory_holder holders[20];
    for (int i = 0; i < 20; i++) {
        holders[i] = (struct memory_holder){.pid = 1000 + i, .bytes = (int64_t)(i + 1) * MIB};
        snprintf(holders[i].name, sizeof holders[i].name, "run-%d", i);
    }
    holders[0].own = true;
    holders[0].used = MIB / 2;
    panel.holders = holders;
    panel.holder_count = 20;
    panel.live = true;
    draw(120, 24, GLYPHS_BRAILLE);
    assert_shows("run-0, 1000");
    assert_shows("1.0 MiB  512.0 KiB");
    assert_shows("2.0 MiB          -"); /* reserved, and not reported as taken */
    panel.live = false;
    draw(120, 24, GLYPHS_BRAILLE);
    assert_null(strstr(text, "run-0"));
}

TEST(other_processes_are_named_the_largest_first)
{
    static const struct gpu_process others[] = {
        {4243, "anneal", 2 * GIB}, {900, "Xorg", 300 * MIB}, {70, "", 100 * MIB}, {71, "", 28 * MIB}};
    struct memory_holder holder = {.name = "wide", .pid = 4243, .bytes = 3 * GIB};
    panel.holders = &holder;
    panel.holder_count = 1;
    panel.live = true;
    usage.others = others;
    usage.other_count = 3;
    draw(120, 24, GLYPHS_BRAILLE);
    assert_line("    wide, 4243", "2.0 GiB"); /* by its run, which the ledger knows */
    assert_line("    Xorg, 900", "300.0 MiB");
    assert_line("    process 70", "100.0 MiB"); /* of a container: only its number */
    assert_true(strstr(text, "others") < strstr(text, "    wide, 4243"));
    assert_true(strstr(text, "process 70") < strstr(text, "headroom"));
    usage.other_count = 4;
    draw(120, 24, GLYPHS_BRAILLE);
    assert_line("    process 70", "100.0 MiB");
    assert_null(strstr(text, "process 71"));
    assert_shows("runs that hold memory of it"); /* they push nothing else out */
    draw(120, 17, GLYPHS_BRAILLE);
    assert_null(strstr(text, "Xorg"));
    assert_shows("headroom");
}

TEST(how_busy_it_is_and_what_slows_it_stand_with_the_device)
{
    usage.sample.utilization_pct = 97;
    usage.sample.power_w = 312.5;
    usage.sample.temperature_c = 84;
    usage.sample.sm_clock_mhz = 1410;
    usage.sample.load_1m = 12.26;
    draw(80, 21, GLYPHS_ASCII);
    assert_shows("97 % busy, 312 W, 84 C, 1410 MHz");
    assert_shows("host load 12.3");
    assert_null(strstr(text, "clocks low"));
    snprintf(usage.sample.throttle, sizeof usage.sample.throttle, "thermal, power cap");
    draw(120, 21, GLYPHS_ASCII);
    assert_shows("clocks low: thermal, power cap");
    usage = usage_of_five();
    usage.sample.gpu = -1;
    usage.sample.utilization_pct = 38;
    draw(80, 21, GLYPHS_ASCII);
    assert_shows("38 % of all processors busy"); /* of which the run has so much */
}

TEST(an_unknown_category_is_listed_too)
{
    struct memory_record more[] = {records[1], {0, "cache", 64 * MIB, 64 * MIB, 64 * MIB}};
    usage = (struct memory_usage){.categories = more, .category_count = 2, .reserve = NAN};
    draw(80, 20, GLYPHS_ASCII);
    assert_shows(" W  weights");
    assert_shows(" ?  cache");
}

TEST(the_hosts_buffers_are_no_part_of_a_gpu)
{
    struct memory_record with_host[] = {{0, "weights", GIB, GIB, GIB},
                                        {0, "host", 512 * MIB, 512 * MIB, 512 * MIB}};
    usage.categories = with_host;
    usage.category_count = 2;
    panel.scale = MEMORY_SCALE_DEVICE;
    draw(100, 24, GLYPHS_ASCII);
    assert_shows(" planned  WWWWWWWW  ");
    assert_shows(" held     WWWWWWWW++++  ");
    assert_shows("512.0 MiB  512.0 MiB"); /* but it is reported */
    assert_line(" planned", "1.0 GiB");
    usage.sample.gpu = -1; /* a CPU's memory is the host's */
    draw(100, 24, GLYPHS_ASCII);
    assert_shows(" planned  WWWWWWWWHHHH  ");
    assert_line(" planned", "1.5 GiB");
}

TEST(the_panel_stays_inside_any_area)
{
    static const struct gpu_process others[] = {{4194304, "", GIB}, {900, "a-name-of-its-o", -1}};
    struct memory_holder holder = {.name = "a run with quite a long name", .pid = 4194304, .bytes = GIB};
    usage.others = others;
    usage.other_count = 2;
    usage.sample.utilization_pct = usage.sample.load_1m = 100;
    snprintf(usage.sample.throttle, sizeof usage.sample.throttle,
             "thermal (hardware), power brake, power cap");
    panel.holders = &holder;
    panel.holder_count = 1;
    panel.live = true;
    for (int w = 1; w <= 130; w++) {
        for (int h = 1; h <= 40; h++) {
            struct grid grid = make_grid(w + 4, h + 4, GLYPHS_BRAILLE);
            grid_fill(&grid, (struct rect){0, 0, w + 4, h + 4}, '#', STYLE_TEXT);
            grid_fill(&grid, (struct rect){2, 2, w, h}, ' ', STYLE_TEXT);
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

TEST(the_summary_says_what_is_known)
{
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
    return TEST_RUN(NULL, NULL);
}
